"""Reads a TFLite file through TVM's frontend; what that cannot express is refused with the operator's name.

A flatbuffer is offsets into itself, which nothing has checked: a walk over the parts that matter comes first, so that a
damaged or hostile file ends in words.
"""

from __future__ import annotations

import contextlib
import io
import math
import struct
import sys
import warnings

import numpy as np
import tflite
from tvm.relax.frontend.tflite import from_tflite, tflite_frontend

from . import files
from .errors import ImportFailure, bad_shape, unsupported
from .onnx_graph import first_line
from .request import Request
from .translated import Translated, of_frontend

IDENTIFIER = b"TFL3"
LARGEST_TENSOR = 1 << 34
"""Elements beyond which a declared shape is damage."""

BUILTIN = {value: name for name, value in vars(tflite.BuiltinOperator).items() if isinstance(value, int)}
CUSTOM = tflite.BuiltinOperator.CUSTOM
WIDTHS = {
    tflite.TensorType.FLOAT32: 4,
    tflite.TensorType.FLOAT16: 2,
    tflite.TensorType.INT32: 4,
    tflite.TensorType.UINT8: 1,
    tflite.TensorType.INT64: 8,
    tflite.TensorType.INT8: 1,
    tflite.TensorType.INT16: 2,
    tflite.TensorType.BOOL: 1,
    tflite.TensorType.FLOAT64: 8,
}
"""Bytes of an element, of types of a fixed width."""


def corrupt(path: str, reason: str) -> ImportFailure:
    """A file that is not a TFLite file, or a damaged one."""
    return ImportFailure("corrupt_model", f"{path}: not a TFLite file, or damaged ({reason})", path=path)


def read(request: Request) -> Translated:
    """The file's first subgraph in the shapes of the request."""
    path = request.file
    model = parse(path)
    graph = model.Subgraphs(0)
    names = [tensor_name(graph, i) for i in graph.InputsAsNumpy()]
    outputs = [tensor_name(graph, i) for i in graph.OutputsAsNumpy()]
    nodes = [(operator_name(model, graph.Operators(i)), result_name(graph, i)) for i in range(graph.OperatorsLength())]
    shapes = wanted_shapes(request, graph, names)
    module = translate(model, shapes, nodes, changed=bool(shapes))
    return of_frontend(module, names, outputs, nodes)


def parse(path: str) -> tflite.Model:
    """Opens the file and walks it once."""
    try:
        files.require_regular(path, files.LARGEST_MESSAGE, "a TFLite file")
        with open(path, "rb") as file:
            content = file.read()
    except OSError as error:
        raise ImportFailure("missing_file", f"{path}: {error.strerror or error}", path=path) from error
    if content[4:8] != IDENTIFIER:
        raise corrupt(path, "it does not begin with the mark TFL3")
    try:
        model = tflite.Model.GetRootAs(content, 0)
        walk(path, model)
    # Offsets of a damaged file may be out of bounds, and readers made from a schema check none of them.
    except (struct.error, IndexError, ValueError, TypeError, AttributeError, OverflowError, MemoryError) as error:
        raise corrupt(path, first_line(error)) from error
    return model


def walk(path: str, model: tflite.Model) -> None:
    """Looks at every tensor and operator of the first subgraph."""
    if model.SubgraphsLength() < 1:
        raise corrupt(path, "it holds no graph")
    graph = model.Subgraphs(0)
    count = graph.TensorsLength()
    for i in range(count):
        check_tensor(path, model, graph.Tensors(i))
    for i in range(graph.OperatorsLength()):
        operator = graph.Operators(i)
        if not 0 <= operator.OpcodeIndex() < model.OperatorCodesLength():
            raise corrupt(path, f"operator {i} names a code that is not in its table")
        used = [*numbers(operator.InputsAsNumpy()), *numbers(operator.OutputsAsNumpy())]
        if any(not -1 <= t < count for t in used):
            raise corrupt(path, f"operator {i} names a tensor that is not there")
    ends = [*numbers(graph.InputsAsNumpy()), *numbers(graph.OutputsAsNumpy())]
    if graph.OutputsLength() < 1 or graph.OperatorsLength() < 1:
        raise corrupt(path, "its graph computes nothing")
    if any(not 0 <= t < count for t in ends):
        raise corrupt(path, "its inputs or outputs name a tensor that is not there")


def numbers(vector: object) -> list[int]:
    """A vector of a flatbuffer, which is the number 0 where it is absent."""
    return [int(v) for v in vector] if isinstance(vector, np.ndarray) else []


def check_tensor(path: str, model: tflite.Model, tensor: tflite.Tensor) -> None:
    """A tensor's shape, after a check that the number of its values fits."""
    name = tensor.Name().decode("utf-8", "replace")
    shape = numbers(tensor.ShapeAsNumpy())
    size = math.prod(shape)
    if any(d < 0 for d in shape) or size > LARGEST_TENSOR:
        raise corrupt(path, f"tensor '{name}' has the shape {shape}")
    if not 0 <= tensor.Buffer() < model.BuffersLength():
        raise corrupt(path, f"tensor '{name}' names a buffer that is not there")
    values = model.Buffers(tensor.Buffer()).DataAsNumpy()
    width = WIDTHS.get(tensor.Type())
    # A sparse tensor stores fewer values than its shape has; DENSIFY fills in the others.
    dense = tensor.Sparsity() is None
    if dense and isinstance(values, np.ndarray) and values.size and width and values.size != size * width:
        raise corrupt(path, f"tensor '{name}' of shape {shape} has {values.size} bytes instead of {size * width}")


def tensor_name(graph: tflite.SubGraph, number: int) -> str:
    """A tensor's name, as the frontend calls it."""
    return tflite_frontend.get_tensor_name(graph, int(number))


def result_name(graph: tflite.SubGraph, operator: int) -> str:
    """A name for an operator, which has none of its own: its first result."""
    outputs = numbers(graph.Operators(operator).OutputsAsNumpy())
    return tensor_name(graph, outputs[0]) if outputs else f"operator {operator}"


def operator_name(model: tflite.Model, operator: tflite.Operator) -> str:
    """The operator's type; of a custom one the name that its maker gave it."""
    code = model.OperatorCodes(operator.OpcodeIndex())
    number = max(code.BuiltinCode(), code.DeprecatedBuiltinCode())
    if number == CUSTOM:
        return (code.CustomCode() or b"CUSTOM").decode("utf-8", "replace")
    return BUILTIN.get(number, f"operator {number}")


def wanted_shapes(request: Request, graph: tflite.SubGraph, names: list[str]) -> dict[str, tuple[int, ...]]:
    """The shapes of inputs that the request changes."""
    if request.seqlen is not None:
        raise bad_shape(
            f"{request.model}: a TFLite file has no sequence dimension for --seqlen; give --input NAME:SHAPE"
        )
    declared = dict(zip(names, (tuple(numbers(graph.Tensors(i).ShapeAsNumpy())) for i in graph.InputsAsNumpy())))
    shapes = {}
    for given in request.inputs:
        if given.name not in declared:
            raise ImportFailure(
                "unknown_input",
                f"the model has no input '{given.name}' (inputs: {', '.join(names)})",
                name=given.name,
                inputs=names,
            )
        if len(given.shape) != len(declared[given.name]):
            raise bad_shape(f"input '{given.name}' has {len(declared[given.name])} dimensions")
        if given.dtype is not None:
            raise bad_shape(f"input '{given.name}': the element types of a TFLite file cannot be changed")
        shapes[given.name] = tuple(given.shape)
    if request.batch is not None:
        for name, shape in declared.items():
            if shape and name not in shapes:
                shapes[name] = (request.batch, *shape[1:])
    return {name: shape for name, shape in shapes.items() if shape != declared[name]}


class Converter(tflite_frontend.OperatorConverter):
    """The frontend, remembering the operator that it is at."""

    at = 0

    def get_op_code_str(self, op) -> str:
        """The operator's name; called for each operator before it is translated."""
        Converter.at = op._tab.Pos  # noqa: SLF001 - the only identity of a flatbuffer's table
        return super().get_op_code_str(op)

    def get_tensors(self, tensors_idx_list) -> list:
        """Tensors with their scales; for a single scale the axis has no meaning, and files differ in it."""
        tensors = super().get_tensors(tensors_idx_list)
        for tensor in tensors:
            if tensor.qnn_params and tensor.qnn_params["scale"].value.numpy().size == 1:
                tensor.qnn_params["axis"] = 0
        return tensors


def translate(model: tflite.Model, shapes: dict, nodes: list[tuple[str, str]], changed: bool):
    """The frontend's module."""
    graph = model.Subgraphs(0)
    known = Converter(model, graph, tflite_frontend.ExprTable(), None).convert_map
    for op, label in nodes:
        if op not in known:
            raise refusal(op, label, "TVM's frontend has no rule for it")
    places = {graph.Operators(i)._tab.Pos: node for i, node in enumerate(nodes)}  # noqa: SLF001
    talk = io.StringIO()
    try:
        with warnings.catch_warnings(), contextlib.redirect_stdout(talk):
            warnings.simplefilter("ignore")
            return from_tflite(model, shape_dict=shapes, op_converter=Converter)
    # The frontend raises TVM errors, assertions and Python errors alike; each means that an operator has no translation.
    except Exception as error:  # noqa: BLE001
        print(talk.getvalue(), file=sys.stderr)
        op, label = places.get(Converter.at, nodes[0])
        failure = refusal(op, label, first_line(error))
        if changed:
            raise bad_shape(f"the model does not work with the shapes that were given: {failure}") from error
        raise failure from error


def refusal(op: str, label: str, reason: str) -> ImportFailure:
    """An operator that cannot be translated."""
    return unsupported(
        op,
        label,
        f"operator {op} (result '{label}') cannot be imported: {reason}; cut the model around it, or convert it to "
        "ONNX and use --modelsource onnx",
    )
