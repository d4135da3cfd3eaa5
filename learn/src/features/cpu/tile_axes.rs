//! How the register tile of this project's own kernels lies on the axes of an operator. The tile's size alone does not
//! determine the code.
//!
//! An axis that its tile does not divide is computed in whole tiles and a partial one, in code of its own. LLVM's code
//! also depends on which loop of the reduction is the innermost, and on its extent.

use opdata::contract::knobs::ContractionKnobs;
use opdata::{Loop, LoopKind, Row};

use crate::features::list::Values;
use crate::features::scale::log;

/// Fills in the features of a schedule on the loops of its row; nothing for rows without their loops.
pub(super) fn describe(values: &mut Values, row: &Row, knobs: &ContractionKnobs) {
    let Some(nest) = &row.loop_nest else { return };
    let of_kind = |kind: LoopKind| nest.0.iter().filter(move |l| l.kind == kind);
    describe_results(values, of_kind(LoopKind::Spatial), knobs);
    let reductions: Vec<&Loop> = of_kind(LoopKind::Reduction).collect();
    describe_reduction(values, &reductions, knobs);
}

/// A whole number of an axis, at least one.
pub(super) fn count(n: i64) -> f64 {
    n.max(1) as f64
}

/// Steps of the inner loop of an axis of the reduction.
pub(super) fn inner_steps(axis: &Loop, knobs: &ContractionKnobs) -> i64 {
    let extent = i64::try_from(axis.extent).unwrap_or(i64::MAX);
    knobs.reduction_tile_of(axis.name(), extent).max(1)
}

fn describe_results<'a>(
    values: &mut Values,
    axes: impl Iterator<Item = &'a Loop>,
    knobs: &ContractionKnobs,
) {
    let (mut waste, mut uneven, mut rest, mut rest_share) = (1.0, 0.0, 0.0f64, 0.0f64);
    let mut broadcast = [1.0, 1.0];
    for axis in axes {
        let (extent, tile) = (axis.extent as f64, count(knobs.tile_of(axis.name())));
        waste *= (extent / tile).ceil() * tile / extent;
        let left = extent % tile;
        uneven += f32::from(u8::from(left > 0.0));
        rest = rest.max(left / tile);
        rest_share = rest_share.max(left / extent);
        if knobs.vector_axis.as_deref() != Some(axis.name()) {
            broadcast = [tile, broadcast[0]];
        }
    }
    let [inner, second] = broadcast;
    values.tile_inner = log(inner);
    values.tile_second = log(second);
    values.tile_waste = waste as f32;
    values.tile_uneven = uneven;
    values.tile_rest = rest as f32;
    values.tile_rest_share = rest_share as f32;
}

fn describe_reduction(values: &mut Values, axes: &[&Loop], knobs: &ContractionKnobs) {
    let inner = |axis: &Loop| inner_steps(axis, knobs);
    let split = axes.iter().filter(|axis| inner(axis) as u64 != axis.extent);
    values.reduction_split = split.count() as f32;
    values.reduction_inner = axes.last().map_or(0.0, |axis| log(count(inner(axis))));
    // Whole inner loops are unrolled as long as they fit the limit.
    let mut unrolled = 1i64;
    for axis in axes.iter().rev() {
        let steps = inner(axis);
        unrolled = unrolled.saturating_mul(steps);
        if unrolled > knobs.unroll {
            values.reduction_trip = log(count(steps));
            break;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::features::knobs::Knobs;
    use crate::testing::conv_row;

    fn described(knobs: &str) -> Values {
        let row = conv_row([1, 64, 28, 28], [48, 3, 1], knobs);
        let mut values = Values::default();
        let knobs = Knobs::read(row.schedule_knobs.as_ref());
        describe(&mut values, &row, knobs.contraction().unwrap());
        values
    }

    #[test]
    fn a_tile_lies_on_its_axes() {
        let even = described(
            r#"{"template":"contraction","vector_axis":"ff","vector_length":16,"vector_blocks":3,"tile":[["yy",2],["xx",7]],"loop_order":["yy","ff","xx"],"fused_outer":1}"#,
        );
        assert_eq!((even.tile_inner, even.tile_second), (log(7.0), log(2.0)));
        assert_eq!((even.tile_waste, even.tile_uneven), (1.0, 0.0));
        let uneven = described(
            r#"{"template":"contraction","vector_axis":"ff","vector_length":16,"vector_blocks":3,"tile":[["xx",8]],"loop_order":["yy","ff","xx"],"fused_outer":1}"#,
        );
        // 28 results in a row are three tiles of 8, and a half.
        assert_eq!((uneven.tile_waste, uneven.tile_uneven), (32.0 / 28.0, 1.0));
        assert_eq!(
            (uneven.tile_rest, uneven.tile_rest_share),
            (0.5, 4.0 / 28.0)
        );
    }

    #[test]
    fn the_innermost_loop_that_is_not_unrolled_goes_round() {
        let of = |unroll: u32, tiles: &str| {
            described(&format!(
                r#"{{"template":"contraction","vector_axis":"ff","vector_length":16,"vector_blocks":1,"tile":[],"reduction_tile":{tiles},"unroll":{unroll},"loop_order":["yy","ff","xx"],"fused_outer":1}}"#
            ))
        };
        let whole = of(0, "[]");
        assert_eq!(
            (whole.reduction_split, whole.reduction_inner),
            (0.0, log(3.0))
        );
        assert_eq!(whole.reduction_trip, log(3.0));
        // The window is unrolled, and then four channels.
        let channels = of(9, r#"[["rc",4]]"#);
        assert_eq!(
            (channels.reduction_split, channels.reduction_trip),
            (1.0, log(4.0))
        );
        assert!(of(36, r#"[["rc",4]]"#).reduction_trip.is_nan());
    }
}
