//! Keeps one worker alive and turns its failures into outcomes of single points.
//!
//! A kernel that crashes or hangs its worker costs its own point: the worker is started anew and goes on with the rest.
//! When several builds were under way at a crash, each is tried again alone, so that the blame falls on the right one.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::time::{Duration, Instant};

use opdata::Status;

use super::transport::{Launch, Transport, WorkerError, connect};
use super::{Failure, Made, RunnerOrder, memory};
use crate::device::{Conditions, Purpose};
use crate::interrupt::Interrupt;
use crate::measure::TimingPolicy;
use crate::protocol::{
    Counting, KernelSpec, MeasureSpec, Measured, ProfileSpec, Profiled, Reply, Request,
    SideBySideDone, SideBySideOrder, WholeModelMeasured, WholeModelReady, WholeModelSpec,
};
use crate::schedule::Space;

/// One worker, which is started anew when it is lost.
pub struct Supervisor {
    launch: Arc<dyn Launch>,
    order: RunnerOrder,
    worker: Option<Box<dyn Transport>>,
    /// Kernels that some worker has built, to build again in the next one.
    known: HashMap<u64, KernelSpec>,
    /// Kernels that the present worker holds.
    held: BTreeSet<u64>,
    /// Wrong results in a row.
    wrong: u32,
}

/// Wrong results in a row after which another machine's server is set aside.
const MOST_WRONG: u32 = 3;

impl Supervisor {
    /// A runner whose worker is launched by `launch` when it is first needed, and each time it was lost.
    pub fn new(launch: Arc<dyn Launch>, order: RunnerOrder) -> Supervisor {
        Supervisor {
            launch,
            order,
            worker: None,
            known: HashMap::new(),
            held: BTreeSet::new(),
            wrong: 0,
        }
    }

    fn worker(&mut self) -> Result<&mut dyn Transport, WorkerError> {
        let worker = match self.worker.take() {
            Some(worker) => worker,
            None => {
                self.held.clear();
                connect(self.launch.as_ref(), &self.order.setup)?
            }
        };
        Ok(self.worker.insert(worker).as_mut())
    }

    /// Waits for a reply for at most `timeout`, looking up now and then whether `stop` says to give up.
    fn receive(
        &mut self,
        timeout: Duration,
        stop: fn(&Interrupt) -> bool,
    ) -> Result<Reply, WorkerError> {
        /// Interval at which a request to stop is looked for.
        const GLANCE: Duration = Duration::from_millis(100);
        let deadline = Instant::now() + timeout;
        loop {
            if stop(&self.order.interrupt) {
                return Err(WorkerError::Interrupted);
            }
            let left = deadline.saturating_duration_since(Instant::now());
            match self.worker()?.receive(left.min(GLANCE)) {
                Err(WorkerError::Silent) if left > GLANCE => {}
                result => return result,
            }
        }
    }

    /// Notes a kernel that another worker has built. This worker builds it when it is first measured here.
    pub(super) fn adopt(&mut self, spec: KernelSpec) {
        self.known.insert(spec.id, spec);
    }

    /// Sends a request that is not answered. A worker that is gone has forgotten everything already.
    fn notify(&mut self, request: &Request) {
        if let Some(worker) = &mut self.worker
            && worker.send(request).is_err()
        {
            self.discard();
        }
    }

    /// Ends the present worker.
    fn discard(&mut self) {
        self.worker = None;
        self.held.clear();
    }

    /// Builds on `jobs` threads until all is done or the worker is lost. Returns the kernels being built at its loss,
    /// with the reason.
    fn build_round(
        &mut self,
        pending: &mut BTreeMap<u64, KernelSpec>,
        jobs: usize,
        report: &mut dyn FnMut(u64, Result<Made, Failure>),
    ) -> Option<(Vec<u64>, Failure)> {
        let request = Request::Build {
            kernels: pending.values().cloned().collect(),
            jobs,
        };
        let timeout = Duration::from_nanos(self.order.policy.compile_timeout_ns);
        if let Err(error) = self.worker().and_then(|w| w.send(&request)) {
            self.discard();
            return Some((Vec::new(), Failure::from(&error)));
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
                    report(id, Ok(Made::New(Box::new(built))));
                }
                Ok(Reply::Duplicate { id, of }) => {
                    under_way.remove(&id);
                    pending.remove(&id);
                    report(id, Ok(Made::Duplicate { of }));
                }
                Ok(Reply::Refused {
                    id: Some(id),
                    status,
                    reason,
                }) => {
                    under_way.remove(&id);
                    pending.remove(&id);
                    report(id, Err(Failure { status, reason }));
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
                    return Some((under_way.into_keys().collect(), Failure::from(&error)));
                }
            }
        }
    }

    /// Builds again, on all `jobs` threads, the kernels that were lost because another kernel of the batch ended the
    /// worker. Otherwise each of them would be built alone before it is measured.
    fn restore(&mut self, kernels: &[KernelSpec]) {
        if self.order.setup.purpose != Purpose::Measure || self.order.interrupt.requested() {
            return;
        }
        let is_lost =
            |k: &&KernelSpec| self.known.contains_key(&k.id) && !self.held.contains(&k.id);
        let mut lost: BTreeMap<u64, KernelSpec> = kernels
            .iter()
            .filter(is_lost)
            .map(|k| (k.id, k.clone()))
            .collect();
        if !lost.is_empty() {
            // A kernel that fails now is built alone before it is measured, and its failure is reported there.
            self.build_round(&mut lost, self.order.jobs, &mut |_, _| ());
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
            Ok(Reply::Refused { status, reason, .. }) => Err(Failure { status, reason }),
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
                Err(Failure::from(&error))
            }
        }
    }

    /// Measures a point, with the worker that there is or a new one.
    fn measure_once(&mut self, point: &MeasureSpec) -> Result<Measured, Failure> {
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
        let timeout = Duration::from_nanos(self.order.policy.measure_timeout_ns);
        match self.ask(&Request::Measure(point.clone()), timeout, Interrupt::urgent)? {
            Reply::Measured(measured) => Ok(measured),
            other => Err(Failure::unexpected(&other)),
        }
    }

    /// Whether a point of another machine is measured again. A lost connection is not blamed on the kernel until each
    /// attempt has lost it.
    fn is_worth_another_try(&self, failure: &Failure, tries: u32) -> bool {
        let most = match failure.status {
            _ if self.order.setup.remote.is_none() || self.order.interrupt.requested() => 1,
            Status::Crashed => 3,
            Status::TimedOut => 2,
            _ => 1,
        };
        tries < most
    }

    /// Sets a server aside whose kernels computed something else for [`MOST_WRONG`] points in a row.
    fn note_answer(&mut self, result: &Result<Measured, Failure>) {
        let Ok(Measured {
            server: Some(server),
            comparison,
            ..
        }) = result
        else {
            return;
        };
        self.wrong = match comparison.agrees() {
            true => 0,
            false => self.wrong + 1,
        };
        if self.wrong >= MOST_WRONG {
            self.wrong = 0;
            self.order.setup.avoid.push(server.clone());
            self.discard();
        }
    }

    /// The template spaces of operators, in their order.
    ///
    /// # Errors
    /// Fails if they cannot be described.
    pub fn spaces(&mut self, symbols: &[String]) -> Result<Vec<Space>, Failure> {
        let request = Request::Spaces {
            symbols: symbols.to_vec(),
        };
        let nanos = self
            .order
            .policy
            .compile_timeout_ns
            .saturating_mul(1 + symbols.len() as u64);
        match self.ask(&request, Duration::from_nanos(nanos), Interrupt::requested)? {
            Reply::Spaces { spaces } => Ok(spaces),
            other => Err(Failure::unexpected(&other)),
        }
    }

    /// Builds kernels, reporting each as it ends.
    pub fn build(
        &mut self,
        kernels: &[KernelSpec],
        report: &mut dyn FnMut(u64, Result<Made, Failure>),
    ) {
        let mut pending: BTreeMap<u64, KernelSpec> = BTreeMap::new();
        for kernel in kernels {
            match memory::check_kernel(kernel, self.order.policy.memory_limit_mib) {
                Ok(()) => drop(pending.insert(kernel.id, kernel.clone())),
                Err(failure) => report(kernel.id, Err(failure)),
            }
        }
        if pending.is_empty() {
            return;
        }
        let mut tries = 1;
        let mut left = pending.len();
        while let Some((suspects, failure)) =
            self.build_round(&mut pending, self.order.jobs, report)
        {
            if pending.len() < left {
                (left, tries) = (pending.len(), 1);
            }
            if !pending.is_empty() && self.is_worth_another_try(&failure, tries) {
                tries += 1;
                continue;
            }
            match suspects[..] {
                // After an interrupt no further build begins: the rest counts as interrupted.
                _ if self.order.interrupt.requested() => {
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
        self.restore(kernels);
    }

    /// Checks and times a kernel that was built.
    ///
    /// # Errors
    /// Fails if it was not measured.
    pub fn measure(&mut self, point: &MeasureSpec) -> Result<Measured, Failure> {
        let mut tries = 1;
        loop {
            match self.measure_once(point) {
                Err(failure) if self.is_worth_another_try(&failure, tries) => tries += 1,
                result => {
                    self.note_answer(&result);
                    return result;
                }
            }
        }
    }

    /// Frees kernels that will not be measured again.
    pub fn forget(&mut self, ids: &[u64]) {
        for id in ids {
            self.known.remove(id);
            self.held.remove(id);
        }
        self.notify(&Request::Drop { ids: ids.to_vec() });
    }

    /// Builds the whole model and checks its output.
    ///
    /// # Errors
    /// Fails if it cannot be built, or the worker was lost.
    pub fn build_whole_model(&mut self, spec: WholeModelSpec) -> Result<WholeModelReady, Failure> {
        memory::check_whole_model(&spec.graph, self.order.policy.memory_limit_mib)?;
        // Every operator may take its time to build, scheduled and unscheduled; then the reference runs.
        let operators = spec.graph.operators.len() as u64;
        let nanos = self
            .order
            .policy
            .compile_timeout_ns
            .saturating_mul(2 * operators + 1);
        match self.ask(
            &Request::BuildWholeModel(Box::new(spec)),
            Duration::from_nanos(nanos),
            Interrupt::requested,
        )? {
            Reply::WholeModelReady(ready) => Ok(ready),
            other => Err(Failure::unexpected(&other)),
        }
    }

    /// Frees the whole model, so that operators are measured without it in memory.
    pub fn forget_whole_model(&mut self) {
        self.notify(&Request::DropWholeModel);
    }

    /// Times the whole model.
    ///
    /// # Errors
    /// Fails if it was not built, or the worker was lost.
    pub fn measure_whole_model(
        &mut self,
        at: &Conditions,
        policy: TimingPolicy,
        counting: Counting,
    ) -> Result<WholeModelMeasured, Failure> {
        let timeout = Duration::from_nanos(self.order.policy.measure_timeout_ns);
        match self.ask(
            &Request::MeasureWholeModel {
                at: at.clone(),
                policy,
                counting,
            },
            timeout,
            Interrupt::urgent,
        )? {
            Reply::WholeModelMeasured(measured) => Ok(measured),
            other => Err(Failure::unexpected(&other)),
        }
    }

    /// Profiles the whole model, which was built to be watched; `timeout` is for all of its runs.
    ///
    /// # Errors
    /// Fails if it was not built, its calls change from run to run, or the worker was lost.
    pub fn profile_whole_model(
        &mut self,
        spec: ProfileSpec,
        timeout: Duration,
    ) -> Result<Profiled, Failure> {
        match self.ask(
            &Request::ProfileWholeModel(spec),
            timeout,
            Interrupt::requested,
        )? {
            Reply::WholeModelProfiled(profiled) => Ok(*profiled),
            other => Err(Failure::unexpected(&other)),
        }
    }

    /// Does something with calls of models that run at the same time, within `timeout`.
    ///
    /// # Errors
    /// Fails if it cannot be done, or the worker was lost, and with it the models that were loaded.
    pub fn side_by_side(
        &mut self,
        order: SideBySideOrder,
        timeout: Duration,
    ) -> Result<SideBySideDone, Failure> {
        let request = Request::SideBySide(order);
        match self.ask(&request, timeout, Interrupt::requested)? {
            Reply::SideBySide(done) => Ok(done),
            other => Err(Failure::unexpected(&other)),
        }
    }

    /// Ends the worker, with all that is in its memory; the next request starts it again.
    pub fn rest(&mut self) {
        self.discard();
    }
}
