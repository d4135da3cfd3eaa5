//! Operands staged near their use: a padding, or a copy of an operand read with a stride. It is computed inside the
//! parallel loop for a few indices at a time, so it stays in the cache.

use opmodels::tile::divisors;
use tvm_bridge::inspect::{Access, IterKind};
use tvm_bridge::{BlockInfo, Result, Schedule};

use super::ContractionKnobs;
use super::pad;
use super::prepare::Part;
use crate::schedule::unfit;

/// A buffer that is filled, piece by piece, close to where the reduction reads it.
pub(super) struct Staged {
    pub filling: Part,
    /// Number of the outermost loops that index the buffer directly: there is one fill for each of their values.
    pub outer_axes: usize,
    /// Step of the innermost axis between neighbouring outputs.
    pub stride: i64,
}

/// Fewest fills worth their parallel loop.
const FEWEST_FILLS: i64 = 8;

/// Bytes that are filled at once if a single channel has fewer. The window's loads of a row that was just stored wait
/// for the store. One by one, 960 channels of 7×7 take 51 µs, 16 at once 20 (Zen 4, 2026-11-26).
const FILL_BYTES: i64 = 10 << 10;

/// Fewer channels at once gain nothing. Two of 28×28 take as long as one after the other, and inside mobilenet twice
/// that, because their copies lie almost 4 KiB apart.
const FEWEST_AT_ONCE: i64 = 4;

/// A window that slides over an operand separately for every value of the outermost axes.
struct Window {
    /// The outermost axes, as iterators of the reduction.
    outer: Vec<usize>,
    /// Bytes of the operand for one value of each outermost axis.
    bytes: i64,
    /// Step of the innermost axis between neighbouring outputs.
    stride: i64,
}

impl Window {
    /// The window over an operand; nothing if the operand is not indexed so, or too few fills would run in parallel.
    fn find(info: &BlockInfo, access: &Access, knobs: &ContractionKnobs) -> Option<Window> {
        let plain = access
            .indices
            .iter()
            .take_while(|i| i.terms.is_empty() || i.plain().is_some())
            .count();
        let outer: Vec<usize> = access.indices[..plain]
            .iter()
            .filter_map(|i| i.plain())
            .collect();
        let leading = &knobs.loop_order[..outer.len().min(knobs.loop_order.len())];
        let spatial = outer.iter().all(|&i| {
            info.iters[i].kind == IterKind::Spatial && leading.contains(&info.iters[i].name)
        });
        let fills: i64 = outer.iter().map(|&i| info.iters[i].extent).product();
        let vector = knobs.vector_axis.as_deref();
        let of_vector = |t: &&(usize, Option<i64>)| Some(info.iters[t.0].name.as_str()) == vector;
        let innermost = access.indices.last()?;
        let stride = innermost.terms.iter().find(of_vector).and_then(|t| t.1)?;
        let bytes = 4 * access.shape[plain..].iter().product::<i64>();
        (spatial && fills >= FEWEST_FILLS && plain < access.indices.len()).then_some(Window {
            outer,
            bytes,
            stride,
        })
    }
}

/// The axis of the channels under a sliding window, and how many are filled and computed at once; nothing for one.
pub(super) fn channels_at_once(
    info: &BlockInfo,
    knobs: &ContractionKnobs,
) -> Option<(String, i64)> {
    let mut windows = info.reads.iter();
    let window = windows.find_map(|access| Window::find(info, access, knobs))?;
    let channels = &info.iters[*window.outer.last()?];
    let most = (FILL_BYTES / window.bytes.max(1)).min(channels.extent / FEWEST_FILLS);
    let several = divisors(channels.extent)
        .take_while(|&d| d <= most)
        .last()?;
    (several >= FEWEST_AT_ONCE).then(|| (channels.name.clone(), several))
}

impl Staged {
    /// The padding of the reduction's operand, or else a copy of an operand that is read with a stride. A window
    /// must slide over it separately for every value of the outermost axes.
    pub fn find(
        s: &Schedule,
        paddings: &[Part],
        anchor: &Part,
        knobs: &ContractionKnobs,
    ) -> Result<Staged> {
        for (operand, access) in anchor.info.reads.iter().enumerate() {
            let Some(window) = Window::find(&anchor.info, access, knobs) else {
                continue;
            };
            let padding = paddings
                .iter()
                .find(|p| p.info.writes.iter().any(|w| w.buffer == access.buffer));
            let filling = match padding {
                Some(padding) if paddings.len() == 1 => padding.clone(),
                None if window.stride > 1 && paddings.is_empty() => {
                    pad::copy_of(s, &anchor.block, operand)?
                }
                _ => continue,
            };
            return Ok(Staged {
                filling,
                outer_axes: window.outer.len(),
                stride: window.stride,
            });
        }
        Err(unfit("no operand is worth filling close to its use"))
    }
}
