//! Whole models in the worker: the virtual machine with the same kernels that are measured one by one.

mod agreement;
mod inside;
mod kernels;
mod threads;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context;
use opmodels::Graph;
use opmodels::graph::InputRole;
use tvm_bridge::vm::{self, Linked, Runner, WatchedMachine};
use tvm_bridge::{Device, IrModule, KernelModule, PrimFunc, Target, Tensor, VirtualMachine};

use self::inside::{Allowance, Calls, WatchedRun, median, those_that_count};
pub(super) use self::kernels::Kernels;
use self::threads::on_threads;
use super::arguments::compare_outputs;
use super::shared::{PlainModel, Shared};
use crate::device::remote::{find_linker, link};
use crate::device::{Conditions, HostCompiler, KernelCompiler, Session};
use crate::interference::quiet::{Quiet, Watched, take_quiet};
use crate::interference::remeasure::slowdown_before;
use crate::measure::TimingPolicy;
use crate::measure::check::{Comparison, Tolerance, compare, worst};
use crate::measure::fill::{dims, filled};
use crate::measure::sampling::{Caches, take, time_calls};
use crate::protocol::{
    Counting, Export, PARAMETERS, REFERENCES, WholeModelMeasured, WholeModelReady, WholeModelSpec,
};
use crate::schedule::{Run as Plain, ScheduleSpec, plain_loops};

/// A model that runs.
pub(super) struct LoadedModel {
    pub(super) machine: VirtualMachine,
    /// The same model with the same kernels, for runs whose calls are watched.
    pub(super) watched: Option<WatchedMachine>,
    pub(super) graph: Graph,
    /// Its compiled functions.
    pub(super) kernels: Vec<KernelModule>,
    /// The model's inputs and weights, by the address of their values.
    pub(super) addresses: HashMap<usize, usize>,
}

impl LoadedModel {
    /// Builds the model with the schedules of `spec`, runs it once and checks its outputs.
    pub fn build(
        shared: &Shared,
        spec: WholeModelSpec,
    ) -> anyhow::Result<(WholeModelReady, LoadedModel)> {
        let WholeModelSpec {
            graph,
            jobs,
            schedules,
            export,
            watch_tasks,
        } = spec;
        if watch_tasks {
            tvm_bridge::tasks::install()?;
        }
        let start = Instant::now();
        shared.session.release()?;
        let scheduler = &shared.scheduler;
        let functions = in_functions(&shared.module, &graph, jobs, |symbol, function| {
            let spec = schedules.get(symbol).unwrap_or(&ScheduleSpec::Default);
            let scheduled = scheduler.make(symbol, function, spec)?;
            Ok(scheduled.schedule.function()?)
        })?;
        let module = shared
            .module
            .with_functions(functions.iter().map(|(n, f)| (n.as_str(), f)))?;
        let own = ModelDevice {
            target: &shared.target,
            device: shared.session.tensors(),
            compiler: shared.session.compiler(),
        };
        if let Some(export) = &export {
            write(export, &module, &own, jobs)?;
        }
        let Built { linked, kernels } = own.build(&module, jobs, &shared.kernels)?;
        let watched = match shared.session.watches() {
            true => Some(linked.start_watched(&kernels, own.device)?),
            false => None,
        };
        let machine = shared.session.start(linked, &kernels)?;
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
        agreement::calibrate(shared, &graph, &machine)?;
        for machine in std::iter::once(&machine).chain(watched.iter().map(|w| &w.machine)) {
            machine.set_inputs(&graph.entry, &inputs)?;
        }
        machine.runner(&graph.entry)?.run()?;
        let outputs = machine.outputs(&graph.entry)?;
        let ready = match shared.session.approximation() {
            Some(run) => {
                let (plain, _) = plain_model(shared, &graph, jobs)?;
                let agreement = agreement::of(shared, &graph, (&machine, &plain), run)?;
                WholeModelReady {
                    comparison: agreement.comparison(),
                    checked_against: agreement.checked_against(),
                    build_ns,
                    agreement: Some(agreement),
                }
            }
            None => {
                let (comparison, checked_against) =
                    check(shared, &graph, jobs, &on_host, &outputs)?;
                WholeModelReady {
                    comparison,
                    checked_against,
                    build_ns,
                    agreement: None,
                }
            }
        };
        Ok((
            ready,
            LoadedModel {
                machine,
                watched,
                graph,
                kernels,
                addresses,
            },
        ))
    }

    /// Times the model end to end, then its operators inside it.
    pub fn measure(
        &self,
        shared: &mut Shared,
        at: &Conditions,
        policy: TimingPolicy,
        counting: Counting,
    ) -> anyhow::Result<WholeModelMeasured> {
        let session = shared.session.as_mut();
        session.prepare(at)?;
        let runner = self.machine.runner(&self.graph.entry)?;
        let now = session.slowdown()?;
        let waited = session.wait_for_quiet(now)?;
        let before = slowdown_before(counting == Counting::Quiet { again: true }, now, waited)?;
        let mut watched = Run {
            session,
            runner,
            at,
        };
        let first = watched.time(1)?;
        let Quiet {
            taken,
            slowdown,
            left_out,
        } = match counting {
            Counting::All => watched.take_all(policy, first, before)?,
            Counting::Quiet { .. } => take_quiet(policy, first, before, &mut watched)?,
        };
        let session = watched.session;
        let (around_runs, runs) = self.watched_runs(session, policy, counting)?;
        Ok(WholeModelMeasured {
            taken,
            left_out,
            operators: inside::operators(&runs),
            instrumented_sum_ns: median(runs.iter().map(WatchedRun::sum_ns).collect()),
            instrumented_total_ns: median(runs.iter().map(|run| run.total_ns).collect()),
            slowdown: slowdown.max(around_runs),
        })
    }

    /// Runs with the instrument on that count, and the largest slowdown around one of them.
    fn watched_runs(
        &self,
        session: &mut dyn Session,
        policy: TimingPolicy,
        counting: Counting,
    ) -> anyhow::Result<(f64, Vec<WatchedRun>)> {
        let Some(watched) = &self.watched else {
            return Ok((1.0, Vec::new()));
        };
        let runner = watched.machine.runner(&self.graph.entry)?;
        runner.run()?;
        let calls = Calls::watch(watched, &self.graph, session.marks()?);
        // If all runs count, the slowdown is not needed.
        let mut slowdown_now = || match counting {
            Counting::All => Ok(1.0),
            Counting::Quiet { .. } => session.slowdown(),
        };
        let mut runs = Vec::new();
        let mut allowance = Allowance::of(policy);
        let mut before = slowdown_now()?;
        let start = Instant::now();
        while allowance.another(start.elapsed()) {
            calls.borrow_mut().mark();
            runner.run()?;
            calls.borrow_mut().mark();
            let run = calls.borrow_mut().end_run();
            let after = slowdown_now()?;
            let around = before.max(after);
            allowance.ran(around);
            runs.push((around, run));
            before = after;
        }
        watched.unwatch();
        Ok(those_that_count(runs))
    }
}

/// The model on a device, to be timed.
struct Run<'a> {
    session: &'a mut dyn Session,
    runner: Runner,
    at: &'a Conditions,
}

impl Watched for Run<'_> {
    type Error = anyhow::Error;

    fn time(&mut self, calls: u32) -> anyhow::Result<Duration> {
        let clock = self.session.model_clock(self.at);
        Ok(time_calls(clock, calls, || self.runner.run())?)
    }

    fn slowdown(&mut self) -> anyhow::Result<f64> {
        Ok(self.session.slowdown()?)
    }
}

impl Run<'_> {
    /// Takes samples that all count, after one run that took `first` and one reading of the reference kernel.
    fn take_all(
        &mut self,
        policy: TimingPolicy,
        first: Duration,
        before: f64,
    ) -> anyhow::Result<Quiet> {
        let clock = self.session.model_clock(self.at);
        let taken = take(policy, first, clock, &mut Caches::Kept, || {
            anyhow::Ok(self.runner.run()?)
        })?;
        Ok(Quiet {
            taken,
            slowdown: before.max(self.session.slowdown()?),
            left_out: 0,
        })
    }
}

/// Every operator's function, rewritten on `jobs` threads.
fn in_functions(
    module: &IrModule,
    graph: &Graph,
    jobs: usize,
    rewrite: impl Fn(&str, &PrimFunc) -> anyhow::Result<PrimFunc> + Sync,
) -> anyhow::Result<Vec<(String, PrimFunc)>> {
    let symbols = graph.operators.iter().map(|o| o.symbol.clone()).collect();
    on_threads(symbols, jobs, |symbol: String| {
        let function = rewrite(&symbol, &module.prim_func(&symbol)?)?;
        Ok((symbol, function.without_symbol()?))
    })
}

/// The device that a model runs on, and its compiler.
struct ModelDevice<'a> {
    target: &'a Target,
    device: Device,
    compiler: Arc<dyn KernelCompiler>,
}

impl ModelDevice<'_> {
    /// Compiles the model's functions on `jobs` threads, without those that `known` has.
    fn build(&self, module: &IrModule, jobs: usize, known: &Kernels) -> anyhow::Result<Built> {
        let (linked, functions) = vm::generate(module, self.target)?;
        let kernels = known.of(&functions, self.compiler.as_ref(), jobs)?;
        Ok(Built { linked, kernels })
    }
}

/// A model's program and its compiled functions.
struct Built {
    linked: Linked,
    kernels: Vec<KernelModule>,
}

/// Writes a model's files.
fn write(
    export: &Export,
    module: &IrModule,
    place: &ModelDevice<'_>,
    jobs: usize,
) -> anyhow::Result<()> {
    if let Some(path) = &export.module {
        let json = module.to_json()?;
        std::fs::write(path, json).with_context(|| format!("cannot write {}", path.display()))?;
    }
    if let Some(path) = &export.library {
        anyhow::ensure!(
            place.target.device_kind().is_host(),
            "libraries are written for processors only"
        );
        let linker = find_linker()?;
        let folder = tempfile::tempdir().context("a folder for objects")?;
        let Built { linked, kernels } = place.build(module, jobs, &Kernels::default())?;
        let mut no_device =
            |_: &str| Err("a device's kernels in a program of the processor".to_owned());
        let objects = linked.export(&kernels, place.target, folder.path(), &mut no_device)?;
        link(&linker, &objects, path)?;
    }
    Ok(())
}

/// The entry function's arguments: values that came with the model, else made up.
fn inputs(shared: &Shared, graph: &Graph) -> anyhow::Result<Vec<Tensor>> {
    seeded_inputs(shared, graph, shared.setup.seed)
}

/// The entry function's arguments, with made-up values by `seed`.
fn seeded_inputs(shared: &Shared, graph: &Graph, seed: u64) -> anyhow::Result<Vec<Tensor>> {
    let contents = &shared.contents;
    graph
        .inputs
        .iter()
        .enumerate()
        .map(|(i, input)| {
            let dtype = input.dtype.parse()?;
            let given = graph
                .reference
                .as_ref()
                .filter(|_| input.role == InputRole::Input && seed == shared.setup.seed)
                .and_then(|r| r.inputs.iter().find(|g| g.name == input.name));
            Ok(match (given, input.data) {
                (Some(given), _) => Tensor::from_bytes(
                    Device::cpu(),
                    &dims(&input.shape),
                    dtype,
                    &contents.read(REFERENCES, given.place)?,
                )?,
                (None, Some(place)) => Tensor::from_bytes(
                    Device::cpu(),
                    &dims(&input.shape),
                    dtype,
                    &contents.read(PARAMETERS, place)?,
                )?,
                (None, None) => {
                    let own = match input.role {
                        InputRole::Input => seed,
                        _ => shared.setup.seed,
                    };
                    filled(&input.shape, dtype, input.fill, own, i as u64)?
                }
            })
        })
        .collect()
}

/// Compares outputs with those that came with the model, else with the model run in plain loops.
fn check(
    shared: &Shared,
    graph: &Graph,
    jobs: usize,
    inputs: &[Tensor],
    outputs: &[Tensor],
) -> anyhow::Result<(Comparison, String)> {
    if let Some(reference) = &graph.reference {
        let comparisons = reference
            .outputs
            .iter()
            .map(|expected| {
                let bytes = shared.contents.read(REFERENCES, expected.place)?;
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
    let expected = match shared.plain.get() {
        Some(plain) => plain,
        None => {
            let (plain, functions) = plain_model(shared, graph, jobs)?;
            plain.set_inputs(&graph.entry, inputs)?;
            plain.runner(&graph.entry)?.run()?;
            // Copies outlive the machine and its memory.
            let outputs = plain.outputs(&graph.entry)?;
            let outputs = outputs.iter().map(Tensor::duplicate);
            let outputs = outputs.collect::<tvm_bridge::Result<_>>()?;
            shared
                .plain
                .get_or_init(|| PlainModel { outputs, functions })
        }
    };
    // Rounding differences of every operator add up along the model.
    let terms: u64 = graph
        .operators
        .iter()
        .map(|o| o.count * o.reduction_length())
        .sum();
    Ok((
        compare_outputs(outputs, &expected.outputs, terms)?,
        "the model run in plain loops".to_owned(),
    ))
}

/// The model in plain loops on the host, and its compiled functions.
fn plain_model(
    shared: &Shared,
    graph: &Graph,
    jobs: usize,
) -> anyhow::Result<(VirtualMachine, Vec<KernelModule>)> {
    // The host computes it, whatever the device, because only the host runs loops that are bound to no thread.
    let host = ModelDevice {
        target: shared.session.plain_target(),
        device: Device::cpu(),
        compiler: HostCompiler::shared(shared.session.plain_target()),
    };
    let functions = in_functions(&shared.module, graph, jobs, |_, function| {
        let schedule = plain_loops(function, Plain::InParallel)?;
        Ok(schedule.function()?)
    })?;
    let functions = functions.iter().map(|(n, f)| (n.as_str(), f));
    let Built { linked, kernels } = host.build(
        &shared.module.with_functions(functions)?,
        jobs,
        &Kernels::default(),
    )?;
    Ok((linked.start(&kernels, host.target, host.device)?, kernels))
}

#[cfg(test)]
mod tests;
