"""The tests that the ``onnx`` wheel brings, of single operators and of small models, through the importer.

A test feeds everything at run time, also what models hold as constants (axes, shapes, scales); where the importer refuses it
so, it is tried again with these inputs as constants. ``scripts/bench coverage`` runs all of them.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx
from onnx import numpy_helper
from onnx.backend.test.case.node import collect_testcases
from opbench_import import pipeline
from opbench_import.errors import ImportFailure
from opbench_import.onnx_graph import VALUE_INPUTS
from opbench_import.request import Request

from .support import Imported

ROUNDING = {"float16": 2.0**-9, "bfloat16": 2.0**-6, "float32": 2.0**-22, "float64": 2.0**-51}
"""Two units in the last place of the largest element."""
DRAWN = {"Bernoulli", "RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike", "Multinomial"}
"""Operators whose values are random: shapes and element types must agree."""


@dataclass
class Test:
    """One model with inputs by name and expected outputs in order; None stands for what is no tensor."""

    name: str
    model: onnx.ModelProto
    inputs: dict[str, np.ndarray | None]
    outputs: list[np.ndarray | None]
    rtol: float = 1e-3
    atol: float = 1e-7


def node_tests() -> Iterator[Test]:
    """Tests of single operators, as the wheel generates them."""
    for case in collect_testcases(None):
        inputs, outputs = case.data_sets[0]
        names = [i.name for i in case.model.graph.input]
        given = dict(zip(names, map(array, inputs)))
        yield Test(case.name, case.model, given, [array(o) for o in outputs], case.rtol or 1e-3, case.atol or 1e-7)


def array(value: object) -> np.ndarray | None:
    """An array, also of types that NumPy lacks; None for sequences and optional values."""
    if isinstance(value, onnx.TensorProto):
        return numpy_helper.to_array(value)
    return np.asarray(value) if isinstance(value, np.ndarray | np.generic) else None


def stored_tests() -> Iterator[Test]:
    """Tests of small models, as files in the wheel."""
    data = Path(onnx.__file__).parent / "backend/test/data"
    for kind in ("simple", "pytorch-operator", "pytorch-converted"):
        for folder in sorted((data / kind).iterdir()):
            sets = sorted(folder.glob("test_data_set_*"))
            if not sets:
                continue
            model = onnx.load(folder / "model.onnx")
            given = {t.name for t in model.graph.initializer}
            names = [i.name for i in model.graph.input if i.name not in given]
            inputs = [tensor(sets[0] / f"input_{i}.pb") for i in range(len(names))]
            outputs = [tensor(sets[0] / f"output_{i}.pb") for i in range(len(model.graph.output))]
            yield Test(f"{kind}/{folder.name}", model, dict(zip(names, inputs)), outputs)


def tensor(path: Path) -> np.ndarray | None:
    """A stored tensor; None for sequences and other kinds."""
    if not path.exists():
        return None
    proto = onnx.TensorProto()
    try:
        proto.ParseFromString(path.read_bytes())
        return numpy_helper.to_array(proto)
    except Exception:  # noqa: BLE001 - a sequence, an optional value
        return None


def constants(test: Test) -> set[str]:
    """Inputs that models hold as constants: what the converter must know, and integers behind the first input."""
    found = set()
    for node in test.model.graph.node:
        known = VALUE_INPUTS.get(node.op_type, set())
        for position, name in enumerate(node.input):
            value = test.inputs.get(name)
            is_array = isinstance(value, np.ndarray)
            if is_array and (position in known or position > 0 and value.dtype.kind in "iub"):
                found.add(name)
    return found


def behind_the_first(test: Test) -> set[str]:
    """All inputs that no node takes first: weights, states, scales."""
    first = {node.input[0] for node in test.model.graph.node if node.input}
    return {name for name, value in test.inputs.items() if isinstance(value, np.ndarray) and name not in first}


def with_constants(test: Test, names: set[str]) -> Test:
    """The test with these inputs inside the model."""
    model = onnx.ModelProto()
    model.CopyFrom(test.model)
    kept = [i for i in model.graph.input if i.name not in names]
    del model.graph.input[:]
    model.graph.input.extend(kept)
    model.graph.initializer.extend(numpy_helper.from_array(test.inputs[n], n) for n in sorted(names))
    inputs = {n: v for n, v in test.inputs.items() if n not in names}
    return Test(test.name, model, inputs, test.outputs, test.rtol, test.atol)


def attempt(test: Test) -> tuple[str, str]:
    """(outcome, reason) of one test as it is."""
    if any(v is None for v in [*test.inputs.values(), *test.outputs]):
        return "refused", "sequences and optional values are no tensors"
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "model.onnx")
        onnx.save(test.model, path)
        try:
            pipeline.run(Request("onnx", test.name, folder, file=path))
        except ImportFailure as failure:
            return "refused", f"{failure.kind}: {failure}"
        imported = Imported(folder)
        for entry in imported.graph["inputs"]:
            if entry["role"] == "input" and list(test.inputs[entry["name"]].shape) != entry["shape"]:
                return "refused", f"bad_shape: input '{entry['name']}' of the test has another shape than its model declares"
        found = imported.run(test.inputs)
    for ours, theirs in zip(found, test.outputs, strict=True):
        if ours.shape != theirs.shape or ours.dtype != theirs.dtype:
            return "wrong", f"{ours.dtype}{list(ours.shape)} instead of {theirs.dtype}{list(theirs.shape)}"
        if any(node.op_type in DRAWN for node in test.model.graph.node):
            continue
        numbers, expected = ours.astype(np.float64), theirs.astype(np.float64)
        # Half precision rounds every step: what is small against the largest element carries that one's error.
        finite = np.abs(expected[np.isfinite(expected)])
        atol = max(test.atol, ROUNDING.get(theirs.dtype.name, 0.0) * finite.max(initial=0.0))
        if theirs.dtype.kind in "iu" and any(v.dtype == np.float16 for v in test.inputs.values()):
            # A half-precision scale may round a quantised value to its neighbour.
            atol = max(atol, 1.0)
        if not np.allclose(numbers, expected, test.rtol, atol, equal_nan=True):
            return "wrong", f"other values, by up to {np.nanmax(np.abs(numbers - expected)):.1e}"
    return "agrees", ""


def run(test: Test) -> tuple[str, str]:
    """The outcome of a test, as given or with constants."""
    outcome, reason = attempt(test)
    for names in (constants(test), behind_the_first(test)):
        if outcome == "refused" and names and len(names) < len(test.inputs):
            again, why = attempt(with_constants(test, names))
            if again != "refused":
                return f"{again}_with_constants" if again == "agrees" else again, why
            reason = why
    return outcome, reason
