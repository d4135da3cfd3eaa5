"""How much passes between two uses of a model's memory, against counts made by hand."""

from __future__ import annotations

import unittest

import numpy as np
import onnx

from . import support
from .builders import Model

VECTOR = 4 * 64
"""Bytes of a vector of 64 values."""
MATRIX = 64 * VECTOR
"""Bytes of a square matrix of such vectors."""


class Reuse(unittest.TestCase):
    """Stack distances of weights and of the memory of outputs."""

    def test_weights_wait_for_a_pass_and_outputs_for_the_plan(self):
        m = Model()
        x = m.input("x", 1, 64)
        for layer in range(3):
            x = m.node("MatMul", [x, m.weight(f"w{layer}", 64, 64)], f"y{layer}")
        (dense,) = support.import_model(m.build(x)).graph["operators"]
        # All weights, the input, two planned vectors and the output; the first layer's weights have been read since the input was.
        first, others = 3 * MATRIX + 3 * VECTOR, 3 * MATRIX + 4 * VECTOR
        self.assertEqual(dense["weight_reuse_bytes"], (first + 2 * others) // 3)
        # The first result was last read by the second layer: since then two matrices were read, two vectors written. The others have
        # also waited for the input of the next pass.
        first, others = 2 * MATRIX + 3 * VECTOR, 2 * MATRIX + 4 * VECTOR
        self.assertEqual(dense["output_reuse_bytes"], (first + 2 * others) // 3)
        # Only the first layer reads the model's input: since then the weights were read, two vectors and the output written.
        self.assertEqual(dense["input_reuse_bytes"], (3 * MATRIX + 4 * VECTOR) // 3)

    def test_steps_of_a_recurrent_layer_find_their_weights_where_they_left_them(self):
        hidden = 16
        m = Model()
        m.input("x", 6, 2, hidden)
        weights = [m.weight(name, 1, 4 * hidden, hidden) for name in ("w", "r")]
        m.node("LSTM", ["x", *weights, m.weight("b", 1, 8 * hidden)], ["y"], hidden_size=hidden)
        projection, step = support.import_model(m.build("y")).operators("dense")
        self.assertGreater(step["count"], projection["count"])
        matrix = 4 * 4 * hidden * hidden
        self.assertLess(step["weight_reuse_bytes"], 2 * matrix)
        self.assertGreater(projection["weight_reuse_bytes"], 2 * matrix)

    def test_of_a_table_only_rows_that_are_gathered_count(self):
        m = Model()
        rows = m.node("Gather", [m.weight("table", 1000, 64), m.input("rows", 1, dtype=onnx.TensorProto.INT64)], "g")
        m.node("MatMul", [rows, m.weight("w", 64, 64)], "y")
        (dense,) = support.import_model(m.build("y")).operators("dense")
        # The output; then the row's number, the row with it, and what is gathered.
        self.assertEqual(dense["weight_reuse_bytes"], MATRIX + VECTOR + 8 + (VECTOR + 8) + VECTOR)

    def test_an_operator_without_weights_has_no_distance_of_them(self):
        m = Model()
        m.node("Softmax", [m.input("x", 4, 64)], "y")
        (softmax,) = support.import_model(m.build("y")).graph["operators"]
        self.assertIsNone(softmax["weight_reuse_bytes"])
        self.assertEqual(softmax["output_reuse_bytes"], 4 * VECTOR)
        self.assertEqual(softmax["input_reuse_bytes"], 8 * VECTOR)

    def test_what_becomes_a_view_writes_nowhere(self):
        m = Model()
        shape = m.constant("shape", np.array([64, 4], dtype=np.int64))
        m.node("Reshape", [m.node("Exp", [m.input("x", 4, 64)], "e"), shape], "r")
        m.node("Softmax", ["r"], "y")
        operators = support.import_model(m.build("y")).graph["operators"]
        for view in [o for o in operators if o["name"] == "reshape"]:
            self.assertIsNone(view["output_reuse_bytes"])
        self.assertIsNotNone(operators[-1]["output_reuse_bytes"])
