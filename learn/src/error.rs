//! Errors of the library, worded for the person who has to act on them.

use std::path::PathBuf;

/// The result of everything here.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why something could not be learned or predicted.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A dataset or log could not be read.
    #[error(transparent)]
    Data(#[from] opdata::Error),
    /// A table of devices' figures could not be read.
    #[error("{}:{line}: {detail}; a table of devices has columns device, mem_bw, singleflops, num_sm, freq, l2cache, tdp, compute_capability", path.display())]
    Devices {
        /// The table.
        path: PathBuf,
        /// The line, 0 if it is not about one.
        line: u64,
        /// The reason.
        detail: String,
    },
    /// XGBoost's library was not found.
    #[error(
        "XGBoost's library (libxgboost.so) was not found; run scripts/setup, or set {variable} to the file (looked in: {})",
        list(looked)
    )]
    LibraryMissing {
        /// Environment variable that names it.
        variable: &'static str,
        /// The paths that were tried.
        looked: Vec<PathBuf>,
    },
    /// The library is there but cannot be used.
    #[error("{} cannot be used: {detail}; run scripts/setup to install the one that fits", path.display())]
    LibraryUnfit {
        /// The library.
        path: PathBuf,
        /// The reason.
        detail: String,
    },
    /// XGBoost refused a call.
    #[error("XGBoost: {call}: {detail}")]
    Xgboost {
        /// The function.
        call: &'static str,
        /// Its message, first line.
        detail: String,
    },
    /// Too few operators were measured at the same time.
    #[error(
        "{samples} slowdowns of operators measured at the same time, and {needed} are needed; measure more: opcollect pairs --sample N"
    )]
    FewPairs {
        /// Number of samples that there are.
        samples: usize,
        /// Number of samples that are needed.
        needed: usize,
    },
    /// A baseline could not be fitted.
    #[error("the {model} model cannot be fitted: {detail}")]
    Fit {
        /// The model.
        model: &'static str,
        /// The reason.
        detail: String,
    },
    /// No row can be used for training.
    #[error("nothing to learn from: {rows} rows, and {measured} were measured{}{}; collect some with opcollect, or import a log with measured records", without_shapes(*unusable), reasons(left_out))]
    NoSamples {
        /// Rows read.
        rows: usize,
        /// Rows with a time.
        measured: usize,
        /// Measured rows without the columns that features are computed from.
        unusable: usize,
        /// Why records of logs have no row.
        left_out: Vec<String>,
    },
    /// Too few samples, workloads or machines for the request.
    #[error("{what} needs at least {needed} {unit}, and there are {found}; {next}")]
    TooFew {
        /// The action that failed.
        what: String,
        /// The minimum number.
        needed: usize,
        /// Unit of the number.
        unit: &'static str,
        /// The number found.
        found: usize,
        /// The action that mends it.
        next: &'static str,
    },
    /// All measured times are equal, so there is nothing to learn.
    #[error(
        "all {samples} samples took {time_ns} ns: there is nothing to learn from a constant; is the time column right?"
    )]
    ConstantTarget {
        /// Samples.
        samples: usize,
        /// Their time.
        time_ns: f64,
    },
    /// The rows are of several machines, and the user did not choose one.
    #[error("the rows are of {} machines ({}): choose one with --machine NAME, or mix their times with --mixed-machines", machines.len(), machines.join(", "))]
    MixedMachines {
        /// Names of the machines.
        machines: Vec<String>,
    },
    /// No row is of this machine.
    #[error("no row is of machine `{name}`; there are: {}", machines.join(", "))]
    UnknownMachine {
        /// The machine's name.
        name: String,
        /// The machines that there are rows of.
        machines: Vec<String>,
    },
}

fn list(paths: &[PathBuf]) -> String {
    let shown: Vec<String> = paths.iter().map(|p| p.display().to_string()).collect();
    shown.join(", ")
}

fn reasons(left_out: &[String]) -> String {
    if left_out.is_empty() {
        String::new()
    } else {
        format!(" (records left out: {})", left_out.join("; "))
    }
}

fn without_shapes(count: usize) -> String {
    if count == 0 {
        String::new()
    } else {
        format!(" ({count} of them without shapes or traffic)")
    }
}
