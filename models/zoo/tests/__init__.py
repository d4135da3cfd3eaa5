"""Tests of the zoo; they need the project's Python packages (onnx, onnxruntime) and no torch."""
