"""Runs a model in ONNX Runtime for `opcollect compare --framework onnxruntime`."""
