//! Results of tuning: each operator before and after, the latency after a part of the trials, and the whole model in
//! turn.

use opreport::table::{Column, Table};
use opreport::{Style, units};
use serde_json::{Value, json};

use crate::report::{Comparison, Partial, Ratio, TunedOperator, TunedReport};

/// Operators that are listed; the others are in the JSON.
const SHOWN: usize = 20;

/// The section of a run's report; nothing without tuning.
pub(super) fn tuned_text(tuned: &[TunedReport], style: Style) -> String {
    let mut out = String::new();
    for report in tuned {
        let mut operators: Vec<&TunedOperator> = report.operators.iter().collect();
        operators.sort_by(|a, b| gain(b).total_cmp(&gain(a)));
        if !operators.is_empty() {
            out.push_str("\ntuned, measured again in a fresh process\n");
            out.push_str(&table(&operators, style));
        }
        if !report.partial.is_empty() {
            out.push_str("\nsum of operators after a part of the trials\n");
            out.push_str(&partial(&report.partial, style));
        }
        for comparison in &report.comparisons {
            out.push_str(&compared(comparison));
        }
    }
    out
}

/// Time that an operator saves in a run of the model, nanoseconds.
fn gain(operator: &TunedOperator) -> f64 {
    let before = operator.default_ns.unwrap_or(operator.best_ns);
    (before - operator.best_ns) * operator.count as f64
}

fn table(operators: &[&TunedOperator], style: Style) -> String {
    let mut table = Table::new(&[
        Column::left("operator").shrinks_to(20),
        Column::right("count"),
        Column::right("threads"),
        Column::right("schedules"),
        Column::right("default"),
        Column::right("tuned"),
        Column::right("ratio"),
        Column::left("row").hides(0),
    ]);
    for operator in operators.iter().take(SHOWN) {
        let ratio = operator.default_ns.map(|before| operator.best_ns / before);
        table.row(vec![
            operator.name.clone().into(),
            operator.count.to_string().into(),
            operator.conditions.threads.to_string().into(),
            operator.schedules.to_string().into(),
            operator
                .default_ns
                .map_or_else(String::new, units::time)
                .into(),
            units::time(operator.best_ns).into(),
            ratio
                .map_or_else(String::new, |ratio| format!("{ratio:.3}"))
                .into(),
            operator.row_id.clone().into(),
        ]);
    }
    let mut out = table.render(style);
    if operators.len() > SHOWN {
        out.push_str(&format!("… and {} more\n", operators.len() - SHOWN));
    }
    out
}

fn partial(parts: &[Partial], style: Style) -> String {
    let mut table = Table::headed("tuner|#threads|#trials|#sum of operators");
    for part in parts {
        table.row(vec![
            part.tuner.into(),
            part.conditions.threads.to_string().into(),
            part.trials.to_string().into(),
            part.sum_ns.map_or_else(String::new, units::time).into(),
        ]);
    }
    table.render(style)
}

pub(super) fn compared(comparison: &Comparison) -> String {
    let Ratio {
        median,
        low,
        high,
        level,
    } = comparison.ratio;
    format!(
        "\nwhole model, {}: {} with default schedules, {} tuned; ratio {median:.3} ({low:.3} to {high:.3}, {} of confidence, {} rounds in turn; outputs agree)\n",
        comparison.conditions.without_cache(),
        units::time(comparison.before_ns),
        units::time(comparison.after_ns),
        units::percent(level),
        comparison.rounds,
    )
}

/// The results of tuning as JSON.
pub(super) fn tuned_json(tuned: &[TunedReport]) -> Vec<Value> {
    let operator = |operator: &TunedOperator| {
        json!({
            "name": operator.name,
            "symbol": operator.symbol,
            "count": operator.count,
            "threads": operator.conditions.threads,
            "cache_state": operator.conditions.cache,
            "schedules": operator.schedules,
            "default_ns": operator.default_ns,
            "tuned_ns": operator.best_ns,
            "row_id": operator.row_id,
            "schedule": operator.spec,
        })
    };
    let part = |part: &Partial| {
        json!({
            "tuner": part.tuner,
            "threads": part.conditions.threads,
            "cache_state": part.conditions.cache,
            "trials": part.trials,
            "operators_sum_ns": part.sum_ns,
        })
    };
    let comparison = |comparison: &Comparison| {
        json!({
            "threads": comparison.conditions.threads,
            "before_ns": comparison.before_ns,
            "after_ns": comparison.after_ns,
            "ratio": comparison.ratio.median,
            "ratio_low": comparison.ratio.low,
            "ratio_high": comparison.ratio.high,
            "confidence": comparison.ratio.level,
            "rounds": comparison.rounds,
            "max_abs_error": comparison.max_abs_error,
        })
    };
    tuned
        .iter()
        .map(|report| {
            json!({
                "operators": report.operators.iter().map(operator).collect::<Vec<_>>(),
                "partial": report.partial.iter().map(part).collect::<Vec<_>>(),
                "whole_model": report.comparisons.iter().map(comparison).collect::<Vec<_>>(),
            })
        })
        .collect()
}
