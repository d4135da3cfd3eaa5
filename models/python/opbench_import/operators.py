"""The operator records of graph.json: what each fused function computes and costs.

Owns grouping blocks into operators, the anchor, FLOPs, traffic and arguments. FLOPs come from the blocks' iteration
spaces, not from names: 2 per multiply-add, 1 per addition, comparison or function call elsewhere.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

import numpy as np

import tvm
from tvm import relax

from . import blocks as block_facts
from . import kinds, lower, tensor_ir
from .demand import Demand
from .params import constant, integers, normal, uniform

POSITIVE_OPS = ("sqrt", "rsqrt", "log", "power", "divide", "log2", "log10")
STRENGTH = ("elemwise", "broadcast", "injective", "comm_reduce", "out_ewise_fusable", "tuple", "opaque")


@dataclass
class Step:
    """Consecutive blocks of one Relax operator."""

    facts: dict
    blocks: list = field(default_factory=list)

    @property
    def kind(self) -> str:
        """Kind of this operator alone."""
        return kinds.kind_of(self.facts)


@dataclass
class Use:
    """One call of a tensor function in ``main``; ``inputs`` are the numbers of the earlier calls whose results it reads."""

    args: list
    outputs: int
    inputs: list[int]


def uses(main: relax.Function) -> list[tuple[tvm.ir.GlobalVar, Use]]:
    """Every call in program order, with the global variable of its tensor function."""
    found = []
    producers: dict[relax.Var, set[int]] = {}
    for block in main.body.blocks:
        for binding in block.bindings:
            value = binding.value
            read = set().union(*(producers.get(var, set()) for var in relax.analysis.free_vars(value)))
            producers[binding.var] = read
            if isinstance(value, tvm.ir.Call) and value.args and isinstance(value.args[0], tvm.ir.GlobalVar):
                args = (
                    list(value.args[1].fields)
                    if len(value.args) > 1 and isinstance(value.args[1], relax.Tuple)
                    else list(value.args[1:])
                )
                ty = value.ty_args[0]
                outputs = len(ty.fields) if isinstance(ty, relax.TupleType) else 1
                producers[binding.var] = {len(found)}
                found.append((value.args[0], Use(args, outputs, sorted(read))))
    return found


def calls(main: relax.Function, symbols: dict, weights: dict) -> list[dict]:
    """The calls as graph.json has them: the operator of each, the largest weight that it reads (None where it reads none), and
    the numbers of the earlier calls whose results it reads.

    ``symbols`` maps global variables to operators, ``weights`` parameters of ``main`` to their names.
    """
    found = []
    for variable, use in uses(main):
        own = [a for a in use.args if a in weights]
        largest = max(own, key=lambda v: np.prod(v.ty.shape.values), default=None)
        weight = None if largest is None else weights[largest]
        found.append({"symbol": symbols[variable], "weight": weight, "inputs": use.inputs})
    return found


def steps(function: tvm.tirx.PrimFunc) -> list[Step]:
    """The Relax operators of a fused function in program order."""
    found: list[Step] = []
    for block in tensor_ir.blocks(function):
        facts = lower.marks(block) or {"op": block.name_hint, "attrs": {}, "pattern": "opaque", "shapes": []}
        # The same operator twice in a row (bias, residual) is two steps: an element-wise one ends with its last block.
        ended = kinds.kind_of(facts) == "elementwise" and found and len(found[-1].blocks) >= facts.get("blocks", 1)
        same = found and found[-1].facts == facts and not ended
        if same:
            found[-1].blocks.append(block)
        else:
            found.append(Step(facts, [block]))
    return found


class NoBlocks(Exception):
    """A function of TVM's library without blocks, which nothing can describe or schedule; its name is the argument."""


def records(module: tvm.IRModule, weights: dict) -> tuple[list[dict], dict]:
    """Operator records in order of first call, and the new name of each function's global variable.

    ``weights`` maps parameters of ``main`` to their fill hints.
    """
    results, names, taken = [], {}, {}
    found: dict = {}
    for variable, use in uses(module["main"]):
        found.setdefault(variable, []).append(use)
    for variable, of_function in found.items():
        record = describe(module[variable], of_function, weights)
        number = taken.get(record["name"], 0)
        taken[record["name"]] = number + 1
        symbol = f"{record['name']}_{number}" if number else record["name"]
        record = {"symbol": symbol, **record}
        names[variable] = symbol
        results.append(record)
    return results, names


def describe(function: tvm.tirx.PrimFunc, uses: list[Use], weights: dict) -> dict:
    """The record of one function, without its symbol."""
    parts = steps(function)
    if not parts:
        raise NoBlocks(str(function.attrs["global_symbol"]) if "global_symbol" in function.attrs else "")
    demand = Demand(function)
    costs = {id(s): sum(demand.arithmetic(b) for b in s.blocks) for s in parts}
    anchor = min(parts, key=lambda s: (kinds.rank(s.kind), -costs[id(s)]))
    total = sum(costs.values())
    composite = lower.composite(function)
    whole = kinds.rank(anchor.kind) > 1 or composite is not None
    flops = total if whole else costs[id(anchor)]
    arguments = describe_arguments(function, uses, weights, parts)
    writes = sum(nbytes(a) for a in arguments if a["role"] == "output")
    tables = [shape for shape, _ in gather_tables(parts)]
    reads = sum(
        # Only the selected part of a table is read.
        min(nbytes(a), writes) if a["shape"] in tables else demand.elements(param) * dtype_bytes(a["dtype"])
        for a, param in zip(arguments, function.params)
        if a["role"] != "output"
    )
    main_block = (
        max(anchor.blocks, key=block_facts.arithmetic)
        if any(block_facts.arithmetic(b) for b in anchor.blocks)
        else anchor.blocks[-1]
    )
    described, seen_anchor = [], False
    for part in parts:
        for block in part.blocks:
            if block is main_block:
                seen_anchor = True
                role = "anchor"
            else:
                role = "epilogue" if seen_anchor else "producer"
            described.append(block_facts.describe(block, role))
    return {
        "name": composite or readable_name(parts),
        "kind": anchor.kind,
        "pattern": max((s.facts["pattern"] for s in parts), key=STRENGTH.index),
        "count": len(uses),
        "args": arguments,
        "attrs": attributes(anchor, arguments),
        "flops": flops,
        "flops_epilogue": total - flops,
        "bytes_read": reads,
        "bytes_written": writes,
        "loops": block_facts.iterations(main_block),
        "blocks": described,
    }


def readable_name(parts: list[Step]) -> str:
    """Names of the fused operators joined; long chains are cut."""
    words = [re.sub(r"\W", "_", kinds.short_name(p.facts)) for p in parts]
    kept = words[:6]
    if len(words) > 6:
        kept.append(f"{len(words) - 6}more")
    return "_".join(kept)


def gather_tables(parts: list[Step]) -> list[tuple[list[int], int]]:
    """Shape of each table that is gathered from, and the axis along which rows are selected."""
    gathers = [p.facts for p in parts if p.kind == "gather" and p.facts.get("shapes")]
    return [(facts["shapes"][0], facts["attrs"].get("axis") or 0) for facts in gathers]


def nbytes(argument: dict) -> int:
    """Size of one argument in bytes."""
    return int(np.prod(argument["shape"], dtype=np.int64)) * dtype_bytes(argument["dtype"])


def dtype_bytes(dtype: str) -> int:
    """Bytes of one element."""
    if dtype == "bool":
        return 1
    bits = re.search(r"(\d+)", dtype)
    return max(1, int(bits.group(1)) // 8) if bits else 4


def describe_arguments(function: tvm.tirx.PrimFunc, uses: list[Use], weights: dict, parts: list[Step]) -> list[dict]:
    """Arguments in the function's order, outputs last, each with its role and a fill hint."""
    params = list(function.params)
    outputs = uses[0].outputs
    positive = any(p.facts["op"].rsplit(".", 1)[-1] in POSITIVE_OPS for p in parts)
    vocabulary = min((shape[axis] for shape, axis in gather_tables(parts)), default=2)
    described, counts = [], {"input": 0, "weight": 0, "output": 0}
    for i, param in enumerate(params):
        shape, dtype = block_facts.shape_of(param), block_facts.dtype_of(param)
        given = [u.args[i] for u in uses if i < len(u.args)]
        is_output = i >= len(params) - outputs
        is_weight = not is_output and all(g in weights or not isinstance(g, relax.Var) for g in given)
        role = "output" if is_output else "weight" if is_weight else "input"
        if is_output:
            fill = constant(0.0)
        elif is_weight and given[0] in weights:
            fill = weights[given[0]]
        elif not dtype.startswith(("float", "bfloat")):
            fill = integers(vocabulary)
        else:
            fill = uniform(0.1, 1.0) if positive else normal(1.0)
        described.append({"name": f"{role}{counts[role]}", "shape": shape, "dtype": dtype, "role": role, "fill": fill})
        counts[role] += 1
    return described


def attributes(anchor: Step, arguments: list[dict]) -> dict:
    """The anchor's attributes in graph.json's words; only those that apply."""
    attrs = anchor.facts["attrs"]
    kind = anchor.kind
    if kinds.rank(kind) == 0 and "strides" in attrs:
        kernel = attrs.get("kernel") or anchor.facts["shapes"][1][2:]
        return {
            "kernel": kernel,
            "stride": attrs["strides"],
            "padding": attrs["padding"],
            "dilation": attrs["dilation"],
            "groups": attrs["groups"],
            "in_channels": attrs.get("in_channels") or anchor.facts["shapes"][0][1],
            "out_channels": attrs.get("out_channels") or anchor.facts["shapes"][1][1] * attrs["groups"],
            "weight_layout": attrs.get("weight_layout", "IOHW"),
        }
    if kind in ("max_pool", "avg_pool") and "pool_size" in attrs:
        channels = anchor.facts["shapes"][0][1]
        return {
            "kernel": attrs["pool_size"],
            "stride": attrs["strides"],
            "padding": attrs["padding"],
            "dilation": attrs["dilation"],
            "in_channels": channels,
            "out_channels": channels,
        }
    if kind == "dense":
        return {k: attrs[k] for k in ("in_channels", "out_channels", "weight_layout")}
    wanted = ("kernel", "axis", "axes", "keepdims", "size", "epsilon", "method")
    picked = {k: attrs[k] for k in wanted if attrs.get(k) is not None}
    if kind == "softmax" and picked.get("axis", 0) < 0:
        picked["axis"] += len(arguments[0]["shape"])
    return picked
