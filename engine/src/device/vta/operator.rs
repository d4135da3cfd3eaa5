//! Finds the part of an operator that VTA can run, from its TensorIR.
//!
//! VTA does one convolution or dense layer without groups and dilation. It also does what follows it if that is a bias
//! for each channel, a bound below or above, or a crop of channels. All further statements of the function are left to
//! the processor beside it ([`Offload::rest`]).

use std::collections::BTreeMap;

use tvm_bridge::inspect::{Access, BlockInfo, IterKind};
use tvm_bridge::{PrimFunc, Schedule};
use vtasim::Workload;

use super::bytes::{self, Bytes};

/// The meaning of a tensor's dimension.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Axis {
    Batch,
    Channel,
    Row,
    Column,
    /// Blocks of this number of channels.
    ChannelBlock(i64),
    /// A channel within its block.
    ChannelInBlock(i64),
    Filter,
    /// Blocks of this number of filters.
    FilterBlock(i64),
    /// A filter within its block.
    FilterInBlock(i64),
    TapRow,
    TapColumn,
    /// An extent of 1 that nothing counts.
    Unit,
}

/// A tensor in memory: what each dimension counts, and its extent; row-major.
pub(super) type Layout = Vec<(Axis, i64)>;

/// The part of an operator that VTA does.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Offload {
    pub workload: Workload,
    /// Places of the parameters, and how they lie in memory.
    pub data: (usize, Layout),
    pub weights: (usize, Layout),
    /// The parameter with one value for each filter.
    pub bias: Option<usize>,
    /// Bounds of the result.
    pub bounds: [Option<f64>; 2],
    /// Memory layout of the result.
    pub output: Layout,
    /// The processor's work on the result. `None` if the result is the function's own output.
    pub rest: Option<Rest>,
    /// Further attributes if it is a product of bytes.
    pub bytes: Option<Bytes>,
    /// Parameters of the function, the output last.
    pub parameters: usize,
}

/// The statements that VTA does not do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Rest {
    /// Statements that VTA does.
    pub statements: usize,
    /// The local buffer that the next statement reads.
    pub buffer: String,
    /// The names of the blocks that are left.
    pub blocks: Vec<String>,
}

/// The reason why VTA runs no part of an operator, as a clause.
pub(super) type Refusal = String;

/// An operator's function, taken apart.
pub(super) struct Function {
    pub parameters: Vec<String>,
    /// Blocks in their order.
    pub blocks: Vec<BlockInfo>,
    /// Right-hand sides of their assignments.
    pub values: Vec<String>,
}

impl Function {
    fn read(function: &PrimFunc) -> Result<Function, Refusal> {
        let failed = |error: tvm_bridge::Error| error.to_string();
        let script = function.script().map_err(failed)?;
        let schedule = Schedule::new(function, 0).map_err(failed)?;
        let blocks = schedule.blocks().map_err(failed)?;
        let infos = blocks.iter().map(|block| schedule.info(block));
        let blocks = infos
            .collect::<tvm_bridge::Result<Vec<_>>>()
            .map_err(failed)?;
        let parameters = script
            .lines()
            .find(|line| line.trim_start().starts_with("def "))
            .and_then(|line| line.split_once('('))
            .map(|(_, list)| {
                list.split(": T.Buffer(")
                    .filter_map(|part| part.rsplit([' ', '(']).next())
            })
            .ok_or("its script has no parameters")?;
        let mut parameters: Vec<String> = parameters.map(str::to_owned).collect();
        // Behind the last `: T.Buffer(` comes the type of the last parameter.
        parameters.pop();
        let mut values: Vec<(String, String)> = Vec::new();
        for line in script.lines().map(str::trim) {
            if let Some((target, value)) = line.split_once("] = ")
                && let Some((buffer, _)) = target.split_once('[')
                && !value.starts_with("T.axis")
            {
                // A reduction has its first value in a line of its own; the last assignment to a buffer counts.
                match values.last_mut() {
                    Some((last, own)) if last == buffer => value.clone_into(own),
                    _ => values.push((buffer.to_owned(), value.to_owned())),
                }
            }
        }
        match values.len() == blocks.len() {
            true => Ok(Function {
                parameters,
                blocks,
                values: values.into_iter().map(|(_, value)| value).collect(),
            }),
            false => Err("it has a statement of another form than a loop nest".to_owned()),
        }
    }

    pub fn parameter(&self, buffer: &str) -> Option<usize> {
        self.parameters.iter().position(|own| own == buffer)
    }
}

/// The part of `function` that VTA can run; `block` is the number of channels that it computes at once.
///
/// # Errors
/// Fails if there is no such part, and says why.
pub(super) fn offload(function: &PrimFunc, block: u64) -> Result<Offload, Refusal> {
    let f = Function::read(function)?;
    let at = f
        .blocks
        .iter()
        .position(BlockInfo::is_reduction)
        .ok_or("it has no sum of products")?;
    let found = match f.values[at].contains("T.Cast(\"int32\", ") {
        true => bytes::offload(&f, at)?,
        false => offload_floats(&f, at)?,
    };
    match found.workload.in_channels < block {
        true => Err(format!(
            "it has {} input channels, fewer than the {block} of a block",
            found.workload.in_channels
        )),
        false => Ok(found),
    }
}

/// The part of an operator in floating point.
fn offload_floats(f: &Function, at: usize) -> Result<Offload, Refusal> {
    let product = &f.blocks[at];
    let ([data, weights], [written]) = (&product.reads[..], &product.writes[..]) else {
        return Err("its reduction does not read two tensors".to_owned());
    };
    if !f.values[at].contains("] * ") || !f.values[at].contains("] + ") {
        return Err("its reduction is no sum of products".to_owned());
    }
    let roles = roles(product, written)?;
    let output = layout(written, &roles)?;
    let (strides, data_layout) = data_layout(data, product, &roles)?;
    let weight_layout = layout(weights, &roles)?;
    if weight_layout
        .iter()
        .any(|(axis, _)| matches!(axis, Axis::Row | Axis::Batch))
    {
        return Err("its weights differ from row to row".to_owned());
    }
    let (padding, data_parameter, data_shape) = match at {
        0 => ([0, 0], f.parameter(&data.buffer), data.shape.clone()),
        1 => padded(f, data)?,
        _ => return Err("something comes before its sum of products".to_owned()),
    };
    let extent = |axis: Axis| -> u64 {
        let own =
            |(iter, role): (&usize, &Axis)| (*role == axis).then(|| product.iters[*iter].extent);
        roles.iter().find_map(own).unwrap_or(1).max(0) as u64
    };
    let of_data = |axis: Axis| {
        let place = data_layout.iter().position(|own| *own == axis);
        place.map_or(1, |place| data_shape[place].max(0) as u64)
    };
    let workload = Workload {
        batch: extent(Axis::Batch),
        in_channels: extent(Axis::Channel),
        height: of_data(Axis::Row),
        width: of_data(Axis::Column),
        out_channels: extent(Axis::Filter),
        kernel: [extent(Axis::TapRow), extent(Axis::TapColumn)],
        stride: strides,
        padding,
    };
    if workload.output() != [extent(Axis::Row), extent(Axis::Column)] {
        return Err("its padding is not the same on both sides".to_owned());
    }
    let mut found = Offload {
        workload,
        data: (
            data_parameter.ok_or("its data is no parameter")?,
            data_layout.into_iter().zip(data_shape).collect(),
        ),
        weights: (
            f.parameter(&weights.buffer)
                .ok_or("its weights are no parameter")?,
            weight_layout,
        ),
        bias: None,
        bounds: [None, None],
        output,
        rest: None,
        bytes: None,
        parameters: f.parameters.len(),
    };
    found.follow(f, at)?;
    Ok(found)
}

impl Offload {
    /// The blocks that VTA does not do.
    pub fn cpu_side(&self) -> Vec<String> {
        self.rest
            .as_ref()
            .map_or_else(Vec::new, |rest| rest.blocks.clone())
    }

    /// Takes the statements after the product as long as VTA can do them.
    fn follow(&mut self, f: &Function, product: usize) -> Result<(), Refusal> {
        let mut done = product;
        while let Some(next) = f.blocks.get(done + 1)
            && self.take(f, done, next, &f.values[done + 1])
        {
            done += 1;
        }
        let buffer = f.blocks[done].writes[0].buffer.clone();
        let rest = &f.blocks[done + 1..];
        if rest.is_empty() {
            return Ok(());
        }
        let reads_earlier = |block: &BlockInfo| {
            let mut gone = f.blocks[..done].iter();
            block
                .reads
                .iter()
                .any(|read| gone.any(|b| b.writes[0].buffer == read.buffer))
        };
        if rest.iter().any(reads_earlier) {
            return Err("a later statement reads a value that stays inside VTA".to_owned());
        }
        self.rest = Some(Rest {
            statements: done + 1,
            buffer,
            blocks: rest.iter().map(|block| block.name.clone()).collect(),
        });
        Ok(())
    }

    /// Adds the block `next` to VTA's part if VTA can run it; returns whether it can.
    fn take(&mut self, f: &Function, done: usize, next: &BlockInfo, value: &str) -> bool {
        let current = &f.blocks[done].writes[0].buffer;
        let [written] = &next.writes[..] else {
            return false;
        };
        let Some(read) = next.reads.iter().find(|read| read.buffer == *current) else {
            return false;
        };
        let plain = |access: &Access| {
            access
                .indices
                .iter()
                .map(|i| i.plain())
                .collect::<Option<Vec<_>>>()
        };
        let same =
            |a: &Access, b: &Access| a.indices.len() == b.indices.len() && a.indices == b.indices;
        if !same(read, written)
            || plain(written).is_none()
            || written.shape.len() != self.output.len()
        {
            return false;
        }
        let others: Vec<&Access> = next.reads.iter().filter(|r| r.buffer != *current).collect();
        let filter = self
            .output
            .iter()
            .position(|(axis, _)| *axis == Axis::Filter);
        let Some(filter) = filter else { return false };
        let element = |access: &Access| format!("{}[", access.buffer);
        match others[..] {
            [bias] => {
                let along = written.indices[filter].plain();
                let is_of_filter = bias.indices.iter().all(|index| {
                    index.terms.is_empty() || (index.plain().is_some() && index.plain() == along)
                });
                let is_sum = value.starts_with(&element(read))
                    && value.contains(&format!("] + {}", element(bias)));
                let place = f.parameter(&bias.buffer);
                let fits =
                    is_of_filter && is_sum && self.bias.is_none() && self.bounds == [None, None];
                if fits
                    && bias.shape.iter().product::<i64>() == written.shape[filter]
                    && place.is_some()
                {
                    self.bias = place;
                    return self.crop(written, filter);
                }
                false
            }
            [] => match bounds(value, &element(read)) {
                Some([low, high]) => {
                    let both =
                        |own: Option<f64>, new: Option<f64>, pick: fn(f64, f64) -> f64| match (
                            own, new,
                        ) {
                            (Some(a), Some(b)) => Some(pick(a, b)),
                            (own, new) => own.or(new),
                        };
                    if !self.crop(written, filter) {
                        return false;
                    }
                    self.bounds = [
                        both(self.bounds[0], low, f64::max),
                        both(self.bounds[1], high, f64::min),
                    ];
                    true
                }
                None => false,
            },
            _ => false,
        }
    }

    /// Takes a block's output as the result's shape: it may have fewer filters.
    fn crop(&mut self, written: &Access, filter: usize) -> bool {
        let fits = self
            .output
            .iter()
            .zip(&written.shape)
            .enumerate()
            .all(|(place, ((_, own), new))| own == new || (place == filter && new < own));
        if fits {
            self.output[filter].1 = written.shape[filter];
            self.workload.out_channels = written.shape[filter].max(0) as u64;
        }
        fits
    }
}

/// The bounds of `T.max(x, low)`, `T.min(x, high)` and both in each other; none at all for `x` itself.
fn bounds(value: &str, element: &str) -> Option<[Option<f64>; 2]> {
    let value = value.trim();
    if value.starts_with(element) && value.ends_with(']') && value.matches('[').count() == 1 {
        return Some([None, None]);
    }
    let (side, inner) = match (value.strip_prefix("T.max("), value.strip_prefix("T.min(")) {
        (Some(inner), _) => (0, inner),
        (_, Some(inner)) => (1, inner),
        _ => return None,
    };
    let (inner, constant) = inner.strip_suffix(')')?.rsplit_once(", T.float32(")?;
    let constant: f64 = constant.strip_suffix(')')?.parse().ok()?;
    let mut own = bounds(inner, element)?;
    own[side] = match (own[side], side) {
        (None, _) => Some(constant),
        (Some(before), 0) => Some(before.max(constant)),
        (Some(before), _) => Some(before.min(constant)),
    };
    Some(own)
}

/// The axis of each iterator of a sum of products.
fn roles(product: &BlockInfo, written: &Access) -> Result<BTreeMap<usize, Axis>, Refusal> {
    let spatial: Option<Vec<usize>> = written.indices.iter().map(|i| i.plain()).collect();
    let spatial = spatial.ok_or("its output is not written element by element")?;
    let reduction: Vec<usize> = product.of_kind(IterKind::Reduction).collect();
    let axes: (&[Axis], &[Axis]) = match (spatial.len(), reduction.len()) {
        (4, 3) => (
            &[Axis::Batch, Axis::Filter, Axis::Row, Axis::Column],
            &[Axis::Channel, Axis::TapRow, Axis::TapColumn],
        ),
        (2, 1) => (&[Axis::Row, Axis::Filter], &[Axis::Channel]),
        (3, 1) if product.iters[spatial[0]].extent == 1 => {
            (&[Axis::Unit, Axis::Row, Axis::Filter], &[Axis::Channel])
        }
        _ => return Err("it is neither a convolution of images nor a dense layer".to_owned()),
    };
    let pairs = spatial
        .into_iter()
        .zip(axes.0)
        .chain(reduction.into_iter().zip(axes.1));
    Ok(pairs.map(|(iter, axis)| (iter, *axis)).collect())
}

/// The axes of the dimensions of the output or the weights.
pub(super) fn layout(access: &Access, roles: &BTreeMap<usize, Axis>) -> Result<Layout, Refusal> {
    let other = || {
        format!(
            "it reads {} in another order than a convolution does",
            access.buffer
        )
    };
    let dims = access
        .indices
        .iter()
        .zip(&access.shape)
        .map(|(index, &extent)| {
            if let Some(iter) = index.plain() {
                return Ok((*roles.get(&iter).ok_or_else(other)?, extent));
            }
            if let Some((iter, size)) = index.quotient
                && roles.get(&iter) == Some(&Axis::Filter)
            {
                return Ok((Axis::FilterBlock(size), extent));
            }
            match index.terms[..] {
                [] => Ok((Axis::Unit, extent)),
                [(iter, None)] if roles.get(&iter) == Some(&Axis::Filter) => {
                    Ok((Axis::FilterInBlock(extent), extent))
                }
                _ => Err(other()),
            }
        });
    let dims = dims.collect::<Result<Layout, Refusal>>()?;
    let block = dims.iter().find_map(|(axis, _)| match axis {
        Axis::FilterBlock(size) => Some(*size),
        _ => None,
    });
    let inner = dims.iter().find_map(|(axis, _)| match axis {
        Axis::FilterInBlock(size) => Some(*size),
        _ => None,
    });
    match block == inner {
        true => Ok(dims),
        false => Err(other()),
    }
}

/// The strides, and the axes of the dimensions of the data.
pub(super) fn data_layout(
    data: &Access,
    product: &BlockInfo,
    roles: &BTreeMap<usize, Axis>,
) -> Result<([u64; 2], Vec<Axis>), Refusal> {
    let mut strides = [1, 1];
    let mut axes = Vec::new();
    for index in &data.indices {
        let axis = match index.terms[..] {
            [] => Axis::Unit,
            [(iter, Some(1))] => match roles.get(&iter) {
                Some(
                    axis @ (Axis::Batch
                    | Axis::Channel
                    | Axis::ChannelBlock(_)
                    | Axis::ChannelInBlock(_)
                    | Axis::Row
                    | Axis::Column
                    | Axis::Unit),
                ) => *axis,
                _ => return Err("its channels are in groups".to_owned()),
            },
            [(a, Some(x)), (b, Some(y))] => {
                let (spatial, stride, tap, dilation) = match product.iters[a].kind {
                    IterKind::Spatial => (a, x, b, y),
                    _ => (b, y, a, x),
                };
                let axis = match (roles.get(&spatial), roles.get(&tap)) {
                    (Some(Axis::Row), Some(Axis::TapRow)) => Axis::Row,
                    (Some(Axis::Column), Some(Axis::TapColumn)) => Axis::Column,
                    _ => return Err("its channels are in groups".to_owned()),
                };
                if dilation != 1 || stride < 1 {
                    return Err("it is dilated".to_owned());
                }
                strides[usize::from(axis == Axis::Column)] = stride as u64;
                axis
            }
            _ => return Err("its data is not read as a convolution reads it".to_owned()),
        };
        axes.push(axis);
    }
    let is_channel = |axis: &Axis| matches!(axis, Axis::Channel | Axis::ChannelBlock(_));
    match axes.iter().any(is_channel) {
        true => Ok((strides, axes)),
        false => Err("its channels are in groups".to_owned()),
    }
}

/// Rows and columns of padding; the number and the shape of the parameter that is padded.
type Padded = ([u64; 2], Option<usize>, Vec<i64>);

/// The padding of the first block, if that alone precedes the product.
fn padded(f: &Function, data: &Access) -> Result<Padded, Refusal> {
    let pad = &f.blocks[0];
    let ([read], [written]) = (&pad.reads[..], &pad.writes[..]) else {
        return Err("something comes before its sum of products".to_owned());
    };
    if written.buffer != data.buffer
        || !f.values[0].contains("T.if_then_else(")
        || read.shape.len() != 4
    {
        return Err("something comes before its sum of products".to_owned());
    }
    if !f.values[0].ends_with(", T.float32(0.0))") {
        return Err("its padding is not zero".to_owned());
    }
    if read.shape[..2] != written.shape[..2] {
        return Err("something comes before its sum of products".to_owned());
    }
    let image = |access: &Access| [access.shape[2], access.shape[3]];
    let padding = symmetric_padding(&f.values[0], image(read), image(written))?;
    Ok((padding, f.parameter(&read.buffer), read.shape.clone()))
}

/// The padding of rows and columns by a block, if both sides are equal; `value` is the value it assigns.
pub(super) fn symmetric_padding(
    value: &str,
    from: [i64; 2],
    to: [i64; 2],
) -> Result<[u64; 2], Refusal> {
    let of_axis = |(from, to): (i64, i64)| {
        let before = (to - from) / 2;
        let shifted = before == 0 || value.contains(&format!("- T.int64({before})"));
        ((to - from) % 2 == 0 && before >= 0 && shifted).then_some(before as u64)
    };
    match (of_axis((from[0], to[0])), of_axis((from[1], to[1]))) {
        (Some(rows), Some(columns)) => Ok([rows, columns]),
        _ => Err("its padding is not the same on both sides".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::bounds;

    #[test]
    fn bounds_are_read_from_scripts() {
        let of = |value| bounds(value, "x[");
        assert_eq!(of("x[a, b]"), Some([None, None]));
        assert_eq!(of("T.max(x[a], T.float32(0.0))"), Some([Some(0.0), None]));
        assert_eq!(
            of("T.min(T.max(x[a], T.float32(0.0)), T.float32(6.0))"),
            Some([Some(0.0), Some(6.0)])
        );
        assert_eq!(
            of("T.max(T.min(x[a], T.float32(6.0)), T.float32(0.0))"),
            Some([Some(0.0), Some(6.0)])
        );
        assert_eq!(of("x[a] * T.float32(0.5)"), None);
        assert_eq!(of("T.max(x[a], y[a])"), None);
    }
}
