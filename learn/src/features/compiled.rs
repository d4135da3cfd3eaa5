//! Features that only compiled or measured kernels have: resources on a GPU, emitted code, counts.

use opdata::Row;

use super::list::Values;
use super::operator::Operator;
use super::scale::{log, log1};

/// A GPU's resources that the row's kernel needs, by its compiler; nothing for rows without a compiled kernel.
pub(super) fn describe_resources(values: &mut Values, row: &Row) {
    let count = |column: Option<u64>| column.map_or(f32::NAN, |n| log1(n as f64));
    values.compiled_launches = count(row.device_launches);
    values.compiled_threads = count(row.threads_per_block);
    values.compiled_blocks = count(row.blocks);
    values.compiled_registers = count(row.registers_per_thread);
    values.compiled_shared_bytes = count(row.shared_bytes_per_block);
    values.compiled_local_bytes = count(row.local_bytes_per_thread);
    values.compiled_spill_bytes = count(row.spill_bytes_per_thread);
    values.compiled_occupancy = row.occupancy.map_or(f32::NAN, |share| share as f32);
}

/// The innermost loop of the row's kernel in its emitted code; nothing for rows whose code was not read.
pub(super) fn describe_code(values: &mut Values, row: &Row) {
    let count = |column: Option<f64>| column.unwrap_or(f64::NAN);
    let (vector, scalar) = (
        count(row.loop_vector_instructions),
        count(row.loop_scalar_instructions),
    );
    let all = vector + scalar;
    let flops = count(row.loop_flops);
    let share = |column: Option<f64>| (count(column) / all) as f32;
    values.loop_flops = log(flops + 1.0);
    values.loop_instructions = log(all);
    values.loop_flops_per_instruction = (flops / all) as f32;
    values.loop_vector_share = share(row.loop_vector_instructions);
    values.loop_load_share = share(row.loop_loads);
    values.loop_store_share = share(row.loop_stores);
    values.loop_spill_share = share(row.loop_spills);
}

/// Counters of the row's kernel per unit of its work, so that they carry over to problems of another size.
pub(super) fn describe_counts(values: &mut Values, row: &Row, o: &Operator) {
    let work = o.total_flops().max(o.bytes());
    let share = |column: Option<f64>| column.map_or(f32::NAN, |count| log((count + 1.0) / work));
    values.counted_instructions = share(row.instructions);
    values.counted_cache_misses = share(row.cache_misses);
    values.counted_branch_misses = share(row.branch_misses);
    values.simulated_instructions = share(row.simulated_instructions);
    values.simulated_l1d_misses = share(row.simulated_l1d_misses);
    values.simulated_llc_misses = share(row.simulated_llc_misses);
    values.simulated_branch_misses = share(row.simulated_branch_misses);
    values.estimated_block_cycles = row.estimated_block_cycles.map_or(f32::NAN, log1);
}
