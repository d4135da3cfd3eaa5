//! Building kernels on all cores, and refusing early what is not worth LLVM's time.
//!
//! A schedule spec is scheduled, lowered and compiled. On the way a candidate can end as a duplicate: its program equals an earlier
//! one's after scheduling or after lowering. It can also end as too large (unrolled into more statements than allowed); both cost a
//! few milliseconds instead of a compilation. The reference outputs of an operator are made once, by whoever needs them first. If the
//! whole model was built in plain loops, its functions compute them.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Instant;

use anyhow::Context;
use opdata::Status;
use tvm_bridge::compile::{Asserts, compile};
use tvm_bridge::{Device, IrModule, Kernel, PrimFunc, Tensor};

use super::arguments::{arguments, first_output};
use super::shared::{Replies, Shared};
use crate::device::{KernelCompiler, NotOnDevice, Program, Purpose, Simulation, TooLong};
use crate::protocol::{Built, KernelSpec, Reply};
use crate::schedule::{Choice, Run, Scheduler, plain_loops};

/// The expected outputs of an operator, computed on first use; an error is kept as its text.
type Reference = Arc<Mutex<Option<Result<Vec<Tensor>, String>>>>;

/// Builds kernels and remembers what was built.
pub(super) struct Builder {
    references: Mutex<HashMap<String, Reference>>,
    /// The first kernel with each program, by operator and hash.
    programs: Mutex<HashMap<(String, u64), u64>>,
}

/// A kernel that is ready to run.
pub(super) struct Ready {
    pub spec: KernelSpec,
    pub choice: Choice,
    pub kernel: Kernel,
    /// The simulation, if the device has a simulator.
    pub simulation: Option<Simulation>,
}

/// The outcome of a candidate.
enum Outcome {
    /// The kernel is missing if it was compiled only.
    Built(Box<Built>, Option<(Kernel, Option<Simulation>)>),
    Duplicate {
        of: u64,
    },
    TooLarge,
}

impl Builder {
    pub fn new() -> Builder {
        Builder {
            references: Mutex::default(),
            programs: Mutex::default(),
        }
    }

    /// Builds on `jobs` threads, answering as kernels are done.
    pub fn build(
        &self,
        shared: &Shared,
        specs: &[KernelSpec],
        jobs: usize,
        replies: &Replies,
    ) -> Vec<Ready> {
        // If this fails, the threads only build more slowly.
        let _ = shared.session.release();
        let next = AtomicUsize::new(0);
        let ready = Mutex::new(Vec::new());
        let bench = Workbench {
            module: &shared.module,
            plain_target: shared.session.plain_target(),
            scheduler: &shared.scheduler,
            compiler: shared.session.compiler(),
            purpose: shared.setup.purpose,
            seed: shared.setup.seed,
            max_statements: shared.setup.max_statements,
            has_plain_model: shared.plain.get().is_some(),
        };
        std::thread::scope(|scope| {
            for _ in 0..jobs.max(1) {
                scope.spawn(|| {
                    while let Some(spec) = specs.get(next.fetch_add(1, Ordering::Relaxed)) {
                        let id = spec.id;
                        replies.send(&Reply::Started { id });
                        match self.build_one(&bench, spec) {
                            Ok(Outcome::Built(built, kernel)) => {
                                if let (Some((kernel, simulation)), Ok(mut ready)) =
                                    (kernel, ready.lock())
                                {
                                    ready.push(Ready {
                                        spec: spec.clone(),
                                        choice: built.choice.clone(),
                                        kernel,
                                        simulation,
                                    });
                                }
                                replies.send(&Reply::Built(*built));
                            }
                            Ok(Outcome::Duplicate { of }) => {
                                replies.send(&Reply::Duplicate { id, of })
                            }
                            Ok(Outcome::TooLarge) => replies.send(&Reply::Refused {
                                id: Some(id),
                                status: Status::Skipped,
                                reason: format!(
                                    "the schedule unrolls into more than {} statements",
                                    bench.max_statements
                                ),
                            }),
                            Err(error) => replies.send(&Reply::Refused {
                                id: Some(id),
                                status: match &error {
                                    e if e.is::<TooLong>() => Status::TimedOut,
                                    e if e.is::<NotOnDevice>() => Status::Skipped,
                                    _ => Status::CompileFailed,
                                },
                                reason: format!("{error:#}"),
                            }),
                        }
                    }
                });
            }
        });
        ready.into_inner().unwrap_or_default()
    }

    fn build_one(&self, bench: &Workbench<'_>, spec: &KernelSpec) -> anyhow::Result<Outcome> {
        let function = bench.module.prim_func(&spec.symbol)?;
        let start = Instant::now();
        let scheduled = bench
            .scheduler
            .make(&spec.symbol, &function, &spec.schedule_spec)?;
        let program_hash = scheduled.schedule.function()?.structural_hash()?;
        let schedule_ns = start.elapsed().as_nanos() as u64;
        if let Some(of) = self.first_with(spec, program_hash) {
            return Ok(Outcome::Duplicate { of });
        }
        let lowered = bench.compiler.lower(&scheduled.schedule.module()?)?;
        if let Some(of) = self.first_with(spec, lowered.structural_hash()?) {
            return Ok(Outcome::Duplicate { of });
        }
        if lowered.statements(bench.max_statements)? > bench.max_statements {
            return Ok(Outcome::TooLarge);
        }
        let program = Program {
            symbol: &spec.symbol,
            hash: program_hash,
        };
        let compiled = lowered.compile(program)?;
        if bench.purpose == Purpose::Measure && !bench.has_plain_model {
            self.reference(&spec.symbol, || reference_outputs(bench, &function, spec))?;
        }
        let built = Built {
            id: spec.id,
            choice: scheduled.choice,
            trace: scheduled.schedule.trace()?.0,
            program_hash,
            schedule_ns,
            lower_ns: compiled.times.lower.as_nanos() as u64,
            codegen_ns: compiled.times.codegen.as_nanos() as u64,
            jit_ns: compiled.times.jit.as_nanos() as u64,
            device_kernels: compiled.device_kernels,
        };
        let simulation = compiled.simulation;
        let kernel = compiled.kernel.map(|kernel| (kernel, simulation));
        Ok(Outcome::Built(Box::new(built), kernel))
    }

    /// The earlier kernel with the same program, if any. Otherwise `spec` is remembered as the first.
    fn first_with(&self, spec: &KernelSpec, hash: u64) -> Option<u64> {
        let mut programs = self.programs.lock().ok()?;
        let first = *programs
            .entry((spec.symbol.clone(), hash))
            .or_insert(spec.id);
        (first != spec.id).then_some(first)
    }

    /// The outputs that an operator's kernels must have: those that its first kernel was built with, or what its function
    /// of the plain whole model computes.
    ///
    /// # Errors
    /// Fails if there is neither, or if the function fails.
    pub fn reference_of(&self, shared: &Shared, spec: &KernelSpec) -> anyhow::Result<Vec<Tensor>> {
        self.reference(&spec.symbol, || {
            let mut functions = shared.plain.get().into_iter().flat_map(|p| &p.functions);
            let kernel = functions.find_map(|module| module.function(&spec.symbol).ok());
            let kernel = kernel.context("it was not built")?;
            outputs_of(&kernel, spec, shared.setup.seed)
        })
    }

    /// The reference outputs of an operator, from `make` if there are none yet.
    fn reference(
        &self,
        symbol: &str,
        make: impl FnOnce() -> anyhow::Result<Vec<Tensor>>,
    ) -> anyhow::Result<Vec<Tensor>> {
        let place = match self.references.lock() {
            Ok(mut references) => references.entry(symbol.to_owned()).or_default().clone(),
            Err(_) => anyhow::bail!("another builder panicked"),
        };
        // A second thread waits, because its reference would be the same.
        let Ok(mut place) = place.lock() else {
            anyhow::bail!("another builder panicked");
        };
        let made = place.get_or_insert_with(|| make().map_err(|e| format!("{e:#}")));
        let outputs = made.clone().map_err(anyhow::Error::msg);
        outputs.context("the kernel in plain loops")
    }
}

/// The parts of [`Shared`] that builders on other threads use.
struct Workbench<'a> {
    module: &'a IrModule,
    plain_target: &'a tvm_bridge::Target,
    scheduler: &'a Scheduler,
    compiler: Arc<dyn KernelCompiler>,
    purpose: Purpose,
    seed: u64,
    max_statements: u64,
    /// Whether [`Shared::plain`] computes the expected outputs.
    has_plain_model: bool,
}

/// The expected outputs of an operator, compiled from plain loops with argument checks. The seeded arguments are
/// checked against the function's own shapes here, once for all its schedules.
fn reference_outputs(
    bench: &Workbench<'_>,
    function: &PrimFunc,
    spec: &KernelSpec,
) -> anyhow::Result<Vec<Tensor>> {
    let kernel = match bench.compiler.reference(&spec.symbol, function) {
        Some(kernel) => kernel?,
        None => {
            // The host computes it, whatever the device, because only the host runs loops that are bound to no thread.
            let plain = plain_loops(function, Run::OnThisThread)?;
            let compiled = compile(&plain.module()?, bench.plain_target, Asserts::Kept)?;
            compiled.module.function(tvm_bridge::ir::ENTRY)?
        }
    };
    outputs_of(&kernel, spec, bench.seed)
}

/// What a kernel on the host computes from the seeded arguments.
fn outputs_of(kernel: &Kernel, spec: &KernelSpec, seed: u64) -> anyhow::Result<Vec<Tensor>> {
    let mut tensors = arguments(&spec.arguments, Device::cpu(), seed)?;
    kernel.bind(&tensors).call().context("its run")?;
    Ok(tensors.split_off(first_output(&spec.arguments)))
}
