//! Operators at the same time: slowdowns and throughput of groups, and models run by a schedule.

use opdata::contract::pairs::PairRow;
use opreport::table::{Cell, Column, Table};
use opreport::{Style, units};
use serde_json::{Value, json};

use crate::side_by_side::cotune::{CotuneReport, Objective};
use crate::side_by_side::graph::GraphReport;
use crate::side_by_side::pairs::{PairReplayed, PairsReport};

/// Groups that are listed; the others are in the file.
const SHOWN: usize = 20;

/// The groups that gain most and least, and where the rows are.
pub fn pairs_text(report: &PairsReport, style: Style) -> String {
    let mut groups = groups(&report.rows);
    groups.sort_by(|a, b| gain(b).total_cmp(&gain(a)));
    let mut table = Table::new(&[
        Column::left("operators").shrinks_to(24),
        Column::left("split"),
        Column::left("mode").hides(0),
        Column::right("alone"),
        Column::right("slowdown"),
        Column::right("throughput"),
        Column::left("grade"),
        Column::left("group").hides(1),
    ]);
    let joined = |rows: &[&PairRow], text: &dyn Fn(&PairRow) -> String| {
        rows.iter()
            .map(|row| text(row))
            .collect::<Vec<_>>()
            .join(" | ")
    };
    for rows in groups.iter().take(SHOWN) {
        let first = rows[0];
        table.row([
            Cell::from(joined(rows, &|row| row.op_name.clone())),
            first.split.as_str().into(),
            first.mode.as_str().into(),
            joined(rows, &|row| {
                row.alone_ns.map_or_else(String::new, units::time)
            })
            .into(),
            joined(rows, &|row| {
                row.slowdown.map_or_else(String::new, |s| format!("{s:.3}"))
            })
            .into(),
            match first.throughput_gain {
                Some(gain) => format!("×{gain:.3}"),
                None => first.status.clone(),
            }
            .into(),
            joined(rows, &|row| row.grade.clone().unwrap_or_default()).into(),
            first.group_id.as_str().into(),
        ]);
    }
    let mut out = table.render(style);
    if groups.len() > SHOWN {
        out.push_str(&format!("… and {} more\n", groups.len() - SHOWN));
    }
    let measured = groups
        .iter()
        .filter(|rows| rows[0].slowdown.is_some())
        .count();
    out.push_str(&format!(
        "\nslowdown: time beside the others over time alone, on the same processors; throughput: work done at the same time over \
         one operator after the other on all of these processors\n{} of {} measured, of {} possible; data in {}\n",
        measured,
        units::plural(report.wanted as u64, "group"),
        report.possible,
        report.folder.display()
    ));
    out
}

/// The rows of each group, in the order of the groups.
fn groups(rows: &[PairRow]) -> Vec<Vec<&PairRow>> {
    let mut all: Vec<Vec<&PairRow>> = Vec::new();
    for row in rows {
        match all.last_mut() {
            Some(last) if last[0].group_id == row.group_id => last.push(row),
            _ => all.push(vec![row]),
        }
    }
    all
}

fn gain(rows: &[&PairRow]) -> f64 {
    rows[0].throughput_gain.unwrap_or(0.0)
}

/// A group then and now.
pub fn pair_replay_text(replayed: &PairReplayed, style: Style) -> String {
    let mut table = Table::new(&[
        Column::left("operator").shrinks_to(20),
        Column::right("slowdown then"),
        Column::right("interval"),
        Column::right("now"),
        Column::right("interval"),
    ]);
    for (before, now) in replayed.before.iter().zip(&replayed.now) {
        let ratio = |value: Option<f64>| value.map_or_else(String::new, |v| format!("{v:.3}"));
        let interval =
            |row: &PairRow| format!("{} … {}", ratio(row.slowdown_low), ratio(row.slowdown_high));
        table.row([
            Cell::from(before.op_name.as_str()),
            ratio(before.slowdown).into(),
            interval(before).into(),
            ratio(now.slowdown).into(),
            interval(now).into(),
        ]);
    }
    let verdict = match replayed.is_like_before() {
        true => "as before",
        false => "another slowdown than before",
    };
    format!("{}{verdict}\n", table.render(style))
}

/// The replay of a pair as JSON.
pub fn pair_replay_json(replayed: &PairReplayed) -> Value {
    json!({
        "before": replayed.before,
        "now": replayed.now,
        "is_like_before": replayed.is_like_before(),
    })
}

/// The operators' own best schedules and the best combination, measured in turn.
pub fn cotune_text(report: &CotuneReport, style: Style) -> String {
    let mut table = Table::new(&[
        Column::left("tuned"),
        Column::left("split"),
        Column::left("operator").shrinks_to(20),
        Column::right("predicted"),
        Column::right("measured"),
        Column::left("schedule").hides(0),
    ]);
    for (name, combination) in [("apart", &report.apart), ("together", &report.together)] {
        for (place, operator) in report.operators.iter().enumerate() {
            table.row([
                Cell::from(name),
                combination.split.as_str().into(),
                operator.as_str().into(),
                units::time(combination.predicted_ns[place]).into(),
                units::time(combination.together_ns[place]).into(),
                match &combination.schedules[place] {
                    None => "default".to_owned(),
                    Some(spec) => spec.key(),
                }
                .into(),
            ]);
        }
    }
    format!(
        "{}\n{} together: ×{:.3} ({:.3} … {:.3}) of the operators' own best schedules, in turn\n{} schedules timed alone, {} \
         failed; {} timed together\n",
        table.render(style),
        objective(report.objective),
        report.gain.median,
        report.gain.low,
        report.gain.high,
        report.timed,
        report.failed,
        units::plural(report.measured as u64, "combination"),
    )
}

fn objective(objective: Objective) -> &'static str {
    match objective {
        Objective::Throughput => "throughput",
        Objective::Latency => "latency",
    }
}

/// The report of tuning together as JSON.
pub fn cotune_json(report: &CotuneReport) -> Value {
    json!({
        "operators": report.operators,
        "objective": objective(report.objective),
        "apart": report.apart,
        "together": report.together,
        "gain": report.gain.median,
        "gain_interval": [report.gain.low, report.gain.high],
        "timed": report.timed,
        "failed": report.failed,
        "measured": report.measured,
    })
}

/// Times of each way to run the models.
pub fn graph_text(report: &GraphReport, style: Style) -> String {
    let mut table =
        Table::headed("executor|#stages|#lanes|#median|#speedup|#95 % interval|outputs");
    for way in &report.ways {
        let count = |many: usize| match way.stages {
            0 => String::new(),
            _ => many.to_string(),
        };
        table.row([
            Cell::from(way.executor),
            count(way.stages).into(),
            count(way.lanes).into(),
            units::time(way.median_ns).into(),
            format!("×{:.3}", way.speedup.median).into(),
            format!("{:.3} … {:.3}", way.speedup.low, way.speedup.high).into(),
            match way.same_bits {
                true => "same bits as vm",
                false => "differ from vm",
            }
            .into(),
        ]);
    }
    let threads = units::plural(u64::from(report.threads), "thread");
    let mut out = format!(
        "{}, {threads}\n\n{}",
        report.models.join(" and "),
        table.render(style)
    );
    if let (Some(expected), Some(way)) = (&report.expected, report.ways.last()) {
        out.push_str(&format!(
            "\nexpected {} by the schedule, measured {} ({:+.1} %); expected speedup ×{:.3}\n",
            units::time(expected.scheduled_ns),
            units::time(way.median_ns),
            (way.median_ns / expected.scheduled_ns - 1.0) * 100.0,
            expected.sequential_ns / expected.scheduled_ns,
        ));
    }
    out
}

/// The report of a graph's runs as JSON.
pub fn graph_json(report: &GraphReport) -> Value {
    let ways = report.ways.iter().map(|way| {
        json!({
            "executor": way.executor,
            "stages": way.stages,
            "lanes": way.lanes,
            "median_ns": way.median_ns,
            "speedup": way.speedup.median,
            "speedup_interval": [way.speedup.low, way.speedup.high],
            "same_bits": way.same_bits,
        })
    });
    json!({
        "models": report.models,
        "threads": report.threads,
        "ways": ways.collect::<Vec<_>>(),
        "expected": report.expected,
        "reference_slowdown": report.slowdown,
    })
}

#[cfg(test)]
mod tests {
    use opdata::contract::graph_schedule::Expected;

    use super::*;
    use crate::report::Ratio;
    use crate::side_by_side::cotune::Combination;
    use crate::side_by_side::graph::WayReport;

    fn ratio(median: f64) -> Ratio {
        Ratio {
            median,
            low: median * 0.98,
            high: median * 1.02,
            level: 0.95,
        }
    }

    /// A row of a group of two: its operator, time alone and slowdown.
    fn row(group: &str, name: &str, alone_ns: f64, slowdown: Option<f64>) -> PairRow {
        PairRow {
            group_id: group.to_owned(),
            op_name: name.to_owned(),
            split: "1+1".to_owned(),
            mode: "partitioned".to_owned(),
            status: if slowdown.is_some() {
                "measured"
            } else {
                "timeout"
            }
            .to_owned(),
            alone_ns: slowdown.map(|_| alone_ns),
            slowdown,
            slowdown_low: slowdown.map(|s| s * 0.99),
            slowdown_high: slowdown.map(|s| s * 1.01),
            throughput_gain: slowdown.map(|s| 2.0 / s),
            grade: slowdown.map(|_| "A".to_owned()),
            ..PairRow::default()
        }
    }

    #[test]
    fn the_pair_that_gains_most_comes_first_and_a_failed_one_last() {
        let report = PairsReport {
            folder: "runs/pairs".into(),
            rows: vec![
                row("a1", "dense", 12_000.0, None),
                row("a1", "softmax", 3_000.0, None),
                row("b2", "dense", 12_000.0, Some(1.6)),
                row("b2", "conv2d", 90_000.0, Some(1.6)),
                row("c3", "dense", 12_000.0, Some(1.05)),
                row("c3", "dense", 12_000.0, Some(1.05)),
            ],
            possible: 10,
            wanted: 3,
        };
        insta::assert_snapshot!(pairs_text(&report, Style::PLAIN));
    }

    #[test]
    fn a_replayed_pair_is_shown_beside_its_row() {
        let before = vec![row("a1", "dense", 12_000.0, Some(1.05))];
        let replayed = |slowdown| PairReplayed {
            before: before.clone(),
            now: vec![row("a1", "dense", 12_000.0, Some(slowdown))],
        };
        let shown = [1.06, 1.6].map(|now| pair_replay_text(&replayed(now), Style::PLAIN));
        insta::assert_snapshot!(shown.join("\n"));
    }

    #[test]
    fn tuning_together_is_compared_with_each_tuned_alone() {
        let combination = |predicted_ns: f64, measured_ns: f64| Combination {
            split: "1+1".to_owned(),
            schedules: vec![None, None],
            predicted_ns: vec![predicted_ns; 2],
            together_ns: vec![measured_ns; 2],
        };
        let report = CotuneReport {
            operators: vec!["dense".to_owned(), "conv2d".to_owned()],
            objective: Objective::Throughput,
            timed: 40,
            failed: 2,
            measured: 6,
            apart: combination(20_000.0, 22_000.0),
            together: combination(18_000.0, 20_000.0),
            gain: ratio(1.1),
        };
        insta::assert_snapshot!(cotune_text(&report, Style::PLAIN));
    }

    #[test]
    fn each_way_to_run_a_model_is_shown_beside_what_was_expected() {
        let way = |executor, stages, median_ns, speedup, same_bits| WayReport {
            executor,
            stages,
            lanes: 2,
            median_ns,
            speedup: ratio(speedup),
            same_bits,
        };
        let report = GraphReport {
            models: vec!["gru".to_owned()],
            threads: 2,
            ways: vec![
                way("vm", 0, 200_000.0, 1.0, true),
                way("sequential", 30, 180_000.0, 1.11, true),
                way("staged", 12, 160_000.0, 1.25, false),
            ],
            expected: Some(Expected {
                sequential_ns: 182_000.0,
                scheduled_ns: 158_000.0,
            }),
            slowdown: 1.0,
        };
        insta::assert_snapshot!(graph_text(&report, Style::PLAIN));
    }
}
