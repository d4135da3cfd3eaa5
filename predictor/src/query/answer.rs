//! One prediction with its interval and other facts about its reliability.

use opdata::Row;
use opdata::stats::two_sided_quantile;
use oplearn::features::machine::MachineFacts;
use oplearn::features::{FEATURES, Point, Scope, point_of};
use rayon::prelude::*;
use serde::Serialize;

use crate::error::Result;
use crate::model::known::KnownTimes;
use crate::model::neighbours::Neighbour;
use crate::model::trained::{Expected, New, Trained};

/// A feature may leave its range by this share of it (at least of 1) before it counts as extrapolated.
const MARGIN: f32 = 0.02;
/// Reasons given.
const DRIVERS: usize = 6;
/// Neighbours given.
const NEAREST: usize = 3;

/// How well a model knows the kind of an operator.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Knowledge {
    /// This very operator was measured: the time is the measured one.
    Measured,
    /// The model was trained on this kind.
    Known,
    /// No training data of this kind: the prediction is a roofline-like estimate with the correction of other kinds.
    UnknownKind,
}

/// A feature outside the range of the training data.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Outside {
    /// The feature.
    pub feature: &'static str,
    /// Its value, in the unit of its meaning.
    pub value: f32,
    /// Smallest value in the training data.
    pub low: f32,
    /// Largest value in the training data.
    pub high: f32,
}

/// A feature's effect on a prediction.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Driver {
    /// The feature.
    pub feature: &'static str,
    /// Its value, in the unit of its meaning; missing if the point has none.
    pub value: Option<f32>,
    /// Factor on the time.
    pub factor: f64,
}

/// A prediction.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Answer {
    /// Expected time, ns.
    pub time_ns: f64,
    /// Lower end of the interval, ns; missing if the model could not be calibrated.
    pub low_ns: Option<f64>,
    /// Upper end.
    pub high_ns: Option<f64>,
    /// Level of the interval, 0 to 1.
    pub level: f64,
    /// Whether the kind is known.
    pub knowledge: Knowledge,
    /// Features outside the range of the training data.
    pub extrapolates: Vec<Outside>,
    /// The nearest measured rows.
    pub nearest: Vec<Neighbour>,
    /// Effects of features on the prediction, largest first.
    pub drivers: Vec<Driver>,
}

impl Answer {
    /// Moves the predicted time; the interval keeps its width relative to the time.
    pub(super) fn move_to(&mut self, time_ns: f64) {
        let factor = time_ns / self.time_ns;
        self.time_ns = time_ns;
        self.low_ns = self.low_ns.map(|low| low * factor);
        self.high_ns = self.high_ns.map(|high| high * factor);
    }

    /// Takes a measured time (log2 ns), and the interval that it was measured with in place of the predicted one.
    pub(super) fn measured(&mut self, log2_time: f64, times: KnownTimes) {
        self.move_to(log2_time.exp2());
        self.knowledge = Knowledge::Measured;
        if let Some((low, high)) = times.log2_interval {
            let inside = log2_time - times.log2_time;
            self.low_ns = Some((low + inside).exp2());
            self.high_ns = Some((high + inside).exp2());
        }
    }
}

/// The amount of detail in an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Detail {
    /// Time, interval, doubts.
    Short,
    /// Neighbours and reasons, too.
    Full,
}

impl Detail {
    /// The detail that `--explain` asks for.
    pub fn of(explain: bool) -> Detail {
        match explain {
            true => Detail::Full,
            false => Detail::Short,
        }
    }
}

/// Rows that one task answers: their features stay in its core's cache from the first tree to the last.
const TOGETHER: usize = 512;

impl Trained {
    /// Answers for rows as they would be measured on a machine, on all cores where there are many.
    ///
    /// # Errors
    /// Fails if XGBoost's library fails.
    pub fn answer_rows(
        &self,
        rows: &[Row],
        machine: &MachineFacts,
        level: f64,
        detail: Detail,
    ) -> Result<Vec<Answer>> {
        let some = |rows: &[Row]| {
            let points: Vec<Point> = rows.iter().map(|row| point_of(row, machine)).collect();
            let kinds: Vec<&str> = rows.iter().map(|row| row.op_kind.as_str()).collect();
            self.answer(&points, &kinds, level, detail)
        };
        if rows.len() <= TOGETHER {
            return some(rows);
        }
        let parts: Vec<Vec<Answer>> = rows.par_chunks(TOGETHER).map(some).collect::<Result<_>>()?;
        Ok(parts.into_iter().flatten().collect())
    }

    /// Answers for points of operators of the given kinds.
    ///
    /// # Errors
    /// Fails if XGBoost's library fails.
    pub fn answer(
        &self,
        points: &[Point],
        kinds: &[&str],
        level: f64,
        detail: Detail,
    ) -> Result<Vec<Answer>> {
        let all: Vec<&Point> = points.iter().collect();
        self.explained(points, kinds, &self.expected(&all, kinds)?, (level, detail))
    }

    /// Answers for points whose times are known already.
    pub(super) fn explained(
        &self,
        points: &[Point],
        kinds: &[&str],
        expected: &[Expected],
        (level, detail): (f64, Detail),
    ) -> Result<Vec<Answer>> {
        let of = |new| {
            let conformal = self.facts.calibration(new).conformal.as_ref();
            conformal.map(|c| c.at(level))
        };
        let (schedule, workload) = (of(New::Schedule), of(New::Workload));
        let machine = of(New::Machine);
        let asked = points.iter().zip(kinds).zip(expected);
        asked
            .map(|((point, kind), &expected)| {
                let intervals = match expected.new {
                    New::Schedule => schedule,
                    New::Workload => workload,
                    New::Machine => machine,
                };
                let interval = intervals.map(|i| i.around(expected.doubt));
                self.one(point, kind, expected, (level, interval), detail)
            })
            .collect()
    }

    /// The answer for one point.
    fn one(
        &self,
        point: &Point,
        kind: &str,
        expected: Expected,
        (level, interval): (f64, Option<(f64, f64)>),
        detail: Detail,
    ) -> Result<Answer> {
        let time = expected.centre + expected.bias;
        let end = |side: f64| (time + side).exp2();
        let knowledge = if self.facts.kinds.contains_key(kind) {
            Knowledge::Known
        } else {
            Knowledge::UnknownKind
        };
        let interval = match knowledge {
            Knowledge::UnknownKind => interval.and_then(|ends| self.of_unknown_kind(ends, level)),
            _ => interval,
        };
        let (nearest, drivers) = match detail {
            Detail::Short => (Vec::new(), Vec::new()),
            Detail::Full => (
                self.neighbours.nearest(point, NEAREST),
                self.drivers(point)?,
            ),
        };
        Ok(Answer {
            time_ns: time.exp2(),
            low_ns: interval.map(|(low, _)| end(low.min(0.0))),
            high_ns: interval.map(|(_, high)| end(high.max(0.0))),
            level,
            knowledge,
            extrapolates: self.outside(point, kind),
            nearest,
            drivers,
        })
    }

    /// Ends of an interval (log2), widened for a kind missing from the training data. `None` if too few kinds were
    /// trained on.
    fn of_unknown_kind(&self, (low, high): (f64, f64), level: f64) -> Option<(f64, f64)> {
        let apart = self.facts.unknown_kind?;
        let freedom = self.facts.kinds.len().saturating_sub(1).max(1) as f64;
        let reach = two_sided_quantile(level, Some(freedom)) * apart;
        Some((-low.min(0.0).hypot(reach), high.max(0.0).hypot(reach)))
    }

    /// Sizes, kind, machine and machine state of a point that are outside the range of its kind.
    fn outside(&self, point: &Point, kind: &str) -> Vec<Outside> {
        let Some(facts) = self.facts.kinds.get(kind) else {
            return Vec::new();
        };
        facts
            .ranges
            .iter()
            .filter_map(|range| {
                let feature = &FEATURES[range.column];
                if !matches!(
                    feature.scope,
                    Scope::Size | Scope::Machine | Scope::State | Scope::Kind
                ) {
                    return None;
                }
                let value = point.features[range.column];
                let margin = MARGIN * (range.high - range.low).max(1.0);
                let outside = value < range.low - margin || value > range.high + margin;
                // Most values are inside; only the others are converted back from logarithms.
                outside.then(|| Outside {
                    feature: feature.name,
                    value: feature.value(value),
                    low: feature.value(range.low),
                    high: feature.value(range.high),
                })
            })
            .collect()
    }

    /// SHAP values of the surrogate, whose trees are few enough to do this in a millisecond.
    fn drivers(&self, point: &Point) -> Result<Vec<Driver>> {
        let contributions = self.surrogate.contributions(point)?;
        let mut order: Vec<usize> = (0..FEATURES.len()).collect();
        order.sort_by(|&a, &b| contributions[b].abs().total_cmp(&contributions[a].abs()));
        Ok(order
            .into_iter()
            .take(DRIVERS)
            .filter(|&column| contributions[column] != 0.0)
            .map(|column| Driver {
                feature: FEATURES[column].name,
                value: Some(FEATURES[column].value(point.features[column]))
                    .filter(|v| v.is_finite()),
                factor: contributions[column].exp2(),
            })
            .collect())
    }
}
