"""Polynomials in place of functions, against double precision."""

import unittest

import numpy
import tvm
from opbench_import import functions
from tvm import te


class Sigmoid(unittest.TestCase):
    def test_it_lies_in_its_range_and_within_the_stated_error_for_every_size_of_input(self):
        sizes = numpy.geomspace(1e-8, 1e8, 20_000, dtype="float32")
        values = numpy.concatenate([-sizes, [0.0], sizes]).astype("float32")
        data = te.placeholder(values.shape, "float32", name="data")
        compiled = tvm.compile(te.create_prim_func([data, functions.sigmoid(data)]), target="llvm")
        result = tvm.runtime.tensor(numpy.zeros_like(values))
        compiled(tvm.runtime.tensor(values), result)
        with numpy.errstate(over="ignore"):
            expected = 1 / (1 + numpy.exp(-values.astype("float64")))
        self.assertLess(numpy.abs(result.numpy() - expected).max(), 2e-7)
        self.assertEqual((result.numpy().min(), result.numpy().max()), (0.0, 1.0))
