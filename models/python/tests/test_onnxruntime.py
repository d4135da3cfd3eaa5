"""A model for ONNX Runtime: the file that is written, and what is read out of its profiles."""

import json
import os
import unittest

import numpy as np
import onnx
from onnx import TensorProto, helper
from opbench_import import deployed, pipeline
from opbench_import.request import ONNX, InputOverride, Request
from opbench_onnxruntime import model as runtime

from . import support


def recorded(name: str, category: str, start: int, duration: int, operator: str | None = None) -> dict:
    """An event as ONNX Runtime's profiler writes it."""
    args = {} if operator is None else {"op_name": operator, "provider": "CPUExecutionProvider"}
    return {"cat": category, "name": name, "ts": start, "dur": duration, "ph": "X", "args": args}


class Profiles(unittest.TestCase):
    """Only nodes of the runs that count are taken."""

    def test_nodes_of_the_last_runs(self):
        events = [
            recorded("session_initialization", "Session", 0, 90),
            recorded("conv_kernel_time", "Node", 101, 5, "Conv"),
            recorded("model_run", "Session", 100, 10),
            recorded("conv_kernel_time", "Node", 201, 6, "Conv"),
            recorded("if_kernel_time", "Node", 207, 3, "If"),
            recorded("relu_kernel_time", "Node", 208, 1, "Relu"),
            recorded("SequentialExecutor::Execute", "Session", 201, 8),
            recorded("model_run", "Session", 200, 10),
        ]
        found = [(e["name"], e["start_ns"], e["duration_ns"]) for e in runtime.nodes(events, 1)]
        self.assertEqual(found, [("Conv", 201_000, 6000), ("Relu", 208_000, 1000)])
        self.assertEqual(len(runtime.nodes(events, 2)), 3)

    def test_differences_are_numbers(self):
        one = np.ones(3, np.float32)
        self.assertEqual(runtime.difference(one, one), 0.0)
        self.assertAlmostEqual(runtime.difference(one * 1.5, one), 0.5)
        self.assertEqual(runtime.difference(-one * np.inf, -one * np.inf), 0.0)
        self.assertGreater(runtime.difference(one * np.nan, one), 1e300)


@unittest.skipIf(runtime.onnxruntime is None, "scripts/setup dev has not run")
class Files(unittest.TestCase):
    """A file without values is written with seeded ones, and both sides get the same."""

    def test_weights_and_outputs_are_there(self):
        value = helper.make_tensor_value_info
        graph = helper.make_graph(
            [helper.make_node("Gemm", ["x", "w", "b"], ["h"]), helper.make_node("Relu", ["h"], ["y"])],
            "net",
            [value("x", TensorProto.FLOAT, ["n", 8]), value("w", TensorProto.FLOAT, [8, 4]), value("b", TensorProto.FLOAT, [4])],
            [value("y", TensorProto.FLOAT, ["n", 4])],
        )
        proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
        proto.metadata_props.add(key="opbench.inputs", value=json.dumps(["x"]))
        folder = support.scratch()
        onnx.save(proto, f"{folder}/net.onnx")
        given = [InputOverride("x", [2, 8])]
        request = Request("onnx", "net", support.scratch(), file=f"{folder}/net.onnx", inputs=given, form=ONNX)
        pipeline.run(request)
        written = onnx.load(f"{request.out}/model.onnx")
        self.assertEqual([i.name for i in written.graph.input], ["x"])
        self.assertEqual({t.name for t in written.graph.initializer}, {"w", "b"})
        with open(f"{request.out}/deployed.json", encoding="utf-8") as file:
            facts = json.load(file)
        self.assertEqual((facts["origin"], facts["outputs"][0]["shape"]), (deployed.ONNX_RUNTIME, [2, 4]))
        order = {"model": f"{request.out}/model.onnx", "tensors": f"{request.out}/tensors.bin", "threads": 1}
        order |= {"inputs": facts["inputs"], "outputs": facts["outputs"]}
        loaded = runtime.Model(order)
        self.assertLess(loaded.error(order), 1e-6)
        cycle = loaded.record({"warmup": 1, "active": 2, "first_step": 0})
        self.assertEqual(len(cycle["steps_ns"]), 2)
        self.assertGreaterEqual(len(cycle["events"]), 2)
        # TVM's import of the file finds the same inputs and outputs beside it.
        imported = Request("onnx", "model", support.scratch(), file=f"{request.out}/model.onnx")
        pipeline.run(imported)
        with open(os.path.join(imported.out, "graph.json"), encoding="utf-8") as file:
            self.assertEqual(json.load(file)["reference"]["origin"], "test_data_set_0")
