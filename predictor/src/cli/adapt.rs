//! `oppredict adapt`.

use oplearn::data::Dataset;

use super::args::AdaptArgs;
use super::show::show;
use super::{model_path, render};
use crate::model::file;
use crate::transfer::gain;

/// Adapts a model to a new machine, tells what it brought, and writes the new model if asked to.
pub fn run(args: &AdaptArgs) -> anyhow::Result<()> {
    let mut trained = model_path::load(args.model.as_deref())?;
    let mut rows = args.data.rows()?;
    rows.rows
        .retain(|row| row.device_kind == trained.facts.device_kind);
    let dataset = Dataset::new(&rows, &args.data.machines())?;
    drop(rows);
    let (gain, adapted) = gain(&trained, &dataset, args.measurements)?;
    if let Some(out) = &args.out {
        trained.facts.correction = Some(adapted.correction);
        trained.own = adapted.own;
        let threads = dataset.samples.iter().filter_map(|s| s.threads);
        trained.facts.threads.extend(threads);
        trained.facts.disturbed = dataset.intake.disturbed;
        trained.facts.machines = dataset.machines;
        file::save(&trained, out)?;
    }
    show(args.json, &gain, || render::gain(&gain))
}
