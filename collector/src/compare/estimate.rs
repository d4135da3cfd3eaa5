//! From two medians with their intervals to a ratio with its interval.
//!
//! All is done on natural logarithms, where a ratio is a difference. The standard errors of a median m with the interval [l, h] of level
//! L are (ln m − ln l) / z below it and (ln h − ln m) / z above it. z is the two-sided normal quantile of L (Altman & Bland, "How to
//! obtain the P value from a confidence interval", BMJ 343, 2011). Where there is no interval, both are 1.2533·s / (√n·m), the
//! large-sample standard error of a median. The difference's are joined crosswise, which keeps the asymmetry (MOVER: Zou & Donner,
//! "Construction of confidence limits about effect measures", Statistics in Medicine 27, 2008).
//!
//! An interval from one run's samples does not cover what changes from run to run: placement of code and data, the machine's
//! state. That is often more (Kalibera & Jones, "Rigorous benchmarking in reasonable time", ISMM 2013). That part is estimated
//! from the comparison itself: see [`noise_between_runs`]. Disturbances of single points on a busy machine are no such noise;
//! the verdict considers them (see [`super::Change`]).

use opdata::stats::{median, two_sided_quantile, two_sided_tail};
use serde::Serialize;

/// Level of the intervals of ratios.
pub const CONFIDENCE: f64 = 0.95;

/// Minimum noise between runs, as a standard deviation of ln(B / A): no two runs of one kernel agree better.
const NOISE_FLOOR: f64 = 0.01;
/// Maximum noise: larger differences are taken for real. Otherwise a change of every operator by another factor would
/// pass for noise.
const NOISE_CEILING: f64 = 0.05;
/// The noise assumed if there are too few operators for an estimate.
const NOISE_UNKNOWN: f64 = 0.03;
/// Minimum number of operators to estimate the noise from.
const MIN_FOR_NOISE: usize = 6;

/// A row's median and its interval.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Timing {
    /// Median, in ns; more than 0.
    pub median_ns: f64,
    /// Confidence interval of the median in ns, and its level.
    pub interval: Option<(f64, f64, f64)>,
    /// Standard deviation of the samples, in ns.
    pub std_ns: Option<f64>,
    /// Number of samples.
    pub samples: Option<u64>,
    /// Shortest sample, in ns.
    pub min_ns: Option<f64>,
    /// Time of the reference kernel around the point over its best; 1 where it is not known.
    pub drift: f64,
    /// Whether other processes took much of the CPU time meanwhile.
    pub busy: bool,
}

/// Standard errors of a logarithm.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Spread {
    /// Standard error downwards.
    pub below: f64,
    /// Standard error upwards.
    pub above: f64,
}

impl Spread {
    /// Variance, the mean of both directions.
    pub fn variance(&self) -> f64 {
        (self.below.powi(2) + self.above.powi(2)) / 2.0
    }
}

impl Timing {
    /// Standard errors of ln(median), if the samples have them.
    fn spread(&self) -> Option<Spread> {
        self.interval_spread().or_else(|| self.sample_spread())
    }

    fn interval_spread(&self) -> Option<Spread> {
        let (low, high, level) = self.interval?;
        // One or two samples have a range but hardly an interval.
        if !(0.5..1.0).contains(&level) || low <= 0.0 {
            return None;
        }
        let z = two_sided_quantile(level, None);
        Some(Spread {
            below: (self.median_ns / low).ln() / z,
            above: (high / self.median_ns).ln() / z,
        })
    }

    fn sample_spread(&self) -> Option<Spread> {
        let samples = self.samples.filter(|n| *n >= 2)?;
        // √(π/2): Kendall & Stuart, The Advanced Theory of Statistics, vol. 1, §14.
        let factor = std::f64::consts::FRAC_PI_2.sqrt();
        let error = factor * self.std_ns? / (samples as f64).sqrt() / self.median_ns;
        Some(Spread {
            below: error,
            above: error,
        })
    }
}

/// ln(B / A) with its standard errors.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct LogRatio {
    /// ln(B / A).
    pub log: f64,
    /// Its standard errors, where both sides have them.
    pub spread: Option<Spread>,
    /// Degrees of freedom of those errors, where a part of them was estimated from few operators.
    pub freedom: Option<f64>,
}

impl LogRatio {
    /// The logarithm of the ratio of two medians.
    pub fn between(a: &Timing, b: &Timing) -> LogRatio {
        let spread = a.spread().zip(b.spread()).map(|(a, b)| Spread {
            below: b.below.hypot(a.above),
            above: b.above.hypot(a.below),
        });
        LogRatio {
            log: (b.median_ns / a.median_ns).ln(),
            spread,
            freedom: None,
        }
    }

    /// The ratio with the noise between runs added to its standard errors.
    pub fn with_noise(self, noise: Noise) -> LogRatio {
        let spread = self.spread.map(|s| Spread {
            below: s.below.hypot(noise.log_std),
            above: s.above.hypot(noise.log_std),
        });
        LogRatio {
            spread,
            freedom: noise.freedom,
            ..self
        }
    }

    /// The ratio and its interval.
    pub fn estimate(&self) -> Estimate {
        let z = two_sided_quantile(CONFIDENCE, self.freedom);
        Estimate {
            value: self.log.exp(),
            low: self.spread.map(|s| (self.log - z * s.below).exp()),
            high: self.spread.map(|s| (self.log + z * s.above).exp()),
        }
    }

    /// Two-sided probability of a ratio at least as far from 1 if nothing has changed: the interval of level 1 − p just
    /// touches 1.
    pub fn p_value(&self) -> Option<f64> {
        let spread = self.spread?;
        let error = if self.log > 0.0 {
            spread.below
        } else {
            spread.above
        };
        let t = self.log / error.max(f64::MIN_POSITIVE);
        Some(two_sided_tail(t, self.freedom))
    }
}

/// The mean of independent log ratios, which is the geometric mean of the ratios; `None` for none. Its spread is known
/// if every ratio's is. The degrees of freedom are those of the last, because one comparison has one noise.
pub(super) fn mean(ratios: impl Iterator<Item = LogRatio>) -> Option<LogRatio> {
    let (mut log, mut count) = (0.0, 0.0);
    let mut squares = Some((0.0, 0.0));
    let mut freedom = None;
    for ratio in ratios {
        log += ratio.log;
        count += 1.0;
        freedom = ratio.freedom;
        squares = squares
            .zip(ratio.spread)
            .map(|((below, above), s)| (below + s.below.powi(2), above + s.above.powi(2)));
    }
    (count > 0.0).then(|| LogRatio {
        log: log / count,
        freedom,
        spread: squares.map(|(below, above)| Spread {
            below: below.sqrt() / count,
            above: above.sqrt() / count,
        }),
    })
}

/// A ratio and its interval of level [`CONFIDENCE`].
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Estimate {
    /// B / A.
    pub value: f64,
    /// Lower end; `None` where the spread is not known.
    pub low: Option<f64>,
    /// Upper end.
    pub high: Option<f64>,
}

/// How the same point varies from run to run, beyond the spread of its samples.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Noise {
    /// Standard deviation of ln(B / A); for small values that of the ratio.
    pub log_std: f64,
    /// Degrees of freedom of that estimate.
    #[serde(skip)]
    pub freedom: Option<f64>,
    /// Source of the number.
    pub source: NoiseSource,
}

/// Source of the noise's number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum NoiseSource {
    /// Estimated from the operators of this comparison.
    Estimated,
    /// Too few operators: a usual value.
    Assumed,
}

/// The noise between runs, from each operator's log ratio and the variance that its samples explain: what remains of the scale
/// of the log ratios.
pub(super) fn noise_between_runs(operators: impl Iterator<Item = (f64, f64)>) -> Noise {
    let (mut logs, variances): (Vec<f64>, Vec<f64>) = operators.unzip();
    if logs.len() < MIN_FOR_NOISE {
        return Noise {
            log_std: NOISE_UNKNOWN,
            freedom: None,
            source: NoiseSource::Assumed,
        };
    }
    logs.sort_by(f64::total_cmp);
    let unexplained = scale_of_sorted(&logs).powi(2) - median(variances).unwrap_or(0.0);
    Noise {
        log_std: unexplained
            .max(0.0)
            .sqrt()
            .clamp(NOISE_FLOOR, NOISE_CEILING),
        freedom: Some((logs.len() - 1) as f64),
        source: NoiseSource::Estimated,
    }
}

/// Standard deviation of the numbers that belong together, if half of them do, wherever the others lie. The shortest
/// interval that holds half of them gives a first centre and scale. The numbers within 2.5 of those scales give the
/// final one (least median of squares and its reweighting: Rousseeuw & Leroy, *Robust Regression and Outlier
/// Detection*, 1987, ch. 4 and 5).
fn scale_of_sorted(sorted: &[f64]) -> f64 {
    let half = sorted.len().div_ceil(2);
    let mut shortest = (f64::INFINITY, 0.0);
    for window in sorted.windows(half) {
        let (low, high) = (window[0], window[half - 1]);
        if high - low < shortest.0 {
            shortest = (high - low, low + (high - low) / 2.0);
        }
    }
    let (length, centre) = shortest;
    // Half of a normal distribution lies within 1 / 1.4826 of its standard deviation. The second factor corrects for
    // small samples.
    let first = 1.4826 * (1.0 + 5.0 / (sorted.len() - 1) as f64) * length / 2.0;
    let kept = || sorted.iter().filter(|x| (*x - centre).abs() <= 2.5 * first);
    let count = kept().count() as f64;
    let mean = kept().sum::<f64>() / count;
    let squares: f64 = kept().map(|x| (x - mean).powi(2)).sum();
    // A normal distribution cut off at 2.5 has 0.9546 of its standard deviation.
    (squares / (count - 1.0)).sqrt() / 0.9546
}

#[cfg(test)]
mod tests {
    use super::*;

    fn timing(median_ns: f64, half_width: f64) -> Timing {
        Timing {
            median_ns,
            interval: Some((
                median_ns * (-half_width).exp(),
                median_ns * half_width.exp(),
                CONFIDENCE,
            )),
            std_ns: None,
            samples: Some(10),
            min_ns: None,
            drift: 1.0,
            busy: false,
        }
    }

    #[test]
    fn intervals_of_equal_width_join_by_the_root_of_two() {
        let ratio = LogRatio::between(&timing(100.0, 0.03), &timing(110.0, 0.03));
        let estimate = ratio.estimate();
        assert!((estimate.value - 1.1).abs() < 1e-12);
        let half = 0.03 * 2.0f64.sqrt();
        assert!((estimate.low.unwrap() - 1.1 * (-half).exp()).abs() < 1e-9);
        assert!((estimate.high.unwrap() - 1.1 * half.exp()).abs() < 1e-9);
        // ln 1.1 is 2.246 half widths from 0, each 1.96 standard errors: 4.40 of them.
        assert!((ratio.p_value().unwrap() - 1.07e-5).abs() < 2e-7);
    }

    #[test]
    fn the_side_towards_one_decides() {
        // A's upper and B's lower end are far away, so a slower B may be none; a faster one is sure.
        let wide = |low: f64, high: f64| Timing {
            interval: Some((low, high, CONFIDENCE)),
            ..timing(100.0, 0.0)
        };
        let (a, b) = (wide(99.9, 150.0), wide(70.0, 100.1));
        let slower = Timing {
            median_ns: 115.0,
            interval: Some((80.5, 115.1, CONFIDENCE)),
            ..b
        };
        let faster = Timing {
            median_ns: 85.0,
            interval: Some((59.5, 85.1, CONFIDENCE)),
            ..b
        };
        assert!(LogRatio::between(&a, &slower).p_value().unwrap() > 0.3);
        assert!(LogRatio::between(&a, &faster).p_value().unwrap() < 1e-6);
    }

    #[test]
    fn without_an_interval_the_deviation_serves_and_without_both_nothing_is_sure() {
        let by_std = Timing {
            interval: None,
            std_ns: Some(10.0),
            samples: Some(100),
            ..timing(100.0, 0.0)
        };
        let spread = by_std.spread().unwrap();
        assert!((spread.below - 0.012_533).abs() < 1e-6, "{spread:?}");
        let single = Timing {
            interval: Some((100.0, 100.0, 0.0)),
            samples: Some(1),
            ..timing(100.0, 0.0)
        };
        let ratio = LogRatio::between(&single, &by_std);
        assert_eq!((ratio.p_value(), ratio.estimate().low), (None, None));
    }

    #[test]
    fn noise_is_that_of_the_half_that_agrees() {
        let noise = |logs: &[f64]| noise_between_runs(logs.iter().map(|l| (*l, 0.0))).log_std;
        let calm: Vec<f64> = (0..40).map(|i| 0.002 * f64::from(i - 20) / 20.0).collect();
        assert_eq!(noise(&calm), NOISE_FLOOR);
        // Half of the operators slower by a third does not make the noise larger.
        let half: Vec<f64> = calm
            .iter()
            .enumerate()
            .map(|(i, l)| l + if i % 2 == 0 { 0.3 } else { 0.0 })
            .collect();
        assert_eq!(noise(&half), NOISE_FLOOR);
        // Every operator changes by another factor: what is above the ceiling counts as a real change.
        let spread: Vec<f64> = (0..40).map(|i| 0.05 * f64::from(i)).collect();
        assert_eq!(noise(&spread), NOISE_CEILING);
        assert_eq!(noise(&[0.0; 5]), NOISE_UNKNOWN);
        // The part that the samples explain is not counted twice.
        let wide: Vec<f64> = (0..40).map(|i| 0.03 * f64::from(i - 20) / 20.0).collect();
        let explained = noise_between_runs(wide.iter().map(|l| (*l, 0.0004)));
        assert!(explained.log_std < noise(&wide));
    }
}
