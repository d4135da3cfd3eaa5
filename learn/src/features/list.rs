//! The one list of features: names, meaning, and how each depends on the size of the problem.
//!
//! Training and queries fill the same [`Values`]; a feature that does not apply or is not known stays missing (NaN),
//! which the trees understand. Extents, bytes and counts are base-2 logarithms (`log_` in the meaning is left out of the
//! names), so that ratios become differences. Changing this list or an estimate changes [`FEATURE_VERSION`]: models of
//! another version are refused. The file is longer than others because it is one table.

/// Version of the list below and of the estimates.
pub const FEATURE_VERSION: u32 = 9;

use super::scope::{Feature, Scope};

macro_rules! features {
    ($( $scope:ident { $( #[doc = $doc:literal] $name:ident, )+ } )+) => {
        /// The features of one point.
        #[derive(Debug, Clone, PartialEq)]
        #[allow(clippy::doc_markdown, reason = "the meanings are a table's cells, too")]
        pub struct Values { $( $( #[doc = $doc] pub $name: f32, )+ )+ }

        impl Default for Values {
            fn default() -> Self {
                Self { $( $( $name: f32::NAN, )+ )+ }
            }
        }

        impl Values {
            /// The values in the order of [`FEATURES`].
            pub fn to_vec(&self) -> Vec<f32> {
                vec![$( $( self.$name, )+ )+]
            }
        }

        /// Every feature, in the order of a row of the matrix.
        pub const FEATURES: &[Feature] = &[
            $( $( Feature { name: stringify!($name), scope: Scope::$scope, doc: $doc.trim_ascii() }, )+ )+
        ];
    };
}

features! {
    Kind {
        /// 1 for a convolution with all channels
        kind_conv,
        /// 1 for a depthwise or grouped convolution
        kind_depthwise,
        /// 1 for a dense layer or matrix product
        kind_dense,
        /// 1 for a batch of matrix products
        kind_batch_matmul,
        /// 1 for pooling
        kind_pool,
        /// 1 for softmax, normalisation and other row-wise reductions
        kind_rows,
        /// 1 for element-wise arithmetic
        kind_elementwise,
        /// 1 for operators that only move data
        kind_movement,
        /// 1 for Winograd's algorithm
        winograd,
        /// number of the schedule's template
        template,
        /// extent of the window along the last axis
        kernel,
        /// elements of the window
        window,
        /// 1 if the window runs over a padding
        padded,
        /// stride along the last axis
        stride,
        /// operators fused behind the main one
        fused_operators,
        /// tensors that are read, beside weights
        inputs,
        /// bytes of one element
        element_bytes,
    }
    Size {
        /// arithmetic of the main computation, flop
        flops,
        /// arithmetic of what is fused to it, flop
        flops_epilogue,
        /// bytes of the inputs
        input_bytes,
        /// bytes of the weights
        weight_bytes,
        /// bytes of the outputs
        output_bytes,
        /// compulsory traffic, bytes
        bytes,
        /// arithmetic for each byte of compulsory traffic, flop/byte
        intensity,
        /// independent rows: output pixels or rows of a product
        rows,
        /// output channels or columns
        columns,
        /// length of the reduction
        depth,
        /// output width
        out_width,
        /// output height
        out_height,
        /// input channels
        in_channels,
        /// batch
        batch,
        /// elements of the innermost output axis
        last_extent,
        /// how evenly 16 lanes divide the output channels, 0 to 1
        columns_fill_16,
        /// how evenly 16 lanes divide the last axis, 0 to 1
        last_fill_16,
    }
    Total {
        /// GPU: blocks of the grid
        blocks,
        /// GPU: threads of the grid
        grid_threads,
        /// GPU: elements read from global memory by all blocks
        global_loads,
        /// GPU: steps of the staged reduction
        steps,
        /// GPU: multiply-adds of one thread
        thread_work,
        /// GPU: multiply-adds of one block
        block_work,
        /// GPU: steps of all warps
        warp_steps,
        /// GPU: unrolled and staged steps of one thread
        inner_steps,
        /// GPU: loads of one thread
        thread_loads,
        /// GPU: loads of all warps
        warp_loads,
        /// GPU: multiply-adds one after the other, by waves of blocks
        serial_waves,
        /// GPU: multiply-adds one after the other on one multiprocessor
        serial_sm,
        /// GPU: estimated instructions of one thread
        thread_instructions,
        /// CPU: iterations of the parallel loop
        parallel,
        /// CPU: multiply-adds of one iteration of the parallel loop
        task_work,
        /// CPU: bytes that one iteration touches
        task_bytes,
        /// CPU: bytes of weights of one iteration
        task_weight_bytes,
        /// CPU: bytes of input of one iteration
        task_input_bytes,
        /// CPU: bytes of output of one iteration
        task_output_bytes,
        /// CPU: weights read by all iterations, bytes
        weight_traffic,
        /// CPU: input read by all iterations, bytes
        input_traffic,
        /// CPU: outer steps of the reduction
        depth_outer,
        /// CPU: tiles of one iteration
        tiles,
        /// arithmetic of one thread, flop
        flops_per_thread,
        /// traffic of one thread, bytes
        bytes_per_thread,
    }
    Tile {
        /// what divides the last axis of a row of outputs evenly, up to 8
        row_divisor_8,
        /// … up to 16
        row_divisor_16,
        /// what divides the output channels evenly, up to 64
        columns_divisor_64,
        /// what divides the innermost output axis evenly, up to 16
        last_divisor_16,
        /// exponentials and the like for each element of the output
        transcendentals,
        /// exponentials and the like for each flop
        transcendentals_per_flop,
        /// GPU: threads of a block
        block_threads,
        /// GPU: threads along the fastest index
        threads_x,
        /// GPU: threads along the other indices
        threads_y,
        /// GPU: warps of a block
        warps,
        /// GPU: share of lanes in use in a block's warps
        warp_fill,
        /// GPU: virtual threads
        virtual_threads,
        /// GPU: sums of one thread
        accumulators,
        /// GPU: values of the first operand for one step of a thread
        fragment_rows,
        /// GPU: values of the second operand
        fragment_columns,
        /// GPU: innermost tile of a thread
        inner_tile,
        /// GPU: reduction steps inside one staged step
        depth_inner,
        /// GPU: middle factor of the reduction
        depth_middle,
        /// GPU: length of a staged step
        depth_stage,
        /// GPU: rows of a block's tile
        block_rows,
        /// GPU: columns of a block's tile
        block_columns,
        /// GPU: row factors of the grid
        rows_grid,
        /// GPU: row factors of virtual threads
        rows_virtual,
        /// GPU: row factors of threads
        rows_threads,
        /// GPU: row factors inside a thread
        rows_inner,
        /// GPU: column factors of the grid
        columns_grid,
        /// GPU: column factors of virtual threads
        columns_virtual,
        /// GPU: column factors of threads
        columns_threads,
        /// GPU: column factors inside a thread
        columns_inner,
        /// GPU: fastest axis inside a thread
        last_inner,
        /// GPU: virtual threads of the fastest axis
        last_virtual,
        /// limit of automatic unrolling, steps
        unroll_limit,
        /// 1 if unrolling is explicit
        unroll_explicit,
        /// GPU: body that would be unrolled, steps
        unroll_body,
        /// GPU: 1 if the body is within the limit
        unrolled,
        /// computed over wanted elements (partial tiles)
        padding_ratio,
        /// GPU: staged elements of the first operand
        shared_first,
        /// GPU: staged elements of the second operand
        shared_second,
        /// GPU: shared memory of a block, bytes
        shared_bytes,
        /// GPU: shared memory with double buffering, bytes
        shared_buffered_bytes,
        /// GPU: registers of a thread, estimated
        registers,
        /// GPU: registers beyond the 255 that there are
        registers_spilled,
        /// GPU: local values of one step: fragments and sums
        local_values,
        /// GPU: blocks that fit on a multiprocessor
        resident_blocks,
        /// GPU: warps that fit on a multiprocessor
        resident_warps,
        /// GPU: blocks that fit with 48 KiB of shared memory
        resident_blocks_48k,
        /// GPU: warps that fit with 48 KiB
        resident_warps_48k,
        /// GPU: blocks that fit with 64 KiB
        resident_blocks_64k,
        /// GPU: warps that fit with 64 KiB
        resident_warps_64k,
        /// GPU: waves of blocks
        waves,
        /// GPU: waves with 48 KiB, at least 1
        waves_48k,
        /// GPU: waves with 64 KiB, at least 1
        waves_64k,
        /// GPU: waste of the last wave
        wave_waste,
        /// GPU: blocks for each of 40 multiprocessors, at least 1
        blocks_per_sm,
        /// GPU: waste of the last round over 40 multiprocessors
        sm_waste,
        /// GPU: staged elements for each thread
        stage_per_thread,
        /// GPU: loads of a thread for the first operand, a step
        loads_first,
        /// GPU: loads of a thread for the second operand
        loads_second,
        /// GPU: loads of a thread, a step
        loads,
        /// GPU: share of load slots that load something wanted
        load_fill,
        /// GPU: ways of bank conflict, first operand
        conflict_first,
        /// GPU: ways of bank conflict, second operand
        conflict_second,
        /// GPU: contiguous elements of the first operand in global memory
        run_first,
        /// GPU: contiguous elements of the second operand
        run_second,
        /// GPU: multiply-adds of one unrolled step
        step_inner,
        /// GPU: multiply-adds of one staged step
        step_work,
        /// GPU: innermost tile times inner depth
        step_tile,
        /// GPU: first fragment times inner depth
        fragment_first_depth,
        /// GPU: second fragment times inner depth
        fragment_second_depth,
        /// GPU: loads for each multiply-add of a step
        loads_per_work,
        /// GPU: reads of shared memory in a step, conflicts counted
        shared_reads,
        /// GPU: estimated instructions of a step
        step_instructions,
        /// GPU: reads of shared memory for each multiply-add
        shared_reads_per_work,
        /// GPU: shared values for each multiply-add of a fragment
        fragment_ratio,
        /// GPU: global bytes for each flop
        global_bytes_per_flop,
        /// GPU: size of the unrolled code
        code_size,
        /// CPU: input channels of a block
        depth_block,
        /// CPU: output channels of a block
        columns_block,
        /// CPU: outputs along the width in a register tile
        width_tile,
        /// CPU: output rows of a tile
        height_tile,
        /// CPU: lanes of the vectorised loop
        vector,
        /// CPU: sums of a register tile
        register_tile,
        /// CPU: tile without its vector axis
        broadcast_tile,
        /// CPU: reduction inside a tile
        depth_tile,
        /// CPU: bytes of a tile's input rows
        row_bytes,
        /// CPU: input of the inner loops, bytes
        inner_input_bytes,
        /// CPU: weights of the inner loops, bytes
        inner_weight_bytes,
        /// CPU: bytes of the inner loops
        inner_bytes,
        /// CPU: how full vectors of 4 lanes are
        vector_fill_4,
        /// CPU: how full vectors of 8 lanes are
        vector_fill_8,
        /// CPU: how full vectors of 16 lanes are
        vector_fill_16,
        /// CPU: registers of the tile with 4 lanes
        tile_registers_4,
        /// CPU: registers of the tile with 8 lanes
        tile_registers_8,
        /// CPU: registers of the tile with 16 lanes
        tile_registers_16,
        /// CPU: registers beyond 14, 4 lanes
        tile_spilled_4,
        /// CPU: registers beyond 14, 8 lanes
        tile_spilled_8,
        /// CPU: registers beyond 30, 16 lanes
        tile_spilled_16,
        /// CPU: loads for each multiply-add, 4 lanes
        tile_loads_4,
        /// CPU: loads for each multiply-add, 8 lanes
        tile_loads_8,
        /// CPU: loads for each multiply-add, 16 lanes
        tile_loads_16,
        /// CPU: imbalance over 4 workers
        imbalance_4,
        /// CPU: imbalance over 8 workers
        imbalance_8,
        /// CPU: imbalance over 16 workers
        imbalance_16,
        /// CPU: imbalance over 32 workers
        imbalance_32,
        /// CPU: bytes of weights and input for each flop
        traffic_per_flop,
        /// CPU: weight bytes for each multiply-add of an iteration
        weight_per_work,
        /// CPU: input bytes for each multiply-add of an iteration
        input_per_work,
        /// CPU: share of the width in the last, partial tile
        width_remainder,
        /// CPU: tile's width over the output's
        width_share,
        /// CPU: 1 if the vector length is a power of two
        vector_power_of_two,
        /// CPU: largest power of two in the channel block
        depth_block_alignment,
        /// GPU: time of the arithmetic at the device's peak over that of the traffic at its bandwidth
        bound,
        /// GPU: nominal tiles of outputs (128 x 128) for each multiprocessor
        tiles_per_unit,
        /// GPU: share of the last round that is idle if they are taken in rounds
        tiles_idle,
        /// GPU: compulsory traffic over the device's second-level cache
        cache_share,
        /// GPU: kernels that the operator starts, as compiled
        compiled_launches,
        /// GPU: threads of a block, as compiled
        compiled_threads,
        /// GPU: blocks of the grid, as compiled
        compiled_blocks,
        /// GPU: registers of a thread, as compiled
        compiled_registers,
        /// GPU: shared memory of a block, as compiled, bytes
        compiled_shared_bytes,
        /// GPU: local memory of a thread, as compiled, bytes
        compiled_local_bytes,
        /// GPU: what a thread spills, as compiled, bytes
        compiled_spill_bytes,
        /// GPU: share of a multiprocessor's threads that can be resident, as compiled
        compiled_occupancy,
        /// tiling knobs of an unknown template: product of innermost factors
        knobs_inner,
        /// … of outermost factors
        knobs_outer,
        /// … of those between
        knobs_middle,
    }
    Code {
        /// CPU: arithmetic of one pass through the innermost loop, as compiled, flop
        loop_flops,
        /// CPU: instructions of such a pass
        loop_instructions,
        /// CPU: arithmetic for each of them, flop
        loop_flops_per_instruction,
        /// CPU: share of them that work on several lanes
        loop_vector_share,
        /// CPU: share that read memory
        loop_load_share,
        /// CPU: share that write memory
        loop_store_share,
        /// CPU: share that read or write the stack, as registers ran out
        loop_spill_share,
    }
    Machine {
        /// threads
        threads,
        /// threads that find work
        threads_busy,
        /// imbalance over the threads
        threads_imbalance,
        /// cores of the machine
        cores,
        /// first-level data cache, bytes
        l1_bytes,
        /// second-level cache, bytes
        l2_bytes,
        /// last-level cache, bytes
        l3_bytes,
        /// lanes of 4 bytes in a vector register
        lanes,
        /// clock of a core: calibrated, else the highest that the kernel names, else what it reports, GHz
        frequency,
        /// calibrated peak at this number of threads, flop/ns
        peak_flops,
        /// calibrated bandwidth of the first-level caches at this number of threads, byte/ns
        bandwidth_l1,
        /// … of the second-level caches
        bandwidth_l2,
        /// … of the third-level cache
        bandwidth_l3,
        /// … of main memory
        bandwidth_memory,
        /// number of the machine among those of the training data
        machine,
        /// 0 caches hold the arguments, 1 as in the model, 2 flushed
        cache_state,
        /// weights read between two uses of one of the operator's, at most 4 MB, bytes
        weight_reuse_bytes,
    }
}

/// Positions of the features that are in one of `scopes`.
pub fn positions_of(scopes: &[Scope]) -> Vec<usize> {
    FEATURES
        .iter()
        .enumerate()
        .filter(|(_, feature)| scopes.contains(&feature.scope))
        .map(|(position, _)| position)
        .collect()
}
