//! Windows that slide over each channel on its own (pooling, depthwise convolutions): how a row is computed, in which
//! vectors, and whether the data are copied for it.
//!
//! The importer rounds rows up to whole vectors ([`opmodels::tile::whole_row`]), pads the data for it and crops the
//! results. The collector copies padded or strided data channel by channel, because a row of 12 results costs five
//! times as much as one of 16. A window of 2 x 2 is read in place. All of it follows from the operator.

use opdata::{Dims, LoopKind, Row};
use opmodels::tile::{Tile, VectorExtent, VectorUnit, whole_row};

use crate::features::knobs::Knobs;
use crate::features::list::Values;
use crate::features::operator::{Class, Operator};
use crate::features::scale::log;

/// The data are read in place.
const IN_PLACE: f32 = 0.0;
/// The data are copied into one array for each phase of the stride.
const COPIED: f32 = 1.0;
/// The data are copied into a padding.
const PADDED: f32 = 2.0;

/// Fills in the features of a row's operator, whose rows are computed in these `vectors`; nothing of operators without windows.
pub(in crate::features) fn describe(
    values: &mut Values,
    row: &Row,
    operator: &Operator,
    vectors: Option<&Vectors>,
) {
    values.takes_largest = f32::from(u8::from(row.op_kind == "max_pool"));
    if !matches!(operator.class, Class::Pool | Class::Depthwise) {
        return;
    }
    let Some((windows, vectors)) = Windows::of(row).zip(vectors) else {
        return;
    };
    values.row_vector = log(vectors.length);
    values.row_tile = log(vectors.several as f64);
    values.row_waste = (vectors.computed / vectors.wanted) as f32;
    values.staging = windows.staging(operator.is_padded);
    values.staged_channel = log(windows.channel());
}

/// How vectors cover a row of results.
pub(in crate::features) struct Vectors {
    /// Results in a vector of the register tile.
    pub length: f64,
    /// Vectors of the tile.
    pub several: i64,
    /// Results in a row that are computed.
    pub computed: f64,
    /// Computed results that the operator needs.
    pub wanted: f64,
}

impl Vectors {
    /// The vectors of an operator with windows under this project's schedules: the default one, or that of `knobs`.
    /// Missing for other operators.
    pub fn of(row: &Row, knobs: &Knobs, unit: Option<VectorUnit>) -> Option<Vectors> {
        Windows::of(row)?.vectors(row, knobs, unit)
    }
}

/// The windows of an operator.
struct Windows {
    /// Results in a row that are wanted.
    wanted: u64,
    /// Results in a row that are computed.
    computed: u64,
    /// The innermost other axis of the results with more than one value, by name and extent. `None` if there is no such
    /// axis.
    other: Option<(String, u64)>,
    /// Step along a row.
    stride: u64,
    /// Data of a channel with the padding that the operator has, by axis.
    padded: Vec<u64>,
    /// Values that the last window of a row reads beyond that.
    missing: u64,
}

impl Windows {
    /// The windows of a row that has all these facts, if they have more than one result in a row.
    fn of(row: &Row) -> Option<Windows> {
        let kernel = &row.kernel.as_ref()?.0;
        let rank = kernel.len();
        let loops = row.loop_nest.as_ref()?.0.iter();
        let mut spatial = loops.filter(|l| l.kind == LoopKind::Spatial).rev();
        let wanted = spatial.next()?.extent;
        let other = spatial.find(|l| l.extent > 1);
        let input = &row.input_shapes.as_ref()?.0.first()?.0;
        let data = input.get(input.len().checked_sub(rank)?..)?;
        let at = |dims: Option<&Dims>, place: usize| dims.and_then(|d| d.0.get(place).copied());
        let paddings = |axis: usize| {
            let of = |place| at(row.padding.as_ref(), place).unwrap_or(0);
            of(axis).saturating_add(of(rank + axis))
        };
        let padded: Vec<u64> = (0..rank)
            .map(|axis| data[axis].saturating_add(paddings(axis)))
            .collect();
        let last = rank.checked_sub(1)?;
        let stride = at(row.stride.as_ref(), last).unwrap_or(1).max(1);
        let computed = whole_row(wanted);
        let reach = (computed.checked_sub(1)?)
            .saturating_mul(stride)
            .saturating_add(kernel[last]);
        (wanted > 1).then(|| Windows {
            wanted,
            computed,
            other: other.map(|l| (l.name().to_owned(), l.extent)),
            stride,
            missing: reach.saturating_sub(padded[last]),
            padded,
        })
    }

    fn vectors(&self, row: &Row, knobs: &Knobs, unit: Option<VectorUnit>) -> Option<Vectors> {
        let (length, several) = if row.has_default_schedule() {
            self.default_tile(unit?)
        } else {
            self.tile_of(knobs)
        }?;
        Some(Vectors {
            length: length as f64,
            several,
            computed: self.computed as f64,
            wanted: self.wanted as f64,
        })
    }

    /// Lanes and vectors of the default schedule's register tile.
    fn default_tile(&self, unit: VectorUnit) -> Option<(i64, i64)> {
        let extent = i64::try_from(self.computed).ok()?;
        let other = self.other.as_ref().map_or(1, |(_, extent)| *extent);
        let packed = (extent % unit.lanes() == 0).then_some(unit.lanes());
        // Vectors of one row come one after the other, because more rows share loaded data.
        let vector = match packed {
            Some(lanes) => VectorExtent {
                extent: lanes,
                packed,
            },
            None => VectorExtent { extent, packed },
        };
        let rows = [i64::try_from(other).ok()?, 1];
        let tile = Tile::choose(Some(vector), rows, unit.for_windows());
        Some((
            tile.vector_length,
            tile.vector_blocks * tile.reusing.iter().product::<i64>(),
        ))
    }

    /// The tile of a schedule's own knobs, if it has a register tile.
    fn tile_of(&self, knobs: &Knobs) -> Option<(i64, i64)> {
        let knobs = knobs.contraction()?;
        let other = self
            .other
            .as_ref()
            .map_or(1, |(name, _)| knobs.tile_of(name));
        let vector = knobs.vector_length.max(1);
        Some((
            vector,
            knobs.vector_blocks.max(1).saturating_mul(other.max(1)),
        ))
    }

    /// How the data are staged for windows that run over a padding or not.
    fn staging(&self, is_padded: bool) -> f32 {
        if is_padded || self.missing > 0 {
            PADDED
        } else if self.stride > 1 {
            COPIED
        } else {
            IN_PLACE
        }
    }

    /// Values of a channel that the windows read or that are copied for them.
    fn channel(&self) -> f64 {
        let mut extents: Vec<f64> = self.padded.iter().map(|&n| n as f64).collect();
        if let Some(last) = extents.last_mut() {
            *last += self.missing as f64;
        }
        extents.iter().product()
    }
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
        let knobs = Knobs::read(row.schedule_knobs.as_ref());
        let unit = Some(VectorUnit::of_width(512, true));
        let vectors = Vectors::of(row, &knobs, unit);
        describe(&mut values, row, &Operator::of_row(row), vectors.as_ref());
        values
    }

    #[test]
    fn rows_are_whole_vectors_and_data_are_copied_for_them() {
        // 16 results of 32 values: read apart, without a padding.
        let even = described(&pool("max_pool", 32, 2, 2, 0));
        assert_eq!((even.row_waste, even.staging), (1.0, COPIED));
        assert_eq!((even.row_vector, even.row_tile), (log(16.0), log(8.0)));
        assert_eq!((even.staged_channel, even.takes_largest), (10.0, 1.0));
        // 12 results are computed as 16, which takes 8 values more of each row.
        let odd = described(&pool("max_pool", 24, 2, 2, 0));
        assert_eq!((odd.row_waste, odd.staging), (16.0 / 12.0, PADDED));
        assert_eq!((odd.row_vector, odd.row_tile), (log(16.0), log(6.0)));
        assert_eq!(odd.staged_channel, log(24.0 * 32.0));
        // 17 would waste too much; its last one is computed alone.
        let alone = described(&pool("avg_pool", 17, 3, 1, 1));
        assert_eq!((alone.row_waste, alone.staging), (1.0, PADDED));
        assert_eq!((alone.row_vector, alone.takes_largest), (log(16.0), 0.0));
        let plain = described(&pool("avg_pool", 17, 2, 1, 0));
        assert_eq!(plain.staging, IN_PLACE);
    }

    #[test]
    fn a_schedule_of_its_own_has_its_own_vectors() {
        let mut row = pool("max_pool", 24, 2, 2, 0);
        row.schedule_space = Some("template".to_owned());
        row.schedule_knobs = r#"{"template":"contraction","vector_axis":"xx","vector_length":8,"vector_blocks":2,"tile":[["yy",3]],"loop_order":["nn","cc","yy","xx"],"fused_outer":2}"#.parse().ok();
        let own = described(&row);
        assert_eq!((own.row_vector, own.row_tile), (3.0, log(6.0)));
        assert_eq!(own.row_waste, 16.0 / 12.0);
    }

    #[test]
    fn what_is_no_window_or_is_not_known_has_nothing() {
        let whole = pool("global_avg_pool", 7, 7, 1, 0);
        assert!(described(&whole).row_vector.is_nan());
        let mut log = pool("max_pool", 24, 2, 2, 0);
        log.schedule_space = Some("autotvm".to_owned());
        assert!(described(&log).row_waste.is_nan());
        log.loop_nest = None;
        assert!(described(&log).staging.is_nan());
        assert!(
            described(&crate::testing::dense_row(1, 1, 1, "{}"))
                .row_tile
                .is_nan()
        );
    }
}
