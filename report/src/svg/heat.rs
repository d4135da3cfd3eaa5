//! Heat maps: a cell for each pair of values, coloured by how long it takes.

use super::canvas::{Anchor, Canvas, MARGIN, SIZE};

/// Colours from short to long, distinct in print and for colour-blind readers (after viridis).
const SHADES: [[f64; 3]; 5] = [
    [253.0, 231.0, 37.0],
    [94.0, 201.0, 98.0],
    [33.0, 145.0, 140.0],
    [59.0, 82.0, 139.0],
    [68.0, 1.0, 84.0],
];
/// Maximum number of labels that do not overlap.
const MOST_LABELS: usize = 14;
/// Room for the scale at the right, pixels.
const SCALE: f64 = 72.0;

/// One axis: its label with its unit, and the values, ascending. They are equally far apart.
#[derive(Debug, Clone, PartialEq)]
pub struct Steps {
    /// Label.
    pub label: String,
    /// Values.
    pub values: Vec<f64>,
}

impl Steps {
    /// Where one of the values is, 0 to 1.
    fn share(&self, value: f64) -> f64 {
        let step = self.values.partition_point(|v| *v < value);
        (step as f64 + 0.5) / self.values.len() as f64
    }
}

fn shade(share: f64) -> String {
    let place = share.clamp(0.0, 1.0) * (SHADES.len() - 1) as f64;
    let first = (place as usize).min(SHADES.len() - 2);
    let mix = |k: usize| {
        let (a, b) = (SHADES[first][k], SHADES[first + 1][k]);
        (a + (place - first as f64) * (b - a)).round()
    };
    format!("rgb({},{},{})", mix(0), mix(1), mix(2))
}

/// A number of at most three digits and its power, short enough for a tick.
fn short(value: f64) -> String {
    for (unit, name) in [(1e12, "T"), (1e9, "G"), (1e6, "M"), (1e4, "k")] {
        if value >= unit {
            let scaled = value / if name == "k" { 1e3 } else { unit };
            return format!("{scaled:.*}{name}", usize::from(scaled < 10.0));
        }
    }
    format!("{}", (value * 100.0).round() / 100.0)
}

/// Left end of the scale at the right, pixels.
fn right() -> f64 {
    SIZE.0 - MARGIN - SCALE
}

/// Pixels of a share of the width, from the left.
fn px(share: f64) -> f64 {
    MARGIN + 24.0 + share * (right() - MARGIN - 24.0)
}

/// Pixels of a share of the height, from the bottom.
fn py(share: f64) -> f64 {
    SIZE.1 - MARGIN - share * (SIZE.1 - 2.0 * MARGIN)
}

/// A heat map of `[x, y, time]` cells. Colours show time over the best of the same y, on a logarithmic scale.
pub fn heat(title: &str, x: &Steps, y: &Steps, cells: &[[f64; 3]]) -> String {
    let ratios: Vec<f64> = cells
        .iter()
        .map(|[_, row, time]| {
            let same = cells.iter().filter(|c| c[1] == *row).map(|c| c[2]);
            time / same.fold(f64::INFINITY, f64::min)
        })
        .collect();
    let worst = ratios.iter().copied().fold(1.0, f64::max);
    let mut canvas = Canvas::new(title, 14);
    let (wide, high) = (
        (px(1.0) - px(0.0)) / x.values.len() as f64,
        (py(0.0) - py(1.0)) / y.values.len() as f64,
    );
    for ([a, b, _], ratio) in cells.iter().zip(&ratios) {
        let dark = if worst > 1.0 {
            ratio.ln() / worst.ln()
        } else {
            0.0
        };
        canvas.line(format_args!(
            "<rect x=\"{:.1}\" y=\"{:.1}\" width=\"{wide:.1}\" height=\"{high:.1}\" fill=\"{}\"><title>{} × {}: {ratio:.2}</title></rect>",
            px(x.share(*a)) - wide / 2.0,
            py(y.share(*b)) - high / 2.0,
            shade(dark),
            short(*a),
            short(*b),
        ));
    }
    for (at, label) in ticks(x) {
        canvas.tick((px(at), py(0.0) + 16.0), Anchor::Middle, &label);
    }
    for (at, label) in ticks(y) {
        canvas.tick((px(0.0) - 4.0, py(at) + 4.0), Anchor::End, &label);
    }
    canvas.axes(format_args!("{:.1}", px(0.5)), &x.label, &y.label);
    scale(&mut canvas, worst);
    canvas.finish()
}

/// The legend of the colours.
fn scale(canvas: &mut Canvas, worst: f64) {
    for step in 0..20 {
        let share = f64::from(step) / 20.0;
        canvas.line(format_args!(
            "<rect x=\"{:.1}\" y=\"{:.1}\" width=\"14\" height=\"{:.1}\" fill=\"{}\"/>",
            right() + 16.0,
            py(share + 0.05),
            py(0.0) - py(0.05) + 0.5,
            shade(share + 0.025)
        ));
    }
    for share in [0.0, 0.5, 1.0] {
        canvas.line(format_args!(
            "<text x=\"{:.1}\" y=\"{:.1}\">×{:.2}</text>",
            right() + 34.0,
            py(share) + 4.0,
            (share * worst.ln()).exp()
        ));
    }
}

/// Some of the steps, as many as fit, with their positions (0 to 1).
fn ticks(steps: &Steps) -> impl Iterator<Item = (f64, String)> {
    let every = steps.values.len().div_ceil(MOST_LABELS).max(1);
    let some = steps.values.iter().step_by(every);
    some.map(|value| (steps.share(*value), short(*value)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_steps() {
        let steps = Steps {
            label: String::new(),
            values: vec![1.0, 2.0, 4.0, 8.0],
        };
        let shares: Vec<f64> = [1.0, 2.0, 8.0].map(|v| steps.share(v)).to_vec();
        assert_eq!(shares, [0.125, 0.375, 0.875]);
    }

    #[test]
    fn a_map_has_its_cells() {
        let steps = |label: &str| Steps {
            label: label.to_owned(),
            values: vec![1.0, 2.0],
        };
        let cells = [[1.0, 1.0, 8.0], [2.0, 1.0, 4.0], [1.0, 2.0, 7.0]];
        let svg = heat("a < b", &steps("x"), &steps("y"), &cells);
        assert_eq!(svg.matches("<title>").count(), 3);
        assert!(svg.contains("<title>1 × 1: 2.00</title>") && svg.contains("a &lt; b"));
        assert!(!svg.contains("NaN"));
        assert_eq!(
            [short(5.0), short(1.5e6), short(12_345.0), short(2.4e10)],
            ["5", "1.5M", "12k", "24G"]
        );
    }
}
