"""Constant folding over given tensors, with or without values.

A node that reads only given tensors becomes a given tensor itself: computed when all values are known, otherwise known
by shape and type alone (a transposed weight of a weight-free model is still just a weight). Shape and Size of a value
with a static shape are constants too, which removes the shape arithmetic of exporters.
"""

from __future__ import annotations

import numpy as np
import onnx
from onnx import helper, numpy_helper
from onnx.reference import ReferenceEvaluator

from . import control
from .load import constant_value
from .onnx_graph import OnnxGraph, attributes
from .params import Param, compact, dequantized, with_value, without_value

RANDOM = {
    "RandomNormal",
    "RandomNormalLike",
    "RandomUniform",
    "RandomUniformLike",
    "Bernoulli",
    "Multinomial",
    "Dropout",
}
MAX_ROUNDS = 16


def fold(graph: OnnxGraph) -> None:
    """Repeats shape inference and folding until nothing changes."""
    for _ in range(MAX_ROUNDS):
        graph.infer()
        if not fold_once(graph):
            return


def fold_once(graph: OnnxGraph) -> bool:
    """One pass over the nodes; true when a node disappeared or control flow was resolved."""
    kept, changed = [], False
    integers = operands_of_integer_products(graph)
    for node in graph.nodes:
        if integers.intersection(node.output):
            kept.append(node)
            continue
        resolved = control.resolve(graph, node, lambda n: fold_node(graph, n))
        if resolved is not None:
            kept, changed = kept + resolved, True
            continue
        folded = fold_node(graph, node)
        if folded is None:
            kept.append(node)
            continue
        changed = True
        for name, param in zip(node.output, folded):
            if name:
                graph.params[name] = param
                graph.types[name] = (param.shape, param.dtype)
    graph.nodes = kept
    if changed:
        graph.drop_unused()
    return changed


PRODUCTS = ("Conv", "MatMul", "Gemm")
MOVES = ("Flatten", "Reshape", "Squeeze", "Transpose", "Unsqueeze")
"""Operators that only change the order of numbers."""


def operands_of_integer_products(graph: OnnxGraph) -> set[str]:
    """Dequantised weights that meet dequantised data: such products run in integers, so the weight stays one of bytes."""
    dequantised = {n.output[0]: n for n in graph.nodes if n.op_type == "DequantizeLinear"}
    if not dequantised:
        return set()
    computed = {name for name, node in dequantised.items() if node.input[0] not in graph.params}
    for node in graph.nodes:
        if node.op_type in MOVES and node.input[0] in computed:
            computed.update(node.output)
    readers = graph.consumers()
    return {
        name
        for name, node in dequantised.items()
        if graph.dtype(node.input[0]) in ("int8", "uint8")
        and len(graph.shape(node.input[0]) or ()) > 1
        and name not in computed
        and all(r.op_type in PRODUCTS and r.input[0] in computed and r.input[1] == name for r in readers.get(name, []))
    }


def fold_node(graph: OnnxGraph, node: onnx.NodeProto) -> list[Param] | None:
    """The outputs of ``node`` as given tensors, or None when it has to run."""
    if any(o in graph.outputs for o in node.output) or node.op_type in RANDOM:
        return None
    if node.op_type == "Constant":
        value = constant_value(node)
        return None if value is None else [with_value(value)]
    if node.op_type in ("Shape", "Size"):
        return fold_shape(graph, node)
    names = [i for i in node.input if i]
    if not names or any(n not in graph.params or n in graph.runtime for n in names):
        return None
    if node.op_type == "ConstantOfShape":
        return fold_constant_of_shape(graph, node)
    params = [graph.params[n] for n in names]
    if node.op_type == "Transpose":
        rank = len(params[0].shape)
        return [params[0].transposed(tuple(attributes(node).get("perm", range(rank)[::-1])))]
    if any(p.value is None for p in params):
        return fold_types(graph, node, params)
    if node.op_type == "DequantizeLinear" and not attributes(node).get("block_size", 0):
        return fold_dequantised(graph, node, params)
    if node.op_type == "GatherElements":
        # ONNX's reference implementation fails where the indices have one row.
        data, indices = (p.value for p in params)
        axis = attributes(node).get("axis", 0)
        positive = np.where(indices < 0, indices + data.shape[axis], indices)
        return [with_value(np.take_along_axis(data, positive, axis))]
    return evaluate(graph, node)


def fold_shape(graph: OnnxGraph, node: onnx.NodeProto) -> list[Param] | None:
    """Shape and Size of a value whose shape is known."""
    shape = graph.shape(node.input[0])
    if shape is None:
        return None
    if node.op_type == "Size":
        return [with_value(np.array(np.prod(shape, dtype=np.int64)))]
    options = attributes(node)
    return [with_value(np.array(shape[options.get("start", 0) : options.get("end", len(shape))], dtype=np.int64))]


def fold_dequantised(graph: OnnxGraph, node: onnx.NodeProto, params: list[Param]) -> list[Param] | None:
    """The values of given bytes; ONNX's reference implementation supports few of the types."""
    value, scale = (p.value for p in params[:2])
    zero = params[2].value if len(params) > 2 else np.zeros((), value.dtype)
    if max(scale.ndim, zero.ndim) > 1 or (graph.dtype(node.output[0]) or "float32") != "float32":
        return evaluate(graph, node)
    return [with_value(dequantized(value, scale, zero, attributes(node).get("axis", 1)))]


def fold_constant_of_shape(graph: OnnxGraph, node: onnx.NodeProto) -> list[Param] | None:
    """A constant tensor held as one number, however large."""
    shape = graph.value(node.input[0])
    if shape is None:
        return None
    fill = attributes(node).get("value")
    scalar = np.zeros(1, np.float32) if fill is None else numpy_helper.to_array(fill)
    return [with_value(np.broadcast_to(scalar.reshape(()), tuple(int(d) for d in shape)))]


def fold_types(graph: OnnxGraph, node: onnx.NodeProto, params: list[Param]) -> list[Param] | None:
    """Outputs of a node over weights without values: shape and type only."""
    outputs = []
    for name in node.output:
        known = graph.types.get(name)
        if not name or known is None or not known[1].startswith("float"):
            return None
        fill = next((p.fill for p in params if p.value is None), None)
        outputs.append(without_value(known[0], known[1], fill))
    return outputs


def evaluate(graph: OnnxGraph, node: onnx.NodeProto) -> list[Param] | None:
    """Runs one node with ONNX's reference implementation; None when that has no such operator."""
    names = [i for i in dict.fromkeys(node.input) if i]
    inputs = [helper.make_tensor_value_info(n, onnx.TensorProto.UNDEFINED, None) for n in names]
    for info, name in zip(inputs, names):
        dtype = graph.params[name].dtype
        info.type.tensor_type.elem_type = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    outputs = [helper.make_empty_tensor_value_info(o) for o in node.output if o]
    proto = helper.make_graph([node], "fold", inputs, outputs)
    model = helper.make_model(proto, opset_imports=[helper.make_opsetid("", graph.opset)], ir_version=8)
    try:
        values = ReferenceEvaluator(model).run(None, {n: graph.params[n].value for n in names})
    # The evaluator raises whatever its NumPy code raises; a node that it cannot run simply stays in the graph.
    except Exception:  # noqa: BLE001
        return None
    if any(not isinstance(v, np.ndarray | np.generic) for v in values):
        return None
    arrays = iter(compact(np.asarray(v)) for v in values)
    return [
        Param(a.shape, a.dtype.name, a) if o else without_value((), "float32")
        for o in node.output
        for a in ([next(arrays)] if o else [np.zeros(())])
    ]
