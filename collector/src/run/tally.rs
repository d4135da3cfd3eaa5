//! The report of a run, counted row by row, so that it says what is on disk and its size does not grow with the points.

use std::collections::HashMap;

use opdata::{CacheState, Quality, Row, Status};
use opmodels::Graph;

use crate::render::{Best, OperatorReport, PointOutcome, PointReport, SweptReport, TimeReport};

/// Points of one import, by operator.
pub(super) struct Tally {
    import_key: String,
    operators: Vec<OperatorReport>,
    places: HashMap<String, usize>,
}

impl Tally {
    /// Nothing counted yet.
    pub fn new(graph: &Graph, import_key: &str) -> Tally {
        let operators: Vec<OperatorReport> = graph
            .operators
            .iter()
            .map(|operator| OperatorReport::new(operator, Vec::new()))
            .collect();
        let places = operators
            .iter()
            .enumerate()
            .map(|(place, operator)| (operator.symbol.clone(), place))
            .collect();
        Tally {
            import_key: import_key.to_owned(),
            operators,
            places,
        }
    }

    /// Counts a row, if it is of this import.
    pub fn add(&mut self, row: &Row) {
        if row.import_key.as_deref() != Some(&self.import_key) {
            return;
        }
        let place = row.op_symbol.as_ref().and_then(|s| self.places.get(s));
        let (Some(&place), Some(threads), Some(cache)) = (place, row.threads, row.cache_state)
        else {
            return;
        };
        let operator = &mut self.operators[place];
        let threads = threads as u32;
        if row.has_default_schedule() {
            operator.points.push(PointReport {
                threads,
                cache,
                outcome: outcome(row),
            });
        } else {
            swept(operator, threads, cache).add(row);
        }
    }

    /// What was counted, of the operators that have a point.
    pub fn into_reports(self) -> Vec<OperatorReport> {
        let has_points = |o: &OperatorReport| !o.points.is_empty() || !o.swept.is_empty();
        self.operators.into_iter().filter(has_points).collect()
    }
}

fn swept(operator: &mut OperatorReport, threads: u32, cache: CacheState) -> &mut SweptReport {
    let is_it = |s: &SweptReport| s.threads == threads && s.cache == cache;
    let place = match operator.swept.iter().position(is_it) {
        Some(place) => place,
        None => {
            operator.swept.push(SweptReport::new(threads, cache));
            operator.swept.len() - 1
        }
    };
    &mut operator.swept[place]
}

impl SweptReport {
    fn add(&mut self, row: &Row) {
        match (row.status, row.time_median_ns) {
            (Status::Measured, Some(median_ns)) => {
                self.measured += 1;
                if self.best.as_ref().is_none_or(|b| median_ns < b.median_ns) {
                    self.best = Some(Best {
                        median_ns,
                        row_id: row.row_id.clone(),
                    });
                }
            }
            (Status::Skipped, _) => self.skipped += 1,
            _ => self.failed += 1,
        }
    }
}

/// The time of a row that was measured.
pub(super) fn time_of(row: &Row) -> Option<TimeReport> {
    let median_ns = row.time_median_ns?;
    Some(TimeReport {
        median_ns,
        ci_low_ns: row.time_ci_low_ns.unwrap_or(median_ns),
        ci_high_ns: row.time_ci_high_ns.unwrap_or(median_ns),
        samples: row.samples.unwrap_or_default(),
        quality: row.quality.unwrap_or(Quality::D),
    })
}

fn outcome(row: &Row) -> PointOutcome {
    match time_of(row) {
        Some(time) => PointOutcome::Measured {
            time,
            in_model_ns: row.in_model_time_ns,
        },
        None => PointOutcome::NotMeasured {
            status: row.status,
            reason: row.reason.clone().unwrap_or_default(),
        },
    }
}
