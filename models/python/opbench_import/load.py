"""Reads an ONNX file into an ``OnnxGraph``: weights to the side, old operator sets brought up to date.

True inputs are the graph inputs without an initializer; weight-free files of the zoo name theirs in the metadata entry
``opbench.inputs`` (a JSON list), and every other graph input is then a weight without a value.
"""

from __future__ import annotations

import errno
import json
import os
import warnings

import numpy as np
import onnx
import onnx.inliner
from google.protobuf.message import DecodeError
from onnx import numpy_helper, version_converter

from . import definitions, files
from .errors import ImportFailure, unsupported
from .onnx_graph import SMALL_BYTES, OnnxGraph, TensorSpec, dtype_name, first_line
from .params import Param, with_value

MODERN_OPSET = 13
"""Older models are converted to this operator set: from here on axes are inputs and Softmax works on one axis."""

STANDARD_DOMAINS = ("", "ai.onnx", "com.microsoft")


def read_model(path: str) -> onnx.ModelProto:
    """Parses and checks the file; external data is read beside it."""
    try:
        size = files.require_regular(path, files.LARGEST_MESSAGE)
        model = onnx.load(path, load_external_data=False)
        folder = os.path.dirname(os.path.abspath(path))
        files.require_external_data(model, folder)
        onnx.load_external_data_for_model(model, folder)
    except FileNotFoundError as error:
        missing = error.filename or path
        raise ImportFailure("missing_file", f"{missing}: no such file", path=str(missing)) from error
    except PermissionError as error:
        raise ImportFailure("no_permission", f"{path}: permission denied", path=path) from error
    except IsADirectoryError as error:
        raise ImportFailure("missing_file", f"{path}: is a folder, not an ONNX file", path=path) from error
    except (DecodeError, onnx.checker.ValidationError, ValueError, TypeError) as error:
        raise ImportFailure(
            "corrupt_model", f"{path}: not an ONNX file, or damaged ({first_line(error)})", path=path
        ) from error
    except OSError as error:
        kind = "no_space" if error.errno == errno.ENOSPC else "missing_file"
        raise ImportFailure(kind, f"{path}: {error.strerror or error}", path=path) from error
    if size == 0 or not model.graph.node or not model.graph.output:
        raise ImportFailure(
            "corrupt_model", f"{path}: holds no graph (file of {size} bytes); export or download it again", path=path
        )
    if not model.opset_import:
        raise ImportFailure("corrupt_model", f"{path}: names no operator set", path=path)
    return model


def load(path: str) -> OnnxGraph:
    """The file as a graph ready for rewriting."""
    return from_proto(read_model(path), path)


def from_proto(model: onnx.ModelProto, path: str) -> OnnxGraph:
    """A model in memory as a graph ready for rewriting; ``path`` is what messages call it. Takes its weights away."""
    widen_weights(model)
    params = take_weights(model)
    operators = [n.op_type for n in model.graph.node]
    if model.functions:
        # Exporters wrap composed operators into functions of the model; only the operators inside them matter.
        model = onnx.inliner.inline_local_functions(model)
    model = definitions.inline(model)
    reject_foreign_nodes(model)
    declared = default_opset(model)
    model = modernise(model)
    check(model, path)
    graph = build_graph(model, params)
    graph.declared_opset = declared
    graph.declared_nodes = operators
    return graph


def reject_foreign_nodes(model: onnx.ModelProto) -> None:
    """Refuses operators of vendor domains: nothing later could express them."""
    for node in model.graph.node:
        label = node.name or (node.output[0] if node.output else "?")
        if node.domain not in STANDARD_DOMAINS:
            raise unsupported(
                node.op_type,
                label,
                f"operator {node.domain}::{node.op_type} (node '{label}') belongs to a vendor domain; "
                "export the model with standard ONNX operators",
            )


WIDER = {
    onnx.TensorProto.INT4: onnx.TensorProto.INT8,
    onnx.TensorProto.INT2: onnx.TensorProto.INT8,
    onnx.TensorProto.UINT4: onnx.TensorProto.UINT8,
    onnx.TensorProto.UINT2: onnx.TensorProto.UINT8,
}
"""Types that ONNX packs into bytes, and those with a byte for each."""


def widen_weights(model: onnx.ModelProto) -> None:
    """Gives weights of less than a byte a byte for each number, where all that reads them makes numbers of them again: TVM
    has no tensors that share bytes."""
    others = {name for n in model.graph.node if n.op_type != "DequantizeLinear" for name in n.input}
    for tensor in model.graph.initializer:
        wider = WIDER.get(tensor.data_type)
        if wider is None or tensor.name in others:
            continue
        value = numpy_helper.to_array(tensor).astype(onnx.helper.tensor_dtype_to_np_dtype(wider))
        tensor.CopyFrom(numpy_helper.from_array(value, tensor.name))
        for declared in (*model.graph.input, *model.graph.value_info):
            if declared.name == tensor.name:
                declared.type.tensor_type.elem_type = wider


def take_weights(model: onnx.ModelProto) -> dict[str, Param]:
    """Removes weights from the model and returns them; small integer tensors stay, shape inference needs them."""
    graph = model.graph
    params: dict[str, Param] = {}
    kept = []
    declared = {i.name for i in graph.input}
    for tensor in graph.initializer:
        try:
            value = numpy_helper.to_array(tensor)
        except (ValueError, TypeError) as error:
            raise ImportFailure("corrupt_model", f"weight '{tensor.name}' is damaged: {first_line(error)}") from error
        if value.dtype.kind not in "f" and value.nbytes <= SMALL_BYTES or value.dtype.kind == "f" and value.size <= 16:
            kept.append(tensor)
            continue
        params[tensor.name] = with_value(value)
        if tensor.name not in declared:
            graph.input.append(onnx.helper.make_tensor_value_info(tensor.name, tensor.data_type, list(tensor.dims)))
    names = {t.name for t in kept}
    inputs = [i for i in graph.input if i.name not in names]
    del graph.initializer[:]
    graph.initializer.extend(kept)
    del graph.input[:]
    graph.input.extend(inputs)
    return params


def modernise(model: onnx.ModelProto) -> onnx.ModelProto:
    """Converts an old model to ``MODERN_OPSET``; the frontend gets the parts that ONNX cannot convert unchanged."""
    opset = default_opset(model)
    if opset >= MODERN_OPSET:
        return model
    model.ir_version = max(model.ir_version, 8)
    try:
        converted = version_converter.convert_version(model, MODERN_OPSET)
    except (RuntimeError, ValueError, onnx.checker.ValidationError) as error:
        warnings.warn(f"kept operator set {opset}: {first_line(error)}", stacklevel=2)
        return model
    converted.metadata_props.extend(
        p for p in model.metadata_props if p.key not in {q.key for q in converted.metadata_props}
    )
    return converted


def default_opset(model: onnx.ModelProto) -> int:
    """The version of the standard operator set."""
    return max((o.version for o in model.opset_import if o.domain in ("", "ai.onnx")), default=1)


def check(model: onnx.ModelProto, path: str) -> None:
    """ONNX's own checker; the stripped model is small, so this is cheap."""
    try:
        # Exporters may leave the types of outputs open; runtimes infer them, and so does the importer.
        onnx.checker.check_model(onnx.shape_inference.infer_shapes(model))
    except onnx.checker.ValidationError as error:
        text = str(error)
        if "No Op registered for" in text:
            op = text.split("No Op registered for", 1)[1].split()[0]
            node = next((n.name or n.output[0] for n in model.graph.node if n.op_type == op), "?")
            raise unsupported(
                op,
                node,
                f"operator {op} (node '{node}') is not an ONNX operator of set {default_opset(model)}; "
                "check the model's operator set or export it again",
            ) from error
        if "is required but missing" not in text:
            raise ImportFailure("corrupt_model", f"{path}: {first_line(error)}", path=path) from error


def build_graph(model: onnx.ModelProto, params: dict[str, Param]) -> OnnxGraph:
    """Sorts graph inputs into true inputs and weights."""
    graph = model.graph
    for tensor in graph.initializer:
        params[tensor.name] = with_value(numpy_helper.to_array(tensor))
    named = {p.key: p.value for p in model.metadata_props}.get("opbench.inputs")
    true_names = set(json.loads(named)) if named else None
    inputs: dict[str, TensorSpec] = {}
    open_params: dict[str, TensorSpec] = {}
    for info in graph.input:
        if info.name in params:
            continue
        if not info.type.HasField("tensor_type"):
            raise ImportFailure("bad_shape", f"input '{info.name}' is not a tensor")
        tensor = info.type.tensor_type
        ranked = tensor.HasField("shape")
        if not ranked:
            dims: list = []
        else:
            dims = [
                d.dim_value if d.HasField("dim_value") and d.dim_value >= 0 else (d.dim_param or None)
                for d in tensor.shape.dim
            ]
        dtype = dtype_name(tensor.elem_type)
        if true_names is not None and info.name not in true_names:
            if all(isinstance(d, int) for d in dims):
                params[info.name] = Param(tuple(dims), dtype)
            else:
                open_params[info.name] = TensorSpec(dims, dtype)
        else:
            inputs[info.name] = TensorSpec(dims, dtype, ranked)
    domains = [(o.domain, o.version) for o in model.opset_import]
    return OnnxGraph(
        list(graph.node), inputs, params, [o.name for o in graph.output], default_opset(model), domains, open_params
    )


def constant_value(node: onnx.NodeProto) -> np.ndarray | None:
    """The value of a Constant node; None for kinds that are not tensors."""
    for attribute in node.attribute:
        if attribute.name == "value":
            return numpy_helper.to_array(attribute.t)
        if attribute.name == "value_float":
            return np.array(attribute.f, dtype=np.float32)
        if attribute.name == "value_int":
            return np.array(attribute.i, dtype=np.int64)
        if attribute.name == "value_floats":
            return np.array(attribute.floats, dtype=np.float32)
        if attribute.name == "value_ints":
            return np.array(attribute.ints, dtype=np.int64)
    return None
