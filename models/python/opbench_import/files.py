"""Opening files on a user's word: regular files of a possible size only.

A device or a pipe could be read for ever, and a file beyond every bound would fill the memory first.
"""

from __future__ import annotations

import os
import stat

import onnx
from onnx.external_data_helper import ExternalDataInfo, uses_external_data

from .errors import ImportFailure

LARGEST_MESSAGE = (2 << 30) - 1
"""The kinds of protobuf message: an ONNX file, a tensor of expected results."""


def require_regular(path: str, largest: int | None = None, kind: str = "an ONNX file") -> int:
    """The size of a regular file; raises ``ImportFailure`` for anything else, ``OSError`` if there is nothing."""
    found = os.stat(path)
    if stat.S_ISDIR(found.st_mode):
        raise IsADirectoryError(path)
    if not stat.S_ISREG(found.st_mode):
        raise ImportFailure("missing_file", f"{path} is a device or a pipe, not a regular file", path=path)
    if largest is not None and found.st_size > largest:
        raise ImportFailure(
            "corrupt_model",
            f"{path}: {found.st_size} bytes are more than {kind} can have; export the model with its weights beside it",
            path=path,
        )
    return found.st_size


def require_external_data(model: onnx.ModelProto, folder: str) -> None:
    """Checks the files that hold a model's weights beside it before any of them is read."""
    tensors = [t for t in model.graph.initializer if uses_external_data(t)]
    for location in dict.fromkeys(ExternalDataInfo(t).location for t in tensors):
        path = os.path.join(folder, location)
        if os.path.exists(path):
            require_regular(path)
