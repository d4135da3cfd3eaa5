"""The request that arrives on stdin, checked field by field.

Example: ``{"source": "onnx", "model": "resnet.onnx", "file": "/models/resnet.onnx", "out": "/cache/tmp-1",
"batch": 4, "seqlen": null, "inputs": [{"name": "data", "shape": [4, 3, 224, 224], "dtype": null}], "simple": null}``.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from .errors import ImportFailure

TORCHSCRIPT, ONNX = "torchscript", "onnx"
"""Forms that are files for other frameworks: for libtorch and for ONNX Runtime."""


@dataclass
class InputOverride:
    """A shape (and perhaps an element type) that the user gave for one input."""

    name: str
    shape: list[int]
    dtype: str | None = None


@dataclass
class Request:
    """The model to import and the folder to write to."""

    source: str
    model: str
    out: str
    file: str | None = None
    simple: dict | None = None
    batch: int | None = None
    seqlen: int | None = None
    inputs: list[InputOverride] = field(default_factory=list)
    fills: dict[str, dict] = field(default_factory=dict)
    """Fill hints for true inputs that go before the importer's own."""
    fusion: str = "full"
    """Whether neighbouring operators become one kernel: ``full`` or ``none``."""
    composites: dict | None = None
    """Sequences of operators that count as one: ``file``, for messages, and ``table``, entries of ``name``, ``operators``
    and ``line``."""
    form: str = "graph"
    """The result: ``graph``, its operators for TVM, or one of the forms above."""
    architecture: dict | None = None
    """For models that are built from a configuration: ``name``, ``part``, sizes (``hidden``, ``layers``, ``heads``,
    ``intermediate``), and ``config``, the settings of a file."""


def parse(data: object) -> Request:
    """Builds a request from decoded JSON; raises ``ImportFailure`` (bad_request) when a field is missing or unknown."""
    if not isinstance(data, dict):
        raise ImportFailure("bad_request", "the request must be a JSON object")
    known = set(Request.__dataclass_fields__)
    unknown = sorted(set(data) - known)
    missing = sorted({"source", "model", "out"} - set(data))
    if unknown or missing:
        raise ImportFailure("bad_request", f"unknown fields {unknown}, missing fields {missing}")
    overrides = [InputOverride(i["name"], list(i["shape"]), i.get("dtype")) for i in data.get("inputs") or []]
    request = Request(**{**data, "inputs": overrides})
    if (request.simple is None) == (request.source == "simple"):
        raise ImportFailure("bad_request", "'simple' belongs to source 'simple'")
    if request.source in ("local", "onnx", "tflite", "stablehlo", "tvm") and request.file is None:
        raise ImportFailure("bad_request", f"source '{request.source}' needs 'file'")
    if request.source == "transformers" and request.architecture is None:
        raise ImportFailure("bad_request", "source 'transformers' needs 'architecture'")
    return request
