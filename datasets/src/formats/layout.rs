//! Where the schema's columns are in a file that may hold them in another order.

use std::path::Path;

use crate::error::{Error, Result};
use crate::schema::COLUMNS;

/// Position of a column that the file does not have.
pub(super) const ABSENT: usize = usize::MAX;

/// Optional columns that version 3 of the schema got after its first rows were written: files from before lack them.
#[rustfmt::skip]
const ADDED: [&str; 64] = [
    "output_reuse_bytes", "import_check", "other_cpu_share", "device_clock_mhz",
    "device_temperature_c", "device_held_back_by", "device_late_samples", "device_launches",
    "threads_per_block", "blocks", "registers_per_thread", "shared_bytes_per_block",
    "local_bytes_per_thread", "spill_bytes_per_thread", "occupancy", "occupancy_limiter",
    "instruction_mix", "device_kernels", "counter_units", "counters_missing",
    "counter_running_share", "cycles", "instructions", "stalled_cycles_frontend",
    "stalled_cycles_backend", "cache_misses", "l1d_misses", "branch_misses", "task_clock_ns",
    "page_faults", "context_switches", "cpu_migrations", "simulated_cpu", "simulated_instructions",
    "simulated_l1d_misses", "simulated_llc_misses", "simulated_branch_misses",
    "estimated_block_cycles", "loop_flops", "loop_vector_instructions", "loop_scalar_instructions",
    "loop_loads", "loop_stores", "loop_spills", "compute_roof_share", "l1_roof_share",
    "l2_roof_share", "l3_roof_share", "memory_roof_share", "bound_by", "simulator",
    "simulator_profile", "simulator_calibration", "simulator_error_percent",
    "simulated_device_cycles", "simulated_host_ns", "simulated_bytes_read",
    "simulated_bytes_written", "simulated_limit", "cpu_side", "quantisation", "server", "emulated",
    "knob_algorithm",
];

/// Returns the position in the file of each column of the schema, or [`ABSENT`].
///
/// # Errors
/// Fails if columns are missing, unknown or repeated, and names them.
pub(super) fn positions(path: &Path, names: &[&str]) -> Result<Vec<usize>> {
    let found: Vec<Option<usize>> = COLUMNS
        .iter()
        .map(|column| names.iter().position(|name| *name == column.name))
        .collect();
    let missing: Vec<String> = COLUMNS
        .iter()
        .zip(&found)
        .filter(|(column, position)| position.is_none() && !ADDED.contains(&column.name))
        .map(|(column, _)| column.name.to_owned())
        .collect();
    let unknown: Vec<String> = names
        .iter()
        .enumerate()
        .filter(|(position, _)| !found.contains(&Some(*position)))
        .map(|(_, name)| (*name).to_owned())
        .collect();
    if missing.is_empty() && unknown.is_empty() {
        Ok(found.into_iter().map(|p| p.unwrap_or(ABSENT)).collect())
    } else {
        Err(Error::Header {
            path: path.to_owned(),
            missing,
            unknown,
        })
    }
}
