//! Keeps a worker alive and turns whatever happens to it into outcomes of single points.
//!
//! A kernel that crashes or hangs its worker costs its own point: the worker is started anew and goes on with the rest.
//! When several builds were under way at a crash, each is tried again alone, so that the blame falls on the right one.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::{Duration, Instant};

use opdata::Status;

use super::process::{Launcher, Worker, WorkerError};
use super::protocol::{
    Built, KernelSpec, MeasureSpec, Measured, NetworkMeasured, NetworkReady, NetworkSpec, Reply,
    Request, Setup,
};
use crate::interrupt::Interrupt;
use crate::plan::{TimingPolicy, WorkerPolicy};

/// Why a kernel was not built or a point not measured.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// How it counts in the dataset.
    pub status: Status,
    /// Why, in one line.
    pub reason: String,
}

impl Failure {
    /// The user stopped the run before the point.
    pub fn interrupted() -> Failure {
        Failure {
            status: Status::Skipped,
            reason: "the run was interrupted before this point".to_owned(),
        }
    }
}

/// What a run needs of the place where kernels are built and measured: the seam behind which a test puts a double that
/// crashes, hangs and miscomputes on command.
pub trait Lab {
    /// Builds kernels, reporting each as it ends.
    fn build(
        &mut self,
        kernels: &[KernelSpec],
        report: &mut dyn FnMut(u64, Result<Built, Failure>),
    );
    /// Checks and times a kernel that was built.
    ///
    /// # Errors
    /// It was not measured.
    fn measure(&mut self, point: &MeasureSpec) -> Result<Measured, Failure>;
}

/// The real laboratory: a worker process.
pub struct ProcessLab {
    launcher: Launcher,
    setup: Setup,
    policy: WorkerPolicy,
    jobs: usize,
    interrupt: Interrupt,
    worker: Option<Worker>,
    /// Kernels that some worker has built, to build again in the next one.
    known: HashMap<u64, KernelSpec>,
    /// Those that the present worker holds.
    held: BTreeSet<u64>,
}

impl ProcessLab {
    /// A laboratory whose workers build on `jobs` threads. No worker is started yet.
    pub fn new(
        launcher: Launcher,
        setup: Setup,
        policy: WorkerPolicy,
        jobs: usize,
        interrupt: Interrupt,
    ) -> ProcessLab {
        ProcessLab {
            launcher,
            setup,
            policy,
            jobs,
            interrupt,
            worker: None,
            known: HashMap::new(),
            held: BTreeSet::new(),
        }
    }

    fn worker(&mut self) -> Result<&mut Worker, WorkerError> {
        if self.worker.is_none() {
            self.held.clear();
            self.worker = Some(Worker::start(&self.launcher, &self.setup)?);
        }
        self.worker.as_mut().ok_or(WorkerError::Silent)
    }

    /// Waits for a reply for at most `timeout`, looking up now and then whether `stop` says to give up.
    fn receive(
        &mut self,
        timeout: Duration,
        stop: fn(&Interrupt) -> bool,
    ) -> Result<Reply, WorkerError> {
        /// How long a wish to stop may go unnoticed.
        const GLANCE: Duration = Duration::from_millis(100);
        let deadline = Instant::now() + timeout;
        loop {
            if stop(&self.interrupt) {
                return Err(WorkerError::Interrupted);
            }
            let left = deadline.saturating_duration_since(Instant::now());
            match self.worker()?.receive(left.min(GLANCE)) {
                Err(WorkerError::Silent) if left > GLANCE => {}
                result => return result,
            }
        }
    }

    /// Gives the present worker up.
    fn discard(&mut self) {
        self.worker = None;
        self.held.clear();
    }

    /// Builds on `jobs` threads until all is done or the worker is lost; returns the kernels that were under way then,
    /// with what happened.
    fn build_round(
        &mut self,
        pending: &mut BTreeMap<u64, KernelSpec>,
        jobs: usize,
        report: &mut dyn FnMut(u64, Result<Built, Failure>),
    ) -> Option<(Vec<u64>, Failure)> {
        let request = Request::Build {
            kernels: pending.values().cloned().collect(),
            jobs,
        };
        let timeout = Duration::from_nanos(self.policy.compile_timeout_ns);
        if let Err(error) = self.worker().and_then(|w| w.send(&request)) {
            self.discard();
            return Some((Vec::new(), failure(&error)));
        }
        let mut under_way: BTreeMap<u64, Instant> = BTreeMap::new();
        loop {
            let oldest = under_way
                .values()
                .min()
                .copied()
                .unwrap_or_else(Instant::now);
            let left = timeout.saturating_sub(oldest.elapsed());
            let reply = self.receive(left, Interrupt::requested);
            match reply {
                Ok(Reply::Started { id }) => {
                    under_way.insert(id, Instant::now());
                }
                Ok(Reply::Built(built)) => {
                    let id = built.id;
                    under_way.remove(&id);
                    if let Some(spec) = pending.remove(&id) {
                        self.known.insert(id, spec);
                    }
                    self.held.insert(id);
                    report(id, Ok(built));
                }
                Ok(Reply::Refused {
                    id: Some(id),
                    reason,
                }) => {
                    under_way.remove(&id);
                    pending.remove(&id);
                    report(
                        id,
                        Err(Failure {
                            status: Status::CompileFailed,
                            reason,
                        }),
                    );
                }
                Ok(Reply::AllBuilt) => return None,
                Ok(_) => {}
                Err(WorkerError::Silent) => {
                    self.discard();
                    let late = under_way
                        .iter()
                        .filter(|(_, t)| t.elapsed() >= timeout)
                        .map(|(id, _)| *id)
                        .collect();
                    let reason = format!("not built within {} s", timeout.as_secs_f64());
                    return Some((
                        late,
                        Failure {
                            status: Status::TimedOut,
                            reason,
                        },
                    ));
                }
                Err(error) => {
                    self.discard();
                    return Some((under_way.into_keys().collect(), failure(&error)));
                }
            }
        }
    }

    /// Asks for one reply to `request` within `timeout`, unless `stop` says to give up.
    fn ask(
        &mut self,
        request: &Request,
        timeout: Duration,
        stop: fn(&Interrupt) -> bool,
    ) -> Result<Reply, Failure> {
        let sent = self.worker().and_then(|w| w.send(request));
        let reply = sent.and_then(|()| self.receive(timeout, stop));
        match reply {
            Ok(Reply::Refused { reason, .. }) => Err(Failure {
                status: Status::Crashed,
                reason,
            }),
            Ok(reply) => Ok(reply),
            Err(WorkerError::Silent) => {
                self.discard();
                let reason = format!("no result within {} s", timeout.as_secs_f64());
                Err(Failure {
                    status: Status::TimedOut,
                    reason,
                })
            }
            Err(error) => {
                self.discard();
                Err(failure(&error))
            }
        }
    }

    /// Builds the whole model and checks its output.
    ///
    /// # Errors
    /// It cannot be built, or the worker was lost.
    pub fn build_network(&mut self, spec: NetworkSpec) -> Result<NetworkReady, Failure> {
        // Every operator may take its time to build, scheduled and unscheduled; then the reference runs.
        let operators = spec.graph.operators.len() as u64;
        let nanos = self
            .policy
            .compile_timeout_ns
            .saturating_mul(2 * operators + 1);
        match self.ask(
            &Request::Network(Box::new(spec)),
            Duration::from_nanos(nanos),
            Interrupt::requested,
        )? {
            Reply::NetworkReady(ready) => Ok(ready),
            other => Err(unexpected(&other)),
        }
    }

    /// Times the whole model.
    ///
    /// # Errors
    /// It was not built, or the worker was lost.
    pub fn measure_network(
        &mut self,
        threads: usize,
        policy: TimingPolicy,
    ) -> Result<NetworkMeasured, Failure> {
        let timeout = Duration::from_nanos(self.policy.measure_timeout_ns);
        match self.ask(
            &Request::MeasureNetwork { threads, policy },
            timeout,
            Interrupt::urgent,
        )? {
            Reply::NetworkMeasured(measured) => Ok(measured),
            other => Err(unexpected(&other)),
        }
    }
}

impl Lab for ProcessLab {
    fn build(
        &mut self,
        kernels: &[KernelSpec],
        report: &mut dyn FnMut(u64, Result<Built, Failure>),
    ) {
        let mut pending: BTreeMap<u64, KernelSpec> =
            kernels.iter().map(|k| (k.id, k.clone())).collect();
        while let Some((suspects, failure)) = self.build_round(&mut pending, self.jobs, report) {
            match suspects[..] {
                // Nothing had begun, or nothing shall: the rest ends in the same way.
                _ if self.interrupt.requested() => {
                    for (id, _) in std::mem::take(&mut pending) {
                        report(id, Err(Failure::interrupted()));
                    }
                }
                [] => {
                    for (id, _) in std::mem::take(&mut pending) {
                        report(id, Err(failure.clone()));
                    }
                }
                [culprit] => {
                    pending.remove(&culprit);
                    report(culprit, Err(failure));
                }
                _ => {
                    for id in suspects {
                        let Some(spec) = pending.remove(&id) else {
                            continue;
                        };
                        let mut alone = BTreeMap::from([(id, spec)]);
                        if let Some((_, failure)) = self.build_round(&mut alone, 1, report) {
                            report(id, Err(failure));
                        }
                    }
                }
            }
            if pending.is_empty() {
                break;
            }
        }
    }

    fn measure(&mut self, point: &MeasureSpec) -> Result<Measured, Failure> {
        if !self.held.contains(&point.id) || self.worker.is_none() {
            let Some(spec) = self.known.get(&point.id).cloned() else {
                return Err(Failure {
                    status: Status::CompileFailed,
                    reason: "the kernel was not built".to_owned(),
                });
            };
            let mut failed = None;
            let mut alone = BTreeMap::from([(point.id, spec)]);
            let lost = self.build_round(&mut alone, 1, &mut |_, result| failed = result.err());
            if let Some(failure) = failed.or(lost.map(|(_, f)| f)) {
                return Err(failure);
            }
        }
        let timeout = Duration::from_nanos(self.policy.measure_timeout_ns);
        match self.ask(&Request::Measure(point.clone()), timeout, Interrupt::urgent)? {
            Reply::Measured(measured) => Ok(measured),
            other => Err(unexpected(&other)),
        }
    }
}

fn failure(error: &WorkerError) -> Failure {
    if *error == WorkerError::Interrupted {
        return Failure::interrupted();
    }
    Failure {
        status: Status::Crashed,
        reason: error.to_string(),
    }
}

fn unexpected(reply: &Reply) -> Failure {
    Failure {
        status: Status::Crashed,
        reason: format!("the worker gave an answer to another question: {reply:?}"),
    }
}
