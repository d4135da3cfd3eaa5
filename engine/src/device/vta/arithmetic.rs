//! An operator in int8 with power-of-two scales: the same numbers by VTA's instructions and by plain loops.
//!
//! Data, weights and result each have a scale `2^-e`. The exponents are the largest without overflow in the calibration
//! tensors: those of the first call, and of each call while [`Known::calibrating`]. Later values that do not fit are
//! clipped.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};

use tvm_bridge::{DType, Kernel, Tensor};
use vtasim::reference::{accumulate, finish, pack, unpack};
use vtasim::{Profile, Program, Tail};

use super::bytes::{Bytes, MOVED_ZERO};
use super::chip::Chip;
use super::compiler::Known;
use super::operator::{Axis, Layout, Offload};

/// How an operator's numbers become bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(untagged)]
pub(super) enum Quantisation {
    /// Values are scaled by scales that calibration chose.
    Calibrated(Scales),
    /// Values have the model's own scales; sums are shifted to the right by `shift` bits.
    Own { own_scales: OwnScales, shift: i16 },
}

/// Whether a quantised model's own scales are used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
pub(super) enum OwnScales {
    #[serde(rename = "kept")]
    Kept,
    #[serde(rename = "no single power of two: shifted, then rescaled on the CPU side")]
    Rescaled,
}

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

/// Scales that the first caller chooses.
pub(super) type SharedScales = Arc<Mutex<Option<Quantisation>>>;

/// How the convolution is computed.
#[derive(Debug, Clone)]
pub(super) enum By {
    /// The operator is computed in plain loops.
    PlainLoops,
    /// The operator is computed by VTA's instructions.
    Instructions(Arc<Program>),
}

/// An operator, ready to be called with tensors of floating-point numbers.
pub(super) struct Quantised {
    pub profile: Arc<Profile>,
    pub chip: Chip,
    pub offload: Arc<Offload>,
    pub scales: SharedScales,
    pub by: By,
    /// The kernel that the processor runs on the result.
    pub rest: Option<Kernel>,
    /// Says whether the call is one of calibration.
    pub known: Arc<Known>,
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
        if let Some(bytes) = &offload.bytes {
            return self.call_bytes(tensors, bytes);
        }
        let w = &offload.workload;
        let data = self.gathered_data(&floats(&tensors[offload.data.0])?)?;
        let weights = self.gathered_weights(&floats(&tensors[offload.weights.0])?)?;
        let bias = match offload.bias {
            Some(place) => floats(&tensors[place])?,
            None => vec![0.0; w.out_channels as usize],
        };
        let calibrating = self.known.calibrating.load(Ordering::Relaxed);
        let scales = self.scales(&data, &weights, &bias, calibrating)?;
        let (data, weights) = (
            quantised(&data, scales.data),
            quantised(&weights, scales.weights),
        );
        let bias = biases(&bias, scales);
        let tail = tail(offload, scales);
        let result = match calibrating {
            true => finish(w, &accumulate(w, &data, &weights), &bias, tail),
            false => self.compute(&data, &weights, &bias, tail)?,
        };
        let scale = -f64::from(scales.data + scales.weights - i32::from(scales.shift));
        let scale = scale.exp2() as f32;
        let result: Vec<u8> = result
            .into_iter()
            .flat_map(|value| (f32::from(value) * scale).to_le_bytes())
            .collect();
        self.finish(tensors, &result)
    }

    /// The operator in bytes: by the accelerator's instructions, or in plain loops.
    fn compute(
        &self,
        data: &[i8],
        weights: &[i8],
        bias: &[i32],
        tail: Tail,
    ) -> Result<Vec<i8>, String> {
        let w = &self.offload.workload;
        let By::Instructions(program) = &self.by else {
            return Ok(finish(w, &accumulate(w, data, weights), bias, tail));
        };
        let program = with_tail(program, tail);
        let hardware = &self.profile.hardware;
        let packed = w.packed(hardware).map_err(|e| e.to_string())?;
        let mut dram = pack(hardware, w, &packed, data, weights, bias);
        self.chip.execute(&self.profile, &program, &mut dram)?;
        Ok(unpack(hardware, w, &packed, &dram.out))
    }

    fn gathered_data<T: Copy>(&self, values: &[T]) -> Result<Vec<T>, String> {
        let w = &self.offload.workload;
        gathered(
            values,
            &self.offload.data.1,
            [Axis::Batch, Axis::Channel, Axis::Row, Axis::Column],
            [w.batch, w.in_channels, w.height, w.width],
        )
    }

    fn gathered_weights<T: Copy>(&self, values: &[T]) -> Result<Vec<T>, String> {
        let w = &self.offload.workload;
        gathered(
            values,
            &self.offload.weights.1,
            [Axis::Filter, Axis::Channel, Axis::TapRow, Axis::TapColumn],
            [w.out_channels, w.in_channels, w.kernel[0], w.kernel[1]],
        )
    }

    /// Calls an operator of a model that is quantised already. The model's own scales are used if they amount to one power
    /// of two.
    fn call_bytes(&self, tensors: &mut [Tensor], bytes: &Bytes) -> Result<(), String> {
        let offload = &self.offload;
        let w = &offload.workload;
        let moved = signed(&tensors[offload.data.0])?;
        let (data, weights) = (
            self.gathered_data(&moved)?,
            self.gathered_weights(&signed(&tensors[offload.weights.0])?)?,
        );
        let filters = w.out_channels as usize;
        let correction = per_filter(&ints(&tensors[bytes.correction])?, filters);
        let factor = per_filter(&floats(&tensors[bytes.factor])?, filters);
        let offset = per_filter(&floats(&tensors[bytes.offset])?, filters);
        let each = weights.len() / filters;
        let correction: Vec<i64> = weights
            .chunks(each)
            .zip(correction)
            .map(|(weights, own)| {
                let sum: i32 = weights.iter().map(|&weight| i32::from(weight)).sum();
                i64::from(own) + i64::from(sum) * i64::from(MOVED_ZERO)
            })
            .collect();
        let output = tensors.last().ok_or("no output")?.dtype();
        // Bytes on the chip are signed.
        let lift = match output {
            DType::UInt8 => f64::from(MOVED_ZERO),
            _ => 0.0,
        };
        let (own_scales, shift, added) = match own_shift(&factor)? {
            Some(shift) => {
                let added = offset.iter().map(|o| f64::from(*o) + bytes.zero - lift);
                (OwnScales::Kept, shift, added.collect())
            }
            None => {
                let sums = saturated(correction.iter().map(|own| *own as f64));
                let shift = self.rescaled_shift(&data, &weights, &sums)?;
                (OwnScales::Rescaled, shift, vec![0.0; filters])
            }
        };
        let unit = f64::from(shift).exp2();
        let half = (unit / 2.0).floor();
        let bias = correction.iter().zip(added);
        let bias = saturated(bias.map(|(own, added)| *own as f64 + (added * unit).round() + half));
        let bound = |bound: f64| (bound - lift).clamp(-128.0, 127.0) as i16;
        let [min, max] = match own_scales {
            OwnScales::Kept => bytes.bounds.map(bound),
            OwnScales::Rescaled => [-128, 127],
        };
        let tail = Tail {
            bias: true,
            shift,
            min,
            max,
        };
        if let Ok(mut scales) = self.scales.lock() {
            *scales = Some(Quantisation::Own { own_scales, shift });
        }
        let stored = self.compute(&data, &weights, &bias, tail)?;
        let [height, width] = w.output();
        let image = (height * width) as usize;
        let [low, high] = bytes.bounds;
        let result = stored.into_iter().enumerate().map(|(index, value)| {
            let filter = index / image % filters;
            let value = f64::from(value);
            let value = match own_scales {
                OwnScales::Kept => value + lift,
                OwnScales::Rescaled => {
                    let scaled =
                        value * unit * f64::from(factor[filter]) + f64::from(offset[filter]);
                    (scaled.round_ties_even() + bytes.zero).clamp(low, high)
                }
            };
            // The low byte is the number in either type.
            value as i32 as u8
        });
        let result: Vec<u8> = result.collect();
        let output = tensors.last_mut().ok_or("no output")?;
        scattered(
            output,
            &offload.output,
            [Axis::Batch, Axis::Filter, Axis::Row, Axis::Column],
            [w.batch, w.out_channels, height, width],
            &result,
        )
    }

    /// The shift before a rescaling on the CPU side. The sums of the first call, and of each call during calibration, decide
    /// it.
    fn rescaled_shift(&self, data: &[i8], weights: &[i8], bias: &[i32]) -> Result<i16, String> {
        let scales = *self.scales.lock().map_err(|_| "another thread panicked")?;
        let known = match scales {
            Some(Quantisation::Own { shift, .. }) => Some(shift),
            _ => None,
        };
        Ok(match known {
            Some(shift) if !self.known.calibrating.load(Ordering::Relaxed) => shift,
            known => self.least_shift(known.unwrap_or_default(), data, weights, bias),
        })
    }

    /// The scales: chosen from these tensors if they are the first, widened by them in calibration.
    fn scales(
        &self,
        data: &[f32],
        weights: &[f32],
        bias: &[f32],
        calibrating: bool,
    ) -> Result<Scales, String> {
        let mut known = self.scales.lock().map_err(|_| "another thread panicked")?;
        let before = match *known {
            Some(Quantisation::Calibrated(scales)) => Some(scales),
            _ => None,
        };
        if let Some(scales) = before.filter(|_| !calibrating) {
            return Ok(scales);
        }
        let mut scales = Scales {
            data: exponent(data)?,
            weights: exponent(weights)?,
            shift: 0,
        };
        if let Some(before) = before {
            // Coarser data make smaller sums, so the shift that earlier tensors need shrinks with them.
            scales.data = scales.data.min(before.data);
            scales.weights = scales.weights.min(before.weights);
            let coarser = before.data - scales.data + before.weights - scales.weights;
            let needed = i32::from(before.shift) - coarser;
            scales.shift = needed.clamp(0, i32::from(before.shift)) as i16;
        }
        scales.shift = self.least_shift(
            scales.shift,
            &quantised(data, scales.data),
            &quantised(weights, scales.weights),
            &biases(bias, scales),
        );
        *known = Some(Quantisation::Calibrated(scales));
        Ok(scales)
    }

    /// The least shift from `shift` on at which every sum fits a byte.
    fn least_shift(&self, mut shift: i16, data: &[i8], weights: &[i8], bias: &[i32]) -> i16 {
        let w = &self.offload.workload;
        let sums = accumulate(w, data, weights);
        let [height, width] = w.output();
        let image = (height * width) as usize;
        let largest = sums.iter().enumerate().map(|(index, sum)| {
            let value = i64::from(*sum) + i64::from(bias[index / image % bias.len()]);
            match self.offload.bounds {
                [Some(0.0), _] => value.max(0),
                _ => value.abs(),
            }
        });
        let largest = largest.max().unwrap_or_default();
        while largest >> shift > 127 {
            shift += 1;
        }
        shift
    }

    /// Writes the result, through what the processor does with it.
    fn finish(&self, tensors: &mut [Tensor], result: &[u8]) -> Result<(), String> {
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
    let half = ((1_i64 << scales.shift) >> 1) as f64;
    saturated(bias.iter().map(|b| (f64::from(*b) * scale).round() + half))
}

fn floats(tensor: &Tensor) -> Result<Vec<f32>, String> {
    words(tensor, DType::Float32, f32::from_le_bytes)
}

fn ints(tensor: &Tensor) -> Result<Vec<i32>, String> {
    words(tensor, DType::Int32, i32::from_le_bytes)
}

/// The elements of a tensor of this type of four bytes.
fn words<T>(tensor: &Tensor, dtype: DType, read: fn([u8; 4]) -> T) -> Result<Vec<T>, String> {
    if tensor.dtype() != dtype {
        return Err(format!("{tensor:?} is not of {dtype}"));
    }
    let bytes = tensor.bytes().map_err(|e| e.to_string())?;
    let word = |b: &[u8]| read([b[0], b[1], b[2], b[3]]);
    Ok(bytes.chunks_exact(4).map(word).collect())
}

/// Bytes as VTA multiplies them: unsigned ones are moved down by [`MOVED_ZERO`].
fn signed(tensor: &Tensor) -> Result<Vec<i8>, String> {
    let flip = match tensor.dtype() {
        DType::Int8 => 0,
        DType::UInt8 => 0x80,
        other => return Err(format!("{tensor:?} is of {other}, not of bytes")),
    };
    let bytes = tensor.bytes().map_err(|e| e.to_string())?;
    Ok(bytes.iter().map(|byte| (byte ^ flip) as i8).collect())
}

/// One value for each filter.
fn per_filter<T: Copy>(values: &[T], filters: usize) -> Vec<T> {
    match values {
        [one] => vec![*one; filters],
        many => many.to_vec(),
    }
}

/// The shift that multiplies by these factors. `None` unless all of them are the same power of two.
fn own_shift(factors: &[f32]) -> Result<Option<i16>, String> {
    let bad = |factor: &&f32| !factor.is_finite() || **factor <= 0.0;
    if let Some(factor) = factors.iter().find(bad) {
        return Err(format!("a factor of its quantisation is {factor}"));
    }
    let first = factors.first().copied().ok_or("it has no filters")?;
    let bits = -f64::from(first).log2();
    let fits = bits == bits.trunc() && (0.0..=31.0).contains(&bits);
    let same = factors.iter().all(|factor| *factor == first);
    Ok((fits && same).then_some(bits as i16))
}

/// Biases of 32 bits, with room for the sums that are added to them.
fn saturated(values: impl Iterator<Item = f64>) -> Vec<i32> {
    let limit = f64::from(1 << 30);
    values
        .map(|value| value.round().clamp(-limit, limit) as i32)
        .collect()
}

/// Steps of four axes in memory; filters and channels in blocks have two.
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
                Axis::ChannelBlock(size) => own(Axis::Channel) / size as usize,
                Axis::ChannelInBlock(size) => own(Axis::Channel) % size as usize,
                axis => own(axis),
            };
            place = place * *extent as usize + value;
        }
        place
    }

    /// Calls `each` with the index of every element, in the order of the axes.
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

fn gathered<T: Copy>(
    values: &[T],
    layout: &Layout,
    axes: [Axis; 4],
    extents: [u64; 4],
) -> Result<Vec<T>, String> {
    let expected: i64 = layout.iter().map(|(_, extent)| extent).product();
    if values.len() as i64 != expected {
        return Err(format!("{} values in place of {expected}", values.len()));
    }
    let mut gathered = Vec::with_capacity(extents.iter().product::<u64>() as usize);
    Steps { layout, axes }.each(extents, |place| gathered.push(values[place]));
    Ok(gathered)
}

/// Writes values whose bytes are `values`.
fn scattered(
    tensor: &mut Tensor,
    layout: &Layout,
    axes: [Axis; 4],
    extents: [u64; 4],
    values: &[u8],
) -> Result<(), String> {
    let size = tensor.dtype().bytes();
    let bytes = tensor
        .host_bytes_mut()
        .ok_or("the output is not on the host")?;
    let mut values = values.chunks_exact(size);
    Steps { layout, axes }.each(extents, |place| {
        if let (Some(target), Some(value)) = (
            bytes.get_mut(place * size..(place + 1) * size),
            values.next(),
        ) {
            target.copy_from_slice(value);
        }
    });
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_scales_are_kept_if_they_are_one_power_of_two() {
        assert_eq!(own_shift(&[0.25, 0.25]), Ok(Some(2)));
        assert_eq!(own_shift(&[0.25, 0.125]), Ok(None));
        assert_eq!(own_shift(&[0.3]), Ok(None));
        assert_eq!(own_shift(&[2.0]), Ok(None), "a shift to the left");
        assert!(own_shift(&[0.0]).is_err() && own_shift(&[f32::NAN]).is_err());
        assert_eq!(
            saturated([1e20, -1e20, 2.4].into_iter()),
            [1 << 30, -(1 << 30), 2]
        );
    }

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
