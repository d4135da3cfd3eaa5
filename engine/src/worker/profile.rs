//! Profiling a whole model in the worker: the virtual machine's instrument takes the time of every call.
//!
//! What calls there are is looked at in one run; in the runs that are kept the hook takes the time and nothing else. What
//! watching costs is measured by runs without it and with it that take turns.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;
use std::time::{Duration, Instant};

use anyhow::bail;
use opdata::CacheState;
use tvm_bridge::tasks;
use tvm_bridge::vm::{Call, Moment, Runner, TensorFacts};

use super::serve::Shared;
use super::whole_model::LoadedModel;
use crate::device::Conditions;
use crate::protocol::{
    ProfileSpec, Profiled, ProfiledArgument, ProfiledCall, ProfiledCycle, ProfiledStep, TaskSpan,
};

/// Fewest and most pairs of runs without and with the instrument.
const PAIRS: (usize, usize) = (10, 500);
/// Functions of the virtual machine that give it memory.
const ALLOC_STORAGE: &str = "vm.builtin.alloc_storage";
const ALLOC_TENSOR: &str = "vm.builtin.alloc_tensor";

impl LoadedModel {
    /// Profiles runs of the model as the schedule says.
    pub fn profile(&self, shared: &mut Shared, spec: &ProfileSpec) -> anyhow::Result<Profiled> {
        let session = &mut shared.session;
        session.prepare(&Conditions::new(spec.threads as u32, CacheState::Model))?;
        let runner = self.machine.runner(&self.graph.entry)?;
        runner.run()?;
        let watch = Watch {
            model: self,
            runner: &runner,
            started: Instant::now(),
            stamps: Rc::default(),
        };
        let seen = watch.look()?;
        let before = session.drift()?;
        let mut cycles = Vec::new();
        let schedule = spec.schedule;
        let mut step = u64::from(schedule.skip_first);
        watch.plain(schedule.skip_first)?;
        for _ in 0..schedule.repeat {
            watch.plain(schedule.wait)?;
            watch.on()?;
            for _ in 0..schedule.warmup {
                watch.step(&seen)?;
            }
            step += u64::from(schedule.wait) + u64::from(schedule.warmup);
            let steps = (0..schedule.active).map(|_| watch.step(&seen));
            let steps = steps.collect::<anyhow::Result<_>>()?;
            watch.off()?;
            cycles.push(ProfiledCycle {
                first_step: step,
                steps,
            });
            step += u64::from(schedule.active);
        }
        let pairs = watch.pairs(Duration::from_nanos(spec.overhead_budget_ns))?;
        let drift = before.max(shared.session.drift()?);
        Ok(Profiled {
            calls: seen.calls(&self.addresses),
            storage_bytes: seen.storage_bytes,
            cycles,
            pairs,
            drift,
        })
    }
}

/// The model under watch.
struct Watch<'a> {
    model: &'a LoadedModel,
    runner: &'a Runner,
    started: Instant,
    /// Times of the hook's calls in a run.
    stamps: Rc<RefCell<Vec<Instant>>>,
}

impl Watch<'_> {
    /// One run in which everything is looked at.
    fn look(&self) -> anyhow::Result<Seen> {
        let seen = Rc::new(RefCell::new(Seen::default()));
        let in_hook = Rc::clone(&seen);
        let machine = &self.model.machine;
        machine.set_instrument(move |call| in_hook.borrow_mut().note(call))?;
        let run = self.runner.run();
        machine.clear_instrument()?;
        run?;
        Ok(seen.take())
    }

    /// Runs without the instrument.
    fn plain(&self, runs: u32) -> anyhow::Result<()> {
        for _ in 0..runs {
            self.runner.run()?;
        }
        Ok(())
    }

    fn on(&self) -> anyhow::Result<()> {
        let stamps = Rc::clone(&self.stamps);
        let machine = &self.model.machine;
        machine.set_instrument(move |_| stamps.borrow_mut().push(Instant::now()))?;
        tasks::record(true);
        Ok(())
    }

    fn off(&self) -> anyhow::Result<()> {
        tasks::record(false);
        Ok(self.model.machine.clear_instrument()?)
    }

    /// One run that is watched.
    fn step(&self, seen: &Seen) -> anyhow::Result<ProfiledStep> {
        self.stamps.borrow_mut().clear();
        tasks::take();
        let begin = Instant::now();
        self.runner.run()?;
        let end = Instant::now();
        let stamps = self.stamps.borrow();
        if stamps.len() != seen.events.len() {
            bail!(
                "the model made {} calls in one run and {} in another: a profile needs the same calls in every run",
                seen.events.len() / 2,
                stamps.len() / 2
            );
        }
        let at = |moment: Instant| moment.duration_since(self.started).as_nanos() as u64;
        let mut calls = vec![(0, 0); seen.seen.len()];
        for ((call, moment), stamp) in seen.events.iter().zip(stamps.iter()) {
            match moment {
                Moment::Before => calls[*call].0 = at(*stamp),
                Moment::After => calls[*call].1 = at(*stamp),
            }
        }
        let tasks = tasks::take().into_iter().map(|task| TaskSpan {
            thread: task.thread,
            span: (at(task.begin), at(task.end)),
        });
        Ok(ProfiledStep {
            span: (at(begin), at(end)),
            calls,
            tasks: tasks.collect(),
        })
    }

    /// Runs without and with the instrument that take turns; which comes first changes from pair to pair.
    fn pairs(&self, budget: Duration) -> anyhow::Result<Vec<(f64, f64)>> {
        let begun = Instant::now();
        let mut pairs = Vec::new();
        while pairs.len() < PAIRS.0 || (begun.elapsed() < budget && pairs.len() < PAIRS.1) {
            let first_watched = pairs.len() % 2 == 1;
            let first = self.timed(first_watched)?;
            let second = self.timed(!first_watched)?;
            pairs.push(match first_watched {
                false => (first, second),
                true => (second, first),
            });
        }
        Ok(pairs)
    }

    fn timed(&self, watched: bool) -> anyhow::Result<f64> {
        if watched {
            self.stamps.borrow_mut().clear();
            tasks::take();
            self.on()?;
        }
        let begin = Instant::now();
        self.runner.run()?;
        let elapsed = begin.elapsed();
        if watched {
            self.off()?;
        }
        Ok(elapsed.as_nanos() as f64)
    }
}

/// What one run was seen to do.
#[derive(Default)]
struct Seen {
    seen: Vec<SeenCall>,
    /// Every call's begin and end, in the order of time.
    events: Vec<(usize, Moment)>,
    /// Calls that have begun and not ended.
    open: Vec<usize>,
    storage_bytes: u64,
}

struct SeenCall {
    symbol: String,
    parent: Option<usize>,
    tensors: Vec<TensorFacts>,
    result: Option<TensorFacts>,
}

impl Seen {
    fn note(&mut self, call: &Call<'_>) {
        match call.moment() {
            Moment::Before => {
                let symbol = call.symbol();
                if symbol == ALLOC_STORAGE {
                    let extents = call.shapes();
                    let bytes: i64 = extents.first().map_or(0, |shape| shape.iter().product());
                    self.storage_bytes += bytes.max(0) as u64;
                }
                let index = self.seen.len();
                self.seen.push(SeenCall {
                    symbol,
                    parent: self.open.last().copied(),
                    tensors: call.tensors(),
                    result: None,
                });
                self.open.push(index);
                self.events.push((index, Moment::Before));
            }
            Moment::After => {
                if let Some(index) = self.open.pop() {
                    self.seen[index].result = call.result();
                    self.events.push((index, Moment::After));
                }
            }
        }
    }

    /// The calls, with who allocates and frees what; `inputs` are the addresses of the model's inputs.
    fn calls(&self, inputs: &HashMap<usize, usize>) -> Vec<ProfiledCall> {
        let argument = |tensor: &TensorFacts| ProfiledArgument {
            shape: tensor.shape.clone(),
            dtype: tensor.dtype.map_or_else(String::new, |d| d.to_string()),
            input: inputs.get(&tensor.address).copied(),
        };
        let mut calls: Vec<ProfiledCall> = self
            .seen
            .iter()
            .map(|call| ProfiledCall {
                symbol: call.symbol.clone(),
                parent: call.parent,
                arguments: call.tensors.iter().map(argument).collect(),
                allocated_bytes: 0,
                freed_bytes: 0,
                live_bytes: 0,
            })
            .collect();
        for Life { bytes, first, last } in self.lives() {
            calls[first].allocated_bytes += bytes;
            if let Some(last) = last {
                calls[last].freed_bytes += bytes;
            }
            let end = last.unwrap_or(calls.len() - 1);
            for call in &mut calls[first..=end] {
                call.live_bytes += bytes;
            }
        }
        calls
    }

    /// Every tensor that a run allocates and uses.
    fn lives(&self) -> Vec<Life> {
        let mut lives: Vec<Life> = Vec::new();
        // Allocated and not used yet, and used: by where they lie.
        let mut fresh: HashMap<usize, u64> = HashMap::new();
        let mut used: HashMap<usize, usize> = HashMap::new();
        for (index, call) in self.seen.iter().enumerate() {
            if call.symbol == ALLOC_TENSOR {
                if let Some(tensor) = &call.result {
                    used.remove(&tensor.address);
                    fresh.insert(tensor.address, tensor.bytes());
                }
                continue;
            }
            for tensor in &call.tensors {
                if let Some(bytes) = fresh.remove(&tensor.address) {
                    used.insert(tensor.address, lives.len());
                    lives.push(Life {
                        bytes,
                        first: index,
                        last: Some(index),
                    });
                } else if let Some(life) = used.get(&tensor.address) {
                    lives[*life].last = Some(index);
                }
            }
        }
        // What nobody but its maker has used is what the model returns.
        for life in &mut lives {
            life.last = life.last.filter(|last| *last != life.first);
        }
        lives
    }
}

/// From the first call that uses a tensor to the last; nothing for one that outlives the run.
struct Life {
    bytes: u64,
    first: usize,
    last: Option<usize>,
}

#[cfg(test)]
mod tests {
    use tvm_bridge::DType;

    use super::*;

    fn tensor(address: usize, elements: i64) -> TensorFacts {
        TensorFacts {
            address,
            shape: vec![elements],
            dtype: Some(DType::Float32),
        }
    }

    fn call(symbol: &str, tensors: &[TensorFacts], result: Option<TensorFacts>) -> SeenCall {
        SeenCall {
            symbol: symbol.to_owned(),
            parent: None,
            tensors: tensors.to_vec(),
            result,
        }
    }

    #[test]
    fn a_tensor_lives_from_its_first_use_to_its_last_though_its_memory_is_used_again() {
        let (input, a, b) = (tensor(1, 10), tensor(100, 10), tensor(200, 5));
        let alloc = |t: &TensorFacts| call(ALLOC_TENSOR, &[], Some(t.clone()));
        let again = tensor(100, 2);
        let seen = Seen {
            seen: vec![
                alloc(&a),
                call("conv", &[input.clone(), a.clone()], None),
                alloc(&b),
                call("relu", &[a, b.clone()], None),
                alloc(&again),
                call("softmax", &[b, again], None),
            ],
            ..Seen::default()
        };
        let calls = seen.calls(&HashMap::from([(1, 0)]));
        let bytes: Vec<[u64; 3]> = [1, 3, 5]
            .map(|i| &calls[i])
            .map(|c| [c.allocated_bytes, c.freed_bytes, c.live_bytes])
            .to_vec();
        assert_eq!(bytes, [[40, 0, 40], [20, 40, 60], [8, 20, 28]]);
        assert_eq!(calls[1].arguments[0].input, Some(0));
        assert_eq!(calls[1].arguments[1].input, None);
    }
}
