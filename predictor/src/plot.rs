//! Plots as SVG: points and lines on logarithmic axes, for reports and browsers. No styles from outside are needed.

pub mod heat;

use std::fmt::Write;

/// Width and height of a plot, pixels.
const SIZE: (f64, f64) = (640.0, 480.0);
/// Room for labels, pixels.
const MARGIN: f64 = 56.0;
/// Colours of series, told apart by colour-blind readers, too (Okabe and Ito).
const COLOURS: [&str; 6] = [
    "#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9",
];
/// More points than this only make the file large.
const MOST_POINTS: usize = 5000;

/// How a series is drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mark {
    /// A dot for each point.
    Dots,
    /// A line through the points, in their order.
    Line,
}

/// Points of one colour.
#[derive(Debug, Clone, PartialEq)]
pub struct Series {
    /// Name in the legend.
    pub name: String,
    /// How it is drawn.
    pub mark: Mark,
    /// Points.
    pub points: Vec<(f64, f64)>,
}

/// Whether an axis is logarithmic.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scale {
    /// Equal ratios are equally far apart.
    Log,
    /// Equal differences are.
    Linear,
}

/// One axis.
#[derive(Debug, Clone, PartialEq)]
pub struct Axis {
    /// Label with its unit.
    pub label: String,
    /// Scale.
    pub scale: Scale,
}

struct Range {
    low: f64,
    high: f64,
    scale: Scale,
}

impl Range {
    fn of(values: impl Iterator<Item = f64>, scale: Scale) -> Self {
        let (mut low, mut high) = (f64::INFINITY, f64::NEG_INFINITY);
        for value in values.filter_map(|v| place(v, scale)) {
            low = low.min(value);
            high = high.max(value);
        }
        if low > high {
            (low, high) = (0.0, 1.0);
        }
        let room = ((high - low) * 0.04).max(1e-9);
        Self {
            low: low - room,
            high: high + room,
            scale,
        }
    }

    /// Where a value is, 0 to 1.
    fn share(&self, value: f64) -> Option<f64> {
        Some((place(value, self.scale)? - self.low) / (self.high - self.low))
    }

    fn ticks(&self) -> Vec<f64> {
        let span = self.high - self.low;
        let step = match self.scale {
            Scale::Log => (span / 6.0).ceil().max(1.0),
            Scale::Linear => {
                let rough = span / 5.0;
                let unit = 10f64.powf(rough.log10().floor());
                [1.0, 2.0, 5.0, 10.0]
                    .into_iter()
                    .map(|f| f * unit)
                    .find(|s| *s >= rough)
                    .unwrap_or(unit)
            }
        };
        let first = (self.low / step).ceil();
        (0..20)
            .map(|k| (first + f64::from(k)) * step)
            .take_while(|t| *t <= self.high)
            .map(|t| {
                if self.scale == Scale::Log {
                    10f64.powf(t)
                } else {
                    t
                }
            })
            .collect()
    }
}

fn place(value: f64, scale: Scale) -> Option<f64> {
    let placed = match scale {
        Scale::Log if value <= 0.0 => return None,
        Scale::Log => value.log10(),
        Scale::Linear => value,
    };
    placed.is_finite().then_some(placed)
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
}

/// A plot of some series.
pub fn plot(title: &str, x: &Axis, y: &Axis, series: &[Series]) -> String {
    let (width, height) = SIZE;
    let range_x = Range::of(
        series.iter().flat_map(|s| s.points.iter().map(|p| p.0)),
        x.scale,
    );
    let range_y = Range::of(
        series.iter().flat_map(|s| s.points.iter().map(|p| p.1)),
        y.scale,
    );
    let px = |share: f64| MARGIN + share * (width - 2.0 * MARGIN);
    let py = |share: f64| height - MARGIN - share * (height - 2.0 * MARGIN);
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" font-family=\"sans-serif\" \
         font-size=\"12\">\n<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n\
         <text x=\"{}\" y=\"24\" text-anchor=\"middle\" font-size=\"15\">{}</text>\n",
        width / 2.0,
        escaped(title)
    );
    for tick in range_x.ticks() {
        if let Some(share) = range_x.share(tick) {
            let at = px(share);
            let _ = writeln!(
                svg,
                "<path d=\"M{at:.1} {:.1}V{:.1}\" stroke=\"#ddd\"/><text x=\"{at:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{tick}</text>",
                py(0.0),
                py(1.0),
                py(0.0) + 16.0
            );
        }
    }
    for tick in range_y.ticks() {
        if let Some(share) = range_y.share(tick) {
            let at = py(share);
            let _ = writeln!(
                svg,
                "<path d=\"M{:.1} {at:.1}H{:.1}\" stroke=\"#ddd\"/><text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{tick}</text>",
                px(0.0),
                px(1.0),
                px(0.0) - 4.0,
                at + 4.0
            );
        }
    }
    let _ = writeln!(
        svg,
        "<text x=\"{}\" y=\"{}\" text-anchor=\"middle\">{}</text>\n\
         <text transform=\"translate(14 {}) rotate(-90)\" text-anchor=\"middle\">{}</text>",
        width / 2.0,
        height - 12.0,
        escaped(&x.label),
        height / 2.0,
        escaped(&y.label)
    );
    for (number, one) in series.iter().enumerate() {
        let colour = COLOURS[number % COLOURS.len()];
        let step = one.points.len().div_ceil(MOST_POINTS).max(1);
        let placed: Vec<(f64, f64)> = one
            .points
            .iter()
            .step_by(step)
            .filter_map(|(a, b)| Some((px(range_x.share(*a)?), py(range_y.share(*b)?))))
            .collect();
        match one.mark {
            Mark::Dots => {
                let _ = writeln!(svg, "<g fill=\"{colour}\" fill-opacity=\"0.5\">");
                for (a, b) in placed {
                    let _ = writeln!(svg, "<circle cx=\"{a:.1}\" cy=\"{b:.1}\" r=\"2.5\"/>");
                }
                svg.push_str("</g>\n");
            }
            Mark::Line => {
                let path: Vec<String> = placed
                    .iter()
                    .map(|(a, b)| format!("{a:.1} {b:.1}"))
                    .collect();
                let _ = writeln!(
                    svg,
                    "<path d=\"M{}\" fill=\"none\" stroke=\"{colour}\"/>",
                    path.join("L")
                );
            }
        }
        let _ = writeln!(
            svg,
            "<text x=\"{:.1}\" y=\"{:.1}\" fill=\"{colour}\">{}</text>",
            px(0.0) + 8.0,
            py(1.0) + 16.0 * (number as f64 + 1.0),
            escaped(&one.name)
        );
    }
    svg.push_str("</svg>\n");
    svg
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plot_has_all_points_and_escapes_names() {
        let axis = |label: &str, scale| Axis {
            label: label.to_owned(),
            scale,
        };
        let series = [Series {
            name: "a < b".to_owned(),
            mark: Mark::Dots,
            points: vec![(1.0, 2.0), (10.0, 30.0), (0.0, 1.0), (f64::NAN, 1.0)],
        }];
        let svg = plot(
            "t & u",
            &axis("x", Scale::Log),
            &axis("y", Scale::Linear),
            &series,
        );
        assert_eq!(
            svg.matches("<circle").count(),
            2,
            "no place for 0 on a logarithmic axis"
        );
        assert!(svg.contains("a &lt; b") && svg.contains("t &amp; u"));
        let empty = plot("", &axis("x", Scale::Log), &axis("y", Scale::Log), &[]);
        assert!(empty.ends_with("</svg>\n") && !empty.contains("NaN"));
    }
}
