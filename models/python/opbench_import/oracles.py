"""What a model's own framework computes: the references that imports are compared with.

ONNX models run in ONNX Runtime, without its graph optimisations, or in ONNX's reference evaluator where ONNX Runtime
refuses them; TFLite files in LiteRT; StableHLO modules in XLA. PyTorch's outputs come with the export. A framework that is
not installed, or refuses the model, raises ``Unchecked``.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnx
import onnx.reference

from . import extras
from .errors import ImportFailure
from .onnx_graph import first_line

LARGEST_BYTES = 2**31 - 1
"""Of a serialised ONNX model: the limit of Protocol Buffers."""
NEWEST_IR = 13
"""Newest version of the file format that the pinned ONNX Runtime reads; operators do not depend on later additions."""
SLOW_FLOPS = 2e8
"""Most arithmetic for ONNX's reference evaluator, which runs some operators as loops in Python: about a minute."""


class Unchecked(Exception):
    """No reference can say whether an import is right; the message says why."""


Outputs = Callable[[dict[str, np.ndarray]], list[np.ndarray]]
"""Outputs for inputs by name."""


def onnx_runtime(model: onnx.ModelProto) -> tuple[str, Outputs]:
    """ONNX Runtime's name and its outputs; raises ``Unchecked`` if it cannot run the model."""
    try:
        runtime = extras.pinned("onnxruntime", "")
    except ImportFailure as failure:
        raise Unchecked(str(failure)) from failure
    options = runtime.SessionOptions()
    # Without it, products of bytes overflow on x86-64 processors without VNNI.
    options.add_session_config_entry("session.x64quantprecision", "1")
    # Threads that wait for each other spin, which on a busy machine takes longer than they save.
    options.intra_op_num_threads = 1
    options.log_severity_level = 4
    # The operators as ONNX defines them, not as ONNX Runtime fuses them.
    options.graph_optimization_level = runtime.GraphOptimizationLevel.ORT_DISABLE_ALL
    if any(node.op_type == "QGemm" for node in model.graph.node):
        # An optimisation keeps its products from overflowing without VNNI.
        options.graph_optimization_level = runtime.GraphOptimizationLevel.ORT_ENABLE_EXTENDED
    name = f"ONNX Runtime {runtime.__version__}"
    if model.ByteSize() > LARGEST_BYTES:
        raise Unchecked("with its weights the model is larger than 2 GiB")
    readable = onnx.ModelProto()
    readable.CopyFrom(model)
    readable.ir_version = min(model.ir_version, NEWEST_IR)
    try:
        session = runtime.InferenceSession(readable.SerializeToString(), options, providers=["CPUExecutionProvider"])
    # Its errors have no common class that is public.
    except Exception as error:  # noqa: BLE001
        raise Unchecked(f"{name} cannot run it ({first_line(error)})") from error
    wanted = {i.name for i in session.get_inputs()}

    def run(inputs: dict[str, np.ndarray]) -> list[np.ndarray]:
        try:
            return tensors(session.run(None, {n: v for n, v in inputs.items() if n in wanted}))
        except Unchecked:
            raise
        except Exception as error:  # noqa: BLE001
            raise Unchecked(f"{name} cannot run it ({first_line(error)})") from error

    return name, run


def reference_evaluator(model: onnx.ModelProto, flops: int) -> tuple[str, Outputs]:
    """The name of ONNX's reference evaluator and its outputs; raises ``Unchecked`` for large models."""
    name = f"ONNX's reference evaluator {onnx.__version__}"
    if flops > SLOW_FLOPS:
        raise Unchecked(f"{name} would take minutes")
    try:
        evaluator = onnx.reference.ReferenceEvaluator(model)
    except Exception as error:  # noqa: BLE001 - it raises what its implementations of operators raise
        raise Unchecked(f"{name} cannot run it ({first_line(error)})") from error

    def run(inputs: dict[str, np.ndarray]) -> list[np.ndarray]:
        try:
            with np.errstate(all="ignore"):
                return tensors(evaluator.run(None, inputs))
        except Unchecked:
            raise
        except Exception as error:  # noqa: BLE001
            raise Unchecked(f"{name} cannot run it ({first_line(error)})") from error

    return name, run


def tensors(outputs: list[object]) -> list[np.ndarray]:
    """Outputs that are all tensors."""
    if not all(isinstance(o, np.ndarray | np.generic) for o in outputs):
        raise Unchecked("its outputs are sequences or optional values")
    return [np.asarray(o) for o in outputs]


def lite_rt(path: str, shapes: dict[str, tuple[int, ...]]) -> tuple[str, Outputs]:
    """LiteRT's name and the outputs of its reference kernels for a TFLite file with inputs of these shapes."""
    try:
        module = extras.pinned("ai_edge_litert.interpreter", "dev")
        version = extras.pinned("ai_edge_litert", "dev").__version__
    except (ImportFailure, AttributeError) as failure:
        raise Unchecked(str(failure)) from failure
    name = f"LiteRT {version}"

    def run(inputs: dict[str, np.ndarray]) -> list[np.ndarray]:
        try:
            interpreter = module.Interpreter(
                model_path=path, experimental_op_resolver_type=module.OpResolverType.BUILTIN_REF
            )
            for entry in interpreter.get_input_details():
                interpreter.resize_tensor_input(entry["index"], shapes[entry["name"]])
            interpreter.allocate_tensors()
            for entry in interpreter.get_input_details():
                interpreter.set_tensor(entry["index"], inputs[entry["name"]])
            interpreter.invoke()
            return [interpreter.get_tensor(entry["index"]) for entry in interpreter.get_output_details()]
        except (RuntimeError, ValueError, KeyError) as error:
            raise Unchecked(f"{name} cannot run it ({first_line(error)})") from error

    return name, run


def xla(path: str) -> tuple[str, Outputs]:
    """XLA's name and its outputs for a StableHLO module."""
    try:
        jax = extras.load("stablehlo", "jax", "85 MB to download")
        backend = extras.load("stablehlo", "jax.extend.backend", "85 MB to download").get_backend("cpu")
    except ImportFailure as failure:
        raise Unchecked(str(failure)) from failure
    from jaxlib import _jax

    from . import stablehlo_files

    name = f"XLA (jax {jax.__version__})"

    def run(inputs: dict[str, np.ndarray]) -> list[np.ndarray]:
        try:
            module = stablehlo_files.parse(path)
            devices = _jax.DeviceList(tuple(backend.local_devices()[:1]))
            program = backend.compile_and_load(module, devices, _jax.CompileOptions())
            results = program.execute_sharded([jax.device_put(value) for value in inputs.values()]).disassemble_into_single_device_arrays()
            return [np.asarray(shards[0]) for shards in results]
        except Exception as error:  # noqa: BLE001 - XLA raises errors of several classes
            raise Unchecked(f"{name} cannot run it ({first_line(error)})") from error

    return name, run
