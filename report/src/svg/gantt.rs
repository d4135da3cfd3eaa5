//! Gantt charts: what runs on each lane, over time.

use super::canvas::{Anchor, Canvas, LETTER, SIZE};
use super::plot::COLOURS;
use crate::html::escape;

/// Room for the names of lanes, pixels.
const LEFT: f64 = 72.0;
/// Room around, pixels.
const AROUND: f64 = 40.0;
/// Shortest bar that has its name in it, pixels.
const NAMED: f64 = 60.0;
/// Font size of that name, pixels.
const NAME_PX: f64 = 10.0;
/// Ticks of the axis of time.
const TICKS: u32 = 5;

/// Something that runs.
#[derive(Debug, Clone, PartialEq)]
pub struct Bar<'a> {
    /// Number of its lane.
    pub lane: usize,
    /// Begin, in the chart's unit.
    pub begin: f64,
    /// End.
    pub end: f64,
    /// Its name, shown when pointed at, and if there is room.
    pub name: &'a str,
    /// Number of its colour.
    pub colour: usize,
}

/// Draws bars on lanes; `unit` is that of time.
pub fn gantt(title: &str, unit: &str, lanes: &[&str], bars: &[Bar<'_>]) -> String {
    let mut canvas = Canvas::new(title, 14);
    let end = bars.iter().map(|bar| bar.end).fold(0.0, f64::max);
    let end = if end > 0.0 { end } else { 1.0 };
    let (width, height) = (SIZE.0 - LEFT - AROUND, SIZE.1 - 2.0 * AROUND);
    let x = |time: f64| LEFT + time / end * width;
    let step = height / lanes.len().max(1) as f64;
    let y = |lane: usize| AROUND + lane as f64 * step;
    for (lane, name) in lanes.iter().enumerate() {
        let middle = y(lane) + step / 2.0;
        let name = escape(name);
        canvas.line(format_args!(
            "<text x=\"{:.1}\" y=\"{middle:.1}\" text-anchor=\"end\">{name}</text>",
            LEFT - 8.0
        ));
    }
    for bar in bars {
        let (left, right) = (x(bar.begin), x(bar.end));
        let colour = COLOURS[bar.colour % COLOURS.len()];
        let name = escape(bar.name);
        canvas.line(format_args!(
            "<rect x=\"{left:.2}\" y=\"{:.1}\" width=\"{:.2}\" height=\"{:.1}\" fill=\"{colour}\" fill-opacity=\"0.8\" \
             stroke=\"white\" stroke-width=\"0.5\"><title>{name}: {:.4} to {:.4} {unit}</title></rect>",
            y(bar.lane) + step * 0.1,
            right - left,
            step * 0.8,
            bar.begin,
            bar.end,
        ));
        if right - left > NAMED {
            let letters = ((right - left) / (LETTER * NAME_PX)) as usize - 1;
            let short: String = bar.name.chars().take(letters).collect();
            canvas.line(format_args!(
                "<text x=\"{:.1}\" y=\"{:.1}\" font-size=\"{NAME_PX}\" fill=\"white\">{}</text>",
                left + 3.0,
                y(bar.lane) + step / 2.0,
                escape(&short)
            ));
        }
    }
    let bottom = AROUND + height;
    canvas.line(format_args!(
        "<line x1=\"{LEFT}\" y1=\"{bottom}\" x2=\"{:.1}\" y2=\"{bottom}\" stroke=\"black\"/>",
        LEFT + width
    ));
    for tick in 0..=TICKS {
        let time = end * f64::from(tick) / f64::from(TICKS);
        let label = format!("{time:.3} {unit}");
        canvas.tick((x(time), bottom + 16.0), Anchor::Middle, &label);
    }
    canvas.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_lie_on_their_lanes_and_names_are_escaped() {
        let bar = |lane, begin, end| Bar {
            lane,
            begin,
            end,
            name: "a<b",
            colour: lane,
        };
        let svg = gantt(
            "two",
            "ms",
            &["cpu0", "cpu1"],
            &[bar(0, 0.0, 4.0), bar(1, 4.0, 5.0)],
        );
        assert_eq!(svg.matches("<rect x=").count(), 2, "{svg}");
        assert!(svg.contains("a&lt;b: 4.0000 to 5.0000 ms"), "{svg}");
        assert!(!svg.contains("a<b"));
        assert!(svg.trim_end().ends_with("</svg>"));
    }
}
