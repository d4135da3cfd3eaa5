"""Reads a StableHLO module, as text or as a portable artifact, and walks its functions.

TVM has a frontend for StableHLO, but it takes broadcasts, products and convolutions for their usual forms, whatever they
say, and calls functions that MLIR's Python package no longer has; ``stablehlo_ops`` is our own translation. What that
has no rule for is refused with its name and its place in the file.
"""

from __future__ import annotations

import numpy as np
from tvm.ir import Call

import tvm
from tvm import relax

from . import extras, files, stablehlo_ops, stablehlo_places
from .errors import ImportFailure, bad_shape, unsupported
from .onnx_graph import first_line
from .rebuild import constant_value
from .request import Request
from .stablehlo_ops import Refused, direction_of, tensor_type
from .translated import Translated, of_frontend

RULES = {**stablehlo_ops.RULES, **stablehlo_places.RULES}
MOST_OPERATIONS = 200_000
"""Of all calls together: functions that call each other twice grow without end."""
BYTECODE = b"ML\xefR"


def read(request: Request) -> Translated:
    """The module's public function."""
    extras.load("stablehlo", "jaxlib", "85 MB to download, 360 MB on disk")
    path = request.file
    if request.batch is not None or request.seqlen is not None or request.inputs:
        raise bad_shape(f"{path}: a StableHLO file has fixed shapes; leave out --batchsize, --seqlen and --input")
    module = parse(path)
    return Walk(path, module).translate()


def parse(path: str):
    """The module, checked by MLIR."""
    from jaxlib.mlir import ir
    from jaxlib.mlir._mlir_libs import _jax_mlir_ext
    from jaxlib.mlir.dialects import chlo, stablehlo

    context = ir.Context()
    registry = ir.DialectRegistry()
    _jax_mlir_ext.register_dialects(registry)
    context.append_dialect_registry(registry)
    stablehlo.register_dialect(context)
    chlo.register_dialect(context)
    context.load_all_available_dialects()
    try:
        files.require_regular(path, files.LARGEST_MESSAGE, "a StableHLO file")
        with open(path, "rb") as file:
            content = file.read()
        if content.startswith(BYTECODE):
            return stablehlo.deserialize_portable_artifact(context, content)
        return ir.Module.parseFile(path, context)
    except OSError as error:
        raise ImportFailure("missing_file", f"{path}: {error.strerror or error}", path=path) from error
    # MLIR's parser raises errors of its own, and plain ones for bytes that are not text.
    except Exception as error:  # noqa: BLE001
        lines = [line.strip() for line in str(error).splitlines() if "error:" in line]
        reason = lines[0].split("error:", 1)[1].strip() if lines else first_line(error)
        raise ImportFailure(
            "corrupt_model", f"{path}: not a StableHLO module, or damaged ({reason})", path=path
        ) from error


class Walk:
    """The translation of one module; ``values`` maps MLIR's values to Relax expressions."""

    def __init__(self, path: str, module) -> None:
        self.path = path
        self.functions = {f.attributes["sym_name"].value: f for f in module.body.operations if is_function(f)}
        self.builder = relax.BlockBuilder()
        self.values: dict = {}
        self.thin: dict = {}
        """Values before a broadcast, by its result: operators of two tensors broadcast by themselves."""
        self.nodes: list[tuple[str, str]] = []
        self.calls: list[str] = []

    def translate(self) -> Translated:
        """The Relax function of the public function."""
        main = self.entry()
        names, variables = [], []
        for i, argument in enumerate(main.regions[0].blocks[0].arguments):
            names.append(f"arg{i}")
            shape, dtype = self.checked(main, lambda a=argument: tensor_type(a.type))
            variables.append(relax.Var(names[-1], relax.TensorType(shape, dtype)))
        with self.builder.function("main", variables):
            with self.builder.dataflow():
                results = self.call(main, variables)
                body = results[0] if len(results) == 1 else relax.Tuple(results)
                output = self.builder.emit_output(body)
            self.builder.emit_func_output(output)
        outputs = [f"result{i}" for i in range(len(results))]
        return of_frontend(self.builder.get(), names, outputs, self.nodes)

    def entry(self):
        """The function that is the model."""
        public = [f for f in self.functions.values() if "sym_visibility" not in f.attributes]
        public = [f for f in self.functions.values() if visibility(f) == "public"] or public
        main = self.functions.get("main") or (public[0] if len(public) == 1 else None)
        if main is None or not main.regions[0].blocks:
            names = ", ".join(self.functions) or "none"
            raise ImportFailure(
                "corrupt_model", f"{self.path}: it has no function 'main' (functions: {names})", path=self.path
            )
        return main

    def call(self, function, arguments: list) -> list:
        """The results of a function for these arguments."""
        name = function.attributes["sym_name"].value
        if name in self.calls:
            raise self.refusal(function, "func.call", f"function '{name}' calls itself")
        self.calls.append(name)
        results = self.block(function.regions[0].blocks[0], arguments)
        self.calls.pop()
        if results is None:
            raise self.refusal(function, "func.func", "it returns nothing")
        return results

    def block(self, block, arguments: list) -> list | None:
        """The results of a block for these arguments; None if it ends without a return."""
        self.values.update(zip(block.arguments, arguments))
        for operation in block.operations:
            if operation.operation.name in ("func.return", "stablehlo.return"):
                return [self.tensor(v) for v in operation.operands]
            self.operation(operation)
        return None

    def operation(self, operation) -> None:
        """Translates one operation."""
        name = operation.operation.name
        if len(self.nodes) >= MOST_OPERATIONS:
            raise self.refusal(operation, name, f"the module has more than {MOST_OPERATIONS} operations, calls included")
        self.nodes.append((name, place(operation)))
        if name in ("func.call", "stablehlo.composite"):
            callee = "callee" if name == "func.call" else "decomposition"
            function = self.functions.get(operation.attributes[callee].value)
            if function is None:
                raise self.refusal(operation, name, "the function that it calls is not in the module")
            self.values.update(zip(operation.results, self.call(function, [self.tensor(v) for v in operation.operands])))
            return
        rule = RULES.get(name)
        if rule is None:
            raise self.refusal(operation, name, "there is no rule for it")
        known = folded(self, operation)
        made = self.checked(operation, lambda: rule(self, operation)) if known is None else known
        for value, expression in zip(operation.results, made if isinstance(made, list) else [made], strict=True):
            self.values[value] = self.emit(expression)

    def checked(self, operation, compute):
        """The result of ``compute``; its refusals get the operation's place."""
        name = operation.operation.name
        try:
            return compute()
        except Refused as reason:
            raise self.refusal(operation, name, str(reason)) from reason
        # Relax raises TVM errors and Python errors for calls that it cannot type.
        except (tvm.error.TVMError, ValueError, TypeError, KeyError, RuntimeError) as error:
            raise self.refusal(operation, name, first_line(error)) from error

    def emit(self, value: relax.Expr) -> relax.Expr:
        """A variable for the result of a call."""
        return self.builder.emit(value) if isinstance(value, Call) else value

    def tensor(self, value) -> relax.Expr:
        """The expression of an operand."""
        return self.values[value]

    def refusal(self, operation, name: str, reason: str) -> ImportFailure:
        """An operation that cannot be translated."""
        where = place(operation)
        return unsupported(
            name,
            where,
            f"operation {name} at {where} of {self.path} cannot be imported: {reason}; cut the model around it, or export "
            "it to ONNX and use --modelsource onnx",
        )


FOLDED = {
    "stablehlo.add": np.add,
    "stablehlo.subtract": np.subtract,
    "stablehlo.multiply": np.multiply,
    "stablehlo.select": np.where,
    "stablehlo.compare": None,
}
COMPARED = {"EQ": np.equal, "NE": np.not_equal, "LT": np.less, "LE": np.less_equal, "GT": np.greater, "GE": np.greater_equal}


def folded(walk: Walk, operation) -> relax.Expr | None:
    """The value of constant integers, such as the counters of loops, and of tensors without elements; None for others."""
    shape = getattr(operation.results[0].type, "shape", None) if len(operation.results) == 1 else None
    if shape is not None and 0 in list(shape):
        extents, dtype = tensor_type(operation.results[0].type)
        return relax.const(np.zeros(extents, dtype), dtype)
    name = operation.operation.name
    if name not in FOLDED or shape is None or len(shape):
        return None
    given = [constant_value(walk.tensor(v)) for v in operation.operands]
    if any(v is None or v.dtype.kind not in "iub" for v in given):
        return None
    compute = FOLDED[name] or COMPARED[direction_of(operation)]
    _, dtype = tensor_type(operation.results[0].type)
    return relax.const(np.asarray(compute(*given), dtype), dtype)


def is_function(operation) -> bool:
    """Whether an operation of the module's top level is a function."""
    return operation.operation.name == "func.func"


def visibility(function) -> str:
    """``public``, ``private``, or nothing."""
    return function.attributes["sym_visibility"].value if "sym_visibility" in function.attributes else ""


def place(operation) -> str:
    """Line and column in the file, or the name that a compiler gave the place."""
    text = str(operation.location).removeprefix("loc(").removesuffix(")")
    parts = text.rsplit(":", 2)
    if len(parts) == 3 and parts[1].isdigit() and parts[2].isdigit():
        return f"line {parts[1]}:{parts[2]}"
    return text
