//! The result of a run as one JSON object: the same facts as the text, with full precision. The keys are a contract with
//! scripts and stay when [`RunReport`] changes; rates, shares and sums are computed here from it.
//!
//! Keys of the whole: `out`, `operators` (how many distinct), `points`, `measured`, `failed`, `skipped`, and the
//! headline's `end_to_end_ns` and `operators_sum_ns`. The headline is of the most threads (`headline.threads`), in the
//! cache state `model` if measured so. Then `per_threads` (the sums for each of the conditions), `operator_rows` (every
//! operator with its points) and `whole_model`. Missing numbers are null.

use std::collections::BTreeMap;

use opdata::{CacheState, Quality, RunState, Status};
use opengine::device::Conditions;
use opmodels::ImportRequest;
use serde::Serialize;

use super::tuned::tuned_json;
use crate::report::{
    ModelOutcome, OperatorReport, PointOutcome, PointReport, ResourcesReport, RunReport,
    SweptReport, ThreadTotals, TimeReport,
};

#[derive(Serialize)]
struct RunObject<'a> {
    out: String,
    run_id: &'a str,
    state: RunState,
    model: &'a ImportRequest,
    batch: u64,
    target: &'a str,
    cpu: &'a str,
    operators: u64,
    points: u64,
    measured: u64,
    #[serde(skip_serializing_if = "is_zero")]
    simulated: u64,
    compiled: u64,
    failed: u64,
    skipped: u64,
    points_left: u64,
    failed_share: f64,
    end_to_end_ns: Option<f64>,
    operators_sum_ns: Option<f64>,
    explained_share: Option<f64>,
    headline: Option<ConditionsObject<'a>>,
    wall_ns: u64,
    per_threads: Vec<ThreadObject<'a>>,
    import_checks: &'a [String],
    whole_model: Vec<ModelObject<'a>>,
    operator_rows: Vec<OperatorObject<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tuned: Vec<serde_json::Value>,
    warnings: &'a [String],
}

#[derive(Serialize)]
struct ConditionsObject<'a> {
    threads: u32,
    cache_state: CacheState,
    /// Left out for devices without conditions of their own.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    conditions: &'a BTreeMap<String, String>,
}

impl<'a> From<&'a Conditions> for ConditionsObject<'a> {
    fn from(at: &'a Conditions) -> Self {
        ConditionsObject {
            threads: at.threads,
            cache_state: at.cache,
            conditions: &at.device,
        }
    }
}

#[derive(Serialize)]
struct ThreadObject<'a> {
    #[serde(flatten)]
    at: ConditionsObject<'a>,
    end_to_end_ns: Option<f64>,
    operators_sum_ns: Option<f64>,
    operators_missing: u64,
    explained_share: Option<f64>,
    instrumented_share: Option<f64>,
}

/// The times of a point or model; all null if there are none.
#[derive(Default, Serialize)]
struct TimeObject {
    time_median_ns: Option<f64>,
    time_ci_low_ns: Option<f64>,
    time_ci_high_ns: Option<f64>,
    samples: Option<u64>,
    quality: Option<Quality>,
}

#[derive(Serialize)]
struct ModelObject<'a> {
    threads: u32,
    status: Status,
    #[serde(flatten)]
    time: TimeObject,
    checked_against: Option<&'a str>,
    instrumented_sum_ns: Option<f64>,
    time_p95_ns: Option<f64>,
    time_p99_ns: Option<f64>,
    calls_per_s: Option<f64>,
    reason: Option<&'a str>,
}

#[derive(Serialize)]
struct OperatorObject<'a> {
    name: &'a str,
    symbol: &'a str,
    kind: &'a str,
    shapes: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    architecture: Option<&'a str>,
    count: u64,
    flops: u64,
    bytes_read: u64,
    bytes_written: u64,
    points: Vec<PointObject<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    swept: Vec<SweptObject<'a>>,
}

/// The schedules of a sweep under the same conditions.
#[derive(Serialize)]
struct SweptObject<'a> {
    #[serde(flatten)]
    at: ConditionsObject<'a>,
    measured: u64,
    compiled: u64,
    failed: u64,
    skipped: u64,
    /// The shortest median of all schedules, including the default one.
    best_time_median_ns: Option<f64>,
    /// Null where the default is the fastest.
    best_row_id: Option<&'a str>,
}

#[derive(Serialize)]
struct PointObject<'a> {
    #[serde(flatten)]
    at: ConditionsObject<'a>,
    status: Status,
    #[serde(flatten)]
    time: TimeObject,
    in_model_time_ns: Option<f64>,
    share: Option<f64>,
    gflops_per_s: Option<f64>,
    gbytes_per_s: Option<f64>,
    /// Counts by `source:name`.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    counts: &'a BTreeMap<String, f64>,
    reason: Option<&'a str>,
    /// Given only for points that were compiled and not run.
    #[serde(skip_serializing_if = "Option::is_none")]
    resources: Option<&'a ResourcesReport>,
}

/// The report as one line of JSON.
pub fn run_json(report: &RunReport) -> String {
    let counts = report.counts();
    let headline = report.headline();
    let totals = headline.map(|at| report.totals(at));
    let per_threads: Vec<ThreadTotals<'_>> = report
        .conditions()
        .into_iter()
        .map(|at| report.totals(at))
        .collect();
    let object = RunObject {
        out: report.out.display().to_string(),
        run_id: &report.run_id,
        state: report.state,
        model: &report.model,
        batch: report.batch,
        target: &report.target,
        cpu: &report.cpu,
        operators: report.operator_count(),
        points: counts.points,
        measured: if report.timed == Status::Measured {
            counts.measured
        } else {
            0
        },
        simulated: if report.timed == Status::Simulated {
            counts.measured
        } else {
            0
        },
        failed: counts.failed,
        compiled: counts.compiled,
        skipped: counts.skipped,
        points_left: report.left,
        failed_share: report.failed_share(),
        end_to_end_ns: totals.as_ref().and_then(ThreadTotals::end_to_end_ns),
        operators_sum_ns: totals.as_ref().and_then(|totals| totals.operators_sum_ns),
        explained_share: totals.as_ref().and_then(ThreadTotals::explained_share),
        headline: headline.map(ConditionsObject::from),
        wall_ns: report.wall_ns,
        per_threads: per_threads.iter().map(thread_object).collect(),
        import_checks: &report.import_checks,
        whole_model: model_objects(report),
        operator_rows: report
            .operators
            .iter()
            .map(|operator| operator_object(operator, &per_threads))
            .collect(),
        tuned: tuned_json(&report.tuned),
        warnings: &report.warnings,
    };
    // Only maps with keys that are not text have no JSON form, and there are none here.
    serde_json::to_string(&object).unwrap_or_default()
}

/// Whether a count is left out.
fn is_zero(count: &u64) -> bool {
    *count == 0
}

fn thread_object<'a>(totals: &ThreadTotals<'a>) -> ThreadObject<'a> {
    ThreadObject {
        at: totals.conditions.into(),
        end_to_end_ns: totals.end_to_end_ns(),
        operators_sum_ns: totals.operators_sum_ns,
        operators_missing: totals.missing,
        explained_share: totals.explained_share(),
        instrumented_share: totals.instrumented_share(),
    }
}

fn time_object(time: &TimeReport) -> TimeObject {
    TimeObject {
        time_median_ns: Some(time.median_ns),
        time_ci_low_ns: Some(time.ci_low_ns),
        time_ci_high_ns: Some(time.ci_high_ns),
        samples: Some(time.samples),
        quality: time.quality,
    }
}

fn model_objects(report: &RunReport) -> Vec<ModelObject<'_>> {
    report
        .whole_model
        .iter()
        .map(|run| match &run.outcome {
            ModelOutcome::Measured(timing) => ModelObject {
                threads: run.conditions.threads,
                status: Status::Measured,
                time: time_object(&timing.time),
                checked_against: Some(&timing.checked_against),
                instrumented_sum_ns: timing.instrumented_sum_ns,
                time_p95_ns: Some(timing.latency.p95_ns),
                time_p99_ns: Some(timing.latency.p99_ns),
                calls_per_s: timing.latency.calls_per_s(),
                reason: None,
            },
            ModelOutcome::NotMeasured { status, reason } => ModelObject {
                threads: run.conditions.threads,
                status: *status,
                time: TimeObject::default(),
                checked_against: None,
                instrumented_sum_ns: None,
                time_p95_ns: None,
                time_p99_ns: None,
                calls_per_s: None,
                reason: Some(reason),
            },
        })
        .collect()
}

fn operator_object<'a>(
    operator: &'a OperatorReport,
    totals: &[ThreadTotals<'_>],
) -> OperatorObject<'a> {
    let sum_at = |point: &PointReport| {
        totals
            .iter()
            .find(|t| *t.conditions == point.conditions)
            .and_then(|t| t.operators_sum_ns)
            .filter(|sum| *sum > 0.0)
    };
    OperatorObject {
        name: &operator.name,
        symbol: &operator.symbol,
        kind: &operator.kind,
        shapes: &operator.shapes,
        architecture: operator.architecture.as_deref(),
        count: operator.count,
        flops: operator.flops,
        bytes_read: operator.bytes_read,
        bytes_written: operator.bytes_written,
        points: operator
            .points
            .iter()
            .map(|point| point_object(operator, point, sum_at(point)))
            .collect(),
        swept: operator
            .swept
            .iter()
            .map(|swept| swept_object(operator, swept))
            .collect(),
    }
}

fn swept_object<'a>(operator: &'a OperatorReport, swept: &'a SweptReport) -> SweptObject<'a> {
    let best = operator.best(&swept.conditions);
    SweptObject {
        at: (&swept.conditions).into(),
        measured: swept.measured,
        failed: swept.failed,
        compiled: swept.compiled,
        skipped: swept.skipped,
        best_time_median_ns: best.map(|(ns, _)| ns),
        best_row_id: best.and_then(|(_, row)| row),
    }
}

fn point_object<'a>(
    operator: &OperatorReport,
    point: &'a PointReport,
    operators_sum_ns: Option<f64>,
) -> PointObject<'a> {
    let empty = PointObject {
        at: (&point.conditions).into(),
        status: Status::Measured,
        time: TimeObject::default(),
        in_model_time_ns: None,
        share: None,
        gflops_per_s: None,
        gbytes_per_s: None,
        counts: &point.counts,
        reason: None,
        resources: None,
    };
    match &point.outcome {
        PointOutcome::Measured { time, in_model_ns } => PointObject {
            time: time_object(time),
            in_model_time_ns: *in_model_ns,
            share: operators_sum_ns.map(|sum| time.median_ns * operator.count as f64 / sum),
            gflops_per_s: operator.flops_per_s(time.median_ns).map(|rate| rate / 1e9),
            gbytes_per_s: operator.bytes_per_s(time.median_ns).map(|rate| rate / 1e9),
            ..empty
        },
        PointOutcome::Compiled(resources) => PointObject {
            status: Status::Compiled,
            resources: Some(resources),
            ..empty
        },
        PointOutcome::NotMeasured { status, reason } => PointObject {
            status: *status,
            reason: Some(reason),
            ..empty
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::render::testing::{finished, interrupted};

    fn parsed(report: &RunReport) -> serde_json::Value {
        serde_json::from_str(&run_json(report)).unwrap()
    }

    #[test]
    fn the_promised_keys() {
        let object = parsed(&finished());
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
        let object = parsed(&interrupted());
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
