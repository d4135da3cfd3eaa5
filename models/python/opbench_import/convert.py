"""ONNX graph to Relax through TVM's own frontend, with weights as function parameters.

Unsupported operators are found before conversion, against the frontend's table, so that the message can name the node.
"""

from __future__ import annotations

import contextlib
import io
import itertools
import re
import sys
import warnings

import onnx
from tvm.relax.frontend.onnx import from_onnx, onnx_frontend

import tvm
from tvm import relax

from . import control, frontend
from .errors import ImportFailure, bad_shape, unsupported
from .onnx_graph import OnnxGraph, attributes, first_line

REFUSED = {
    "NonZero": "its output shape depends on data",
    "Unique": "its output shape depends on data",
    "Compress": "its output shape depends on data",
    "NonMaxSuppression": "its output shape depends on data",
    "AllClassNMS": "its output shape depends on data",
}


def refuse_unsupported(graph: OnnxGraph, rewritten: frozenset[str] = frozenset()) -> None:
    """Raises ``ImportFailure`` (unsupported_operator) for the first node that the frontend has no rule for.

    ``rewritten`` names operators that a later rewrite will replace.
    """
    supported = set(onnx_frontend._get_convert_map()) | set(frontend.OWN) | rewritten  # noqa: SLF001 - the table has no public name
    for node in graph.nodes:
        label = node.name or node.output[0]
        if node.op_type in control.OPERATORS:
            raise unsupported(
                node.op_type,
                label,
                f"operator {node.op_type} (node '{label}') is control flow that depends on data, which a per-operator "
                "study cannot follow; export the model with fixed shapes so that the exporter resolves it",
            )
        if node.op_type not in supported and node.op_type != "Constant":
            raise unsupported(
                node.op_type,
                label,
                f"operator {node.op_type} (node '{label}') is not supported by the importer; "
                "export the model with it decomposed into basic operators, or cut the model before it",
            )
        if node.op_type in REFUSED:
            raise unsupported(
                node.op_type,
                label,
                f"operator {node.op_type} (node '{label}') cannot be studied: {REFUSED[node.op_type]}; "
                "cut the model before it",
            )


def check_shapes(graph: OnnxGraph) -> None:
    """Contradictions that ONNX's shape inference lets pass: unlike channel counts, windows beyond their image."""
    for node in graph.nodes:
        label = node.name or node.output[0]
        data, weight = (graph.shape(n) for n in node.input[:2]) if node.op_type == "Conv" else (None, None)
        expected = weight[1] * attributes(node).get("group", 1) if data and weight else 0
        if expected and data[1] != expected:
            raise bad_shape(
                f"convolution '{label}' expects {expected} channels but gets {data[1]}; "
                "check the shapes given with --input"
            )
        for name in node.output:
            shape = graph.shape(name)
            if shape and min(shape) < 1:
                raise bad_shape(
                    f"operator {node.op_type} (node '{label}') would have an empty result of shape {list(shape)}; "
                    "give a larger shape with --input"
                )


def with_identifiers(graph: onnx.GraphProto) -> None:
    """Gives tensors names of letters, digits and underscores: they become parameters in generated C and CUDA source."""
    taken = {name for node in graph.node for name in [*node.input, *node.output]} | {i.name for i in graph.input}
    renamed: dict[str, str] = {}

    def identifier(name: str) -> str:
        if not name or re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name, re.ASCII):
            return name
        if name not in renamed:
            plain = re.sub(r"[^A-Za-z0-9_]", "_", name)
            plain = plain if plain[0].isalpha() else f"t_{plain}"
            candidates = itertools.chain([plain], (f"{plain}_{i}" for i in itertools.count(1)))
            renamed[name] = next(c for c in candidates if c not in taken)
            taken.add(renamed[name])
        return renamed[name]

    for value in [*graph.input, *graph.output, *graph.value_info, *graph.initializer]:
        value.name = identifier(value.name)
    for node in graph.node:
        node.input[:] = [identifier(name) for name in node.input]
        node.output[:] = [identifier(name) for name in node.output]


def convert(graph: OnnxGraph) -> tuple[tvm.IRModule, list[str]]:
    """The Relax module and, in the order of its parameters, the names of inputs and weights."""
    refuse_unsupported(graph)
    check_shapes(graph)
    model = graph.to_proto()
    names = [i.name for i in model.graph.input]
    with_identifiers(model.graph)
    talk = io.StringIO()
    try:
        with warnings.catch_warnings(), contextlib.redirect_stdout(talk), frontend.own_translations():
            warnings.simplefilter("ignore")
            module = from_onnx(model, keep_params_in_input=False)
    # The frontend raises TVM errors, assertions and Python errors alike; each means that a node has no translation.
    except Exception as error:  # noqa: BLE001
        print(talk.getvalue(), file=sys.stderr)
        raise conversion_failure(graph, error, talk.getvalue()) from error
    if len(names) != len(module["main"].params):
        raise ImportFailure("corrupt_model", "the converter lost inputs of the model")
    check_static(module, graph)
    return relax.transform.CanonicalizeBindings()(module), names


def check_static(module: tvm.IRModule, graph: OnnxGraph) -> None:
    """Refuses results whose shape depends on data: an operator study needs fixed sizes."""
    for block in module["main"].body.blocks:
        for binding in block.bindings:
            if is_static(binding.var.ty):
                continue
            node = next((n for n in graph.nodes if any(o and graph.shape(o) is None for o in n.output)), graph.nodes[0])
            label = node.name or node.output[0]
            raise unsupported(
                node.op_type,
                label,
                f"the size of what operator {node.op_type} (node '{label}') computes depends on data; "
                "export the model with fixed shapes, or cut it before that node",
            )


def is_static(ty: tvm.ir.Type) -> bool:
    """Whether a Relax type has only fixed sizes."""
    if isinstance(ty, relax.TupleType):
        return all(is_static(field) for field in ty.fields)
    if isinstance(ty, relax.TensorType):
        return isinstance(ty.shape, relax.ShapeExpr) and all(isinstance(d, tvm.tirx.IntImm) for d in ty.shape.values)
    return True


def conversion_failure(graph: OnnxGraph, error: Exception, talk: str) -> ImportFailure:
    """Names the operator that the frontend was at when it gave up."""
    op = "?"
    marker = "Error converting operator "
    if marker in talk:
        op = talk.rsplit(marker, 1)[1].split(",", 1)[0].strip()
    nodes = [n for n in graph.nodes if n.op_type == op]
    label = nodes[0].name or nodes[0].output[0] if nodes else "?"
    return unsupported(
        op, label, f"operator {op} (first such node: '{label}') could not be converted: {first_line(error)}"
    )
