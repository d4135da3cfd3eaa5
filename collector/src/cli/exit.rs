//! Exit codes, and the errors of the command line itself.

use thiserror::Error;

use crate::config::ConfigError;
use crate::plan::PlanError;
use crate::sweep::SweepError;

/// How the program ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    /// All done.
    Done,
    /// It could not be done.
    Failed,
    /// It was asked for wrongly.
    Usage,
    /// A comparison found a regression.
    Regression,
    /// Done, but more points failed than the allowed share.
    PointsFailed,
    /// Interrupted; all rows measured so far are kept.
    Interrupted,
}

impl Exit {
    /// The process's exit code.
    pub const fn code(self) -> u8 {
        match self {
            Self::Done => 0,
            Self::Failed => 1,
            Self::Usage => 2,
            Self::Regression => 3,
            Self::PointsFailed => 4,
            Self::Interrupted => 130,
        }
    }
}

impl From<Exit> for std::process::ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit.code())
    }
}

/// Why a command line asks for nothing that can be done.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_those_of_the_manual() {
        use Exit::*;
        let codes = [Done, Failed, Usage, Regression, PointsFailed, Interrupted].map(Exit::code);
        assert_eq!(codes, [0, 1, 2, 3, 4, 130]);
    }
}
