//! The result of a run as one JSON object: the same facts as the text, with full precision. The keys are a contract with
//! scripts and stay when [`RunReport`] changes; rates, shares and sums are computed here from it.
//!
//! Keys of the whole: `out`, `operators` (how many distinct), `points`, `measured`, `failed`, `skipped`, and the
//! headline's `end_to_end_ns` and `operators_sum_ns`. The headline is of the most threads (`headline.threads`), in the
//! cache state `model` if measured so. Then `per_threads` (the sums for each of the conditions), `operator_rows` (every
//! operator with its points) and `whole_model`. Missing numbers are null.

use opdata::Status;
use opengine::device::Conditions;
use serde_json::{Value, json};

use super::tuned::tuned_json;
use crate::report::{
    Latency, ModelOutcome, OperatorReport, PointOutcome, PointReport, RunReport, SweptReport,
    ThreadTotals, TimeReport, WholeModelReport,
};

/// The report as an object.
pub fn run_json(report: &RunReport) -> Value {
    let counts = report.counts();
    let with_time = |status| u64::from(report.timed == status) * counts.measured;
    let headline = report.headline();
    let totals = headline.map(|at| report.totals(at));
    let conditions = report.conditions().into_iter();
    let per_threads: Vec<ThreadTotals<'_>> = conditions.map(|at| report.totals(at)).collect();
    let operators = report.operators.iter();
    let object = json!({
        "out": report.out.display().to_string(),
        "run_id": report.run_id,
        "state": report.state,
        "model": report.model,
        "batch": report.batch,
        "target": report.target,
        "cpu": report.cpu,
        "operators": report.operator_count(),
        "points": counts.points,
        "measured": with_time(Status::Measured),
        "compiled": counts.compiled,
        "failed": counts.failed,
        "skipped": counts.skipped,
        "points_left": report.left,
        "failed_share": report.failed_share(),
        "end_to_end_ns": totals.as_ref().and_then(ThreadTotals::end_to_end_ns),
        "operators_sum_ns": totals.as_ref().and_then(|totals| totals.operators_sum_ns),
        "explained_share": totals.as_ref().and_then(ThreadTotals::explained_share),
        "headline": headline.map(conditions_json),
        "wall_ns": report.wall_ns,
        "per_threads": per_threads.iter().map(totals_json).collect::<Vec<_>>(),
        "import_checks": report.import_checks,
        "whole_model": report.whole_model.iter().map(model_json).collect::<Vec<_>>(),
        "operator_rows": operators.map(|o| operator_json(o, &per_threads)).collect::<Vec<_>>(),
        "warnings": report.warnings,
    });
    let optional = json!({
        "simulated": with_time(Status::Simulated),
        "tuned": tuned_json(&report.tuned),
    });
    with_present(object, optional)
}

/// Adds the entries of another object that hold something: no null, no 0, no empty list or object.
fn with_present(object: Value, mut optional: Value) -> Value {
    if let Value::Object(entries) = &mut optional {
        entries.retain(|_, value| match value {
            Value::Null => false,
            Value::Number(number) => number.as_f64() != Some(0.0),
            Value::Array(entries) => !entries.is_empty(),
            Value::Object(entries) => !entries.is_empty(),
            Value::Bool(_) | Value::String(_) => true,
        });
    }
    joined(object, optional)
}

fn conditions_json(at: &Conditions) -> Value {
    let object = json!({ "threads": at.threads, "cache_state": at.cache });
    with_present(object, json!({ "conditions": at.device }))
}

fn totals_json(totals: &ThreadTotals<'_>) -> Value {
    let sums = json!({
        "end_to_end_ns": totals.end_to_end_ns(),
        "operators_sum_ns": totals.operators_sum_ns,
        "operators_missing": totals.missing,
        "explained_share": totals.explained_share(),
        "instrumented_share": totals.instrumented_share(),
    });
    joined(conditions_json(totals.conditions), sums)
}

/// One object of the entries of two.
fn joined(mut object: Value, more: Value) -> Value {
    if let (Value::Object(all), Value::Object(more)) = (&mut object, more) {
        all.extend(more);
    }
    object
}

/// The times of a point or model; all null if there are none.
fn time_json(time: Option<&TimeReport>) -> Value {
    json!({
        "time_median_ns": time.map(|time| time.median_ns),
        "time_ci_low_ns": time.map(|time| time.ci_low_ns),
        "time_ci_high_ns": time.map(|time| time.ci_high_ns),
        "samples": time.map(|time| time.samples),
        "quality": time.and_then(|time| time.quality),
    })
}

fn model_json(run: &WholeModelReport) -> Value {
    let (timing, status, reason) = match &run.outcome {
        ModelOutcome::Measured(timing) => (Some(timing), Status::Measured, None),
        ModelOutcome::NotMeasured { status, reason } => (None, *status, Some(reason)),
    };
    let latency = timing.map(|timing| &timing.latency);
    let object = json!({
        "threads": run.conditions.threads,
        "status": status,
        "checked_against": timing.map(|timing| &timing.checked_against),
        "instrumented_sum_ns": timing.and_then(|timing| timing.instrumented_sum_ns),
        "time_p95_ns": latency.map(|latency| latency.p95_ns),
        "time_p99_ns": latency.map(|latency| latency.p99_ns),
        "calls_per_s": latency.and_then(Latency::calls_per_s),
        "reason": reason,
    });
    joined(object, time_json(timing.map(|timing| &timing.time)))
}

fn operator_json(operator: &OperatorReport, totals: &[ThreadTotals<'_>]) -> Value {
    let sum_at = |at: &Conditions| {
        let of_all = totals.iter().find(|totals| totals.conditions == at)?;
        of_all.operators_sum_ns.filter(|sum| *sum > 0.0)
    };
    let points = operator.points.iter();
    let points = points.map(|point| point_json(operator, point, sum_at(&point.conditions)));
    let swept = operator
        .swept
        .iter()
        .map(|swept| swept_json(operator, swept));
    let object = json!({
        "name": operator.name,
        "symbol": operator.symbol,
        "kind": operator.kind,
        "shapes": operator.shapes,
        "count": operator.count,
        "flops": operator.flops,
        "bytes_read": operator.bytes_read,
        "bytes_written": operator.bytes_written,
        "points": points.collect::<Vec<_>>(),
    });
    let optional = json!({
        "architecture": operator.architecture,
        "swept": swept.collect::<Vec<_>>(),
    });
    with_present(object, optional)
}

/// The schedules of a sweep under the same conditions. The best time is of all schedules, the default one included; its
/// row is null where the default is the fastest.
fn swept_json(operator: &OperatorReport, swept: &SweptReport) -> Value {
    let best = operator.best(&swept.conditions);
    let object = json!({
        "measured": swept.measured,
        "compiled": swept.compiled,
        "failed": swept.failed,
        "skipped": swept.skipped,
        "best_time_median_ns": best.map(|(ns, _)| ns),
        "best_row_id": best.and_then(|(_, row)| row),
    });
    joined(conditions_json(&swept.conditions), object)
}

fn point_json(operator: &OperatorReport, point: &PointReport, sum_ns: Option<f64>) -> Value {
    let (status, time, in_model_ns, resources, reason) = match &point.outcome {
        PointOutcome::Measured { time, in_model_ns } => {
            (Status::Measured, Some(time), *in_model_ns, None, None)
        }
        PointOutcome::Compiled(resources) => (Status::Compiled, None, None, Some(resources), None),
        PointOutcome::NotMeasured { status, reason } => (*status, None, None, None, Some(reason)),
    };
    let median_ns = time.map(|time| time.median_ns);
    let rate = |per_s: Option<f64>| per_s.map(|rate| rate / 1e9);
    let object = json!({
        "status": status,
        "in_model_time_ns": in_model_ns,
        "share": median_ns.zip(sum_ns).map(|(ns, sum)| ns * operator.count as f64 / sum),
        "gflops_per_s": rate(median_ns.and_then(|ns| operator.flops_per_s(ns))),
        "gbytes_per_s": rate(median_ns.and_then(|ns| operator.bytes_per_s(ns))),
        "reason": reason,
    });
    // Resources are given only for points that were compiled and not run.
    let optional = json!({ "counts": point.counts, "resources": resources });
    let object = joined(
        conditions_json(&point.conditions),
        with_present(object, optional),
    );
    joined(object, time_json(time))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::render::testing::{finished, interrupted};

    #[test]
    fn the_promised_keys() {
        let object = run_json(&finished());
        assert_eq!(object["out"], "runs/20260131T120000Z-resnet-18-llvm");
        assert_eq!(object["operators"], 2);
        assert_eq!(object["points"], 4);
        assert_eq!(object["measured"], 4);
        assert_eq!(object["failed"], 0);
        assert_eq!(object["end_to_end_ns"], 2_700_000.0);
        assert_eq!(object["operators_sum_ns"], 4.0 * 640_400.0 + 40_000.0);
        assert_eq!(object["headline"]["threads"], 2);
        assert_eq!(object["per_threads"][0]["end_to_end_ns"], 5_100_000.0);
    }

    #[test]
    fn what_is_missing_is_null() {
        let object = run_json(&interrupted());
        assert_eq!(object["state"], "interrupted");
        assert_eq!(
            (&object["failed"], &object["skipped"]),
            (&1.into(), &1.into())
        );
        assert!(object["end_to_end_ns"].is_null());
        assert!(object["explained_share"].is_null());
        insta::assert_snapshot!(serde_json::to_string_pretty(&object["operator_rows"][0]["points"]).unwrap(), @r#"
        [
          {
            "cache_state": "hot",
            "gbytes_per_s": null,
            "gflops_per_s": null,
            "in_model_time_ns": null,
            "quality": null,
            "reason": "the worker ended by signal 11",
            "samples": null,
            "share": null,
            "status": "crashed",
            "threads": 1,
            "time_ci_high_ns": null,
            "time_ci_low_ns": null,
            "time_median_ns": null
          },
          {
            "cache_state": "hot",
            "gbytes_per_s": null,
            "gflops_per_s": null,
            "in_model_time_ns": null,
            "quality": null,
            "reason": "interrupted",
            "samples": null,
            "share": null,
            "status": "skipped",
            "threads": 2,
            "time_ci_high_ns": null,
            "time_ci_low_ns": null,
            "time_median_ns": null
          }
        ]
        "#);
        insta::assert_snapshot!(serde_json::to_string_pretty(&object["whole_model"]).unwrap(), @r#"
        [
          {
            "calls_per_s": null,
            "checked_against": null,
            "instrumented_sum_ns": null,
            "quality": null,
            "reason": "output 0 is off by 0.3 at [0, 17]",
            "samples": null,
            "status": "wrong_result",
            "threads": 1,
            "time_ci_high_ns": null,
            "time_ci_low_ns": null,
            "time_median_ns": null,
            "time_p95_ns": null,
            "time_p99_ns": null
          }
        ]
        "#);
        // Four were tried and one was skipped; the crash and the whole model failed.
        assert_eq!(object["failed_share"], 0.5);
    }
}
