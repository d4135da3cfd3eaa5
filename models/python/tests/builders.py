"""Tiny ONNX models for tests, made from lists of nodes and seeded weights."""

from __future__ import annotations

import numpy as np
import onnx
from onnx import helper, numpy_helper


class Model:
    """Collects a graph; weights are seeded, so every run of a test sees the same numbers."""

    def __init__(self, seed: int = 0) -> None:
        self.generator = np.random.default_rng(seed)
        self.nodes: list[onnx.NodeProto] = []
        self.inputs: list[onnx.ValueInfoProto] = []
        self.initializers: list[onnx.TensorProto] = []

    def input(self, name: str, *dims: int | str, dtype: int = onnx.TensorProto.FLOAT) -> str:
        """Declares a true input."""
        self.inputs.append(helper.make_tensor_value_info(name, dtype, list(dims)))
        return name

    def weight(self, name: str, *shape: int, low: float | None = None) -> str:
        """Adds a random weight; ``low`` makes it uniform on [low, low + 1)."""
        value = self.generator.standard_normal(shape) * 0.5 if low is None else self.generator.random(shape) + low
        return self.constant(name, value.astype(np.float32))

    def constant(self, name: str, value: np.ndarray) -> str:
        """Adds a given tensor."""
        self.initializers.append(numpy_helper.from_array(np.asarray(value), name))
        return name

    def node(self, op: str, inputs: list[str], outputs: list[str] | str, **options: object) -> str:
        """Adds a node; the name of its first output."""
        names = [outputs] if isinstance(outputs, str) else outputs
        self.nodes.append(helper.make_node(op, inputs, names, name=f"{op.lower()}_{len(self.nodes)}", **options))
        return names[0]

    def build(self, *outputs: str, opset: int = 17) -> onnx.ModelProto:
        """The finished model."""
        graph = helper.make_graph(
            self.nodes,
            "test",
            self.inputs,
            [helper.make_tensor_value_info(o, onnx.TensorProto.FLOAT, None) for o in outputs],
            self.initializers,
        )
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)
