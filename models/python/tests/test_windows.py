"""Windows whose rows are computed up to whole vectors, and transposed convolutions by phases."""

from __future__ import annotations

import unittest

from opbench_import.windows import whole_row

from . import support
from .builders import Model
from .wheel import node_tests, run

FORMS = """
convtranspose_1d convtranspose_3d convtranspose_pads convtranspose_output_shape convtranspose_dilations
convtranspose_group_2 convtranspose_kernel_shape maxpool_2d_ceil maxpool_2d_dilations maxpool_2d_same_lower
maxpool_2d_pads maxpool_2d_uint8 resize_upsample_scales_nearest resize_upsample_sizes_nearest
averagepool_2d_pads averagepool_2d_pads_count_include_pad averagepool_2d_ceil averagepool_2d_strides
averagepool_2d_same_lower averagepool_2d_dilations averagepool_2d_precomputed_pads averagepool_1d_default
instancenorm_example leakyrelu logsoftmax_axis_0 logsoftmax_large_number
""".split()


class Rows(unittest.TestCase):
    """Columns that are computed of a row."""

    def test_rows_grow_to_whole_vectors_unless_that_wastes_too_much(self):
        for extent, columns in [(1, 1), (4, 4), (5, 5), (7, 8), (8, 8), (13, 16), (14, 16), (17, 17), (28, 32), (56, 64), (112, 112)]:
            self.assertEqual(whole_row(extent), columns, extent)


class Facts(unittest.TestCase):
    """What is computed beside the result is no work of the operator."""

    def test_transposed_convolutions_count_each_product_once(self):
        m = Model()
        m.input("x", 1, 3, 14, 10)
        m.node("ConvTranspose", ["x", m.weight("w", 3, 5, 3, 3)], ["y"], strides=[2, 2], pads=[1, 1, 1, 1])
        (record,) = support.import_model(m.build("y")).graph["operators"]
        self.assertEqual(record["flops"], 2 * 3 * 5 * 9 * 14 * 10)
        self.assertEqual(record["attrs"]["stride"], [2, 2])

    def test_maxima_count_without_the_columns_that_are_cropped(self):
        m = Model()
        m.input("x", 1, 3, 13, 13)
        m.node("MaxPool", ["x"], ["y"], kernel_shape=[5, 5], pads=[2, 2, 2, 2])
        (record,) = support.import_model(m.build("y")).graph["operators"]
        self.assertEqual(record["flops"], 3 * 13 * 13 * 25)


class Forms(unittest.TestCase):
    """Each agrees with what the ``onnx`` wheel expects."""

    def test_forms_agree_with_onnx(self):
        tests = {test.name.removeprefix("test_"): test for test in node_tests()}
        for name in FORMS:
            with self.subTest(name):
                outcome, reason = run(tests[name])
                self.assertTrue(outcome.startswith("agrees"), f"{outcome}: {reason}")
