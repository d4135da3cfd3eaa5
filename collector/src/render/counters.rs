//! `opcollect list counters`: sources, their counters, and how to enable the others.

use opengine::measure::counters::{CounterError, SourceKind, Survey};
use opreport::Style;
use opreport::table::{Column, Table};
use serde_json::{Value, json};

/// The sources, then their events; what problems have in common is said once, with its fix.
pub(super) fn counters_text(surveys: &[(&dyn SourceKind, Survey)], style: Style) -> String {
    let mut sources = Table::new(&[
        Column::left("source"),
        Column::left("here"),
        Column::left("what"),
        Column::left("finding").shrinks_to(24),
    ]);
    let mut events = Table::headed("counter|unit|counts here");
    let mut fixes: Vec<String> = Vec::new();
    for (kind, survey) in surveys {
        let here = match &survey.state {
            Ok(_) if kind.is_automatic() => "yes, automatic",
            Ok(_) => "yes",
            Err(_) => "no",
        };
        let finding = match &survey.state {
            Ok(finding) => finding.clone(),
            Err(error) => error.reason.clone(),
        };
        sources.row([
            kind.name().into(),
            here.into(),
            kind.title().into(),
            finding.into(),
        ]);
        for fact in &survey.counters {
            let counts = match &fact.problem {
                None if fact.usual => "yes".to_owned(),
                None => "yes, when named".to_owned(),
                Some(problem) => format!("no: {}", problem.reason),
            };
            events.row([
                format!("{}:{}", kind.name(), fact.counter.name).into(),
                fact.counter.unit.clone().into(),
                counts.into(),
            ]);
        }
        let problems = survey.counters.iter().filter_map(|c| c.problem.as_ref());
        for problem in survey.state.as_ref().err().into_iter().chain(problems) {
            let fix = format!("{}: {}", kind.name(), problem.next);
            if !fixes.contains(&fix) {
                fixes.push(fix);
            }
        }
    }
    let mut text = format!("{}\n{}", sources.render(style), events.render(style));
    if !fixes.is_empty() {
        text.push_str(&format!("\n{}\n", style.bold("to count more")));
        fixes
            .iter()
            .for_each(|fix| text.push_str(&format!("  {fix}\n")));
    }
    text
}

/// One source as an object.
pub(super) fn survey_json((kind, survey): &(&dyn SourceKind, Survey)) -> Value {
    let problem = |error: &CounterError| json!({ "reason": error.reason, "fix": error.next });
    let counters: Vec<Value> = survey
        .counters
        .iter()
        .map(|fact| {
            json!({
                "name": format!("{}:{}", kind.name(), fact.counter.name), "unit": fact.counter.unit,
                "usual": fact.usual, "here": fact.problem.is_none(),
                "problem": fact.problem.as_ref().map(problem),
            })
        })
        .collect();
    json!({
        "name": kind.name(), "title": kind.title(), "automatic": kind.is_automatic(),
        "here": survey.state.is_ok(), "finding": survey.state.as_ref().ok(),
        "problem": survey.state.as_ref().err().map(problem), "counters": counters,
    })
}
