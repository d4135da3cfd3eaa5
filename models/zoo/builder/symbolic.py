"""From two traces with different sizes to one graph with symbolic batch and sequence length.

Owns the comparison of the traces (whatever differs must depend on a symbol) and the ModelProto that
is written: true inputs first, then weights as inputs without values. Format: ONNX, opset 17.
"""

import json

import numpy as np
from onnx import TensorProto, helper, numpy_helper

from .definitions import LICENCES, library_version
from .graph import ZooError

IR_VERSION = 8
LARGEST_CONSTANT = 64  # elements; anything larger is a weight that lost its name


class SymbolicModel:
    """The serialisable graph and, for verification, the weights' values.

    `weight_shapes` may hold symbols; such a weight's values are those of the larger trace.
    """

    def __init__(self, definition, small, large, small_sizes, large_sizes):
        self.definition = definition
        self.symbols = {(small_sizes[name], large_sizes[name]): name for name in ("batch", "seq")}
        _same_structure(small, large)
        self.graph = large
        self.weights = large.weights
        self.weight_shapes = {
            name: self._shape(small.weights[name].shape, array.shape, name)
            for name, array in large.weights.items()
        }
        self.output_shapes = [
            self._shape(small.shapes[name], large.shapes[name], name) for name in large.outputs
        ]
        self._generalise_constants(small, large)

    def _shape(self, small, large, what):
        dims = []
        for a, b in zip(small, large, strict=True):
            if a != b and (a, b) not in self.symbols:
                raise ZooError(f"{what}: extent {a} or {b} is neither batch nor sequence length")
            dims.append(a if a == b else self.symbols[a, b])
        return tuple(dims)

    def _generalise_constants(self, small, large):
        for name, array in large.constants.items():
            other = small.constants[name]
            if array.size > LARGEST_CONSTANT:
                raise ZooError(f"constant {name} has {array.size} elements")
            if other.shape == array.shape and np.array_equal(other, array):
                continue
            readers = [node for node in large.nodes if name in node.input]
            if any(node.op_type != "Reshape" for node in readers):
                raise ZooError(f"{readers[0].name} ({readers[0].op_type}) depends on the sizes")
            shapes = {tuple(_reshape_target(node, name, small, large)) for node in readers}
            if len(shapes) != 1:
                raise ZooError(f"{readers[0].name}: readers of {name} need different shapes")
            large.constants[name] = np.array(shapes.pop(), np.int64)

    def proto(self):
        """The model without weights, deterministic to the byte."""
        definition = self.definition
        inputs = [
            _value(spec.name, TensorProto.DataType.Value(_onnx_type(spec.dtype)), spec.shape)
            for spec in definition.inputs
        ]
        ordered = []
        for node in self.graph.nodes:
            ordered += [n for n in node.input if n in self.weights and n not in ordered]
        inputs += [_value(name, TensorProto.FLOAT, self.weight_shapes[name]) for name in ordered]
        outputs = [
            _value(name, TensorProto.FLOAT, shape)
            for name, shape in zip(self.graph.outputs, self.output_shapes, strict=True)
        ]
        constants = [
            numpy_helper.from_array(np.ascontiguousarray(array).reshape(array.shape), name)
            for name, array in self.graph.constants.items()
        ]
        for node in self.graph.nodes:
            node.ClearField("doc_string")
            attributes = sorted(node.attribute, key=lambda entry: entry.name)
            del node.attribute[:]
            node.attribute.extend(attributes)
        graph = helper.make_graph(self.graph.nodes, definition.name, inputs, outputs, constants)
        model = helper.make_model(
            graph,
            opset_imports=[helper.make_opsetid("", self.graph.opset)],
            ir_version=IR_VERSION,
            producer_name="opbench-zoo",
        )
        helper.set_model_props(
            model,
            {
                "opbench.inputs": json.dumps([spec.name for spec in definition.inputs]),
                "opbench.origin": f"{definition.library} {library_version(definition.library)}: "
                f"{definition.constructor}",
                "opbench.licence": LICENCES[definition.library],
            },
        )
        return model

    def feeds(self, sizes):
        """Values of all weights for the given sizes; symbolic ones are cut to length."""
        values = {}
        for name, array in self.weights.items():
            cut = tuple(
                slice(0, sizes[dim]) if isinstance(dim, str) else slice(None)
                for dim in self.weight_shapes[name]
            )
            values[name] = np.ascontiguousarray(array[cut])
        return values


def _same_structure(small, large):
    def form(graph):
        return [
            (node.op_type, list(node.input), list(node.output), str(node.attribute))
            for node in graph.nodes
        ]

    for a, b in zip(form(small), form(large), strict=True):
        if a != b:
            raise ZooError(f"the traces differ in structure: {a} against {b}")


def _reshape_target(node, name, small, large):
    """A Reshape's target with 0 (copy) or -1 (the rest) where the two traces differ."""
    target, rest = [], 0
    pairs = zip(small.constants[name].tolist(), large.constants[name].tolist(), strict=True)
    for index, (a, b) in enumerate(pairs):
        source = tuple(graph.shapes[node.input[0]][index : index + 1] for graph in (small, large))
        if a == b:
            target.append(a)
            rest += a == -1
        elif source == ((a,), (b,)):
            target.append(0)
        else:
            target.append(-1)
            rest += 1
    if rest > 1:
        raise ZooError(f"{node.name}: more than one extent of the reshape is unknown")
    return target


def _onnx_type(dtype):
    return {"float32": "FLOAT", "int64": "INT64"}[dtype]


def _value(name, elem_type, shape):
    return helper.make_tensor_value_info(name, elem_type, list(shape))
