//! The column table: every column of the dataset once, with its type, unit and meaning.
//!
//! The order here is the order of the columns in every file. The text of a column is both the
//! field's documentation and its line in `SCHEMA.md`. Adding, removing or changing the meaning of a
//! column makes a new [`SCHEMA_VERSION`]. Optional columns added at the end do not: older files are
//! read as if theirs were empty (`formats/layout.rs` names them).

use super::{Cell, CellError, Column, Field, Glance, Group, Initial, TextCells};
use crate::values::{
    CacheState, DeviceKind, Dims, JsonText, LoopNest, Quality, Shapes, Status, Timestamp,
};

/// The version of the schema that this build reads and writes.
pub const SCHEMA_VERSION: u64 = 3;

/// Declares [`Row`] and [`COLUMNS`] from one table: `name: type [unit],` under its group.
macro_rules! columns {
    ($(
        $group:ident {
            $( $(#[doc = $doc:literal])+ $name:ident: $ty:ty $([$unit:literal])?, )+
        }
    )+) => {
        /// One point of the dataset: a column a field, in the order of the columns.
        #[derive(Debug, Clone, PartialEq)]
        pub struct Row {
            $($( $(#[doc = $doc])+ pub $name: $ty, )+)+
        }

        /// The columns of the dataset, in the order of every file.
        pub const COLUMNS: &[Column] = &[$($(
            Column {
                name: stringify!($name),
                ty: <$ty as Field>::TYPE,
                presence: <$ty as Field>::PRESENCE,
                unit: concat!($($unit)?),
                group: Group::$group,
                doc: concat!($($doc),+).trim_ascii(),
            },
        )+)+];

        impl Row {
            /// A row of initial values, for [`Row::new`] to complete.
            pub(crate) fn initial() -> Self {
                Self { $($( $name: Initial::initial(), )+)+ }
            }

            /// The row's cells, in the order of [`COLUMNS`].
            pub fn cells(&self) -> Vec<Cell<'_>> {
                vec![$($( self.$name.to_cell(), )+)+]
            }

            /// The row's values at a glance, in the order of [`COLUMNS`].
            pub(crate) fn glances(&self) -> [Glance; COLUMNS.len()] {
                [$($( self.$name.glance(), )+)+]
            }

            /// The row of these cells, which are in the order of [`COLUMNS`]; cells left over
            /// are ignored, cells not there are missing.
            ///
            /// # Errors
            /// Fails at the first column whose cell has the wrong type, or is missing though required.
            pub fn from_cells<'a>(
                cells: impl IntoIterator<Item = Cell<'a>>,
            ) -> Result<Self, CellError> {
                let mut cells = cells.into_iter();
                // Field by field into an existing row. A constructor that can end early has to drop, after each of its
                // 170 fields, all those before, and took LLVM minutes.
                let mut row = Self::initial();
                $($(
                    row.$name = Field::from_cell(cells.next().unwrap_or(Cell::Missing))
                        .map_err(|detail| CellError { column: stringify!($name), detail })?;
                )+)+
                Ok(row)
            }

            /// Overwrites the row with these cells and reuses its memory. Where [`Self::from_cells`] has an error it
            /// returns nothing, and the row is not usable.
            pub(crate) fn read(&mut self, cells: &mut impl TextCells) -> Option<()> {
                let mut columns = 0..COLUMNS.len();
                $($( self.$name.read(cells.text(columns.next()?)?).ok()?; )+)+
                Some(())
            }
        }
    };
}

columns! {
    Identity {
        /// Version of the schema the row was written with.
        schema_version: u64,
        /// Unique name of the row: the run and the number of the point in it.
        row_id: String,
        /// The run that made the row.
        run_id: String,
        /// Hash of workload, schedule, target, threads, cache state and seed: equal for the same
        /// point in different runs.
        point_id: String,
        /// When the point ended.
        measured_at_utc: Option<Timestamp>,
    }
    Model {
        /// Where the model came from: `local`, `onnx`, `simple`, …
        model_source: Option<String>,
        /// The model's name, or its file's name without folders.
        model_name: Option<String>,
        /// Key of the import that holds the operator's module; a replay needs it and the plan in `run.json`.
        import_key: Option<String>,
        /// Reference of the import's outputs: `checked against ONNX Runtime 1.31.1`, or `not checked: ` and the reason.
        import_check: Option<String>,
        /// Batch size of the import.
        batch: Option<u64>,
        /// Sequence length of the import, for models that have one.
        seqlen: Option<u64>,
    }
    Operator {
        /// Readable name of the fused operator.
        op_name: String,
        /// Symbol of its function in the imported module.
        op_symbol: Option<String>,
        /// Kind of the computation: `conv2d`, `dense`, `softmax`, `elementwise`, …
        op_kind: String,
        /// Fusion pattern: `elemwise`, `broadcast`, `injective`, `comm_reduce`,
        /// `out_ewise_fusable`, `tuple` or `opaque`.
        op_pattern: Option<String>,
        /// How often the model calls it.
        op_count: Option<u64> ["calls"],
        /// Hash of the computation: the function before scheduling, names aside.
        workload_hash: Option<String>,
        /// Shapes of the inputs that change from call to call.
        input_shapes: Option<Shapes>,
        /// Shapes of the weights.
        weight_shapes: Option<Shapes>,
        /// Shapes of the outputs.
        output_shapes: Option<Shapes>,
        /// Types of inputs, weights, outputs, in this order, joined with `;`.
        dtypes: Option<String>,
        /// Kernel or window extents.
        kernel: Option<Dims> ["elements"],
        /// Strides.
        stride: Option<Dims> ["elements"],
        /// Paddings: all leading ones, then all trailing ones (top, left, bottom, right).
        padding: Option<Dims> ["elements"],
        /// Dilations.
        dilation: Option<Dims> ["elements"],
        /// Groups of a grouped convolution.
        groups: Option<u64>,
        /// Input channels (or features).
        in_channels: Option<u64>,
        /// Output channels (or features).
        out_channels: Option<u64>,
        /// Layout of the weight as the kernel reads it, e.g. `OIHW16o`.
        weight_layout: Option<String>,
        /// Loops of the main computation, outermost first: name, extent, `s` or `r`.
        loop_nest: Option<LoopNest>,
        /// Arithmetic of the main computation, without results that a later slice drops: 2 for each multiply-add, 1 for
        /// each operation of a pooling, a reduction or an element-wise step.
        flops: Option<u64> ["flop"],
        /// Arithmetic of the element-wise steps fused to it.
        flops_epilogue: Option<u64> ["flop"],
        /// Compulsory reads: each argument once, as far as outputs need it.
        bytes_read: Option<u64> ["bytes"],
        /// Compulsory writes: each output once.
        bytes_written: Option<u64> ["bytes"],
        /// (`flops` + `flops_epilogue`) / (`bytes_read` + `bytes_written`).
        arithmetic_intensity: Option<f64> ["flop/byte"],
        /// The model's reads and writes between two uses of one of the operator's weights, including the operator's
        /// own. In the cache state `model` at least the same traffic passes between two uses.
        weight_reuse_bytes: Option<u64> ["bytes"],
        /// The same between two uses of the memory that the outputs are written to, by TVM's memory
        /// plan.
        output_reuse_bytes: Option<u64> ["bytes"],
    }
    Target {
        /// The kind of device.
        device_kind: DeviceKind,
        /// The compiler's target.
        target: Option<JsonText>,
        /// The processor that code was generated for.
        target_cpu: Option<String>,
        /// Threads that ran the kernel.
        threads: Option<u64> ["threads"],
        /// The engine of a TPU that ran it.
        engine: Option<String>,
    }
    Schedule {
        /// The space the schedule is from: `default`, `template`, `metaschedule`, …
        schedule_space: Option<String>,
        /// The choices that make the schedule, by name.
        schedule_knobs: Option<JsonText>,
        /// The schedule's steps, as the compiler replays them.
        schedule_trace: Option<JsonText>,
        /// Hash of the scheduled function.
        program_hash: Option<String>,
        /// Seed of the inputs and of every random choice.
        seed: Option<u64>,
        /// Innermost (register) tile of every spatial loop, in the order of `loop_nest`, joined with `x`.
        knob_tile_spatial: Option<String>,
        /// How many of those tiles make a cache tile, for every spatial loop in the same order.
        knob_tile_cache: Option<String>,
        /// Innermost tile of every reduction loop, in the order of `loop_nest`, joined with `x`.
        knob_tile_reduction: Option<String>,
        /// Loop that is vectorised.
        knob_vector_axis: Option<String>,
        /// Lanes of the vectorised loop.
        knob_vector_length: Option<u64> ["elements"],
        /// Steps that are unrolled.
        knob_unroll: Option<u64> ["steps"],
        /// Extent of the parallel loop.
        knob_parallel_extent: Option<u64> ["iterations"],
        /// Spatial loops in their final order, outermost first, joined with `,`.
        knob_loop_order: Option<String>,
        /// How spatial and reduction levels alternate: `tiles_outside`, `reduction_between`, or the structure's letters.
        knob_level_order: Option<String>,
        /// Outer loops fused into one.
        knob_fuse_outer: Option<u64> ["loops"],
        /// Scope of the write cache, `none` if the schedule has none.
        knob_cache_write: Option<String>,
        /// Where the epilogue is computed: `tile`, `outer`, `root`, or the sampled locations.
        knob_compute_at: Option<String>,
        /// Where a padding is filled: `root`, `near`, `inline`.
        knob_padding: Option<String>,
        /// Blocks that were inlined, joined with `,`.
        knob_inline: Option<String>,
    }
    Measurement {
        /// How the point ended.
        status: Status,
        /// The reason, in one line; present unless `status` is `measured`, `simulated` or `compiled`.
        reason: Option<String>,
        /// State of the caches when a sample began.
        cache_state: Option<CacheState>,
        /// Runs before the first sample.
        warmup: Option<u64> ["runs"],
        /// Runs in one sample; a sample's time is their mean.
        number: Option<u64> ["runs"],
        /// Samples requested.
        repeat: Option<u64> ["samples"],
        /// Samples taken.
        samples: Option<u64> ["samples"],
        /// Median time of one run; present if and only if `status` is `measured` or `simulated`.
        time_median_ns: Option<f64> ["ns"],
        /// Lower end of the confidence interval of the median.
        time_ci_low_ns: Option<f64> ["ns"],
        /// Upper end of the confidence interval of the median.
        time_ci_high_ns: Option<f64> ["ns"],
        /// Level of that interval, 0 to 1.
        ci_level: Option<f64> ["ratio"],
        /// Mean time of one run.
        time_mean_ns: Option<f64> ["ns"],
        /// Standard deviation of the samples.
        time_std_ns: Option<f64> ["ns"],
        /// Shortest sample.
        time_min_ns: Option<f64> ["ns"],
        /// 95th percentile of the samples.
        time_p95_ns: Option<f64> ["ns"],
        /// (`flops` + `flops_epilogue`) / `time_median_ns`.
        gflops_per_s: Option<f64> ["Gflop/s"],
        /// (`bytes_read` + `bytes_written`) / `time_median_ns`.
        gbytes_per_s: Option<f64> ["GB/s"],
        /// Time of the reference kernel around this point, over its time on the idle machine.
        drift_ratio: Option<f64> ["ratio"],
        /// Grade of the measurement.
        quality: Option<Quality>,
        /// Median time of the operator's calls inside the whole model.
        in_model_time_ns: Option<f64> ["ns"],
        /// Largest absolute difference of the output from the reference.
        max_abs_error: Option<f64>,
        /// Largest relative difference of the output from the reference.
        max_rel_error: Option<f64> ["ratio"],
        /// Absolute tolerance of the check.
        tolerance_abs: Option<f64>,
        /// Relative tolerance of the check.
        tolerance_rel: Option<f64> ["ratio"],
    }
    Build {
        /// Time to apply the schedule.
        schedule_ns: Option<u64> ["ns"],
        /// Time of the lowering passes.
        lower_ns: Option<u64> ["ns"],
        /// Time of code generation.
        codegen_ns: Option<u64> ["ns"],
        /// Time to load the code and find its entry.
        jit_ns: Option<u64> ["ns"],
    }
    Counters {
        /// Every count of one run, as `{"source:name": value}`; units are in `counter_units`, those with a fixed meaning
        /// have columns of their own as well.
        counters: Option<JsonText>,
        /// Sources that counted, joined with `;`: `perf`, `papi`, `callgrind`, `mca`, `powercap`, `nvml`, …
        counter_sources: Option<String>,
        /// Energy of one run: of the processor's packages, or of a GPU's board.
        energy_uj: Option<f64> ["uJ"],
        /// Time of a run with counting, over its time without, in alternating calls; the times above are without.
        counter_overhead_ratio: Option<f64> ["ratio"],
    }
    Provenance {
        /// Fingerprint of the machine, described in the run's `run.json`.
        env_hash: Option<String>,
        /// Version of TVM.
        tvm_version: Option<String>,
        /// Revision of the tool's sources.
        git_revision: Option<String>,
        /// Name and version of the tool that made the row.
        tool_version: Option<String>,
        /// Share of the CPU time of all cores that other processes took while the point was
        /// measured. Missing where the system does not report it, or the point was too short.
        other_cpu_share: Option<f64> ["ratio"],
    }
    Resources {
        /// Kernels that one call of the operator starts on the device. The columns below are those of the kernel with
        /// the longest code; `device_kernels` has every one.
        device_launches: Option<u64> ["kernels"],
        /// Threads of a block.
        threads_per_block: Option<u64> ["threads"],
        /// Blocks of the grid.
        blocks: Option<u64> ["blocks"],
        /// Registers of a thread.
        registers_per_thread: Option<u64> ["registers"],
        /// Shared memory of a block.
        shared_bytes_per_block: Option<u64> ["bytes"],
        /// Local memory of a thread (its stack frame): values outside registers.
        local_bytes_per_thread: Option<u64> ["bytes"],
        /// Bytes that a thread stores to and loads from local memory because registers ran out.
        spill_bytes_per_thread: Option<u64> ["bytes"],
        /// Maximum number of resident threads of a multiprocessor, over its capacity: computed from the columns above,
        /// not measured.
        occupancy: Option<f64> ["ratio"],
        /// Limits of the occupancy: `warps`, `blocks`, `registers` or `shared_memory`, joined with `;`.
        occupancy_limiter: Option<String>,
        /// Machine instructions of the kernel by opcode, as `{"FFMA": 256}`: those in its code, not those that are run.
        instruction_mix: Option<JsonText>,
        /// Every kernel in the order of the source, each with its name and the columns above.
        device_kernels: Option<JsonText>,
        /// Clock of a GPU's multiprocessors right after the samples, as the GPU reports it.
        device_clock_mhz: Option<u64> ["MHz"],
        /// Temperature of its chip then.
        device_temperature_c: Option<u64> ["°C"],
        /// Reasons for a lower clock then, joined with `;`, or `none`.
        device_held_back_by: Option<String>,
        /// Samples whose calls could not all be queued before the device began: their times include waits for the host.
        device_late_samples: Option<u64> ["samples"],
    }
    Counts {
        /// Units of `counters`, as `{"source:name": unit}`.
        counter_units: Option<JsonText>,
        /// Requested counters without a count, as `{"source:name": reason}`.
        counters_missing: Option<JsonText>,
        /// Smallest share of the time that a counter had a register: below 1, there were more counters than registers,
        /// and counts were scaled up.
        counter_running_share: Option<f64> ["ratio"],
        /// Cycles in user mode on all threads, as the processor counted them (`perf` or `papi`).
        cycles: Option<f64> ["cycles"],
        /// Instructions in user mode on all threads, as the processor counted them.
        instructions: Option<f64> ["instructions"],
        /// Cycles without instructions from the front end, as the processor counted them.
        stalled_cycles_frontend: Option<f64> ["cycles"],
        /// Cycles in which the back end waited, as the processor counted them.
        stalled_cycles_backend: Option<f64> ["cycles"],
        /// Misses of the last cache, as the processor counted them.
        cache_misses: Option<f64> ["events"],
        /// Misses of the first data cache, as the processor counted them.
        l1d_misses: Option<f64> ["events"],
        /// Mispredicted branches, as the processor counted them.
        branch_misses: Option<f64> ["events"],
        /// Time of all threads on their processors, including waits for each other in the pool.
        task_clock_ns: Option<f64> ["ns"],
        /// Page faults on all threads.
        page_faults: Option<f64> ["events"],
        /// Context switches of all threads.
        context_switches: Option<f64> ["events"],
        /// Moves of threads to another core.
        cpu_migrations: Option<f64> ["events"],
        /// The processor that the kernel was compiled for where it was simulated: the columns below are of that code, on
        /// one thread.
        simulated_cpu: Option<String>,
        /// Instructions of one run, from the first to the last of the kernel, as a simulator counted them.
        simulated_instructions: Option<f64> ["instructions"],
        /// Misses of the first data cache in a simulator, which starts empty.
        simulated_l1d_misses: Option<f64> ["events"],
        /// Misses of the last cache in a simulator, which starts empty.
        simulated_llc_misses: Option<f64> ["events"],
        /// Branches mispredicted by a simulated predictor.
        simulated_branch_misses: Option<f64> ["events"],
        /// Cycles of one pass through the kernel's hottest block, a static estimate of LLVM's machine code analyser: all
        /// data in the first cache.
        estimated_block_cycles: Option<f64> ["cycles"],
        /// Arithmetic of one pass through the innermost loop of the emitted code, around its hottest block; 0 for a copy.
        loop_flops: Option<f64> ["flop"],
        /// Instructions of such a pass that work on several lanes.
        loop_vector_instructions: Option<f64> ["instructions"],
        /// All others of such a pass.
        loop_scalar_instructions: Option<f64> ["instructions"],
        /// Instructions of such a pass that read memory other than the stack.
        loop_loads: Option<f64> ["instructions"],
        /// Instructions of such a pass that write memory other than the stack.
        loop_stores: Option<f64> ["instructions"],
        /// Instructions of such a pass that read or write the stack: registers that were spilled.
        loop_spills: Option<f64> ["instructions"],
    }
    Roofline {
        /// Share of the peak of arithmetic that was calibrated; missing for types other than `float32`.
        compute_roof_share: Option<f64> ["ratio"],
        /// Compulsory traffic in the time, over the calibrated read bandwidth of the first data cache. Like the shares
        /// below it is a lower bound, because repeated reads count once.
        l1_roof_share: Option<f64> ["ratio"],
        /// The same over that of the second-level cache.
        l2_roof_share: Option<f64> ["ratio"],
        /// The same over that of the third-level cache.
        l3_roof_share: Option<f64> ["ratio"],
        /// The same over that of main memory; above 1 where caches hold the data.
        memory_roof_share: Option<f64> ["ratio"],
        /// The nearest roof, of arithmetic or of the nearest level that holds the operator's data: `compute`, `L1`, `L2`,
        /// `L3` or `memory`; `none` below a quarter of it.
        bound_by: Option<String>,
    }
    Simulation {
        /// The simulator of the times: nothing was measured.
        simulator: Option<String>,
        /// The simulator's profile of the hardware.
        simulator_profile: Option<String>,
        /// The measurements that the profile's parameters were fitted to, with their date.
        simulator_calibration: Option<String>,
        /// Mean error of the simulator on measurements of boards whose tasks were left out of the fit.
        simulator_error_percent: Option<f64> ["%"],
        /// Cycles of the simulated device's clock.
        simulated_device_cycles: Option<f64> ["cycles"],
        /// The part of the time on the simulated device's host.
        simulated_host_ns: Option<f64> ["ns"],
        /// Bytes that the simulated device reads from memory.
        simulated_bytes_read: Option<u64> ["bytes"],
        /// Bytes that the simulated device writes to memory.
        simulated_bytes_written: Option<u64> ["bytes"],
        /// Limit of the simulated run: `load`, `gemm`, `compute`, `store`, `host` or `waiting`.
        simulated_limit: Option<String>,
        /// Blocks of the operator that the device does not run, joined with `;`: the time does not include them.
        cpu_side: Option<String>,
        /// Exponents of the scales of data and weights, and the shift of sums, where the device computes in int8.
        quantisation: Option<JsonText>,
    }
    Remote {
        /// Host and port of the server of TVM's RPC that the point was measured on; missing for the machine of the run itself.
        server: Option<String>,
        /// `emulated` where the processor is an emulator's: the times are the emulator's, not the processor's.
        emulated: Option<String>,
    }
    Algorithm {
        /// How a convolution of a template was computed: `direct`, `winograd2`, `winograd4`, `im2col`, `pixels`; missing for others.
        /// With Winograd and im2col, `schedule_trace` starts from that algorithm's program, and a replay from `schedule_knobs`.
        knob_algorithm: Option<String>,
    }
}
