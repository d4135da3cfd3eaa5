//! Dumps compared with the first of them: totals, and operators, kernels or layers side by side, the largest change first.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde::Serialize;

use crate::analysis::rollup::{Filter, Group, Grouping, roll_up};
use crate::analysis::summary::{Summary, summarise};
use crate::profile::Profile;
use crate::report::Engine;

/// One line of the comparison; times in ns.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Change {
    /// Name of the operator, kernel or layer.
    pub name: String,
    /// Its type.
    pub kind: String,
    /// The engine, for operators.
    pub engine: Option<Engine>,
    /// Executions in the first dump.
    pub count_a: u64,
    /// Executions in the second.
    pub count_b: u64,
    /// Total in the first.
    pub total_a_ns: i64,
    /// Total in the second.
    pub total_b_ns: i64,
    /// Second less first.
    pub change_ns: i64,
    /// Second over first; `None` if it is in one dump only.
    pub ratio: Option<f64>,
}

/// The comparison.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Diff {
    /// Total of the first dump in ns.
    pub total_a_ns: i64,
    /// Total of the second in ns.
    pub total_b_ns: i64,
    /// Second over first.
    pub ratio: Option<f64>,
    /// TIU working ratio of both.
    pub tiu_working_ratio: (f64, f64),
    /// Parallelism of both.
    pub parallelism: (f64, f64),
    /// Key of the pairing.
    pub grouping: Grouping,
    /// The changes, the largest first.
    pub changes: Vec<Change>,
    /// Reasons to doubt the comparison: other chip, other clocks, losses.
    pub warnings: Vec<String>,
}

/// Compares two profiles.
pub fn diff(a: &Profile, b: &Profile, grouping: Grouping, filter: &Filter) -> Diff {
    let (sa, sb) = (summarise(a), summarise(b));
    let mut sides: BTreeMap<Key, (Option<Group>, Option<Group>)> = BTreeMap::new();
    let key = |group: &Group| (group.label(), group.kind.clone(), group.engine);
    for group in roll_up(a, grouping, filter) {
        let side = sides.entry(key(&group)).or_default();
        side.0 = Some(group);
    }
    for group in roll_up(b, grouping, filter) {
        let side = sides.entry(key(&group)).or_default();
        side.1 = Some(group);
    }
    let mut changes: Vec<Change> = sides
        .into_iter()
        .map(|((name, kind, engine), (a, b))| {
            let of = |g: &Option<Group>| g.as_ref().map_or((0, 0), |g| (g.count, g.total_ns));
            let ((count_a, total_a_ns), (count_b, total_b_ns)) = (of(&a), of(&b));
            Change {
                name,
                kind,
                engine,
                count_a,
                count_b,
                total_a_ns,
                total_b_ns,
                change_ns: total_b_ns - total_a_ns,
                ratio: (total_a_ns > 0 && b.is_some())
                    .then(|| total_b_ns as f64 / total_a_ns as f64),
            }
        })
        .collect();
    changes.sort_by(|x, y| {
        y.change_ns
            .abs()
            .cmp(&x.change_ns.abs())
            .then(x.name.cmp(&y.name))
    });
    Diff {
        total_a_ns: sa.total_ns,
        total_b_ns: sb.total_ns,
        ratio: (sa.total_ns > 0).then(|| sb.total_ns as f64 / sa.total_ns as f64),
        tiu_working_ratio: (sa.tiu_working_ratio, sb.tiu_working_ratio),
        parallelism: (sa.parallelism, sb.parallelism),
        grouping,
        changes,
        warnings: [warnings(a, b, &sa, &sb), absent_cores(a, b, filter)].concat(),
    }
}

fn warnings(a: &Profile, b: &Profile, sa: &Summary, sb: &Summary) -> Vec<String> {
    let mut list = Vec::new();
    if a.chip != b.chip {
        list.push(format!("the chips differ: {} and {}", a.chip, b.chip));
    }
    if (sa.tiu_mhz, sa.dma_mhz) != (sb.tiu_mhz, sb.dma_mhz) {
        list.push(format!(
            "the clocks differ: TIU {} and {} MHz, DMA {} and {} MHz",
            sa.tiu_mhz, sb.tiu_mhz, sa.dma_mhz, sb.dma_mhz
        ));
    }
    if a.mode != b.mode {
        list.push(format!(
            "the modes differ ({} and {}), so names may too",
            a.mode.name(),
            b.mode.name()
        ));
    }
    if a.cores.len() != b.cores.len() {
        list.push(format!(
            "the numbers of cores differ: {} and {}",
            a.cores.len(),
            b.cores.len()
        ));
    }
    for (name, profile) in [("first", a), ("other", b)] {
        let losses = profile.report.losses().count();
        if losses > 0 {
            list.push(format!("the {name} dump is not whole ({losses} findings)"));
        }
    }
    list
}

/// Cores that are asked for and that a dump does not have.
fn absent_cores(a: &Profile, b: &Profile, filter: &Filter) -> Vec<String> {
    let sides = [("first", a), ("other", b)].into_iter();
    let absent = sides.flat_map(|(name, profile)| {
        let cores = filter.cores.iter();
        let absent = cores.filter(|&&number| profile.core(number).is_none());
        absent.map(move |number| format!("--core {number}: the {name} dump has no core {number}"))
    });
    absent.collect()
}

/// The comparison as a table of at most `top` lines.
pub fn text(diff: &Diff, top: usize) -> String {
    let mut text = String::new();
    let _ = writeln!(
        text,
        "total {:.3} us -> {:.3} us (x {}), TIU {:.2}% -> {:.2}%, parallelism {:.2}% -> {:.2}%",
        us(diff.total_a_ns),
        us(diff.total_b_ns),
        times(diff.ratio),
        diff.tiu_working_ratio.0 * 100.0,
        diff.tiu_working_ratio.1 * 100.0,
        diff.parallelism.0 * 100.0,
        diff.parallelism.1 * 100.0
    );
    let _ = writeln!(
        text,
        "\n{:<40} {:>6} {:>8} {:>8} {:>14} {:>14} {:>14} {:>8}",
        diff.grouping.name(),
        "engine",
        "count A",
        "count B",
        "A (us)",
        "B (us)",
        "B - A (us)",
        "B / A"
    );
    for change in diff.changes.iter().take(top) {
        let _ = writeln!(
            text,
            "{:<40} {:>6} {:>8} {:>8} {:>14.3} {:>14.3} {:>+14.3} {:>8}",
            change.name,
            change.engine.map_or("", Engine::name),
            change.count_a,
            change.count_b,
            us(change.total_a_ns),
            us(change.total_b_ns),
            us(change.change_ns),
            times(change.ratio)
        );
    }
    if diff.changes.len() > top {
        let _ = writeln!(text, "… {} more", diff.changes.len() - top);
    }
    text
}

/// Several dumps, each compared with the first, as one table of at most `top` lines, the largest differences first.
/// `names` are the names of the dumps, that of the first one first.
pub fn table(names: &[String], diffs: &[Diff], top: usize) -> String {
    let Some(one) = diffs.first() else {
        return String::new();
    };
    let mut text = totals(names, diffs, one);
    let _ = write!(
        text,
        "\n{:<40} {:>6} {:>14}",
        one.grouping.name(),
        "engine",
        "1 (us)"
    );
    for number in 2..=diffs.len() + 1 {
        let (time, ratio) = (format!("{number} (us)"), format!("{number} / 1"));
        let _ = write!(text, " {time:>14} {ratio:>8}");
    }
    text.push('\n');
    let lines = lines(diffs);
    let time = |ns: Option<i64>| ns.map_or("-".to_string(), |ns| format!("{:.3}", us(ns)));
    for ((name, _, engine), of_first, of_others) in lines.iter().take(top) {
        let engine = engine.map_or("", Engine::name);
        let _ = write!(text, "{name:<40} {engine:>6} {:>14}", time(*of_first));
        for &ns in of_others {
            let both = ns.zip(of_first.filter(|&first| first > 0));
            let ratio = both.map(|(ns, first)| ns as f64 / first as f64);
            let _ = write!(text, " {:>14} {:>8}", time(ns), times(ratio));
        }
        text.push('\n');
    }
    if lines.len() > top {
        let _ = writeln!(text, "… {} more", lines.len() - top);
    }
    text
}

/// A line for each dump; the first one's numbers are in any comparison with it (`one`).
fn totals(names: &[String], diffs: &[Diff], one: &Diff) -> String {
    let mut text = format!(
        "{:>4} {:>14} {:>8} {:>8} {:>12}  dump\n",
        "", "total (us)", "/ 1", "TIU", "parallelism"
    );
    let (tiu, parallelism) = (one.tiu_working_ratio.0, one.parallelism.0);
    let first = (one.total_a_ns, Some(1.0), tiu, parallelism);
    let others = diffs.iter().map(|diff| {
        let (tiu, parallelism) = (diff.tiu_working_ratio.1, diff.parallelism.1);
        (diff.total_b_ns, diff.ratio, tiu, parallelism)
    });
    let all = std::iter::once(first).chain(others);
    for (number, (name, (total, ratio, tiu, parallelism))) in names.iter().zip(all).enumerate() {
        let _ = writeln!(
            text,
            "{:>4} {:>14.3} {:>8} {:>7.2}% {:>11.2}%  {name}",
            number + 1,
            us(total),
            times(ratio),
            tiu * 100.0,
            parallelism * 100.0
        );
    }
    text
}

fn us(ns: i64) -> f64 {
    ns as f64 / 1000.0
}

fn times(ratio: Option<f64>) -> String {
    ratio.map_or("-".to_string(), |ratio| format!("{ratio:.3}"))
}

/// The key of a line: name, type, engine.
type Key = (String, String, Option<Engine>);

/// Times in ns of all keys in any dump, in the first dump and in each other one, the largest differences first.
fn lines(diffs: &[Diff]) -> Vec<(Key, Option<i64>, Vec<Option<i64>>)> {
    let mut found: BTreeMap<Key, (Option<i64>, Vec<Option<i64>>)> = BTreeMap::new();
    for (number, diff) in diffs.iter().enumerate() {
        for change in &diff.changes {
            let key = (change.name.clone(), change.kind.clone(), change.engine);
            let line = found.entry(key).or_default();
            line.0 = (change.count_a > 0).then_some(change.total_a_ns);
            line.1.resize(diffs.len(), None);
            line.1[number] = (change.count_b > 0).then_some(change.total_b_ns);
        }
    }
    let mut lines: Vec<_> = found.into_iter().map(|(key, (a, b))| (key, a, b)).collect();
    lines.sort_by_key(|(_, first, others)| {
        let first = first.unwrap_or(0);
        let change = |ns: &Option<i64>| (ns.unwrap_or(0) - first).abs();
        std::cmp::Reverse(others.iter().map(change).max())
    });
    lines
}
