//! Flags of `opcollect best`, `apply` and `store`: the store of best schedules.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueHint};

use super::model::ModelArgs;
use super::suggest::Suggest;
use crate::apply::ApplyOptions;

/// `opcollect best`.
#[derive(Debug, PartialEq, Args)]
pub struct BestArgs {
    /// An operator, a kind of operator, a model, or a workload's hash; for a workload, all known schedules are shown
    #[arg(value_name = "WHAT")]
    pub what: Option<String>,
    /// The store.
    #[command(flatten)]
    pub store: StoreFile,
}

/// The store.
#[derive(Debug, PartialEq, Args)]
pub struct StoreFile {
    /// The store: a file, or postgres://USER@HOST/DATABASE [default: the installation's]
    #[arg(long, value_name = "STORE", value_hint = ValueHint::FilePath, env = "OPCOLLECT_STORE")]
    pub store: Option<PathBuf>,
}

/// `opcollect store`.
#[derive(Debug, PartialEq, Args)]
pub struct StoreArgs {
    /// The command.
    #[command(subcommand)]
    pub command: StoreCommand,
}

/// Commands on a store.
#[derive(Debug, PartialEq, Subcommand)]
pub enum StoreCommand {
    /// Add the best schedules of runs or datasets, of a file of `store export`, or of AutoTVM's and MetaSchedule's logs
    Import {
        /// Folders of runs, files of rows, files of `store export`, AutoTVM's logs, folders of MetaSchedule databases
        #[arg(value_name = "PATH", required = true, value_hint = ValueHint::AnyPath)]
        paths: Vec<PathBuf>,
        /// State that the logs were measured on this machine, so that `apply` may use them (a log names only its target)
        #[arg(long)]
        here: bool,
        /// The store.
        #[command(flatten)]
        store: StoreFile,
    },
    /// Write all schedules as JSON lines
    Export {
        /// The file to write
        #[arg(value_name = "FILE", value_hint = ValueHint::FilePath)]
        file: PathBuf,
        /// The store.
        #[command(flatten)]
        store: StoreFile,
    },
    /// Add all schedules of another store
    Merge {
        /// The other store
        #[arg(value_name = "STORE", value_hint = ValueHint::FilePath)]
        other: PathBuf,
        /// The store.
        #[command(flatten)]
        store: StoreFile,
    },
    /// Check the file and every entry
    Verify {
        /// The store.
        #[command(flatten)]
        store: StoreFile,
    },
}

/// `opcollect apply`.
#[derive(Debug, Args)]
pub struct ApplyArgs {
    /// The model.
    #[command(flatten)]
    pub model: ModelArgs,
    /// Target to compile for; options may follow, as in "llvm -mcpu=haswell"
    #[arg(long, value_name = "TARGET", value_parser = Suggest(&["llvm"]))]
    pub target: Option<String>,
    /// Number of threads, `max` being all cores this process may use [default: max]
    #[arg(long, value_name = "N", action = clap::ArgAction::Append, allow_negative_numbers = true)]
    pub threads: Vec<String>,
    /// The store of best schedules: a file, or postgres://USER@HOST/DATABASE
    #[arg(long, value_name = "STORE", value_hint = ValueHint::FilePath)]
    pub store: Option<String>,
    /// Seed of the input data
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    pub seed: Option<String>,
    /// Python with TVM that imports models [default: the project's .venv]
    #[arg(long, value_name = "PATH", value_hint = ValueHint::ExecutablePath)]
    pub python: Option<String>,
    /// The files that are written.
    #[command(flatten)]
    pub options: ApplyOptions,
}
