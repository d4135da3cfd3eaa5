//! Turning points over one factor.

use std::fmt::Write;

use opreport::table::{Column, Table};
use opreport::{Style, units};

use super::optional;
use crate::turning::Analysis;
use crate::turning::analysis::ChosenValue;
use crate::turning::knob::KnobStep;

/// The effect of each step of a knob.
pub fn knob(name: &str, steps: &[KnobStep], style: Style) -> String {
    let mut table = Table::headed("step|#pairs|#faster|#time, median");
    for step in steps {
        table.row([
            format!("{name} {} → {}", step.from, step.to).into(),
            step.pairs.to_string().into(),
            units::percent(step.faster).into(),
            format!("×{:.3}", step.median_ratio).into(),
        ]);
    }
    table.render(style)
}

/// Turning points of sweeps.
pub fn turning(analysis: &Analysis, style: Style) -> String {
    let mut table = Table::new(&[
        Column::right("best"),
        Column::right("enough"),
        Column::right("turn"),
        Column::right("knee").hides(0),
        Column::right("from probes"),
        Column::right("with more").hides(1),
        Column::left("sweep").shrinks_to(16),
    ]);
    let choice = |c: Option<ChosenValue>| {
        c.map_or_else(
            || "-".to_owned(),
            |c| format!("{} (×{:.3}, {})", c.x, c.ratio, c.measurements),
        )
    };
    for s in &analysis.sweeps {
        let turn = s.turn.map_or_else(
            || "-".to_owned(),
            |t| format!("{:.1} ({:.1} … {:.1})", t.x, t.low, t.high),
        );
        let name = format!(
            "{} {} over {} ({} points)",
            s.device, s.name, s.axis, s.points
        );
        table.row([
            s.best.to_string().into(),
            s.enough.to_string().into(),
            turn.into(),
            optional(s.knee, 0).into(),
            choice(s.chosen).into(),
            choice(s.chosen_with_more).into(),
            name.into(),
        ]);
    }
    let mut text = table.render(style);
    let _ = writeln!(
        text,
        "\nchosen over best, mean of sweeps: {} from the probes, {} with {} more measurements",
        optional(analysis.mean_ratio, 3),
        optional(analysis.mean_ratio_with_more, 3),
        analysis.more
    );
    text
}
