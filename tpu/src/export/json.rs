//! `profile.json`: everything but the single events, for scripts: totals, roll-ups, gaps, roofline, the account.

use serde_json::{Value, json};

use crate::analysis::gaps::{Cause, find};
use crate::analysis::rollup::{Filter, Group, Grouping, roll_up};
use crate::analysis::roofline;
use crate::analysis::summary::Summary;
use crate::names::data_type_bytes;
use crate::profile::Profile;
use crate::view::{Detail, Viewer};

/// The whole object. `top` limits the lists of groups and gaps.
pub fn object(profile: &Profile, summary: &Summary, filter: &Filter, top: usize) -> Value {
    let gaps = find(profile, top);
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
        "summary": summary,
        "idle_gaps": {"by_cause": causes, "longest": gaps.longest},
        "report": profile.report,
    });
    let element_bytes = element_bytes(profile);
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

/// A group without its single durations.
fn group_json(group: &Group) -> Value {
    let mut value = json!(group);
    if let Some(object) = value.as_object_mut() {
        object.remove("durations_ns");
    }
    let at = |share: f64| {
        let last = group.durations_ns.len().saturating_sub(1);
        group
            .durations_ns
            .get((last as f64 * share).round() as usize)
            .copied()
    };
    value["min_ns"] = json!(at(0.0));
    value["median_ns"] = json!(at(0.5));
    value["max_ns"] = json!(at(1.0));
    value
}

/// Bytes of the element type that most TIU work is done in; 1 if nothing tells.
pub fn element_bytes(profile: &Profile) -> f64 {
    let mut cycles = [0u64; 16];
    for (stream, events) in profile.streams() {
        let Some(viewer) = Viewer::new(profile, stream) else {
            continue;
        };
        for (index, event) in events.iter().enumerate() {
            if let Detail::Tiu(tiu) = viewer.view(index, event).detail
                && let Some(dtype) = tiu.dtype.filter(|&d| d < 16)
            {
                cycles[dtype as usize] += event.cycles;
            }
        }
    }
    let code = (0..16u32)
        .max_by_key(|&code| (cycles[code as usize], 16 - code))
        .unwrap_or(0);
    data_type_bytes(code).unwrap_or(1.0)
}
