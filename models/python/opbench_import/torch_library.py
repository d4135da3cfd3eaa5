"""PyTorch where it is installed: the extra of ``scripts/setup --with torch``, or a package of the interpreter.

The extra lies in a folder of its own beside the virtual environment's packages, with empty libraries in the place of
those of NVIDIA that the CPU half of PyTorch never calls. Only a loader that binds functions lazily accepts them.
"""

from __future__ import annotations

import logging
import os
import sys
import warnings
from types import ModuleType

from . import extras


def load(name: str = "torch") -> ModuleType:
    """PyTorch, or a library of models for it; raises ``ImportFailure`` (missing_extra) where it is not installed."""
    # Nothing here may use the network.
    os.environ.update(HF_HUB_OFFLINE="1", TRANSFORMERS_OFFLINE="1", TRANSFORMERS_VERBOSITY="error")
    # What is computed here takes seconds of one processor. Threads of OpenMP wait for each other spinning: on a busy machine that
    # took ninety times as long, and sums would depend on the number of processors.
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    warnings.simplefilter("ignore")
    logging.disable(logging.WARNING)
    flags = sys.getdlopenflags()
    sys.setdlopenflags(os.RTLD_LAZY)
    try:
        return extras.load("torch", name, "580 MB to download, 1.5 GB on disk")
    finally:
        sys.setdlopenflags(flags)
