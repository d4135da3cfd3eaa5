"""Tensor expressions of 8-bit operators: integer products, and the way back to few bits.

Products take unsigned data and signed weights in runs of ``DOT`` along the reduction, because that is what the dot
product instructions of CPUs take (AVX-512 VNNI, AVX-VNNI). The data are brought to that form in a stage of their own;
signed ones by adding 128, which the caller takes out of the sum again.
"""

from __future__ import annotations

import numpy as np

from tvm import te, tirx

from .kernels import REDUCE_NAMES, SPATIAL_NAMES, cropped, named_compute, output_extent

DOT = 4
"""Products that one instruction adds to a lane of 32 bits."""
RUN = 16
"""Output channels side by side: the lanes of the widest registers."""
SIGN = 128
"""The number that makes a signed byte an unsigned one."""


def packed_weight(weight: np.ndarray) -> np.ndarray:
    """A weight [O, I, K...] as [O/16, I/4, K..., 16, 4], filled up with zeros."""
    out, inner, *window = weight.shape
    missing = [(0, -out % RUN), (0, -inner % DOT)] + [(0, 0)] * len(window)
    padded = np.pad(weight, missing)
    split = padded.reshape(padded.shape[0] // RUN, RUN, padded.shape[1] // DOT, DOT, *window)
    return np.ascontiguousarray(split.transpose(0, 2, *range(4, 4 + len(window)), 1, 3))


def unsigned(value: tirx.Expr, dtype: str) -> tirx.Expr:
    """A byte as an unsigned one, signed ones 128 higher."""
    return value if dtype == "uint8" else value.astype("uint8") ^ tirx.const(SIGN, "uint8")


def padding(zero: tirx.Expr, dtype: str) -> tirx.Expr:
    """A zero point among the unsigned bytes that ``unsigned`` makes. TVM cannot cast a negative constant to them."""
    if isinstance(zero, tirx.IntImm):
        return tirx.const(int(zero.value) + (0 if dtype == "uint8" else SIGN), "uint8")
    return unsigned(zero.astype(dtype), dtype)


def runs(data: te.Tensor, before: list[int], after: list[int], zero) -> te.Tensor:
    """Data [N, C, S...] as unsigned [N, C/4, S..., 4], padded with the zero point (``zero``, of the data's type)."""
    batch, channels, *spatial = data.shape
    extents = [int(s) + b + a for s, b, a in zip(spatial, before, after)]
    dtype = str(data.dtype)

    def body(axes):
        nn, block, *position, lane = axes
        channel = block * DOT + lane
        at = [p - b if b else p for p, b in zip(position, before)]
        inside = [channel < channels] if int(channels) % DOT else []
        for p, b, a, s in zip(position, before, after, spatial):
            inside += [p >= b] if b else []
            inside += [p < s + b] if a else []
        value = unsigned(data[(nn, channel, *at)], dtype)
        if not inside:
            return value
        return tirx.if_then_else(tirx.all(*inside), value, padding(zero(), dtype))

    names = ["nn", "cb", *SPATIAL_NAMES[len(spatial)], "ci"]
    return named_compute([batch, -(-int(channels) // DOT), *extents, DOT], names, body, "dot_operand")


def convolution(data: te.Tensor, weight: te.Tensor, options: dict, channels: int, zero) -> te.Tensor:
    """Sums of unsigned data times a packed weight in 32 bits; options as of ``kernels.convolution``, ungrouped."""
    spatial = len(data.shape) - 2
    strides, dilation = options["strides"], options["dilation"]
    operand = runs(data, options["padding"][:spatial], options["padding"][spatial:], zero)
    blocks, inner, *window = (int(d) for d in weight.shape[: 2 + spatial])
    extents = [output_extent(int(operand.shape[2 + i]), window[i], strides[i], dilation[i]) for i in range(spatial)]
    rc, ri = te.reduce_axis((0, inner), "rc"), te.reduce_axis((0, DOT), "ri")
    taps = [te.reduce_axis((0, k), n) for k, n in zip(window, REDUCE_NAMES[spatial])]

    def body(axes):
        nn, ff, position = axes[0], axes[1], axes[2:]
        at = [p * s + w * d for p, s, w, d in zip(position, strides, taps, dilation)]
        factor = weight[(tirx.indexdiv(ff, RUN), rc, *taps, tirx.indexmod(ff, RUN), ri)]
        product = operand[(nn, rc, *at, ri)].astype("int32") * factor.astype("int32")
        return te.sum(product, axis=[rc, *taps, ri])

    shape = [data.shape[0], blocks * RUN, *extents]
    return cropped(named_compute(shape, ["nn", "ff", *SPATIAL_NAMES[spatial]], body, f"qconv{spatial}d"), 1, channels)


def dense(data: te.Tensor, weight: te.Tensor, width: int) -> te.Tensor:
    """Sums of unsigned data [..., K] times a packed weight [N/16, K/4, 16, 4] in 32 bits; ``width`` is N."""
    *rows, depth = data.shape
    blocks, inner = int(weight.shape[0]), int(weight.shape[1])
    dtype = str(data.dtype)

    def operand(axes):
        *row, block, lane = axes
        value = unsigned(data[(*row, block * DOT + lane)], dtype)
        # Data beyond the depth meet zeros of the weight.
        return value if int(depth) % DOT == 0 else tirx.if_then_else(block * DOT + lane < depth, value, tirx.const(0, "uint8"))

    names = [f"i{n}" for n in range(len(rows))]
    taken = named_compute([*rows, inner, DOT], [*names, "kb", "ki"], operand, "dot_operand")
    k, ki = te.reduce_axis((0, inner), "k"), te.reduce_axis((0, DOT), "ki")

    def body(axes):
        *row, j = axes
        factor = weight[(tirx.indexdiv(j, RUN), k, tirx.indexmod(j, RUN), ki)]
        return te.sum(taken[(*row, k, ki)].astype("int32") * factor.astype("int32"), axis=[k, ki])

    return cropped(named_compute([*rows, blocks * RUN], [*names, "j"], body, "qdense"), len(rows), width)


def plain_dense(data: te.Tensor, weight: te.Tensor, zero) -> te.Tensor:
    """Sums of ``(data - zero) * weight`` in 32 bits for data [..., K] and a weight [K, N] of any integers."""
    *rows, depth = data.shape
    k = te.reduce_axis((0, depth), "k")

    def body(axes):
        value = data[(*axes[:-1], k)].astype("int32") - zero().astype("int32")
        return te.sum(value * weight[k, axes[-1]].astype("int32"), axis=k)

    return named_compute([*rows, weight.shape[1]], [*(f"i{n}" for n in range(len(rows))), "j"], body, "qdense")


def plain_convolution(data: te.Tensor, weight: te.Tensor, options: dict, zero) -> te.Tensor:
    """Sums of ``(data - zero) * weight`` in 32 bits for a weight [O, I/g, K...] of any integers, in any groups."""
    spatial = len(data.shape) - 2
    strides, dilation = options["strides"], options["dilation"]
    before, after = options["padding"][:spatial], options["padding"][spatial:]
    per_group = int(weight.shape[0]) // options["groups"]
    inner = int(weight.shape[1])
    window = [int(d) for d in weight.shape[2:]]
    sizes = [int(d) for d in data.shape[2:]]

    def centred(axes):
        nn, cc, *position = axes
        at = [p - b if b else p for p, b in zip(position, before)]
        inside = [c for p, b, s in zip(position, before, sizes) for c in (p >= b, p < s + b)]
        value = data[(nn, cc, *at)].astype("int32") - zero().astype("int32")
        return tirx.if_then_else(tirx.all(*inside), value, tirx.const(0, "int32"))

    padded_sizes = [s + b + a for s, b, a in zip(sizes, before, after)]
    one_group = options["groups"] == 1
    names = SPATIAL_NAMES[spatial]
    padded = named_compute([*data.shape[:2], *padded_sizes], ["nn", "cc", *names], centred, "pad_temp")
    extents = [output_extent(padded_sizes[i], window[i], strides[i], dilation[i]) for i in range(spatial)]
    taps = [te.reduce_axis((0, k), n) for k, n in zip(window, REDUCE_NAMES[spatial])]
    rc = te.reduce_axis((0, inner), "rc")
    # Depthwise convolutions have no axis of input channels, as `kernels.depthwise_convolution` has none.
    channel_axes = [] if inner == 1 else [rc]

    def body(axes):
        nn, ff, position = axes[0], axes[1], axes[2:]
        group = 0 if one_group else ff if per_group == 1 else tirx.indexdiv(ff, per_group)
        channel = group if inner == 1 else rc if one_group else group * inner + rc
        at = [p * s + w * d for p, s, w, d in zip(position, strides, taps, dilation)]
        factor = weight[(ff, rc if inner > 1 else 0, *taps)].astype("int32")
        return te.sum(padded[(nn, channel, *at)] * factor, axis=[*channel_axes, *taps])

    shape = [data.shape[0], weight.shape[0], *extents]
    return named_compute(shape, ["nn", "ff", *names], body, f"qconv{spatial}d")


def along(vector: te.Tensor, axes: list, axis: int) -> tirx.Expr:
    """The element of a vector of one value, or one a channel."""
    return vector[0 if int(vector.shape[0]) == 1 else axes[axis]]


def requantized(
    data: te.Tensor, correction: te.Tensor, factor: te.Tensor, offset: te.Tensor, axis: int, zero: int, dtype: str, limits
) -> te.Tensor:
    """``round((data + correction) * factor + offset) + zero`` within ``limits`` of few bits; vectors along ``axis``."""
    low, high = limits

    def body(axes):
        total = (data[tuple(axes)].astype("int32") + along(correction, axes, axis)).astype("float32")
        value = tirx.round(total * along(factor, axes, axis) + along(offset, axes, axis)) + tirx.const(zero, "float32")
        bounded = tirx.max(tirx.min(value, tirx.const(high, "float32")), tirx.const(low, "float32"))
        return bounded.astype(dtype)

    return named_compute(list(data.shape), [f"i{n}" for n in range(len(data.shape))], body, "requantize")


def dequantized(data: te.Tensor, correction: te.Tensor, factor: te.Tensor, axis: int) -> te.Tensor:
    """``(data + correction) * factor``: the values of sums of products."""

    def body(axes):
        return (data[tuple(axes)] + along(correction, axes, axis)).astype("float32") * along(factor, axes, axis)

    return named_compute(list(data.shape), [f"i{n}" for n in range(len(data.shape))], body, "dequantize")
