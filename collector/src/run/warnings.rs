//! The summary's warnings about times: a busy machine, operators whose sum is not their model, threads that slow it
//! down.
//!
//! Bounds are wide: on a quiet machine the operators of a model measured alone sum to 70 to 112 % of it.

use opdata::contract::Environment;
use opdata::contract::interference::{BUSY_SHARE, is_disturbed};
use opdata::{CacheState, Row};
use opengine::device::Conditions;
use opreport::units;

use crate::report::{ModelOutcome, OperatorReport, WholeModelReport};

/// Shares of the whole model that the sum of its operators lies between on a machine that was not disturbed.
const SUM_BOUNDS: [f64; 2] = [0.65, 1.5];
/// Calling the operators is a large part of models shorter than this, in nanoseconds.
const CALLS_NS: f64 = 1e5;
/// More threads slow a model down by this factor only if something takes their cores away.
const SLOWER: f64 = 1.1;
/// Models shorter than this, in nanoseconds, may be slower on several threads by themselves.
const SHORT_NS: f64 = 1e6;
/// Time of an operator alone over its time inside the model, beyond which (or below whose inverse) one was disturbed.
const ALONE_OVER_INSIDE: f64 = 2.0;
/// Operators shorter than this, in nanoseconds, differ by how they are called.
const SHORT_CALL_NS: f64 = 20e3;

/// A warning about the machine's load at the start of the run.
pub(super) fn of_environment(environment: &Environment) -> Option<String> {
    let load = environment.state.load_1min?;
    let cores = f64::from(environment.state.cores_usable);
    (load > cores).then(|| {
        format!("the machine was busy when the run began (load {load:.1} on {cores} cores): times may be too long")
    })
}

/// Warnings about the times of one import; `cores` is the number that its threads could use.
pub(super) fn of_import(
    operators: &[OperatorReport],
    whole_model: &[WholeModelReport],
    cores: u32,
) -> Vec<String> {
    let mut warnings = Vec::new();
    for report in whole_model {
        let Some(whole_ns) = end_to_end_ns(report) else {
            continue;
        };
        let threads = report.conditions.without_cache();
        if let Some(share) = sum_ns(operators, &report.conditions).map(|sum| sum / whole_ns)
            && (share > SUM_BOUNDS[1] || (share < SUM_BOUNDS[0] && whole_ns >= CALLS_NS))
        {
            warnings.push(format!(
                "{threads}: the operators measured alone sum to {} of the whole model; one or the other was disturbed: measure again on a quiet machine",
                units::percent(share)
            ));
        }
        if let Some(fewer) = disturbed(report, whole_model, cores) {
            warnings.push(format!(
                "{threads}: the whole model is slower ({}) than with {fewer}: other work took the cores; measure again on a quiet machine",
                units::time(whole_ns)
            ));
        }
    }
    warnings
}

/// A warning about interference during the measurements.
pub(super) fn of_load(disturbed: u64, measured: u64) -> Option<String> {
    (disturbed > 0).then(|| {
        format!(
            "other processes took more than {} of the CPU time while {disturbed} of {} were measured: their grades are lower for it",
            units::percent(BUSY_SHARE),
            units::plural(measured, "point")
        )
    })
}

/// A warning about a whole model's time, from the slowdown around its runs.
pub(super) fn of_slowdown(at: &Conditions, slowdown: f64) -> Option<String> {
    is_disturbed(slowdown).then(|| {
        format!(
            "{}: the whole model was measured under interference (the reference kernel took {slowdown:.2} times its idle time): measure again on a quiet machine",
            at.without_cache()
        )
    })
}

/// Whether the whole model was slower with this number of threads than with fewer.
pub(super) fn is_slower(at: &Conditions, whole_model: &[WholeModelReport], cores: u32) -> bool {
    let report = whole_model
        .iter()
        .find(|r| r.conditions.is_like_but_for_caches(at));
    report.is_some_and(|r| disturbed(r, whole_model, cores).is_some())
}

/// Whether a row's time alone and inside the model cannot both be of a quiet machine. The model runs default schedules.
pub(super) fn contradicts_model(row: &Row) -> bool {
    let (Some(alone), Some(inside)) = (row.time_median_ns, row.in_model_time_ns) else {
        return false;
    };
    let comparable = row.has_default_schedule()
        && row.cache_state == Some(CacheState::Model)
        && alone.max(inside) >= SHORT_CALL_NS;
    comparable && !(1.0 / ALONE_OVER_INSIDE..=ALONE_OVER_INSIDE).contains(&(alone / inside))
}

/// The smallest number of threads, in words, with which the model ran faster by more than chance. `None` if there is
/// none.
fn disturbed(
    report: &WholeModelReport,
    whole_model: &[WholeModelReport],
    cores: u32,
) -> Option<String> {
    let own =
        end_to_end_ns(report).filter(|ns| *ns >= SHORT_NS && report.conditions.threads <= cores)?;
    let faster = whole_model
        .iter()
        .filter(|other| other.conditions.device == report.conditions.device)
        .filter(|other| other.conditions.threads < report.conditions.threads)
        .filter(|other| end_to_end_ns(other).is_some_and(|ns| own > SLOWER * ns))
        .min_by_key(|other| other.conditions.threads)?;
    let threads = faster.conditions.without_cache();
    Some(format!(
        "{threads} ({})",
        units::time(end_to_end_ns(faster)?)
    ))
}

fn end_to_end_ns(report: &WholeModelReport) -> Option<f64> {
    match &report.outcome {
        ModelOutcome::Measured(timing) => Some(timing.time.median_ns).filter(|ns| *ns > 0.0),
        ModelOutcome::NotMeasured { .. } => None,
    }
}

/// Time of all calls of the operators, if every one has a time.
fn sum_ns(operators: &[OperatorReport], at: &Conditions) -> Option<f64> {
    let times = operators
        .iter()
        .map(|o| Some(o.median_ns(at)? * o.count as f64));
    times.sum::<Option<f64>>().filter(|_| !operators.is_empty())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use opdata::Quality;

    use super::*;
    use crate::report::{Latency, ModelTiming, PointOutcome, PointReport, TimeReport};

    fn time(median_ns: f64) -> TimeReport {
        TimeReport {
            median_ns,
            ci_low_ns: median_ns,
            ci_high_ns: median_ns,
            samples: 10,
            quality: Some(Quality::A),
        }
    }

    fn whole(threads: u32, ms: f64) -> WholeModelReport {
        WholeModelReport {
            conditions: Conditions::new(threads, CacheState::Model),
            outcome: ModelOutcome::Measured(ModelTiming {
                time: time(ms * 1e6),
                checked_against: "nothing".to_owned(),
                instrumented_sum_ns: None,
                latency: Latency {
                    p95_ns: ms * 1e6,
                    p99_ns: ms * 1e6,
                    mean_ns: ms * 1e6,
                },
            }),
        }
    }

    /// An operator that is called twice and takes so long at 1 and 2 threads.
    fn operator(ms: [f64; 2]) -> OperatorReport {
        let graph = crate::render::testing::graph();
        let point = |(threads, ms): (u32, f64)| PointReport {
            conditions: Conditions::new(threads, CacheState::Model),
            outcome: PointOutcome::Measured {
                time: time(ms * 1e6),
                in_model_ns: None,
            },
            counts: BTreeMap::new(),
        };
        OperatorReport {
            count: 2,
            ..OperatorReport::new(
                &graph.operators[0],
                [1, 2].into_iter().zip(ms).map(point).collect(),
            )
        }
    }

    #[test]
    fn parts_that_do_not_add_up_and_threads_that_slow_down_get_a_warning() {
        let quiet = [whole(1, 10.0), whole(2, 6.0)];
        assert_eq!(of_import(&[operator([4.9, 2.5])], &quiet, 2), [""; 0]);
        let busy = [whole(1, 10.0), whole(2, 12.0)];
        insta::assert_snapshot!(of_import(&[operator([2.45, 13.8])], &busy, 2).join("\n"), @r"
        1 thread: the operators measured alone sum to 49.0 % of the whole model; one or the other was disturbed: measure again on a quiet machine
        2 threads: the operators measured alone sum to 230.0 % of the whole model; one or the other was disturbed: measure again on a quiet machine
        2 threads: the whole model is slower (12.00 ms) than with 1 thread (10.00 ms): other work took the cores; measure again on a quiet machine
        ");
        let two = Conditions::new(2, CacheState::Hot);
        assert!(is_slower(&two, &busy, 2));
        assert!(
            !is_slower(&two, &busy, 1),
            "2 threads on 1 core wait for each other"
        );
        let short = [whole(1, 0.01), whole(2, 0.02)];
        assert!(!is_slower(&two, &short, 2));
        assert_eq!(of_import(&[operator([0.002, 0.004])], &short, 2), [""; 0]);
    }

    #[test]
    fn a_whole_model_gets_a_warning_if_the_machine_was_slow_around_it() {
        let at = Conditions::new(2, CacheState::Model);
        assert_eq!(of_slowdown(&at, 1.1), None);
        insta::assert_snapshot!(of_slowdown(&at, 1.306).unwrap(), @"2 threads: the whole model was measured under interference (the reference kernel took 1.31 times its idle time): measure again on a quiet machine");
    }

    #[test]
    fn a_row_gets_a_warning_if_its_operator_takes_another_time_inside_the_model() {
        let row = |alone: f64, inside: f64| Row {
            schedule_space: Some("default".to_owned()),
            cache_state: Some(CacheState::Model),
            time_median_ns: Some(alone),
            in_model_time_ns: Some(inside),
            ..opdata::testing::measured("dense")
        };
        assert!(!contradicts_model(&row(1.5e5, 1e5)));
        assert!(contradicts_model(&row(2.3e5, 1e5)));
        assert!(contradicts_model(&row(0.4e5, 1e5)));
        assert!(!contradicts_model(&row(1e3, 4e3)), "short");
        let flushed = Row {
            cache_state: Some(CacheState::Flushed),
            ..row(2.3e5, 1e5)
        };
        assert!(!contradicts_model(&flushed));
    }
}
