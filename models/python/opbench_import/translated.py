"""A model as a Relax function over inputs and weights: what every source's translation ends as.

Sources of ONNX graphs come here through ``convert``; those that TVM translates itself (``tflite``, ``stablehlo``) through
``of_frontend``, which brings a frontend's function to the layout and the form that ONNX models have.
"""

from __future__ import annotations

from dataclasses import dataclass

from tvm.relax.expr_functor import PyExprVisitor, visitor

import tvm
from tvm import relax

from . import given, layouts
from .params import Param, constant, integers, normal
from .rebuild import dtype_of, shape_of
from .reference import Reference


@dataclass
class Translated:
    """``main`` of ``module`` over inputs and weights."""

    module: tvm.IRModule
    names: list[str]
    """Of its parameters, in order."""
    params: dict[str, Param]
    """Those of them that are weights."""
    hints: dict[str, dict]
    """How to fill each of the others."""
    outputs: list[str]
    batch: int
    reference: Reference | None
    nodes: list[tuple[str, str]]
    """The operators that were translated, each with the name of its node."""
    source: list[str]
    """The operators of the file."""


def of_frontend(
    module: tvm.IRModule, inputs: list[str], outputs: list[str], nodes: list[tuple[str, str]]
) -> Translated:
    """A frontend's translation of a model, with the names of its inputs and outputs."""
    before = tvm.transform.Sequential(
        [relax.transform.CanonicalizeBindings(), relax.transform.DeadCodeElimination(["main"])]
    )
    module = layouts.channels_first(before(module))
    module, weights = given.lift(before(module))
    module = before(module)
    main = module["main"]
    for param in weights.values():
        param.fill = hint(param)
    fed = main.params[: len(inputs)]
    first = shape_of(fed[0]) if fed else ()
    return Translated(
        module,
        inputs + list(weights),
        weights,
        {name: input_hint(module, var) for name, var in zip(inputs, fed)},
        outputs,
        first[0] if first else 1,
        None,
        nodes,
        [op for op, _ in nodes],
    )


def hint(param: Param) -> dict:
    """How to fill a weight for measuring one operator alone."""
    single = param.uniform_value()
    if single is not None:
        return constant(single)
    if param.is_float:
        return normal(max(1e-3, float(param.value.std())))
    return integers(int(param.value.max()) + 1, int(param.value.min()))


FOLLOWED = tuple(f"relax.{n}" for n in "reshape astype expand_dims squeeze clip where add minimum maximum".split())
"""The operations on row numbers before their use: other shapes and types, and keeping them within the table."""


@visitor
class Tables(PyExprVisitor):
    """The rows of the tables that a variable selects from."""

    def __init__(self, var: relax.Var) -> None:
        super().__init__()
        self.aliases, self.rows = {var}, []

    def visit_var_binding_(self, binding: relax.VarBinding) -> None:
        """Follows row numbers to where they are used."""
        value = binding.value
        if not isinstance(value, tvm.ir.Call) or not isinstance(value.op, tvm.ir.Op):
            return
        read = [a for a in value.args if isinstance(a, relax.Var) and a in self.aliases]
        if value.op.name == "relax.take" and value.args[1] in self.aliases:
            axis = value.attrs.axis
            self.rows.append(shape_of(value.args[0])[0 if axis is None else int(axis)])
        elif read and value.op.name in FOLLOWED:
            self.aliases.add(binding.var)


def input_hint(module: tvm.IRModule, var: relax.Var) -> dict:
    """How to fill an input: numbers around zero, the whole range of small integers, or rows of the table it selects."""
    dtype = dtype_of(var)
    if dtype.startswith(("float", "bfloat")):
        return normal(1.0)
    tables = Tables(var)
    tables.visit_expr(module["main"])
    if tables.rows:
        return integers(min(tables.rows))
    return {"int8": integers(128, -128), "uint8": integers(256)}.get(dtype, integers(2))
