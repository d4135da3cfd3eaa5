"""Reference outputs that come with a model: found, stored, and equal to what the import computes."""

from __future__ import annotations

import os
import unittest

import numpy as np
import onnx

from . import support

LIGHT = os.path.join(os.path.dirname(onnx.__file__), "backend", "test", "data", "light")


class Reference(unittest.TestCase):
    """The models of the onnx wheel."""

    def test_the_import_computes_what_the_wheel_expects(self):
        imported = support.import_file(os.path.join(LIGHT, "light_squeezenet.onnx"))
        reference = imported.graph["reference"]
        self.assertEqual(reference["origin"], "light_squeezenet_output_0.pb")
        (fed,) = reference["inputs"]
        shape = next(i["shape"] for i in imported.graph["inputs"] if i["name"] == fed["name"])
        data = imported.tensor("refs.bin", fed, shape, "float32")
        self.assertAlmostEqual(float(data.flat[-1]), 1.0, places=4)
        (expected,) = reference["outputs"]
        wanted = imported.tensor("refs.bin", expected, expected["shape"], expected["dtype"])
        found = imported.run({fed["name"]: data})[0]
        np.testing.assert_allclose(found, wanted, rtol=reference["rtol"], atol=reference["atol"])

    def test_other_shapes_have_no_reference(self):
        imported = support.import_file(os.path.join(LIGHT, "light_squeezenet.onnx"), batch=2)
        self.assertIsNone(imported.graph["reference"])
        self.assertFalse(os.path.exists(os.path.join(imported.folder, "refs.bin")))

    def test_weights_that_are_one_number_need_no_bytes(self):
        imported = support.import_file(os.path.join(LIGHT, "light_vgg19.onnx"))
        weights = [i for i in imported.graph["inputs"] if i["role"] == "param"]
        elements = sum(int(np.prod(w["shape"])) for w in weights)
        self.assertGreater(elements, 143_000_000)
        self.assertLess(os.path.getsize(os.path.join(imported.folder, "params.bin")), 1 << 20)


if __name__ == "__main__":
    unittest.main()
