"""Where a model's tensors lie, and how much passes between two uses of a place.

An operator writes to memory that an earlier one used: TVM's memory plan says which. Whether that memory is still in a cache
depends on what the model reads and writes in between, weights included: the stack distance of the place (Mattson et al.,
"Evaluation techniques for storage hierarchies", 1970), in bytes.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

import tvm
from tvm import relax

from .operators import dtype_bytes

PASSES = (
    relax.transform.RewriteDataflowReshape,
    relax.transform.ToNonDataflow,
    relax.transform.RemovePurityChecking,
    relax.transform.CallTIRRewrite,
    relax.transform.StaticPlanBlockMemory,
)
"""The passes up to the memory plan, as a model is compiled with."""

ALLOC_IN_STORAGE = tvm.ir.Op.get("relax.memory.alloc_tensor")
"""A tensor at the beginning of a planned piece of memory."""
ALLOC = tvm.ir.Op.get("relax.builtin.alloc_tensor")
"""A tensor with memory of its own: an output of the model."""
RESHAPE = tvm.ir.Op.get("relax.reshape")
"""A view of a tensor."""


@dataclass(frozen=True)
class Place:
    """The first ``bytes`` of a piece of memory."""

    memory: object
    bytes: int


@dataclass
class Call:
    """One call of a tensor function: the places of its arguments."""

    symbol: str
    inputs: list[Place]
    weights: list[Place]
    outputs: list[Place]

    def groups(self) -> tuple[list[Place], list[Place], list[Place]]:
        """All of them by their content."""
        return self.inputs, self.weights, self.outputs


def add_reuse(module: tvm.IRModule, records: list[dict], weights: set[int]) -> None:
    """Gives each operator's record the bytes that the model reads and writes between two uses of its weights, of the model's own
    inputs, and of the place of its outputs, these counted as well. None without weights or inputs, and where the operator becomes
    a view.

    Means over all bytes of all its calls, in the second of two passes: what comes before the first call is the end of the
    pass before. Inputs that an earlier operator computes count with a distance of 0. ``weights`` are positions among the
    parameters of ``main``.
    """
    by_symbol = {r["symbol"]: r for r in records}
    found = distances(module, by_symbol, weights)
    for symbol, record in by_symbol.items():
        means = found.get(symbol, (None, None, None))
        for name, mean in zip(("input_reuse_bytes", "weight_reuse_bytes", "output_reuse_bytes"), means):
            record[name] = mean and mean.mean()


@dataclass
class Mean:
    """A mean of distances by bytes."""

    total: int = 0
    bytes: int = 0

    def add(self, distance: int, bytes_: int) -> None:
        """Adds a number of bytes at a distance."""
        self.total += distance * bytes_
        self.bytes += bytes_

    def mean(self) -> int | None:
        """The mean; None if there are no values."""
        return self.total // self.bytes if self.bytes else None


def distances(module: tvm.IRModule, records: dict[str, dict], weights: set[int]) -> dict[str, tuple[Mean, Mean, Mean]]:
    """Stack distances of the model's inputs, of the weights and of the outputs of every operator."""
    planned = tvm.transform.Sequential([make() for make in PASSES])(module)
    calls = placed_calls(planned["main"], records, weights)
    parts = parts_of_memory(calls)
    given = set(planned["main"].params)
    recent: OrderedDict = OrderedDict()
    found: dict[str, tuple[Mean, Mean, Mean]] = {}
    for second in (False, True):
        for call in calls:
            groups = [[piece for place in places for piece in parts(place)] for places in call.groups()]
            if second:
                means = found.setdefault(call.symbol, (Mean(), Mean(), Mean()))
                for mean, pieces in zip(means, groups):
                    own = dict(pieces)
                    for piece, size in pieces:
                        is_computed = pieces is groups[0] and piece[0] not in given
                        mean.add(0 if is_computed else since(recent, piece, own) + sum(own.values()), size)
            for piece, size in [piece for pieces in groups for piece in pieces]:
                recent[piece] = size
                recent.move_to_end(piece)
    return found


def since(recent: OrderedDict, piece: object, own: dict) -> int:
    """Bytes of all pieces of memory that were used after this one, without those of ``own``."""
    total = 0
    for other in reversed(recent):
        if other == piece:
            break
        if other not in own:
            total += recent[other]
    return total


def parts_of_memory(calls: list[Call]) -> Callable[[Place], list[tuple[tuple, int]]]:
    """A function that cuts a place where tensors in the same memory end: pieces that are used as a whole, with their bytes."""
    ends: dict = {}
    for call in calls:
        for place in [place for places in call.groups() for place in places]:
            ends.setdefault(place.memory, set()).add(place.bytes)
    cuts = {memory: sorted(sizes) for memory, sizes in ends.items()}

    def pieces(place: Place) -> list[tuple[tuple, int]]:
        found, start = [], 0
        for end in cuts[place.memory]:
            if end > place.bytes:
                break
            found.append(((place.memory, start), end - start))
            start = end
        return found

    return pieces


def placed_calls(main: relax.Function, records: dict[str, dict], weights: set[int]) -> list[Call]:
    """The calls of a planned function in order, with the places of their arguments."""
    places: dict = {p: Place(p, nbytes(p)) for p in main.params if isinstance(p.ty, relax.TensorType)}
    owned = {main.params[i] for i in weights}
    tuples: dict = {}
    calls = []
    for block in main.body.blocks:
        for binding in block.bindings:
            value = binding.value
            if isinstance(value, relax.Var):
                places[binding.var] = places.get(value)
            elif isinstance(value, relax.Tuple):
                tuples[binding.var] = value.fields
            elif isinstance(value, relax.TupleGetItem):
                places[binding.var] = places.get(tuples[value.tuple_value][value.index])
            elif not isinstance(value, tvm.ir.Call):
                continue
            elif isinstance(value.op, tvm.ir.GlobalVar):
                record = records[value.op.name_hint]
                outputs = sum(a["role"] == "output" for a in record["args"])
                given = [places.get(a) for a in value.args]
                known = [place for place in given[: len(given) - outputs] if place]
                # Of a table, only the rows that are gathered are read.
                reads = [Place(p.memory, min(p.bytes, record["bytes_read"])) for p in known]
                inputs = [p for p in reads if p.memory not in owned]
                own = [p for p in reads if p.memory in owned]
                calls.append(Call(record["symbol"], inputs, own, [p for p in given[len(given) - outputs :] if p]))
            elif value.op == ALLOC_IN_STORAGE:
                places[binding.var] = Place(value.args[0], nbytes(binding.var))
            elif value.op == ALLOC:
                places[binding.var] = Place(binding.var, nbytes(binding.var))
            elif value.op == RESHAPE:
                places[binding.var] = places.get(value.args[0])
    return calls


def nbytes(variable: relax.Var) -> int:
    """Size of a tensor in bytes."""
    shape = [int(d) for d in variable.ty.shape.values]
    return int(np.prod(shape, dtype=np.int64)) * dtype_bytes(str(variable.ty.dtype.dtype))
