//! The points of a batch on their way to the workers.
//!
//! A point that interference slowed down is put off to the end of its batch. There it is measured again, in turn with
//! others like it, until it is undisturbed or the re-measure budget is spent. The worker refuses it if the machine is not
//! quiet when its turn comes. Of its results the one with the least slowdown counts. Where time is short, points of later
//! batches, which have no result at all, come first.

use std::collections::VecDeque;
use std::time::Duration;

use opengine::device::Conditions;
use opengine::interference::remeasure::{Best, Budget, relative};
use opengine::protocol::{MeasureSpec, Measured, QuietMoment};
use opengine::runner::{Failure, PointQueue};

use super::collect::{Collector, Job, Kernel, label};
use super::row::Ended;

/// A point that waits to be measured.
pub(super) struct Pending {
    pub job: usize,
    pub at: Conditions,
    pub best: Best<Measured>,
}

/// The points of a batch while they are measured.
pub(super) struct Measuring<'q, 'a, 'l> {
    collector: &'q mut Collector<'a, 'l>,
    jobs: &'q [&'q Job<'q>],
    kernels: &'q [Kernel],
    left: VecDeque<Pending>,
    /// Points that workers have, the oldest first, and when each was handed out.
    under_way: VecDeque<(Duration, Pending)>,
    /// The re-measure budget.
    budget: Budget,
    /// Number of the batch's points, and the time when its first kernel began to be built.
    points: usize,
    begun: Duration,
    /// Why no row can be written any more.
    failed: Option<anyhow::Error>,
}

impl<'q, 'a, 'l> Measuring<'q, 'a, 'l> {
    /// The points in `left`, of these jobs and their kernels, which began to be built at `begun`.
    pub fn new(
        collector: &'q mut Collector<'a, 'l>,
        jobs: &'q [&'q Job<'q>],
        kernels: &'q [Kernel],
        left: VecDeque<Pending>,
        begun: Duration,
    ) -> Self {
        let budget = Budget::new(collector.plan.remeasure_budget, collector.clock.now());
        Measuring {
            collector,
            jobs,
            kernels,
            points: left.len(),
            left,
            under_way: VecDeque::new(),
            budget,
            begun,
            failed: None,
        }
    }

    /// Ends measuring.
    ///
    /// # Errors
    /// Fails if a row could not be written.
    pub fn end(self) -> anyhow::Result<()> {
        self.failed.map_or(Ok(()), Err)
    }

    /// Whether there is time for points that were put off; one of them was just taken from `left`.
    fn may_measure_again(&mut self) -> bool {
        let Collector {
            stop,
            clock,
            ledger,
            ..
        } = &*self.collector;
        let put_off = 1 + self.left.len() + self.under_way.len();
        self.budget.lasts(clock.now(), || {
            let left = stop.left(*clock)?;
            // Estimated from the first measurement of the whole batch.
            let took = clock.now().saturating_sub(self.begun);
            let others = ledger.left().saturating_sub(put_off as u64);
            Some(left.saturating_sub(took.mul_f64(others as f64 / self.points as f64)))
        })
    }

    fn settle(&mut self, point: &Pending, result: Result<Measured, Failure>) {
        let (job, kernel) = (self.jobs[point.job], &self.kernels[point.job]);
        let result = result.map(|measured| Ended::Measured(Box::new(measured)));
        if let Err(error) = self.collector.settle(job, &point.at, kernel, result) {
            self.failed = Some(error);
        }
    }
}

impl PointQueue for Measuring<'_, '_, '_> {
    fn next(&mut self) -> Option<MeasureSpec> {
        while self.failed.is_none() {
            let mut point = self.left.pop_front()?;
            let job = self.jobs[point.job];
            let put_off = point.best.is_some();
            let stopped = self.collector.stop.due(self.collector.clock).is_some();
            if stopped || (put_off && !self.may_measure_again()) {
                // The measurement is worth its row, in spite of the interference.
                if let Some(measured) = point.best.take() {
                    self.settle(&point, Ok(measured));
                }
                continue;
            }
            self.collector.progress.working(&label(job, &point.at));
            let spec = MeasureSpec {
                id: job.candidate.place,
                at: point.at.clone(),
                policy: self.collector.plan.timing,
                prune_beyond_ns: self.collector.prune_beyond_ns(job, &point.at),
                quiet: match put_off {
                    true => QuietMoment::Required,
                    false => QuietMoment::Ignored,
                },
            };
            let now = self.collector.clock.now();
            self.under_way.push_back((now, point));
            return Some(spec);
        }
        None
    }

    fn done(&mut self, result: Result<Measured, Failure>) {
        let Some((begun, mut point)) = self.under_way.pop_front() else {
            return;
        };
        let settled = match result {
            Err(failure) if failure.is_interruption() => return,
            Err(failure) => {
                // A refusal carries no times of its stages: the worker only waited.
                if point.best.is_some() {
                    self.collector.took("wait", begun);
                }
                point.best.take().ok_or(failure)
            }
            Ok(measured) => {
                self.collector.stages.add_point(&measured.spent);
                // A wrong result is not measured again.
                let interference = match measured.taken {
                    Some(_) => relative(measured.slowdown),
                    None => 0.0,
                };
                if !point.best.add(interference, measured) {
                    return self.left.push_back(point);
                }
                point.best.take().ok_or_else(Failure::interrupted)
            }
        };
        self.settle(&point, settled);
    }
}
