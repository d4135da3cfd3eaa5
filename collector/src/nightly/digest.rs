//! The summary of a nightly run's rows: how points ended and why, the slowest and fastest operators, how steady the machine was.
//!
//! Runs are read row by row; memory grows with the number of operators and of distinct failure reasons, not of points.

use std::collections::HashMap;
use std::path::Path;

use opdata::contract::interference::is_disturbed;
use opdata::contract::whole_model::{WholeModelRecord, whole_model_files};
use opdata::stats::{median_of_sorted, quantile_of_sorted};
use opdata::{Counts, Row, RowReader, Status};
use serde::Serialize;

/// Entries of each list.
const LISTED: usize = 10;

/// One run in numbers.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Digest {
    /// Number of points by how they ended.
    pub counts: Counts,
    /// Slowdowns of the reference kernel, if the run has it.
    pub drift: Option<Drift>,
    /// Its whole models.
    pub models: Models,
}

/// Whole models of a run, each at a number of threads.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Models {
    /// Number of whole models that were timed.
    pub timed: u64,
    /// Number of timed ones with a slowdown beyond [`SLOWDOWN_BOUND`](opdata::contract::interference::SLOWDOWN_BOUND).
    pub disturbed: u64,
}

/// Slowdowns of the reference kernel over a run, by point.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Drift {
    /// Median of the slowdowns.
    pub median: f64,
    /// 95th percentile of the slowdowns.
    pub p95: f64,
    /// Largest slowdown.
    pub max: f64,
    /// Points beyond [`SLOWDOWN_BOUND`](opdata::contract::interference::SLOWDOWN_BOUND).
    pub disturbed: u64,
    /// Points.
    pub points: u64,
}

/// Sums over all runs of a night.
#[derive(Debug, Default)]
pub struct Tally {
    reasons: HashMap<(Status, String), Reason>,
    best: HashMap<OperatorKey, OperatorTime>,
}

/// The facts of [`Tally`], in order.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Findings {
    /// Why points failed, the most frequent reason first.
    pub reasons: Vec<Reason>,
    /// The operators that take longest, each with its best schedule.
    pub slowest: Vec<OperatorTime>,
    /// The operators with the highest rate of arithmetic.
    pub fastest: Vec<OperatorTime>,
}

/// Points that failed for one reason.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Reason {
    /// How these points ended.
    pub status: Status,
    /// The reason.
    pub reason: String,
    /// Number of these points.
    pub points: u64,
    /// `row_id` of one such point.
    pub example: String,
}

/// An operator's best time.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct OperatorTime {
    /// The model.
    pub model: String,
    /// Its function.
    pub operator: String,
    /// Shapes of inputs and weights.
    pub shapes: String,
    /// Threads.
    pub threads: Option<u64>,
    /// Its best median, in ns.
    pub median_ns: f64,
    /// The rate at that.
    pub gflops_per_s: Option<f64>,
    /// The row.
    pub row_id: String,
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct OperatorKey {
    model: String,
    operator: String,
    shapes: String,
    threads: Option<u64>,
}

impl Digest {
    /// Reads a run, and adds what it says to the night's tally.
    ///
    /// # Errors
    /// Fails at the first row, or the first times of a whole model, that cannot be read.
    pub fn read(run: &Path, tally: &mut Tally) -> opdata::Result<Digest> {
        let mut digest = Digest::default();
        let mut drifts = Vec::new();
        for row in RowReader::open(run)? {
            let row = row?;
            digest.counts.add(&row);
            drifts.extend(row.drift_ratio);
            tally.add(&row);
        }
        digest.drift = Drift::of(drifts);
        digest.models = Models::read(run)?;
        Ok(digest)
    }

    /// Whether something else ran while some of its points, or a whole model, were measured.
    pub fn was_disturbed(&self) -> bool {
        self.drift.is_some_and(|drift| drift.disturbed > 0) || self.models.disturbed > 0
    }
}

impl Models {
    fn read(run: &Path) -> opdata::Result<Models> {
        let mut models = Models::default();
        for file in whole_model_files(run)? {
            let record: WholeModelRecord = WholeModelRecord::load(&file.path)?;
            for at in record.threads {
                models.timed += 1;
                models.disturbed += u64::from(at.times.drift.is_some_and(is_disturbed));
            }
        }
        Ok(models)
    }
}

impl Drift {
    fn of(mut ratios: Vec<f64>) -> Option<Drift> {
        ratios.sort_by(f64::total_cmp);
        let max = *ratios.last()?;
        Some(Drift {
            median: median_of_sorted(&ratios)?,
            p95: quantile_of_sorted(&ratios, 0.95)?,
            max,
            disturbed: ratios.iter().filter(|r| is_disturbed(**r)).count() as u64,
            points: ratios.len() as u64,
        })
    }
}

impl Tally {
    fn add(&mut self, row: &Row) {
        let Some(median_ns) = row.time_median_ns else {
            self.add_reason(row);
            return;
        };
        let shapes: Vec<String> = [&row.input_shapes, &row.weight_shapes]
            .into_iter()
            .flatten()
            .map(ToString::to_string)
            .collect();
        let key = OperatorKey {
            model: row.model_name.clone().unwrap_or_default(),
            operator: row.op_symbol.clone().unwrap_or_else(|| row.op_name.clone()),
            shapes: shapes.join(";"),
            threads: row.threads,
        };
        let known = self.best.get(&key).map(|best| best.median_ns);
        if known.is_none_or(|best| median_ns < best) {
            let time = OperatorTime {
                model: key.model.clone(),
                operator: key.operator.clone(),
                shapes: key.shapes.clone(),
                threads: key.threads,
                median_ns,
                gflops_per_s: row.gflops_per_s,
                row_id: row.row_id.clone(),
            };
            self.best.insert(key, time);
        }
    }

    fn add_reason(&mut self, row: &Row) {
        if row.status == Status::Skipped {
            return;
        }
        let reason = row.reason.clone().unwrap_or_default();
        self.reasons
            .entry((row.status, reason.clone()))
            .or_insert_with(|| Reason {
                status: row.status,
                reason,
                points: 0,
                example: row.row_id.clone(),
            })
            .points += 1;
    }

    /// The findings worth reporting.
    pub fn findings(self) -> Findings {
        let mut reasons: Vec<Reason> = self.reasons.into_values().collect();
        reasons.sort_by(|a, b| b.points.cmp(&a.points).then(a.example.cmp(&b.example)));
        let mut times: Vec<OperatorTime> = self.best.into_values().collect();
        times.sort_by(|a, b| {
            b.median_ns
                .total_cmp(&a.median_ns)
                .then(a.row_id.cmp(&b.row_id))
        });
        let slowest = times.iter().take(LISTED).cloned().collect();
        times.retain(|time| time.gflops_per_s.is_some());
        times.sort_by(|a, b| {
            let rate = |t: &OperatorTime| t.gflops_per_s.unwrap_or_default();
            rate(b).total_cmp(&rate(a)).then(a.row_id.cmp(&b.row_id))
        });
        times.truncate(LISTED);
        reasons.truncate(LISTED);
        Findings {
            reasons,
            slowest,
            fastest: times,
        }
    }
}
