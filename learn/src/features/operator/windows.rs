//! How this project's kernels stage the data under windows that slide over each channel on its own (pooling, depthwise
//! convolutions).
//!
//! The importer rounds rows up to whole vectors ([`opmodels::tile::whole_row`]), pads the data for it and crops the
//! results. The collector copies padded or strided data channel by channel. A window of 2 x 2 is read in place. All of
//! it follows from the operator.

use opdata::{LoopKind, Row};
use opmodels::tile::whole_row;

use crate::features::list::Values;
use crate::features::operator::{Class, Operator};
use crate::features::scale::log;

/// The data are read in place.
const IN_PLACE: f32 = 0.0;
/// The data are copied into one array for each phase of the stride.
const COPIED: f32 = 1.0;
/// The data are copied into a padding.
const PADDED: f32 = 2.0;

/// Fills in the features of a row's operator; nothing of operators without windows.
pub(in crate::features) fn describe(values: &mut Values, row: &Row, operator: &Operator) {
    if !matches!(operator.class, Class::Pool | Class::Depthwise) {
        return;
    }
    let Some((channel, missing)) = staged(row, operator) else {
        return;
    };
    values.staging = if operator.is_padded || missing > 0.0 {
        PADDED
    } else if operator.stride > 1.0 {
        COPIED
    } else {
        IN_PLACE
    };
    values.staged_channel = log(channel);
}

/// Values of a channel that the windows read or that are copied for them, and how many the last window of a row reads
/// beyond the operator's padding. `None` if a row has one result, or facts are missing.
fn staged(row: &Row, operator: &Operator) -> Option<(f64, f64)> {
    let rank = row.kernel.as_ref()?.0.len();
    let mut loops = row.loop_nest.as_ref()?.0.iter().rev();
    let wanted = loops.find(|l| l.kind == LoopKind::Spatial)?.extent;
    if wanted <= 1 {
        return None;
    }
    let input = &row.input_shapes.as_ref()?.0.first()?.0;
    let data = input.get(input.len().checked_sub(rank)?..)?;
    let padding = |place: usize| {
        let known = row.padding.as_ref().and_then(|p| p.0.get(place));
        known.map_or(0.0, |&n| n as f64)
    };
    let padded = |axis: usize| data[axis] as f64 + padding(axis) + padding(rank + axis);
    let mut extents: Vec<f64> = (0..rank).map(padded).collect();
    let width = extents.last_mut()?;
    let reach = (whole_row(wanted) as f64 - 1.0) * operator.stride + operator.kernel_width;
    let missing = (reach - *width).max(0.0);
    *width += missing;
    Some((extents.iter().product(), missing))
}

#[cfg(test)]
mod tests {
    use super::*;
    use opdata::Loop;

    /// A pool of 64 channels by windows of this many values along each axis.
    fn pool(kind: &str, data: u64, window: u64, stride: u64, padding: u64) -> Row {
        let wanted = (data + 2 * padding - window) / stride + 1;
        let spatial = [("nn", 1), ("cc", 64), ("yy", wanted), ("xx", wanted)];
        Row {
            op_kind: kind.to_owned(),
            schedule_space: Some("default".to_owned()),
            schedule_knobs: None,
            input_shapes: format!("1x64x{data}x{data}").parse().ok(),
            output_shapes: format!("1x64x{wanted}x{wanted}").parse().ok(),
            kernel: format!("{window}x{window}").parse().ok(),
            stride: format!("{stride}x{stride}").parse().ok(),
            padding: format!("{padding}x{padding}x{padding}x{padding}")
                .parse()
                .ok(),
            loop_nest: Some(
                spatial
                    .map(|(name, extent)| Loop::new(name, extent, LoopKind::Spatial))
                    .into_iter()
                    .chain(["ry", "rx"].map(|name| Loop::new(name, window, LoopKind::Reduction)))
                    .collect(),
            ),
            ..crate::testing::dense_row(1, 1, 1, "{}")
        }
    }

    fn described(row: &Row) -> Values {
        let mut values = Values::default();
        describe(&mut values, row, &Operator::of_row(row));
        values
    }

    #[test]
    fn data_are_copied_for_whole_vectors_of_results() {
        // 16 results of 32 values: read apart, without a padding.
        let even = described(&pool("max_pool", 32, 2, 2, 0));
        assert_eq!((even.staging, even.staged_channel), (COPIED, 10.0));
        // 12 results are computed as 16, which takes 8 values more of each row.
        let odd = described(&pool("max_pool", 24, 2, 2, 0));
        assert_eq!(odd.staging, PADDED);
        assert_eq!(odd.staged_channel, log(24.0 * 32.0));
        let padded = described(&pool("avg_pool", 17, 3, 1, 1));
        assert_eq!(padded.staging, PADDED);
        // 17 results are not rounded up, because too many would be computed in vain.
        let plain = described(&pool("avg_pool", 18, 2, 1, 0));
        assert_eq!(plain.staging, IN_PLACE);
    }

    #[test]
    fn what_is_no_window_or_is_not_known_has_nothing() {
        let whole = pool("global_avg_pool", 7, 7, 1, 0);
        assert!(described(&whole).staging.is_nan());
        let mut unknown = pool("max_pool", 24, 2, 2, 0);
        unknown.loop_nest = None;
        assert!(described(&unknown).staging.is_nan());
        let dense = crate::testing::dense_row(1, 1, 1, "{}");
        assert!(described(&dense).staging.is_nan());
    }
}
