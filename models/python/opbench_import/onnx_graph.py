"""An ONNX graph held so that rewriting it is easy: nodes, true inputs, given tensors and known types.

Owns conversion from and to ``ModelProto`` and shape inference. Rewrites live in modules of their own (``fold``,
``simplify``, ``normalise``, ``recurrent``); they change ``nodes`` and ``params`` in place.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from .errors import ImportFailure
from .params import Param

SMALL_BYTES = 1024
"""Integer tensors below this stay inside the graph as constants: they are shapes, axes and indices, not weights."""

# Inputs that the converter must see as values, whatever their element type.
VALUE_INPUTS = {
    "Clip": {1, 2},
    "Pad": {1, 2, 3},
    "Resize": {1, 2, 3},
    "Upsample": {1},
    "OneHot": {1, 2},
    "Range": {0, 1, 2},
    "Reshape": {1},
    "Expand": {1},
    "Tile": {1},
    "Slice": {1, 2, 3, 4},
    "Split": {1},
    "Squeeze": {1},
    "Unsqueeze": {1},
    "ConstantOfShape": {0},
    "QuantizeLinear": {1, 2},
    "DequantizeLinear": {1, 2},
    "TopK": {1},
    "ReduceSum": {1},
    "STFT": {1, 3},
    "Col2Im": {1, 2},
}


@dataclass
class TensorSpec:
    """A true input; ``dims`` holds a number, a symbol, or None if the file has neither."""

    dims: list[int | str | None]
    dtype: str
    ranked: bool = True
    """Whether the file says how many dimensions there are."""

    @property
    def shape(self) -> tuple[int, ...]:
        """The dimensions once all are numbers."""
        return tuple(int(d) for d in self.dims)


@dataclass
class OnnxGraph:
    """The graph under rewriting. ``types`` maps value names to (shape, dtype) after ``infer``."""

    nodes: list[onnx.NodeProto]
    inputs: dict[str, TensorSpec]
    params: dict[str, Param]
    outputs: list[str]
    opset: int
    domains: list[tuple[str, int]] = field(default_factory=list)
    open_params: dict[str, TensorSpec] = field(default_factory=dict)
    """Weights without values whose shape depends on a symbol; binding moves them to ``params``."""
    types: dict[str, tuple[tuple[int, ...], str]] = field(default_factory=dict)
    declared_opset: int = 0
    """Operator set of the file, before it was converted; ``opset`` if there is no file."""
    declared_nodes: list[str] = field(default_factory=list)
    """Operators of the file, before anything was rewritten."""
    runtime: set[str] = field(default_factory=set)
    """Given tensors that folding must treat as run-time values (initial states of recurrent layers)."""
    counter: int = 0

    def __post_init__(self) -> None:
        self.declared_opset = self.declared_opset or self.opset

    def fresh(self, stem: str) -> str:
        """A value name not used before."""
        self.counter += 1
        return f"{stem}__{self.counter}"

    def add_param(self, stem: str, param: Param) -> str:
        """Adds a given tensor under a fresh name (or under ``stem`` itself while that is free)."""
        name = stem if stem not in self.params and stem not in self.inputs else self.fresh(stem)
        self.params[name] = param
        self.types[name] = (param.shape, param.dtype)
        return name

    def consumers(self) -> dict[str, list[onnx.NodeProto]]:
        """Nodes by the value that they read; graph outputs count as a reader named by an empty node."""
        readers: dict[str, list[onnx.NodeProto]] = {}
        for node in self.nodes:
            for name in node.input:
                if name:
                    readers.setdefault(name, []).append(node)
        for name in self.outputs:
            readers.setdefault(name, []).append(onnx.NodeProto())
        return readers

    def shape(self, name: str) -> tuple[int, ...] | None:
        """Static shape of a value, or None."""
        if name in self.params:
            return self.params[name].shape
        known = self.types.get(name)
        return known[0] if known else None

    def dtype(self, name: str) -> str | None:
        """Element type of a value, or None."""
        if name in self.params:
            return self.params[name].dtype
        known = self.types.get(name)
        return known[1] if known else None

    def value(self, name: str) -> np.ndarray | None:
        """The value of a given tensor, or None."""
        param = self.params.get(name)
        return None if param is None else param.value

    def rename_uses(self, old: str, new: str) -> None:
        """Makes every reader of ``old`` read ``new``; graph outputs keep their names."""
        for node in self.nodes:
            for i, name in enumerate(node.input):
                if name == old:
                    node.input[i] = new

    def drop_unused(self) -> None:
        """Removes nodes and given tensors that no output needs."""
        needed = set(self.outputs)
        kept = []
        for node in reversed(self.nodes):
            if any(o in needed for o in node.output):
                kept.append(node)
                needed.update(i for i in node.input if i)
                needed.update(captured(node))
        self.nodes = kept[::-1]
        self.params = {k: v for k, v in self.params.items() if k in needed}

    def drop_unread_inputs(self) -> None:
        """Removes inputs that nothing reads: their types or shapes alone were of use."""
        read = {name for node in self.nodes for name in (*node.input, *captured(node))} | set(self.outputs)
        self.inputs = {name: spec for name, spec in self.inputs.items() if name in read}

    def inline_names(self) -> set[str]:
        """Given tensors that stay inside the graph as constants."""
        must = set()
        for node in self.nodes:
            for i in VALUE_INPUTS.get(node.op_type, ()):
                if i < len(node.input):
                    must.add(node.input[i])
        names = set()
        for name, param in self.params.items():
            if param.value is None:
                continue
            small_integers = not param.is_float and param.value.nbytes <= SMALL_BYTES
            if name in must or small_integers or param.size == 1 and len(param.shape) == 0:
                names.add(name)
        return names

    def to_proto(self) -> onnx.ModelProto:
        """The graph as a model whose weights are inputs without values."""
        inline = self.inline_names()
        inputs = [value_info(n, s.shape, s.dtype) for n, s in self.inputs.items()]
        inputs += [value_info(n, p.shape, p.dtype) for n, p in self.params.items() if n not in inline]
        initializers = [
            numpy_helper.from_array(np.ascontiguousarray(self.params[n].value).reshape(self.params[n].shape), n)
            for n in self.params
            if n in inline
        ]
        outputs = [helper.make_empty_tensor_value_info(n) for n in self.outputs]
        for info in outputs:
            known = self.types.get(info.name)
            if known:
                info.CopyFrom(value_info(info.name, known[0], known[1]))
        graph = helper.make_graph(self.nodes, "model", inputs, outputs, initializers)
        opsets = [helper.make_opsetid(d, v) for d, v in self.domains if d not in ("", "ai.onnx")]
        opsets.append(helper.make_opsetid("", self.opset))
        return helper.make_model(graph, opset_imports=opsets, ir_version=8)

    def infer(self) -> None:
        """Recomputes ``types`` by ONNX shape inference; raises ``ImportFailure`` (bad_shape) on a contradiction."""
        # A stale output type would be taken as a fact and clash with newly bound dimensions.
        self.types = {}
        try:
            inferred = onnx.shape_inference.infer_shapes(self.to_proto(), strict_mode=True, data_prop=True)
        except onnx.shape_inference.InferenceError as error:
            raise ImportFailure("bad_shape", f"shapes do not fit together: {first_line(error)}") from error
        for info in (*inferred.graph.value_info, *inferred.graph.output, *inferred.graph.input):
            spec = static_type(info)
            if spec is not None:
                self.types[info.name] = spec
        for name, param in self.params.items():
            self.types[name] = (param.shape, param.dtype)


def captured(node: onnx.NodeProto) -> set[str]:
    """Names that the subgraphs of a node mention, outer values among them."""
    names: set[str] = set()
    for attribute in node.attribute:
        if attribute.type == onnx.AttributeProto.GRAPH:
            names.update(o.name for o in attribute.g.output)
            for inner in attribute.g.node:
                names.update(inner.input)
                names.update(captured(inner))
    return names


def first_line(error: Exception) -> str:
    """The part of a library's error that describes the fault."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0] if lines else type(error).__name__


def dtype_name(elem_type: int) -> str:
    """NumPy's name of an ONNX element type."""
    if elem_type == TensorProto.BFLOAT16:
        return "bfloat16"
    return helper.tensor_dtype_to_np_dtype(elem_type).name


def value_info(name: str, shape: tuple[int, ...], dtype: str) -> onnx.ValueInfoProto:
    """A typed value declaration."""
    elem = TensorProto.BFLOAT16 if dtype == "bfloat16" else helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    return helper.make_tensor_value_info(name, elem, list(shape))


def static_type(info: onnx.ValueInfoProto) -> tuple[tuple[int, ...], str] | None:
    """(shape, dtype) of a declaration when all its dimensions are numbers."""
    tensor = info.type.tensor_type
    if not info.type.HasField("tensor_type") or not tensor.HasField("shape"):
        return None
    dims = []
    for dim in tensor.shape.dim:
        if not dim.HasField("dim_value"):
            return None
        dims.append(dim.dim_value)
    return tuple(dims), dtype_name(tensor.elem_type)


def attributes(node: onnx.NodeProto) -> dict:
    """Attribute values by name; strings decoded."""
    values = {}
    for attribute in node.attribute:
        value = helper.get_attribute_value(attribute)
        values[attribute.name] = value.decode() if isinstance(value, bytes) else value
    return values


def set_attribute(node: onnx.NodeProto, name: str, value: object) -> None:
    """Sets or replaces one attribute; None removes it."""
    kept = [a for a in node.attribute if a.name != name]
    del node.attribute[:]
    node.attribute.extend(kept)
    if value is not None:
        node.attribute.append(helper.make_attribute(name, value))


def chain(graph: OnnxGraph, start: onnx.NodeProto, readers: dict) -> Iterator[onnx.NodeProto]:
    """The nodes after ``start`` while each value has exactly one reader."""
    current = start
    while len(current.output) >= 1:
        users = readers.get(current.output[0], [])
        if len(users) != 1 or not users[0].op_type:
            return
        current = users[0]
        yield current
