//! The register tile of an operator whose schedule is the collector's default.
//!
//! An operator that is only asked about was never scheduled. Its default schedule follows from its loops and from how
//! its weights are packed. The collector schedules by the same arithmetic ([`opmodels::tile`]). It is taken from these
//! columns for rows that were measured, too, so that training and queries see the same. It is known without looking at
//! the program only for convolutions and products.

use opdata::{LoopKind, Row};
use opmodels::tile::{PixelTile, Tile, VectorExtent, VectorUnit, pieces};

use crate::features::cpu::nest::{CpuNest, RegisterTile};
use crate::features::cpu::own;
use crate::features::knobs::Knobs;
use crate::features::operator::{Class, Operator};

/// The nest under the default schedule, where it is known.
pub(super) fn nest(row: &Row, operator: &Operator, unit: VectorUnit) -> Option<CpuNest> {
    if let Some(tile) = pixel_tile(row, operator, unit) {
        let [width, blocks, lanes] = [tile.columns, tile.vector_blocks, unit.lanes()];
        let nest = own::along_pixels(operator, width as f64, blocks as f64, lanes as f64);
        return Some(nest);
    }
    let tile = tile(row, operator.class, unit)?;
    let tile = RegisterTile {
        vector: tile.vector_length as f64,
        blocks: tile.vector_blocks as f64,
        broadcast: tile.reusing.iter().product::<i64>() as f64,
    };
    Some(tile.nest(operator))
}

/// The tile of a convolution of 1×1 windows over whole vectors of pixels. Rows from before 2026-11-26 have another one,
/// which they name.
fn pixel_tile(row: &Row, o: &Operator, unit: VectorUnit) -> Option<PixelTile> {
    let is_pointwise = o.class == Class::Conv
        && o.window == 1.0
        && o.stride == 1.0
        && (o.in_height, o.in_width) == (o.out_height, o.out_width)
        && row.loop_nest.as_ref()?.0.len() == 7;
    let names_another = || {
        let recorded = Knobs::read(row.schedule_knobs.as_ref());
        recorded.contraction().is_some()
    };
    if !is_pointwise || names_another() {
        return None;
    }
    let run = packed(row.weight_layout.as_deref()?)?;
    let outputs = pieces(o.columns as i64, run).saturating_mul(run);
    let pixels = (o.out_height * o.out_width) as i64;
    PixelTile::suggested(o.in_channels as i64, outputs, pixels, unit)
}

fn tile(row: &Row, class: Class, unit: VectorUnit) -> Option<Tile> {
    let mut spatial: Vec<i64> = row
        .loop_nest
        .as_ref()?
        .0
        .iter()
        .filter(|l| l.kind == LoopKind::Spatial)
        .map(|l| i64::try_from(l.extent).ok())
        .collect::<Option<_>>()?;
    let packed = row.weight_layout.as_deref().and_then(packed);
    // The axis that the vectors run along: channels after the batch, or columns.
    let place = match class {
        Class::Conv => 1,
        Class::Dense | Class::BatchMatmul => spatial.len().checked_sub(1)?,
        _ => return None,
    };
    if packed.is_none() && class != Class::BatchMatmul {
        return None;
    }
    if place >= spatial.len() {
        return None;
    }
    let wanted = spatial.remove(place);
    // The last run of packed channels is filled up, and computed with the rest.
    let extent = packed.map_or(wanted, |run| pieces(wanted, run).saturating_mul(run));
    if class == Class::BatchMatmul {
        // Both operands have the batch axis, so loaded values are never reused along it.
        spatial = spatial.split_off(spatial.len().checked_sub(1)?);
    }
    let mut reusing = spatial.into_iter().rev().filter(|&extent| extent > 1);
    let reusing = [reusing.next().unwrap_or(1), reusing.next().unwrap_or(1)];
    (extent > 1).then(|| Tile::choose(Some(VectorExtent { extent, packed }), reusing, unit))
}

/// Number of adjacent output channels in packed weights, such as 16 of `OIHW16o` and `NK16n`.
fn packed(layout: &str) -> Option<i64> {
    let digits = layout.strip_suffix(['o', 'n'])?;
    let start = digits.trim_end_matches(|c: char| c.is_ascii_digit()).len();
    let run: u16 = digits[start..].parse().ok().filter(|&run| run > 0)?;
    Some(i64::from(run))
}

#[cfg(test)]
mod tests {
    use super::*;
    use opdata::Loop;

    fn tile_of(spatial: &[u64], layout: Option<&str>, class: Class) -> Option<Tile> {
        let mut row = crate::testing::dense_row(1, 1, 64, "{}");
        row.loop_nest = Some(
            spatial
                .iter()
                .map(|&extent| Loop::new("s", extent, LoopKind::Spatial))
                .chain([Loop::new("k", 64, LoopKind::Reduction)])
                .collect(),
        );
        row.weight_layout = layout.map(str::to_owned);
        tile(&row, class, VectorUnit::of_width(512, true))
    }

    /// Tiles that the collector chose for these operators on a machine with AVX-512.
    #[test]
    fn the_tile_is_the_collectors() {
        for (spatial, layout, class, vector, blocks, broadcast) in [
            (
                &[1, 480, 14, 14][..],
                Some("OIHW16o"),
                Class::Conv,
                16,
                3,
                5,
            ),
            (&[1, 128, 32, 32], Some("OIHW16o"), Class::Conv, 16, 2, 8),
            (&[1, 8, 1, 1], Some("OIHW8o"), Class::Conv, 8, 1, 1),
            (&[1, 1000, 13, 13], Some("OIHW16o"), Class::Conv, 16, 3, 5),
            (&[1, 512, 2, 7, 7], Some("OIDHW16o"), Class::Conv, 16, 2, 7),
            (&[1, 128], Some("NK16n"), Class::Dense, 16, 8, 1),
            (&[1, 2, 16, 64], None, Class::BatchMatmul, 64, 1, 4),
            (&[12, 197, 197], None, Class::BatchMatmul, 16, 1, 16),
            (&[3, 100, 100], None, Class::BatchMatmul, 10, 2, 8),
        ] {
            let tile = tile_of(spatial, layout, class).unwrap();
            assert_eq!(
                (
                    tile.vector_length,
                    tile.vector_blocks,
                    tile.reusing.iter().product()
                ),
                (vector, blocks, broadcast),
                "{spatial:?}"
            );
        }
    }

    #[test]
    fn one_by_one_windows_have_vectors_of_pixels_unless_a_row_says_otherwise() {
        let tile_of = |input, shape, knobs: &str| {
            let mut row = crate::testing::conv_row(input, shape, knobs);
            row.weight_layout = Some("OIHW16o".to_owned());
            let operator = Operator::of_row(&row);
            let tile = pixel_tile(&row, &operator, VectorUnit::of_width(512, true))?;
            Some((tile.columns, tile.vector_blocks))
        };
        assert_eq!(tile_of([1, 64, 56, 56], [256, 1, 1], "{}"), Some((8, 2)));
        assert_eq!(tile_of([1, 256, 56, 56], [64, 1, 1], "{}"), Some((16, 1)));
        // No whole vectors, a stride, a window, and a row of another schedule.
        assert_eq!(tile_of([1, 64, 14, 14], [256, 1, 1], "{}"), None);
        assert_eq!(tile_of([1, 64, 56, 56], [256, 1, 2], "{}"), None);
        assert_eq!(tile_of([1, 64, 56, 56], [256, 3, 1], "{}"), None);
        let direct = r#"{"template":"contraction","vector_length":16,"vector_blocks":2,"tile":[["xx",8]],"loop_order":["xx"],"fused_outer":1}"#;
        assert_eq!(tile_of([1, 64, 56, 56], [256, 1, 1], direct), None);
    }

    #[test]
    fn what_no_column_says_is_unknown() {
        assert_eq!(tile_of(&[1, 64, 8, 8], Some("OIHW"), Class::Conv), None);
        assert_eq!(tile_of(&[1, 64, 8, 8], None, Class::Depthwise), None);
        assert_eq!(tile_of(&[16, 1], Some("NK1n"), Class::Dense), None);
        assert_eq!(tile_of(&[], Some("NK16n"), Class::Dense), None);
        assert_eq!(packed("OIHW99999999999999o"), None);
        assert_eq!(packed("o"), None);
        assert_eq!(packed("OIHW0o"), None);
    }
}
