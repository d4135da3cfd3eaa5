//! Operators of models that are quantised already: a product of bytes with sums of 32 bits, and one `requantize`.
//!
//! The importer writes them for processors with dot products of bytes. Data are moved into unsigned bytes (`x ^ 128`),
//! and the bias holds what that adds. VTA multiplies signed bytes, so the move is undone here and the bias put right.

use std::collections::BTreeMap;

use tvm_bridge::DType;
use tvm_bridge::inspect::{Access, BlockInfo, IterKind};
use vtasim::Workload;

use super::operator::{Axis, Function, Offload, Refusal, data_layout, layout, symmetric_padding};

/// The value that represents zero in data that were shifted to unsigned bytes.
pub(super) const MOVED_ZERO: i32 = 128;

/// Attributes of a product of bytes, besides its workload.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Bytes {
    /// Places of the parameters of `round((sum + correction) * factor + offset) + zero`, each one value or one a filter.
    pub correction: usize,
    pub factor: usize,
    pub offset: usize,
    pub zero: f64,
    /// Bounds of the result.
    pub bounds: [f64; 2],
}

/// The part of a product of bytes that VTA can run.
///
/// # Errors
/// Fails if there is no such part, and says why.
pub(super) fn offload(f: &Function, at: usize) -> Result<Offload, Refusal> {
    let product = &f.blocks[at];
    let ([data, weights], [written]) = (&product.reads[..], &product.writes[..]) else {
        return Err("its reduction does not read two tensors".to_owned());
    };
    let roles = roles(product, written)?;
    let output = layout(written, &roles)?;
    let (stride, data_axes) = data_layout(data, product, &roles)?;
    let weight_layout = layout(weights, &roles)?;
    if at != 1 {
        return Err("its data are not moved into unsigned bytes first".to_owned());
    }
    let (read, padding) = moved(&f.blocks[0], &f.values[0], data, &data_axes)?;
    let [last] = &f.blocks[at + 1..] else {
        return Err("its sums are not requantised, and VTA stores bytes alone".to_owned());
    };
    let filters = output.iter().find(|(axis, _)| *axis == Axis::Filter);
    let filters = filters.map_or(1, |(_, extent)| *extent);
    let bytes = requantise(f, &written.buffer, last, &f.values[at + 1], filters)?;
    let extent = |axis: Axis| -> u64 {
        let found = roles.iter().find(|(_, role)| **role == axis);
        found.map_or(1, |(iter, _)| product.iters[*iter].extent.max(0) as u64)
    };
    let is_image = read.shape.len() == 4;
    let shape = |place: usize| read.shape[place].max(0) as u64;
    let workload = Workload {
        batch: extent(Axis::Batch),
        in_channels: shape(1),
        height: if is_image { shape(2) } else { shape(0) },
        width: if is_image { shape(3) } else { 1 },
        out_channels: extent(Axis::Filter),
        kernel: [extent(Axis::TapRow), extent(Axis::TapColumn)],
        stride,
        padding,
    };
    if workload.output() != [extent(Axis::Row), extent(Axis::Column)] {
        return Err("its padding is not the same on both sides".to_owned());
    }
    let axes: &[Axis] = match is_image {
        true => &[Axis::Batch, Axis::Channel, Axis::Row, Axis::Column],
        false => &[Axis::Row, Axis::Channel],
    };
    let parameter = |access: &Access| f.parameter(&access.buffer);
    Ok(Offload {
        workload,
        data: (
            parameter(read).ok_or("its data is no parameter")?,
            axes.iter()
                .copied()
                .zip(read.shape.iter().copied())
                .collect(),
        ),
        weights: (
            parameter(weights).ok_or("its weights are no parameter")?,
            weight_layout,
        ),
        bias: None,
        bounds: [None, None],
        output,
        rest: None,
        bytes: Some(bytes),
        parameters: f.parameters.len(),
    })
}

/// The axis of each iterator of a product of bytes: channels are in blocks of the length of a dot product.
fn roles(product: &BlockInfo, written: &Access) -> Result<BTreeMap<usize, Axis>, Refusal> {
    let spatial: Option<Vec<usize>> = written.indices.iter().map(|i| i.plain()).collect();
    let spatial = spatial.ok_or("its output is not written element by element")?;
    let reduction: Vec<usize> = product.of_kind(IterKind::Reduction).collect();
    let size = reduction
        .last()
        .map_or(1, |&inner| product.iters[inner].extent);
    let (block, inner) = (Axis::ChannelBlock(size), Axis::ChannelInBlock(size));
    let axes = match (spatial.len(), reduction.len()) {
        (4, 4) => vec![
            Axis::Batch,
            Axis::Filter,
            Axis::Row,
            Axis::Column,
            block,
            Axis::TapRow,
            Axis::TapColumn,
            inner,
        ],
        (2, 2) => vec![Axis::Row, Axis::Filter, block, inner],
        _ => return Err("it is neither a convolution of images nor a dense layer".to_owned()),
    };
    Ok(spatial.into_iter().chain(reduction).zip(axes).collect())
}

/// The access of the first block and its padding, if it shifts data to unsigned bytes in blocks of channels and pads
/// them with zero.
fn moved<'a>(
    first: &'a BlockInfo,
    value: &str,
    data: &Access,
    axes: &[Axis],
) -> Result<(&'a Access, [u64; 2]), Refusal> {
    let other = || "something comes before its sum of products".to_owned();
    let ([read], [written]) = (&first.reads[..], &first.writes[..]) else {
        return Err(other());
    };
    let blocks = axes
        .iter()
        .any(|axis| matches!(axis, Axis::ChannelBlock(_)));
    let is_image = read.shape.len() == 4 && written.shape.len() == 5;
    let is_dense = read.shape.len() == 2 && written.shape.len() == 3;
    let size = written.shape.last().copied().unwrap_or(1);
    let channels = read.indices.get(1).map(|index| &index.terms[..]);
    let inner = written.shape.len() - 1;
    if written.buffer != data.buffer
        || !(is_image || is_dense)
        || !blocks
        || channels != Some(&[(1, Some(size)), (inner, Some(1))])
        || read.shape[1] != written.shape[1] * size
    {
        return Err(other());
    }
    let element = format!("{}[", read.buffer);
    let is_moved = match read.dtype {
        Some(DType::Int8) => value.contains("^ T.uint8(128)"),
        Some(DType::UInt8) => !value.contains('^'),
        _ => false,
    };
    if !is_moved || !value.contains(&element) {
        return Err(other());
    }
    let padding = match is_image {
        false => [0, 0],
        true => symmetric_padding(
            value,
            [read.shape[2], read.shape[3]],
            [written.shape[2], written.shape[3]],
        )?,
    };
    let zero = format!(", T.uint8({MOVED_ZERO}))");
    match padding == [0, 0] || value.ends_with(&zero) {
        true => Ok((read, padding)),
        false => Err("it pads with a zero point that is not zero".to_owned()),
    }
}

/// The rescaling in the block after the sums, if it is one `requantize`.
fn requantise(
    f: &Function,
    sums: &str,
    block: &BlockInfo,
    value: &str,
    filters: i64,
) -> Result<Bytes, Refusal> {
    let other = || "its sums are not requantised as VTA can do it".to_owned();
    let others: Vec<&Access> = block.reads.iter().filter(|r| r.buffer != sums).collect();
    let [correction, factor, offset] = others[..] else {
        return Err(other());
    };
    let inner = value
        .strip_prefix("T.Cast(\"int8\", ")
        .or_else(|| value.strip_prefix("T.Cast(\"uint8\", "))
        .and_then(|inner| inner.strip_prefix("T.max(T.min(T.round("))
        .and_then(|inner| inner.strip_suffix(')'))
        .ok_or_else(other)?;
    // From the end: `, T.float32(low))`, `, T.float32(high))`, and the zero point if there is one.
    let constant = |text: &'_ str, before: &str| -> Option<(usize, f64)> {
        let at = text.rfind(before)?;
        let number = text[at + before.len()..].trim_end_matches(')');
        Some((at, number.parse().ok()?))
    };
    let (at, low) = constant(inner, ", T.float32(").ok_or_else(other)?;
    let inner = &inner[..at];
    let (at, high) = constant(inner, ", T.float32(").ok_or_else(other)?;
    let inner = &inner[..at];
    let (inner, zero) = match constant(inner, ") + T.float32(") {
        Some((at, zero)) => (&inner[..at], zero),
        None => (inner.strip_suffix(')').ok_or_else(other)?, 0.0),
    };
    let bounds = [low, high];
    let parts = [
        format!("T.Cast(\"float32\", {sums}["),
        format!("] + {}[", correction.buffer),
        format!("]) * {}[", factor.buffer),
        format!("] + {}[", offset.buffer),
    ];
    // The parts occur once each, in this order, and nothing else is computed.
    let mut rest = inner;
    for part in &parts {
        rest = rest.split_once(part.as_str()).ok_or_else(other)?.1;
    }
    let operators = inner.matches(" * ").count() + inner.matches(" + ").count();
    let per_filter = |access: &Access| {
        let elements: i64 = access.shape.iter().product();
        elements == 1 || elements == filters
    };
    let fits = operators == 3
        && inner.starts_with(&parts[0])
        && correction.dtype == Some(DType::Int32)
        && [correction, factor, offset].into_iter().all(per_filter);
    let place = |access: &Access| f.parameter(&access.buffer).ok_or_else(other);
    match fits {
        true => Ok(Bytes {
            correction: place(correction)?,
            factor: place(factor)?,
            offset: place(offset)?,
            zero,
            bounds,
        }),
        false => Err(other()),
    }
}
