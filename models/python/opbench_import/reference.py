"""Expected outputs that come with a model, as the ``onnx`` wheel and the ONNX model zoo ship them.

The wheel has ``<stem>_output_<i>.pb`` beside the ONNX file. Its inputs are not stored: the wheel's test runner feeds
``arange(n) / n`` in the input's shape, so the same numbers are produced here. The zoo has a folder ``test_data_set_0``
beside the file, with ``input_<i>.pb`` and ``output_<i>.pb`` in the order of the graph. Either holds for one shape of the
inputs; any other batch or shape has no reference.
"""

from __future__ import annotations

import os
from dataclasses import dataclass

import numpy as np
import onnx
from google.protobuf.message import DecodeError
from onnx import numpy_helper

from . import files
from .errors import ImportFailure
from .onnx_graph import OnnxGraph, TensorSpec

RTOL = {"bfloat16": 4e-2, "float16": 1e-2, "int8": 1e-2, "uint8": 1e-2}
"""Of models that compute in these types: products are summed in single precision, as PyTorch does, but fused operators round
in other places; bytes may differ by a step."""
PLAIN_RTOL = 1e-3
"""Of all other models."""
ATOL = 1e-5
TEST_DATA = "test_data_set_0"
"""Folder beside a model of the ONNX model zoo."""


@dataclass
class Reference:
    """Inputs to feed and outputs to expect, by position of the graph's outputs."""

    inputs: dict[str, np.ndarray]
    outputs: list[np.ndarray]
    origin: str


def relative_tolerance(dtypes: set[str]) -> float:
    """Tolerance of the outputs, relative to the largest; ``dtypes`` are the element types of weights and outputs."""
    return max((RTOL.get(dtype, PLAIN_RTOL) for dtype in dtypes), default=PLAIN_RTOL)


def declared_shapes(graph: OnnxGraph) -> dict[str, tuple]:
    """The input shapes as the file declares them, before binding; open dimensions count as one."""
    return {name: tuple(d if isinstance(d, int) else 1 for d in spec.dims) for name, spec in graph.inputs.items()}


def reference_paths(path: str, outputs: int) -> list[str]:
    """The files of expected outputs, one for each output; empty when any is missing."""
    stem = os.path.splitext(path)[0]
    paths = [f"{stem}_output_{i}.pb" for i in range(outputs)]
    return paths if all(os.path.exists(p) for p in paths) else []


def find(path: str, graph: OnnxGraph, declared: dict[str, tuple]) -> Reference | None:
    """The reference data of the file at ``path``, when there is some for the shapes in effect."""
    shipped = test_data(path, graph)
    if shipped is not None:
        return shipped
    paths = reference_paths(path, len(graph.outputs))
    same = all(spec.shape == declared[name] and spec.dtype == "float32" for name, spec in graph.inputs.items())
    if not paths or not same:
        return None
    outputs = [read_tensor(one) for one in paths]
    inputs = {name: ramp(spec) for name, spec in graph.inputs.items()}
    return Reference(inputs, outputs, os.path.basename(paths[0]))


def read_tensor(path: str) -> np.ndarray:
    """The values of a file that holds one tensor."""
    try:
        files.require_regular(path, files.LARGEST_MESSAGE)
        tensor = onnx.TensorProto()
        with open(path, "rb") as file:
            tensor.ParseFromString(file.read())
        return numpy_helper.to_array(tensor)
    except (DecodeError, ValueError, TypeError, OSError) as error:
        raise ImportFailure(
            "corrupt_model", f"{path}: damaged reference data; remove or replace it ({error})", path=path
        ) from error


def test_data(path: str, graph: OnnxGraph) -> Reference | None:
    """The first set of test data beside the file, if its inputs have the shapes and types in effect."""
    folder = os.path.join(os.path.dirname(path), TEST_DATA)
    inputs = [os.path.join(folder, f"input_{i}.pb") for i in range(len(graph.inputs))]
    outputs = [os.path.join(folder, f"output_{i}.pb") for i in range(len(graph.outputs))]
    if not inputs or not all(os.path.exists(p) for p in (*inputs, *outputs)):
        return None
    values = {name: read_tensor(p) for name, p in zip(graph.inputs, inputs)}
    fits = all(values[n].shape == s.shape and values[n].dtype.name == s.dtype for n, s in graph.inputs.items())
    return Reference(values, [read_tensor(p) for p in outputs], TEST_DATA) if fits else None


def ramp(spec: TensorSpec) -> np.ndarray:
    """``0, 1/n, 2/n, ...`` in the input's shape, as the wheel's test runner feeds."""
    n = int(np.prod(spec.shape))
    return (np.arange(n).reshape(spec.shape) / n).astype(np.float32)
