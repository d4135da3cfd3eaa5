//! Keeps a worker alive and turns whatever happens to it into outcomes of single points.
//!
//! A kernel that crashes or hangs its worker costs its own point: the worker is started anew and goes on with the rest.
//! When several builds were under way at a crash, each is tried again alone, so that the blame falls on the right one.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::{Duration, Instant};

use opdata::Status;

use super::child::{Launcher, Worker, WorkerError};
use crate::interrupt::Interrupt;
use crate::measure::TimingPolicy;
use crate::protocol::{
    Built, KernelSpec, MeasureSpec, Measured, NetworkMeasured, NetworkReady, NetworkSpec, Reply,
    Request, Setup,
};
use crate::runner::WorkerPolicy;
use crate::schedule::Space;

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

    /// Whether it is that: then the point is still to be measured.
    pub fn is_interruption(&self) -> bool {
        *self == Failure::interrupted()
    }
}

/// What a build came to.
#[derive(Debug, Clone, PartialEq)]
pub enum Made {
    /// A kernel.
    New(Box<Built>),
    /// Nothing: the program is that of an earlier kernel.
    Duplicate {
        /// That kernel.
        of: u64,
    },
}

/// What a run needs of the place where kernels are built and measured: the seam behind which a test puts a double that
/// crashes, hangs and miscomputes on command.
pub trait Runner {
    /// The template spaces of operators, in their order.
    ///
    /// # Errors
    /// They cannot be described.
    fn spaces(&mut self, symbols: &[String]) -> Result<Vec<Space>, Failure>;
    /// Builds kernels, reporting each as it ends.
    fn build(&mut self, kernels: &[KernelSpec], report: &mut dyn FnMut(u64, Result<Made, Failure>));
    /// Checks and times a kernel that was built.
    ///
    /// # Errors
    /// It was not measured.
    fn measure(&mut self, point: &MeasureSpec) -> Result<Measured, Failure>;
    /// Frees kernels that will not be measured again.
    fn forget(&mut self, ids: &[u64]);
}

/// The real runner: a worker process.
pub struct ProcessRunner {
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

impl ProcessRunner {
    /// A runner whose workers build on `jobs` threads. No worker is started yet.
    pub fn new(
        launcher: Launcher,
        setup: Setup,
        policy: WorkerPolicy,
        jobs: usize,
        interrupt: Interrupt,
    ) -> ProcessRunner {
        ProcessRunner {
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

    /// Ends the present worker; the next request starts another.
    pub fn rest(&mut self) {
        self.discard();
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
        report: &mut dyn FnMut(u64, Result<Made, Failure>),
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

impl Runner for ProcessRunner {
    fn spaces(&mut self, symbols: &[String]) -> Result<Vec<Space>, Failure> {
        let request = Request::Spaces {
            symbols: symbols.to_vec(),
        };
        let nanos = self
            .policy
            .compile_timeout_ns
            .saturating_mul(1 + symbols.len() as u64);
        match self.ask(&request, Duration::from_nanos(nanos), Interrupt::requested)? {
            Reply::Spaces { spaces } => Ok(spaces),
            other => Err(unexpected(&other)),
        }
    }

    fn build(
        &mut self,
        kernels: &[KernelSpec],
        report: &mut dyn FnMut(u64, Result<Made, Failure>),
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

    fn forget(&mut self, ids: &[u64]) {
        for id in ids {
            self.known.remove(id);
            self.held.remove(id);
        }
        // A worker that is gone has forgotten everything already.
        if let Some(worker) = &mut self.worker
            && worker.send(&Request::Drop { ids: ids.to_vec() }).is_err()
        {
            self.discard();
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

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;
    use crate::schedule::{Choice, ScheduleSpec};

    /// A stand-in for a worker: builds what is called `good`, and does what the test says with anything else.
    fn runner(folder: &std::path::Path, otherwise: &str) -> ProcessRunner {
        let built = serde_json::to_string(&Reply::Built(Built {
            id: 1,
            choice: Choice::unscheduled(),
            trace: serde_json::Value::Null,
            program_hash: 0,
            schedule_ns: 0,
            lower_ns: 0,
            codegen_ns: 0,
            jit_ns: 0,
        }))
        .unwrap();
        let script = format!(
            r#"#!/bin/sh
read setup
echo '{{"reply":"ready"}}'
while read line; do
  case "$line" in
    *bad*) echo '{{"reply":"started","id":0}}'; echo '{{"reply":"started","id":1}}'; {otherwise};;
    *good*) echo '{{"reply":"started","id":1}}'; echo '{built}'; echo '{{"reply":"all_built"}}';;
    *measure*) {otherwise};;
  esac
done
"#
        );
        let program = folder.join("worker.sh");
        std::fs::write(&program, script).unwrap();
        std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
        let setup = Setup {
            import: folder.to_owned(),
            device: crate::device::named("llvm").unwrap(),
            target: serde_json::json!({}),
            max_threads: 1,
            seed: 0,
            max_statements: 1000,
            memory_limit_mib: 1024,
        };
        let policy = WorkerPolicy {
            compile_timeout_ns: 300_000_000,
            measure_timeout_ns: 300_000_000,
            max_statements: 1000,
            memory_limit_mib: 1024,
        };
        let launcher = Launcher {
            program,
            log: folder.join("worker.log"),
        };
        ProcessRunner::new(launcher, setup, policy, 2, Interrupt::default())
    }

    fn kernel(id: u64, symbol: &str) -> KernelSpec {
        KernelSpec {
            id,
            symbol: symbol.to_owned(),
            schedule_spec: ScheduleSpec::Default,
            arguments: Vec::new(),
            weight_reuse_bytes: None,
            reduction_length: 1,
        }
    }

    fn build(
        runner: &mut ProcessRunner,
        kernels: &[KernelSpec],
    ) -> BTreeMap<u64, Result<(), Failure>> {
        let mut results = BTreeMap::new();
        runner.build(kernels, &mut |id, result| {
            assert!(
                results.insert(id, result.map(drop)).is_none(),
                "{id} was reported twice"
            );
        });
        results
    }

    #[test]
    fn a_crash_is_blamed_on_the_kernel_that_crashes_alone() {
        let folder = tempfile::tempdir().unwrap();
        let mut runner = runner(folder.path(), "kill -SEGV $$");
        let results = build(&mut runner, &[kernel(0, "bad"), kernel(1, "good")]);
        assert_eq!(results[&1], Ok(()));
        let failure = results[&0].clone().unwrap_err();
        assert_eq!(failure.status, Status::Crashed);
        assert!(failure.reason.contains("SIGSEGV"), "{}", failure.reason);
    }

    #[test]
    fn a_build_that_hangs_times_out_and_the_rest_goes_on() {
        let folder = tempfile::tempdir().unwrap();
        let mut runner = runner(folder.path(), "sleep 60");
        let results = build(&mut runner, &[kernel(0, "bad"), kernel(1, "good")]);
        assert_eq!(results[&1], Ok(()));
        assert_eq!(results[&0].clone().unwrap_err().status, Status::TimedOut);
    }

    #[test]
    fn a_kernel_that_kills_its_worker_while_measured_costs_its_own_point() {
        let folder = tempfile::tempdir().unwrap();
        let mut runner = runner(folder.path(), "echo out of luck >&2; kill -ABRT $$");
        assert_eq!(build(&mut runner, &[kernel(1, "good")])[&1], Ok(()));
        let policy = TimingPolicy {
            warmup: 1,
            number: None,
            stop: crate::stats::StopRule {
                ci_target: 1.0,
                min_samples: 6,
                max_samples: 6,
                budget_ns: 1,
            },
        };
        let point = MeasureSpec {
            id: 1,
            at: crate::device::Conditions::new(1, opdata::CacheState::Hot),
            policy,
            prune_beyond_ns: None,
        };
        for _ in 0..2 {
            // The second time, the kernel is built again in a new worker first.
            let failure = runner.measure(&point).unwrap_err();
            assert_eq!(failure.status, Status::Crashed);
            assert!(
                failure.reason.contains("SIGABRT") && failure.reason.contains("out of luck"),
                "{}",
                failure.reason
            );
        }
    }

    #[test]
    fn an_interrupted_build_leaves_no_kernel_without_a_word() {
        let folder = tempfile::tempdir().unwrap();
        let mut runner = runner(folder.path(), "sleep 60");
        runner.interrupt.request();
        let results = build(&mut runner, &[kernel(0, "bad"), kernel(1, "good")]);
        assert!(
            results
                .values()
                .all(|r| r.as_ref().unwrap_err().status == Status::Skipped),
            "{results:?}"
        );
        assert_eq!(results.len(), 2);
    }

    #[test]
    fn a_program_that_is_not_there_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let mut runner = runner(folder.path(), "true");
        runner.launcher.program = folder.path().join("missing");
        let results = build(&mut runner, &[kernel(1, "good")]);
        assert!(results[&1].clone().unwrap_err().reason.contains("missing"));
    }
}
