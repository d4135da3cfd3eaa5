"""Expected outputs that come with a model: ``<stem>_output_<i>.pb`` beside the ONNX file.

Such files belong to the models of the ``onnx`` wheel. Their inputs are not stored: the wheel's test runner feeds
``arange(n) / n`` in the input's shape, so the same numbers are produced here. They hold for the shapes that the file
declares; any other batch or shape has no reference.
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

RTOL = 1e-3
ATOL = 1e-5


@dataclass
class Reference:
    """Inputs to feed and outputs to expect, by position of the graph's outputs."""

    inputs: dict[str, np.ndarray]
    outputs: list[np.ndarray]
    origin: str


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
    paths = reference_paths(path, len(graph.outputs))
    same = all(spec.shape == declared[name] and spec.dtype == "float32" for name, spec in graph.inputs.items())
    if not paths or not same:
        return None
    outputs = []
    for one in paths:
        try:
            files.require_regular(one, files.LARGEST_MESSAGE)
            tensor = onnx.TensorProto()
            with open(one, "rb") as file:
                tensor.ParseFromString(file.read())
            outputs.append(numpy_helper.to_array(tensor))
        except (DecodeError, ValueError, TypeError, OSError) as error:
            raise ImportFailure(
                "corrupt_model", f"{one}: damaged reference output; remove or replace it ({error})", path=one
            ) from error
    inputs = {name: ramp(spec) for name, spec in graph.inputs.items()}
    return Reference(inputs, outputs, os.path.basename(paths[0]))


def ramp(spec: TensorSpec) -> np.ndarray:
    """``0, 1/n, 2/n, ...`` in the input's shape, as the wheel's test runner feeds."""
    n = int(np.prod(spec.shape))
    return (np.arange(n).reshape(spec.shape) / n).astype(np.float32)
