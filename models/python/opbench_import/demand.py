"""How much of a function's blocks and arguments its outputs need: elements that a later slice drops are not computed.

An axis of a block is needed as far as the dimension that it writes is, and a dimension of a buffer as far as the axis that
indexes it; where several axes or none index a dimension, all of it is taken to be needed. Schedules compute a producer
for what its consumer reads, so that this is what runs.
"""

from __future__ import annotations

import math

import tvm

from . import blocks as block_facts
from . import tensor_ir


class Demand:
    """Needed extents of the buffers and axes of a function."""

    def __init__(self, function: tvm.tirx.PrimFunc) -> None:
        self.buffers: dict = {}
        self.shares: dict[int, float] = {}
        for block in reversed(tensor_ir.blocks(function)):
            self.add(block)

    def add(self, block) -> None:
        """Passes the required part of a block's results on to its inputs; its consumers were added before."""
        extents = {v.var: n for v, n in zip(block.iter_vars, block_facts.extents(block))}
        needed: dict = {}
        for region in block.writes:
            wanted = self.buffers.get(region.source, block_facts.shape_of(region.source))
            for extent, part in zip(wanted, region.region):
                axis = axis_of(part, extents)
                if axis is not None:
                    needed[axis] = max(needed.get(axis, 0), min(extent, extents[axis]))
        needed = {axis: needed.get(axis, extent) for axis, extent in extents.items()}
        self.shares[hash(block)] = math.prod(needed.values()) / max(1, math.prod(extents.values()))
        for region in block.reads:
            shape = block_facts.shape_of(region.source)
            known = self.buffers.get(region.source, [0] * len(shape))
            own = []
            for size, part in zip(shape, region.region):
                axis = axis_of(part, extents)
                own.append(size if axis is None else min(size, needed[axis]))
            # Several readers may need different parts: the largest part of each dimension counts.
            self.buffers[region.source] = [min(size, a + b) for size, a, b in zip(shape, known, own)]

    def arithmetic(self, block) -> int:
        """Operations of a block for the required part of its results."""
        return round(block_facts.arithmetic(block) * self.shares[hash(block)])

    def elements(self, argument) -> int:
        """Elements of an argument that are read."""
        return math.prod(self.buffers.get(argument, block_facts.shape_of(argument)))


def axis_of(part, extents: dict):
    """The axis that alone indexes a dimension, one element at a time; None if there is no such axis."""
    axes = [v for v in tensor_ir.variables(part.min) if v in extents]
    alone = len(axes) == 1 and isinstance(part.extent, tvm.tirx.IntImm) and int(part.extent) == 1
    return axes[0] if alone else None
