//! Flags of the commands that work on finished runs: `merge`, `replay`.
//!
//! Syntax only: values are turned into plain requests, nothing is read or written here.

use std::path::PathBuf;

use clap::{Args, ValueHint};
use opengine::measure::counters::request::CounterRequest;

use super::CliError;
use crate::compare::Machines;
use crate::merge::{Gaps, MergeRequest};
use crate::replay::ReplayRequest;

/// `opcollect merge`.
#[derive(Debug, Args)]
pub struct MergeArgs {
    /// Folder of the new run, which must not exist yet
    #[arg(value_name = "OUT", value_hint = ValueHint::DirPath)]
    pub out: PathBuf,
    /// Folders of the shards, in any order
    #[arg(value_name = "SHARD", required = true, value_hint = ValueHint::DirPath)]
    pub shards: Vec<PathBuf>,
    /// Join the shards that exist, even if some are missing or not finished
    #[arg(long)]
    pub partial: bool,
    /// Join shards of different machines too
    #[arg(long)]
    pub allow_other_machine: bool,
}

/// `opcollect replay`.
#[derive(Debug, Args)]
pub struct ReplayArgs {
    /// The row, by the value in its column `row_id`
    #[arg(value_name = "ROW-ID")]
    pub row: String,
    /// Folder of the run that has the row [default: the one of runs/ that the row's name begins with]
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub run: Option<PathBuf>,
    /// Counters, as for the main job [default: those of the run]
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pub counters: Vec<String>,
    /// Python with TVM that imports models [default: the project's .venv]
    #[arg(long, value_name = "PATH", value_hint = ValueHint::ExecutablePath)]
    pub python: Option<PathBuf>,
}

impl ReplayArgs {
    /// The request that the arguments make.
    ///
    /// # Errors
    /// Fails if a counter does not exist, or does not count here.
    pub fn request(self) -> Result<ReplayRequest, CliError> {
        CounterRequest::parse(&self.counters)?.check()?;
        Ok(ReplayRequest {
            row: self.row,
            run: self.run,
            counters: (!self.counters.is_empty()).then_some(self.counters),
            python: self.python,
        })
    }
}

/// The word for rows of unlike machines.
pub(super) fn machines(allow_other: bool) -> Machines {
    if allow_other {
        Machines::Any
    } else {
        Machines::Alike
    }
}

impl MergeArgs {
    /// The request that the arguments make.
    pub fn request(self) -> MergeRequest {
        MergeRequest {
            out: self.out,
            shards: self.shards,
            machines: machines(self.allow_other_machine),
            gaps: if self.partial {
                Gaps::Accept
            } else {
                Gaps::Refuse
            },
        }
    }
}
