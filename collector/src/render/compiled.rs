//! Operators that were compiled and not run, as text: what the largest kernel of each takes of its device.

use opengine::device::Conditions;
use opreport::table::{Cell, Column, Table};
use opreport::{Style, units};

use crate::report::{OperatorReport, PointOutcome, ResourcesReport, RunReport};

const COLUMNS: [Column; 12] = [
    Column::left("operator").shrinks_to(20),
    Column::left("kind").hides(1),
    Column::left("shapes").shrinks_to(14).hides(0),
    Column::left("arch").only_if_filled(),
    Column::right("kernels").hides(2),
    Column::right("threads"),
    Column::right("registers"),
    Column::right("shared"),
    Column::right("local").hides(3),
    Column::right("spilled"),
    Column::right("occupancy"),
    Column::left("limited by").hides(4),
];

/// The operators under these conditions, in the model's order. Those of a sweep are counted, for there are many.
pub(super) fn compiled_text(report: &RunReport, at: &Conditions, style: Style) -> String {
    let mut table = Table::new(&COLUMNS);
    let mut others = 0;
    for operator in &report.operators {
        if let Some(point) = operator.point(at) {
            table.row(row(operator, &point.outcome));
        }
        others += operator.swept(at).map_or(0, |swept| swept.compiled);
    }
    let mut text = table.render(style);
    if others > 0 {
        text.push_str(&format!(
            "and {} of the sweep, described in the rows\n",
            units::plural(others, "other schedule")
        ));
    }
    text
}

fn row(operator: &OperatorReport, outcome: &PointOutcome) -> Vec<Cell> {
    let mut cells: Vec<Cell> = vec![
        operator.name.clone().into(),
        operator.kind.clone().into(),
        operator.shapes.clone().into(),
        operator.architecture.clone().unwrap_or_default().into(),
    ];
    match outcome {
        PointOutcome::Compiled(resources) => cells.extend(resources_cells(resources)),
        PointOutcome::NotMeasured { status, .. } => {
            cells.push(Cell::painted(status.as_str(), Style::red));
        }
        PointOutcome::Measured { .. } => {}
    }
    cells
}

fn resources_cells(resources: &ResourcesReport) -> [Cell; 8] {
    let count = |value: Option<u64>| value.map_or_else(|| "-".to_owned(), |v| v.to_string());
    let bytes = |value: Option<u64>| {
        value.map_or_else(|| "-".to_owned(), |bytes| units::bytes(bytes as f64))
    };
    let occupancy = resources.occupancy.map(units::percent);
    [
        count(resources.kernels).into(),
        count(resources.threads_per_block).into(),
        count(resources.registers_per_thread).into(),
        bytes(resources.shared_bytes_per_block).into(),
        bytes(resources.local_bytes_per_thread).into(),
        bytes(resources.spill_bytes_per_thread).into(),
        occupancy.unwrap_or_else(|| "-".to_owned()).into(),
        resources
            .occupancy_limiter
            .clone()
            .unwrap_or_else(|| "-".to_owned())
            .into(),
    ]
}
