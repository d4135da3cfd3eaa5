//! `oppredict eval`.

use std::sync::atomic::{AtomicUsize, Ordering};

use oplearn::crossval::folds::Ranking;
use oplearn::data::{Dataset, RowSet};
use oplearn::models::FitOptions;

use opreport::output::say;

use super::args::EvalArgs;
use super::show::show;
use super::{plots, render};
use crate::eval::{EvalOptions, evaluate};

/// Folds between two lines of progress.
const STEP: usize = 20;

/// Evaluates and prints.
pub fn run(args: &EvalArgs) -> anyhow::Result<()> {
    let rows = RowSet::read(&args.data.source.sources()?)?;
    let dataset = Dataset::new(&rows, &args.data.machines())?;
    drop(rows);
    let options = EvalOptions {
        split: args.split,
        model: args.model,
        fit: FitOptions {
            seed: args.seed,
            ..FitOptions::default()
        },
        ranking: if args.ranker {
            Ranking::With
        } else {
            Ranking::Without
        },
        level: args.level,
        curve: args.learning_curve.clone(),
    };
    let folds = args.split.folds(&dataset, args.seed)?.len();
    let done = AtomicUsize::new(0);
    let report = evaluate(&dataset, &options, &|| {
        let count = done.fetch_add(1, Ordering::Relaxed) + 1;
        if count.is_multiple_of(STEP) {
            say(&format!("{count} of {folds} folds"));
        }
    })?;
    if let Some(folder) = &args.plots {
        plots::eval(folder, &dataset, &report)?;
    }
    show(args.json, &report, || {
        render::report(&report, args.workloads)
    })
}
