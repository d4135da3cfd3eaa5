"""Rewriting the ``main`` function of a Relax module binding by binding.

``Rebuilder`` emits every binding again into a new module; a rewrite overrides ``call`` or ``binding``. Parameters may be
added while it runs, which TVM's own mutators do not allow.
"""

from __future__ import annotations

import tvm
from tvm import relax


def constant_value(expr: object):
    """The array of a constant; None for anything else."""
    return expr.value.numpy() if isinstance(expr, tvm.ir.GenericConst) else None


def op_name(expr: object) -> str:
    """Name of the operator that an expression calls, or an empty string."""
    return expr.op.name if isinstance(expr, tvm.ir.Call) and isinstance(expr.op, tvm.ir.Op) else ""


def shape_of(expr: relax.Expr) -> tuple[int, ...]:
    """The static shape of a tensor expression."""
    return tuple(int(d) for d in expr.ty.shape.values)


def dtype_of(expr: relax.Expr) -> str:
    """The element type of a tensor expression."""
    return str(expr.ty.dtype.dtype)


class Rebuilder:
    """Emits ``main`` again; ``self.builder`` is at the place of the binding in hand."""

    def __init__(self, module: tvm.IRModule) -> None:
        self.main = module["main"]
        others = {v: f for v, f in module.functions_items() if v.name_hint != "main"}
        self.builder = relax.BlockBuilder(tvm.IRModule(others))
        self.params = list(self.main.params)
        self.made: dict = {}

    def rebuild(self) -> tvm.IRModule:
        """The module with the new function."""
        with self.builder.function("main"):
            with self.builder.dataflow():
                for block in self.main.body.blocks:
                    for binding in block.bindings:
                        self.binding(binding)
                result = self.builder.emit_output(self.value(self.main.body.body))
            self.builder.emit_func_output(result, self.params)
        return self.builder.get()

    def binding(self, binding: relax.Binding) -> None:
        """Emits one binding."""
        value = binding.value
        if isinstance(value, tvm.ir.Call):
            value = self.call(value, [self.value(a) for a in value.args])
        else:
            value = self.value(value)
        self.made[binding.var] = self.emit(value)

    def emit(self, value: relax.Expr) -> relax.Expr:
        """A variable for a computed value; given values stay unchanged."""
        if isinstance(value, relax.Var | tvm.ir.GenericConst):
            return value
        return self.builder.emit(value)

    def value(self, expr: relax.Expr) -> relax.Expr:
        """The new function's value for an argument of the old one."""
        if isinstance(expr, relax.Var):
            return self.made.get(expr, expr)
        if isinstance(expr, relax.Tuple):
            return relax.Tuple([self.value(field) for field in expr.fields])
        if isinstance(expr, relax.TupleGetItem):
            return relax.TupleGetItem(self.value(expr.tuple_value), expr.index)
        return expr

    def call(self, call: relax.Call, args: list) -> relax.Expr:
        """The same call with new arguments."""
        return tvm.ir.Call(call.op, args, attrs=call.attrs, ty_args=call.ty_args)
