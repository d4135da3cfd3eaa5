//! A convolution as one product of matrices: the windows are copied beside each other first.

use std::slice::from_ref;

use opdata::contract::knobs::ConvolutionKnobs;
use tvm_bridge::Result;
use tvm_bridge::nest::{Buffer, Index, LoopKind, Stmt};

use super::product::{At, Product};
use super::{COPY, Convolution, Operands, Stages, each};

pub(super) fn stages(
    of: &Convolution,
    knobs: &ConvolutionKnobs,
    buffers: &Operands<'_>,
) -> Result<Stages> {
    let ([height, width], [window_y, window_x]) = (of.output, of.window);
    let columns = of.batch * height * width;
    // A row for each place of the window in each channel, a column for each output.
    let windows = [of.channels, window_y, window_x, columns];
    let matrix = Buffer::new("windows", &windows)?;
    let copy = Stmt::elements(
        COPY,
        [buffers.image, &matrix],
        &[of.channels, window_y, window_x, of.batch, height, width],
        |v| {
            let row = v[3].scaled(height, 0)?.plus(&v[4])?;
            let column = row.scaled(width, 0)?.plus(&v[5])?;
            Ok(vec![v[0].clone(), v[1].clone(), v[2].clone(), column])
        },
        |v| {
            let at = |output: &Index, inside: &Index, axis: usize| {
                let first = output.scaled(of.stride[axis], 0)?;
                first.plus(&inside.scaled(of.dilation[axis], 0)?)
            };
            let (y, x) = (at(&v[4], &v[1], 0)?, at(&v[5], &v[2], 1)?);
            buffers.image.load(&[v[3].clone(), v[0].clone(), y, x])
        },
    )?;
    let product = Product {
        name: "stage_product",
        batch: of.vectors / knobs.vector_blocks,
        kind: LoopKind::Parallel,
        columns,
        blocks: knobs.vector_blocks,
        lanes: of.lanes,
        width: knobs.columns.min(columns),
        depth: &[of.channels, window_y, window_x],
        reads: &[&matrix, buffers.weights],
        out: buffers.output,
    };
    let vector = |at: &At<'_>| at.batch.scaled(knobs.vector_blocks, at.block);
    let mut statements = vec![copy];
    statements.extend(product.statements(
        &|at, depth| matrix.load(&[depth, from_ref(at.column)].concat()),
        &|at, depth, lane| {
            let place = [&[vector(at)?], depth, from_ref(lane)];
            buffers.weights.load(&place.concat())
        },
        &|at, sum| {
            let (row, x) = at.column.divided(width)?;
            let (image, y) = row.divided(height)?;
            each(LoopKind::Serial, of.lanes, |lane| {
                let channel = vector(at)?.scaled(of.lanes, 0)?.plus(lane)?;
                let place = [image.clone(), channel, y.clone(), x.clone()];
                buffers.output.store(&sum(lane)?, &place)
            })
        },
    )?);
    Ok(Stages {
        statements,
        between: vec![matrix],
    })
}
