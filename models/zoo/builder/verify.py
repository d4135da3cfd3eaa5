"""Checks that a written graph is valid, computes what torch computes, and imports into TVM.

Owns the tolerances and the sizes checked. Works on the bytes that go to the file, with the weights
fed as inputs.
"""

import warnings

import numpy as np
import onnx
import onnxruntime
import torch

from .count import bind
from .definitions import example_inputs
from .graph import ZooError
from .passes import RECURRENT

# Largest error over the largest value. Folding batch norm and another order of summation move
# float32 results by about 1e-6 a layer; a wrong graph is off by far more.
TOLERANCE = 1e-4
CHECKED_SIZES = ({"batch": 1, "seq": 5}, {"batch": 2, "seq": 11})


def check(symbolic, data, reference):
    """All checks; returns the largest relative error."""
    model = onnx.load_from_string(data)
    onnx.checker.check_model(model, full_check=True)
    _check_inputs(model)
    session = onnxruntime.InferenceSession(data, providers=["CPUExecutionProvider"])
    worst = max(_compare(symbolic, session, reference, sizes) for sizes in CHECKED_SIZES)
    _check_tvm(model)
    return worst


def _check_inputs(model):
    forbidden = {"Shape", "ConstantOfShape", "Range", "Identity", "Dropout", "Constant"}
    for node in model.graph.node:
        if node.op_type in forbidden | {"BatchNormalization", "Expand", "Where"}:
            raise ZooError(f"{node.name}: {node.op_type} is left in the graph")
    names = {value.name for value in model.graph.input}
    for tensor in model.graph.initializer:
        if tensor.name in names:
            raise ZooError(f"{tensor.name} is both input and initializer")


def _compare(symbolic, session, reference, sizes):
    definition = symbolic.definition
    tensors = example_inputs(definition, sizes, seed=2)
    named = {spec.name: tensor for spec, tensor in zip(definition.inputs, tensors, strict=True)}
    with torch.no_grad():
        # Library models with several inputs take them by name.
        result = reference(**named) if len(named) > 1 else reference(*tensors)
    expected = definition.outputs_of(result)
    expected = expected if isinstance(expected, tuple) else (expected,)
    feeds = {name: tensor.numpy() for name, tensor in named.items()} | symbolic.feeds(sizes)
    actual = session.run(list(definition.outputs), feeds)
    worst = 0.0
    for name, mine, tensor in zip(definition.outputs, actual, expected, strict=True):
        theirs = tensor.numpy()
        if mine.shape != theirs.shape:
            raise ZooError(f"{name}: shape {mine.shape}, torch gives {theirs.shape}")
        error = float(np.abs(mine - theirs).max() / np.abs(theirs).max())
        if not error <= TOLERANCE:
            raise ZooError(f"{name} at {sizes}: relative error {error:.2e} against torch")
        worst = max(worst, error)
    return worst


def _check_tvm(model):
    if any(node.op_type in RECURRENT for node in model.graph.node):
        return  # the frontend has no recurrent operators: the importer unrolls them first
    from tvm.relax.frontend.onnx import from_onnx

    bound = bind(model, CHECKED_SIZES[1])
    shapes = {
        value.name: [dim.dim_value for dim in value.type.tensor_type.shape.dim]
        for value in bound.graph.input
    }
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # one line for every name with a dot in it
        module = from_onnx(bound, shape_dict=shapes, keep_params_in_input=True)
    results = module["main"].ret_ty
    fields = getattr(results, "fields", None)
    kept = [results] if fields is None else list(fields)
    for value, result in zip(bound.graph.output, kept, strict=True):
        expected = [dim.dim_value for dim in value.type.tensor_type.shape.dim]
        actual = [int(extent) for extent in result.shape]
        if actual != expected:
            raise ZooError(f"{value.name}: TVM infers {actual}, expected {expected}")
