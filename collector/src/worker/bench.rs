//! Single operators in the worker: build on all cores, then check and time one at a time.

use std::collections::{HashMap, HashSet};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use anyhow::{Context, anyhow};
use opdata::CacheState;
use opmodels::graph::{Argument, ArgumentRole};
use tvm_bridge::compile::{Asserts, compile};
use tvm_bridge::{Kernel, Tensor};

use super::protocol::{Built, KernelSpec, MeasureSpec, Measured, Reply};
use super::serve::{Replies, Shared};
use crate::measure::check::{Comparison, Tolerance, compare};
use crate::measure::fill::{filled, spoil};
use crate::measure::flush::Flusher;
use crate::measure::timer::{Caches, take};
use crate::schedule::default_schedule;

/// Kernels that were built, and the outputs that they must have.
#[derive(Default)]
pub(super) struct Bench {
    kernels: HashMap<u64, Ready>,
    /// Outputs of unscheduled kernels, by symbol.
    references: HashMap<String, Vec<Tensor>>,
    /// The arguments of the last operator measured: its points follow each other.
    arguments: Option<Arguments>,
    flusher: Option<Flusher>,
}

struct Ready {
    spec: KernelSpec,
    kernel: Kernel,
}

impl Bench {
    /// Builds kernels on `jobs` threads, answering as they are done.
    pub fn build(&mut self, shared: &Shared, specs: &[KernelSpec], jobs: usize, replies: &Replies) {
        // The builders inherit this thread's processors, which the last point may have narrowed.
        let _ = shared.pool.use_threads(shared.setup.max_threads);
        let next = AtomicUsize::new(0);
        let done = Mutex::new((Vec::new(), Vec::new()));
        let known: HashSet<&String> = self.references.keys().collect();
        let parts = Parts::of(shared);
        std::thread::scope(|scope| {
            for _ in 0..jobs.max(1) {
                scope.spawn(|| {
                    while let Some(spec) = specs.get(next.fetch_add(1, Ordering::Relaxed)) {
                        replies.send(&Reply::Started { id: spec.id });
                        match build_one(&parts, spec, known.contains(&spec.symbol)) {
                            Ok((built, kernel, reference)) => {
                                if let Ok(mut done) = done.lock() {
                                    done.0.push(Ready {
                                        spec: spec.clone(),
                                        kernel,
                                    });
                                    done.1.extend(reference.map(|r| (spec.symbol.clone(), r)));
                                }
                                replies.send(&Reply::Built(built));
                            }
                            Err(error) => {
                                replies.send(&Reply::Refused {
                                    id: Some(spec.id),
                                    reason: format!("{error:#}"),
                                });
                            }
                        }
                    }
                });
            }
        });
        if let Ok((ready, references)) = done.into_inner() {
            self.kernels
                .extend(ready.into_iter().map(|r| (r.spec.id, r)));
            self.references.extend(references);
        }
    }

    /// Checks and times one kernel.
    pub fn measure(
        &mut self,
        shared: &mut Shared,
        point: &MeasureSpec,
    ) -> anyhow::Result<Measured> {
        let ready = self
            .kernels
            .get(&point.id)
            .ok_or_else(|| anyhow!("kernel {} was not built", point.id))?;
        let spec = &ready.spec;
        if self
            .arguments
            .as_ref()
            .is_none_or(|a| a.symbol != spec.symbol)
        {
            self.arguments = None;
            self.arguments = Some(Arguments::new(spec, shared.setup.seed)?);
        }
        let arguments = self.arguments.as_mut().context("no arguments")?;
        let references = self
            .references
            .get(&spec.symbol)
            .context("no reference output")?;
        shared.pool.use_threads(point.threads)?;
        let before = shared.sentinel.drift();

        arguments.outputs().iter_mut().for_each(spoil);
        ready.kernel.bind(&arguments.tensors).call()?;
        let comparison = worst(arguments.outputs(), references, spec.reduction_length)?;
        if !comparison.agrees() {
            return Ok(Measured {
                id: point.id,
                comparison,
                taken: None,
                drift: before,
            });
        }
        let sets = match point.cache {
            CacheState::Model => arguments.rotation(if spec.own_weights {
                shared.setup.model_weight_bytes
            } else {
                0
            })?,
            CacheState::Hot | CacheState::Flushed => std::slice::from_ref(&arguments.tensors),
        };
        let caches = match point.cache {
            CacheState::Model | CacheState::Hot => Caches::Kept,
            CacheState::Flushed => {
                Caches::Flushed(self.flusher.get_or_insert_with(Flusher::new), &sets[0])
            }
        };
        let bound: Vec<_> = sets.iter().map(|set| ready.kernel.bind(set)).collect();
        let mut turn = bound.iter().cycle();
        let taken = take(point.policy, caches, || {
            turn.next().map_or(Ok(()), |b| b.call())
        })?;
        let drift = before.max(shared.sentinel.drift());
        Ok(Measured {
            id: point.id,
            comparison,
            taken: Some(taken),
            drift,
        })
    }

    /// Forgets kernels; their code is freed.
    pub fn forget(&mut self, ids: &[u64]) {
        for id in ids {
            self.kernels.remove(id);
        }
    }
}

/// The arguments of one operator.
struct Arguments {
    symbol: String,
    specs: Vec<Argument>,
    tensors: Vec<Tensor>,
    /// [`Arguments::tensors`] and further sets that share everything but the weights.
    sets: Vec<Vec<Tensor>>,
}

/// Most sets of weights: beyond it, even small weights have long left every cache but the last.
const MAX_SETS: u64 = 512;
/// Most bytes of all sets together: larger than the caches of a core many times over.
const MAX_ROTATED_BYTES: u64 = 256 << 20;

impl Arguments {
    fn new(spec: &KernelSpec, seed: u64) -> anyhow::Result<Arguments> {
        let tensors = arguments(&spec.arguments, seed)?;
        Ok(Arguments {
            symbol: spec.symbol.clone(),
            specs: spec.arguments.clone(),
            tensors,
            sets: Vec::new(),
        })
    }

    fn outputs(&mut self) -> &mut [Tensor] {
        let first = first_output(&self.specs);
        &mut self.tensors[first..]
    }

    /// Sets of arguments to take in turn, so that as many bytes of weights are read between two uses of one weight as
    /// the model has weights.
    fn rotation(&mut self, model_weight_bytes: u64) -> anyhow::Result<&[Vec<Tensor>]> {
        if self.sets.is_empty() {
            let weights: Vec<usize> = (0..self.specs.len())
                .filter(|&i| self.specs[i].role == ArgumentRole::Weight)
                .collect();
            let own: u64 = weights
                .iter()
                .map(|&i| self.tensors[i].bytes().len() as u64)
                .sum();
            let wanted = model_weight_bytes
                .min(MAX_ROTATED_BYTES)
                .div_ceil(own.max(1));
            self.sets.push(self.tensors.clone());
            for _ in 1..if own == 0 { 1 } else { wanted.min(MAX_SETS) } {
                let mut set = self.tensors.clone();
                for &i in &weights {
                    set[i] = Tensor::from_bytes(set[i].shape(), set[i].dtype(), set[i].bytes())?;
                }
                self.sets.push(set);
            }
        }
        Ok(&self.sets)
    }
}

/// The parts of [`Shared`] that builders on other threads may use.
struct Parts<'a> {
    module: &'a tvm_bridge::IrModule,
    target: &'a tvm_bridge::Target,
    unit: crate::schedule::VectorUnit,
    seed: u64,
}

impl<'a> Parts<'a> {
    fn of(shared: &'a Shared) -> Parts<'a> {
        Parts {
            module: &shared.module,
            target: &shared.target,
            unit: shared.unit,
            seed: shared.setup.seed,
        }
    }
}

fn build_one(
    parts: &Parts<'_>,
    spec: &KernelSpec,
    has_reference: bool,
) -> anyhow::Result<(Built, Kernel, Option<Vec<Tensor>>)> {
    let function = parts.module.prim_func(&spec.symbol)?;
    let start = Instant::now();
    let scheduled = default_schedule(&function, parts.unit, parts.seed)?;
    let program = scheduled.schedule.function()?;
    let module = scheduled.schedule.module()?;
    let schedule_ns = start.elapsed().as_nanos() as u64;
    let compiled = compile(&module, parts.target, Asserts::Dropped)?;
    let reference = if has_reference {
        None
    } else {
        Some(reference_outputs(parts, &function, spec).context("the unscheduled kernel")?)
    };
    let built = Built {
        id: spec.id,
        choice: scheduled.choice,
        trace: scheduled.schedule.trace()?.0,
        program_hash: program.structural_hash()?,
        schedule_ns,
        lower_ns: compiled.times.lower.as_nanos() as u64,
        codegen_ns: compiled.times.codegen.as_nanos() as u64,
        jit_ns: compiled.times.jit.as_nanos() as u64,
    };
    Ok((
        built,
        compiled.module.function(tvm_bridge::ir::ENTRY)?,
        reference,
    ))
}

/// What the operator computes as TVM's library wrote it, compiled with its argument checks: the seeded arguments are
/// checked against the function's own shapes here, once for all its schedules.
fn reference_outputs(
    parts: &Parts<'_>,
    function: &tvm_bridge::PrimFunc,
    spec: &KernelSpec,
) -> anyhow::Result<Vec<Tensor>> {
    let compiled = compile(&function.to_module()?, parts.target, Asserts::Kept)?;
    let mut tensors = arguments(&spec.arguments, parts.seed)?;
    compiled
        .module
        .function(tvm_bridge::ir::ENTRY)?
        .bind(&tensors)
        .call()?;
    Ok(tensors.split_off(first_output(&spec.arguments)))
}

/// Seeded tensors for a kernel's arguments.
fn arguments(specs: &[Argument], seed: u64) -> anyhow::Result<Vec<Tensor>> {
    specs
        .iter()
        .enumerate()
        .map(|(i, a)| Ok(filled(&a.shape, a.dtype.parse()?, a.fill, seed, i as u64)?))
        .collect()
}

fn first_output(specs: &[Argument]) -> usize {
    specs
        .iter()
        .position(|a| a.role == ArgumentRole::Output)
        .unwrap_or(specs.len())
}

/// The comparison of the output that is furthest from its reference.
pub(super) fn worst(
    found: &[Tensor],
    references: &[Tensor],
    reduction_length: u64,
) -> anyhow::Result<Comparison> {
    found
        .iter()
        .zip(references)
        .map(|(f, r)| compare(f, r, Tolerance::new(r.dtype(), reduction_length)))
        .max_by(|a, b| {
            a.wrong
                .cmp(&b.wrong)
                .then(a.max_rel_error.total_cmp(&b.max_rel_error))
        })
        .context("the operator has no output")
}
