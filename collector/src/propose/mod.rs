//! Decides which points a run measures. A [`Proposer`] is asked for candidates, then given their outcomes, and so on.
//!
//! Default schedules, sweeps, chosen points and MetaSchedule samples are decided in advance ([`mod@draw`]): their proposer,
//! [`Listed`], ignores outcomes. A tuner uses them, and is one more proposer. The run decides where a candidate is
//! measured, and writes its row.

mod chosen;
mod draw;
mod listed;
mod tuning;
mod turns;

pub use chosen::{check_found, check_machine};
pub use draw::{Drawing, draw};
pub use listed::Listed;
pub(crate) use tuning::Grid;

use std::sync::Arc;

use opdata::Row;
use opengine::device::Conditions;
use opengine::schedule::ScheduleSpec;

/// An operator with a schedule.
#[derive(Debug, Clone, PartialEq)]
pub struct Candidate {
    /// Number in the plan's order, from 0.
    pub place: u64,
    /// Number of the operator in the graph.
    pub operator: usize,
    /// The schedule.
    pub schedule_spec: ScheduleSpec,
    /// The conditions of the measurement.
    pub conditions: Vec<Conditions>,
}

/// The outcome of a candidate under one set of conditions.
#[derive(Debug, Clone, PartialEq)]
pub struct Outcome {
    /// The candidate's place.
    pub place: u64,
    /// The conditions of the measurement.
    pub conditions: Conditions,
    /// The row of its point: status, times, schedule, counts, everything that a cost model learns from.
    pub row: Arc<Row>,
}

/// A tuner's trials of an operator under one set of conditions.
#[derive(Debug, Clone, PartialEq)]
pub struct Trials {
    /// Name of the tuner.
    pub tuner: &'static str,
    /// Number of the operator in the graph.
    pub operator: usize,
    /// The conditions of the measurement.
    pub conditions: Conditions,
    /// Median times in nanoseconds in the order of the trials; the first is the default schedule's. None where one failed.
    pub times: Vec<Option<f64>>,
}

/// Decides what is measured next. The same plan, seed and outcomes must give the same proposals: a resumed run begins
/// anew and is given the outcomes that its rows hold.
pub trait Proposer {
    /// Proposes at most `n` further candidates; none when there is nothing left to propose.
    fn propose(&mut self, n: usize) -> Vec<Candidate>;

    /// Takes the outcomes of the candidates proposed last: one for each of their points that has a row. Called only if
    /// there are no fixed candidates.
    fn observe(&mut self, outcomes: &[Outcome]);

    /// The candidates, in order, of a proposer that does not look at outcomes; empty for one that decides by them.
    fn fixed_candidates(&self) -> &[Candidate];

    /// Whether outcomes decide what it proposes.
    fn decides_by_outcomes(&self) -> bool {
        self.fixed_candidates().is_empty()
    }

    /// The times of an operator's schedules in the order in which a tuner tried them; of no use to other proposers.
    fn trials(&self) -> Vec<Trials> {
        Vec::new()
    }

    /// Warnings for the user at the end.
    fn warnings(&self) -> Vec<String> {
        Vec::new()
    }

    /// Points that it proposes in all, or at most if outcomes decide.
    fn points(&self) -> u64 {
        self.fixed_candidates()
            .iter()
            .map(|c| c.conditions.len() as u64)
            .sum()
    }
}
