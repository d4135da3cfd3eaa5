"""The files of an import: module.json, graph.json, params.bin, refs.bin.

Tensors are raw little-endian bytes, each at a multiple of 64 bytes. The caller gives an empty folder and moves it into
place afterwards, so nothing here needs to be atomic.
"""

from __future__ import annotations

import errno
import json
import os

import numpy as np

from .errors import ImportFailure

ALIGNMENT = 64
CHUNK_ELEMENTS = 1 << 22


class TensorFile:
    """A file of aligned tensors, created when the first one arrives."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.file = None
        self.offset = 0

    def append(self, value: np.ndarray) -> dict:
        """Writes a tensor; its place is ``{"offset": ..., "bytes": ...}``."""
        if self.file is None:
            self.file = open(self.path, "wb")  # noqa: SIM115 - closed by close()
        gap = -self.offset % ALIGNMENT
        self.file.write(b"\0" * gap)
        start = self.offset + gap
        little = np.ascontiguousarray(value)
        if little.dtype.byteorder == ">":
            little = little.astype(little.dtype.newbyteorder("<"))
        flat = little.reshape(-1)
        for first in range(0, flat.size, CHUNK_ELEMENTS):
            self.file.write(flat[first : first + CHUNK_ELEMENTS].tobytes())
        self.offset = start + little.nbytes
        return {"offset": start, "bytes": int(little.nbytes)}

    def close(self) -> None:
        """Flushes to disk."""
        if self.file is not None:
            self.file.flush()
            os.fsync(self.file.fileno())
            self.file.close()


def write_text(path: str, text: str) -> None:
    """Writes and flushes one text file."""
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())


def write_json(path: str, data: object) -> None:
    """Writes compact JSON."""
    write_text(path, json.dumps(data, separators=(",", ":"), allow_nan=False))


def disk_failure(error: OSError, folder: str) -> ImportFailure:
    """The importer's error for a failed write."""
    where = error.filename or folder
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return ImportFailure(
            "no_space",
            f"no space left while writing the import to {where}; free some space or name another cache folder",
            path=str(where),
        )
    return ImportFailure("no_permission", f"cannot write {where}: {error.strerror or error}", path=str(where))
