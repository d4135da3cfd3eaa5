"""A model in ONNX Runtime: its runs, timed, and its operators, as ONNX Runtime's own profiler sees them."""

from __future__ import annotations

import json
import os
import tempfile
import time

import numpy as np

try:
    import onnxruntime
except ImportError as missing:
    onnxruntime, why_missing = None, missing

CONTROL = ("If", "Loop", "Scan")
"""Nodes whose time is that of the nodes inside them, which are recorded, too."""


class Model:
    """A model with its inputs bound, so that a run copies nothing that another framework would not copy."""

    def __init__(self, order: dict) -> None:
        if onnxruntime is None:
            raise RuntimeError(f"its Python package cannot be loaded ({why_missing}); run scripts/setup dev")
        self.version = onnxruntime.__version__
        self.path, self.threads = order["model"], order["threads"]
        self.session = self.opened(None)
        names = [value.name for value in self.session.get_inputs()]
        self.inputs = dict(zip(names, tensors(order["tensors"], order["inputs"]), strict=True))
        self.binding = self.bound(self.session)

    def opened(self, profile: str | None):
        """A session, which writes a profile to files of that name if there is one."""
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = self.threads
        options.inter_op_num_threads = 1
        options.log_severity_level = 4
        if profile is not None:
            options.enable_profiling = True
            options.profile_file_prefix = profile
        return onnxruntime.InferenceSession(self.path, options, providers=["CPUExecutionProvider"])

    def bound(self, session):
        """The inputs and outputs of a session's runs."""
        binding = session.io_binding()
        for name, value in self.inputs.items():
            binding.bind_cpu_input(name, value)
        for value in session.get_outputs():
            binding.bind_output(value.name)
        return binding

    def timed(self) -> int:
        """The time of one run, nanoseconds."""
        begun = time.perf_counter_ns()
        self.session.run_with_iobinding(self.binding)
        return time.perf_counter_ns() - begun

    def error(self, order: dict) -> float:
        """Largest difference of an output to the expected one, over the largest expected value."""
        expected = tensors(order["tensors"], order["outputs"])
        self.session.run_with_iobinding(self.binding)
        found = self.binding.copy_outputs_to_cpu()
        if len(found) != len(expected):
            raise RuntimeError(f"the model has {len(found)} outputs here and {len(expected)} were expected")
        return max((difference(mine, theirs) for mine, theirs in zip(found, expected)), default=0.0)

    def record(self, order: dict) -> dict:
        """Some runs in a session that is watched: ONNX Runtime has no way to begin to watch one that is open."""
        with tempfile.TemporaryDirectory() as folder:
            session = self.opened(os.path.join(folder, "profile"))
            binding = self.bound(session)
            for _ in range(order["warmup"]):
                session.run_with_iobinding(binding)
            steps = []
            for _ in range(order["active"]):
                begun = time.perf_counter_ns()
                session.run_with_iobinding(binding)
                steps.append(time.perf_counter_ns() - begun)
            with open(session.end_profiling(), encoding="utf-8") as file:
                events = json.load(file)
        return {"first_step": order["first_step"], "steps_ns": steps, "events": nodes(events, len(steps))}


def nodes(events: list[dict], runs: int) -> list[dict]:
    """The nodes of the last runs in a profile, as events of the protocol."""
    starts = sorted(event["ts"] for event in events if event["name"] == "model_run")
    first = starts[-runs]
    found = []
    for event in events:
        if event["cat"] != "Node" or not event["name"].endswith("_kernel_time") or event["ts"] < first:
            continue
        operator = event["args"]["op_name"]
        if operator not in CONTROL:
            # Its clock counts microseconds.
            start, duration = (round(event[key] * 1000) for key in ("ts", "dur"))
            found.append({"name": operator, "start_ns": start, "duration_ns": duration, **NOTHING_ELSE})
    return found


NOTHING_ELSE = {"what": "Operator", "thread": 0, "shapes": [], "modules": [], "bytes": 0}
"""Facts of the protocol about an operator that ONNX Runtime does not report."""


def difference(found: np.ndarray, expected: np.ndarray) -> float:
    """Largest difference of an element, over the largest expected one."""
    if found.shape != expected.shape:
        raise RuntimeError(f"an output has the shape {found.shape} here and {expected.shape} was expected")
    if not expected.size:
        return 0.0
    found, expected = found.astype(np.float64), expected.astype(np.float64)
    with np.errstate(invalid="ignore"):
        # Equal infinities differ by no number.
        apart = np.where(found == expected, 0.0, np.abs(found - expected))
    finite = np.abs(expected[np.isfinite(expected)])
    largest = float(apart.max()) / max(float(finite.max(initial=0.0)), np.finfo(np.float64).tiny)
    # JSON has neither infinities nor NaN, and a difference that is NaN is not a small one.
    return min(largest, np.finfo(np.float64).max) if np.isfinite(largest) else float(np.finfo(np.float64).max)


def tensors(path: str, stored: list[dict]) -> list[np.ndarray]:
    """Reads tensors out of a file of values."""
    found = []
    with open(path, "rb") as file:
        for tensor in stored:
            if tensor["dtype"] == "bfloat16":
                raise RuntimeError("inputs and outputs of bfloat16 are not known here")
            file.seek(tensor["offset"])
            values = np.frombuffer(file.read(tensor["bytes"]), tensor["dtype"])
            found.append(values.reshape(tensor["shape"]))
    return found
