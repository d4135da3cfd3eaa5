//! Single operators in the worker: checked, then timed, one at a time.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use anyhow::{Context, anyhow};
use opdata::CacheState;
use tvm_bridge::Tensor;

use super::arguments::{Arguments, compare_outputs};
use super::build::{Builder, Ready};
use super::serve::{Replies, Shared};
use crate::measure::fill::poison;
use crate::measure::flush::Flusher;
use crate::measure::load::LoadMeter;
use crate::measure::timer::{Caches, Pruned, Taken, take, take_if_pruned};
use crate::protocol::{KernelSpec, MeasureSpec, Measured};
use crate::schedule::Space;

/// Kernels that were built, and what measuring them needs.
pub(super) struct Bench {
    builder: Builder,
    kernels: HashMap<u64, Ready>,
    /// The arguments of the last operator measured: its points follow each other.
    current: Option<Current>,
    flusher: Option<Flusher>,
}

struct Current {
    arguments: Arguments,
    references: Vec<Tensor>,
}

impl Bench {
    pub fn new() -> Bench {
        Bench {
            builder: Builder::new(),
            kernels: HashMap::new(),
            current: None,
            flusher: None,
        }
    }

    /// Builds kernels on `jobs` threads, answering as they are done.
    pub fn build(&mut self, shared: &Shared, specs: &[KernelSpec], jobs: usize, replies: &Replies) {
        let ready = self.builder.build(shared, specs, jobs, replies);
        self.kernels
            .extend(ready.into_iter().map(|r| (r.spec.id, r)));
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
        let is_current = |c: &Current| c.arguments.symbol == spec.symbol;
        if !self.current.as_ref().is_some_and(is_current) {
            // The old arguments go before the new ones come: large operators have room for one set.
            self.current = None;
            self.current = Some(Current {
                arguments: Arguments::new(spec, shared.setup.seed)?,
                references: self
                    .builder
                    .reference_of(&spec.symbol)
                    .context("no reference output")?,
            });
        }
        let Current {
            arguments,
            references,
        } = self.current.as_mut().context("no arguments")?;
        shared.pool.use_threads(point.threads)?;
        let load = LoadMeter::start();
        let before = shared.sentinel.drift();

        arguments.outputs().iter_mut().for_each(poison);
        let start = Instant::now();
        ready.kernel.bind(&arguments.tensors).call()?;
        let first = start.elapsed();
        let comparison = compare_outputs(arguments.outputs(), references, spec.reduction_length)?;
        let taken = if comparison.agrees() {
            let flusher = &mut self.flusher;
            Some(time(point, ready, arguments, flusher, first)?)
        } else {
            None
        };
        let drift = before.max(shared.sentinel.drift());
        Ok(Measured {
            id: point.id,
            comparison,
            taken,
            drift,
            other_cpu_share: load.other_cpu_share(),
        })
    }

    /// Forgets kernels; their code is freed.
    pub fn forget(&mut self, ids: &[u64]) {
        for id in ids {
            self.kernels.remove(id);
        }
    }
}

/// Times a kernel whose first run took `first` and was right.
fn time(
    point: &MeasureSpec,
    ready: &Ready,
    arguments: &mut Arguments,
    flusher: &mut Option<Flusher>,
    first: Duration,
) -> anyhow::Result<Taken> {
    if let Some(limit_ns) = point.prune_beyond_ns {
        let limit = Duration::from_nanos(limit_ns);
        let bound = ready.kernel.bind(&arguments.tensors);
        if let Some(taken) = take_if_pruned(Pruned { first, limit }, || bound.call())? {
            return Ok(taken);
        }
    }
    let sets = match point.cache {
        CacheState::Model => arguments.rotation(ready.spec.weight_reuse_bytes.unwrap_or(0))?,
        CacheState::Hot | CacheState::Flushed => std::slice::from_ref(&arguments.tensors),
    };
    let caches = match point.cache {
        CacheState::Model | CacheState::Hot => Caches::Kept,
        CacheState::Flushed => Caches::Flushed(flusher.get_or_insert_with(Flusher::new), &sets[0]),
    };
    let bound: Vec<_> = sets.iter().map(|set| ready.kernel.bind(set)).collect();
    let mut turn = bound.iter().cycle();
    Ok(take(point.policy, first, caches, || {
        turn.next().map_or(Ok(()), |b| b.call())
    })?)
}

/// The template spaces of operators, in their order.
///
/// # Errors
/// An operator is not in the module, or TVM's.
pub(super) fn spaces(shared: &Shared, symbols: &[String]) -> anyhow::Result<Vec<Space>> {
    symbols
        .iter()
        .map(|symbol| {
            let function = shared.module.prim_func(symbol)?;
            Space::of(&function, shared.unit).with_context(|| format!("the space of {symbol}"))
        })
        .collect()
}
