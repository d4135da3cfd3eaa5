//! A model against measured rows, as text.

use oplearn::crossval::metrics::Metrics;
use opreport::Style;
use opreport::table::{Column, Table};
use opreport::units::time_rounded;

use super::{figure, number};
use crate::query::compare::Comparison;

/// Errors by kind, and the `furthest` rows that are furthest off.
pub fn comparison(comparison: &Comparison, furthest: usize, style: Style) -> String {
    let c = comparison;
    let mut kinds = Table::headed("rows of|#rows|#MAPE %|#median %|#±10 %|#bias log2");
    let mut add = |name: &str, m: &Metrics| {
        kinds.row([
            name.into(),
            m.samples.to_string().into(),
            number(m.mape, 1),
            number(m.median_ape, 1),
            number(m.within_10, 1),
            number(m.bias_log2, 2),
        ]);
    };
    add("all", &c.overall);
    if let Some(unseen) = c.unseen.as_ref().filter(|m| m.samples < c.rows) {
        add("not trained on", unseen);
    }
    for (kind, metrics) in &c.by_kind {
        add(kind, metrics);
    }
    if c.by_machine.len() > 1 {
        for (machine, metrics) in &c.by_machine {
            add(machine, metrics);
        }
    }
    let mut text = format!(
        "{} measured rows ({} others left out); the operators of {:.0} % of them were trained on\n\n",
        c.rows,
        c.left_out,
        100.0 * c.trained_on
    ) + &kinds.render(style);
    if let Some(inside) = c.inside {
        text += &format!(
            "\n{:.1} % of the measured times are inside the {} % intervals\n",
            100.0 * inside,
            figure(100.0 * c.level)
        );
    }
    if !c.other_machines.is_empty() {
        text += &format!(
            "the model was not trained on these machines, whose rows it was asked about: {}\n",
            c.other_machines.join("; ")
        );
    }
    if furthest == 0 {
        return text;
    }
    let mut rows = Table::new(&[
        Column::right("predicted"),
        Column::right("measured"),
        Column::right("ratio"),
        Column::right("threads"),
        Column::left("operator").shrinks_to(12),
        Column::left("shapes").shrinks_to(12),
        Column::left("row").hides(0),
    ]);
    for row in c.furthest.iter().take(furthest) {
        rows.row([
            time_rounded(row.predicted_ns).into(),
            time_rounded(row.measured_ns).into(),
            format!("{:.2}", row.predicted_ns / row.measured_ns).into(),
            row.threads
                .map_or_else(|| "-".to_owned(), |t| t.to_string())
                .into(),
            row.operator.as_str().into(),
            row.shapes.as_str().into(),
            row.row_id.as_str().into(),
        ]);
    }
    text + "\nfurthest off:\n" + &rows.render(style)
}
