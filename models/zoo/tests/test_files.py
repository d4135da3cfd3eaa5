"""The committed graphs agree with the registry and have the form that the importer relies on."""

import functools
import json
import unittest
from pathlib import Path

import onnx

from builder.count import multiply_adds

try:
    import tomllib
except ModuleNotFoundError as error:
    raise unittest.SkipTest("reading the registry needs Python 3.11's tomllib") from error

MODELS = Path(__file__).resolve().parents[2]
LARGEST_FILE_BYTES = 200_000
LARGEST_CONSTANT = 64


def registry():
    """The registry's tables."""
    with (MODELS / "registry.toml").open("rb") as file:
        return tomllib.load(file)["model"]


def shape_of(value):
    """A value's shape with symbols by name."""
    return [dim.dim_param or dim.dim_value for dim in value.type.tensor_type.shape.dim]


def each_model(test):
    """Runs a test method once a model, with the registry's table, the path and the graph."""

    @functools.wraps(test)
    def run(self):
        for entry in registry():
            with self.subTest(model=entry["name"]):
                path = MODELS / entry["file"]
                test(self, entry, path, onnx.load(path))

    return run


class Files(unittest.TestCase):
    """The whole zoo."""

    def test_registry_lists_every_file_once(self):
        listed = sorted(entry["file"] for entry in registry())
        found = sorted(f"zoo/{path.name}" for path in (MODELS / "zoo").glob("*.onnx"))
        self.assertEqual(listed, found)

    def test_names_and_aliases_are_unique(self):
        names = [name for entry in registry() for name in (entry["name"], *entry["aliases"])]
        folded = [name.lower() for name in names]
        self.assertEqual(len(folded), len(set(folded)))

    @each_model
    def test_graphs_are_valid_and_small(self, _entry, path, model):
        onnx.checker.check_model(model, full_check=True)
        self.assertLess(path.stat().st_size, LARGEST_FILE_BYTES)
        self.assertEqual(model.opset_import[0].version, 17)

    @each_model
    def test_weights_are_inputs_without_values(self, _entry, _path, model):
        inputs = {value.name for value in model.graph.input}
        for tensor in model.graph.initializer:
            self.assertNotIn(tensor.name, inputs)
            elements = onnx.numpy_helper.to_array(tensor).size
            self.assertLessEqual(elements, LARGEST_CONSTANT, tensor.name)

    @each_model
    def test_true_inputs_come_first_and_match_the_registry(self, entry, _path, model):
        stated = [spec["name"] for spec in entry["inputs"]]
        properties = {prop.key: prop.value for prop in model.metadata_props}
        self.assertEqual(json.loads(properties["opbench.inputs"]), stated)
        for spec, value in zip(entry["inputs"], model.graph.input, strict=False):
            self.assertEqual(value.name, spec["name"])
            self.assertEqual(shape_of(value), spec["shape"])
            kind = onnx.helper.tensor_dtype_to_np_dtype(value.type.tensor_type.elem_type)
            self.assertEqual(kind.name, spec["dtype"])

    @each_model
    def test_symbols_are_batch_and_seq_with_defaults(self, entry, _path, model):
        values = [*model.graph.input, *model.graph.output]
        symbols = {dim for value in values for dim in shape_of(value) if isinstance(dim, str)}
        self.assertEqual(symbols, set(entry["defaults"]))
        self.assertLessEqual(symbols, {"batch", "seq"})
        self.assertTrue(all(shape_of(value)[0] == "batch" for value in model.graph.output))

    @each_model
    def test_nothing_is_left_to_fold(self, _entry, _path, model):
        foldable = {"Shape", "Expand", "Constant", "Identity", "Dropout", "BatchNormalization"}
        self.assertFalse(foldable & {node.op_type for node in model.graph.node})
        read = {name for node in model.graph.node for name in node.input}
        for value in [*model.graph.input, *model.graph.initializer]:
            self.assertIn(value.name, read)

    @each_model
    def test_multiply_adds_are_as_stated_and_as_published(self, entry, _path, model):
        counted = multiply_adds(model, entry["defaults"])
        self.assertEqual(counted, entry["macs"])
        if "published_macs" in entry:
            self.assertIn("published_source", entry)
            self.assertLess(abs(counted / entry["published_macs"] - 1), 0.02)


if __name__ == "__main__":
    unittest.main()
