//! Compares a model's predictions with measured rows.

use std::collections::{BTreeMap, BTreeSet};

use opdata::Row;
use oplearn::crossval::metrics::Metrics;
use oplearn::data::{QueryKey, RowSet};
use oplearn::features::machine::MachineFacts;
use oplearn::features::{Point, point_of};
use oplearn::models::Familiarity;
use serde::Serialize;

use super::answer::{Answer, Detail};
use crate::error::{Error, Result};
use crate::model::trained::Trained;

/// One row, predicted and measured.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Compared {
    /// The row.
    pub row_id: String,
    /// Name of the fused operator.
    pub operator: String,
    /// Its shapes.
    pub shapes: String,
    /// Threads, where the device has them.
    pub threads: Option<u64>,
    /// Measured time, ns.
    pub measured_ns: f64,
    /// Predicted time, ns.
    pub predicted_ns: f64,
    /// Ends of the interval, ns; missing if the model could not be calibrated.
    pub interval_ns: Option<(f64, f64)>,
    /// Whether this operator, at these threads, was in the training data.
    pub trained_on: bool,
}

/// All rows.
#[derive(Debug, Clone, Serialize)]
pub struct Comparison {
    /// Number of measured rows of the kind of device that the model predicts for.
    pub rows: usize,
    /// Rows that were not measured, or are of other devices.
    pub left_out: usize,
    /// Share of the rows whose operator was in the training data, 0 to 1. Their errors do not show how well the model
    /// generalises.
    pub trained_on: f64,
    /// Errors of all rows.
    #[serde(flatten)]
    pub overall: Metrics,
    /// Errors of rows whose operator was not in the training data; missing without any.
    pub unseen: Option<Metrics>,
    /// Errors by kind.
    pub by_kind: BTreeMap<String, Metrics>,
    /// Errors by the machine that measured the rows, as they name it.
    pub by_machine: BTreeMap<String, Metrics>,
    /// Names of machines that measured some of them and are missing from the training data.
    pub other_machines: Vec<String>,
    /// Level of the intervals, 0 to 1.
    pub level: f64,
    /// Share of the measured times inside them, 0 to 1; missing without a calibration.
    pub inside: Option<f64>,
    /// The rows, furthest off first.
    pub furthest: Vec<Compared>,
}

impl Compared {
    /// log2(predicted ÷ measured).
    fn error(&self) -> f64 {
        (self.predicted_ns / self.measured_ns).log2()
    }
}

/// The sizes that distinguish an operator from others of its name.
fn shapes(row: &Row) -> String {
    let shapes = [&row.input_shapes, &row.weight_shapes];
    let shapes: Vec<String> = shapes
        .into_iter()
        .flatten()
        .map(ToString::to_string)
        .collect();
    shapes.join(" × ")
}

fn metrics<'a>(rows: impl Iterator<Item = &'a Compared>) -> Metrics {
    let logs = rows.map(|r| (r.measured_ns.log2(), r.predicted_ns.log2()));
    let (measured, predicted): (Vec<f64>, Vec<f64>) = logs.unzip();
    Metrics::of(&measured, &predicted)
}

/// Errors of the rows of each name.
fn by_name(names: &[&str], compared: &[Compared]) -> BTreeMap<String, Metrics> {
    let mut rows: BTreeMap<&str, Vec<&Compared>> = BTreeMap::new();
    for (name, row) in names.iter().zip(compared) {
        rows.entry(name).or_default().push(row);
    }
    let of = |(name, rows): (&str, Vec<_>)| (name.to_owned(), metrics(rows.into_iter()));
    rows.into_iter().map(of).collect()
}

impl Trained {
    /// Predicts measured rows, and compares.
    ///
    /// # Errors
    /// Fails if no row is measured on the model's kind of device, or XGBoost's library fails.
    pub fn compare(&self, set: &RowSet, level: f64) -> Result<Comparison> {
        let measured = |row: &&Row| {
            row.status.has_time()
                && row.device_kind == self.facts.device_kind
                && row.time_median_ns.is_some_and(|time| time > 0.0)
        };
        let rows: Vec<&Row> = set.rows.iter().filter(measured).collect();
        if rows.is_empty() {
            return Err(Error::Query(format!(
                "none of the {} rows was measured on {}, which the model predicts for; name a run of it",
                set.rows.len(),
                self.facts.device_kind
            )));
        }
        let points: Vec<Point> = rows
            .iter()
            .map(|row| point_of(row, &self.facts_of(row, set)))
            .collect();
        let kinds: Vec<&str> = rows.iter().map(|row| row.op_kind.as_str()).collect();
        let answers = self.answer(&points, &kinds, level, Detail::Short)?;
        let mut compared: Vec<Compared> = rows
            .iter()
            .zip(answers.iter().zip(&points))
            .map(|(row, (answer, point))| self.compared(row, answer, point))
            .collect();
        let machines: Vec<&str> = rows
            .iter()
            .map(|row| row.env_hash.as_deref().unwrap_or_default())
            .collect();
        let all = || compared.iter();
        let unseen = all().filter(|c| !c.trained_on).count();
        let inside: Option<Vec<bool>> = all()
            .map(|c| {
                c.interval_ns
                    .map(|(low, high)| low <= c.measured_ns && c.measured_ns <= high)
            })
            .collect();
        let count = compared.len() as f64;
        let comparison = Comparison {
            rows: compared.len(),
            left_out: set.rows.len() - compared.len(),
            trained_on: 1.0 - unseen as f64 / count,
            overall: metrics(all()),
            unseen: (unseen > 0).then(|| metrics(all().filter(|c| !c.trained_on))),
            by_kind: by_name(&kinds, &compared),
            by_machine: by_name(&machines, &compared),
            other_machines: self.others(&machines, set),
            level,
            inside: inside.map(|all| all.iter().filter(|i| **i).count() as f64 / count),
            furthest: Vec::new(),
        };
        compared.sort_by(|a, b| b.error().abs().total_cmp(&a.error().abs()));
        Ok(Comparison {
            furthest: compared,
            ..comparison
        })
    }

    /// Names of the machines missing from the training data; empty for rows that do not name theirs.
    fn others(&self, names: &[&str], set: &RowSet) -> Vec<String> {
        let names: BTreeSet<&str> = names.iter().copied().filter(|n| !n.is_empty()).collect();
        let is_known = |name: &str| self.facts.machines.iter().any(|m| m.id == name);
        let others = names.into_iter().filter(|name| !is_known(name));
        let label = |name: &str| set.facts.get(name).map(MachineFacts::label);
        others
            .map(|name| label(name).unwrap_or_else(|| name.to_owned()))
            .collect()
    }

    /// The machine of a row as the model knows it, else as its run recorded it.
    fn facts_of(&self, row: &Row, set: &RowSet) -> MachineFacts {
        let name = row.env_hash.as_deref().unwrap_or_default();
        let own = self.facts.machines.iter().find(|m| m.id == name);
        match (own, self.facts.machines.as_slice()) {
            (Some(known), _) => known.clone(),
            (None, [only]) if name.is_empty() => only.clone(),
            _ => set
                .facts
                .get(name)
                .cloned()
                .unwrap_or_else(|| MachineFacts::named(name)),
        }
    }

    fn compared(&self, row: &Row, answer: &Answer, point: &Point) -> Compared {
        let machine = row.env_hash.as_deref().unwrap_or_default();
        let same = QueryKey::of_row(row).is_some_and(|key| self.known.get(&key, machine).is_some());
        let other_schedule =
            !row.has_default_schedule() && self.ensemble.familiarity(point) == Familiarity::Known;
        Compared {
            row_id: row.row_id.clone(),
            operator: row.op_name.clone(),
            shapes: shapes(row),
            threads: row.threads,
            measured_ns: row.time_median_ns.unwrap_or(f64::NAN),
            predicted_ns: answer.time_ns,
            interval_ns: answer.low_ns.zip(answer.high_ns),
            trained_on: same || other_schedule,
        }
    }
}
