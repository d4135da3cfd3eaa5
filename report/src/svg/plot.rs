//! Plots of points and lines on linear or logarithmic axes.

use super::canvas::{Canvas, MARGIN, SIZE, path};
use crate::html::escape;

/// Colours of series that colour-blind readers can distinguish, too (Okabe and Ito).
pub(super) const COLOURS: [&str; 6] = [
    "#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9",
];
/// Maximum number of points: more would only make the file larger.
const MOST_POINTS: usize = 5000;

/// How a series is drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mark {
    /// A dot for each point.
    Dots,
    /// A line through the points, in their order.
    Line,
    /// A large dot for each point, to mark it.
    Marks,
}

/// Points of one colour.
#[derive(Debug, Clone, PartialEq)]
pub struct Series {
    /// Name in the legend.
    pub name: String,
    /// How the series is drawn.
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

    /// Leaves this share of the axis free above all values.
    fn leave_above(&mut self, share: f64) {
        self.high += (self.high - self.low) * share / (1.0 - share);
    }

    /// Position of a value on the axis, 0 to 1.
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

/// Height of a series' name in the legend, in pixels.
const LEGEND_LINE: f64 = 16.0;

/// Pixels of a share of the width, from the left.
fn px(share: f64) -> f64 {
    MARGIN + share * (SIZE.0 - 2.0 * MARGIN)
}

/// Pixels of a share of the height, from the bottom.
fn py(share: f64) -> f64 {
    SIZE.1 - MARGIN - share * (SIZE.1 - 2.0 * MARGIN)
}

/// A plot of some series.
pub fn plot(title: &str, x: &Axis, y: &Axis, series: &[Series]) -> String {
    let along =
        |pick: fn(&(f64, f64)) -> f64| series.iter().flat_map(move |s| s.points.iter().map(pick));
    let range_x = Range::of(along(|p| p.0), x.scale);
    let mut range_y = Range::of(along(|p| p.1), y.scale);
    // The legend stands above the points, not among them.
    let legend = LEGEND_LINE * (series.len() as f64 + 0.5) / (SIZE.1 - 2.0 * MARGIN);
    range_y.leave_above(legend.min(0.5));
    let mut canvas = Canvas::new(title, 15);
    grid(&mut canvas, &range_x, &range_y);
    canvas.axes(SIZE.0 / 2.0, &x.label, &y.label);
    for (number, one) in series.iter().enumerate() {
        let step = one.points.len().div_ceil(MOST_POINTS).max(1);
        let placed: Vec<(f64, f64)> = one
            .points
            .iter()
            .step_by(step)
            .filter_map(|(a, b)| Some((px(range_x.share(*a)?), py(range_y.share(*b)?))))
            .collect();
        draw(&mut canvas, one, number, &placed);
    }
    canvas.finish()
}

/// A tick's label, short enough for the margin.
fn label(tick: f64) -> String {
    match tick.abs() >= 1e5 {
        true => format!("{tick:e}"),
        false => tick.to_string(),
    }
}

/// Lines with labels at the ticks of both axes.
fn grid(canvas: &mut Canvas, x: &Range, y: &Range) {
    for tick in x.ticks() {
        if let Some(share) = x.share(tick) {
            let at = px(share);
            canvas.line(format_args!(
                "<path d=\"M{at:.1} {:.1}V{:.1}\" stroke=\"#ddd\"/><text x=\"{at:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>",
                py(0.0),
                py(1.0),
                py(0.0) + 16.0,
                label(tick)
            ));
        }
    }
    for tick in y.ticks() {
        if let Some(share) = y.share(tick) {
            let at = py(share);
            canvas.line(format_args!(
                "<path d=\"M{:.1} {at:.1}H{:.1}\" stroke=\"#ddd\"/><text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
                px(0.0),
                px(1.0),
                px(0.0) - 4.0,
                at + 4.0,
                label(tick)
            ));
        }
    }
}

/// One series and its name in the legend.
fn draw(canvas: &mut Canvas, series: &Series, number: usize, placed: &[(f64, f64)]) {
    let colour = COLOURS[number % COLOURS.len()];
    match series.mark {
        Mark::Dots => {
            canvas.line(format_args!("<g fill=\"{colour}\" fill-opacity=\"0.5\">"));
            for (x, y) in placed {
                canvas.line(format_args!(
                    "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"2.5\"/>"
                ));
            }
            canvas.line(format_args!("</g>"));
        }
        Mark::Marks => {
            for (x, y) in placed {
                canvas.line(format_args!(
                    "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"6\" fill=\"{colour}\" stroke=\"white\"/>"
                ));
            }
        }
        Mark::Line => canvas.line(format_args!(
            "<path d=\"M{}\" fill=\"none\" stroke=\"{colour}\"/>",
            path(placed)
        )),
    }
    canvas.line(format_args!(
        "<text x=\"{:.1}\" y=\"{:.1}\" fill=\"{colour}\" stroke=\"white\" stroke-width=\"3\" paint-order=\"stroke\">{}</text>",
        px(0.0) + 8.0,
        py(1.0) + LEGEND_LINE * (number as f64 + 1.0),
        escape(&series.name)
    ));
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
        let highest = svg
            .split("cy=\"")
            .skip(1)
            .filter_map(|rest| rest.split('"').next());
        let highest: Vec<f64> = highest.filter_map(|y| y.parse().ok()).collect();
        assert!(
            highest.iter().all(|y| *y > py(1.0) + LEGEND_LINE),
            "a point is behind the legend: {highest:?}"
        );
        assert_eq!([0.01, 10000.0, 1e6].map(label), ["0.01", "10000", "1e6"]);
        let empty = plot("", &axis("x", Scale::Log), &axis("y", Scale::Log), &[]);
        assert!(empty.ends_with("</svg>\n") && !empty.contains("NaN"));
    }
}
