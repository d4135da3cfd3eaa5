//! Reads a tuning task's computation from its name and arguments: kind, extents, arithmetic and traffic.
//!
//! Task names and argument lists of TVM 0.6 to 0.9 (`topi_nn_conv2d`, `conv2d_NCHWc.x86`, `dense_large_batch.gpu`, …).
//! A task that is not known keeps its tensors' shapes; its arithmetic stays missing.

use serde_json::Value;

use crate::schema::Row;
use crate::values::{Dims, Shapes};
use crate::workload::{Conv2d, Workload, window_positions};

/// An argument that is a tensor.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Tensor {
    pub shape: Vec<u64>,
    pub dtype: String,
}

/// A task's computation, and the attributes that its arguments name.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Task {
    kind: &'static str,
    workload: Workload,
    kernel: Option<Vec<u64>>,
    stride: Option<Vec<u64>>,
    padding: Option<Vec<u64>>,
    dilation: Option<Vec<u64>>,
    groups: Option<u64>,
    in_channels: Option<u64>,
    out_channels: Option<u64>,
}

/// The tensors among a task's arguments: `["TENSOR", shape, dtype]`.
pub(super) fn tensors(args: &[Value]) -> Vec<Tensor> {
    args.iter()
        .filter_map(|argument| {
            let parts = argument.as_array()?;
            (parts.first()?.as_str()? == "TENSOR").then_some(())?;
            Some(Tensor {
                shape: numbers(parts.get(1)?)?,
                dtype: parts.get(2)?.as_str()?.to_owned(),
            })
        })
        .collect()
}

fn numbers(value: &Value) -> Option<Vec<u64>> {
    value.as_array()?.iter().map(Value::as_u64).collect()
}

/// The arguments that are lists of numbers or single numbers, in order: strides, padding, dilation.
fn lists(args: &[Value]) -> Vec<Vec<u64>> {
    args.iter()
        .filter(|a| a.get(0).and_then(Value::as_str) != Some("TENSOR"))
        .filter_map(|a| numbers(a).or_else(|| a.as_u64().map(|n| vec![n])))
        .collect()
}

fn layout(args: &[Value]) -> Option<&str> {
    args.iter()
        .filter_map(Value::as_str)
        .find(|text| text.contains('C') && text.contains('W'))
}

impl Task {
    /// The computation of the task `name` with these arguments. `None` if it is not known.
    pub fn of_task(name: &str, args: &[Value]) -> Option<Self> {
        let tensors = tensors(args);
        let [data, weight, ..] = tensors.as_slice() else {
            return None;
        };
        if name.contains("batch_matmul") {
            return batch_matmul(&data.shape, &weight.shape, &lists(args));
        }
        if name.contains("dense") || name.contains("matmul") {
            return dense(&data.shape, &weight.shape);
        }
        let conv2d = name.contains("conv2d") && !name.contains("transpose");
        if conv2d {
            return conv(name, data, weight, args);
        }
        None
    }

    /// Writes the workload into a row.
    pub fn describe(&self, row: &mut Row) {
        let dims = |values: &Option<Vec<u64>>| values.as_deref().map(Dims::from);
        row.op_kind = self.kind.to_owned();
        row.output_shapes = Some([self.workload.output.as_slice()].into_iter().collect());
        row.kernel = dims(&self.kernel);
        row.stride = dims(&self.stride);
        row.padding = dims(&self.padding);
        row.dilation = dims(&self.dilation);
        row.groups = self.groups;
        row.in_channels = self.in_channels;
        row.out_channels = self.out_channels;
        row.loop_nest = Some(self.workload.loop_nest().collect());
        row.flops = self.workload.multiply_add_flops();
        // Accumulators and outputs of these tasks have 4 bytes, whatever the type of the inputs.
        let outputs = Dims::from(self.workload.output.as_slice()).elements();
        row.bytes_written = outputs.and_then(|n| n.checked_mul(4));
    }
}

/// Writes the tensors that a task reads into a row.
pub(super) fn describe_tensors(row: &mut Row, tensors: &[Tensor]) {
    let shapes = |list: &[Tensor]| -> Option<Shapes> {
        (!list.is_empty()).then(|| {
            list.iter()
                .map(|t| Dims::from(t.shape.as_slice()))
                .collect()
        })
    };
    let (inputs, weights) = tensors.split_at(tensors.len().min(1));
    row.input_shapes = shapes(inputs);
    row.weight_shapes = shapes(weights);
    let dtypes: Vec<&str> = tensors.iter().map(|t| t.dtype.as_str()).collect();
    row.dtypes = (!dtypes.is_empty()).then(|| dtypes.join(";"));
    row.bytes_read = tensors.iter().try_fold(0u64, |sum, tensor| {
        let elements = Dims::from(tensor.shape.as_slice()).elements()?;
        let bits = elements.checked_mul(dtype_bits(&tensor.dtype)?)?;
        sum.checked_add(bits.div_ceil(8))
    });
}

/// Bits of one element: the digits at the end of the type's name.
fn dtype_bits(dtype: &str) -> Option<u64> {
    if dtype == "bool" {
        return Some(8);
    }
    let digits = dtype.trim_start_matches(|c: char| !c.is_ascii_digit());
    digits.parse().ok().filter(|bits| *bits > 0)
}

fn dense(data: &[u64], weight: &[u64]) -> Option<Task> {
    let (&[rows, inner], Some(&columns)) = (data, weight.first()) else {
        return None;
    };
    Some(Task {
        kind: "dense",
        workload: Workload::dense(rows, columns, inner),
        in_channels: Some(inner),
        out_channels: Some(columns),
        ..Task::empty()
    })
}

fn batch_matmul(left: &[u64], right: &[u64], lists: &[Vec<u64>]) -> Option<Task> {
    let (&[batch, rows, inner], &[_, first, second]) = (left, right) else {
        return None;
    };
    // The output's shape, where the task names it; else the second operand is transposed.
    let columns = match lists.iter().find(|list| list.len() == 3).map(Vec::as_slice) {
        Some(&[_, _, columns]) => columns,
        _ if first == inner => second,
        _ => first,
    };
    Some(Task {
        kind: "batch_matmul",
        workload: Workload::batch_matmul(batch, rows, columns, inner),
        in_channels: Some(inner),
        out_channels: Some(columns),
        ..Task::empty()
    })
}

/// Extents of a two-dimensional convolution, whatever the layout.
struct Conv {
    batch: u64,
    in_channels: u64,
    height: u64,
    width: u64,
    out_channels: u64,
    kernel: [u64; 2],
}

fn extents(data: &Tensor, weight: &Tensor, depthwise: bool, channels_last: bool) -> Option<Conv> {
    Some(match (data.shape.as_slice(), weight.shape.as_slice()) {
        (&[n, h, w, c], &[kh, kw, i, o]) if channels_last => Conv {
            batch: n,
            in_channels: c,
            height: h,
            width: w,
            // HWIO; depthwise: height, width, channels, multiplier.
            out_channels: if depthwise { i.saturating_mul(o) } else { o },
            kernel: [kh, kw],
        },
        (&[n, c, h, w], &[o, i, kh, kw]) => Conv {
            batch: n,
            in_channels: c,
            height: h,
            width: w,
            out_channels: if depthwise { o.saturating_mul(i) } else { o },
            kernel: [kh, kw],
        },
        // NCHW[x]c with OIHW[x]i[y]o.
        (&[n, co, h, w, ci], &[oo, _, kh, kw, _, oi]) => Conv {
            batch: n,
            in_channels: co.saturating_mul(ci),
            height: h,
            width: w,
            out_channels: oo.saturating_mul(oi),
            kernel: [kh, kw],
        },
        // NCHW[x]n[y]c of VTA with OIHW[x]o[y]i.
        (&[no, co, h, w, ni, ci], &[oo, _, kh, kw, oi, _]) => Conv {
            batch: no.saturating_mul(ni),
            in_channels: co.saturating_mul(ci),
            height: h,
            width: w,
            out_channels: oo.saturating_mul(oi),
            kernel: [kh, kw],
        },
        _ => return None,
    })
}

fn conv(name: &str, data: &Tensor, weight: &Tensor, args: &[Value]) -> Option<Task> {
    let depthwise = name.contains("depthwise");
    let channels_last = layout(args).is_some_and(|l| l.ends_with("HWC")) || name.contains("nhwc");
    let c = extents(data, weight, depthwise, channels_last)?;
    let lists = lists(args);
    let pair = |list: Option<&Vec<u64>>, default: u64| match list.map(Vec::as_slice) {
        Some(&[both]) => [both, both],
        Some(&[a, b, ..]) => [a, b],
        _ => [default, default],
    };
    let stride = pair(lists.first(), 1);
    let padding = match lists.get(1).map(Vec::as_slice) {
        Some(&[top, left, bottom, right]) => [top, left, bottom, right],
        other => {
            let [h, w] = pair(other.map(<[u64]>::to_vec).as_ref(), 0);
            [h, w, h, w]
        }
    };
    let dilation = pair(lists.get(2), 1);
    let extent = |size: u64, axis: usize| {
        let sides = [padding[axis], padding[axis + 2]];
        window_positions(size, sides, c.kernel[axis], dilation[axis], stride[axis])
    };
    let workload = Workload::conv2d(Conv2d {
        batch: c.batch,
        out_channels: c.out_channels,
        output: [extent(c.height, 0)?, extent(c.width, 1)?],
        reduced_channels: (!depthwise).then_some(c.in_channels),
        kernel: c.kernel,
    });
    Some(Task {
        kind: if depthwise {
            "depthwise_conv2d"
        } else {
            "conv2d"
        },
        workload,
        kernel: Some(c.kernel.to_vec()),
        stride: Some(stride.to_vec()),
        padding: Some(padding.to_vec()),
        dilation: Some(dilation.to_vec()),
        groups: Some(if depthwise { c.in_channels } else { 1 }),
        in_channels: Some(c.in_channels),
        out_channels: Some(c.out_channels),
    })
}

impl Task {
    fn empty() -> Self {
        Self {
            kind: "other",
            workload: Workload::elementwise(&[]),
            kernel: None,
            stride: None,
            padding: None,
            dilation: None,
            groups: None,
            in_channels: None,
            out_channels: None,
        }
    }

    /// The task as text for hashing: extents and attributes, not the spelling of the arguments. Rows that were imported
    /// before have this text in their identities: it must not change.
    pub fn identity(&self) -> String {
        format!(
            "Workload {{ kind: {:?}, loops: {:?}, output: {:?}, kernel: {:?}, stride: {:?}, padding: {:?}, dilation: {:?}, groups: {:?}, in_channels: {:?}, out_channels: {:?} }}",
            self.kind,
            self.workload.loops,
            self.workload.output,
            self.kernel,
            self.stride,
            self.padding,
            self.dilation,
            self.groups,
            self.in_channels,
            self.out_channels,
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn workload(name: &str, args: &str) -> Task {
        let args: Vec<Value> = serde_json::from_str(args).unwrap();
        Task::of_task(name, &args).unwrap()
    }

    #[test]
    fn spellings_of_the_same_convolution_agree() {
        let plain = workload(
            "conv2d_nchw.cuda",
            r#"[["TENSOR",[1,64,56,56],"float32"],["TENSOR",[128,64,3,3],"float32"],[2,2],[1,1,1,1],[1,1],"float32"]"#,
        );
        let short = workload(
            "topi_nn_conv2d",
            r#"[["TENSOR",[1,64,56,56],"float32"],["TENSOR",[128,64,3,3],"float32"],2,1,1,"NCHW","float32"]"#,
        );
        let packed = workload(
            "conv2d_NCHWc.x86",
            r#"[["TENSOR",[1,4,56,56,16],"float32"],["TENSOR",[8,4,3,3,16,16],"float32"],[2,2],[1,1],[1,1],"NCHW16c","NCHW16c","float32"]"#,
        );
        let last = workload(
            "conv2d_nhwc.x86",
            r#"[["TENSOR",[1,56,56,64],"float32"],["TENSOR",[3,3,64,128],"float32"],[2,2],[1,1],[1,1],"NHWC","float32"]"#,
        );
        assert_eq!(
            plain.workload.multiply_add_flops(),
            Some(2 * 28 * 28 * 128 * 64 * 9)
        );
        assert_eq!(plain, short);
        assert_eq!(plain, packed);
        assert_eq!(plain, last);
    }

    #[test]
    fn products_of_matrices_are_read_with_either_operand_transposed() {
        let transposed = workload(
            "batch_matmul.cuda",
            r#"[["TENSOR",[12,128,64],"float32"],["TENSOR",[12,100,64],"float32"],[12,128,100],null,0,1]"#,
        );
        assert_eq!(transposed.workload.output, [12, 128, 100]);
        let plain = workload(
            "batch_matmul.x86",
            r#"[["TENSOR",[12,128,64],"float32"],["TENSOR",[12,64,100],"float32"]]"#,
        );
        assert_eq!(plain.workload.output, [12, 128, 100]);
        let dense = workload(
            "dense_nopack.x86",
            r#"[["TENSOR",[1,768],"float32"],["TENSOR",[10,768],"float32"],null,"float32"]"#,
        );
        assert_eq!(
            (dense.workload.multiply_add_flops(), dense.kind),
            (Some(2 * 768 * 10), "dense")
        );
    }

    #[test]
    fn sizes_beyond_64_bits_and_impossible_windows_are_missing_not_wrong() {
        let args: Vec<Value> = serde_json::from_str(
            r#"[["TENSOR",[1,1,2,2],"float32"],["TENSOR",[1,1,9,9],"float32"],[1,1],[0,0],[1,1],"NCHW"]"#,
        )
        .unwrap();
        assert_eq!(Task::of_task("conv2d_nchw.cuda", &args), None);
        let huge = workload(
            "dense",
            r#"[["TENSOR",[4294967296,4294967296],"float32"],["TENSOR",[4294967296,1],"float32"]]"#,
        );
        assert_eq!(
            (
                huge.workload.multiply_add_flops(),
                Dims::from(huge.workload.output.as_slice()).elements()
            ),
            (None, None)
        );
        assert_eq!(dtype_bits("int4"), Some(4));
        assert_eq!(dtype_bits("handle"), None);
    }

    #[test]
    fn the_text_for_hashing_is_that_of_rows_imported_before() {
        let dense = workload(
            "dense",
            r#"[["TENSOR",[1,8],"float32"],["TENSOR",[4,8],"float32"]]"#,
        );
        insta::assert_snapshot!(dense.identity(), @r#"Workload { kind: "dense", loops: [("i", 1, Spatial), ("j", 4, Spatial), ("k", 8, Reduction)], output: [1, 4], kernel: None, stride: None, padding: None, dilation: None, groups: None, in_channels: Some(8), out_channels: Some(4) }"#);
    }
}
