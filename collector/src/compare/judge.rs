//! From pairs of points to changes with a verdict.
//!
//! The points of one operator are judged together, and all operators at once. How significant one ratio is depends on
//! the number of comparisons and on the noise of the others.

use std::collections::HashMap;

use opdata::Status;

use super::estimate::{LogRatio, Noise, Timing, mean};
use super::point::Point;
use super::source::Side;
use super::{Change, FAMILY_ERROR, FailedPoint, PointChange, Subject, Verdict, holm};

/// Share of an operator's points beyond which a busy machine leaves a change unclear.
const MOST: f64 = 0.5;

/// A change without its verdict, which depends on all other changes.
pub(super) struct Draft<'a> {
    pub subject: Subject,
    /// A point of the second side, which names the operator.
    about: &'a Point,
    pub ratio: LogRatio,
    points: Vec<(&'a Point, &'a Point)>,
}

/// The measured pairs by operator × threads × cache state, in the order of the second side's rows; and the others.
pub(super) fn drafts<'a>(
    a: &'a Side,
    b: &'a Side,
    pairs: &[(usize, usize)],
) -> (Vec<Draft<'a>>, Vec<FailedPoint>) {
    let mut groups: Vec<Vec<(&Point, &Point)>> = Vec::new();
    let mut places: HashMap<String, usize> = HashMap::new();
    let mut failed = Vec::new();
    for &(in_a, in_b) in pairs {
        let (a, b) = (&a.points[in_a], &b.points[in_b]);
        if a.median().is_some() && b.median().is_some() {
            let place = *places.entry(b.group_key()).or_insert_with(|| {
                groups.push(Vec::new());
                groups.len() - 1
            });
            groups[place].push((a, b));
        } else if is_failure(a.status) || is_failure(b.status) {
            failed.push(FailedPoint {
                model: b.model.clone(),
                operator: b.symbol.clone(),
                threads: b.threads,
                cache_state: b.cache,
                a: a.ending(),
                b: b.ending(),
            });
        }
    }
    failed.sort_by_key(|point| !point.is_new());
    let drafts = groups
        .into_iter()
        .filter_map(|points| {
            let about = points.first()?.1;
            let ratios: Vec<LogRatio> = points
                .iter()
                .filter_map(|(a, b)| Some(LogRatio::between(&a.median()?, &b.median()?)))
                .collect();
            // A point without a spread must not hide the spread of the others.
            let known = ratios.iter().filter(|r| r.spread.is_some()).copied();
            let ratio = mean(known).or_else(|| mean(ratios.iter().copied()))?;
            Some(Draft {
                subject: about.subject,
                about,
                ratio,
                points,
            })
        })
        .collect();
    (drafts, failed)
}

/// Whether a point was tried or skipped, and has neither a time nor a kernel of a compile-only run.
fn is_failure(status: Status) -> bool {
    !status.has_time() && status != Status::Compiled
}

/// Gives every draft its verdict; the worst change comes first.
pub(super) fn judged(drafts: Vec<Draft<'_>>, noise: Noise, threshold: f64) -> Vec<Change> {
    let ratios: Vec<LogRatio> = drafts.iter().map(|d| d.ratio.with_noise(noise)).collect();
    let p_values: Vec<Option<f64>> = ratios.iter().map(LogRatio::p_value).collect();
    let adjusted = holm::adjusted(&p_values);
    let mut changes: Vec<Change> = drafts
        .iter()
        .zip(&ratios)
        .zip(adjusted)
        .filter_map(|((draft, ratio), p)| change(draft, ratio, p, threshold))
        .collect();
    // Verdicts in the order of their urgency, the largest change first; a stable sort keeps equal ones in the rows' order.
    changes.sort_by(|a, b| {
        let size = |c: &Change| match c.verdict {
            Verdict::Regression | Verdict::Unclear => c.ratio.value,
            _ => -c.ratio.value,
        };
        a.verdict.cmp(&b.verdict).then(size(b).total_cmp(&size(a)))
    });
    changes
}

fn change(draft: &Draft<'_>, ratio: &LogRatio, p: Option<f64>, threshold: f64) -> Option<Change> {
    let about = draft.about;
    let timings: Vec<(Timing, Timing)> = draft
        .points
        .iter()
        .filter_map(|(a, b)| Some((a.median()?, b.median()?)))
        .collect();
    let of_a = |of: fn(&Timing) -> f64| timings.iter().map(move |(a, _)| of(a));
    let of_b = |of: fn(&Timing) -> f64| timings.iter().map(move |(_, b)| of(b));
    let slowest = draft
        .points
        .iter()
        .zip(&timings)
        .map(|((a, b), (timing_a, timing_b))| PointChange {
            ratio: timing_b.median_ns / timing_a.median_ns,
            row_a: a.row_id.clone(),
            row_b: b.row_id.clone(),
        })
        .max_by(|a, b| a.ratio.total_cmp(&b.ratio))?;
    let mut change = Change {
        subject: draft.subject,
        model: about.model.clone(),
        operator: about.symbol.clone(),
        kind: about.kind.clone(),
        shapes: about.shapes.clone(),
        target: about.target_label(),
        threads: about.threads,
        cache_state: about.cache,
        points: draft.points.len() as u64,
        a_ns: geometric_mean(of_a(|t| t.median_ns))?,
        b_ns: geometric_mean(of_b(|t| t.median_ns))?,
        best_a_ns: of_a(|t| t.median_ns).fold(f64::INFINITY, f64::min),
        best_b_ns: of_b(|t| t.median_ns).fold(f64::INFINITY, f64::min),
        ratio: ratio.estimate(),
        min_ratio: geometric_mean(
            timings
                .iter()
                .filter_map(|(a, b)| Some(b.min_ns? / a.min_ns?)),
        ),
        drift_a: geometric_mean(of_a(|t| t.drift))?,
        drift_b: geometric_mean(of_b(|t| t.drift))?,
        busy_a: of_a(|t| f64::from(t.busy)).sum::<f64>() / timings.len() as f64,
        busy_b: of_b(|t| f64::from(t.busy)).sum::<f64>() / timings.len() as f64,
        p_adjusted: p,
        verdict: Verdict::Unknown,
        slowest,
    };
    change.verdict = verdict(&change, threshold);
    Some(change)
}

/// The verdict on the numbers of a change.
fn verdict(change: &Change, threshold: f64) -> Verdict {
    let Some(p) = change.p_adjusted else {
        return Verdict::Unknown;
    };
    let (ratio, bound) = (change.ratio.value, 1.0 + threshold);
    let sure = |ratio: f64, min_ratio: Option<f64>, drift: f64, busy: f64| {
        p < FAMILY_ERROR
            && ratio > bound * drift
            && min_ratio.is_none_or(|min| min > bound)
            && busy <= MOST
    };
    if sure(ratio, change.min_ratio, change.drift_b, change.busy_b) {
        Verdict::Regression
    } else if sure(
        ratio.recip(),
        change.min_ratio.map(f64::recip),
        change.drift_a,
        change.busy_a,
    ) {
        Verdict::Improvement
    } else if ratio > bound || ratio.recip() > bound {
        Verdict::Unclear
    } else {
        Verdict::Unchanged
    }
}

/// The geometric mean of numbers above 0; `None` of none.
fn geometric_mean(values: impl Iterator<Item = f64>) -> Option<f64> {
    let (sum, count) = values.fold((0.0, 0u64), |(sum, n), value| (sum + value.ln(), n + 1));
    (count > 0).then(|| (sum / count as f64).exp())
}
