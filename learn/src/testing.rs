//! Rows with schedules and points with few features, for tests of this crate and of those above it.

use opdata::{DeviceKind, Essentials, Loop, LoopKind, Row, Status};

use crate::features::base::Bases;
use crate::features::{FEATURES, Point};

fn base(name: &str, kind: &str, device_kind: DeviceKind, knobs: &str) -> Row {
    Row {
        schedule_space: Some("autotvm".to_owned()),
        schedule_knobs: Some(knobs.parse().unwrap()),
        dtypes: Some("float32;float32".to_owned()),
        time_median_ns: Some(1e6),
        workload_hash: Some("w".to_owned()),
        ..Row::new(Essentials {
            run_id: "run",
            ordinal: 1,
            point_id: "p",
            op_name: name,
            op_kind: kind,
            device_kind,
            status: Status::Measured,
        })
    }
}

fn device(knobs: &str) -> (DeviceKind, &'static str) {
    let gpu = knobs.contains("tile_f") || knobs.contains("[-1,1,4,4]");
    if gpu {
        (DeviceKind::CUDA, "gpu")
    } else {
        (DeviceKind::CPU, "x86")
    }
}

/// A dense layer of `rows` × `depth` by `columns` × `depth`.
pub fn dense_row(rows: u64, columns: u64, depth: u64, knobs: &str) -> Row {
    let (kind, target) = device(knobs);
    let name = format!("dense_nopack.{target}");
    Row {
        input_shapes: Some(format!("{rows}x{depth}").parse().unwrap()),
        weight_shapes: Some(format!("{columns}x{depth}").parse().unwrap()),
        output_shapes: Some(format!("{rows}x{columns}").parse().unwrap()),
        in_channels: Some(depth),
        out_channels: Some(columns),
        loop_nest: Some(
            [
                Loop::new("i", rows, LoopKind::Spatial),
                Loop::new("j", columns, LoopKind::Spatial),
                Loop::new("k", depth, LoopKind::Reduction),
            ]
            .into_iter()
            .collect(),
        ),
        flops: Some(2 * rows * columns * depth),
        bytes_read: Some(4 * (rows + columns) * depth),
        bytes_written: Some(4 * rows * columns),
        ..base(&name, "dense", kind, knobs)
    }
}

/// A convolution of `[n, c, h, w]` with `[channels, window, stride]`, padded to keep the extent.
pub fn conv_row(input: [u64; 4], [channels, window, stride]: [u64; 3], knobs: &str) -> Row {
    let [n, c, h, w] = input;
    let (out_h, out_w) = (h.div_ceil(stride), w.div_ceil(stride));
    let (kind, target) = device(knobs);
    let name = format!("conv2d.{target}");
    Row {
        input_shapes: Some(format!("{n}x{c}x{h}x{w}").parse().unwrap()),
        weight_shapes: Some(format!("{channels}x{c}x{window}x{window}").parse().unwrap()),
        output_shapes: Some(format!("{n}x{channels}x{out_h}x{out_w}").parse().unwrap()),
        kernel: Some([window, window].into()),
        stride: Some([stride, stride].into()),
        in_channels: Some(c),
        out_channels: Some(channels),
        loop_nest: Some(
            [
                Loop::new("nn", n, LoopKind::Spatial),
                Loop::new("ff", channels, LoopKind::Spatial),
                Loop::new("yy", out_h, LoopKind::Spatial),
                Loop::new("xx", out_w, LoopKind::Spatial),
                Loop::new("rc", c, LoopKind::Reduction),
                Loop::new("ry", window, LoopKind::Reduction),
                Loop::new("rx", window, LoopKind::Reduction),
            ]
            .into_iter()
            .collect(),
        ),
        flops: Some(2 * n * channels * out_h * out_w * c * window * window),
        bytes_read: Some(4 * (n * c * h * w + channels * c * window * window)),
        bytes_written: Some(4 * n * channels * out_h * out_w),
        ..base(&name, "conv2d", kind, knobs)
    }
}

/// Points with these values.
pub fn points(values: &[(f32, f32)]) -> Vec<Point> {
    values
        .iter()
        .map(|&(first, second)| {
            let mut features = vec![f32::NAN; FEATURES.len()];
            (features[0], features[1]) = (first, second);
            Point {
                known: Vec::new(),
                machine: 0,
                features,
                bases: Bases::default(),
                flops: 1.0,
                bytes: 1.0,
                workload: 0,
            }
        })
        .collect()
}
