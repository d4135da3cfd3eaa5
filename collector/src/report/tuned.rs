//! The report of a tuning run: operators before and after, the latency after a part of the trials, whole models in
//! turn.

use opdata::stats::median;
use opengine::device::Conditions;
use opengine::schedule::ScheduleSpec;

use super::ratio::Ratio;

/// The result of tuning a model.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct TunedReport {
    /// The best schedule of each operator under each of the conditions.
    pub operators: Vec<TunedOperator>,
    /// The sum of operators after a part of the trials; printed on request.
    pub partial: Vec<Partial>,
    /// The whole model with default and with tuned schedules; empty if not requested.
    pub comparisons: Vec<Comparison>,
}

/// An operator that was tuned, by measurements in a fresh process.
#[derive(Debug, Clone, PartialEq)]
pub struct TunedOperator {
    /// Readable name.
    pub name: String,
    /// Function in the module.
    pub symbol: String,
    /// Calls in one run of the model.
    pub count: u64,
    /// The conditions of the measurement.
    pub conditions: Conditions,
    /// Median time with the default schedule, nanoseconds.
    pub default_ns: Option<f64>,
    /// Median time with the best one.
    pub best_ns: f64,
    /// Schedules that were tried.
    pub schedules: u64,
    /// The row of the best one.
    pub row_id: String,
    /// Its schedule specification.
    pub spec: ScheduleSpec,
    /// Slower schedules that were measured again, the fastest first: inside the model one of them may be faster.
    pub others: Vec<ScheduleSpec>,
}

/// The sum of operators after some trials of each by a tuner.
#[derive(Debug, Clone, PartialEq)]
pub struct Partial {
    /// Name of the tuner.
    pub tuner: &'static str,
    /// The conditions of the measurements.
    pub conditions: Conditions,
    /// Schedules tried of each operator beside the default one.
    pub trials: u64,
    /// Sum over all calls, nanoseconds; none while an operator has no time.
    pub sum_ns: Option<f64>,
}

/// A whole model with default (before) and with tuned schedules (after), measured in turn.
#[derive(Debug, Clone, PartialEq)]
pub struct Comparison {
    /// The conditions of the measurement.
    pub conditions: Conditions,
    /// Median of the rounds' medians with default schedules, nanoseconds.
    pub before_ns: f64,
    /// Median of the rounds' medians with tuned schedules, nanoseconds.
    pub after_ns: f64,
    /// The time after tuning over the time before, round by round.
    pub ratio: Ratio,
    /// Rounds.
    pub rounds: u64,
    /// Largest difference of the tuned model's output from the reference.
    pub max_abs_error: f64,
}

impl Comparison {
    /// The comparison of medians before and after, round by round; `None` if there is no round.
    pub fn of(
        conditions: Conditions,
        rounds: &[(f64, f64)],
        max_abs_error: f64,
    ) -> Option<Comparison> {
        let (before, after): (Vec<f64>, Vec<f64>) = rounds.iter().copied().unzip();
        let ratios: Vec<f64> = rounds.iter().map(|(b, a)| a / b).collect();
        Some(Comparison {
            conditions,
            before_ns: median(before)?,
            after_ns: median(after)?,
            ratio: Ratio::of(&ratios)?,
            rounds: rounds.len() as u64,
            max_abs_error,
        })
    }
}
