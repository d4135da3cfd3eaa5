"""A random ONNX model under construction: tensors of random shapes, and the nodes that read them."""

from __future__ import annotations

import numpy as np
import onnx
from onnx import helper, numpy_helper

OPSETS = range(7, 24)
FLOAT, INT64, INT32, BOOL, UINT8, INT8 = "float32", "int64", "int32", "bool", "uint8", "int8"


class Invalid(Exception):
    """The operator set does not have what was drawn."""


class Draw:
    """A model under construction and the numbers that it is made from."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.opset = int(self.rng.choice(OPSETS))
        self.nodes: list[onnx.NodeProto] = []
        self.inputs: dict[str, tuple[tuple[int, ...], str]] = {}
        self.weights: list[onnx.TensorProto] = []
        self.known: dict[str, tuple[tuple[int, ...], str]] = {}
        self.read: set[str] = set()

    def pick(self, *choices):
        """One of several things."""
        return choices[int(self.rng.integers(len(choices)))]

    def size(self, low: int = 1, high: int = 7) -> int:
        """A size between two bounds, both included."""
        return int(self.rng.integers(low, high + 1))

    def shape(self, rank: int | None = None, low: int = 1, high: int = 6) -> tuple[int, ...]:
        """A random shape."""
        rank = self.size(1, 4) if rank is None else rank
        return tuple(self.size(low, high) for _ in range(rank))

    def maybe(self, share: float = 0.5) -> bool:
        """Whether something rare happens."""
        return bool(self.rng.random() < share)

    def some(self, **options) -> dict:
        """A random half of some attributes."""
        return {name: value for name, value in options.items() if self.maybe(0.6)}

    def data(self, shape: tuple[int, ...] | None = None, dtype: str = FLOAT) -> tuple[str, tuple[int, ...]]:
        """A tensor to work on: an earlier result that fits, else an input of the model."""
        fitting = [n for n, (s, t) in self.known.items() if t == dtype and (shape is None and 0 < len(s) < 5 or s == shape)]
        if fitting and self.maybe(0.8):
            name = self.pick(*fitting)
            self.read.add(name)
            return name, self.known[name][0]
        shape = self.shape() if shape is None else shape
        name = f"x{len(self.inputs)}"
        self.inputs[name] = (shape, dtype)
        return name, shape

    def image(self, spatial: int | None = None, channels: int | None = None) -> tuple[str, tuple[int, ...]]:
        """A batch of images, or of signals or volumes."""
        spatial = self.pick(1, 2, 2, 2, 3) if spatial is None else spatial
        fitting = [
            n for n, (s, t) in self.known.items() if t == FLOAT and len(s) == spatial + 2 and channels in (None, s[1]) and min(s[2:]) > 3
        ]
        if fitting and self.maybe(0.8):
            name = self.pick(*fitting)
            self.read.add(name)
            return name, self.known[name][0]
        return self.data((self.size(1, 2), channels or self.size(1, 6), *self.shape(spatial, 4, 9)))

    def weight(self, shape: tuple[int, ...], dtype: str = FLOAT, scale: float = 0.5) -> str:
        """A given tensor of random values."""
        if dtype == FLOAT:
            value = (self.rng.standard_normal(shape) * scale).astype(np.float32)
        else:
            info = np.iinfo(dtype)
            value = self.rng.integers(info.min, info.max + 1, shape).astype(dtype)
        return self.given(value)

    def given(self, value: object, dtype: str | None = None) -> str:
        """A given tensor."""
        name = f"w{len(self.weights)}"
        self.weights.append(numpy_helper.from_array(np.asarray(value, dtype=dtype), name))
        return name

    def schema(self, op: str) -> onnx.defs.OpSchema:
        """What the operator set says of an operator."""
        try:
            return onnx.defs.get_schema(op, self.opset, "")
        except onnx.defs.SchemaError as error:
            raise Invalid(op) from error

    def node(self, op: str, inputs: list[str], outputs: int = 1, domain: str = "", **options) -> list[str]:
        """Adds an operator. Options that are no attributes of it in this operator set become inputs behind the others, in
        their order; ``None`` leaves such an input empty."""
        names = [f"v{len(self.nodes)}_{i}" for i in range(outputs)]
        attributes = self.schema(op).attributes if domain == "" else options
        inputs = list(inputs)
        formal = [i.name for i in self.schema(op).inputs] if domain == "" else []
        for name, value in options.items():
            if name in attributes or value is None:
                continue
            if name not in formal:
                raise Invalid(f"{op} has no {name}")
            place = formal.index(name)
            inputs += [""] * (place + 1 - len(inputs))
            inputs[place] = self.given(value)
        kept = {n: v.tolist() if isinstance(v, np.ndarray) else v for n, v in options.items() if n in attributes and v is not None}
        while inputs and not inputs[-1]:
            inputs.pop()
        self.nodes.append(helper.make_node(op, inputs, names, name=f"{op}_{len(self.nodes)}", domain=domain, **kept))
        return names

    def learn(self) -> None:
        """Notes the types of the last operator's results, where ONNX can tell."""
        inferred = onnx.shape_inference.infer_shapes(self.model([]), data_prop=True)
        types = {v.name: v.type.tensor_type for v in inferred.graph.value_info}
        for name in self.nodes[-1].output:
            found = types.get(name)
            if found is not None and all(d.HasField("dim_value") for d in found.shape.dim):
                shape = tuple(d.dim_value for d in found.shape.dim)
                self.known[name] = (shape, helper.tensor_dtype_to_np_dtype(found.elem_type).name)

    def model(self, outputs: list[str]) -> onnx.ModelProto:
        """The model so far."""
        inputs = [
            helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(np.dtype(t)), s) for n, (s, t) in self.inputs.items()
        ]
        results = [onnx.ValueInfoProto(name=name) for name in outputs]
        graph = helper.make_graph(self.nodes, "random", inputs, results, self.weights)
        domains = {n.domain for n in self.nodes if n.domain}
        opsets = [helper.make_opsetid("", self.opset), *(helper.make_opsetid(d, 1) for d in domains)]
        return helper.make_model(graph, opset_imports=opsets, ir_version=8)

    def finished(self) -> onnx.ModelProto:
        """The model with everything that nothing reads as its outputs."""
        read = {name for node in self.nodes for name in node.input}
        outputs = [o for node in self.nodes for o in node.output if o not in read]
        model = self.model(outputs)
        inferred = onnx.shape_inference.infer_shapes(model, data_prop=True)
        typed = {o.name: o for o in inferred.graph.output}
        for output in model.graph.output:
            if typed[output.name].type.HasField("tensor_type"):
                output.CopyFrom(typed[output.name])
        return model
