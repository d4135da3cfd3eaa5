//! The night's ratios with their intervals as a picture: one line an operator.

use opreport::svg::{RatioLine, forest};

use crate::compare::{Change, Comparison};
use crate::render::compare::{operator, ratio_line};

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
    let label = format!("{}{threads}, {}", operator(change), change.model);
    ratio_line(change, label)
}
