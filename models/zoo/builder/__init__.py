"""Parts of make_zoo.py: definitions, the way from torch to a clean ONNX graph, and checks."""
