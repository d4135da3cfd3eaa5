//! The median of ratios that were measured in turn.

use opengine::stats::median_interval_ranks;

/// The median of some ratios with its distribution-free 95 % interval (the whole range, at a lower level, where there are fewer
/// than six).
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Ratio {
    /// The median.
    pub median: f64,
    /// Lower end of the interval.
    pub low: f64,
    /// Upper end.
    pub high: f64,
    /// Confidence of the interval, 0 to 1.
    pub level: f64,
}

impl Ratio {
    /// The summary of one ratio a round; `None` if there is no ratio.
    pub fn of(ratios: &[f64]) -> Option<Ratio> {
        let mut sorted = ratios.to_vec();
        sorted.sort_by(f64::total_cmp);
        let median = opdata::stats::median_of_sorted(&sorted)?;
        let (low, high, level) = median_interval_ranks(sorted.len());
        Some(Ratio {
            median,
            low: sorted[low - 1],
            high: sorted[high - 1],
            level,
        })
    }
}
