"""Writing the nodes that replace one node."""

from __future__ import annotations

import numpy as np
import onnx
from onnx import helper

from .errors import ImportFailure, unsupported
from .onnx_graph import OnnxGraph, attributes
from .params import with_value


class Emitter:
    """Collects the nodes that replace ``node``; values get fresh names, the last result the name that readers know."""

    def __init__(self, graph: OnnxGraph, node: onnx.NodeProto) -> None:
        self.graph = graph
        self.node = node
        self.options = attributes(node)
        self.nodes: list[onnx.NodeProto] = []
        self.label = node.name or next(o for o in node.output if o)

    def input(self, index: int) -> str:
        """The name of an input; empty if the node has none."""
        return self.node.input[index] if index < len(self.node.input) else ""

    def emit(self, op: str, inputs: list[str], **options: object) -> str:
        """Adds a node and names its result."""
        result = self.graph.fresh(self.label)
        self.nodes.append(helper.make_node(op, inputs, [result], name=self.label, **options))
        return result

    def constant(self, value: object, dtype: str) -> str:
        """A given tensor."""
        return self.graph.add_param(self.graph.fresh("constant"), with_value(np.asarray(value, dtype=dtype)))

    def ints(self, values: list[int]) -> str:
        """An integer constant."""
        return self.constant(values, "int64")

    def run_time_value(self, value: object, dtype: str) -> str:
        """A given tensor that folding leaves alone, as the model computes it at each run."""
        name = self.constant(value, dtype)
        self.graph.runtime.add(name)
        return name

    def cast(self, value: str, dtype: str) -> str:
        """``value`` in another element type."""
        return self.emit("Cast", [value], to=helper.np_dtype_to_tensor_dtype(np.dtype(dtype)))

    def refusal(self, reason: str) -> ImportFailure:
        """The failure of a form of this operator that cannot be imported."""
        op = self.node.op_type
        return unsupported(op, self.label, f"operator {op} (node '{self.label}') cannot be imported: {reason}")

    def finish(self, value: str, position: int = 0) -> list[onnx.NodeProto]:
        """All nodes, ``value`` under the name of the node's output at ``position``."""
        self.nodes.append(helper.make_node("Identity", [value], [self.node.output[position]], name=self.label))
        return self.nodes
