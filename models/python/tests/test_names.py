"""Names of tensors become identifiers of generated C and CUDA source, whatever an exporter wrote."""

from __future__ import annotations

import re
import unittest

from tvm import tirx

from . import support
from .builders import Model


class Names(unittest.TestCase):
    """Parameters of kernels."""

    def test_parameters_are_identifiers_that_stay_apart(self):
        m = Model()
        m.input("gpu_0/data:0", 1, 3, 8, 8)
        m.node("Conv", ["gpu_0/data:0", m.weight("fire2/w.0", 4, 3, 3, 3), m.weight("fire2_w_0", 4)], ["1st/out"])
        m.node("Mul", ["1st/out", m.weight("fire2/w/0", 1, 4, 1, 1)], "y/z")
        path = support.save(m.build("y/z"))
        imported = support.import_file(path)
        names = [p.name for f in imported.module.functions.values() if isinstance(f, tirx.PrimFunc) for p in f.params]
        self.assertTrue(names)
        for name in names:
            self.assertRegex(name, re.compile(r"^[A-Za-z_][A-Za-z0-9_]*$"))
        # What the user sees keeps its name.
        self.assertEqual([e["name"] for e in imported.graph["inputs"] if e["role"] == "input"], ["gpu_0/data:0"])
        feeds = imported.random_feeds()
        difference = support.largest_difference(imported.run(feeds), support.expected(path, feeds))
        self.assertLess(difference, 1e-5)
