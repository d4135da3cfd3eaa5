//! Chooses a value when only a few were measured.
//!
//! Probes are powers of two. The curve between them is [`Saturation`] plus the residuals of other models' sweeps on the
//! same device (odd counts that do not divide the work, cores on another socket). The choice has the shortest time,
//! predicted or measured. Further measurements, if allowed, go where the corrected curve is lowest. A point far from
//! the known ones has a small bonus; the best measured value is the choice then.

use super::saturation::Saturation;
use super::sweep::Sweep;

/// Bonus for each step away from the nearest measured value, log2 of time, up to [`FAR`] steps.
const CURIOSITY: f64 = 0.03;
const FAR: f64 = 4.0;

/// Positions of the values that are powers of two.
pub fn probes(sweep: &Sweep) -> Vec<usize> {
    (0..sweep.x.len())
        .filter(|&i| {
            let x = sweep.x[i];
            x >= 1.0 && x.log2().fract() == 0.0
        })
        .collect()
}

/// Logarithm of the fitted curve at every value of a sweep.
fn fitted(sweep: &Sweep, known: &[usize]) -> Vec<f64> {
    let points: Vec<(f64, f64)> = known.iter().map(|&i| (sweep.x[i], sweep.time[i])).collect();
    let curve = Saturation::fit(&points);
    sweep
        .x
        .iter()
        .map(|x| curve.at(*x).max(1e-300).log2())
        .collect()
}

/// The curve of a sweep from some of its points, helped by other sweeps over the same values.
fn curve(sweep: &Sweep, known: &[usize], others: &[&Sweep]) -> Vec<f64> {
    let mut result = fitted(sweep, known);
    let alike: Vec<&&Sweep> = others.iter().filter(|o| o.x == sweep.x).collect();
    for other in &alike {
        let own = fitted(other, &probes(other));
        for ((value, time), own) in result.iter_mut().zip(&other.time).zip(own) {
            *value += (time.log2() - own) / alike.len() as f64;
        }
    }
    result
}

fn lowest(values: &[f64]) -> usize {
    (0..values.len())
        .min_by(|&a, &b| values[a].total_cmp(&values[b]))
        .unwrap_or(0)
}

/// The choice from the probes alone. At a probe its measured time counts, not the curve.
pub fn from_probes(sweep: &Sweep, others: &[&Sweep]) -> usize {
    let known = probes(sweep);
    let mut times = curve(sweep, &known, others);
    for place in known {
        times[place] = sweep.time[place].log2();
    }
    lowest(&times)
}

/// The choice after `more` measurements, and the positions measured.
pub fn with_more(sweep: &Sweep, others: &[&Sweep], more: usize) -> (usize, Vec<usize>) {
    let mut known = probes(sweep);
    for _ in 0..more {
        known.sort_unstable();
        let base = curve(sweep, &known, others);
        let errors: Vec<f64> = known
            .iter()
            .map(|&i| sweep.time[i].log2() - base[i])
            .collect();
        let places: Vec<f64> = known.iter().map(|&i| sweep.x[i].max(1e-9).log2()).collect();
        let next = (0..sweep.x.len())
            .filter(|i| !known.contains(i))
            .min_by(|&a, &b| {
                let score = |i: usize| {
                    let x = sweep.x[i];
                    let near = known
                        .iter()
                        .map(|&k| (sweep.x[k] - x).abs())
                        .fold(f64::INFINITY, f64::min);
                    base[i] + interpolate(&places, &errors, x.max(1e-9).log2())
                        - CURIOSITY * near.min(FAR)
                };
                score(a).total_cmp(&score(b))
            });
        let Some(next) = next else { break };
        known.push(next);
    }
    let best = known
        .iter()
        .copied()
        .min_by(|&a, &b| sweep.time[a].total_cmp(&sweep.time[b]))
        .unwrap_or(0);
    (best, known)
}

/// Linear interpolation, constant beyond the ends.
fn interpolate(x: &[f64], y: &[f64], at: f64) -> f64 {
    let place = x.partition_point(|v| *v < at);
    match (place.checked_sub(1), x.get(place)) {
        (None, _) => y.first().copied().unwrap_or(0.0),
        (Some(before), None) => y[before],
        (Some(before), Some(after)) => {
            let share = (at - x[before]) / (after - x[before]);
            y[before] + share * (y[place] - y[before])
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Work that is split into `pieces`: a staircase, and a little for each worker.
    fn sweep(name: &str, pieces: f64, work: f64) -> Sweep {
        let x: Vec<f64> = (1..=40).map(f64::from).collect();
        let time = x
            .iter()
            .map(|x| work * (pieces / x).ceil() + 0.2 * x)
            .collect();
        Sweep {
            name: name.to_owned(),
            device: "d".to_owned(),
            axis: "threads".to_owned(),
            x,
            time,
        }
    }

    #[test]
    fn probes_are_powers_of_two() {
        assert_eq!(probes(&sweep("a", 36.0, 1.0)), [0, 1, 3, 7, 15, 31]);
    }

    #[test]
    fn other_sweeps_show_what_lies_between_the_probes() {
        let (one, two) = (sweep("a", 36.0, 30.0), sweep("b", 36.0, 10.0));
        let alone = from_probes(&one, &[]);
        let helped = from_probes(&one, &[&two]);
        assert_eq!(one.x[helped], 36.0);
        assert_ne!(one.x[alone], 36.0, "nothing in the probes says so");
    }

    #[test]
    fn a_probe_counts_by_what_it_took() {
        // The other sweep is sixteen times as fast with 4 workers as it should be; this one was measured there.
        let one = sweep("a", 36.0, 30.0);
        let mut other = sweep("b", 36.0, 10.0);
        other.time[3] /= 16.0;
        assert_ne!(one.x[from_probes(&one, &[&other])], 4.0);
    }

    #[test]
    fn more_measurements_never_choose_worse_and_find_the_best_in_the_end() {
        let one = sweep("a", 36.0, 30.0);
        let mut last = f64::INFINITY;
        for more in [0, 2, 4, 34] {
            let (choice, known) = with_more(&one, &[], more);
            assert!(one.ratio(choice) <= last);
            assert_eq!(known.len(), 6 + more);
            last = one.ratio(choice);
        }
        assert_eq!(last, 1.0);
    }
}
