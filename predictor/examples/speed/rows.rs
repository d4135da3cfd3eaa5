//! Made-up rows: tiled convolutions and dense layers whose times follow the work, the tile and the threads.

use opdata::{CacheState, DeviceKind, Essentials, Loop, LoopKind, Quality, Row, Status};

/// Length of a schedule's trace, about that of a tiled convolution.
const TRACE_STEPS: usize = 24;

/// The next number of a linear congruential generator, 0 to 1.
fn uniform(state: &mut u64) -> f64 {
    *state = state
        .wrapping_mul(6_364_136_223_846_793_005)
        .wrapping_add(1_442_695_040_888_963_407);
    (*state >> 11) as f64 / (1u64 << 53) as f64
}

/// The requested number of rows, always the same ones.
pub fn made_up(count: usize) -> anyhow::Result<Vec<Row>> {
    let mut state = 42;
    (0..count).map(|place| one(place, &mut state)).collect()
}

/// One row. It is long because a row has a hundred columns, and all of them are to be there.
fn one(place: usize, state: &mut u64) -> anyhow::Result<Row> {
    let mut pick = |among: &[u64]| among[(uniform(state) * among.len() as f64) as usize];
    let (channels, image) = (pick(&[16, 32, 64, 128, 256]), pick(&[7, 14, 28, 56]));
    let (filters, window, stride) = (
        pick(&[16, 32, 64, 128, 256]),
        pick(&[1, 3, 5]),
        pick(&[1, 2]),
    );
    let (tile, lanes, threads) = (pick(&[1, 2, 4, 7, 8]), pick(&[4, 8, 16]), pick(&[1, 2]));
    let out = image.div_ceil(stride);
    let knobs = format!(
        "{{\"cache_tile\":[],\"cache_write\":\"local\",\"epilogue\":\"tile\",\"fused_outer\":2,\"level_order\":\"tiles_outside\",\
         \"loop_order\":[\"nn\",\"yy\",\"ff\",\"xx\"],\"padding\":\"root\",\"parallel_extent\":null,\"reduction_tile\":[],\
         \"template\":\"contraction\",\"tile\":[[\"xx\",{tile}]],\"unroll\":0,\"vector_axis\":\"ff\",\"vector_blocks\":2,\
         \"vector_length\":{lanes}}}"
    );
    let step = "[\"Split\",[\"l13\",\"None\",16],[true,false],[\"l14\",\"l15\"]]";
    let trace = format!("[[{}],[]]", vec![step; TRACE_STEPS].join(","));
    let flops = 2 * filters * out * out * channels * window * window;
    let noise = 1.0 + 0.05 * uniform(state);
    let slow = 1.0 + 4.0 / (tile * lanes) as f64 + if tile * lanes > 64 { 0.4 } else { 0.0 };
    let time_ns = (flops as f64 / 20.0 / threads as f64 * slow + 3000.0) * noise;
    let mut row = Row {
        measured_at_utc: Some(
            "2026-01-31T12:00:00.000Z"
                .parse()
                .map_err(anyhow::Error::msg)?,
        ),
        model_source: Some("local".to_owned()),
        model_name: Some("made-up".to_owned()),
        import_key: Some("1a2b3c4d5e6f7a8b9c0d".to_owned()),
        batch: Some(1),
        op_symbol: Some(format!("fused_conv2d_add_relu{}", place % 40)),
        op_pattern: Some("out_ewise_fusable".to_owned()),
        op_count: Some(1 + place as u64 % 3),
        workload_hash: Some(format!("{channels}-{image}-{filters}-{window}-{stride}")),
        input_shapes: Some(parsed(&format!("1x{channels}x{image}x{image}"))?),
        weight_shapes: Some(parsed(&format!(
            "{filters}x{channels}x{window}x{window};{filters}"
        ))?),
        output_shapes: Some(parsed(&format!("1x{filters}x{out}x{out}"))?),
        dtypes: Some("float32;float32;float32;float32".to_owned()),
        kernel: Some([window, window].into()),
        stride: Some([stride, stride].into()),
        padding: Some([window / 2; 4].into()),
        dilation: Some([1, 1].into()),
        groups: Some(1),
        in_channels: Some(channels),
        out_channels: Some(filters),
        loop_nest: Some(
            [
                ("nn", 1, LoopKind::Spatial),
                ("ff", filters, LoopKind::Spatial),
                ("yy", out, LoopKind::Spatial),
                ("xx", out, LoopKind::Spatial),
                ("rc", channels, LoopKind::Reduction),
                ("ry", window, LoopKind::Reduction),
                ("rx", window, LoopKind::Reduction),
            ]
            .into_iter()
            .map(|(name, extent, kind)| Loop::new(name, extent, kind))
            .collect(),
        ),
        flops: Some(flops),
        flops_epilogue: Some(2 * filters * out * out),
        bytes_read: Some(4 * (channels * image * image + filters * channels * window * window)),
        bytes_written: Some(4 * filters * out * out),
        target: Some(parsed(
            "{\"kind\":\"llvm\",\"mcpu\":\"emeraldrapids\",\"num-cores\":2}",
        )?),
        target_cpu: Some("emeraldrapids".to_owned()),
        threads: Some(threads),
        schedule_space: Some("template".to_owned()),
        schedule_knobs: Some(parsed(&knobs)?),
        schedule_trace: Some(parsed(&trace)?),
        program_hash: Some(format!("{:016x}", place * 7919)),
        seed: Some(42),
        knob_tile_spatial: Some(format!("1x{lanes}x1x{tile}")),
        knob_vector_axis: Some("ff".to_owned()),
        knob_vector_length: Some(lanes),
        knob_loop_order: Some("nn,yy,ff,xx".to_owned()),
        knob_level_order: Some("tiles_outside".to_owned()),
        cache_state: Some(CacheState::Model),
        warmup: Some(1),
        number: Some(1),
        repeat: Some(30),
        samples: Some(30),
        time_median_ns: Some(time_ns),
        time_ci_low_ns: Some(time_ns * 0.99),
        time_ci_high_ns: Some(time_ns * 1.01),
        ci_level: Some(0.957_226_034_621_138_2),
        time_mean_ns: Some(time_ns * 1.003),
        time_std_ns: Some(time_ns * 0.013),
        time_min_ns: Some(time_ns * 0.98),
        time_p95_ns: Some(time_ns * 1.05),
        drift_ratio: Some(1.003_214),
        quality: Some(Quality::A),
        in_model_time_ns: Some(time_ns * 1.1),
        max_abs_error: Some(0.0),
        max_rel_error: Some(0.0),
        tolerance_abs: Some(0.000_123_456_789),
        tolerance_rel: Some(0.000_123_456_789),
        schedule_ns: Some(1_234_567),
        lower_ns: Some(8_234_567),
        codegen_ns: Some(31_234_567),
        jit_ns: Some(2_234_567),
        counter_sources: Some("perf".to_owned()),
        counters: Some(parsed(
            "{\"perf:task-clock\":1234567.0,\"perf:page-faults\":3.0}",
        )?),
        env_hash: Some("0123456789abcdef".to_owned()),
        tvm_version: Some("0.27.0.post1".to_owned()),
        git_revision: Some("0123456789abcdef0123456789abcdef01234567".to_owned()),
        tool_version: Some("opcollect 0.1.0".to_owned()),
        ..Row::new(Essentials {
            run_id: "20260131T120000Z-made-up-llvm",
            ordinal: place as u64,
            point_id: &format!("{place:016x}"),
            op_name: "conv2d_add_relu",
            op_kind: "conv2d",
            device_kind: DeviceKind::CPU,
            status: Status::Measured,
        })
    };
    row.fill_derived();
    Ok(row)
}

fn parsed<T: std::str::FromStr<Err = String>>(text: &str) -> anyhow::Result<T> {
    text.parse().map_err(anyhow::Error::msg)
}
