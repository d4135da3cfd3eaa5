"""Tensor functions that came with a module: what they compute by their blocks, and a ``main`` that calls them."""

from __future__ import annotations

import json

import tvm
from tvm import relax, tirx

from . import blocks, lower, tensor_ir
from .legalise import MARK


class NoCall(Exception):
    """A tensor function that cannot be called alone; why."""


def with_main(module: tvm.IRModule) -> tvm.IRModule:
    """The module with a Relax ``main`` that calls each tensor function once, on inputs of its own.

    A function's outputs are the parameters that its blocks write.
    """
    functions = {v.name_hint: f for v, f in module.functions_items() if isinstance(f, tirx.PrimFunc)}
    if not functions:
        raise NoCall("it has no function")
    builder = relax.BlockBuilder()
    calls, params = [], []
    for name, function in functions.items():
        shapes, written = arguments(name, function)
        own = [
            relax.Var(f"{name}_{place}", relax.TensorType(shape, dtype))
            for place, (shape, dtype) in enumerate(shapes[: len(shapes) - written])
        ]
        outputs = [relax.TensorType(shape, dtype) for shape, dtype in shapes[len(shapes) - written :]]
        # A module of one function may call it main, as Relax calls its own.
        label = f"{name}_tensor" if name == "main" else name
        variable = builder.add_func(function.with_attr("global_symbol", label), label)
        calls.append((variable, own, outputs))
        params += own
    with builder.function("main", params):
        with builder.dataflow():
            results = [builder.emit(relax.call_tir(v, own, out if len(out) > 1 else out[0])) for v, own, out in calls]
            output = builder.emit_output(results[0] if len(results) == 1 else relax.Tuple(results))
        builder.emit_func_output(output)
    return builder.get()


def arguments(name: str, function: tirx.PrimFunc) -> tuple[list, int]:
    """Shape and element type of each parameter, and how many of them, at the end, are written."""
    try:
        tensors = [(blocks.shape_of(param), blocks.dtype_of(param)) for param in function.params]
    except (AttributeError, TypeError, ValueError) as error:
        raise NoCall(f"{name} has a parameter that is no tensor, or has a shape that is not numbers") from error
    written = [write.source for block in tensor_ir.blocks(function) for write in block.writes]
    is_written = [any(param.same_as(own) for own in written) for param in function.params]
    count = sum(is_written)
    if not count or not all(is_written[len(tensors) - count :]):
        raise NoCall(f"{name} does not write its last parameters: inputs come first, outputs last")
    return tensors, count


def marked(module: tvm.IRModule) -> tvm.IRModule:
    """The module with the blocks of its tensor functions marked by their computation."""
    module = tvm.IRModule(dict(module.functions_items()), attrs=module.attrs)
    for variable, function in list(module.functions_items()):
        if isinstance(function, tirx.PrimFunc):
            fresh = tensor_ir.map_blocks(function, mark)
            if function.attrs and "op_pattern" in function.attrs:
                fresh = fresh.with_attr(lower.OWN_PATTERN, True)
            module.update_func(variable, fresh)
    return lower.record_patterns(relax.transform.AnnotateTIROpPattern()(module))


def mark(block):
    """The block, marked."""
    if MARK in block.annotations:
        return block
    facts = {"op": kind(block), "attrs": {"groups": 1}, "shapes": [blocks.shape_of(r.source) for r in block.reads], "blocks": 1}
    annotations = {**dict(block.annotations), MARK: json.dumps(facts, sort_keys=True)}
    return tensor_ir.rebuild(block, block.body, annotations)


def kind(block) -> str:
    """The operator that a block resembles most: a contraction by the rank of its inputs, a reduction, or its own name."""
    reduces = any(var.iter_type == tirx.IterVar.CommReduce for var in block.iter_vars)
    if not reduces:
        return block.name_hint.removeprefix("T_")
    if len(block.reads) < 2 or blocks.arithmetic(block) < 2:
        return "sum"
    rank = max(len(blocks.shape_of(read.source)) for read in block.reads)
    return "relax.nn.conv2d" if rank > 3 else "relax.matmul"
