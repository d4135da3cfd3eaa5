//! An operator in int8 with power-of-two scales: the same numbers by VTA's instructions and by plain loops.
//!
//! Data, weights and result each have a scale `2^-e`. The exponents are chosen once, from the first tensors seen
//! (calibration): the largest for which nothing overflows. Later values that do not fit are clipped.

use std::sync::{Arc, Mutex};

use tvm_bridge::{Kernel, Tensor};
use vtasim::reference::{accumulate, finish, pack, unpack};
use vtasim::{Profile, Program, Tail, execute};

use super::operator::{Axis, Layout, Offload};

/// The scales of an operator.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
pub(super) struct Scales {
    /// Data are `round(x * 2^data)`.
    pub data: i32,
    /// Weights likewise.
    pub weights: i32,
    /// Bits that sums are shifted to the right.
    pub shift: i16,
}

/// Scales that are chosen at the first use, by whoever comes first.
pub(super) type SharedScales = Arc<Mutex<Option<Scales>>>;

/// How the convolution is computed.
#[derive(Debug, Clone)]
pub(super) enum By {
    /// In plain loops.
    PlainLoops,
    /// By VTA's instructions.
    Instructions(Arc<Program>),
}

/// An operator, ready to be called with tensors of floating-point numbers.
pub(super) struct Quantised {
    pub profile: Arc<Profile>,
    pub offload: Arc<Offload>,
    pub scales: SharedScales,
    pub by: By,
    /// What the processor does with the result.
    pub rest: Option<Kernel>,
}

/// The tail of an operator's program, for scales that are known when it is lowered.
pub(super) fn tail(offload: &Offload, scales: Scales) -> Tail {
    let exponent = scales.data + scales.weights - i32::from(scales.shift);
    let bound = |bound: Option<f64>, otherwise: f64| {
        let scaled = bound.map_or(otherwise, |b| b * f64::from(exponent).exp2());
        scaled.round().clamp(-128.0, 127.0) as i16
    };
    Tail {
        // A bias of half a unit rounds what the shift cuts off.
        bias: true,
        shift: scales.shift,
        min: bound(offload.bounds[0], -128.0),
        max: bound(offload.bounds[1], 127.0),
    }
}

impl Quantised {
    /// The function of a kernel.
    pub fn into_kernel(self, symbol: &str) -> Kernel {
        Kernel::native(symbol, move |tensors| self.call(tensors))
    }

    fn call(&self, tensors: &mut [Tensor]) -> Result<(), String> {
        let offload = &self.offload;
        if tensors.len() != offload.parameters {
            return Err(format!(
                "{} arguments in place of {}",
                tensors.len(),
                offload.parameters
            ));
        }
        let w = &offload.workload;
        let data = gathered(
            &tensors[offload.data.0],
            &offload.data.1,
            [Axis::Batch, Axis::Channel, Axis::Row, Axis::Column],
            [w.batch, w.in_channels, w.height, w.width],
        )?;
        let weights = gathered(
            &tensors[offload.weights.0],
            &offload.weights.1,
            [Axis::Filter, Axis::Channel, Axis::TapRow, Axis::TapColumn],
            [w.out_channels, w.in_channels, w.kernel[0], w.kernel[1]],
        )?;
        let bias = match offload.bias {
            Some(place) => floats(&tensors[place])?,
            None => vec![0.0; w.out_channels as usize],
        };
        let scales = self.scales(&data, &weights, &bias)?;
        let (data, weights) = (
            quantised(&data, scales.data),
            quantised(&weights, scales.weights),
        );
        let bias = biases(&bias, scales);
        let tail = tail(offload, scales);
        let result = match &self.by {
            By::PlainLoops => finish(w, &accumulate(w, &data, &weights), &bias, tail),
            By::Instructions(program) => {
                let program = with_tail(program, tail);
                let hardware = &self.profile.hardware;
                let packed = w.packed(hardware).map_err(|e| e.to_string())?;
                let mut dram = pack(hardware, w, &packed, &data, &weights, &bias);
                execute::execute(&self.profile, &program, &mut dram).map_err(|e| e.to_string())?;
                unpack(hardware, w, &packed, &dram.out)
            }
        };
        let scale = -f64::from(scales.data + scales.weights - i32::from(scales.shift));
        let scale = scale.exp2() as f32;
        let result: Vec<f32> = result
            .into_iter()
            .map(|value| f32::from(value) * scale)
            .collect();
        self.finish(tensors, &result)
    }

    /// The scales, chosen from these tensors if they are the first.
    fn scales(&self, data: &[f32], weights: &[f32], bias: &[f32]) -> Result<Scales, String> {
        let mut known = self.scales.lock().map_err(|_| "another thread panicked")?;
        if let Some(scales) = *known {
            return Ok(scales);
        }
        let mut scales = Scales {
            data: exponent(data)?,
            weights: exponent(weights)?,
            shift: 0,
        };
        let w = &self.offload.workload;
        let sums = accumulate(
            w,
            &quantised(data, scales.data),
            &quantised(weights, scales.weights),
        );
        let [height, width] = w.output();
        let image = (height * width) as usize;
        let bias = biases(bias, scales);
        let largest = sums.iter().enumerate().map(|(index, sum)| {
            let bias = bias[index / image % bias.len()];
            let value = i64::from(*sum) + i64::from(bias);
            match self.offload.bounds {
                [Some(0.0), _] => value.max(0),
                _ => value.abs(),
            }
        });
        let largest = largest.max().unwrap_or_default();
        while largest >> scales.shift > 127 {
            scales.shift += 1;
        }
        *known = Some(scales);
        Ok(scales)
    }

    /// Writes the result, through what the processor does with it.
    fn finish(&self, tensors: &mut [Tensor], result: &[f32]) -> Result<(), String> {
        let w = &self.offload.workload;
        let [height, width] = w.output();
        let axes = [Axis::Batch, Axis::Filter, Axis::Row, Axis::Column];
        let extents = [w.batch, w.out_channels, height, width];
        let Some(rest) = &self.rest else {
            let output = tensors.last_mut().ok_or("no output")?;
            return scattered(output, &self.offload.output, axes, extents, result);
        };
        let shape: Vec<i64> = self
            .offload
            .output
            .iter()
            .map(|(_, extent)| *extent)
            .collect();
        let made = Tensor::zeros(
            tvm_bridge::Device::cpu(),
            &shape,
            tvm_bridge::DType::Float32,
        );
        let mut local = made.map_err(|e| e.to_string())?;
        scattered(&mut local, &self.offload.output, axes, extents, result)?;
        let mut arguments = tensors.to_vec();
        arguments[self.offload.data.0] = local;
        rest.bind(&arguments).call().map_err(|e| e.to_string())
    }
}

/// The program with the constants of another tail: they are immediates of its ALU instructions.
fn with_tail(program: &Program, tail: Tail) -> Program {
    use vtasim::isa::{AluOp, Operation};
    let mut program = program.clone();
    for instruction in &mut program.instructions {
        if let Operation::Alu {
            op,
            immediate: Some(immediate),
            ..
        } = &mut instruction.operation
        {
            *immediate = match op {
                AluOp::Shr => tail.shift,
                AluOp::Min => tail.max,
                AluOp::Max => tail.min,
                AluOp::Add | AluOp::Mul => *immediate,
            };
        }
    }
    program
}

/// The largest exponent at which no value is beyond 127.
fn exponent(values: &[f32]) -> Result<i32, String> {
    let largest = values
        .iter()
        .fold(0.0_f32, |largest, value| largest.max(value.abs()));
    match largest {
        0.0 => Ok(0),
        largest if largest.is_finite() => {
            Ok((127.0 / largest).log2().floor().clamp(-30.0, 30.0) as i32)
        }
        _ => Err("a value is not finite, so it has no int8 form".to_owned()),
    }
}

fn quantised(values: &[f32], exponent: i32) -> Vec<i8> {
    let scale = f64::from(exponent).exp2() as f32;
    values
        .iter()
        .map(|value| (value * scale).round().clamp(-127.0, 127.0) as i8)
        .collect()
}

/// Biases at the scale of the sums, with half a unit of the result so that the shift rounds.
fn biases(bias: &[f32], scales: Scales) -> Vec<i32> {
    let scale = f64::from(scales.data + scales.weights).exp2();
    let half = (1_i64 << scales.shift) >> 1;
    let limit = f64::from(1 << 30);
    let value =
        |b: &f32| ((f64::from(*b) * scale).round().clamp(-limit, limit) as i64 + half) as i32;
    bias.iter().map(value).collect()
}

fn floats(tensor: &Tensor) -> Result<Vec<f32>, String> {
    if tensor.dtype() != tvm_bridge::DType::Float32 {
        return Err(format!(
            "VTA's operators take float32 here, not {}",
            tensor.dtype()
        ));
    }
    let bytes = tensor.bytes().map_err(|e| e.to_string())?;
    let read = |b: &[u8]| f32::from_le_bytes([b[0], b[1], b[2], b[3]]);
    Ok(bytes.chunks_exact(4).map(read).collect())
}

/// Steps of four axes in memory; filters in blocks have two.
struct Steps<'a> {
    layout: &'a Layout,
    axes: [Axis; 4],
}

impl Steps<'_> {
    fn place(&self, at: [usize; 4]) -> usize {
        let mut place = 0;
        for (axis, extent) in self.layout {
            let own = |axis: Axis| {
                self.axes
                    .iter()
                    .position(|own| *own == axis)
                    .map_or(0, |i| at[i])
            };
            let value = match *axis {
                Axis::FilterBlock(size) => own(Axis::Filter) / size as usize,
                Axis::FilterInBlock(size) => own(Axis::Filter) % size as usize,
                axis => own(axis),
            };
            place = place * *extent as usize + value;
        }
        place
    }

    /// Calls `each` with the place of every element, in the order of the axes.
    fn each(&self, extents: [u64; 4], mut each: impl FnMut(usize)) {
        let [a, b, c, d] = extents.map(|e| e as usize);
        for i in 0..a {
            for j in 0..b {
                for k in 0..c {
                    let first = self.place([i, j, k, 0]);
                    let step = if d > 1 {
                        self.place([i, j, k, 1]) - first
                    } else {
                        0
                    };
                    (0..d).for_each(|l| each(first + l * step));
                }
            }
        }
    }
}

fn gathered(
    tensor: &Tensor,
    layout: &Layout,
    axes: [Axis; 4],
    extents: [u64; 4],
) -> Result<Vec<f32>, String> {
    let values = floats(tensor)?;
    if values.len() as i64 != layout.iter().map(|(_, extent)| extent).product::<i64>() {
        return Err(format!("{tensor:?} has another shape than the operator's"));
    }
    let mut gathered = Vec::with_capacity(extents.iter().product::<u64>() as usize);
    Steps { layout, axes }.each(extents, |place| gathered.push(values[place]));
    Ok(gathered)
}

fn scattered(
    tensor: &mut Tensor,
    layout: &Layout,
    axes: [Axis; 4],
    extents: [u64; 4],
    values: &[f32],
) -> Result<(), String> {
    let bytes = tensor
        .host_bytes_mut()
        .ok_or("the output is not on the host")?;
    let mut values = values.iter();
    Steps { layout, axes }.each(extents, |place| {
        if let (Some(target), Some(value)) =
            (bytes.get_mut(place * 4..place * 4 + 4), values.next())
        {
            target.copy_from_slice(&value.to_le_bytes());
        }
    });
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_use_the_range_of_int8_and_no_more() {
        assert_eq!(exponent(&[0.5, -1.0]), Ok(6));
        assert_eq!(exponent(&[127.0]), Ok(0));
        assert_eq!(exponent(&[128.0]), Ok(-1));
        assert_eq!(exponent(&[0.0]), Ok(0));
        assert!(exponent(&[f32::NAN, f32::INFINITY]).is_err());
        assert_eq!(quantised(&[0.5, -1.0, 9.0], 6), [32, -64, 127]);
    }
}
