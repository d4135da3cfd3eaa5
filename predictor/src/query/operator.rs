//! An operator described by hand, as a row that was never measured.
//!
//! Shapes are in elements, channels first. The row is what `opcollect` would write for it with the default schedule, as
//! far as features go.

use opdata::workload::{Conv2d, Workload, window_positions};
use opdata::{CacheState, DeviceKind, Dims, Row, Shapes};
use opmodels::tile::packed_run;
use opreport::nearest::{did_you_mean, nearest};

use super::blank::blank;
use crate::error::{Error, Result};

/// The operator that a query asks about.
#[derive(Debug, Clone, PartialEq)]
pub struct OperatorQuery {
    /// Kind of the operator.
    pub op: String,
    /// Shape of the input.
    pub input: Vec<u64>,
    /// Shape of the output, for kinds whose output does not follow from the input; the input's shape if missing.
    pub output: Option<Vec<u64>>,
    /// Extents of the window.
    pub kernel: Vec<u64>,
    /// Output channels, or columns of a product.
    pub channels: Option<u64>,
    /// Strides; 1 if empty.
    pub stride: Vec<u64>,
    /// Padding on each side. If missing: the padding that keeps the image's extent.
    pub padding: Option<Vec<u64>>,
    /// Groups.
    pub groups: u64,
    /// Threads; missing for devices that have none.
    pub threads: Option<u64>,
    /// State of the caches.
    pub cache: Option<CacheState>,
    /// The kind of device.
    pub device_kind: DeviceKind,
}

/// The kinds that can be described so.
#[rustfmt::skip]
pub const OPS: [&str; 23] = [
    "conv2d", "depthwise_conv2d", "group_conv2d", "conv3d", "dense", "matmul", "batch_matmul",
    "max_pool", "avg_pool", "global_avg_pool", "softmax", "layer_norm", "batch_norm", "elementwise",
    "broadcast", "cast", "transpose", "reshape", "concat", "pad", "slice", "gather", "resize",
];
/// Operations for each element of the kinds that compute outputs one by one, as imports of models count them.
const FLOPS_AN_ELEMENT: [(&str, u64); 4] = [
    ("softmax", 5),
    ("layer_norm", 12),
    ("batch_norm", 4),
    ("elementwise", 1),
];
/// Larger tensors are a mistake.
const MOST_ELEMENTS: u64 = 1 << 40;
const BYTES: u64 = 4;

fn wrong(message: impl Into<String>) -> Error {
    Error::Query(message.into())
}

fn bad<T>(message: impl Into<String>) -> Result<T> {
    Err(wrong(message))
}

fn product(extents: &[u64]) -> Result<u64> {
    extents
        .iter()
        .try_fold(1u64, |p, &n| p.checked_mul(n))
        .filter(|p| *p <= MOST_ELEMENTS)
        .ok_or_else(|| wrong("a tensor of that size does not fit any machine"))
}

/// Data that an operator reads and its arithmetic.
struct OperatorFacts {
    workload: Workload,
    weight: Option<Vec<u64>>,
    flops: u64,
    channels: Option<(u64, u64)>,
    windowed: bool,
}

impl OperatorFacts {
    /// An operator with a multiply-add at each point of its loops.
    fn of_products(
        workload: Workload,
        weight: Vec<u64>,
        channels: Option<(u64, u64)>,
        windowed: bool,
    ) -> Result<OperatorFacts> {
        Ok(OperatorFacts {
            flops: counted(workload.multiply_add_flops())?,
            workload,
            weight: Some(weight),
            channels,
            windowed,
        })
    }
}

/// Counts of arithmetic beyond 64 bits.
fn counted(flops: Option<u64>) -> Result<u64> {
    flops.ok_or_else(|| wrong("more arithmetic than 64 bits can count"))
}

impl OperatorQuery {
    /// The row.
    ///
    /// # Errors
    /// Fails if the kind is not one of [`OPS`], a shape does not fit it, or a size is 0 or absurd.
    pub fn row(&self) -> Result<Row> {
        if self.input.is_empty() || self.input.contains(&0) {
            return bad("--input needs extents above 0, e.g. 1x64x56x56");
        }
        let axes = if self.op == "conv3d" { 3 } else { 2 };
        if self.stride.contains(&0) || self.stride.len() > axes {
            return bad(format!(
                "--stride needs 1 or {axes} steps above 0, e.g. {}",
                ["2"].repeat(axes).join("x")
            ));
        }
        let parts = match self.op.as_str() {
            "conv2d" | "depthwise_conv2d" | "group_conv2d" => self.conv()?,
            "conv3d" => self.conv3d()?,
            "dense" | "matmul" => self.dense()?,
            "batch_matmul" => self.batch_matmul()?,
            "max_pool" | "avg_pool" | "global_avg_pool" => self.pool()?,
            plain if OPS.contains(&plain) => self.plain()?,
            other => {
                let close = nearest(other, OPS.iter().copied());
                return bad(format!(
                    "--op {other}: no such operator here{}; there are {}",
                    did_you_mean(&close),
                    OPS.join(", ")
                ));
            }
        };
        let weight_elements = parts.weight.as_deref().map_or(Ok(0), product)?;
        let read = product(&self.input)? + weight_elements;
        let dims = |values: &[u64]| -> Dims { Dims::from(values) };
        let mut row = Row {
            input_shapes: Some([dims(&self.input)].into_iter().collect()),
            weight_shapes: parts
                .weight
                .as_deref()
                .map(|w| [dims(w)].into_iter().collect::<Shapes>()),
            output_shapes: Some([dims(&parts.workload.output)].into_iter().collect()),
            dtypes: Some("float32;float32;float32".to_owned()),
            in_channels: parts.channels.map(|c| c.0),
            out_channels: parts.channels.map(|c| c.1),
            loop_nest: Some(parts.workload.loop_nest().collect()),
            flops: Some(parts.flops),
            flops_epilogue: Some(0),
            bytes_read: Some(BYTES * read),
            bytes_written: Some(BYTES * product(&parts.workload.output)?),
            threads: self.threads,
            cache_state: self.cache,
            ..blank(&self.op, &self.op, self.device_kind)
        };
        row.weight_layout = self.weight_layout();
        if parts.windowed {
            let window = self.window()?;
            let [high, wide] = self.paddings(window);
            row.kernel = Some(dims(&window));
            row.stride = Some(dims(&self.strides()));
            row.padding = Some(dims(&[high, wide, high, wide]));
            row.dilation = Some(dims(&[1, 1]));
            row.groups = Some(self.groups);
        }
        Ok(row)
    }

    /// How a model's import would pack the weights, where it packs them into runs of the same length.
    fn weight_layout(&self) -> Option<String> {
        let run = packed_run(self.channels?);
        match self.op.as_str() {
            "conv2d" if self.groups <= 1 => Some(format!("OIHW{run}o")),
            "dense" => Some(format!("NK{run}n")),
            _ => None,
        }
    }

    fn image(&self) -> Result<[u64; 4]> {
        <[u64; 4]>::try_from(self.input.as_slice()).map_err(|_| {
            Error::Query(format!(
                "--input for {} has four extents: batch x channels x height x width",
                self.op
            ))
        })
    }

    fn window(&self) -> Result<[u64; 2]> {
        match *self.kernel.as_slice() {
            [both] if both > 0 => Ok([both, both]),
            [h, w] if h > 0 && w > 0 => Ok([h, w]),
            _ => bad(format!("--kernel for {} is a window such as 3x3", self.op)),
        }
    }

    fn strides(&self) -> [u64; 2] {
        match *self.stride.as_slice() {
            [both] => [both, both],
            [h, w, ..] => [h, w],
            [] => [1, 1],
        }
    }

    /// Padding above and below, left and right: as given, or such that the output is as large as the input.
    fn paddings(&self, window: [u64; 2]) -> [u64; 2] {
        let of = |axis: usize| match self.padding.as_deref() {
            Some([both]) => *both,
            Some(pair) if pair.len() > axis => pair[axis],
            _ => (window[axis] - 1) / 2,
        };
        [of(0), of(1)]
    }

    /// Output extents of a window that slides over an image.
    fn slide(&self, image: [u64; 2]) -> Result<[u64; 2]> {
        let (window, strides) = (self.window()?, self.strides());
        let paddings = self.paddings(window);
        let mut extents = [0; 2];
        for axis in 0..2 {
            let sides = [paddings[axis]; 2];
            extents[axis] = window_positions(image[axis], sides, window[axis], 1, strides[axis])
                .ok_or_else(|| wrong("the window is larger than the padded image"))?;
        }
        Ok(extents)
    }

    fn conv(&self) -> Result<OperatorFacts> {
        let [n, c, h, w] = self.image()?;
        let [kh, kw] = self.window()?;
        let [oh, ow] = self.slide([h, w])?;
        let depthwise = self.op == "depthwise_conv2d";
        if self.groups == 0 {
            return bad("--groups is 1 or more: how many parts the channels are convolved in");
        }
        let groups = if depthwise { c } else { self.groups };
        let Some(out) = self.channels.or(depthwise.then_some(c)).filter(|o| *o > 0) else {
            return bad("--channels says how many output channels the convolution has");
        };
        if c % groups != 0 || out % groups != 0 {
            return bad(format!(
                "{groups} groups do not divide {c} and {out} channels"
            ));
        }
        let depth = c / groups;
        let workload = Workload::conv2d(Conv2d {
            batch: n,
            out_channels: out,
            output: [oh, ow],
            reduced_channels: (!depthwise).then_some(depth),
            kernel: [kh, kw],
        });
        OperatorFacts::of_products(workload, vec![out, depth, kh, kw], Some((c, out)), true)
    }

    fn dense(&self) -> Result<OperatorFacts> {
        let (Some(&depth), Some(columns)) = (self.input.last(), self.channels.filter(|c| *c > 0))
        else {
            return bad(format!(
                "{} needs --input rows x depth and --channels columns",
                self.op
            ));
        };
        let rows = product(&self.input[..self.input.len() - 1])?;
        let workload = Workload::dense(rows, columns, depth);
        OperatorFacts::of_products(
            workload,
            vec![columns, depth],
            Some((depth, columns)),
            false,
        )
    }

    fn batch_matmul(&self) -> Result<OperatorFacts> {
        let (&[batch, rows, depth], Some(columns)) = (self.input.as_slice(), self.channels) else {
            return bad("batch_matmul needs --input batch x rows x depth and --channels columns");
        };
        let workload = Workload::batch_matmul(batch, rows, columns, depth);
        OperatorFacts::of_products(workload, vec![batch, depth, columns], None, false)
    }

    fn pool(&self) -> Result<OperatorFacts> {
        let [n, c, h, w] = self.image()?;
        let global = self.op == "global_avg_pool";
        let [kh, kw] = if global { [h, w] } else { self.window()? };
        let [oh, ow] = if global { [1, 1] } else { self.slide([h, w])? };
        let workload = Workload::pool2d([n, c, oh, ow], [kh, kw]);
        Ok(OperatorFacts {
            flops: counted(workload.points())?,
            workload,
            weight: None,
            channels: Some((c, c)),
            windowed: !global,
        })
    }

    fn conv3d(&self) -> Result<OperatorFacts> {
        let &[n, c, d, h, w] = self.input.as_slice() else {
            return bad(
                "--input for conv3d has five extents: batch x channels x depth x height x width"
                    .to_owned(),
            );
        };
        let window = three(&self.kernel)
            .filter(|window| !window.contains(&0))
            .ok_or_else(|| wrong("--kernel for conv3d is a window such as 3x3x3"))?;
        let Some(out) = self.channels.filter(|o| *o > 0) else {
            return bad("--channels says how many output channels the convolution has");
        };
        let strides = three(&self.stride).unwrap_or([1; 3]);
        let same = window.map(|extent| (extent - 1) / 2);
        let paddings = self.padding.as_deref().and_then(three).unwrap_or(same);
        let mut output = [n, out, d, h, w];
        for axis in 0..3 {
            let sides = [paddings[axis]; 2];
            output[axis + 2] =
                window_positions(output[axis + 2], sides, window[axis], 1, strides[axis])
                    .ok_or_else(|| wrong("the window is larger than the padded volume"))?;
        }
        let workload = Workload::conv3d(output, c, window);
        Ok(OperatorFacts {
            flops: counted(workload.multiply_add_flops())?,
            workload,
            weight: Some(vec![out, c, window[0], window[1], window[2]]),
            channels: Some((c, out)),
            windowed: false,
        })
    }

    fn plain(&self) -> Result<OperatorFacts> {
        let output = self.output.as_ref().unwrap_or(&self.input);
        if output.is_empty() || output.contains(&0) {
            return bad("--output needs extents above 0, e.g. 1x64x56x56");
        }
        let elements = product(output)?;
        let of_kind = FLOPS_AN_ELEMENT.iter().find(|(kind, _)| *kind == self.op);
        Ok(OperatorFacts {
            workload: Workload::elementwise(output),
            weight: None,
            flops: of_kind.map_or(0, |(_, flops)| flops * elements),
            channels: None,
            windowed: false,
        })
    }
}

/// Three extents, or one for all three axes.
fn three(extents: &[u64]) -> Option<[u64; 3]> {
    match *extents {
        [all] => Some([all; 3]),
        [a, b, c] => Some([a, b, c]),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn query(op: &str, input: &[u64]) -> OperatorQuery {
        OperatorQuery {
            op: op.to_owned(),
            input: input.to_vec(),
            output: None,
            kernel: vec![3],
            channels: Some(64),
            stride: Vec::new(),
            padding: None,
            groups: 1,
            threads: Some(2),
            cache: None,
            device_kind: DeviceKind::CPU,
        }
    }

    #[test]
    fn queries_become_valid_rows() {
        for op in OPS {
            let input: &[u64] = match op {
                "batch_matmul" => &[2, 8, 16],
                "conv3d" => &[1, 8, 4, 14, 14],
                "dense" | "matmul" | "softmax" | "elementwise" => &[4, 32],
                _ => &[1, 64, 14, 14],
            };
            let row = query(op, input).row().unwrap();
            assert_eq!(row.validate(), Ok(()), "{op}");
        }
        let conv = query("conv2d", &[1, 64, 56, 56]).row().unwrap();
        assert_eq!(conv.flops, Some(2 * 56 * 56 * 64 * 64 * 9));
        assert_eq!(conv.output_shapes.unwrap().to_string(), "1x64x56x56");
        assert_eq!(conv.weight_layout.as_deref(), Some("OIHW16o"));
    }

    #[test]
    fn outputs_follow_from_what_is_asked() {
        let volume = query("conv3d", &[1, 8, 4, 14, 14]).row().unwrap();
        assert_eq!(volume.output_shapes.unwrap().to_string(), "1x64x4x14x14");
        assert_eq!(volume.flops, Some(2 * 64 * 4 * 14 * 14 * 8 * 27));
        let mut resize = query("resize", &[1, 8, 14, 14]);
        resize.output = Some(vec![1, 8, 28, 28]);
        assert_eq!(
            resize.row().unwrap().output_shapes.unwrap().to_string(),
            "1x8x28x28"
        );
    }

    #[test]
    fn a_padding_is_written_as_models_write_it() {
        let padding = |asked: Option<Vec<u64>>| {
            let mut query = query("max_pool", &[1, 64, 14, 14]);
            query.padding = asked;
            query.row().unwrap().padding.unwrap().to_string()
        };
        assert_eq!(padding(None), "1x1x1x1");
        assert_eq!(padding(Some(vec![0])), "0x0x0x0");
        assert_eq!(padding(Some(vec![2, 1])), "2x1x2x1");
        let rows = query("softmax", &[4, 32]).row().unwrap();
        assert_eq!(rows.padding, None);
    }

    #[test]
    fn queries_that_make_no_sense_are_refused() {
        let message = |change: fn(&mut OperatorQuery)| {
            let mut asked = query("conv2d", &[1, 64, 56, 56]);
            change(&mut asked);
            asked.row().unwrap_err().to_string()
        };
        insta::assert_snapshot!(
            [
                message(|q| q.op = "conv9d".to_owned()),
                message(|q| q.input = vec![64]),
                message(|q| q.input = vec![1, 64, 0, 56]),
                message(|q| q.kernel = vec![]),
                message(|q| q.stride = vec![0, 0]),
                message(|q| (q.kernel, q.padding) = (vec![99], Some(vec![0]))),
                message(|q| q.groups = 3),
                message(|q| q.groups = 0),
                message(|q| q.input = vec![1, 1 << 21, 1 << 21, 1]),
            ]
            .join("\n"),
            @"
        --op conv9d: no such operator here (did you mean conv2d or conv3d?); there are conv2d, depthwise_conv2d, group_conv2d, conv3d, dense, matmul, batch_matmul, max_pool, avg_pool, global_avg_pool, softmax, layer_norm, batch_norm, elementwise, broadcast, cast, transpose, reshape, concat, pad, slice, gather, resize
        --input for conv2d has four extents: batch x channels x height x width
        --input needs extents above 0, e.g. 1x64x56x56
        --kernel for conv2d is a window such as 3x3
        --stride needs 1 or 2 steps above 0, e.g. 2x2
        the window is larger than the padded image
        3 groups do not divide 64 and 64 channels
        --groups is 1 or more: how many parts the channels are convolved in
        a tensor of that size does not fit any machine
        "
        );
    }
}
