//! Candidates → rows: built in batches on all cores, then measured one at a time on a quiet machine.
//!
//! A point around which the machine drifted is put off to the end of its batch and measured again, a few times at most,
//! unless the machine is still disturbed then; of its results the one with the least drift counts. A row is written as
//! soon as its point is settled.

use std::collections::{HashMap, VecDeque};

use anyhow::Result;
use opdata::{Row, Status};
use opengine::device::Conditions;
use opengine::protocol::{KernelSpec, MeasureSpec, Measured};
use opengine::runner::process::{Failure, Made, Runner};
use opengine::schedule::ScheduleSpec;
use opmodels::Graph;
use opmodels::graph::Operator;
use opreport::progress::Progress;
use opreport::units;

use super::ledger::{Ledger, PointName};
use super::network::Network;
use super::row::{PointFacts, RunFacts};
use super::stop::Stop;
use super::tally::Tally;
use super::work::Candidate;
use crate::plan::Plan;

/// Kernels built before the first of them is measured: enough to keep all cores busy, few enough for memory.
const BATCH: usize = 64;
/// A point around which the machine was slower than this, relative to its best, is measured again.
pub(super) const DRIFT_BOUND: f64 = 1.10;
/// How often a point is measured at most.
pub(super) const ATTEMPTS: usize = 3;
/// A candidate this many times slower than the best known of its operator is not worth samples.
const PRUNE_FACTOR: f64 = 20.0;

/// A kernel, or why there is none.
type Kernel = std::result::Result<Made, Failure>;

/// Measures the candidates of one import.
pub(super) struct Collector<'a, 'l> {
    pub plan: &'a Plan,
    pub graph: &'a Graph,
    pub facts: &'a RunFacts<'a>,
    pub network: &'a Network,
    pub runner: &'a mut dyn Runner,
    pub ledger: &'a mut Ledger<'l>,
    pub tally: &'a mut Tally,
    pub progress: &'a mut dyn Progress,
    pub stop: &'a Stop,
}

/// A candidate of a batch with what is left to do of it.
struct Job<'a> {
    candidate: &'a Candidate,
    operator: &'a Operator,
    /// Its conditions without a row.
    conditions: Vec<Conditions>,
    /// The points under all its conditions.
    points: Vec<PointName>,
}

/// A point that waits to be measured.
struct Pending {
    job: usize,
    at: Conditions,
    attempts: Attempts,
}

/// What was measured of a point so far.
#[derive(Default)]
pub(super) struct Attempts {
    count: usize,
    pub best: Option<Measured>,
}

impl Attempts {
    /// Adds a result; whether the point is settled with the best one.
    pub fn add(&mut self, measured: Measured) -> bool {
        let quiet = measured.drift <= DRIFT_BOUND || measured.taken.is_none();
        self.count += 1;
        if self.best.as_ref().is_none_or(|b| measured.drift < b.drift) {
            self.best = Some(measured);
        }
        quiet || self.count >= ATTEMPTS
    }
}

impl Collector<'_, '_> {
    /// Builds and measures every candidate that has no row yet, until all are done or the run is to stop.
    ///
    /// # Errors
    /// A row cannot be written.
    pub fn collect(&mut self, candidates: &[Candidate]) -> Result<()> {
        for batch in candidates.chunks(BATCH) {
            if self.stop.due().is_some() {
                break;
            }
            let graph = self.graph;
            let jobs: Vec<Job<'_>> = batch
                .iter()
                .map(|candidate| self.job(candidate, &graph.operators[candidate.operator]))
                .filter(|job| !job.conditions.is_empty())
                .collect();
            if !jobs.is_empty() {
                self.batch(&jobs)?;
                self.ledger.sync()?;
            }
        }
        Ok(())
    }

    fn job<'j>(&self, candidate: &'j Candidate, operator: &'j Operator) -> Job<'j> {
        let name = |at| {
            self.facts
                .point_name(operator, &candidate.schedule_spec, at)
        };
        let at = || candidate.conditions.iter();
        let points: Vec<PointName> = at().map(name).collect();
        let conditions = at().zip(&points);
        let conditions = conditions
            .filter(|(_, point)| !self.ledger.has(point))
            .map(|(at, _)| at.clone())
            .collect();
        Job {
            candidate,
            operator,
            conditions,
            points,
        }
    }

    fn batch(&mut self, jobs: &[Job<'_>]) -> Result<()> {
        let kernels = self.build(jobs);
        let mut queue = VecDeque::new();
        let mut duplicates = Vec::new();
        for (job, kernel) in kernels.iter().enumerate() {
            match kernel {
                Ok(Made::New(built)) => {
                    let hash = format!("{:016x}", built.program_hash);
                    match self.ledger.duplicate(&jobs[job].points, &hash) {
                        Some(row) => duplicates.push((job, format!("the row {row}"))),
                        None => queue.extend(jobs[job].conditions.iter().map(|at| Pending {
                            job,
                            at: at.clone(),
                            attempts: Attempts::default(),
                        })),
                    }
                }
                Ok(Made::Duplicate { of }) => {
                    duplicates.push((job, format!("the candidate number {of} of its plan")));
                }
                Err(failure) if failure.is_interruption() => {}
                Err(failure) => {
                    for at in &jobs[job].conditions {
                        self.settle(&jobs[job], at, kernel, Err(failure.clone()))?;
                    }
                }
            }
        }
        for (job, of) in duplicates {
            let duplicate = Failure {
                status: Status::Skipped,
                reason: format!("the program is that of {of}"),
            };
            for at in &jobs[job].conditions {
                self.settle(&jobs[job], at, &kernels[job], Err(duplicate.clone()))?;
            }
        }
        self.measure(jobs, &kernels, queue)?;
        let ids: Vec<u64> = jobs.iter().map(|job| job.candidate.place).collect();
        self.runner.forget(&ids);
        Ok(())
    }

    fn measure(
        &mut self,
        jobs: &[Job<'_>],
        kernels: &[Kernel],
        mut queue: VecDeque<Pending>,
    ) -> Result<()> {
        // Whether a second attempt met the disturbance that the first was put off for: then others will too.
        let mut lasting = false;
        while let Some(mut point) = queue.pop_front() {
            let job = &jobs[point.job];
            let waited = point.attempts.count > 0;
            if self.stop.due().is_some() || (waited && lasting) {
                // What was measured is worth its row, though the machine drifted.
                if let Some(measured) = point.attempts.best {
                    self.settle(job, &point.at, &kernels[point.job], Ok(measured))?;
                }
                continue;
            }
            self.progress.working(&label(job, &point.at));
            let spec = MeasureSpec {
                id: job.candidate.place,
                at: point.at.clone(),
                policy: self.plan.timing,
                prune_beyond_ns: self.prune_beyond_ns(job, &point.at),
            };
            let settled = match self.runner.measure(&spec) {
                Err(failure) if failure.is_interruption() => continue,
                Err(failure) => point.attempts.best.take().ok_or(failure),
                Ok(measured) => {
                    let done = point.attempts.add(measured);
                    lasting = lasting || (waited && !done);
                    match point.attempts.best.take_if(|_| done || lasting) {
                        Some(best) => Ok(best),
                        None => {
                            queue.push_back(point);
                            continue;
                        }
                    }
                }
            };
            self.settle(job, &point.at, &kernels[point.job], settled)?;
        }
        Ok(())
    }

    /// For schedules that were drawn; those that were asked for one by one are measured as asked.
    fn prune_beyond_ns(&self, job: &Job<'_>, at: &Conditions) -> Option<u64> {
        if matches!(
            job.candidate.schedule_spec,
            ScheduleSpec::Default | ScheduleSpec::Trace { .. }
        ) {
            return None;
        }
        let point = job.points.first()?;
        let best = self.ledger.best_ns(&point.import_key, &point.symbol, at)?;
        Some((best * PRUNE_FACTOR) as u64)
    }

    fn settle(
        &mut self,
        job: &Job<'_>,
        at: &Conditions,
        kernel: &Kernel,
        result: std::result::Result<Measured, Failure>,
    ) -> Result<()> {
        let built = match kernel {
            Ok(Made::New(built)) => Some(built.as_ref()),
            _ => None,
        };
        let point = PointFacts {
            operator: job.operator,
            schedule_spec: &job.candidate.schedule_spec,
            conditions: at,
            built,
            in_model_ns: self.network.in_model_ns(at.threads, &job.operator.symbol),
        };
        let row = self.facts.row(self.ledger.next_ordinal(), &point, result);
        self.ledger.append(&row)?;
        self.tally.add(&row);
        self.progress.point(&label(job, at), &words(&row));
        Ok(())
    }

    /// Builds a batch; the results are in its order.
    fn build(&mut self, jobs: &[Job<'_>]) -> Vec<Kernel> {
        let specs: Vec<KernelSpec> = jobs
            .iter()
            .map(|job| kernel_spec(self.graph, job.operator, job.candidate))
            .collect();
        self.progress.working(&format!(
            "building {}",
            units::plural(specs.len() as u64, "kernel")
        ));
        let mut results: HashMap<u64, Kernel> = HashMap::with_capacity(specs.len());
        self.runner.build(&specs, &mut |id, result| {
            results.insert(id, result);
        });
        let lost = || {
            Err(Failure {
                status: Status::CompileFailed,
                reason: "the build gave no result".to_owned(),
            })
        };
        specs
            .iter()
            .map(|spec| results.remove(&spec.id).unwrap_or_else(lost))
            .collect()
    }
}

/// What a worker needs to build a candidate.
pub(super) fn kernel_spec(graph: &Graph, operator: &Operator, candidate: &Candidate) -> KernelSpec {
    KernelSpec {
        id: candidate.place,
        symbol: operator.symbol.clone(),
        schedule_spec: candidate.schedule_spec.clone(),
        arguments: operator.args.clone(),
        weight_reuse_bytes: graph.weight_reuse_bytes(operator),
        reduction_length: operator.reduction_length(),
    }
}

fn label(job: &Job<'_>, at: &Conditions) -> String {
    format!("{} ({at})", job.operator.symbol)
}

fn words(row: &Row) -> String {
    match (row.time_median_ns, row.time_ci_low_ns, row.time_ci_high_ns) {
        (Some(median), Some(low), Some(high)) if median > 0.0 && low < high => {
            let half = (high - low) / 2.0 / median;
            format!("{} ±{}", units::time(median), units::percent(half))
        }
        (Some(median), ..) => units::time(median),
        (None, ..) => format!("{}: {}", row.status, row.reason.as_deref().unwrap_or("-")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use opengine::measure::check::Comparison;
    use opengine::measure::sampling::Taken;
    use opengine::stats::{Nanos, StopReason};

    fn measured(drift: f64) -> Measured {
        Measured {
            id: 0,
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
                samples: [Nanos::ZERO; 6].into_iter().collect(),
                number: 1,
                warmup: 1,
                stopped: StopReason::Precise,
            }),
            drift,
        }
    }

    /// The drift that counts in the end, and how many attempts it took.
    fn settled(drifts: &[f64]) -> (f64, usize) {
        let mut attempts = Attempts::default();
        for &drift in drifts {
            if attempts.add(measured(drift)) {
                break;
            }
        }
        (attempts.best.unwrap().drift, attempts.count)
    }

    #[test]
    fn a_point_is_measured_again_while_the_machine_drifts() {
        assert_eq!(settled(&[1.02, 9.0]), (1.02, 1));
        assert_eq!(settled(&[1.5, 1.05, 9.0]), (1.05, 2));
        assert_eq!(
            settled(&[1.5, 1.2, 1.3, 9.0]),
            (1.2, 3),
            "the best of three counts"
        );
    }

    #[test]
    fn a_wrong_result_is_not_measured_again() {
        let mut attempts = Attempts::default();
        assert!(attempts.add(Measured {
            taken: None,
            ..measured(2.0)
        }));
    }
}
