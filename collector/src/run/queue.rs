//! The points of a batch on their way to the workers.
//!
//! A point around which the machine drifted is put off to the end of its batch and measured again, in turn with others like
//! it, until the machine is quiet or patience is over; of its results the one with the least drift counts.

use std::collections::VecDeque;

use opengine::device::Conditions;
use opengine::protocol::{MeasureSpec, Measured};
use opengine::runner::{Failure, PointQueue};

use super::attempts::{Attempts, Patience};
use super::collect::{Collector, Job, Kernel, label};
use super::row::Ended;

/// A point that waits to be measured.
pub(super) struct Pending {
    pub job: usize,
    pub at: Conditions,
    pub attempts: Attempts,
}

/// The points of a batch while they are measured.
pub(super) struct Measuring<'q, 'a, 'l> {
    collector: &'q mut Collector<'a, 'l>,
    jobs: &'q [&'q Job<'q>],
    kernels: &'q [Kernel],
    left: VecDeque<Pending>,
    /// Points that workers have, the oldest first.
    under_way: VecDeque<Pending>,
    /// Whether to go on measuring what was put off.
    patience: Patience<'a>,
    /// Why no row can be written any more.
    failed: Option<anyhow::Error>,
}

impl<'q, 'a, 'l> Measuring<'q, 'a, 'l> {
    /// The points in `left`, of these jobs and their kernels.
    pub fn new(
        collector: &'q mut Collector<'a, 'l>,
        jobs: &'q [&'q Job<'q>],
        kernels: &'q [Kernel],
        left: VecDeque<Pending>,
    ) -> Self {
        let patience = Patience::new(collector.plan.patience, collector.clock);
        Measuring {
            collector,
            jobs,
            kernels,
            left,
            under_way: VecDeque::new(),
            patience,
            failed: None,
        }
    }

    /// Ends measuring.
    ///
    /// # Errors
    /// A row could not be written.
    pub fn end(self) -> anyhow::Result<()> {
        self.failed.map_or(Ok(()), Err)
    }

    fn settle(&mut self, point: &Pending, result: Result<Measured, Failure>) {
        let (job, kernel) = (self.jobs[point.job], &self.kernels[point.job]);
        let result = result.map(Ended::Measured);
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
            let put_off = point.attempts.best.is_some();
            let stopped = self.collector.stop.due(self.collector.clock).is_some();
            if stopped || (put_off && !self.patience.lasts()) {
                // What was measured is worth its row, though the machine drifted.
                if let Some(measured) = point.attempts.best.take() {
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
            };
            self.under_way.push_back(point);
            return Some(spec);
        }
        None
    }

    fn done(&mut self, result: Result<Measured, Failure>) {
        let Some(mut point) = self.under_way.pop_front() else {
            return;
        };
        let settled = match result {
            Err(failure) if failure.is_interruption() => return,
            Err(failure) => point.attempts.best.take().ok_or(failure),
            Ok(measured) => {
                let settled = point.attempts.add(measured);
                match point.attempts.best.take_if(|_| settled) {
                    Some(best) => Ok(best),
                    None => return self.left.push_back(point),
                }
            }
        };
        self.settle(&point, settled);
    }
}
