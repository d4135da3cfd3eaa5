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


def lower(module: tvm.IRModule, fuse: bool = True) -> tvm.IRModule:
    """Legalises and, if asked to, fuses; blocks stay marked (see ``legalise``) and gain their function's pattern as another mark."""
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
    module = record_patterns(module)
    after = tvm.transform.Sequential(
        [
            relax.transform.DeadCodeElimination(["main"]),
            *([relax.transform.FuseOps(), relax.transform.FuseTIR()] if fuse else []),
            relax.transform.DeadCodeElimination(["main"]),
        ]
    )
    return after(module)


def record_patterns(module: tvm.IRModule) -> tvm.IRModule:
    """Copies each function's pattern to its blocks, because fusion drops function attributes."""
    for variable, function in list(module.functions_items()):
        if isinstance(function, tvm.tirx.PrimFunc) and function.attrs and "op_pattern" in function.attrs:
            kind = PATTERNS.get(int(function.attrs["op_pattern"]), "opaque")
            module.update_func(variable, tensor_ir.annotate(function, PATTERN_MARK, kind))
    return module


PATTERN_MARK = legalise.MARK + ".pattern"


def marks(block) -> dict | None:
    """What a block is marked with: operator, attributes, pattern; None for unmarked blocks."""
    if legalise.MARK not in block.annotations:
        return None
    facts = json.loads(str(block.annotations[legalise.MARK]))
    facts["pattern"] = str(block.annotations.get(PATTERN_MARK, "opaque"))
    return facts


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
        function = tensor_ir.strip(tensor_ir.strip(module[old], legalise.MARK), PATTERN_MARK)
        functions[new] = (
            function.without_attr("op_pattern") if function.attrs and "op_pattern" in function.attrs else function
        )
        new_type = getattr(old, "ty", None)
        if new_type is not None:
            relax.expr._update_type(new, new_type)  # noqa: SLF001 - global variables carry their function's type
    renamer = Renamer(module, table)
    fresh = relax.Function(main.params, renamer.visit_expr(main.body), main.ret_ty, main.is_pure, main.attrs)
    return tvm.IRModule({**functions, tvm.ir.GlobalVar("main"): fresh}, attrs=module.attrs)
