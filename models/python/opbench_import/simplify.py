"""Rewrites that a deployed model would have had: no training leftovers, batch norm folded into what it follows.

Affine folding: a convolution or matrix product followed by any chain of BatchNormalization, Mul and Add over channels
becomes the product with scaled weights and one bias, ``s * (W x + b) + t = (s W) x + (s b + t)``. A chain after
something else shrinks to one Mul and one Add. Weights without values keep their shape and need no arithmetic.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import onnx
from onnx import helper

from .onnx_graph import OnnxGraph, attributes
from .params import Param, compact, constant, normal, with_value, without_value

HEADS = ("Conv", "ConvTranspose", "MatMul")


def drop_no_ops(graph: OnnxGraph) -> None:
    """Removes Identity, Dropout, and reshapes or casts without effect."""
    kept = []
    for node in graph.nodes:
        if is_no_op(graph, node) and forward(graph, node, kept):
            continue
        kept.append(node)
    graph.nodes = kept
    graph.drop_unused()


def forward(graph: OnnxGraph, node: onnx.NodeProto, earlier: list[onnx.NodeProto]) -> bool:
    """Lets the readers of ``node`` read its input; false when the node must stay to name a graph output."""
    source, target = node.input[0], node.output[0]
    if target not in graph.outputs:
        graph.rename_uses(target, source)
        return True
    producer = next((n for n in earlier if source in n.output), None)
    if producer is None or source in graph.outputs:
        return False
    for i, name in enumerate(producer.output):
        if name == source:
            producer.output[i] = target
    graph.rename_uses(source, target)
    for done in earlier:
        for i, name in enumerate(done.input):
            if name == source:
                done.input[i] = target
    return True


def trains(graph: OnnxGraph, node: onnx.NodeProto) -> bool:
    """Whether a Dropout drops, as in training."""
    mode = graph.value(node.input[2]) if node.op_type == "Dropout" and len(node.input) > 2 else None
    return mode is not None and bool(np.asarray(mode).reshape(-1)[0])


def is_no_op(graph: OnnxGraph, node: onnx.NodeProto) -> bool:
    """Whether the first output equals the first input."""
    if node.op_type in ("Identity", "Dropout"):
        if trains(graph, node):
            return False
        return len(node.output) < 2 or not any(
            o in graph.outputs or o in graph.consumers() for o in node.output[1:] if o
        )
    if node.op_type == "Cast":
        return graph.dtype(node.input[0]) is not None and graph.dtype(node.input[0]) == graph.dtype(node.output[0])
    if node.op_type in ("Reshape", "Flatten", "Expand"):
        shape = graph.shape(node.input[0])
        return shape is not None and shape == graph.shape(node.output[0])
    if node.op_type in ("Sum", "Max", "Min", "Mean", "Concat"):
        return len(node.input) == 1
    if node.op_type == "Pad":
        pads = graph.value(node.input[1]) if len(node.input) > 1 else None
        return pads is not None and not np.any(pads)
    return False


@dataclass
class Affine:
    """``y = scale * x + shift`` over ``channels``; a vector without values is a ``Param`` without values."""

    channels: int
    dtype: str
    scale: Param | None = None
    shift: Param | None = None

    def then(self, scale: Param | None, shift: Param | None) -> None:
        """Appends another affine step."""
        if scale is not None:
            self.scale = combine(self.scale, scale, np.multiply)
            if self.shift is not None:
                self.shift = combine(self.shift, scale, np.multiply)
        if shift is not None:
            self.shift = combine(self.shift, shift, np.add)


def combine(left: Param | None, right: Param, operation) -> Param:
    """Elementwise result of two channel vectors; without values as soon as one of them is."""
    if left is None:
        return right
    if left.value is None or right.value is None:
        return without_value(left.shape, left.dtype, left.fill or right.fill)
    return with_value(operation(left.value, right.value).astype(left.dtype))


def fold_affine(graph: OnnxGraph) -> None:
    """Folds every chain of channel-wise scales and shifts; see the module's comment."""
    kept: list[onnx.NodeProto] = []
    gone: set[int] = set()
    nodes = list(graph.nodes)
    readers = graph.consumers()
    for node in nodes:
        if id(node) in gone:
            continue
        if node.op_type in HEADS:
            axis, channels = head_channels(graph, node)
            affine = None if channels is None else Affine(channels, graph.dtype(node.output[0]) or "float32")
        elif node.op_type == "BatchNormalization":
            axis, channels = 1, graph.params[node.input[1]].size if node.input[1] in graph.params else None
            affine = None if channels is None else Affine(channels, graph.dtype(node.input[0]) or "float32")
        else:
            affine = None
        if affine is None:
            kept.append(node)
            continue
        chain = collect(graph, node, axis, affine, readers)
        if not chain:
            kept.append(node)
            continue
        gone.update(id(n) for n in chain)
        kept.extend(rebuild(graph, node, chain, axis, affine))
    graph.nodes = kept
    graph.drop_unused()


def head_channels(graph: OnnxGraph, node: onnx.NodeProto) -> tuple[int, int | None]:
    """Channel axis and count of a convolution or product with a given weight; None if it cannot be folded into."""
    weight = graph.params.get(node.input[1])
    shape = graph.shape(node.output[0])
    if weight is None or shape is None:
        return 1, None
    if node.op_type == "MatMul":
        return len(shape) - 1, (shape[-1] if len(weight.shape) == 2 else None)
    if node.op_type == "ConvTranspose" and attributes(node).get("group", 1) != 1:
        return 1, None
    return 1, shape[1]


def collect(graph: OnnxGraph, node: onnx.NodeProto, axis: int, affine: Affine, readers: dict) -> list[onnx.NodeProto]:
    """The affine nodes from ``node`` on, gathered into ``affine``; a head itself is not in the list."""
    chain = []
    current = node
    if node.op_type == "BatchNormalization":
        step = batch_norm_step(graph, node, affine)
        if step is None:
            return []
        affine.then(*step)
        chain.append(node)
    elif node.op_type != "MatMul" and len(node.input) > 2 and node.input[2]:
        if node.input[2] not in graph.params:
            return []
        affine.then(None, graph.params[node.input[2]])
    while True:
        users = readers.get(current.output[0], [])
        if (
            len(users) != 1
            or not users[0].op_type
            or any(current.output[1:])
            and current.op_type != "BatchNormalization"
        ):
            break
        step = affine_step(graph, users[0], current.output[0], axis, affine)
        if step is None:
            break
        affine.then(*step)
        current = users[0]
        chain.append(current)
    return chain


def affine_step(graph: OnnxGraph, node: onnx.NodeProto, value: str, axis: int, affine: Affine):
    """(scale, shift) of one node over the channel axis, or None when the node is something else."""
    if node.op_type == "BatchNormalization":
        return batch_norm_step(graph, node, affine) if axis == 1 and node.input[0] == value else None
    if node.op_type not in ("Mul", "Add", "Sub", "Div"):
        return None
    other = node.input[1] if node.input[0] == value else node.input[0]
    if other not in graph.params or node.op_type in ("Sub", "Div") and node.input[0] != value:
        return None
    rank = len(graph.shape(value) or ())
    vector = channel_vector(graph.params[other], rank, axis, affine)
    if vector is None:
        return None
    if node.op_type in ("Sub", "Div"):
        inverse = np.negative if node.op_type == "Sub" else np.reciprocal
        vector = vector.derive(vector.shape, inverse)
    return (vector, None) if node.op_type in ("Mul", "Div") else (None, vector)


def channel_vector(param: Param, rank: int, axis: int, affine: Affine) -> Param | None:
    """``param`` as one number per channel, or None when it varies along another axis."""
    if len(param.shape) > rank or param.dtype != affine.dtype:
        return None
    padded = (1,) * (rank - len(param.shape)) + param.shape
    if any(d != 1 for i, d in enumerate(padded) if i != axis) or padded[axis] not in (1, affine.channels):
        return None
    return param.derive((affine.channels,), lambda v: np.broadcast_to(v.reshape(-1), (affine.channels,)))


def batch_norm_step(graph: OnnxGraph, node: onnx.NodeProto, affine: Affine):
    """(scale, shift) of an inference batch norm: ``gamma / sqrt(var + eps)`` and ``beta - mean * scale``."""
    options = attributes(node)
    params = [graph.params.get(name) for name in node.input[1:5]]
    if options.get("training_mode", 0) or any(p is None or p.size != affine.channels for p in params):
        return None
    if any(p.value is None for p in params):
        return (
            without_value((affine.channels,), affine.dtype, constant(1.0)),
            without_value((affine.channels,), affine.dtype, normal(0.01)),
        )
    gamma, beta, mean, variance = (p.value.astype(np.float64) for p in params)
    scale = gamma / np.sqrt(variance + options.get("epsilon", 1e-5))
    return with_value(scale.astype(affine.dtype)), with_value((beta - mean * scale).astype(affine.dtype))


def rebuild(
    graph: OnnxGraph, node: onnx.NodeProto, chain: list[onnx.NodeProto], axis: int, affine: Affine
) -> list[onnx.NodeProto]:
    """The shortest nodes with the effect of ``node`` and ``chain``."""
    output = chain[-1].output[0]
    rank = len(graph.shape(node.output[0]) or ())
    if node.op_type in HEADS:
        head = onnx.NodeProto()
        head.CopyFrom(node)
        if affine.scale is not None:
            head.input[1] = graph.add_param(
                graph.fresh(node.input[1]), scale_weight(node, graph.params[node.input[1]], affine.scale)
            )
        if node.op_type == "MatMul" and affine.shift is not None:
            return with_shift(graph, head, axis, rank, affine, output)
        del head.input[2:]
        if node.op_type != "MatMul" and affine.shift is not None:
            head.input.append(graph.add_param(graph.fresh(f"{node.input[1]}.bias"), affine.shift))
        head.output[0] = output
        return [head]
    nodes = []
    value = node.input[0]
    if affine.scale is not None:
        result = output if affine.shift is None else graph.fresh(value)
        nodes.append(
            helper.make_node(
                "Mul", [value, channel_param(graph, affine.scale, axis, rank, node.input[1])], [result], name=node.name
            )
        )
        graph.types[result] = graph.types[node.output[0]]
        value = result
    if affine.shift is not None:
        nodes.append(
            helper.make_node(
                "Add", [value, channel_param(graph, affine.shift, axis, rank, node.input[2])], [output], name=node.name
            )
        )
    return nodes


def with_shift(
    graph: OnnxGraph, head: onnx.NodeProto, axis: int, rank: int, affine: Affine, output: str
) -> list[onnx.NodeProto]:
    """A matrix product followed by one Add."""
    head.output[0] = graph.fresh(head.output[0])
    graph.types[head.output[0]] = graph.types[output]
    bias = channel_param(graph, affine.shift, axis, rank, f"{head.input[1]}.bias")
    return [head, helper.make_node("Add", [head.output[0], bias], [output], name=head.name)]


def channel_param(graph: OnnxGraph, vector: Param, axis: int, rank: int, stem: str) -> str:
    """Adds a channel vector shaped for broadcasting against a tensor of ``rank``."""
    shape = (vector.shape[0],) + (1,) * (rank - axis - 1)
    return graph.add_param(graph.fresh(stem), vector.derive(shape, lambda v: v.reshape(shape)))


def scale_weight(node: onnx.NodeProto, weight: Param, scale: Param) -> Param:
    """The weight with each output channel scaled."""
    if weight.value is None or scale.value is None:
        return without_value(weight.shape, weight.dtype, weight.fill)
    axis = {"Conv": 0, "ConvTranspose": 1, "MatMul": 1}[node.op_type]
    shape = [1] * len(weight.shape)
    shape[axis] = -1
    scaled = compact((weight.value * scale.value.reshape(shape)).astype(weight.dtype))
    return Param(weight.shape, weight.dtype, scaled, weight.fill)
