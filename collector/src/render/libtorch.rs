//! A profile of libtorch as text, CSV and JSON: the columns of `torch.profiler`, with times of one run.

use opreport::table::{Cell, Column, Table};
use opreport::{Style, units};
use optorch::lines::{GroupBy, Line, Summary, summary};
use serde_json::{Value, json};

use super::profile::{calls_text, cycle_heading, overhead_text, plain_us, quoted, us};
use crate::profile::libtorch::{TorchProfile, TorchShown};
use crate::profile::summary::{end_to_end, overhead};

const COLUMNS: [Column; 9] = [
    Column::left("Name").shrinks_to(16),
    Column::right("Self CPU %"),
    Column::right("Self CPU (us)"),
    Column::right("CPU total %").hides(1),
    Column::right("CPU total (us)"),
    Column::right("CPU time avg (us)").hides(0),
    Column::right("# of Calls"),
    Column::right("MFLOPs").hides(1),
    Column::right("GFLOP/s").hides(1),
];
const MEMORY_COLUMNS: [Column; 2] = [
    Column::right("Self CPU Mem"),
    Column::right("CPU Mem").hides(2),
];
/// Columns shown only if a GPU took part.
const DEVICE_COLUMNS: [Column; 5] = [
    Column::right("Self CUDA (us)"),
    Column::right("Self CUDA %"),
    Column::right("CUDA total (us)"),
    Column::right("CUDA total %").hides(1),
    Column::right("CUDA time avg (us)").hides(0),
];
const SHAPES_COLUMN: Column = Column::left("Input Shapes").shrinks_to(14);
const MODULE_COLUMN: Column = Column::left("Module").shrinks_to(14);

/// The tables of all cycles.
pub fn torch_text(profile: &TorchProfile, shown: &TorchShown, style: Style) -> String {
    let mut text = format!(
        "{}, batch {}; libtorch on {}, {}\n",
        style.bold(&profile.model),
        profile.batch,
        profile.cpu.as_deref().unwrap_or("an unknown processor"),
        units::plural(u64::from(profile.threads), "thread"),
    );
    let cycles = &profile.cycles;
    for (place, cycle) in cycles.iter().enumerate() {
        let table = summary(cycle, shown.group_by, shown.sort_by);
        text.push_str(&cycle_heading(
            place,
            cycles.len(),
            table.runs,
            table.first_step,
        ));
        text.push_str(&table_text(&table, shown, style));
        text.push_str(&format!(
            "\noperators explain {} of the run's time\n",
            units::percent(table.explained())
        ));
    }
    text.push_str(&overhead_text(&profile.pairs));
    text.push_str("the model's output was checked against PyTorch\n");
    text
}

fn table_text(summary: &Summary, shown: &TorchShown, style: Style) -> String {
    let by_shape = matches!(shown.group_by, GroupBy::Shape | GroupBy::Call);
    let mut columns = COLUMNS.to_vec();
    if shown.flags.memory {
        columns.extend(MEMORY_COLUMNS);
    }
    if summary.device_ns.is_some() {
        columns.extend(DEVICE_COLUMNS);
    }
    if by_shape {
        columns.push(SHAPES_COLUMN);
    }
    if shown.flags.stack {
        columns.push(MODULE_COLUMN);
    }
    let mut table = Table::new(&columns);
    let top = shown.flags.top.unwrap_or(usize::MAX);
    for line in summary.lines.iter().take(top) {
        let mut cells = cells(line, summary);
        if shown.flags.memory {
            let bytes = |value: f64| Cell::from(signed_bytes(value));
            cells.extend([line.own_bytes, line.total_bytes].map(bytes));
        }
        cells.extend(device_cells(line, summary));
        let text = |value: &Option<String>| Cell::from(value.clone().unwrap_or_default());
        if by_shape {
            cells.push(text(&line.shapes));
        }
        if shown.flags.stack {
            cells.push(text(&line.module));
        }
        table.row(cells);
    }
    let rest: Vec<&Line> = summary.lines.iter().skip(top).collect();
    if !rest.is_empty() {
        let name = format!("({} more)", rest.len());
        let ns = rest.iter().map(|line| line.own_ns).sum();
        table.row(sums(&name, ns, summary));
    }
    table.row(sums("Sum", summary.sum_ns, summary));
    table.row(sums("Total", summary.total_ns, summary));
    table.render(style)
}

fn cells(line: &Line, summary: &Summary) -> Vec<Cell> {
    vec![
        line.name.clone().into(),
        percent(summary.share(line.own_ns)).into(),
        us(line.own_ns).into(),
        percent(summary.share(line.total_ns)).into(),
        us(line.total_ns).into(),
        us(line.mean_ns()).into(),
        calls_text(line.count).into(),
        flops(line.flops / 1e6).into(),
        flops(line.flops / line.total_ns).into(),
    ]
}

/// Floating-point operations or their rate; empty if there is no formula.
fn flops(value: f64) -> String {
    match value > 0.0 {
        true => format!("{value:.2}"),
        false => String::new(),
    }
}

/// Times of the GPU's work; empty if no GPU took part.
fn device_cells(line: &Line, summary: &Summary) -> Vec<Cell> {
    let share = |ns: f64| summary.device_share(ns).map(percent);
    let (Some(own), Some(total)) = (share(line.own_device_ns), share(line.total_device_ns)) else {
        return Vec::new();
    };
    vec![
        us(line.own_device_ns).into(),
        own.into(),
        us(line.total_device_ns).into(),
        total.into(),
        us(line.total_device_ns / line.count).into(),
    ]
}

fn sums(name: &str, ns: f64, summary: &Summary) -> Vec<Cell> {
    vec![
        Cell::painted(name, Style::bold),
        percent(summary.share(ns)).into(),
        us(ns).into(),
    ]
}

fn percent(share: f64) -> String {
    format!("{:.2}", share * 100.0)
}

fn signed_bytes(value: f64) -> String {
    let sign = if value < 0.0 { "-" } else { "" };
    format!("{sign}{}", units::bytes(value.abs()))
}

/// The profile as one object: the same numbers for every line of every cycle, nanoseconds and bytes for one run.
pub fn torch_json(profile: &TorchProfile, shown: &TorchShown) -> Value {
    let cost = overhead(&profile.pairs);
    let summaries = profile.cycles.iter();
    let cycles: Vec<Summary> = summaries
        .map(|cycle| summary(cycle, shown.group_by, shown.sort_by))
        .collect();
    json!({
        "framework": "torch",
        "model": profile.model,
        "batch": profile.batch,
        "cpu": profile.cpu,
        "threads": profile.threads,
        "schedule": profile.schedule,
        "checked_against": "PyTorch",
        "largest_error": profile.error,
        "explained": opdata::stats::median(cycles.iter().map(Summary::explained)),
        "overhead": cost.map(|(median, _)| median),
        "overhead_interval": cost.and_then(|(_, interval)| interval),
        "end_to_end_ns": end_to_end(&profile.pairs),
        "cycles": cycles.iter().map(|s| cycle_json(s, shown)).collect::<Vec<_>>(),
    })
}

fn cycle_json(summary: &Summary, shown: &TorchShown) -> Value {
    let lines = summary
        .lines
        .iter()
        .take(shown.flags.top.unwrap_or(usize::MAX));
    json!({
        "first_step": summary.first_step,
        "runs": summary.runs,
        "sum_ns": summary.sum_ns,
        "total_ns": summary.total_ns,
        "cuda_ns": summary.device_ns,
        "explained": summary.explained(),
        "lines": lines.map(|line| line_json(line, summary, shown)).collect::<Vec<_>>(),
    })
}

fn line_json(line: &Line, summary: &Summary, shown: &TorchShown) -> Value {
    json!({
        "name": line.name,
        "self_ns": line.own_ns,
        "self_share": summary.share(line.own_ns),
        "total_ns": line.total_ns,
        "total_share": summary.share(line.total_ns),
        "mean_ns": line.mean_ns(),
        "count": line.count,
        "shapes": line.shapes,
        "module": line.module,
        "self_bytes": shown.flags.memory.then_some(line.own_bytes),
        "total_bytes": shown.flags.memory.then_some(line.total_bytes),
        "self_cuda_ns": summary.device_ns.map(|_| line.own_device_ns),
        "self_cuda_share": summary.device_share(line.own_device_ns),
        "flops": (line.flops > 0.0).then_some(line.flops),
        "cuda_total_ns": summary.device_ns.map(|_| line.total_device_ns),
    })
}

/// Columns of the CSV file.
const CSV_COLUMNS: &str = "Name,Self CPU %,Self CPU (us),CPU total %,CPU total (us),CPU time avg (us),# of Calls,\
Self CPU Mem (bytes),CPU Mem (bytes),Input Shapes,Module,Self CUDA (us),CUDA total (us),FLOPs\n";

/// A cycle as CSV: every line, whatever the text shows.
pub fn torch_csv(summary: &Summary, shown: &TorchShown) -> String {
    let mut text = CSV_COLUMNS.to_owned();
    for line in &summary.lines {
        // A missing record is empty, not 0.
        let bytes = |value: f64| match shown.flags.memory {
            true => format!("{value:.0}"),
            false => String::new(),
        };
        let device = |ns: f64| summary.device_ns.map_or_else(String::new, |_| plain_us(ns));
        let fields = [
            quoted(&line.name),
            format!("{:.4}", summary.share(line.own_ns) * 100.0),
            plain_us(line.own_ns),
            format!("{:.4}", summary.share(line.total_ns) * 100.0),
            plain_us(line.total_ns),
            plain_us(line.mean_ns()),
            calls_text(line.count),
            bytes(line.own_bytes),
            bytes(line.total_bytes),
            quoted(line.shapes.as_deref().unwrap_or_default()),
            quoted(line.module.as_deref().unwrap_or_default()),
            device(line.own_device_ns),
            device(line.total_device_ns),
            match line.flops > 0.0 {
                true => format!("{:.0}", line.flops),
                false => String::new(),
            },
        ];
        text.push_str(&fields.join(","));
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use opengine::protocol::StepSchedule;
    use optorch::lines::SortBy;
    use optorch::protocol::{Cycle, Event, What};

    use super::*;
    use crate::profile::Shown;

    /// One run of a convolution, which calls another operator, and an activation.
    fn profile() -> TorchProfile {
        let call = |name: &str, start_ns, duration_ns| Event {
            name: name.to_owned(),
            start_ns,
            duration_ns,
            shapes: vec![vec![1, 3, 8, 8], vec![4, 3, 3, 3], vec![]],
            modules: vec![
                "TOP(Net)::forward".to_owned(),
                "conv1(Conv2d)::forward".to_owned(),
            ],
            ..Event::default()
        };
        TorchProfile {
            model: "net".to_owned(),
            batch: 1,
            cpu: Some("a processor".to_owned()),
            threads: 2,
            schedule: StepSchedule {
                skip_first: 0,
                wait: 0,
                warmup: 1,
                active: 1,
                repeat: 1,
            },
            error: 1e-7,
            cycles: vec![Cycle {
                first_step: 1,
                steps_ns: vec![2_000_000],
                events: vec![
                    call("aten::conv2d", 1_000, 1_500_000),
                    call("aten::mkldnn_convolution", 2_000, 1_400_000),
                    call("aten::relu_", 1_600_000, 100_000),
                ],
            }],
            pairs: vec![(1_900_000.0, 2_000_000.0); 10],
        }
    }

    fn with_modules() -> TorchShown {
        TorchShown {
            flags: Shown {
                stack: true,
                ..Shown::default()
            },
            ..TorchShown::default()
        }
    }

    #[test]
    fn the_table() {
        insta::assert_snapshot!(torch_text(&profile(), &with_modules(), Style::PLAIN));
    }

    /// The same, with a kernel that the convolution asked for on a GPU.
    #[test]
    fn where_a_gpu_took_part_the_table_has_its_columns() {
        let mut profile = profile();
        let events = &mut profile.cycles[0].events;
        events[1].correlation = 5;
        events.push(Event {
            name: "implicit_gemm".to_owned(),
            what: What::Kernel,
            start_ns: 9_000_000,
            duration_ns: 250_000,
            thread: 7,
            correlation: 5,
            ..Event::default()
        });
        let shown = TorchShown::default();
        insta::assert_snapshot!(torch_text(&profile, &shown, Style::PLAIN));
        let json = torch_json(&profile, &shown);
        let lines = json["cycles"][0]["lines"].as_array().unwrap();
        let outer = lines.iter().find(|l| l["name"] == "aten::conv2d").unwrap();
        assert_eq!(outer["self_cuda_ns"], 0.0);
        assert_eq!(outer["cuda_total_ns"], 250_000.0);
        let table = summary(&profile.cycles[0], GroupBy::Operator, SortBy::Own);
        let csv = torch_csv(&table, &shown);
        assert!(csv.contains(",250.000,250.000,\n"), "{csv}");
    }

    #[test]
    fn csv_leaves_empty_what_was_not_recorded() {
        let table = summary(&profile().cycles[0], GroupBy::Shape, SortBy::Own);
        let text = torch_csv(&table, &with_modules());
        let line = text.lines().nth(1).unwrap();
        assert!(
            line.starts_with("aten::mkldnn_convolution,87.5000,1400.000,"),
            "{line}"
        );
        assert!(
            line.ends_with(",1,,,\"[1, 3, 8, 8], [4, 3, 3, 3], []\",conv1,,,"),
            "{line}"
        );
    }

    #[test]
    fn json_has_shares_of_the_operators_time() {
        let json = torch_json(&profile(), &with_modules());
        assert_eq!(json["cycles"][0]["lines"][0]["self_share"], 0.875);
        assert_eq!(json["cycles"][0]["lines"][0]["self_bytes"], Value::Null);
        assert_eq!(json["explained"], 0.8);
    }
}
