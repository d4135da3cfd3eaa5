//! The estimate whose rates are fitted: time as a sum of what each part of a kernel takes, with coefficients from the
//! samples at hand.
//!
//! time = a·serial + b·steps + c·arithmetic + d·traffic + e·exponentials + f. The last is the floor of the device, below
//! which nothing gets; traffic alone decides where there is little arithmetic for a byte, as in products with one row.
//! Non-negative least squares of the relative error (coordinate descent on the normal equations), in rounds that count
//! samples less the further off they were.

use serde::{Deserialize, Serialize};

use crate::data::Dataset;
use crate::features::Point;

/// Parts of the sum.
const PARTS: usize = 6;
/// Rounds of reweighting.
const ROUNDS: usize = 5;
/// Sweeps of coordinate descent in a round.
const SWEEPS: usize = 400;
/// Errors beyond this count by their size and no longer by its square, log2.
const USUAL_ERROR: f64 = 0.3;

/// What a unit of each part takes, ns.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Rates([f64; PARTS]);

fn parts(point: &Point) -> [f64; PARTS] {
    let bases = &point.bases;
    let [arithmetic, traffic, exponentials] = bases.shared;
    let [serial, steps] = bases.schedule();
    [serial, steps, arithmetic, traffic, exponentials, 1.0]
}

impl Rates {
    /// Fits the rates to some samples.
    pub fn fit(dataset: &Dataset, indices: &[usize]) -> Self {
        let samples: Vec<([f64; PARTS], f64, f64)> = indices
            .iter()
            .map(|&i| &dataset.samples[i])
            .map(|s| (parts(&s.point), s.log2_time, f64::from(s.weight)))
            .collect();
        let mut rates = Self([0.0; PARTS]);
        let mut weights: Vec<f64> = samples.iter().map(|(_, _, weight)| *weight).collect();
        for _ in 0..ROUNDS {
            rates = Self::solved(&samples, &weights);
            for ((parts, time, weight), current) in samples.iter().zip(&mut weights) {
                let error = rates.of(parts) - time;
                // A relative error has no bound above, so that one slow estimate would outweigh all others.
                let slow = error.exp2().max(1.0);
                *current = weight / ((error / USUAL_ERROR).hypot(1.0) * slow);
            }
        }
        rates
    }

    /// Minimises Σ weight · (Σ rate · part ÷ time − 1)² over rates of 0 and above.
    fn solved(samples: &[([f64; PARTS], f64, f64)], weights: &[f64]) -> Self {
        let mut normal = [[0.0; PARTS]; PARTS];
        let mut right = [0.0; PARTS];
        for ((parts, time, _), weight) in samples.iter().zip(weights) {
            let relative = parts.map(|part| part / time.exp2());
            for (row, a) in relative.iter().enumerate() {
                right[row] += weight * a;
                for (column, b) in relative.iter().enumerate() {
                    normal[row][column] += weight * a * b;
                }
            }
        }
        let mut rates = [0.0f64; PARTS];
        for _ in 0..SWEEPS {
            for part in 0..PARTS {
                let own = normal[part][part];
                if own > 0.0 {
                    let others: f64 = (0..PARTS).map(|o| normal[part][o] * rates[o]).sum();
                    rates[part] = (rates[part] + (right[part] - others) / own).max(0.0);
                }
            }
        }
        Self(rates)
    }

    fn of(&self, parts: &[f64; PARTS]) -> f64 {
        let sum: f64 = self
            .0
            .iter()
            .zip(parts)
            .map(|(rate, part)| rate * part)
            .sum();
        // Nothing takes less than a thousandth of a ns.
        sum.max(1e-3).log2()
    }

    /// The estimate of a point, base-2 logarithm of ns.
    pub fn estimate(&self, point: &Point) -> f64 {
        self.of(&parts(point))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::{Machines, RowSet};
    use crate::testing::dense_row;

    #[test]
    fn a_floor_and_a_bandwidth_are_found() {
        // One row: two operations for each 4 bytes of weights. 10 bytes a ns, and 2 µs for the call.
        let rows = (0..40u64).map(|number| {
            let (columns, depth) = (16 << (number % 8), 16 << (number / 8));
            let mut row = dense_row(1, columns, depth, "{}");
            row.point_id = number.to_string();
            row.workload_hash = Some(number.to_string());
            let bytes = row.bytes_read.unwrap_or(4 * columns * depth) as f64;
            row.time_median_ns = Some(bytes / 10.0 + 2000.0);
            row
        });
        let set = RowSet::from(rows.collect::<Vec<_>>());
        let dataset = Dataset::new(&set, &Machines::Single).unwrap();
        let rates = Rates::fit(&dataset, &dataset.all());
        for sample in &dataset.samples {
            let error = rates.estimate(&sample.point) - sample.log2_time;
            assert!(error.abs() < 0.1, "{error}: {rates:?}");
        }
    }
}
