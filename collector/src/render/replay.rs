//! A replayed row: the recorded time and the time now, side by side.

use opreport::table::Table;
use opreport::{Style, units};
use serde_json::{Value, json};

use crate::replay::{Replayed, Verdict};
use crate::report::TimeReport;

/// The result in words.
pub fn replay_text(replayed: &Replayed, style: Style) -> String {
    let line = |time: &TimeReport| {
        let half = time.relative_half_width().filter(|half| *half > 0.0);
        format!(
            "{}{}, {}{}",
            units::time(time.median_ns),
            half.map_or_else(String::new, |h| format!(" ±{}", units::percent(h))),
            units::plural(time.samples, "sample"),
            time.quality
                .map_or_else(String::new, |q| format!(", grade {q}"))
        )
    };
    let verdict = match replayed.verdict {
        Verdict::Inside => style.green("inside the recorded noise"),
        Verdict::Slower => style.red("slower than the recorded noise allows"),
        Verdict::Faster => style.yellow("faster than the recorded noise allows"),
    };
    let mut text = format!(
        "{}  {} ({}, {})\n  recorded  {}\n  now       {}\n  ratio     {:.3}, {verdict} (up to {:.3})\n",
        style.bold(&replayed.row_id),
        replayed.operator,
        units::plural(u64::from(replayed.threads), "thread"),
        replayed.cache,
        line(&replayed.recorded),
        line(&replayed.now),
        replayed.ratio,
        replayed.noise_ratio,
    );
    let counted: Vec<_> = replayed.counts.iter().filter(|c| c.now.is_ok()).collect();
    if !counted.is_empty() {
        let mut table = Table::headed("counter|#recorded|#now|unit");
        let number = |value: Option<f64>| {
            value.map_or_else(|| "-".to_owned(), |value| format!("{value:.1}"))
        };
        for count in counted {
            table.row([
                count.name.clone().into(),
                number(count.recorded).into(),
                number(count.now.clone().ok()).into(),
                count.unit.clone().into(),
            ]);
        }
        text.push_str(&table.render(style));
    }
    for warning in &replayed.warnings {
        text.push_str(&format!("{} {warning}\n", style.yellow("warning:")));
    }
    text
}

/// The result as one object.
pub fn replay_json(replayed: &Replayed) -> Value {
    let time = |time: &TimeReport| {
        json!({
            "time_median_ns": time.median_ns, "time_ci_low_ns": time.ci_low_ns,
            "time_ci_high_ns": time.ci_high_ns, "samples": time.samples, "quality": time.quality,
        })
    };
    json!({
        "row_id": replayed.row_id,
        "operator": replayed.operator,
        "threads": replayed.threads,
        "cache_state": replayed.cache,
        "recorded": time(&replayed.recorded),
        "now": time(&replayed.now),
        "ratio": replayed.ratio,
        "noise_ratio": replayed.noise_ratio,
        "verdict": replayed.verdict.word(),
        "counters": replayed.counts.iter().map(|count| json!({
            "name": count.name, "unit": count.unit, "recorded": count.recorded,
            "now": count.now.as_ref().ok(), "missing": count.now.as_ref().err(),
        })).collect::<Vec<_>>(),
        "warnings": replayed.warnings,
    })
}
