//! A profile as JSON.

use opdata::roofline::Standing;
use opengine::protocol::CallCounts;
use serde_json::{Value, json};

use super::{class, device_of, own_ns};
use crate::profile::advice::advice;
use crate::profile::summary::{Line, Memory, Summary, end_to_end, overhead, summary};
use crate::profile::{ProfiledModel, Shown};

/// The profile as one object: the same numbers for every line of every cycle, nanoseconds and bytes for one run.
pub fn profile_json(model: &ProfiledModel, shown: &Shown) -> Value {
    let pairs = &model.profiled.pairs;
    let cost = overhead(pairs);
    let cycles: Vec<Summary> = model
        .profiled
        .cycles
        .iter()
        .map(|cycle| summary(model, cycle, shown.group_by, shown.sort_by))
        .collect();
    let explained = cycles.iter().map(Summary::explained);
    json!({
        "model": model.graph.model,
        "batch": model.graph.batch,
        "target": model.target,
        "cpu": model.cpu,
        "threads": model.threads,
        "schedule": model.schedule,
        "checked_against": model.checked_against,
        "simulated_by": model.simulation,
        "explained": opdata::stats::median(explained).filter(|_| model.simulation.is_none()),
        "overhead": cost.map(|(median, _)| median),
        "overhead_interval": cost.and_then(|(_, interval)| interval),
        "end_to_end_ns": end_to_end(pairs),
        "drift": model.profiled.slowdown,
        "storage_bytes": model.profiled.storage_bytes,
        "counters": model.profiled.counts.iter().map(counter_json).collect::<Vec<_>>(),
        "cycles": cycles.iter().map(|s| cycle_json(s, model, shown)).collect::<Vec<_>>(),
    })
}

fn counter_json(counts: &CallCounts) -> Value {
    json!({
        "name": counts.full_name(),
        "unit": counts.counter.unit,
        "problem": counts.of_calls.as_ref().err(),
    })
}

/// Counts by the names of their counters.
fn counts_json(model: &ProfiledModel, counts: &[f64]) -> Value {
    let named = model.counted().zip(counts);
    let named = named.map(|((counter, _), count)| (counter.full_name(), json!(count)));
    Value::Object(named.collect())
}

fn cycle_json(summary: &Summary, model: &ProfiledModel, shown: &Shown) -> Value {
    let top = shown.top.unwrap_or(usize::MAX);
    let lines = summary.lines.iter().take(top);
    json!({
        "first_step": summary.first_step,
        "runs": summary.runs,
        "sum_ns": summary.sum_ns,
        "total_ns": summary.total_ns,
        "explained": model.simulation.is_none().then(|| summary.explained()),
        "peak_bytes": summary.peak_bytes,
        "memory": Memory::of(model, summary),
        "advice": advice(summary),
        "counts": counts_json(model, &summary.counts()),
        "lines": lines.map(|line| line_json(line, summary, model)).collect::<Vec<_>>(),
    })
}

fn line_json(line: &Line, summary: &Summary, model: &ProfiledModel) -> Value {
    let timed = |value: f64| own_ns(line).map(|_| value);
    json!({
        "name": line.name,
        "class": class(line.class),
        "kind": line.kind,
        "layer": line.layer,
        "self_ns": own_ns(line),
        "total_ns": timed(line.total_ns),
        "share": timed(summary.share(line)),
        "device": device_of(line, model),
        "count": line.count,
        "shapes": line.shapes,
        "hash": line.hash,
        "counts": counts_json(model, &line.counts),
        "call_min_ns": timed(line.extremes_ns.0),
        "call_max_ns": timed(line.extremes_ns.1),
        "allocated_bytes": line.allocated_bytes,
        "freed_bytes": line.freed_bytes,
        "live_bytes": line.live_bytes,
        "flops": line.flops,
        "bytes": line.bytes,
        "busy_share": line.busy_share,
        "roofline": line.standing.as_ref().map(standing_json),
    })
}

/// Shares of every roof, and the resource that bounds the call.
pub(in crate::render) fn standing_json(standing: &Standing) -> Value {
    let shares = standing.shares.iter();
    let shares = shares.map(|(roof, share)| (roof.name().to_owned(), json!(share)));
    json!({
        "shares": Value::Object(shares.collect()),
        "level": standing.level,
        "bound_by": standing.words(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::summary::testing::model;

    #[test]
    fn json_says_what_is_explained_and_what_watching_costs() {
        let json = profile_json(&model(), &Shown::default());
        assert_eq!(json["explained"], 0.9);
        assert_eq!(json["cycles"][0]["lines"][0]["layer"], "layer1.conv1");
        assert_eq!(
            json["cycles"][0]["lines"][0]["counts"]["perf:page-faults"],
            12_345.0
        );
        assert_eq!(json["cycles"][0]["counts"]["perf:page-faults"], 12_346.5);
        assert_eq!(json["counters"][1]["problem"], "there is no PMU");
        assert!(json["overhead"].as_f64().unwrap() < 0.02);
    }
}
