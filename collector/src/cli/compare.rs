//! Flags of `opcollect compare`: two sets of rows, or with `--framework` one model run by several frameworks.
//!
//! Syntax only. Flags that are settings of the main job have its names and reach the plan through `config`.

use std::path::PathBuf;

use clap::{Args, ValueHint};

use super::model::ModelArgs;
use super::suggest::Suggest;
use crate::compare::{CompareRequest, Options};
use crate::config::{Origin, Settings};
use crate::frameworks::{Framework, FrameworksRequest};
use crate::plan::{Planned, parse};

/// Name of the argument that is a model's name with `--framework`.
pub(super) const FIRST: &str = "a";
/// Name of the argument that only a comparison of rows takes.
const SECOND: &str = "b";
/// Name of the flag that makes it a comparison of frameworks.
pub(super) const FRAMEWORK: &str = "framework";

/// `opcollect compare`.
#[derive(Debug, Args)]
#[command(mut_group("ModelArgs", |group| group.conflicts_with(SECOND)))]
pub struct CompareArgs {
    /// The base: a run (its folder, its name, `latest`, `latest~1`), a folder of runs, or a file of rows (.csv, .parquet,
    /// .jsonl); with --framework the model, as --modelname has it
    #[arg(value_name = "A", value_hint = ValueHint::AnyPath, required_unless_present = FRAMEWORK, conflicts_with = "modelname")]
    pub a: Option<PathBuf>,
    /// Runs to compare with it; several are ranked, the best first
    #[arg(value_name = "B", value_hint = ValueHint::AnyPath, num_args = 1.., required_unless_present = FRAMEWORK, conflicts_with = FRAMEWORK)]
    pub b: Vec<PathBuf>,
    /// Minimum slowdown that counts as a regression, if it is also significant
    #[arg(long, value_name = "SHARE", default_value = "5%", value_parser = parse::share, conflicts_with = FRAMEWORK)]
    pub threshold: f64,
    /// Compare runs of different machines too
    #[arg(long, conflicts_with = FRAMEWORK)]
    pub allow_other_machine: bool,
    /// Write the result to this file too, in Markdown
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, conflicts_with = FRAMEWORK)]
    pub export_markdown: Option<PathBuf>,
    /// The frameworks.
    #[command(flatten)]
    pub frameworks: FrameworkArgs,
    /// The model.
    #[command(flatten)]
    pub model: ModelArgs,
}

/// One model, several frameworks.
#[derive(Debug, Args)]
#[command(next_help_heading = "One model in several frameworks")]
pub struct FrameworkArgs {
    /// Run one model by each of these instead, in turn: torch, tvm, tvm-tuned, onnxruntime; the first is the base of ratios
    #[arg(long, value_name = "LIST", value_enum, value_delimiter = ',')]
    pub framework: Vec<Framework>,
    /// Target of TVM's compiler; options may follow, as in "llvm -mcpu=haswell"
    #[arg(long, value_name = "TARGET", value_parser = Suggest(&["llvm"]), conflicts_with = SECOND)]
    pub target: Option<String>,
    /// Number of threads of each framework, `max` being all cores this process may use [default: max]
    #[arg(long, value_name = "N", action = clap::ArgAction::Append, allow_negative_numbers = true, conflicts_with = SECOND)]
    pub threads: Vec<String>,
    /// Time for each framework's unwatched runs [default: 1s]
    #[arg(long, value_name = "TIME", allow_negative_numbers = true, conflicts_with = SECOND)]
    pub budget: Option<String>,
    /// The store of best schedules, for tvm-tuned
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, conflicts_with = SECOND)]
    pub store: Option<String>,
    /// Maximum memory of TVM's worker process
    #[arg(long, value_name = "SIZE", allow_negative_numbers = true, conflicts_with = SECOND)]
    pub memory_limit: Option<String>,
    /// Longest single run of the model
    #[arg(long, value_name = "TIME", allow_negative_numbers = true, conflicts_with = SECOND)]
    pub timeout: Option<String>,
    /// Python with TVM that imports models, and with ONNX Runtime [default: the project's .venv]
    #[arg(long, value_name = "PATH", value_hint = ValueHint::ExecutablePath, conflicts_with = SECOND)]
    pub python: Option<String>,
    /// Write the table to this file too, operator by operator
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, conflicts_with = SECOND)]
    pub csv: Option<PathBuf>,
}

impl CompareArgs {
    /// The request to compare rows, if it is one.
    pub fn rows(&self) -> Option<CompareRequest> {
        let base = self.a.as_ref().filter(|_| !self.b.is_empty())?;
        Some(CompareRequest {
            base: base.clone(),
            others: self.b.clone(),
            options: Options {
                threshold: self.threshold,
                allow_other_machine: self.allow_other_machine,
            },
            export_markdown: self.export_markdown.clone(),
        })
    }
}

impl FrameworkArgs {
    /// The request to run a model by several frameworks. Fails with a sentence about the flag that does not fit.
    pub fn request(
        self,
        planned: Box<Planned>,
        settings: &Settings,
    ) -> Result<FrameworksRequest, String> {
        let runs = |which| self.framework.contains(&which);
        if settings.get("target").origin != Origin::Default
            && !runs(Framework::Tvm)
            && !runs(Framework::TvmTuned)
        {
            return Err("--target: only tvm compiles; leave it out".to_owned());
        }
        let device = planned.plan.target.device;
        if !device.has_host_threads() {
            return Err(format!(
                "--target {}: frameworks are compared on this machine's processor; give an llvm target",
                device.name()
            ));
        }
        Ok(FrameworksRequest {
            frameworks: self.framework,
            planned,
            csv: self.csv,
        })
    }
}
