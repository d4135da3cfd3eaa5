//! Where a curve turns: two straight lines that meet, and the knee, both on logarithmic axes.
//!
//! The interval of the turn is from bootstrapping residuals: the lines plus resampled residuals, fitted again.

use opdata::stats::quantile_of_sorted;

use super::linear::least_squares;

/// Resampled fits.
const RESAMPLES: usize = 200;
/// Level of the interval.
const LEVEL: f64 = 0.9;
/// Minimum number of points on each side of a turn.
const SIDE: usize = 2;

/// Two lines that meet.
#[derive(Debug, Clone, Copy, PartialEq, serde::Serialize)]
pub struct Turn {
    /// Where the two lines meet.
    pub x: f64,
    /// Lower end of the interval.
    pub low: f64,
    /// Upper end.
    pub high: f64,
    /// Slope before, log2 time over log2 x: −1 is perfect scaling.
    pub slope_before: f64,
    /// Slope after.
    pub slope_after: f64,
    /// Sum of squared residuals over that of one line; 1 if there is no turn.
    pub residual_ratio: f64,
}

struct Fit {
    at: f64,
    before: f64,
    after: f64,
    fitted: Vec<f64>,
    squares: f64,
}

/// Fits y = c + s·x + d·max(0, x − at) for one meeting point.
fn fit_at(x: &[f64], y: &[f64], at: f64) -> Option<Fit> {
    let terms = |v: f64| [1.0, v, (v - at).max(0.0)];
    let values = |term: usize| x.iter().map(|v| terms(*v)[term]).collect();
    let c = least_squares(&[values(0), values(1), values(2)], y)?;
    let fitted: Vec<f64> = x
        .iter()
        .map(|v| terms(*v).iter().zip(&c).map(|(t, c)| t * c).sum())
        .collect();
    let squares = y.iter().zip(&fitted).map(|(a, b)| (a - b).powi(2)).sum();
    Some(Fit {
        at,
        before: c[1],
        after: c[1] + c[2],
        fitted,
        squares,
    })
}

/// The best meeting point among the inner values and their midpoints.
fn best(x: &[f64], y: &[f64]) -> Option<Fit> {
    let inner = SIDE - 1..x.len().checked_sub(SIDE)?;
    inner
        .flat_map(|i| [x[i], f64::midpoint(x[i], x[i + 1])])
        .skip(1)
        .filter_map(|at| fit_at(x, y, at))
        .min_by(|a, b| a.squares.total_cmp(&b.squares))
}

/// The turn of a curve. `None` if it has fewer than five points.
pub fn turn(x: &[f64], time: &[f64]) -> Option<Turn> {
    let positive: Vec<usize> = (0..x.len())
        .filter(|&i| x[i] > 0.0 && time[i] > 0.0)
        .collect();
    if positive.len() < 2 * SIDE + 1 {
        return None;
    }
    let lx: Vec<f64> = positive.iter().map(|&i| x[i].log2()).collect();
    let ly: Vec<f64> = positive.iter().map(|&i| time[i].log2()).collect();
    let found = best(&lx, &ly)?;
    let line =
        fit_at(&lx, &ly, f64::MAX / 4.0).map_or_else(|| squares_of_line(&lx, &ly), |f| f.squares);
    let residuals: Vec<f64> = ly.iter().zip(&found.fitted).map(|(a, b)| a - b).collect();
    let mut turns: Vec<f64> = (0..RESAMPLES)
        .filter_map(|round| {
            let order = oplearn::data::split::shuffled(residuals.len(), round as u64);
            // A random order of 0..n, shifted against another, draws with repetition.
            let again: Vec<f64> = found
                .fitted
                .iter()
                .enumerate()
                .map(|(i, f)| {
                    f + residuals[(order[i] + order[(i + 1) % order.len()]) % residuals.len()]
                })
                .collect();
            best(&lx, &again).map(|f| f.at)
        })
        .collect();
    turns.sort_by(f64::total_cmp);
    let quantile = |level: f64| quantile_of_sorted(&turns, level).unwrap_or(found.at).exp2();
    Some(Turn {
        x: found.at.exp2(),
        low: quantile((1.0 - LEVEL) / 2.0),
        high: quantile(f64::midpoint(1.0, LEVEL)),
        slope_before: found.before,
        slope_after: found.after,
        residual_ratio: if line > 0.0 {
            found.squares / line
        } else {
            1.0
        },
    })
}

fn squares_of_line(x: &[f64], y: &[f64]) -> f64 {
    let count = x.len() as f64;
    let (mx, my) = (x.iter().sum::<f64>() / count, y.iter().sum::<f64>() / count);
    let sxx: f64 = x.iter().map(|v| (v - mx).powi(2)).sum();
    let sxy: f64 = x.iter().zip(y).map(|(v, w)| (v - mx) * (w - my)).sum();
    let slope = if sxx > 0.0 { sxy / sxx } else { 0.0 };
    x.iter()
        .zip(y)
        .map(|(v, w)| (w - my - slope * (v - mx)).powi(2))
        .sum()
}

/// The knee: the value furthest below the chord from first to best point, on logarithmic axes; none without a fall.
pub fn knee(x: &[f64], time: &[f64]) -> Option<f64> {
    let best = (0..time.len()).min_by(|&a, &b| time[a].total_cmp(&time[b]))?;
    let (x0, t0) = (x.first()?.max(1e-9).log2(), time.first()?.log2());
    let (x1, t1) = (x[best].max(1e-9).log2(), time[best].log2());
    if best < 2 || t1 >= t0 {
        return None;
    }
    let below = |i: usize| {
        let along = (x[i].max(1e-9).log2() - x0) / (x1 - x0);
        t0 + along * (t1 - t0) - time[i].log2()
    };
    (1..best)
        .max_by(|&a, &b| below(a).total_cmp(&below(b)))
        .filter(|&i| below(i) > 0.0)
        .map(|i| x[i])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn series(f: impl Fn(f64) -> f64) -> (Vec<f64>, Vec<f64>) {
        let x: Vec<f64> = (1..=32).map(f64::from).collect();
        let y = x.iter().map(|v| f(*v)).collect();
        (x, y)
    }

    #[test]
    fn a_turn_is_found_with_its_slopes() {
        let noise = |x: f64| 1.0 + 0.02 * (7.3 * x).sin();
        let (x, y) = series(|x| 100.0 / x.min(8.0) * noise(x));
        let turn = turn(&x, &y).unwrap();
        assert!((turn.x - 8.0).abs() < 0.6, "{turn:?}");
        assert!(
            turn.low <= turn.x && turn.x <= turn.high && turn.high - turn.low < 3.0,
            "{turn:?}"
        );
        assert!(
            (turn.slope_before + 1.0).abs() < 0.05 && turn.slope_after.abs() < 0.05,
            "{turn:?}"
        );
        assert!(turn.residual_ratio < 0.05);
    }

    #[test]
    fn a_straight_line_has_no_turn_worth_the_name() {
        let (x, y) = series(|x| 100.0 / x * (1.0 + 0.02 * (7.3 * x).sin()));
        let turn = turn(&x, &y).unwrap();
        assert!(turn.residual_ratio > 0.7, "{turn:?}");
        assert_eq!(super::turn(&x[..4], &y[..4]), None);
    }

    #[test]
    fn the_knee_lies_where_the_curve_bends_most() {
        let (x, y) = series(|x| 64.0 / x + 1.0 + 0.001 * x);
        let knee = knee(&x, &y).unwrap();
        assert!((3.0..=20.0).contains(&knee), "{knee}");
        assert_eq!(super::knee(&[1.0, 2.0, 3.0], &[1.0, 2.0, 3.0]), None);
    }
}
