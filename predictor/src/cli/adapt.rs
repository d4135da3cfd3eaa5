//! `oppredict adapt`.

use oplearn::data::Dataset;

use super::args::AdaptArgs;
use super::model_path;
use super::show::show;
use crate::model::file;
use crate::render;
use crate::transfer::fit::Machine;
use crate::transfer::gain::{gain, old_predictions};

/// Adapts a model to a new machine, prints the gain, and writes the new model if a file is named.
pub fn run(args: &AdaptArgs) -> anyhow::Result<()> {
    if let Some(out) = &args.out {
        opdata::check_output(out)?;
    }
    let mut trained = model_path::load(args.model.as_deref())?;
    let mut rows = args.data.rows()?;
    let (device, count) = (trained.facts.device_kind, rows.rows.len());
    rows.rows.retain(|row| row.device_kind == device);
    if rows.rows.is_empty() && count > 0 {
        anyhow::bail!(
            "none of the {count} rows was measured on {device}, which the model predicts for; name another model with --model"
        );
    }
    let mut dataset = Dataset::new(&rows, &args.data.machines())?;
    drop(rows);
    without_numbers(&mut dataset);
    dataset.require(args.measurements.saturating_add(2), "adapting with a check")?;
    let (old, known) = old_predictions(&trained, &dataset)?;
    let machine = Machine {
        dataset: &dataset,
        samples: &dataset.all(),
        old: &old,
        known: &known,
    };
    let (gain, adaptation) = gain(&machine, args.measurements)?;
    if let Some(out) = &args.out {
        trained.adaptation = Some(adaptation);
        let threads = dataset.samples.iter().filter_map(|s| s.threads);
        trained.facts.threads.extend(threads);
        trained.facts.disturbed = dataset.intake.disturbed;
        trained.facts.machines = dataset.machines;
        file::save(&trained, out)?;
    }
    show(args.json, &gain, |_| render::train::gain(&gain))
}

/// Removes the machine numbers of a dataset: the old model would take them for machines that it was trained on.
fn without_numbers(dataset: &mut Dataset) {
    for machine in &mut dataset.machines {
        machine.number = None;
    }
    for sample in &mut dataset.samples {
        sample.point = dataset.machines[sample.machine].host(&sample.point);
    }
}
