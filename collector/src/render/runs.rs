//! `opcollect list runs` as text.

use opreport::table::{Cell, Column, Table};
use opreport::{Style, units};

use crate::run_list::{ListedRun, RunVerdict};

/// The runs, one line each.
pub(super) fn runs_text(runs: &[ListedRun], style: Style) -> String {
    let mut table = Table::new(&[
        Column::left("run").shrinks_to(16),
        Column::left("name").only_if_filled(),
        Column::left("model").shrinks_to(10),
        Column::left("target").shrinks_to(6).hides(1),
        Column::left("begun").hides(2),
        Column::right("points"),
        Column::left("verdict").shrinks_to(12),
        Column::left("tags").only_if_filled().shrinks_to(8).hides(0),
        Column::left("note").only_if_filled().shrinks_to(8),
    ]);
    let text = |value: &Option<String>| value.clone().unwrap_or_default();
    for run in runs {
        let name = run.path.file_name().unwrap_or(run.path.as_os_str());
        let begun = run.created.map(|time| time.to_string());
        table.row([
            name.to_string_lossy().into_owned().into(),
            text(&run.label.name).into(),
            text(&run.model).into(),
            text(&run.target).into(),
            // Seconds say enough.
            begun
                .map_or_else(String::new, |time| time.chars().take(19).collect())
                .into(),
            run.rows.to_string().into(),
            verdict(run),
            run.label.tags.join(" ").into(),
            text(&run.label.note).into(),
        ]);
    }
    table.render(style)
}

fn verdict(run: &ListedRun) -> Cell {
    match &run.verdict {
        RunVerdict::Finished { failed: 0 } => "done".into(),
        RunVerdict::Finished { failed } => Cell::painted(format!("{failed} failed"), Style::red),
        RunVerdict::Interrupted => {
            let left = units::plural(run.planned.saturating_sub(run.rows), "point");
            Cell::painted(format!("stopped, {left} left"), Style::yellow)
        }
        RunVerdict::Running => Cell::painted("running or killed", Style::yellow),
        RunVerdict::Damaged { reason } => Cell::painted(format!("damaged: {reason}"), Style::red),
    }
}
