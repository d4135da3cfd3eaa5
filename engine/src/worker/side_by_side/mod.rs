//! Calls of models that run at the same time, in one process.
//!
//! A model is built and checked as for any whole model. One run on the virtual machine records its calls with their tensors
//! ([`trace`]). [`program`] runs these calls by a schedule, in memory of its own; [`lanes`] are the threads for calls that need
//! several each; [`group`] times a few calls alone and at the same time.

mod group;
mod lanes;
mod program;
mod trace;

use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use opdata::CacheState;
use opdata::contract::check_stages;
use tvm_bridge::vm::Runner;
use tvm_bridge::{IrModule, tasks};

use self::lanes::Lanes;
use self::program::Program;
use self::trace::Traced;
use super::shared::Shared;
use super::whole_model::LoadedModel;
use crate::device::Conditions;
use crate::protocol::{
    CallSeen, CompareWays, Contents, ModelLoaded, ModelToLoad, SideBySideDone, SideBySideOrder,
    Way, WaysCompared,
};

/// Models that were loaded, and the threads for their calls.
#[derive(Default)]
pub(super) struct SideBySide {
    models: Vec<Model>,
    lanes: Lanes,
}

/// A model whose calls are known.
struct Model {
    module: IrModule,
    loaded: LoadedModel,
    traced: Traced,
}

impl SideBySide {
    /// Does what is ordered.
    ///
    /// # Errors
    /// Fails if a model cannot be built, a call does not exist, or a kernel fails.
    pub fn perform(
        &mut self,
        shared: &mut Shared,
        order: SideBySideOrder,
    ) -> anyhow::Result<SideBySideDone> {
        match order {
            SideBySideOrder::Load { models } => self.load(shared, models),
            SideBySideOrder::Compare(ways) => {
                Ok(SideBySideDone::Compared(self.compare(shared, &ways)?))
            }
            SideBySideOrder::Group(spec) => Ok(SideBySideDone::Group(self.group(shared, &spec)?)),
            SideBySideOrder::Space { model, symbol } => {
                let model = self
                    .models
                    .get(model)
                    .context("a model that was not loaded")?;
                let function = model.module.prim_func(&symbol)?;
                let space = shared.scheduler.space(&function);
                let space = space.with_context(|| format!("the space of {symbol}"))?;
                Ok(SideBySideDone::Space(space))
            }
        }
    }

    fn load(
        &mut self,
        shared: &mut Shared,
        models: Vec<ModelToLoad>,
    ) -> anyhow::Result<SideBySideDone> {
        ensure!(
            !shared.session.processors().is_empty(),
            "operators run side by side on processors of this machine only"
        );
        self.models.clear();
        // Kernels that are loaded from now on can be kept on the thread that calls them.
        tasks::install()?;
        let mut all = Vec::new();
        for ModelToLoad {
            folder,
            module,
            spec,
        } in models
        {
            let name = spec.graph.model.clone();
            let contents = Contents::in_folder(folder);
            let module = IrModule::from_json(&contents.module(&module)?)?;
            let own = module.clone();
            let built = shared.within(own, contents, |shared| LoadedModel::build(shared, spec));
            let (ready, loaded) = built.with_context(|| format!("building {name}"))?;
            let traced = Traced::of(&loaded).with_context(|| format!("the calls of {name}"))?;
            let calls = traced.calls.iter().map(|call| CallSeen {
                symbol: call.symbol.clone(),
                has_kernel: call.kernel.is_some(),
                inputs: call.inputs.clone(),
            });
            all.push(ModelLoaded {
                ready,
                calls: calls.collect(),
            });
            self.models.push(Model {
                module,
                loaded,
                traced,
            });
        }
        Ok(SideBySideDone::Loaded {
            models: all,
            processors: shared.session.processors().to_vec(),
        })
    }

    /// Runs the models in each of the ways in turn.
    fn compare(&mut self, shared: &mut Shared, spec: &CompareWays) -> anyhow::Result<WaysCompared> {
        let inputs: Vec<Vec<Vec<usize>>> = self.models.iter().map(|m| m.traced.inputs()).collect();
        let at = Conditions::new(spec.threads, CacheState::Model);
        let session = shared.session.as_mut();
        session.prepare(&at)?;
        let mut runs = Vec::new();
        let mut same_bits = Vec::new();
        let machines = self.models.iter().map(|model| {
            let runner = model.loaded.machine.runner(&model.loaded.graph.entry)?;
            runner.run()?;
            Ok(runner)
        });
        let machines: Vec<Runner> = machines.collect::<anyhow::Result<_>>()?;
        for way in &spec.ways {
            match way {
                Way::VirtualMachine => {
                    same_bits.push(true);
                    runs.push(None);
                }
                Way::Stages { stages } => {
                    if let Err(problem) = check_stages(stages, spec.threads, &inputs) {
                        bail!("{problem}");
                    }
                    let processors = &session.processors()[..spec.threads as usize];
                    let program = Program::new(&self.models, stages, processors)?;
                    program.run(&mut self.lanes)?;
                    same_bits.push(program.has_outputs_of(&self.models)?);
                    runs.push(Some(program));
                }
            }
        }
        let mut rounds_ns = vec![Vec::new(); runs.len()];
        let mut slowdown = session.slowdown()?;
        for _ in 0..spec.rounds {
            for (way, times) in runs.iter().zip(&mut rounds_ns) {
                let lanes = &mut self.lanes;
                let mut run = || match way {
                    Some(program) => program.run(lanes),
                    None => Ok(machines.iter().try_for_each(Runner::run)?),
                };
                times.push(median_run(Duration::from_nanos(spec.budget_ns), &mut run)?);
            }
            slowdown = slowdown.max(session.slowdown()?);
        }
        Ok(WaysCompared {
            rounds_ns,
            same_bits,
            slowdown,
        })
    }
}

/// The median time of the runs within a budget, in nanoseconds; the first run is not counted.
fn median_run(
    budget: Duration,
    run: &mut dyn FnMut() -> anyhow::Result<()>,
) -> anyhow::Result<f64> {
    /// Fewest runs that are counted.
    const LEAST: usize = 3;
    run()?;
    let begin = Instant::now();
    let mut times = Vec::new();
    while times.len() < LEAST || begin.elapsed() < budget {
        let start = Instant::now();
        run()?;
        times.push(start.elapsed().as_nanos() as f64);
    }
    opdata::stats::median(times).context("no run")
}
