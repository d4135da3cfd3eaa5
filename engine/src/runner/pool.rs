//! Several workers that measure at the same time, on a device whose measurements do not disturb each other.
//!
//! The first worker builds, describes spaces and runs the whole model, so that duplicates are found among all kernels.
//! A worker that gets a point of a kernel that it does not hold builds that kernel first.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};

use super::transport::Launch;
use super::{Failure, Made, PointQueue, RunnerOrder, Supervisor};
use crate::protocol::{KernelSpec, MeasureSpec, Measured};

/// Points handed out beyond the oldest without a result, for each worker. Results wait in memory for their turn, and
/// have no row yet.
const AHEAD: usize = 4;

/// Where kernels and whole models are built, checked and timed: one or more workers.
pub struct WorkerPool {
    /// The worker that describes spaces and runs whole models.
    pub first: Supervisor,
    others: Vec<Supervisor>,
}

impl WorkerPool {
    /// A pool of the number of workers in `order`; each is launched when it is first needed.
    pub fn new(launch: Arc<dyn Launch>, order: RunnerOrder) -> WorkerPool {
        let supervisor = |unit: u32| {
            let mut order = order.clone();
            order.setup.unit = unit;
            Supervisor::new(Arc::clone(&launch), order)
        };
        let mut units = order.units.iter().copied();
        WorkerPool {
            first: supervisor(units.next().unwrap_or_default()),
            others: units.map(supervisor).collect(),
        }
    }

    fn all(&mut self) -> impl Iterator<Item = &mut Supervisor> {
        std::iter::once(&mut self.first).chain(&mut self.others)
    }

    /// Builds kernels, reporting each as it ends.
    pub fn build(
        &mut self,
        kernels: &[KernelSpec],
        report: &mut dyn FnMut(u64, Result<Made, Failure>),
    ) {
        let WorkerPool { first, others } = self;
        first.build(kernels, &mut |id, result| {
            if let (Ok(Made::New(_)), Some(spec)) = (&result, kernels.iter().find(|k| k.id == id)) {
                others.iter_mut().for_each(|o| o.adopt(spec.clone()));
            }
            report(id, result);
        });
    }

    /// Measures what `queue` hands out until it has nothing left; several points at once where there are several workers.
    pub fn measure_all(&mut self, queue: &mut dyn PointQueue) {
        if self.others.is_empty() {
            while let Some(point) = queue.next() {
                queue.done(self.first.measure(&point));
            }
            return;
        }
        std::thread::scope(|scope| {
            let (answer, answers) = channel();
            let desks: Vec<Sender<Handed>> = self
                .all()
                .enumerate()
                .map(|(worker, supervisor)| {
                    let (hand, handed) = channel();
                    let answer = answer.clone();
                    scope.spawn(move || serve(supervisor, worker, &handed, &answer));
                    hand
                })
                .collect();
            Exchange::new(desks).run(queue, &answers);
        });
    }

    /// Frees kernels that will not be measured again.
    pub fn forget(&mut self, ids: &[u64]) {
        self.all().for_each(|s| s.forget(ids));
    }

    /// Ends the workers, with all that is in their memory; the next request starts them again.
    pub fn rest(&mut self) {
        self.all().for_each(Supervisor::rest);
    }
}

/// A point on its way to a worker, with its number in the order of handing out.
type Handed = (u64, MeasureSpec);

/// A result on its way back.
struct Answer {
    worker: usize,
    number: u64,
    result: Result<Measured, Failure>,
}

/// Measures the points handed to one worker until no more are handed out.
fn serve(
    supervisor: &mut Supervisor,
    worker: usize,
    handed: &Receiver<Handed>,
    answers: &Sender<Answer>,
) {
    for (number, point) in handed {
        let result = supervisor.measure(&point);
        let answer = Answer {
            worker,
            number,
            result,
        };
        if answers.send(answer).is_err() {
            break;
        }
    }
}

/// Hands points to free workers and puts their results back into order.
struct Exchange {
    desks: Vec<Sender<Handed>>,
    free: Vec<usize>,
    /// Number of the next point handed out, and of the oldest without a result.
    next: u64,
    oldest: u64,
    waiting: BTreeMap<u64, Result<Measured, Failure>>,
}

impl Exchange {
    fn new(desks: Vec<Sender<Handed>>) -> Exchange {
        Exchange {
            free: (0..desks.len()).rev().collect(),
            desks,
            next: 0,
            oldest: 0,
            waiting: BTreeMap::new(),
        }
    }

    fn run(mut self, queue: &mut dyn PointQueue, answers: &Receiver<Answer>) {
        loop {
            self.hand_out(queue);
            if self.next == self.oldest {
                break;
            }
            let Ok(answer) = answers.recv() else { break };
            self.free.push(answer.worker);
            self.waiting.insert(answer.number, answer.result);
            while let Some(result) = self.waiting.remove(&self.oldest) {
                self.oldest += 1;
                queue.done(result);
            }
        }
    }

    fn hand_out(&mut self, queue: &mut dyn PointQueue) {
        let bound = self.oldest + (AHEAD * self.desks.len()) as u64;
        while self.next < bound && !self.free.is_empty() {
            let Some(point) = queue.next() else { break };
            let Some(worker) = self.free.pop() else { break };
            // The worker's thread lives until this end of its channel is dropped.
            if self.desks[worker].send((self.next, point)).is_err() {
                break;
            }
            self.next += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;
    use std::sync::Mutex;
    use std::time::Duration;

    use super::*;
    use crate::runner::RunnerFactory;
    use crate::runner::testing::{Act, FakeRunner, WorkerStep, kernel, order, point};

    struct Queue {
        left: VecDeque<MeasureSpec>,
        results: Vec<Result<u64, Failure>>,
    }

    impl PointQueue for Queue {
        fn next(&mut self) -> Option<MeasureSpec> {
            self.left.pop_front()
        }
        fn done(&mut self, result: Result<Measured, Failure>) {
            self.results.push(result.map(|m| m.id));
        }
    }

    /// Measures kernels 0 to 7 with this many workers; the first point is slow. What came back, and how many points were
    /// measured at once at most.
    fn measured(workers: usize) -> (Vec<u64>, usize) {
        let busy = Arc::new(Mutex::new((0usize, 0usize)));
        let seen = Arc::clone(&busy);
        let fake = FakeRunner::new(move |step| {
            if let WorkerStep::Measure { kernel, .. } = step {
                {
                    let mut busy = seen.lock().unwrap();
                    busy.0 += 1;
                    busy.1 = busy.1.max(busy.0);
                }
                let ms = if kernel.id == 0 { 60 } else { 10 };
                std::thread::sleep(Duration::from_millis(ms));
                seen.lock().unwrap().0 -= 1;
            }
            Act::takes(1e3)
        });
        let order = RunnerOrder {
            units: (0..workers as u32).collect(),
            ..order()
        };
        let mut runner = fake.runner(order, "".as_ref());
        let kernels: Vec<KernelSpec> = (0..8).map(|id| kernel(id, "conv")).collect();
        runner.build(&kernels, &mut |_, result| assert!(result.is_ok()));
        let mut queue = Queue {
            left: (0..8).map(point).collect(),
            results: Vec::new(),
        };
        runner.measure_all(&mut queue);
        let ids = queue.results.into_iter().map(|r| r.unwrap()).collect();
        (ids, busy.lock().unwrap().1)
    }

    #[test]
    fn results_come_in_order_however_many_workers_measure() {
        let in_order: Vec<u64> = (0..8).collect();
        assert_eq!(measured(1), (in_order.clone(), 1));
        let (ids, at_once) = measured(3);
        assert_eq!(ids, in_order);
        assert!(at_once > 1, "{at_once} at once");
    }
}
