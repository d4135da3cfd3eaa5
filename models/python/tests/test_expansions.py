"""Operators that are replaced before conversion: quantised ones, control flow, generators, forms of LSTM."""

from __future__ import annotations

import itertools
import unittest

import numpy as np
import onnx
from onnx import TensorProto, helper
from onnx.reference import ReferenceEvaluator
from opbench_import.errors import ImportFailure
from opbench_import.request import InputOverride

from . import support
from .builders import Model


class Expansions(unittest.TestCase):
    """Each computes what ONNX Runtime computes."""

    def agree(self, model: onnx.ModelProto, limit: float = 1e-5, **options: object) -> support.Imported:
        """Compares an import with ONNX Runtime on seeded inputs."""
        path = support.save(model)
        imported = support.import_file(path, **options)
        feeds = imported.random_feeds()
        found, wanted = imported.run(feeds), support.expected(path, feeds)
        self.assertLessEqual(support.largest_difference(found, wanted), limit)
        return imported

    def test_lstm_with_peepholes_clip_and_coupled_gates(self):
        for options in ({}, {"clip": 0.3}, {"input_forget": 1}):
            m = Model()
            inputs = [m.input("x", 3, 2, 5), m.weight("w", 1, 16, 5), m.weight("r", 1, 16, 4), m.weight("b", 1, 32)]
            m.node("LSTM", [*inputs, "", "", "", m.weight("p", 1, 12)], ["", "y"], hidden_size=4, **options)
            with self.subTest(options=options):
                self.agree(m.build("y"))

    def test_layer_normalisation_with_its_moments_as_results(self):
        m = Model()
        inputs = [m.input("x", 2, 3, 8), m.weight("scale", 8, low=0.5), m.weight("bias", 8)]
        m.node("LayerNormalization", inputs, ["y", "mean", "deviation"], axis=-1)
        self.agree(m.build("y", "mean", "deviation"))

    def test_a_place_of_an_axis_is_written_without_a_scatter(self):
        for axis, place in ((0, 0), (1, 2), (-1, -1)):
            m = Model()
            x = m.input("x", 2, 4, 3)
            whole = [2, 4, 3]
            whole[axis] = 1
            indices = m.constant("i", np.full(whole, place, np.int64))
            m.node("ScatterElements", [x, indices, m.input("u", *whole)], "y", axis=axis)
            with self.subTest(axis=axis):
                imported = self.agree(m.build("y"))
                self.assertEqual(len(imported.operators("concat")), 1)

    def test_places_that_are_written_one_after_the_other_are_one_row_of_pieces(self):
        m = Model()
        x = m.input("x", 2, 4, 3)
        for step, place in enumerate((2, 0, 3)):
            indices = m.constant(f"i{step}", np.full((2, 1, 3), place, np.int64))
            x = m.node("ScatterElements", [x, indices, m.input(f"u{step}", 2, 1, 3)], f"y{step}", axis=1)
        (concat,) = self.agree(m.build("y2")).operators("concat")
        self.assertEqual(sum(a["shape"] == [2, 1, 3] for a in concat["args"]), 3)

    def test_extremes_of_infinities_are_infinite(self):
        x = np.random.default_rng(3).standard_normal((4, 8)).astype(np.float32)
        x[1] = -np.inf
        x[2] = np.finfo(np.float32).min
        x[3, 5] = np.inf
        for op, sign in (("ReduceMax", 1), ("ReduceMin", -1)):
            for dtype in (np.float32, np.float16):
                m = Model()
                m.node(op, [m.input("x", 4, 8, dtype=helper.np_dtype_to_tensor_dtype(np.dtype(dtype)))], "y", axes=[1], keepdims=0)
                model = m.build("y", opset=13)
                values = (sign * x).astype(dtype)
                with self.subTest(op=op, dtype=dtype):
                    imported = support.import_model(model)
                    np.testing.assert_array_equal(imported.run({"x": values})[0], sign * (sign * values).max(axis=1))
                    self.assertEqual(len(imported.graph["operators"]), 1)

    def test_places_of_infinities_are_in_their_rows(self):
        x = np.random.default_rng(3).standard_normal((4, 8)).astype(np.float32)
        x[1] = -np.inf
        x[2] = np.inf
        for op in ("ArgMax", "ArgMin"):
            for last in (0, 1):
                m = Model()
                place = m.node(op, [m.input("x", 4, 8)], "place", axis=1, keepdims=0, select_last_index=last)
                m.node("Cast", [place], "y", to=TensorProto.FLOAT)
                path = support.save(m.build("y"))
                with self.subTest(op=op, last=last):
                    found = support.import_file(path).run({"x": x})
                    self.assertEqual(support.largest_difference(found, support.expected(path, {"x": x})), 0)

    def test_the_largest_of_long_rows(self):
        x = np.random.default_rng(3).integers(0, 50, (3, 700)).astype(np.float32)
        x[1] = -np.inf
        x[1, 600] = 2.0
        for axis, turned in ((1, x), (0, np.ascontiguousarray(x.T))):
            for count, of_all in ((5, 1), (5, 0), (20, 1)):
                m = Model()
                k = m.constant("k", np.array([count]))
                m.node("TopK", [m.input("x", *turned.shape), k], ["y", "place"], axis=axis, largest=of_all)
                m.node("Cast", ["place"], "at", to=TensorProto.FLOAT)
                path = support.save(m.build("y", "at"))
                with self.subTest(axis=axis, count=count, largest=of_all):
                    found = support.import_file(path).run({"x": turned})
                    for ours, theirs in zip(found, support.expected(path, {"x": turned})):
                        np.testing.assert_array_equal(ours, theirs)

    def test_long_rows_are_accumulated_block_by_block(self):
        x = np.random.default_rng(3).standard_normal((3, 300)).astype(np.float32)
        x[1, 200] = np.inf
        for axis, turned in ((1, x), (0, np.ascontiguousarray(x.T))):
            for exclusive, reverse in itertools.product((0, 1), repeat=2):
                m = Model()
                data = m.input("x", *turned.shape)
                m.node("CumSum", [data, m.constant("a", np.array(axis))], "y", exclusive=exclusive, reverse=reverse)
                path = support.save(m.build("y"))
                with self.subTest(axis=axis, exclusive=exclusive, reverse=reverse):
                    found = support.import_file(path).run({"x": turned})[0]
                    np.testing.assert_allclose(found, support.expected(path, {"x": turned})[0], rtol=1e-5, atol=1e-4)

    def test_windows_of_nothing_but_minus_infinity(self):
        x = np.full((1, 2, 6, 6), -np.inf, np.float32)
        x[0, 1, 3, 3] = 1.0
        m = Model()
        m.node("MaxPool", [m.input("x", 1, 2, 6, 6)], "y", kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1])
        found = support.import_model(m.build("y")).run({"x": x})[0]
        wanted = np.full((2, 3, 3), -np.inf, np.float32)
        wanted[1, 1:, 1:] = 1.0
        np.testing.assert_array_equal(found[0], wanted)

    def test_one_hot_of_other_types_and_axes(self):
        m = Model()
        indices = m.input("i", 2, 3, dtype=TensorProto.INT32)
        values = m.constant("v", np.array([0.5, 2.0], np.float32))
        m.node("OneHot", [indices, m.constant("d", np.array(4, np.int64)), values], "y", axis=1)
        model = m.build("y")
        # ONNX Runtime has no kernel for these types; negative indices count from the end.
        feeds = {"i": np.array([[0, 3, -1], [-4, 2, 1]], np.int32)}
        wanted = ReferenceEvaluator(model).run(None, feeds)
        self.assertEqual(support.largest_difference(support.import_model(model).run(feeds), wanted), 0)

    def test_quantised_products(self):
        m = Model()
        x = m.input("x", 4, 8)
        scale, zero = m.constant("s", np.float32(0.05)), m.constant("z", np.array(3, np.uint8))
        w = m.constant("w", np.random.default_rng(1).integers(0, 255, (8, 6)).astype(np.uint8))
        q = m.node("QuantizeLinear", [x, scale, zero], "q")
        y = m.node("QLinearMatMul", [q, scale, zero, w, scale, zero, scale, zero], "qy")
        m.node("DequantizeLinear", [y, scale, zero], "y")
        self.agree(m.build("y"), limit=0.06)

    def test_quantised_convolutions_with_scales_by_channel(self):
        m = Model()
        x = m.input("x", 1, 3, 6, 6)
        scale, zero = m.constant("s", np.float32(0.02)), m.constant("z", np.array(128, np.uint8))
        generator = np.random.default_rng(2)
        w = m.constant("w", generator.integers(-100, 100, (4, 3, 3, 3)).astype(np.int8))
        scales = m.constant("ws", np.array([0.01, 0.02, 0.03, 0.04], np.float32))
        zeros, bias = m.constant("wz", np.zeros(4, np.int8)), m.constant("b", np.arange(4, dtype=np.int32) * 50)
        q = m.node("QuantizeLinear", [x, scale, zero], "q")
        y = m.node("QLinearConv", [q, scale, zero, w, scales, zeros, scale, zero, bias], "qy", pads=[1, 1, 1, 1])
        m.node("DequantizeLinear", [y, scale, zero], "y")
        self.agree(m.build("y"), limit=0.02)

    def test_conditions_known_at_import(self):
        branches = {}
        for name, op in (("then_branch", "Relu"), ("else_branch", "Neg")):
            output = helper.make_empty_tensor_value_info("o")
            branches[name] = helper.make_graph([helper.make_node(op, ["x"], ["o"])], name, [], [output])
        m = Model()
        m.input("x", 2, 4)
        m.node("If", [m.constant("c", np.array(True))], "h", **branches)
        m.node("Exp", ["h"], "y")
        self.assertEqual(len(self.agree(m.build("y")).graph["operators"]), 1)

    def test_loops_of_a_known_length(self):
        body = helper.make_graph(
            [
                helper.make_node("Identity", ["going"], ["goes_on"]),
                helper.make_node("Mul", ["state", "factor"], ["next"]),
                helper.make_node("Relu", ["next"], ["row"]),
            ],
            "body",
            [
                helper.make_tensor_value_info("step", TensorProto.INT64, []),
                helper.make_tensor_value_info("going", TensorProto.BOOL, []),
                helper.make_tensor_value_info("state", TensorProto.FLOAT, [2, 4]),
            ],
            [
                helper.make_tensor_value_info("goes_on", TensorProto.BOOL, []),
                helper.make_tensor_value_info("next", TensorProto.FLOAT, [2, 4]),
                helper.make_tensor_value_info("row", TensorProto.FLOAT, [2, 4]),
            ],
        )
        m = Model()
        m.constant("factor", np.full((2, 4), 0.5, np.float32))
        count, true = m.constant("n", np.array(3, np.int64)), m.constant("t", np.array(True))
        m.node("Loop", [count, true, m.input("x", 2, 4)], ["last", "rows"], body=body)
        self.agree(m.build("last", "rows"))

    def test_loops_that_end_themselves(self):
        def scalar(name: str, dtype: int) -> onnx.ValueInfoProto:
            return helper.make_tensor_value_info(name, dtype, [])

        state = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [2]) for name in ("state", "next")]
        body = helper.make_graph(
            [helper.make_node("Less", ["step", "last"], ["goes_on"]), helper.make_node("Add", ["state", "one"], ["next"])],
            "body",
            [scalar("step", TensorProto.INT64), scalar("going", TensorProto.BOOL), state[0]],
            [scalar("goes_on", TensorProto.BOOL), state[1]],
        )
        for begins in (True, False):
            m = Model()
            m.constant("last", np.array(2, np.int64))
            m.constant("one", np.ones(2, np.float32))
            m.node("Loop", ["", m.constant("t", np.array(begins)), m.input("x", 2)], "ended", body=body)
            m.node("Neg", ["ended"], "y")
            with self.subTest(begins=begins):
                self.agree(m.build("y"))

    def test_definitions_that_onnx_carries(self):
        m = Model()
        m.node("Celu", [m.input("x", 2, 6)], "y", alpha=0.7)
        self.agree(m.build("y"))
        m = Model()
        x = m.input("x", 2, 4, 5)
        m.node("GroupNormalization", [x, m.weight("s", 4), m.weight("b", 4)], "y", num_groups=2)
        self.agree(m.build("y", opset=21))

    def test_dropout_at_inference_keeps_everything_and_in_training_is_refused(self):
        m = Model()
        dropped = m.node("Dropout", [m.input("x", 2, 3)], ["d", "mask"])
        m.node("Relu", [dropped], "y")
        model = m.build("y", "mask")
        model.graph.output[1].type.tensor_type.elem_type = TensorProto.BOOL
        found = support.import_model(model).run({"x": np.ones((2, 3), np.float32)})
        self.assertTrue(found[1].dtype == bool and found[1].all())
        m = Model()
        m.node("Dropout", [m.input("x", 2, 3), "", m.constant("t", np.array(True))], "y")
        with self.assertRaises(ImportFailure) as caught:
            support.import_model(m.build("y"))
        self.assertIn("random", str(caught.exception))

    def test_generators_give_the_same_numbers_every_time(self):
        m = Model()
        x = m.input("x", 8, 16)
        m.node("Add", [x, m.node("RandomNormalLike", [x], "n", scale=2.0)], "y")
        path = support.save(m.build("y"))
        feeds = {"x": np.zeros((8, 16), np.float32)}
        first, second = (support.import_file(path).run(feeds)[0] for _ in range(2))
        np.testing.assert_array_equal(first, second)
        self.assertTrue(1.0 < first.std() < 3.0)

    def test_inputs_without_a_shape_ask_for_one(self):
        m = Model()
        m.node("Relu", [m.input("x")], "y")
        model = m.build("y")
        model.graph.input[0].type.tensor_type.ClearField("shape")
        with self.assertRaises(ImportFailure) as caught:
            support.import_model(model)
        self.assertIn("--input x:SHAPE", str(caught.exception))
        self.agree(model, inputs=[InputOverride("x", [2, 3])])


if __name__ == "__main__":
    unittest.main()
