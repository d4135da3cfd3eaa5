//! Results as text, one file for each kind of result. Tables are those of `opreport`.
//!
//! | module | shows |
//! | --- | --- |
//! | [`compare`] | a model against measured rows |
//! | [`correlations`] | factors of each kind of operator |
//! | [`eval`] | errors on held-out samples |
//! | [`place`] | placements of operators on devices |
//! | [`query`] | answers about operators and whole models, with their reasons |
//! | [`suggest`] | what to measure next |
//! | [`train`] | a trained model, its features, and what adapting it brought |
//! | [`turning`] | turning points over one factor |

pub mod compare;
pub mod correlations;
pub mod eval;
pub mod interference;
pub mod place;
pub mod query;
pub mod schedule;
pub mod suggest;
pub mod train;
pub mod turning;

use oplearn::crossval::conformal::Conformal;
use opreport::table::Cell;
use opreport::units::{plural, time_rounded};

use crate::model::trained::Facts;

/// A number with this many digits after the point; what rounds to 0 has no sign.
fn decimal(value: f64, digits: usize) -> String {
    let text = format!("{value:.digits$}");
    let is_zero = text.bytes().all(|byte| matches!(byte, b'-' | b'0' | b'.'));
    match text.strip_prefix('-') {
        Some(rest) if is_zero => rest.to_owned(),
        _ => text,
    }
}

/// The same, or `-`.
fn optional(value: Option<f64>, digits: usize) -> String {
    value.map_or_else(|| "-".to_owned(), |v| decimal(v, digits))
}

/// An interval of times (ns), or a dash if there is none.
fn interval(low: Option<f64>, high: Option<f64>) -> String {
    match (low, high) {
        (Some(low), Some(high)) => format!("{} … {}", time_rounded(low), time_rounded(high)),
        _ => "not calibrated".to_owned(),
    }
}

/// A cell of a number with this many digits after the point.
fn number(value: f64, digits: usize) -> Cell {
    decimal(value, digits).into()
}

/// The message that intervals of a level (percent) need more workloads.
fn too_few(workloads: usize, level: f64, needed: usize) -> String {
    format!(
        "{} are too few for intervals of {} %, which need {needed}: they may hold less",
        plural(workloads as u64, "workload"),
        figure(level)
    )
}

/// A number with two decimals at most, and a prefix where it is long: `0.83`, `3136`, `99.9`, `1.048 M`.
fn figure(value: f64) -> String {
    if value.abs() >= 1e5 {
        return opreport::units::count(value);
    }
    let text = format!("{value:.2}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// A share of rows, in words.
pub fn disturbed(share: f64) -> String {
    format!(
        "{:.1} % of the rows were measured while something else ran (grade D, or a reference kernel a tenth slower)",
        100.0 * share
    )
}

/// Reasons to trust a model's measurements and its intervals of a level (0 to 1) less, one line each.
fn reservations(facts: &Facts, level: f64) -> String {
    let mut text = String::new();
    let needed = Conformal::groups_needed(level);
    let calibrated = facts.unseen.conformal.as_ref().map(Conformal::groups);
    if let Some(groups) = calibrated.filter(|groups| *groups < needed) {
        text += &too_few(groups, 100.0 * level, needed);
        text.push('\n');
    }
    if let Some(share) = facts.disturbed.filter(|share| *share > 0.0) {
        text += &disturbed(share);
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests;
