"""Composite operators: sequences of operators that a user counts as one, made one tensor function each.

A sequence matches operators of the model, in the order in which they are computed. Each but the first reads a
result of one before it, and only the last one's result is read elsewhere. Matching goes before fusion, and what
matched is fused no further. Reshapes count as operators here: within a composite they are computed like any other.
"""

from __future__ import annotations

import difflib
from dataclasses import dataclass

from tvm import relax, topi

import tvm

from . import kinds, legalise, lower, operators
from .errors import ImportFailure
from .tensor_ir import annotate

@dataclass
class Operator:
    """A call of one operator in ``main``."""

    name: str
    binding: relax.VarBinding
    reads: list[relax.Var]


@dataclass
class Match:
    """A sequence found: the table's entry, and the positions of its operators."""

    entry: dict
    members: list[int]


def apply(module: tvm.IRModule, table: dict) -> tvm.IRModule:
    """The module with every occurrence of the table's sequences as one tensor function."""
    found = program(module)
    require_known(table, {o.name for o in found})
    matches = all_matches(found, module["main"], table)
    if not matches:
        present = ", ".join(dict.fromkeys(o.name for o in found))
        names = ", ".join(entry["name"] for entry in table["table"])
        raise refusal(table, table["table"][0], f"none of the composites ({names}) occurs in the model; it has {present}")
    return relax.transform.FuseTIR()(grouped(module, found, matches))


def refusal(table: dict, entry: dict, reason: str) -> ImportFailure:
    """The failure of a table at one of its entries."""
    return ImportFailure("bad_composites", f"{table['file']}:{entry['line']}: {reason}")


def program(module: tvm.IRModule) -> list[Operator]:
    """The operators that ``main`` calls, in order."""
    found = []
    for block in module["main"].body.blocks:
        for binding in block.bindings:
            call = binding.value
            if not isinstance(call, tvm.ir.Call):
                continue
            if call.op.name == "relax.reshape":
                found.append(Operator("reshape", binding, variables(call.args[0])))
            elif call.op.name == "relax.call_tir":
                steps = operators.steps(module[call.args[0]])
                name = kinds.short_name(steps[0].facts) if steps else call.args[0].name_hint
                found.append(Operator(name, binding, variables(call.args[1])))
    return found


def variables(expr: relax.Expr) -> list[relax.Var]:
    """The variables among some arguments."""
    fields = expr.fields if isinstance(expr, relax.Tuple) else [expr]
    return [f for f in fields if isinstance(f, relax.Var)]


def known_operators() -> set[str]:
    """Names of all operators that TVM can turn into kernels, as lists show them."""
    ops = (name for name in tvm.ir.Op.list_op_names() if name.startswith("relax."))
    rules = (name for name in ops if tvm.ir.Op.get(name).get_attr("FLegalize") is not None)
    plain = {kinds.short_name({"op": name, "attrs": {"groups": 1}, "shapes": [[]]}) for name in rules}
    return plain | set(kinds.RANKS[0]) | set(kinds.OWN_KERNELS)


def require_known(table: dict, present: set[str]) -> None:
    """Refuses unknown operators, and names of composites that an operator of the model has already."""
    known = known_operators() | present
    for entry in table["table"]:
        if entry["name"] in present:
            raise refusal(table, entry, f"the model has an operator '{entry['name']}'; give the composite another name")
        for name in entry["operators"]:
            if name not in known:
                near = difflib.get_close_matches(name, known, n=3)
                hint = f" (did you mean {' or '.join(near)}?)" if near else ""
                raise refusal(
                    table,
                    entry,
                    f"composite '{entry['name']}': there is no operator '{name}'{hint}; `opcollect list ops --fusion none` "
                    "shows those of a model",
                )


def all_matches(found: list[Operator], main: relax.Function, table: dict) -> list[Match]:
    """All occurrences of all sequences; entries come longest first, so longer sequences are matched before shorter ones."""
    readers = readers_of(found, main)
    owner: dict[int, dict] = {}
    matches = []
    for entry in table["table"]:
        for first in range(len(found)):
            members = occurrence(found, readers, entry["operators"], first)
            if members is None:
                continue
            taken = next((m for m in members if m in owner), None)
            if taken is None:
                owner.update(dict.fromkeys(members, entry))
                matches.append(Match(entry, members))
            elif owner[taken] is not entry and not contains(owner[taken], entry):
                raise refusal(
                    table,
                    entry,
                    f"composites '{entry['name']}' and '{owner[taken]['name']}' (line {owner[taken]['line']}) match the "
                    f"same operator {found[taken].name} of the model; make one of them part of the other, or leave it out",
                )
    return matches


def contains(long: dict, short: dict) -> bool:
    """Whether one entry's sequence has another's within it, so that where the long one matches, the short one must."""
    whole, part = long["operators"], short["operators"]
    return any(whole[i : i + len(part)] == part for i in range(len(whole) - len(part) + 1))


OUTSIDE = -1
"""Reader of values other than an operator's arguments: a result of the model, a part of a tuple."""


def readers_of(found: list[Operator], main: relax.Function) -> dict[relax.Var, set[int]]:
    """Which operators read each variable."""
    position = {o.binding.var: i for i, o in enumerate(found)}
    readers: dict[relax.Var, set[int]] = {}
    for block in main.body.blocks:
        for binding in block.bindings:
            own = position.get(binding.var, OUTSIDE)
            for var in relax.analysis.free_vars(binding.value):
                readers.setdefault(var, set()).add(own)
    for var in relax.analysis.free_vars(main.body.body):
        readers.setdefault(var, set()).add(OUTSIDE)
    return readers


def occurrence(found: list[Operator], readers: dict, names: list[str], first: int) -> list[int] | None:
    """The positions of a sequence that begins at ``first``; None if it does not occur."""

    def extend(members: list[int]) -> list[int] | None:
        if len(members) == len(names):
            inner = members[:-1]
            closed = all(readers.get(found[m].binding.var, {OUTSIDE}) <= set(members) for m in inner)
            return members if closed else None
        wanted = names[len(members)]
        following = sorted({r for m in members for r in readers.get(found[m].binding.var, ())} - set(members) - {OUTSIDE})
        for candidate in following:
            if found[candidate].name == wanted and candidate > members[-1]:
                whole = extend([*members, candidate])
                if whole is not None:
                    return whole
        return None

    return extend([first]) if found[first].name == names[0] else None


def grouped(module: tvm.IRModule, found: list[Operator], matches: list[Match]) -> tvm.IRModule:
    """The module with each match as a call of one function of Relax, where its last operator was."""
    builder = relax.BlockBuilder(module)
    calls, inner = {}, set()
    for match in matches:
        members = [found[m] for m in match.members]
        calls[members[-1].binding.var] = group(builder, match.entry["name"], members)
        inner.update(m.binding.var for m in members[:-1])
    main = module["main"]
    blocks_after = []
    for block in main.body.blocks:
        bindings = [
            relax.VarBinding(b.var, calls[b.var]) if b.var in calls else b for b in block.bindings if b.var not in inner
        ]
        blocks_after.append(type(block)(bindings))
    body = relax.SeqExpr(blocks_after, main.body.body)
    changed = builder.get()
    changed.update_func(
        changed.get_global_var("main"), relax.Function(main.params, body, main.ret_ty, main.is_pure, main.attrs)
    )
    return changed


def group(builder: relax.BlockBuilder, name: str, members: list[Operator]) -> relax.Expr:
    """The call of a new function that computes the members; every argument from outside becomes a parameter."""
    made = {m.binding.var for m in members}
    outer: list[relax.Expr] = []
    for member in members:
        call = member.binding.value
        source = call.args[0] if member.name == "reshape" else call.args[1]
        for argument in source.fields if isinstance(source, relax.Tuple) else [source]:
            if argument not in made and not any(argument.same_as(o) for o in outer):
                outer.append(argument)
    params = [relax.Var(f"p{i}", o.ty) for i, o in enumerate(outer)]
    values: dict[relax.Var, relax.Expr] = {}

    def replaced(argument: relax.Expr) -> relax.Expr:
        if argument in made:
            return values[argument]
        return params[next(i for i, o in enumerate(outer) if argument.same_as(o))]

    with builder.function(name, params, attrs={"Primitive": 1}):
        with builder.dataflow():
            for member in members:
                values[member.binding.var] = builder.emit(inlined(builder, name, member, replaced))
            result = builder.emit_output(values[members[-1].binding.var])
        function = builder.emit_func_output(result)
    return tvm.ir.Call(function, outer)


def inlined(builder: relax.BlockBuilder, name: str, member: Operator, replaced) -> relax.Expr:
    """One operator of a composite, with its blocks marked."""
    call = member.binding.value
    if member.name == "reshape":
        shape = [int(d) for d in call.ty.shape.values]
        made = builder.call_te(topi.reshape, replaced(call.args[0]), shape, primfunc_name_hint="reshape")
        facts = {"op": "relax.reshape", "attrs": {}, "shapes": legalise.argument_shapes(call)}
        call = legalise.mark(builder, made, facts)
        arguments = call.args[1]
    else:
        source = call.args[1]
        fields = source.fields if isinstance(source, relax.Tuple) else [source]
        arguments = relax.Tuple([replaced(a) for a in fields])
    function = builder.get()[call.args[0]]
    if member.name == "reshape":
        function = annotate(function, lower.PATTERN_MARK, "injective")
    variable = builder.add_func(annotate(function, lower.COMPOSITE_MARK, name), call.args[0].name_hint)
    return tvm.ir.Call(call.op, [variable, arguments, *call.args[2:]], attrs=call.attrs, ty_args=call.ty_args)
