"""Sizes of a zoo graph: symbols bound to numbers, and multiply-adds.

Owns the count that models/registry.toml states. Needs onnx alone.
"""

import math

import onnx
from onnx import shape_inference

from .passes import RECURRENT, attribute


def bind(model, sizes):
    """A copy of `model` with symbols replaced by numbers."""
    bound = onnx.ModelProto()
    bound.CopyFrom(model)
    for value in [*bound.graph.input, *bound.graph.output]:
        for dim in value.type.tensor_type.shape.dim:
            if dim.dim_param:
                dim.dim_value = sizes[dim.dim_param]
    return bound


def multiply_adds(model, sizes):
    """Multiply-adds of convolutions, matrix products and recurrent cells at `sizes`.

    A convolution does one for each output element and each weight of its filter; a matrix product
    one for each output element and step of the shared extent; a recurrent node one for each weight,
    time step and batch element (gates and activations are not multiply-adds).
    """
    inferred = shape_inference.infer_shapes(bind(model, sizes), data_prop=True).graph
    shapes = {
        value.name: [dim.dim_value for dim in value.type.tensor_type.shape.dim]
        for value in [*inferred.input, *inferred.value_info, *inferred.output]
    }
    total = 0
    for node in inferred.node:
        if node.op_type == "Conv":
            total += math.prod(shapes[node.output[0]]) * math.prod(shapes[node.input[1]][1:])
        elif node.op_type in ("Gemm", "MatMul"):
            shared = shapes[node.input[0]][0 if attribute(node, "transA", 0) else -1]
            total += math.prod(shapes[node.output[0]]) * shared
        elif node.op_type in RECURRENT:
            seq, batch, _ = shapes[node.input[0]]
            total += seq * batch * sum(math.prod(shapes[name]) for name in node.input[1:3])
    return total
