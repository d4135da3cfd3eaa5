"""What the importer refuses, and how it says so."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
import tempfile
import unittest

import numpy as np
import onnx
from onnx import helper
from opbench_import import write
from opbench_import.errors import ImportFailure
from opbench_import.request import InputOverride

from . import support
from .builders import Model


class Refusals(unittest.TestCase):
    """Each refusal has a kind and names the place."""

    def refuse(self, model: onnx.ModelProto, **options) -> ImportFailure:
        """The failure of an import that must not succeed."""
        with self.assertRaises(ImportFailure) as caught:
            support.import_model(model, **options)
        return caught.exception

    def image_model(self) -> onnx.ModelProto:
        """A convolution with a symbolic batch and fixed channels."""
        m = Model()
        m.node("Conv", [m.input("data", "batch", 3, 8, 8), m.weight("w", 4, 3, 3, 3)], "y")
        return m.build("y")

    def test_unsupported_operators_are_named_with_their_node(self):
        m = Model()
        m.node("Relu", [m.input("x", 1, 4)], "r")
        m.node("StringNormalizer", ["r"], "y")
        failure = self.refuse(m.build("y"))
        self.assertEqual((failure.kind, failure.fields["op"]), ("unsupported_operator", "StringNormalizer"))
        m = Model()
        m.node("Det", [m.input("x", 2, 4, 4)], "y")
        failure = self.refuse(m.build("y"))
        self.assertEqual((failure.kind, failure.fields), ("unsupported_operator", {"op": "Det", "node": "det_0"}))

    def test_forms_that_tvm_converts_to_something_else_are_refused(self):
        for options, word in [
            ({"mode": "linear", "coordinate_transformation_mode": "align_corners"}, "runtimes disagree"),
            ({"mode": "linear", "antialias": 1, "scale": 0.02}, "elements along an axis"),
        ]:
            m = Model()
            scale = options.pop("scale", 0.6)
            scales = m.constant("scales", np.array([1, 1, scale, scale], dtype=np.float32))
            m.node("Resize", [m.input("x", 1, 1, 64, 64), "", scales], "y", **options)
            failure = self.refuse(m.build("y", opset=18))
            self.assertIn(word, str(failure))
            self.assertEqual((failure.kind, failure.fields["op"]), ("unsupported_operator", "Resize"))

    def test_vendor_operators_and_control_flow_are_refused(self):
        m = Model()
        m.node("Magic", [m.input("x", 1, 4)], "y", domain="acme")
        self.assertIn("acme::Magic", str(self.refuse(m.build("y"))))
        m = Model()
        branch = helper.make_graph(
            [helper.make_node("Constant", [], ["o"], value_float=1.0)],
            "b",
            [],
            [helper.make_empty_tensor_value_info("o")],
        )
        m.node("If", [m.input("c", dtype=onnx.TensorProto.BOOL)], "y", then_branch=branch, else_branch=branch)
        self.assertEqual(self.refuse(m.build("y")).fields["op"], "If")

    def test_recurrent_nodes_beyond_the_unrolling_say_why(self):
        m = Model()
        inputs = [m.input("x", 3, 1, 5), m.weight("w", 1, 16, 5), m.weight("r", 1, 16, 4)]
        m.node("LSTM", inputs, ["y"], hidden_size=4, activations=["Affine", "Tanh", "Tanh"])
        self.assertIn("lacks activation_alpha or activation_beta", str(self.refuse(m.build("y"))))

    def test_wrong_shapes_are_refused_before_conversion(self):
        model = self.image_model()
        for shape, words in (([1, 3, 8], "4 dimensions"), ([1, 4, 8, 8], "expects 3 channels"), ([1, 3, 2, 2], "")):
            failure = self.refuse(model, inputs=[InputOverride("data", shape)])
            self.assertEqual(failure.kind, "bad_shape")
            self.assertIn(words, str(failure))
        failure = self.refuse(model, inputs=[InputOverride("dta", [1, 3, 8, 8])])
        self.assertEqual((failure.kind, failure.fields["inputs"]), ("unknown_input", ["data"]))
        self.assertIn("did you mean 'data'", str(failure))
        self.assertEqual(self.refuse(model, seqlen=4).kind, "bad_shape")

    def test_open_dimensions_without_a_meaning_ask_for_a_shape(self):
        m = Model()
        m.node("Relu", [m.input("x", "batch", 3, "height", "width")], "y")
        self.assertIn("--input x:SHAPE", str(self.refuse(m.build("y"))))

    def test_damaged_files_are_corrupt_models(self):
        whole = self.image_model().SerializeToString()
        folder = support.scratch()
        for name, content in (("empty", b""), ("torn", whole[: len(whole) // 2]), ("noise", bytes(range(256)) * 8)):
            path = os.path.join(folder, name + ".onnx")
            with open(path, "wb") as file:
                file.write(content)
            with self.subTest(name=name), self.assertRaises(ImportFailure) as caught:
                support.import_file(path)
            self.assertEqual(caught.exception.kind, "corrupt_model")
            self.assertIn(path, str(caught.exception))

    def test_only_regular_files_are_opened(self):
        for path in ("/dev/zero", self.pipe()):
            with self.assertRaises(ImportFailure) as caught:
                support.import_file(path)
            self.assertIn("not a regular file", str(caught.exception))
        path = os.path.join(support.scratch(), "m.onnx")
        onnx.save(self.image_model(), path, save_as_external_data=True, location="weights.bin", size_threshold=0)
        weights = os.path.join(os.path.dirname(path), "weights.bin")
        os.remove(weights)
        os.mkfifo(weights)
        with self.assertRaises(ImportFailure) as caught:
            support.import_file(path)
        self.assertIn("weights.bin", str(caught.exception))

    def pipe(self) -> str:
        """A pipe that nobody writes to."""
        path = os.path.join(support.scratch(), "pipe.onnx")
        os.mkfifo(path)
        return path

    def test_missing_external_weights_are_named(self):
        path = os.path.join(support.scratch(), "model.onnx")
        onnx.save(self.image_model(), path, save_as_external_data=True, location="weights.bin", size_threshold=0)
        self.assertEqual(len(support.import_file(path).graph["operators"]), 1)
        os.remove(os.path.join(os.path.dirname(path), "weights.bin"))
        with self.assertRaises(ImportFailure) as caught:
            support.import_file(path)
        self.assertIn("weights.bin", str(caught.exception))


class Protocol(unittest.TestCase):
    """The program as the Rust side runs it."""

    def ask(self, request: object) -> dict:
        """One run of the program."""
        folder = os.path.join(os.path.dirname(__file__), "..")
        text = request if isinstance(request, str) else json.dumps(request)
        done = subprocess.run(
            [sys.executable, "-m", "opbench_import"], input=text, capture_output=True, text=True, cwd=folder, check=True
        )
        self.assertEqual(len(done.stdout.splitlines()), 1)
        return json.loads(done.stdout)

    def test_one_line_answers(self):
        with tempfile.TemporaryDirectory() as out:
            simple = {"op": "softmax", "params": {"m": 2, "n": 4}}
            answer = self.ask({"source": "simple", "model": "softmax", "simple": simple, "out": out})
            self.assertEqual(answer, {"ok": {"operators": 1, "calls": 1}})
            self.assertEqual(sorted(os.listdir(out)), ["graph.json", "module.json", "steps.json"])

    def test_failures_are_answers_too(self):
        for request in (
            "{",
            {"source": "onnx"},
            {"source": "onnx", "model": "m", "out": "o", "flavour": 1, "file": "f"},
        ):
            self.assertEqual(self.ask(request)["error"]["kind"], "bad_request")
        missing = {"source": "onnx", "model": "m", "file": "/no/such.onnx", "out": "/tmp"}
        self.assertEqual(self.ask(missing)["error"]["kind"], "missing_file")

    def test_a_full_disk_is_named(self):
        failure = write.disk_failure(OSError(errno.ENOSPC, "No space left on device", "/cache/params.bin"), "/cache")
        self.assertEqual((failure.kind, failure.fields["path"]), ("no_space", "/cache/params.bin"))

    def test_a_folder_that_cannot_be_written_is_reported(self):
        simple = {"op": "softmax", "params": {"m": 2, "n": 4}}
        answer = self.ask({"source": "simple", "model": "s", "simple": simple, "out": "/proc/nowhere"})
        self.assertEqual(answer["error"]["kind"], "no_permission")


if __name__ == "__main__":
    unittest.main()
