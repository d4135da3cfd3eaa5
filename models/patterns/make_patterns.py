"""Writes the small models that `opcollect list patterns` imports: one composite operator each, as each source writes it.

    cd models/patterns && ../../.venv/bin/python make_patterns.py

Weights are seeded. StableHLO modules are what JAX lowers to (``scripts/setup --with stablehlo``).
"""

from __future__ import annotations

import os
import sys

import numpy as np
import onnx
from onnx import helper, numpy_helper

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "python"))

import tflite  # noqa: E402 - behind the search path
from opbench_import import extras  # noqa: E402
from tests.tflite_writer import Net, Quantisation  # noqa: E402

RANDOM = np.random.default_rng(0)
FLOAT, UINT8 = onnx.TensorProto.FLOAT, onnx.TensorProto.UINT8
node = helper.make_node

IMAGE, FILTERS, RESULT = [1, 16, 8, 8], (32, 16, 3, 3), [1, 32, 8, 8]
ROWS, COLUMNS = 64, 32
SCALES = {
    "xs": np.float32(0.02),
    "xz": np.uint8(128),
    "ws": np.float32(0.01),
    "wz": np.int8(0),
    "ys": np.float32(0.1),
    "yz": np.uint8(128),
}


def signed(*shape: int) -> np.ndarray:
    """Seeded signed bytes."""
    return RANDOM.integers(-127, 128, shape).astype(np.int8)


def save_onnx(name: str, nodes: list, values: dict, reads: tuple, writes: tuple, opset: int = 20) -> None:
    """An ONNX model of one input ``x`` and one output ``y``, each (shape, type)."""
    ends = [helper.make_tensor_value_info(n, t, s) for n, (s, t) in (("x", reads), ("y", writes))]
    initializers = [numpy_helper.from_array(np.asarray(v), k) for k, v in values.items()]
    graph = helper.make_graph(nodes, name, ends[:1], ends[1:], initializers)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)
    onnx.save(model, os.path.join(HERE, f"{name}.onnx"))


def between(op: list, weight: str) -> list:
    """An operator between the dequantisations of ``x`` and a weight and a quantisation to ``y``."""
    return [
        node("DequantizeLinear", ["x", "xs", "xz"], ["xd"]),
        node("DequantizeLinear", [weight, "ws", "wz"], ["wd"]),
        *op,
        node("QuantizeLinear", ["r", "ys", "yz"], ["y"]),
    ]


def quantised_onnx() -> None:
    """Convolutions and dense layers of bytes in the forms that ONNX has for them."""
    image, result = (IMAGE, UINT8), (RESULT, UINT8)
    bias = (RANDOM.standard_normal(32) * 0.1).astype(np.float32)
    values = {**SCALES, "w": signed(*FILTERS), "b": bias}
    conv = [node("Conv", ["xd", "wd", "b"], ["c"], pads=[1] * 4), node("Relu", ["c"], ["r"])]
    save_onnx("qconv2d-qdq", between(conv, "w"), values, image, result)
    places = ["x", "xs", "xz", "w", "ws", "wz", "ys", "yz"]
    whole = np.round(bias / (SCALES["xs"] * SCALES["ws"])).astype(np.int32)
    linear = node("QLinearConv", [*places, "b"], ["y"], pads=[1] * 4)
    save_onnx("qconv2d-qlinear", [linear], {**values, "b": whole}, image, result)
    integer = {key: values[key] for key in ("w", "xz")}
    conv = node("ConvInteger", ["x", "w", "xz"], ["y"], pads=[1] * 4)
    save_onnx("qconv2d-integer", [conv], integer, image, (RESULT, onnx.TensorProto.INT32))

    rows, result = ([1, ROWS], UINT8), ([1, COLUMNS], UINT8)
    values = {**SCALES, "w": signed(ROWS, COLUMNS), "b": bias}
    dense = [node("MatMul", ["xd", "wd"], ["m"]), node("Add", ["m", "b"], ["r"])]
    save_onnx("qdense-qdq", between(dense, "w"), values, rows, result)
    values.pop("b")
    save_onnx("qdense-qlinear", [node("QLinearMatMul", places, ["y"])], values, rows, result)
    dynamic = [
        node("DynamicQuantizeLinear", ["x"], ["q", "s", "z"]),
        node("MatMulInteger", ["q", "w", "z"], ["i"]),
        node("Cast", ["i"], ["c"], to=FLOAT),
        node("Mul", ["c", "s"], ["y"]),
    ]
    save_onnx("qdense-dynamic", dynamic, {"w": values["w"]}, ([1, ROWS], FLOAT), ([1, COLUMNS], FLOAT))


def save_tflite(name: str, net: Net, output: int) -> None:
    """A TFLite file."""
    with open(os.path.join(HERE, f"{name}.tflite"), "wb") as file:
        file.write(net.finish(output))


def all_tflite() -> None:
    """The same operators as TFLite has them."""
    q = Quantisation
    n = Net()
    x = n.input("x", 1, 8, 8, 16, dtype="int8", quantised=q([0.02], 3))
    y = n.tensor("y", (1, 8, 8, 32), "int8", q([0.1], -5))
    bias = n.given("b", RANDOM.integers(-500, 500, 32).astype(np.int32), q([0.0002]))
    weight = n.given("w", signed(32, 3, 3, 16), q([0.01]))
    n.conv(x, weight, bias, y, FusedActivationFunction=tflite.ActivationFunctionType.RELU)
    save_tflite("qconv2d", n, y)
    n = Net()
    x = n.input("x", 1, ROWS, dtype="int8", quantised=q([0.02], 3))
    y = n.tensor("y", (1, COLUMNS), "int8", q([0.1], -5))
    bias = n.given("b", RANDOM.integers(-500, 500, COLUMNS).astype(np.int32), q([0.0002]))
    n.operator("FULLY_CONNECTED", [x, n.given("w", signed(COLUMNS, ROWS), q([0.01])), bias], [y], "FullyConnectedOptions")
    save_tflite("qdense", n, y)
    for name, operator, options, settings in (
        ("gelu", "GELU", "GeluOptions", {}),
        ("softmax", "SOFTMAX", "SoftmaxOptions", {"Beta": 1.0}),
    ):
        n = Net()
        x, y = n.input("x", 8, ROWS), n.tensor("y", (8, ROWS))
        n.operator(operator, [x], [y], options, **settings)
        save_tflite(name, n, y)


def float_onnx() -> None:
    """Composites of floating-point numbers."""
    rows = ([8, ROWS], FLOAT)
    save_onnx("gelu-operator", [node("Gelu", ["x"], ["y"])], {}, rows, rows)
    steps = [
        node("Div", ["x", "root"], ["d"]),
        node("Erf", ["d"], ["e"]),
        node("Add", ["e", "one"], ["a"]),
        node("Mul", ["x", "a"], ["m"]),
        node("Mul", ["m", "half"], ["y"]),
    ]
    save_onnx("gelu-steps", steps, {"root": np.float32(2**0.5), "one": np.float32(1), "half": np.float32(0.5)}, rows, rows)
    save_onnx("softmax", [node("Softmax", ["x"], ["y"])], {}, rows, rows)
    vectors = {"s": np.ones(ROWS, np.float32), "b": np.zeros(ROWS, np.float32)}
    save_onnx("layer_norm-operator", [node("LayerNormalization", ["x", "s", "b"], ["y"])], vectors, rows, rows)
    steps = [
        node("ReduceMean", ["x", "axes"], ["mean"]),
        node("Sub", ["x", "mean"], ["c"]),
        node("Mul", ["c", "c"], ["square"]),
        node("ReduceMean", ["square", "axes"], ["variance"]),
        node("Add", ["variance", "epsilon"], ["a"]),
        node("Sqrt", ["a"], ["deviation"]),
        node("Div", ["c", "deviation"], ["y"]),
    ]
    save_onnx("layer_norm-steps", steps, {"axes": np.int64([-1]), "epsilon": np.float32(1e-5)}, rows, rows)


def all_stablehlo() -> None:
    """JAX's lowering of the same functions."""
    jax = extras.load("stablehlo", "jax", "")
    x = np.zeros((8, ROWS), np.float32)
    for name, function in (
        ("gelu", lambda a: jax.nn.gelu(a, approximate=False)),
        ("softmax", jax.nn.softmax),
        ("layer_norm", lambda a: jax.nn.standardize(a, epsilon=1e-5)),
    ):
        with open(os.path.join(HERE, f"{name}.mlir"), "w", encoding="utf-8") as file:
            file.write(jax.jit(function).lower(x).as_text())


if __name__ == "__main__":
    quantised_onnx()
    all_tflite()
    float_onnx()
    all_stablehlo()
