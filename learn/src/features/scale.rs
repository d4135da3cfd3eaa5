//! Counts and extents on the scales that features have: logarithms, divisors, how full lanes are.

/// Base-2 logarithm of a count; missing if there is none.
pub(crate) fn log(value: f64) -> f32 {
    if value > 0.0 {
        value.log2() as f32
    } else {
        f32::NAN
    }
}

/// Base-2 logarithm of a count that may be 0: that of 1 at least.
pub(crate) fn log1(value: f64) -> f32 {
    value.max(1.0).log2() as f32
}

/// The largest number up to `most` that divides an extent: loops that nothing divides are tiled badly.
pub(super) fn divisor(extent: f64, most: u64) -> f32 {
    let extent = extent.max(1.0) as u64;
    let found = (1..=most).rev().find(|d| extent.is_multiple_of(*d));
    found.unwrap_or(1) as f32
}

/// Share of lanes in use when `extent` values fill vectors of `width` lanes.
pub(crate) fn fill(extent: f64, width: f64) -> f32 {
    (extent / ((extent / width).ceil() * width)) as f32
}

/// Number of pieces of length `b` that cover `a`.
pub(super) fn ceil_div(a: f64, b: f64) -> f64 {
    (a / b.max(1.0)).ceil()
}

/// Squared distance for a feature that only one point has.
const ONE_SIDED: f32 = 2.0;

/// The squared distance of two points' standardised features; NaN is a feature that a point does not have.
pub fn squared_distance(a: &[f32], b: &[f32]) -> f32 {
    let gap = |(a, b): (&f32, &f32)| match (a.is_nan(), b.is_nan()) {
        (false, false) => (a - b).powi(2),
        (true, true) => 0.0,
        _ => ONE_SIDED,
    };
    a.iter().zip(b).map(gap).sum()
}
