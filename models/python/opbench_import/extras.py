"""Packages of `scripts/setup --with …`, which lie in folders of their own beside the virtual environment's packages."""

from __future__ import annotations

import importlib
import os
import sys
from types import ModuleType

from .errors import ImportFailure


def load(extra: str, name: str, cost: str) -> ModuleType:
    """A module of an extra; raises ``ImportFailure`` (missing_extra) where it is not installed."""
    folder = os.path.join(sys.prefix, extra)
    if os.path.isdir(folder) and folder not in sys.path:
        # After the pinned packages, so that none of them is replaced.
        sys.path.append(folder)
    try:
        return importlib.import_module(name)
    except (ImportError, OSError) as error:
        raise ImportFailure(
            "missing_extra",
            f"this source of models needs the Python package '{name}', which cannot be loaded ({error}); "
            f"run scripts/setup --with {extra} ({cost})",
        ) from error


def pinned(name: str, kind: str) -> ModuleType:
    """A package that ``scripts/setup KIND`` installs; raises ``ImportFailure`` (missing_extra) where it is not."""
    try:
        return importlib.import_module(name)
    except (ImportError, OSError) as error:
        raise ImportFailure(
            "missing_extra", f"this needs the Python package '{name}', which cannot be loaded ({error}); run scripts/setup {kind}"
        ) from error
