//! Errors of a comparison of two sets of rows, worded for the user who has to act on them.

use std::path::PathBuf;

use thiserror::Error;

use super::Machine;

/// The reason why two sets of rows cannot be compared.
#[derive(Debug, Error)]
pub enum CompareError {
    /// A file cannot be read.
    #[error(transparent)]
    Data(#[from] opdata::Error),
    /// The files hold no rows to compare.
    #[error("{} holds no row; measure something first", list(paths))]
    NoRows {
        /// The paths that were read.
        paths: Vec<PathBuf>,
    },
    /// Unlike machines.
    #[error(
        "unlike machines: {} is of {}, {} of {}; compare runs of one machine, or give --allow-other-machine to see how the machines differ",
        list(a),
        machines(a_machines),
        list(b),
        machines(b_machines)
    )]
    OtherMachine {
        /// The first side.
        a: Vec<PathBuf>,
        /// Its machines.
        a_machines: Vec<Machine>,
        /// The second side.
        b: Vec<PathBuf>,
        /// Its machines.
        b_machines: Vec<Machine>,
    },
    /// No point has a time on both sides.
    #[error(
        "no point has a time on both sides: {} has {a_measured} of {a_points} measured, {} has {b_measured} of {b_points}{}",
        list(a),
        list(b),
        because(reason)
    )]
    NothingMeasured {
        /// The first side.
        a: Vec<PathBuf>,
        /// Its points with a time.
        a_measured: u64,
        /// Its points.
        a_points: u64,
        /// The second side.
        b: Vec<PathBuf>,
        /// Its points with a time.
        b_measured: u64,
        /// Its points.
        b_points: u64,
        /// The reason why the first of them failed.
        reason: Option<String>,
    },
    /// No point is on both sides.
    #[error(
        "{} ({}) and {} ({}) have no point in common; compare runs of one model with the same shapes",
        list(a), a_models.join(", "), list(b), b_models.join(", ")
    )]
    NothingInCommon {
        /// The first side.
        a: Vec<PathBuf>,
        /// Its models.
        a_models: Vec<String>,
        /// The second side.
        b: Vec<PathBuf>,
        /// Its models.
        b_models: Vec<String>,
    },
}

fn list(paths: &[PathBuf]) -> String {
    match paths {
        [] => "nothing".to_owned(),
        [one] => one.display().to_string(),
        [first, rest @ ..] => format!("{} and {} more", first.display(), rest.len()),
    }
}

fn because(reason: &Option<String>) -> String {
    reason.as_ref().map_or_else(String::new, |reason| {
        format!("; the first failed with: {reason}")
    })
}

fn machines(machines: &[Machine]) -> String {
    let names: Vec<String> = machines.iter().map(ToString::to_string).collect();
    names.join(" and ")
}
