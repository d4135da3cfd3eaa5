"""Operators that TVM's frontend has no rule for, as the operators that they consist of.

Quantised operators become their floating-point operator between DequantizeLinear and QuantizeLinear, as ONNX defines
them; random generators become given tensors, seeded, so that every import has the same numbers; OneHot becomes a comparison
with all classes. Operators that ONNX itself defines by others are taken apart at loading (``definitions``).
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnx

from . import arithmetic, blockwise, frames, moves, unfaithful, vendor
from .attention import attention
from .emit import Emitter
from .onnx_graph import OnnxGraph
from .resize import resize
from .simplify import trains
from .params import with_value

WHOLE_SUMS = "opbench.whole_sums"
"""Name of a Cast of sums that are whole numbers: no check for infinities is needed."""

SEED = 20_231_108
"""The seed of generators that name none."""


def expand(graph: OnnxGraph) -> None:
    """Replaces the operators that have a rule and recomputes types; a rule that returns None leaves its node.

    ONNX cannot tell the types of another domain's results: these operators come first, those with known inputs at a time.
    """

    def ready(node: onnx.NodeProto) -> bool:
        return node.domain == vendor.DOMAIN and all(graph.shape(i) is not None for i in node.input if i)

    while any(ready(n) and rule_of(n) for n in graph.nodes):
        replace(graph, ready)
    if any(rule_of(n) for n in graph.nodes):
        replace(graph, lambda _: True)


def rule_of(node: onnx.NodeProto) -> Callable[[Emitter], list[onnx.NodeProto] | None] | None:
    """The nodes that replace a node."""
    own = vendor.RULES.get(node.op_type) if node.domain == vendor.DOMAIN else None
    return own or RULES.get(node.op_type)


def replace(graph: OnnxGraph, chosen: Callable[[onnx.NodeProto], bool]) -> None:
    """Replaces the chosen nodes that have a rule."""
    nodes: list[onnx.NodeProto] = []
    for node in graph.nodes:
        rule = rule_of(node) if chosen(node) else None
        replacing = rule(Emitter(graph, node)) if rule else None
        nodes += [node] if replacing is None else replacing
    graph.nodes = nodes
    graph.drop_unused()
    graph.infer()


def dequantized(e: Emitter, first: int, axis: int | None = None) -> str:
    """The number that the inputs ``first``, scale and zero point stand for."""
    value, scale, zero = (e.input(first + i) for i in range(3))
    shape = e.graph.shape(scale)
    if shape is None:
        raise e.refusal("its scales have no static shape")
    axis_of = {} if axis is None or int(np.prod(shape)) == 1 else {"axis": axis}
    return e.emit("DequantizeLinear", [i for i in (value, scalar(e, scale), scalar(e, zero)) if i], **axis_of)


def scalar(e: Emitter, name: str) -> str:
    """A given tensor of one element without axes, as the frontend takes scales of whole tensors; half-precision scales as
    single precision, in which products are summed."""
    param = e.graph.params.get(name)
    if param is not None and param.value is not None and param.dtype == "float16":
        name = e.constant(param.value, "float32")
        param = e.graph.params[name]
    if param is None or param.value is None or param.size != 1 or not param.shape:
        return name
    return e.graph.add_param(e.graph.fresh(name), with_value(param.value.reshape(())))


def quantized(e: Emitter, value: str, scale: int) -> list[onnx.NodeProto]:
    """``value`` quantised by the inputs ``scale`` and the one after it, as the node's result."""
    steps = [i for i in (scalar(e, e.input(scale)), scalar(e, e.input(scale + 1))) if i]
    return e.finish(e.emit("QuantizeLinear", [value, *steps]))


def quantized_product(e: Emitter) -> list[onnx.NodeProto]:
    """QLinearMatMul(a, scale, zero, b, scale, zero, scale, zero)."""
    columns = len(e.graph.shape(e.input(3)) or ()) - 1
    return quantized(e, e.emit("MatMul", [dequantized(e, 0), dequantized(e, 3, columns)]), 6)


def quantized_gemm(e: Emitter) -> list[onnx.NodeProto]:
    """com.microsoft's QGemm(a, scale, zero, b, scale, zero, c, scale, zero); c counts in steps of both scales, and without
    the last two the result is no bytes."""
    left = vendor.turned(e, dequantized(e, 0), e.options.get("transA", 0), rank=2)
    right = vendor.turned(e, dequantized(e, 3, 0 if e.options.get("transB", 0) else 1), e.options.get("transB", 0), rank=2)
    result = e.emit("MatMul", [left, right])
    if e.input(6):
        step = e.emit("Mul", [scalar(e, e.input(1)), e.input(4)])
        result = e.emit("Add", [result, e.emit("Mul", [e.cast(e.input(6), "float32"), step])])
    if e.options.get("alpha", 1.0) != 1.0:
        result = e.emit("Mul", [result, e.constant(e.options["alpha"], "float32")])
    return quantized(e, result, 7) if e.input(7) else e.finish(result)


def quantized_pooling(e: Emitter) -> list[onnx.NodeProto]:
    """com.microsoft's QLinearAveragePool: (x, scale, zero, scale, zero)."""
    if e.options.pop("channels_last", 0):
        raise e.refusal("its channels come last; export it with channels first")
    return quantized(e, e.emit("AveragePool", [dequantized(e, 0)], **e.options), 3)


def quantized_convolution(e: Emitter) -> list[onnx.NodeProto]:
    """QLinearConv(x, scale, zero, w, scale, zero, scale, zero, bias); the bias counts in steps of both scales."""
    inputs = [dequantized(e, 0), dequantized(e, 3, 0)]
    result = e.emit("Conv", inputs, **e.options)
    if e.input(8):
        step = e.emit("Mul", [scalar(e, e.input(1)), e.input(4)])
        bias = e.emit("Mul", [e.cast(e.input(8), "float32"), step])
        rank = len(e.graph.shape(e.input(0)) or ())
        bias = e.emit("Reshape", [bias, e.ints([-1] + [1] * (rank - 2))])
        result = e.emit("Add", [result, bias])
    return quantized(e, result, 6)


def quantized_pairwise(op: str):
    """com.microsoft's QLinearAdd and QLinearMul: (a, scale, zero, b, scale, zero, scale, zero)."""
    return lambda e: quantized(e, e.emit(op, [dequantized(e, 0), dequantized(e, 3)]), 6)


def quantized_unary(op: str, **options: object):
    """com.microsoft's QLinear operators of one tensor: (x, scale, zero, scale, zero)."""
    return lambda e: quantized(e, e.emit(op, [dequantized(e, 0)], **options), 3)


def integer_product(op: str, channels: int):
    """MatMulInteger and ConvInteger(a, b, zero of a, zero of b): sums in 32-bit integers.

    With scales of one they are products of dequantised bytes, which ``integers`` knows; a product of two computed
    operands stays one of 32-bit integers.
    """

    def rule(e: Emitter) -> list[onnx.NodeProto]:
        if e.graph.value(e.input(1)) is not None:
            operands = [stepless(e, 0), stepless(e, 1, channels)]
            sums = e.cast(e.emit(op, operands, **e.options), "int32")
            e.nodes[-1].name = WHOLE_SUMS
            return e.finish(sums)
        if op != "MatMul":
            raise e.refusal("its weight is computed by the model")
        operands = []
        for place in range(2):
            value, zero = e.cast(e.input(place), "int32"), e.input(place + 2)
            operands.append(e.emit("Sub", [value, e.cast(scalar(e, zero), "int32")]) if zero else value)
        return e.finish(e.emit(op, operands))

    return rule


def stepless(e: Emitter, place: int, axis: int = 0) -> str:
    """The bytes of an input around their zero point as floating-point numbers."""
    value, zero = e.input(place), e.input(place + 2)
    if not zero:
        return e.emit("DequantizeLinear", [value, e.constant(1.0, "float32")])
    count = int(np.prod(e.graph.shape(zero) or ()))
    step = np.ones(count) if count > 1 else 1.0
    axis_of = {"axis": axis % len(e.graph.shape(value))} if count > 1 else {}
    return e.emit("DequantizeLinear", [value, e.constant(step, "float32"), scalar(e, zero)], **axis_of)


def one_hot(e: Emitter) -> list[onnx.NodeProto]:
    """OneHot(indices, depth, values): a comparison with all classes, negative indices counted from the end."""
    shape, depth = e.graph.shape(e.input(0)), e.graph.value(e.input(1))
    if shape is None or depth is None:
        raise e.refusal("the number of its classes is computed by the model")
    classes = int(np.asarray(depth).reshape(-1)[0])
    axis = e.options.get("axis", -1) % (len(shape) + 1)
    indices = e.emit("Unsqueeze", [e.cast(e.input(0), "int64"), e.ints([axis])])
    below = e.emit("Less", [indices, e.constant(0, "int64")])
    indices = e.emit("Where", [below, e.emit("Add", [indices, e.constant(classes, "int64")]), indices])
    along = np.arange(classes).reshape([-1 if d == axis else 1 for d in range(len(shape) + 1)])
    hit = e.emit("Equal", [indices, e.constant(along, "int64")])
    off, on = (
        e.emit("Reshape", [e.emit("Slice", [e.input(2), e.ints([i]), e.ints([i + 1])]), e.ints([1])]) for i in range(2)
    )
    return e.finish(e.emit("Where", [hit, on, off]))


def generated(e: Emitter) -> list[onnx.NodeProto]:
    """A random generator as a given tensor; the seed is the node's own, else the importer's."""
    like = e.node.op_type.endswith("Like")
    shape = e.graph.shape(e.input(0)) if like else tuple(e.options["shape"])
    if shape is None:
        raise e.refusal("the shape of its result is not known")
    number = e.options.get("dtype")
    default = e.graph.dtype(e.input(0)) if like else "float32"
    dtype = default if number is None else onnx.helper.tensor_dtype_to_np_dtype(number).name
    generator = np.random.default_rng(seed_of(e))
    if "Normal" in e.node.op_type:
        value = generator.normal(e.options.get("mean", 0.0), e.options.get("scale", 1.0), shape)
    else:
        value = generator.uniform(e.options.get("low", 0.0), e.options.get("high", 1.0), shape)
    return e.finish(e.run_time_value(value, dtype))


def sampled(e: Emitter) -> list[onnx.NodeProto]:
    """Multinomial: the class where its logarithmic probability and seeded noise of Gumbel's distribution are largest
    together."""
    shape, dtype = e.graph.shape(e.input(0)), e.graph.dtype(e.input(0))
    if shape is None or dtype is None:
        raise e.refusal("the shape of its result is not known")
    batch, classes = shape
    noise = np.random.default_rng(seed_of(e)).gumbel(size=(batch, e.options.get("sample_size", 1), classes))
    likely = e.emit("Add", [e.emit("Unsqueeze", [e.input(0), e.ints([1])]), e.run_time_value(noise, dtype)])
    wanted = onnx.helper.tensor_dtype_to_np_dtype(e.options.get("dtype", onnx.TensorProto.INT32)).name
    return e.finish(e.cast(e.emit("ArgMax", [likely], axis=-1, keepdims=0), wanted))


def drawn(e: Emitter) -> list[onnx.NodeProto]:
    """Bernoulli: one where a seeded uniform number is below the probability."""
    shape, dtype = e.graph.shape(e.input(0)), e.graph.dtype(e.input(0))
    if shape is None or dtype is None:
        raise e.refusal("the shape of its result is not known")
    uniform = e.run_time_value(np.random.default_rng(seed_of(e)).random(shape), dtype)
    number = e.options.get("dtype")
    wanted = dtype if number is None else onnx.helper.tensor_dtype_to_np_dtype(number).name
    return e.finish(e.cast(e.emit("Less", [uniform, e.input(0)]), wanted))


def truth_reduction(e: Emitter) -> list[onnx.NodeProto] | None:
    """ReduceMax and ReduceMin of truth values, as the small integers that they are."""
    if e.graph.dtype(e.input(0)) != "bool":
        return None
    result = e.emit(e.node.op_type, [e.cast(e.input(0), "uint8"), *e.node.input[1:]], **e.options)
    return e.finish(e.cast(result, "bool"))


def aligned_region(e: Emitter) -> list[onnx.NodeProto] | None:
    """RoiAlign: the frontend's maximum is not ONNX's, which takes it over the weighted corners of each sample, and it
    moves boxes by half a pixel before it scales them, where ONNX scales first."""
    if e.options.get("mode", "avg") == "max":
        raise e.refusal("TVM's maximum over samples is another one than ONNX's; use mode avg")
    scale = e.options.get("spatial_scale", 1.0)
    boxes, shape = e.graph.value(e.input(1)), e.graph.shape(e.input(0))
    if not e.options.get("sampling_ratio", 0) and boxes is not None and shape is not None:
        extents = (boxes[:, 2:] - boxes[:, :2]) * scale
        if np.any(extents > np.array(shape[:1:-1])):
            raise e.refusal("one of its boxes is larger than the map, and sampling_ratio 0 samples it the more often")
    default = "output_half_pixel" if e.graph.declared_opset < 16 else "half_pixel"
    if e.options.get("coordinate_transformation_mode", default) != "half_pixel" or scale == 1.0:
        return None
    shift = e.constant(0.5 - 0.5 / scale, e.graph.dtype(e.input(1)) or "float32")
    boxes = e.emit("Add", [e.input(1), shift])
    return e.finish(e.emit("RoiAlign", [e.input(0), boxes, e.input(2)], **e.options))


def dropout(e: Emitter) -> list[onnx.NodeProto] | None:
    """Dropout at inference: its input and a mask that is true everywhere; in training its result is random."""
    ratio = e.graph.value(e.input(1)) if e.input(1) else None
    if trains(e.graph, e.node) and (ratio is None or float(np.asarray(ratio).reshape(-1)[0]) != 0.0):
        raise e.refusal("in training mode its result is random; export the model for inference")
    shape = e.graph.shape(e.input(0))
    if len(e.node.output) > 1 and e.node.output[1]:
        if shape is None:
            raise e.refusal("the shape of its mask is not known")
        e.finish(e.run_time_value(np.ones(shape, dtype=bool), "bool"), 1)
    return e.finish(e.input(0))


def seed_of(e: Emitter) -> int:
    """A seed for each node, the same in every import."""
    return int(abs(e.options["seed"])) if "seed" in e.options else SEED + e.graph.counter


RULES = {
    "QLinearMatMul": quantized_product,
    "QLinearConv": quantized_convolution,
    "QLinearAdd": quantized_pairwise("Add"),
    "QLinearMul": quantized_pairwise("Mul"),
    "QLinearSigmoid": quantized_unary("Sigmoid"),
    "QLinearLeakyRelu": lambda e: quantized(
        e, e.emit("LeakyRelu", [dequantized(e, 0)], alpha=e.options.get("alpha", 0.01)), 3
    ),
    "QLinearGlobalAveragePool": quantized_unary("GlobalAveragePool"),
    "QLinearAveragePool": quantized_pooling,
    "QGemm": quantized_gemm,
    "MatMulInteger": integer_product("MatMul", -1),
    "ConvInteger": integer_product("Conv", 0),
    "OneHot": one_hot,
    "RandomNormal": generated,
    "RandomNormalLike": generated,
    "RandomUniform": generated,
    "RandomUniformLike": generated,
    "Bernoulli": drawn,
    "Multinomial": sampled,
    "ReduceMax": truth_reduction,
    "ReduceMin": truth_reduction,
    "Attention": attention,
    "RoiAlign": aligned_region,
    "Dropout": dropout,
    "Resize": resize,
    **arithmetic.RULES,
    **blockwise.RULES,
    **frames.RULES,
    **moves.RULES,
    **unfaithful.RULES,
}

SUPPORTED = frozenset((*RULES, *vendor.RULES))
