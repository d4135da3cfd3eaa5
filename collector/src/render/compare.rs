//! `opcollect compare`: one line for each operator, the worst first, then failures and totals.

use std::collections::BTreeMap;

use opreport::svg::RatioLine;
use opreport::table::{Cell, Column, Table};
use opreport::{Style, units};

use crate::compare::{
    Change, Comparison, Ending, Estimate, FailedPoint, NoiseSource, SideFacts, Verdict,
};

/// Failed points that are named one by one.
const FAILED_SHOWN: usize = 20;

const COLUMNS: [Column; 11] = [
    Column::left("operator").shrinks_to(20),
    Column::left("model").hides(2).shrinks_to(12),
    Column::left("shapes").shrinks_to(14).hides(1),
    Column::right("threads"),
    Column::right("points").hides(0),
    Column::right("A"),
    Column::right("B"),
    Column::right("B/A"),
    Column::left("95 % interval"),
    Column::right("p").hides(3),
    Column::left("verdict"),
];

/// The comparison as text.
pub fn compare_text(comparison: &Comparison, style: Style) -> String {
    let mut out = format!("A  {}\nB  {}\n\n", side(&comparison.a), side(&comparison.b));
    if !comparison.changes.is_empty() {
        out.push_str(&table(comparison).render(style));
        out.push('\n');
    }
    out.push_str(&failures(&comparison.failed, style));
    out.push_str(&overall(comparison));
    out.push_str(&closing(comparison, style));
    out
}

/// The comparison in Markdown.
pub fn compare_markdown(comparison: &Comparison) -> String {
    let text = format!(
        "A  {}\n\nB  {}\n\n",
        side(&comparison.a),
        side(&comparison.b)
    );
    let closing = closing(comparison, Style::PLAIN);
    text + &table(comparison).markdown() + "\n" + &overall(comparison) + "\n" + &closing
}

/// `1.242`, or `1.242 (1.180 to 1.310)` with its interval.
pub(super) fn estimate(estimate: &Estimate) -> String {
    match interval(estimate) {
        Some(interval) => format!("{:.3} ({interval})", estimate.value),
        None => format!("{:.3}", estimate.value),
    }
}

/// `1.180 to 1.310`.
pub(super) fn interval(estimate: &Estimate) -> Option<String> {
    let (low, high) = (estimate.low?, estimate.high?);
    Some(format!("{low:.3} to {high:.3}"))
}

/// A probability: `0.012`, `<0.001`.
pub(super) fn probability(p: Option<f64>) -> String {
    match p {
        None => String::new(),
        Some(p) if p < 0.001 => "<0.001".to_owned(),
        Some(p) => format!("{p:.3}"),
    }
}

/// The word for a verdict.
pub(super) fn word(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Regression => "slower",
        Verdict::Improvement => "faster",
        Verdict::Unclear => "unclear",
        Verdict::Unchanged => "same",
        Verdict::Unknown => "too few samples",
    }
}

/// A noise estimate in words.
pub(super) fn noise(comparison: &Comparison) -> String {
    let share = units::percent(comparison.noise.log_std.exp_m1());
    match comparison.noise.source {
        NoiseSource::Estimated => format!("the same point varies by {share} from run to run"),
        NoiseSource::Assumed => {
            format!("{share} from run to run is assumed, with too few operators to tell")
        }
    }
}

fn table(comparison: &Comparison) -> Table {
    let mut table = Table::new(&COLUMNS);
    for change in &comparison.changes {
        table.row(cells(change));
    }
    table
}

fn side(facts: &SideFacts) -> String {
    let paths: Vec<String> = facts
        .paths
        .iter()
        .map(|p| p.display().to_string())
        .collect();
    let mut text = format!(
        "{}: {}, {} measured",
        paths.join(", "),
        units::plural(facts.points, "point"),
        facts.measured
    );
    let others = [
        (facts.compiled, "compiled"),
        (facts.failed(), "failed"),
        (facts.skipped, "skipped"),
    ];
    for (count, word) in others {
        if count > 0 {
            text.push_str(&format!(", {count} {word}"));
        }
    }
    text
}

fn cells(change: &Change) -> Vec<Cell> {
    let verdict = match change.verdict {
        Verdict::Regression => Cell::painted(word(change.verdict), Style::red),
        Verdict::Improvement => Cell::painted(word(change.verdict), Style::green),
        Verdict::Unclear | Verdict::Unknown => Cell::painted(word(change.verdict), Style::yellow),
        Verdict::Unchanged => word(change.verdict).into(),
    };
    vec![
        operator(change).into(),
        change.model.as_str().into(),
        change.shapes.as_str().into(),
        change
            .threads
            .map_or(String::new(), |t| t.to_string())
            .into(),
        change.points.to_string().into(),
        units::time(change.a_ns).into(),
        units::time(change.b_ns).into(),
        format!("{:.3}", change.ratio.value).into(),
        interval(&change.ratio).unwrap_or_default().into(),
        probability(change.p_adjusted).into(),
        verdict,
    ]
}

/// The operator, with the state of the caches if that is not the usual one.
pub(super) fn operator(change: &Change) -> String {
    match change.cache_state {
        Some(cache) if cache != opdata::CacheState::Model => {
            format!("{} ({cache})", change.operator)
        }
        _ => change.operator.clone(),
    }
}

/// Points without a time: those that had one before by name, the others counted by reason.
fn failures(failed: &[FailedPoint], style: Style) -> String {
    let mut out = String::new();
    let (new, old): (Vec<_>, Vec<_>) = failed.iter().partition(|point| point.is_new());
    for point in new.iter().take(FAILED_SHOWN) {
        out.push_str(&style.red(&failure(point)));
        out.push('\n');
    }
    if new.len() > FAILED_SHOWN {
        let more = new.len() - FAILED_SHOWN;
        out.push_str(&format!("… {more} more (--json has all)\n"));
    }
    let mut kinds: BTreeMap<(String, String), u64> = BTreeMap::new();
    for point in old {
        *kinds
            .entry((ending(&point.a), ending(&point.b)))
            .or_default() += 1;
    }
    for ((a, b), count) in kinds.iter().take(FAILED_SHOWN) {
        let points = units::plural(*count, "point");
        out.push_str(&if a == b {
            format!("{points}: {a} in both\n")
        } else {
            format!("{points}: {a} in A, {b} in B\n")
        });
    }
    if kinds.len() > FAILED_SHOWN {
        let more = kinds.len() - FAILED_SHOWN;
        out.push_str(&format!("… {more} more reasons (--json has all)\n"));
    }
    if !out.is_empty() {
        out.push('\n');
    }
    out
}

/// How a point ended, with the beginning of its reason.
fn ending(ending: &Ending) -> String {
    const MOST: usize = 120;
    match &ending.reason {
        None => ending.status.to_string(),
        Some(reason) if reason.chars().count() > MOST => {
            let head: String = reason.chars().take(MOST - 1).collect();
            format!("{} ({head}…)", ending.status)
        }
        Some(reason) => format!("{} ({reason})", ending.status),
    }
}

/// One point without a time, in a line.
pub(super) fn failure(point: &FailedPoint) -> String {
    let threads = point
        .threads
        .map_or_else(String::new, |t| format!(", {}", units::plural(t, "thread")));
    format!(
        "{}{threads}, {}: {} in A, {} in B",
        point.operator,
        point.model,
        ending(&point.a),
        ending(&point.b)
    )
}

fn overall(comparison: &Comparison) -> String {
    let mut parts = Vec::new();
    if let Some(overall) = &comparison.overall {
        parts.push(format!(
            "geometric mean of B/A {}; {}",
            estimate(overall),
            noise(comparison)
        ));
    }
    let shared = units::plural(comparison.shared_points, "point");
    parts.push(format!(
        "{shared} in both, {} only in A, {} only in B",
        comparison.only_in_a, comparison.only_in_b
    ));
    parts.join("\n") + "\n"
}

fn closing(comparison: &Comparison, style: Style) -> String {
    let threshold = units::percent(comparison.threshold);
    let count = |verdict| comparison.count(verdict);
    let rest = format!(
        "{} slower, {} faster, {} unclear, {} the same",
        count(Verdict::Regression),
        count(Verdict::Improvement),
        count(Verdict::Unclear),
        count(Verdict::Unchanged)
    );
    let rest = match count(Verdict::Unknown) {
        0 => rest,
        unknown => format!("{rest}, {unknown} with too few samples to tell"),
    };
    let new = comparison.failed.iter().filter(|f| f.is_new()).count() as u64;
    let failed = match new {
        0 => String::new(),
        new => format!(
            "; {} failed that did not before",
            units::plural(new, "point")
        ),
    };
    if comparison.changes.is_empty() {
        let nothing = style.yellow("nothing was compared: no point has a time on both sides");
        return format!("{nothing}{failed}\n");
    }
    let verdict = match count(Verdict::Regression) {
        0 => style.green("no regression"),
        found => style.red(&units::plural(found, "regression")),
    };
    let busy = match busy(comparison) {
        Some(text) => format!("{}\n", style.yellow(&text)),
        None => String::new(),
    };
    format!("{busy}{verdict} (surely slower by more than {threshold}): {rest}{failed}\n")
}

/// The note that other processes ran while points were measured. `None` if none did.
pub(super) fn busy(comparison: &Comparison) -> Option<String> {
    let all: u64 = comparison.changes.iter().map(|c| c.points).sum();
    let of = |share: fn(&Change) -> f64| {
        let busy = comparison.changes.iter();
        busy.map(|c| share(c) * c.points as f64).sum::<f64>() as u64
    };
    let (a, b) = (of(|c| c.busy_a), of(|c| c.busy_b));
    (a + b > 0).then(|| {
        format!(
            "other processes took more than {} of the CPU time at {a} points of A and {b} of B, of {all}",
            units::percent(opdata::contract::interference::BUSY_SHARE)
        )
    })
}

/// A change as a line of a picture of ratios.
pub(super) fn ratio_line(change: &Change, label: String) -> RatioLine {
    RatioLine {
        label,
        verdict: word(change.verdict),
        colour: match change.verdict {
            Verdict::Regression => "var(--bad)",
            Verdict::Improvement => "var(--good)",
            _ => "var(--dim)",
        },
        ratio: change.ratio.value,
        interval: (change.ratio.low, change.ratio.high),
        value: estimate(&change.ratio),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::testing::{failed, row, write_run};
    use crate::compare::{Options, compare};
    use opdata::{Row, Status};

    /// A row that was compiled only, as with `--compile-only`.
    fn compiled(row: &mut Row) {
        *row = failed(row.clone(), Status::Compiled, "");
        row.reason = None;
    }

    fn comparison(change: impl FnOnce(&mut Vec<Row>)) -> Comparison {
        compared(|_| (), change)
    }

    fn compared(
        change_a: impl FnOnce(&mut Vec<Row>),
        change_b: impl FnOnce(&mut Vec<Row>),
    ) -> Comparison {
        let folder = tempfile::tempdir().unwrap();
        let mut a: Vec<Row> = (0..4)
            .map(|i| row(&format!("dense_{i}"), 1, 1e5 * f64::from(i + 1)))
            .collect();
        let mut b = a.clone();
        change_a(&mut a);
        change_b(&mut b);
        let a = write_run(&folder.path().join("a"), "a", &a, |_| ());
        let b = write_run(&folder.path().join("b"), "b", &b, |_| ());
        let options = Options {
            threshold: 0.05,
            allow_other_machine: false,
        };
        let mut found = compare(&[a], &[b], options).unwrap();
        (found.a.paths, found.b.paths) = (vec!["runs/a".into()], vec!["runs/b".into()]);
        found
    }

    #[test]
    fn a_whole_screen() {
        let found = comparison(|b| {
            b[1] = row("dense_1", 1, 2.6e5);
            b[2] = row("dense_2", 1, 2.8e5);
            b[3] = failed(b[3].clone(), Status::Crashed, "signal 11");
        });
        insta::assert_snapshot!(compare_text(&found, Style::PLAIN), @r"
        A  runs/a: 4 points, 4 measured
        B  runs/b: 4 points, 3 measured, 1 failed

        operator  model         shapes      threads  points         A         B    B/A  95 % interval        p  verdict
        dense_1   net, batch 1  1x64;64x64        1       1  200.0 µs  260.0 µs  1.300  1.220 to 1.385  <0.001  slower
        dense_2   net, batch 1  1x64;64x64        1       1  300.0 µs  280.0 µs  0.933  0.876 to 0.995   0.067  unclear
        dense_0   net, batch 1  1x64;64x64        1       1  100.0 µs  100.0 µs  1.000  0.938 to 1.066   1.000  same

        dense_3, 1 thread, net, batch 1: measured in A, crashed (signal 11) in B

        geometric mean of B/A 1.067 (1.028 to 1.106); 3.0 % from run to run is assumed, with too few operators to tell
        4 points in both, 0 only in A, 0 only in B
        1 regression (surely slower by more than 5.0 %): 1 slower, 0 faster, 1 unclear, 1 the same; 1 point failed that did not before
        ");
    }

    #[test]
    fn compiled_points_are_no_failures() {
        let found = compared(
            |a| a[1..].iter_mut().for_each(compiled),
            |b| {
                b[1..].iter_mut().for_each(compiled);
                let reason = "too much shared memory";
                b[3] = failed(b[3].clone(), Status::CompileFailed, reason);
            },
        );
        assert_eq!((found.a.compiled, found.a.failed()), (3, 0));
        assert_eq!((found.b.compiled, found.b.failed()), (2, 1));
        let text = compare_text(&found, Style::PLAIN);
        for part in [
            "A  runs/a: 4 points, 1 measured, 3 compiled\n",
            "B  runs/b: 4 points, 1 measured, 2 compiled, 1 failed\n",
            "dense_3, 1 thread, net, batch 1: compiled in A, compile_failed (too much shared memory) in B\n",
            "; 1 point failed that did not before\n",
        ] {
            assert!(text.contains(part), "no {part:?} in {text}");
        }
        assert!(!text.contains("compiled in both"), "{text}");
    }

    #[test]
    fn json_has_the_same_facts() {
        let found = comparison(|b| b[1] = row("dense_1", 1, 2.6e5));
        let object = serde_json::json!(found);
        assert_eq!(object["changes"][0]["verdict"], "regression");
        assert_eq!(object["changes"][0]["operator"], "dense_1");
        assert_eq!(object["b"]["measured"], 4);
        assert_eq!(object["noise"]["source"], "assumed");
    }
}
