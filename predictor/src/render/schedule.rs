//! Schedules of models as text.

use std::path::Path;

use opreport::Style;
use opreport::table::{Cell, Table};
use opreport::units::time;

use crate::schedule::build::Times;
use crate::schedule::{LEAST_GAIN, Scheduled};

/// Facts printed beside the schedules.
pub struct Facts<'a> {
    /// The models.
    pub models: &'a [String],
    /// Threads.
    pub threads: u32,
    /// Origin of the times.
    pub times: &'a Times,
    /// Origin of the slowdowns.
    pub interference: &'a str,
    /// Index of the chosen schedule.
    pub taken: usize,
    /// Whether the user named it.
    pub is_named: bool,
    /// The file that the schedule was written to, and the command that runs it.
    pub out: Option<(&'a Path, &'a str)>,
}

/// All algorithms with their predicted times, the chosen one, and the origin of the times.
pub fn scheduled(facts: &Facts<'_>, scheduled: &Scheduled, style: Style) -> String {
    let mut table =
        Table::headed("schedule|#stages|#side by side|#predicted|#speedup|#undisturbed|");
    for (number, outcome) in scheduled.outcomes.iter().enumerate() {
        let wide = outcome.stages.iter().filter(|stage| stage.lanes.len() > 1);
        let calls = wide
            .flat_map(|stage| &stage.lanes)
            .map(|lane| lane.calls.len());
        table.row([
            Cell::from(outcome.name),
            outcome.stages.len().to_string().into(),
            calls.sum::<usize>().to_string().into(),
            time(outcome.predicted_ns).into(),
            format!("×{:.3}", outcome.speedup).into(),
            format!("×{:.3}", outcome.undisturbed_speedup).into(),
            if number == facts.taken { "taken" } else { "" }.into(),
        ]);
    }
    let mut text = format!(
        "{}, {} threads; predicted, not measured\n\n{}\n",
        facts.models.join(" and "),
        facts.threads,
        table.render(style)
    );
    text.push_str(&format!(
        "no schedule takes less than {} by these times (×{:.3}): the longest chain of calls, or all work over all threads\n",
        time(scheduled.bound_ns),
        scheduled.outcomes[0].predicted_ns / scheduled.bound_ns
    ));
    text.push_str(
        "undisturbed: the speedup by each operator's shortest time instead of its median\n",
    );
    if facts.taken == 0 && !facts.is_named {
        text.push_str(&format!(
            "no schedule gains {:.0} % or more by both: one call after another is taken\n",
            LEAST_GAIN * 100.0
        ));
    }
    if scheduled.cut_short {
        text.push_str("parts of the graph are too wide to search; their stages are greedy, or one call after another\n");
    }
    text.push_str(&format!(
        "times of operators: {} measured, {} predicted; slowdown side by side: {}\n",
        facts.times.measured, facts.times.predicted, facts.interference
    ));
    if let Some(most) = facts.times.extrapolates_from_threads {
        text.push_str(&format!(
            "warning: the model learned from at most {most} threads; its times for more are extrapolated\n"
        ));
    }
    if let Some((out, command)) = facts.out {
        text.push_str(&format!("{} written; run it: {command}\n", out.display()));
    }
    text
}
