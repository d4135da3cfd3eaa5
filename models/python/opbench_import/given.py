"""Weights of a Relax module that holds them as constants: they become parameters, as an ONNX file's do.

What is computed from constants alone is computed here. A change of shape or order behind a dequantisation moves in
front of it, so that an 8-bit weight stays one.
"""

from __future__ import annotations

import numpy as np

import tvm
from tvm import relax

from .onnx_graph import SMALL_BYTES
from .params import Param, dequantized, with_value
from .rebuild import Rebuilder, constant_value, op_name, shape_of

MOVES = ("relax.permute_dims", "relax.reshape", "relax.expand_dims", "relax.squeeze")
PAIRWISE = {
    "relax.add": np.add,
    "relax.subtract": np.subtract,
    "relax.multiply": np.multiply,
    "relax.divide": np.divide,
}


def is_weight(value: np.ndarray) -> bool:
    """Whether a constant is data, not a setting such as an axis or a scale."""
    if value.ndim == 0:
        return False
    return value.size > 16 if value.dtype.kind == "f" else value.nbytes > SMALL_BYTES or value.ndim > 1


def moved(call: relax.Call, value: np.ndarray) -> np.ndarray:
    """A constant in another order or shape."""
    if op_name(call) == "relax.permute_dims":
        axes = call.attrs.axes
        return value.transpose([int(a) for a in axes] if axes is not None else None)
    return value.reshape(shape_of(call))


def moved_axis(call: relax.Call, axis: int) -> int | None:
    """The position of an axis after a change of order or shape; None if it was split."""
    before, after = shape_of(call.args[0]), shape_of(call)
    axis %= len(before)
    if op_name(call) == "relax.permute_dims":
        axes = [int(a) for a in call.attrs.axes] if call.attrs.axes is not None else list(range(len(before)))[::-1]
        return axes.index(axis)
    steps = np.prod(before[axis + 1 :], dtype=np.int64)
    candidates = (i for i, d in enumerate(after) if d == before[axis] and np.prod(after[i + 1 :]) == steps)
    return next(candidates, None)


class Lifter(Rebuilder):
    """Collects weights in ``self.weights``, by the names of the parameters that they become."""

    def __init__(self, module: tvm.IRModule) -> None:
        super().__init__(module)
        self.weights: dict[str, Param] = {}
        self.variables: dict = {}
        self.dequantised: dict = {}

    def call(self, call: relax.Call, args: list) -> relax.Expr:
        """A constant where the arguments are constants, else the call over parameters."""
        name = op_name(call)
        if name in MOVES and args[0] in self.dequantised:
            behind = self.behind(call, self.dequantised[args[0]])
            if behind is not None:
                return behind
        values = [constant_value(a) for a in args[: 1 if name in MOVES else None]]
        if name and values and all(v is not None for v in values):
            folded = self.folded(name, call, values)
            if folded is not None:
                return relax.const(folded, str(folded.dtype))
        if name == "relax.dequantize" and all(v is not None for v in values):
            made = self.builder.emit(super().call(call, [self.lifted(args[0]), *args[1:]]))
            self.dequantised[made] = (values[0], args[1], args[2], int(call.attrs.axis))
            return made
        return super().call(call, [self.lifted(a) for a in args])

    def behind(self, call: relax.Call, source: tuple) -> relax.Expr | None:
        """The dequantisation of the moved weight; None if its scales run along a split axis."""
        value, scale, zero, axis = source
        place = 0 if constant_value(scale).size == 1 else moved_axis(call, axis)
        if place is None:
            return None
        weight = relax.const(np.ascontiguousarray(moved(call, value)), str(value.dtype))
        made = self.builder.emit(relax.op.dequantize(self.lifted(weight), scale, zero, axis=place))
        self.dequantised[made] = (weight.value.numpy(), scale, zero, place)
        return made

    def folded(self, name: str, call: relax.Call, values: list[np.ndarray]) -> np.ndarray | None:
        """The value of a call over constants; None for calls that stay."""
        if name in MOVES:
            return np.ascontiguousarray(moved(call, values[0]))
        if name in PAIRWISE:
            return PAIRWISE[name](*values).astype(values[0].dtype)
        if name == "relax.astype":
            return values[0].astype(str(call.ty.dtype.dtype))
        # Weights of eight bits are left unchanged: products with them are integer products.
        if name == "relax.dequantize" and (values[0].dtype.itemsize > 1 or values[0].ndim < 2):
            return dequantized(*values, axis=int(call.attrs.axis))
        return None

    def lifted(self, arg: relax.Expr) -> relax.Expr:
        """A parameter in the place of a weight; tuples by field."""
        if isinstance(arg, relax.Tuple):
            return relax.Tuple([self.lifted(f) for f in arg.fields])
        value = constant_value(arg)
        if value is None or not is_weight(value):
            return arg
        if arg not in self.variables:
            name = f"weight_{len(self.weights)}"
            self.weights[name] = with_value(value)
            self.variables[arg] = relax.Var(name, relax.TensorType(value.shape, str(value.dtype)))
            self.params.append(self.variables[arg])
        return self.variables[arg]


def lift(module: tvm.IRModule) -> tuple[tvm.IRModule, dict[str, Param]]:
    """The module with its weights as parameters after its inputs, and their values."""
    lifter = Lifter(module)
    return lifter.rebuild(), lifter.weights
