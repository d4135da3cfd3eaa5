"""Weight pre-packing: parameters of convolutions and products change to the layout that their kernels read.

A weight is packed when all its readers want the same layout; otherwise it stays as it is. Packing happens on the
Relax function: the parameter gets its new shape, the reader becomes a call of the packed kernel.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from tvm.relax.expr_functor import PyExprMutator, mutator

import tvm
from tvm import relax

from . import kernels, legalise
from .params import Param
from .rebuild import op_name

CONVOLUTIONS = {"relax.nn.conv1d": 1, "relax.nn.conv2d": 2, "relax.nn.conv3d": 3}
MATMUL = "relax.matmul"


@dataclass(frozen=True)
class Packing:
    """Runs of ``block`` along ``block_axis`` moved innermost, the last one filled up with zeros."""

    family: str
    block_axis: int
    block: int

    def shape(self, plain: tuple[int, ...]) -> tuple[int, ...]:
        """Shape of the packed weight."""
        rest = [d for i, d in enumerate(plain) if i != self.block_axis]
        return (-(-plain[self.block_axis] // self.block), *rest, self.block)

    def pack(self, value: np.ndarray) -> np.ndarray:
        """The packed values; a broadcast scalar stays one."""
        if all(s == 0 for s in value.strides):
            return np.broadcast_to(value[(0,) * value.ndim], self.shape(value.shape))
        axis = self.block_axis
        missing = -value.shape[axis] % self.block
        if missing:
            value = np.pad(value, [(0, missing if i == axis else 0) for i in range(value.ndim)])
        split = value.reshape(
            *value.shape[:axis], value.shape[axis] // self.block, self.block, *value.shape[axis + 1 :]
        )
        outer = [i for i in range(split.ndim) if i not in (axis, axis + 1)]
        return np.ascontiguousarray(split.transpose(axis, *outer, axis + 1))


@dataclass
class Packed:
    """The fate of the parameters of ``main``: one entry each, in order."""

    module: tvm.IRModule
    names: list[str]
    params: dict[str, tuple[Param, Packing | None]]


def is_depthwise(call: relax.Call) -> bool:
    """One filter set a channel."""
    groups = int(call.attrs.groups)
    return groups > 1 and groups == int(call.args[0].ty.shape.values[1])


def wanted(call: relax.Call, index: int) -> Packing | None:
    """The packing that ``call`` wants for its argument ``index``; None if it reads the plain layout."""
    if index != 1:
        return None
    name = op_name(call)
    weight = [int(d) for d in call.args[1].ty.shape.values]
    if name in CONVOLUTIONS and not is_depthwise(call):
        groups = int(call.attrs.groups)
        block = kernels.block_size(weight[0] // groups, groups)
        return Packing("conv", 0, block) if block > 1 else None
    if name == MATMUL and len(weight) == 2 and len(call.args[0].ty.shape.values) >= 2:
        block = kernels.block_size(weight[1])
        return Packing("dense", 1, block) if block > 1 else None
    return None


def decide(function: relax.Function, weights: set) -> dict:
    """Packing by parameter variable, for those whose readers all agree."""
    wishes: dict = {}

    def note(var, packing):
        wishes.setdefault(var, set()).add(packing)

    def scan(expr):
        if isinstance(expr, tvm.ir.Call):
            for i, arg in enumerate(expr.args):
                if isinstance(arg, relax.Var) and arg in weights:
                    note(arg, wanted(expr, i))
                elif isinstance(arg, relax.Tuple):
                    scan(arg)
        elif isinstance(expr, relax.Tuple):
            for field in expr.fields:
                if isinstance(field, relax.Var) and field in weights:
                    note(field, None)
        elif isinstance(expr, relax.Var) and expr in weights:
            note(expr, None)

    for block in function.body.blocks:
        for binding in block.bindings:
            scan(binding.value)
    scan(function.body.body)
    return {v: next(iter(w)) for v, w in wishes.items() if len(w) == 1 and None not in w}


@mutator
class Packer(PyExprMutator):
    """Replaces readers of packed weights by packed kernels."""

    def __init__(self, module: tvm.IRModule, packings: dict) -> None:
        super().__init__(module)
        self.packings = packings

    def rewrite(self, function: relax.Function) -> relax.Function:
        """``function`` with new parameters."""
        params = []
        for old in function.params:
            packing = self.packings.get(old)
            if packing is None:
                params.append(old)
                continue
            shape = packing.shape(tuple(int(d) for d in old.ty.shape.values))
            new = relax.Var(old.name, relax.TensorType(shape, old.ty.dtype))
            self.set_var_remap(old, new)
            params.append(new)
        body = self.visit_expr(function.body)
        return relax.Function(params, body, function.ret_ty, function.is_pure, function.attrs)

    def visit_call_(self, call: relax.Call) -> relax.Expr:
        """Calls of the packed kernel where the second argument was packed."""
        packing = None
        if len(call.args) > 1 and isinstance(call.args[1], relax.Var):
            packing = self.packings.get(call.args[1])
        if packing is None:
            return super().visit_call_(call)
        data, weight = self.visit_expr(call.args[0]), self.visit_expr(call.args[1])
        if packing.family == "conv":
            return legalise.packed_convolution(self.builder_, call, data, weight, packing.block)
        return legalise.packed_dense(self.builder_, call, data, weight, packing.block)


def pack(module: tvm.IRModule, names: list[str], params: dict[str, Param]) -> Packed:
    """Packs weights where possible and drops weights that nothing reads."""
    function = module["main"]
    by_var = dict(zip(function.params, names))
    packings = decide(function, {v for v, n in by_var.items() if n in params})
    packer = Packer(module, packings)
    rewritten = packer.rewrite(function)
    packed = packer.builder_.get()
    packed.update_func(packed.get_global_var("main"), rewritten)
    placed = {name: (params[name], packings.get(var)) for var, name in by_var.items() if name in params}
    return Packed(packed, names, placed)
