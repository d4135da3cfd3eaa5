//! What a tuning run reports: operators before and after, the latency after a part of the trials, whole models in turn.

use opengine::device::Conditions;
use opengine::schedule::ScheduleSpec;

/// What tuning a model came to.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct TunedReport {
    /// The best schedule of each operator under each of the conditions.
    pub operators: Vec<TunedOperator>,
    /// The sum of operators after a part of the trials; shown where it was asked for.
    pub partial: Vec<Partial>,
    /// The whole model with default and with tuned schedules; empty if it was not asked for.
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
    /// What it was measured at.
    pub conditions: Conditions,
    /// Median time with the default schedule, nanoseconds.
    pub default_ns: Option<f64>,
    /// Median time with the best one.
    pub best_ns: f64,
    /// Schedules that were tried.
    pub schedules: u64,
    /// The row of the best one.
    pub row_id: String,
    /// What it is built by.
    pub spec: ScheduleSpec,
}

/// The sum of operators after some trials of each by a tuner.
#[derive(Debug, Clone, PartialEq)]
pub struct Partial {
    /// Name of the tuner.
    pub tuner: &'static str,
    /// What they were measured at.
    pub conditions: Conditions,
    /// Schedules tried of each operator beside the default one.
    pub trials: u64,
    /// Sum over all calls, nanoseconds; none while an operator has no time.
    pub sum_ns: Option<f64>,
}

/// A whole model with default (before) and with tuned schedules (after), measured in turn.
#[derive(Debug, Clone, PartialEq)]
pub struct Comparison {
    /// What it was measured at.
    pub conditions: Conditions,
    /// Median of the rounds' medians with default schedules, nanoseconds.
    pub before_ns: f64,
    /// The same with tuned ones.
    pub after_ns: f64,
    /// Median over the rounds of after over before.
    pub ratio: f64,
    /// Its distribution-free interval over the rounds, and the level of confidence that has (0 to 1).
    pub ratio_interval: [f64; 2],
    /// Confidence of the interval.
    pub level: f64,
    /// Rounds.
    pub rounds: u64,
    /// Largest difference of the tuned model's output from the reference.
    pub max_abs_error: f64,
}

impl Comparison {
    /// Of medians before and after, round by round.
    pub fn of(conditions: Conditions, rounds: &[(f64, f64)], max_abs_error: f64) -> Comparison {
        let middle = |mut values: Vec<f64>| {
            values.sort_by(f64::total_cmp);
            let place = values.len() / 2;
            values.get(place).copied().unwrap_or(f64::NAN)
        };
        let ratios: Vec<f64> = rounds
            .iter()
            .map(|(before, after)| after / before)
            .collect();
        let least = ratios.iter().copied().fold(f64::INFINITY, f64::min);
        let most = ratios.iter().copied().fold(0.0, f64::max);
        Comparison {
            conditions,
            before_ns: middle(rounds.iter().map(|(before, _)| *before).collect()),
            after_ns: middle(rounds.iter().map(|(_, after)| *after).collect()),
            ratio: middle(ratios),
            ratio_interval: [least, most],
            // The median lies outside of the range of n samples with the chance 2^(1 - n).
            level: 1.0 - 2.0_f64.powi(1 - rounds.len() as i32),
            rounds: rounds.len() as u64,
            max_abs_error,
        }
    }
}
