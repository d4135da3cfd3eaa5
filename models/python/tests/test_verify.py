"""The check of imports against ONNX Runtime: what it finds, what it names, and what it says where it cannot look."""

from __future__ import annotations

import unittest
from unittest import mock

import numpy as np
from onnx import TensorProto
from opbench_import import evaluate, frontend, normalise, pack, verify
from opbench_import.errors import ImportFailure
from opbench_import.onnx_graph import set_attribute
from tvm import relax

from . import support
from .builders import Model


def network(opset: int = 17):
    """A convolution with padding, a clipped sum and a product: something for each mutation."""
    m = Model()
    x = m.input("x", 1, 4, 9, 9)
    conv = m.node("Conv", [x, m.weight("w", 20, 4, 3, 3), m.weight("b", 20)], "conv", auto_pad="SAME_LOWER", strides=[2, 2])
    low, high = (m.constant(n, np.array(v, dtype=np.float32)) for n, v in (("low", -0.3), ("high", 0.4)))
    clip = m.node("Clip", [conv, low, high], "clip")
    mean = m.node("GlobalAveragePool", [clip], "mean")
    flat = m.node("Flatten", [mean], "flat")
    m.node("MatMul", [flat, m.weight("v", 20, 5)], "y")
    return m.build("y", opset=opset)


class Mutations(unittest.TestCase):
    """An importer that was broken on purpose is found, and the node that it breaks is named."""

    def refused(self, op: str, model=None) -> None:
        with self.assertRaises(ImportFailure) as caught:
            support.import_model(model or network())
        self.assertEqual(caught.exception.kind, "wrong_import")
        self.assertIn(f"({op})", str(caught.exception))
        self.assertIn("ONNX Runtime", str(caught.exception))

    def test_the_network_is_imported_rightly(self):
        check = support.import_model(network()).graph["check"]
        self.assertRegex(check["reference"], r"^ONNX Runtime \d")
        self.assertIsNone(check["reason"])

    def test_pads_on_the_wrong_side(self):
        m = Model()
        # Of one missing row and column, each mode adds it on another side.
        x, weight = m.input("x", 1, 4, 8, 8), m.weight("w", 4, 4, 3, 3)
        m.node("Conv", [x, weight], "y", auto_pad="SAME_LOWER", strides=[2, 2])
        right = normalise.explicit_pads

        def wrong(graph):
            for node in graph.nodes:
                set_attribute(node, "auto_pad", "SAME_UPPER")
            right(graph)

        with mock.patch.object(normalise, "explicit_pads", wrong):
            self.refused("Conv", m.build("y"))

    def test_a_bound_that_is_dropped(self):
        with mock.patch.object(frontend, "bounded", lambda data, low, _high: relax.op.clip(data, low, float("inf"))):
            self.refused("Clip")

    def test_weights_packed_in_another_order(self):
        right = pack.Packing.pack
        with mock.patch.object(pack.Packing, "pack", lambda self, value: right(self, value)[..., ::-1]):
            self.refused("Conv")


class Words(unittest.TestCase):
    """What an import says of its check."""

    def test_models_that_draw_numbers_are_not_checked(self):
        m = Model()
        m.node("Add", [m.input("x", 2, 3), m.node("RandomNormal", [], "r", shape=[2, 3])], "y")
        check = support.import_model(m.build("y")).graph["check"]
        self.assertEqual((check["reference"], "RandomNormal" in check["reason"]), (None, True))

    def test_the_reference_evaluator_stands_in_for_onnx_runtime(self):
        m = Model()
        m.node("Mod", [m.input("x", 3, 4, dtype=TensorProto.FLOAT16), m.input("z", 3, 4, dtype=TensorProto.FLOAT16)], "y", fmod=1)
        with mock.patch("opbench_import.oracles.onnx_runtime", side_effect=verify.Unchecked("it is not installed")):
            check = support.import_model(m.build("y")).graph["check"]
        self.assertIn("reference evaluator", check["reference"])

    def test_without_any_reference_the_reasons_are_kept(self):
        refuse = mock.Mock(side_effect=verify.Unchecked("it is not installed"))
        with mock.patch("opbench_import.oracles.onnx_runtime", refuse):
            with mock.patch("opbench_import.oracles.reference_evaluator", refuse):
                check = support.import_model(network()).graph["check"]
        self.assertEqual(check, {"reference": None, "reason": "it is not installed; it is not installed"})


class Differences(unittest.TestCase):
    """Which numbers count as others."""

    def complaint(self, ours: list, theirs: list, dtype: str = "float32", operators: tuple = ()) -> str | None:
        arrays = (np.array(v, dtype=dtype) for v in (ours, theirs))
        return verify.Tolerance.of({dtype}, list(operators)).complaint(*arrays)

    def test_rounding_is_no_difference(self):
        self.assertIsNone(self.complaint([1.0, 2.00001, np.inf, np.nan], [1.0, 2.0, np.inf, np.nan]))
        self.assertIsNone(self.complaint([7, 200], [7, 201], "uint8", ("QLinearConv",)))

    def test_everything_else_is(self):
        for ours, theirs, dtype in [
            ([1.0, 2.1], [1.0, 2.0], "float32"),
            ([np.inf], [1.0], "float32"),
            ([1.0], [np.nan], "float32"),
            ([0.0, 100.0], [0.1, 100.0], "float32"),
            ([7], [8], "int64"),
            ([0], [255], "uint8"),
            ([True], [False], "bool"),
        ]:
            with self.subTest(ours=ours, theirs=theirs):
                self.assertIsNotNone(self.complaint(ours, theirs, dtype))
        self.assertIn("instead of", self.complaint([1.0], [[1.0]]))


class Schedules(unittest.TestCase):
    """The schedule of these runs changes no result."""

    def test_plain_and_scheduled_kernels_agree(self):
        imported = support.import_model(network())
        feeds = imported.random_feeds()
        arguments = [np.asarray(imported.argument(e, feeds)) for e in imported.graph["inputs"]]
        fast = evaluate.machine(imported.module)(arguments)
        self.assertLess(support.largest_difference(fast, imported.run(feeds)), 1e-5)


if __name__ == "__main__":
    unittest.main()
