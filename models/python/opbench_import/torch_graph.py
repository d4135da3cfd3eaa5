"""A PyTorch module as an ``OnnxGraph``, with PyTorch's own outputs as the reference.

The module goes through ``torch.export`` and PyTorch's exporter to ONNX, and from there along the same path as an ONNX
file. Relax's own frontend for exported programs leaves masks, positions and transposed weights in the graph as
operators to compute; here they are constants (see docs/decisions.md for the counts).
"""

from __future__ import annotations

import contextlib
import io
import re
from dataclasses import dataclass

import numpy as np
import onnx

from . import load, reference, torch_library
from .errors import ImportFailure, bad_shape, unsupported
from .onnx_graph import OnnxGraph, first_line

OPSET = 20
SEED = 0
"""Of weights and of inputs."""
MEMORY_SHARE = 0.25
"""Of the memory that is free, for a model's weights: the export and its check hold them up to three times."""
MOST_NODES = 20_000
"""Of a graph: each loop over tokens is written out by an export, and TVM's passes take hours beyond this (mamba of 24 layers
and 128 tokens)."""


@dataclass
class Example:
    """A module and the inputs that it is exported with, by name in the order of its arguments."""

    module: object
    inputs: dict[str, object]


def export(example: Example, model: str) -> tuple[OnnxGraph, reference.Reference]:
    """The graph of a module, and PyTorch's outputs for the example's inputs."""
    torch = torch_library.load()
    computed = results(torch, example, model)
    proto = to_onnx(example, model)
    if len(proto.graph.node) > MOST_NODES:
        raise bad_shape(
            f"{model} is a graph of {len(proto.graph.node):,} operators, more than {MOST_NODES:,}: its loops over tokens or steps are "
            "written out one by one; choose a smaller one with --layers or --seqlen"
        )
    graph = load.from_proto(proto, model)
    values = {name: array(value) for name, value in example.inputs.items()}
    if len(computed) != len(graph.outputs):
        raise ImportFailure("corrupt_model", f"{model}: PyTorch's export lost outputs of the model")
    return graph, reference.Reference(values, [array(t) for t in computed], "PyTorch")


def to_onnx(example: Example, model: str) -> onnx.ModelProto:
    """The module as PyTorch's exporter writes it, weights included."""
    torch = torch_library.load()
    torch_library.load("onnxscript")
    talk = io.StringIO()
    try:
        with torch.no_grad(), contextlib.redirect_stdout(talk), contextlib.redirect_stderr(talk):
            program = torch.onnx.export(
                example.module,
                tuple(example.inputs.values()),
                dynamo=True,
                opset_version=OPSET,
                input_names=list(example.inputs),
                # The exporter's optimiser folds normalisations of bfloat16 into weights of single precision.
                optimize=all(p.dtype != torch.bfloat16 for p in example.module.parameters()),
                external_data=False,
                verbose=False,
            )
            return program.model_proto
    except Exception as error:  # noqa: BLE001
        raise unsupported(
            "torch.export",
            model,
            f"{model}: PyTorch cannot export it with fixed shapes ({why_not(cause(error))}); "
            "export it yourself and use --modelsource onnx",
        ) from error


def why_not(error: Exception) -> str:
    """Why PyTorch cannot export the model, with the model's own line if PyTorch names it."""
    place = re.search(r"Caused by: \((\S+:\d+ in \w+)\)", str(error))
    if place is None:
        return first_line(error)
    if "data-dependent" in str(error):
        return f"it decides by its data what to compute, at {place[1]}"
    return f"{first_line(error)}, at {place[1]}"


def results(torch, example: Example, model: str) -> list:
    """PyTorch's outputs for the example's inputs."""
    try:
        with torch.no_grad():
            return outputs(torch, example.module(*example.inputs.values()))
    # Here and above anything can be raised: the code is the model's own.
    except Exception as error:  # noqa: BLE001
        raise bad_shape(f"{model} does not run in PyTorch in this configuration ({first_line(error)})") from error


def cause(error: Exception) -> Exception:
    """The error that began it: exporters wrap it in reports of theirs."""
    while isinstance(error.__cause__, Exception):
        error = error.__cause__
    return error


def outputs(torch, result: object) -> list:
    """The tensors of a module's result, in the order in which the exporter numbers them."""
    return [leaf for leaf in torch.utils._pytree.tree_leaves(result) if isinstance(leaf, torch.Tensor)]  # noqa: SLF001


def array(tensor) -> np.ndarray:
    """A tensor's values; NumPy has no bfloat16 of its own."""
    tensor = tensor.detach().contiguous()
    if str(tensor.dtype) != "torch.bfloat16":
        return tensor.numpy()
    import ml_dtypes

    return tensor.view(torch_library.load().int16).numpy().view(ml_dtypes.bfloat16)


def require_memory(torch, module, model: str, smaller: str) -> None:
    """Refuses a module whose weights would not fit; it can be one without values (on PyTorch's meta device)."""
    parameters = sum(p.numel() for p in module.parameters())
    wanted = sum(p.numel() * p.element_size() for p in module.parameters())
    free = available_memory()
    if free is not None and wanted > MEMORY_SHARE * free:
        raise ImportFailure(
            "bad_shape",
            f"{model} has {parameters / 1e6:,.0f} million parameters ({wanted / 2**30:.1f} GiB). Exporting takes four "
            f"times that, but {free / 2**30:.1f} GiB of memory are free; {smaller}",
        )


def available_memory() -> int | None:
    """Bytes that processes can still take, where the system says so."""
    try:
        with open("/proc/meminfo", encoding="ascii") as file:
            line = next(line for line in file if line.startswith("MemAvailable:"))
    except (OSError, StopIteration):
        return None
    return int(line.split()[1]) * 1024
