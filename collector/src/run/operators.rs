//! The operators: built in batches on all cores, then measured one at a time on a quiet machine.

use anyhow::Result;
use opdata::{CacheState, Row, RunManifest, RunWriter, Status};
use opmodels::Graph;
use opmodels::graph::Operator;

use super::network::{Network, quality};
use super::row::{PointFacts, RunFacts};
use crate::interrupt::Interrupt;
use crate::plan::Plan;
use crate::progress::Progress;
use crate::render::{OperatorReport, PointOutcome, PointReport, TimeReport, units};
use crate::worker::lab::{Failure, Lab};
use crate::worker::protocol::{Built, KernelSpec, MeasureSpec, Measured};

/// Kernels built before the first of them is measured: enough to keep all cores busy, few enough for memory.
const BATCH: usize = 64;
/// A point around which the machine was slower than this, relative to its best, is measured again.
const DRIFT_BOUND: f64 = 1.10;
/// How often a point is measured at most.
const ATTEMPTS: usize = 3;

/// Where rows go.
pub(super) struct Sink<'a> {
    pub writer: &'a mut RunWriter,
    pub manifest: &'a mut RunManifest,
}

impl Sink<'_> {
    fn append(&mut self, row: &Row) -> Result<()> {
        self.writer.append(row)?;
        self.manifest.counts.add(row);
        Ok(())
    }
}

/// A kernel, or why there is none.
type Kernel = std::result::Result<Built, Failure>;

/// Builds and measures every operator of `graph` at every number of threads and cache state.
///
/// # Errors
/// A row cannot be written.
#[allow(
    clippy::too_many_arguments,
    reason = "each is a separate collaborator of the one loop there is"
)]
pub(super) fn measure(
    plan: &Plan,
    graph: &Graph,
    facts: &RunFacts<'_>,
    network: &Network,
    lab: &mut dyn Lab,
    sink: &mut Sink<'_>,
    progress: &mut dyn Progress,
    interrupt: &Interrupt,
) -> Result<Vec<OperatorReport>> {
    let settings: Vec<(u32, CacheState)> = plan
        .threads
        .iter()
        .flat_map(|&t| plan.cache_states.iter().map(move |&c| (t, c)))
        .collect();
    let mut reports = Vec::with_capacity(graph.operators.len());
    let mut next_id = 0;
    for batch in graph.operators.chunks(BATCH) {
        let specs: Vec<KernelSpec> = batch
            .iter()
            .zip(next_id..)
            .map(|(operator, id)| kernel_spec(operator, id))
            .collect();
        let kernels = build(&specs, lab, progress);
        next_id += batch.len() as u64;
        progress.begin("measure", (batch.len() * settings.len()) as u64);
        for ((operator, spec), kernel) in batch.iter().zip(&specs).zip(kernels) {
            let mut points = Vec::with_capacity(settings.len());
            for &(threads, cache) in &settings {
                let label = format!(
                    "{} ({threads} thread{}, {cache})",
                    operator.symbol,
                    if threads == 1 { "" } else { "s" }
                );
                progress.working(&label);
                let result = match &kernel {
                    _ if interrupt.requested() => Err(Failure::interrupted()),
                    Ok(_) => {
                        let point = MeasureSpec {
                            id: spec.id,
                            threads: threads as usize,
                            cache,
                            policy: plan.timing,
                        };
                        settled(lab, &point)
                    }
                    Err(failure) => Err(failure.clone()),
                };
                let in_model_ns = network.in_model_ns(threads, &operator.symbol);
                let point = PointFacts {
                    operator,
                    threads,
                    cache,
                    built: kernel.as_ref().ok(),
                    in_model_ns,
                };
                let (row, outcome) = facts.row(sink.writer.rows(), &point, result);
                sink.append(&row)?;
                progress.point(&label, &words(&outcome));
                points.push(PointReport {
                    threads,
                    cache,
                    outcome,
                });
            }
            reports.push(OperatorReport::new(operator, points));
        }
        progress.end();
    }
    Ok(reports)
}

fn kernel_spec(operator: &Operator, id: u64) -> KernelSpec {
    KernelSpec {
        id,
        symbol: operator.symbol.clone(),
        arguments: operator.args.clone(),
        own_weights: operator.weight_sets == operator.count,
        reduction_length: operator.reduction_length(),
    }
}

/// Builds a batch; the results are in its order.
fn build(specs: &[KernelSpec], lab: &mut dyn Lab, progress: &mut dyn Progress) -> Vec<Kernel> {
    progress.begin("build", specs.len() as u64);
    let first = specs.first().map_or(0, |s| s.id);
    let mut kernels: Vec<Option<Kernel>> = specs.iter().map(|_| None).collect();
    lab.build(specs, &mut |id, result| {
        let place = (id - first) as usize;
        if let (Some(slot), Some(spec)) = (kernels.get_mut(place), specs.get(place)) {
            let outcome = match &result {
                Ok(built) => units::time(
                    (built.schedule_ns + built.lower_ns + built.codegen_ns + built.jit_ns) as f64,
                ),
                Err(failure) => format!("{}: {}", failure.status, failure.reason),
            };
            progress.point(&spec.symbol, &outcome);
            *slot = Some(result);
        }
    });
    progress.end();
    let lost = || {
        Err(Failure {
            status: Status::CompileFailed,
            reason: "the build gave no result".to_owned(),
        })
    };
    kernels
        .into_iter()
        .map(|k| k.unwrap_or_else(lost))
        .collect()
}

/// Measures a point, again if the machine drifted meanwhile; of several results the one with the least drift counts.
fn settled(lab: &mut dyn Lab, point: &MeasureSpec) -> std::result::Result<Measured, Failure> {
    let mut best: Option<Measured> = None;
    for _ in 0..ATTEMPTS {
        let measured = lab.measure(point)?;
        let enough = measured.taken.is_none() || measured.drift <= DRIFT_BOUND;
        if best.as_ref().is_none_or(|b| measured.drift < b.drift) {
            best = Some(measured);
        }
        if enough {
            break;
        }
    }
    best.ok_or_else(|| Failure {
        status: Status::Crashed,
        reason: "no attempt gave a result".to_owned(),
    })
}

fn words(outcome: &PointOutcome) -> String {
    match outcome {
        PointOutcome::Measured { time, .. } => match time.relative_half_width() {
            Some(half) => format!("{} ±{}", units::time(time.median_ns), units::percent(half)),
            None => units::time(time.median_ns),
        },
        PointOutcome::NotMeasured { status, reason } => format!("{status}: {reason}"),
    }
}

/// The time of a measured point, for the report.
pub(super) fn time_report(measured: &Measured) -> Option<TimeReport> {
    let summary = measured.taken.as_ref()?.samples.summary().ok()?;
    Some(TimeReport::new(&summary, quality(&summary, measured.drift)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::check::Comparison;
    use crate::measure::timer::Taken;
    use crate::plan::TimingPolicy;
    use crate::stats::{Nanos, Samples, StopReason, StopRule};

    /// Measures with the drifts that the test lays out, one a call.
    struct Drifting(Vec<f64>);

    impl Lab for Drifting {
        fn build(&mut self, _: &[KernelSpec], _: &mut dyn FnMut(u64, Kernel)) {}

        fn measure(&mut self, point: &MeasureSpec) -> std::result::Result<Measured, Failure> {
            let samples: Samples = [Nanos::ZERO; 6].into_iter().collect();
            Ok(Measured {
                id: point.id,
                comparison: Comparison {
                    max_abs_error: 0.0,
                    max_rel_error: 0.0,
                    tolerance_abs: 0.0,
                    tolerance_rel: 0.0,
                    wrong: 0,
                    elements: 1,
                    worst: None,
                },
                taken: Some(Taken {
                    samples,
                    number: 1,
                    warmup: 1,
                    stopped: StopReason::Precise,
                }),
                drift: self.0.remove(0),
            })
        }
    }

    fn settled_drift(drifts: &[f64]) -> (f64, usize) {
        let mut lab = Drifting(drifts.to_vec());
        let stop = StopRule {
            ci_target: 1.0,
            min_samples: 6,
            max_samples: 6,
            budget_ns: 1,
        };
        let point = MeasureSpec {
            id: 0,
            threads: 1,
            cache: CacheState::Hot,
            policy: TimingPolicy { warmup: 1, stop },
        };
        let measured = settled(&mut lab, &point).unwrap();
        (measured.drift, drifts.len() - lab.0.len())
    }

    #[test]
    fn a_point_is_measured_again_while_the_machine_drifts() {
        assert_eq!(settled_drift(&[1.02, 9.0]), (1.02, 1));
        assert_eq!(settled_drift(&[1.5, 1.05, 9.0]), (1.05, 2));
        assert_eq!(
            settled_drift(&[1.5, 1.2, 1.3, 9.0]),
            (1.2, 3),
            "the best of three counts"
        );
    }
}
