//! Plots that answer to the mouse: values under the pointer, zoom by dragging, series that hide by a click on the legend.
//!
//! The library uPlot 1.6.32 (`chart/vendor/`, MIT licence) goes into the page itself, so that a page needs no network. Without
//! scripts, and on paper, the picture of [`crate::svg::plot()`] stands in its place.

use serde_json::json;

use crate::html::data_element;
use crate::svg::{Axis, Mark, Scale, Series, plot};

/// The style of a page with charts.
pub const CHART_STYLE: &str = concat!(
    include_str!("chart/vendor/uPlot.min.css"),
    ".chart{background:#fff;color:#222}.chart .u-title{font-size:.95rem}.chart .u-legend{font-size:.75rem;text-align:left}",
    ".chart .u-legend th,.chart .u-legend td{white-space:normal;border:0;padding:0 .2rem}.chart .u-legend .u-label{display:inline}"
);

/// The script of a page with charts, inside a `script` element.
pub const CHART_SCRIPT: &str = concat!(
    include_str!("chart/vendor/uPlot.iife.min.js"),
    "\n",
    include_str!("chart/chart.js")
);

/// Maximum number of points of a series. More would only make the page larger.
const MOST_POINTS: usize = 5000;

/// A chart of some series.
pub fn chart(title: &str, x: &Axis, y: &Axis, series: &[Series]) -> String {
    let axis = |axis: &Axis| json!({ "label": axis.label, "log": axis.scale == Scale::Log });
    let series_json = series.iter().map(|series| {
        let every = series.points.len().div_ceil(MOST_POINTS).max(1);
        let points = series.points.iter().step_by(every);
        let points: Vec<[f64; 2]> = points.map(|(x, y)| [rounded(*x), rounded(*y)]).collect();
        json!({ "name": series.name, "mark": mark(series.mark), "points": points })
    });
    let data = json!({
        "title": title,
        "x": axis(x),
        "y": axis(y),
        "series": series_json.collect::<Vec<_>>(),
    });
    let data = data_element("class=\"data\"", &data);
    format!(
        "<div class=\"chart\">{data}{}</div>",
        plot(title, x, y, series)
    )
}

fn mark(mark: Mark) -> &'static str {
    match mark {
        Mark::Dots => "dots",
        Mark::Line => "line",
        Mark::Marks => "marks",
    }
}

/// Five significant digits: more than a screen shows.
fn rounded(value: f64) -> f64 {
    format!("{value:.4e}").parse().unwrap_or(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chart_has_its_data_and_a_picture_without_scripts() {
        let axis = |label: &str, scale| Axis {
            label: label.to_owned(),
            scale,
        };
        let series = Series {
            name: "</script><b>".to_owned(),
            mark: Mark::Line,
            points: vec![(1.0, 2.000_004_9), (2.0, 3.0)],
        };
        let html = chart(
            "t",
            &axis("x", Scale::Log),
            &axis("y", Scale::Linear),
            &[series],
        );
        assert_eq!(html.matches("</script>").count(), 1, "{html}");
        assert!(
            html.contains("<svg") && html.contains("[1.0,2.0]"),
            "{html}"
        );
        assert!(html.contains(r#""x":{"label":"x","log":true}"#), "{html}");
    }
}
