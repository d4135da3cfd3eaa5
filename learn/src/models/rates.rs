//! The fitted estimate: time as a sum of the costs of a kernel's parts, with coefficients fitted to samples.
//!
//! time = a·serial + b·steps + c·arithmetic + d·traffic + e·exponentials + f·cold weights + g·cold outputs +
//! h·several + i. The last is the shortest time of the device, h the time to start several threads and wait for them.
//! Traffic alone decides where there is little arithmetic for a byte, as in products with one row. Where b counts cycles,
//! arithmetic is in them, and a and c are left out. Over several machines with known rates, arithmetic and traffic are
//! the times they take there at best. Then c and d are the factors by which they take longer in fact. The steps are
//! replaced by the arithmetic times the machine's power shortage. Of the other parts only the floor stays. Non-negative
//! least squares of the relative error (coordinate descent on the normal equations), in rounds that count samples less
//! the further off they were.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::data::Dataset;
use crate::features::Point;

/// Parts of the sum.
const PARTS: usize = 9;
/// The last of them, which is the same for all.
const FLOOR: usize = PARTS - 1;
/// Rounds of reweighting.
const ROUNDS: usize = 5;
/// Sweeps of coordinate descent in a round.
const SWEEPS: usize = 400;
/// Errors beyond this count by their size and no longer by its square, log2.
const USUAL_ERROR: f64 = 0.3;

/// Numbers of cores or multiprocessors that are tried for a machine whose own is not known.
const UNITS: [f64; 20] = [
    2.0, 4.0, 6.0, 8.0, 12.0, 16.0, 18.0, 20.0, 24.0, 32.0, 40.0, 48.0, 56.0, 64.0, 68.0, 80.0,
    96.0, 108.0, 120.0, 132.0,
];
/// Maximum number of samples to judge them on.
const JUDGED: usize = 6000;

/// Minimum number of samples of a machine to fit its own rates to.
const OWN_RATES: usize = 30;

/// The unit of arithmetic and traffic.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Unit {
    /// Operations and bytes.
    #[default]
    Counts,
    /// The time that they take at the calibrated rates of their machine.
    AtBest,
}

/// Cost of a unit of each part.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Rates {
    /// Time for a unit of each part, ns.
    rates: [f64; PARTS],
    /// The unit of arithmetic and traffic.
    #[serde(default)]
    unit: Unit,
    /// Cores or multiprocessors that share the pieces of a schedule, where the machine's own number is not known.
    units: Option<f64>,
}

/// A point, its time (log2 ns), and how much it counts.
pub type Timed<'a> = (&'a Point, f64, f64);

/// The samples in the form that the fit uses.
fn timed<'a>(dataset: &'a Dataset, indices: &[usize]) -> Vec<Timed<'a>> {
    let samples = indices.iter().map(|&i| &dataset.samples[i]);
    samples
        .map(|s| (&s.point, s.log2_time, f64::from(s.weight)))
        .collect()
}

fn parts(point: &Point, unit: Unit, units: Option<f64>) -> [f64; PARTS] {
    let bases = &point.bases;
    let mut parts = [1.0; PARTS];
    if unit == Unit::AtBest {
        let [arithmetic, traffic, short] = bases.at_best();
        parts = [0.0; PARTS];
        parts[1..4].copy_from_slice(&[short, arithmetic, traffic]);
        parts[FLOOR] = 1.0;
    } else {
        parts[..FLOOR].copy_from_slice(&bases.parts(units));
    }
    parts
}

impl Rates {
    /// Fits the rates to some samples.
    pub fn fit(dataset: &Dataset, indices: &[usize]) -> Self {
        Self::fit_times(&timed(dataset, indices))
    }

    /// Fits to some samples how much longer than at best arithmetic and traffic take, and the floor.
    pub fn fit_at_best(dataset: &Dataset, indices: &[usize]) -> Self {
        Self::with_units(&timed(dataset, indices), Unit::AtBest, None)
    }

    /// The rates of each machine that has samples enough, by its number.
    pub fn by_machine(dataset: &Dataset, indices: &[usize]) -> BTreeMap<usize, Self> {
        let mut of: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
        for &index in indices {
            let machine = dataset.samples[index].machine;
            of.entry(machine).or_default().push(index);
        }
        of.retain(|_, own| own.len() >= OWN_RATES);
        of.into_iter()
            .map(|(machine, own)| (machine, Self::fit_at_best(dataset, &own)))
            .collect()
    }

    /// Fits the rates to points with their times (log2 ns) and weights.
    pub fn fit_times(timed: &[Timed<'_>]) -> Self {
        let step = timed.len().div_ceil(JUDGED).max(1);
        let some: Vec<Timed<'_>> = timed.iter().copied().step_by(step).collect();
        // If no point has a number of units, one fit serves all.
        let asked = some.iter().any(|(point, ..)| point.bases.asks_for_units());
        let candidates = if asked { &UNITS[..] } else { &UNITS[..1] };
        let tried = candidates.iter().map(|&units| {
            let rates = Self::with_units(&some, Unit::Counts, Some(units));
            (units, rates.error_among_schedules(&some))
        });
        let best = tried.min_by(|a, b| a.1.total_cmp(&b.1));
        Self::with_units(timed, Unit::Counts, best.map(|(units, _)| units))
    }

    /// The rates for a number of units.
    fn with_units(timed: &[Timed<'_>], unit: Unit, units: Option<f64>) -> Self {
        let samples: Vec<([f64; PARTS], f64, f64)> = timed
            .iter()
            .map(|&(point, time, weight)| (parts(point, unit, units), time, weight))
            .collect();
        let rates = robust(&samples);
        Self { rates, unit, units }
    }

    /// The sum of the errors of some points. Points of one workload and one tile show the number of units by their
    /// differences, so their common error does not count.
    fn error_among_schedules(&self, timed: &[Timed<'_>]) -> f64 {
        let group = |point: &Point| Some((point.workload, point.bases.pace_of_pieces()?));
        let errors: Vec<_> = timed
            .iter()
            .map(|(point, time, weight)| (group(point), self.estimate(point) - time, weight))
            .collect();
        let mut sums: BTreeMap<_, (f64, f64)> = BTreeMap::new();
        for &(group, error, _) in &errors {
            let (sum, count) = sums.entry(group).or_default();
            *sum += error;
            *count += 1.0;
        }
        // A point without a group counts by half of its error.
        let common = |group: Option<_>| {
            let (sum, count) = sums[&group];
            group.map_or(0.0, |_| sum / (count + 1.0))
        };
        errors
            .into_iter()
            .map(|(group, error, weight)| weight * (error - common(group)).abs())
            .sum()
    }

    /// Number of cores or multiprocessors that fits the samples best, if the machine does not report its own.
    pub fn units(&self) -> Option<f64> {
        self.units
    }

    /// The estimate of a point, base-2 logarithm of ns.
    pub fn estimate(&self, point: &Point) -> f64 {
        sum(&self.rates, &parts(point, self.unit, self.units))
    }
}

/// The sum of parts at their rates, base-2 logarithm of ns.
pub(super) fn sum<const N: usize>(rates: &[f64; N], parts: &[f64; N]) -> f64 {
    let pairs = rates.iter().zip(parts);
    let sum: f64 = pairs.map(|(rate, part)| rate * part).sum();
    // The estimate is at least a thousandth of a nanosecond, so that it has a logarithm.
    sum.max(1e-3).log2()
}

/// The rates, 0 and above, of samples with their parts, times (log2 ns) and weights.
pub(super) fn robust<const N: usize>(samples: &[([f64; N], f64, f64)]) -> [f64; N] {
    let mut weights: Vec<f64> = samples.iter().map(|(_, _, weight)| *weight).collect();
    let mut rates = [0.0; N];
    let relative: Vec<[f64; N]> = samples
        .iter()
        .map(|(parts, time, _)| parts.map(|part| part / time.exp2()))
        .collect();
    for _ in 0..ROUNDS {
        rates = solved(&relative, &weights);
        for ((parts, time, weight), current) in samples.iter().zip(&mut weights) {
            let error = sum(&rates, parts) - time;
            // A relative error has no bound above, so that one slow estimate would outweigh all others.
            let slow = error.exp2().max(1.0);
            *current = weight / ((error / USUAL_ERROR).hypot(1.0) * slow);
        }
    }
    rates
}

/// Minimises Σ weight · (Σ rate · part − 1)² over rates of 0 and above; the parts are shares of the time.
fn solved<const N: usize>(relative: &[[f64; N]], weights: &[f64]) -> [f64; N] {
    let mut normal = [[0.0; N]; N];
    let mut right = [0.0; N];
    for (relative, weight) in relative.iter().zip(weights) {
        for (row, a) in relative.iter().enumerate() {
            right[row] += weight * a;
            for (column, b) in relative.iter().enumerate() {
                normal[row][column] += weight * a * b;
            }
        }
    }
    let mut rates = [0.0f64; N];
    for _ in 0..SWEEPS {
        for part in 0..N {
            let own = normal[part][part];
            if own > 0.0 {
                let others: f64 = (0..N).map(|o| normal[part][o] * rates[o]).sum();
                rates[part] = (rates[part] + (right[part] - others) / own).max(0.0);
            }
        }
    }
    rates
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::{Machines, RowSet};
    use crate::features::machine::{self, MachineFacts};
    use crate::features::point_of;
    use crate::testing::dense_row;

    #[test]
    fn the_number_of_cores_is_found() {
        // As many pieces as cores take as long as one; one more takes twice as long.
        let rows = (0..120u64).map(|number| {
            let (pieces, depth) = (1 + number % 30, 256 << (number / 30));
            let mut row = dense_row(
                1,
                8 * pieces,
                depth,
                r#"{"tile_y":[-1,1],"tile_x":[-1,8],"tile_k":[-1,64]}"#,
            );
            row.point_id = number.to_string();
            row.workload_hash = Some(number.to_string());
            row.time_median_ns = Some((pieces.div_ceil(6) * 8 * depth) as f64);
            row
        });
        let set = RowSet::from(rows.collect::<Vec<_>>());
        let dataset = Dataset::new(&set, &Machines::Single).unwrap();
        let rates = Rates::fit(&dataset, &dataset.all());
        assert_eq!(rates.units, Some(6.0));
    }

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

    #[test]
    fn a_floor_over_machines_of_known_rates_is_found() {
        // Half of the peak, a third of the bandwidth, and 20 µs for the call. The second machine is four times as fast
        // and short of power, so that its arithmetic takes as long again.
        let rows = (0..60u64).map(|number| {
            let (columns, depth) = (64 << (number % 6), 64 << (number / 6 % 5));
            let mut row = dense_row(1 + 63 * (number % 2), columns, depth, "{}");
            row.point_id = number.to_string();
            row.workload_hash = Some(number.to_string());
            row.threads = Some(1);
            row.env_hash = Some(if number < 30 { "a" } else { "b" }.to_owned());
            row
        });
        let mut set = RowSet::from(rows.collect::<Vec<_>>());
        for (name, times) in [("a", 1.0), ("b", 4.0)] {
            let facts = MachineFacts {
                rates: vec![machine::Rates {
                    threads: 1,
                    gflops: Some(100.0 * times),
                    memory_gbytes_per_s: Some(10.0 * times),
                    ..machine::Rates::default()
                }],
                power_w: (name == "b").then_some(75.0),
                ..MachineFacts::named(name)
            };
            set.facts.insert(name.to_owned(), facts);
        }
        for row in &mut set.rows {
            let facts = &set.facts[row.env_hash.as_deref().unwrap()];
            let [arithmetic, traffic, short] = point_of(row, facts).bases.at_best();
            row.time_median_ns = Some(2.0 * arithmetic + 2.0 * short + 3.0 * traffic + 20_000.0);
        }
        let dataset = Dataset::new(&set, &Machines::Mixed).unwrap();
        let rates = Rates::fit_at_best(&dataset, &dataset.all());
        let found = [
            rates.rates[1],
            rates.rates[2],
            rates.rates[3],
            rates.rates[FLOOR],
        ];
        for (found, wanted) in found.into_iter().zip([2.0, 2.0, 3.0, 20_000.0]) {
            assert!((found / wanted - 1.0).abs() < 0.02, "{rates:?}");
        }
        // Rates fitted to one machine alone fit its own samples as well; with few samples there are none.
        let own = Rates::by_machine(&dataset, &dataset.all());
        assert_eq!(own.len(), 2);
        for sample in &dataset.samples {
            let error = own[&sample.machine].estimate(&sample.point) - sample.log2_time;
            assert!(error.abs() < 0.05, "{error}");
        }
        assert!(Rates::by_machine(&dataset, &[0, 1, 2]).is_empty());
    }
}
