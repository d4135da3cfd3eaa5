"""Single operators as graphs: ``matmul``, ``conv2d`` and the like with shape parameters.

The Rust side parses ``conv2d:c=64,h=56`` and fills in defaults; here each operator's complete parameters become a
one-operator ONNX graph, which then takes the same path as a whole model.
"""

from __future__ import annotations

import onnx
from onnx import helper

from .errors import ImportFailure
from .onnx_graph import OnnxGraph, TensorSpec
from .params import Param

OPSET = 20
UNARY = {
    "relu": "Relu",
    "sigmoid": "Sigmoid",
    "tanh": "Tanh",
    "exp": "Exp",
    "sqrt": "Sqrt",
    "erf": "Erf",
    "gelu": "Gelu",
    "neg": "Neg",
    "abs": "Abs",
}
BINARY = {"add": "Add", "sub": "Sub", "mul": "Mul", "div": "Div", "max": "Max", "min": "Min"}


class Builder:
    """Collects inputs, weights and nodes."""

    def __init__(self) -> None:
        self.inputs: dict[str, TensorSpec] = {}
        self.params: dict[str, Param] = {}
        self.nodes: list[onnx.NodeProto] = []

    def input(self, name: str, *shape: int, dtype: str = "float32") -> str:
        """A true input."""
        self.inputs[name] = TensorSpec(list(shape), dtype)
        return name

    def weight(self, name: str, *shape: int) -> str:
        """A weight without a value."""
        self.params[name] = Param(tuple(shape), "float32")
        return name

    def constant(self, name: str, values: list[int] | list[float]) -> str:
        """A one-dimensional constant: int64, or float32 if its values are not integers."""
        kind = onnx.TensorProto.INT64 if all(isinstance(v, int) for v in values) else onnx.TensorProto.FLOAT
        return self.node("Constant", [], name, value=helper.make_tensor(name, kind, [len(values)], values))

    def scalar(self, name: str, value: float) -> str:
        """A float32 constant without axes."""
        tensor = helper.make_tensor(name, onnx.TensorProto.FLOAT, [], [value])
        return self.node("Constant", [], name, value=tensor)

    def node(self, op: str, inputs: list[str], output: str = "y", **options: object) -> str:
        """A node with one output."""
        self.nodes.append(helper.make_node(op, inputs, [output], name=op.lower(), **options))
        return output


def epilogue(b: Builder, kind: str, x: str, shape: list[int]) -> None:
    """The epilogue that a model computes from the results ``x`` of an operator, of this shape."""
    if kind in ("relu", "sigmoid", "gelu"):
        b.node(UNARY[kind], [x])
    elif kind == "relu6":
        b.node("Clip", [x, b.scalar("least", 0.0), b.scalar("most", 6.0)])
    elif kind == "silu":
        b.node("Mul", [x, b.node("Sigmoid", [x], "gate")])
    elif kind == "residual_relu":
        b.node("Relu", [b.node("Add", [x, b.input("residual", *shape)], "sum")])
    elif kind == "batch_norm_relu":
        # Scale and shift are all that is left of batch normalisation when a model is run.
        scaled = b.node("Mul", [x, b.weight("scale", shape[1], 1, 1)], "scaled")
        b.node("Relu", [b.node("Add", [scaled, b.weight("shift", shape[1], 1, 1)], "shifted")])
    else:
        raise ImportFailure("bad_request", f"unknown epilogue '{kind}'")


def contraction(b: Builder, p: dict, op: str, inputs: list[str], shape: list[int], **options: object) -> None:
    """A convolution or product with results of this shape; before an epilogue, a bias for each channel or column."""
    kind = p.get("epilogue", "none")
    if kind != "none":
        inputs = [*inputs, b.weight("bias", shape[1])]
    if kind in ("none", "bias"):
        b.node(op, inputs, **options)
    else:
        epilogue(b, kind, b.node(op, inputs, "results", **options), shape)


def convolution(b: Builder, p: dict, kernel: list[int], spatial: list[int]) -> None:
    """Convolution of any rank."""
    rank = len(kernel)
    groups = p.get("groups", 1)
    options = {
        "kernel_shape": kernel,
        "strides": [p["stride"]] * rank,
        "pads": [p["pad"]] * (2 * rank),
        "dilations": [p["dilation"]] * rank,
        "group": groups,
    }
    inputs = [b.input("x", p["n"], p["c"], *spatial), b.weight("w", p["o"], p["c"] // groups, *kernel)]
    reach = [(k - 1) * p["dilation"] + 1 for k in kernel]
    image = [(size + 2 * p["pad"] - r) // p["stride"] + 1 for size, r in zip(spatial, reach, strict=True)]
    contraction(b, p, "Conv", inputs, [p["n"], p["o"], *image], **options)


def conv2d(b: Builder, p: dict) -> None:
    """2-D convolution."""
    convolution(b, p, [p["kh"], p["kw"]], [p["h"], p["w"]])


def conv3d(b: Builder, p: dict) -> None:
    """3-D convolution."""
    convolution(b, p, [p["kd"], p["kh"], p["kw"]], [p["d"], p["h"], p["w"]])


def depthwise_conv2d(b: Builder, p: dict) -> None:
    """One filter a channel."""
    convolution(b, {**p, "o": p["c"], "groups": p["c"]}, [p["kh"], p["kw"]], [p["h"], p["w"]])


def excitation(b: Builder, p: dict) -> None:
    """The gate of squeeze-and-excitation: the squeezed image's factor of each channel times the image."""
    squeezed = [b.input("s", p["n"], p["s"], 1, 1), b.weight("w", p["c"], p["s"], 1, 1), b.weight("bias", p["c"])]
    gate = b.node("Sigmoid", [b.node("Conv", squeezed, "excited", kernel_shape=[1, 1])], "gate")
    b.node("Mul", [gate, b.input("x", p["n"], p["c"], p["h"], p["w"])])


def matmul(b: Builder, p: dict) -> None:
    """Two activations."""
    b.node("MatMul", [b.input("a", p["m"], p["k"]), b.input("b", p["k"], p["n"])])


def dense(b: Builder, p: dict) -> None:
    """An activation and a weight."""
    inputs = [b.input("x", p["m"], p["k"]), b.weight("w", p["n"], p["k"])]
    contraction(b, p, "Gemm", inputs, [p["m"], p["n"]], transB=1)


def batch_matmul(b: Builder, p: dict) -> None:
    """A batch of products of activations."""
    b.node("MatMul", [b.input("a", p["b"], p["m"], p["k"]), b.input("b", p["b"], p["k"], p["n"])])


def matmul_matmul_add(b: Builder, p: dict) -> None:
    """(A B) C + D."""
    product = b.node("MatMul", [b.input("a", p["m"], p["k"]), b.input("b", p["k"], p["n"])], "ab")
    product = b.node("MatMul", [product, b.input("c", p["n"], p["p"])], "abc")
    b.node("Add", [product, b.input("d", p["m"], p["p"])])


def pooling(op: str):
    """2-D pooling."""

    def build(b: Builder, p: dict) -> None:
        b.node(
            op,
            [b.input("x", p["n"], p["c"], p["h"], p["w"])],
            kernel_shape=[p["kh"], p["kw"]],
            strides=[p["stride"]] * 2,
            pads=[p["pad"]] * 4,
        )

    return build


def global_avg_pool(b: Builder, p: dict) -> None:
    """Mean over the image."""
    b.node("GlobalAveragePool", [b.input("x", p["n"], p["c"], p["h"], p["w"])])


def transpose(b: Builder, p: dict) -> None:
    """Axes in another order."""
    b.node("Transpose", [b.input("x", p["a"], p["b"], p["c"], p["d"])], perm=[int(axis) for axis in p["order"]])


def concat(b: Builder, p: dict) -> None:
    """Images side by side along their channels."""
    channels = [p["c"]] + [p["more"]] * (p["inputs"] - 1)
    inputs = [b.input(f"x{place}", p["n"], c, p["h"], p["w"]) for place, c in enumerate(channels)]
    kind = p.get("epilogue", "none")
    if kind == "none":
        b.node("Concat", inputs, axis=1)
    else:
        epilogue(b, kind, b.node("Concat", inputs, "all", axis=1), [p["n"], sum(channels), p["h"], p["w"]])


def strided_slice(b: Builder, p: dict) -> None:
    """Some neighbouring channels."""
    bounds = [("begin", p["begin"]), ("end", p["begin"] + p["size"]), ("axis", 1)]
    x = b.input("x", p["n"], p["c"], p["h"], p["w"])
    b.node("Slice", [x, *(b.constant(name, [value]) for name, value in bounds)])


def resize2d(b: Builder, p: dict) -> None:
    """An image enlarged by a whole factor, as frameworks' upsampling layers do it."""
    scales = b.constant("scales", [1.0, 1.0, float(p["scale"]), float(p["scale"])])
    how = {
        "nearest": {"coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"},
        "linear": {"coordinate_transformation_mode": "half_pixel"},
    }[p["mode"]]
    b.node("Resize", [b.input("x", p["n"], p["c"], p["h"], p["w"]), "", scales], mode=p["mode"], **how)


def gather(b: Builder, p: dict) -> None:
    """Rows of a table, as an embedding looks them up."""
    b.node("Gather", [b.weight("table", p["rows"], p["n"]), b.input("indices", p["m"], dtype="int64")], axis=0)


def softmax(b: Builder, p: dict) -> None:
    """Over the last axis."""
    b.node("Softmax", [b.input("x", p["m"], p["n"])], axis=-1)


def layer_norm(b: Builder, p: dict) -> None:
    """Over the last axis, with scale and bias."""
    b.node(
        "LayerNormalization",
        [b.input("x", p["m"], p["n"]), b.weight("scale", p["n"]), b.weight("bias", p["n"])],
        axis=-1,
    )


def elementwise(b: Builder, p: dict) -> None:
    """One function of one or two operands."""
    op = p["op"]
    if op in UNARY:
        b.node(UNARY[op], [b.input("x", p["m"], p["n"])])
    elif op in BINARY:
        b.node(BINARY[op], [b.input("x", p["m"], p["n"]), b.input("z", p["m"], p["n"])])
    else:
        raise ImportFailure(
            "bad_request", f"unknown elementwise function '{op}' (known: {', '.join(sorted(UNARY | BINARY))})"
        )


BUILDERS = {
    "matmul": matmul,
    "dense": dense,
    "batch_matmul": batch_matmul,
    "matmul_matmul_add": matmul_matmul_add,
    "conv2d": conv2d,
    "depthwise_conv2d": depthwise_conv2d,
    "conv3d": conv3d,
    "excitation": excitation,
    "max_pool2d": pooling("MaxPool"),
    "avg_pool2d": pooling("AveragePool"),
    "global_avg_pool": global_avg_pool,
    "transpose": transpose,
    "concat": concat,
    "slice": strided_slice,
    "resize2d": resize2d,
    "gather": gather,
    "softmax": softmax,
    "layer_norm": layer_norm,
    "elementwise": elementwise,
}


def build(spec: dict) -> OnnxGraph:
    """The graph of ``{"op": ..., "params": {...}}``; parameters must be complete."""
    builder = Builder()
    if spec.get("op") not in BUILDERS:
        raise ImportFailure("bad_request", f"unknown simple operator '{spec.get('op')}' (known: {', '.join(BUILDERS)})")
    try:
        BUILDERS[spec["op"]](builder, spec["params"])
    except KeyError as error:
        raise ImportFailure("bad_request", f"{spec['op']}: parameter {error} is missing") from error
    return OnnxGraph(builder.nodes, builder.inputs, builder.params, ["y"], OPSET, [("", OPSET)])
