"""StableHLO operations that choose where elements come from or go to, and loops of a known number of rounds.

Rules are as in ``stablehlo_ops``. Definitions: the StableHLO specification, openxla.org/stablehlo/spec.
"""

from __future__ import annotations

import numpy as np

from tvm import relax

from .rebuild import constant_value, dtype_of, shape_of
from .stablehlo_ops import Refused, numbers, operands, result

MOST_ROUNDS = 4096
"""Rounds of a loop that are written out one after the other."""


def gather(walk, operation):
    """Slices at positions along one axis, or elements that each have a position of their own along it."""
    from jaxlib.mlir.dialects import stablehlo

    shape, _ = result(operation)
    d = stablehlo.GatherDimensionNumbers(operation.attributes["dimension_numbers"])
    data, index = operands(walk, operation)
    extents, places = list(shape_of(data)), list(shape_of(index))
    axes, sizes = list(d.start_index_map), numbers(operation, "slice_sizes")
    if len(axes) != 1 or list(d.collapsed_slice_dims) != axes or d.index_vector_dim != len(places) - 1 or places[-1] != 1:
        raise Refused("it gathers something else than slices along one axis")
    axis = axes[0]
    others = [a for a in range(len(extents)) if a != axis]
    flat = walk.emit(relax.op.reshape(index, places[:-1]))
    bounded = walk.emit(relax.op.clip(flat, 0, extents[axis] - 1))
    together = list(d.operand_batching_dims)
    if together == others and together == list(d.start_indices_batching_dims) and len(places) - 1 == len(extents):
        return relax.op.gather_elements(data, walk.emit(relax.op.astype(bounded, "int64")), axis=axis)
    if together or any(sizes[a] != extents[a] for a in others):
        raise Refused("it gathers parts of slices")
    taken = walk.emit(relax.op.take(data, bounded, axis=axis))
    # TVM places the positions where the axis was; StableHLO says where the axes of slices go.
    of_slices, count = list(d.offset_dims), len(places) - 1
    order = [0] * len(shape)
    sources = [a if a < axis else a + count - 1 for a in others]
    for place, source in zip(of_slices, sources):
        order[place] = source
    for place, source in zip([p for p in range(len(shape)) if p not in of_slices], range(axis, axis + count)):
        order[place] = source
    return taken if order == sorted(order) else relax.op.permute_dims(taken, order)


def starts_of(walk, operation, first: int, room: list[int]) -> list:
    """The start of a part along each axis: an integer, or the expression of one, within the bounds."""
    found = []
    for value, most in zip(list(operation.operands)[first:], room):
        start = walk.tensor(value)
        known = constant_value(start)
        if known is not None or not most:
            found.append(0 if known is None else int(np.clip(int(known), 0, most)))
        else:
            found.append(walk.emit(relax.op.clip(start, 0, most)))
    return found


def positions(walk, start, count: int, sign: int = 1):
    """``start + sign * (0 … count - 1)`` as integers."""
    along = relax.const(np.arange(count) * sign, "int64")
    if isinstance(start, int):
        return relax.const(np.arange(count) * sign + start, "int64")
    return walk.emit(relax.op.add(walk.emit(relax.op.astype(start, "int64")), along))


def dynamic_slice(walk, operation):
    """A part of given extents at places that may be computed."""
    data = walk.tensor(operation.operands[0])
    sizes, extents = numbers(operation, "slice_sizes"), shape_of(data)
    starts = starts_of(walk, operation, 1, [n - s for n, s in zip(extents, sizes)])
    for axis, (start, size, extent) in enumerate(zip(starts, sizes, extents)):
        if isinstance(start, int):
            if size != extent:
                data = walk.emit(relax.op.strided_slice(data, [axis], [start], [start + size], [1]))
        else:
            data = walk.emit(relax.op.take(data, positions(walk, start, size), axis=axis))
    return data


def dynamic_update(walk, operation):
    """The tensor with a part of it replaced, at places that may be computed."""
    data, update = (walk.tensor(v) for v in list(operation.operands)[:2])
    extents, sizes = shape_of(data), shape_of(update)
    starts = starts_of(walk, operation, 2, [n - s for n, s in zip(extents, sizes)])
    inside = None
    for axis, (start, size, extent) in enumerate(zip(starts, sizes, extents)):
        if size == extent:
            continue
        from_start = walk.emit(relax.op.negative(positions(walk, start, extent, -1)))
        kept = walk.emit(relax.op.clip(from_start, 0, size - 1))
        hit = walk.emit(relax.op.equal(kept, from_start))
        hit = walk.emit(relax.op.reshape(hit, [-1 if a == axis else 1 for a in range(len(extents))]))
        inside = hit if inside is None else walk.emit(relax.op.logical_and(inside, hit))
        update = walk.emit(relax.op.take(update, kept, axis=axis))
    return update if inside is None else relax.op.where(inside, update, data)


def reverse(walk, operation):
    """Some axes backwards."""
    data = walk.tensor(operation.operands[0])
    for axis in numbers(operation, "dimensions"):
        data = walk.emit(relax.op.flip(data, axis))
    return data


def loop(walk, operation) -> list:
    """A loop whose condition follows from constants, as all of its rounds; recurrent layers are such loops."""
    condition, body = (region.blocks[0] for region in operation.regions)
    state = operands(walk, operation)
    for _ in range(MOST_ROUNDS):
        more = constant_value(walk.block(condition, state)[0])
        if more is None:
            raise Refused("the number of its rounds depends on data")
        if not bool(more):
            return state
        state = walk.block(body, state)
    raise Refused(f"it has more than {MOST_ROUNDS} rounds")


RULES = {
    "stablehlo.dynamic_slice": dynamic_slice,
    "stablehlo.dynamic_update_slice": dynamic_update,
    "stablehlo.gather": gather,
    "stablehlo.reverse": reverse,
    "stablehlo.while": loop,
}
