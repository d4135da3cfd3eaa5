//! Finds physically impossible rows: times below their own minimum, rates above the calibrated roof, more cycles than
//! the time allows.
//!
//! A finding means that a measurement, a calibration or a fact of the operator is wrong. The row's time is not to be
//! trusted as it stands.

use std::collections::BTreeMap;

use crate::contract::{Calibration, Level};
use crate::roofline::{MARGIN, Roof, Work};
use crate::schema::Row;
use crate::values::CacheState;

/// Cores run this much faster than the clock that was calibrated, at most.
const BOOST: f64 = 1.25;
/// Counters of cycles, in the sources that have them.
const CYCLES: [&str; 3] = ["perf:cycles", "papi:PAPI_TOT_CYC", "papi:perf::CYCLES"];

/// An impossible property of a row.
#[derive(Debug, Clone, PartialEq)]
pub enum Finding {
    /// The median is shorter than the shortest sample, or longer than the 95 % quantile.
    MedianOutside {
        /// The median, nanoseconds.
        median_ns: f64,
        /// The bound that it violates, nanoseconds.
        bound_ns: f64,
    },
    /// More than the machine can do.
    AboveRoof {
        /// The roof.
        roof: Roof,
        /// Share of it.
        share: f64,
    },
    /// More cycles than the clocks of all threads can make in the time.
    TooManyCycles {
        /// Cycles counted.
        cycles: f64,
        /// The possible maximum.
        most: f64,
    },
}

impl std::fmt::Display for Finding {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Finding::MedianOutside {
                median_ns,
                bound_ns,
            } => write!(
                f,
                "the median, {median_ns:.0} ns, lies outside its own samples ({bound_ns:.0} ns)"
            ),
            Finding::AboveRoof { roof, share } => write!(
                f,
                "{:.0} % of the calibrated {} roof: time, work or calibration is wrong",
                share * 100.0,
                roof.name()
            ),
            Finding::TooManyCycles { cycles, most } => write!(
                f,
                "{cycles:.3e} cycles, but {most:.3e} fit into the time at the calibrated clock"
            ),
        }
    }
}

/// Impossible properties of a row. If a column or the calibration is missing, there is no finding.
pub fn findings(row: &Row, calibration: Option<&Calibration>) -> Vec<Finding> {
    let mut all = Vec::new();
    let Some(median_ns) = row.time_median_ns else {
        return all;
    };
    let outside = |bound: Option<f64>, wrong: fn(f64, f64) -> bool| {
        let bound_ns = bound.filter(|bound| wrong(median_ns, *bound))?;
        Some(Finding::MedianOutside {
            median_ns,
            bound_ns,
        })
    };
    all.extend(outside(row.time_min_ns, |median, min| median < min));
    all.extend(outside(row.time_p95_ns, |median, p95| median > p95));
    let Some(calibration) = calibration else {
        return all;
    };
    all.extend(above_roof(row, calibration).or_else(|| above_memory(row, calibration)));
    all.extend(too_many_cycles(row, median_ns, calibration));
    all
}

/// The roofs that no measurement can be above: arithmetic, and reading from the nearest level, or from memory where the
/// caches were flushed.
fn above_roof(row: &Row, calibration: &Calibration) -> Option<Finding> {
    // The epilogue may be cheaper than it counts; the anchor's multiply-adds are certain. Strided operands may be read in
    // part, outputs are written in whole.
    let sure = Work {
        flops: row.flops.unwrap_or(0) as f64,
        bytes: row.bytes_written.unwrap_or(0) as f64,
        ..Work::of(row)?
    };
    let flops = match Work::of(row)?.flops > 0.0 {
        true => sure.flops,
        false => 0.0,
    };
    let standing = calibration.standing(&Work { flops, ..sure })?;
    let mut levels = standing
        .shares
        .iter()
        .filter_map(|(roof, share)| match roof {
            Roof::Read(Level::L1) => Some((*roof, *share)),
            _ => None,
        });
    let compute = standing.share(Roof::Compute).map(|s| (Roof::Compute, s));
    // A convolution may be computed with fewer multiplications than it counts, but no template here does that.
    [compute, levels.next()]
        .into_iter()
        .flatten()
        .find(|(_, share)| *share > MARGIN)
        .map(|(roof, share)| Finding::AboveRoof { roof, share })
}

/// The roof of memory: weights of a product are read whole. The part of them that the caches cannot hold comes from
/// memory at every call, whatever the state of the caches.
fn above_memory(row: &Row, calibration: &Calibration) -> Option<Finding> {
    const FLOAT_BYTES: f64 = 4.0;
    let work = Work::of(row)?;
    let weights = row.weight_shapes.as_ref()?.0.iter();
    let elements = weights.map(|shape| shape.elements()).sum::<Option<u64>>()? as f64;
    // Each element then takes part in at least one multiplication and one addition. Most elements of a lookup table do
    // not.
    let are_all_read = work.flops >= 2.0 * elements;
    let bytes = elements * FLOAT_BYTES - calibration.cache_bytes(work.threads)?;
    let from_memory = Work { bytes, ..work };
    let roof = Roof::Read(Level::Memory);
    let share = calibration.standing(&from_memory)?.share(roof)?;
    (are_all_read && share > MARGIN).then_some(Finding::AboveRoof { roof, share })
}

fn too_many_cycles(row: &Row, median_ns: f64, calibration: &Calibration) -> Option<Finding> {
    let counters: BTreeMap<String, serde_json::Value> = row.counters.as_ref()?.decode().ok()?;
    let cycles = CYCLES
        .iter()
        .find_map(|name| counters.get(*name)?.as_f64())?;
    let slowest_ns = row.time_p95_ns.unwrap_or(median_ns).max(median_ns);
    let threads = row.threads? as f64;
    let most = slowest_ns * calibration.clock_ghz? * BOOST * threads;
    // Flushing caches between calls is no part of the time, but may be part of the count.
    let comparable = row.cache_state != Some(CacheState::Flushed);
    (comparable && cycles > most).then_some(Finding::TooManyCycles { cycles, most })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::roofline::testing::calibration;
    use crate::values::JsonText;

    /// 50 % of the peak, well inside its samples.
    fn row() -> Row {
        Row {
            threads: Some(1),
            dtypes: Some("float32;float32".to_owned()),
            flops: Some(50_000),
            bytes_read: Some(1_000),
            bytes_written: Some(1_000),
            time_median_ns: Some(1_000.0),
            time_min_ns: Some(990.0),
            time_p95_ns: Some(1_100.0),
            ..crate::testing::measured("conv2d")
        }
    }

    fn found(change: impl FnOnce(&mut Row)) -> Vec<String> {
        let mut row = row();
        change(&mut row);
        let found = findings(&row, Some(&calibration()));
        found.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_possible_row_has_no_finding_and_what_is_unknown_is_none() {
        assert_eq!(found(|_| {}), [""; 0]);
        assert_eq!(found(|r| r.threads = Some(2)), [""; 0]);
        assert_eq!(found(|r| r.time_median_ns = None), [""; 0]);
        // No peak was calibrated for other types.
        assert_eq!(
            found(|r| {
                r.dtypes = Some("int8;int8".to_owned());
                r.flops = Some(5_000_000);
            }),
            [""; 0]
        );
    }

    #[test]
    fn what_physics_forbids_is_found() {
        let below = found(|r| r.time_min_ns = Some(1_001.0));
        assert!(below[0].contains("outside its own samples"), "{below:?}");
        let above = found(|r| r.flops = Some(106_000));
        assert!(
            above[0].contains("106 % of the calibrated compute roof"),
            "{above:?}"
        );
        let traffic = found(|r| r.bytes_written = Some(500_000));
        assert!(traffic[0].contains("L1 roof"), "{traffic:?}");
        // 10 MB of weights (the caches hold 1 MB of them), at 10 GB/s and a tenth of the peak.
        let weights = |time_ns: f64, flops: u64| {
            found(|r| {
                r.weight_shapes = Some("1000x2500".parse().unwrap());
                r.flops = Some(flops);
                r.time_median_ns = Some(time_ns);
                (r.time_min_ns, r.time_p95_ns) = (None, None);
            })
        };
        assert_eq!(weights(900_000.0, 5_000_000), [""; 0]);
        let read = weights(500_000.0, 5_000_000);
        assert!(
            read[0].contains("180 % of the calibrated memory roof"),
            "{read:?}"
        );
        assert_eq!(weights(500_000.0, 4_000_000), [""; 0], "a table");
        let cycles = |n: f64| {
            let json = serde_json::json!({ "perf:cycles": n });
            found(|r| r.counters = Some(JsonText::from(&json)))
        };
        // 1.1 us at 2 GHz and a boost of a quarter.
        assert_eq!(cycles(2_700.0), [""; 0]);
        assert!(cycles(2_800.0)[0].contains("cycles"));
    }
}
