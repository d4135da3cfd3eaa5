"""TorchScript of a module of PyTorch, traced with fixed shapes, for libtorch."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from . import torch_graph
from .errors import ImportFailure, bad_shape
from .onnx_graph import first_line


def scripted(torch, module, arguments: tuple, model: str):
    """The module as TorchScript: itself if it is, else traced."""
    if isinstance(module, torch.jit.ScriptModule):
        return module
    try:
        with torch.no_grad(), fixed_shapes(torch):
            traced = torch.jit.trace(module, arguments, strict=False, check_trace=False)
    # Anything can be raised: the code is the model's own.
    except Exception as error:  # noqa: BLE001
        raise untraceable(model, f"its trace fails ({first_line(torch_graph.cause(error))})") from error
    restore_convolutions(torch, traced)
    with torch.no_grad():
        pairs = zip(torch_graph.outputs(torch, traced(*arguments)), torch_graph.outputs(torch, module(*arguments)))
        if not all(torch.allclose(mine, theirs, rtol=1e-3, atol=1e-4) for mine, theirs in pairs):
            raise untraceable(model, "its trace computes something else, so it is random or depends on its data")
    return traced


def untraceable(model: str, reason: str) -> ImportFailure:
    """The refusal of a model that is no fixed sequence of operators."""
    return bad_shape(
        f"{model} cannot be traced for libtorch: {reason}; script it yourself (torch.jit.script), save it as a .pt file and "
        "use --modelsource torch"
    )


@contextlib.contextmanager
def fixed_shapes(torch) -> Iterator[None]:
    """Lets a trace take shapes for constants, and models take the ways that they take outside of a trace.

    A tracer records reading a shape and all that is computed from it as operators on tensors (``floor_divide``, ``item``),
    which PyTorch computes as plain numbers otherwise; models of transformers compute masks in another way when traced.
    """
    tensor, base = torch.Tensor, torch._C.TensorBase  # noqa: SLF001
    asked, length = torch.jit.is_tracing, tensor.__len__

    def untraced(function):
        def call(*positional, **named):
            state = torch._C._get_tracing_state()  # noqa: SLF001
            torch._C._set_tracing_state(None)  # noqa: SLF001
            try:
                return function(*positional, **named)
            finally:
                torch._C._set_tracing_state(state)  # noqa: SLF001

        return call

    tensor.size = untraced(base.size)
    tensor.shape = property(untraced(base.shape.__get__))
    tensor.__len__ = untraced(length)
    torch.jit.is_tracing = lambda: False
    try:
        yield
    finally:
        del tensor.size, tensor.shape
        tensor.__len__ = length
        torch.jit.is_tracing = asked


INPUT, WEIGHT, BIAS, STRIDE, PADDING, DILATION, TRANSPOSED, GROUPS = 0, 1, 2, 3, 4, 5, 6, 8
"""Arguments of ``aten::_convolution``."""


def restore_convolutions(torch, traced) -> None:
    """Puts ``aten::conv2d`` back where a trace has what it calls: tracers of PyTorch look inside this one operator."""
    for module in traced.modules():
        for name in module._c._method_names():  # noqa: SLF001
            graph = module._c._get_method(name).graph  # noqa: SLF001
            for node in graph.findAllNodes("aten::_convolution"):
                given = list(node.inputs())
                if given[TRANSPOSED].toIValue():
                    continue
                spatial = len(list(given[STRIDE].node().inputs()))
                kept = [given[i] for i in (INPUT, WEIGHT, BIAS, STRIDE, PADDING, DILATION, GROUPS)]
                whole = graph.create(f"aten::conv{spatial}d", kept, 1)
                whole.insertBefore(node)
                whole.output().setType(node.output().type())
                node.output().replaceAllUsesWith(whole.output())
                node.destroy()
            torch._C._jit_pass_dce(graph)  # noqa: SLF001
