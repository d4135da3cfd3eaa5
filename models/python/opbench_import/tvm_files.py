"""Source ``tvm``: a module of TVM's own, as JSON (``tvm.ir.save_json``) or as TVMScript (a Python file, which is run).

A Relax module is taken before or after legalisation and fusion: its function ``main`` calls operators of Relax or tensor
functions, and its shapes are numbers. In a module without Relax each tensor function is an operator. Tensor functions that
came with the module have lost the operators that rows describe: their kinds follow from their blocks (``foreign``).
"""

from __future__ import annotations

import runpy

import numpy as np

import tvm
from tvm import relax

from . import evaluate, files, foreign
from .errors import ImportFailure, bad_shape
from .onnx_graph import first_line
from .oracles import Outputs, Unchecked
from .rebuild import shape_of
from .request import Request
from .translated import Translated, of_frontend


def read(request: Request) -> Translated:
    """The module's function ``main``; all its parameters are inputs."""
    if request.inputs or request.batch not in (None, 1):
        raise bad_shape("the shapes of a TVM module are its own; leave --input and --batchsize out")
    module = foreign.marked(load(request.file))
    main = module["main"]
    names = [var.name for var in main.params]
    nodes = operators(request.file, main)
    for var in main.params:
        if not known(var):
            raise bad_shape(
                f"{request.file}: the shape of {var.name} is not known; bind its symbols (relax.transform.BindSymbolicVars)"
            )
    return of_frontend(module, names, results(main), nodes)


def load(path: str) -> tvm.IRModule:
    """The one module of a file."""
    try:
        files.require_regular(path, files.LARGEST_MESSAGE, "a TVM module")
        if path.endswith(".py"):
            found = {n: v for n, v in runpy.run_path(path).items() if isinstance(v, tvm.IRModule)}
            if len(found) != 1:
                raise corrupt(path, f"it has {len(found)} modules ({', '.join(found) or 'none'}), and one is expected")
            module = next(iter(found.values()))
        else:
            with open(path, encoding="utf-8") as file:
                module = tvm.ir.load_json(file.read())
    except OSError as error:
        raise ImportFailure("missing_file", f"{path}: {error.strerror or error}", path=path) from error
    except ImportFailure:
        raise
    # A Python file may raise anything, and TVM's reader has no class of its own.
    except Exception as error:  # noqa: BLE001
        raise corrupt(path, first_line(error)) from error
    if not isinstance(module, tvm.IRModule):
        raise corrupt(path, "it holds no module")
    if not any(isinstance(function, relax.Function) for function in module.functions.values()):
        try:
            module = foreign.with_main(module)
        except foreign.NoCall as error:
            raise corrupt(path, str(error)) from error
    names = [variable.name_hint for variable in module.functions]
    if "main" not in names or not isinstance(module["main"], relax.Function):
        raise corrupt(path, f"it has no Relax function main; it has {', '.join(names) or 'nothing'}")
    return module


def operators(path: str, main: relax.Function) -> list[tuple[str, str]]:
    """The Relax operators that ``main`` calls, each with the name of its result."""
    found = []
    for block in main.body.blocks if isinstance(main.body, relax.SeqExpr) else []:
        for binding in block.bindings:
            call = binding.value
            if not isinstance(call, tvm.ir.Call) or not isinstance(call.op, tvm.ir.Op):
                continue
            name = call.args[0].name_hint if call.op.name == "relax.call_tir" else call.op.name.removeprefix("relax.")
            found.append((name, binding.var.name))
    if not found:
        raise corrupt(path, "its main calls no operator")
    return found


def results(main: relax.Function) -> list[str]:
    """Names for the outputs."""
    count = len(main.ret_ty.fields) if isinstance(main.ret_ty, relax.TupleType) else 1
    return [f"output{i}" for i in range(count)]


def known(var: relax.Var) -> bool:
    """Whether a parameter's shape is numbers."""
    try:
        return all(isinstance(extent, int) for extent in shape_of(var))
    except (AttributeError, TypeError, ValueError):
        return False


def compiled_by_tvm(path: str) -> tuple[str, Outputs]:
    """The module as compiled by TVM itself, without this project's passes and schedules."""
    name = f"TVM {tvm.__version__}'s own compilation"

    def run(inputs: dict[str, np.ndarray]) -> list[np.ndarray]:
        try:
            machine = relax.VirtualMachine(tvm.compile(load(path), target="llvm"), tvm.cpu())
            main = load(path)["main"]
            outputs = machine["main"](*(tvm.runtime.tensor(inputs[var.name]) for var in main.params))
        except Exception as error:  # noqa: BLE001 - TVM's errors have no common class
            raise Unchecked(f"{name} cannot run it ({first_line(error)})") from error
        return evaluate.arrays(outputs)

    return name, run


def corrupt(path: str, why: str) -> ImportFailure:
    """The error for a file that is not such a module."""
    return ImportFailure("corrupt_model", f"{path} is no Relax module that can be measured: {why}", path=path)
