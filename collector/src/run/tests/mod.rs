//! The run with scripted workers, a clock of its own and a model of two operators.

mod faults;
mod order;
mod resumed;
mod tuned;
mod tuner;

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use opdata::contract::PLAN_FORMAT;
use opdata::{CacheState, Row};
use opengine::calibrate::Store;
use opengine::device::{self, Target};
use opengine::env::Root;
use opengine::interrupt::Interrupt;
use opengine::runner::testing::{Act, FakeRunner, WorkerStep, policy, timing};
use opengine::schedule::ScheduleSpec;
use opmodels::{ImportError, Provenance, Resolved, Source};
use opreport::progress::Recorded;

use super::*;
use crate::plan::WholeModel;
use crate::sweep::{Draw, SpaceKind, Sweep};

/// A folder with a run in it, and what the run is given instead of the machine.
struct Bench {
    folder: tempfile::TempDir,
    interrupt: Interrupt,
    clock: FakeClock,
}

/// A clock that stands still until it is moved.
#[derive(Clone, Default)]
struct FakeClock(Arc<AtomicU64>);

impl FakeClock {
    fn pass(&self, seconds: u64) {
        self.0.fetch_add(seconds, Ordering::Relaxed);
    }
}

impl Clock for FakeClock {
    fn now(&self) -> Duration {
        Duration::from_secs(self.0.load(Ordering::Relaxed))
    }
}

/// Gives the same made-up import whatever is asked for.
struct Fixture;

impl Importer for Fixture {
    fn import(
        &self,
        request: &opmodels::ImportRequest,
        _python: Option<&Path>,
        _watch: &mut opmodels::Watch<'_>,
    ) -> Result<opmodels::Imported, ImportError> {
        Ok(opmodels::Imported {
            graph: crate::render::testing::graph(),
            resolved: Resolved {
                source: request.source,
                model: request.model.clone(),
                file: None,
                batch: None,
                seqlen: None,
                inputs: Vec::new(),
                fills: Default::default(),
                details: Default::default(),
            },
            folder: PathBuf::from("imports/0123456789abcdef"),
            provenance: Provenance::Cached,
        })
    }
}

impl Bench {
    fn new() -> Bench {
        Bench {
            folder: tempfile::tempdir().unwrap(),
            interrupt: Interrupt::default(),
            clock: FakeClock::default(),
        }
    }

    /// The default schedules of the model's two operators on one thread, without the whole model.
    fn plan(&self) -> Plan {
        Plan {
            format: PLAN_FORMAT,
            model: opmodels::ImportRequest::new(Source::LOCAL, "resnet-18"),
            target: Target::plain(device::HOST),
            more_targets: Vec::new(),
            compile_only: false,
            keep_kernels: None,
            remote: None,
            tuning: None,
            store: None,
            threads: vec![1],
            cache_states: vec![CacheState::Model],
            device_conditions: Default::default(),
            sweep: None,
            shard: None,
            time_budget_ns: None,
            counters: Vec::new(),
            timing: timing(),
            // Over as soon as one point was measured again.
            remeasure_budget: 1e-9,
            worker: policy(),
            seed: 0,
            whole_model: WholeModel::Skip,
            out: self.folder.path().join("run"),
            run_id: "run".to_owned(),
            max_failed_share: 0.0,
        }
    }

    /// The same with this many samples of MetaSchedule's space of every operator beside its default schedule.
    fn sweep(&self, schedules: u32) -> Plan {
        let sweep = Sweep {
            name: "s".to_owned(),
            space: SpaceKind::Metaschedule,
            draw: Draw::Random,
            schedules,
            max_points: None,
            operators: Vec::new(),
            traces: Vec::new(),
            points: Vec::new(),
            machine: None,
            vary: Default::default(),
            fix: Default::default(),
            batches: Vec::new(),
            input_sizes: Vec::new(),
        };
        Plan {
            sweep: Some(sweep),
            ..self.plan()
        }
    }

    fn session<T>(
        &self,
        fake: &FakeRunner,
        work: impl FnOnce(&mut Session<'_>) -> anyhow::Result<T>,
    ) -> anyhow::Result<T> {
        let mut progress = Recorded::default();
        work(&mut Session {
            importer: &Fixture,
            runners: Box::new(fake.clone()),
            calibrations: Store::new(self.folder.path().join("calibrations")),
            root: Root::system(),
            command_line: vec!["opcollect".to_owned()],
            interrupt: self.interrupt.clone(),
            progress: &mut progress,
            clock: Box::new(self.clock.clone()),
        })
    }

    fn run(&self, plan: Plan, fake: &FakeRunner) -> anyhow::Result<RunReport> {
        let planned = planned(plan);
        self.session(fake, |session| run(&planned, session))
    }

    fn resume(&self, fake: &FakeRunner) -> anyhow::Result<Resumed> {
        self.resume_and_retry(fake, false)
    }

    fn resume_and_retry(&self, fake: &FakeRunner, retry_failed: bool) -> anyhow::Result<Resumed> {
        let request = ResumeRequest {
            folder: self.folder.path().join("run"),
            retry_failed,
            time_budget_ns: None,
            python: None,
        };
        self.session(fake, |session| resume(&request, session))
    }

    fn rows(&self) -> Vec<Row> {
        opdata::read_rows(&self.folder.path().join("run")).unwrap()
    }
}

fn planned(plan: Plan) -> Planned {
    Planned {
        plan,
        warnings: Vec::new(),
        python: None,
        label: opdata::RunLabel::default(),
        export_markdown: None,
    }
}

/// A runner on which everything works: a default schedule takes 1 µs, a sample between 2 and 3.
fn works() -> FakeRunner {
    FakeRunner::new(|step| Act::takes(time_of_step(step)))
}

fn time_of_step(step: WorkerStep<'_>) -> f64 {
    match step {
        WorkerStep::Measure { kernel, .. } => match kernel.schedule_spec {
            ScheduleSpec::Metaschedule { seed } => 2e3 + (seed % 1000) as f64,
            _ => 1e3,
        },
        _ => 1e6,
    }
}

/// The number of a kernel in its plan, if that is what the step is about.
fn built(step: WorkerStep<'_>) -> Option<u64> {
    match step {
        WorkerStep::Build(kernel) => Some(kernel.id),
        _ => None,
    }
}

/// The number of the kernel that is measured, if that is what the step is about.
fn measured(step: WorkerStep<'_>) -> Option<u64> {
    match step {
        WorkerStep::Measure { kernel, .. } => Some(kernel.id),
        _ => None,
    }
}

/// A list that a script fills.
type Seen<T> = Arc<Mutex<Vec<T>>>;

fn seen<T>() -> (Seen<T>, Seen<T>) {
    let list = Seen::default();
    (Arc::clone(&list), list)
}

/// The points of rows, in their order.
fn points(rows: &[Row]) -> Vec<(String, String)> {
    rows.iter()
        .map(|r| (r.op_symbol.clone().unwrap(), r.point_id.clone()))
        .collect()
}
