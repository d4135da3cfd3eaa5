"""Parts of make_zoo.py: the definitions, the way from torch to a clean ONNX graph, and its checks."""
