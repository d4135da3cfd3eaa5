//! Reports as text.

use std::fmt::Write;
use std::path::Path;

use oplearn::crossval::conformal::Conformal;
use oplearn::features::machine::MachineFacts;
use oplearn::features::{FEATURE_VERSION, FEATURES, Scope};

use crate::correlate::KindReport;
use crate::model::trained::Facts;
use crate::query::Answer;
use crate::query::answer::Knowledge;
use crate::query::network::NetworkAnswer;
use crate::query::whatif::Line;
use crate::transfer::Gain;
use crate::turning::Analysis;
use crate::turning::analysis::Choice;

pub(super) fn optional(value: Option<f64>, digits: usize) -> String {
    value.map_or_else(|| "-".to_owned(), |v| format!("{v:.digits$}"))
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
    reasons(&mut text, &first.answer);
    text
}

/// Whole models, with the longest operators of the first.
pub fn networks(answers: &[NetworkAnswer], operators: usize, explain: bool) -> String {
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
        for o in first
            .operators
            .iter()
            .take(if explain { operators } else { 0 })
        {
            let _ = writeln!(text, "what moves {} {}:", o.name, o.shapes);
            reasons(&mut text, &o.answer);
            text.push('\n');
        }
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

/// A factor of the time in words.
fn times_as_long(factor: f64) -> String {
    if factor >= 1.0 {
        format!("{factor:.2} × as long:")
    } else {
        format!("{:.2} × as fast:", 1.0 / factor)
    }
}

/// What moved a prediction, and the nearest measured rows.
fn reasons(text: &mut String, answer: &Answer) {
    for driver in &answer.drivers {
        let value = driver
            .value
            .map_or_else(|| "missing".to_owned(), |v| format!("{v:.2}"));
        let meaning = FEATURES.iter().find(|f| f.name == driver.feature);
        let _ = writeln!(
            text,
            "  {:<18} {}, {} = {value}",
            times_as_long(driver.factor),
            meaning.map_or("", |f| f.doc),
            driver.feature
        );
    }
    let _ = writeln!(text, "nearest measured:");
    for near in &answer.nearest {
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
}

/// Whose machine an answer is for, and how far its measurements are to be trusted.
pub fn origin(facts: &Facts, machine: &MachineFacts, level: f64) -> String {
    let mut text = format!("for {}\n", machine.label());
    let needed = Conformal::groups_needed(level);
    let calibrated = facts.unseen.conformal.as_ref().map(Conformal::groups);
    if let Some(groups) = calibrated.filter(|groups| *groups < needed) {
        let _ = writeln!(text, "{}", too_few(groups, 100.0 * level, needed));
    }
    if let Some(share) = facts.disturbed.filter(|share| *share > 0.0) {
        let _ = writeln!(text, "{}", disturbed(share));
    }
    text
}

/// That intervals of a level (percent) need more workloads than there are.
pub(super) fn too_few(workloads: usize, level: f64, needed: usize) -> String {
    format!(
        "{workloads} workloads are too few for intervals of {level:.0} %, which need {needed}: they may hold less"
    )
}

/// A share of rows, in words.
pub fn disturbed(share: f64) -> String {
    format!(
        "{:.1} % of the rows were measured while something else ran (grade D, or a sentinel kernel a tenth slower)",
        100.0 * share
    )
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
    text.push('\n');
    if let Some(share) = facts.disturbed.filter(|share| *share > 0.0) {
        let _ = writeln!(text, "{}", disturbed(share));
    }
    let _ = writeln!(text, "model in {}", out.display());
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
    if analysis.sweeps.is_empty() {
        return "no operator was measured at enough values of one factor, all else equal\n"
            .to_owned();
    }
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
