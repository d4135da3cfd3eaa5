"""A model as another framework runs it: a file for that framework, with inputs and the outputs to expect for them.

For libtorch this is TorchScript (``model.pt``), for ONNX Runtime an ONNX file with a value for every weight
(``model.onnx``). ``tensors.bin`` has the values and ``deployed.json``, written last, says where. Where ONNX Runtime itself
computed the outputs they lie beside the file, too, as test data of the ONNX model zoo, so that whoever imports that file is
checked against them.
"""

from __future__ import annotations

import os

import numpy as np
import onnx
from google.protobuf.message import EncodeError
from onnx import numpy_helper

from . import extras, fill, load, reference, torch_graph, torch_library, torchscript, write
from .errors import bad_shape, unsupported
from .onnx_graph import OnnxGraph, dtype_name, first_line, value_info
from .request import Request
from .torch_graph import SEED, Example

FORMAT = 2
PYTORCH = "PyTorch"
ONNX_RUNTIME = "ONNX Runtime"


def to_torchscript(request: Request, example: Example) -> dict:
    """Writes a module for libtorch; the answer's facts."""
    torch = torch_library.load()
    computed = [torch_graph.array(t) for t in torch_graph.results(torch, example, request.model)]
    script = torchscript.scripted(torch, example.module, tuple(example.inputs.values()), request.model)
    try:
        script.save(f"{request.out}/model.pt")
        inputs = {name: torch_graph.array(value) for name, value in example.inputs.items()}
        # libtorch runs the same kernels.
        refs = reference.Reference(inputs, computed, PYTORCH)
        return finish(request, request.batch or 1, "model.pt", refs, reference.PLAIN_RTOL)
    except OSError as error:
        raise write.disk_failure(error, request.out) from error


def module_to_onnx(request: Request, example: Example) -> dict:
    """Writes a module for ONNX Runtime, with PyTorch's outputs; the answer's facts."""
    torch = torch_library.load()
    computed = [torch_graph.array(t) for t in torch_graph.results(torch, example, request.model)]
    proto = torch_graph.to_onnx(example, request.model)
    read = {value.name for value in proto.graph.input}
    inputs = {name: torch_graph.array(value) for name, value in example.inputs.items() if name in read}
    try:
        save(request, proto)
        refs = reference.Reference(inputs, computed, PYTORCH)
        return finish(request, request.batch or 1, "model.onnx", refs, tolerance(proto, refs))
    except OSError as error:
        raise write.disk_failure(error, request.out) from error


def graph_to_onnx(request: Request, graph: OnnxGraph, batch: int, refs: reference.Reference | None) -> dict:
    """Writes a graph for ONNX Runtime, with its own outputs if the model came without; returns the answer's facts."""
    graph.infer()
    hints = {name: request.fills.get(name) or fill.input_hint(graph, name) for name in graph.inputs}
    proto = user_model(request, graph, np.random.default_rng(SEED))
    try:
        save(request, proto)
        if refs is None:
            generator = np.random.default_rng(SEED)
            shapes = graph.inputs.items()
            inputs = {n: fill.values(hints[n], s.shape, s.dtype, generator) for n, s in shapes}
            refs = reference.Reference(inputs, computed_by_onnx_runtime(request, inputs), ONNX_RUNTIME)
        keep_test_data(request, refs)
        return finish(request, batch, "model.onnx", refs, tolerance(proto, refs))
    except OSError as error:
        raise write.disk_failure(error, request.out) from error


def user_model(request: Request, graph: OnnxGraph, generator: np.random.Generator) -> onnx.ModelProto:
    """The model as its file has it, with the input shapes in effect and seeded values for weights without any; an
    operator of the source ``simple`` is what the importer made. ``graph`` is the file's, with bound inputs.

    Nothing is converted: a reference that reads the importer's own conversion would repeat its faults.
    """
    fill.assign(graph)
    if request.file is None:
        proto = graph.to_proto()
        given = {tensor.name for tensor in proto.graph.initializer}
        missing = [name for name in graph.params if name not in given]
    else:
        proto = load.read_model(request.file)
        missing = [name for name, param in graph.params.items() if param.value is None]
        set_shapes(proto, graph)
    for name in missing:
        param = graph.params[name]
        value = param.value if param.value is not None else fill.values(param.fill, param.shape, param.dtype, generator)
        proto.graph.initializer.append(numpy_helper.from_array(np.ascontiguousarray(value), name))
    inputs = [value for value in proto.graph.input if value.name not in missing]
    del proto.graph.input[:]
    proto.graph.input.extend(inputs)
    return proto


def set_shapes(model: onnx.ModelProto, graph: OnnxGraph) -> None:
    """Gives the model's inputs the shapes and element types of the graph's."""
    for info in model.graph.input:
        spec = graph.inputs.get(info.name)
        if spec is not None:
            info.CopyFrom(value_info(info.name, spec.shape, spec.dtype))
    # Declarations of other values can have other shapes.
    del model.graph.value_info[:]
    for info in model.graph.output:
        info.type.tensor_type.ClearField("shape")


def save(request: Request, proto: onnx.ModelProto) -> None:
    """Writes ``model.onnx``."""
    try:
        onnx.save(proto, f"{request.out}/model.onnx")
    except (ValueError, EncodeError) as error:
        raise bad_shape(
            f"{request.model}: an ONNX file of one piece holds 2 GiB at most ({first_line(error)}); choose a smaller model or "
            "leave ONNX Runtime out"
        ) from error


def computed_by_onnx_runtime(request: Request, inputs: dict[str, np.ndarray]) -> list[np.ndarray]:
    """The outputs of ONNX Runtime for the written file."""
    onnxruntime = extras.pinned("onnxruntime", "dev")
    options = onnxruntime.SessionOptions()
    # Threads that wait for each other spin, which on a busy machine takes longer than they save.
    options.intra_op_num_threads = 1
    options.log_severity_level = 4
    try:
        session = onnxruntime.InferenceSession(
            f"{request.out}/model.onnx", options, providers=["CPUExecutionProvider"]
        )
        return session.run(None, inputs)
    # Its errors have no common class that is public.
    except Exception as error:  # noqa: BLE001
        raise unsupported(
            "onnxruntime", request.model, f"{request.model}: ONNX Runtime cannot run it ({first_line(error)})"
        ) from error


def keep_test_data(request: Request, refs: reference.Reference) -> None:
    """Writes inputs and outputs beside the file, as :func:`reference.find` reads them."""
    folder = f"{request.out}/{reference.TEST_DATA}"
    os.mkdir(folder)
    for kind, values in (("input", refs.inputs.values()), ("output", refs.outputs)):
        for place, value in enumerate(values):
            tensor = numpy_helper.from_array(np.ascontiguousarray(value))
            with open(f"{folder}/{kind}_{place}.pb", "wb") as file:
                file.write(tensor.SerializeToString())


def tolerance(proto: onnx.ModelProto, refs: reference.Reference) -> float:
    """Tolerance of the outputs, relative to the largest, by the types of weights and outputs."""
    weights = {dtype_name(tensor.data_type) for tensor in proto.graph.initializer if len(tensor.dims) > 1}
    return reference.relative_tolerance(weights | {value.dtype.name for value in refs.outputs})


def finish(request: Request, batch: int, name: str, refs: reference.Reference, rtol: float) -> dict:
    """Writes the tensors and, last, their list; returns the answer's facts."""
    file = write.TensorFile(f"{request.out}/tensors.bin")
    inputs = [{"name": name, **described(file, value)} for name, value in refs.inputs.items()]
    outputs = [{"name": f"output_{i}", **described(file, value)} for i, value in enumerate(refs.outputs)]
    file.close()
    facts = {
        "format": FORMAT,
        "source": request.source,
        "model": request.model,
        "batch": batch,
        "file": name,
        "inputs": inputs,
        "outputs": outputs,
        "origin": refs.origin,
        "rtol": rtol,
    }
    write.write_json(f"{request.out}/deployed.json", facts)
    return {"outputs": len(outputs)}


def described(file: write.TensorFile, value: np.ndarray) -> dict:
    """Writes a tensor; its shape, element type and place."""
    return {"shape": list(value.shape), "dtype": value.dtype.name, **file.append(value)}
