"""Facts of one tensor function's blocks: iteration space, accesses, arithmetic. Formats follow graph.json.

Arithmetic counts operations on the type of the stored value: index arithmetic and conditions are free, a
multiply-add is two, a maximum or an exponential one; a reduction's update counts once per point of its iteration space.
"""

from __future__ import annotations

import json
import math

from tvm.ir import Call
from tvm.s_tir.stmt import SBlock

from tvm import tirx

from . import functions, tensor_ir
from .legalise import MARK

ARITHMETIC = (
    "Add",
    "Sub",
    "Mul",
    "Div",
    "Mod",
    "FloorDiv",
    "FloorMod",
    "Min",
    "Max",
    "LT",
    "LE",
    "GT",
    "GE",
    "EQ",
    "NE",
    "And",
    "Or",
    "Not",
)
FREE_CALLS = ("prim.if_then_else", "tirx.if_then_else", "tirx.reinterpret", "prim.likely", "tirx.likely")


def short(name: str) -> str:
    """Axis name as it was given (blocks prefix theirs with ``v_``)."""
    return name.removeprefix("v_")


def shape_of(buffer) -> list[int]:
    """Static shape of a buffer variable."""
    return [int(d) for d in buffer.ty.shape]


def dtype_of(buffer) -> str:
    """Element type of a buffer variable."""
    return str(buffer.ty.dtype.dtype if hasattr(buffer.ty.dtype, "dtype") else buffer.ty.dtype)


def extents(block: SBlock) -> list[int]:
    """Extents of the axes that count: without the padding that a packed layout adds (``legalise`` marks it for the block
    that has all of the axes)."""
    facts = json.loads(str(block.annotations[MARK])) if MARK in block.annotations else {}
    own = {short(v.var.name): int(v.dom.extent) for v in block.iter_vars}
    real = facts.get("extents", {})
    return list((own | real if real.keys() <= own.keys() else own).values())


def iterations(block: SBlock) -> list[dict]:
    """Block axes in order with extent and kind."""
    kinds = {tirx.IterVar.DataPar: "spatial", tirx.IterVar.CommReduce: "reduction"}
    return [
        {"name": short(v.var.name), "extent": n, "kind": kinds.get(v.iter_type, "spatial")}
        for v, n in zip(block.iter_vars, extents(block))
    ]


def accesses(regions, own: list[str]) -> list[dict]:
    """Buffers touched, and which axes each index depends on."""
    found = []
    for region in regions:
        indices = [[n for n in own if n in {short(v.name) for v in tensor_ir.variables(r.min)}] for r in region.region]
        found.append(
            {
                "buffer": region.source.name,
                "shape": shape_of(region.source),
                "dtype": dtype_of(region.source),
                "index_iters": indices,
            }
        )
    return found


def describe(block: SBlock, role: str) -> dict:
    """The block's record in graph.json."""
    iters = iterations(block)
    names = [i["name"] for i in iters]
    return {
        "name": block.name_hint,
        "role": role,
        "iters": iters,
        "reads": accesses(block.reads, names),
        "writes": accesses(block.writes, names),
    }


def arithmetic(block: SBlock) -> int:
    """Operations of a block over its whole iteration space."""
    points = math.prod(extents(block))
    if block.name_hint in functions.BLOCKS:
        return points
    return points * sum(count(s.value, is_float(s.value)) for s in tensor_ir.stores(block.body))


def is_float(expr) -> bool:
    """Whether an expression has a floating-point type."""
    return "float" in str(expr.ty)


def count(expr, floating: bool) -> int:
    """Operations in a value; ``floating`` restricts the count to floating-point arithmetic."""
    kind = type(expr).__name__
    if kind in ("TensorLoad", "BufferLoad", "Var", "IntImm", "FloatImm", "StringImm"):
        return 0
    if kind == "Select":
        return 1 + max(count(expr.true_value, floating), count(expr.false_value, floating))
    if isinstance(expr, Call):
        name = getattr(expr.op, "name", "")
        if name.endswith("if_then_else"):
            return max(count(a, floating) for a in list(expr.args)[1:])
        own = 0 if name in FREE_CALLS or (floating and not is_float(expr)) else 1
        return own + sum(count(a, floating) for a in expr.args if hasattr(a, "ty"))
    own = int(
        kind in ARITHMETIC
        and (
            not floating
            or is_float(expr)
            or any(is_float(c) for c in tensor_ir.subexpressions(expr) if hasattr(c, "ty"))
        )
    )
    return own + sum(count(c, floating) for c in tensor_ir.subexpressions(expr))
