//! Forest plots: one ratio with its interval a line, on a logarithmic axis around 1. A threshold is drawn as a band. The
//! page sets colours and the text's size.

use crate::html::escape;

/// Characters of a label that fit beside the picture.
const LABEL_CHARS: usize = 48;
const LABEL_PX: f64 = 330.0;
const PLOT_PX: f64 = 520.0;
const VALUE_PX: f64 = 170.0;
const ROW_PX: f64 = 18.0;
/// The picture reaches from 1 / this to this at least, and to `WIDEST` at most.
const NARROWEST: f64 = 1.2;
const WIDEST: f64 = 4.0;

/// One ratio.
#[derive(Debug, Clone, PartialEq)]
pub struct Line {
    /// Its subject.
    pub label: String,
    /// Its verdict, in a word.
    pub verdict: &'static str,
    /// Colour, as CSS has it.
    pub colour: &'static str,
    /// The ratio.
    pub ratio: f64,
    /// Ends of its interval, where it has both.
    pub interval: (Option<f64>, Option<f64>),
    /// The ratio as text.
    pub value: String,
}

/// The range of ratios: 1 / e^reach to e^reach.
struct Extent {
    reach: f64,
}

impl Extent {
    fn of(lines: &[Line]) -> Self {
        let reach = lines
            .iter()
            .flat_map(|line| [Some(line.ratio), line.interval.0, line.interval.1])
            .flatten()
            .map(|ratio| ratio.ln().abs())
            .fold(NARROWEST.ln(), f64::max)
            .min(WIDEST.ln());
        Self { reach }
    }

    /// The position of a ratio, pixels; what is beyond the picture lies on its edge.
    fn x(&self, ratio: f64) -> f64 {
        let share = ratio.ln().clamp(-self.reach, self.reach) / self.reach;
        LABEL_PX + PLOT_PX * (share + 1.0) / 2.0
    }
}

/// The picture as an SVG element, with a description for those who do not see it; nothing without lines. The band is from
/// 1 / (1 + threshold) to 1 + threshold.
pub fn forest(description: &str, lines: &[Line], threshold: f64) -> String {
    if lines.is_empty() {
        return String::new();
    }
    let extent = Extent::of(lines);
    let bottom = ROW_PX * (lines.len() as f64 + 1.0);
    let (low, high) = (extent.x(1.0 / (1.0 + threshold)), extent.x(1.0 + threshold));
    let width = LABEL_PX + PLOT_PX + VALUE_PX;
    let mut out = format!(
        "<svg viewBox=\"0 0 {width} {}\" width=\"{width}\" role=\"img\" aria-label=\"{}\">\n\
         <rect x=\"{low:.1}\" y=\"0\" width=\"{:.1}\" height=\"{bottom:.1}\" fill=\"#8882\"/>\n\
         <line x1=\"{one:.1}\" x2=\"{one:.1}\" y1=\"0\" y2=\"{bottom:.1}\" stroke=\"currentColor\" stroke-width=\"1\"/>\n",
        bottom + ROW_PX,
        escape(description),
        high - low,
        one = extent.x(1.0)
    );
    for (place, line) in lines.iter().enumerate() {
        out.push_str(&drawn(line, ROW_PX * (place as f64 + 1.0), &extent));
    }
    for ratio in [(-extent.reach).exp(), 1.0, extent.reach.exp()] {
        out.push_str(&format!(
            "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{ratio:.2}</text>\n",
            extent.x(ratio),
            bottom + 12.0
        ));
    }
    out.push_str("</svg>\n");
    out
}

fn drawn(line: &Line, y: f64, extent: &Extent) -> String {
    let colour = line.colour;
    let mut out = format!(
        "<g><title>{}: {}</title><text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
        escape(&line.label),
        line.verdict,
        LABEL_PX - 10.0,
        y + 4.0,
        escape(&short(&line.label))
    );
    if let (Some(low), Some(high)) = line.interval {
        out.push_str(&format!(
            "<line x1=\"{:.1}\" x2=\"{:.1}\" y1=\"{y:.1}\" y2=\"{y:.1}\" stroke=\"{colour}\" stroke-width=\"2\"/>",
            extent.x(low),
            extent.x(high)
        ));
    }
    out.push_str(&format!(
        "<circle cx=\"{:.1}\" cy=\"{y:.1}\" r=\"4\" fill=\"{colour}\"/><text x=\"{:.1}\" y=\"{:.1}\">{}</text></g>\n",
        extent.x(line.ratio),
        LABEL_PX + PLOT_PX + 10.0,
        y + 4.0,
        escape(&line.value)
    ));
    out
}

/// A label that fits beside the picture.
fn short(label: &str) -> String {
    if label.chars().count() <= LABEL_CHARS {
        return label.to_owned();
    }
    let head: String = label.chars().take(LABEL_CHARS - 1).collect();
    format!("{head}…")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(label: &str, ratio: f64) -> Line {
        Line {
            label: label.to_owned(),
            verdict: "slower",
            colour: "red",
            ratio,
            interval: (Some(ratio / 1.1), Some(ratio * 1.1)),
            value: format!("{ratio:.2}"),
        }
    }

    #[test]
    fn ratios_have_lines_with_intervals_and_long_labels_are_cut() {
        let svg = forest(
            "a \"b\"",
            &[line("x < y", 1.5), line(&"z".repeat(60), 9.0)],
            0.05,
        );
        assert_eq!(svg.matches("<circle").count(), 2);
        assert_eq!(svg.matches("stroke=\"red\"").count(), 2);
        assert!(svg.contains("x &lt; y: slower") && svg.contains("aria-label=\"a &quot;b&quot;\""));
        assert!(svg.contains(&("z".repeat(47) + "…")));
        // Points beyond the picture are drawn on its edge.
        assert!(svg.contains(&format!("cx=\"{:.1}\"", LABEL_PX + PLOT_PX)));
        assert_eq!(forest("", &[], 0.05), "");
    }
}
