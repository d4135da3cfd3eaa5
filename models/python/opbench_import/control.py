"""Control flow that is known at import: the branch that If takes, the steps that Loop and Scan make.

Exporters leave such nodes where a condition follows from shapes. What depends on data stays and is refused by name.
"""

from __future__ import annotations

import numpy as np
import onnx
from onnx import helper

from .onnx_graph import OnnxGraph, attributes
from .params import with_value

LONGEST = 256
"""Most steps that a Loop or a Scan is unrolled into."""

OPERATORS = ("If", "Loop", "Scan")


def resolve(graph: OnnxGraph, node: onnx.NodeProto) -> list[onnx.NodeProto] | None:
    """The nodes that control flow amounts to; None while what it depends on is not known."""
    if node.op_type == "If":
        return taken_branch(graph, node)
    if node.op_type == "Loop":
        return unrolled(graph, node)
    if node.op_type == "Scan":
        return scan(graph, node)
    return None


def taken_branch(graph: OnnxGraph, node: onnx.NodeProto) -> list[onnx.NodeProto] | None:
    """The nodes of the branch that the condition selects."""
    condition = graph.value(node.input[0])
    if condition is None:
        return None
    options = attributes(node)
    branch = options["then_branch" if bool(np.asarray(condition).reshape(-1)[0]) else "else_branch"]
    nodes, results = inlined(graph, branch, {})
    return nodes + bound(node.output, results)


def unrolled(graph: OnnxGraph, node: onnx.NodeProto) -> list[onnx.NodeProto] | None:
    """The steps of a Loop with a known number of them, if its condition never ends it earlier."""
    count = graph.value(node.input[0]) if node.input[0] else None
    begins = graph.value(node.input[1]) if len(node.input) > 1 and node.input[1] else np.True_
    if count is None or begins is None:
        return None
    steps = int(np.asarray(count).reshape(-1)[0]) if bool(np.asarray(begins).reshape(-1)[0]) else 0
    body = attributes(node)["body"]
    carried = len(node.input) - 2
    if not 0 < steps <= LONGEST or not never_ends(body):
        return None
    values, nodes = list(node.input[2:]), []
    scanned: list[list[str]] = [[] for _ in body.output[1 + carried :]]
    for step in range(steps):
        index = graph.add_param(graph.fresh("step"), with_value(np.array(step, dtype=np.int64)))
        goes_on = graph.add_param(graph.fresh("goes_on"), with_value(np.array(True)))
        given = dict(zip((i.name for i in body.input), (index, goes_on, *values)))
        inner, results = inlined(graph, body, given)
        nodes += inner
        values = results[1 : 1 + carried]
        for rows, result in zip(scanned, results[1 + carried :]):
            rows.append(result)
    values += [stacked(graph, node, nodes, rows, 0) for rows in scanned]
    return nodes + bound(node.output, values)


def scan(graph: OnnxGraph, node: onnx.NodeProto) -> list[onnx.NodeProto] | None:
    """The steps of a Scan, one for each element along an axis of its inputs; sets before 9 batch them."""
    options = attributes(node)
    states = len(node.input) - options["num_scan_inputs"]
    sequences = list(node.input[states:])
    shapes = [graph.shape(s) for s in sequences]
    if graph.opset < 9 or any(s is None for s in shapes):
        return None
    axes = [a % len(s) for a, s in zip(options.get("scan_input_axes", [0] * len(sequences)), shapes)]
    steps = shapes[0][axes[0]]
    if not 0 < steps <= LONGEST:
        return None
    backwards = options.get("scan_input_directions", [0] * len(sequences))
    body = options["body"]
    values, nodes = list(node.input[:states]), []
    scanned: list[list[str]] = [[] for _ in body.output[states:]]
    for step in range(steps):
        elements = []
        for sequence, axis, reverse in zip(sequences, axes, backwards):
            at = np.array(steps - 1 - step if reverse else step, dtype=np.int64)
            index = graph.add_param(graph.fresh("step"), with_value(at))
            elements.append(graph.fresh(sequence))
            nodes.append(helper.make_node("Gather", [sequence, index], [elements[-1]], name=node.name, axis=axis))
        given = dict(zip((i.name for i in body.input), (*values, *elements)))
        inner, results = inlined(graph, body, given)
        nodes += inner
        values = results[:states]
        for rows, result in zip(scanned, results[states:]):
            rows.append(result)
    directions = options.get("scan_output_directions", [0] * len(scanned))
    places = options.get("scan_output_axes", [0] * len(scanned))
    for rows, reverse, axis in zip(scanned, directions, places):
        values.append(stacked(graph, node, nodes, rows[::-1] if reverse else rows, axis))
    return nodes + bound(node.output, values)


def stacked(graph: OnnxGraph, node: onnx.NodeProto, nodes: list[onnx.NodeProto], rows: list[str], axis: int) -> str:
    """The results of all steps side by side along a new axis; adds the nodes for that."""
    axes = graph.add_param(graph.fresh("axes"), with_value(np.array([axis], dtype=np.int64)))
    parts = [graph.fresh(row) for row in rows]
    for row, part in zip(rows, parts):
        nodes.append(helper.make_node("Unsqueeze", [row, axes], [part], name=node.name))
    whole = graph.fresh(node.name or "scanned")
    nodes.append(helper.make_node("Concat", parts, [whole], name=node.name, axis=axis))
    return whole


def never_ends(body: onnx.GraphProto) -> bool:
    """Whether the body hands its condition on, or says that it is true."""
    name = body.output[0].name
    for node in reversed(body.node):
        if name in node.output:
            if node.op_type == "Identity":
                name = node.input[0]
            elif node.op_type == "Constant":
                return bool(helper.get_attribute_value(node.attribute[0]).raw_data.strip(b"\0"))
            else:
                return False
    return name == body.input[1].name


def inlined(
    graph: OnnxGraph, body: onnx.GraphProto, given: dict[str, str]
) -> tuple[list[onnx.NodeProto], list[str]]:
    """The nodes of a subgraph under fresh names, and the names of its results; ``given`` names its inputs' values."""
    names = dict(given)
    for tensor in body.initializer:
        names[tensor.name] = graph.add_param(
            graph.fresh(tensor.name), with_value(onnx.numpy_helper.to_array(tensor))
        )
    nodes = []
    for node in body.node:
        copy = onnx.NodeProto()
        copy.CopyFrom(node)
        for i, name in enumerate(node.input):
            copy.input[i] = names.get(name, name)
        for i, name in enumerate(node.output):
            if name:
                names[name] = graph.fresh(name)
                copy.output[i] = names[name]
        for attribute in copy.attribute:
            if attribute.type == onnx.AttributeProto.GRAPH:
                rename_captured(attribute.g, names)
        nodes.append(copy)
    return nodes, [names.get(o.name, o.name) for o in body.output]


def rename_captured(body: onnx.GraphProto, names: dict[str, str]) -> None:
    """Makes a nested subgraph read outer values under their new names."""
    own = {o for n in body.node for o in n.output} | {i.name for i in body.input} | {t.name for t in body.initializer}
    for node in body.node:
        for i, name in enumerate(node.input):
            if name not in own:
                node.input[i] = names.get(name, name)
        for attribute in node.attribute:
            if attribute.type == onnx.AttributeProto.GRAPH:
                rename_captured(attribute.g, {k: v for k, v in names.items() if k not in own})
    for output in body.output:
        if output.name not in own:
            output.name = names.get(output.name, output.name)


def bound(names: list[str], values: list[str]) -> list[onnx.NodeProto]:
    """Gives results the names that later nodes read."""
    return [helper.make_node("Identity", [value], [name]) for name, value in zip(names, values) if name]
