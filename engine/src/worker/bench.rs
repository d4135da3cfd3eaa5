//! Single operators in the worker: checked, then timed, one at a time.

use std::collections::HashMap;
use std::time::Duration;

use anyhow::{Context, anyhow};
use tvm_bridge::Tensor;

use super::arguments::{Arguments, compare_outputs};
use super::build::{Builder, Ready};
use super::serve::{Replies, Shared};
use crate::device::Kernel;
use crate::measure::fill::poison;
use crate::measure::load::LoadMeter;
use crate::measure::sampling::{Caches, Pruned, Taken, take, take_if_pruned, time_calls};
use crate::measure::{CacheControl, Instruments};
use crate::protocol::{KernelSpec, MeasureSpec, Measured};
use crate::schedule::Space;

/// Kernels that were built, and what measuring them needs.
pub(super) struct Bench {
    builder: Builder,
    kernels: HashMap<u64, Ready>,
    /// The arguments of the last operator measured: its points follow each other.
    current: Option<Current>,
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
                arguments: Arguments::new(spec, shared.session.tensors(), shared.setup.seed)?,
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
        let session = &mut shared.session;
        session.prepare(&point.at)?;
        let load = LoadMeter::start();
        let before = session.drift()?;

        for output in arguments.outputs() {
            poison(output)?;
        }
        let kernel = Kernel {
            symbol: &spec.symbol,
            choice: &ready.choice,
        };
        let (instruments, caches) = session.instruments(kernel, &point.at);
        let bound = ready.kernel.bind(&arguments.tensors);
        let first = time_calls(instruments.timer, 1, || bound.call())?;
        drop(bound);
        let comparison = compare_outputs(arguments.outputs(), references, spec.reduction_length)?;
        let taken = if comparison.agrees() {
            Some(time(point, ready, arguments, (instruments, caches), first)?)
        } else {
            None
        };
        let drift = before.max(session.drift()?);
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
    (instruments, caches): (Instruments<'_>, CacheControl<'_>),
    first: Duration,
) -> anyhow::Result<Taken> {
    if let Some(limit_ns) = point.prune_beyond_ns {
        let limit = Duration::from_nanos(limit_ns);
        let bound = ready.kernel.bind(&arguments.tensors);
        let pruned = Pruned { first, limit };
        if let Some(taken) = take_if_pruned(pruned, instruments.timer, || bound.call())? {
            return Ok(taken);
        }
    }
    let activations = arguments.activations();
    let sets = match caches {
        CacheControl::Rotate { .. } => {
            arguments.rotation(ready.spec.weight_reuse_bytes.unwrap_or(0))?
        }
        CacheControl::Repeat | CacheControl::Evict(_) => std::slice::from_ref(&arguments.tensors),
    };
    let caches = match caches {
        CacheControl::Rotate {
            activations: Some(place),
        } => Caches::Placed(place, &activations),
        CacheControl::Rotate { activations: None } | CacheControl::Repeat => Caches::Kept,
        CacheControl::Evict(place) => Caches::Placed(place, &sets[0]),
    };
    let bound: Vec<_> = sets.iter().map(|set| ready.kernel.bind(set)).collect();
    let mut turn = bound.iter().cycle();
    take(point.policy, first, instruments, caches, || {
        Ok(turn.next().map_or(Ok(()), |b| b.call())?)
    })
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
            let space = shared.scheduler.space(&function);
            space.with_context(|| format!("the space of {symbol}"))
        })
        .collect()
}
