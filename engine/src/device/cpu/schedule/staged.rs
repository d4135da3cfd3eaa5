//! Operands staged near their use: a padding, or a copy of an operand read with a stride, computed inside the parallel
//! loop for a few indices at a time, so that it stays in the cache.

use tvm_bridge::inspect::{Access, IterKind};
use tvm_bridge::{Result, Schedule};

use super::ContractionKnobs;
use super::pad;
use super::prepare::Part;
use crate::schedule::unfit;

/// A buffer that is filled, piece by piece, close to where the reduction reads it.
pub(super) struct Staged {
    pub filling: Part,
    /// How many of the outermost loops index the buffer plainly: one fill for each of their values.
    pub outer_axes: usize,
    /// Step of the innermost axis between neighbouring outputs.
    pub stride: i64,
}

/// Fewest fills worth their parallel loop.
const FEWEST_FILLS: i64 = 8;

impl Staged {
    /// The padding of the reduction's operand, or else a copy of an operand that is read with a stride, if a window
    /// slides over it separately for every value of the outermost axes.
    pub fn find(
        s: &Schedule,
        paddings: &[Part],
        anchor: &Part,
        knobs: &ContractionKnobs,
    ) -> Result<Staged> {
        let info = &anchor.info;
        let windows = |access: &Access| -> Option<(usize, i64)> {
            let plain = access
                .indices
                .iter()
                .take_while(|i| i.terms.is_empty() || i.plain().is_some())
                .count();
            let outer: Vec<usize> = access.indices[..plain]
                .iter()
                .filter_map(|i| i.plain())
                .collect();
            let leading = knobs
                .loop_order
                .iter()
                .take(outer.len())
                .collect::<Vec<_>>();
            let spatial = outer.iter().all(|&i| {
                info.iters[i].kind == IterKind::Spatial && leading.contains(&&info.iters[i].name)
            });
            let fills: i64 = outer.iter().map(|&i| info.iters[i].extent).product();
            let vector = knobs.vector_axis.as_deref();
            let stride = access.indices.last().and_then(|index| {
                let of_vector =
                    |t: &&(usize, Option<i64>)| Some(info.iters[t.0].name.as_str()) == vector;
                index.terms.iter().find(of_vector).and_then(|t| t.1)
            });
            (spatial && fills >= FEWEST_FILLS && plain < access.indices.len())
                .then_some((outer.len(), stride?))
        };
        for (operand, access) in info.reads.iter().enumerate() {
            let Some((outer_axes, stride)) = windows(access) else {
                continue;
            };
            let padding = paddings
                .iter()
                .find(|p| p.info.writes.iter().any(|w| w.buffer == access.buffer));
            let filling = match padding {
                Some(padding) if paddings.len() == 1 => padding.clone(),
                None if stride > 1 && paddings.is_empty() => {
                    pad::copy_of(s, &anchor.block, operand)?
                }
                _ => continue,
            };
            return Ok(Staged {
                filling,
                outer_axes,
                stride,
            });
        }
        Err(unfit("no operand is worth filling close to its use"))
    }
}
