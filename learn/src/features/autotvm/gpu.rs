//! The loop nest of a GPU kernel from the AutoTVM knobs of the template that made it.
//!
//! Follows the schedule templates of TOPI in TVM 0.6 to 0.9. They decide which split is bound to blocks, virtual threads
//! and threads, what is staged in shared memory, and how the threads share its loads. These numbers are exact; registers
//! and instructions are estimates.

use opdata::Row;

use super::Decode;
use crate::features::cuda::nest::{GpuNest, Loading, Template};
use crate::features::knobs::Knobs;
use crate::features::operator::{Class, Operator};
use crate::features::scale::ceil_div;

/// Banks of shared memory.
const BANKS: u32 = 32;

impl Decode for GpuNest {
    fn decode(operator: &Operator, _: &Row, knobs: &Knobs) -> Option<Self> {
        let arity = |name: &str| knobs.arity(name);
        if arity("tile_f") == 4 {
            return direct(operator, knobs);
        }
        if arity("tile_b") == 4 && arity("tile_rc") == 2 {
            return winograd(operator, knobs);
        }
        match (arity("tile_x"), arity("tile_y"), arity("tile_k")) {
            (0, 0, 2) => small_dense(operator, knobs),
            (4, 4, 3) => large_dense(operator, knobs),
            (3, 3, 2) => batch_matmul(operator, knobs),
            _ => None,
        }
    }
}

/// Ways of conflict when `lanes` neighbours read words `stride` apart: the most that fall on one bank.
fn conflict(stride: f64, lanes: f64) -> f64 {
    if stride <= 0.0 || lanes <= 1.0 {
        return 1.0;
    }
    // A stride of 2^n words reaches every 2^n-th bank, and odd multiples of it the same ones in another order. After
    // this many lanes the first bank is met again.
    let shared = (stride as u64 | u64::from(BANKS)).trailing_zeros();
    let reached = BANKS >> shared;
    let lanes = (lanes as u32).min(BANKS);
    f64::from(lanes.div_ceil(reached))
}

fn unrolling(knobs: &Knobs) -> (f64, f64) {
    (
        knobs.number("auto_unroll_max_step").unwrap_or(0.0),
        knobs.number("unroll_explicit").unwrap_or(0.0),
    )
}

/// `dense_small_batch.gpu`: a block for each output, its threads along the reduction.
fn small_dense(o: &Operator, knobs: &Knobs) -> Option<GpuNest> {
    let [_, threads] = knobs.split::<2>("tile_k", o.depth)?;
    let steps = ceil_div(o.depth, threads);
    let outputs = o.rows * o.columns;
    let load = Loading {
        slots: 1.0,
        conflict: 1.0,
        run: threads,
    };
    Some(GpuNest {
        template: Template::SmallDense,
        blocks: outputs,
        threads,
        threads_x: threads,
        virtual_threads: 1.0,
        fragment_rows: 1.0,
        fragment_columns: 1.0,
        accumulators: 1.0,
        inner_tile: 1.0,
        staged: 0.0,
        steps,
        depth_middle: 1.0,
        depth_inner: 1.0,
        thread_work: steps,
        kernel_work: outputs * o.depth,
        unroll_limit: 0.0,
        unroll_explicit: 0.0,
        block_rows: 1.0,
        block_columns: 1.0,
        padding_ratio: threads * steps / o.depth,
        first: load,
        second: load,
    })
}

/// `dense_large_batch.gpu`: double-buffered tiles; each row of threads loads rows of the tile, four elements at a time.
fn large_dense(o: &Operator, knobs: &Knobs) -> Option<GpuNest> {
    let rows = knobs.split::<4>("tile_x", o.rows)?;
    let columns = knobs.split::<4>("tile_y", o.columns)?;
    let [steps, middle, inner] = knobs.split::<3>("tile_k", o.depth)?;
    let stage = middle * inner;
    let tile = |f: [f64; 4]| f[1] * f[2] * f[3];
    let (block_rows, block_columns) = (tile(rows), tile(columns));
    let loading = |extent: f64, factors: [f64; 4]| Loading {
        slots: ceil_div(extent, factors[2]) * ceil_div(stage, 4.0 * factors[2]) * 4.0,
        conflict: conflict(factors[3] * stage, factors[2]),
        run: stage,
    };
    let fragment_rows = rows[1] * rows[3];
    let fragment_columns = columns[1] * columns[3];
    Some(GpuNest {
        template: Template::LargeDense,
        blocks: rows[0] * columns[0],
        threads: rows[2] * columns[2],
        threads_x: columns[2],
        virtual_threads: rows[1] * columns[1],
        fragment_rows,
        fragment_columns,
        accumulators: fragment_rows * fragment_columns,
        inner_tile: rows[3] * columns[3],
        staged: (block_rows + block_columns) * stage,
        steps,
        depth_middle: middle,
        depth_inner: inner,
        thread_work: fragment_rows * fragment_columns * o.depth,
        kernel_work: o.rows * o.columns * o.depth,
        unroll_limit: 0.0,
        unroll_explicit: 0.0,
        block_rows,
        block_columns,
        padding_ratio: 1.0,
        first: loading(block_rows, rows),
        second: loading(block_columns, columns),
    })
}

/// Loading of a staged tile that all threads share evenly, each a contiguous piece.
fn shared_loading(elements: f64, threads: f64, conflict: f64, run: f64) -> Loading {
    Loading {
        slots: ceil_div(elements, threads),
        conflict,
        run,
    }
}

/// `batch_matmul.cuda`.
fn batch_matmul(o: &Operator, knobs: &Knobs) -> Option<GpuNest> {
    let rows = knobs.split::<4>("tile_y", o.rows)?;
    let columns = knobs.split::<4>("tile_x", o.columns)?;
    let [steps, stage] = knobs.split::<2>("tile_k", o.depth)?;
    let (block_rows, block_columns) = (rows[2] * rows[3], columns[2] * columns[3]);
    let threads = rows[2] * columns[2];
    let (unroll_limit, unroll_explicit) = unrolling(knobs);
    let lanes = (f64::from(BANKS) / columns[2])
        .floor()
        .max(1.0)
        .min(rows[2]);
    Some(GpuNest {
        template: Template::BatchMatmul,
        blocks: o.batch * rows[0] * columns[0],
        threads,
        threads_x: columns[2],
        virtual_threads: 1.0,
        fragment_rows: rows[3],
        fragment_columns: columns[3],
        accumulators: rows[3] * columns[3],
        inner_tile: rows[3] * columns[3],
        staged: (block_rows + block_columns) * stage,
        steps,
        depth_middle: 1.0,
        depth_inner: stage,
        thread_work: rows[3] * columns[3] * o.depth,
        kernel_work: o.batch * o.rows * o.columns * o.depth,
        unroll_limit,
        unroll_explicit,
        block_rows,
        block_columns,
        padding_ratio: 1.0,
        first: shared_loading(
            block_rows * stage,
            threads,
            conflict(rows[3] * stage, lanes),
            stage,
        ),
        second: shared_loading(
            block_columns * stage,
            threads,
            conflict(columns[3] * stage, columns[2]),
            stage,
        ),
    })
}

/// `conv2d_nchw_winograd.cuda`: the batched product between the transforms, whose tile TVM chooses by the height.
fn winograd(o: &Operator, knobs: &Knobs) -> Option<GpuNest> {
    let outputs = if o.in_height % 8.0 == 0.0 { 4.0 } else { 2.0 };
    let alpha = outputs + o.kernel_height - 1.0;
    let pixels = o.batch * ceil_div(o.out_height, outputs) * ceil_div(o.out_width, outputs);
    let batch = knobs.split::<4>("tile_b", alpha * alpha)?;
    let rows = knobs.split::<4>("tile_y", o.columns)?;
    let columns = knobs.split::<4>("tile_x", pixels)?;
    let [steps, stage] = knobs.split::<2>("tile_rc", o.in_channels)?;
    let tile = |f: [f64; 4]| f[1] * f[2] * f[3];
    let (block_batch, block_rows, block_columns) = (tile(batch), tile(rows), tile(columns));
    let own = |f: [f64; 4]| f[1] * f[3];
    let threads = batch[2] * rows[2] * columns[2];
    let accumulators = own(batch) * own(rows) * own(columns);
    let (unroll_limit, unroll_explicit) = unrolling(knobs);
    let shared_first = block_batch * block_rows * stage;
    let shared_second = block_batch * block_columns * stage;
    Some(GpuNest {
        template: Template::Winograd,
        blocks: batch[0] * rows[0] * columns[0],
        threads,
        threads_x: columns[2],
        virtual_threads: batch[1] * rows[1] * columns[1],
        fragment_rows: own(batch) * own(rows),
        fragment_columns: own(batch) * own(columns),
        accumulators,
        inner_tile: batch[3] * rows[3] * columns[3],
        staged: shared_first + shared_second,
        steps,
        depth_middle: 1.0,
        depth_inner: stage,
        thread_work: accumulators * o.in_channels,
        kernel_work: alpha * alpha * pixels * o.columns * o.in_channels,
        unroll_limit,
        unroll_explicit,
        block_rows,
        block_columns,
        padding_ratio: 1.0,
        first: shared_loading(shared_first, threads, 1.0, block_rows),
        second: shared_loading(
            shared_second,
            threads,
            conflict(columns[3], columns[2]),
            block_columns,
        ),
    })
}

/// `conv2d_nchw.cuda` and `depthwise_conv2d_nchw.cuda`: rows are output channels, columns are pixels.
fn direct(o: &Operator, knobs: &Knobs) -> Option<GpuNest> {
    let depthwise = o.class == Class::Depthwise;
    let f = knobs.split::<4>("tile_f", o.columns)?;
    let y = knobs.split::<4>("tile_y", o.out_height)?;
    let x = knobs.split::<4>("tile_x", o.out_width)?;
    let reduction = |name: &str, extent: f64| {
        if depthwise {
            Some([1.0, extent])
        } else {
            knobs.split::<2>(name, extent)
        }
    };
    let channels = reduction("tile_rc", if depthwise { 1.0 } else { o.in_channels })?;
    let window_y = reduction("tile_ry", o.kernel_height)?;
    let window_x = reduction("tile_rx", o.kernel_width)?;
    let tile = |f: [f64; 4]| f[1] * f[2] * f[3];
    let own = |f: [f64; 4]| f[1] * f[3];
    let threads = f[2] * y[2] * x[2];
    let blocks = o.batch * f[0] * y[0] * x[0];
    let accumulators = own(f) * own(y) * own(x);
    let steps = channels[0] * window_y[0] * window_x[0];
    let stage = channels[1] * window_y[1] * window_x[1];
    let staged_channels = if depthwise { tile(f) } else { channels[1] };
    let run = (tile(x) - 1.0) * o.stride + window_x[1];
    let shared_first = staged_channels * ((tile(y) - 1.0) * o.stride + window_y[1]) * run;
    let shared_second = tile(f) * stage;
    let (unroll_limit, unroll_explicit) = unrolling(knobs);
    let run_first = (tile(x) - 1.0) * o.stride + 1.0;
    Some(GpuNest {
        template: if depthwise {
            Template::Depthwise
        } else {
            Template::Direct
        },
        blocks,
        threads,
        threads_x: x[2],
        virtual_threads: f[1] * y[1] * x[1],
        fragment_rows: own(f),
        fragment_columns: own(y) * own(x),
        accumulators,
        inner_tile: f[3] * y[3] * x[3],
        staged: shared_first + shared_second,
        steps,
        depth_middle: 1.0,
        depth_inner: stage,
        thread_work: accumulators * o.depth,
        kernel_work: o.batch * o.columns * o.out_height * o.out_width * o.depth,
        unroll_limit,
        unroll_explicit,
        block_rows: tile(f),
        block_columns: tile(y) * tile(x),
        padding_ratio: blocks * threads * accumulators
            / (o.batch * o.columns * o.out_height * o.out_width),
        first: shared_loading(
            shared_first,
            threads,
            conflict(x[3] * o.stride, x[2]),
            run_first,
        ),
        second: shared_loading(shared_second, threads, 1.0, stage),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{conv_row, dense_row};

    #[test]
    fn conflicts_are_counted_by_bank() {
        assert_eq!(conflict(1.0, 32.0), 1.0);
        assert_eq!(conflict(2.0, 32.0), 2.0);
        assert_eq!(conflict(32.0, 8.0), 8.0);
        assert_eq!(conflict(33.0, 32.0), 1.0);
        assert_eq!(conflict(0.0, 32.0), 1.0);
        for (stride, lanes) in (1..70u32).flat_map(|s| (1..40u32).map(move |l| (s, l))) {
            let mut banks = [0; BANKS as usize];
            for lane in 0..lanes.min(BANKS) {
                banks[(lane * stride % BANKS) as usize] += 1;
            }
            let most = banks.into_iter().max().unwrap();
            assert_eq!(conflict(stride.into(), lanes.into()), f64::from(most));
        }
    }

    #[test]
    fn a_tiled_product_is_taken_apart() {
        let row = dense_row(
            128,
            768,
            3072,
            r#"{"tile_x":[-1,1,4,4],"tile_y":[-1,1,4,8],"tile_k":[-1,4,4]}"#,
        );
        let nest = GpuNest::decode(
            &Operator::of_row(&row),
            &row,
            &Knobs::read(row.schedule_knobs.as_ref()),
        )
        .unwrap();
        assert_eq!(nest.template, Template::LargeDense);
        assert_eq!(
            (nest.blocks, nest.threads, nest.steps),
            (8.0 * 24.0, 16.0, 192.0)
        );
        assert_eq!(nest.shared_bytes(), 4.0 * (16.0 + 32.0) * 16.0);
        assert_eq!(nest.first.slots, 4.0 * 4.0, "four rows, one chunk of four");
        assert_eq!(nest.first.conflict, 4.0, "a stride of 64 words");
        // 4 x 8 sums; of both operands 4 steps of the reduction.
        assert_eq!(nest.registers(), 32.0 + (4.0 + 8.0) * 4.0 + 16.0);
        let work = nest.blocks * nest.threads * nest.thread_work;
        assert_eq!(work, nest.kernel_work);
    }

    #[test]
    fn a_direct_convolution_is_taken_apart() {
        let row = conv_row(
            [1, 64, 56, 56],
            [128, 3, 2],
            "{\"tile_f\":[-1,1,16,4],\"tile_y\":[-1,1,1,1],\"tile_x\":[-1,1,14,2],\"tile_rc\":[-1,8],\
             \"tile_ry\":[-1,3],\"tile_rx\":[-1,1],\"auto_unroll_max_step\":512,\"unroll_explicit\":1}",
        );
        let nest = GpuNest::decode(
            &Operator::of_row(&row),
            &row,
            &Knobs::read(row.schedule_knobs.as_ref()),
        )
        .unwrap();
        assert_eq!((nest.blocks, nest.threads), (2.0 * 28.0, 16.0 * 14.0));
        assert_eq!(nest.staged, 8.0 * 3.0 * 55.0 + 64.0 * 24.0);
        assert_eq!(nest.steps, 8.0 * 3.0);
        assert_eq!(
            nest.blocks * nest.threads * nest.thread_work,
            nest.kernel_work
        );
        assert_eq!(nest.padding_ratio, 1.0);
        assert_eq!(nest.registers(), 8.0 + (4.0 + 2.0) + 16.0);
    }
}
