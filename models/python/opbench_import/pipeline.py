"""The stages of one import, in order: load, bind, simplify, convert, recognise integers, pack, lower, describe, check
against the source's own framework, write."""

from __future__ import annotations

import platform
import sys
from dataclasses import dataclass, replace

import onnx
import tvm_ffi

import tvm
from tvm import relax

from . import (
    GRAPH_FORMAT,
    bind,
    composites,
    convert,
    deployed,
    expand,
    extremes,
    fill,
    fold,
    integers,
    load,
    lower,
    moves,
    normalise,
    onnx_graph,
    operators,
    oracles,
    pack,
    places,
    recurrent,
    reference,
    simple_ops,
    simplify,
    stablehlo_files,
    tflite_files,
    torch_graph,
    torch_models,
    transformers_models,
    tvm_files,
    unfaithful,
    verify,
    write,
)
from .errors import ImportFailure, bad_shape, unsupported
from .onnx_graph import OnnxGraph
from .params import Param
from .rebuild import op_name
from .request import ONNX, TORCHSCRIPT, Request
from .translated import Translated


def prepare(request: Request) -> tuple[OnnxGraph, int, reference.Reference | None]:
    """The model as a clean static graph, the batch in effect, and reference data if there is some."""
    if request.source in BUILDERS:
        return built(request)
    graph, batch, refs = bound(request)
    clean(graph)
    return graph, batch, read_only(refs, graph)


def bound(request: Request) -> tuple[OnnxGraph, int, reference.Reference | None]:
    """The graph of a file or of one operator as it is, with all dimensions known; batch and reference data as above."""
    graph = load.load(request.file) if request.simple is None else simple_ops.build(request.simple)
    declared = reference.declared_shapes(graph)
    batch = bind.bind(graph, request)
    return graph, batch, reference.find(request.file, graph, declared) if request.file else None


BUILDERS = {"transformers": transformers_models.build, "torch": torch_models.build}
"""Sources whose models are built by PyTorch, in the shape requested by the user."""


def built(request: Request) -> tuple[OnnxGraph, int, reference.Reference]:
    """The same for a model that is built in the shape of the request; PyTorch's outputs are the reference."""
    example = BUILDERS[request.source](request)
    graph, refs = torch_graph.export(example, request.model)
    bind.bind(graph, replace(request, batch=None, seqlen=None, inputs=[]))
    clean(graph)
    return graph, request.batch or 1, read_only(refs, graph)


def read_only(refs: reference.Reference | None, graph: OnnxGraph) -> reference.Reference | None:
    """Reference data without inputs that nothing reads."""
    if refs is None:
        return None
    return replace(refs, inputs={name: value for name, value in refs.inputs.items() if name in graph.inputs})


def clean(graph: OnnxGraph) -> None:
    """All rewrites on the ONNX graph; needs bound inputs, leaves static types and fill hints."""
    fold.fold(graph)
    convert.refuse_unsupported(graph, recurrent.SUPPORTED | expand.SUPPORTED)
    unfaithful.refuse_types(graph)
    simplify.drop_no_ops(graph)
    recurrent.unroll(graph)
    moves.write_places(graph)
    expand.expand(graph)
    simplify.drop_no_ops(graph)
    normalise.explicit_pads(graph)
    normalise.transposed_pads(graph)
    normalise.listed_axes(graph)
    normalise.drop_empty(graph)
    normalise.channel_slopes(graph)
    normalise.full_expansions(graph)
    normalise.split_sums(graph)
    normalise.split_gemm(graph)
    graph.infer()
    simplify.fold_affine(graph)
    normalise.split_bias(graph)
    normalise.scalars(graph)
    fold.fold(graph)
    simplify.drop_no_ops(graph)
    graph.drop_unused()
    graph.drop_unread_inputs()
    fill.assign(graph)


TRANSLATED = {"tflite": tflite_files.read, "stablehlo": stablehlo_files.read, "tvm": tvm_files.read}
"""Sources whose files become Relax without ONNX in between."""


def translated(request: Request) -> Translated:
    """The model of the request as a Relax function over inputs and weights."""
    if request.source in TRANSLATED:
        return TRANSLATED[request.source](request)
    return of_graph(request, *prepare(request))


def of_graph(request: Request, graph: OnnxGraph, batch: int, refs: reference.Reference | None) -> Translated:
    """A clean ONNX graph as a Relax function."""
    print(f"importing {request.model}: {len(graph.nodes)} nodes after simplification", file=sys.stderr)
    module, names = converted(graph, request)
    nodes = [(n.op_type, n.name or n.output[0]) for n in graph.nodes]
    hints = {name: request.fills.get(name) or fill.input_hint(graph, name) for name in graph.inputs}
    return Translated(module, names, graph.params, hints, graph.outputs, batch, refs, nodes, graph.declared_nodes)


def converted(graph: OnnxGraph, request: Request) -> tuple[tvm.IRModule, list[str]]:
    """The Relax module of an ONNX graph, and the names of its parameters."""
    try:
        return convert.convert(graph)
    except ImportFailure as failure:
        if failure.kind == "unsupported_operator" and (request.inputs or request.batch not in (None, 1)):
            raise bad_shape(f"the model does not work with the shapes that were given: {failure}") from failure
        raise


def run(request: Request) -> dict:
    """Imports one model into ``request.out``; the answer's facts."""
    if request.form == TORCHSCRIPT:
        return deployed.to_torchscript(request, BUILDERS[request.source](request))
    if request.form == ONNX and request.source in BUILDERS:
        return deployed.module_to_onnx(request, BUILDERS[request.source](request))
    if request.form == ONNX:
        return deployed.graph_to_onnx(request, *bound(request))
    made = lowered(request, translated(request))
    check = checked(request, made)
    try:
        write.write_json(f"{request.out}/steps.json", made.steps)
        return write_import(request, made, check)
    except OSError as error:
        raise write.disk_failure(error, request.out) from error


@dataclass
class Lowered:
    """A model as named kernels, with facts about each."""

    model: Translated
    steps: dict[str, list[str]]
    module: tvm.IRModule
    packed: pack.Packed
    operators: list[dict]
    calls: list[dict]

    def kernels(self) -> verify.Kernels:
        """The module that the check runs."""
        flops = sum(o["flops"] * o["count"] for o in self.operators)
        return verify.Kernels(self.module, self.packed, self.model.outputs, flops)


def lowered(request: Request, model: Translated) -> Lowered:
    """The kernels of a translated model."""
    steps = {"source": model.source, "relax": relax_steps(model.module)}
    model = integers.recognise(model)
    packed = pack.pack(model.module, model.names, model.params)
    module = kernels(request, packed.module, model.nodes)
    weights = {v: n for v, n in zip(module["main"].params, packed.names) if n in packed.params}
    fills = {variable: packed.params[name][0].fill for variable, name in weights.items()}
    try:
        records, names = operators.records(module, fills)
    except operators.NoBlocks as error:
        raise opaque(model.nodes) from error
    if not records:
        raise ImportFailure(
            "corrupt_model", f"{request.model} computes nothing: its graph has no operators left after simplification"
        )
    calls = operators.calls(module["main"], names, weights)
    module = lower.rename(module, names)
    places.add_reuse(module, records, {i for i, n in enumerate(packed.names) if n in packed.params})
    return Lowered(model, steps, module, packed, records, calls)


def checked(request: Request, made: Lowered) -> dict:
    """The entry ``check`` of graph.json; raises ``ImportFailure`` (wrong_import) where the import computes something
    else than the source's own framework."""
    kernels, model = made.kernels(), made.model
    if request.source in BUILDERS:
        dtypes = {p.dtype for p in model.params.values()} | {v.dtype.name for v in model.reference.outputs}
        return verify.verdict(lambda: verify.against_given(kernels, model.reference, dtypes))
    if request.source in TRANSLATED:
        shapes = {name: shape for name, (shape, _) in kernels.inputs().items()}
        oracle = {
            "tflite": lambda: oracles.lite_rt(request.file, shapes),
            "stablehlo": lambda: oracles.xla(request.file),
            "tvm": lambda: tvm_files.compiled_by_tvm(request.file),
        }
        make = oracle[request.source]
        return verify.verdict(lambda: verify.against_framework(kernels, model.hints, make(), model.source))

    def again(request: Request, graph: OnnxGraph) -> verify.Kernels:
        batch = bind.bind(graph, request)
        clean(graph)
        return lowered(request, of_graph(request, graph, batch, None)).kernels()

    graph, _, _ = bound(request)
    return verify.verdict(verify.OnnxCheck(request, graph, again, kernels).run)


def relax_steps(module: tvm.IRModule) -> list[str]:
    """The Relax operators of a module in order; tensor functions that our own translations made by their names."""
    found = []
    for block in module["main"].body.blocks:
        for binding in block.bindings:
            name = op_name(binding.value)
            if name == "relax.call_tir":
                name = binding.value.args[0].name_hint
            found += [name] if name else []
    return found


def kernels(request: Request, module: tvm.IRModule, nodes: list[tuple[str, str]]) -> tvm.IRModule:
    """The module with one tensor function a kernel, as the request groups operators; blocks are still marked."""
    try:
        module = lower.legalised(module)
    except tvm.error.InternalError as error:
        # TVM's rules check types and shapes as they go, without a word on the operator.
        raise unsupported(
            nodes[0][0], nodes[0][1], f"TVM has no kernel for one of the model's operators: {onnx_graph.first_line(error)}"
        ) from error
    left = lower.without_kernel(module)
    if left:
        raise library_function(nodes, left[0])
    if request.composites is not None:
        module = composites.apply(module, request.composites)
    module = lower.fused(module) if request.fusion == "full" else module
    # Databases of MetaSchedule know the functions of TVM's own modules as TVM wrote them.
    return module if request.source == "tvm" else extremes.begin_at_infinity(module)


OPAQUE = ("ScatterElements", "ScatterND", "Scatter", "NonZero", "Unique", "RoiAlign", "Resize")
"""Operators that TVM's library has as one loop nest without blocks, the likeliest first."""


def opaque(nodes: list[tuple[str, str]]) -> ImportFailure:
    """The refusal of an operator whose kernel has no blocks."""
    op, label = min(nodes, key=lambda n: OPAQUE.index(n[0]) if n[0] in OPAQUE else len(OPAQUE))
    return unsupported(
        op,
        label,
        f"operator {op} (node '{label}') is one opaque loop nest in TVM's library, which can be neither described nor "
        "scheduled; cut the model around it",
    )


def library_function(nodes: list[tuple[str, str]], name: str) -> ImportFailure:
    """The refusal of an operator of Relax that has no kernel."""
    op, label = next((n for n in nodes if n[0].lower() == name.replace("_", "")), nodes[0])
    return unsupported(
        op,
        label,
        f"operator {op} (node '{label}') is a library function of TVM ('{name}'), which can be neither described nor "
        "scheduled; cut the model around it",
    )


def write_import(request: Request, made: Lowered, check: dict) -> dict:
    """Writes all files, graph.json last."""
    model, module, packed = made.model, made.module, made.packed
    write.write_text(f"{request.out}/module.json", tvm.ir.save_json(module))
    main = module["main"]
    facts = {
        "format": GRAPH_FORMAT,
        "source": request.source,
        "model": request.model,
        "versions": {
            "tvm": tvm.__version__,
            "tvm_ffi": tvm_ffi.__version__,
            "onnx": onnx.__version__,
            "python": platform.python_version(),
        },
        "batch": model.batch,
        "entry": "main",
        "inputs": describe_inputs(request, model.hints, main, packed),
        "outputs": describe_outputs(model.outputs, main),
        "reference": write_reference(request, model),
        "check": check,
        "operators": made.operators,
        "calls": made.calls,
    }
    write.write_json(f"{request.out}/graph.json", facts)
    return {"operators": len(made.operators), "calls": len(made.calls)}


def tensor_facts(ty: relax.TensorType) -> dict:
    """Shape and element type of a Relax tensor type."""
    return {"shape": [int(d) for d in ty.shape.values], "dtype": str(ty.dtype.dtype)}


def describe_inputs(request: Request, hints: dict, main: relax.Function, packed: pack.Packed) -> list[dict]:
    """The parameters of ``main`` in order; values go to params.bin."""
    file = write.TensorFile(f"{request.out}/params.bin")
    described = []
    for var, name in zip(main.params, packed.names):
        entry = {"name": name, **tensor_facts(var.ty)}
        if name not in packed.params:
            described.append(
                {
                    **entry,
                    "role": "input",
                    "fill": hints[name],
                    "layout": None,
                    "data": None,
                }
            )
            continue
        param, packing = packed.params[name]
        described.append(
            {
                **entry,
                "role": "param",
                "fill": param.fill,
                "layout": layout(param, packing),
                "data": store(file, param, packing),
            }
        )
    file.close()
    return described


def layout(param: Param, packing: pack.Packing | None) -> dict | None:
    """How the parameter derives from the model's own tensor; None if it is that tensor."""
    if packing is None and param.transpose is None and param.original_shape == param.shape:
        return None
    return {
        "original_shape": list(param.original_shape),
        "transpose": None if param.transpose is None else list(param.transpose),
        "block_axis": None if packing is None else packing.block_axis,
        "block": None if packing is None else packing.block,
    }


def store(file: write.TensorFile, param: Param, packing: pack.Packing | None) -> dict | None:
    """Writes the values, packed as the kernels read them; None for no values or one value everywhere."""
    if param.value is None or param.uniform_value() is not None:
        return None
    return file.append(packing.pack(param.value) if packing else param.value)


def describe_outputs(names: list[str], main: relax.Function) -> list[dict]:
    """The outputs in order."""
    ty = main.ret_ty
    types = list(ty.fields) if isinstance(ty, relax.TupleType) else [ty]
    return [{"name": name, **tensor_facts(t)} for name, t in zip(names, types)]


def write_reference(request: Request, model: Translated) -> dict | None:
    """Reference inputs and outputs to refs.bin."""
    refs = model.reference
    if refs is None:
        return None
    file = write.TensorFile(f"{request.out}/refs.bin")
    inputs = [{"name": n, **file.append(v)} for n, v in refs.inputs.items()]
    outputs = [
        {"index": i, **file.append(v), "shape": list(v.shape), "dtype": v.dtype.name}
        for i, v in enumerate(refs.outputs)
    ]
    file.close()
    rtol = reference.relative_tolerance({p.dtype for p in model.params.values()} | {v.dtype.name for v in refs.outputs})
    return {"inputs": inputs, "outputs": outputs, "rtol": rtol, "atol": reference.ATOL, "origin": refs.origin}
