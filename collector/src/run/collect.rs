//! Candidates → rows: proposed and built in batches on all cores, then measured on a quiet machine.
//!
//! The proposer of the candidates hears what became of each batch before it proposes the next. A row is written as soon
//! as its point is settled; when that is, the queue decides ([`super::queue`]).

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use anyhow::Result;
use opdata::{Row, Status};
use opengine::device::Conditions;
use opengine::interference::remeasure::Best;
use opengine::protocol::{KernelSpec, Reuse};
use opengine::runner::{Failure, Made, WorkerPool};
use opengine::schedule::ScheduleSpec;
use opmodels::Graph;
use opmodels::graph::Operator;
use opreport::progress::Progress;
use opreport::units;

use super::ledger::{Ledger, PointName};
use super::queue::{Measuring, Pending};
use super::row::{Ended, PointFacts, RunFacts};
use super::session::Clock;
use super::stages::Stages;
use super::stop::Stop;
use super::tally::Tally;
use super::warnings;
use super::whole_model::WholeModelTimes;
use crate::plan::Plan;
use crate::propose::{Candidate, Outcome, Proposer};

/// Kernels built before the first of them is measured: enough to keep all cores busy, few enough for memory.
const BATCH: usize = 64;
/// A candidate this many times slower than the best known of its operator is not worth samples.
const PRUNE_FACTOR: f64 = 20.0;
/// The factor while schedules are tuned: only the fastest are of interest.
const PRUNE_FACTOR_OF_TUNING: f64 = 2.0;

/// A kernel, or why there is none.
pub(super) type Kernel = std::result::Result<Made, Failure>;

/// Measures the candidates of one import.
pub(super) struct Collector<'a, 'l> {
    pub plan: &'a Plan,
    pub graph: &'a Graph,
    pub facts: &'a RunFacts<'a>,
    pub times_in_model: &'a WholeModelTimes,
    pub ledger: &'a mut Ledger<'l>,
    pub stages: &'a mut Stages,
    pub tally: &'a mut Tally,
    pub progress: &'a mut dyn Progress,
    pub stop: &'a Stop,
    pub clock: &'a dyn Clock,
    /// Cores that threads can use.
    pub cores: u32,
}

/// A candidate of a batch with its remaining work.
pub(super) struct Job<'a> {
    pub candidate: &'a Candidate,
    pub operator: &'a Operator,
    /// Its conditions without a row.
    pub conditions: Vec<Conditions>,
    /// The points under all its conditions.
    pub points: Vec<PointName>,
}

impl Collector<'_, '_> {
    /// Builds and measures every candidate that has no row yet, until nothing more is proposed or the run is to stop.
    /// Returns whether nothing more was proposed.
    ///
    /// # Errors
    /// Fails if a row cannot be written.
    pub fn collect(
        &mut self,
        runner: &mut WorkerPool,
        proposer: &mut dyn Proposer,
    ) -> Result<bool> {
        while self.stop.due(self.clock).is_none() {
            let begun = self.clock.now();
            let candidates = proposer.propose(BATCH);
            self.took("propose", begun);
            if candidates.is_empty() {
                return Ok(true);
            }
            let graph = self.graph;
            let jobs: Vec<Job<'_>> = candidates
                .iter()
                .map(|candidate| self.job(candidate, &graph.operators[candidate.operator]))
                .collect();
            let left: Vec<&Job<'_>> = jobs.iter().filter(|j| !j.conditions.is_empty()).collect();
            if !left.is_empty() {
                self.batch(runner, &left)?;
                let begun = self.clock.now();
                self.ledger.sync()?;
                self.took("write", begun);
            }
            if proposer.decides_by_outcomes() {
                let outcomes: Vec<Outcome> =
                    jobs.iter().flat_map(|job| self.outcomes(job)).collect();
                let begun = self.clock.now();
                proposer.observe(&outcomes);
                self.took("propose", begun);
            }
        }
        Ok(false)
    }

    /// The outcomes of a candidate's points, as far as they have rows.
    fn outcomes(&self, job: &Job<'_>) -> Vec<Outcome> {
        let points = job.candidate.conditions.iter().zip(&job.points);
        points
            .filter_map(|(at, point)| {
                Some(Outcome {
                    place: job.candidate.place,
                    conditions: at.clone(),
                    row: self.ledger.row(point)?,
                })
            })
            .collect()
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

    fn batch(&mut self, runner: &mut WorkerPool, jobs: &[&Job<'_>]) -> Result<()> {
        let begun = self.clock.now();
        let kernels = self.build(runner, jobs);
        self.took("build", begun);
        let mut queue = VecDeque::new();
        let mut compiled = Vec::new();
        let mut duplicates = Vec::new();
        for (job, kernel) in kernels.iter().enumerate() {
            match kernel {
                Ok(Made::New(built)) => {
                    let hash = format!("{:016x}", built.program_hash);
                    match self.ledger.duplicate(&jobs[job].points, &hash) {
                        Some(row) => duplicates.push((job, format!("the row {row}"))),
                        None if self.plan.compile_only => compiled.push(job),
                        None => queue.extend(jobs[job].conditions.iter().map(|at| Pending {
                            job,
                            at: at.clone(),
                            best: Best::default(),
                        })),
                    }
                }
                Ok(Made::Duplicate { of }) => {
                    duplicates.push((job, format!("the candidate number {of} of its plan")));
                }
                Err(failure) if failure.is_interruption() => {}
                Err(failure) => {
                    for at in &jobs[job].conditions {
                        self.settle(jobs[job], at, kernel, Err(failure.clone()))?;
                    }
                }
            }
        }
        for job in compiled {
            for at in &jobs[job].conditions {
                self.settle(jobs[job], at, &kernels[job], Ok(Ended::Compiled))?;
            }
        }
        for (job, of) in duplicates {
            let duplicate = Failure {
                status: Status::Skipped,
                reason: format!("the program is that of {of}"),
            };
            for at in &jobs[job].conditions {
                self.settle(jobs[job], at, &kernels[job], Err(duplicate.clone()))?;
            }
        }
        let mut measuring = Measuring::new(self, jobs, &kernels, queue, begun);
        runner.measure_all(&mut measuring);
        measuring.end()?;
        let ids: Vec<u64> = jobs.iter().map(|job| job.candidate.place).collect();
        runner.forget(&ids);
        Ok(())
    }

    /// The time beyond which a drawn schedule is not measured further. Schedules requested one by one are measured
    /// fully.
    pub(super) fn prune_beyond_ns(&self, job: &Job<'_>, at: &Conditions) -> Option<u64> {
        match job.candidate.schedule_spec {
            ScheduleSpec::Default => return None,
            ScheduleSpec::Trace { .. } if self.plan.tuning.is_none() => return None,
            _ => {}
        }
        let point = job.points.first()?;
        let best = self.ledger.best_ns(&point.import_key, &point.symbol, at)?;
        let factor = match self.plan.tuning {
            Some(_) => PRUNE_FACTOR_OF_TUNING,
            None => PRUNE_FACTOR,
        };
        Some((best * factor) as u64)
    }

    pub(super) fn settle(
        &mut self,
        job: &Job<'_>,
        at: &Conditions,
        kernel: &Kernel,
        result: std::result::Result<Ended, Failure>,
    ) -> Result<()> {
        let begun = self.clock.now();
        let built = match kernel {
            Ok(Made::New(built)) => Some(built.as_ref()),
            _ => None,
        };
        let point = PointFacts {
            operator: job.operator,
            schedule_spec: &job.candidate.schedule_spec,
            conditions: at,
            built,
            in_model_ns: self.times_in_model.in_model_ns(at, &job.operator.symbol),
            doubtful: warnings::is_slower(at, &self.times_in_model.reports, self.cores),
        };
        let row = self.facts.row(self.ledger.next_ordinal(), &point, result);
        self.ledger.append(&row)?;
        self.took("write", begun);
        self.tally.add(&row);
        self.progress.point(&label(job, at), &words(&row));
        Ok(())
    }

    /// Adds the time since `begun` to a stage.
    pub(super) fn took(&mut self, stage: &'static str, begun: Duration) {
        let now = self.clock.now();
        self.stages.add(stage, now.saturating_sub(begun));
    }

    /// Builds a batch; the results are in its order.
    fn build(&mut self, runner: &mut WorkerPool, jobs: &[&Job<'_>]) -> Vec<Kernel> {
        let specs: Vec<KernelSpec> = jobs
            .iter()
            .map(|job| kernel_spec(job.operator, job.candidate))
            .collect();
        self.progress.working(&format!(
            "building {}",
            units::plural(specs.len() as u64, "kernel")
        ));
        let mut results: HashMap<u64, Kernel> = HashMap::with_capacity(specs.len());
        runner.build(&specs, &mut |id, result| {
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

/// A candidate's specification for a worker.
pub(crate) fn kernel_spec(operator: &Operator, candidate: &Candidate) -> KernelSpec {
    KernelSpec {
        id: candidate.place,
        symbol: operator.symbol.clone(),
        schedule_spec: candidate.schedule_spec.clone(),
        arguments: operator.args.clone(),
        reuse: Reuse {
            inputs: operator.input_reuse_bytes.unwrap_or(0),
            weights: operator.weight_reuse_bytes.unwrap_or(0),
            outputs: operator.output_reuse_bytes.unwrap_or(0),
        },
        reduction_length: operator.reduction_length(),
    }
}

pub(super) fn label(job: &Job<'_>, at: &Conditions) -> String {
    format!("{} ({at})", job.operator.symbol)
}

/// A kernel's use of its device's resources, or only the word "compiled".
fn compiled_words(row: &Row) -> String {
    let registers = row.registers_per_thread;
    let registers = registers.map(|n| units::plural(n, "register"));
    let occupancy = row.occupancy;
    let occupancy = occupancy.map(|share| format!("occupancy {}", units::percent(share)));
    let parts: Vec<String> = [Some(row.status.to_string()), registers, occupancy]
        .into_iter()
        .flatten()
        .collect();
    parts.join(", ")
}

fn words(row: &Row) -> String {
    match (row.time_median_ns, row.time_ci_low_ns, row.time_ci_high_ns) {
        (Some(median), Some(low), Some(high)) if median > 0.0 && low < high => {
            let half = (high - low) / 2.0 / median;
            format!("{} ±{}", units::time(median), units::percent(half))
        }
        (Some(median), ..) => units::time(median),
        (None, ..) if row.status == Status::Compiled => compiled_words(row),
        (None, ..) => format!("{}: {}", row.status, row.reason.as_deref().unwrap_or("-")),
    }
}
