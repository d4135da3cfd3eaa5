//! Reports as text.

use std::fmt::Write;
use std::path::Path;

use oplearn::crossval::metrics::Metrics;
use oplearn::features::{FEATURE_VERSION, FEATURES, Scope};

use crate::correlate::KindReport;
use crate::eval::Report;
use crate::eval::report::Ordering;
use crate::model::trained::Facts;
use crate::query::Answer;
use crate::query::answer::Knowledge;
use crate::query::network::NetworkAnswer;
use crate::query::whatif::Line;
use crate::transfer::Gain;
use crate::turning::Analysis;
use crate::turning::analysis::Choice;

fn optional(value: Option<f64>, digits: usize) -> String {
    value.map_or_else(|| "-".to_owned(), |v| format!("{v:.digits$}"))
}

fn metrics_line(name: &str, m: &Metrics) -> String {
    format!(
        "{name:<24} {:>8} {:>8.1} {:>8.1} {:>6.1} {:>6.1} {:>6.1} {:>8} {:>8}\n",
        m.samples,
        m.mape,
        m.median_ape,
        m.within_5,
        m.within_10,
        m.within_20,
        optional(m.r2_log2, 3),
        optional(m.spearman, 3),
    )
}

fn ordering_line(name: &str, o: &Ordering) -> String {
    format!(
        "{name}: pairwise {} % (all pairs {} %), top-1 {}, top-5 {} over {} workloads\n",
        optional(o.pairwise, 1),
        optional(o.pairwise_micro, 1),
        optional(o.top1, 3),
        optional(o.top5, 3),
        o.ranked_workloads
    )
}

/// The report of an evaluation; `workloads` lines by workload.
pub fn report(report: &Report, workloads: usize) -> String {
    let mut text = format!(
        "{} {:?}: {} samples of {} rows, {} workloads, {} folds\n",
        report.split,
        report.model,
        report.overall.samples,
        report.data.rows,
        report.workloads,
        report.folds
    );
    let noise = report.data.repeat_noise;
    if report.data.duplicates > 0 {
        let _ = writeln!(
            text,
            "{} rows repeat a point (median spread {} %)",
            report.data.duplicates,
            optional(noise.map(|n| 100.0 * n), 1)
        );
    }
    for (reason, count) in &report.data.left_out {
        let _ = writeln!(text, "{count} records left out: {reason}");
    }
    let _ = writeln!(
        text,
        "\n{:<24} {:>8} {:>8} {:>8} {:>6} {:>6} {:>6} {:>8} {:>8}",
        "", "samples", "MAPE %", "median %", "±5 %", "±10 %", "±20 %", "R2 log2", "Spearman"
    );
    text.push_str(&metrics_line("all", &report.overall));
    for (kind, metrics) in &report.by_kind {
        text.push_str(&metrics_line(kind, metrics));
    }
    let _ = writeln!(
        text,
        "\nMAPE as the mean over workloads: {:.1} %",
        report.mape_workloads
    );
    text.push_str(&ordering_line("predicted times", &report.ordering));
    if let Some(ranker) = &report.ranker {
        text.push_str(&ordering_line("ranker", ranker));
    }
    if let Some(c) = &report.coverage {
        let _ = writeln!(
            text,
            "intervals of {:.0} % hold {:.1} % of the samples ({:.1} % as the mean over workloads); median upper/lower end {:.2}",
            c.nominal, c.samples, c.workloads, c.median_ratio
        );
    }
    for point in &report.curve {
        let _ = writeln!(
            text,
            "learned from {:.0} %: MAPE {:.1} %, pairwise {} %",
            100.0 * point.share,
            point.mape,
            optional(point.pairwise, 1)
        );
    }
    if !report.models.is_empty() {
        let _ = writeln!(
            text,
            "\n{:>8} {:>12} {:>12} {:>8}  model",
            "threads", "measured ms", "predicted ms", "error %"
        );
        for m in &report.models {
            let _ = writeln!(
                text,
                "{:>8} {:>12.3} {:>12.3} {:>8.1}  {}",
                m.threads, m.measured_ms, m.predicted_ms, m.error, m.model
            );
        }
    }
    if workloads > 0 {
        let _ = writeln!(
            text,
            "\n{:>8} {:>8} {:>8} {:>9}  workload",
            "samples", "MAPE %", "bias", "pairwise"
        );
        for w in report.by_workload.iter().take(workloads) {
            let _ = writeln!(
                text,
                "{:>8} {:>8.1} {:>8.2} {:>9}  {}",
                w.samples,
                w.mape,
                w.bias_log2,
                optional(w.pairwise, 1),
                w.workload
            );
        }
    }
    text
}

/// A time with three digits and a unit that suits it.
fn time(ns: f64) -> String {
    let (value, unit) = match ns {
        t if t < 1e3 => (t, "ns"),
        t if t < 1e6 => (t / 1e3, "µs"),
        t if t < 1e9 => (t / 1e6, "ms"),
        t => (t / 1e9, "s"),
    };
    let digits = match value {
        v if v < 9.995 => 2,
        v if v < 99.95 => 1,
        _ => 0,
    };
    format!("{value:.digits$} {unit}")
}

fn interval(low: Option<f64>, high: Option<f64>) -> String {
    match (low, high) {
        (Some(low), Some(high)) => format!("{} … {}", time(low), time(high)),
        _ => "not calibrated".to_owned(),
    }
}

/// How well the kind of an operator is known, as one word.
pub fn knowledge(knowledge: Knowledge) -> &'static str {
    match knowledge {
        Knowledge::Measured => "measured",
        Knowledge::Known => "known",
        Knowledge::UnknownKind => "unknown_kind",
    }
}

/// Doubts about an answer, as a few words.
fn doubts(answer: &Answer) -> String {
    let mut words = Vec::new();
    if answer.knowledge == Knowledge::UnknownKind {
        words.push("kind never trained on".to_owned());
    }
    if !answer.extrapolates.is_empty() {
        let names: Vec<&str> = answer
            .extrapolates
            .iter()
            .map(|o| o.feature)
            .take(3)
            .collect();
        words.push(format!("extrapolates: {}", names.join(", ")));
    }
    words.join("; ")
}

/// The what-if table of a query, with reasons for its first line.
pub fn query(op: &str, lines: &[Line]) -> String {
    let mut text = format!("{:>6} {:>8} {:>10}  interval\n", "batch", "threads", "time");
    for line in lines {
        let _ = write!(
            text,
            "{:>6} {:>8} {:>10}  {}",
            line.batch,
            line.threads
                .map_or_else(|| "-".to_owned(), |t| t.to_string()),
            time(line.answer.time_ns),
            interval(line.answer.low_ns, line.answer.high_ns),
        );
        let doubts = doubts(&line.answer);
        text.push_str(&if doubts.is_empty() {
            "\n".to_owned()
        } else {
            format!("  ({doubts})\n")
        });
    }
    let Some(first) = lines.first() else {
        return text;
    };
    let _ = writeln!(text, "\nwhat moves the first one of {op}:");
    for driver in &first.answer.drivers {
        let value = driver
            .value
            .map_or_else(|| "missing".to_owned(), |v| format!("{v:.2}"));
        let _ = writeln!(
            text,
            "  ×{:<6.2} {} = {value}",
            driver.factor, driver.feature
        );
    }
    let _ = writeln!(text, "nearest measured:");
    for near in &first.answer.nearest {
        let threads = near
            .measured
            .threads
            .map_or_else(String::new, |t| format!(", {t} threads"));
        let _ = writeln!(
            text,
            "  {} {}{threads} (distance {:.2}, row {})",
            time(near.measured.time_ns),
            near.measured.label,
            near.distance,
            near.measured.row_id
        );
    }
    text
}

/// Whole models, with the longest operators of the first.
pub fn networks(answers: &[NetworkAnswer], operators: usize) -> String {
    let mut text = String::new();
    if let Some(first) = answers.first() {
        let _ = writeln!(
            text,
            "{:<28} {:>5} {:>10} {:>7} {:>22}  shapes",
            "operator", "calls", "time", "share", "interval of one call"
        );
        for o in first.operators.iter().take(operators) {
            let _ = write!(
                text,
                "{:<28} {:>5} {:>10} {:>6.1}% {:>22}  {}",
                o.name,
                o.count,
                time(o.answer.time_ns),
                100.0 * o.share,
                interval(o.answer.low_ns, o.answer.high_ns),
                o.shapes
            );
            let doubts = doubts(&o.answer);
            text.push_str(&if doubts.is_empty() {
                "\n".to_owned()
            } else {
                format!("  ({doubts})\n")
            });
        }
        if first.operators.len() > operators {
            let _ = writeln!(text, "… and {} more", first.operators.len() - operators);
        }
        text.push('\n');
    }
    for answer in answers {
        let _ = writeln!(
            text,
            "{}, batch {}, {} thread{}: {} ({:.0} % interval {}); of the operators' time {:.1} % is of known kinds and {:.1} % \
             was itself measured; whole over operators {:.3} from {} models",
            answer.model,
            answer.batch,
            answer.threads,
            if answer.threads == 1 { "" } else { "s" },
            time(answer.time_ns),
            100.0 * answer.level,
            interval(answer.low_ns, answer.high_ns),
            100.0 * answer.coverage,
            100.0 * answer.measured,
            answer.factor,
            answer.factor_models,
        );
    }
    text
}

/// What training found, for the end of `train`.
pub fn facts(facts: &Facts, out: &Path) -> String {
    let mut text = format!(
        "{}: {} samples of {} rows, {} workloads, {} machine{}\n\
         on workloads held out: MAPE {:.1} %, median {:.1} %\n\n{:<20} {:>8} {:>10} {:>9}\n",
        facts.device_kind,
        facts.samples,
        facts.rows,
        facts.workloads,
        facts.machines.len(),
        if facts.machines.len() == 1 { "" } else { "s" },
        facts.mape,
        facts.median_ape,
        "kind",
        "samples",
        "workloads",
        "median %",
    );
    for (kind, known) in &facts.kinds {
        let _ = writeln!(
            text,
            "{kind:<20} {:>8} {:>10} {:>9.1}",
            known.samples, known.workloads, known.median_ape
        );
    }
    let _ = writeln!(text, "\nmodel in {}", out.display());
    text
}

/// The list of features as Markdown.
pub fn features_markdown() -> String {
    let mut text = format!("Version {FEATURE_VERSION}, {} features.\n", FEATURES.len());
    for (scope, title) in [
        (Scope::Kind, "What is computed, apart from its size"),
        (Scope::Size, "Sizes of the problem"),
        (Scope::Total, "Totals of the scheduled loops"),
        (Scope::Tile, "Tiles, blocks and steps"),
        (Scope::Machine, "Where it runs"),
    ] {
        let _ = write!(
            text,
            "\n### {title}\n\n| feature | meaning |\n| --- | --- |\n"
        );
        for feature in FEATURES.iter().filter(|f| f.scope == scope) {
            let _ = writeln!(text, "| `{}` | {} |", feature.name, feature.doc);
        }
    }
    text
}

/// Turning points of sweeps.
pub fn turning(analysis: &Analysis) -> String {
    let mut text = format!(
        "{:>6} {:>6} {:>20} {:>6} {:>16} {:>16}  sweep\n",
        "best", "enough", "turn", "knee", "from probes", "with more"
    );
    let choice = |c: Option<Choice>| {
        c.map_or_else(
            || "-".to_owned(),
            |c| format!("{} (×{:.3}, {})", c.x, c.ratio, c.measurements),
        )
    };
    for s in &analysis.sweeps {
        let turn = s.turn.map_or_else(
            || "-".to_owned(),
            |t| format!("{:.1} ({:.1} … {:.1})", t.x, t.low, t.high),
        );
        let _ = writeln!(
            text,
            "{:>6} {:>6} {turn:>20} {:>6} {:>16} {:>16}  {} {} over {} ({} points)",
            s.best,
            s.enough,
            optional(s.knee, 0),
            choice(s.chosen),
            choice(s.chosen_with_more),
            s.device,
            s.name,
            s.axis,
            s.points,
        );
    }
    let _ = writeln!(
        text,
        "\nchosen over best, mean of sweeps: {} from the probes, {} with {} more measurements",
        optional(analysis.mean_ratio, 3),
        optional(analysis.mean_ratio_with_more, 3),
        analysis.more
    );
    text
}

/// The strongest factors of each kind.
pub fn correlations(kinds: &[KindReport], factors: usize) -> String {
    let mut text = String::new();
    for kind in kinds {
        let _ = writeln!(
            text,
            "{} ({} samples)\n{:>24} {:>8} {:>8} {:>8} {:>8} {:>8} {:>10}",
            kind.kind,
            kind.samples,
            "factor",
            "Pearson",
            "Spearman",
            "Kendall",
            "distance",
            "bits",
            "p (corr.)"
        );
        for f in kind.factors.iter().take(factors) {
            let _ = writeln!(
                text,
                "{:>24} {:>8} {:>8} {:>8} {:>8} {:>8.2} {:>10.3}",
                f.factor,
                optional(f.pearson, 2),
                optional(f.spearman, 2),
                optional(f.kendall, 2),
                optional(f.distance, 2),
                f.mutual_bits,
                f.p_spearman.min(f.p_mutual),
            );
            if !f.partial.is_empty() {
                let shown: Vec<String> = f
                    .partial
                    .iter()
                    .map(|d| format!("{:.1}: ×{:.2}", d.value, d.factor))
                    .collect();
                let _ = writeln!(text, "{:>24} predicted at {}", "", shown.join(", "));
            }
        }
        text.push('\n');
    }
    text
}

/// What a few measurements on a new machine bring.
pub fn gain(gain: &Gain) -> String {
    format!(
        "{} measurements chosen, mean error on the other {}:\n\
         {:>8.1} %  the model as it is\n\
         {:>8.1} %  with one factor\n\
         {:>8.1} %  adapted ({:.0} % from a model of these measurements alone)\n\
         {:>8.1} %  adapted by as many at random\n\
         {:>8.1} %  a model of these measurements alone\n",
        gain.measurements,
        gain.held_out,
        gain.zero_shot_mape,
        gain.one_factor_mape,
        gain.adapted_mape,
        100.0 * gain.own_weight,
        gain.random_mape,
        gain.afresh_mape
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_guide_lists_the_features_that_there_are() {
        let guide = include_str!("../../../docs/predictor.md");
        assert!(
            guide.contains(features_markdown().trim_end()),
            "docs/predictor.md is behind: paste what `oppredict features` prints at its end"
        );
    }

    #[test]
    fn times_have_three_digits_and_a_unit() {
        let shown: Vec<String> = [0.5, 999.0, 1234.0, 56_789.0, 8.5e8, 3e9]
            .into_iter()
            .map(time)
            .collect();
        assert_eq!(
            shown,
            [
                "0.50 ns", "999 ns", "1.23 µs", "56.8 µs", "850 ms", "3.00 s"
            ]
        );
    }
}
