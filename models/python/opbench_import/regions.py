"""RoiAlign whose number of samples follows from the size of each box (``sampling_ratio`` 0).

TVM's own kernel has loops whose extents are read from the boxes; such loops can be neither counted nor scheduled. Here
they have the extents that a box of the whole map needs, and samples beyond those of the box count nothing.
"""

from __future__ import annotations

from tvm import relax, te, tirx
from tvm.topi.cpp.utils import bilinear_sample_nchw


def most_samples(call: relax.Call) -> list[int]:
    """Samples of a bin along height and width for a box as large as the map."""
    sizes = [int(d) for d in call.args[0].ty.shape.values[2:]]
    return [-(-size // int(bins)) for size, bins in zip(sizes, call.attrs.pooled_size)]


def aligned_average(data: te.Tensor, rois: te.Tensor, call: relax.Call) -> te.Tensor:
    """The mean over samples, as ONNX defines it: data [N, C, H, W], boxes [R, 5] of batch, x, y, x, y; result [R, C, h, w].

    Boxes that need more samples than the extents of the loops give NaN, not a wrong number.
    """
    attrs, dtype = call.attrs, rois.dtype
    bins, most = [int(b) for b in attrs.pooled_size], most_samples(call)
    height, width = (int(d) for d in data.shape[2:])
    loops = [te.reduce_axis((0, m), n) for m, n in zip(most, ("ry", "rx"))]

    def along(roi: int, first: int, position: tirx.PrimExpr, axis: int):
        """Samples of a bin along an axis, and where the sample of the loop is."""
        start, end = (rois[roi, c] * tirx.const(attrs.spatial_scale, dtype) for c in (first, first + 2))
        extent = end - start if attrs.aligned else te.max(end - start, tirx.const(1.0, dtype))
        size = extent / tirx.const(bins[axis], dtype)
        count = te.ceil(size).astype("int32")
        inside = (loops[axis].astype(dtype) + tirx.const(0.5, dtype)) * size / te.max(count, 1).astype(dtype)
        return count, start + position.astype(dtype) * size + inside

    def body(axes):
        roi, channel, row, column = axes
        rows, y = along(roi, 2, row, 0)
        columns, x = along(roi, 1, column, 1)
        outside = tirx.any(y < -1.0, x < -1.0, y > float(height), x > float(width), loops[0] >= rows, loops[1] >= columns)
        at = [te.min(te.max(v, tirx.const(0.0, dtype)), tirx.const(n - 1.0, dtype)) for v, n in ((y, height), (x, width))]
        value = bilinear_sample_nchw(data, (rois[roi, 0].astype("int32"), channel, *at), height - 1, width - 1)
        share = value / te.max(rows * columns, 1).astype(dtype)
        return te.sum(tirx.if_then_else(outside, tirx.const(0.0, dtype), share), axis=loops)

    shape = [rois.shape[0], data.shape[1], *bins]
    sums = te.compute(shape, lambda *axes: body(axes), name="roi_align")

    def known(axes):
        roi = axes[0]
        counts = [along(roi, first, axes[2 + axis], axis)[0] for axis, first in enumerate((2, 1))]
        lost = tirx.any(*(count > m for count, m in zip(counts, most)))
        return tirx.if_then_else(lost, tirx.const(float("nan"), dtype), sums(*axes))

    return te.compute(shape, lambda *axes: known(axes), name="within_map")
