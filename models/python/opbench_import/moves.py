"""Operators that move elements, in forms that TVM's frontend lacks, as slices, transpositions and selections."""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import numpy as np
import onnx

from .emit import Emitter
from .onnx_graph import OnnxGraph, attributes

SCATTERED = {"none": None, "add": "Add", "mul": "Mul", "max": "Max", "min": "Min"}
"""How a scatter combines its value with the existing element."""
MOST_UPDATES = 64
"""Along the axis of a scatter: each is one more choice for every element of the data."""
MOST_PLACES = 128
"""Largest window of a pooling with indices: each of its places is a slice."""


def space_to_depth(e: Emitter) -> list[onnx.NodeProto] | None:
    """SpaceToDepth with the channels first, which the frontend takes for the other order."""
    mode, shape = e.options.get("mode", "DCR"), e.graph.shape(e.input(0))
    if mode != "CRD":
        return None
    if shape is None:
        raise e.refusal("the shape of its data is not known")
    size = e.options["blocksize"]
    batch, channels, height, width = shape
    cut = e.emit("Reshape", [e.input(0), e.ints([batch, channels, height // size, size, width // size, size])])
    moved = e.emit("Transpose", [cut], perm=[0, 1, 3, 5, 2, 4])
    return e.finish(e.emit("Reshape", [moved, e.ints([batch, channels * size**2, height // size, width // size])]))


def eye(e: Emitter) -> list[onnx.NodeProto]:
    """EyeLike: a constant of the shape of its input."""
    shape, number = e.graph.shape(e.input(0)), e.options.get("dtype")
    if shape is None:
        raise e.refusal("the shape of its input is not known")
    dtype = e.graph.dtype(e.input(0)) if number is None else onnx.helper.tensor_dtype_to_np_dtype(number).name
    return e.finish(e.run_time_value(np.eye(*shape, k=e.options.get("k", 0)), dtype))


def reverse_sequence(e: Emitter) -> list[onnx.NodeProto]:
    """ReverseSequence: each sample's elements at positions that follow from its length."""
    shape = e.graph.shape(e.input(0))
    time, batch = e.options.get("time_axis", 0), e.options.get("batch_axis", 1)
    if shape is None:
        raise e.refusal("the shape of its data is not known")
    first = [-1 if d == batch else 1 for d in range(len(shape))]
    lengths = e.emit("Reshape", [e.cast(e.input(1), "int64"), e.ints(first)])
    along = np.arange(shape[time]).reshape([-1 if d == time else 1 for d in range(len(shape))])
    backwards = e.emit("Sub", [lengths, e.ints(along + 1)])
    at = e.emit("Where", [e.emit("GreaterOrEqual", [backwards, e.ints(0)]), backwards, e.ints(along)])
    return e.finish(e.emit("GatherElements", [e.input(0), e.emit("Expand", [at, e.ints(list(shape))])], axis=time))


def pooling_with_indices(e: Emitter) -> list[onnx.NodeProto] | None:
    """MaxPool that also says where each maximum was: the places of a window side by side, the first largest of each."""
    if len(e.node.output) < 2 or not e.node.output[1]:
        return None
    shape, result = e.graph.shape(e.input(0)), e.graph.shape(e.node.output[0])
    if shape is None or result is None:
        raise e.refusal("the shape of its data is not known")
    spatial = len(shape) - 2
    kernel = e.options["kernel_shape"]
    strides, dilations = (e.options.get(k, [1] * spatial) for k in ("strides", "dilations"))
    before = e.options.get("pads", [0] * (2 * spatial))[:spatial]
    if np.prod(kernel) > MOST_PLACES:
        raise e.refusal(f"its window has more than {MOST_PLACES} places, which is too many to find indices in")
    reach = [(o - 1) * s + (k - 1) * d + 1 for o, s, k, d in zip(result[2:], strides, kernel, dilations)]
    after = [max(r - n - b, 0) for r, n, b in zip(reach, shape[2:], before)]
    dtype = e.graph.dtype(e.input(0)) or "float32"
    least = -np.inf if dtype.startswith("float") else np.iinfo(dtype).min
    pads = e.ints([0, 0, *before, 0, 0, *after])
    data = e.emit("Pad", [e.input(0), pads, e.constant(least, dtype)]) if any((*before, *after)) else e.input(0)
    places = list(itertools.product(*(range(k) for k in kernel)))
    parts = []
    for place in places:
        starts = [p * d for p, d in zip(place, dilations)]
        ends = [s + (o - 1) * step + 1 for s, o, step in zip(starts, result[2:], strides)]
        axes = e.ints(list(range(2, 2 + spatial)))
        part = e.emit("Slice", [data, e.ints(starts), e.ints(ends), axes, e.ints(strides)])
        parts.append(e.emit("Unsqueeze", [part, e.ints([0])]))
    window = e.emit("Concat", parts, axis=0)
    largest = e.emit("ArgMax", [window], axis=0, keepdims=0)
    weights = np.cumprod([1, *shape[:1:-1]])[:-1][::-1] if not e.options.get("storage_order", 0) else np.cumprod([1, *shape[2:]])[:-1]
    offsets = [sum(p * d * w for p, d, w in zip(place, dilations, weights)) for place in places]
    origin = np.arange(shape[0] * shape[1]).reshape(shape[0], shape[1], *[1] * spatial) * int(np.prod(shape[2:]))
    for axis in range(spatial):
        along = (np.arange(result[2 + axis]) * strides[axis] - before[axis]) * weights[axis]
        origin = origin + along.reshape([-1 if d == axis else 1 for d in range(spatial)])
    e.finish(e.emit("Add", [e.emit("Gather", [e.ints(offsets), largest]), e.ints(origin)]), 1)
    return e.finish(e.emit("MaxPool", [e.input(0)], **e.options))


def written_cache(e: Emitter) -> list[onnx.NodeProto]:
    """TensorScatter(cache, update, places): each position of the cache takes the update's element that is written there, if one
    is."""
    shape, new = (e.graph.shape(e.input(i)) for i in (0, 1))
    if shape is None or new is None:
        raise e.refusal("the shape of its cache or of its update is not known")
    axis = e.options.get("axis", -2) % len(shape)
    along = e.ints(np.arange(shape[axis]).reshape([-1 if d == axis else 1 for d in range(len(shape))]))
    if e.input(2):
        first = [shape[0]] + [1] * (len(shape) - 1)
        along = e.emit("Sub", [along, e.emit("Reshape", [e.cast(e.input(2), "int64"), e.ints(first)])])
    nothing = e.ints(0)
    if e.options.get("mode", "linear") == "circular":
        around = e.emit("Add", [along, e.ints(shape[axis])])
        along = e.emit("Where", [e.emit("Less", [along, nothing]), around, along])
    inside = [e.emit("GreaterOrEqual", [along, nothing]), e.emit("Less", [along, e.ints(new[axis])])]
    hit = e.emit("And", inside)
    at = e.emit("Expand", [e.emit("Where", [hit, along, nothing]), e.ints(list(shape))])
    taken = e.emit("GatherElements", [e.input(1), at], axis=axis)
    return e.finish(e.emit("Where", [hit, taken, e.input(0)]))


BLOCK = 16
"""Elements of a row that are accumulated together: lanes of a vector."""


def scattered(e: Emitter) -> list[onnx.NodeProto] | None:
    """ScatterElements of a few elements along its axis: a choice between the data and each update in turn, so that the last
    of several on one place stays. None for more. Where other axes of the update are shorter, it is filled up with places
    beyond the axis, which no element of the data has."""
    shape, given = (e.graph.shape(e.input(i)) for i in (0, 1))
    if shape is None or given is None:
        raise e.refusal("the shape of its data or of its indices is not known")
    axis = e.options.get("axis", 0) % len(shape)
    if given[axis] > MOST_UPDATES:
        return None
    combine = SCATTERED[e.options.get("reduction", "none")]
    along = e.ints(np.arange(shape[axis]).reshape([-1 if d == axis else 1 for d in range(len(shape))]))
    places, result = e.cast(e.input(1), "int64"), e.input(0)
    counted = e.emit("Add", [places, e.ints(shape[axis])])
    places = e.emit("Where", [e.emit("Less", [places, e.ints(0)]), counted, places])
    updates = e.input(2)
    missing = [0 if i == axis else d - g for i, (g, d) in enumerate(zip(given, shape))]
    if any(missing):
        pads = e.ints([*[0] * len(shape), *missing])
        places = e.emit("Pad", [places, pads, e.ints(shape[axis])])
        updates = e.emit("Pad", [updates, pads])
    for step in range(given[axis]):
        bounds = [e.ints([step]), e.ints([step + 1]), e.ints([axis])]
        hit = e.emit("Equal", [e.emit("Slice", [places, *bounds]), along])
        update = e.emit("Slice", [updates, *bounds])
        if combine is not None:
            update = e.emit(combine, [result, update])
        result = e.emit("Where", [hit, update, result])
    return e.finish(result)


def accumulated(reduction: str, op: str, neutral: int):
    """CumSum and CumProd block by block (TVM has library functions for them, which cannot be described): what comes before an
    element in its block, and what the blocks before come to."""

    def rule(e: Emitter) -> list[onnx.NodeProto]:
        shape, axis = e.graph.shape(e.input(0)), e.graph.value(e.input(1))
        if shape is None or axis is None:
            raise e.refusal("its axis is computed by the model")
        axis = int(np.asarray(axis).reshape(-1)[0]) % len(shape)
        dtype = e.graph.dtype(e.input(0)) or "float32"
        last = [i for i in range(len(shape)) if i != axis] + [axis]
        moved = [shape[i] for i in last]
        value = e.input(0) if axis == len(shape) - 1 else e.emit("Transpose", [e.input(0)], perm=last)
        rows = e.emit("Reshape", [value, e.ints([-1, shape[axis]])])
        scan = Scan(e, reduction, op, e.constant(neutral, dtype), bool(e.options.get("reverse", 0)))
        found = scan.rows(rows, shape[axis], bool(e.options.get("exclusive", 0)))
        found = e.emit("Reshape", [found, e.ints(moved)])
        return e.finish(found if axis == len(shape) - 1 else e.emit("Transpose", [found], perm=list(np.argsort(last))))

    return rule


@dataclass
class Scan:
    """Writes the accumulation of rows by one operator."""

    e: Emitter
    reduction: str
    op: str
    neutral: str
    backwards: bool

    def rows(self, value: str, extent: int, exclusive: bool) -> str:
        """All rows [R, ``extent``] accumulated, each element with itself unless ``exclusive``."""
        e = self.e
        if extent <= 2 * BLOCK:
            return self.block(value, extent, exclusive)
        count = -(-extent // BLOCK)
        if count * BLOCK > extent:
            value = e.emit("Pad", [value, e.ints([0, 0, 0, count * BLOCK - extent]), self.neutral])
        blocks = e.emit("Reshape", [value, e.ints([-1, BLOCK])])
        inside = self.block(blocks, BLOCK, exclusive)
        whole = e.emit("Reshape", [self.reduced(blocks), e.ints([-1, count])])
        before = e.emit("Reshape", [self.rows(whole, count, True), e.ints([-1, 1])])
        found = e.emit("Reshape", [e.emit(self.op, [inside, before]), e.ints([-1, count * BLOCK])])
        if count * BLOCK == extent:
            return found
        return e.emit("Slice", [found, e.ints([0]), e.ints([extent]), e.ints([1])])

    def block(self, value: str, extent: int, exclusive: bool) -> str:
        """Rows so short that each element looks at all others: a choice, not a product with 0, which infinities would not
        survive."""
        place = np.arange(extent)
        own, other = (place[::-1], place[::-1]) if self.backwards else (place, place)
        counts = other[:, None] < own[None, :] if exclusive else other[:, None] <= own[None, :]
        column = self.e.emit("Unsqueeze", [value, self.e.ints([2])])
        seen = self.e.emit("Where", [self.e.constant(counts, "bool"), column, self.neutral])
        return self.reduced(seen)

    def reduced(self, value: str) -> str:
        """The size of the second axis."""
        return self.e.emit(self.reduction, [value, self.e.ints([1])], keepdims=0)


LONGEST_RANKING = 1024
"""Most elements whose largest are found by comparing each with each."""


def largest(e: Emitter) -> list[onnx.NodeProto]:
    """TopK (TVM has a library function for it, which cannot be described)."""
    shape, count = e.graph.shape(e.input(0)), e.graph.value(e.input(1))
    if shape is None or count is None:
        raise e.refusal("how many elements it takes is computed by the model")
    axis, dtype = e.options.get("axis", -1) % len(shape), e.graph.dtype(e.input(0)) or "float32"
    count = int(np.asarray(count).reshape(-1)[0])
    last = [i for i in range(len(shape)) if i != axis] + [axis]
    moved = e.emit("Transpose", [e.input(0)], perm=last)
    rows = e.emit("Reshape", [moved, e.ints([-1, shape[axis]])])
    at = Ranking(e, dtype, bool(e.options.get("largest", 1))).first(rows, shape[axis], count)
    at = e.emit("Reshape", [at, e.ints([*(shape[i] for i in last[:-1]), count])])
    indices = e.emit("Transpose", [at], perm=[int(i) for i in np.argsort(last)])
    if len(e.node.output) > 1 and e.node.output[1]:
        e.finish(indices, 1)
    return e.finish(e.emit("GatherElements", [e.input(0), indices], axis=axis)) if e.node.output[0] else e.nodes


@dataclass
class Ranking:
    """Writes which elements of rows are the largest, or the smallest; of equal ones the earlier is first."""

    e: Emitter
    dtype: str
    by_size: bool

    def first(self, rows: str, extent: int, count: int) -> str:
        """Places [R, ``count``] in rows [R, ``extent``]: of long rows the first of each block are found, and of these the first
        of all."""
        e, block = self.e, 32 if count <= 8 else 128
        if count > block // 4 or extent < 4 * block:
            return self.compared(rows, extent, count)
        blocks = -(-extent // block)
        if blocks * block > extent:
            # After all elements of the row, so that it is never the first.
            rows = e.emit("Pad", [rows, e.ints([0, 0, 0, blocks * block - extent]), e.constant(self.last(), self.dtype)])
        rows = e.emit("Reshape", [rows, e.ints([-1, block])])
        own = self.compared(rows, block, count)
        found = e.emit("Reshape", [e.emit("GatherElements", [rows, own], axis=1), e.ints([-1, blocks * count])])
        own = e.emit("Reshape", [own, e.ints([-1, blocks, count])])
        own = e.emit("Add", [own, e.ints(block * np.arange(blocks).reshape(-1, 1))])
        own = e.emit("Reshape", [own, e.ints([-1, blocks * count])])
        return e.emit("GatherElements", [own, self.first(found, blocks * count, count)], axis=1)

    def last(self) -> float:
        """A value that is before no other."""
        if self.dtype.startswith(("float", "bfloat")):
            return -np.inf if self.by_size else np.inf
        limits = np.iinfo(self.dtype)
        return limits.min if self.by_size else limits.max

    def compared(self, rows: str, extent: int, count: int) -> str:
        """The same by comparing each element with each: its place is the number of those that go before it."""
        e = self.e
        if extent > LONGEST_RANKING:
            raise e.refusal(
                f"it takes {count} from {extent} elements; more than 32 from more than {LONGEST_RANKING} need a sort, which TVM "
                "has no kernel for"
            )
        own, other = (e.emit("Unsqueeze", [rows, e.ints([a])]) for a in (-1, -2))
        before = e.emit("Greater" if self.by_size else "Less", [other, own])
        earlier = e.constant(np.tri(extent, k=-1), "bool")
        tied = e.emit("And", [e.emit("Equal", [other, own]), earlier])
        goes_first = e.cast(e.emit("Or", [before, tied]), "int64")
        place = e.emit("ReduceSum", [goes_first, e.ints([-1])], keepdims=0)
        hit = e.emit("Equal", [e.emit("Unsqueeze", [place, e.ints([-2])]), e.ints(np.arange(count).reshape(-1, 1))])
        # Of the elements of a row, exactly one has a place.
        own = e.emit("Mul", [e.cast(hit, "int64"), e.ints(np.arange(extent))])
        return e.emit("ReduceSum", [own, e.ints([-1])], keepdims=0)


def write_places(graph: OnnxGraph) -> None:
    """Replaces ScatterElements that write one known place of an axis, over all of the others, as PyTorch's exporter has
    ``x[:, k] = y``: by a Concat of what is before it, the updates, and what is behind it. Of writes that follow each other, each
    is one Concat of pieces rather than a Concat of slices of the last one, which would be one kernel of all of them."""
    pieces: dict[tuple[str, int], list[tuple[str, int]]] = {}
    nodes: list[onnx.NodeProto] = []
    for node in graph.nodes:
        place = place_of(graph, node) if node.op_type == "ScatterElements" else None
        nodes += [node] if place is None else written(Emitter(graph, node), *place, pieces)
    if pieces:
        graph.nodes = nodes
        graph.drop_unused()
        graph.infer()


def place_of(graph: OnnxGraph, node: onnx.NodeProto) -> tuple[int, int] | None:
    """The axis and its one index that a ScatterElements writes; None for other ones."""
    options = attributes(node)
    shape, indices = graph.shape(node.input[0]), graph.value(node.input[1])
    if shape is None or indices is None or not indices.size or options.get("reduction", "none") != "none":
        return None
    axis = options.get("axis", 0) % len(shape)
    place = int(indices.flat[0])
    whole = tuple(1 if i == axis else d for i, d in enumerate(shape))
    return (axis, place % shape[axis]) if indices.shape == whole and np.all(indices == place) else None


def written(e: Emitter, axis: int, place: int, pieces: dict) -> list[onnx.NodeProto]:
    """The pieces of the data along the axis, with the updates at their place; ``pieces`` has those of earlier writes."""
    data = e.input(0)
    kept: list[tuple[str, int]] = []
    start = 0
    for value, extent in pieces.get((data, axis), [(data, e.graph.shape(data)[axis])]):
        at = place - start
        start += extent
        if not 0 <= at < extent:
            kept.append((value, extent))
            continue
        for begin, end in ((0, at), (at, at + 1), (at + 1, extent)):
            if begin == at < end:
                kept.append((e.input(2), 1))
            elif begin < end:
                kept.append((e.emit("Slice", [value, e.ints([begin]), e.ints([end]), e.ints([axis])]), end - begin))
    pieces[e.node.output[0], axis] = kept
    return e.finish(e.emit("Concat", [value for value, _ in kept], axis=axis))


RULES = {
    "TensorScatter": written_cache,
    "ScatterElements": scattered,
    "Scatter": scattered,
    "CumSum": accumulated("ReduceSum", "Add", 0),
    "CumProd": accumulated("ReduceProd", "Mul", 1),
    "TopK": largest,
    "SpaceToDepth": space_to_depth,
    "EyeLike": eye,
    "ReverseSequence": reverse_sequence,
    "MaxPool": pooling_with_indices,
}
