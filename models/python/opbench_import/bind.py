"""Gives every dimension of every true input a number: batch, sequence length, and what the user asked for.

A model file may fix its batch (``1x3x224x224``); asking for another batch then also adjusts the constant target shapes
of Reshape nodes that begin with the old batch, which is how exporters of that age wrote ``Flatten``.
"""

from __future__ import annotations

import difflib

import numpy as np

from .errors import ImportFailure, bad_shape
from .onnx_graph import OnnxGraph, attributes
from .params import Param, with_value
from .request import Request

BATCH_NAMES = ("batch", "n", "b", "bs", "batch_size", "batchsize", "none", "unk__0")
SEQUENCE_PARTS = ("seq", "time", "length", "len", "step", "token")


def bind(graph: OnnxGraph, request: Request) -> int:
    """Sets all input dimensions; returns the batch size in effect."""
    given = {o.name: o for o in request.inputs}
    for name in given:
        if name not in graph.inputs:
            near = difflib.get_close_matches(name, graph.inputs, n=1)
            hint = f"; did you mean '{near[0]}'?" if near else ""
            raise ImportFailure(
                "unknown_input",
                f"the model has no input '{name}'{hint} (inputs: {', '.join(graph.inputs)})",
                name=name,
                inputs=list(graph.inputs),
            )
    for label, number in (("batch size", request.batch), ("sequence length", request.seqlen)):
        if number is not None and number < 1:
            raise bad_shape(f"{label} {number} is not a positive number")

    old_batch = fixed_batch(graph)
    batch = request.batch or 1
    used_batch, used_sequence = None, False
    symbols: dict[str, int] = {}
    for name, spec in graph.inputs.items():
        override = given.get(name)
        declared = list(spec.dims)
        if override is not None:
            apply_override(name, spec, override)
            learn(symbols, name, declared, spec.dims)
            continue
        if not spec.ranked:
            raise bad_shape(f"input '{name}' has no shape in the file; give it with --input {name}:SHAPE")
        if 0 in spec.dims:
            shown = shown_dims(spec.dims)
            raise bad_shape(f"input '{name}' has shape {shown}, which holds no element; give it with --input {name}:SHAPE")
        for axis, dim in enumerate(spec.dims):
            kind = dimension_kind(dim, axis, len(spec.dims))
            if kind == "batch":
                spec.dims[axis], used_batch = batch, batch
            elif kind == "sequence":
                spec.dims[axis], used_sequence = request.seqlen or 16, True
            elif kind == "unknown":
                shown = shown_dims(spec.dims)
                raise bad_shape(
                    f"input '{name}' has shape {shown} with the open dimension '{dim or axis}'; "
                    f"give it with --input {name}:SHAPE"
                )
        learn(symbols, name, declared, spec.dims)
    bind_weights(graph, symbols)
    if used_batch is None and old_batch is not None:
        used_batch = rebatch(graph, old_batch, request, given)
    if request.seqlen is not None and not used_sequence and not given:
        raise bad_shape(
            "this model has no sequence dimension for --seqlen; give the whole shape with --input NAME:SHAPE"
        )
    return used_batch or batch


def shown_dims(dims: list) -> str:
    """Dimensions as messages show them; ``?`` for one without a name."""
    return "x".join(str(d) if d is not None else "?" for d in dims)


def learn(symbols: dict[str, int], name: str, declared: list, bound: list) -> None:
    """Records the meaning of each symbol of an input; the same symbol must mean the same number everywhere."""
    for symbol, number in zip(declared, bound):
        if isinstance(symbol, str) and symbols.setdefault(symbol, number) != number:
            raise bad_shape(
                f"input '{name}' makes '{symbol}' {number}, another input makes it {symbols[symbol]}; "
                "give all of them with --input"
            )


def bind_weights(graph: OnnxGraph, symbols: dict[str, int]) -> None:
    """Gives weights without values the shapes that the symbols of the inputs imply."""
    for name, spec in graph.open_params.items():
        dims = [d if isinstance(d, int) else symbols.get(d) for d in spec.dims]
        if any(d is None for d in dims):
            raise bad_shape(f"weight '{name}' has a dimension that no input fixes")
        graph.params[name] = Param(tuple(dims), spec.dtype)
    graph.open_params = {}


def dimension_kind(dim: int | str | None, axis: int, rank: int) -> str:
    """The meaning of an input dimension: fixed, batch, sequence or unknown."""
    if isinstance(dim, int):
        return "fixed"
    text = (dim or "").lower()
    if text in BATCH_NAMES or "batch" in text:
        return "batch"
    if any(part in text for part in SEQUENCE_PARTS) or text in ("s", "t", "l"):
        return "sequence"
    if axis == 0:
        return "batch"
    if axis == 1 and rank == 2:
        return "sequence"
    return "unknown"


def apply_override(name: str, spec, override) -> None:
    """Replaces the shape (and type) of one input by the user's."""
    if spec.dims and len(override.shape) != len(spec.dims):
        shown = shown_dims(spec.dims)
        raise bad_shape(
            f"input '{name}' has {len(spec.dims)} dimensions ({shown}), but {len(override.shape)} were given"
        )
    if any(d < 1 for d in override.shape):
        raise bad_shape(f"input '{name}': every dimension must be at least 1")
    spec.dims = list(override.shape)
    if override.dtype:
        try:
            np.dtype(override.dtype)
        except TypeError as error:
            raise bad_shape(
                f"input '{name}': unknown element type '{override.dtype}' (for example float32, int64)"
            ) from error
        spec.dtype = override.dtype


def fixed_batch(graph: OnnxGraph) -> int | None:
    """The batch that the file fixes: the common first dimension of the inputs with two or more dimensions."""
    firsts = {s.dims[0] for s in graph.inputs.values() if len(s.dims) > 1}
    if len(firsts) == 1:
        first = firsts.pop()
        return first if isinstance(first, int) else None
    return None


def rebatch(graph: OnnxGraph, old: int, request: Request, given: dict) -> int:
    """Moves a model with a fixed batch to the requested one."""
    new = request.batch
    if new is None:
        leading = {o.shape[0] for o in given.values() if len(o.shape) > 1}
        new = leading.pop() if len(leading) == 1 else old
    for name, spec in graph.inputs.items():
        if name not in given and len(spec.dims) > 1:
            spec.dims[0] = new
    if new != old:
        adjust_reshapes(graph, old)
    return new


def adjust_reshapes(graph: OnnxGraph, old: int) -> None:
    """Reshape targets that begin with the old batch keep their first dimension from the data instead."""
    for node in graph.nodes:
        if node.op_type != "Reshape" or attributes(node).get("allowzero"):
            continue
        target = graph.value(node.input[1])
        if target is None or node.input[0] in graph.params or target.size < 2 or target[0] != old:
            continue
        changed = target.copy()
        changed[0] = -1 if -1 not in changed else 0
        node.input[1] = graph.add_param(graph.fresh("reshape_target"), with_value(changed))
