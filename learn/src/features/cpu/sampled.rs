//! The loop nest of a sample of MetaSchedule's space for CPUs, from its decisions.
//!
//! Multi-level tiling there is `SSRSRS`. Every spatial axis is split into four levels, every reduction into two, and
//! the levels are nested as S0 S1 R0 S2 R1 S3. S0 runs in parallel; S3 is computed for one step of R1, its innermost
//! loops as vectors. See `meta_schedule::ScheduleRule::MultiLevelTiling` and `RewriteParallelVectorizeUnroll` of Apache
//! TVM.

use serde_json::Value;

use crate::features::cpu::nest::{CpuNest, Template};
use crate::features::knobs::Knobs;
use crate::features::operator::{Class, Operator};

/// Maximum number of values in a vectorised loop (`max_vectorize_extent` of the default rules).
const MOST_VECTORISED: f64 = 64.0;

/// The nest, if the decisions tile spatial axes on four levels and reductions on two. Other tiles (of a second block,
/// of another structure) are left out.
pub(super) fn nest(o: &Operator, knobs: &Knobs) -> Option<CpuNest> {
    let tiles = knobs.value("tiles")?.as_array()?;
    let spatial: Vec<[f64; 4]> = tiles.iter().map_while(levels).collect();
    let reductions: Vec<[f64; 2]> = tiles[spatial.len()..].iter().map_while(levels).collect();
    // The axis that weights are indexed by: channels after the batch, else the last axis.
    let columns = match o.class {
        Class::Conv | Class::Depthwise => 1,
        _ => spatial.len().checked_sub(1)?,
    };
    let column = spatial.get(columns)?;
    let inner = |axis: &[f64; 4]| axis[3];
    let task = |axis: &[f64; 4]| axis[1] * axis[2] * axis[3];
    let all = |of: fn(&[f64; 4]) -> f64| -> f64 { spatial.iter().map(of).product() };
    let level = |which: usize| -> f64 { reductions.iter().map(|r| r[which]).product() };
    let register_tile = all(inner);
    let task_outputs = all(task);
    let depth = level(0) * level(1);
    let vector = spatial
        .iter()
        .rev()
        .map(inner)
        .scan(1.0, |product, extent| {
            *product *= extent;
            (*product <= MOST_VECTORISED).then_some(*product)
        })
        .last()
        .unwrap_or(1.0);
    let from_end = |place: usize| spatial.iter().rev().nth(place).map_or(1.0, inner);
    let element = o.element_bytes;
    Some(CpuNest {
        template: Template::Sampled,
        parallel: all(|axis| axis[0]),
        task_work: task_outputs * depth,
        depth_block: level(1),
        columns_block: column[2] * column[3],
        width_tile: from_end(0),
        height_tile: from_end(1),
        unroll: unrolling(knobs),
        vector,
        register_tile,
        broadcast_tile: register_tile / vector,
        depth_outer: level(0),
        depth_tile: level(1),
        weight_bytes: task(column) * depth * element,
        input_bytes: task_outputs / task(column) * depth * element,
        output_bytes: task_outputs * element,
        tiles: all(|axis| axis[1] * axis[2]),
        row_bytes: from_end(0) * element,
        inner_input_bytes: register_tile / column[3] * level(1) * element,
        inner_weight_bytes: column[3] * level(1) * element,
        width_remainder: 0.0,
    })
}

/// The factors of a tile of `N` levels.
fn levels<const N: usize>(tile: &Value) -> Option<[f64; N]> {
    let factors: Vec<f64> = tile
        .as_array()?
        .iter()
        .map(|f| f.as_f64().filter(|f| *f >= 1.0))
        .collect::<Option<_>>()?;
    factors.try_into().ok()
}

/// The unrolling step that was drawn: the last category of a trace.
fn unrolling(knobs: &Knobs) -> f64 {
    let last = || knobs.value("categories")?.as_array()?.last()?.as_f64();
    last().unwrap_or(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::conv_row;

    fn nest_of(knobs: &str) -> Option<CpuNest> {
        let row = conv_row([1, 64, 28, 28], [64, 3, 1], knobs);
        nest(
            &Operator::of_row(&row),
            &Knobs::read(row.schedule_knobs.as_ref()),
        )
    }

    #[test]
    fn decisions_make_a_nest() {
        let nest = nest_of(
            r#"{"template":"sampled","categories":[2],"compute_locations":[8],
            "tiles":[[1,1,1,1],[2,4,4,2],[1,2,1,14],[1,14,2,1],[16,4],[3,1],[1,3]]}"#,
        )
        .unwrap();
        assert_eq!((nest.parallel, nest.unroll), (2.0, 2.0));
        assert_eq!(
            nest.parallel * nest.task_work,
            64.0 * 28.0 * 28.0 * 64.0 * 9.0
        );
        assert_eq!(
            (nest.register_tile, nest.vector, nest.broadcast_tile),
            (28.0, 28.0, 1.0)
        );
        assert_eq!((nest.depth_outer, nest.depth_tile), (48.0, 12.0));
        assert_eq!(nest.columns_block, 8.0);
        assert_eq!(nest.weight_bytes, 32.0 * 64.0 * 9.0 * 4.0);
        assert_eq!(nest.inner_weight_bytes, 2.0 * 12.0 * 4.0);
        assert_eq!(nest.tiles * nest.register_tile * 2.0, 64.0 * 28.0 * 28.0);
    }

    #[test]
    fn long_vectors_and_other_structures() {
        let nest = nest_of(r#"{"tiles":[[1,1,1,1],[1,1,1,64],[1,1,1,28],[1,1,1,28]]}"#).unwrap();
        assert_eq!((nest.vector, nest.depth_tile), (28.0, 1.0));
        assert_eq!(nest.register_tile, 64.0 * 28.0 * 28.0);
        assert_eq!(nest_of(r#"{"tiles":[[1,2,3,4,5],[1,2]]}"#), None);
        assert_eq!(nest_of(r#"{"tiles":[]}"#), None);
        assert_eq!(nest_of(r#"{"tiles":[[1,1,1,1],[1,1,1,0]]}"#), None);
    }
}
