//! The night's ratios with their intervals as a picture: one line an operator.

use opreport::svg::{RatioLine, forest};

use crate::compare::{Change, Comparison, Verdict};
use crate::render::compare::{estimate, operator, word};

/// Operators in the picture: the worst come first, so these are the ones that matter.
const SHOWN: usize = 40;

/// The picture as an SVG element; nothing if there is nothing to show.
pub(super) fn ratios(comparison: &Comparison) -> String {
    let shown = comparison.changes.iter().take(SHOWN);
    forest(
        "Tonight's times over those before, by operator",
        &shown.map(line).collect::<Vec<_>>(),
        comparison.threshold,
    )
}

fn line(change: &Change) -> RatioLine {
    let threads = change
        .threads
        .map_or_else(String::new, |t| format!(" ×{t}"));
    RatioLine {
        label: format!("{}{threads}, {}", operator(change), change.model),
        verdict: word(change.verdict),
        colour: match change.verdict {
            Verdict::Regression => "var(--bad)",
            Verdict::Improvement => "var(--good)",
            _ => "var(--dim)",
        },
        ratio: change.ratio.value,
        interval: (change.ratio.low, change.ratio.high),
        value: estimate(&change.ratio),
    }
}
