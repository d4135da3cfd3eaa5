//! The features of a GPU kernel's loop nest: what fits on a multiprocessor, waves, work and loads of a step.
//!
//! An imported log does not describe its device. So occupancy and waves are those of a nominal one. It has [`SMS`]
//! multiprocessors, unless the user names their number. Each has 1024 threads, 16 blocks, 64 Ki registers and 64 KiB of
//! shared memory. The trees learn where the real device differs.

use crate::features::cuda::nest::{GpuNest, SMS};
use crate::features::list::Values;
use crate::features::machine::MachineFacts;
use crate::features::machine::moving::AtBest;
use crate::features::operator::Operator;
use crate::features::scale::{ceil_div, log, log1};

const RESIDENT_BLOCKS: f64 = 16.0;
const RESIDENT_THREADS: f64 = 1024.0;
const REGISTERS: f64 = 65536.0;
const SHARED_BYTES: f64 = 65536.0;
/// Maximum number of registers of one thread.
const THREAD_REGISTERS: f64 = 255.0;
/// Rows and columns of a tile of outputs as libraries of GPUs divide them.
const NOMINAL_TILE: f64 = 128.0;

/// Blocks that fit on a multiprocessor, at least 1: the nominal occupancy.
pub(super) fn occupancy(nest: &GpuNest) -> f64 {
    let by_threads = (RESIDENT_THREADS / nest.threads.max(1.0)).floor();
    let by_shared = match nest.shared_bytes() {
        bytes if bytes > 0.0 => (SHARED_BYTES / bytes).floor(),
        _ => RESIDENT_BLOCKS,
    };
    let registers = nest.registers().min(THREAD_REGISTERS) * nest.warps() * 32.0;
    RESIDENT_BLOCKS
        .min(by_threads)
        .min(by_shared)
        .min((REGISTERS / registers.max(1.0)).floor())
        .max(1.0)
}

pub(super) fn describe(v: &mut Values, o: &Operator, n: &GpuNest, machine: &MachineFacts) {
    let warps = n.warps();
    let kernel_flops = (2.0 * n.kernel_work).max(1.0);
    v.template = n.template as u8 as f32;
    v.blocks = log(n.blocks);
    let global = n.global_loads(o);
    v.global_loads = log(global);
    v.global_bytes_per_flop = log(4.0 * global / kernel_flops);
    v.steps = log(n.steps);
    v.thread_work = log(n.thread_work);
    v.block_threads = log(n.threads);
    v.threads_x = log(n.threads_x);
    v.threads_y = log(n.threads / n.threads_x);
    v.warps = warps as f32;
    v.warp_fill = n.warp_fill() as f32;
    v.virtual_threads = log(n.virtual_threads);
    tile(v, n);
    shared(v, n);
    waves(v, n, machine.units_or(SMS));
    step(v, n);
}

/// How an operator fills a GPU with known figures. These features carry over from one GPU to another.
pub(super) fn describe_share(
    values: &mut Values,
    o: &Operator,
    best: AtBest,
    machine: &MachineFacts,
) {
    values.bound = log(best.arithmetic / best.moving);
    values.cache_share = machine
        .l2_bytes
        .map_or(f32::NAN, |cache| log(o.bytes() / cache as f64));
    if let Some(units) = machine.cores {
        let tiles = o.batch * ceil_div(o.rows, NOMINAL_TILE) * ceil_div(o.columns, NOMINAL_TILE);
        let rounds = tiles / f64::from(units);
        values.tiles_per_unit = log(rounds);
        values.tiles_idle = (1.0 - rounds / rounds.ceil()) as f32;
        let computed = |rows: f64, columns: f64| {
            let tiles = o.batch * ceil_div(o.rows, rows) * ceil_div(o.columns, columns);
            let taken = ceil_div(tiles, f64::from(units)) * f64::from(units);
            log(taken * rows * columns / (o.batch * o.rows * o.columns))
        };
        values.rounds_128_128 = computed(128.0, 128.0);
        values.rounds_128_64 = computed(128.0, 64.0);
        values.rounds_64_64 = computed(64.0, 64.0);
        values.rounds_32_128 = computed(32.0, 128.0);
        values.rounds_128_32 = computed(128.0, 32.0);
    }
    values.generation = machine.generation.map_or(f32::NAN, |n| n as f32);
}

fn tile(v: &mut Values, n: &GpuNest) {
    v.accumulators = log(n.accumulators);
    v.fragment_rows = log(n.fragment_rows);
    v.fragment_columns = log(n.fragment_columns);
    v.inner_tile = log(n.inner_tile);
    v.depth_inner = log(n.depth_inner);
    v.depth_middle = log(n.depth_middle);
    v.depth_stage = log(n.stage());
    v.block_rows = log(n.block_rows);
    v.block_columns = log(n.block_columns);
    v.unroll_limit = n.unroll_limit as f32;
    v.unroll_explicit = n.unroll_explicit as f32;
    v.padding_ratio = n.padding_ratio as f32;
    v.registers = log(n.registers());
    v.registers_spilled = (n.registers() - THREAD_REGISTERS).max(0.0) as f32;
    v.local_values = log((n.fragment_rows + n.fragment_columns) * n.depth_inner + n.accumulators);
    v.fragment_ratio =
        log((n.fragment_rows + n.fragment_columns) / (n.fragment_rows * n.fragment_columns));
}

fn shared(v: &mut Values, n: &GpuNest) {
    v.shared_bytes = log1(n.shared_bytes());
    v.stage_per_thread = log(n.staged / n.threads + 1e-3);
    v.loads_first = log(n.first.slots);
    v.loads_second = log(n.second.slots);
    v.loads = log(n.loads());
    v.load_fill = if n.staged > 0.0 {
        (n.staged / (n.loads() * n.threads)) as f32
    } else {
        1.0
    };
    v.conflict_first = n.first.conflict as f32;
    v.conflict_second = n.second.conflict as f32;
    v.run_first = log(n.first.run);
    v.run_second = log(n.second.run);
}

fn waves(v: &mut Values, n: &GpuNest, multiprocessors: f64) {
    let warps = n.warps();
    let resident_blocks = occupancy(n);
    v.resident_blocks = resident_blocks as f32;
    v.resident_warps = (resident_blocks * warps) as f32;
    let waves = n.blocks / (multiprocessors * resident_blocks);
    v.waves = log(waves);
    v.wave_waste = if waves > 1.0 {
        (waves.ceil() / waves) as f32
    } else {
        1.0
    };
    let per_sm = n.blocks / multiprocessors;
    v.blocks_per_sm = log1(per_sm);
    v.sm_waste = (per_sm.ceil() / per_sm.max(1.0)) as f32;
    v.serial_waves = log(waves.ceil() * n.thread_work);
    v.serial_sm = log(per_sm.ceil() * n.thread_work * warps);
    v.thread_instructions = log(n.steps * n.step_instructions());
}

fn step(v: &mut Values, n: &GpuNest) {
    v.loads_per_work = log(n.loads() / n.step_work());
    v.shared_reads = log(n.shared_reads());
    v.step_instructions = log(n.step_instructions());
    v.shared_reads_per_work = log(n.shared_reads() / n.step_work());
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::dense_row;

    #[test]
    fn whole_rounds_of_tiles_compute_more_than_is_wanted() {
        // 100 x 192 outputs on 4 multiprocessors: two tiles of 128 x 128, three of 128 x 64, six of 64 x 64.
        let operator = Operator::of_row(&dense_row(100, 192, 64, "{}"));
        let machine = MachineFacts {
            cores: Some(4),
            generation: Some(8),
            ..MachineFacts::named("m")
        };
        let mut values = Values::default();
        describe_share(&mut values, &operator, AtBest::default(), &machine);
        let waste = |rounds: f64, tile: f64| (rounds * 4.0 * tile / (100.0 * 192.0)).log2() as f32;
        assert_eq!(values.rounds_128_128, waste(1.0, 128.0 * 128.0));
        assert_eq!(values.rounds_128_64, waste(1.0, 128.0 * 64.0));
        assert_eq!(values.rounds_64_64, waste(2.0, 64.0 * 64.0));
        assert_eq!(values.generation, 8.0);
        let mut unknown = Values::default();
        describe_share(
            &mut unknown,
            &operator,
            AtBest::default(),
            &MachineFacts::named("m"),
        );
        assert!(unknown.rounds_128_128.is_nan() && unknown.generation.is_nan());
    }
}
