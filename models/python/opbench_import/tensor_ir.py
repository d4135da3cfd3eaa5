"""Walking and rebuilding tensor functions: the little that Python needs and TVM offers only in C++.

Owns the traversal of statements and expressions; what the blocks mean is decided in ``blocks`` and ``operators``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from tvm.s_tir.stmt import SBlock, SBlockRealize

from tvm import tirx

CHILDREN = ("a", "b", "condition", "true_value", "false_value", "value")


def map_blocks(function: tirx.PrimFunc, change: Callable[[SBlock], SBlock]) -> tirx.PrimFunc:
    """``function`` with every block below the root replaced by ``change(block)``."""

    def walk(stmt, root):
        if isinstance(stmt, SBlockRealize):
            block = stmt.block
            body = walk(block.body, False)
            block = rebuild(block, body, block.annotations)
            return SBlockRealize(stmt.iter_values, stmt.predicate, block if root else change(block))
        if isinstance(stmt, tirx.For):
            return tirx.For(
                stmt.loop_var,
                stmt.min,
                stmt.extent,
                stmt.kind,
                walk(stmt.body, False),
                stmt.thread_binding,
                stmt.annotations,
            )
        if isinstance(stmt, tirx.SeqStmt):
            return tirx.SeqStmt([walk(s, False) for s in stmt.seq])
        if isinstance(stmt, tirx.IfThenElse):
            otherwise = None if stmt.else_case is None else walk(stmt.else_case, False)
            return tirx.IfThenElse(stmt.condition, walk(stmt.then_case, False), otherwise)
        return stmt

    return function.with_body(walk(function.body, True))


def rebuild(block: SBlock, body, annotations, init=None) -> SBlock:
    """A copy of ``block`` with another body and annotations, and another beginning if there is one."""
    return SBlock(
        block.iter_vars,
        block.reads,
        block.writes,
        block.name_hint,
        body,
        block.init if init is None else init,
        block.alloc_buffers,
        block.match_buffers,
        annotations,
    )


def annotate(function: tirx.PrimFunc, key: str, value: str) -> tirx.PrimFunc:
    """Adds an annotation to every block that does not have it yet."""

    def change(block):
        if key in block.annotations:
            return block
        return rebuild(block, block.body, {**dict(block.annotations.items()), key: value})

    return map_blocks(function, change)


def strip(function: tirx.PrimFunc, key: str) -> tirx.PrimFunc:
    """Removes an annotation from every block."""

    def change(block):
        return rebuild(block, block.body, {k: v for k, v in block.annotations.items() if k != key})

    return map_blocks(function, change)


def blocks(function: tirx.PrimFunc) -> list[SBlock]:
    """The blocks below the root, in program order."""
    found: list[SBlock] = []

    def walk(stmt, root):
        if isinstance(stmt, SBlockRealize):
            if not root:
                found.append(stmt.block)
            walk(stmt.block.body, False)
        elif isinstance(stmt, tirx.SeqStmt):
            for child in stmt.seq:
                walk(child, False)
        elif isinstance(stmt, tirx.IfThenElse):
            walk(stmt.then_case, False)
            if stmt.else_case is not None:
                walk(stmt.else_case, False)
        elif hasattr(stmt, "body"):
            walk(stmt.body, False)

    walk(function.body, True)
    return found


def stores(stmt) -> Iterator[tirx.BufferStore]:
    """Every store of a block's body."""
    if isinstance(stmt, tirx.BufferStore):
        yield stmt
    elif isinstance(stmt, tirx.SeqStmt):
        for child in stmt.seq:
            yield from stores(child)
    elif isinstance(stmt, tirx.IfThenElse):
        yield from stores(stmt.then_case)
        if stmt.else_case is not None:
            yield from stores(stmt.else_case)
    elif isinstance(stmt, SBlockRealize):
        yield from stores(stmt.block.body)
    elif hasattr(stmt, "body"):
        yield from stores(stmt.body)


def subexpressions(expr) -> Iterator:
    """Direct operands of an expression."""
    for name in CHILDREN:
        child = getattr(expr, name, None)
        if child is not None and not isinstance(child, bool | int | float | str):
            yield child
    for name in ("args", "indices"):
        for child in getattr(expr, name, None) or ():
            yield child


def variables(expr) -> Iterator:
    """The variables that an index expression mentions, each once."""
    seen = set()
    stack = [expr]
    while stack:
        current = stack.pop()
        if isinstance(current, tirx.Var):
            if current not in seen:
                seen.add(current)
                yield current
            continue
        stack.extend(subexpressions(current))
