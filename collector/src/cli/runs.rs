//! Flags of the commands that work on finished runs: `compare`, `merge`, `nightly`.
//!
//! Syntax only: values are turned into plain requests, nothing is read or written here.

use std::path::PathBuf;

use clap::{Args, ValueHint};

use crate::compare::{Machines, Options};
use crate::plan::parse;

/// `opcollect compare`.
#[derive(Debug, Args)]
pub struct CompareArgs {
    /// The base: a run's folder, a folder of runs, or a file of rows (.csv, .parquet, .jsonl)
    #[arg(value_name = "A", value_hint = ValueHint::AnyPath)]
    pub a: PathBuf,
    /// What to compare with it
    #[arg(value_name = "B", value_hint = ValueHint::AnyPath)]
    pub b: PathBuf,
    /// How much slower is a regression, if it is significant too
    #[arg(long, value_name = "SHARE", default_value = "5%", value_parser = parse::share)]
    pub threshold: f64,
    /// Compare runs of unlike machines too
    #[arg(long)]
    pub allow_other_machine: bool,
}

/// What to compare.
#[derive(Debug, Clone, PartialEq)]
pub struct CompareRequest {
    /// The base.
    pub a: PathBuf,
    /// What is compared with it.
    pub b: PathBuf,
    /// What counts.
    pub options: Options,
}

/// The word for rows of unlike machines.
fn machines(allow_other: bool) -> Machines {
    if allow_other {
        Machines::Any
    } else {
        Machines::Alike
    }
}

impl CompareArgs {
    /// The request that the arguments make.
    pub fn request(self) -> CompareRequest {
        CompareRequest {
            a: self.a,
            b: self.b,
            options: Options {
                threshold: self.threshold,
                machines: machines(self.allow_other_machine),
            },
        }
    }
}
