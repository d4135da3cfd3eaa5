"""Relax operators to fused tensor functions: legalisation, fusion, and readable unique names.

The result has one tensor function per distinct fused operator; calls of equal operators share it.
"""

from __future__ import annotations

import json

from tvm.relax.expr_functor import PyExprMutator, mutator

import tvm
from tvm import relax

from . import legalise, tensor_ir

PATTERNS = {
    0: "elemwise",
    1: "broadcast",
    2: "injective",
    3: "comm_reduce",
    4: "out_ewise_fusable",
    7: "tuple",
    8: "opaque",
}
"""TVM's operator pattern kinds by number."""


def legalised(module: tvm.IRModule) -> tvm.IRModule:
    """One tensor function an operator; blocks are marked (see ``legalise``), with their function's pattern as another mark."""
    before = tvm.transform.Sequential(
        [
            relax.transform.DecomposeOpsForInference(),
            relax.transform.CanonicalizeBindings(),
            relax.transform.DeadCodeElimination(["main"]),
        ]
    )
    module = before(module)
    module = relax.transform.LegalizeOps(legalise.rules(module))(module)
    module = relax.transform.AnnotateTIROpPattern()(module)
    return relax.transform.DeadCodeElimination(["main"])(record_patterns(module))


def without_kernel(module: tvm.IRModule) -> list[str]:
    """Names of Relax's operators that legalisation has left: TVM runs library functions for them."""
    found = []
    for block in module["main"].body.blocks:
        for binding in block.bindings:
            call = binding.value
            if isinstance(call, tvm.ir.Call) and isinstance(call.op, tvm.ir.Op) and call.op.name not in CALLS:
                found.append(call.op.name.removeprefix("relax."))
    return found


CALLS = ("relax.call_tir", "relax.reshape")
"""The calls of ``main`` when all operators have kernels."""


def fused(module: tvm.IRModule) -> tvm.IRModule:
    """Neighbouring operators as one tensor function, as TVM's rules for their patterns say."""
    passes = [relax.transform.FuseOps(), relax.transform.FuseTIR(), relax.transform.DeadCodeElimination(["main"])]
    return tvm.transform.Sequential(passes)(module)


def record_patterns(module: tvm.IRModule) -> tvm.IRModule:
    """Copies each function's pattern to its blocks, because fusion drops function attributes."""
    for variable, function in list(module.functions_items()):
        if isinstance(function, tvm.tirx.PrimFunc) and function.attrs and "op_pattern" in function.attrs:
            kind = PATTERNS.get(int(function.attrs["op_pattern"]), "opaque")
            module.update_func(variable, tensor_ir.annotate(function, PATTERN_MARK, kind))
    return module


PATTERN_MARK = legalise.MARK + ".pattern"
OWN_PATTERN = legalise.MARK + ".own_pattern"
"""Attribute of a function that came with a TVM module and had a pattern there."""
COMPOSITE_MARK = legalise.MARK + ".composite"
"""Names the composite that a block belongs to (see ``composites``)."""


def marks(block) -> dict | None:
    """A block's marks: operator, attributes, pattern; None for unmarked blocks."""
    if legalise.MARK not in block.annotations:
        return None
    facts = json.loads(str(block.annotations[legalise.MARK]))
    facts["pattern"] = str(block.annotations.get(PATTERN_MARK, "opaque"))
    return facts


def composite(function: tvm.tirx.PrimFunc) -> str | None:
    """The name of a tensor function's composite; None for others."""
    names = (b.annotations[COMPOSITE_MARK] for b in tensor_ir.blocks(function) if COMPOSITE_MARK in b.annotations)
    return next(map(str, names), None)


@mutator
class Renamer(PyExprMutator):
    """Makes calls name new global variables."""

    def __init__(self, module: tvm.IRModule, table: dict) -> None:
        super().__init__(module)
        self.table = table

    def visit_call_(self, call: relax.Call) -> relax.Expr:
        """A call of a tensor function under its new name."""
        if call.args and isinstance(call.args[0], tvm.ir.GlobalVar) and call.args[0] in self.table:
            args = [self.table[call.args[0]], *(self.visit_expr(a) for a in call.args[1:])]
            return tvm.ir.Call(call.op, args, attrs=call.attrs, ty_args=call.ty_args)
        return super().visit_call_(call)


def rename(module: tvm.IRModule, names: dict) -> tvm.IRModule:
    """The module with tensor functions renamed (``names``: old global variable to new name) and marks removed."""
    table = {old: tvm.ir.GlobalVar(new) for old, new in names.items()}
    main = module["main"]
    functions = {}
    for old, new in table.items():
        function = module[old]
        for mark in (legalise.MARK, PATTERN_MARK, COMPOSITE_MARK):
            function = tensor_ir.strip(function, mark)
        attributes = function.attrs or {}
        added = OWN_PATTERN if OWN_PATTERN in attributes else "op_pattern"
        functions[new] = function.without_attr(added) if added in attributes else function
        new_type = getattr(old, "ty", None)
        if new_type is not None:
            relax.expr._update_type(new, new_type)  # noqa: SLF001 - global variables carry their function's type
    renamer = Renamer(module, table)
    fresh = relax.Function(main.params, renamer.visit_expr(main.body), main.ret_ty, main.is_pure, main.attrs)
    return tvm.IRModule({**functions, tvm.ir.GlobalVar("main"): fresh}, attrs=module.attrs)
