"""Forms of operators that TVM's frontend converts to something else than ONNX defines, found by the ``onnx`` wheel's
tests: refused by name, or replaced by nodes that it converts rightly.
"""

from __future__ import annotations

import numpy as np
import onnx

from .emit import Emitter
from .errors import unsupported
from .onnx_graph import OnnxGraph

SMALL_FLOATS = ("float8", "float4")
"""Element types whose conversions TVM rounds and saturates in another way."""
SMALL_INTEGERS = ("int4", "uint4", "int2", "uint2")
"""Element types that share a byte with others."""
TEXT = ("object", "str")
"""NumPy's names for text."""


def batch_normalisation(e: Emitter) -> None:
    """BatchNormalization: in training it computes statistics, which the frontend takes as given."""
    if e.options.get("training_mode"):
        raise e.refusal("in training mode it computes its statistics; export the model for inference")


def shift(e: Emitter) -> list[onnx.NodeProto] | None:
    """BitShift: processors disagree on shifts by a negative number or by all bits. Here a right shift by all bits leaves
    the sign, and a left shift leaves nothing."""
    amounts, dtype = e.graph.value(e.input(1)), e.graph.dtype(e.input(0)) or "uint8"
    bits = np.dtype(dtype).itemsize * 8
    if amounts is not None and amounts.min(initial=0) >= 0 and amounts.max(initial=0) < bits:
        return None
    possible = e.emit("Less", [e.input(1), e.constant(bits, dtype)])
    if dtype.startswith("int"):
        possible = e.emit("And", [possible, e.emit("GreaterOrEqual", [e.input(1), e.constant(0, dtype)])])
    amount = e.emit("Where", [possible, e.input(1), e.constant(bits - 1, dtype)])
    moved = e.emit("BitShift", [e.input(0), amount], **e.options)
    if dtype.startswith("int") and e.options["direction"] == "RIGHT":
        return e.finish(moved)
    return e.finish(e.emit("Where", [possible, moved, e.constant(0, dtype)]))


def layer_normalisation(e: Emitter):
    """LayerNormalization with its mean and deviation as results, which the frontend leaves without a value; of bfloat16, in
    single precision as ONNX says."""
    if not any(e.node.output[1:]):
        if e.graph.dtype(e.input(0)) != "bfloat16":
            return None
        wide = [e.cast(name, "float32") for name in e.node.input if name]
        return e.finish(e.cast(e.emit("LayerNormalization", wide, **e.options), "bfloat16"))
    shape = e.graph.shape(e.input(0))
    if shape is None:
        raise e.refusal("the shape of its data is not known")
    first = e.options.get("axis", -1) % len(shape)
    axes = list(range(first, len(shape)))
    data = e.input(0)
    dtype = e.graph.dtype(data) or "float32"
    mean = average(e, data, axes)
    centred = e.emit("Sub", [data, mean])
    square = e.emit("Mul", [centred, centred])
    variance = average(e, square, axes)
    shifted = e.emit("Add", [variance, e.constant(e.options.get("epsilon", 1e-5), dtype)])
    inverse = e.emit("Reciprocal", [e.emit("Sqrt", [shifted])])
    scaled = e.emit("Mul", [e.emit("Mul", [centred, inverse]), e.input(1)])
    for position, value in ((1, mean), (2, inverse)):
        if position < len(e.node.output) and e.node.output[position]:
            e.finish(value, position)
    return e.finish(e.emit("Add", [scaled, e.input(2)]) if e.input(2) else scaled)


def average(e: Emitter, value: str, axes: list[int]) -> str:
    """The mean over some axes, which stay with extent one; an input of the operator since set 18."""
    if e.graph.opset >= 18:
        return e.emit("ReduceMean", [value, e.ints(axes)], keepdims=1)
    return e.emit("ReduceMean", [value], axes=axes, keepdims=1)


RULES = {
    "BatchNormalization": batch_normalisation,
    "BitShift": shift,
    "LayerNormalization": layer_normalisation,
}


def refuse_types(graph: OnnxGraph) -> None:
    """Refuses models that compute with numbers of less than a byte, with floating-point ones of a byte, or with text."""
    for node in graph.nodes:
        for name in (*node.input, *node.output):
            reason = refused_type(graph.dtype(name) or "")
            if reason:
                label = node.name or node.output[0]
                raise unsupported(node.op_type, label, f"operator {node.op_type} (node '{label}') works on {reason}")


def refused_type(dtype: str) -> str | None:
    """Why an element type is impossible; None if it is possible."""
    if dtype.startswith(SMALL_FLOATS):
        return f"{dtype}, which TVM converts in another way than ONNX defines; export the model with float16 or bfloat16"
    if dtype in SMALL_INTEGERS:
        return f"{dtype}, of which TVM's tensors hold one in a byte and ONNX's several; export the model with int8"
    if dtype in TEXT:
        return "text, which no kernel can; cut the model around it"
    return None
