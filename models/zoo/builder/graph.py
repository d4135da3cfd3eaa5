"""A small mutable form of an ONNX graph, and constant folding over it.

Owns the split of tensors into weights (named parameters of the torch model, and whatever folding
makes of them) and constants (shapes, indices, scalars), and the way in from a ModelProto. Does not
know any model; rewriting lives in passes.py.
"""

import warnings
from collections import Counter

import numpy as np
import onnx
from onnx import helper, numpy_helper, shape_inference
from onnx.reference import ReferenceEvaluator

# Operators through which a weight stays a weight when all else is constant.
WEIGHT_OPS = {"Transpose", "Slice", "Concat", "Unsqueeze", "Squeeze", "Reshape", "Gather"}


class ZooError(Exception):
    """A model cannot be brought into the zoo's form; says which and why."""


class Graph:
    """Nodes in topological order plus tensors by name.

    `weights` maps a tensor's name to its values, `origins` to the torch parameters it was made of.
    """

    def __init__(self, model, parameter_names):
        graph = model.graph
        self.opset = model.opset_import[0].version
        self.inputs = list(graph.input)
        self.outputs = [value.name for value in graph.output]
        self.nodes = list(graph.node)
        self.weights = {}
        self.origins = {}
        self.constants = {}
        for tensor in graph.initializer:
            array = numpy_helper.to_array(tensor)
            if tensor.name in parameter_names:
                self.weights[tensor.name] = array
                self.origins[tensor.name] = (tensor.name,)
            else:
                self.constants[tensor.name] = array
        self.shapes = {}

    def users(self):
        """How many node inputs and graph outputs read each tensor."""
        counts = Counter(self.outputs)
        for node in self.nodes:
            counts.update(name for name in node.input if name)
        return counts

    def producer(self, name):
        """The node that computes `name`, or None for inputs, weights and constants."""
        return next((node for node in self.nodes if name in node.output), None)

    def replace(self, old, new):
        """Let every reader of tensor `old` read `new` instead."""
        for node in self.nodes:
            for index, name in enumerate(node.input):
                if name == old:
                    node.input[index] = new
        self.outputs = [new if name == old else name for name in self.outputs]

    def remove(self, nodes):
        """Take nodes out, by identity."""
        gone = {id(node) for node in nodes}
        self.nodes = [node for node in self.nodes if id(node) not in gone]

    def prune(self):
        """Drop nodes whose results are not read, then tensors that are not read."""
        while True:
            users = self.users()
            dead = [node for node in self.nodes if not any(users[out] for out in node.output)]
            if not dead:
                break
            self.remove(dead)
        self.weights = {name: array for name, array in self.weights.items() if users[name]}
        self.constants = {name: array for name, array in self.constants.items() if users[name]}

    def infer_shapes(self):
        """Static shapes of all tensors, as far as ONNX can tell, into `self.shapes`."""
        tensors = {**self.weights, **self.constants}
        # Values matter to inference only for small integers (shapes); weights go in by type alone.
        small = [numpy_helper.from_array(array, name) for name, array in self.constants.items()]
        typed = [
            helper.make_tensor_value_info(
                name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape
            )
            for name, array in self.weights.items()
        ]
        outputs = [onnx.ValueInfoProto(name=name) for name in self.outputs]
        graph = helper.make_graph(self.nodes, "shapes", self.inputs + typed, outputs, small)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", self.opset)])
        inferred = shape_inference.infer_shapes(model, data_prop=True).graph
        self.shapes = {name: tuple(array.shape) for name, array in tensors.items()}
        for value in [*inferred.input, *inferred.value_info, *inferred.output]:
            dims = value.type.tensor_type.shape.dim
            if value.type.tensor_type.HasField("shape") and all(
                dim.HasField("dim_value") for dim in dims
            ):
                self.shapes[value.name] = tuple(dim.dim_value for dim in dims)

    def evaluate(self, node):
        """The outputs of a node whose inputs are all known."""
        known = {name: self.tensor(name) for name in node.input if name}
        inputs = [
            helper.make_tensor_value_info(
                name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape
            )
            for name, array in known.items()
        ]
        outputs = [onnx.ValueInfoProto(name=name) for name in node.output]
        graph = helper.make_graph([node], "one", inputs, outputs)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", self.opset)])
        return ReferenceEvaluator(model).run(None, known)

    def tensor(self, name):
        """The values of a constant or weight."""
        return self.constants[name] if name in self.constants else self.weights[name]

    def known(self, name):
        """Whether `name` is a constant or a weight."""
        return name in self.constants or name in self.weights

    def add_weight(self, name, values, origins):
        """A weight made of torch parameters `origins`."""
        if name in self.weights:
            raise ZooError(f"two weights would be called {name}")
        self.weights[name] = values
        self.origins[name] = tuple(origins)


def fold(graph):
    """Compute all that does not depend on the inputs: constants, shapes, rearranged weights."""
    while _fold_once(graph):
        pass
    graph.prune()


def _fold_once(graph):
    graph.infer_shapes()
    changed = False
    for node in list(graph.nodes):
        if node.op_type in ("Identity", "Dropout"):
            if node.input[0] in graph.weights:
                raise ZooError(f"weight {node.input[0]} has an alias: equal tensors were merged")
            graph.replace(node.output[0], node.input[0])
            graph.remove([node])
            changed = True
        elif node.op_type == "Constant":
            value = next(iter(node.attribute)).t
            graph.constants[node.output[0]] = numpy_helper.to_array(value)
            graph.remove([node])
            changed = True
        elif node.op_type == "Shape":
            shape = graph.shapes.get(node.input[0])
            if shape is not None:
                graph.constants[node.output[0]] = np.array(shape, np.int64)
                graph.remove([node])
                changed = True
        elif all(graph.known(name) for name in node.input if name):
            changed |= _fold_node(graph, node)
    return changed


def _fold_node(graph, node):
    origins = []
    for name in node.input:
        origins += [origin for origin in graph.origins.get(name, ()) if origin not in origins]
    if origins and node.op_type not in WEIGHT_OPS:
        return False
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        values = graph.evaluate(node)
    for name, array in zip(node.output, values, strict=True):
        if origins:
            graph.add_weight(name, np.ascontiguousarray(array), origins)
        else:
            graph.constants[name] = np.asarray(array)
    graph.remove([node])
    return True
