//! One line of advice for each of a profile's costliest operators: what bounds it, what would help, and how much at most.
//!
//! The bound is the roofline's ([`opdata::roofline`]): an operator takes at least the share of its time that it reaches
//! of the nearest roof. Without a calibration there is no bound, and no advice.

use opdata::contract::Level;
use opdata::roofline::{BOUND_FROM, Roof};
use serde::Serialize;

use super::summary::{Class, Line, Summary};

/// Operators that get advice.
const COSTLIEST: usize = 3;
/// Below this share of the threads' time, threads wait for each other.
const BUSY_FROM: f64 = 0.8;

/// Advice for an operator.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Advice {
    /// The operator.
    pub name: String,
    /// The resource that bounds it, e.g. `compute 61 %`.
    pub bound: String,
    /// The remedy.
    pub help: &'static str,
    /// Time in a run that this could save at most, nanoseconds.
    pub saves_at_most_ns: f64,
    /// The same as a share of the run's time.
    pub saves_at_most_share: f64,
}

/// Advice for the costliest operators, the costliest first.
pub fn advice(summary: &Summary) -> Vec<Advice> {
    let mut operators: Vec<&Line> = summary
        .lines
        .iter()
        .filter(|l| l.class == Class::Operator)
        .collect();
    operators.sort_by(|a, b| b.own_ns.total_cmp(&a.own_ns));
    let costliest = operators.into_iter().take(COSTLIEST);
    costliest
        .filter_map(|line| of_line(line, summary))
        .collect()
}

fn of_line(line: &Line, summary: &Summary) -> Option<Advice> {
    let standing = line.standing.as_ref()?;
    let (roof, share) = standing.nearest()?;
    let saves = line.own_ns * (1.0 - share).max(0.0);
    Some(Advice {
        name: line.name.clone(),
        bound: standing.words()?,
        help: help(roof, share, line.busy_share),
        saves_at_most_ns: saves,
        saves_at_most_share: saves / summary.total_ns,
    })
}

fn help(roof: Roof, share: f64, busy_share: Option<f64>) -> &'static str {
    if busy_share.is_some_and(|busy| busy < BUSY_FROM) {
        return "threads wait for each other: fewer threads, or a finer split of the parallel loop";
    }
    match roof {
        _ if share < BOUND_FROM => {
            "far from every roof: a better schedule (opcollect --sweep), or fusion with its neighbours"
        }
        Roof::Compute => {
            "a better schedule; beyond the roof only fewer operations or a narrower data type"
        }
        Roof::Read(Level::Memory) => {
            "move fewer bytes: fusion with its neighbours, or a narrower data type"
        }
        Roof::Read(_) => "reuse registers more: larger register tiles (opcollect --sweep)",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn advice_follows_the_bound() {
        assert!(help(Roof::Compute, 0.9, Some(0.5)).starts_with("threads wait"));
        assert!(help(Roof::Compute, 0.1, None).starts_with("far from every roof"));
        assert!(help(Roof::Compute, 0.9, Some(0.99)).contains("fewer operations"));
        assert!(help(Roof::Read(Level::Memory), 0.9, None).starts_with("move fewer bytes"));
        assert!(help(Roof::Read(Level::L1), 0.9, None).contains("register tiles"));
    }
}
