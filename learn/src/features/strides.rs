//! How far apart in memory the channels of an image lie, or the rows of a matrix, as far as caches care.
//!
//! A first-level cache of 64 sets of lines of 64 bytes finds its set by an address modulo 4,096 bytes. Channels that lie a
//! multiple of that apart share one set, which holds 8 to 12 of their lines: a kernel that writes or reads one pixel of many
//! channels after the other evicts its own lines.

use opdata::{DeviceKind, Dims, Row, Shapes};

use super::list::Values;
use super::nest::Nest;
use super::operator::{Class, Operator, element_bytes};
use super::scale::log;

/// Bytes after which addresses fall into the same set.
const PERIOD: u64 = 4096;
/// Channels of a tile whose lines can be written without evicting one another, though they share a set: tiles of 16 of them take
/// no longer than others (convolutions of 1 x 1, Zen 4).
const HELD: f64 = 16.0;

/// Fills in the features of a row on a CPU.
pub(super) fn describe(values: &mut Values, row: &Row) {
    if row.device_kind != DeviceKind::CPU {
        return;
    }
    let element = element_bytes(row.dtypes.as_deref()) as u64;
    let of = |shapes: &Option<Shapes>| {
        let first = shapes.as_ref().and_then(|shapes| shapes.0.first());
        let step = first.and_then(|shape| step(shape, element));
        step.map_or(f32::NAN, |step| log(step as f64))
    };
    values.input_step = of(&row.input_shapes);
    values.output_step = of(&row.output_shapes);
}

/// Results that a convolution with the default schedule writes into lines which others of its tile evict: a tile writes a few
/// pixels of each of its channels. 0 for all else.
pub(super) fn evicted_results(row: &Row, operator: &Operator, nest: &Nest) -> f64 {
    let Nest::Cpu(nest) = nest else { return 0.0 };
    let element = operator.element_bytes as u64;
    let shape = row
        .output_shapes
        .as_ref()
        .and_then(|shapes| shapes.0.first());
    let same_set = shape.and_then(|shape| step(shape, element)) == Some(PERIOD);
    let by_channel = operator.class == Class::Conv && row.has_default_schedule();
    if same_set && by_channel {
        operator.own_elements * (1.0 - HELD / nest.columns_block).max(0.0)
    } else {
        0.0
    }
}

/// The largest power of two, up to [`PERIOD`], that divides the bytes from one channel to the next.
fn step(shape: &Dims, element: u64) -> Option<u64> {
    let inner = match shape.0.len() {
        0 | 1 => return None,
        2 => 1,
        _ => 2,
    };
    let factors = shape.0[inner..].iter().chain([&element]);
    // Zeros at the end of the binary number add up where its factors are multiplied, which could overflow.
    let zeros = factors.map(|&n| (n > 0).then(|| n.trailing_zeros()));
    let zeros: u32 = zeros.sum::<Option<u32>>()?;
    Some(1 << zeros.min(PERIOD.trailing_zeros()))
}

#[cfg(test)]
mod tests {
    use super::super::cpu::RegisterTile;
    use super::*;
    use crate::testing::conv_row;

    #[test]
    fn channels_of_images_with_sides_of_powers_of_two_share_a_set() {
        let steps = |side: u64| {
            let row = conv_row([1, 64, side, side], [48, 3, 1], "{}");
            let mut values = Values::default();
            describe(&mut values, &row);
            (values.input_step.exp2(), values.output_step.exp2())
        };
        assert_eq!(steps(56), (256.0, 256.0));
        assert_eq!(steps(28), (64.0, 64.0));
        assert_eq!(steps(32), (4096.0, 4096.0));
        assert_eq!(steps(128), (4096.0, 4096.0));
        assert_eq!(steps(7), (4.0, 4.0));
    }

    #[test]
    fn results_are_evicted_where_a_tile_has_more_channels_than_a_set_holds() {
        let evicted = |side: u64, channels: f64| {
            let row = Row {
                schedule_space: Some("default".to_owned()),
                ..conv_row([1, 64, side, side], [48, 1, 1], "{}")
            };
            let operator = Operator::of_row(&row);
            let tile = RegisterTile {
                vector: 16.0,
                blocks: channels / 16.0,
                broadcast: 4.0,
            };
            let nest = Nest::Cpu(tile.nest(&operator));
            evicted_results(&row, &operator, &nest) / (48.0 * (side * side) as f64)
        };
        assert_eq!((evicted(32, 48.0), evicted(32, 32.0)), (2.0 / 3.0, 0.5));
        assert_eq!((evicted(32, 16.0), evicted(28, 48.0)), (0.0, 0.0));
    }

    #[test]
    fn rows_of_matrices_count_and_vectors_have_no_step() {
        let shape = |extents: &[u64]| step(&Dims(extents.to_vec()), 4);
        assert_eq!(shape(&[128, 768]), Some(1024));
        assert_eq!(shape(&[8, 3]), Some(4));
        assert_eq!(shape(&[768]), None);
        assert_eq!(shape(&[3, 0]), None);
        assert_eq!(shape(&[1, 1, u64::MAX, u64::MAX]), Some(4));
    }
}
