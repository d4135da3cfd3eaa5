//! Whole models in the worker: the virtual machine with the same kernels that are measured one by one.

use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::io::{Read, Seek, SeekFrom};
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Instant;

use anyhow::Context;
use opdata::CacheState;
use opmodels::Graph;
use opmodels::graph::{self, InputRole};
use tvm_bridge::compile::{Asserts, Lowered};
use tvm_bridge::vm::{self, Linked, Moment, WatchedMachine};
use tvm_bridge::{Device, IrModule, KernelModule, PrimFunc, Target, Tensor, VirtualMachine};

use super::arguments::compare_outputs;
use super::serve::Shared;
use crate::device::{Conditions, HostCompiler, KernelCompiler};
use crate::measure::check::{Comparison, Tolerance, compare, worst};
use crate::measure::fill::{dims, filled};
use crate::measure::sampling::{Caches, take, time_calls};
use crate::measure::{Marks, TimingPolicy};
use crate::protocol::{OperatorInModel, WholeModelMeasured, WholeModelReady, WholeModelSpec};

/// Runs with the instrument on, from which the operators' times inside the model are taken.
const INSTRUMENTED_RUNS: usize = 11;

/// A model that runs.
pub(super) struct LoadedModel {
    pub(super) machine: VirtualMachine,
    /// The same model with the same kernels, for runs whose calls are watched.
    pub(super) watched: WatchedMachine,
    pub(super) graph: Graph,
    /// The model's inputs and weights, by where their values lie.
    pub(super) addresses: HashMap<usize, usize>,
}

impl LoadedModel {
    /// Builds the model with default schedules, runs it once and checks its outputs.
    pub fn build(
        shared: &Shared,
        spec: WholeModelSpec,
    ) -> anyhow::Result<(WholeModelReady, LoadedModel)> {
        let WholeModelSpec {
            graph,
            jobs,
            watch_tasks,
        } = spec;
        if watch_tasks {
            tvm_bridge::tasks::install()?;
        }
        let start = Instant::now();
        shared.session.release()?;
        let functions = schedule_all(shared, &graph)?;
        let module = shared
            .module
            .with_functions(functions.iter().map(|(n, f)| (n.as_str(), f)))?;
        let own = Place {
            target: &shared.target,
            device: shared.session.tensors(),
            compiler: shared.session.compiler(),
        };
        let Built { linked, kernels } = own.build(&module, jobs)?;
        let watched = linked.start_watched(&kernels, own.device)?;
        let machine = linked.start(&kernels, own.target, own.device)?;
        let build_ns = start.elapsed().as_nanos() as u64;
        let on_host = inputs(shared, &graph)?;
        let inputs = on_host
            .iter()
            .map(|tensor| tensor.clone().into_device(own.device))
            .collect::<tvm_bridge::Result<Vec<_>>>()?;
        let places = inputs.iter().enumerate();
        let addresses = places
            .filter_map(|(place, tensor)| Some((tensor.host_bytes()?.as_ptr() as usize, place)))
            .collect();
        for machine in [&machine, &watched.machine] {
            machine.set_inputs(&graph.entry, &inputs)?;
        }
        machine.runner(&graph.entry)?.run()?;
        let outputs = machine.outputs(&graph.entry)?;
        let (comparison, checked_against) = check(shared, &graph, jobs, &on_host, &outputs)?;
        Ok((
            WholeModelReady {
                comparison,
                checked_against,
                build_ns,
            },
            LoadedModel {
                machine,
                watched,
                graph,
                addresses,
            },
        ))
    }

    /// Times the model end to end, then its operators inside it.
    pub fn measure(
        &self,
        shared: &mut Shared,
        threads: usize,
        policy: TimingPolicy,
    ) -> anyhow::Result<WholeModelMeasured> {
        let session = &mut shared.session;
        session.prepare(&Conditions::new(threads as u32, CacheState::Model))?;
        let runner = self.machine.runner(&self.graph.entry)?;
        let before = session.settle()?;
        let clock = session.model_clock(threads as u32);
        let first = time_calls(clock, 1, || runner.run())?;
        let taken = take(policy, first, clock, &mut Caches::Kept, || {
            anyhow::Ok(runner.run()?)
        })?;
        let drift = before.max(session.drift()?);
        let runner = self.watched.machine.runner(&self.graph.entry)?;
        runner.run()?;
        let instrumented = self.instrument(session.marks()?);
        let mut totals = Vec::with_capacity(INSTRUMENTED_RUNS);
        let mut sums = Vec::with_capacity(INSTRUMENTED_RUNS);
        for _ in 0..INSTRUMENTED_RUNS {
            instrumented.borrow_mut().marks.mark();
            runner.run()?;
            let mut calls = instrumented.borrow_mut();
            calls.marks.mark();
            let (total, sum) = calls.end_run();
            totals.push(total);
            sums.push(sum);
        }
        self.watched.unwatch();
        let operators = instrumented
            .borrow()
            .times
            .iter()
            .map(|(symbol, times)| OperatorInModel {
                symbol: symbol.clone(),
                calls: (times.len() / INSTRUMENTED_RUNS) as u64,
                median_ns: median(times.clone()),
            })
            .collect();
        Ok(WholeModelMeasured {
            taken,
            operators,
            instrumented_sum_ns: median(sums),
            instrumented_total_ns: median(totals),
            drift,
        })
    }

    /// Puts a hook into the machine that marks begin and end of every call of an operator.
    fn instrument(&self, marks: Box<dyn Marks>) -> Rc<RefCell<Calls>> {
        let calls = Rc::new(RefCell::new(Calls {
            marks,
            run: Vec::new(),
            open: false,
            times: BTreeMap::new(),
        }));
        let symbols: HashSet<String> = self
            .graph
            .operators
            .iter()
            .map(|o| o.symbol.clone())
            .collect();
        let in_hook = Rc::clone(&calls);
        self.watched.watch(move |call| {
            let mut calls = in_hook.borrow_mut();
            match call.moment() {
                Moment::Before => {
                    let symbol = call.symbol();
                    if symbols.contains(symbol) {
                        calls.run.push(symbol.to_owned());
                        calls.open = true;
                        calls.marks.mark();
                    }
                }
                // Operators call nothing that the hook sees, so the next end is the open one's.
                Moment::After if calls.open => {
                    calls.marks.mark();
                    calls.open = false;
                }
                Moment::After => {}
            }
        });
        calls
    }
}

/// Times of operator calls, as the hook gathers them.
struct Calls {
    /// Begin of the run, begin and end of each call, end of the run.
    marks: Box<dyn Marks>,
    /// What was called in this run, in order.
    run: Vec<String>,
    /// Whether the last call has not ended yet.
    open: bool,
    /// Times of all runs in nanoseconds, by operator.
    times: BTreeMap<String, Vec<f64>>,
}

impl Calls {
    /// Takes what was marked in a run; its time, and the sum of its operators', in nanoseconds.
    fn end_run(&mut self) -> (f64, f64) {
        let marks = self.marks.take();
        let total = marks.last().map_or(0.0, |end| end.as_nanos() as f64);
        let mut sum = 0.0;
        let calls = marks.get(1..).unwrap_or_default().chunks_exact(2);
        for (symbol, call) in self.run.drain(..).zip(calls) {
            let ns = call[1].saturating_sub(call[0]).as_nanos() as f64;
            sum += ns;
            self.times.entry(symbol).or_default().push(ns);
        }
        (total, sum)
    }
}

/// 0 of no time.
fn median(times: Vec<f64>) -> f64 {
    opdata::stats::median(times).unwrap_or(0.0)
}

/// Every operator's function with its default schedule.
fn schedule_all(shared: &Shared, graph: &Graph) -> anyhow::Result<Vec<(String, PrimFunc)>> {
    graph
        .operators
        .iter()
        .map(|o| {
            let function = shared.module.prim_func(&o.symbol)?;
            let scheduled = shared.scheduler.default_schedule(&function)?;
            Ok((
                o.symbol.clone(),
                scheduled.schedule.function()?.without_symbol()?,
            ))
        })
        .collect()
}

/// Where a model runs.
struct Place<'a> {
    target: &'a Target,
    device: Device,
    compiler: Arc<dyn KernelCompiler>,
}

impl Place<'_> {
    /// Compiles the model's functions on `jobs` threads.
    fn build(&self, module: &IrModule, jobs: usize) -> anyhow::Result<Built> {
        let (linked, functions) = vm::generate(module, self.target)?;
        let (target, compiler) = (self.target, &self.compiler);
        let compile = |part: IrModule| compiler.load(Lowered::new(&part, target, Asserts::Kept)?);
        let kernels = std::thread::scope(|scope| {
            let parts = functions.distribute(jobs)?;
            let builders: Vec<_> = parts
                .into_iter()
                .map(|part| scope.spawn(move || compile(part)))
                .collect();
            let lost = |_| anyhow::anyhow!("a thread that compiled a part of the model panicked");
            builders
                .into_iter()
                .map(|b| b.join().map_err(lost)?)
                .collect::<anyhow::Result<Vec<KernelModule>>>()
        })?;
        Ok(Built { linked, kernels })
    }
}

/// A model's program and its compiled functions.
struct Built {
    linked: Linked,
    kernels: Vec<KernelModule>,
}

/// The entry function's arguments: values that came with the model, else made up.
fn inputs(shared: &Shared, graph: &Graph) -> anyhow::Result<Vec<Tensor>> {
    let folder = &shared.setup.import;
    graph
        .inputs
        .iter()
        .enumerate()
        .map(|(i, input)| {
            let dtype = input.dtype.parse()?;
            let given = graph
                .reference
                .as_ref()
                .filter(|_| input.role == InputRole::Input)
                .and_then(|r| r.inputs.iter().find(|g| g.name == input.name));
            Ok(match (given, input.data) {
                (Some(given), _) => Tensor::from_bytes(
                    Device::cpu(),
                    &dims(&input.shape),
                    dtype,
                    &read(&folder.join("refs.bin"), given.place)?,
                )?,
                (None, Some(place)) => Tensor::from_bytes(
                    Device::cpu(),
                    &dims(&input.shape),
                    dtype,
                    &read(&folder.join("params.bin"), place)?,
                )?,
                (None, None) => {
                    filled(&input.shape, dtype, input.fill, shared.setup.seed, i as u64)?
                }
            })
        })
        .collect()
}

/// Compares outputs with those that came with the model, else with the model run without any schedule.
fn check(
    shared: &Shared,
    graph: &Graph,
    jobs: usize,
    inputs: &[Tensor],
    outputs: &[Tensor],
) -> anyhow::Result<(Comparison, String)> {
    if let Some(reference) = &graph.reference {
        let path = shared.setup.import.join("refs.bin");
        let comparisons = reference
            .outputs
            .iter()
            .map(|expected| {
                let bytes = read(&path, expected.place)?;
                let expected_tensor = Tensor::from_bytes(
                    Device::cpu(),
                    &dims(&expected.shape),
                    expected.dtype.parse()?,
                    &bytes,
                )?;
                let found = outputs
                    .get(expected.index as usize)
                    .context("the model has fewer outputs than its reference")?;
                let tolerance = Tolerance {
                    relative: reference.rtol,
                    of_largest: reference.rtol,
                };
                Ok(compare(found, &expected_tensor, tolerance)?)
            })
            .collect::<anyhow::Result<Vec<_>>>()?;
        let comparison = worst(comparisons).context("the reference has no outputs")?;
        return Ok((comparison, reference.origin.clone()));
    }
    // The host computes it, whatever the device: loops that are bound to no thread are a program for it alone.
    let host = Place {
        target: shared.target.host(),
        device: Device::cpu(),
        compiler: HostCompiler::shared(),
    };
    let Built { linked, kernels } = host.build(&shared.module, jobs)?;
    let plain = linked.start(&kernels, host.target, host.device)?;
    plain.set_inputs(&graph.entry, inputs)?;
    plain.runner(&graph.entry)?.run()?;
    let expected = plain.outputs(&graph.entry)?;
    // Rounding differences of every operator add up along the model.
    let terms: u64 = graph
        .operators
        .iter()
        .map(|o| o.count * o.reduction_length())
        .sum();
    Ok((
        compare_outputs(outputs, &expected, terms)?,
        "the model run without schedules".to_owned(),
    ))
}

fn read(path: &Path, place: graph::Place) -> anyhow::Result<Vec<u8>> {
    let mut bytes = vec![0; place.bytes as usize];
    let mut file =
        std::fs::File::open(path).with_context(|| format!("cannot open {}", path.display()))?;
    file.seek(SeekFrom::Start(place.offset))
        .and_then(|_| file.read_exact(&mut bytes))
        .with_context(|| {
            format!(
                "{} ends before byte {}",
                path.display(),
                place.offset + place.bytes
            )
        })?;
    Ok(bytes)
}

#[cfg(test)]
mod tests;
