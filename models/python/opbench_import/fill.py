"""Hints for seeded data: what a parameter or input without values should hold so that activations stay in range.

Weights follow He initialisation (standard deviation sqrt(2 / fan-in)), recurrent ones 1 / sqrt(hidden size), scales of
norms are one, biases small; indices stay within the table that they select from.
"""

from __future__ import annotations

import math

import numpy as np

from .onnx_graph import OnnxGraph, attributes
from .params import Param, constant, integers, normal, uniform


def assign(graph: OnnxGraph) -> None:
    """Sets ``fill`` of every given tensor that has neither a value nor a hint."""
    for node in graph.nodes:
        for i, name in enumerate(node.input):
            param = graph.params.get(name)
            if param is not None and param.fill is None:
                param.fill = hint(node.op_type, i, param)
    for param in graph.params.values():
        single = param.uniform_value()
        if single is not None:
            param.fill = constant(single)
        elif param.value is not None and param.is_float and not np.all(np.isfinite(param.value)):
            # Masks hold infinities; data for measuring one operator alone must not.
            param.fill = constant(0.0)
        elif param.fill is None:
            param.fill = normal(0.1) if param.is_float else integers(2)


def hint(op: str, index: int, param: Param) -> dict | None:
    """The hint for input ``index`` of an operator; None to leave it to another reader."""
    if not param.is_float:
        return None
    if op == "Conv" and index == 1:
        return normal(math.sqrt(2.0 / max(1, math.prod(param.shape[1:]))))
    if op == "ConvTranspose" and index == 1:
        return normal(math.sqrt(2.0 / max(1, param.shape[0])))
    if op in ("MatMul", "Gemm") and len(param.shape) >= 2:
        return normal(math.sqrt(2.0 / max(1, param.shape[-2])))
    if op in (
        "LayerNormalization",
        "InstanceNormalization",
        "GroupNormalization",
        "RMSNormalization",
        "BatchNormalization",
    ):
        return {1: constant(1.0), 2: normal(0.01), 3: constant(0.0), 4: constant(1.0)}.get(index)
    if op in ("Add", "Sub"):
        return normal(0.01)
    if op in ("Mul", "Div"):
        return uniform(0.9, 1.1)
    if op == "PRelu":
        return constant(0.25)
    if op == "Gather":
        return normal(0.02)
    return None


def input_hint(graph: OnnxGraph, name: str) -> dict:
    """The hint for a true input: normal numbers, indices within the table that they select from, divisors without zero."""
    dtype = graph.inputs[name].dtype
    if dtype.startswith(("float", "bfloat")):
        return normal(1.0)
    readers = [n for n in graph.nodes if name in n.input]
    rows = [r for r in (vocabulary(graph, n, name) for n in readers) if r]
    if rows:
        return integers(min(rows))
    divides = any(n.op_type in ("Div", "Mod") and n.input[1] == name for n in readers)
    return integers(9, 1) if divides else integers(2)


def vocabulary(graph: OnnxGraph, node, name: str) -> int | None:
    """Rows of the table that ``node`` selects from with ``name`` as indices."""
    places = [i for i, read in enumerate(node.input) if read == name]
    if node.op_type == "OneHot" and 0 in places:
        depth = graph.value(node.input[1])
        return None if depth is None else int(np.reshape(depth, -1)[0])
    if node.op_type in INDEXED and 1 in places:
        shape = graph.shape(node.input[0])
        if not shape or node.op_type.endswith("ND"):
            return min(shape, default=None) if shape else None
        return shape[attributes(node).get("axis", 0)]
    if node.op_type in ("Cast", "Reshape", "Squeeze", "Unsqueeze", "Transpose"):
        for reader in graph.nodes:
            if node.output[0] in reader.input:
                found = vocabulary(graph, reader, node.output[0])
                if found:
                    return found
    return None


INDEXED = ("Gather", "GatherElements", "GatherND", "Scatter", "ScatterElements", "ScatterND")
"""Operators whose second input is positions in the first."""


def values(how: dict, shape: tuple[int, ...], dtype: str, generator: np.random.Generator) -> np.ndarray:
    """Data as a hint describes it."""
    if how["kind"] == "const":
        made = np.full(shape, how["value"])
    elif how["kind"] == "int":
        made = generator.integers(how["low"], how["high"], shape)
    elif how["kind"] == "uniform":
        made = generator.uniform(how["low"], how["high"], shape)
    else:
        made = generator.standard_normal(shape, dtype=np.float32) * np.float32(how["std"])
    return np.asarray(made).astype(element_type(dtype))


def element_type(dtype: str) -> np.dtype:
    """NumPy's type of that name; it has no bfloat16 of its own."""
    if dtype != "bfloat16":
        return np.dtype(dtype)
    import ml_dtypes

    return np.dtype(ml_dtypes.bfloat16)
