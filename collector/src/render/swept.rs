//! A sweep's result as text: for each of the conditions, the schedules of every operator in numbers, and the best of them.

use opengine::device::Conditions;
use opreport::table::{Cell, Column, Table};
use opreport::{Style, units};

use crate::report::{OperatorReport, RunReport};

const COLUMNS: [Column; 9] = [
    Column::left("operator").shrinks_to(20),
    Column::left("shapes").shrinks_to(14).hides(0),
    Column::right("schedules"),
    Column::right("failed").hides(1),
    Column::right("skipped").hides(2),
    Column::right("default"),
    Column::right("best"),
    Column::right("speed-up"),
    Column::left("best row").shrinks_to(8).hides(3),
];

/// The schedules of every operator under the same conditions, the largest gain first. `None` without a sweep.
pub(super) fn swept_text(report: &RunReport, at: &Conditions, style: Style) -> Option<String> {
    let mut rows: Vec<(f64, Vec<Cell>)> = report
        .operators
        .iter()
        .filter_map(|operator| row(operator, at))
        .collect();
    if rows.is_empty() {
        return None;
    }
    rows.sort_by(|a, b| b.0.total_cmp(&a.0));
    let mut table = Table::new(&COLUMNS);
    for (_, cells) in rows {
        table.row(cells);
    }
    Some(table.render(style))
}

fn row(operator: &OperatorReport, at: &Conditions) -> Option<(f64, Vec<Cell>)> {
    let swept = operator.swept(at)?;
    let default = operator.median_ns(at);
    let best = operator.best(at);
    let gain = default
        .zip(best)
        .filter(|(_, (best_ns, _))| *best_ns > 0.0)
        .map(|(default, (best_ns, _))| default / best_ns);
    let time = |ns: Option<f64>| ns.map_or_else(|| "-".to_owned(), units::time);
    let cells = vec![
        operator.name.clone().into(),
        operator.shapes.clone().into(),
        swept.measured.to_string().into(),
        swept.failed.to_string().into(),
        swept.skipped.to_string().into(),
        time(default).into(),
        time(best.map(|(ns, _)| ns)).into(),
        gain.map_or_else(|| "-".to_owned(), |g| format!("{g:.2}x"))
            .into(),
        match best {
            Some((_, None)) => "default".into(),
            // The run's name stands above already.
            Some((_, Some(row))) => row.rsplit('.').next().unwrap_or(row).into(),
            None => "-".into(),
        },
    ];
    Some((gain.unwrap_or(0.0), cells))
}
