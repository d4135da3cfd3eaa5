"""Control flow that is known at import: the branch that If takes, the steps that Loop and Scan make.

Exporters leave such nodes where a condition follows from shapes. What depends on data stays and is refused by name.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnx
from onnx import helper

from .onnx_graph import OnnxGraph, attributes
from .params import Param, with_value

LONGEST = 256
"""Most steps that a Loop or a Scan is unrolled into."""

OPERATORS = ("If", "Loop", "Scan")


Evaluate = Callable[[onnx.NodeProto], list[Param] | None]
"""The result of a node over given tensors; None if it has to run."""


def resolve(graph: OnnxGraph, node: onnx.NodeProto, evaluate: Evaluate) -> list[onnx.NodeProto] | None:
    """The nodes that replace control flow; None while a value that it depends on is not known."""
    if node.op_type == "If":
        return taken_branch(graph, node)
    if node.op_type == "Loop":
        return unrolled(graph, node, evaluate)
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


def unrolled(graph: OnnxGraph, node: onnx.NodeProto, evaluate: Evaluate) -> list[onnx.NodeProto] | None:
    """The steps of a Loop whose number or condition is known."""
    count = graph.value(node.input[0]) if node.input[0] else np.array(LONGEST + 1)
    goes_on = graph.value(node.input[1]) if len(node.input) > 1 and node.input[1] else np.array(True)
    if count is None or goes_on is None:
        return None
    body = attributes(node)["body"]
    carried = len(node.input) - 2
    values, nodes = list(node.input[2:]), []
    scanned: list[list[str]] = [[] for _ in body.output[1 + carried :]]
    for step in range(int(count.reshape(-1)[0])):
        if not goes_on.reshape(-1)[0]:
            break
        if step == LONGEST:
            return None
        index = graph.add_param(graph.fresh("step"), with_value(np.array(step, dtype=np.int64)))
        condition = graph.add_param(graph.fresh("goes_on"), with_value(goes_on))
        given = dict(zip((i.name for i in body.input), (index, condition, *values)))
        inner, results = inlined(graph, body, given)
        nodes += [n for n in inner if not folded(graph, n, evaluate)]
        goes_on, values = graph.value(results[0]), results[1 : 1 + carried]
        if goes_on is None:
            return None
        for rows, result in zip(scanned, results[1 + carried :]):
            rows.append(result)
    if any(not rows for rows in scanned):
        readers = graph.consumers()
        if any(output in readers for output in node.output[carried:]):
            return None
    values += [stacked(graph, node, nodes, rows, 0) if rows else "" for rows in scanned]
    return nodes + bound(node.output, values)


def folded(graph: OnnxGraph, node: onnx.NodeProto, evaluate: Evaluate) -> bool:
    """Whether a node's results are known; they become given tensors."""
    results = evaluate(node)
    if results is None:
        return False
    for name, param in zip(node.output, results):
        if name:
            graph.add_param(name, param)
    return True


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
    return [helper.make_node("Identity", [value], [name]) for name, value in zip(names, values) if name and value]
