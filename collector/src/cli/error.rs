//! The errors of the command line itself, and the exit codes they end the program with.

use opengine::measure::counters::CounterError;
use opreport::Exit;
use thiserror::Error;

use crate::config::ConfigError;
use crate::plan::PlanError;
use crate::sweep::SweepError;

/// The reason why a command line cannot be carried out.
#[derive(Debug, Error)]
pub enum CliError {
    /// The parser's own error, or its help or version text.
    #[error(transparent)]
    Syntax(#[from] clap::Error),
    /// A configuration file or a variable that cannot be used.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// A sweep that cannot be used.
    #[error(transparent)]
    Sweep(#[from] SweepError),
    /// Counters that do not exist, or do not count here.
    #[error("--counters {0}")]
    Counters(#[from] CounterError),
    /// Values that make no plan.
    #[error(transparent)]
    Plan(Box<PlanError>),
}

impl From<PlanError> for CliError {
    fn from(error: PlanError) -> Self {
        Self::Plan(Box::new(error))
    }
}

impl CliError {
    /// How the program ends with it: help and version texts are no errors.
    pub fn exit(&self) -> Exit {
        match self {
            Self::Syntax(error) if !error.use_stderr() => Exit::Done,
            _ => Exit::Usage,
        }
    }
}
