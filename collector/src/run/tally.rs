//! The report of a run, counted row by row. It covers exactly the rows on disk, and its size does not grow with
//! the number of points.

use std::collections::{BTreeMap, HashMap};

use opdata::{Row, Status};
use opengine::device::Conditions;
use opmodels::Graph;

use crate::report::{
    Best, OperatorReport, PointOutcome, PointReport, ResourcesReport, SweptReport, TimeReport,
};

/// Points of one import, by operator.
pub(super) struct Tally {
    import_key: String,
    conditions: Vec<Conditions>,
    operators: Vec<OperatorReport>,
    places: HashMap<String, usize>,
    /// How the machine was while they were measured.
    pub load: Load,
}

/// Number of measured points, and of those under interference.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Load {
    pub measured: u64,
    pub disturbed: u64,
}

impl Load {
    /// Adds those of another import.
    pub fn add(&mut self, other: Load) {
        self.measured += other.measured;
        self.disturbed += other.disturbed;
    }
}

impl Tally {
    /// A tally without points, for these conditions and, if the run has several, this architecture.
    pub fn new(
        graph: &Graph,
        import_key: &str,
        architecture: Option<&str>,
        conditions: impl Iterator<Item = Conditions>,
    ) -> Tally {
        let operators: Vec<OperatorReport> = graph
            .operators
            .iter()
            .map(|operator| OperatorReport {
                architecture: architecture.map(str::to_owned),
                ..OperatorReport::new(operator, Vec::new())
            })
            .collect();
        let places = operators
            .iter()
            .enumerate()
            .map(|(place, operator)| (operator.symbol.clone(), place))
            .collect();
        Tally {
            import_key: import_key.to_owned(),
            conditions: conditions.collect(),
            operators,
            places,
            load: Load::default(),
        }
    }

    /// Counts a row, if it is of this import.
    pub fn add(&mut self, row: &Row) {
        if row.import_key.as_deref() != Some(&self.import_key) {
            return;
        }
        let place = row.op_symbol.as_ref().and_then(|s| self.places.get(s));
        let (Some(&place), Some(at)) = (place, Conditions::of_row(row)) else {
            return;
        };
        if row.status.has_time() {
            self.load.measured += 1;
            self.load.disturbed += u64::from(row.interference().was_busy());
        }
        let operator = &mut self.operators[place];
        if row.has_default_schedule() {
            operator.points.push(PointReport {
                conditions: at,
                outcome: outcome(row),
                counts: counts(row),
            });
        } else {
            swept(operator, at).add(row);
        }
    }

    /// The reports of the operators that have a point; the points of each are in the order of the conditions. Rows come
    /// in the order in which they were finished, and a re-measured point comes late.
    pub fn into_reports(mut self) -> Vec<OperatorReport> {
        let place = |at: &Conditions| self.conditions.iter().position(|c| c == at);
        for operator in &mut self.operators {
            operator.points.sort_by_key(|p| place(&p.conditions));
            operator.swept.sort_by_key(|s| place(&s.conditions));
        }
        let has_points = |o: &OperatorReport| !o.points.is_empty() || !o.swept.is_empty();
        self.operators.into_iter().filter(has_points).collect()
    }
}

fn swept(operator: &mut OperatorReport, at: Conditions) -> &mut SweptReport {
    let place = match operator.swept.iter().position(|s| s.conditions == at) {
        Some(place) => place,
        None => {
            operator.swept.push(SweptReport::new(at));
            operator.swept.len() - 1
        }
    };
    &mut operator.swept[place]
}

impl SweptReport {
    fn add(&mut self, row: &Row) {
        match (row.status, row.time_median_ns) {
            (status, Some(median_ns)) if status.has_time() => {
                self.measured += 1;
                if self.best.as_ref().is_none_or(|b| median_ns < b.median_ns) {
                    self.best = Some(Best {
                        median_ns,
                        row_id: row.row_id.clone(),
                    });
                }
            }
            (Status::Compiled, _) => self.compiled += 1,
            (Status::Skipped, _) => self.skipped += 1,
            _ => self.failed += 1,
        }
    }
}

/// The counts of a row.
fn counts(row: &Row) -> BTreeMap<String, f64> {
    let counts = row.counters.as_ref();
    counts
        .and_then(|text| text.decode().ok())
        .unwrap_or_default()
}

/// The time of a row that was measured.
pub(crate) fn time_of(row: &Row) -> Option<TimeReport> {
    let median_ns = row.time_median_ns?;
    Some(TimeReport {
        median_ns,
        ci_low_ns: row.time_ci_low_ns.unwrap_or(median_ns),
        ci_high_ns: row.time_ci_high_ns.unwrap_or(median_ns),
        samples: row.samples.unwrap_or_default(),
        quality: row.quality,
    })
}

fn outcome(row: &Row) -> PointOutcome {
    match time_of(row) {
        Some(time) => PointOutcome::Measured {
            time,
            in_model_ns: row.in_model_time_ns,
        },
        None if row.status == Status::Compiled => PointOutcome::Compiled(ResourcesReport {
            kernels: row.device_launches,
            threads_per_block: row.threads_per_block,
            registers_per_thread: row.registers_per_thread,
            shared_bytes_per_block: row.shared_bytes_per_block,
            local_bytes_per_thread: row.local_bytes_per_thread,
            spill_bytes_per_thread: row.spill_bytes_per_thread,
            occupancy: row.occupancy,
            occupancy_limiter: row.occupancy_limiter.clone(),
        }),
        None => PointOutcome::NotMeasured {
            status: row.status,
            reason: row.reason.clone().unwrap_or_default(),
        },
    }
}

#[cfg(test)]
mod tests {
    use opdata::CacheState;

    use super::*;
    use crate::{compare, render};

    #[test]
    fn the_points_of_an_operator_are_in_the_order_of_the_conditions() {
        let conditions = [1, 4, 2].map(|threads| Conditions::new(threads, CacheState::Model));
        let mut tally = Tally::new(
            &render::testing::graph(),
            "key",
            None,
            conditions.into_iter(),
        );
        for (threads, space) in [
            (4, "default"),
            (2, "default"),
            (2, "template"),
            (1, "default"),
            (4, "template"),
        ] {
            tally.add(&Row {
                import_key: Some("key".to_owned()),
                schedule_space: Some(space.to_owned()),
                ..compare::testing::row("fused_conv2d_relu", threads, 1e3)
            });
        }
        let reports = tally.into_reports();
        assert_eq!(reports.len(), 1, "the other operator has no row");
        let points: Vec<u32> = reports[0]
            .points
            .iter()
            .map(|p| p.conditions.threads)
            .collect();
        let swept: Vec<u32> = reports[0]
            .swept
            .iter()
            .map(|s| s.conditions.threads)
            .collect();
        assert_eq!((points, swept), (vec![1, 4, 2], vec![4, 2]));
    }
}
