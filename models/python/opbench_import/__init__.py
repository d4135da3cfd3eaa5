"""Turns a model into fused Relax IR plus a description of its operators.

Owns the whole path from an ONNX file (or a single-operator specification) to the files of one import: ``module.json``,
``graph.json`` and, where there is data, ``params.bin`` and ``refs.bin``. It does not own the cache, locking or the
choice of the output folder: the caller (the Rust crate ``opmodels``) names the folder and runs
``python -m opbench_import`` with one JSON request on stdin; one JSON line on stdout is the answer.
"""

GRAPH_FORMAT = 1
"""Version of graph.json; the reader refuses any other."""
