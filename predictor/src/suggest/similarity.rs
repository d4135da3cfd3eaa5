//! Similarity of two points: how much the time of one says about that of the other, 0 to 1. It decreases exponentially
//! with the distance of their features, each weighted by its effect on the predictions of the ensemble's members.
//!
//! The mean absolute SHAP value of a feature says how much it moves them. The leaves that points share in the trees
//! carry the same information, but few measured points make few leaves. Distances without these weights follow features
//! that do not matter.

use opdata::stats::{median, moments};
use oplearn::features::{FEATURES, Point};
use oplearn::models::member::Member;
use rayon::prelude::*;

use crate::error::Result;

/// Number of pairs of points to estimate the usual distance from.
const PAIRS: usize = 4096;
/// A feature with a smaller share of the total effect on predictions is left out.
const LEAST_SHARE: f64 = 1e-4;
/// Standard deviations beyond which a value counts as no further off.
const FURTHEST: f32 = 4.0;
/// Weight of having a feature at all against its values, in standard deviations.
const PRESENCE: f32 = 0.7;

/// Points, ready to be compared.
#[derive(Debug)]
pub struct Similarity {
    /// Coordinates, `width` a point.
    places: Vec<f32>,
    width: usize,
    /// Distance over which the similarity falls to 1/e.
    reach: f32,
}

/// Effect of each feature on the predictions of trained members, as a share of the total.
#[derive(Debug, Clone, PartialEq)]
pub struct Importance(Vec<f64>);

impl Importance {
    /// Computes the members' contributions at up to `asked` points, evenly spread.
    ///
    /// # Errors
    /// Fails if XGBoost's library fails.
    pub fn new(members: &[Member], points: &[&Point], asked: usize) -> Result<Self> {
        let step = points.len().div_ceil(asked.max(1)).max(1);
        let asked: Vec<&Point> = points.iter().copied().step_by(step).collect();
        let by_member: Vec<Vec<f64>> = members
            .par_iter()
            .map(|member| member.importance(&asked))
            .collect::<oplearn::Result<_>>()?;
        let mut sums = vec![0.0; FEATURES.len()];
        for member in &by_member {
            for (sum, value) in sums.iter_mut().zip(member) {
                *sum += value;
            }
        }
        let total: f64 = sums.iter().sum();
        if total > 0.0 {
            sums.iter_mut().for_each(|s| *s /= total);
        }
        Ok(Self(sums))
    }
}

impl Similarity {
    /// Computes the distances between points.
    pub fn new(importance: &Importance, points: &[&Point]) -> Self {
        let mut columns: Vec<Vec<f32>> = Vec::new();
        for (column, &weight) in importance.0.iter().enumerate() {
            if weight > LEAST_SHARE {
                let values: Vec<f32> = points.iter().map(|p| p.features[column]).collect();
                columns.extend(coordinates(&values, weight as f32));
            }
        }
        let width = columns.len();
        let mut places = Vec::with_capacity(width * points.len());
        for point in 0..points.len() {
            places.extend(columns.iter().map(|column| column[point]));
        }
        let mut similarity = Self {
            places,
            width,
            reach: 1.0,
        };
        similarity.reach = similarity.usual_distance(points.len());
        similarity
    }

    fn place(&self, point: usize) -> &[f32] {
        &self.places[point * self.width..(point + 1) * self.width]
    }

    /// The distance of the points at two positions.
    pub fn distance(&self, a: usize, b: usize) -> f32 {
        // Eight sums at a time: one would have to be added up in order.
        let (a, b) = (self.place(a), self.place(b));
        let mut sums = [0.0f32; 8];
        let (a_chunks, b_chunks) = (a.chunks_exact(8), b.chunks_exact(8));
        let rest: f32 = a_chunks
            .remainder()
            .iter()
            .zip(b_chunks.remainder())
            .map(|(a, b)| (a - b) * (a - b))
            .sum();
        for (a, b) in a_chunks.zip(b_chunks) {
            for lane in 0..8 {
                sums[lane] += (a[lane] - b[lane]) * (a[lane] - b[lane]);
            }
        }
        (sums.iter().sum::<f32>() + rest).sqrt()
    }

    /// The similarity of the points at two positions.
    pub fn between(&self, a: usize, b: usize) -> f32 {
        (-self.distance(a, b) / self.reach).exp()
    }

    /// The median distance of points, looked up in evenly spread pairs.
    fn usual_distance(&self, count: usize) -> f32 {
        let count = count.max(1);
        let distances = (0..PAIRS)
            // Steps without a common divisor with most counts reach all points.
            .map(|i| (i * 7919 % count, (i * 104_729 + 1) % count))
            .filter(|(a, b)| a != b)
            .map(|(a, b)| self.distance(a, b))
            .filter(|d| *d > 0.0);
        median(distances).map_or(1.0, |d| d as f32)
    }
}

fn rounded_moments(values: &[f32]) -> (f32, f32) {
    let (mean, deviation) = moments(values).unwrap_or_default();
    (mean as f32, deviation as f32)
}

/// The values of one feature as coordinates, in standard deviations times its weight; a missing value takes the mean.
/// If it is sometimes missing, a second coordinate says so.
fn coordinates(values: &[f32], weight: f32) -> Vec<Vec<f32>> {
    let known: Vec<f32> = values.iter().copied().filter(|v| v.is_finite()).collect();
    let mut coordinates = Vec::new();
    let (mean, deviation) = rounded_moments(&known);
    if deviation > 1e-6 {
        let scaled = |v: &f32| {
            if v.is_finite() {
                ((v - mean) / deviation).clamp(-FURTHEST, FURTHEST) * weight
            } else {
                0.0
            }
        };
        coordinates.push(values.iter().map(scaled).collect());
    }
    if known.len() < values.len() && !known.is_empty() {
        let present: Vec<f32> = values
            .iter()
            .map(|v| f32::from(u8::from(v.is_finite())))
            .collect();
        let (mean, deviation) = rounded_moments(&present);
        let scaled = |p: &f32| (p - mean) / deviation.max(0.05) * PRESENCE * weight;
        coordinates.push(present.iter().map(scaled).collect());
    }
    coordinates
}

#[cfg(test)]
impl Importance {
    /// The first feature counts nine times as much as the second.
    pub fn of_two_features() -> Self {
        let mut shares = vec![0.0; FEATURES.len()];
        (shares[0], shares[1]) = (0.9, 0.1);
        Self(shares)
    }
}

#[cfg(test)]
mod tests {
    use oplearn::testing::points;

    use super::*;

    #[test]
    fn points_are_like_each_other_where_it_matters() {
        let points = points(&[(0.0, 0.0), (0.0, 1.0), (1.0, 0.0), (f32::NAN, 0.0)]);
        let all: Vec<&Point> = points.iter().collect();
        let similarity = Similarity::new(&Importance::of_two_features(), &all);
        assert_eq!(similarity.between(0, 0), 1.0);
        assert_eq!(similarity.between(0, 2), similarity.between(2, 0));
        assert!(similarity.between(0, 1) > similarity.between(0, 2));
        assert!(
            similarity.between(0, 3) < 0.9,
            "a missing feature is a difference"
        );
    }
}
