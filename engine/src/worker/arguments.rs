//! The arguments of an operator in the worker: seeded tensors, further sets of weights, and what its outputs must be.

use anyhow::Context;
use opmodels::graph::{Argument, ArgumentRole};
use tvm_bridge::{Device, Tensor};

use crate::measure::check::{Comparison, Tolerance, compare, worst};
use crate::measure::fill::filled;
use crate::protocol::KernelSpec;

/// The arguments of one operator.
pub(super) struct Arguments {
    pub symbol: String,
    specs: Vec<Argument>,
    pub tensors: Vec<Tensor>,
    /// [`Arguments::tensors`] and further sets that share everything but the weights.
    sets: Vec<Vec<Tensor>>,
}

/// Most sets of weights: beyond it, even small weights have long left every cache but the last.
const MAX_SETS: u64 = 512;
/// Most bytes of all sets together: larger than the caches of a core many times over.
const MAX_ROTATED_BYTES: u64 = 256 << 20;

impl Arguments {
    pub fn new(spec: &KernelSpec, device: Device, seed: u64) -> anyhow::Result<Arguments> {
        let tensors = arguments(&spec.arguments, device, seed)?;
        Ok(Arguments {
            symbol: spec.symbol.clone(),
            specs: spec.arguments.clone(),
            tensors,
            sets: Vec::new(),
        })
    }

    pub fn outputs(&mut self) -> &mut [Tensor] {
        let first = first_output(&self.specs);
        &mut self.tensors[first..]
    }

    /// The tensors that other operators write or read: everything but the weights. All sets share them.
    pub fn activations(&self) -> Vec<Tensor> {
        let with_roles = self.tensors.iter().zip(&self.specs);
        with_roles
            .filter(|(_, spec)| spec.role != ArgumentRole::Weight)
            .map(|(tensor, _)| tensor.clone())
            .collect()
    }

    /// Sets of arguments to take in turn, so that so many bytes of weights are read between two uses of one weight.
    pub fn rotation(&mut self, weight_reuse_bytes: u64) -> anyhow::Result<&[Vec<Tensor>]> {
        if self.sets.is_empty() {
            let weights: Vec<usize> = (0..self.specs.len())
                .filter(|&i| self.specs[i].role == ArgumentRole::Weight)
                .collect();
            let own: u64 = weights
                .iter()
                .map(|&i| self.tensors[i].size_bytes() as u64)
                .sum();
            let wanted = weight_reuse_bytes
                .min(MAX_ROTATED_BYTES)
                .div_ceil(own.max(1));
            self.sets.push(self.tensors.clone());
            for _ in 1..if own == 0 { 1 } else { wanted.min(MAX_SETS) } {
                let mut set = self.tensors.clone();
                for &i in &weights {
                    set[i] = set[i].duplicate()?;
                }
                self.sets.push(set);
            }
        }
        Ok(&self.sets)
    }
}

/// Seeded tensors on a device for a kernel's arguments.
pub(super) fn arguments(
    specs: &[Argument],
    device: Device,
    seed: u64,
) -> anyhow::Result<Vec<Tensor>> {
    specs
        .iter()
        .enumerate()
        .map(|(i, a)| {
            let tensor = filled(&a.shape, a.dtype.parse()?, a.fill, seed, i as u64)?;
            Ok(tensor.into_device(device)?)
        })
        .collect()
}

/// Place of the first output.
pub(super) fn first_output(specs: &[Argument]) -> usize {
    specs
        .iter()
        .position(|a| a.role == ArgumentRole::Output)
        .unwrap_or(specs.len())
}

/// Compares outputs with those of the reference; the one that is furthest off counts.
pub(super) fn compare_outputs(
    found: &[Tensor],
    references: &[Tensor],
    reduction_length: u64,
) -> anyhow::Result<Comparison> {
    let comparisons = found
        .iter()
        .zip(references)
        .map(|(f, r)| compare(f, r, Tolerance::new(r.dtype(), reduction_length)))
        .collect::<tvm_bridge::Result<Vec<_>>>()?;
    worst(comparisons).context("the operator has no output")
}
