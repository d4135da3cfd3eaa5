"""Compares what an import computes with what the model's own framework computes, on seeded inputs.

The schedules of an operator are checked elsewhere, against the same import without schedules: a wrong import passes
that check. This one runs once for each import, and its result is cached with it: the reference that agreed, or why
there was none. Outputs that differ are an ``ImportFailure`` (wrong_import) that names the first node whose result differs.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import onnx
from onnx import TensorProto

import tvm

from . import deployed, evaluate, fill, load, oracles, reference
from .errors import ImportFailure
from .onnx_graph import OnnxGraph
from .pack import Packed
from .request import Request
from .oracles import Outputs, Unchecked

SEED = 20_261_124
"""Of inputs and of weights that a file leaves open."""
OF_LARGEST = 0.1
"""Share of the relative tolerance that outputs may differ by of the largest one: single precision sums of thousands of
products lose 1e-5 of it."""
QUANTISED_RTOL = 2e-2
"""For models with quantised values: a step that rounds the other way changes all later values."""
RANDOM = ("Bernoulli", "Multinomial", "RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike")
WIDE_FLOPS = 4e9
"""Most arithmetic of a model that is run on a second set of inputs: about a second."""
WHOLE = 9
"""Integers of the second set of inputs lie in -WHOLE … WHOLE."""


@dataclass
class Kernels:
    """An import that can run: its final module, the parameters of ``main``, and its arithmetic."""

    module: tvm.IRModule
    packed: Packed
    outputs: list[str]
    flops: int

    def run(self, inputs: dict[str, np.ndarray]) -> list[np.ndarray]:
        """Outputs for inputs by name."""
        return self.machine([self.argument(name, inputs) for name in self.packed.names])

    @functools.cached_property
    def machine(self) -> Callable[[list[np.ndarray]], list[np.ndarray]]:
        """The built module."""
        return evaluate.machine(self.module)

    def argument(self, name: str, inputs: dict[str, np.ndarray]) -> np.ndarray:
        """The value of one parameter."""
        if name not in self.packed.params:
            return inputs[name]
        param, packing = self.packed.params[name]
        return packing.pack(param.value) if packing else param.value

    def has_values(self) -> bool:
        """Whether the model came with all of its weights."""
        return all(param.value is not None for param, _ in self.packed.params.values())

    def inputs(self) -> dict[str, tuple[tuple[int, ...], str]]:
        """Shapes and element types of the inputs."""
        types = ((v.ty.shape.values, str(v.ty.dtype.dtype)) for v in self.module["main"].params)
        named = zip(self.packed.names, types)
        return {n: (tuple(int(d) for d in s), t) for n, (s, t) in named if n not in self.packed.params}


def verdict(check: Callable[[], str]) -> dict:
    """The entry of graph.json: the reference whose outputs ``check`` found equal, or why there is none."""
    try:
        return {"reference": check(), "reason": None}
    except Unchecked as why:
        return {"reference": None, "reason": str(why)}


def against_given(kernels: Kernels, refs: reference.Reference, dtypes: set[str]) -> str:
    """Compares with outputs that came with the model."""
    require_equal(kernels.run(refs.inputs), refs.outputs, kernels.outputs, Tolerance.of(dtypes, []), refs.origin)
    return refs.origin


def against_framework(kernels: Kernels, hints: dict[str, dict], framework: tuple[str, Outputs], operators: list[str]) -> str:
    """Compares with another framework's outputs for the same file."""
    name, run = framework
    generator = np.random.default_rng(SEED)
    inputs = {n: fill.values(hints[n], shape, dtype, generator) for n, (shape, dtype) in kernels.inputs().items()}
    theirs = run(inputs)
    tolerance = Tolerance.of({v.dtype.name for v in theirs}, operators)
    require_equal(kernels.run(inputs), theirs, kernels.outputs, tolerance, name)
    return name


@dataclass(frozen=True)
class Tolerance:
    """How far numbers may differ: ``relative`` of each, ``of_largest`` of the largest, and ``steps`` of whole numbers."""

    relative: float
    of_largest: float
    steps: int

    @staticmethod
    def of(dtypes: set[str], operators: list[str]) -> Tolerance:
        """By the element types of a model's values and its operators."""
        if any(part in op for op in operators for part in ("Quantize", "QLinear", "QGemm", "QUANTIZE")) or "int8" in dtypes:
            return Tolerance(QUANTISED_RTOL, QUANTISED_RTOL, 1)
        relative = reference.relative_tolerance(dtypes - {"uint8"})
        exact = relative == reference.PLAIN_RTOL
        return Tolerance(relative, relative * OF_LARGEST if exact else relative, 0)

    def complaint(self, ours: np.ndarray, theirs: np.ndarray) -> str | None:
        """How two tensors differ; None if they do not."""
        if ours.shape != theirs.shape or ours.dtype != theirs.dtype:
            return f"{ours.dtype}{list(ours.shape)} instead of {theirs.dtype}{list(theirs.shape)}"
        if theirs.dtype.kind in "biu":
            # Not by subtraction: it wraps round.
            gap = np.where(ours > theirs, ours - theirs, theirs - ours) if theirs.dtype.kind != "b" else ours ^ theirs
            wrong = gap > self.steps
        else:
            wrong = self.differing(ours.astype(np.float64), theirs.astype(np.float64))
        if not np.any(wrong):
            return None
        first = tuple(int(i) for i in np.argwhere(wrong)[0])
        where = f" at {list(first)}" if first else ""
        return f"{int(np.sum(wrong))} of {wrong.size} values differ, the first{where}: {ours[first]} instead of {theirs[first]}"

    def differing(self, ours: np.ndarray, theirs: np.ndarray) -> np.ndarray:
        """Where floating-point numbers differ; infinities and NaN must be the same."""
        finite = np.isfinite(theirs)
        largest = np.abs(theirs[finite]).max(initial=0.0)
        allowed = self.relative * np.abs(theirs) + self.of_largest * largest + reference.ATOL * self.of_largest
        with np.errstate(invalid="ignore"):
            near = np.abs(ours - theirs) <= allowed
        same = (ours == theirs) | (np.isnan(ours) & np.isnan(theirs))
        return ~np.where(finite, near, same)


def require_equal(
    ours: list[np.ndarray], theirs: list[np.ndarray], names: list[str], tolerance: Tolerance, origin: str
) -> None:
    """Raises ``ImportFailure`` for the first output that differs."""
    for name, a, b in zip(names, ours, theirs, strict=True):
        complaint = tolerance.complaint(a, b)
        if complaint is not None:
            raise wrong(f"output '{name}' differs from {origin}: {complaint}")


def wrong(message: str) -> ImportFailure:
    """An import that computes something else than its model."""
    return ImportFailure("wrong_import", f"the import is wrong and was not kept: {message}")


@dataclass(frozen=True)
class Difference:
    """A framework that computes something else than an import, on which inputs, and in which output."""

    name: str
    inputs: dict[str, np.ndarray]
    what: str


class OnnxCheck:
    """The check of an import whose source is an ONNX graph.

    ``bound`` gives the graph as the file has it, with fixed input shapes; ``lower`` imports a graph.
    """

    def __init__(
        self, request: Request, graph: OnnxGraph, lower: Callable[[Request, OnnxGraph], Kernels], kernels: Kernels
    ) -> None:
        # Its shapes are fixed already.
        self.request = replace(request, batch=None, seqlen=None, inputs=[])
        self.graph, self.lower, self.kernels = graph, lower, kernels
        graph.infer()
        self.hints = {n: request.fills.get(n) or fill.input_hint(graph, n) for n in graph.inputs}
        self.tolerance = Tolerance.of({dtype for _, dtype in graph.types.values()}, graph.declared_nodes)

    def run(self) -> str:
        """The name of the reference that agrees: ONNX Runtime, or ONNX's reference evaluator where ONNX Runtime cannot run
        the model or departs from ONNX's definition."""
        drawn = [op for op in self.graph.declared_nodes if op in RANDOM]
        if drawn:
            raise Unchecked(f"its operator {drawn[0]} draws random numbers")
        model = deployed.user_model(self.request, self.graph, np.random.default_rng(SEED))
        kernels = self.kernels
        if not kernels.has_values():
            # The reference needs values, and so does the import that is compared with it.
            kernels = self.imported(model)
        refusals, differences = [], []
        for make in self.frameworks(model):
            try:
                name, framework = make()
                difference = self.difference(kernels, name, framework)
            except Unchecked as why:
                refusals.append(str(why))
                continue
            if difference is None:
                return "; ".join([name, *(f"{d.name} computes something else" for d in differences)])
            differences.append(difference)
        if not differences:
            raise Unchecked("; ".join(refusals))
        raise self.located(model, differences[0])

    def frameworks(self, model: onnx.ModelProto) -> list[Callable[[], tuple[str, Outputs]]]:
        """Programs that can run ONNX models, the fastest first."""
        return [
            lambda: oracles.onnx_runtime(model),
            lambda: oracles.reference_evaluator(model, self.kernels.flops),
        ]

    def difference(self, kernels: Kernels, name: str, framework: Outputs) -> Difference | None:
        """Where the import and a framework part ways on two sets of inputs. Some models do not take the second one: they
        read it as positions."""
        first = self.inputs(np.random.default_rng(SEED), wide=False)
        found = self.difference_on(kernels, name, framework, first)
        if found is not None or kernels.flops > WIDE_FLOPS:
            return found
        try:
            second = self.inputs(np.random.default_rng(SEED + 1), wide=True)
            return self.difference_on(kernels, name, framework, second)
        except Unchecked:
            return None

    def difference_on(self, kernels: Kernels, name: str, framework: Outputs, inputs: dict) -> Difference | None:
        """The first output that differs."""
        theirs = framework(inputs)
        for output, a, b in zip(kernels.outputs, kernels.run(inputs), theirs, strict=True):
            complaint = self.tolerance.complaint(a, b)
            if complaint is not None:
                return Difference(name, inputs, f"output '{output}': {complaint}")
        return None

    def inputs(self, generator: np.random.Generator, *, wide: bool) -> dict[str, np.ndarray]:
        """Seeded values for every input, also those that the import has dropped."""
        make = values_of_any_sign if wide else fill.values
        return {n: make(self.hints[n], s.shape, s.dtype, generator) for n, s in self.graph.inputs.items()}

    def imported(self, model: onnx.ModelProto) -> Kernels:
        """The import of a model in memory."""
        copy = onnx.ModelProto()
        copy.CopyFrom(model)
        return self.lower(self.request, load.from_proto(copy, self.request.model))

    def located(self, model: onnx.ModelProto, difference: Difference) -> ImportFailure:
        """The failure that names the first node whose result differs."""
        node = self.first_wrong_node(model, difference)
        place = "it" if node is None else f"node '{label(node)}' ({node.op_type})"
        return wrong(f"{place} computes something else than {difference.name}; {difference.what}")

    def first_wrong_node(self, model: onnx.ModelProto, difference: Difference) -> onnx.NodeProto | None:
        """The first node whose result differs, by a run of the model with all results as outputs; None if that run fails
        or agrees (fused kernels can differ where single ones do not)."""
        print("looking for the first node that differs", file=sys.stderr)
        whole = with_all_results(model)
        for make in self.frameworks(whole):
            try:
                _, framework = make()
                theirs = framework(difference.inputs)
                ours = self.imported(whole).run(difference.inputs)
            except (ImportFailure, Unchecked, tvm.error.InternalError):
                continue
            makers = {o: n for n in whole.graph.node for o in n.output}
            for output, a, b in zip(whole.graph.output, ours, theirs, strict=True):
                if self.tolerance.complaint(a, b) is not None:
                    return makers.get(output.name)
        return None


def label(node: onnx.NodeProto) -> str:
    """The name of a node in messages."""
    return node.name or node.output[0]


def with_all_results(model: onnx.ModelProto) -> onnx.ModelProto:
    """The model with every tensor that its nodes compute as an output, in the order of the nodes."""
    whole = onnx.ModelProto()
    whole.CopyFrom(model)
    declared = {o.name for o in whole.graph.output}
    del whole.graph.output[:]
    inferred = onnx.shape_inference.infer_shapes(model)
    types = {v.name: v for v in (*inferred.graph.value_info, *inferred.graph.output)}
    for node in whole.graph.node:
        for name in node.output:
            known = types.get(name)
            if known is not None and known.type.HasField("tensor_type") and (name in declared or node.op_type != "Constant"):
                whole.graph.output.append(known)
    return whole


def values_of_any_sign(hint: dict, shape: tuple[int, ...], dtype: str, generator: np.random.Generator) -> np.ndarray:
    """Values where operators part ways: negative and whole numbers, halves, every byte."""
    if hint["kind"] == "int" and (hint["low"], hint["high"]) != (0, 2):
        # Positions in a table.
        return fill.values(hint, shape, dtype, generator)
    if dtype == "bool":
        return generator.integers(0, 2, shape).astype(bool)
    kind = fill.element_type(dtype)
    if kind.kind in "iu":
        low, high = (np.iinfo(kind).min, np.iinfo(kind).max) if kind.itemsize == 1 else (-WHOLE * (kind.kind == "i"), WHOLE)
        return generator.integers(low, high + 1, shape).astype(kind)
    plain = 3.0 * generator.standard_normal(shape)
    halves = np.round(2.0 * plain) / 2.0
    return np.where(generator.random(shape) < 0.25, halves, plain).astype(kind)
