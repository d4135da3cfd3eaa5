//! Where a surface turns: the line over two factors along which one of them stops paying, and whether the other moves it.
//!
//! On logarithmic axes (u the first factor, v the second, y the time) the surface has six terms. They are 1, u, v, v²,
//! u·v and a hinge max(0, u − line(v)). Every line over a grid is tried and the best refined. The product and the
//! square describe scaling that changes smoothly, without a hinge. A surface has a turn if the hinge explains much of
//! the residuals of the smooth part, and more than for residuals in random order. Intervals come from bootstrapping
//! residuals.

use opdata::stats::quantile_of_sorted;
use oplearn::data::split::shuffled;
use serde::Serialize;

use super::linear::{least_squares, orthonormal};

/// Resampled fits.
const RESAMPLES: u64 = 199;
/// Level of the intervals.
const LEVEL: f64 = 0.9;
/// Minimum number of points of a surface.
pub const LEAST_POINTS: usize = 12;
/// Minimum number of points on each side of the line.
const SIDE: usize = 3;
/// Number of positions tried for each end of the line, over 1.5 times the range of the first factor.
const POSITIONS: usize = 25;
/// Times that the best line's ends are tried again, with half the step each.
const REFINEMENTS: usize = 4;
/// The hinge leaves at most this share of the smooth surface's squared residuals.
const ENOUGH: f64 = 0.7;
/// Maximum p-value.
const SIGNIFICANT: f64 = 0.05;
/// Minimum change of the slope: with 0.05, doubling the factor pays 3.5 % less.
const BEND: f64 = 0.05;
/// Minimum share of a term, by length, that the terms before it do not explain.
const INDEPENDENT: f64 = 1e-6;
/// Copies of the residuals that are drawn from without repetition: nearly the same as drawing with repetition.
const COPIES: usize = 8;

/// A value with its interval.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Estimate {
    /// The value.
    pub value: f64,
    /// Lower end.
    pub low: f64,
    /// Upper end.
    pub high: f64,
}

/// The turn of the first factor at one value of the second. It may lie outside the values measured.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct TurnAt {
    /// Value of the second factor.
    pub second: f64,
    /// Where the first factor turns.
    pub turn: Estimate,
}

/// A turning line.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Crease {
    /// The turn at the smallest, a middle and the largest value of the second factor.
    pub turns: [TurnAt; 3],
    /// Doublings of the turn for each doubling of the second factor; 0 says that it does not move.
    pub moves: Estimate,
    /// Slope before the turn at the middle, log2 time over log2 of the first factor: −1 is perfect scaling.
    pub slope_before: f64,
    /// Slope after it.
    pub slope_after: f64,
    /// Sum of squared residuals over that of the smooth surface.
    pub residual_ratio: f64,
    /// Probability of such a ratio by chance.
    pub p_value: f64,
}

/// A line's position at the smallest and the largest v.
type Ends = [f64; 2];

/// The terms of a smooth surface, over u and v.
const TERMS: [fn(f64, f64) -> f64; 5] =
    [|_, _| 1.0, |u, _| u, |_, v| v, |_, v| v * v, |u, v| u * v];

/// The points, and the smooth part of any series over them.
struct Smooth {
    u: Vec<f64>,
    v: Vec<f64>,
    range_u: (f64, f64),
    range_v: (f64, f64),
    /// The terms that are linearly independent over the points.
    terms: Vec<fn(f64, f64) -> f64>,
    /// Their values at the points, made orthonormal.
    basis: Vec<Vec<f64>>,
}

struct Fit {
    ends: Ends,
    /// Share of the squared residuals that the hinge leaves.
    left: f64,
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

fn range(values: &[f64]) -> (f64, f64) {
    values
        .iter()
        .fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), value| {
            (low.min(*value), high.max(*value))
        })
}

impl Smooth {
    fn new(u: Vec<f64>, v: Vec<f64>) -> Option<Self> {
        let (range_u, range_v) = (range(&u), range(&v));
        if range_u.1 - range_u.0 < 1e-9 || range_v.1 - range_v.0 < 1e-9 {
            return None;
        }
        let mut smooth = Self {
            u,
            v,
            range_u,
            range_v,
            terms: Vec::new(),
            basis: Vec::new(),
        };
        let mut series = Vec::new();
        for term in TERMS {
            series.push(smooth.values(term));
            if let Some(basis) = orthonormal(&series, INDEPENDENT) {
                smooth.basis = basis;
                smooth.terms.push(term);
            } else {
                series.pop();
            }
        }
        Some(smooth)
    }

    fn values(&self, term: fn(f64, f64) -> f64) -> Vec<f64> {
        let places = self.u.iter().zip(&self.v);
        places.map(|(u, v)| term(*u, *v)).collect()
    }

    /// The residuals of a series after the smooth part.
    fn without(&self, series: &[f64]) -> Vec<f64> {
        let mut rest = series.to_vec();
        for column in &self.basis {
            let share = dot(column, &rest);
            for (value, along) in rest.iter_mut().zip(column) {
                *value -= share * along;
            }
        }
        rest
    }

    fn line(&self, ends: Ends, v: f64) -> f64 {
        let share = (v - self.range_v.0) / (self.range_v.1 - self.range_v.0);
        ends[0] + share * (ends[1] - ends[0])
    }

    fn hinge(&self, ends: Ends) -> Vec<f64> {
        let beyond = self.u.iter().zip(&self.v);
        beyond
            .map(|(u, v)| (u - self.line(ends, *v)).max(0.0))
            .collect()
    }

    /// The hinge minus its smooth part, at length 1. `None` if too few points are on a side.
    fn direction(&self, ends: Ends) -> Option<Vec<f64>> {
        let hinge = self.hinge(ends);
        let behind = hinge.iter().filter(|h| **h > 0.0).count();
        if behind < SIDE || hinge.len() - behind < SIDE {
            return None;
        }
        let rest = self.without(&hinge);
        let length = dot(&rest, &rest).sqrt();
        (length > 1e-6 * dot(&hinge, &hinge).sqrt())
            .then(|| rest.iter().map(|x| x / length).collect())
    }

    fn step(&self) -> f64 {
        1.5 * (self.range_u.1 - self.range_u.0) / (POSITIONS - 1) as f64
    }

    /// All lines of the grid, with their directions.
    fn lines(&self) -> Vec<(Ends, Vec<f64>)> {
        let first = self.range_u.0 - 0.25 * (self.range_u.1 - self.range_u.0);
        let place = |k: usize| first + k as f64 * self.step();
        (0..POSITIONS * POSITIONS)
            .map(|k| [place(k / POSITIONS), place(k % POSITIONS)])
            .filter_map(|ends| Some((ends, self.direction(ends)?)))
            .collect()
    }

    /// The hinge that explains most of the smooth part's residuals; only bends upwards count.
    fn fit(&self, lines: &[(Ends, Vec<f64>)], rest: &[f64]) -> Option<Fit> {
        let total = dot(rest, rest);
        let mut best = lines
            .iter()
            .map(|(ends, direction)| (*ends, dot(direction, rest)))
            .max_by(|a, b| a.1.total_cmp(&b.1))?;
        let mut step = self.step();
        for _ in 0..REFINEMENTS {
            step /= 2.0;
            let centre = best.0;
            for (left, right) in (-1..=1).flat_map(|a| (-1..=1).map(move |b| (a, b))) {
                let ends = [
                    centre[0] + step * f64::from(left),
                    centre[1] + step * f64::from(right),
                ];
                if let Some(direction) = self.direction(ends) {
                    let explained = dot(&direction, rest);
                    if explained > best.1 {
                        best = (ends, explained);
                    }
                }
            }
        }
        (best.1 > 0.0 && total > 0.0).then(|| Fit {
            ends: best.0,
            left: (1.0 - best.1 * best.1 / total).max(0.0),
        })
    }

    /// Slopes along u before and after the line at the middle v.
    fn slopes(&self, ends: Ends, y: &[f64]) -> Option<[f64; 2]> {
        let mut columns: Vec<Vec<f64>> = self.terms.iter().map(|t| self.values(*t)).collect();
        columns.push(self.hinge(ends));
        let solution = least_squares(&columns, y)?;
        let middle = f64::midpoint(self.range_v.0, self.range_v.1);
        let terms = self.terms.iter().zip(&solution);
        let before = terms.map(|(term, c)| c * (term(1.0, middle) - term(0.0, middle)));
        let before: f64 = before.sum();
        Some([before, before + solution.last()?])
    }
}

/// Residuals drawn nearly with repetition.
fn drawn(residuals: &[f64], round: u64) -> Vec<f64> {
    let count = residuals.len();
    shuffled(COPIES * count, round)
        .into_iter()
        .take(count)
        .map(|place| residuals[place % count])
        .collect()
}

/// The interval of some estimates around the one from the data.
fn estimate(value: f64, mut others: Vec<f64>) -> Estimate {
    others.sort_by(f64::total_cmp);
    let at = |level: f64| quantile_of_sorted(&others, level).unwrap_or(value);
    Estimate {
        value,
        low: at((1.0 - LEVEL) / 2.0).min(value),
        high: at(f64::midpoint(1.0, LEVEL)).max(value),
    }
}

/// The turning line of times over two factors, all above 0. `None` if no turn is significant.
pub fn crease(points: &[[f64; 3]]) -> Option<Crease> {
    let log = |place: usize| -> Vec<f64> { points.iter().map(|p| p[place].log2()).collect() };
    if points.len() < LEAST_POINTS || points.iter().flatten().any(|x| x.is_nan() || *x <= 0.0) {
        return None;
    }
    let y = log(2);
    let smooth = Smooth::new(log(0), log(1))?;
    let rest = smooth.without(&y);
    let lines = smooth.lines();
    let found = smooth.fit(&lines, &rest)?;
    if found.left > ENOUGH {
        return None;
    }
    let as_good = (0..RESAMPLES)
        .filter_map(|round| smooth.fit(&lines, &smooth.without(&drawn(&rest, round))))
        .filter(|chance| chance.left <= found.left)
        .count();
    let p_value = (1 + as_good) as f64 / (RESAMPLES + 1) as f64;
    let [slope_before, slope_after] = smooth.slopes(found.ends, &y)?;
    if p_value > SIGNIFICANT || slope_after - slope_before < BEND {
        return None;
    }
    let direction = smooth.direction(found.ends)?;
    let explained = dot(&direction, &rest);
    let fitted: Vec<f64> = direction.iter().map(|d| d * explained).collect();
    let residuals: Vec<f64> = rest.iter().zip(&fitted).map(|(r, f)| r - f).collect();
    let again: Vec<Ends> = (0..RESAMPLES)
        .filter_map(|round| {
            let noise = drawn(&residuals, RESAMPLES + round);
            let series: Vec<f64> = fitted.iter().zip(noise).map(|(f, n)| f + n).collect();
            Some(smooth.fit(&lines, &smooth.without(&series))?.ends)
        })
        .collect();
    let (low, high) = smooth.range_v;
    let turn_at = |v: f64| {
        let at = |ends: Ends| smooth.line(ends, v).exp2();
        TurnAt {
            second: v.exp2(),
            turn: estimate(at(found.ends), again.iter().map(|e| at(*e)).collect()),
        }
    };
    let slope = |ends: Ends| (ends[1] - ends[0]) / (high - low);
    Some(Crease {
        turns: [low, f64::midpoint(low, high), high].map(turn_at),
        moves: estimate(slope(found.ends), again.iter().map(|e| slope(*e)).collect()),
        slope_before,
        slope_after,
        residual_ratio: found.left,
        p_value,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Times over 1 to 64 workers and eight sizes, with some percent of reproducible noise.
    fn surface(percent: f64, time: impl Fn(f64, f64) -> f64) -> Vec<[f64; 3]> {
        let sizes = (0..8).map(|k| 2f64.powi(10 + k));
        let workers = [
            1.0, 2.0, 3.0, 4.0, 6.0, 8.0, 12.0, 16.0, 24.0, 32.0, 48.0, 64.0,
        ];
        sizes
            .flat_map(|size| workers.map(|x| (x, size)))
            .enumerate()
            .map(|(k, (x, size))| {
                let noise = 1.0 + percent / 100.0 * (91.7 * k as f64).sin();
                [x, size, time(x, size) * noise]
            })
            .collect()
    }

    #[test]
    fn a_planted_line_is_found_with_what_moves_it() {
        // Workers pay up to the square root of the size over 8: 4 for 2^10, 45 for 2^17.
        let turn = |size: f64| size.sqrt() / 8.0;
        let points = surface(3.0, |x, size| size / x.min(turn(size)) * (1.0 + 0.002 * x));
        let found = crease(&points).unwrap();
        for at in found.turns {
            let wanted = turn(at.second);
            assert!(
                (at.turn.value / wanted).log2().abs() < 0.2,
                "{at:?}, {wanted}"
            );
            assert!(
                at.turn.low <= wanted * 1.1 && wanted <= at.turn.high * 1.1,
                "{at:?}"
            );
        }
        assert!((found.moves.value - 0.5).abs() < 0.07, "{found:?}");
        assert!(found.moves.low > 0.3 && found.moves.high < 0.7, "{found:?}");
        assert!((found.slope_before + 1.0).abs() < 0.1, "{found:?}");
        assert!(
            found.slope_after.abs() < 0.15 && found.p_value < 0.01,
            "{found:?}"
        );
    }

    #[test]
    fn a_line_that_nothing_moves_is_told_as_one() {
        let points = surface(3.0, |x, size| size / x.min(10.0));
        let found = crease(&points).unwrap();
        assert!(
            found.moves.low <= 0.0 && 0.0 <= found.moves.high,
            "{found:?}"
        );
        assert!(
            (found.turns[1].turn.value / 10.0).log2().abs() < 0.2,
            "{found:?}"
        );
    }

    #[test]
    fn surfaces_without_a_knee_have_none() {
        for (name, time) in [
            (
                "perfect scaling",
                (|x, size| size / x) as fn(f64, f64) -> f64,
            ),
            ("no scaling", |_, size| size),
            ("scaling that grows with size", |x, size| {
                size * x.powf(-0.08 * size.log2())
            }),
            ("a bend in the other factor alone", |x, size| {
                (size + 9000.0) / x
            }),
            ("more that pays more", |x, _| 100.0 / x.max(8.0)),
        ] {
            assert_eq!(crease(&surface(3.0, time)), None, "{name}");
        }
        // Noise alone must not show a line.
        for seed in 0..5 {
            let noise = shuffled(96, seed);
            let points: Vec<[f64; 3]> = surface(0.0, |_, _| 1.0)
                .into_iter()
                .zip(noise)
                .map(|([x, z, _], n)| [x, z, 1.0 + n as f64 / 96.0])
                .collect();
            assert_eq!(crease(&points), None, "seed {seed}");
        }
    }

    #[test]
    fn what_is_no_surface_has_no_line() {
        assert_eq!(crease(&[]), None);
        let points = surface(0.0, |x, size| size / x.min(4.0));
        assert_eq!(crease(&points[..11]), None, "too few");
        assert_eq!(crease(&points[..12]), None, "one size");
        let mut zero = points;
        zero[5][2] = 0.0;
        assert_eq!(crease(&zero), None);
    }
}
