//! `oppredict eval`.

use std::sync::atomic::{AtomicUsize, Ordering};

use opdata::contract::pairs::read_all_pairs;
use oplearn::crossval::folds::Ranking;
use oplearn::data::{Dataset, Split};
use oplearn::interference;
use oplearn::models::FitOptions;

use opreport::output::say;

use super::args::EvalArgs;
use super::plots;
use super::show::show;
use crate::eval::{EvalOptions, Report, evaluate};
use crate::render;
use crate::transfer::machines::leave_one_machine_out;

/// Maximum number of lines of progress.
const LINES: usize = 20;

/// Evaluates and prints.
pub fn run(args: &EvalArgs) -> anyhow::Result<()> {
    if let Some(file) = &args.predictions {
        opdata::check_output(file)?;
    }
    if !args.pairs.is_empty() {
        let evaluation = interference::evaluate(&read_all_pairs(&args.pairs)?)?;
        return show(args.json, &evaluation, |style| {
            render::interference::evaluation(&evaluation, style)
        });
    }
    let rows = args.data.rows()?;
    let dataset = Dataset::new(&rows, &args.data.machines())?;
    drop(rows);
    if !args.measurements.is_empty() {
        return transfer(args, &dataset);
    }
    let options = EvalOptions {
        split: args.split,
        model: args.model,
        fit: FitOptions {
            seed: args.random.seed,
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
    let folds = args.split.folds(&dataset, args.random.seed)?.len();
    say(&format!(
        "{}: each fold is predicted by a model of the others",
        opreport::units::plural(folds as u64, "fold")
    ));
    let done = AtomicUsize::new(0);
    let report = evaluate(&dataset, &options, &|| {
        let count = done.fetch_add(1, Ordering::Relaxed) + 1;
        if count.is_multiple_of(folds.div_ceil(LINES)) {
            say(&format!("{count} of {folds} folds"));
        }
    })?;
    if let Some(file) = &args.predictions {
        opdata::write_atomically(file, &predictions(&dataset, &report)?)?;
    }
    if let Some(folder) = &args.plots {
        plots::eval(folder, &dataset, &report)?;
    }
    show(args.json, &report, |style| {
        render::eval::report(&report, args.workloads, style)
    })
}

/// Evaluates what measurements on a new machine bring.
fn transfer(args: &EvalArgs, dataset: &Dataset) -> anyhow::Result<()> {
    if args.split != Split::LeaveOneMachineOut {
        anyhow::bail!(
            "--measurements is about machines held out: add --split {}",
            Split::LeaveOneMachineOut
        );
    }
    let fit = FitOptions {
        seed: args.random.seed,
        ..FitOptions::default()
    };
    let done = AtomicUsize::new(0);
    let report = leave_one_machine_out(dataset, &args.measurements, &fit, &|| {
        let count = done.fetch_add(1, Ordering::Relaxed) + 1;
        say(&format!("{count} of {} machines", dataset.machines.len()));
    })?;
    for machine in &report.machines {
        let points = machine.points;
        for count in args
            .measurements
            .iter()
            .filter(|count| **count > points.saturating_sub(2))
        {
            say(&format!(
                "{count} measurements are left out for {}: its {points} points would leave none to check them by",
                machine.machine
            ));
        }
    }
    show(args.json, &report, |style| {
        render::eval::transfer(&report, style)
    })
}

/// Every out-of-fold prediction as CSV.
fn predictions(dataset: &Dataset, report: &Report) -> anyhow::Result<Vec<u8>> {
    let mut out = csv::Writer::from_writer(Vec::new());
    out.write_record([
        "row_id",
        "workload",
        "fold",
        "measured_ns",
        "predicted_ns",
        "low_ns",
        "high_ns",
        "threads",
        "disturbed",
    ])?;
    fn optional(value: Option<impl ToString>) -> String {
        value.map(|value| value.to_string()).unwrap_or_default()
    }
    let ns = |log2: f64| format!("{:.1}", log2.exp2());
    for point in &report.points {
        let sample = &dataset.samples[point.index];
        let (low, high) = point.interval.unzip();
        out.write_record([
            &sample.row_id,
            &dataset.workloads[sample.workload].label,
            &point.fold.to_string(),
            &ns(point.measured),
            &ns(point.predicted),
            &low.map(ns).unwrap_or_default(),
            &high.map(ns).unwrap_or_default(),
            &optional(sample.threads),
            &optional(sample.disturbed),
        ])?;
    }
    Ok(out.into_inner()?)
}
