"""What an import computes against ONNX Runtime: folding, packing and unrolling must not change a result."""

from __future__ import annotations

import itertools
import unittest

import numpy as np
from onnx import TensorProto, helper
from opbench_import.errors import ImportFailure

from . import support
from .builders import Model

TOLERANCE = 2e-5


class Numbers(unittest.TestCase):
    """Runs the unscheduled import of a tiny model and compares."""

    def check(self, model, seed: int = 0, **options) -> support.Imported:
        """Imports, runs, compares; the import for further checks."""
        path = support.save(model)
        imported = support.import_file(path, **options)
        feeds = imported.random_feeds(seed)
        difference = support.largest_difference(imported.run(feeds), support.expected(path, feeds))
        self.assertLess(difference, TOLERANCE)
        return imported


class FewRows(Numbers):
    """Products of so few rows that transposing the other operand would take longer."""

    def test_keys_of_a_single_query_are_read_as_they_lie(self):
        for rows in (1, 2, 3):
            m = Model()
            keys = m.node("Add", [m.input("k", 2, 3, 7, 5), m.weight("w", 5)], "own")
            turned = m.node("Transpose", [keys], "turned", perm=[0, 1, 3, 2])
            m.node("MatMul", [m.input("q", 2, 3, rows, 5), turned], "y")
            with self.subTest(rows=rows):
                moved = self.check(m.build("y")).operators("transpose")
                self.assertEqual(len(moved), int(rows > 2))

    def test_other_transposes_stay(self):
        m = Model()
        turned = m.node("Transpose", [m.input("k", 4, 2, 5)], "turned", perm=[1, 2, 0])
        m.node("MatMul", [m.input("q", 2, 1, 5), turned], "y")
        self.assertEqual(len(self.check(m.build("y")).operators("transpose")), 1)


class Convolutions(Numbers):
    """Convolutions of all ranks with folded norms, packed or not."""

    def test_batch_norm_and_affine_tail_fold_into_the_convolution(self):
        for bias in (False, True):
            m = Model()
            inputs = [m.input("x", 1, 3, 9, 9), m.weight("w", 16, 3, 3, 3)] + ([m.weight("b", 16)] if bias else [])
            m.node("Conv", inputs, "c", pads=[1, 1, 1, 1])
            m.node(
                "BatchNormalization",
                ["c", m.weight("g", 16), m.weight("beta", 16), m.weight("mean", 16), m.weight("var", 16, low=0.5)],
                "n",
            )
            m.node("Mul", ["n", m.weight("s", 16, 1, 1)], "scaled")
            m.node("Add", ["scaled", m.weight("t", 16, 1, 1)], "shifted")
            m.node("Relu", ["shifted"], "y")
            imported = self.check(m.build("y"))
            names = [o["name"] for o in imported.graph["operators"]]
            self.assertEqual(names, ["conv2d_add_relu"])

    def test_a_norm_before_the_convolution_becomes_one_multiply_and_add(self):
        m = Model()
        norm = [m.weight("g", 4), m.weight("beta", 4), m.weight("mean", 4), m.weight("var", 4, low=0.5)]
        m.node("BatchNormalization", [m.input("x", 1, 4, 5, 5), *norm], "n")
        m.node("Relu", ["n"], "r")
        m.node("Conv", ["r", m.weight("w", 8, 4, 1, 1)], "y")
        imported = self.check(m.build("y"))
        self.assertEqual([o["name"] for o in imported.graph["operators"]], ["multiply_add_relu", "conv2d"])

    def test_a_shared_result_is_not_folded_away(self):
        m = Model()
        m.node("Conv", [m.input("x", 1, 4, 5, 5), m.weight("w", 8, 4, 1, 1)], "c")
        m.node("Mul", ["c", m.weight("s", 8, 1, 1)], "scaled")
        m.node("Add", ["c", "scaled"], "y")
        self.check(m.build("y"))

    def test_grouped_depthwise_strided_and_dilated_convolutions(self):
        cases = [
            {"channels": (8, 12), "group": 2},
            {"channels": (8, 8), "group": 8},
            {"channels": (4, 8), "group": 4},
            {"channels": (4, 20), "strides": [2, 2], "pads": [1, 0, 2, 1]},
            {"channels": (4, 7), "dilations": [2, 2]},
            {"channels": (4, 6), "auto_pad": "SAME_UPPER", "strides": [2, 2]},
            {"channels": (4, 6), "auto_pad": "SAME_LOWER"},
        ]
        for case in cases:
            with self.subTest(**case):
                m = Model()
                inputs, outputs = case.pop("channels")
                m.node(
                    "Conv",
                    [
                        m.input("x", 2, inputs, 10, 9),
                        m.weight("w", outputs, inputs // case.get("group", 1), 3, 3),
                        m.weight("b", outputs),
                    ],
                    "y",
                    **case,
                )
                self.check(m.build("y"))

    def test_one_and_three_dimensional_convolutions(self):
        m = Model()
        m.node("Conv", [m.input("x", 1, 4, 16), m.weight("w", 16, 4, 3)], "y", pads=[1, 1])
        self.assertEqual(self.check(m.build("y")).graph["operators"][0]["kind"], "conv1d")
        m = Model()
        m.node("Conv", [m.input("x", 1, 4, 5, 6, 6), m.weight("w", 16, 4, 3, 3, 3)], "y", pads=[1] * 6)
        self.assertEqual(self.check(m.build("y")).graph["operators"][0]["kind"], "conv3d")

    def test_transposed_convolution_with_batch_norm(self):
        m = Model()
        m.node("ConvTranspose", [m.input("x", 1, 4, 5, 5), m.weight("w", 4, 6, 2, 2)], "c", strides=[2, 2])
        m.node(
            "BatchNormalization",
            ["c", m.weight("g", 6), m.weight("beta", 6), m.weight("mean", 6), m.weight("var", 6, low=0.5)],
            "y",
        )
        self.assertEqual(self.check(m.build("y")).graph["operators"][0]["kind"], "conv_transpose")

    def test_a_weight_with_unlike_readers_stays_as_it_is(self):
        m = Model()
        m.weight("table", 32, 16)
        m.node("Gather", ["table", m.input("ids", 2, 3, dtype=7)], "rows")
        m.node("Transpose", ["table"], "head", perm=[1, 0])
        m.node("MatMul", ["rows", "head"], "y")
        imported = self.check(m.build("y"))
        layouts = {i["name"]: i["layout"] for i in imported.graph["inputs"]}
        self.assertIsNone(layouts["table"])


class Products(Numbers):
    """Gemm and MatMul in all orientations."""

    def test_gemm_in_every_orientation(self):
        for transposed_a, transposed_b in itertools.product((0, 1), repeat=2):
            with self.subTest(a=transposed_a, b=transposed_b):
                m = Model()
                m.input("x", *((6, 3) if transposed_a else (3, 6)))
                m.weight("w", *((10, 6) if transposed_b else (6, 10)))
                m.node(
                    "Gemm",
                    ["x", "w", m.weight("b", 10)],
                    "y",
                    transA=transposed_a,
                    transB=transposed_b,
                    alpha=0.5,
                    beta=2.0,
                )
                dense = self.check(m.build("y")).operators("dense")
                self.assertEqual((len(dense), dense[0]["attrs"]["weight_layout"]), (1, "NK10n"))

    def test_a_scale_behind_a_product_folds_into_its_weight(self):
        for last in (None, "Tanh"):
            m = Model()
            product = m.node("MatMul", [m.input("x", 3, 8), m.weight("w", 8, 4)], "p")
            y = m.node("Mul", [product, m.constant("scale", np.float32(0.25))], "s")
            with self.subTest(last=last):
                imported = self.check(m.build(m.node(last, [y], "y") if last else y))
                self.assertEqual([o["kind"] for o in imported.graph["operators"]], ["dense"])

    def test_batched_products_broadcast(self):
        for left, right in (((2, 3, 4, 5), (2, 3, 5, 6)), ((2, 3, 4, 5), (3, 5, 6)), ((2, 1, 4, 5), (3, 5, 6))):
            with self.subTest(left=left, right=right):
                m = Model()
                m.node("MatMul", [m.input("a", *left), m.input("b", *right)], "y")
                self.assertEqual(self.check(m.build("y")).graph["operators"][0]["kind"], "batch_matmul")

    def test_attention_matches(self):
        m = Model()
        m.input("x", 1, 6, 16)
        for name in "qkv":
            m.node("MatMul", ["x", m.weight(f"w{name}", 16, 16)], f"{name}1")
            m.node("Add", [f"{name}1", m.weight(f"b{name}", 16)], f"{name}2")
            m.node("Reshape", [f"{name}2", m.constant(f"split{name}", np.array([0, -1, 2, 8]))], f"{name}3")
            m.node("Transpose", [f"{name}3"], name, perm=[0, 2, 3, 1] if name == "k" else [0, 2, 1, 3])
        m.node("MatMul", ["q", "k"], "scores")
        m.node("Mul", ["scores", m.constant("scale", np.array([0.35], dtype=np.float32))], "scaled")
        m.node("Softmax", ["scaled"], "weights", axis=-1)
        m.node("MatMul", ["weights", "v"], "mixed")
        m.node("Transpose", ["mixed"], "joined", perm=[0, 2, 1, 3])
        m.node("Reshape", ["joined", m.constant("join", np.array([0, -1, 16]))], "flat")
        m.node("LayerNormalization", ["flat", m.weight("g", 16), m.weight("beta", 16)], "y")
        imported = self.check(m.build("y"))
        # Queries and values are projected alike; keys too: one operator for three products.
        self.assertEqual([(o["count"], o["kind"]) for o in imported.operators("dense")], [(3, "dense")])

    def test_half_precision_is_summed_in_single_precision(self):
        m = Model()
        weight = m.generator.random((4096, 8)).astype(np.float16)
        m.input("x", 2, 4096, dtype=TensorProto.FLOAT16)
        m.node("MatMul", ["x", m.constant("w", weight)], "product")
        m.node("Cast", ["product"], "y", to=TensorProto.FLOAT)
        imported = support.import_model(m.build("y"))
        feeds = {"x": np.ones((2, 4096), np.float16)}
        exact = feeds["x"].astype(np.float64) @ weight.astype(np.float64)
        # Sums of 2,000 in half precision lose the small summands: they are wrong by percents.
        self.assertLess(support.largest_difference(imported.run(feeds), [exact]), 2.0**-10)


class Recurrent(Numbers):
    """Unrolled LSTM, GRU and RNN nodes."""

    STEPS, BATCH, FEATURES, HIDDEN = 3, 2, 5, 4

    def recurrent(
        self,
        op: str,
        gates: int,
        direction: str = "forward",
        bias: bool = True,
        states: bool = False,
        lengths: list[int] | None = None,
        **options,
    ):
        """A model of one recurrent node with all its outputs."""
        m = Model()
        both = 2 if direction == "bidirectional" else 1
        m.input("x", self.STEPS, self.BATCH, self.FEATURES)
        inputs = [
            "x",
            m.weight("w", both, gates * self.HIDDEN, self.FEATURES),
            m.weight("r", both, gates * self.HIDDEN, self.HIDDEN),
        ]
        inputs.append(m.weight("b", both, 2 * gates * self.HIDDEN) if bias else "")
        inputs.append("" if lengths is None else m.constant("lengths", np.array(lengths, dtype=np.int32)))
        if states:
            inputs.append(m.input("h0", both, self.BATCH, self.HIDDEN))
            if op == "LSTM":
                inputs.append(m.weight("c0", both, self.BATCH, self.HIDDEN))
        outputs = ["y", "yh", "yc"] if op == "LSTM" else ["y", "yh"]
        m.node(op, inputs, outputs, hidden_size=self.HIDDEN, direction=direction, **options)
        return m.build(*outputs)

    def test_all_cells_in_all_directions(self):
        for (op, gates), direction in itertools.product(
            (("LSTM", 4), ("GRU", 3), ("RNN", 1)), ("forward", "reverse", "bidirectional")
        ):
            with self.subTest(op=op, direction=direction):
                self.check(
                    self.recurrent(
                        op, gates, direction, states=direction != "reverse", bias=direction != "bidirectional"
                    )
                )

    def test_gru_that_resets_after_the_product(self):
        for direction, bias in (("forward", True), ("bidirectional", True), ("forward", False)):
            with self.subTest(direction=direction, bias=bias):
                self.check(self.recurrent("GRU", 3, direction, bias=bias, linear_before_reset=1))

    def test_steps_share_their_matrix(self):
        models = {"LSTM": self.recurrent("LSTM", 4), "GRU": self.recurrent("GRU", 3, linear_before_reset=1)}
        for op, model in models.items():
            with self.subTest(op=op):
                products = support.import_model(model).operators("dense")
                (step,) = [o for o in products if o["count"] >= self.STEPS - 1]
                (projection,) = [o for o in products if o is not step]
                self.assertLess(step["weight_reuse_bytes"], projection["weight_reuse_bytes"])

    def test_other_activations(self):
        self.check(self.recurrent("RNN", 1, activations=["Relu"]))
        self.check(self.recurrent("GRU", 3, "bidirectional", activations=["Sigmoid", "Softsign", "Sigmoid", "Tanh"]))

    def test_sequences_of_their_own_lengths(self):
        for op, gates, direction in (("LSTM", 4, "bidirectional"), ("GRU", 3, "reverse"), ("RNN", 1, "forward")):
            with self.subTest(op=op):
                self.check(self.recurrent(op, gates, direction, states=True, lengths=[2, 3]))

    def test_a_single_step(self):
        m = Model()
        m.input("x", 1, 1, 5)
        m.node(
            "LSTM", ["x", m.weight("w", 1, 16, 5), m.weight("r", 1, 16, 4), m.weight("b", 1, 32)], ["y"], hidden_size=4
        )
        self.check(m.build("y"))

    def test_weights_without_values_keep_the_structure(self):
        m = Model()
        m.input("x", "seq", "batch", 5)
        for name, shape in (("w", (1, 16, 5)), ("r", (1, 16, 4)), ("b", (1, 32))):
            m.input(name, *shape)
        m.node("LSTM", ["x", "w", "r", "b"], ["y"], hidden_size=4)
        model = m.build("y")
        model.metadata_props.add(key="opbench.inputs", value='["x"]')
        imported = support.import_model(model, batch=2, seqlen=7)
        self.assertEqual(imported.graph["inputs"][0]["shape"], [7, 2, 5])
        self.assertEqual(sum(o["count"] for o in imported.operators("dense")), 8)


class OldModels(Numbers):
    """Operator sets of the age of the wheel's models."""

    def test_constants_of_shape_dropout_and_legacy_softmax(self):
        m = Model()
        m.node(
            "ConstantOfShape",
            [m.constant("shape", np.array([8, 3, 1, 1]))],
            "w",
            value=support.onnx.numpy_helper.from_array(np.array([0.25], dtype=np.float32)),
        )
        m.node("Conv", [m.input("x", 1, 3, 2, 2), "w"], "c")
        m.node("Dropout", ["c"], ["d", "mask"], ratio=0.5)
        m.node("Softmax", ["d"], "y", axis=1)
        imported = self.check(m.build("y", opset=9))
        weight = next(i for i in imported.graph["inputs"] if i["role"] == "param")
        self.assertEqual((weight["fill"], weight["data"]), ({"kind": "const", "value": 0.25}, None))

    def test_slopes_along_channels_and_small_expansions(self):
        m = Model()
        m.node("PRelu", [m.input("x", 2, 4, 3, 3), m.weight("slope", 4, 1, 1)], "p")
        m.node("Expand", [m.weight("row", 1, 3), m.constant("shape", np.array([3, 1]))], "grid")
        m.node("Mul", ["p", "grid"], "y")
        self.check(m.build("y"))

    def test_infinite_masks_keep_their_values(self):
        m = Model()
        mask = np.triu(np.full((4, 4), -np.inf, dtype=np.float32), 1)
        m.node("Add", [m.input("x", 1, 4, 4), m.constant("mask", mask)], "masked")
        m.node("Softmax", ["masked"], "y", axis=-1)
        self.check(m.build("y"))

    def test_sizes_that_depend_on_data_are_refused(self):
        m = Model()
        m.node("Expand", [m.input("x", 1, 4), m.input("shape", 2, dtype=7)], "y")
        with self.assertRaises(ImportFailure) as caught:
            support.import_model(m.build("y"))
        self.assertEqual(caught.exception.fields, {"op": "Expand", "node": "expand_0"})

    def test_lrn_and_sum(self):
        m = Model()
        m.node("LRN", [m.input("x", 1, 8, 4, 4)], "l", size=5, alpha=0.1, beta=0.75)
        m.node("Sum", ["l", "x", "x"], "y")
        imported = self.check(m.build("y", opset=9))
        self.assertEqual(imported.graph["operators"][0]["kind"], "lrn")

    def test_tanh_is_no_call_of_the_c_library(self):
        m = Model()
        m.node("Tanh", [m.input("x", 4, 65)], "y")
        imported = self.check(m.build("y"))
        self.assertEqual(imported.graph["operators"][0]["kind"], "elementwise")
        self.assertNotIn("tirx.tanh", imported.module.script())

    def test_functions_of_the_model_are_inlined(self):
        m = Model()
        m.node("Swish", [m.input("x", 2, 4)], "y", domain="local")
        model = m.build("y")
        body = [helper.make_node("Sigmoid", ["a"], ["s"]), helper.make_node("Mul", ["a", "s"], ["b"])]
        function = helper.make_function("local", "Swish", ["a"], ["b"], body, [helper.make_opsetid("", 17)])
        model.functions.append(function)
        model.opset_import.append(helper.make_opsetid("local", 1))
        self.assertEqual([o["name"] for o in self.check(model).graph["operators"]], ["sigmoid_multiply"])

    def test_another_batch_than_the_file_fixes(self):
        m = Model()
        m.node("Conv", [m.input("x", 1, 3, 4, 4), m.weight("w", 16, 3, 1, 1)], "c")
        m.node("Reshape", ["c", m.constant("flat", np.array([1, 256]))], "f")
        m.node("MatMul", ["f", m.weight("m", 256, 10)], "y")
        model = m.build("y")
        imported = support.import_model(model, batch=3)
        self.assertEqual((imported.graph["batch"], imported.graph["outputs"][0]["shape"]), (3, [3, 10]))
        single = self.check(model)
        feeds = {"x": np.random.default_rng(1).standard_normal((3, 3, 4, 4)).astype(np.float32)}
        together = imported.run(feeds)[0]
        for i in range(3):
            alone = single.run({"x": feeds["x"][i : i + 1]})[0]
            self.assertLess(float(np.max(np.abs(together[i] - alone[0]))), 1e-4)


if __name__ == "__main__":
    unittest.main()
