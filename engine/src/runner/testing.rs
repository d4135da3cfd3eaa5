//! A scripted runner for tests: its workers crash, hang, compute something wrong and slow down when a script says so.
//!
//! It is a [`WorkerPool`] like the real one, over workers in this process that run no kernel. So everything the
//! parent does about a lost worker is tested too.

use std::collections::{HashMap, VecDeque};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use opdata::{CacheState, Status};
use opmodels::Graph;

use super::transport::{Launch, Transport, WorkerError};
use super::{RunnerFactory, RunnerOrder, WorkerPolicy, WorkerPool};
use crate::device::{Conditions, Purpose};
use crate::interrupt::Interrupt;
use crate::measure::TimingPolicy;
use crate::measure::check::Comparison;
use crate::measure::sampling::Taken;
use crate::protocol::{
    Built, KernelSpec, MeasureSpec, Measured, OperatorInModel, QuietMoment, Reply, Request, Reuse,
    Setup, WholeModelMeasured, WholeModelReady, WholeModelSpec,
};
use crate::schedule::{Choice, ScheduleSpec, Space};
use crate::stats::{Nanos, Samples, StopReason, StopRule};

/// What a worker is about to do.
#[derive(Debug, Clone, Copy)]
pub enum WorkerStep<'a> {
    /// Build a kernel.
    Build(&'a KernelSpec),
    /// Measure a kernel that was built.
    Measure {
        /// The kernel.
        kernel: &'a KernelSpec,
        /// The point to measure.
        point: &'a MeasureSpec,
    },
    /// Build the whole model.
    BuildWholeModel(&'a WholeModelSpec),
    /// Measure it.
    MeasureWholeModel {
        /// The whole model as it was built.
        model: &'a WholeModelSpec,
        /// The conditions.
        at: &'a Conditions,
    },
}

/// The scripted behaviour of a worker.
#[derive(Debug, Clone, PartialEq)]
pub enum Act {
    /// The step succeeds. A call takes this many nanoseconds, and the reference kernel is slowed down by this factor.
    Works {
        /// Time of one call.
        ns: f64,
        /// The reference kernel's time over its best.
        slowdown: f64,
    },
    /// Builds a program with this hash: the second kernel of an operator with the same one is a duplicate.
    Program(u64),
    /// Refuses, with this status and reason.
    Refuse(Status, String),
    /// Computes something wrong.
    Miscompute,
    /// Ends without an answer.
    Crash,
    /// Never answers.
    Hang,
}

impl Act {
    /// Works on a quiet machine.
    pub fn takes(ns: f64) -> Act {
        Act::Works { ns, slowdown: 1.0 }
    }
}

type Script = dyn Fn(WorkerStep<'_>) -> Act + Send + Sync;

/// Makes runners that do what a script says.
#[derive(Clone)]
pub struct FakeRunner {
    script: Arc<Script>,
    spaces: HashMap<String, Space>,
}

impl FakeRunner {
    /// Runners whose workers ask `script` before each step.
    pub fn new(script: impl Fn(WorkerStep<'_>) -> Act + Send + Sync + 'static) -> FakeRunner {
        FakeRunner {
            script: Arc::new(script),
            spaces: HashMap::new(),
        }
    }

    /// The script's behaviour for a step.
    pub fn act(&self, step: WorkerStep<'_>) -> Act {
        (self.script)(step)
    }

    /// The same, with template spaces by function; other functions have none.
    pub fn with_spaces(self, spaces: HashMap<String, Space>) -> FakeRunner {
        FakeRunner { spaces, ..self }
    }
}

impl RunnerFactory for FakeRunner {
    fn runner(&self, order: RunnerOrder, _log: &Path) -> WorkerPool {
        WorkerPool::new(Arc::new(self.clone()), order)
    }
}

impl Launch for FakeRunner {
    fn launch(&self) -> Result<Box<dyn Transport>, WorkerError> {
        Ok(Box::new(FakeWorker {
            fake: self.clone(),
            kernels: HashMap::new(),
            programs: HashMap::new(),
            whole_model: None,
            server: None,
            said: VecDeque::new(),
        }))
    }
}

/// A worker that runs nothing.
struct FakeWorker {
    fake: FakeRunner,
    kernels: HashMap<u64, KernelSpec>,
    programs: HashMap<(String, u64), u64>,
    whole_model: Option<WholeModelSpec>,
    /// The server that it is connected to: that of the setup, or another one if that shall be avoided.
    server: Option<String>,
    said: VecDeque<Said>,
}

/// What the parent hears next.
enum Said {
    Reply(Box<Reply>),
    Nothing,
    End,
}

impl FakeWorker {
    fn say(&mut self, reply: Reply) {
        self.said.push_back(Said::Reply(Box::new(reply)));
    }

    /// Builds on `jobs` threads: this many kernels are under way when one of them ends the worker.
    fn build(&mut self, kernels: &[KernelSpec], jobs: usize) {
        for under_way in kernels.chunks(jobs.max(1)) {
            for kernel in under_way {
                self.say(Reply::Started { id: kernel.id });
            }
            for kernel in under_way {
                if !self.build_one(kernel) {
                    return;
                }
            }
        }
        self.say(Reply::AllBuilt);
    }

    /// Whether the worker outlives it.
    fn build_one(&mut self, kernel: &KernelSpec) -> bool {
        let id = kernel.id;
        let program_hash = match self.fake.act(WorkerStep::Build(kernel)) {
            Act::Program(hash) => hash,
            Act::Works { .. } | Act::Miscompute => {
                let hash = opdata::stable_hash(&[("key", &kernel.schedule_spec.key())]);
                u64::from_str_radix(&hash, 16).unwrap_or_default()
            }
            Act::Refuse(status, reason) => {
                self.say(refused(Some(id), status, reason));
                return true;
            }
            end => {
                self.said.push_back(last_words(&end));
                return false;
            }
        };
        let key = (kernel.symbol.clone(), program_hash);
        let first = *self.programs.entry(key).or_insert(id);
        if first == id {
            self.kernels.insert(id, kernel.clone());
            self.say(Reply::Built(built(id, program_hash)));
        } else {
            self.say(Reply::Duplicate { id, of: first });
        }
        true
    }

    fn measure(&mut self, point: &MeasureSpec) {
        let id = Some(point.id);
        let Some(kernel) = self.kernels.get(&point.id) else {
            let reason = format!("kernel {} was not built", point.id);
            return self.say(refused(id, Status::Crashed, reason));
        };
        let said = match self.fake.act(WorkerStep::Measure { kernel, point }) {
            Act::Works { ns, slowdown } => reply(Reply::Measured(Measured {
                server: self.server.clone(),
                ..measured(point.id, ns, slowdown)
            })),
            Act::Miscompute => reply(Reply::Measured(Measured {
                comparison: comparison(1),
                taken: None,
                server: self.server.clone(),
                ..measured(point.id, 0.0, 1.0)
            })),
            Act::Refuse(status, reason) => reply(refused(id, status, reason)),
            end => last_words(&end),
        };
        self.said.push_back(said);
    }

    fn build_whole_model(&mut self, spec: &WholeModelSpec) {
        let ready = |wrong| WholeModelReady {
            comparison: comparison(wrong),
            checked_against: "the script".to_owned(),
            agreement: None,
            build_ns: 1_000_000,
        };
        let said = match self.fake.act(WorkerStep::BuildWholeModel(spec)) {
            Act::Works { .. } => {
                self.whole_model = Some(spec.clone());
                reply(Reply::WholeModelReady(ready(0)))
            }
            Act::Miscompute => reply(Reply::WholeModelReady(ready(1))),
            Act::Refuse(status, reason) => reply(refused(None, status, reason)),
            end => last_words(&end),
        };
        self.said.push_back(said);
    }

    fn measure_whole_model(&mut self, at: &Conditions) {
        let Some(model) = &self.whole_model else {
            let reason = "the whole model was not built".to_owned();
            return self.say(refused(None, Status::Crashed, reason));
        };
        let said = match self.fake.act(WorkerStep::MeasureWholeModel { model, at }) {
            Act::Works { ns, slowdown } => reply(Reply::WholeModelMeasured(whole_model(
                &model.graph,
                ns,
                slowdown,
            ))),
            Act::Refuse(status, reason) => reply(refused(None, status, reason)),
            end => last_words(&end),
        };
        self.said.push_back(said);
    }
}

impl Transport for FakeWorker {
    fn send(&mut self, request: &Request) -> Result<(), WorkerError> {
        match request {
            Request::Setup(setup) => {
                let own = setup.remote.as_ref().map(|remote| remote.host.clone());
                self.server = own.map(|own| match setup.avoid.contains(&own) {
                    true => format!("{own}-2"),
                    false => own,
                });
                self.say(Reply::Ready);
            }
            Request::Spaces { symbols } => {
                let space = |s| self.fake.spaces.get(s).cloned();
                let spaces = symbols
                    .iter()
                    .map(|s| space(s).unwrap_or_else(|| Space::fixed(Choice::unscheduled())));
                let spaces = spaces.collect();
                self.say(Reply::Spaces { spaces });
            }
            Request::Build { kernels, jobs } => self.build(kernels, *jobs),
            Request::Measure(point) => self.measure(point),
            Request::DropWholeModel => self.whole_model = None,
            Request::Drop { ids } => ids.iter().for_each(|id| drop(self.kernels.remove(id))),
            Request::BuildWholeModel(spec) => self.build_whole_model(spec),
            Request::MeasureWholeModel { at, .. } => self.measure_whole_model(at),
            Request::ProfileWholeModel(_) | Request::SideBySide(_) => {
                let reason = "the script has no whole model".to_owned();
                self.say(refused(None, Status::Unsupported, reason));
            }
        }
        Ok(())
    }

    fn receive(&mut self, timeout: Duration) -> Result<Reply, WorkerError> {
        match self.said.pop_front() {
            Some(Said::Reply(reply)) => Ok(*reply),
            Some(Said::End) => Err(WorkerError::Ended {
                how: "the worker died as its script said".to_owned(),
            }),
            Some(Said::Nothing) | None => {
                self.said.push_front(Said::Nothing);
                std::thread::sleep(timeout);
                Err(WorkerError::Silent)
            }
        }
    }
}

fn reply(reply: Reply) -> Said {
    Said::Reply(Box::new(reply))
}

/// What the parent sees of a worker that does not answer: nothing, or its end.
fn last_words(act: &Act) -> Said {
    match act {
        Act::Hang => Said::Nothing,
        _ => Said::End,
    }
}

fn refused(id: Option<u64>, status: Status, reason: String) -> Reply {
    Reply::Refused { id, status, reason }
}

fn built(id: u64, program_hash: u64) -> Built {
    Built {
        id,
        choice: Choice::unscheduled(),
        trace: serde_json::Value::Null,
        program_hash,
        schedule_ns: 1,
        lower_ns: 1,
        codegen_ns: 1,
        jit_ns: 1,
        device_kernels: Vec::new(),
    }
}

fn comparison(wrong: u64) -> Comparison {
    Comparison {
        max_abs_error: wrong as f64,
        max_rel_error: wrong as f64,
        tolerance_abs: 0.0,
        tolerance_rel: 0.0,
        wrong,
        elements: 1,
        worst: (wrong > 0).then_some(0),
    }
}

fn taken(ns: f64) -> Taken {
    let samples: Samples = (0..12).filter_map(|_| Nanos::new(ns).ok()).collect();
    Taken {
        samples,
        number: 1,
        warmup: 1,
        stopped: StopReason::Precise,
    }
}

/// A right result whose calls take `ns` each.
pub fn measured(id: u64, ns: f64, slowdown: f64) -> Measured {
    Measured {
        id,
        comparison: comparison(0),
        taken: Some(taken(ns)),
        slowdown,
        other_cpu_share: None,
        state: None,
        simulated: None,
        counted: None,
        server: None,
        spent: Default::default(),
    }
}

/// A model that takes `ns`, shared equally by the calls of its operators.
fn whole_model(graph: &Graph, ns: f64, slowdown: f64) -> WholeModelMeasured {
    let calls: u64 = graph.operators.iter().map(|o| o.count).sum();
    let operators = graph.operators.iter().map(|o| OperatorInModel {
        symbol: o.symbol.clone(),
        calls: o.count,
        median_ns: ns / calls.max(1) as f64,
    });
    WholeModelMeasured {
        taken: taken(ns),
        left_out: 0,
        operators: operators.collect(),
        instrumented_sum_ns: ns,
        instrumented_total_ns: ns,
        slowdown,
    }
}

/// A runner's order with short time limits.
pub fn order() -> RunnerOrder {
    RunnerOrder {
        setup: Setup {
            module: Default::default(),
            device: crate::device::HOST,
            target: serde_json::json!({}),
            max_threads: 1,
            seed: 0,
            max_statements: 1000,
            memory_limit_mib: 1024,
            counters: Default::default(),
            purpose: Purpose::Measure,
            compile_timeout_ns: 1_000_000_000,
            keep_kernels: None,
            unit: 0,
            remote: None,
            avoid: Vec::new(),
        },
        contents: "import".into(),
        policy: policy(),
        jobs: 1,
        units: vec![0],
        interrupt: Interrupt::default(),
    }
}

/// The limits of workers in tests: little time, because some workers hang.
pub fn policy() -> WorkerPolicy {
    WorkerPolicy {
        compile_timeout_ns: 300_000_000,
        measure_timeout_ns: 300_000_000,
        max_statements: 1000,
        memory_limit_mib: 1024,
    }
}

/// A kernel of an operator with its default schedule.
pub fn kernel(id: u64, symbol: &str) -> KernelSpec {
    KernelSpec {
        id,
        symbol: symbol.to_owned(),
        schedule_spec: ScheduleSpec::Metaschedule { seed: id },
        arguments: Vec::new(),
        reuse: Reuse::default(),
        reduction_length: 1,
    }
}

/// A kernel's point on one thread.
pub fn point(id: u64) -> MeasureSpec {
    MeasureSpec {
        id,
        at: Conditions::new(1, CacheState::Hot),
        policy: timing(),
        prune_beyond_ns: None,
        quiet: QuietMoment::Ignored,
    }
}

/// The shortest way to time.
pub fn timing() -> TimingPolicy {
    TimingPolicy {
        warmup: 1,
        number: None,
        stop: StopRule {
            ci_target: 1.0,
            min_samples: 6,
            max_samples: 6,
            budget_ns: 1,
        },
    }
}
