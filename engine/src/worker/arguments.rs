//! The arguments of an operator in the worker: seeded tensors, and its expected outputs.

use anyhow::Context;
use opmodels::graph::{Argument, ArgumentRole};
use tvm_bridge::{Device, Tensor};

use super::rotation::Rotation;
use crate::measure::check::{Comparison, Tolerance, compare, worst};
use crate::measure::fill::{filled, poison};
use crate::protocol::{KernelSpec, Reuse};

/// The arguments of one operator.
pub(super) struct Arguments {
    pub symbol: String,
    specs: Vec<Argument>,
    pub tensors: Vec<Tensor>,
    /// [`Arguments::tensors`] and further sets, which share inputs that other operators compute.
    rotation: Option<Rotation>,
    /// Poisoned outputs on another machine, to be copied there.
    poisoned: Vec<Tensor>,
}

impl Arguments {
    pub fn new(spec: &KernelSpec, device: Device, seed: u64) -> anyhow::Result<Arguments> {
        let tensors = arguments(&spec.arguments, device, seed)?;
        Ok(Arguments {
            symbol: spec.symbol.clone(),
            specs: spec.arguments.clone(),
            tensors,
            rotation: None,
            poisoned: Vec::new(),
        })
    }

    pub fn outputs(&mut self) -> &mut [Tensor] {
        let first = first_output(&self.specs);
        &mut self.tensors[first..]
    }

    /// Overwrites the outputs with a pattern that no kernel computes.
    pub fn poison_outputs(&mut self) -> anyhow::Result<()> {
        let first = first_output(&self.specs);
        let outputs = &mut self.tensors[first..];
        if !self.poisoned.is_empty() {
            let mut pairs = outputs.iter().zip(&self.poisoned);
            return Ok(pairs.try_for_each(|(output, poisoned)| output.copy_from(poisoned))?);
        }
        outputs.iter_mut().try_for_each(poison)?;
        if outputs
            .iter()
            .any(|output| output.device().session.is_some())
        {
            let copies = outputs.iter().map(Tensor::duplicate);
            self.poisoned = copies.collect::<tvm_bridge::Result<_>>()?;
        }
        Ok(())
    }

    /// The same arguments for every call.
    pub fn still(&self) -> Rotation {
        Rotation::still(&self.specs, &self.tensors)
    }

    /// Copies that calls take in turn; the same ones for all points of the operator. With `neighbours`, other virtual
    /// machines share the last-level cache.
    ///
    /// # Errors
    /// Fails if no memory is left on the device.
    pub fn rotation(&mut self, reuse: Reuse, neighbours: bool) -> anyhow::Result<&Rotation> {
        if self.rotation.is_none() {
            self.rotation = Some(Rotation::of(&self.specs, &self.tensors, reuse, neighbours)?);
        }
        self.rotation.as_ref().context("no arguments")
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

/// Compares outputs with those of the reference; the one with the largest error counts.
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
