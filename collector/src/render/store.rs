//! The store of best schedules, and a model compiled with it.

use opreport::table::{Column, Table};
use opreport::{Style, units};
use serde_json::{Value, json};

use crate::apply::{Applied, AppliedModel};
use crate::store::Entry;

/// The best schedules as a table; of a single workload with knobs and origins.
pub fn best_text(entries: &[Entry], with_knobs: bool, style: Style) -> String {
    let mut table = Table::new(&[
        Column::left("operator").shrinks_to(16),
        Column::left("workload"),
        Column::left("shapes").shrinks_to(14).hides(2),
        Column::right("threads"),
        Column::left("caches"),
        Column::right("time"),
        Column::right("±"),
        Column::left("grade"),
        Column::left("model").hides(1),
        Column::left("from").hides(0),
    ]);
    for entry in entries {
        let spread = entry.half_width_ns.map(|half| half / entry.time_ns);
        table.row(vec![
            entry.operator.clone().into(),
            entry.key.workload.clone().into(),
            entry.shapes.clone().into(),
            entry.key.threads.to_string().into(),
            entry.key.cache.clone().into(),
            units::time(entry.time_ns).into(),
            spread.map_or_else(String::new, units::percent).into(),
            entry.quality.clone().unwrap_or_default().into(),
            entry.model.clone().unwrap_or_default().into(),
            entry.source.clone().into(),
        ]);
    }
    let mut out = table.render(style);
    if with_knobs {
        for entry in entries {
            let knobs = serde_json::to_string(&entry.choice).unwrap_or_default();
            out.push_str(&format!(
                "{}: {knobs}\n    measured by {} with TVM {} on {} ({})\n",
                units::time(entry.time_ns),
                entry.tool.as_deref().unwrap_or("an unknown tool"),
                entry.tvm.as_deref().unwrap_or("unknown"),
                entry.key.machine,
                entry.measured_at.as_deref().unwrap_or("no date"),
            ));
        }
    }
    out
}

/// A model with the schedules of the store.
pub fn applied_text(applied: &AppliedModel, style: Style) -> String {
    let mut table = Table::new(&[
        Column::left("operator").shrinks_to(20),
        Column::left("workload"),
        Column::right("count"),
        Column::right("in model"),
        Column::left("schedule"),
    ]);
    for operator in &applied.operators {
        let schedule = match &operator.entry {
            Some(_) if operator.takes_default => "default: faster in the model".to_owned(),
            Some(entry) if operator.is_nearest => {
                format!("that of {} {}", entry.operator, entry.shapes)
            }
            Some(entry) => format!("{} ({})", units::time(entry.time_ns), entry.source),
            None => "default: the store has none".to_owned(),
        };
        table.row(vec![
            operator.name.clone().into(),
            operator.workload.clone().into(),
            operator.count.to_string().into(),
            operator
                .in_model_ns
                .map_or_else(String::new, units::time)
                .into(),
            schedule.into(),
        ]);
    }
    let mut out = table.render(style);
    out.push_str(&format!(
        "{}, {}: {} end to end; the store covers {} of the calls, {} of the time, {} of the arithmetic\n",
        applied.model,
        units::plural(u64::from(applied.threads), "thread"),
        units::time(applied.latency_ns),
        units::percent(applied.coverage(|o| o.count as f64)),
        units::percent(applied.coverage(time)),
        units::percent(applied.coverage(|o| o.flops as f64)),
    ));
    let exported = &applied.exported;
    for (what, operators) in [
        (
            "in the database with the fastest schedule that stock TVM can replay, which is slower than the model's",
            &exported.slower,
        ),
        (
            "left out of the database, as stock TVM cannot replay their schedules",
            &exported.left_out,
        ),
    ] {
        if !operators.is_empty() {
            out.push_str(&format!("{what}: {}\n", operators.join(", ")));
        }
    }
    if let Some(comparison) = &applied.comparison {
        out.push_str(&super::tuned::compared(comparison));
    }
    let default = applied.operators.iter().filter(|o| o.takes_default).count();
    if default > 0 {
        out.push_str(&format!(
            "{} with the default schedule, which is faster there than those of the store\n",
            units::plural(default as u64, "operator")
        ));
    }
    let near = applied.operators.iter().filter(|o| o.is_nearest).count();
    if near > 0 {
        out.push_str(&format!(
            "{} without a schedule: that of the nearest workload, which is faster there than the default one\n",
            units::plural(near as u64, "operator")
        ));
    }
    if applied
        .operators
        .iter()
        .any(|o| o.entry.is_none() || o.is_nearest)
    {
        out.push_str(&format!(
            "for the rest: opcollect --modelname {} --threads {} --iftune=true\n",
            applied.model, applied.threads
        ));
    }
    out.push_str(&format!(
        "the model's output was checked against {}\n",
        applied.checked_against
    ));
    out
}

fn time(operator: &Applied) -> f64 {
    operator.in_model_ns.unwrap_or_default() * operator.count as f64
}

/// The model with the schedules of the store as JSON.
pub fn applied_json(applied: &AppliedModel) -> Value {
    json!({
        "model": applied.model,
        "threads": applied.threads,
        "latency_ns": applied.latency_ns,
        "coverage_calls": applied.coverage(|o| o.count as f64),
        "coverage_time": applied.coverage(time),
        "coverage_flops": applied.coverage(|o| o.flops as f64),
        "checked_against": applied.checked_against,
        "left_out": applied.exported.left_out,
        "slower_in_database": applied.exported.slower,
        "ratio": applied.comparison.as_ref().map(|comparison| comparison.ratio.median),
        "operators": applied.operators,
    })
}
