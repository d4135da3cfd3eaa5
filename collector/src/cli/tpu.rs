//! Flags of `opcollect tpu`: dumps of Sophgo TPUs in, files out; and its `diff` and `record`.
//!
//! Names of bigTpuProfile's flags are kept, those of its versions 0.3.0 and 0.3.7 alike. The program `opcollect-tpu` acts
//! on them.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum, ValueHint};

/// `opcollect tpu`.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub struct TpuArgs {
    /// Reading and writing.
    #[command(flatten)]
    pub job: TpuJobArgs,
    /// Anything but reading dumps.
    #[command(subcommand)]
    pub command: Option<TpuCommand>,
}

/// Further commands on dumps.
#[derive(Debug, Subcommand)]
pub enum TpuCommand {
    /// Compare dumps with the first of them, the largest change first
    Diff(TpuDiffArgs),
    /// Run a command with profiling on and read the dumps that it writes
    Record(TpuRecordArgs),
}

/// How dumps are read.
#[derive(Debug, Args)]
#[command(next_help_heading = "Reading")]
pub struct TpuReadArgs {
    /// TIU clock in MHz instead of the dump's
    #[arg(
        long = "tiu_freq",
        alias = "tiu-freq",
        value_name = "MHZ",
        allow_negative_numbers = true
    )]
    pub tiu_freq: Option<f64>,
    /// DMA clock in MHz instead of the chip's
    #[arg(
        long = "dma_freq",
        alias = "dma-freq",
        value_name = "MHZ",
        allow_negative_numbers = true
    )]
    pub dma_freq: Option<f64>,
    /// Keep only what ends after this time since the first record, e.g. 250 (us) or 1.5ms
    #[arg(long = "from", value_name = "TIME", value_parser = time_ns)]
    pub from_ns: Option<i64>,
    /// Keep only what starts before this time since the first record
    #[arg(long = "to", value_name = "TIME", value_parser = time_ns)]
    pub to_ns: Option<i64>,
    /// Fail if anything is missing, guessed or damaged
    #[arg(long)]
    pub strict: bool,
    /// Count only events of these cores
    #[arg(long = "core", value_name = "N,N,…", value_delimiter = ',')]
    pub cores: Vec<u32>,
    /// Count only events of these engines
    #[arg(long = "engine", value_name = "ENGINE,…", value_delimiter = ',')]
    pub engines: Vec<EngineName>,
    /// Count only functions and kernels whose name contains this
    #[arg(long = "name", value_name = "TEXT")]
    pub name: Option<String>,
    /// Count only events of at least this many ns
    #[arg(long = "min-ns", value_name = "NS", default_value_t = 0)]
    pub min_ns: i64,
    /// Length of lists
    #[arg(long, value_name = "N", default_value_t = 20)]
    pub top: usize,
}

/// The files that are written.
#[derive(Debug, Args)]
#[command(next_help_heading = "Files (without any of these: --summary and --perfetto)")]
pub struct TpuOutputArgs {
    /// Folder of the files [default: profile_out]
    #[arg(long, value_name = "OUT", value_hint = ValueHint::DirPath)]
    pub out: Option<PathBuf>,
    /// summary.txt
    #[arg(long)]
    pub summary: bool,
    /// perfetto.pftrace
    #[arg(long)]
    pub perfetto: bool,
    /// RegInfo text, CSV and workbook
    #[arg(long, visible_alias = "enable_doc")]
    pub doc: bool,
    /// result.html, a page with timelines that needs nothing else
    #[arg(long)]
    pub web: bool,
    /// profile.json: totals, roll-ups, gaps, roofline, account
    #[arg(long)]
    pub profile_json: bool,
    /// events.parquet
    #[arg(long)]
    pub parquet: bool,
    /// Rows of the dataset, per operator, kernel and layer
    #[arg(long)]
    pub rows: bool,
    /// All of these
    #[arg(long)]
    pub all: bool,
    /// Merge this host trace (Chrome JSON) into the Perfetto trace
    #[arg(long = "trace_file", alias = "trace-file", value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub trace_file: Option<PathBuf>,
    /// Print a table of operators, kernels or layers too
    #[arg(long, value_name = "WHAT")]
    pub by: Vec<GroupingName>,
    /// Accepted for old commands: no summary.txt
    #[arg(long = "disable_summary")]
    pub disable_summary: bool,
    /// Accepted for old commands: no documents
    #[arg(long = "disable_doc")]
    pub disable_doc: bool,
    /// Accepted for old commands: no page
    #[arg(long = "disable_web")]
    pub disable_web: bool,
    /// Accepted for old commands: cores are counted in the dump, and a difference is reported
    #[arg(long = "num_core", value_name = "N")]
    pub num_core: Option<u32>,
}

/// `opcollect tpu DIR…`.
#[derive(Debug, Args)]
pub struct TpuJobArgs {
    /// Folders cdm_profile_data_* to read. If the second one is not a dump, it is the output folder, as in
    /// bigTpuProfile
    #[arg(value_name = "DIR", required = true, value_hint = ValueHint::DirPath)]
    pub dirs: Vec<PathBuf>,
    /// Flags of how dumps are read.
    #[command(flatten)]
    pub read: TpuReadArgs,
    /// The files to write.
    #[command(flatten)]
    pub output: TpuOutputArgs,
}

/// `opcollect tpu diff`.
#[derive(Debug, Args)]
pub struct TpuDiffArgs {
    /// The first dump
    #[arg(value_name = "A", value_hint = ValueHint::DirPath)]
    pub first: PathBuf,
    /// The second dump, and more: each is compared with the first
    #[arg(value_name = "B", required = true, value_hint = ValueHint::DirPath)]
    pub others: Vec<PathBuf>,
    /// Key to pair by
    #[arg(long, value_name = "WHAT", default_value = "operator")]
    pub by: GroupingName,
    /// Exit with 3 if one of them takes longer than the first by more than this, e.g. 3%
    #[arg(long = "fail-above", value_name = "PERCENT", value_parser = percent)]
    pub fail_above: Option<f64>,
    /// Flags of how dumps are read.
    #[command(flatten)]
    pub read: TpuReadArgs,
}

/// A share in percent, with or without its sign.
fn percent(text: &str) -> Result<f64, String> {
    let number = text.trim_end_matches('%').trim().parse::<f64>();
    match number {
        Ok(value) if value.is_finite() && value >= 0.0 => Ok(value),
        _ => Err("give a number of percent, 0 or more, e.g. 3%".to_string()),
    }
}

/// A time in ns: a number of microseconds, or with its unit.
fn time_ns(text: &str) -> Result<i64, String> {
    let units = [("ns", 1.0), ("us", 1e3), ("ms", 1e6), ("s", 1e9)];
    let with_unit = |&(unit, ns): &(&str, f64)| Some((text.strip_suffix(unit)?, ns));
    let (number, unit_ns) = units.iter().find_map(with_unit).unwrap_or((text, 1e3));
    match number.trim().parse::<f64>() {
        Ok(value) if value >= 0.0 && value * unit_ns < 1e18 => Ok((value * unit_ns).round() as i64),
        _ => Err(
            "give a time of 0 or more in microseconds, or with ns, us, ms or s, e.g. 1.5ms"
                .to_string(),
        ),
    }
}

/// `opcollect tpu record`.
#[derive(Debug, Args)]
pub struct TpuRecordArgs {
    /// PROFILE_MODE for the command: 0, 1 or 2
    #[arg(long, value_name = "MODE")]
    pub profile_mode: Option<u32>,
    /// PROFILE_RECORD_SIZE for the command [its default: 131072]
    #[arg(long, value_name = "N")]
    pub record_size: Option<u64>,
    /// TPUKERNEL_FIRMWARE_PATH for the command
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub firmware: Option<PathBuf>,
    /// Flags of how dumps are read.
    #[command(flatten)]
    pub read: TpuReadArgs,
    /// The files to write.
    #[command(flatten)]
    pub output: TpuOutputArgs,
    /// The command and its arguments, after --
    #[arg(last = true, required = true, value_name = "CMD")]
    pub command: Vec<OsString>,
}

/// An engine by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum EngineName {
    /// Tensor computing unit
    Tiu,
    /// The core's DMA
    Gdma,
    /// System DMA
    Sdma,
    /// Chip-to-chip DMA
    Cdma,
}

/// A grouping by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum GroupingName {
    /// Engine and function
    Operator,
    /// Kernel
    Kernel,
    /// Layer of a compiled model
    Layer,
    /// Engine and function with the shapes of its tensors
    Shape,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_units() {
        for (text, ns) in [
            ("250", 250_000),
            ("1.5ms", 1_500_000),
            ("7ns", 7),
            ("2 us", 2000),
            ("1s", 1_000_000_000),
        ] {
            assert_eq!(time_ns(text), Ok(ns), "{text}");
        }
        for text in ["", "-1", "5 m", "nan", "1e30"] {
            assert!(time_ns(text).is_err(), "{text}");
        }
    }
}
