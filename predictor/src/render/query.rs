//! Answers about operators and whole models.

use std::fmt::Write;

use opdata::DeviceKind;
use oplearn::features::FEATURES;
use oplearn::features::machine::MachineFacts;
use opreport::Style;
use opreport::table::{Cell, Column, Table, cut};
use opreport::units::{percent, plural, time_rounded};

use super::{figure, interval, number, reservations};
use crate::model::trained::Facts;
use crate::query::Answer;
use crate::query::answer::Knowledge;
use crate::query::network::NetworkAnswer;
use crate::query::whatif::Line;

/// Width of reasons, which are prose, at most.
const REASONS: usize = 110;

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

/// The what-if table of a query, with reasons for its first line or for each.
pub fn query(op: &str, lines: &[Line], explain_all: bool, style: Style) -> String {
    let mut table = Table::new(&[
        Column::right("batch"),
        Column::right("threads"),
        Column::right("time"),
        interval_column(lines.first().map(|line| line.answer.level)),
        Column::left("doubts").shrinks_to(8).only_if_filled(),
    ]);
    for line in lines {
        let threads = line.threads.map(|t| t.to_string());
        table.row([
            line.batch.to_string().into(),
            threads.unwrap_or_else(|| "-".to_owned()).into(),
            time_rounded(line.answer.time_ns).into(),
            interval(line.answer.low_ns, line.answer.high_ns).into(),
            doubts(&line.answer).into(),
        ]);
    }
    let mut text = table.render(style);
    let explained = if explain_all { lines.len() } else { 1 };
    for line in lines.iter().take(explained) {
        if lines.len() > 1 {
            let threads = line
                .threads
                .map_or_else(String::new, |t| format!(", {}", plural(t, "thread")));
            let _ = writeln!(text, "\nwhat moves {op}, batch {}{threads}:", line.batch);
        } else {
            let _ = writeln!(text, "\nwhat moves {op}:");
        }
        reasons(&mut text, &line.answer, style);
    }
    text
}

/// Whole models, with the longest operators of the first.
pub fn networks(
    answers: &[NetworkAnswer],
    operators: usize,
    explain: bool,
    style: Style,
) -> String {
    let mut text = String::new();
    if let Some(first) = answers.first() {
        if operators > 0 {
            text += &operator_table(first, operators, style);
            text.push('\n');
        }
        let explained = if explain { operators } else { 0 };
        for o in first.operators.iter().take(explained) {
            let shapes = cut(&o.shapes, REASONS / 2);
            let _ = writeln!(text, "what moves {} {shapes}:", o.name);
            reasons(&mut text, &o.answer, style);
            text.push('\n');
        }
    }
    text + &whole_table(answers, style)
}

/// The column of intervals, which says their level (0 to 1).
fn interval_column(level: Option<f64>) -> Column {
    let level = level.map_or_else(String::new, |level| format!("{} % ", figure(100.0 * level)));
    Column::left("").titled(format!("{level}interval"))
}

/// Whole models, with the parts that their times are sums of.
fn whole_table(answers: &[NetworkAnswer], style: Style) -> String {
    let mut table = Table::new(&[
        Column::left("model").shrinks_to(12),
        Column::right("batch"),
        Column::right("threads"),
        Column::right("time"),
        interval_column(answers.first().map(|answer| answer.level)),
        Column::right("measured"),
        Column::right("known"),
        Column::right("whole ÷ sum").hides(0),
    ]);
    for answer in answers {
        table.row([
            Cell::from(answer.model.as_str()),
            answer.batch.to_string().into(),
            answer.threads.to_string().into(),
            time_rounded(answer.time_ns).into(),
            interval(answer.low_ns, answer.high_ns).into(),
            percent(answer.measured).into(),
            percent(answer.coverage).into(),
            number(answer.factor, 3),
        ]);
    }
    let models = answers.first().map_or(0, |answer| answer.factor_models);
    let whole = match models {
        0 => "the whole is taken for the sum of its operators, as no whole model was trained on"
            .to_owned(),
        models => format!(
            "whole ÷ sum of its operators, as in {}",
            plural(models as u64, "model")
        ),
    };
    table.render(style)
        + &format!(
            "measured: share of the operators' time that was itself measured; known: of kinds trained on;\n{whole}\n"
        )
}

/// The origin of an operator's time.
fn origin_of_time(knowledge: Knowledge) -> &'static str {
    match knowledge {
        Knowledge::Measured => "measured",
        Knowledge::Known => "predicted",
        Knowledge::UnknownKind => "estimated",
    }
}

/// The first of the layers that call an operator, and how many more do.
fn layers(layers: &[String]) -> String {
    match layers {
        [] => String::new(),
        [one] => one.clone(),
        [first, others @ ..] => format!("{first} + {}", others.len()),
    }
}

/// The longest operators of a model.
fn operator_table(answer: &NetworkAnswer, operators: usize, style: Style) -> String {
    let mut table = Table::new(&[
        Column::left("operator").shrinks_to(12),
        Column::left("layer").shrinks_to(12).only_if_filled(),
        Column::left("shapes").shrinks_to(20).hides(2),
        Column::right("calls"),
        Column::right("share"),
        Column::right("one call"),
        interval_column(Some(answer.level)),
        Column::left("from").hides(0),
        Column::left("doubts")
            .shrinks_to(8)
            .hides(1)
            .only_if_filled(),
    ]);
    for o in answer.operators.iter().take(operators) {
        table.row([
            Cell::from(o.name.as_str()),
            layers(&o.layers).into(),
            o.shapes.as_str().into(),
            o.count.to_string().into(),
            percent(o.share).into(),
            time_rounded(o.answer.time_ns).into(),
            interval(o.answer.low_ns, o.answer.high_ns).into(),
            origin_of_time(o.answer.knowledge).into(),
            doubts(&o.answer).into(),
        ]);
    }
    let mut text = format!(
        "{}, batch {}, {}\n",
        answer.model,
        answer.batch,
        plural(answer.threads, "thread")
    ) + &table.render(style);
    if answer.operators.len() > operators {
        let _ = writeln!(text, "… and {} more", answer.operators.len() - operators);
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

/// The effects of features on a prediction, and the nearest measured rows.
fn reasons(text: &mut String, answer: &Answer, style: Style) {
    let width = style.width.map_or(REASONS, |width| width.min(REASONS));
    for driver in &answer.drivers {
        let value = driver
            .value
            .map_or_else(|| "missing".to_owned(), |v| figure(f64::from(v)));
        let meaning = FEATURES.iter().find(|f| f.name == driver.feature);
        let meaning = meaning.map_or_else(String::new, |f| format!("{},", f.doc));
        let value = format!("{} = {value}", driver.feature);
        let words = meaning.split(' ').chain([value.as_str()]);
        *text += &hanging(
            &format!("  {:<18}", times_as_long(driver.factor)),
            words,
            width,
        );
    }
    let indent = "  ";
    let style = Style {
        width: Some(width.saturating_sub(indent.len())),
        ..style
    };
    text.push_str("nearest rows:\n");
    for line in nearest(answer).render(style).lines() {
        let _ = writeln!(text, "{indent}{line}");
    }
}

/// The measured rows that are most like what was asked.
fn nearest(answer: &Answer) -> Table {
    let mut table = Table::new(&[
        Column::right("time"),
        Column::right("threads"),
        Column::right("distance"),
        Column::left("operator").shrinks_to(16),
        // Its ends, which are kept, tell the run's start and the row's number.
        Column::left("row").shrinks_to(24).hides(0),
    ]);
    for near in &answer.nearest {
        let threads = near.measured.threads.map(|t| t.to_string());
        table.row([
            time_rounded(near.measured.time_ns).into(),
            threads.unwrap_or_else(|| "-".to_owned()).into(),
            number(f64::from(near.distance), 2),
            near.measured.label.as_str().into(),
            near.measured.row_id.as_str().into(),
        ]);
    }
    table
}

/// Words after a mark, in lines of this many characters where the words allow; all but the first are indented.
fn hanging<'a>(mark: &str, words: impl Iterator<Item = &'a str>, width: usize) -> String {
    let indent = mark.chars().count();
    let mut text = mark.to_owned();
    let mut column = indent;
    for word in words {
        let length = 1 + word.chars().count();
        if column > indent && column + length > width {
            let _ = write!(text, "\n{:indent$}", "");
            column = indent;
        }
        let _ = write!(text, " {word}");
        column += length;
    }
    text + "\n"
}

/// The machine that an answer is for, and how far its measurements are to be trusted.
pub fn origin(facts: &Facts, machine: &MachineFacts, level: f64) -> String {
    let mut text = format!("for {}\n", machine.label());
    if facts.device_kind == DeviceKind::VTA_SIM {
        text.push_str("learnt from simulated times: none of them was measured\n");
    }
    text += &reservations(facts, level);
    text
}
