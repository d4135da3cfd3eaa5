//! Forest plot of ratios with their intervals: one line for each operator, logarithmic around 1, the threshold as a band.

use super::html::escape;
use crate::compare::{Change, Comparison, Verdict};
use crate::render::compare::{estimate, operator, word};

/// Operators in the picture: the worst come first, so these are the ones that matter.
const SHOWN: usize = 40;
const LABEL_PX: f64 = 330.0;
const PLOT_PX: f64 = 520.0;
const VALUE_PX: f64 = 170.0;
const ROW_PX: f64 = 18.0;
/// The picture reaches from 1 / this to this at least, and to `WIDEST` at most.
const NARROWEST: f64 = 1.2;
const WIDEST: f64 = 4.0;

/// The picture as an SVG element; nothing if there is nothing to show.
pub(super) fn forest(comparison: &Comparison) -> String {
    let shown = &comparison.changes[..comparison.changes.len().min(SHOWN)];
    if shown.is_empty() {
        return String::new();
    }
    let reach = shown
        .iter()
        .flat_map(|c| [Some(c.ratio.value), c.ratio.low, c.ratio.high])
        .flatten()
        .map(|ratio| ratio.ln().abs())
        .fold(NARROWEST.ln(), f64::max)
        .min(WIDEST.ln());
    // The position of a ratio; what is beyond the picture lies on its edge.
    let x = |ratio: f64| {
        let share = ratio.ln().clamp(-reach, reach) / reach;
        LABEL_PX + PLOT_PX * (share + 1.0) / 2.0
    };
    let bottom = ROW_PX * (shown.len() as f64 + 1.0);
    let (low, high) = (
        x(1.0 / (1.0 + comparison.threshold)),
        x(1.0 + comparison.threshold),
    );
    let mut out = format!(
        "<svg viewBox=\"0 0 {} {}\" width=\"{}\" role=\"img\" aria-label=\"Tonight's times over those before, by operator\">\n\
         <rect x=\"{low:.1}\" y=\"0\" width=\"{:.1}\" height=\"{bottom:.1}\" fill=\"#8882\"/>\n\
         <line x1=\"{one:.1}\" x2=\"{one:.1}\" y1=\"0\" y2=\"{bottom:.1}\" stroke=\"currentColor\" stroke-width=\"1\"/>\n",
        LABEL_PX + PLOT_PX + VALUE_PX,
        bottom + ROW_PX,
        LABEL_PX + PLOT_PX + VALUE_PX,
        high - low,
        one = x(1.0)
    );
    for (place, change) in shown.iter().enumerate() {
        out.push_str(&line(change, ROW_PX * (place as f64 + 1.0), &x));
    }
    for ratio in [(-reach).exp(), 1.0, reach.exp()] {
        out.push_str(&format!(
            "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{ratio:.2}</text>\n",
            x(ratio),
            bottom + 12.0
        ));
    }
    out.push_str("</svg>\n");
    out
}

fn line(change: &Change, y: f64, x: &dyn Fn(f64) -> f64) -> String {
    let colour = match change.verdict {
        Verdict::Regression => "var(--bad)",
        Verdict::Improvement => "var(--good)",
        _ => "var(--dim)",
    };
    let threads = change
        .threads
        .map_or_else(String::new, |t| format!(" ×{t}"));
    let label = format!("{}{threads}, {}", operator(change), change.model);
    let mut out = format!(
        "<g><title>{}: {}</title><text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
        escape(&label),
        word(change.verdict),
        LABEL_PX - 10.0,
        y + 4.0,
        escape(&short(&label))
    );
    if let (Some(low), Some(high)) = (change.ratio.low, change.ratio.high) {
        out.push_str(&format!(
            "<line x1=\"{:.1}\" x2=\"{:.1}\" y1=\"{y:.1}\" y2=\"{y:.1}\" stroke=\"{colour}\" stroke-width=\"2\"/>",
            x(low),
            x(high)
        ));
    }
    out.push_str(&format!(
        "<circle cx=\"{:.1}\" cy=\"{y:.1}\" r=\"4\" fill=\"{colour}\"/><text x=\"{:.1}\" y=\"{:.1}\">{}</text></g>\n",
        x(change.ratio.value),
        LABEL_PX + PLOT_PX + 10.0,
        y + 4.0,
        escape(&estimate(&change.ratio))
    ));
    out
}

/// A label that fits beside the picture.
fn short(label: &str) -> String {
    const MOST: usize = 48;
    if label.chars().count() <= MOST {
        return label.to_owned();
    }
    let head: String = label.chars().take(MOST - 1).collect();
    format!("{head}…")
}
