//! The calls of models, prepared to run by stages of lanes, in memory of their own.
//!
//! A stage of one lane with all threads runs its calls on the caller's pool, as the virtual machine does. A stage whose
//! lanes have one thread each is one parallel loop of that pool. Each of its threads runs the calls of a lane, whose
//! own parallel loops stay on it. So a stage costs what a parallel loop costs. Other stages run on [`Lanes`].

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use opdata::contract::{CallRef, Stage};
use tvm_bridge::threads::on_each;
use tvm_bridge::{DType, Device, PreparedCall, Tensor, tasks};

use super::Model;
use super::lanes::{Job, Lanes};
use super::trace::Source;

/// Calls that are ready to run by a schedule.
pub(super) struct Program {
    stages: Vec<Vec<PreparedLane>>,
    /// The results of each model.
    results: Vec<Vec<Tensor>>,
    /// Threads of the caller's pool.
    threads: usize,
}

/// Calls that run one after another.
struct PreparedLane {
    /// Index of its first processor among those of the program.
    first: usize,
    processors: Vec<usize>,
    calls: Arc<Vec<PreparedCall>>,
}

fn run_all(calls: &[PreparedCall]) -> tvm_bridge::Result<()> {
    calls.iter().try_for_each(PreparedCall::run)
}

impl Program {
    /// Prepares stages that were checked, for a pool on these processors.
    ///
    /// # Errors
    /// Fails if there is not enough memory.
    pub fn new(
        models: &[Model],
        stages: &[Stage],
        processors: &[usize],
    ) -> anyhow::Result<Program> {
        let memory = Memory::plan(models, stages)?;
        let mut prepared = Vec::new();
        for stage in stages {
            let mut lanes = Vec::new();
            let mut first = 0;
            for lane in stage.lanes.iter().filter(|lane| !lane.calls.is_empty()) {
                let calls = lane.calls.iter();
                let calls = calls.filter_map(|&call| memory.prepare(models, call).transpose());
                let threads = lane.threads as usize;
                lanes.push(PreparedLane {
                    first,
                    processors: processors[first..first + threads].to_vec(),
                    calls: Arc::new(calls.collect::<anyhow::Result<_>>()?),
                });
                first += threads;
            }
            prepared.push(lanes);
        }
        let results = models.iter().enumerate().map(|(model, known)| {
            let results = known.traced.results.iter();
            results.map(|source| memory.read(model, source)).collect()
        });
        Ok(Program {
            results: results.collect::<anyhow::Result<_>>()?,
            stages: prepared,
            threads: processors.len(),
        })
    }

    /// Runs all calls once.
    ///
    /// # Errors
    /// Errors of a kernel.
    pub fn run(&self, lanes: &mut Lanes) -> anyhow::Result<()> {
        for stage in &self.stages {
            match &stage[..] {
                [] => {}
                [lane] if lane.processors.len() == self.threads => run_all(&lane.calls)?,
                [lane] if lane.processors.len() == 1 => tasks::alone(|| run_all(&lane.calls))?,
                all if all.iter().all(|lane| lane.processors.len() == 1) => run_on_pool(all)?,
                all => lanes.run(all.iter().map(PreparedLane::job).collect())?,
            }
        }
        Ok(())
    }

    /// Whether the outputs of the last run have the bits of the virtual machine's last run.
    ///
    /// # Errors
    /// Fails if a machine has not run.
    pub fn has_outputs_of(&self, models: &[Model]) -> anyhow::Result<bool> {
        for (model, own) in models.iter().zip(&self.results) {
            let expected = model.loaded.machine.outputs(&model.loaded.graph.entry)?;
            for (expected, own) in expected.iter().zip(own) {
                if expected.bytes()? != own.bytes()? {
                    return Ok(false);
                }
            }
        }
        Ok(true)
    }
}

impl PreparedLane {
    fn job(&self) -> (Vec<usize>, Job) {
        let calls = Arc::clone(&self.calls);
        let job: Job = Box::new(move || Ok(run_all(&calls)?));
        (self.processors.clone(), job)
    }
}

/// Runs lanes of one thread each on the threads of the caller's pool.
fn run_on_pool(lanes: &[PreparedLane]) -> anyhow::Result<()> {
    let failed = Mutex::new(None);
    on_each(&|number, _| {
        let Some(lane) = lanes.iter().find(|lane| lane.first == number) else {
            return;
        };
        if let Err(error) = tasks::alone(|| run_all(&lane.calls))
            && let Ok(mut failed) = failed.lock()
        {
            *failed = Some(error);
        }
    })?;
    match failed.into_inner() {
        Ok(Some(error)) => Err(error.into()),
        _ => Ok(()),
    }
}

/// Buffers of the calls' outputs. One that no later call reads is used again.
struct Memory {
    buffers: Vec<Tensor>,
    /// The buffer of each output of a call.
    of: HashMap<(CallRef, usize), usize>,
}

impl Memory {
    fn plan(models: &[Model], stages: &[Stage]) -> anyhow::Result<Memory> {
        let time = times(stages);
        let mut last: HashMap<(CallRef, usize), usize> = HashMap::new();
        for (number, model) in models.iter().enumerate() {
            for (reader, call) in model.traced.calls.iter().enumerate() {
                let Some(&at) = time.get(&CallRef(number, reader)) else {
                    continue;
                };
                for source in &call.reads {
                    if let Source::Made { call, output, .. } = source {
                        let until = last.entry((CallRef(number, *call), *output)).or_default();
                        *until = at.max(*until);
                    }
                }
            }
            for source in &model.traced.results {
                if let Source::Made { call, output, .. } = source {
                    last.insert((CallRef(number, *call), *output), usize::MAX);
                }
            }
        }
        let mut memory = Memory {
            buffers: Vec::new(),
            of: HashMap::new(),
        };
        // Bytes of each buffer, and the last time that it is used.
        let mut busy: Vec<(usize, usize)> = Vec::new();
        for &call in stages.iter().flat_map(|s| &s.lanes).flat_map(|l| &l.calls) {
            let at = time[&call];
            for (output, (shape, dtype)) in models[call.0].traced.calls[call.1]
                .writes
                .iter()
                .enumerate()
            {
                let bytes = shape.iter().product::<i64>().max(0) as usize * dtype.bytes();
                let until = last.get(&(call, output)).copied().unwrap_or(at);
                let free = busy.iter().enumerate();
                let free = free.filter(|(_, (room, used))| *used < at && *room >= bytes);
                let buffer = match free.min_by_key(|(_, (room, _))| *room) {
                    Some((found, _)) => found,
                    None => {
                        let extent = [bytes as i64];
                        memory
                            .buffers
                            .push(Tensor::zeros(Device::cpu(), &extent, DType::UInt8)?);
                        busy.push((bytes, 0));
                        busy.len() - 1
                    }
                };
                busy[buffer].1 = until;
                memory.of.insert((call, output), buffer);
            }
        }
        Ok(memory)
    }

    /// The tensor that a source refers to.
    fn read(&self, model: usize, source: &Source) -> anyhow::Result<Tensor> {
        Ok(match source {
            Source::Given(tensor) => tensor.clone(),
            Source::Made {
                call,
                output,
                shape,
                dtype,
            } => self.buffers[self.of[&(CallRef(model, *call), *output)]].view(shape, *dtype)?,
        })
    }

    /// A call with its arguments; nothing for one that calls no kernel.
    fn prepare(&self, models: &[Model], call: CallRef) -> anyhow::Result<Option<PreparedCall>> {
        let traced = &models[call.0].traced.calls[call.1];
        let reads = traced.reads.iter().map(|source| self.read(call.0, source));
        let writes = traced
            .writes
            .iter()
            .enumerate()
            .map(|(output, (shape, dtype))| {
                Ok(self.buffers[self.of[&(call, output)]].view(shape, *dtype)?)
            });
        let arguments = reads.chain(writes).collect::<anyhow::Result<Vec<_>>>()?;
        let kernel = traced.kernel.clone();
        Ok(kernel.map(|kernel| kernel.prepare(arguments)))
    }
}

/// The time step of each call: in a stage with one lane the calls follow each other, in other stages all share one step.
fn times(stages: &[Stage]) -> HashMap<CallRef, usize> {
    let mut time = HashMap::new();
    let mut now = 1;
    for stage in stages {
        let one_lane = stage.lanes.len() == 1;
        for &call in stage.lanes.iter().flat_map(|lane| &lane.calls) {
            time.insert(call, now);
            now += usize::from(one_lane);
        }
        now += 1;
    }
    time
}

#[cfg(test)]
mod tests {
    use opdata::contract::Lane;

    use super::*;

    #[test]
    fn calls_of_a_lane_alone_follow_each_other_and_those_of_other_stages_share_a_time() {
        let lane = |calls: &[usize]| Lane {
            threads: 1,
            calls: calls.iter().map(|&call| CallRef(0, call)).collect(),
        };
        let stages = [
            Stage {
                lanes: vec![lane(&[0, 1])],
            },
            Stage {
                lanes: vec![lane(&[2, 3]), lane(&[4])],
            },
        ];
        let time = times(&stages);
        let at = |call| time[&CallRef(0, call)];
        assert!(at(0) < at(1) && at(1) < at(2));
        assert_eq!((at(2), at(2)), (at(3), at(4)));
    }
}
