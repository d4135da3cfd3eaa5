"""Operator facts against counts made by hand: FLOPs, traffic, kinds, attributes, sharing, fill hints."""

from __future__ import annotations

import unittest

import numpy as np
from opbench_import import kernels
from opbench_import.kinds import KINDS, RANKS, rank

from . import support
from .builders import Model

CONV = {"n": 1, "c": 8, "h": 10, "w": 12, "o": 16, "kh": 3, "kw": 3, "stride": 1, "pad": 1, "dilation": 1, "groups": 1}


class Flops(unittest.TestCase):
    """Whole-operator counts."""

    def single(self, operator: str, /, **params) -> dict:
        """The only operator of a single-operator import."""
        operators = support.import_simple(operator, **params).graph["operators"]
        self.assertEqual(len(operators), 1)
        return operators[0]

    def test_contractions_count_two_for_each_multiply_add(self):
        self.assertEqual(self.single("conv2d", **CONV)["flops"], 2 * 16 * 10 * 12 * 8 * 9)
        self.assertEqual(self.single("conv2d", **{**CONV, "groups": 4})["flops"], 2 * 16 * 10 * 12 * 2 * 9)
        self.assertEqual(self.single("conv2d", **{**CONV, "stride": 2})["flops"], 2 * 16 * 5 * 6 * 8 * 9)
        self.assertEqual(self.single("depthwise_conv2d", **CONV)["flops"], 2 * 8 * 10 * 12 * 9)
        self.assertEqual(self.single("dense", m=2, n=10, k=7)["flops"], 2 * 2 * 10 * 7)
        self.assertEqual(self.single("batch_matmul", b=3, m=4, n=5, k=6)["flops"], 2 * 3 * 4 * 5 * 6)

    def test_an_epilogue_is_fused_to_its_operator(self):
        image = {"n": 1, "c": 8, "h": 6, "w": 6, "kh": 3, "kw": 3, "stride": 2, "pad": 1, "dilation": 1}
        results = 8 * 3 * 3
        for epilogue, kernel, operations in (
            ("bias", "depthwise_conv2d_add", 1),
            ("relu", "depthwise_conv2d_add_relu", 2),
            ("relu6", "depthwise_conv2d_add_clip", 3),
            ("sigmoid", "depthwise_conv2d_add_sigmoid", 2),
            ("silu", "depthwise_conv2d_add_sigmoid_multiply", 3),
            ("gelu", "depthwise_conv2d_add_gelu", 6),
            ("residual_relu", "depthwise_conv2d_add_add_relu", 3),
        ):
            with self.subTest(epilogue):
                operator = self.single("depthwise_conv2d", **image, epilogue=epilogue)
                self.assertEqual(operator["name"], kernel)
                self.assertEqual(operator["flops"], 2 * results * 9)
                self.assertEqual(operator["flops_epilogue"], operations * results)
        dense = self.single("dense", m=2, n=16, k=8, epilogue="relu")
        self.assertEqual(dense["name"], "dense_add_relu")
        joined = self.single("concat", n=1, c=8, h=4, w=4, inputs=3, more=4, epilogue="batch_norm_relu")
        self.assertEqual(joined["name"], "concat_multiply_add_relu")
        gate = self.single("excitation", n=1, c=16, h=4, w=4, s=4)
        self.assertEqual(gate["name"], "conv2d_add_sigmoid_multiply")

    def test_pooling_counts_comparisons_additions_and_the_division(self):
        pool = {"n": 1, "c": 4, "h": 8, "w": 8, "kh": 2, "kw": 2, "stride": 2, "pad": 0}
        self.assertEqual(self.single("max_pool2d", **pool)["flops"], 4 * 16 * 4)
        self.assertEqual(self.single("avg_pool2d", **pool)["flops"], 4 * 16 * (4 + 1))
        self.assertEqual(self.single("global_avg_pool", n=1, c=4, h=8, w=8)["flops"], 4 * (64 + 1))

    def test_elementwise_counts_each_function_once(self):
        self.assertEqual(self.single("elementwise", op="add", m=4, n=8)["flops"], 32)
        self.assertEqual(self.single("elementwise", op="exp", m=4, n=8)["flops"], 32)
        # Maximum and subtraction, exponential, sum, division: five for each element.
        self.assertEqual(self.single("softmax", m=4, n=8)["flops"], 5 * 32)

    def test_an_lstm_costs_its_products_and_gates(self):
        steps, batch, features, hidden = 6, 2, 10, 8
        m = Model()
        m.input("x", steps, batch, features)
        m.node(
            "LSTM",
            [
                "x",
                m.weight("w", 1, 4 * hidden, features),
                m.weight("r", 1, 4 * hidden, hidden),
                m.weight("b", 1, 8 * hidden),
            ],
            ["y"],
            hidden_size=hidden,
        )
        imported = support.import_model(m.build("y"))
        products = sum(o["flops"] * o["count"] for o in imported.operators("dense"))
        self.assertEqual(products, steps * batch * 2 * 4 * hidden * (features + hidden))
        everything = sum((o["flops"] + o["flops_epilogue"]) * o["count"] for o in imported.graph["operators"])
        # Bias and projection: 2 x 4; three logistic gates and two tanh at least one each; c' 3 and h' 1.
        gates = everything - products
        self.assertGreaterEqual(gates, steps * batch * hidden * (8 + 5 + 4))
        self.assertLess(gates, products)
        # Equal steps share their operators: the projection, the step's product and its gates.
        self.assertLessEqual(len(imported.graph["operators"]), 6)

    def test_calls_are_in_order_with_the_largest_weight_that_they_read(self):
        m = Model()
        x = m.input("x", 1, 16, 4, 4)
        for layer in ("first", "second"):
            m.node("Conv", [x, m.weight(f"{layer}.weight", 16, 16, 1, 1), m.weight(f"{layer}.bias", 16)], [f"{layer}.conv"])
            m.node("MaxPool", [f"{layer}.conv"], [f"{layer}.pool"], kernel_shape=[3, 3], pads=[1, 1, 1, 1])
            x = f"{layer}.pool"
        graph = support.import_model(m.build(x)).graph
        convolution, pool = (o["symbol"] for o in graph["operators"])
        self.assertEqual([c["symbol"] for c in graph["calls"]], [convolution, pool] * 2)
        self.assertEqual([c["inputs"] for c in graph["calls"]], [[], [0], [1], [2]])
        weights = [c["weight"] for c in graph["calls"]]
        self.assertEqual(weights, ["first.weight", None, "second.weight", None])

    def test_what_a_slice_leaves_out_is_not_computed(self):
        m = Model()
        m.input("x", 2, 10, 8)
        m.node("Exp", ["x"], ["s"])
        bounds = [m.constant(name, np.array([v], dtype=np.int64)) for name, v in (("from", 3), ("to", 5), ("axis", 1))]
        m.node("Slice", ["s", *bounds], ["y"])
        (record,) = support.import_model(m.build("y")).graph["operators"]
        # Rows 3 and 4 of both batches.
        self.assertEqual(record["flops"] + record["flops_epilogue"], 2 * 2 * 8)
        self.assertEqual((record["bytes_read"], record["bytes_written"]), (4 * 2 * 2 * 8, 4 * 2 * 2 * 8))

    def test_parts_that_several_slices_take_are_all_needed(self):
        m = Model()
        m.input("x", 6, 8)
        m.node("Split", ["x"], ["a", "b", "c"], axis=0)
        operators = support.import_model(m.build("a", "b", "c")).graph["operators"]
        self.assertEqual(sum(o["bytes_read"] for o in operators), 4 * 6 * 8)

    def test_traffic_counts_every_argument_once(self):
        record = self.single("conv2d", **CONV)
        self.assertEqual(record["bytes_read"], 4 * (8 * 120 + 16 * 8 * 9))
        self.assertEqual(record["bytes_written"], 4 * 16 * 120)


class Structure(unittest.TestCase):
    """Blocks, attributes, sharing."""

    def test_a_padded_convolution_has_producer_anchor_and_epilogue(self):
        m = Model()
        m.node(
            "Conv", [m.input("x", 1, 8, 6, 6), m.weight("w", 32, 8, 3, 3), m.weight("b", 32)], "c", pads=[1, 1, 1, 1]
        )
        m.node("Relu", ["c"], "y")
        (record,) = support.import_model(m.build("y")).graph["operators"]
        self.assertEqual(
            [(b["name"], b["role"]) for b in record["blocks"]],
            [("pad_temp", "producer"), ("conv2d", "anchor"), ("T_add", "epilogue"), ("compute", "epilogue")],
        )
        self.assertEqual([a["name"] for a in record["loops"]], ["nn", "ff", "yy", "xx", "rc", "ry", "rx"])
        self.assertEqual([a["kind"] for a in record["loops"]], ["spatial"] * 4 + ["reduction"] * 3)
        data, weight = record["blocks"][1]["reads"]
        self.assertEqual(data["index_iters"], [["nn"], ["rc"], ["yy", "ry"], ["xx", "rx"]])
        self.assertEqual(weight["index_iters"], [["ff"], ["rc"], ["ry"], ["rx"], ["ff"]])
        self.assertEqual(
            record["attrs"],
            {
                "kernel": [3, 3],
                "stride": [1, 1],
                "padding": [1, 1, 1, 1],
                "dilation": [1, 1],
                "groups": 1,
                "in_channels": 8,
                "out_channels": 32,
                "weight_layout": "OIHW16o",
            },
        )

    def test_a_residual_block_fuses_and_equal_layers_share(self):
        m = Model()
        value = m.input("x", 1, 16, 6, 6)
        for i in range(3):
            m.node("Conv", [value, m.weight(f"w{i}", 16, 16, 3, 3), m.weight(f"b{i}", 16)], f"c{i}", pads=[1, 1, 1, 1])
            m.node("Add", [f"c{i}", value], f"a{i}")
            value = m.node("Relu", [f"a{i}"], f"r{i}")
        records = support.import_model(m.build(value)).graph["operators"]
        self.assertEqual([(o["name"], o["count"]) for o in records], [("conv2d_add_add_relu", 3)])

    def test_reshapes_are_views_and_not_operators(self):
        m = Model()
        m.node("Relu", [m.input("x", 2, 8)], "r")
        m.node("Reshape", ["r", m.constant("s", np.array([4, 4]))], "v")
        m.node("Unsqueeze", ["v", m.constant("axes", np.array([0]))], "u")
        m.node("Softmax", ["u"], "y", axis=-1)
        kinds = [o["kind"] for o in support.import_model(m.build("y")).graph["operators"]]
        self.assertEqual(kinds, ["elementwise", "softmax"])

    def test_indices_stay_within_their_table(self):
        m = Model()
        m.node("Gather", [m.weight("table", 50, 8), m.input("ids", 1, 4, dtype=7)], "y")
        graph = support.import_model(m.build("y")).graph
        self.assertEqual(graph["inputs"][0]["fill"], {"kind": "int", "low": 0, "high": 50})
        indices = next(a for a in graph["operators"][0]["args"] if a["dtype"] == "int64")
        self.assertEqual(indices["fill"]["high"], 50)

    def test_runs_fill_a_register_or_divide_evenly(self):
        sizes = {64: 16, 48: 16, 24: 12, 1000: 16, 255: 16, 21: 16, 2: 2, 1: 1, 17: 16}
        self.assertEqual({n: kernels.block_size(n) for n in sizes}, sizes)
        # A run never reaches over two groups.
        self.assertEqual([kernels.block_size(n, groups=4) for n in (16, 24, 10, 3, 17)], [16, 12, 10, 1, 1])

    def test_padded_runs_count_only_what_the_model_has(self):
        m = Model()
        m.node("MatMul", [m.input("x", 2, 8), m.weight("w", 8, 21)], "y")
        imported = support.import_model(m.build("y"))
        (record,) = imported.graph["operators"]
        self.assertEqual((record["flops"], record["loops"][1]["extent"]), (2 * 2 * 8 * 21, 21))
        weight = imported.graph["inputs"][1]
        self.assertEqual((weight["shape"], weight["layout"]["original_shape"]), ([2, 8, 16], [8, 21]))

    def test_every_kind_has_a_place_among_the_anchors(self):
        self.assertTrue(all(rank(kind) < len(RANKS) for kind in KINDS.values()))


if __name__ == "__main__":
    unittest.main()
