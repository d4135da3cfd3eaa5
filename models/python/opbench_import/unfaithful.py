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
"""Element types of which several share a byte."""
TEXT = ("object", "str")
"""NumPy's names for text."""


def resize(e: Emitter) -> list[onnx.NodeProto] | None:
    """Resize: antialiasing is left out by the frontend, and so are scales that are not the ratio of the sizes; what is said of
    some axes alone it takes for all of them."""
    require_plain_resize(e)
    axes, before = e.options.get("axes"), e.graph.shape(e.input(0))
    if axes is None:
        return None
    if before is None:
        raise e.refusal("it names axes, but its data have no static shape")
    if e.input(1) and e.options.get("coordinate_transformation_mode") == "tf_crop_and_resize":
        raise e.refusal("it names axes of a part to be cut out; export it with all axes")
    given = {axis % len(before): i for i, axis in enumerate(axes)}
    inputs = [e.input(0), "", "", ""]
    policy = e.options.get("keep_aspect_ratio_policy", "stretch")
    for position, dtype, others in ((2, "float32", np.ones(len(before))), (3, "int64", np.array(before))):
        value = e.graph.value(e.input(position)) if e.input(position) else None
        if value is not None and value.size:
            if policy != "stretch" and position == 3:
                value = one_ratio(e, [before[axis] for axis in axes], value, policy)
            whole = [value[given[i]] if i in given else others[i] for i in range(len(before))]
            inputs[position] = e.constant(whole, dtype)
    options = {k: v for k, v in e.options.items() if k not in ("axes", "keep_aspect_ratio_policy")}
    return e.finish(e.emit("Resize", inputs if inputs[3] else inputs[:3], **options))


def one_ratio(e: Emitter, before: list[int], wanted: np.ndarray, policy: str) -> np.ndarray:
    """The sizes that keep the ratio of the data, none larger (or none smaller) than what is wanted."""
    choose = {"not_larger": np.min, "not_smaller": np.max}[policy]
    sizes = np.array(before) * choose(wanted / np.array(before))
    if not np.allclose(sizes, np.round(sizes), rtol=1e-6):
        raise e.refusal("it keeps the ratio of its data, with sizes that are no whole numbers before they are rounded")
    return np.round(sizes)


def require_plain_resize(e: Emitter) -> None:
    """Refuses the forms of Resize that TVM has otherwise."""
    if e.options.get("antialias") or e.options.get("exclude_outside"):
        raise e.refusal("TVM has no antialiasing and no weights that leave out what is outside")
    mode = e.options.get("mode", "nearest")
    before, after = e.graph.shape(e.input(0)), e.graph.shape(e.node.output[0])
    if mode == "nearest" or before is None or after is None:
        return
    if mode == "cubic" and any(a < b for b, a in zip(before, after)):
        raise e.refusal("TVM's cubic interpolation is another one where the result is smaller")
    if e.options.get("coordinate_transformation_mode") == "align_corners":
        if any(a == 1 and b > 1 for b, a in zip(before, after)):
            raise e.refusal("with aligned corners, TVM divides by nothing where the result has one element")
        return
    scales = e.graph.value(e.input(2)) if e.input(2) else None
    if scales is None or not scales.size:
        return
    axes = e.options.get("axes") or range(len(before))
    if not np.allclose([before[a] * s for a, s in zip(axes, scales)], [after[a] for a in axes], rtol=1e-6):
        raise e.refusal("its scales are not the ratio of its sizes, which is all that TVM knows; export it with sizes")


def batch_normalisation(e: Emitter) -> None:
    """BatchNormalization: in training it computes statistics, which the frontend takes as given."""
    if e.options.get("training_mode"):
        raise e.refusal("in training mode it computes its statistics; export the model for inference")


def shift(e: Emitter) -> list[onnx.NodeProto] | None:
    """BitShift: machines disagree on shifts by less than nothing or by all bits, of which the sign is left to the right and
    nothing to the left."""
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
    "Resize": resize,
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
    """Why an element type cannot be; None where it can."""
    if dtype.startswith(SMALL_FLOATS):
        return f"{dtype}, which TVM converts in another way than ONNX defines; export the model with float16 or bfloat16"
    if dtype in SMALL_INTEGERS:
        return f"{dtype}, of which TVM's tensors hold one in a byte and ONNX's several; export the model with int8"
    if dtype in TEXT:
        return "text, which no kernel can; cut the model around it"
    return None
