"""The one exception of the importer: a failure that the user can act on.

``kind`` is part of the protocol with the Rust side, which maps it to its own error type; keep both lists the same.
"""

from __future__ import annotations

KINDS = (
    "bad_request",
    "missing_extra",
    "missing_file",
    "unknown_model",
    "corrupt_model",
    "unsupported_operator",
    "wrong_import",
    "bad_shape",
    "bad_composites",
    "unknown_input",
    "no_space",
    "no_permission",
)


class ImportFailure(Exception):
    """A model that cannot be imported, with the reason and the remedy."""

    def __init__(self, kind: str, message: str, **fields: object) -> None:
        if kind not in KINDS:
            raise ValueError(f"unknown failure kind {kind}")
        super().__init__(message)
        self.kind = kind
        self.fields = fields

    def to_json(self) -> dict:
        """The ``error`` member of the answer."""
        return {"kind": self.kind, "message": str(self), **self.fields}


def bad_shape(message: str) -> ImportFailure:
    """A shape, batch size or sequence length that does not fit the model."""
    return ImportFailure("bad_shape", message)


def unsupported(op: str, node: str, message: str) -> ImportFailure:
    """An ONNX operator that the importer cannot express."""
    return ImportFailure("unsupported_operator", message, op=op, node=node)
