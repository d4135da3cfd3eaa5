"""Tensor expressions of the contractions that the study is about, over packed or plain weights.

A packed convolution weight is [OC/b, IC/g, K..., b] and a packed matrix [N/b, K, b]: the innermost axis is a run of b
output channels, which is what a vectorised inner loop reads; the last run is filled up with zeros. Outputs stay NCHW
and row major. Axis names are part of the contract with the schedules: nn, ff, (zz,) yy, xx, rc, (rz,) ry, rx for
convolutions, i..., j, k for products.
"""

from __future__ import annotations

from tvm import te, tirx, topi

SPATIAL_NAMES = {1: ["xx"], 2: ["yy", "xx"], 3: ["zz", "yy", "xx"]}
REDUCE_NAMES = {1: ["rx"], 2: ["ry", "rx"], 3: ["rz", "ry", "rx"]}


LANES = 16
"""Elements of four bytes in the widest vector register (512 bits)."""


def block_size(channels: int, groups: int = 1) -> int:
    """Output channels in one run: as many as a register holds, fewer if that needs no more registers and no padding.

    Runs longer than a register, or of an odd length beyond it, make LLVM spill (measured: 29 channels in one run are 40
    times slower than 16), so other channel counts are padded with zeros to whole runs, as other runtimes do. A run must
    not reach over two groups; groups that cannot be cut into runs stay unpacked (1).
    """
    registers = -(-channels // LANES)
    even = [d for d in range(1, LANES + 1) if channels % d == 0 and channels // d == registers]
    if even:
        return even[-1] if even[-1] >= LANES // 2 or groups == 1 else 1
    return LANES if groups == 1 else 1


HALVES = ("float16", "bfloat16")


def products(left: tirx.Expr, right: tirx.Expr, axes: list) -> tirx.Expr:
    """The sum of products over ``axes``; of half precision in single precision, as tensor cores and PyTorch sum them.

    Sums of thousands of products in half precision themselves are wrong in the second digit.
    """
    if str(left.dtype) in HALVES:
        left, right = left.astype("float32"), right.astype("float32")
    return te.sum(left * right, axis=axes)


def cropped(result: te.Tensor, axis: int, extent: int) -> te.Tensor:
    """``result`` without the padding after ``extent`` on one axis; a block of its own only if there is some."""
    if int(result.shape[axis]) == extent:
        return result
    shape = [extent if i == axis else d for i, d in enumerate(result.shape)]
    return te.compute(shape, lambda *axes: result(*axes), name="crop")


def rounded(result: te.Tensor, dtype: str) -> te.Tensor:
    """Sums in the type of their operands; a block of its own only if they were wider."""
    if str(result.dtype) == str(dtype):
        return result
    return te.compute(result.shape, lambda *axes: result(*axes).astype(dtype), name="round_sums")


def pad(data: te.Tensor, before: list[int], after: list[int]) -> te.Tensor:
    """Zero padding of the spatial axes as a block of its own; nothing when there is none."""
    if not any(before) and not any(after):
        return data
    return topi.nn.pad(data, [0, 0, *before], [0, 0, *after], name="pad_temp")


def output_extent(size: int, window: int, stride: int, dilation: int) -> int:
    """Positions of a dilated window in an already padded extent."""
    return (size - (window - 1) * dilation - 1) // stride + 1


def named_compute(shape: list, names: list[str], body, name: str) -> te.Tensor:
    """``te.compute`` over named axes; ``body`` gets them as one list."""
    return te.compute(shape, lambda *axes: body(list(axes)), name=name, varargs_names=names)


def convolution(data: te.Tensor, weight: te.Tensor, options: dict, block: int | None, channels: int) -> te.Tensor:
    """Convolution of any rank and grouping.

    ``options``: ``strides``, ``padding`` (all before, then all after), ``dilation``, ``groups``; ``block`` is the run
    length of a packed weight, None for a plain [OC, IC/g, K...] one; ``channels`` is OC, without the padding of runs.
    """
    spatial = len(data.shape) - 2
    strides, dilation, groups = options["strides"], options["dilation"], options["groups"]
    before, after = options["padding"][:spatial], options["padding"][spatial:]
    padded = pad(data, before, after)
    kernel = [int(d) for d in weight.shape[2 : 2 + spatial]]
    in_per_group = int(weight.shape[1])
    out_channels = int(weight.shape[0]) * (block or 1)
    out_per_group = out_channels // groups
    extents = [output_extent(int(padded.shape[2 + i]), kernel[i], strides[i], dilation[i]) for i in range(spatial)]
    rc = te.reduce_axis((0, in_per_group), "rc")
    window = [te.reduce_axis((0, k), n) for k, n in zip(kernel, REDUCE_NAMES[spatial])]

    def body(axes):
        nn, ff, position = axes[0], axes[1], axes[2:]
        channel = rc if groups == 1 else tirx.indexdiv(ff, out_per_group) * in_per_group + rc
        at = [p * s + w * d for p, s, w, d in zip(position, strides, window, dilation)]
        if block:
            factor = weight[(tirx.indexdiv(ff, block), rc, *window, tirx.indexmod(ff, block))]
        else:
            factor = weight[(ff, rc, *window)]
        return products(padded[(nn, channel, *at)], factor, [rc, *window])

    shape = [data.shape[0], out_channels, *extents]
    sums = named_compute(shape, ["nn", "ff", *SPATIAL_NAMES[spatial]], body, f"conv{spatial}d")
    return rounded(cropped(sums, 1, channels), data.dtype)


def dense(data: te.Tensor, weight: te.Tensor, block: int | None, width: int) -> te.Tensor:
    """``data [..., K]`` times a weight [K, N], packed as [N/b, K, b] when ``block`` is given; ``width`` is N."""
    rank = len(data.shape)
    depth = data.shape[rank - 1]
    columns = int(weight.shape[0]) * block if block else int(weight.shape[1])
    k = te.reduce_axis((0, depth), "k")
    rows = ["i"] if rank == 2 else [f"i{n}" for n in range(rank - 1)]

    def body(axes):
        j = axes[-1]
        factor = weight[tirx.indexdiv(j, block), k, tirx.indexmod(j, block)] if block else weight[k, j]
        return products(data[(*axes[:-1], k)], factor, [k])

    sums = named_compute([*data.shape[:-1], columns], [*rows, "j"], body, "dense")
    return rounded(cropped(sums, rank - 1, width), data.dtype)


def inner_products(left: te.Tensor, right: te.Tensor) -> te.Tensor:
    """Matrix product [..., M, K] x [..., N, K] of two activations, both read row by row; leading axes broadcast."""
    return matmul(left, right, right_is_transposed=True)


def matmul(left: te.Tensor, right: te.Tensor, right_is_transposed: bool = False) -> te.Tensor:
    """Matrix product [..., M, K] x [..., K, N] of two activations; leading axes broadcast."""
    batch = max(len(left.shape), len(right.shape)) - 2
    k = te.reduce_axis((0, left.shape[len(left.shape) - 1]), "k")

    def lead(tensor, axes):
        own = len(tensor.shape) - 2
        picked = axes[batch - own : batch]
        return [0 if int(tensor.shape[i]) == 1 else axis for i, axis in enumerate(picked)]

    def extent(axis):
        offsets = [(t, axis - batch + len(t.shape) - 2) for t in (left, right)]
        return max(int(t.shape[i]) for t, i in offsets if i >= 0)

    def body(axes):
        i, j = axes[batch], axes[batch + 1]
        of_right = (j, k) if right_is_transposed else (k, j)
        return products(left[(*lead(left, axes), i, k)], right[(*lead(right, axes), *of_right)], [k])

    columns = right.shape[len(right.shape) - (2 if right_is_transposed else 1)]
    names = ["b"] if batch == 1 else [f"b{n}" for n in range(batch)]
    shape = [*(extent(a) for a in range(batch)), left.shape[len(left.shape) - 2], columns]
    return rounded(named_compute(shape, [*names, "i", "j"], body, "batch_matmul" if batch else "matmul"), left.dtype)


def global_average(data: te.Tensor, keepdims: bool) -> te.Tensor:
    """Mean over all spatial axes; with ``keepdims`` they stay as extents of one."""
    spatial = len(data.shape) - 2
    window = [te.reduce_axis((0, data.shape[2 + i]), n) for i, n in enumerate(REDUCE_NAMES[spatial])]
    count = 1
    for axis in data.shape[2:]:
        count *= int(axis)
    kept = spatial if keepdims else 0
    shape = [data.shape[0], data.shape[1], *[1] * kept]
    names = ["nn", "cc", *(SPATIAL_NAMES[spatial] if keepdims else [])]
    wide = "float32" if str(data.dtype) in HALVES else data.dtype
    total = named_compute(
        shape, names, lambda a: te.sum(data[(a[0], a[1], *window)].astype(wide), axis=window), "global_sum"
    )
    return named_compute(
        shape, names, lambda a: (total[tuple(a)] * tirx.const(1.0 / count, wide)).astype(data.dtype), "global_avg"
    )


def response_normalisation(data: te.Tensor, size: int, alpha: float, beta: float, bias: float) -> te.Tensor:
    """ONNX LRN: ``x / (bias + alpha / size * sum of squares of neighbouring channels) ** beta``, channels on axis 1."""
    before, after = (size - 1) // 2, size // 2
    rank = len(data.shape)
    padded = topi.nn.pad(data, [0, before, *[0] * (rank - 2)], [0, after, *[0] * (rank - 2)], name="pad_temp")
    rc = te.reduce_axis((0, size), "rc")
    names = ["nn", "cc", *SPATIAL_NAMES[rank - 2]]

    def squares(axes):
        value = padded[(axes[0], axes[1] + rc, *axes[2:])]
        return te.sum(value * value, axis=rc)

    total = named_compute(list(data.shape), names, squares, "lrn_sum")

    def normalised(axes):
        base = tirx.const(bias, data.dtype) + tirx.const(alpha / size, data.dtype) * total[tuple(axes)]
        return data[tuple(axes)] * inverse_power(base, beta)

    return named_compute(list(data.shape), names, normalised, "lrn")


def inverse_power(base, exponent: float):
    """``base ** -exponent``; the usual exponents by roots, which vectorise where a power calls the C library."""
    one = tirx.const(1.0, base.ty.dtype)
    if exponent == 1.0:
        return one / base
    root = tirx.sqrt(base)
    if exponent == 0.5:
        return one / root
    if exponent == 0.75:
        return one / (root * tirx.sqrt(root))
    return tirx.power(base, tirx.const(-exponent, base.ty.dtype))


def gather(data: te.Tensor, position: te.Tensor, axis: int) -> te.Tensor:
    """``data`` at ``position`` along ``axis``; the positions' axes take the place of that axis."""
    rank, extent = len(position.shape), int(data.shape[axis])
    shape = [*data.shape[:axis], *position.shape, *data.shape[axis + 1 :]]

    def body(axes):
        at = position[tuple(axes[axis : axis + rank])]
        wrapped = tirx.Select(at < 0, at + tirx.const(extent, position.dtype), at)
        return data[(*axes[:axis], wrapped, *axes[axis + rank :])]

    return named_compute(shape, [f"i{n}" for n in range(len(shape))], body, "gather")
