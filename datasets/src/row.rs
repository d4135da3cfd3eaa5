//! Makes rows: the required fields, the figures derived from others, and the conditions that a row must meet before it
//! is written.

use crate::error::InvalidRow;
use crate::schema::{COLUMNS, Glance, Row, SCHEMA_VERSION};
use crate::values::{DeviceKind, Status};

/// The fields that every row has; the rest of [`Row`] starts out missing.
#[derive(Debug, Clone, Copy)]
pub struct Essentials<'a> {
    /// The run.
    pub run_id: &'a str,
    /// The number of the point in the run, counted over resumptions too.
    pub ordinal: u64,
    /// See [`crate::point_id`].
    pub point_id: &'a str,
    /// Readable name of the operator.
    pub op_name: &'a str,
    /// Its kind of operator.
    pub op_kind: &'a str,
    /// The kind of device.
    pub device_kind: DeviceKind,
    /// How the point ended.
    pub status: Status,
}

/// The value if it is finite: a row holds no NaN or infinity, they are missing instead.
pub fn finite(value: f64) -> Option<f64> {
    value.is_finite().then_some(value)
}

impl Row {
    /// Whether the kernel has the default schedule of its operator, as whole models run it.
    pub fn has_default_schedule(&self) -> bool {
        self.schedule_space.as_deref() == Some("default")
    }

    /// A row with nothing but the essentials. Its `row_id` is `<run_id>.<ordinal>`, six digits
    /// at least.
    pub fn new(essentials: Essentials<'_>) -> Self {
        let Essentials {
            run_id,
            ordinal,
            point_id,
            op_name,
            op_kind,
            device_kind,
            status,
        } = essentials;
        Self {
            schema_version: SCHEMA_VERSION,
            row_id: format!("{run_id}.{ordinal:06}"),
            run_id: run_id.to_owned(),
            point_id: point_id.to_owned(),
            op_name: op_name.to_owned(),
            op_kind: op_kind.to_owned(),
            device_kind,
            status,
            ..Self::initial()
        }
    }

    /// Sets the figures that follow from others, where those are known: `arithmetic_intensity`,
    /// `gflops_per_s` and `gbytes_per_s` (as `SCHEMA.md` defines them).
    pub fn fill_derived(&mut self) {
        let work_flop = self
            .flops
            .map(|anchor| anchor as f64 + self.flops_epilogue.unwrap_or(0) as f64);
        let traffic_bytes = match (self.bytes_read, self.bytes_written) {
            (Some(read), Some(written)) => Some(read as f64 + written as f64),
            _ => None,
        };
        // flop/ns is Gflop/s, byte/ns is GB/s: both ratios need no factor.
        self.arithmetic_intensity = ratio(work_flop, traffic_bytes);
        self.gflops_per_s = ratio(work_flop, self.time_median_ns);
        self.gbytes_per_s = ratio(traffic_bytes, self.time_median_ns);
    }

    /// Whether the row may be part of a dataset.
    ///
    /// # Errors
    /// Fails at the first rule that is broken. The schema version is this build's, and required text is there. Numbers are
    /// finite, times are not negative, and the interval holds the median. A time is there if and only if the point was
    /// measured. A point that was neither measured nor compiled as asked says why.
    pub fn validate(&self) -> Result<(), InvalidRow> {
        let fail = |column: &'static str, detail: String| {
            Err(InvalidRow {
                row_id: self.row_id.clone(),
                column,
                detail,
            })
        };
        if self.schema_version != SCHEMA_VERSION {
            return fail(
                "schema_version",
                format!("expected {SCHEMA_VERSION}, found {}", self.schema_version),
            );
        }
        for (column, glance) in COLUMNS.iter().zip(self.glances()) {
            match glance {
                Glance::Lacking => {
                    return fail(column.name, "every row needs it".to_owned());
                }
                Glance::Float(value) if !value.is_finite() => {
                    return fail(column.name, format!("{value} is not a finite number"));
                }
                Glance::Float(value) if value < 0.0 && column.unit == "ns" => {
                    return fail(column.name, format!("{value} ns is a negative time"));
                }
                _ => {}
            }
        }
        match (self.status, self.time_median_ns) {
            (status, None) if status.has_time() => {
                return fail("time_median_ns", format!("a {status} point needs its time"));
            }
            (status, Some(_)) if status.has_time() => {}
            (status, Some(_)) => {
                return fail(
                    "time_median_ns",
                    format!("a point that ended `{status}` has no time"),
                );
            }
            (Status::Compiled, None) => {}
            (status, None) if self.reason.as_deref().unwrap_or("").is_empty() => {
                return fail(
                    "reason",
                    format!("a point that ended `{status}` must say why"),
                );
            }
            _ => {}
        }
        if let (Some(low), Some(median), Some(high)) = (
            self.time_ci_low_ns,
            self.time_median_ns,
            self.time_ci_high_ns,
        ) && !(low <= median && median <= high)
        {
            return fail(
                "time_ci_low_ns",
                format!("[{low}, {high}] does not hold {median}"),
            );
        }
        Ok(())
    }
}

/// The quotient, if both are known and it is a number.
fn ratio(numerator: Option<f64>, denominator: Option<f64>) -> Option<f64> {
    finite(numerator? / denominator?)
}

/// Rows like those of the integration tests.
#[cfg(test)]
#[path = "../tests/common/mod.rs"]
mod common;
#[cfg(test)]
pub(crate) use common::any_row;

/// The smallest valid row, for the tests of this crate.
#[cfg(test)]
pub(crate) fn skipped(ordinal: u64) -> Row {
    Row {
        reason: Some("why".to_owned()),
        ..Row::new(Essentials {
            run_id: "run",
            ordinal,
            point_id: "p",
            op_name: "dense",
            op_kind: "dense",
            device_kind: DeviceKind::CPU,
            status: Status::Skipped,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn measured() -> Row {
        let mut row = Row {
            flops: Some(3_000),
            flops_epilogue: Some(1_000),
            bytes_read: Some(700),
            bytes_written: Some(300),
            time_median_ns: Some(2_000.0),
            time_ci_low_ns: Some(1_900.0),
            time_ci_high_ns: Some(2_100.0),
            ..crate::testing::measured("dense")
        };
        row.fill_derived();
        row
    }

    fn fault(change: impl FnOnce(&mut Row)) -> String {
        let mut row = measured();
        change(&mut row);
        row.validate().unwrap_err().to_string()
    }

    #[test]
    fn derived_figures_have_their_units() {
        let row = measured();
        assert_eq!(row.arithmetic_intensity, Some(4.0));
        assert_eq!(row.gflops_per_s, Some(2.0));
        assert_eq!(row.gbytes_per_s, Some(0.5));
    }

    #[test]
    fn unknown_figures_stay_missing() {
        let mut row = measured();
        (row.bytes_read, row.time_median_ns) = (None, Some(0.0));
        row.fill_derived();
        assert_eq!(row.arithmetic_intensity, None);
        assert_eq!(row.gflops_per_s, None, "a zero time gives no rate");
    }

    #[test]
    fn a_measured_row_is_valid() {
        assert_eq!(measured().validate(), Ok(()));
    }

    #[test]
    fn faults_are_named() {
        insta::assert_snapshot!(
            [
                fault(|row| row.schema_version = 1),
                fault(|row| row.run_id.clear()),
                fault(|row| row.max_abs_error = Some(f64::NAN)),
                fault(|row| row.time_min_ns = Some(-1.0)),
                fault(|row| row.time_median_ns = None),
                fault(|row| row.status = Status::WrongResult),
                fault(|row| (row.status, row.time_median_ns) = (Status::TimedOut, None)),
                fault(|row| row.time_ci_low_ns = Some(2_001.0)),
            ]
            .join("\n"),
            @"
        row `run.000000`: column `schema_version`: expected 3, found 1
        row `run.000000`: column `run_id`: every row needs it
        row `run.000000`: column `max_abs_error`: NaN is not a finite number
        row `run.000000`: column `time_min_ns`: -1 ns is a negative time
        row `run.000000`: column `time_median_ns`: a measured point needs its time
        row `run.000000`: column `time_median_ns`: a point that ended `wrong_result` has no time
        row `run.000000`: column `reason`: a point that ended `timed_out` must say why
        row `run.000000`: column `time_ci_low_ns`: [2001, 2100] does not hold 2000
        "
        );
    }
}
