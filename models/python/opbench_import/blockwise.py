"""Quantisation with a scale for each block of elements along an axis, as arithmetic: TVM has one scale for all, or for each
element of an axis."""

from __future__ import annotations

import numpy as np
import onnx

from .emit import Emitter


def quantize(e: Emitter) -> list[onnx.NodeProto] | None:
    """QuantizeLinear(x, scale, zero point) with blocks: rounds to the nearest, ties to even, and saturates."""
    scale = spread(e, 1)
    if scale is None:
        return None
    dtype = result_type(e)
    steps = e.emit("Round", [e.emit("Div", [e.input(0), scale])])
    kind = e.graph.dtype(e.input(0)) or "float32"
    if e.input(2):
        steps = e.emit("Add", [steps, e.cast(spread(e, 2), kind)])
    limits = np.iinfo(dtype)
    return e.finish(e.cast(e.emit("Clip", [steps, e.constant(limits.min, kind), e.constant(limits.max, kind)]), dtype))


def dequantize(e: Emitter) -> list[onnx.NodeProto] | None:
    """DequantizeLinear(x, scale, zero point) with blocks."""
    scale = spread(e, 1)
    if scale is None:
        return None
    kind = e.graph.dtype(e.input(1)) or "float32"
    value = e.cast(e.input(0), kind)
    if e.input(2):
        value = e.emit("Sub", [value, e.cast(spread(e, 2), kind)])
    return e.finish(e.emit("Mul", [value, scale]))


def result_type(e: Emitter) -> str:
    """The element type that is quantised to: the zero point's, the node's own, or bytes without a sign."""
    number = e.options.get("output_dtype", 0)
    if number:
        return onnx.helper.tensor_dtype_to_np_dtype(number).name
    return (e.graph.dtype(e.input(2)) if e.input(2) else None) or "uint8"


def spread(e: Emitter, place: int) -> str | None:
    """An input with a value for each block, repeated for each element; None if the node has no blocks."""
    size = e.options.get("block_size", 0)
    if not size:
        return None
    shape, given = e.graph.shape(e.input(0)), e.graph.shape(e.input(place))
    if shape is None or given is None:
        raise e.refusal("its data or its scales have no static shape")
    axis = e.options.get("axis", 1) % len(shape)
    apart = e.emit("Unsqueeze", [e.input(place), e.ints([axis + 1])])
    repeated = e.emit("Expand", [apart, e.ints([*given[: axis + 1], size, *given[axis + 1 :]])])
    whole = [*given[:axis], given[axis] * size, *given[axis + 1 :]]
    joined = e.emit("Reshape", [repeated, e.ints(whole)])
    if whole[axis] == shape[axis]:
        return joined
    return e.emit("Slice", [joined, e.ints([0]), e.ints([shape[axis]]), e.ints([axis])])


RULES = {"QuantizeLinear": quantize, "DequantizeLinear": dequantize}
