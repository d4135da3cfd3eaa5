//! Compares the outputs of a model in a device's own numbers with those in floating point.

use opmodels::Graph;
use tvm_bridge::{DType, Tensor, VirtualMachine};

use super::seeded_inputs;
use crate::device::Approximation;
use crate::measure::check::Comparison;
use crate::protocol::Agreement;
use crate::worker::shared::Shared;

/// Number of seeded inputs that calibrate the ranges of quantised numbers; their seeds begin at the run's.
const CALIBRATED_ON: u64 = 4;
/// Further seeded inputs, on which outputs are compared.
const INPUTS: u64 = 4;
/// Minimum cosine of outputs that count as the model's. Rounding 20 layers to int8 leaves 0.99; after a wrong layer the
/// outputs are unrelated. 2026-11-24, resnet-18, mobilenet and yolov3-tiny of the zoo.
const LEAST_COSINE: f64 = 0.8;

/// Runs the device's machine on the inputs of calibration, if the device quantises.
pub(super) fn calibrate(
    shared: &Shared,
    graph: &Graph,
    device: &VirtualMachine,
) -> anyhow::Result<()> {
    if !shared.session.calibrate(true) {
        return Ok(());
    }
    for input in 0..CALIBRATED_ON {
        let inputs = seeded_inputs(shared, graph, shared.setup.seed + input)?;
        device.set_inputs(&graph.entry, &inputs)?;
        device.runner(&graph.entry)?.run()?;
    }
    shared.session.calibrate(false);
    Ok(())
}

/// Compares the device's machine with the plain one; `run` is what the device did at its first run.
pub(super) fn of(
    shared: &Shared,
    graph: &Graph,
    (device, plain): (&VirtualMachine, &VirtualMachine),
    run: Approximation,
) -> anyhow::Result<Agreement> {
    let (layers, device_ns) = (run.layers, run.device_ns);
    let whole = |symbol: &str| {
        let layer = layers.iter().find(|(own, _)| own == symbol);
        layer.is_some_and(|(_, layer)| layer["cpu_side"].as_array().is_none_or(Vec::is_empty))
    };
    let operators = graph.operators.iter().map(|operator| &operator.symbol);
    let cpu_side = operators.filter(|symbol| !whole(symbol)).cloned().collect();
    let mut agreement = Agreement {
        inputs: INPUTS,
        top1: Some(0),
        least_cosine: 1.0,
        max_abs_error: 0.0,
        elements: 0,
        device_ns,
        layers: layers.into_iter().map(|(_, layer)| layer).collect(),
        cpu_side,
    };
    for input in 0..INPUTS {
        let inputs = seeded_inputs(shared, graph, shared.setup.seed + CALIBRATED_ON + input)?;
        let outputs = [device, plain].map(|machine| -> tvm_bridge::Result<Vec<Tensor>> {
            machine.set_inputs(&graph.entry, &inputs)?;
            machine.runner(&graph.entry)?.run()?;
            machine.outputs(&graph.entry)
        });
        let [found, expected] = outputs;
        let (found, expected) = (found?, expected?);
        let (a, b) = (values(&found)?, values(&expected)?);
        agreement.elements += a.len() as u64;
        agreement.least_cosine = agreement.least_cosine.min(cosine(&a, &b));
        let errors = a.iter().zip(&b).map(|(a, b)| (a - b).abs());
        agreement.max_abs_error = errors.fold(agreement.max_abs_error, f64::max);
        let is_vector = found
            .first()
            .is_some_and(|t| t.shape().iter().rev().skip(1).all(|&e| e == 1));
        agreement.top1 = match agreement.top1 {
            Some(same) if is_vector => {
                let first = found[0].len();
                Some(same + u64::from(largest(&a[..first]) == largest(&b[..first])))
            }
            _ => None,
        };
    }
    // These runs do not count for the requested one.
    let _ = shared.session.approximation();
    Ok(agreement)
}

impl Agreement {
    /// The reference of the outputs, and their agreement with it.
    pub(super) fn checked_against(&self) -> String {
        let top1 = self.top1.map_or_else(String::new, |same| {
            format!(", top-1 the same for {same} of {}", self.inputs)
        });
        let least = self.least_cosine;
        format!(
            "the model in floating point on {} seeded inputs beside those of calibration: cosine at least {least:.4}{top1}",
            self.inputs
        )
    }

    /// The agreement as a comparison. If the cosine is too small, all elements count as wrong.
    pub(super) fn comparison(&self) -> Comparison {
        // A cosine that is NaN is wrong too.
        let is_wrong = self.least_cosine.is_nan() || self.least_cosine < LEAST_COSINE;
        Comparison {
            max_abs_error: self.max_abs_error,
            max_rel_error: 0.0,
            tolerance_abs: 0.0,
            tolerance_rel: 0.0,
            wrong: if is_wrong { self.elements } else { 0 },
            elements: self.elements,
            worst: is_wrong.then_some(0),
        }
    }
}

fn values(tensors: &[Tensor]) -> anyhow::Result<Vec<f64>> {
    let mut values = Vec::new();
    for tensor in tensors {
        let bytes = tensor.bytes()?;
        let word = |b: &[u8]| f64::from(f32::from_le_bytes([b[0], b[1], b[2], b[3]]));
        match tensor.dtype() {
            DType::Float32 => values.extend(bytes.chunks_exact(4).map(word)),
            DType::Int8 => values.extend(bytes.iter().map(|&b| f64::from(b as i8))),
            DType::UInt8 => values.extend(bytes.iter().map(|&b| f64::from(b))),
            _ => {}
        }
    }
    Ok(values)
}

fn cosine(a: &[f64], b: &[f64]) -> f64 {
    let dot = |x: &[f64], y: &[f64]| x.iter().zip(y).map(|(x, y)| x * y).sum::<f64>();
    let norms = (dot(a, a) * dot(b, b)).sqrt();
    match norms > 0.0 {
        true => dot(a, b) / norms,
        // Two outputs of nothing but zeros agree; one of zeros does not.
        false => f64::from(u8::from(dot(a, a) == dot(b, b))),
    }
}

fn largest(values: &[f64]) -> Option<usize> {
    (0..values.len()).max_by(|a, b| values[*a].total_cmp(&values[*b]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outputs_that_point_elsewhere_are_wrong() {
        assert!((cosine(&[1.0, 2.0], &[2.0, 4.0]) - 1.0).abs() < 1e-12);
        assert_eq!(cosine(&[1.0, 0.0], &[0.0, 1.0]), 0.0);
        assert_eq!(cosine(&[0.0], &[0.0]), 1.0);
        assert_eq!(cosine(&[0.0], &[1.0]), 0.0);
        assert_eq!(largest(&[1.0, 3.0, 2.0]), Some(1));
    }
}
