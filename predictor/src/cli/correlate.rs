//! `oppredict correlate`.

use oplearn::data::Dataset;
use oplearn::models::FitOptions;

use super::args::CorrelateArgs;
use super::plots;
use super::show::show;
use crate::correlate::{CorrelateOptions, correlate};
use crate::render;

/// Correlates and prints.
pub fn run(args: &CorrelateArgs) -> anyhow::Result<()> {
    let rows = args.data.rows()?;
    let dataset = Dataset::new(&rows, &args.data.machines())?;
    drop(rows);
    dataset.require(20, "correlation")?;
    let options = CorrelateOptions {
        against: args.against,
        partial: args.partial,
        fit: FitOptions {
            seed: args.random.seed,
            ..FitOptions::default()
        },
    };
    let kinds = correlate(&dataset, &options)?;
    if let Some(folder) = &args.plots {
        plots::partial(folder, &kinds)?;
    }
    show(args.json, &kinds, |style| {
        render::correlations::correlations(&kinds, args.factors, style)
    })
}
