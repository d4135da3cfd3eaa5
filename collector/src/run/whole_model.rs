//! The whole model: built once, checked, then timed at every number of threads.

use std::collections::HashMap;
use std::path::Path;

use opdata::contract::whole_model::{AtThreads, WHOLE_MODEL_FORMAT, WholeModelRecord};
use opdata::{CacheState, Status};
use opengine::device::Conditions;
use opengine::interference::remeasure::{Budget, relative, until_quiet};
use opengine::interrupt::Interrupt;
use opengine::protocol::{
    Agreement, Counting, WholeModelMeasured, WholeModelReady, WholeModelSpec,
};
use opengine::runner::{Failure, WorkerPool};
use opmodels::Graph;
use opreport::progress::Progress;
use opreport::units;

use super::grades::quality;
use super::session::Clock;
use crate::plan::{Plan, model_conditions};
use crate::report::{Latency, ModelOutcome, ModelTiming, TimeReport, WholeModelReport};

/// The times of the whole model.
#[derive(Debug, Default)]
pub(crate) struct WholeModelTimes {
    /// The whole models of the final report.
    pub reports: Vec<WholeModelReport>,
    /// Median time of one call inside the model, by conditions and function.
    in_model_ns: HashMap<(Conditions, String), f64>,
    ready: Option<WholeModelReady>,
    measured: Vec<(Conditions, WholeModelMeasured)>,
}

impl WholeModelTimes {
    /// Median time of one call of an operator inside the model, in nanoseconds.
    pub fn in_model_ns(&self, at: &Conditions, symbol: &str) -> Option<f64> {
        let at = Conditions {
            cache: CacheState::Model,
            ..at.clone()
        };
        self.in_model_ns.get(&(at, symbol.to_owned())).copied()
    }

    /// A model whose operators were simulated on a device. It has no end-to-end time: what the device's host computes has
    /// none.
    fn simulated(
        conditions: Vec<Conditions>,
        ready: &WholeModelReady,
        agreement: &Agreement,
        graph: &Graph,
    ) -> WholeModelTimes {
        let calls = |symbols: &mut dyn FnMut(&str) -> bool| -> u64 {
            let operators = graph.operators.iter().filter(|o| symbols(&o.symbol));
            operators.map(|o| o.count).sum()
        };
        let all = calls(&mut |_| true);
        let cpu_side = calls(&mut |symbol| agreement.cpu_side.iter().any(|own| own == symbol));
        let reason = format!(
            "the device takes {} of simulated time; {cpu_side} of {all} calls run on the host beside it, all or in part, and have no time there; against {}",
            units::time(agreement.device_ns),
            ready.checked_against,
        );
        let failure = Failure {
            status: Status::Simulated,
            reason,
        };
        WholeModelTimes {
            ready: Some(ready.clone()),
            ..WholeModelTimes::failed(conditions, &failure)
        }
    }

    fn failed(conditions: Vec<Conditions>, failure: &Failure) -> WholeModelTimes {
        let outcome = || ModelOutcome::NotMeasured {
            status: failure.status,
            reason: failure.reason.clone(),
        };
        let reports = conditions
            .into_iter()
            .map(|conditions| WholeModelReport {
                conditions,
                outcome: outcome(),
            })
            .collect();
        WholeModelTimes {
            reports,
            ..WholeModelTimes::default()
        }
    }
}

/// Builds, checks and times the model.
pub(super) fn measure(
    plan: &Plan,
    graph: &Graph,
    jobs: usize,
    runner: &mut WorkerPool,
    progress: &mut dyn Progress,
    interrupt: &Interrupt,
    clock: &dyn Clock,
) -> WholeModelTimes {
    progress.working("building the whole model and checking its output");
    let ready = match runner.first.build_whole_model(WholeModelSpec {
        graph: graph.clone(),
        jobs,
        schedules: Default::default(),
        export: None,
        watch_tasks: false,
    }) {
        Ok(ready) => ready,
        Err(failure) => {
            progress.note(&format!(
                "the whole model was not measured: {}",
                failure.reason
            ));
            return WholeModelTimes::failed(model_conditions(plan), &failure);
        }
    };
    if let Some(reason) = ready.complaint() {
        progress.note(&format!(
            "the whole model computes something else: {reason}"
        ));
        return WholeModelTimes::failed(
            model_conditions(plan),
            &Failure {
                status: Status::WrongResult,
                reason,
            },
        );
    }
    if let Some(agreement) = &ready.agreement {
        return WholeModelTimes::simulated(model_conditions(plan), &ready, agreement, graph);
    }
    let mut times = WholeModelTimes::default();
    for at in model_conditions(plan) {
        let label = format!("whole model ({})", at.without_cache());
        progress.working(&label);
        let result = if interrupt.requested() {
            Err(Failure::interrupted())
        } else {
            let mut budget = Budget::new(plan.remeasure_budget, clock.now());
            until_quiet(
                |again| {
                    runner
                        .first
                        .measure_whole_model(&at, plan.timing, Counting::Quiet { again })
                },
                disturbance,
                || !interrupt.requested() && budget.lasts(clock.now(), || None),
            )
        };
        let outcome = match result {
            Ok(measured) => times.take(&at, &ready, measured),
            Err(failure) => ModelOutcome::NotMeasured {
                status: failure.status,
                reason: failure.reason,
            },
        };
        progress.note(&format!("{label}  {}", words(&outcome)));
        times.reports.push(WholeModelReport {
            conditions: at,
            outcome,
        });
    }
    times.ready = Some(ready);
    times
}

/// A whole model counts as measured under interference if half of the median's interval exceeds this share of the median.
/// With several threads, a process that takes one core for a moment stops all of them.
const STEADY: f64 = 0.05;

/// Interference in a result; up to 1 is good enough. It shows in the spread of the samples and in the slowdown of the
/// reference kernel. It also shows in operators that take longer in the watched runs than the whole model does.
fn disturbance(measured: &WholeModelMeasured) -> f64 {
    let Ok(summary) = measured.taken.samples.summary() else {
        return f64::INFINITY;
    };
    let parts_over_whole = measured.instrumented_sum_ns / summary.median.get();
    (summary.relative_half_width() / STEADY)
        .max(relative(measured.slowdown))
        .max(relative(parts_over_whole))
}

impl WholeModelTimes {
    /// Conditions of the model's runs, and the slowdown around them.
    pub fn slowdowns(&self) -> impl Iterator<Item = (&Conditions, f64)> {
        let measured = self.measured.iter();
        measured.map(|(at, measured)| (at, measured.slowdown))
    }

    fn take(
        &mut self,
        at: &Conditions,
        ready: &WholeModelReady,
        measured: WholeModelMeasured,
    ) -> ModelOutcome {
        for operator in &measured.operators {
            self.in_model_ns
                .insert((at.clone(), operator.symbol.clone()), operator.median_ns);
        }
        let outcome = match measured.taken.samples.summary() {
            Ok(summary) => ModelOutcome::Measured(ModelTiming {
                time: TimeReport::new(&summary, Some(quality(&summary, measured.slowdown))),
                checked_against: ready.checked_against.clone(),
                // Calls on another machine are not watched.
                instrumented_sum_ns: (!measured.operators.is_empty())
                    .then_some(measured.instrumented_sum_ns),
                latency: Latency::new(&summary),
            }),
            Err(error) => ModelOutcome::NotMeasured {
                status: Status::Crashed,
                reason: error.to_string(),
            },
        };
        self.measured.push((at.clone(), measured));
        outcome
    }
}

fn words(outcome: &ModelOutcome) -> String {
    match outcome {
        ModelOutcome::Measured(timing) => units::time(timing.time.median_ns),
        ModelOutcome::NotMeasured { status, reason } => format!("{status}: {reason}"),
    }
}

/// Writes what was measured into a file of the run's folder, if the model was built.
pub(super) fn save(path: &Path, times: &WholeModelTimes) -> anyhow::Result<()> {
    let Some(ready) = &times.ready else {
        return Ok(());
    };
    let threads = times
        .measured
        .iter()
        .map(|(at, times)| AtThreads {
            threads: at.threads,
            device: at.device.clone(),
            times,
        })
        .collect();
    let record = WholeModelRecord {
        format: WHOLE_MODEL_FORMAT,
        built: Some(ready),
        threads,
    };
    Ok(record.save(path)?)
}

/// Reads what [`save`] wrote; nothing if it is not there, or not of all these conditions.
pub(super) fn load(path: &Path, conditions: &[Conditions]) -> Option<WholeModelTimes> {
    let record: WholeModelRecord<WholeModelReady, WholeModelMeasured> =
        WholeModelRecord::load(path).ok()?;
    let ready = record.built?;
    let mut times = WholeModelTimes::default();
    for at in record.threads {
        let conditions = Conditions {
            device: at.device,
            ..Conditions::new(at.threads, CacheState::Model)
        };
        let outcome = times.take(&conditions, &ready, at.times);
        times.reports.push(WholeModelReport {
            conditions,
            outcome,
        });
    }
    times.ready = Some(ready);
    let complete = conditions
        .iter()
        .all(|at| times.measured.iter().any(|(measured, _)| measured == at));
    complete.then_some(times)
}

#[cfg(test)]
mod tests {
    use opengine::measure::sampling::Taken;
    use opengine::stats::{Nanos, StopReason};

    use super::*;

    #[test]
    fn operators_that_take_longer_than_the_whole_model_are_measured_again() {
        let is_disturbed = |sum_ns: f64| {
            disturbance(&WholeModelMeasured {
                taken: Taken {
                    samples: (0..12).filter_map(|_| Nanos::new(1e6).ok()).collect(),
                    number: 1,
                    warmup: 1,
                    stopped: StopReason::Precise,
                },
                left_out: 0,
                operators: Vec::new(),
                instrumented_sum_ns: sum_ns,
                instrumented_total_ns: sum_ns,
                slowdown: 1.0,
            }) > 1.0
        };
        // A model of few operators spends much time between them. No model takes less time than its operators.
        let found = [0.0, 0.6e6, 1.05e6, 1.2e6].map(is_disturbed);
        assert_eq!(found, [false, false, false, true]);
    }
}
