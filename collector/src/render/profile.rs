//! A profile as text, CSV and JSON: the table that TVM's own profiler printed, and what it did not tell.

use opdata::roofline::Standing;
use opreport::table::{Cell, Column, Table};
use opreport::{Style, units};
use serde_json::{Value, json};

use crate::profile::summary::{Class, Line, Summary, end_to_end, overhead, summary};
use crate::profile::{ProfiledModel, Shown};

/// Columns that every table has, then those of memory, then the rest.
const COLUMNS: [Column; 7] = [
    Column::left("Name").shrinks_to(16),
    Column::right("Duration (us)"),
    Column::right("Percent"),
    Column::left("Device").hides(2),
    Column::right("Count"),
    Column::left("Argument Shapes").shrinks_to(14).hides(3),
    Column::left("Hash").hides(1),
];
const MEMORY_COLUMNS: [Column; 3] = [
    Column::right("Allocated"),
    Column::right("Freed"),
    Column::right("Live"),
];
const LAST_COLUMNS: [Column; 2] = [
    Column::right("Busy").hides(0),
    Column::left("Bound by").hides(4),
];
const TOTAL_COLUMN: Column = Column::right("Total (us)");

/// Where the model runs.
const DEVICE: &str = "cpu0";

pub(super) fn us(ns: f64) -> String {
    let digits = format!("{:.2}", ns / 1e3);
    let (whole, rest) = digits.split_once('.').unwrap_or((&digits, ""));
    let mut grouped = String::new();
    for (place, digit) in whole.chars().enumerate() {
        if place > 0 && (whole.len() - place) % 3 == 0 && digit.is_ascii_digit() {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    format!("{grouped}.{rest}")
}

/// The tables of all cycles.
pub fn profile_text(model: &ProfiledModel, shown: &Shown, style: Style) -> String {
    let target = serde_json::to_string(&model.target["mcpu"]).unwrap_or_default();
    let mut text = format!(
        "{}, batch {}; llvm {} on {}, {}\n",
        style.bold(&model.graph.model),
        model.graph.batch,
        target.trim_matches('"'),
        model.cpu.as_deref().unwrap_or("an unknown processor"),
        units::plural(u64::from(model.threads), "thread"),
    );
    let cycles = &model.profiled.cycles;
    for (place, cycle) in cycles.iter().enumerate() {
        let table = summary(model, cycle, shown.group_by, shown.sort_by);
        text.push_str(&heading(place, cycles.len(), table.runs, table.first_step));
        text.push_str(&table_text(&table, shown, style));
        if shown.memory {
            text.push_str(&format!(
                "\npeak {} of tensors; the machine's storages have {}\n",
                units::bytes(table.peak_bytes as f64),
                units::bytes(model.profiled.storage_bytes as f64)
            ));
        }
        text.push_str(&format!(
            "\nparts explain {} of the run's time\n",
            units::percent(table.explained())
        ));
    }
    text.push_str(&overhead_text(&model.profiled.pairs));
    text.push_str(&format!(
        "the model's output was checked against {}\n",
        model.checked_against
    ));
    if model.calibration.is_none() {
        text.push_str(
            "what bounds an operator is not known: `opcollect doctor --calibrate` measures the machine's peak and bandwidths\n",
        );
    }
    text
}

/// What the table below it is of: the cycle, if there are several, and its runs.
pub(super) fn heading(place: usize, cycles: usize, runs: usize, first_step: u64) -> String {
    let number = match cycles {
        1 => String::new(),
        many => format!("cycle {} of {many}: ", place + 1),
    };
    format!(
        "\n{number}mean of {}, from the {} of the job\n",
        units::plural(runs as u64, "run"),
        ordinal(first_step + 1)
    )
}

fn ordinal(number: u64) -> String {
    let suffix = match (number % 10, number % 100) {
        (_, 11..=13) => "th",
        (1, _) => "st",
        (2, _) => "nd",
        (3, _) => "rd",
        _ => "th",
    };
    format!("{number}{suffix}")
}

/// What watching costs, from pairs of runs without and with it.
pub(super) fn overhead_text(pairs: &[(f64, f64)]) -> String {
    let (Some((overhead, interval)), Some(alone)) = (overhead(pairs), end_to_end(pairs)) else {
        return String::new();
    };
    let signed = |share: f64| format!("{:+.2} %", share * 100.0);
    let interval = interval.map_or_else(String::new, |(low, high)| {
        format!(" ({} … {})", signed(low), signed(high))
    });
    format!(
        "overhead {}{interval}: {} pairs of runs, {} without the profiler\n",
        signed(overhead),
        pairs.len(),
        units::time(alone)
    )
}

fn table_text(summary: &Summary, shown: &Shown, style: Style) -> String {
    let nested = summary.lines.iter().any(|l| l.total_ns > l.own_ns * 1.0001);
    let mut columns = COLUMNS.to_vec();
    if nested {
        columns.push(TOTAL_COLUMN);
    }
    if shown.memory {
        columns.extend(MEMORY_COLUMNS);
    }
    columns.extend(LAST_COLUMNS);
    let mut table = Table::new(&columns);
    let lines = || summary.lines.iter();
    let top = shown.top.unwrap_or(usize::MAX);
    for line in lines().take(top) {
        table.row(cells(line, summary, nested, shown.memory));
    }
    let rest: Vec<&Line> = lines().skip(top).collect();
    if !rest.is_empty() {
        let ns = rest.iter().map(|line| line.own_ns).sum();
        let count: u64 = rest.iter().map(|line| line.count).sum();
        let name = format!("({} more)", rest.len());
        table.row(sums(&name, ns, summary, Some(count)));
    }
    table.row(sums("Sum", summary.sum_ns, summary, None));
    table.row(sums("Total", summary.total_ns, summary, None));
    table.render(style)
}

fn sums(name: &str, ns: f64, summary: &Summary, count: Option<u64>) -> Vec<Cell> {
    vec![
        Cell::painted(name, Style::bold),
        us(ns).into(),
        format!("{:.2}", ns / summary.total_ns * 100.0).into(),
        "".into(),
        count.map_or_else(String::new, |c| c.to_string()).into(),
    ]
}

fn cells(line: &Line, summary: &Summary, nested: bool, memory: bool) -> Vec<Cell> {
    let text = |value: &Option<String>| Cell::from(value.clone().unwrap_or_default());
    let bytes = |value: u64| Cell::from(units::bytes(value as f64));
    let mut cells = vec![
        line.name.clone().into(),
        us(line.own_ns).into(),
        format!("{:.2}", summary.share(line) * 100.0).into(),
        DEVICE.into(),
        line.count.to_string().into(),
        text(&line.shapes),
        text(&line.hash),
    ];
    if nested {
        cells.push(us(line.total_ns).into());
    }
    if memory {
        let all = [line.allocated_bytes, line.freed_bytes, line.live_bytes];
        cells.extend(all.map(bytes));
    }
    let busy = line.busy_share.map(units::percent);
    cells.push(busy.unwrap_or_default().into());
    let bound = line.standing.as_ref().and_then(|standing| standing.words());
    cells.push(bound.unwrap_or_default().into());
    cells
}

/// The profile as one object: the same numbers for every line of every cycle, nanoseconds and bytes for one run.
pub fn profile_json(model: &ProfiledModel, shown: &Shown) -> Value {
    let pairs = &model.profiled.pairs;
    let cost = overhead(pairs);
    let cycles: Vec<Summary> = model
        .profiled
        .cycles
        .iter()
        .map(|cycle| summary(model, cycle, shown.group_by, shown.sort_by))
        .collect();
    let explained = cycles.iter().map(Summary::explained);
    json!({
        "model": model.graph.model,
        "batch": model.graph.batch,
        "target": model.target,
        "cpu": model.cpu,
        "threads": model.threads,
        "schedule": model.schedule,
        "checked_against": model.checked_against,
        "explained": opdata::stats::median(explained),
        "overhead": cost.map(|(median, _)| median),
        "overhead_interval": cost.and_then(|(_, interval)| interval),
        "end_to_end_ns": end_to_end(pairs),
        "drift": model.profiled.drift,
        "storage_bytes": model.profiled.storage_bytes,
        "cycles": cycles.iter().map(|s| cycle_json(s, shown)).collect::<Vec<_>>(),
    })
}

fn cycle_json(summary: &Summary, shown: &Shown) -> Value {
    let top = shown.top.unwrap_or(usize::MAX);
    let lines = summary.lines.iter().take(top);
    json!({
        "first_step": summary.first_step,
        "runs": summary.runs,
        "sum_ns": summary.sum_ns,
        "total_ns": summary.total_ns,
        "explained": summary.explained(),
        "peak_bytes": summary.peak_bytes,
        "lines": lines.map(|line| line_json(line, summary)).collect::<Vec<_>>(),
    })
}

fn line_json(line: &Line, summary: &Summary) -> Value {
    json!({
        "name": line.name,
        "class": class(line.class),
        "kind": line.kind,
        "layer": line.layer,
        "self_ns": line.own_ns,
        "total_ns": line.total_ns,
        "share": summary.share(line),
        "device": DEVICE,
        "count": line.count,
        "shapes": line.shapes,
        "hash": line.hash,
        "call_min_ns": line.extremes_ns.0,
        "call_max_ns": line.extremes_ns.1,
        "allocated_bytes": line.allocated_bytes,
        "freed_bytes": line.freed_bytes,
        "live_bytes": line.live_bytes,
        "flops": line.flops,
        "bytes": line.bytes,
        "busy_share": line.busy_share,
        "roofline": line.standing.as_ref().map(standing_json),
    })
}

/// Shares of every roof, and what bounds the call.
pub(super) fn standing_json(standing: &Standing) -> Value {
    let shares = standing.shares.iter();
    let shares = shares.map(|(roof, share)| (roof.name().to_owned(), json!(share)));
    json!({
        "shares": Value::Object(shares.collect()),
        "level": standing.level,
        "bound_by": standing.words(),
    })
}

fn class(class: Class) -> &'static str {
    match class {
        Class::Operator => "operator",
        Class::Machine => "vm",
    }
}

/// Columns of the CSV file.
const CSV_COLUMNS: &str = "Name,Duration (us),Percent,Device,Count,Argument Shapes,Hash,Total (us),Class,Kind,Layer,\
Call Min (us),Call Max (us),Allocated (bytes),Freed (bytes),Live (bytes),FLOPs,Bytes,Busy,Bound By\n";

/// A cycle as CSV: every line, whatever the text shows, then sum and total.
pub fn profile_csv(summary: &Summary) -> String {
    let mut text = CSV_COLUMNS.to_owned();
    for line in &summary.lines {
        let optional = |value: Option<u64>| value.map_or_else(String::new, |v| v.to_string());
        let standing = line.standing.as_ref();
        let fields = [
            quoted(&line.name),
            plain_us(line.own_ns),
            format!("{:.4}", summary.share(line) * 100.0),
            DEVICE.to_owned(),
            line.count.to_string(),
            quoted(line.shapes.as_deref().unwrap_or_default()),
            line.hash.clone().unwrap_or_default(),
            plain_us(line.total_ns),
            class(line.class).to_owned(),
            line.kind.clone().unwrap_or_default(),
            quoted(line.layer.as_deref().unwrap_or_default()),
            plain_us(line.extremes_ns.0),
            plain_us(line.extremes_ns.1),
            line.allocated_bytes.to_string(),
            line.freed_bytes.to_string(),
            line.live_bytes.to_string(),
            optional(line.flops),
            optional(line.bytes),
            line.busy_share
                .map_or_else(String::new, |b| format!("{b:.4}")),
            standing.and_then(|s| s.words()).unwrap_or_default(),
        ];
        text.push_str(&fields.join(","));
        text.push('\n');
    }
    let empty = ",".repeat(CSV_COLUMNS.matches(',').count() - 2);
    for (name, ns) in [("Sum", summary.sum_ns), ("Total", summary.total_ns)] {
        let percent = ns / summary.total_ns * 100.0;
        text.push_str(&format!("{name},{},{percent:.4}{empty}\n", plain_us(ns)));
    }
    text
}

pub(super) fn plain_us(ns: f64) -> String {
    format!("{:.3}", ns / 1e3)
}

/// A field in quotes where CSV needs them.
pub(super) fn quoted(text: &str) -> String {
    match text.contains([',', '"', '\n', '\r']) {
        true => format!("\"{}\"", text.replace('"', "\"\"")),
        false => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::summary::testing::model;
    use crate::profile::summary::{GroupBy, SortBy};

    const SHOWN: Shown = Shown {
        group_by: GroupBy::Operator,
        sort_by: SortBy::Own,
        top: None,
        memory: true,
    };

    #[test]
    fn the_table() {
        insta::assert_snapshot!(profile_text(&model(), &SHOWN, Style::PLAIN));
    }

    #[test]
    fn the_rest_of_a_short_table_is_a_line() {
        let shown = Shown {
            top: Some(1),
            memory: false,
            ..SHOWN
        };
        let text = profile_text(&model(), &shown, Style::PLAIN);
        assert!(text.contains("(1 more)"), "{text}");
        assert!(!text.contains("Allocated"), "{text}");
    }

    #[test]
    fn csv_has_as_many_fields_in_every_line() {
        let model = model();
        let table = summary(
            &model,
            &model.profiled.cycles[0],
            GroupBy::Call,
            SortBy::Own,
        );
        let text = profile_csv(&table);
        insta::assert_snapshot!(text);
    }

    #[test]
    fn json_says_what_is_explained_and_what_watching_costs() {
        let json = profile_json(&model(), &SHOWN);
        assert_eq!(json["explained"], 0.9);
        assert_eq!(json["cycles"][0]["lines"][0]["layer"], "layer1.conv1");
        assert!(json["overhead"].as_f64().unwrap() < 0.02);
    }

    #[test]
    fn thousands_stand_apart() {
        assert_eq!(us(1_234_567_890.0), "1,234,567.89");
        assert_eq!(us(999_994.0), "999.99");
    }
}
