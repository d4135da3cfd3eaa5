"""Where extremes begin: at infinity, as ONNX defines the maximum of nothing, not at TVM's smallest number.

TVM's reductions begin at the smallest finite number, so the maximum of nothing but minus infinity comes out as that number, and
its place as -1. ``tvm/src/reducers.rs`` registers the same reductions, without which schedules could not factor them.
"""

from __future__ import annotations

from tvm.s_tir.stmt import SBlock

import tvm
from tvm import tirx

from . import tensor_ir


def begin_at_infinity(module: tvm.IRModule) -> tvm.IRModule:
    """The module with every extreme of floating-point numbers, and every place of one, begun so that any value replaces it."""
    changed = {}
    for variable, function in module.functions_items():
        if isinstance(function, tirx.PrimFunc) and any(begun(block) is not None for block in tensor_ir.blocks(function)):
            changed[variable] = tensor_ir.map_blocks(function, begun_at_infinity)
    for variable, function in changed.items():
        module.update_func(variable, function)
    return module


def begun_at_infinity(block: SBlock) -> SBlock:
    """A block with another beginning, if it is such an extreme."""
    init = begun(block)
    return block if init is None else tensor_ir.rebuild(block, block.body, block.annotations, init)


def begun(block: SBlock):
    """The initial value that an extreme should have; None for other blocks, and if it has it."""
    starts = [] if block.init is None else list(tensor_ir.stores(block.init))
    if not starts or infinity(starts[-1].value) is None:
        return None
    changed = [tirx.BufferStore(starts[-1].buffer, infinity(starts[-1].value), starts[-1].indices)]
    if len(starts) == 2 and takes_first(block):
        place = starts[0]
        changed.insert(0, tirx.BufferStore(place.buffer, tirx.max_value(place.value.ty.dtype), place.indices))
    else:
        changed[:0] = starts[:-1]
    return changed[0] if len(changed) == 1 else tirx.SeqStmt(changed)


def least(dtype: str):
    """The smallest value of a type: minus infinity if it has one."""
    number = tirx.min_value(dtype)
    stands_for = infinity(number)
    return number if stands_for is None else stands_for


def infinity(value):
    """The infinity that the largest or smallest number of a type replaces; None for other values."""
    if not isinstance(value, tirx.FloatImm):
        return None
    dtype = value.ty.dtype
    for number, stands_for in ((tirx.min_value(dtype), float("-inf")), (tirx.max_value(dtype), float("inf"))):
        if value.value == number.value:
            return tirx.const(stands_for, dtype)
    return None


def takes_first(block: SBlock) -> bool:
    """Whether the place of an extreme is the smallest of all places with that value."""
    stack = [s.value for s in block.body.seq if isinstance(s, tirx.Bind)] if isinstance(block.body, tirx.SeqStmt) else []
    while stack:
        current = stack.pop()
        if isinstance(current, tirx.LT) and str(current.a.ty.dtype).startswith("int"):
            return True
        stack.extend(tensor_ir.subexpressions(current))
    return False
