//! Seeded argument data.
//!
//! The same seed, fill and shape give the same bytes on every machine, which is what makes a row's check repeatable.
//! The generator is PCG-64 (`rand_pcg`), whose output is fixed by its specification.

use half::{bf16, f16};
use opmodels::graph::Fill;
use rand::distr::{Distribution, Uniform};
use rand::{Rng, SeedableRng};
use rand_pcg::Pcg64;
use tvm_bridge::{DType, Device, Tensor};

/// A tensor of `shape` with made-up values; `stream` distinguishes the tensors that share a seed.
///
/// # Errors
/// Fails if there is no memory for it, or if the bounds of the fill are not in order.
pub fn filled(
    shape: &[u64],
    dtype: DType,
    fill: Fill,
    seed: u64,
    stream: u64,
) -> tvm_bridge::Result<Tensor> {
    let mut tensor = Tensor::zeros(Device::cpu(), &dims(shape), dtype)?;
    let mut random = Pcg64::seed_from_u64(seed ^ stream.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    match fill {
        Fill::Const { value } => write(&mut tensor, || value),
        Fill::Normal { std } => {
            let mut spare = None;
            write(&mut tensor, || std * normal(&mut random, &mut spare));
        }
        Fill::Uniform { low, high } => {
            let between = uniform(low, high)?;
            write(&mut tensor, || between.sample(&mut random));
        }
        Fill::Int { low, high } => {
            let between = uniform(low, high)?;
            write(&mut tensor, || between.sample(&mut random) as f64);
        }
    }
    Ok(tensor)
}

/// Extents as TVM counts them. One that does not fit becomes one that [`Tensor::zeros`] refuses.
pub fn dims(shape: &[u64]) -> Vec<i64> {
    shape
        .iter()
        .map(|&d| i64::try_from(d).unwrap_or(-1))
        .collect()
}

/// Overwrites a tensor with a pattern that no correct kernel leaves behind (a NaN in floating point). An output that
/// was never written then cannot pass for a right one.
///
/// # Errors
/// Fails if TVM cannot write to the tensor's device.
pub fn poison(tensor: &mut Tensor) -> tvm_bridge::Result<()> {
    const PATTERN: u8 = 0xff;
    if let Some(bytes) = tensor.host_bytes_mut() {
        bytes.fill(PATTERN);
        return Ok(());
    }
    let bytes = vec![PATTERN; tensor.size_bytes()];
    let host = Tensor::from_bytes(Device::cpu(), tensor.shape(), tensor.dtype(), &bytes)?;
    tensor.copy_from(&host)
}

fn uniform<T>(low: T, high: T) -> tvm_bridge::Result<Uniform<T>>
where
    T: rand::distr::uniform::SampleUniform + std::fmt::Display + Copy,
{
    Uniform::new(low, high).map_err(|_| tvm_bridge::Error::Unexpected {
        call: "fill".to_owned(),
        reason: format!("there is no value from {low} up to {high}"),
    })
}

/// A standard normal value by the polar method (Marsaglia and Bray, 1964), which yields two at a time.
fn normal(random: &mut Pcg64, spare: &mut Option<f64>) -> f64 {
    if let Some(value) = spare.take() {
        return value;
    }
    loop {
        let u = 2.0 * random.random::<f64>() - 1.0;
        let v = 2.0 * random.random::<f64>() - 1.0;
        let s = u * u + v * v;
        if s > 0.0 && s < 1.0 {
            let factor = (-2.0 * s.ln() / s).sqrt();
            *spare = Some(v * factor);
            return u * factor;
        }
    }
}

fn write(tensor: &mut Tensor, mut next: impl FnMut() -> f64) {
    let dtype = tensor.dtype();
    let bytes = tensor.host_bytes_mut().unwrap_or_default();
    macro_rules! put {
        ($convert:expr) => {
            for chunk in bytes.chunks_exact_mut(dtype.bytes()) {
                chunk.copy_from_slice(&$convert(next()).to_le_bytes());
            }
        };
    }
    match dtype {
        DType::Float32 => put!(|v| v as f32),
        DType::Float64 => put!(|v: f64| v),
        DType::Float16 => put!(half),
        DType::BFloat16 => put!(bf16::from_f64),
        DType::Int8 => put!(|v| v as i8),
        DType::Int16 => put!(|v| v as i16),
        DType::Int32 => put!(|v| v as i32),
        DType::Int64 => put!(|v| v as i64),
        DType::UInt8 => put!(|v| v as u8),
        DType::Bool => put!(|v| u8::from(v != 0.0)),
        DType::UInt16 => put!(|v| v as u16),
        DType::UInt32 => put!(|v| v as u32),
        DType::UInt64 => put!(|v| v as u64),
    }
}

/// The nearest binary16 value; beyond the range, the largest finite one.
fn half(value: f64) -> f16 {
    f16::from_f64(value.clamp(f16::MIN.into(), f16::MAX.into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values(fill: Fill, seed: u64, stream: u64) -> Vec<f32> {
        let tensor = filled(&[1000], DType::Float32, fill, seed, stream).unwrap();
        tensor
            .bytes()
            .unwrap()
            .chunks_exact(4)
            .map(|b| f32::from_le_bytes(b.try_into().unwrap()))
            .collect()
    }

    #[test]
    fn equal_seeds_give_equal_data_and_unlike_ones_do_not() {
        let fill = Fill::Normal { std: 1.0 };
        assert_eq!(values(fill, 1, 0), values(fill, 1, 0));
        assert_ne!(values(fill, 1, 0), values(fill, 2, 0));
        assert_ne!(values(fill, 1, 0), values(fill, 1, 1));
    }

    #[test]
    fn normal_data_has_the_deviation_asked_for() {
        let v = values(Fill::Normal { std: 0.5 }, 3, 0);
        let mean = v.iter().sum::<f32>() / v.len() as f32;
        let deviation = (v.iter().map(|x| (x - mean).powi(2)).sum::<f32>() / v.len() as f32).sqrt();
        assert!(
            mean.abs() < 0.06 && (deviation - 0.5).abs() < 0.05,
            "{mean} {deviation}"
        );
    }

    #[test]
    fn bounds_are_kept_and_impossible_ones_refused() {
        assert!(
            values(
                Fill::Uniform {
                    low: -1.0,
                    high: 2.0
                },
                1,
                0
            )
            .iter()
            .all(|v| (-1.0..2.0).contains(v))
        );
        assert!(
            values(Fill::Int { low: 0, high: 3 }, 1, 0)
                .iter()
                .all(|v| [0.0, 1.0, 2.0].contains(v))
        );
        assert!(filled(&[1], DType::Int64, Fill::Int { low: 3, high: 3 }, 1, 0).is_err());
    }

    #[test]
    fn halves_are_finite() {
        assert_eq!(half(-2.0).to_bits(), 0xc000);
        assert_eq!((half(1e9), half(-1e9)), (f16::MAX, f16::MIN));
    }
}
