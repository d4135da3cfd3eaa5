//! The one list of features: names, meaning, and how each depends on the size of the problem.
//!
//! Training and queries fill the same [`Values`]; a feature that does not apply or is not known stays missing (NaN),
//! which the trees understand. Extents, bytes and counts are base-2 logarithms (`Log2` behind the name), so that ratios become
//! differences. Changing this list or an estimate changes [`FEATURE_VERSION`]: models of
//! another version are refused. The file is longer than others because it is one table.

/// Version of the list below and of the estimates.
pub const FEATURE_VERSION: u32 = 27;

use super::scope::{Feature, Scale, Scope};

macro_rules! features {
    (@scale $scale:ident) => { Scale::$scale };
    (@scale) => { Scale::Plain };
    ($( $scope:ident { $( #[doc = $doc:literal] $name:ident $(: $scale:ident)?, )+ } )+) => {
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
            $( $( Feature {
                name: stringify!($name),
                scope: Scope::$scope,
                scale: features!(@scale $($scale)?),
                doc: $doc.trim_ascii(),
            }, )+ )+
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
        window: Log2,
        /// 1 if the largest value of a window is taken
        takes_largest,
        /// 1 if the window runs over a padding
        padded,
        /// stride along the last axis
        stride,
        /// operators fused after the main one
        fused_operators,
        /// tensors that are read, beside weights
        inputs,
        /// bytes of one element
        element_bytes,
    }
    Size {
        /// arithmetic of the main computation, flop
        flops: Log2,
        /// arithmetic of the operators fused to it, flop
        flops_epilogue: Log2,
        /// bytes of the inputs
        input_bytes: Log2,
        /// bytes of the weights
        weight_bytes: Log2,
        /// bytes of the outputs
        output_bytes: Log2,
        /// compulsory traffic, bytes
        bytes: Log2,
        /// arithmetic for each byte of compulsory traffic, flop/byte
        intensity: Log2,
        /// independent rows: output pixels or rows of a product
        rows: Log2,
        /// output channels or columns
        columns: Log2,
        /// length of the reduction
        depth: Log2,
        /// output width
        out_width: Log2,
        /// output height
        out_height: Log2,
        /// input channels
        in_channels: Log2,
        /// batch
        batch: Log2,
        /// elements of the innermost output axis
        last_extent: Log2,
        /// how evenly 16 lanes divide the output channels, 0 to 1
        columns_fill_16,
        /// how evenly 16 lanes divide the last axis, 0 to 1
        last_fill_16,
    }
    Total {
        /// GPU: blocks of the grid
        blocks: Log2,
        /// GPU: elements read from global memory by all blocks
        global_loads: Log2,
        /// GPU: steps of the staged reduction
        steps: Log2,
        /// GPU: multiply-adds of one thread
        thread_work: Log2,
        /// GPU: multiply-adds one after the other, by waves of blocks
        serial_waves: Log2,
        /// GPU: multiply-adds one after the other on one multiprocessor
        serial_sm: Log2,
        /// GPU: estimated instructions of one thread
        thread_instructions: Log2,
        /// CPU: iterations of the parallel loop
        parallel: Log2,
        /// CPU: multiply-adds of one iteration of the parallel loop
        task_work: Log2,
        /// CPU: bytes that one iteration touches
        task_bytes: Log2,
        /// CPU: bytes of weights of one iteration
        task_weight_bytes: Log2,
        /// CPU: bytes of input of one iteration
        task_input_bytes: Log2,
        /// CPU: bytes of output of one iteration
        task_output_bytes: Log2,
        /// CPU: weights read by all iterations, bytes
        weight_traffic: Log2,
        /// CPU: input read by all iterations, bytes
        input_traffic: Log2,
        /// CPU: outer steps of the reduction
        depth_outer: Log2,
        /// CPU: tiles of one iteration
        tiles: Log2,
        /// arithmetic of one thread, flop
        flops_per_thread: Log2,
        /// traffic of one thread, bytes
        bytes_per_thread: Log2,
    }
    Tile {
        /// largest divisor of the last axis of a row of outputs, up to 8
        row_divisor_8,
        /// largest divisor of the last axis of a row of outputs, up to 16
        row_divisor_16,
        /// largest divisor of the output channels, up to 64
        columns_divisor_64,
        /// largest divisor of the innermost output axis, up to 16
        last_divisor_16,
        /// exponentials and the like for each element of the output
        transcendentals,
        /// exponentials and the like for each million flop
        transcendentals_per_flop: Log2,
        /// GPU: threads of a block
        block_threads: Log2,
        /// GPU: threads along the fastest index
        threads_x: Log2,
        /// GPU: threads along the other indices
        threads_y: Log2,
        /// GPU: warps of a block
        warps,
        /// GPU: share of lanes in use in a block's warps
        warp_fill,
        /// GPU: virtual threads
        virtual_threads: Log2,
        /// GPU: sums of one thread
        accumulators: Log2,
        /// GPU: values of the first operand for one step of a thread
        fragment_rows: Log2,
        /// GPU: values of the second operand
        fragment_columns: Log2,
        /// GPU: innermost tile of a thread
        inner_tile: Log2,
        /// GPU: reduction steps inside one staged step
        depth_inner: Log2,
        /// GPU: middle factor of the reduction
        depth_middle: Log2,
        /// GPU: length of a staged step
        depth_stage: Log2,
        /// GPU: rows of a block's tile
        block_rows: Log2,
        /// GPU: columns of a block's tile
        block_columns: Log2,
        /// limit of automatic unrolling, steps
        unroll_limit,
        /// 1 if unrolling is explicit
        unroll_explicit,
        /// computed over required elements (partial tiles)
        padding_ratio,
        /// GPU: shared memory of a block, bytes
        shared_bytes: Log2,
        /// GPU: registers of a thread, estimated
        registers: Log2,
        /// GPU: registers beyond the 255 that there are
        registers_spilled,
        /// GPU: local values of one step: fragments and sums
        local_values: Log2,
        /// GPU: blocks that fit on a multiprocessor
        resident_blocks,
        /// GPU: warps that fit on a multiprocessor
        resident_warps,
        /// GPU: waves of blocks
        waves: Log2,
        /// GPU: waste of the last wave
        wave_waste,
        /// GPU: blocks for each of 40 multiprocessors, at least 1
        blocks_per_sm: Log2,
        /// GPU: waste of the last round over 40 multiprocessors
        sm_waste,
        /// GPU: staged elements for each thread
        stage_per_thread: Log2,
        /// GPU: loads of a thread for the first operand, a step
        loads_first: Log2,
        /// GPU: loads of a thread for the second operand
        loads_second: Log2,
        /// GPU: loads of a thread, a step
        loads: Log2,
        /// GPU: share of load slots with a required load
        load_fill,
        /// GPU: ways of bank conflict, first operand
        conflict_first,
        /// GPU: ways of bank conflict, second operand
        conflict_second,
        /// GPU: contiguous elements of the first operand in global memory
        run_first: Log2,
        /// GPU: contiguous elements of the second operand
        run_second: Log2,
        /// GPU: loads for each multiply-add of a step
        loads_per_work: Log2,
        /// GPU: reads of shared memory in a step, conflicts counted
        shared_reads: Log2,
        /// GPU: estimated instructions of a step
        step_instructions: Log2,
        /// GPU: reads of shared memory for each multiply-add
        shared_reads_per_work: Log2,
        /// GPU: shared values for each multiply-add of a fragment
        fragment_ratio: Log2,
        /// GPU: global bytes for each flop
        global_bytes_per_flop: Log2,
        /// CPU: input channels of a block
        depth_block: Log2,
        /// CPU: output channels of a block
        columns_block: Log2,
        /// CPU: outputs along the width in a register tile
        width_tile: Log2,
        /// CPU: output rows of a tile
        height_tile: Log2,
        /// CPU: lanes of the vectorised loop
        vector: Log2,
        /// CPU: sums of a register tile
        register_tile: Log2,
        /// CPU: tile without its vector axis
        broadcast_tile: Log2,
        /// CPU: reduction inside a tile
        depth_tile: Log2,
        /// windows of single channels: 0 if the data are read in place, 1 if a copy is split by the stride, 2 if they are copied into a padding
        staging,
        /// windows of single channels: data of a channel with their padding, values
        staged_channel: Log2,
        /// CPU: results of a tile along the innermost axis that is not the vectors'
        tile_inner: Log2,
        /// CPU: results of a tile along the axis outside of that
        tile_second: Log2,
        /// CPU: results of whole tiles over those required
        tile_waste,
        /// CPU: axes that the tile does not divide
        tile_uneven,
        /// CPU: filled share of the last tile of an axis, if it is partial
        tile_rest,
        /// CPU: share of an axis that is in its last, partial tile
        tile_rest_share,
        /// CPU: steps of the innermost loop of the reduction
        reduction_inner: Log2,
        /// CPU: axes of the reduction that run in two loops
        reduction_split,
        /// CPU: iterations of the innermost loop that is not unrolled
        reduction_trip: Log2,
        /// CPU: bytes of a tile's input rows
        row_bytes: Log2,
        /// CPU: input of the inner loops, bytes
        inner_input_bytes: Log2,
        /// CPU: weights of the inner loops, bytes
        inner_weight_bytes: Log2,
        /// CPU: bytes of the inner loops
        inner_bytes: Log2,
        /// CPU: how full the processor's vectors are
        vector_fill,
        /// CPU: vector registers of the tile
        tile_registers: Log2,
        /// CPU: registers beyond all but two that the processor has
        tile_spilled,
        /// CPU: loads for each multiply-add
        tile_loads: Log2,
        /// CPU: cycles of one step of a register tile, estimated
        step_cycles: Log2,
        /// CPU: cycles of such a step over those of its arithmetic alone
        step_stall: Log2,
        /// CPU: imbalance over 4 workers
        imbalance_4,
        /// CPU: imbalance over 8 workers
        imbalance_8,
        /// CPU: imbalance over 16 workers
        imbalance_16,
        /// CPU: imbalance over 32 workers
        imbalance_32,
        /// CPU: bytes of weights and input for each flop
        traffic_per_flop: Log2,
        /// CPU: weight bytes for each multiply-add of an iteration
        weight_per_work: Log2,
        /// CPU: input bytes for each multiply-add of an iteration
        input_per_work: Log2,
        /// CPU: share of the width in the last, partial tile
        width_remainder,
        /// CPU: tile's width over the output's
        width_share,
        /// CPU: 1 if the vector length is a power of two
        vector_power_of_two,
        /// CPU: largest power of two in the channel block
        depth_block_alignment: Log2,
        /// GPU: time of the arithmetic at the device's peak over that of the traffic at its bandwidth
        bound: Log2,
        /// GPU: nominal tiles of outputs (128 x 128) for each multiprocessor
        tiles_per_unit: Log2,
        /// GPU: share of the last round that is idle if they are taken in rounds
        tiles_idle,
        /// GPU: compulsory traffic over the device's second-level cache
        cache_share: Log2,
        /// GPU: kernels that the operator starts, as compiled
        compiled_launches: Log2,
        /// GPU: threads of a block, as compiled
        compiled_threads: Log2,
        /// GPU: blocks of the grid, as compiled
        compiled_blocks: Log2,
        /// GPU: registers of a thread, as compiled
        compiled_registers: Log2,
        /// GPU: shared memory of a block, as compiled, bytes
        compiled_shared_bytes: Log2,
        /// GPU: local memory of a thread, as compiled, bytes
        compiled_local_bytes: Log2,
        /// GPU: bytes that a thread spills, by the compiler
        compiled_spill_bytes: Log2,
        /// GPU: share of a multiprocessor's threads that can be resident, as compiled
        compiled_occupancy,
        /// tiling knobs of an unknown template: product of innermost factors
        knobs_inner: Log2,
        /// tiling knobs of an unknown template: product of outermost factors
        knobs_outer: Log2,
        /// tiling knobs of an unknown template: product of the factors between
        knobs_middle: Log2,
    }
    Code {
        /// CPU: arithmetic of one pass through the innermost loop, as compiled, flop
        loop_flops: Log2,
        /// CPU: instructions of such a pass
        loop_instructions: Log2,
        /// CPU: arithmetic for each of these instructions, flop
        loop_flops_per_instruction,
        /// CPU: share of these instructions that work on several lanes
        loop_vector_share,
        /// CPU: share that read memory
        loop_load_share,
        /// CPU: share that write memory
        loop_store_share,
        /// CPU: share that read or write the stack, as registers ran out
        loop_spill_share,
    }
    Counted {
        /// CPU: instructions of a call as the processor counted them, for each flop or byte of traffic, whichever is larger
        counted_instructions: Log2,
        /// CPU: misses of the last cache in a call as the processor counted them, for each flop or byte of traffic, whichever is larger
        counted_cache_misses: Log2,
        /// CPU: mispredicted branches of a call as the processor counted them, for each flop or byte of traffic, whichever is larger
        counted_branch_misses: Log2,
        /// CPU: instructions of a call in a simulator, for each flop or byte of traffic, whichever is larger
        simulated_instructions: Log2,
        /// CPU: misses of the first data cache in a call in a simulator, for each flop or byte of traffic, whichever is larger
        simulated_l1d_misses: Log2,
        /// CPU: misses of the last cache in a call in a simulator, for each flop or byte of traffic, whichever is larger
        simulated_llc_misses: Log2,
        /// CPU: branches of a call mispredicted by a simulated predictor, for each flop or byte of traffic, whichever is larger
        simulated_branch_misses: Log2,
        /// CPU: estimated cycles of a pass through the hottest block
        estimated_block_cycles: Log2,
    }
    Foreign {
        /// GPU: outputs of whole rounds of tiles of 128 x 128 over those required
        rounds_128_128: Log2,
        /// GPU: the same with tiles of 128 x 64
        rounds_128_64: Log2,
        /// GPU: the same with tiles of 64 x 64
        rounds_64_64: Log2,
        /// GPU: the same with tiles of 32 x 128
        rounds_32_128: Log2,
        /// GPU: the same with tiles of 128 x 32
        rounds_128_32: Log2,
        /// GPU: major number of the device's compute capability: which kernels a library has for it
        generation,
    }
    Machine {
        /// threads
        threads: Log2,
        /// threads that find work
        threads_busy: Log2,
        /// imbalance over the threads
        threads_imbalance,
        /// cores of the machine
        cores,
        /// first-level data cache, bytes
        l1_bytes: Log2,
        /// second-level cache, bytes
        l2_bytes: Log2,
        /// last-level cache, bytes
        l3_bytes: Log2,
        /// lanes of 4 bytes in a vector register
        lanes,
        /// clock of a core: calibrated, else the highest that the kernel names, else what it reports, GHz
        frequency: Log2,
        /// calibrated peak at this number of threads, flop/ns
        peak_flops: Log2,
        /// calibrated bandwidth of the first-level caches at this number of threads, byte/ns
        bandwidth_l1: Log2,
        /// calibrated bandwidth of the second-level caches at this number of threads, byte/ns
        bandwidth_l2: Log2,
        /// calibrated bandwidth of the third-level cache at this number of threads, byte/ns
        bandwidth_l3: Log2,
        /// calibrated bandwidth of main memory at this number of threads, byte/ns
        bandwidth_memory: Log2,
        /// number of the machine among those of the training data
        machine,
        /// 0 caches hold the arguments, 1 as in the model, 2 flushed
        cache_state,
        /// traffic between two uses of one of the operator's weights, at most 4 MB, or 64 MB if a call uses each weight once, bytes
        weight_reuse_bytes: Log2,
    }
    State {
        /// time of the reference kernel around the measurement over its time on the idle machine
        drift: Log2,
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
