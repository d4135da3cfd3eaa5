"""Brings equivalent ONNX spellings to the one that the rest of the importer expects.

Gemm becomes MatMul with the weight as [K, N] and an Add; a convolution's bias becomes an Add of a parameter that
already has the broadcast shape (no reshape kernel at run time); ``auto_pad`` becomes explicit pads; Sum becomes Adds.
Runs after shapes are known.
"""

from __future__ import annotations

import numpy as np
import onnx
from onnx import helper

from .onnx_graph import OnnxGraph, attributes, set_attribute
from .params import Param, with_value


def explicit_pads(graph: OnnxGraph) -> None:
    """Replaces ``auto_pad`` by numbers; ONNX: total = (ceil(in / stride) - 1) * stride + window - in."""
    for node in graph.nodes:
        options = attributes(node)
        mode = options.get("auto_pad", "NOTSET")
        if node.op_type not in ("Conv", "MaxPool", "AveragePool", "LpPool") or mode == "NOTSET":
            continue
        shape = graph.shape(node.input[0])
        kernel = (
            options.get("kernel_shape") or (graph.shape(node.input[1]) or ())[2:]
            if node.op_type == "Conv"
            else options.get("kernel_shape")
        )
        if shape is None or not kernel:
            continue
        spatial = len(shape) - 2
        strides = options.get("strides", [1] * spatial)
        dilations = options.get("dilations", [1] * spatial)
        before, after = [0] * spatial, [0] * spatial
        if mode in ("SAME_UPPER", "SAME_LOWER"):
            for i in range(spatial):
                window = (kernel[i] - 1) * dilations[i] + 1
                total = max((-(-shape[2 + i] // strides[i]) - 1) * strides[i] + window - shape[2 + i], 0)
                small, large = total // 2, total - total // 2
                before[i], after[i] = (small, large) if mode == "SAME_UPPER" else (large, small)
        set_attribute(node, "auto_pad", None)
        set_attribute(node, "pads", before + after)


def transposed_pads(graph: OnnxGraph) -> None:
    """Replaces ``output_shape`` and ``auto_pad`` of a transposed convolution by pads, as ONNX defines: what the whole
    result, ``stride * (in - 1) + output_padding + window``, has too much."""
    for node in graph.nodes:
        options = attributes(node)
        mode, wanted = options.get("auto_pad", "NOTSET"), options.get("output_shape")
        if node.op_type != "ConvTranspose" or (mode == "NOTSET" and not wanted):
            continue
        shape, weight = graph.shape(node.input[0]), graph.shape(node.input[1])
        if shape is None or weight is None:
            continue
        spatial = len(shape) - 2
        strides, dilations = (options.get(k, [1] * spatial) for k in ("strides", "dilations"))
        further = options.get("output_padding", [0] * spatial)
        windows = [(k - 1) * d + 1 for k, d in zip(options.get("kernel_shape", weight[2:]), dilations)]
        whole = [s * (n - 1) + f + w for s, n, f, w in zip(strides, shape[2:], further, windows)]
        if not wanted:
            wanted = whole if mode == "VALID" else [n * s for n, s in zip(shape[2:], strides)]
        totals = [max(w - o, 0) for w, o in zip(whole, wanted[-spatial:])]
        small, large = [t // 2 for t in totals], [t - t // 2 for t in totals]
        # A result larger than the whole one is padded at its end.
        further = [f + max(o - w, 0) for f, w, o in zip(further, whole, wanted[-spatial:])]
        set_attribute(node, "auto_pad", None)
        set_attribute(node, "output_shape", None)
        set_attribute(node, "output_padding", further)
        set_attribute(node, "pads", small + large if mode == "SAME_UPPER" else large + small)


def split_gemm(graph: OnnxGraph) -> None:
    """Gemm(A, B, C) as MatMul and Add; alpha and beta go into given tensors."""
    nodes: list[onnx.NodeProto] = []
    for node in graph.nodes:
        if node.op_type != "Gemm" or not gemm_is_plain(graph, node):
            nodes.append(node)
            continue
        options = attributes(node)
        weight = graph.params[node.input[1]]
        if options.get("transB", 0):
            weight = weight.transposed((1, 0))
        weight = scaled(weight, options.get("alpha", 1.0))
        name = (
            node.input[1]
            if weight is graph.params[node.input[1]]
            else graph.add_param(graph.fresh(node.input[1]), weight)
        )
        left = node.input[0]
        if options.get("transA", 0):
            left = graph.fresh(left)
            shape = graph.shape(node.input[0])
            graph.types[left] = (shape[::-1], graph.dtype(node.input[0]))
            nodes.append(helper.make_node("Transpose", [node.input[0]], [left], perm=[1, 0], name=node.name))
        bias = node.input[2] if len(node.input) > 2 else ""
        product = graph.fresh(node.output[0]) if bias else node.output[0]
        graph.types[product] = graph.types.get(node.output[0], (None, None))
        nodes.append(helper.make_node("MatMul", [left, name], [product], name=node.name))
        if bias:
            shift = scaled(graph.params[bias], options.get("beta", 1.0))
            # An empty bias of older exporters ([1] or [N]) broadcasts either way.
            bias_name = bias if shift is graph.params[bias] else graph.add_param(graph.fresh(bias), shift)
            nodes.append(helper.make_node("Add", [product, bias_name], [node.output[0]], name=node.name))
    graph.nodes = nodes
    graph.drop_unused()


def gemm_is_plain(graph: OnnxGraph, node: onnx.NodeProto) -> bool:
    """Whether weight and bias are given tensors, so that scaling and transposing cost nothing."""
    bias = node.input[2] if len(node.input) > 2 else ""
    return (
        node.input[1] in graph.params and graph.shape(node.output[0]) is not None and (not bias or bias in graph.params)
    )


def scaled(param: Param, factor: float) -> Param:
    """The parameter times a number; without values nothing changes."""
    if factor == 1.0:
        return param
    derived = param.derive(param.shape, lambda v: (v * np.asarray(factor)).astype(v.dtype))
    derived.original_shape, derived.transpose = param.original_shape, param.transpose
    return derived


def split_bias(graph: OnnxGraph) -> None:
    """A convolution's third input as an Add of shape [C, 1, ...]."""
    nodes: list[onnx.NodeProto] = []
    for node in graph.nodes:
        bias = node.input[2] if node.op_type in ("Conv", "ConvTranspose") and len(node.input) > 2 else ""
        shape = graph.shape(node.output[0])
        if not bias or bias not in graph.params or shape is None:
            nodes.append(node)
            continue
        target = (graph.params[bias].shape[0],) + (1,) * (len(shape) - 2)
        vector = graph.params[bias].derive(target, lambda v, t=target: v.reshape(t))
        name = graph.add_param(graph.fresh(bias), vector)
        output = node.output[0]
        head = onnx.NodeProto()
        head.CopyFrom(node)
        del head.input[2:]
        head.output[0] = graph.fresh(output)
        graph.types[head.output[0]] = graph.types[output]
        nodes += [head, helper.make_node("Add", [head.output[0], name], [output], name=node.name)]
    graph.nodes = nodes
    graph.drop_unused()


def split_sums(graph: OnnxGraph) -> None:
    """Sum of several tensors as a chain of Adds, which fuse with the operators of their operands."""
    nodes: list[onnx.NodeProto] = []
    for node in graph.nodes:
        if node.op_type != "Sum" or len(node.input) < 2:
            nodes.append(node)
            continue
        value = node.input[0]
        for i, other in enumerate(node.input[1:], start=2):
            result = node.output[0] if i == len(node.input) else graph.fresh(node.output[0])
            graph.types.setdefault(result, graph.types.get(node.output[0], (None, None)))
            nodes.append(helper.make_node("Add", [value, other], [result], name=node.name))
            value = result
    graph.nodes = nodes


def scalars(graph: OnnxGraph) -> None:
    """Given one-element tensors of higher rank become scalars where broadcasting allows, so that they are inlined."""
    for node in graph.nodes:
        if node.op_type not in ("Add", "Sub", "Mul", "Div", "Pow"):
            continue
        for i, name in enumerate(node.input):
            param, other = graph.params.get(name), graph.shape(node.input[1 - i])
            if param is None or param.value is None or param.size != 1 or not param.shape or other is None:
                continue
            if len(param.shape) <= len(other):
                node.input[i] = graph.add_param(graph.fresh(name), with_value(param.value.reshape(())))


def channel_slopes(graph: OnnxGraph) -> None:
    """Slopes of PRelu along the channels get a shape that broadcasts there: before set 7 that was implied."""
    for node in graph.nodes:
        if node.op_type != "PRelu" or node.input[1] not in graph.params:
            continue
        data, slope = graph.shape(node.input[0]), graph.params[node.input[1]]
        if (
            data is None
            or len(data) < 3
            or len(slope.shape) != 1
            or slope.size in (1, data[-1])
            and graph.declared_opset >= 7
        ):
            continue
        if slope.size == data[1]:
            target = (slope.size,) + (1,) * (len(data) - 2)
            node.input[1] = graph.add_param(
                graph.fresh(node.input[1]), slope.derive(target, lambda v, t=target: v.reshape(t))
            )


def listed_axes(graph: OnnxGraph) -> None:
    """Axes that are given as one number become a list of it."""
    for node in graph.nodes:
        axes = graph.value(node.input[1]) if node.op_type in ("Squeeze", "Unsqueeze") and len(node.input) > 1 else None
        if axes is not None and axes.ndim == 0:
            node.input[1] = graph.add_param(graph.fresh("axes"), with_value(axes.reshape(1)))


def drop_empty(graph: OnnxGraph) -> None:
    """Removes empty pieces from the splits that make them and from the concatenations that read them."""
    empty = {name for node in graph.nodes for name in node.output if 0 in (graph.shape(name) or ())}
    readers = graph.consumers()
    for name in empty:
        if all(reader.op_type == "Concat" for reader in readers.get(name, [])):
            for reader in readers.get(name, []):
                kept = [i for i in reader.input if i != name]
                del reader.input[:]
                reader.input.extend(kept)
    readers = graph.consumers()
    for node in graph.nodes:
        sizes = graph.value(node.input[1]) if node.op_type == "Split" and len(node.input) > 1 else None
        if sizes is None or all(s or o in readers for s, o in zip(sizes, node.output)):
            continue
        kept = [(s, o) for s, o in zip(sizes, node.output) if s or o in readers]
        del node.output[:]
        node.output.extend(o for _, o in kept)
        node.input[1] = graph.add_param(graph.fresh("sizes"), with_value(np.array([s for s, _ in kept], dtype=np.int64)))
        set_attribute(node, "num_outputs", None)
    graph.drop_unused()


def full_expansions(graph: OnnxGraph) -> None:
    """Expand to the shape of its result: ONNX lets the target have fewer axes, or ones, where the data has more."""
    for node in graph.nodes:
        shape = graph.shape(node.output[0]) if node.op_type == "Expand" else None
        target = graph.value(node.input[1]) if shape is not None else None
        if target is not None and tuple(target) != shape:
            node.input[1] = graph.add_param(graph.fresh("expanded"), with_value(np.array(shape, dtype=np.int64)))
