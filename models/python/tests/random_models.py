"""Random ONNX models over the operators, attributes and operator sets that the importer takes.

A model is one to four operators; an operator reads results of those before it where their types fit. ONNX Runtime or ONNX's
reference evaluator says what a model computes: one that neither runs is no test.
"""

from __future__ import annotations

import os
import tempfile

import numpy as np
import onnx
from onnx import helper
from opbench_import import oracles, pipeline, verify
from opbench_import.errors import ImportFailure
from opbench_import.oracles import Unchecked
from opbench_import.request import Request

from .random_draw import Draw, Invalid
from .random_recipes import RECIPES
from .support import Imported


def drawn(seed: int) -> onnx.ModelProto:
    """The model of a seed."""
    for attempt in range(100):
        r = Draw(hash((seed, attempt)) & 0x7FFFFFFF)
        try:
            for _ in range(r.size(1, 4)):
                r.pick(*RECIPES)(r)
                r.learn()
            return r.finished()
        except Invalid:
            continue
    raise AssertionError(f"seed {seed} makes no model")


def outcome(seed: int) -> tuple[str, str]:
    """(outcome, reason) of the model of a seed: ``agrees``, ``refused``, ``caught`` (the import's own check refused it),
    ``unchecked`` (said so), ``wrong`` (called checked, computes something else), or ``invalid`` (no reference runs it)."""
    model = drawn(seed)
    kinds = "+".join(n.op_type for n in model.graph.node) + f" opset {model.opset_import[0].version}"
    try:
        inputs, theirs = reference(model, seed)
    except Unchecked as why:
        return "invalid", f"{kinds}: {why}"
    for output, value in zip(model.graph.output, theirs, strict=True):
        # ONNX does not know the types of vendors' operators; exporters write them down.
        kind = helper.np_dtype_to_tensor_dtype(value.dtype)
        output.CopyFrom(helper.make_tensor_value_info(output.name, kind, value.shape))
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "model.onnx")
        onnx.save(model, path)
        try:
            pipeline.run(Request("onnx", "random", folder, file=path))
        except ImportFailure as failure:
            return "caught" if failure.kind == "wrong_import" else "refused", f"{kinds}: {failure}"
        imported = Imported(folder)
        check = imported.graph["check"]
        if check["reference"] is None:
            return "unchecked", f"{kinds}: {check['reason']}"
        if "something else" in check["reference"]:
            return "unchecked", f"{kinds}: {check['reference']}"
        ours = imported.run(inputs)
    names = [n.op_type for n in model.graph.node]
    tolerance = verify.Tolerance.of({v.dtype.name for v in theirs}, names)
    for a, b in zip(ours, theirs, strict=True):
        complaint = tolerance.complaint(a, b)
        if complaint is not None:
            return "wrong", f"{kinds}: {complaint}"
    return "agrees", kinds


def reference(model: onnx.ModelProto, seed: int) -> tuple[dict[str, np.ndarray], list[np.ndarray]]:
    """Random inputs, others than those of the import's check, and what a reference computes for them."""
    generator = np.random.default_rng(seed)
    inputs = {}
    for info in model.graph.input:
        shape = [d.dim_value for d in info.type.tensor_type.shape.dim]
        dtype = helper.tensor_dtype_to_np_dtype(info.type.tensor_type.elem_type)
        inputs[info.name] = values(generator, shape, dtype)
    refusals = []
    for make in (oracles.onnx_runtime, lambda m: oracles.reference_evaluator(m, 0)):
        try:
            return inputs, make(model)[1](inputs)
        except Unchecked as why:
            refusals.append(str(why))
    raise Unchecked("; ".join(refusals))


def values(generator: np.random.Generator, shape: list[int], dtype: np.dtype) -> np.ndarray:
    """Values of every sign; whole numbers below six."""
    if dtype == np.bool_:
        return np.asarray(generator.random(shape) < 0.5)
    if dtype.kind in "iu":
        low, high = (np.iinfo(dtype).min, np.iinfo(dtype).max) if dtype.itemsize == 1 else (-5, 5)
        return np.asarray(generator.integers(low, high + 1, shape)).astype(dtype)
    return np.asarray(generator.standard_normal(shape) * 1.5).astype(dtype)
