//! A point of a run, as it is compared.

use opdata::{CacheState, Row, Status};
use serde::Deserialize;

use super::estimate::Timing;
use super::{Ending, Subject};

/// A point, as far as it is compared.
#[derive(Debug, Clone)]
pub(super) struct Point {
    pub subject: Subject,
    pub model: String,
    pub point_id: String,
    pub row_id: String,
    pub symbol: String,
    pub kind: String,
    pub shapes: String,
    pub target: String,
    pub target_kind: String,
    pub target_cpu: String,
    pub threads: Option<u64>,
    pub cache: Option<CacheState>,
    pub status: Status,
    reason: Option<String>,
    workload: String,
    name: String,
    schedule: String,
    timing: Option<Timing>,
}

impl Point {
    /// The part of a row that is compared.
    pub fn of(row: &Row) -> Point {
        let text = |value: &Option<String>| value.clone().unwrap_or_default();
        let shapes: Vec<String> = [&row.input_shapes, &row.weight_shapes]
            .into_iter()
            .flatten()
            .map(ToString::to_string)
            .collect();
        let shapes = shapes.join(";");
        let target = row
            .target
            .as_ref()
            .map_or_else(String::new, ToString::to_string);
        let kind = row
            .target
            .as_ref()
            .and_then(|t| t.decode::<TargetKind>().ok())
            .map_or_else(|| row.device_kind.to_string(), |t| t.kind);
        // A default schedule is what the tool makes of an operator today; knobs distinguish the schedules of a sweep.
        let schedule = match row.schedule_space.as_deref() {
            Some("default") => "default".to_owned(),
            _ => row
                .schedule_knobs
                .as_ref()
                .or(row.schedule_trace.as_ref())
                .map_or_else(String::new, |text| hash(text.as_str())),
        };
        Point {
            subject: Subject::Operator,
            model: model_label(row),
            point_id: row.point_id.clone(),
            row_id: row.row_id.clone(),
            symbol: row.op_symbol.clone().unwrap_or_else(|| row.op_name.clone()),
            kind: row.op_kind.clone(),
            target_cpu: text(&row.target_cpu),
            target,
            target_kind: kind,
            threads: row.threads,
            cache: row.cache_state,
            status: row.status,
            reason: row.reason.clone(),
            workload: row.workload_hash.clone().unwrap_or_else(|| shapes.clone()),
            name: row.op_name.clone(),
            schedule,
            shapes,
            timing: timing(row),
        }
    }

    /// The whole model of this point's import, run as one.
    pub fn whole_model(&self, threads: u64, timing: Option<Timing>) -> Point {
        let name = "whole model";
        Point {
            subject: Subject::WholeModel,
            point_id: format!("{name} {} {threads}", self.target),
            row_id: format!("{name}, threads {threads}"),
            symbol: name.to_owned(),
            name: name.to_owned(),
            kind: "model".to_owned(),
            shapes: String::new(),
            workload: String::new(),
            schedule: String::new(),
            threads: Some(threads),
            cache: None,
            status: Status::Measured,
            reason: None,
            timing,
            ..self.clone()
        }
    }

    /// Its median, if it is above 0.
    pub fn median(&self) -> Option<Timing> {
        self.timing
    }

    /// The identity of the point, without the target.
    pub fn identity(&self) -> String {
        let cache = self.cache.map_or("", CacheState::as_str);
        format!(
            "{:?}\n{}\n{}\n{}\n{:?}\n{cache}\n{}",
            self.subject, self.model, self.workload, self.name, self.threads, self.schedule
        )
    }

    /// The subject of its verdict: everything but the schedule.
    pub fn group_key(&self) -> String {
        let cache = self.cache.map_or("", CacheState::as_str);
        format!(
            "{:?}\n{}\n{}\n{}\n{}\n{:?}\n{cache}",
            self.subject, self.model, self.symbol, self.workload, self.target, self.threads
        )
    }

    /// Kind of target and processor.
    pub fn target_label(&self) -> String {
        format!("{} {}", self.target_kind, self.target_cpu)
            .trim_end()
            .to_owned()
    }

    /// How the point ended.
    pub fn ending(&self) -> Ending {
        Ending {
            status: self.status,
            reason: self.reason.clone(),
            row: self.row_id.clone(),
        }
    }
}

/// A trace takes kilobytes. Here it only matters whether two traces are equal.
fn hash(schedule: &str) -> String {
    opdata::stable_hash(&[("schedule", schedule)])
}

#[derive(Deserialize)]
struct TargetKind {
    kind: String,
}

/// The model of a row, with the settings that change its operators.
fn model_label(row: &Row) -> String {
    let mut label = row.model_name.clone().unwrap_or_default();
    if let Some(batch) = row.batch {
        label.push_str(&format!(", batch {batch}"));
    }
    if let Some(seqlen) = row.seqlen {
        label.push_str(&format!(", sequence {seqlen}"));
    }
    label
}

fn timing(row: &Row) -> Option<Timing> {
    let interval = match (row.time_ci_low_ns, row.time_ci_high_ns, row.ci_level) {
        (Some(low), Some(high), Some(level)) => Some((low, high, level)),
        _ => None,
    };
    Some(Timing {
        median_ns: row.time_median_ns.filter(|median| *median > 0.0)?,
        interval,
        std_ns: row.time_std_ns,
        samples: row.samples,
        min_ns: row.time_min_ns.filter(|min| *min > 0.0),
        drift: drift(row.drift_ratio),
        busy: row.interference().was_busy(),
    })
}

/// A slowdown as a factor, never below 1.
pub(super) fn drift(ratio: Option<f64>) -> f64 {
    ratio.unwrap_or(1.0).max(1.0)
}
