"""Rewrites that turn a traced graph into the one a deployed model would run.

Owns batch norm folding, padding merged into pooling, the class token of vision transformers,
recurrent cells' initial states, and the final names. Each is exact up to float rounding; verify.py
compares the result with torch.
"""

import numpy as np
from onnx import helper

from .graph import ZooError, fold

RECURRENT = ("LSTM", "GRU", "RNN")


def clean(graph):
    """All passes, in order; the graph keeps concrete shapes."""
    fold(graph)
    for rewrite in (
        fold_batch_norm,
        merge_pool_padding,
        drop_no_ops,
        fold_class_token,
        drop_zero_states,
        negative_last_index,
        index_before_transpose,
    ):
        rewrite(graph)
        graph.prune()
    name_weights(graph)
    name_values(graph)


def fold_batch_norm(graph):
    """Into the convolution before it; without one, to one multiply and one add."""
    for norm in [node for node in graph.nodes if node.op_type == "BatchNormalization"]:
        gamma, beta, mean, variance = (graph.weights[name] for name in norm.input[1:5])
        epsilon = attribute(norm, "epsilon", 1e-5)
        scale = gamma.astype(np.float64) / np.sqrt(variance.astype(np.float64) + epsilon)
        shift = beta - mean * scale
        conv = graph.producer(norm.input[0])
        if (
            conv is not None
            and conv.op_type == "Conv"
            and graph.users()[conv.output[0]] == 1
            and graph.users()[conv.input[1]] == 1
        ):
            _fold_into_conv(graph, conv, norm, scale, shift)
        else:
            _to_affine(graph, norm, scale, shift)


def _fold_into_conv(graph, conv, norm, scale, shift):
    weight_name = conv.input[1]
    weight = graph.weights[weight_name]
    columns = scale.reshape((-1,) + (1,) * (weight.ndim - 1))
    graph.weights[weight_name] = (weight * columns).astype(np.float32)
    if len(conv.input) > 2:
        bias_name = conv.input[2]
        shift = shift + graph.weights[bias_name] * scale
        graph.weights[bias_name] = shift.astype(np.float32)
    else:
        bias_name = weight_name.removesuffix("weight") + "bias"
        graph.add_weight(bias_name, shift.astype(np.float32), [bias_name])
        conv.input.append(bias_name)
    graph.remove([norm])
    graph.replace(norm.output[0], conv.output[0])


def _to_affine(graph, norm, scale, shift):
    rank = len(graph.shapes[norm.input[0]])
    stem = norm.input[1].removesuffix(".weight")
    names = []
    for suffix, values in (("scale", scale), ("shift", shift)):
        name = f"{stem}.{suffix}"
        shape = (-1,) + (1,) * (rank - 2)
        graph.add_weight(name, values.astype(np.float32).reshape(shape), [name])
        names.append(name)
    scaled = f"{norm.name}_scaled"
    multiply = helper.make_node("Mul", [norm.input[0], names[0]], [scaled], f"{norm.name}/Mul")
    add = helper.make_node("Add", [scaled, names[1]], [norm.output[0]], f"{norm.name}/Add")
    position = next(i for i, node in enumerate(graph.nodes) if node is norm)
    graph.nodes[position : position + 1] = [multiply, add]


def merge_pool_padding(graph):
    """Pad followed by pooling becomes the pooling's own padding, where the values agree."""
    for pool in [node for node in graph.nodes if node.op_type in ("MaxPool", "AveragePool")]:
        pad = graph.producer(pool.input[0])
        if pad is None or pad.op_type != "Pad" or graph.users()[pad.output[0]] != 1:
            continue
        value = graph.constants[pad.input[2]].item() if len(pad.input) > 2 and pad.input[2] else 0.0
        needed = -np.inf if pool.op_type == "MaxPool" else 0.0
        if value != needed:
            raise ZooError(f"{pool.name}: padding with {value} cannot be merged")
        widths = graph.constants[pad.input[1]].tolist()
        rank = len(widths) // 2
        before, after = widths[2:rank], widths[rank + 2 :]
        own = attribute(pool, "pads", [0] * 2 * (rank - 2))
        pads = [a + b for a, b in zip(before + after, own, strict=True)]
        set_attribute(pool, "pads", pads)
        if pool.op_type == "AveragePool":
            set_attribute(pool, "count_include_pad", 1)
        pool.input[0] = pad.input[0]


def drop_no_ops(graph):
    """Concatenations of one tensor, and adaptive pooling to the size that is already there."""
    for node in list(graph.nodes):
        if node.op_type == "AveragePool":
            extents = attribute(node, "kernel_shape", []) + attribute(node, "strides", [])
            useless = set(extents) == {1} and not any(attribute(node, "pads", []))
        else:
            useless = node.op_type == "Concat" and len(node.input) == 1
        if useless:
            graph.replace(node.output[0], node.input[0])
            graph.remove([node])


def fold_class_token(graph):
    """`concat(token, x) + positions` as `pad(x) + positions`, with the token added to row 0.

    Otherwise the token must be expanded to the batch, which needs the batch size as a value.
    """
    for concat in [node for node in graph.nodes if node.op_type == "Concat"]:
        expand = graph.producer(concat.input[0])
        if expand is None or expand.op_type != "Expand" or expand.input[0] not in graph.weights:
            continue
        token = graph.weights[expand.input[0]]
        add = next(node for node in graph.nodes if concat.output[0] in node.input)
        positions_name = next(name for name in add.input if name in graph.weights)
        if add.op_type != "Add" or token.shape[:2] != (1, 1) or attribute(concat, "axis", 0) != 1:
            raise ZooError(f"{concat.name}: a class token in a form not known here")
        positions = graph.weights[positions_name].copy()
        positions[:, :1] += token
        graph.weights[positions_name] = positions
        widths = f"{concat.name}_pads"
        graph.constants[widths] = np.array([0, 1, 0, 0, 0, 0], np.int64)
        pad = helper.make_node(
            "Pad", [concat.input[1], widths], [concat.output[0]], f"{concat.name}/Pad"
        )
        position = next(i for i, node in enumerate(graph.nodes) if node is concat)
        graph.nodes[position] = pad


def drop_zero_states(graph):
    """Recurrent nodes assume initial states of zeros by default."""
    for node in graph.nodes:
        if node.op_type not in RECURRENT:
            continue
        for index in range(5, min(len(node.input), 7)):
            name = node.input[index]
            if name in graph.constants and not graph.constants[name].any():
                node.input[index] = ""
        while node.input and not node.input[-1]:
            node.input.pop()


def negative_last_index(graph):
    """Read the last step by index -1, so that the graph holds for every length."""
    for node in graph.nodes:
        if node.op_type != "Gather" or node.input[1] not in graph.constants:
            continue
        axis = attribute(node, "axis", 0)
        index = graph.constants[node.input[1]]
        extent = graph.shapes[node.input[0]][axis]
        if index.ndim == 0 and extent > 1 and index == extent - 1:
            graph.constants[node.input[1]] = np.array(-1, np.int64)


def index_before_transpose(graph):
    """Take one step out of a sequence before its axes are swapped, not after."""
    for node in graph.nodes:
        if node.op_type != "Gather" or node.input[1] not in graph.constants:
            continue
        transpose = graph.producer(node.input[0])
        if transpose is None or transpose.op_type != "Transpose":
            continue
        axis = attribute(node, "axis", 0)
        order = list(attribute(transpose, "perm", []))
        kept = order[:axis] + order[axis + 1 :]
        if graph.constants[node.input[1]].ndim == 0 and kept == sorted(kept):
            node.input[0] = transpose.input[0]
            set_attribute(node, "axis", order[axis])


def name_weights(graph):
    """Give rearranged weights the name of the torch parameter they were made of."""
    renamed = {}
    for name in graph.weights:
        origins = graph.origins[name]
        if len(origins) == 1:
            target = origins[0]
        else:
            # Recurrent biases: input and hidden parts in one tensor.
            stems = {origin.replace("_ih_", "_").replace("_hh_", "_") for origin in origins}
            if len(stems) != 1:
                raise ZooError(f"no name for a weight made of {', '.join(origins)}")
            target = stems.pop()
        if target in renamed.values():
            raise ZooError(f"{target} is used in two different forms")
        renamed[name] = target
    for old, new in renamed.items():
        if old != new:
            graph.replace(old, new)
    graph.weights = {renamed[name]: array for name, array in graph.weights.items()}


def name_values(graph):
    """Short, stable names: a node is its module path and operator, its result is called alike."""
    renamed = {}
    for node in graph.nodes:
        # The exporter repeats the path at each level: /layer1/layer1.0/conv1/Conv.
        parts = node.name.strip("/").split("/")
        kept = [
            part
            for part, following in zip(parts, [*parts[1:], ""], strict=True)
            if not following.startswith(part + ".")
        ]
        node.name = "/".join(kept)
        for index, name in enumerate(node.output):
            if name and name not in graph.outputs:
                renamed[name] = node.name if index == 0 else f"{node.name}:{index}"
    if len(set(renamed.values())) != len(renamed):
        raise ZooError("two tensors would share a name")
    distinct = {}
    for name, array in graph.constants.items():
        key = (array.dtype.str, array.shape, array.tobytes())
        renamed[name] = distinct.setdefault(key, f"const_{len(distinct)}")
    for node in graph.nodes:
        for names in (node.input, node.output):
            for index, name in enumerate(names):
                names[index] = renamed.get(name, name)
    graph.constants = {renamed[name]: array for name, array in graph.constants.items()}
    graph.shapes = {renamed.get(name, name): shape for name, shape in graph.shapes.items()}


def attribute(node, name, default):
    """The value of a node's attribute."""
    for entry in node.attribute:
        if entry.name == name:
            return helper.get_attribute_value(entry)
    return default


def set_attribute(node, name, value):
    """Set or replace a node's attribute."""
    kept = [entry for entry in node.attribute if entry.name != name]
    del node.attribute[:]
    node.attribute.extend([*kept, helper.make_attribute(name, value)])
