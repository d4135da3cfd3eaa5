//! Comparing a kernel's output with a reference, element by element.
//!
//! Two orders of summation of the same numbers differ by rounding. For a sum of `k` products the difference relative to
//! the result grows like `ε·√k` (Higham, *Accuracy and Stability of Numerical Algorithms*, §4.2, random signs). The
//! tolerance is a multiple of that, relative to the element, plus the same multiple of the largest element. Sums that
//! cancel keep the error of their terms. Integers must agree exactly.

use half::{bf16, f16};
use serde::{Deserialize, Deserializer, Serialize};
use tvm_bridge::{DType, Tensor};

/// Tolerated difference between an output and its reference.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Tolerance {
    /// Relative to the reference's element.
    pub relative: f64,
    /// Absolute, in units of the largest element of the reference.
    pub of_largest: f64,
}

/// Multiple of the expected rounding difference that is accepted: exp, erf and division add to that of the sum.
const SAFETY: f64 = 16.0;
/// Smallest relative tolerance for `float32`: library functions differ by a few units in the last place.
const LEAST: f64 = 1e-5;

impl Tolerance {
    /// The tolerance of outputs of `dtype` that sum `reduction_length` terms.
    pub fn new(dtype: DType, reduction_length: u64) -> Tolerance {
        let epsilon = match dtype {
            DType::Float64 => f64::EPSILON,
            DType::Float32 => f64::from(f32::EPSILON),
            // 10 bits of fraction.
            DType::Float16 => 2f64.powi(-10),
            // 7 bits.
            DType::BFloat16 => 2f64.powi(-7),
            _ => {
                return Tolerance {
                    relative: 0.0,
                    of_largest: 0.0,
                };
            }
        };
        let least = LEAST * epsilon / f64::from(f32::EPSILON);
        let relative = (SAFETY * epsilon * (reduction_length.max(1) as f64).sqrt()).max(least);
        Tolerance {
            relative,
            of_largest: relative,
        }
    }
}

/// The result of a comparison.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Comparison {
    /// Largest absolute difference; infinite if only one of two values is infinite.
    #[serde(deserialize_with = "perhaps_infinite")]
    pub max_abs_error: f64,
    /// Largest difference relative to the reference's element, over elements that are not zero there.
    #[serde(deserialize_with = "perhaps_infinite")]
    pub max_rel_error: f64,
    /// Absolute tolerance that was applied (the relative one comes on top).
    pub tolerance_abs: f64,
    /// Relative tolerance that was applied.
    pub tolerance_rel: f64,
    /// Elements beyond the tolerance.
    pub wrong: u64,
    /// Elements compared.
    pub elements: u64,
    /// Flat index of the worst element, if any is wrong.
    pub worst: Option<u64>,
}

/// A difference as JSON has it, which writes an infinite one as null.
fn perhaps_infinite<'de, D: Deserializer<'de>>(from: D) -> Result<f64, D::Error> {
    Ok(Option::deserialize(from)?.unwrap_or(f64::INFINITY))
}

impl Comparison {
    /// Whether every element is within the tolerance.
    pub fn agrees(&self) -> bool {
        self.wrong == 0
    }

    /// One line for a person, if the outputs differ.
    pub fn complaint(&self) -> Option<String> {
        let worst = self.worst.filter(|_| !self.agrees())?;
        Some(format!(
            "{} of {} elements differ from the reference by more than {:.1e} + {:.1e}·|reference| (largest difference {:.3e}, worst at flat index {worst})",
            self.wrong, self.elements, self.tolerance_abs, self.tolerance_rel, self.max_abs_error
        ))
    }
}

/// Compares `found` with `reference`, which must have the same shape and type.
///
/// # Errors
/// Fails if a tensor cannot be copied from its device.
pub fn compare(
    found: &Tensor,
    reference: &Tensor,
    tolerance: Tolerance,
) -> tvm_bridge::Result<Comparison> {
    let (found_bytes, reference_bytes) = (found.bytes()?, reference.bytes()?);
    // 64-bit integers beyond 2⁵³ are compared rounded to double precision.
    macro_rules! as_numbers {
        ($t:ty) => {
            as_numbers!($t, |v: $t| v as f64)
        };
        ($t:ty, $to_double:expr) => {{
            let read = |bytes: &[u8], values: &mut [f64]| {
                let (elements, _) = bytes.as_chunks::<{ size_of::<$t>() }>();
                for (value, element) in values.iter_mut().zip(elements) {
                    *value = $to_double(<$t>::from_le_bytes(*element));
                }
            };
            let of = |bytes| Elements {
                bytes,
                size: size_of::<$t>(),
                read,
            };
            compare_elements(&of(&found_bytes), &of(&reference_bytes), tolerance)
        }};
    }
    Ok(match reference.dtype() {
        DType::Float32 => as_numbers!(f32),
        DType::Float64 => as_numbers!(f64),
        DType::Float16 => as_numbers!(f16, f64::from),
        DType::BFloat16 => as_numbers!(bf16, f64::from),
        DType::Int8 => as_numbers!(i8),
        DType::Int16 => as_numbers!(i16),
        DType::Int32 => as_numbers!(i32),
        DType::Int64 => as_numbers!(i64),
        DType::UInt8 | DType::Bool => as_numbers!(u8),
        DType::UInt16 => as_numbers!(u16),
        DType::UInt32 => as_numbers!(u32),
        DType::UInt64 => as_numbers!(u64),
    })
}

/// The comparison of the output that is furthest from its reference.
pub fn worst(comparisons: impl IntoIterator<Item = Comparison>) -> Option<Comparison> {
    comparisons.into_iter().max_by(|a, b| {
        a.wrong
            .cmp(&b.wrong)
            .then(a.max_rel_error.total_cmp(&b.max_rel_error))
    })
}

/// The elements of a tensor, read a block at a time: whole copies in double precision took longer than small kernels.
struct Elements<'a, F> {
    bytes: &'a [u8],
    /// Bytes of an element.
    size: usize,
    read: F,
}

/// Elements of a block.
const BLOCK: usize = 1024;

impl<F: Fn(&[u8], &mut [f64])> Elements<'_, F> {
    fn count(&self) -> usize {
        self.bytes.len() / self.size
    }

    /// Copies the elements from `first` on into a block; returns those that exist.
    fn block<'b>(&self, first: usize, block: &'b mut [f64; BLOCK]) -> &'b [f64] {
        let bytes = self.bytes_of_block(first);
        let values = &mut block[..bytes.len() / self.size];
        (self.read)(bytes, values);
        values
    }

    /// Bytes of the elements from `first` on, at most one block.
    fn bytes_of_block(&self, first: usize) -> &[u8] {
        let last = self.count().min(first + BLOCK);
        &self.bytes[first.min(last) * self.size..last * self.size]
    }
}

fn compare_elements<F: Fn(&[u8], &mut [f64])>(
    found: &Elements<'_, F>,
    reference: &Elements<'_, F>,
    tolerance: Tolerance,
) -> Comparison {
    let (mut f, mut r) = ([0.0; BLOCK], [0.0; BLOCK]);
    let elements = reference.count();
    let mut largest = 0f64;
    for first in (0..elements).step_by(BLOCK) {
        largest = largest_finite(reference.block(first, &mut r)).max(largest);
    }
    let absolute = tolerance.of_largest * largest;
    let mut result = Comparison {
        max_abs_error: 0.0,
        max_rel_error: 0.0,
        tolerance_abs: absolute,
        tolerance_rel: tolerance.relative,
        wrong: found.count().abs_diff(elements) as u64,
        elements: elements as u64,
        worst: (found.count() != elements).then_some(0),
    };
    let mut worst_excess = 0f64;
    for first in (0..elements.min(found.count())).step_by(BLOCK) {
        if found.bytes_of_block(first) == reference.bytes_of_block(first) {
            continue;
        }
        let (f, r) = (found.block(first, &mut f), reference.block(first, &mut r));
        if let Some((error, relative)) = all_within(f, r, absolute, tolerance.relative) {
            result.max_abs_error = result.max_abs_error.max(error);
            result.max_rel_error = result.max_rel_error.max(relative);
            continue;
        }
        for (i, (&f, &r)) in (first..).zip(f.iter().zip(r)) {
            if f == r || (f.is_nan() && r.is_nan()) {
                continue;
            }
            let error = (f - r).abs();
            let excess = error - absolute - tolerance.relative * r.abs();
            result.max_abs_error = result.max_abs_error.max(error);
            if r != 0.0 {
                result.max_rel_error = result.max_rel_error.max(error / r.abs());
            }
            // A NaN on one side only makes the excess NaN, and counts as wrong.
            if excess.is_nan() || excess > 0.0 {
                result.wrong += 1;
                if result.worst.is_none() || excess > worst_excess || excess.is_nan() {
                    worst_excess = excess;
                    result.worst = Some(i as u64);
                }
            }
        }
    }
    result
}

/// The largest finite absolute value of a block; 0 if there is none. It takes maxima of lanes, which the compiler
/// vectorises, unlike one maximum over all values.
fn largest_finite(block: &[f64]) -> f64 {
    const LANES: usize = 8;
    let larger = |largest: f64, value: f64| {
        let size = value.abs();
        let is_larger = size > largest && size < f64::INFINITY;
        if is_larger { size } else { largest }
    };
    let (rows, rest) = block.as_chunks::<LANES>();
    let mut lanes = [0f64; LANES];
    for row in rows {
        for lane in 0..LANES {
            lanes[lane] = larger(lanes[lane], row[lane]);
        }
    }
    let all = lanes.iter().chain(rest);
    all.fold(0.0, |largest, value| larger(largest, *value))
}

/// The largest absolute and relative difference of a block, if all of it is finite and within the tolerance.
fn all_within(
    found: &[f64],
    reference: &[f64],
    absolute: f64,
    relative: f64,
) -> Option<(f64, f64)> {
    let (mut error, mut relative_error, mut excess) = (0f64, 0f64, f64::NEG_INFINITY);
    let mut finite = true;
    for (f, r) in found.iter().zip(reference) {
        let (own, size) = ((f - r).abs(), r.abs());
        let share = if size > 0.0 { own / size } else { 0.0 };
        error = if own > error { own } else { error };
        relative_error = if share > relative_error {
            share
        } else {
            relative_error
        };
        let beyond = own - absolute - relative * size;
        excess = if beyond > excess { beyond } else { excess };
        finite &= own.is_finite() & size.is_finite();
    }
    (finite && excess <= 0.0).then_some((error, relative_error))
}

#[cfg(test)]
mod tests {
    use tvm_bridge::Device;

    use super::*;

    fn tensor(values: &[f32]) -> Tensor {
        let bytes: Vec<u8> = values.iter().flat_map(|v| v.to_le_bytes()).collect();
        Tensor::from_bytes(
            Device::cpu(),
            &[values.len() as i64],
            DType::Float32,
            &bytes,
        )
        .unwrap()
    }

    fn result(found: &[f32], reference: &[f32]) -> Comparison {
        compare(
            &tensor(found),
            &tensor(reference),
            Tolerance::new(DType::Float32, 64),
        )
        .unwrap()
    }

    #[test]
    fn rounding_differences_pass_and_real_ones_do_not() {
        assert!(result(&[1.000_001, 2.0], &[1.0, 2.0]).agrees());
        let wrong = result(&[1.0, 2.1], &[1.0, 2.0]);
        assert_eq!((wrong.wrong, wrong.worst), (1, Some(1)));
        assert!(wrong.complaint().unwrap().contains("1 of 2 elements"));
    }

    #[test]
    fn an_infinite_difference_can_be_said() {
        let lost = result(&[f32::MIN, 2.0], &[f32::NEG_INFINITY, 2.0]);
        assert_eq!((lost.wrong, lost.max_abs_error), (1, f64::INFINITY));
        let said = serde_json::to_string(&lost).unwrap();
        assert_eq!(serde_json::from_str::<Comparison>(&said).unwrap(), lost);
    }

    #[test]
    fn cancelled_sums_are_judged_by_the_largest_element() {
        assert!(result(&[1e-6, 10.0], &[0.0, 10.0]).agrees());
        assert!(!result(&[1e-2, 10.0], &[0.0, 10.0]).agrees());
    }

    #[test]
    fn a_nan_on_one_side_is_wrong() {
        assert!(!result(&[f32::NAN], &[1.0]).agrees());
        assert!(!result(&[1.0], &[f32::NAN]).agrees());
        assert!(result(&[f32::NAN], &[f32::NAN]).agrees());
    }

    #[test]
    fn a_missing_element_is_wrong() {
        assert!(!result(&[1.0], &[1.0, 1.0]).agrees());
    }

    #[test]
    fn integers_must_agree_exactly() {
        let t = |v: i32| {
            Tensor::from_bytes(Device::cpu(), &[1], DType::Int32, &v.to_le_bytes()).unwrap()
        };
        assert!(
            compare(&t(5), &t(5), Tolerance::new(DType::Int32, 1000))
                .unwrap()
                .agrees()
        );
        assert!(
            !compare(&t(5), &t(6), Tolerance::new(DType::Int32, 1000))
                .unwrap()
                .agrees()
        );
    }
}
