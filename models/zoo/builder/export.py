"""From a torch module to a cleaned Graph at given sizes.

Owns the call of torch's exporter. Traces are made without the exporter's own folding, so that
tensors keep the names of torch's parameters.
"""

import io
import warnings

import onnx
import torch

from .definitions import example_inputs
from .graph import Graph
from .passes import clean

OPSET = 17


def trace(definition, model, sizes):
    """The cleaned graph of `model`, traced with inputs of `sizes`."""
    buffer = io.BytesIO()
    with warnings.catch_warnings():
        # Warnings of the tracer concern values that symbolic.py compares between two traces.
        warnings.simplefilter("ignore")
        torch.onnx.export(
            model,
            example_inputs(definition, sizes, seed=1),
            buffer,
            dynamo=False,
            opset_version=OPSET,
            do_constant_folding=False,
            training=torch.onnx.TrainingMode.PRESERVE,
            input_names=[spec.name for spec in definition.inputs],
            output_names=list(definition.outputs),
        )
    proto = onnx.load_from_string(buffer.getvalue())
    parameters = {
        name
        for name, tensor in [*model.named_parameters(), *model.named_buffers()]
        if tensor.is_floating_point()
    }
    graph = Graph(proto, parameters)
    clean(graph)
    graph.infer_shapes()
    return graph
