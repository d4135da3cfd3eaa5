"""Windows that slide over each channel on its own, and those of transposed convolutions: vectors run along the rows.

Rows are computed up to whole vectors and cropped, which costs less than vectors of an odd length: a processor takes 14
values in three loads. The data are padded for it, with zeros that nobody reads the result of.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from tvm import te, tirx, topi

from . import extremes
from .kernels import LANES, REDUCE_NAMES, SPATIAL_NAMES, cropped, named_compute, output_extent, pad, products, rounded

MOST_WASTE = 1.4
"""Most that rows may grow by when they are rounded up; beyond it odd vectors are cheaper."""


def whole_row(extent: int) -> int:
    """Columns that are computed of a row of ``extent``: whole vectors, or half of one where that holds the row."""
    if extent <= LANES // 4:
        return extent
    vectors = LANES // 2 if extent <= LANES // 2 else -(-extent // LANES) * LANES
    return vectors if vectors <= MOST_WASTE * extent else extent


def whole_groups(before: int, padded: int, stride: int) -> tuple[int, int]:
    """Columns of padding to add in front of rows and behind them. The rows have ``padded`` columns so far, and begin with
    ``before`` columns of padding.

    Padded columns are stored by their remainder modulo the stride, and copied in groups of ``stride``. With these columns
    the image begins with a whole group, and the row ends with one.
    """
    first = -before % stride
    return first, -(first + padded) % stride


def window_at(position, window, options: dict, first: int) -> list:
    """Indices of a window's element in data that have ``first`` columns in front besides the operator's own padding."""
    at = [p * s + w * d for p, s, w, d in zip(position, options["strides"], window, options["dilation"])]
    return [*at[:-1], at[-1] + first]


def depthwise_convolution(data: te.Tensor, weight: te.Tensor, options: dict) -> te.Tensor:
    """Convolution with one filter (or ``multiplier`` filters) a channel; weight [C * multiplier, 1, K...]."""
    spatial = len(data.shape) - 2
    strides, dilation = options["strides"], options["dilation"]
    before, after = options["padding"][:spatial], options["padding"][spatial:]
    kernel = [int(d) for d in weight.shape[2:]]
    out_channels = int(weight.shape[0])
    multiplier = out_channels // int(data.shape[1])
    padded_sizes = [int(d) + b + a for d, b, a in zip(data.shape[2:], before, after)]
    extents = [output_extent(s, k, t, d) for s, k, t, d in zip(padded_sizes, kernel, strides, dilation)]
    width = extents[-1]
    extents[-1] = whole_row(width)
    missing = (extents[-1] - 1) * strides[-1] + (kernel[-1] - 1) * dilation[-1] + 1 - padded_sizes[-1]
    first, missing = 0, max(0, missing)
    if missing or any(options["padding"]):
        first, last = whole_groups(before[-1], padded_sizes[-1] + missing, strides[-1])
        missing += last
    padded = pad(data, [*before[:-1], before[-1] + first], [*after[:-1], after[-1] + missing])
    window = [te.reduce_axis((0, k), n) for k, n in zip(kernel, REDUCE_NAMES[spatial])]

    def body(axes):
        nn, ff, position = axes[0], axes[1], axes[2:]
        channel = ff if multiplier == 1 else tirx.indexdiv(ff, multiplier)
        at = window_at(position, window, options, first)
        return products(padded[(nn, channel, *at)], weight[(ff, 0, *window)], window)

    shape = [data.shape[0], out_channels, *extents]
    sums = named_compute(shape, ["nn", "ff", *SPATIAL_NAMES[spatial]], body, f"depthwise_conv{spatial}d")
    return rounded(cropped(sums, 1 + spatial, width), data.dtype)


def max_pool(data: te.Tensor, kernel: list[int], options: dict) -> te.Tensor:
    """Largest value of each window; output of ``options["extents"]``, which may reach beyond the padding."""
    largest = slid(data, kernel, options, extremes.least(data.dtype), te.max, "max_pool")
    return cropped(largest, 1 + len(kernel), options["extents"][-1])


def average_pool(data: te.Tensor, kernel: list[int], options: dict) -> te.Tensor:
    """Mean of each window, of the padding too if ``options["count_include_pad"]``; output of ``options["extents"]``."""
    total = slid(data, kernel, options, tirx.const(0.0, data.dtype), te.sum, "pool_sum")
    before, sizes = options["padding"], [int(d) for d in data.shape[2:]]

    def counted(axes):
        """Elements of the data in a window; in integers of the width that vectors of single precision have."""
        found = tirx.const(1, "int32")
        for place, stride, k, b, size in zip(axes[2:], options["strides"], kernel, before, sizes):
            first = place.astype("int32") * stride - b
            found = found * (tirx.min(first + k, size) - tirx.max(first, 0))
        return found.astype(data.dtype)

    def mean(axes):
        if options["count_include_pad"]:
            return total[tuple(axes)] * tirx.const(1.0 / math.prod(kernel), data.dtype)
        return total[tuple(axes)] / counted(axes)

    names = ["nn", "cc", *SPATIAL_NAMES[len(kernel)]]
    return named_compute([*data.shape[:2], *options["extents"]], names, mean, "pool_avg")


def slid(data: te.Tensor, kernel: list[int], options: dict, filling, combined: Callable, name: str) -> te.Tensor:
    """A reduction of the windows of each channel, rows up to whole vectors; ``filling`` is the padding's value."""
    strides, dilation, wanted = options["strides"], options["dilation"], options["extents"]
    before = options["padding"][: len(kernel)]
    extents = [*wanted[:-1], whole_row(wanted[-1])]
    needed = [(e - 1) * s + (k - 1) * d + 1 for e, s, k, d in zip(extents, strides, kernel, dilation)]
    after = [max(0, n - b - int(size)) for n, b, size in zip(needed, before, data.shape[2:])]
    first = 0
    if any(before) or any(after):
        first, last = whole_groups(before[-1], before[-1] + int(data.shape[-1]) + after[-1], strides[-1])
        before = [*before[:-1], before[-1] + first]
        after[-1] += last
        data = topi.nn.pad(data, [0, 0, *before], [0, 0, *after], pad_value=filling, name="pad_temp")
    window = [te.reduce_axis((0, k), n) for k, n in zip(kernel, REDUCE_NAMES[len(kernel)])]

    def body(axes):
        return combined(data[(*axes[:2], *window_at(axes[2:], window, options, first))], axis=window)

    shape = [*data.shape[:2], *extents]
    return named_compute(shape, ["nn", "cc", *SPATIAL_NAMES[len(kernel)]], body, f"{name}{len(kernel)}d")


def transposed_convolution(data: te.Tensor, weight: te.Tensor, options: dict) -> te.Tensor:
    """Transposed convolution without dilation; weight [C, O/g, K...], output of ``options["extents"]``.

    With stride s an output position y + padding = s * q + p takes the taps k = p + s * m of the data at q - m: one plain
    convolution of ceil(K / s) taps for each of the s phases p, none of whose products is with a zero between the data. The
    phases are brought together at the end.
    """
    spatial = len(data.shape) - 2
    strides, groups, wanted = options["strides"], options["groups"], options["extents"]
    before = options["padding"][:spatial]
    in_per_group, out_per_group = int(data.shape[1]) // groups, int(weight.shape[1])
    kernel = [int(d) for d in weight.shape[2:]]
    taps = [-(-k // s) for k, s in zip(kernel, strides)]
    first = [b // s for b, s in zip(before, strides)]
    extents = [(w - 1 + b) // s - f + 1 for w, b, s, f in zip(wanted, before, strides, first)]
    extents[-1] = whole_row(extents[-1])
    missing = [t * s - k for t, s, k in zip(taps, strides, kernel)]
    filters = topi.nn.pad(weight, [0] * (2 + spatial), [0, 0, *missing], name="pad_taps") if any(missing) else weight
    # The data at index 0 of the padded ones, and the number of elements before and after them.
    origin = [f - (t - 1) for f, t in zip(first, taps)]
    leading = [max(0, -o) for o in origin]
    trailing = [
        max(0, e + t - 1 + o - int(d)) for e, t, o, d in zip(extents, taps, origin, data.shape[2:])
    ]
    padded = pad(data, leading, trailing)
    rc = te.reduce_axis((0, in_per_group), "rc")
    window = [te.reduce_axis((0, t), n) for t, n in zip(taps, REDUCE_NAMES[spatial])]
    phases = math.prod(strides)

    def phase(place):
        """The phase along each axis of a place among all of them."""
        own = []
        for s in reversed(strides):
            own.insert(0, tirx.indexmod(place, s))
            place = tirx.indexdiv(place, s)
        return own

    def body(axes):
        nn, pp, ff, position = axes[0], axes[1], axes[2], axes[3:]
        channel = rc if groups == 1 else tirx.indexdiv(ff, out_per_group) * in_per_group + rc
        filter_of = ff if groups == 1 else tirx.indexmod(ff, out_per_group)
        at = [p + w + max(0, o) for p, w, o in zip(position, window, origin)]
        tap = [p + s * (t - 1 - w) for p, s, t, w in zip(phase(pp), strides, taps, window)]
        return products(padded[(nn, channel, *at)], filters[(channel, filter_of, *tap)], [rc, *window])

    shape = [data.shape[0], phases, groups * out_per_group, *extents]
    sums = named_compute(shape, ["nn", "pp", "ff", *SPATIAL_NAMES[spatial]], body, f"conv{spatial}d_transpose")

    def together(axes):
        nn, ff, position = axes[0], axes[1], axes[2:]
        pp = 0
        for p, b, s in zip(position, before, strides):
            pp = pp * s + tirx.indexmod(p + b, s)
        at = [tirx.indexdiv(p + b, s) - f for p, b, s, f in zip(position, before, strides, first)]
        return sums[(nn, pp, ff, *at)]

    shape = [data.shape[0], groups * out_per_group, *wanted]
    return rounded(named_compute(shape, ["nn", "ff", *SPATIAL_NAMES[spatial]], together, "phases"), data.dtype)


def enlarged(data: te.Tensor, scales: list[int]) -> te.Tensor:
    """Each value of an image [N, C, S...] ``scales`` times along each spatial axis."""
    shape = [*data.shape[:2], *(int(d) * s for d, s in zip(data.shape[2:], scales))]

    def body(axes):
        at = [p if s == 1 else tirx.indexdiv(p, s) for p, s in zip(axes[2:], scales)]
        return data[(*axes[:2], *at)]

    return named_compute(shape, ["nn", "cc", *SPATIAL_NAMES[len(scales)]], body, "resize")
