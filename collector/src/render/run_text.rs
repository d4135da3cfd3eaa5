//! The result of a run as text. For each number of threads it has the operators, slowest first, and
//! their sum beside the end-to-end time. Then come failures with their reasons, and where the data
//! are.

use std::collections::BTreeSet;

use opdata::{Quality, RunState, Status};
use opengine::device::Conditions;
use opmodels::Source;
use opreport::table::{Cell, Column, Table};
use opreport::{Style, units};

use super::compiled::compiled_text;
use super::plan::model_settings;
use super::swept::swept_text;
use super::tuned::tuned_text;
use crate::report::{
    Latency, ModelOutcome, OperatorReport, PointOutcome, RunReport, ThreadTotals, TimeReport,
};

/// A column of counts; its title is the counter.
const COUNTS_COLUMN: Column = Column::right("").hides(4);

/// Columns of the operator table.
const COLUMNS: [Column; 11] = [
    Column::left("operator").shrinks_to(20),
    Column::left("kind").hides(1),
    Column::left("shapes").shrinks_to(14).hides(3),
    Column::right("count"),
    Column::right("threads").hides(2),
    Column::right("median"),
    Column::right("±"),
    Column::right("share"),
    Column::right("GFLOP/s"),
    Column::right("GB/s"),
    Column::left("grade").hides(0),
];

/// The report of a run.
pub fn run_text(report: &RunReport, style: Style) -> String {
    let mut out = heading(report, style);
    for at in report.conditions() {
        let totals = report.totals(at);
        out.push('\n');
        if report.is_compiled_only() {
            out.push_str(&compiled_text(report, at, style));
            continue;
        }
        match swept_text(report, at, style) {
            Some(swept) => out.push_str(&swept),
            None => out.push_str(&operators(report, &totals, style)),
        }
        out.push_str(&sums(&totals, report.operators.len() as u64, style));
        out.push_str(&latency(&totals));
    }
    out.push_str(&tuned_text(&report.tuned, style));
    out.push_str(&failures(report, style));
    out.push('\n');
    for warning in &report.warnings {
        out.push_str(&format!("{} {warning}\n", style.yellow("warning:")));
    }
    out.push_str(&checks(report));
    out.push_str(&closing(report, style));
    out
}

fn heading(report: &RunReport, style: Style) -> String {
    let model = &report.model;
    let mut parts = vec![format!("batch {}", report.batch)];
    parts.extend(model_settings(model));
    let source = if model.source == Source::LOCAL {
        String::new()
    } else {
        format!(" ({})", model.source)
    };
    format!(
        "{}{source}, {}; {} on {}\n",
        style.bold(&model.model),
        parts.join(", "),
        report.target,
        report.cpu
    )
}

/// Operators under the same conditions: the measured ones by their part of the sum, then the others.
fn operators(report: &RunReport, totals: &ThreadTotals<'_>, style: Style) -> String {
    let time = |operator: &OperatorReport| {
        operator
            .median_ns(totals.conditions)
            .map_or(-1.0, |median| median * operator.count as f64)
    };
    let mut sorted: Vec<&OperatorReport> = report.operators.iter().collect();
    sorted.sort_by(|a, b| time(b).total_cmp(&time(a)));
    let counters = counters(report, totals.conditions);
    let mut columns = COLUMNS.to_vec();
    columns.extend(
        counters
            .iter()
            .map(|name| COUNTS_COLUMN.titled(name.clone())),
    );
    let mut table = Table::new(&columns);
    for operator in sorted {
        let Some(point) = operator.point(totals.conditions) else {
            continue;
        };
        let threads = totals.conditions.threads.to_string();
        let mut cells: Vec<Cell> = vec![
            operator.name.clone().into(),
            operator.kind.clone().into(),
            operator.shapes.clone().into(),
            operator.count.to_string().into(),
            threads.into(),
        ];
        match &point.outcome {
            PointOutcome::Measured { time, .. } => {
                let share = totals
                    .operators_sum_ns
                    .filter(|sum| *sum > 0.0)
                    .map(|sum| time.median_ns * operator.count as f64 / sum);
                cells.extend([
                    units::time(time.median_ns).into(),
                    interval(time).into(),
                    or_dash(share.map(units::percent)).into(),
                    or_dash(operator.flops_per_s(time.median_ns).map(units::giga)).into(),
                    or_dash(operator.bytes_per_s(time.median_ns).map(units::giga)).into(),
                    grade(time.quality),
                ]);
                let counts = counters.iter().map(|name| point.counts.get(name));
                let counts = counts.map(|count| or_dash(count.copied().map(units::count)));
                cells.extend(counts.map(Cell::from));
            }
            PointOutcome::Compiled(_) => cells.push(Status::Compiled.as_str().into()),
            PointOutcome::NotMeasured { status, .. } => {
                cells.push(Cell::painted(status.as_str(), Style::red));
            }
        }
        table.row(cells);
    }
    table.render(style)
}

/// The counters that were requested by name or by source, as far as a point under these conditions has them.
fn counters(report: &RunReport, at: &Conditions) -> Vec<String> {
    let points = report.operators.iter().filter_map(|o| o.point(at));
    let counted: BTreeSet<&String> = points.flat_map(|point| point.counts.keys()).collect();
    let asked = |name: &str| {
        let of = |text: &String| {
            name == text
                || name
                    .strip_prefix(text.as_str())
                    .is_some_and(|rest| rest.starts_with(':'))
        };
        report.counters.iter().any(of)
    };
    counted
        .into_iter()
        .filter(|name| asked(name))
        .cloned()
        .collect()
}

/// How the whole model's latencies are spread; nothing where it was not measured.
fn latency(totals: &ThreadTotals<'_>) -> String {
    let Some(timing) = totals.model_timing() else {
        return String::new();
    };
    let Latency { p95_ns, p99_ns, .. } = timing.latency;
    let calls = timing.latency.calls_per_s();
    format!(
        "whole model: p50 {}, p95 {}, p99 {} of {}; {} calls/s\n",
        units::time(timing.time.median_ns),
        units::time(p95_ns),
        units::time(p99_ns),
        units::plural(timing.time.samples, "run"),
        or_dash(calls.map(units::count)),
    )
}

fn sums(totals: &ThreadTotals<'_>, operators: u64, style: Style) -> String {
    let label = totals.conditions.to_string();
    let mut parts = Vec::new();
    if let Some(sum) = totals.operators_sum_ns {
        let lacking = match totals.missing {
            0 => String::new(),
            missing => format!(" ({missing} of {operators} missing)"),
        };
        parts.push(format!(
            "operators {}{lacking}",
            style.bold(&units::time(sum))
        ));
    }
    match totals.whole_model.map(|run| &run.outcome) {
        Some(ModelOutcome::Measured(timing)) => {
            parts.push(format!(
                "end to end {} ±{}",
                style.bold(&units::time(timing.time.median_ns)),
                interval(&timing.time)
            ));
            if let Some(share) = totals.explained_share() {
                let inside = totals
                    .instrumented_share()
                    .map_or_else(String::new, |share| {
                        format!(" ({} inside the model)", units::percent(share))
                    });
                parts.push(format!(
                    "operators explain {}{inside}",
                    units::percent(share)
                ));
            }
        }
        Some(ModelOutcome::NotMeasured { status, .. }) => {
            parts.push(format!("end to end {}", style.red(status.as_str())));
        }
        None => {}
    }
    if parts.is_empty() {
        parts.push("nothing measured".to_owned());
    }
    format!("{}: {}\n", style.bold(&label), parts.join(", "))
}

/// The references of the imports' and the whole model's outputs, once for all thread counts.
fn checks(report: &RunReport) -> String {
    let mut references: Vec<&str> = Vec::new();
    for run in &report.whole_model {
        if let ModelOutcome::Measured(timing) = &run.outcome {
            let reference = timing.checked_against.as_str();
            if !references.contains(&reference) {
                references.push(reference);
            }
        }
    }
    let imports = report.import_checks.iter();
    let models = references.iter();
    imports
        .map(|check| format!("the import was {check}\n"))
        .chain(
            models.map(|reference| format!("the model's output was checked against {reference}\n")),
        )
        .collect()
}

fn failures(report: &RunReport, style: Style) -> String {
    let points = report.operators.iter().flat_map(|operator| {
        operator
            .points
            .iter()
            .filter_map(|point| match &point.outcome {
                PointOutcome::Measured { .. } | PointOutcome::Compiled(_) => None,
                PointOutcome::NotMeasured { status, reason } => Some((
                    format!("{} ({})", operator.name, point.conditions),
                    *status,
                    reason.as_str(),
                )),
            })
    });
    let models = report
        .whole_model
        .iter()
        .filter_map(|run| match &run.outcome {
            ModelOutcome::Measured(_) => None,
            ModelOutcome::NotMeasured { status, reason } => Some((
                format!("whole model ({})", run.conditions.without_cache()),
                *status,
                reason.as_str(),
            )),
        });
    let lines: Vec<String> = points
        .chain(models)
        .map(|(what, status, reason)| {
            format!("  {what}: {}: {reason}\n", style.red(status.as_str()))
        })
        .collect();
    if lines.is_empty() {
        return String::new();
    }
    format!("\n{}\n{}", style.bold("not measured:"), lines.concat())
}

fn closing(report: &RunReport, style: Style) -> String {
    let counts = report.counts();
    let mut parts = vec![
        units::plural(report.operator_count(), "operator"),
        units::plural(counts.points, "point"),
    ];
    if counts.compiled > 0 {
        parts.push(format!("{} compiled", counts.compiled));
    }
    if counts.measured > 0 || counts.compiled == 0 {
        parts.push(format!("{} {}", counts.measured, report.timed));
    }
    if counts.failed > 0 {
        parts.push(style.red(&format!("{} failed", counts.failed)));
    }
    if counts.skipped > 0 {
        parts.push(format!("{} skipped", counts.skipped));
    }
    let took = units::wall(report.wall_ns);
    let end = match report.state {
        RunState::Finished | RunState::Running => format!("in {took}"),
        RunState::Interrupted => style.yellow(&format!(
            "stopped after {took}, {} left",
            units::plural(report.left, "point")
        )),
    };
    let out = report.out.display();
    let comma = if report.state == RunState::Interrupted {
        ","
    } else {
        ""
    };
    let mut text = format!("{}{comma} {end}; data in {out}\n", parts.join(", "));
    if report.state == RunState::Interrupted {
        text.push_str(&format!("go on with: opcollect --resume {out}\n"));
    }
    text
}

/// The interval as `1.2 %` of the median.
fn interval(time: &TimeReport) -> String {
    or_dash(time.relative_half_width().map(units::percent))
}

fn grade(quality: Option<Quality>) -> Cell {
    let Some(quality) = quality else {
        return String::new().into();
    };
    match quality {
        Quality::A | Quality::B => quality.as_str().into(),
        Quality::C | Quality::D => Cell::painted(quality.as_str(), Style::yellow),
    }
}

fn or_dash(text: Option<String>) -> String {
    text.unwrap_or_else(|| "-".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::render::testing::{finished, interrupted};

    #[test]
    fn a_finished_run() {
        insta::assert_snapshot!(run_text(&finished(), Style::PLAIN), @"
        resnet-18, batch 1; llvm -mcpu=znver5 on AMD EPYC 9755

        operator         kind      shapes                           count  threads    median      ±   share  GFLOP/s  GB/s  grade
        conv2d_add_relu  conv2d    1x64x56x56;4x64x3x3x16;1x64x1x1      4        1  1.234 ms  1.2 %  98.8 %      188  1.42  A
        max_pool2d       max_pool  1x64x112x112                         1        1  61.00 µs  1.2 %   1.2 %     26.3  28.7  A
        1 thread, hot: operators 4.999 ms, end to end 5.100 ms ±1.2 %, operators explain 98.0 % (99.2 % inside the model)
        whole model: p50 5.100 ms, p95 5.610 ms, p99 6.120 ms of 24 runs; 194 calls/s

        operator         kind      shapes                           count  threads    median      ±   share  GFLOP/s  GB/s  grade
        conv2d_add_relu  conv2d    1x64x56x56;4x64x3x3x16;1x64x1x1      4        2  640.4 µs  1.2 %  98.5 %      362  2.74  A
        max_pool2d       max_pool  1x64x112x112                         1        2  40.00 µs  1.2 %   1.5 %     40.1  43.8  A
        2 threads, hot: operators 2.602 ms, end to end 2.700 ms ±1.2 %, operators explain 96.4 % (99.2 % inside the model)
        whole model: p50 2.700 ms, p95 2.970 ms, p99 3.240 ms of 24 runs; 367 calls/s

        the import was checked against ONNX Runtime 1.31.1
        the model's output was checked against the unscheduled model
        2 operators, 4 points, 4 measured in 41 s; data in runs/20260131T120000Z-resnet-18-llvm
        ");
    }

    #[test]
    fn a_narrow_terminal() {
        let style = Style {
            width: Some(80),
            ..Style::PLAIN
        };
        let text = run_text(&finished(), style);
        let rows = text.lines().filter(|line| line.contains("conv2d"));
        assert!(rows.clone().count() > 0);
        for row in rows {
            assert!(row.chars().count() <= 80, "{row}");
        }
        insta::assert_snapshot!(text, @"
        resnet-18, batch 1; llvm -mcpu=znver5 on AMD EPYC 9755

        operator         shapes            count    median      ±   share  GFLOP/s  GB/s
        conv2d_add_relu  1x64x56x…x64x1x1      4  1.234 ms  1.2 %  98.8 %      188  1.42
        max_pool2d       1x64x112x112          1  61.00 µs  1.2 %   1.2 %     26.3  28.7
        1 thread, hot: operators 4.999 ms, end to end 5.100 ms ±1.2 %, operators explain 98.0 % (99.2 % inside the model)
        whole model: p50 5.100 ms, p95 5.610 ms, p99 6.120 ms of 24 runs; 194 calls/s

        operator         shapes            count    median      ±   share  GFLOP/s  GB/s
        conv2d_add_relu  1x64x56x…x64x1x1      4  640.4 µs  1.2 %  98.5 %      362  2.74
        max_pool2d       1x64x112x112          1  40.00 µs  1.2 %   1.5 %     40.1  43.8
        2 threads, hot: operators 2.602 ms, end to end 2.700 ms ±1.2 %, operators explain 96.4 % (99.2 % inside the model)
        whole model: p50 2.700 ms, p95 2.970 ms, p99 3.240 ms of 24 runs; 367 calls/s

        the import was checked against ONNX Runtime 1.31.1
        the model's output was checked against the unscheduled model
        2 operators, 4 points, 4 measured in 41 s; data in runs/20260131T120000Z-resnet-18-llvm
        ");
    }

    #[test]
    fn counters_that_were_asked_for_have_columns() {
        let mut report = finished();
        assert!(!run_text(&report, Style::PLAIN).contains("page-faults"));
        report.counters = vec!["perf".to_owned()];
        let text = run_text(&report, Style::PLAIN);
        assert!(text.contains("perf:page-faults"), "{text}");
        report.counters = vec!["per".to_owned()];
        assert!(!run_text(&report, Style::PLAIN).contains("page-faults"));
    }

    #[test]
    fn an_interrupted_run() {
        insta::assert_snapshot!(run_text(&interrupted(), Style::PLAIN), @r#"
        resnet-18, batch 1; llvm -mcpu=znver5 on AMD EPYC 9755

        operator         kind      shapes                           count  threads    median      ±    share  GFLOP/s  GB/s  grade
        conv2d_add_relu  conv2d    1x64x56x56;4x64x3x3x16;1x64x1x1      4        1  1.234 ms  1.2 %  100.0 %      188  1.42  A
        max_pool2d       max_pool  1x64x112x112                         1        1   crashed
        1 thread, hot: operators 4.938 ms (1 of 2 missing), end to end wrong_result

        operator         kind      shapes                           count  threads    median      ±    share  GFLOP/s  GB/s  grade
        conv2d_add_relu  conv2d    1x64x56x56;4x64x3x3x16;1x64x1x1      4        2  640.4 µs  1.2 %  100.0 %      362  2.74  A
        max_pool2d       max_pool  1x64x112x112                         1        2   skipped
        2 threads, hot: operators 2.562 ms (1 of 2 missing)

        not measured:
          max_pool2d (1 thread, hot): crashed: the worker ended by signal 11
          max_pool2d (2 threads, hot): skipped: interrupted
          whole model (1 thread): wrong_result: output 0 is off by 0.3 at [0, 17]

        warning: the governor is powersave
        the import was checked against ONNX Runtime 1.31.1
        2 operators, 4 points, 2 measured, 1 failed, 1 skipped, stopped after 9.3 s, 2 points left; data in runs/20260131T120000Z-resnet-18-llvm
        go on with: opcollect --resume runs/20260131T120000Z-resnet-18-llvm
        "#);
    }
}
