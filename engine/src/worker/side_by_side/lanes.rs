//! Long-lived threads, each with a pool of TVM's on processors of its own.
//!
//! TVM's pool belongs to the thread that calls, and the pool of a thread that has ended goes on using its processors. So a lane's
//! thread is started once and kept until the worker ends.

use std::collections::HashMap;
use std::sync::mpsc::{Sender, channel};

use anyhow::{Context, anyhow};
use tvm_bridge::threads::Pool;

/// The work of a lane.
pub(super) type Job = Box<dyn FnOnce() -> anyhow::Result<()> + Send>;

/// A job, and where its result goes.
type Handed = (Job, Sender<anyhow::Result<()>>);

/// The lanes that were used so far, by number and processors: two lanes on the same processors are two threads.
#[derive(Default)]
pub(super) struct Lanes {
    threads: HashMap<(usize, Vec<usize>), Sender<Handed>>,
}

impl Lanes {
    /// Does a job on each lane at the same time, lane `i` on the processors of the `i`-th job, and waits for all.
    ///
    /// # Errors
    /// Fails with the first error of a job, or if a lane's thread cannot be started.
    pub fn run(&mut self, jobs: Vec<(Vec<usize>, Job)>) -> anyhow::Result<()> {
        let (done, results) = channel();
        let many = jobs.len();
        for (number, (processors, job)) in jobs.into_iter().enumerate() {
            let lane = self.lane(number, processors)?;
            let gone = |_| anyhow!("a lane's thread has ended");
            lane.send((job, done.clone())).map_err(gone)?;
        }
        drop(done);
        let mut first = Ok(());
        for _ in 0..many {
            let result = results.recv().context("a lane's thread has ended")?;
            if first.is_ok() {
                first = result;
            }
        }
        first
    }

    fn lane(&mut self, number: usize, processors: Vec<usize>) -> anyhow::Result<&Sender<Handed>> {
        use std::collections::hash_map::Entry;
        match self.threads.entry((number, processors)) {
            Entry::Occupied(there) => Ok(there.into_mut()),
            Entry::Vacant(new) => {
                let processors = new.key().1.clone();
                let (hand, jobs) = channel::<Handed>();
                let (started, start) = channel();
                std::thread::Builder::new()
                    .name(format!("lane {number}"))
                    .spawn(move || {
                        let pool = Pool::start_on(&processors);
                        let is_there = pool.is_ok();
                        let _ = started.send(pool.as_ref().map(drop).map_err(ToString::to_string));
                        if is_there {
                            for (job, done) in jobs {
                                let _ = done.send(job());
                            }
                        }
                    })
                    .context("a lane's thread")?;
                let pool = start.recv().context("a lane's thread has ended")?;
                pool.map_err(|problem| anyhow!("the pool of a lane: {problem}"))?;
                Ok(new.insert(hand))
            }
        }
    }
}
