"""TFLite files: that TVM computes what TFLite's own interpreter does, and what is refused in which words."""

from __future__ import annotations

import os
import unittest

import numpy as np
import tflite
from opbench_import import pipeline
from opbench_import.errors import ImportFailure
from opbench_import.request import InputOverride, Request

from . import support
from .tflite_writer import Net, Quantisation

try:
    from ai_edge_litert.interpreter import Interpreter, OpResolverType
except ImportError:
    Interpreter = None

RELU = tflite.ActivationFunctionType.RELU
STRIDES = {"Padding": tflite.Padding.SAME, "StrideH": 2, "StrideW": 2}
DEPTHWISE = {**STRIDES, "DepthMultiplier": 1, "DilationHFactor": 1, "DilationWFactor": 1}
POOL = {"Padding": tflite.Padding.VALID, "StrideH": 2, "StrideW": 2, "FilterHeight": 2, "FilterWidth": 2}


def import_tflite(path: str, **options: object) -> support.Imported:
    """Imports a file into a fresh folder."""
    folder = support.scratch()
    pipeline.run(Request("tflite", "net", folder, file=path, **options))
    return support.Imported(folder)


def interpreted(path: str, feeds: dict) -> list[np.ndarray]:
    """What TFLite's reference kernels compute."""
    interpreter = Interpreter(model_path=path, experimental_op_resolver_type=OpResolverType.BUILTIN_REF)
    interpreter.allocate_tensors()
    for entry in interpreter.get_input_details():
        interpreter.set_tensor(entry["index"], feeds[entry["name"]])
    interpreter.invoke()
    return [interpreter.get_tensor(entry["index"]) for entry in interpreter.get_output_details()]


def float_net() -> str:
    """Convolutions, pooling, a dense layer and a softmax in single precision."""
    n = Net()
    x = n.input("x", 1, 9, 9, 3)
    c = n.tensor("c", (1, 9, 9, 8))
    n.conv(x, n.weight("w", 8, 3, 3, 3), n.weight("b", 8), c, FusedActivationFunction=RELU)
    d = n.tensor("d", (1, 5, 5, 8))
    n.operator("DEPTHWISE_CONV_2D", [c, n.weight("dw", 1, 3, 3, 8), n.weight("db", 8)], [d], "DepthwiseConv2DOptions", **DEPTHWISE)
    a = n.tensor("a", (1, 5, 5, 8))
    n.operator("ADD", [d, n.weight("scale", 1, 1, 1, 8)], [a], "AddOptions")
    p = n.tensor("p", (1, 2, 2, 8))
    n.operator("MAX_POOL_2D", [a], [p], "Pool2DOptions", **POOL)
    r = n.tensor("r", (1, 32))
    n.operator("RESHAPE", [p, n.given("shape", np.array([1, 32], dtype=np.int32))], [r])
    f = n.tensor("f", (1, 10))
    n.operator("FULLY_CONNECTED", [r, n.weight("fw", 10, 32), n.weight("fb", 10)], [f], "FullyConnectedOptions")
    s = n.tensor("s", (1, 10))
    n.operator("SOFTMAX", [f], [s], "SoftmaxOptions", Beta=1.0)
    m = n.tensor("m", (1, 8))
    n.operator("MEAN", [a, n.given("axes", np.array([1, 2], dtype=np.int32))], [m], "ReducerOptions")
    return n.save(s, m)


def bytes_net(per_channel: bool) -> str:
    """The same in bytes, with one scale a tensor or one a channel."""
    n, q = Net(), Quantisation
    random = n.generator.integers

    def weight(name: str, scales: list[float], axis: int, *shape: int) -> int:
        return n.given(name, random(-127, 128, shape).astype(np.int8), q(scales, 0, axis))

    def bias(name: str, scales: list[float], count: int) -> int:
        return n.given(name, random(-500, 500, count).astype(np.int32), q(scales))

    steps = [0.01 * (i + 1) for i in range(8)] if per_channel else [0.02]
    x = n.input("x", 1, 9, 9, 3, dtype="int8", quantised=q([0.05], 3))
    c = n.tensor("c", (1, 9, 9, 8), "int8", q([0.2], -7))
    n.conv(x, weight("w", steps, 0, 8, 3, 3, 3), bias("b", [s * 0.05 for s in steps], 8), c, FusedActivationFunction=RELU)
    d = n.tensor("d", (1, 5, 5, 8), "int8", q([0.4], 5))
    arguments = [c, weight("dw", steps, 3, 1, 3, 3, 8), bias("db", [s * 0.2 for s in steps], 8)]
    n.operator("DEPTHWISE_CONV_2D", arguments, [d], "DepthwiseConv2DOptions", **DEPTHWISE)
    p = n.tensor("p", (1, 2, 2, 8), "int8", q([0.4], 5))
    n.operator("MAX_POOL_2D", [d], [p], "Pool2DOptions", **POOL)
    r = n.tensor("r", (1, 32), "int8", q([0.4], 5))
    n.operator("RESHAPE", [p, n.given("shape", np.array([1, 32], dtype=np.int32))], [r])
    f = n.tensor("f", (1, 10), "int8", q([0.1], -3))
    n.operator("FULLY_CONNECTED", [r, weight("fw", [0.001], 0, 10, 32), bias("fb", [0.0004], 10)], [f], "FullyConnectedOptions")
    e = n.tensor("e", (1, 10), "uint8", q([0.08], 120))
    n.operator("QUANTIZE", [f], [e], "QuantizeOptions")
    s = n.tensor("s", (1, 10), "int8", q([1 / 256], -128))
    n.operator("SOFTMAX", [f], [s], "SoftmaxOptions", Beta=1.0)
    return n.save(f, e, s)


@unittest.skipIf(Interpreter is None, "ai-edge-litert is not installed here")
class Numbers(unittest.TestCase):
    """Results against TFLite's interpreter."""

    def test_float_networks(self):
        path = float_net()
        imported = import_tflite(path)
        feeds = imported.random_feeds()
        self.assertLess(support.largest_difference(imported.run(feeds), interpreted(path, feeds)), 1e-5)

    def test_networks_of_bytes_within_one_step(self):
        for per_channel in (True, False):
            path = bytes_net(per_channel)
            imported = import_tflite(path)
            feeds = imported.random_feeds()
            for ours, theirs in zip(imported.run(feeds), interpreted(path, feeds), strict=True):
                self.assertEqual(ours.dtype, theirs.dtype)
                self.assertLessEqual(np.abs(ours.astype(int) - theirs).max(), 1)
                self.assertGreater(len(np.unique(ours)), 2, "constants would tell nothing")


class Structure(unittest.TestCase):
    """What files become."""

    def test_channels_come_first_and_weights_are_parameters(self):
        imported = import_tflite(float_net())
        self.assertEqual([o["name"] for o in imported.operators("conv2d")], ["conv2d_add_relu"])
        self.assertEqual(len(imported.operators("transpose")), 2, "one for the input, one before the flattening")
        self.assertEqual([i["name"] for i in imported.graph["inputs"] if i["role"] == "input"], ["x"])
        self.assertEqual([o["name"] for o in imported.graph["outputs"]], ["s", "m"])

    def test_bytes_stay_bytes(self):
        imported = import_tflite(bytes_net(per_channel=True))
        names = [o["name"] for o in imported.graph["operators"]]
        self.assertEqual(names.count("qconv2d_requantize"), 2)
        self.assertIn("qdense_requantize", names)
        self.assertIn("requantize", names)
        for operator in imported.operators("qconv2d"):
            data = [a["dtype"] for a in operator["args"] if a["role"] != "weight"]
            self.assertEqual(data, ["int8", "int8"])
        first = imported.operators("qconv2d")[0]
        self.assertEqual(first["flops"], 2 * 9 * 9 * 8 * 3 * 3 * 3, "what fills up runs of four is not counted")

    def test_another_batch(self):
        n = Net()
        x, y = n.input("x", 1, 8), n.tensor("y", (1, 4))
        n.operator("FULLY_CONNECTED", [x, n.weight("w", 4, 8), n.weight("b", 4)], [y], "FullyConnectedOptions")
        path = n.save(y)
        imported = import_tflite(path, batch=3)
        self.assertEqual((imported.graph["batch"], imported.graph["outputs"][0]["shape"]), (3, [3, 4]))
        with self.assertRaises(ImportFailure) as caught:
            import_tflite(path, inputs=[InputOverride("z", [1, 8])])
        self.assertEqual(caught.exception.kind, "unknown_input")


class Refusals(unittest.TestCase):
    """Files that cannot be imported."""

    def refused(self, content: bytes, kind: str) -> str:
        path = os.path.join(support.scratch(), "bad.tflite")
        with open(path, "wb") as file:
            file.write(content)
        with self.assertRaises(ImportFailure) as caught:
            import_tflite(path)
        self.assertEqual(caught.exception.kind, kind, caught.exception)
        return str(caught.exception)

    def test_what_is_no_tflite_file(self):
        self.assertIn("TFL3", self.refused(b"", "corrupt_model"))
        self.assertIn("TFL3", self.refused(b"\x08\x07\x12\x04onnx", "corrupt_model"))

    def test_files_cut_short_and_changed_anywhere(self):
        with open(bytes_net(per_channel=False), "rb") as file:
            content = file.read()
        for length in range(8, len(content), 211):
            self.refused(content[:length], "corrupt_model")
        generator = np.random.default_rng(0)
        for _ in range(40):
            damaged = bytearray(content)
            for place in generator.integers(8, len(content), 6):
                damaged[place] = generator.integers(0, 256)
            path = os.path.join(support.scratch(), "bad.tflite")
            with open(path, "wb") as file:
                file.write(damaged)
            try:
                import_tflite(path)
            except ImportFailure as failure:
                self.assertIn(failure.kind, ("corrupt_model", "unsupported_operator", "bad_shape"))

    def test_sizes_that_cannot_be(self):
        n = Net()
        x, y = n.input("x", 1 << 20, 1 << 20), n.tensor("y", (1 << 20, 1 << 20))
        n.operator("RELU", [x], [y])
        self.assertIn("has the shape", self.refused(n.finish(y), "corrupt_model"))
        n = Net()
        w = n.tensor("w", (4, 8), value=np.zeros(3, np.float32))
        y = n.tensor("y", (1, 4))
        n.operator("FULLY_CONNECTED", [n.input("x", 1, 8), w], [y], "FullyConnectedOptions")
        self.assertIn("12 bytes instead of 128", self.refused(n.finish(y), "corrupt_model"))

    def test_operators_without_a_rule_are_named(self):
        n = Net()
        y = n.tensor("hashes", (1, 8))
        n.operator("LSH_PROJECTION", [n.input("x", 1, 8)], [y])
        message = self.refused(n.finish(y), "unsupported_operator")
        self.assertIn("LSH_PROJECTION", message)
        self.assertIn("'hashes'", message)
