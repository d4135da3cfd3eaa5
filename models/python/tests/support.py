"""Runs imports for tests: writes one to a folder, executes it in TVM's virtual machine, compares with ONNX Runtime."""

from __future__ import annotations

import atexit
import json
import os
import shutil
import tempfile

import numpy as np
import onnx
import onnxruntime
from opbench_import import evaluate, pipeline
from opbench_import.request import Request

import tvm
import tvm_ffi


QUICKLY = {"kind": "llvm", "opt-level": 0}
"""Nothing is timed here, and optimising takes most of the time."""


class Imported:
    """One finished import, readable as the Rust side reads it."""

    def __init__(self, folder: str) -> None:
        self.folder = folder
        with open(os.path.join(folder, "graph.json"), encoding="utf-8") as file:
            self.graph = json.load(file)
        with open(os.path.join(folder, "module.json"), encoding="utf-8") as file:
            self.module = tvm_ffi.serialization.from_json_graph_str(file.read())

    def operators(self, kind: str) -> list[dict]:
        """Operators of one kind."""
        return [o for o in self.graph["operators"] if o["kind"] == kind]

    def total_flops(self) -> int:
        """FLOPs of the whole model, anchors only."""
        return sum(o["flops"] * o["count"] for o in self.graph["operators"])

    def tensor(self, file: str, place: dict, shape: list[int], dtype: str) -> np.ndarray:
        """A tensor of params.bin or refs.bin."""
        with open(os.path.join(self.folder, file), "rb") as handle:
            handle.seek(place["offset"])
            return np.frombuffer(handle.read(place["bytes"]), dtype=dtype).reshape(shape)

    def argument(self, entry: dict, feeds: dict) -> np.ndarray:
        """The value of one parameter of ``main``."""
        if entry["role"] == "input":
            return feeds[entry["name"]]
        if entry["data"] is not None:
            return self.tensor("params.bin", entry["data"], entry["shape"], entry["dtype"])
        if entry["fill"]["kind"] != "const":
            raise AssertionError(f"parameter {entry['name']} has no value")
        return np.full(entry["shape"], entry["fill"]["value"], dtype=entry["dtype"])

    def run(self, feeds: dict, target: str | dict = QUICKLY) -> list[np.ndarray]:
        """Outputs of the unscheduled model."""
        run = evaluate.runner(self.module, tvm.target.Target(target))
        return run([self.argument(entry, feeds) for entry in self.graph["inputs"]])

    def random_feeds(self, seed: int = 0) -> dict:
        """Seeded inputs that follow the fill hints."""
        generator = np.random.default_rng(seed)
        feeds = {}
        for entry in self.graph["inputs"]:
            if entry["role"] != "input":
                continue
            hint = entry["fill"]
            if hint["kind"] == "int":
                value = generator.integers(hint["low"], hint["high"], entry["shape"])
            else:
                value = generator.standard_normal(entry["shape"])
            feeds[entry["name"]] = value.astype(entry["dtype"])
        return feeds


def scratch() -> str:
    """A folder that goes when the tests end."""
    folder = tempfile.mkdtemp(prefix="opbench-test-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


def import_file(path: str, **options: object) -> Imported:
    """Imports an ONNX file into a fresh folder."""
    folder = scratch()
    pipeline.run(Request("onnx", os.path.basename(path), folder, file=path, **options))
    return Imported(folder)


def import_simple(op: str, /, **params: object) -> Imported:
    """Imports a single operator into a fresh folder."""
    folder = scratch()
    pipeline.run(Request("simple", op, folder, simple={"op": op, "params": params}))
    return Imported(folder)


def import_model(model: onnx.ModelProto, **options: object) -> Imported:
    """Imports a model that the test made."""
    return import_file(save(model), **options)


def save(model: onnx.ModelProto) -> str:
    """Writes a model to a temporary file."""
    path = os.path.join(scratch(), "model.onnx")
    onnx.save(model, path)
    return path


def expected(path: str, feeds: dict) -> list[np.ndarray]:
    """What ONNX Runtime computes."""
    options = onnxruntime.SessionOptions()
    # Without it, products of bytes overflow on x86-64 processors without VNNI.
    options.add_session_config_entry("session.x64quantprecision", "1")
    # Threads that wait for each other spin, which on a busy machine takes longer than they save.
    options.intra_op_num_threads = 1
    options.log_severity_level = 3
    try:
        session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    # Its rewrite for those processors fails on some quantised graphs; as they stand, these do not overflow.
    except Exception:  # noqa: BLE001 - its errors have no common class that is public
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
        session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    return session.run(None, feeds)


def largest_difference(ours: list[np.ndarray], theirs: list[np.ndarray]) -> float:
    """Largest absolute difference over the largest magnitude expected."""
    worst = 0.0
    for a, b in zip(ours, theirs, strict=True):
        if a.shape != b.shape:
            raise AssertionError(f"shapes differ: {a.shape} and {b.shape}")
        worst = max(worst, float(np.max(np.abs(a.astype(np.float64) - b)) / max(1e-6, float(np.max(np.abs(b))))))
    return worst
