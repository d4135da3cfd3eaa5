//! A profile as text, CSV and JSON: the table that TVM's own profiler printed, and more.

mod csv;
mod json;

use opengine::protocol::CallCounts;
use opreport::table::{Cell, Column, Table};
use opreport::{Style, units};

use crate::profile::advice::advice;
use crate::profile::summary::{Class, Line, Memory, Summary, end_to_end, overhead, summary};
use crate::profile::{ProfiledModel, Shown};
pub use csv::profile_csv;
pub(super) use csv::{plain_us, quoted};
pub use json::profile_json;
pub(super) use json::standing_json;

/// Columns that every table has, then those of counters and of memory, then the rest.
const COLUMNS: [Column; 7] = [
    Column::left("Name").shrinks_to(16),
    Column::right("Duration (us)"),
    Column::right("Percent"),
    Column::left("Device").hides(2),
    Column::right("Count"),
    Column::left("Argument Shapes").shrinks_to(14).hides(4),
    Column::left("Hash").hides(1),
];
const MEMORY_COLUMNS: [Column; 3] = [
    Column::right("Allocated"),
    Column::right("Freed"),
    Column::right("Live"),
];
const LAST_COLUMNS: [Column; 2] = [
    Column::right("Busy").hides(0),
    Column::left("Bound by").hides(5),
];
/// A column of counts; its title is the counter.
const COUNTS_COLUMN: Column = Column::right("").hides(3);
const TOTAL_COLUMN: Column = Column::right("Total (us)");

/// Where a line's calls run.
pub(super) fn device_of(line: &Line, model: &ProfiledModel) -> &'static str {
    match model.simulation {
        None => "cpu0",
        Some(_) if line.untimed => "cpu side",
        Some(_) => "simulated",
    }
}

/// A line's own time, nanoseconds. `None` if a simulator has none.
pub(super) fn own_ns(line: &Line) -> Option<f64> {
    (!line.untimed).then_some(line.own_ns)
}

pub(super) fn us(ns: f64) -> String {
    let digits = format!("{:.2}", ns / 1e3);
    let (whole, rest) = digits.split_once('.').unwrap_or((&digits, ""));
    format!("{}.{rest}", grouped(whole))
}

/// Calls in a run: a whole number unless runs make unlike calls.
pub(super) fn calls_text(calls: f64) -> String {
    match (calls - calls.round()).abs() < 1e-6 {
        true => format!("{calls:.0}"),
        false => format!("{calls:.2}"),
    }
}

/// A whole number with its thousands apart.
fn grouped(whole: &str) -> String {
    let mut grouped = String::new();
    for (place, digit) in whole.chars().enumerate() {
        if place > 0 && (whole.len() - place).is_multiple_of(3) && digit.is_ascii_digit() {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped
}

/// The tables of all cycles.
pub fn profile_text(model: &ProfiledModel, shown: &Shown, style: Style) -> String {
    let threads = match model.simulation {
        None => format!(", {}", units::plural(u64::from(model.threads), "thread")),
        Some(_) => String::new(),
    };
    let mut text = format!(
        "{}, batch {}; {} on {}{threads}\n",
        style.bold(&model.graph.model),
        model.graph.batch,
        model.described,
        model.cpu.as_deref().unwrap_or("an unknown processor"),
    );
    let cycles = &model.profiled.cycles;
    for (place, cycle) in cycles.iter().enumerate() {
        let table = summary(model, cycle, shown.group_by, shown.sort_by);
        text.push_str(&cycle_heading(
            place,
            cycles.len(),
            table.runs,
            table.first_step,
        ));
        text.push_str(&table_text(&table, model, shown, style));
        if shown.memory {
            text.push_str(&memory_text(&Memory::of(model, &table)));
        }
        text.push_str(&match &model.simulation {
            None => format!(
                "\nparts explain {} of the run's time\n",
                units::percent(table.explained())
            ),
            Some(simulation) => format!("\n{simulation}\n{}", untimed_text(&table)),
        });
        for advice in advice(&table) {
            text.push_str(&format!(
                "{}: {}; {}; at most {} of the run ({})\n",
                style.bold(&advice.name),
                advice.bound,
                advice.help,
                units::percent(advice.saves_at_most_share),
                units::time(advice.saves_at_most_ns),
            ));
        }
    }
    text.push_str(&overhead_text(&model.profiled.pairs));
    for counts in &model.profiled.counts {
        if let Err(reason) = &counts.of_calls {
            text.push_str(&format!(
                "{} was not counted: {reason}\n",
                counts.full_name()
            ));
        }
    }
    text.push_str(&format!(
        "the model's output was checked against {}\n",
        model.checked_against
    ));
    if model.calibration.is_none() && model.simulation.is_none() {
        text.push_str(
            "the operators' limits are not known: `opcollect doctor --calibrate` measures the machine's peak and bandwidths\n",
        );
    }
    text
}

/// The parts missing in a simulated total.
fn untimed_text(table: &Summary) -> String {
    let untimed = table.lines.iter().filter(|line| line.untimed);
    let calls: u64 = untimed
        .filter(|line| line.class == Class::Operator)
        .map(|line| line.count)
        .sum();
    format!(
        "the total is the device's alone; work on the CPU side has no time: {}, and the rest of operators done in part\n",
        units::plural(calls, "call")
    )
}

fn memory_text(memory: &Memory) -> String {
    let bytes = |bytes: u64| units::bytes(bytes as f64);
    format!(
        "\nmemory: weights {}, inputs {}, activations {} at the peak, workspace {} (further storage of the virtual machine)\n",
        bytes(memory.weights_bytes),
        bytes(memory.inputs_bytes),
        bytes(memory.activations_bytes),
        bytes(memory.workspace_bytes)
    )
}

/// Heading of a table: the cycle, if there are several, and its runs.
pub(super) fn cycle_heading(place: usize, cycles: usize, runs: usize, first_step: u64) -> String {
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

/// The overhead of the instrument, from pairs of runs without and with it.
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

/// A counter with its unit, as the heading of a column.
fn heading(counts: &CallCounts) -> String {
    format!("{} ({})", counts.full_name(), counts.counter.unit)
}

/// A mean count for people: rare events keep two digits, so that they do not look like none.
fn count(value: f64) -> String {
    match value {
        0.0 => "0".to_owned(),
        value if value < 100.0 => format!("{value:.2}"),
        value => grouped(&format!("{value:.0}")),
    }
}

fn table_text(summary: &Summary, model: &ProfiledModel, shown: &Shown, style: Style) -> String {
    let nested = summary.lines.iter().any(|l| l.total_ns > l.own_ns * 1.0001);
    let mut columns = COLUMNS.to_vec();
    let counters = model.counted();
    columns.extend(counters.map(|(counts, _)| COUNTS_COLUMN.titled(heading(counts))));
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
        table.row(cells(line, summary, model, nested, shown.memory));
    }
    let rest: Vec<&Line> = lines().skip(top).collect();
    if !rest.is_empty() {
        let ns = rest.iter().map(|line| line.own_ns).sum();
        let count: u64 = rest.iter().map(|line| line.count).sum();
        let name = format!("({} more)", rest.len());
        table.row(sums(&name, ns, summary, Some(count)));
    }
    let mut sum = sums("Sum", summary.sum_ns, summary, None);
    sum.resize(COLUMNS.len(), "".into());
    sum.extend(summary.counts().into_iter().map(|sum| count(sum).into()));
    table.row(sum);
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

fn cells(
    line: &Line,
    summary: &Summary,
    model: &ProfiledModel,
    nested: bool,
    memory: bool,
) -> Vec<Cell> {
    let share = own_ns(line).map(|_| format!("{:.2}", summary.share(line) * 100.0));
    let text = |value: &Option<String>| Cell::from(value.clone().unwrap_or_default());
    let bytes = |value: u64| Cell::from(units::bytes(value as f64));
    let mut cells = vec![
        line.name.clone().into(),
        own_ns(line).map(us).unwrap_or_default().into(),
        share.unwrap_or_default().into(),
        device_of(line, model).into(),
        line.count.to_string().into(),
        text(&line.shapes),
        text(&line.hash),
    ];
    cells.extend(line.counts.iter().map(|value| count(*value).into()));
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

fn class(class: Class) -> &'static str {
    match class {
        Class::Operator => "operator",
        Class::Machine => "vm",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::summary::testing::model;

    #[test]
    fn the_table() {
        let shown = Shown {
            memory: true,
            ..Shown::default()
        };
        insta::assert_snapshot!(profile_text(&model(), &shown, Style::PLAIN));
    }

    #[test]
    fn the_rest_of_a_short_table_is_a_line() {
        let shown = Shown {
            top: Some(1),
            ..Shown::default()
        };
        let text = profile_text(&model(), &shown, Style::PLAIN);
        assert!(text.contains("(1 more)"), "{text}");
        assert!(!text.contains("Allocated"), "{text}");
    }

    #[test]
    fn thousands_stand_apart() {
        assert_eq!(us(1_234_567_890.0), "1,234,567.89");
        assert_eq!(us(999_994.0), "999.99");
    }
}
