//! An operator of a graph as the columns of a dataset's row.
//!
//! The one place that maps facts to columns, for rows of measurements and of queries.

use opdata::{Dims, Loop, LoopKind, Row, Shapes};

use crate::graph::{ArgumentRole, AxisKind, Operator};

/// Sets the columns that follow from the operator: symbol, calls, shapes, types, window, loops, arithmetic, traffic,
/// and the bytes between two uses of its memory.
pub fn describe(operator: &Operator, row: &mut Row) {
    let shapes = |role| -> Option<Shapes> {
        let all: Vec<Dims> = operator
            .args_of(role)
            .map(|a| Dims::from(a.shape.as_slice()))
            .collect();
        (!all.is_empty()).then(|| all.into_iter().collect())
    };
    let dims = |values: &Option<Vec<u64>>| values.as_deref().map(Dims::from);
    let dtypes: Vec<&str> = [
        ArgumentRole::Input,
        ArgumentRole::Weight,
        ArgumentRole::Output,
    ]
    .into_iter()
    .flat_map(|role| operator.args_of(role))
    .map(|a| a.dtype.as_str())
    .collect();
    let attributes = &operator.attrs;
    row.op_symbol = Some(operator.symbol.clone());
    row.op_pattern = Some(operator.pattern.name().to_owned());
    row.op_count = Some(operator.count);
    row.input_shapes = shapes(ArgumentRole::Input);
    row.weight_shapes = shapes(ArgumentRole::Weight);
    row.output_shapes = shapes(ArgumentRole::Output);
    row.dtypes = Some(dtypes.join(";"));
    row.kernel = dims(&attributes.kernel);
    row.stride = dims(&attributes.stride);
    row.padding = dims(&attributes.padding);
    row.dilation = dims(&attributes.dilation);
    row.groups = attributes.groups;
    row.in_channels = attributes.in_channels;
    row.out_channels = attributes.out_channels;
    row.weight_layout = attributes.weight_layout.clone();
    let kind = |kind| match kind {
        AxisKind::Spatial => LoopKind::Spatial,
        AxisKind::Reduction => LoopKind::Reduction,
    };
    row.loop_nest = Some(
        operator
            .loops
            .iter()
            .map(|l| Loop::new(&l.name, l.extent, kind(l.kind)))
            .collect(),
    );
    row.flops = Some(operator.flops);
    row.flops_epilogue = Some(operator.flops_epilogue);
    row.bytes_read = Some(operator.bytes_read);
    row.bytes_written = Some(operator.bytes_written);
    row.weight_reuse_bytes = operator.weight_reuse_bytes;
    row.output_reuse_bytes = operator.output_reuse_bytes;
}

#[cfg(test)]
mod tests {
    use opdata::{DeviceKind, Essentials, Status};

    use super::*;
    use crate::graph::Graph;

    #[test]
    fn bytes_between_uses_are_given_as_far_as_they_are_known() {
        let graph: Graph = serde_json::from_str(crate::graph::tests_sample()).unwrap();
        let mut row = Row::new(Essentials {
            run_id: "run",
            ordinal: 0,
            point_id: "point",
            op_name: "conv2d_add",
            op_kind: "conv2d",
            device_kind: DeviceKind::CPU,
            status: Status::Measured,
        });
        describe(&graph.operators[0], &mut row);
        assert_eq!(
            (row.weight_reuse_bytes, row.output_reuse_bytes),
            (Some(656), None)
        );
    }
}
