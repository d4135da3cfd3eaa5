"""Quantised ONNX models: products of bytes in integers, with ONNX Runtime's results."""

from __future__ import annotations

import unittest

import ml_dtypes
import numpy as np
import onnx
from onnx import helper, numpy_helper

from . import support

FLOAT, INT32, UINT8, INT8 = (getattr(onnx.TensorProto, n) for n in ("FLOAT", "INT32", "UINT8", "INT8"))
GENERATOR = np.random.default_rng(0)


def signed(*shape: int) -> np.ndarray:
    """Seeded signed bytes."""
    return GENERATOR.integers(-127, 128, shape).astype(np.int8)


def single(value: float) -> np.ndarray:
    """A scale."""
    return np.float32(value)


def model(nodes: list, values: dict, reads: tuple, writes: tuple) -> onnx.ModelProto:
    """A model of one input and one output, each (name, shape, type)."""
    ends = [helper.make_tensor_value_info(name, dtype, shape) for name, shape, dtype in (reads, writes)]
    initializers = [numpy_helper.from_array(np.asarray(v), k) for k, v in values.items()]
    graph = helper.make_graph(nodes, "g", ends[:1], ends[1:], initializers)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


node = helper.make_node


def qdq_network(data: type, weight: type) -> onnx.ModelProto:
    """Convolutions, a pooling and a dense layer between dequantisations and quantisations."""
    channels = 8 if weight is np.int8 else 1
    steps = np.abs(GENERATOR.standard_normal(channels)).astype(np.float32) * 0.02 + 0.001
    first = signed(8, 3, 3, 3) if weight is np.int8 else GENERATOR.integers(0, 256, (8, 3, 3, 3)).astype(np.uint8)
    middle = np.zeros(8, np.int8) if weight is np.int8 else np.uint8(117)
    values = {
        "w": first,
        "ws": steps if channels > 1 else steps[0],
        "wz": middle,
        "b": GENERATOR.integers(-500, 500, 8).astype(np.int32),
        "bs": (0.03 * steps * np.ones(8)).astype(np.float32),
        "bz": np.zeros(8, np.int32),
        "xs": single(0.03),
        "xz": data(3),
        "ys": single(0.05),
        "yz": data(10),
        "w2": signed(20, 8, 1, 1),
        "ws2": single(0.02),
        "wz2": np.int8(0),
        "w3": signed(10, 20),
        "b3": GENERATOR.standard_normal(10).astype(np.float32),
    }
    nodes = [
        node("QuantizeLinear", ["x", "xs", "xz"], ["xq"]),
        node("DequantizeLinear", ["xq", "xs", "xz"], ["xd"]),
        node("DequantizeLinear", ["w", "ws", "wz"], ["wd"], axis=0),
        node("DequantizeLinear", ["b", "bs", "bz"], ["bd"], axis=0),
        node("Conv", ["xd", "wd", "bd"], ["c"], pads=[1, 1, 1, 1]),
        node("Relu", ["c"], ["r"]),
        node("QuantizeLinear", ["r", "ys", "yz"], ["rq"]),
        node("DequantizeLinear", ["rq", "ys", "yz"], ["rd"]),
        node("DequantizeLinear", ["w2", "ws2", "wz2"], ["wd2"]),
        node("Conv", ["rd", "wd2"], ["c2"]),
        node("QuantizeLinear", ["c2", "ys", "yz"], ["q2"]),
        node("DequantizeLinear", ["q2", "ys", "yz"], ["d2"]),
        node("GlobalAveragePool", ["d2"], ["p"]),
        node("QuantizeLinear", ["p", "ys", "yz"], ["pq"]),
        node("DequantizeLinear", ["pq", "ys", "yz"], ["pd"]),
        node("Flatten", ["pd"], ["f"]),
        node("DequantizeLinear", ["w3", "ws2", "wz2"], ["wd3"]),
        node("Gemm", ["f", "wd3", "b3"], ["y"], transB=1),
    ]
    return model(nodes, values, ("x", [2, 3, 9, 9], FLOAT), ("y", [2, 10], FLOAT))


def imported_and_expected(proto: onnx.ModelProto) -> tuple[support.Imported, np.ndarray, np.ndarray]:
    """The import, its result for seeded inputs, and ONNX Runtime's."""
    path = support.save(proto)
    imported = support.import_file(path)
    feeds = imported.random_feeds()
    (ours,), (theirs,) = imported.run(feeds), support.expected(path, feeds)
    return imported, ours, theirs


class Products(unittest.TestCase):
    """Convolutions and dense layers of bytes."""

    def test_networks_in_qdq_form(self):
        for data, weight in ((np.uint8, np.int8), (np.int8, np.int8), (np.uint8, np.uint8)):
            imported, ours, theirs = imported_and_expected(qdq_network(data, weight))
            # One step of a result on the way, through ten weights at most.
            self.assertLess(np.abs(ours - theirs).max(), 0.05 * 0.02 * 127 * 2)
            self.assertGreater(np.abs(theirs).max(), 10)
            kinds = [o["kind"] for o in imported.graph["operators"]]
            self.assertEqual(kinds.count("qconv2d"), 2)
            self.assertIn("qdense", kinds)
            stored = imported.operators("qconv2d")[0]["args"][1]["dtype"]
            self.assertEqual(stored, "int16" if weight is np.uint8 else "int8")

    def test_operators_of_quantised_data(self):
        values = {
            "xs": single(0.03),
            "xz": np.uint8(7),
            "w": signed(8, 6, 3, 3),
            "ws": 0.01 * np.arange(1, 9, dtype=np.float32),
            "wz": np.zeros(8, np.int8),
            "ys": single(0.3),
            "yz": np.uint8(100),
            "b": GENERATOR.integers(-500, 500, 8).astype(np.int32),
        }
        inputs = ["x", "xs", "xz", "w", "ws", "wz", "ys", "yz", "b"]
        conv = node("QLinearConv", inputs, ["y"], pads=[1, 1, 1, 1], strides=[2, 2])
        proto = model([conv], values, ("x", [1, 6, 9, 9], UINT8), ("y", [1, 8, 5, 5], UINT8))
        imported, ours, theirs = imported_and_expected(proto)
        self.assertLessEqual(np.abs(ours.astype(int) - theirs).max(), 1)
        self.assertEqual([o["name"] for o in imported.graph["operators"]], ["qconv2d_requantize"])
        values = {**values, "w": signed(30, 20), "ws": single(0.02), "wz": np.int8(0)}
        values.pop("b")
        proto = model(
            [node("QLinearMatMul", inputs[:8], ["y"])], values, ("x", [3, 5, 30], UINT8), ("y", [3, 5, 20], UINT8)
        )
        imported, ours, theirs = imported_and_expected(proto)
        self.assertLessEqual(np.abs(ours.astype(int) - theirs).max(), 1)
        self.assertEqual([o["name"] for o in imported.graph["operators"]], ["qdense_requantize"])

    def test_sums_are_exact(self):
        weight = GENERATOR.integers(0, 256, (8, 6, 3, 3)).astype(np.uint8)
        conv = node("ConvInteger", ["x", "w", "xz"], ["y"], pads=[1, 1, 1, 1])
        proto = model([conv], {"w": weight, "xz": np.uint8(7)}, ("x", [1, 6, 9, 9], UINT8), ("y", [1, 8, 9, 9], INT32))
        _, ours, theirs = imported_and_expected(proto)
        np.testing.assert_array_equal(ours, theirs)
        # Sums beyond what single precision can hold.
        dense = node("MatMulInteger", ["x", "w", "xz", "wz"], ["y"])
        for weight, zero in ((np.full((3000, 4), 127, np.int8), np.int8(0)), (signed(3000, 4), np.int8(-3))):
            values = {"w": weight, "xz": np.uint8(1), "wz": zero}
            proto = model([dense], values, ("x", [2, 3000], UINT8), ("y", [2, 4], INT32))
            imported, ours, theirs = imported_and_expected(proto)
            np.testing.assert_array_equal(ours, theirs)
            self.assertEqual([o["kind"] for o in imported.graph["operators"]], ["qdense"])

    def test_zero_points_of_the_run(self):
        nodes = [
            node("DynamicQuantizeLinear", ["x"], ["q", "s", "z"]),
            node("MatMulInteger", ["q", "w", "z"], ["i"]),
            node("Cast", ["i"], ["c"], to=FLOAT),
            node("Mul", ["c", "s"], ["y"]),
        ]
        proto = model(nodes, {"w": signed(30, 20)}, ("x", [4, 30], FLOAT), ("y", [4, 20], FLOAT))
        imported, ours, theirs = imported_and_expected(proto)
        np.testing.assert_allclose(ours, theirs, rtol=1e-5)
        self.assertEqual(len(imported.operators("qdense")), 1)

    def test_depthwise_convolutions(self):
        values = {"w": signed(6, 1, 3, 3), "s": single(0.01), "z": np.int8(4), "wz": np.int8(0)}
        nodes = [
            node("DequantizeLinear", ["x", "s", "z"], ["xd"]),
            node("DequantizeLinear", ["w", "s", "wz"], ["wd"]),
            node("Conv", ["xd", "wd"], ["y"], pads=[1, 1, 1, 1], group=6),
        ]
        imported, ours, theirs = imported_and_expected(
            model(nodes, values, ("x", [1, 6, 7, 7], INT8), ("y", [1, 6, 7, 7], FLOAT))
        )
        np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-4)
        self.assertEqual([o["name"] for o in imported.graph["operators"]], ["qconv2d_dequantize"])

    def test_weights_alone_become_numbers(self):
        values = {"w": signed(30, 20), "s": single(0.01), "z": np.int8(0)}
        nodes = [node("DequantizeLinear", ["w", "s", "z"], ["wd"]), node("MatMul", ["x", "wd"], ["y"])]
        imported = support.import_model(model(nodes, values, ("x", [4, 30], FLOAT), ("y", [4, 20], FLOAT)))
        feeds = imported.random_feeds()
        # ONNX Runtime would quantise the data too.
        np.testing.assert_allclose(imported.run(feeds)[0], feeds["x"] @ (values["w"] * values["s"]), rtol=1e-3, atol=1e-5)
        self.assertEqual([o["kind"] for o in imported.graph["operators"]], ["dense"])

    def test_weights_of_four_bits_in_blocks(self):
        scales = np.abs(GENERATOR.standard_normal((4, 16))).astype(np.float32) * 0.1 + 0.01
        places = GENERATOR.integers(0, 16, (128, 16))
        values = {"w": places.astype(ml_dtypes.uint4), "s": scales, "z": np.full((4, 16), 8).astype(ml_dtypes.uint4)}
        nodes = [
            node("DequantizeLinear", ["w", "s", "z"], ["d"], axis=0, block_size=32),
            node("MatMul", ["x", "d"], ["y"]),
        ]
        proto = model(nodes, values, ("x", [8, 128], FLOAT), ("y", [8, 16], FLOAT))
        proto.opset_import[0].version = 21
        proto.ir_version = 10
        imported = support.import_model(proto)
        feeds = imported.random_feeds()
        # ONNX Runtime would compute with the data in bytes.
        expected = feeds["x"] @ ((places - 8) * np.repeat(scales, 32, axis=0))
        self.assertLess(support.largest_difference(imported.run(feeds), [expected]), 1e-5)
        self.assertIn("dense", [o["kind"] for o in imported.graph["operators"]])
