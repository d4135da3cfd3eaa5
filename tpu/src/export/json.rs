//! `profile.json`: everything but the single events, for scripts: totals, roll-ups, gaps, roofline, the account.

use serde_json::{Value, json};

use crate::analysis::gaps::{Cause, find};
use crate::analysis::overview::overview;
use crate::analysis::rollup::{Filter, Group, Grouping, roll_up};
use crate::analysis::roofline::{self, element_bytes};
use crate::analysis::summary::Summary;
use crate::profile::Profile;

/// The whole object. `top` limits the lists of groups and gaps.
pub fn object(profile: &Profile, summary: &Summary, filter: &Filter, top: usize) -> Value {
    let gaps = find(profile, top);
    let element_bytes = element_bytes(profile);
    let operators = roll_up(profile, Grouping::Operator, &Filter::default());
    let overview = overview(profile, summary, &operators, &gaps, element_bytes);
    let causes: serde_json::Map<String, Value> = gaps
        .by_cause
        .iter()
        .map(|(cause, (count, ns))| (cause_key(*cause), json!({"count": count, "total_ns": ns})))
        .collect();
    let mut object = json!({
        "dump": profile.path.display().to_string(),
        "chip": profile.chip.spec().name,
        "mode": profile.mode.name(),
        "tiu_mhz": profile.tiu_mhz,
        "dma_mhz": profile.dma_mhz,
        "whole": profile.report.is_whole(),
        "overview": overview,
        "limited_by": overview.limit.name(),
        "summary": summary,
        "idle_gaps": {"by_cause": causes, "longest": gaps.longest},
        "report": profile.report,
    });
    for grouping in Grouping::ALL {
        let mut groups = roll_up(profile, grouping, filter);
        groups.truncate(top);
        object[format!("by_{}", grouping.name())] =
            Value::Array(groups.iter().map(group_json).collect());
        if grouping == Grouping::Kernel || grouping == Grouping::Layer {
            let points: Vec<_> = groups
                .iter()
                .map(|group| {
                    roofline::place(profile.chip.spec(), profile.tiu_mhz, element_bytes, group)
                })
                .collect();
            object[format!("roofline_{}", grouping.name())] = json!(points);
        }
    }
    object
}

fn cause_key(cause: Cause) -> String {
    match serde_json::to_value(cause) {
        Ok(Value::String(key)) => key,
        _ => cause.name().to_string(),
    }
}

/// A group with its shortest, middle and longest execution.
fn group_json(group: &Group) -> Value {
    let mut value = json!(group);
    value["min_ns"] = json!(group.durations.at(0));
    value["median_ns"] = json!(group.median_ns());
    value["max_ns"] = json!(group.durations.at(u64::MAX));
    value
}
