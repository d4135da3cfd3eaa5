"""Runs an imported module in TVM's virtual machine on this CPU, to compare its outputs; nothing is timed.

Kernels get a schedule that is legal for any of them: outer loops in parallel, the innermost spatial loop inside the
reduction loops, where LLVM vectorises it. That takes a tenth of the time of the plain loop nests.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

import tvm
from tvm import relax

def machine(module: tvm.IRModule) -> Callable[[list[np.ndarray]], list[np.ndarray]]:
    """Schedules and builds a module; the result is that of ``runner``."""
    return runner(scheduled(module), host())


def runner(module: tvm.IRModule, target: tvm.target.Target) -> Callable[[list[np.ndarray]], list[np.ndarray]]:
    """Builds a module; the result computes the outputs of ``main`` from the values of its parameters, in their order.

    ``main`` checks its own arguments, so the checks of its kernels, half of the machine code of small ones, are left out.
    """
    with tvm.transform.PassContext(config={"tirx.disable_assert": True}):
        executable = relax.build(module, target=target)
    main = relax.VirtualMachine(executable, tvm.cpu())["main"]

    def run(arguments: list[np.ndarray]) -> list[np.ndarray]:
        return arrays(main(*(tvm.runtime.tensor(np.require(a, requirements="CA")) for a in arguments)))

    return run


def arrays(result: object) -> list[np.ndarray]:
    """The outputs of ``main``: one is a tensor, several are an array of them."""
    return [output.numpy() for output in ([result] if hasattr(result, "numpy") else result)]


def host() -> tvm.target.Target:
    """This CPU for LLVM, at a level that builds a model in about a second."""
    return tvm.target.Target({"kind": "llvm", "opt-level": 1, "mcpu": tvm.target.codegen.llvm_get_system_cpu()})


def scheduled(module: tvm.IRModule) -> tvm.IRModule:
    """The module with a simple schedule for each tensor function that allows one."""
    functions = dict(module.functions_items())
    for variable, function in functions.items():
        if isinstance(function, tvm.tirx.PrimFunc):
            functions[variable] = faster(function)
    return tvm.IRModule(functions, attrs=module.attrs)


def faster(function: tvm.tirx.PrimFunc) -> tvm.tirx.PrimFunc:
    """The function with its blocks scheduled one by one; a block that allows no schedule stays as it is."""
    schedule = tvm.s_tir.Schedule(tvm.IRModule({"main": function}))
    for block in schedule.get_child_blocks(schedule.get_sblock("root")):
        before = schedule.copy()
        try:
            schedule_block(schedule, block)
        except tvm.error.InternalError:
            schedule = before
    return schedule.mod["main"].with_attrs(dict(function.attrs or {}))


def schedule_block(schedule: tvm.s_tir.Schedule, block: object) -> None:
    """Reorders, vectorises and parallelises the loops of one block."""
    loops = schedule.get_loops(block)
    kinds = [int(v.iter_type) for v in schedule.get(block).iter_vars]
    if len(loops) != len(kinds):
        return
    spatial = [loop for loop, k in zip(loops, kinds) if k == tvm.tirx.IterVar.DataPar]
    reduced = [loop for loop, k in zip(loops, kinds) if k != tvm.tirx.IterVar.DataPar]
    if not spatial:
        return
    *outer, inner = spatial
    schedule.reorder(*outer, *reduced, inner)
    if outer:
        fused = schedule.fuse(*outer)
        schedule.parallel(fused)
    if reduced:
        schedule.decompose_reduction(block, reduced[0])
