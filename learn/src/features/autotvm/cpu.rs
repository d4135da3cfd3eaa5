//! The loop nest of a CPU kernel from the AutoTVM knobs of the template that made it: `conv2d_NCHWc.x86` and its kin,
//! `dense_pack`, `dense_nopack`, `batch_matmul`, and ARM's spatial pack and Winograd.

use opdata::Row;

use super::Decode;
use crate::features::cpu::nest::{CpuNest, Product, Template};
use crate::features::knobs::Knobs;
use crate::features::operator::{Class, Operator};
use crate::features::scale::ceil_div;

impl Decode for CpuNest {
    fn decode(operator: &Operator, row: &Row, knobs: &Knobs) -> Option<Self> {
        let arity = |name: &str| knobs.arity(name);
        if arity("tile_oc") == 2 && arity("tile_ow") == 2 {
            return blocked_conv(operator, knobs);
        }
        if arity("tile_co") == 2 && arity("tile_ow") == 2 {
            return spatial_pack(operator, knobs);
        }
        if arity("tile_p") == 2 && arity("tile_k") == 2 {
            return winograd(operator, knobs);
        }
        match (arity("tile_y"), arity("tile_x"), arity("tile_k")) {
            (3, 3, 2) => packed_dense(operator, row, knobs),
            (2, 2, 2) => plain(operator, row.op_name.contains("nopack"), knobs),
            _ => None,
        }
    }
}

/// `conv2d_NCHWc.x86`, its 1x1 form and `depthwise_conv2d_NCHWc.x86`: parallel over batch, channel blocks and rows.
fn blocked_conv(o: &Operator, knobs: &Knobs) -> Option<CpuNest> {
    let depthwise = o.class == Class::Depthwise;
    let [_, columns_block] = knobs.split::<2>("tile_oc", o.columns)?;
    let [_, width_tile] = knobs.split::<2>("tile_ow", o.out_width)?;
    let in_block = knobs
        .split::<2>("tile_ic", o.in_channels)
        .map_or(1.0, |f| f[1]);
    let height_tile = knobs.number("tile_oh").unwrap_or(1.0).max(1.0);
    let window = o.kernel_height * o.kernel_width;
    let channels = if depthwise { 1.0 } else { o.in_channels };
    let depth_block = if depthwise { 1.0 } else { in_block };
    let span = (width_tile - 1.0) * o.stride + o.kernel_width;
    Some(CpuNest {
        template: Template::BlockedConv,
        parallel: o.batch
            * ceil_div(o.columns, columns_block)
            * ceil_div(o.out_height, height_tile),
        task_work: height_tile * o.out_width * columns_block * channels * window,
        depth_block: in_block,
        columns_block,
        width_tile,
        height_tile,
        unroll: knobs.number("unroll_kw").unwrap_or(0.0),
        vector: columns_block,
        register_tile: width_tile * columns_block * height_tile,
        broadcast_tile: width_tile * height_tile,
        depth_outer: ceil_div(channels, depth_block),
        depth_tile: depth_block * window,
        weight_bytes: channels * window * columns_block * 4.0,
        input_bytes: (if depthwise {
            columns_block
        } else {
            o.in_channels
        }) * ((height_tile - 1.0) * o.stride + o.kernel_height)
            * o.in_width
            * 4.0,
        output_bytes: height_tile * o.out_width * columns_block * 4.0,
        tiles: ceil_div(o.out_width, width_tile),
        row_bytes: span * in_block * 4.0,
        inner_input_bytes: in_block * o.kernel_height * span * 4.0,
        inner_weight_bytes: in_block * window * columns_block * 4.0,
        width_remainder: o.out_width % width_tile,
    })
}

/// `dense_pack.x86`.
fn packed_dense(o: &Operator, row: &Row, knobs: &Knobs) -> Option<CpuNest> {
    let product = Product {
        rows: knobs.split("tile_y", o.rows)?,
        columns: knobs.split("tile_x", o.columns)?,
        depth: knobs.split("tile_k", o.depth)?,
    };
    // Logs of this release only: a call with one row takes 0.55 ns a weight (`opbench-llvm`, August 2022).
    let template = if row.tvm_version.as_deref() == Some("0.8.0") {
        Template::PackingDense
    } else {
        Template::PackedDense
    };
    let unroll = knobs.split::<2>("tile_inner", o.rows).map_or(1.0, |f| f[1]);
    Some(CpuNest {
        unroll,
        ..product.nest(o, template)
    })
}

/// `dense_nopack.x86` and `batch_matmul.x86`, both vectorised along the reduction.
fn plain(o: &Operator, is_dense: bool, knobs: &Knobs) -> Option<CpuNest> {
    let [rows_outer, rows] = knobs.split::<2>("tile_y", o.rows)?;
    let [columns_outer, columns] = knobs.split::<2>("tile_x", o.columns)?;
    let depth = knobs.split::<2>("tile_k", o.depth)?;
    let product = Product {
        rows: [rows_outer, 1.0, rows],
        columns: [columns_outer, 1.0, columns],
        depth,
    };
    let nest = product.nest(o, Template::BatchMatmul);
    Some(if is_dense {
        CpuNest {
            template: Template::PlainDense,
            vector: depth[1],
            register_tile: rows * columns * depth[1],
            broadcast_tile: rows * columns,
            ..nest
        }
    } else {
        // Each output has its own vector along the reduction. The lanes of a vector are scattered over a buffer of the
        // whole tile.
        CpuNest {
            vector: depth[1],
            register_tile: rows * columns * depth[1],
            broadcast_tile: 1.0,
            ..nest
        }
    })
}

/// `conv2d_nchw_spatial_pack.arm_cpu`: parallel over channel blocks.
fn spatial_pack(o: &Operator, knobs: &Knobs) -> Option<CpuNest> {
    let [blocks, columns_block] = knobs.split::<2>("tile_co", o.columns)?;
    let [_, height_tile] = knobs.split::<2>("tile_oh", o.out_height)?;
    let [_, width_tile] = knobs.split::<2>("tile_ow", o.out_width)?;
    let unrolled = knobs.value("ann_spatial").map_or(0.0, |v| {
        f64::from(u8::from(v.to_string().contains("unroll")))
    });
    Some(CpuNest {
        template: Template::SpatialPack,
        parallel: o.batch * blocks,
        task_work: o.out_height * o.out_width * columns_block * o.depth,
        depth_block: o.in_channels,
        columns_block,
        width_tile,
        height_tile,
        unroll: unrolled,
        vector: columns_block,
        register_tile: columns_block * height_tile * width_tile,
        broadcast_tile: height_tile * width_tile,
        depth_outer: 1.0,
        depth_tile: o.depth,
        weight_bytes: o.depth * columns_block * 4.0,
        input_bytes: o.input_bytes,
        output_bytes: o.out_height * o.out_width * columns_block * 4.0,
        tiles: ceil_div(o.out_width, width_tile) * ceil_div(o.out_height, height_tile),
        row_bytes: ((width_tile - 1.0) * o.stride + o.kernel_width) * 4.0,
        inner_input_bytes: o.in_channels
            * ((height_tile - 1.0) * o.stride + o.kernel_height)
            * ((width_tile - 1.0) * o.stride + o.kernel_width)
            * 4.0,
        inner_weight_bytes: o.depth * columns_block * 4.0,
        width_remainder: o.out_width % width_tile,
    })
}

/// `conv2d_nchw_winograd.arm_cpu`: the product between the transforms, tiles of four outputs.
fn winograd(o: &Operator, knobs: &Knobs) -> Option<CpuNest> {
    let outputs = 4.0;
    let alpha = outputs + o.kernel_height - 1.0;
    let pixels = o.batch * ceil_div(o.out_height, outputs) * ceil_div(o.out_width, outputs);
    let pixel_tile = knobs.split::<2>("tile_p", pixels)?;
    let columns = knobs.split::<2>("tile_k", o.columns)?;
    let depth = knobs
        .split::<2>("tile_c", o.in_channels)
        .unwrap_or([1.0, o.in_channels]);
    let product = Product {
        rows: [pixel_tile[0], 1.0, pixel_tile[1]],
        columns: [columns[0], 1.0, columns[1]],
        depth,
    };
    Some(CpuNest {
        parallel: alpha * alpha * columns[0],
        ..product.nest(o, Template::Winograd)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{conv_row, dense_row};

    fn nest(row: &opdata::Row) -> CpuNest {
        let knobs = Knobs::read(row.schedule_knobs.as_ref());
        CpuNest::decode(&Operator::of_row(row), row, &knobs).unwrap()
    }

    #[test]
    fn a_blocked_convolution_is_taken_apart() {
        let nest = nest(&conv_row(
            [1, 64, 56, 56],
            [128, 3, 2],
            r#"{"tile_ic":[-1,16],"tile_oc":[-1,32],"tile_ow":[-1,7],"unroll_kw":true}"#,
        ));
        assert_eq!(nest.parallel, 4.0 * 28.0);
        assert_eq!(
            nest.parallel * nest.task_work,
            28.0 * 28.0 * 128.0 * 64.0 * 9.0
        );
        assert_eq!((nest.register_tile, nest.tiles), (224.0, 4.0));
        assert_eq!(nest.inner_weight_bytes, 16.0 * 9.0 * 32.0 * 4.0);
    }

    #[test]
    fn products_are_taken_apart() {
        let packed = nest(&dense_row(
            64,
            1000,
            512,
            r#"{"tile_y":[-1,2,4],"tile_x":[-1,5,8],"tile_k":[-1,16],"tile_inner":[-1,2]}"#,
        ));
        assert_eq!((packed.parallel, packed.unroll), (8.0 * 25.0, 2.0));
        assert_eq!(packed.parallel * packed.task_work, 64.0 * 1000.0 * 512.0);
        let plain = nest(&dense_row(
            1,
            1000,
            2048,
            r#"{"tile_y":[-1,1],"tile_x":[-1,8],"tile_k":[-1,64]}"#,
        ));
        assert_eq!((plain.template, plain.vector), (Template::PlainDense, 64.0));
        assert_eq!(plain.register_tile, 8.0 * 64.0);
    }
}
