"""Sequences of operators that count as one: where they match, what they compute, and which tables are refused."""

from __future__ import annotations

import unittest

import numpy as np
from opbench_import.errors import ImportFailure

from .builders import Model
from .support import Imported, expected, import_file, largest_difference, save


def table(**sequences: str) -> dict:
    """A table as the request has it, entries on lines 2, 3 and so on; the longest first."""
    entries = [{"name": n, "operators": s.split(), "line": i} for i, (n, s) in enumerate(sequences.items(), start=2)]
    return {"file": "own.toml", "table": sorted(entries, key=lambda e: -len(e["operators"]))}


def names(imported: Imported) -> list[str]:
    """Names of the operators in the order of their first calls."""
    return [o["name"] for o in imported.graph["operators"]]


class Composites(unittest.TestCase):
    """A block of attention without projections, behind which stands a rectifier."""

    @classmethod
    def setUpClass(cls) -> None:
        model = Model()
        q, k, v = (model.input(name, 2, *shape) for name, shape in (("q", (3, 4)), ("k", (4, 3)), ("v", (3, 4))))
        scores = model.node("MatMul", [q, k], "scores")
        masked = model.node("Add", [scores, model.input("mask", 3, 3)], "masked")
        weights = model.node("Softmax", [masked], "weights", axis=-1)
        heads = model.node("MatMul", [weights, v], "heads")
        joined = model.node("Reshape", [heads, model.constant("flat", np.array([2, 12]))], "joined")
        cls.path = save(model.build(model.node("Relu", [joined], "y")))

    def imported(self, fusion: str = "full", **sequences: str) -> Imported:
        """The model with a table."""
        return import_file(self.path, fusion=fusion, composites=table(**sequences))

    def refusal(self, **sequences: str) -> str:
        """Why a table is refused."""
        with self.assertRaises(ImportFailure) as caught:
            self.imported(**sequences)
        self.assertEqual(caught.exception.kind, "bad_composites")
        return str(caught.exception)

    def test_a_sequence_is_one_operator_with_the_same_results(self) -> None:
        attention = "batch_matmul add softmax batch_matmul"
        for fusion in ("full", "none"):
            found = self.imported(fusion, attention=attention)
            self.assertEqual(names(found), ["attention", "relu"])
            feeds = found.random_feeds()
            self.assertLess(largest_difference(found.run(feeds), expected(self.path, feeds)), 1e-5)
        # Both products, the sum, and what softmax does.
        record = found.operators("batch_matmul")[0]
        self.assertGreaterEqual(record["flops"], 2 * 2 * (2 * 3 * 3 * 4) + 2 * 3 * 3)
        self.assertEqual(record["flops_epilogue"], 0)

    def test_reshapes_count_within_a_composite(self) -> None:
        found = self.imported(tail="batch_matmul reshape relu")
        self.assertEqual(names(found)[-1], "tail")
        feeds = found.random_feeds()
        self.assertLess(largest_difference(found.run(feeds), expected(self.path, feeds)), 1e-5)

    def test_operators_may_read_any_result_before_them(self) -> None:
        model = Model()
        curve = model.node("Sigmoid", [model.input("x", 2, 8)], "s")
        path = save(model.build(model.node("Mul", [curve, model.node("Tanh", [curve], "t")], "y")))
        found = import_file(path, composites=table(gate="sigmoid tanh multiply"))
        self.assertEqual(names(found), ["gate"])
        feeds = found.random_feeds()
        self.assertLess(largest_difference(found.run(feeds), expected(path, feeds)), 1e-5)
        # What is read elsewhere too stays an operator of its own.
        with self.assertRaises(ImportFailure):
            import_file(path, composites=table(curve="sigmoid tanh"))

    def test_tables_that_do_not_fit_name_line_and_reason(self) -> None:
        self.assertRegex(self.refusal(a="batch_matmul ad"), r"own.toml:2: composite 'a': there is no operator 'ad'.*add")
        self.assertIn("own.toml:2: the model has an operator 'softmax'", self.refusal(softmax="add softmax"))
        self.assertIn("occurs in the model; it has batch_matmul, add", self.refusal(a="conv2d relu"))
        both = self.refusal(a="add softmax batch_matmul", b="batch_matmul reshape")
        self.assertIn("own.toml:3: composites 'b' and 'a' (line 2) match the same operator batch_matmul", both)


if __name__ == "__main__":
    unittest.main()
