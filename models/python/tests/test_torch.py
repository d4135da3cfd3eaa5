"""Models that PyTorch builds: what they become, and that TVM computes what PyTorch does.

Needs the extra of ``scripts/setup --with torch``; without it these tests are left out.
"""

from __future__ import annotations

import os
import tempfile
import unittest
import unittest.mock

import numpy as np
from opbench_import import deployed, pipeline, torch_graph, torch_library
from opbench_import.errors import ImportFailure
from opbench_import.reference import RTOL
from opbench_import.request import TORCHSCRIPT, InputOverride, Request

from . import support

try:
    torch = torch_library.load()
    torch_library.load("transformers")
except ImportFailure:
    torch = None

SMALL = {"hidden": 32, "layers": 2, "heads": 2}


def import_built(source: str, model: str, **options) -> support.Imported:
    """A finished import of a model that PyTorch builds."""
    out = support.scratch()
    pipeline.run(Request(source, model, out, **options))
    return support.Imported(out)


def transformer(name: str, part: str | None = None, sizes: dict | None = None, **options) -> support.Imported:
    """The same of a small model of transformers."""
    architecture = {"name": name, "part": part, **(SMALL if sizes is None else sizes)}
    return import_built("transformers", name, architecture=architecture, **options)


@unittest.skipIf(torch is None, "scripts/setup --with torch has not run")
class Built(unittest.TestCase):
    """Outputs in TVM's virtual machine are PyTorch's."""

    def check(self, imported: support.Imported) -> list[str]:
        """Compares all outputs with the reference; the kinds of the operators."""
        places = imported.graph["reference"]
        types = {e["name"]: (e["shape"], e["dtype"]) for e in imported.graph["inputs"]}
        feeds = {i["name"]: imported.tensor("refs.bin", i, *types[i["name"]]) for i in places["inputs"]}
        expected = [imported.tensor("refs.bin", o, o["shape"], o["dtype"]) for o in places["outputs"]]
        results = imported.run(feeds)
        self.assertEqual(len(results), len(expected))
        for result, wanted in zip(results, expected):
            self.assertGreater(np.ptp(wanted), 0.0, "a constant output would pass whatever is computed")
            np.testing.assert_allclose(result, wanted, rtol=1e-3, atol=1e-3 * np.abs(wanted).max())
        return [o["kind"] for o in imported.graph["operators"]]

    def test_encoders_and_language_models(self):
        for name, part in [
            ("bert", None),
            ("t5", "encoder"),
            ("t5", "decoder"),
            ("llama", "prefill"),
            ("llama", "decode"),
            ("gpt2", "decode"),
        ]:
            with self.subTest(model=name, part=part):
                kinds = self.check(transformer(name, part, seqlen=16))
                self.assertIn("batch_matmul", kinds)
                self.assertNotIn("other", kinds)

    def test_models_in_half_precision_and_bfloat16(self):
        for dtype in ("float16", "bfloat16"):
            config = {"dtype": dtype}
            for imported in (
                transformer("gpt2", "prefill", {**SMALL, "config": {**config, "vocab_size": 100}}, seqlen=16),
                transformer("vit", None, {**SMALL, "config": {**config, "image_size": 32, "patch_size": 8}}),
            ):
                graph = imported.graph
                self.assertEqual({o["dtype"] for o in graph["outputs"]}, {dtype})
                products = [o for o in graph["operators"] if o["kind"] in ("dense", "conv2d", "batch_matmul")]
                self.assertGreater(len(products), 3)
                for operator in products:
                    self.assertEqual({a["dtype"] for a in operator["args"]} - {"float32"}, {dtype}, operator["name"])
                self.assertEqual(graph["reference"]["rtol"], RTOL[dtype])

    def test_the_type_of_the_input_is_that_of_a_named_network(self):
        imported = import_built("torch", "squeezenet1_1", inputs=[InputOverride("input", [1, 3, 64, 64], "bfloat16")])
        self.assertEqual({a["dtype"] for o in imported.operators("conv2d") for a in o["args"]}, {"bfloat16"})

    def test_a_decode_step_reads_a_cache_and_returns_a_longer_one(self):
        graph = transformer("gpt2", "decode", seqlen=16).graph
        shapes = {e["name"]: e["shape"] for e in graph["inputs"] if e["role"] == "input"}
        self.assertEqual((shapes["input_ids"], shapes["past_key_0"]), ([1, 1], [1, 2, 16, 16]))
        self.assertEqual([o["shape"] for o in graph["outputs"]][1:], [[1, 2, 17, 16]] * 4)

    def test_images(self):
        self.check(transformer("vit", seqlen=None))
        kinds = self.check(
            import_built("torch", "mobilenet_v3_small", inputs=[InputOverride("input", [1, 3, 64, 64])], batch=None)
        )
        self.assertIn("depthwise_conv2d", kinds)

    def test_files(self):
        module = torch.nn.Sequential(torch.nn.Linear(8, 4), torch.nn.Tanh()).eval()
        example = (torch.randn(2, 8),)
        with tempfile.TemporaryDirectory() as folder:
            program, script = (os.path.join(folder, name) for name in ("net.pt2", "net.pt"))
            torch.export.save(torch.export.export(module, example), program)
            torch.jit.trace(module, example).save(script)
            self.assertIn("dense", self.check(import_built("torch", "net", file=program)))
            given = [InputOverride("x", [2, 8])]
            self.assertIn("dense", self.check(import_built("torch", "net", file=script, inputs=given)))
            with self.assertRaisesRegex(ImportFailure, "does not say what it reads"):
                import_built("torch", "net", file=script)
            with open(program, "wb") as file:
                file.write(b"PK no program")
            with self.assertRaisesRegex(ImportFailure, "not a model of PyTorch, or damaged"):
                import_built("torch", "net", file=program)


@unittest.skipIf(torch is None, "scripts/setup --with torch has not run")
class Refused(unittest.TestCase):
    """Nonsense is refused in words that say what to change."""

    def refuse(self, pattern: str, kind: str, build) -> None:
        with self.assertRaisesRegex(ImportFailure, pattern) as caught:
            build()
        self.assertEqual(caught.exception.kind, kind)

    def test_threads_do_not_wait_for_each_other(self):
        self.assertEqual(str(torch.get_num_threads()), os.environ["OMP_NUM_THREADS"])

    def test_graphs_of_too_many_operators(self):
        with unittest.mock.patch.object(torch_graph, "MOST_NODES", 5):
            self.refuse("more than 5.*--layers or --seqlen", "bad_shape", lambda: transformer("bert", seqlen=4))

    def test_names(self):
        self.refuse("did you mean 'bert'", "unknown_model", lambda: transformer("bertt"))
        self.refuse("did you mean 'resnet18'", "unknown_model", lambda: import_built("torch", "resnt18"))
        self.refuse("no library of models", "unknown_model", lambda: import_built("torch", "keras/resnet18"))
        self.refuse("has no part 'decode'", "bad_shape", lambda: transformer("bert", "decode"))

    def test_sizes(self):
        self.refuse("not a multiple", "corrupt_model", lambda: transformer("bert", sizes={"hidden": 30, "heads": 4}))
        self.refuse("beyond what bert allows", "bad_shape", lambda: transformer("bert", seqlen=4096))
        self.refuse(
            "million parameters", "bad_shape", lambda: transformer("llama", sizes={"layers": 40, "hidden": 65536})
        )
        self.refuse("expected int", "bad_shape", lambda: transformer("bert", sizes={"config": {"hidden_size": "many"}}))
        self.refuse("no single number for --heads", "bad_shape", lambda: transformer("resnet", sizes={"heads": 2}))


@unittest.skipIf(torch is None, "scripts/setup --with torch has not run")
class Deployed(unittest.TestCase):
    """TorchScript for libtorch has the operators of the module, and computes the same."""

    def deploy(self, module, *inputs):
        """The traced module as it is read back."""
        request = Request("torch", "net", support.scratch(), form=TORCHSCRIPT)
        example = torch_graph.Example(module.eval(), {f"x{i}": x for i, x in enumerate(inputs)})
        deployed.to_torchscript(request, example)
        return torch.jit.load(f"{request.out}/model.pt")

    def test_shapes_are_constants_and_convolutions_whole(self):
        class Net(torch.nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.convolution = torch.nn.Conv2d(3, 4, 3)
                self.back = torch.nn.ConvTranspose2d(4, 2, 2)

            def forward(self, x):
                x = self.back(self.convolution(x))
                return x[:, :, : x.shape[2] // 2].reshape(len(x), -1)

        x = torch.randn(2, 3, 8, 8)
        net = Net()
        loaded = self.deploy(net, x)
        kinds = {node.kind() for node in loaded.inlined_graph.nodes()}
        self.assertIn("aten::conv2d", kinds)
        self.assertFalse(kinds & {"aten::floor_divide", "aten::size", "prim::NumToTensor"}, kinds)
        self.assertFalse(torch.jit.is_tracing())
        self.assertIsInstance(x.shape, torch.Size)
        torch.testing.assert_close(loaded(x), net(x))

    def test_what_python_does_not_call_is_left_out(self):
        class Net(torch.nn.Module):
            def forward(self, x):
                whole, part, row = x[:, :8], x[:, 2:8], x[:, 3]
                return whole + 1, part.contiguous(), row.sum(0), x.contiguous() * 2

        x = torch.randn(4, 8)
        net = Net()
        loaded = self.deploy(net, x)

        def calls(module) -> dict[str, int]:
            with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
                module(x)
            found = {line.key.removeprefix("aten::"): line.count for line in profile.key_averages()}
            return {name: found.get(name, 0) for name in ("slice", "alias", "select", "contiguous", "as_strided", "add")}

        self.assertEqual(calls(loaded), calls(net))
        self.assertEqual(
            calls(net), {"slice": 1, "alias": 1, "select": 1, "contiguous": 1, "as_strided": 3, "add": 1}
        )

    def test_what_is_no_fixed_sequence_of_operators_is_refused(self):
        class Random(torch.nn.Module):
            def forward(self, x):
                return x + torch.rand_like(x)

        class Branch(torch.nn.Module):
            def forward(self, x):
                if torch._C._get_tracing_state():
                    raise ValueError("not with this")
                return x

        with self.assertRaisesRegex(ImportFailure, "computes something else"):
            self.deploy(Random(), torch.zeros(4))
        with self.assertRaises(ImportFailure) as caught:
            self.deploy(Branch(), torch.zeros(4))
        self.assertRegex(str(caught.exception), "its trace fails .not with this.*torch.jit.script")

    def test_a_module_that_is_torchscript_stays_what_it_is(self):
        class Loop(torch.nn.Module):
            def forward(self, x):
                for _ in range(int(x.sum())):
                    x = x + 1
                return x

        loaded = self.deploy(torch.jit.script(Loop()), torch.ones(2))
        self.assertEqual(loaded(torch.ones(3)).tolist(), [4.0] * 3)


if __name__ == "__main__":
    unittest.main()
