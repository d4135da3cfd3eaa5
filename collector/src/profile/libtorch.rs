//! `opcollect profile --framework torch`: one model in libtorch, operator by operator.
//!
//! The importer makes TorchScript of the model, the program of `libtorch/` runs it as the schedule of steps says and records
//! it with Kineto. The lines of the table are made by [`optorch::lines`]; how it looks is `render/libtorch.rs`.

use std::time::Duration;

use anyhow::bail;
use opengine::protocol::StepSchedule;
use opinstall::Home;
use opmodels::deployed::{self, Deployed, Form};
use optorch::client::{Client, Program};
use optorch::lines::{GroupBy, SortBy};
use optorch::protocol::{Cycle, Detail, Device, Load, RecordSpec, StoredTensor};

use super::{OVERHEAD_BUDGET, Shown, file_of_cycle, timeout};
use crate::plan::Planned;
use crate::run::Session;

/// A request for a profile of libtorch, and the form of its output.
#[derive(Debug, PartialEq)]
pub struct TorchRequest {
    /// The model and the threads.
    pub planned: Box<Planned>,
    /// The device that the model runs on.
    pub device: Device,
    /// The runs that are recorded.
    pub schedule: StepSchedule,
    /// The content of the output.
    pub shown: TorchShown,
}

/// The lines and columns of the output, and their order.
#[derive(Debug, Default, PartialEq)]
pub struct TorchShown {
    /// Key to group calls by.
    pub group_by: GroupBy,
    /// The order of lines.
    pub sort_by: SortBy,
    /// The flags, except for their keys, which are TVM's.
    pub flags: Shown,
}

impl TorchShown {
    /// The detail that must be recorded for it.
    fn detail(&self) -> Detail {
        Detail {
            // Operations are counted by shapes.
            shapes: true,
            memory: self.flags.memory,
            modules: self.flags.stack || self.group_by == GroupBy::Layer,
        }
    }
}

/// A model that was profiled.
#[derive(Debug, Clone)]
pub struct TorchProfile {
    /// The model's name.
    pub model: String,
    /// Samples at once.
    pub batch: u64,
    /// The processor.
    pub cpu: Option<String>,
    /// Threads.
    pub threads: u32,
    /// The runs that were recorded.
    pub schedule: StepSchedule,
    /// Largest difference to Python's outputs, over the largest of them.
    pub error: f64,
    /// The record.
    pub cycles: Vec<Cycle>,
    /// Runs without the profiler and with it, taking turns, in nanoseconds.
    pub pairs: Vec<(f64, f64)>,
}

/// Profiles a model in libtorch.
///
/// # Errors
/// Fails if the extra is not installed, the model cannot be built or traced, has a wrong output, or the program is
/// lost.
pub fn profile(
    request: &TorchRequest,
    home: &Home,
    session: &mut Session<'_>,
) -> anyhow::Result<TorchProfile> {
    let plan = &request.planned.plan;
    let threads = plan.threads.iter().copied().max().unwrap_or(1);
    let model = &plan.model.model;
    session.progress.working(&format!("tracing {model}"));
    Form::TorchScript.check(plan.model.source)?;
    // A missing extra is reported before anything is built.
    let program = Program::libtorch(&home.torch_program())?;
    let importer = opmodels::Importer::new(home, request.planned.python.as_deref())?;
    let deployed = importer.deploy(&plan.model, Form::TorchScript, &mut |_| {})?;
    session
        .progress
        .working("loading the model into libtorch and checking its output");
    let mut client = start(program, &deployed, threads, request.device)?;
    session.progress.working("profiling");
    let limit = timeout(&request.schedule, plan.worker.measure_timeout_ns);
    let cycles = record(request, &mut client, limit)?;
    let pairs = client.pairs(OVERHEAD_BUDGET, limit + OVERHEAD_BUDGET)?;
    Ok(TorchProfile {
        model: deployed.model,
        batch: deployed.batch,
        cpu: session.environment().machine.cpu.name.clone(),
        threads,
        schedule: request.schedule,
        error: client.error,
        cycles,
        pairs,
    })
}

/// Starts the program, loads the model and compares its outputs with the expected ones.
///
/// # Errors
/// Fails if the program cannot load the model, or computes something else.
pub fn start(
    program: Program,
    deployed: &Deployed,
    threads: u32,
    device: Device,
) -> anyhow::Result<Client> {
    let stored = |tensors: &[deployed::StoredTensor]| {
        let convert = |tensor: &deployed::StoredTensor| StoredTensor {
            shape: tensor.shape.iter().map(|&d| d as i64).collect(),
            dtype: tensor.dtype.clone(),
            offset: tensor.place.offset,
            bytes: tensor.place.bytes,
        };
        tensors.iter().map(convert).collect()
    };
    let framework = program.framework;
    let client = Client::start(
        program,
        Load {
            model: deployed.path(),
            tensors: deployed.tensors(),
            inputs: stored(&deployed.inputs),
            outputs: stored(&deployed.outputs),
            threads,
            device,
        },
    )?;
    if client.error > deployed.rtol {
        bail!(
            "{} computes something else in {framework} than in {}: an output differs by {:.1e} of the largest",
            deployed.model,
            deployed.origin,
            client.error
        );
    }
    Ok(client)
}

/// Runs the schedule.
fn record(
    request: &TorchRequest,
    client: &mut Client,
    limit: Duration,
) -> anyhow::Result<Vec<Cycle>> {
    let schedule = request.schedule;
    let detail = request.shown.detail();
    client.run(schedule.skip_first, limit)?;
    let mut step = u64::from(schedule.skip_first);
    let mut cycles = Vec::new();
    for place in 0..schedule.repeat as usize {
        client.run(schedule.wait, limit)?;
        step += u64::from(schedule.wait) + u64::from(schedule.warmup);
        let trace = request.shown.flags.trace.as_ref().map(|path| {
            let path = file_of_cycle(path, place, schedule.repeat as usize)?;
            anyhow::Ok(std::path::absolute(path)?)
        });
        let record = RecordSpec {
            warmup: schedule.warmup,
            active: schedule.active,
            first_step: step,
            detail: Detail {
                // A stack is made of modules.
                modules: detail.modules || request.shown.flags.flamegraph.is_some(),
                ..detail
            },
            trace: trace.transpose()?,
        };
        cycles.push(client.record(record, limit)?);
        step += u64::from(schedule.active);
    }
    Ok(cycles)
}
