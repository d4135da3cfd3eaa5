//! Times that cannot be: shorter than any machine needs for the work, or longer than anyone waits for a kernel.

use super::faults::{Fault, Kind};
use crate::schema::Row;

/// Arithmetic of a machine that does not exist: 100 Pflop/s, flop/ns. The fastest accelerator has a few, of the
/// narrowest type.
const FLOPS_PER_NS: f64 = 1e8;
/// Traffic of a machine that does not exist: 1 PB/s, byte/ns. First-level caches of a whole GPU have some ten TB/s.
const BYTES_PER_NS: f64 = 1e6;
/// Shortest possible time of a kernel's call, ns.
const SHORTEST_NS: f64 = 1.0;
/// One hour; a tuner gives up long before.
const LONGEST_NS: f64 = 3.6e12;

/// Refuses a row with a measured time that cannot be.
pub(super) fn check(row: &Row, times_ns: &[f64]) -> Result<(), Fault> {
    let work = row.flops.map_or(0.0, |n| n as f64 / FLOPS_PER_NS);
    // Only the output counts, because a strided operand may be read in part.
    let traffic = row.bytes_written.map_or(0.0, |n| n as f64 / BYTES_PER_NS);
    let least = work.max(traffic).max(SHORTEST_NS);
    let impossible = |detail: String| Fault {
        kind: Kind::Physics,
        detail,
    };
    for time in times_ns {
        if *time < least {
            return Err(impossible(format!(
                "{time:.3e} ns is less than any machine needs for {} ({least:.3} ns)",
                row.op_name
            )));
        }
        if time.is_nan() || *time > LONGEST_NS {
            return Err(impossible(format!(
                "{time:.3e} ns is more than an hour for one run of {}",
                row.op_name
            )));
        }
    }
    Ok(())
}
