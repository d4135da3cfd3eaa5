//! The syntax of the command line.

use std::net::SocketAddr;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args as ClapArgs, Parser, Subcommand};
use opdata::{DeviceKind, Dims, Row};
use oplearn::data::devices::read_devices;
use oplearn::data::{Machines, RowSet, Split};
use oplearn::models::ModelKind;
use opmodels::Source as ModelSource;
use opreport::output::say;

use super::parse::{
    Numbers, budget, level, model_kinds, model_source, numbers, share, some, some_numbers, weight,
    whole,
};
pub use super::source::{SourceArgs, report_left_out};
use crate::correlate::Against;

const AFTER_HELP: &str = "\
Exit codes: 0 done, 1 failed, 2 usage, 130 interrupted. `oppredict serve` ends with 0 on Ctrl-C.";

/// Predict how long an operator or a model takes on a target, explain why, and find where a factor stops paying.
#[derive(Debug, Parser)]
#[command(name = "oppredict", version, after_help = AFTER_HELP, max_term_width = 100)]
pub struct Args {
    /// The command to run.
    #[command(subcommand)]
    pub command: Command,
}

/// The subcommands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Evaluate predictions on data that the model has not seen.
    Eval(EvalArgs),
    /// Learn from datasets and write a model file.
    Train(TrainArgs),
    /// Predict the time of one operator, at several numbers of threads and batch sizes.
    Query(QueryArgs),
    /// Predict the time of a whole model, operator by operator; or of every row of a dataset, as CSV.
    Predict(PredictArgs),
    /// Correlate factors with time and with each other, with significance, by kind of operator.
    Correlate(CorrelateArgs),
    /// Find where more threads (or larger tiles) stop paying: turn, knee, and the choice from a few probes.
    Turning(TurningArgs),
    /// Adapt a model to a new machine by a few measurements there, and print the gain.
    Adapt(AdaptArgs),
    /// Answer queries from a file of JSON lines with JSON lines, as `serve` answers them.
    Batch(BatchArgs),
    /// Suggest what to measure next: write a plan for opcollect with the points that should reduce the error most in a
    /// given time.
    Suggest(SuggestArgs),
    /// Place the operators of one or several models that run side by side on devices: Nash equilibrium, optimum, HEFT,
    /// greedy.
    Place(PlaceArgs),
    /// Schedule operators of models at the same time: which ones, on how many threads, and the gain (sequential, greedy,
    /// dynamic programming).
    Schedule(ScheduleArgs),
    /// Answer queries over HTTP, with a page to ask and plot; end with Ctrl-C or SIGTERM.
    Serve(ServeArgs),
    /// List the features that models see.
    Features,
    /// Print a completion script for a shell.
    Completions {
        /// The shell.
        shell: clap_complete::Shell,
    },
    /// Print the manual page (roff; try `oppredict man | man -l -`).
    Man,
}

/// Arguments that name the rows to learn from.
#[derive(Debug, Clone, ClapArgs)]
pub struct DataArgs {
    #[command(flatten)]
    pub source: SourceArgs,
    /// Take the rows of this machine only (its env_hash, or the target of a log).
    #[arg(long, value_name = "NAME", conflicts_with = "mixed_machines")]
    pub machine: Option<String>,
    /// Take the rows of all machines together.
    #[arg(long)]
    pub mixed_machines: bool,
    /// Cores (multiprocessors of a GPU) of the machine of a log that does not say; 8 (40) are assumed if left out.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=65536), allow_negative_numbers = true)]
    pub cores: Option<u32>,
    #[command(flatten)]
    pub devices: DevicesArgs,
}

/// Figures of the machines of a log.
#[derive(Debug, Clone, ClapArgs)]
pub struct DevicesArgs {
    /// A CSV table of the machines' figures, for logs without them: device, mem_bw (GB/s), singleflops (Gflop/s),
    /// num_sm, freq (MHz), l2cache (MB), tdp (W), compute_capability.
    #[arg(long, value_name = "FILE.csv")]
    pub devices: Option<PathBuf>,
}

impl DevicesArgs {
    /// Adds the device properties from `--devices` to the facts about the rows' machines.
    pub fn add_to(&self, rows: &mut RowSet) -> anyhow::Result<()> {
        if let Some(file) = &self.devices {
            let devices = read_devices(file)?;
            let is_known = |row: &Row| {
                row.env_hash
                    .as_ref()
                    .is_some_and(|name| devices.contains_key(name))
            };
            if !rows.rows.is_empty() && !rows.rows.iter().any(is_known) {
                say(&format!(
                    "{}: none of its devices is a machine of the data; the names have to be the same",
                    file.display()
                ));
            }
            for (name, facts) in devices {
                rows.facts.entry(name).or_insert(facts);
            }
        }
        Ok(())
    }
}

impl DataArgs {
    /// The rows of all sources.
    pub fn rows(&self) -> anyhow::Result<RowSet> {
        let mut rows = self.source.read()?;
        rows.units = self.cores;
        self.devices.add_to(&mut rows)?;
        Ok(rows)
    }

    /// The machines whose rows are used.
    pub fn machines(&self) -> Machines {
        match &self.machine {
            Some(name) => Machines::Named(name.clone()),
            None if self.mixed_machines => Machines::Mixed,
            None => Machines::Single,
        }
    }
}

/// The seed.
#[derive(Debug, Clone, ClapArgs)]
pub struct SeedArgs {
    /// Seed of the random choices.
    #[arg(
        long,
        value_name = "N",
        default_value_t = 42,
        allow_negative_numbers = true
    )]
    pub seed: u64,
}

/// `oppredict eval`.
#[derive(Debug, Clone, ClapArgs)]
pub struct EvalArgs {
    #[command(flatten)]
    pub data: DataArgs,
    /// Evaluate slowdowns of operators measured at the same time (a folder of `opcollect pairs`), and nothing else.
    #[arg(long, value_name = "DIR", action = clap::ArgAction::Append)]
    pub pairs: Vec<PathBuf>,
    /// What is held out: leave-one-workload-out, leave-one-model-out, leave-one-machine-out, by-time, 5-fold,
    /// 5-fold-workloads. Each workload held out by itself needs a training of its own.
    #[arg(long, default_value = "5-fold-workloads")]
    pub split: Split,
    /// The kind of model.
    #[arg(long, default_value = "ensemble", value_parser = model_kinds())]
    pub model: ModelKind,
    /// Evaluate a ranker (rank:pairwise) beside the model.
    #[arg(long)]
    pub ranker: bool,
    /// Confidence level of the intervals.
    #[arg(long, value_name = "SHARE", default_value_t = 0.9, value_parser = level, allow_negative_numbers = true)]
    pub level: f64,
    /// Shares of the training data for a learning curve, e.g. 0.1,0.3,1.
    #[arg(long, value_name = "SHARE,…", value_delimiter = ',', value_parser = share)]
    pub learning_curve: Vec<f64>,
    #[command(flatten)]
    pub random: SeedArgs,
    /// Folder for plots (SVG) of predicted against measured times and of the residuals.
    #[arg(long, value_name = "FOLDER")]
    pub plots: Option<PathBuf>,
    /// File for every out-of-fold prediction (CSV): row, workload, fold, measured and predicted time, interval, threads,
    /// whether something else ran while it was measured.
    #[arg(long, value_name = "FILE.csv")]
    pub predictions: Option<PathBuf>,
    /// With --split leave-one-machine-out: numbers of measurements on the held-out machine to adapt a model of the
    /// others with, e.g. 0,10,20,50,100. The table also has the model without adaptation and a model of these
    /// measurements alone.
    #[arg(long, value_name = "N,…", value_delimiter = ',', value_parser = whole, allow_negative_numbers = true)]
    pub measurements: Vec<usize>,
    /// Number of workloads to list.
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = whole, allow_negative_numbers = true)]
    pub workloads: usize,
    /// Print one JSON object.
    #[arg(long)]
    pub json: bool,
}

/// `oppredict train`.
#[derive(Debug, Clone, ClapArgs)]
pub struct TrainArgs {
    #[command(flatten)]
    pub data: DataArgs,
    /// The model file to write.
    #[arg(long, short, value_name = "FILE.opm")]
    pub out: PathBuf,
    /// Operators measured at the same time (a folder of `opcollect pairs`), from which slowdowns are learned.
    #[arg(long, value_name = "DIR", action = clap::ArgAction::Append)]
    pub pairs: Vec<PathBuf>,
    /// The kind of device, where the rows are of several: cpu, cuda, pynq or tpu.
    #[arg(long)]
    pub device: Option<DeviceKind>,
    #[command(flatten)]
    pub random: SeedArgs,
    /// Print one JSON object.
    #[arg(long)]
    pub json: bool,
}

/// Arguments that name the trained model and how to ask it.
#[derive(Debug, Clone, ClapArgs)]
pub struct UsingArgs {
    /// The trained model; the newest .opm in models/ or here if left out.
    #[arg(long, value_name = "FILE.opm", env = "OPPREDICT_MODEL")]
    pub model: Option<PathBuf>,
    /// The target that the answer is for (llvm or cuda); must be the model's.
    #[arg(long)]
    pub target: Option<String>,
    /// The machine, where the model knows several.
    #[arg(long, value_name = "NAME")]
    pub machine: Option<String>,
    /// Confidence level of the intervals.
    #[arg(long, value_name = "SHARE", default_value_t = 0.9, value_parser = level, allow_negative_numbers = true)]
    pub level: f64,
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
}

/// `oppredict query`.
#[derive(Debug, Clone, ClapArgs)]
pub struct QueryArgs {
    #[command(flatten)]
    pub using: UsingArgs,
    /// The operator: conv2d, depthwise_conv2d, conv3d, dense, batch_matmul, max_pool, softmax, layer_norm, concat, …
    #[arg(long)]
    pub op: String,
    /// Shape of its input, e.g. 1x64x56x56.
    #[arg(long)]
    pub input: Dims,
    /// Shape of its output, e.g. 1x64x112x112, where the input does not determine it (resize, slice, concat).
    #[arg(long)]
    pub output: Option<Dims>,
    /// Window, e.g. 3x3.
    #[arg(long)]
    pub kernel: Option<Dims>,
    /// Output channels, or columns of a product.
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    pub channels: Option<u64>,
    /// Strides, e.g. 2x2.
    #[arg(long)]
    pub stride: Option<Dims>,
    /// Padding on each side, e.g. 1x1; if left out, the one that keeps the extent.
    #[arg(long)]
    pub padding: Option<Dims>,
    /// Groups of a grouped convolution.
    #[arg(
        long,
        value_name = "N",
        default_value_t = 1,
        allow_negative_numbers = true
    )]
    pub groups: u64,
    /// Numbers of threads: 1,2,4 or a range such as 1..64.
    #[arg(long, value_name = "N,N,…", default_value = "1", value_parser = some_numbers, allow_negative_numbers = true)]
    pub threads: Numbers,
    /// Batch sizes to compare in place of the input's own.
    #[arg(long = "batchsize", visible_alias = "batch", value_name = "N,N,…", default_value = "", hide_default_value = true, value_parser = numbers, allow_negative_numbers = true)]
    pub batch: Numbers,
    /// Give reasons and nearest measured rows for each line of the table, not for the first alone. JSON has them for all.
    #[arg(long)]
    pub explain: bool,
}

/// `oppredict predict`.
#[derive(Debug, Clone, ClapArgs)]
pub struct PredictArgs {
    #[command(flatten)]
    pub using: UsingArgs,
    #[command(flatten)]
    pub source: SourceArgs,
    /// Source of the model, as for opcollect: local, onnx or simple.
    #[arg(long = "modelsource", value_name = "SOURCE", default_value = "local", value_parser = model_source, requires = "model_name")]
    pub model_source: ModelSource,
    /// A model of that source: a name of `opcollect list models`, the path of an ONNX file, or an operator.
    #[arg(long = "modelname", value_name = "NAME", conflicts_with_all = ["data", "model_file"])]
    pub model_name: Option<String>,
    /// An ONNX file: short for --modelsource onnx --modelname FILE.
    #[arg(long, value_name = "FILE.onnx", conflicts_with = "data")]
    pub model_file: Option<PathBuf>,
    /// Numbers of threads: 1,2,4 or a range such as 1..64.
    #[arg(long, value_name = "N,N,…", default_value = "1", value_parser = some_numbers, allow_negative_numbers = true)]
    pub threads: Numbers,
    /// Batch sizes; the model's own if left out.
    #[arg(long = "batchsize", visible_alias = "batch", value_name = "N,N,…", default_value = "", hide_default_value = true, value_parser = numbers, allow_negative_numbers = true)]
    pub batch: Numbers,
    /// Sequence length, for models that have one.
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    pub seqlen: Option<u64>,
    /// Number of operators to list.
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = whole, allow_negative_numbers = true)]
    pub operators: usize,
    /// Give reasons and nearest measured rows for each operator.
    #[arg(long)]
    pub explain: bool,
    /// Predict the measured rows of a run (or of a folder of runs, or a file of rows) and print the error; may be
    /// repeated. Alone, with --import: the rows of that log.
    #[arg(long, value_name = "RUN", num_args = 0..=1, action = clap::ArgAction::Append, conflicts_with_all = ["data", "model_file", "model_name"])]
    pub compare: Option<Vec<PathBuf>>,
    #[command(flatten)]
    pub devices: DevicesArgs,
}

/// `oppredict place`.
#[derive(Debug, Clone, ClapArgs)]
pub struct PlaceArgs {
    /// Measured costs: runs (folders, names, `latest`), folders of runs, .csv, .parquet or .jsonl files; all of runs/ if left out.
    pub data: Vec<PathBuf>,
    /// The models, e.g. resnet-18,bert-tiny:16 (a sequence length of 16).
    #[arg(long, value_name = "NAME,…", value_delimiter = ',', required = true)]
    pub models: Vec<String>,
    /// Source of the models, as for opcollect: local, onnx or simple.
    #[arg(long = "modelsource", value_name = "SOURCE", default_value = "local", value_parser = model_source)]
    pub model_source: ModelSource,
    /// The devices: cpu, cuda, vta, tpu; `cpu:2` are two of one thread each, `cpu:2x4` two of four.
    #[arg(long, value_name = "DEVICE,…")]
    pub devices: String,
    /// A TOML table of links, power, memory and shared resources of the devices.
    #[arg(long, value_name = "FILE.toml")]
    pub table: Option<PathBuf>,
    /// A trained model that predicts the costs that were not measured.
    #[arg(long, value_name = "FILE.opm")]
    pub model: Option<PathBuf>,
    /// The machine, where rows or the trained model are of several (its env_hash).
    #[arg(long, value_name = "NAME")]
    pub machine: Option<String>,
    /// Weight of energy against time: 0 is time alone, 1 energy alone.
    #[arg(long, value_name = "SHARE", default_value_t = 0.0, value_parser = weight, allow_negative_numbers = true)]
    pub energy_weight: f64,
    /// Longest search for the optimum.
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = budget)]
    pub time_limit: Duration,
    #[command(flatten)]
    pub random: SeedArgs,
    /// Write Gantt charts (SVG) and traces for Perfetto into this folder.
    #[arg(long, value_name = "DIR")]
    pub plots: Option<PathBuf>,
    /// Print one JSON object.
    #[arg(long)]
    pub json: bool,
}

/// `oppredict schedule`.
#[derive(Debug, Clone, ClapArgs)]
pub struct ScheduleArgs {
    /// Measured times: runs (folders, names, `latest`), folders of runs, .csv, .parquet or .jsonl files; all of runs/ if left out.
    pub data: Vec<PathBuf>,
    /// The models, e.g. squeezenet, or resnet-18,bert-tiny:16 (a sequence length of 16) to run them at the same time.
    #[arg(long, value_name = "NAME,…", value_delimiter = ',', required = true)]
    pub models: Vec<String>,
    /// Source of the models, as for opcollect: local, onnx or simple.
    #[arg(long = "modelsource", value_name = "SOURCE", default_value = "local", value_parser = model_source)]
    pub model_source: ModelSource,
    /// Threads.
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub threads: u32,
    /// Operators measured at the same time (a folder of `opcollect pairs`), from which slowdowns are learned.
    #[arg(long, value_name = "DIR", action = clap::ArgAction::Append)]
    pub pairs: Vec<PathBuf>,
    /// A trained model that predicts the times that were not measured.
    #[arg(long, value_name = "FILE.opm")]
    pub model: Option<PathBuf>,
    /// The machine, where rows or the trained model are of several (its env_hash).
    #[arg(long, value_name = "NAME")]
    pub machine: Option<String>,
    /// Take this schedule: sequential, greedy, `dynamic programme` or partitioned [default: the fastest, if it gains 4 %].
    #[arg(long, value_name = "SCHEDULE")]
    pub take: Option<String>,
    /// Longest search.
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = budget)]
    pub time_limit: Duration,
    /// Write the schedule that is taken to this file, for `opcollect run-graph`.
    #[arg(long, value_name = "FILE.json")]
    pub out: Option<PathBuf>,
    /// Print one JSON object.
    #[arg(long)]
    pub json: bool,
}

/// `oppredict correlate`.
#[derive(Debug, Clone, ClapArgs)]
pub struct CorrelateArgs {
    #[command(flatten)]
    pub data: DataArgs,
    /// Quantity that the factors are correlated with: the time, or the time over a roofline estimate.
    #[arg(long, default_value = "rate", value_enum)]
    pub against: Against,
    /// Number of factors to list, for each kind of operator.
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = whole, allow_negative_numbers = true)]
    pub factors: usize,
    /// Number of factors with a partial dependence, the strongest of each kind.
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = whole, allow_negative_numbers = true)]
    pub partial: usize,
    /// Folder for plots (SVG) of the partial dependences.
    #[arg(long, value_name = "FOLDER")]
    pub plots: Option<PathBuf>,
    #[command(flatten)]
    pub random: SeedArgs,
    /// Print one JSON object for each kind, in a list.
    #[arg(long)]
    pub json: bool,
}

/// `oppredict turning`.
#[derive(Debug, Clone, ClapArgs)]
pub struct TurningArgs {
    /// CSV files of sweeps (gzipped or not) with a column `threads…` and one with `time` in its name, or run folders.
    #[arg(required = true)]
    pub files: Vec<PathBuf>,
    /// Measurements allowed beyond the probes at powers of two.
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = whole, allow_negative_numbers = true)]
    pub more: usize,
    /// Show instead what each step of this factor does, all else equal: threads, or a number of the schedules such as
    /// vector_length or "tile i".
    #[arg(long, value_name = "NAME", conflicts_with = "plots")]
    pub knob: Option<String>,
    /// Folder for plots (SVG) of the sweeps.
    #[arg(long, value_name = "FOLDER")]
    pub plots: Option<PathBuf>,
    /// Print one JSON object.
    #[arg(long)]
    pub json: bool,
}

/// `oppredict adapt`.
#[derive(Debug, Clone, ClapArgs)]
pub struct AdaptArgs {
    /// Measurements on the new machine.
    #[command(flatten)]
    pub data: DataArgs,
    /// The model of the old machine; the newest .opm in models/ or here if left out.
    #[arg(long, value_name = "FILE.opm", env = "OPPREDICT_MODEL")]
    pub model: Option<PathBuf>,
    /// Number of measurements to use, which the program chooses. The others show the gain.
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = whole, allow_negative_numbers = true)]
    pub measurements: usize,
    /// The adapted model to write.
    #[arg(long, short, value_name = "FILE.opm")]
    pub out: Option<PathBuf>,
    /// Print one JSON object.
    #[arg(long)]
    pub json: bool,
}

/// `oppredict batch`.
#[derive(Debug, Clone, ClapArgs)]
pub struct BatchArgs {
    /// Queries, one JSON object a line as for POST /v1/query; `-` reads standard input.
    pub queries: PathBuf,
    /// The trained model; the newest .opm in models/ or here if left out.
    #[arg(long, value_name = "FILE.opm", env = "OPPREDICT_MODEL")]
    pub model: Option<PathBuf>,
    /// Give reasons and nearest measured rows, too.
    #[arg(long)]
    pub explain: bool,
}

/// `oppredict suggest`.
#[derive(Debug, Clone, ClapArgs)]
pub struct SuggestArgs {
    /// The rows measured before.
    #[command(flatten)]
    pub data: DataArgs,
    /// Time that measuring may take, e.g. 45m or 2h.
    #[arg(long, value_name = "TIME", value_parser = budget)]
    pub budget: Duration,
    /// Points to choose from, as `opcollect plan --candidates DIR` lists them; may be repeated.
    #[arg(long, value_name = "DIR", action = clap::ArgAction::Append, required_unless_present_any = ["model_names", "model_files"])]
    pub candidates: Vec<PathBuf>,
    /// Source of the models of --modelname, as for opcollect: local, onnx or simple.
    #[arg(long = "modelsource", value_name = "SOURCE", default_value = "local", value_parser = model_source, requires = "model_names")]
    pub model_source: ModelSource,
    /// Models whose operators are candidates, with their default schedules, e.g. resnet-18,mobilenet.
    #[arg(long = "modelname", value_name = "NAME,…", value_delimiter = ',')]
    pub model_names: Vec<String>,
    /// The same for ONNX files; may be repeated.
    #[arg(long = "model-file", value_name = "FILE.onnx", action = clap::ArgAction::Append)]
    pub model_files: Vec<PathBuf>,
    /// Numbers of threads at which operators of models are candidates: 1,2,4 or a range such as 1..64.
    #[arg(long, value_name = "N,N,…", default_value = "1", value_parser = some_numbers, allow_negative_numbers = true)]
    pub threads: Numbers,
    /// Batch sizes at which operators of models are candidates; the model's own by default.
    #[arg(long = "batchsize", visible_alias = "batch", value_name = "N,N,…", default_value = "", hide_default_value = true, value_parser = numbers, allow_negative_numbers = true)]
    pub batch: Numbers,
    /// Sequence length, for models that have one.
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    pub seqlen: Option<u64>,
    /// Maximum number of points to choose.
    #[arg(long, value_name = "N", value_parser = some, allow_negative_numbers = true)]
    pub count: Option<NonZeroUsize>,
    /// A trained model to ask instead of training one on the rows.
    #[arg(long, value_name = "FILE.opm")]
    pub model: Option<PathBuf>,
    /// The plan to write; with several models, one for each beside it.
    #[arg(long, short, value_name = "PLAN.toml")]
    pub out: PathBuf,
    #[command(flatten)]
    pub random: SeedArgs,
    /// Print one JSON object.
    #[arg(long)]
    pub json: bool,
}

/// `oppredict serve`.
#[derive(Debug, Clone, ClapArgs)]
pub struct ServeArgs {
    /// The trained model; the newest .opm in models/ or here if left out.
    #[arg(long, value_name = "FILE.opm", env = "OPPREDICT_MODEL")]
    pub model: Option<PathBuf>,
    /// Address and port; port 0 takes a free one. The address that it listens on is printed.
    #[arg(long, default_value = "127.0.0.1:8642")]
    pub listen: SocketAddr,
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_syntax_is_consistent() {
        Args::command().debug_assert();
    }
}
