//! Whole models in the worker: the virtual machine with the same kernels that are measured one by one.

use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::io::{Read, Seek, SeekFrom};
use std::path::Path;
use std::rc::Rc;
use std::time::Instant;

use anyhow::Context;
use opdata::CacheState;
use opmodels::Graph;
use opmodels::graph::{InputRole, Place};
use tvm_bridge::compile::{Asserts, Compiled, compile};
use tvm_bridge::vm::{self, Moment};
use tvm_bridge::{Device, IrModule, KernelModule, PrimFunc, Tensor, VirtualMachine};

use super::arguments::compare_outputs;
use super::serve::Shared;
use crate::device::Conditions;
use crate::measure::TimingPolicy;
use crate::measure::check::{Comparison, Tolerance, compare, worst};
use crate::measure::fill::{dims, filled};
use crate::measure::sampling::{Caches, take, time_calls};
use crate::protocol::{OperatorInModel, WholeModelMeasured, WholeModelReady, WholeModelSpec};

/// Runs with the instrument on, from which the operators' times inside the model are taken.
const INSTRUMENTED_RUNS: usize = 11;

/// A model that runs.
pub(super) struct LoadedModel {
    pub(super) machine: VirtualMachine,
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
        let machine = start_machine(shared, &module, jobs)?;
        let build_ns = start.elapsed().as_nanos() as u64;
        let inputs = inputs(shared, &graph)?;
        let places = inputs.iter().enumerate();
        let addresses = places
            .filter_map(|(place, tensor)| Some((tensor.host_bytes()?.as_ptr() as usize, place)))
            .collect();
        machine.set_inputs(&graph.entry, &inputs)?;
        machine.runner(&graph.entry)?.run()?;
        let outputs = machine.outputs(&graph.entry)?;
        let (comparison, checked_against) = check(shared, &graph, jobs, &inputs, &outputs)?;
        Ok((
            WholeModelReady {
                comparison,
                checked_against,
                build_ns,
            },
            LoadedModel {
                machine,
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
        let before = session.drift()?;
        let clock = session.model_clock(threads as u32);
        let first = time_calls(clock, 1, || runner.run())?;
        let taken = take(policy, first, clock, &mut Caches::Kept, || {
            anyhow::Ok(runner.run()?)
        })?;
        let drift = before.max(session.drift()?);
        let instrumented = self.instrument()?;
        let mut totals = Vec::with_capacity(INSTRUMENTED_RUNS);
        let mut sums = Vec::with_capacity(INSTRUMENTED_RUNS);
        for _ in 0..INSTRUMENTED_RUNS {
            let before = instrumented.borrow().sum_ns;
            let start = Instant::now();
            runner.run()?;
            totals.push(start.elapsed().as_nanos() as f64);
            sums.push(instrumented.borrow().sum_ns - before);
        }
        self.machine.clear_instrument()?;
        let calls = &instrumented.borrow().calls;
        let operators = calls
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

    /// Puts a hook into the machine that takes the time of every call of an operator.
    fn instrument(&self) -> anyhow::Result<Rc<RefCell<Calls>>> {
        let calls = Rc::new(RefCell::new(Calls::default()));
        let symbols: HashSet<String> = self
            .graph
            .operators
            .iter()
            .map(|o| o.symbol.clone())
            .collect();
        let in_hook = Rc::clone(&calls);
        self.machine.set_instrument(move |call| {
            let now = Instant::now();
            let mut calls = in_hook.borrow_mut();
            match call.moment() {
                Moment::Before => calls.begun = Some(now),
                Moment::After => {
                    let symbol = call.symbol();
                    if !symbols.contains(&symbol) {
                        return;
                    }
                    let ns = calls.begun.map_or(0.0, |b| (now - b).as_nanos() as f64);
                    calls.sum_ns += ns;
                    calls.calls.entry(symbol).or_default().push(ns);
                }
            }
        })?;
        Ok(calls)
    }
}

/// Times of operator calls, as the hook gathers them.
#[derive(Default)]
struct Calls {
    begun: Option<Instant>,
    calls: BTreeMap<String, Vec<f64>>,
    sum_ns: f64,
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

/// Compiles the model's functions on `jobs` threads and starts a machine with them.
fn start_machine(
    shared: &Shared,
    module: &IrModule,
    jobs: usize,
) -> anyhow::Result<VirtualMachine> {
    let (linked, kernels) = vm::generate(module, &shared.target)?;
    let target = &shared.target;
    let compiled: Vec<tvm_bridge::Result<Compiled>> = std::thread::scope(|scope| {
        let parts = kernels.distribute(jobs)?;
        let build = |part: IrModule| scope.spawn(move || compile(&part, target, Asserts::Kept));
        let builders: Vec<_> = parts.into_iter().map(build).collect();
        let lost = |_| anyhow::anyhow!("a thread that compiled a part of the model panicked");
        builders
            .into_iter()
            .map(|b| b.join().map_err(lost))
            .collect::<anyhow::Result<_>>()
    })?;
    let modules: Vec<KernelModule> = compiled
        .into_iter()
        .map(|c| Ok(c?.module))
        .collect::<tvm_bridge::Result<_>>()?;
    Ok(linked.start(&modules, target, Device::cpu())?)
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
    let plain = start_machine(shared, &shared.module, jobs)?;
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

fn read(path: &Path, place: Place) -> anyhow::Result<Vec<u8>> {
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
