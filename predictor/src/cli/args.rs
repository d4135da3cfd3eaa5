//! The syntax of the command line.

use std::path::PathBuf;

use clap::{Args as ClapArgs, Parser, Subcommand};

use crate::data::{ImportFormat, Machines, Source};
use crate::eval::Split;
use crate::models::ModelKind;

/// How long an operator takes on a target, why, and where it turns.
#[derive(Debug, Parser)]
#[command(name = "oppredict", version, max_term_width = 100)]
pub struct Args {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// The subcommands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Says how good predictions are on data that the model has not seen.
    Eval(EvalArgs),
}

/// Where rows come from.
#[derive(Debug, Clone, ClapArgs)]
pub struct DataArgs {
    /// Datasets: folders of runs, .csv, .parquet or .jsonl files.
    pub data: Vec<PathBuf>,
    /// A log of another tool, e.g. --import autotvm tune.log.gz; may be repeated.
    #[arg(long, num_args = 2, value_names = ["FORMAT", "FILE"], action = clap::ArgAction::Append)]
    pub import: Vec<String>,
    /// Take the rows of this machine only (its env_hash, or the target of a log).
    #[arg(long, value_name = "NAME", conflicts_with = "mixed_machines")]
    pub machine: Option<String>,
    /// Take the rows of all machines together.
    #[arg(long)]
    pub mixed_machines: bool,
}

impl DataArgs {
    /// The sources, checked.
    pub fn sources(&self) -> anyhow::Result<Vec<Source>> {
        let mut sources: Vec<Source> = self.data.iter().cloned().map(Source::Dataset).collect();
        for pair in self.import.chunks(2) {
            let [format, file] = pair else { continue };
            let format =
                <ImportFormat as clap::ValueEnum>::from_str(format, true).map_err(|_| {
                    anyhow::anyhow!(
                        "--import {format}: no such format; there are autotvm and metaschedule"
                    )
                })?;
            sources.push(Source::Import(format, PathBuf::from(file)));
        }
        if sources.is_empty() {
            anyhow::bail!(
                "no data: name datasets (such as runs/*), or a log with --import autotvm FILE"
            );
        }
        Ok(sources)
    }

    /// Which machines' rows to take.
    pub fn machines(&self) -> Machines {
        match &self.machine {
            Some(name) => Machines::Named(name.clone()),
            None if self.mixed_machines => Machines::Mixed,
            None => Machines::Single,
        }
    }
}

/// `oppredict eval`.
#[derive(Debug, Clone, ClapArgs)]
pub struct EvalArgs {
    #[command(flatten)]
    pub data: DataArgs,
    /// What is held out: leave-one-workload-out, leave-one-model-out, leave-one-machine-out, by-time, 5-fold,
    /// 5-fold-workloads.
    #[arg(long, default_value = "leave-one-workload-out")]
    pub split: Split,
    /// The model.
    #[arg(long, value_enum, default_value_t = ModelKind::Ensemble)]
    pub model: ModelKind,
    /// Evaluate a ranker (rank:pairwise) beside the model.
    #[arg(long)]
    pub ranker: bool,
    /// Level of the intervals.
    #[arg(long, default_value_t = 0.9, value_parser = level)]
    pub level: f64,
    /// Shares of the training data for a learning curve, e.g. 0.1,0.3,1.
    #[arg(long, value_delimiter = ',', value_parser = level)]
    pub learning_curve: Vec<f64>,
    /// Seed of splits and models.
    #[arg(long, default_value_t = 42)]
    pub seed: u64,
    /// Workloads to list.
    #[arg(long, default_value_t = 10)]
    pub workloads: usize,
    /// Print one JSON object.
    #[arg(long)]
    pub json: bool,
}

/// A share above 0, up to 1.
fn level(text: &str) -> Result<f64, String> {
    text.parse::<f64>()
        .ok()
        .filter(|level| *level > 0.0 && *level <= 1.0)
        .ok_or_else(|| "give a share above 0 and up to 1, e.g. 0.9".to_owned())
}
