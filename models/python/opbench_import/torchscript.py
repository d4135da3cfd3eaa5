"""TorchScript of a module of PyTorch, traced with fixed shapes, for libtorch."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from . import torch_graph
from .errors import ImportFailure, bad_shape
from .onnx_graph import first_line

OPEN_END = 2**63 - 1
"""The end of a slice without one."""


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
    for graph in graphs(traced):
        restore_convolutions(torch, graph)
        drop_whole_slices(graph)
        torch._C._jit_pass_dce(graph)  # noqa: SLF001
    with torch.no_grad():
        pairs = zip(torch_graph.outputs(torch, traced(*arguments)), torch_graph.outputs(torch, module(*arguments)))
        if not all(torch.allclose(mine, theirs, rtol=1e-3, atol=1e-4) for mine, theirs in pairs):
            raise untraceable(model, "its trace computes something else, so it is random or depends on its data")
    return traced


def untraceable(model: str, reason: str) -> ImportFailure:
    """The refusal of a model that is not a fixed sequence of operators."""
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

    def contiguous(self, memory_format=torch.contiguous_format):
        # Python asks before it calls; a tracer records the call all the same.
        if self.is_contiguous(memory_format=memory_format):
            return self
        return base.contiguous(self, memory_format=memory_format)

    tensor.contiguous = contiguous
    tensor.size = untraced(base.size)
    tensor.shape = property(untraced(base.shape.__get__))
    tensor.__len__ = untraced(length)
    torch.jit.is_tracing = lambda: False
    try:
        yield
    finally:
        del tensor.size, tensor.shape, tensor.contiguous
        tensor.__len__ = length
        torch.jit.is_tracing = asked


INPUT, WEIGHT, BIAS, STRIDE, PADDING, DILATION, TRANSPOSED, GROUPS = 0, 1, 2, 3, 4, 5, 6, 8
"""Arguments of ``aten::_convolution``."""


def graphs(traced) -> Iterator:
    """The graphs of all methods of a module and of those inside it."""
    for module in traced.modules():
        for name in module._c._method_names():  # noqa: SLF001
            yield module._c._get_method(name).graph  # noqa: SLF001


def restore_convolutions(torch, graph) -> None:
    """Puts ``aten::conv2d`` back where a trace has what it calls: tracers of PyTorch look inside this one operator."""
    for node in graph.findAllNodes("aten::_convolution"):
        given = list(node.inputs())
        if given[TRANSPOSED].toIValue():
            continue
        spatial = len(list(given[STRIDE].node().inputs()))
        kept = [given[i] for i in (INPUT, WEIGHT, BIAS, STRIDE, PADDING, DILATION, GROUPS)]
        replace(node, graph.create(f"aten::conv{spatial}d", kept, 1))


def drop_whole_slices(graph) -> None:
    """Leaves out slices that take everything, as Python's indexing does; an index of nothing else is an ``aten::alias`` there."""
    for chain in slices_by_index(graph):
        whole = [takes_everything(node) for node in chain]
        if all(whole) and not is_part(chain):
            replace(chain[0], graph.create("aten::alias", [chain[0].inputsAt(0)], 1))
            whole[0] = False
        for node, drop in zip(chain, whole):
            if drop:
                node.output().replaceAllUsesWith(node.inputsAt(0))


def slices_by_index(graph) -> list[list]:
    """All slices, those of one index together in their order."""
    chains: list[list] = []
    for node in graph.findAllNodes("aten::slice"):
        chain = next((chain for chain in chains if is_next_slice(chain[-1], node)), None)
        if chain is None:
            chains.append([node])
        else:
            chain.append(node)
    return chains


def is_next_slice(node, following) -> bool:
    """Whether two slices are of one index: of one axis after the other, where nothing else reads the first."""
    if node.kind() != "aten::slice" or len(node.output().uses()) != 1:
        return False
    if following.inputsAt(0).debugName() != node.output().debugName():
        return False
    axes = [n.inputsAt(1).toIValue() for n in (node, following)]
    return None not in axes and axes[0] < axes[1]


def is_part(chain: list) -> bool:
    """Whether an index has more than these slices: elements that are chosen, or new axes."""
    after = chain[-1].output().uses()
    neighbours = [chain[0].inputsAt(0).node(), *(use.user for use in after if len(after) == 1)]
    return any(node.kind() in ("aten::select", "aten::unsqueeze") for node in neighbours)


def takes_everything(node) -> bool:
    """Whether a slice of fixed bounds is its input."""
    data, *bounds = node.inputs()
    axis, start, end, step = (bound.toIValue() for bound in bounds)
    if start not in (0, None) or step != 1 or end is None or axis is None:
        return False
    sizes = data.type().sizes() if is_tensor(data) else None
    return end == OPEN_END or (sizes is not None and end >= sizes[axis])


def is_tensor(value) -> bool:
    """Whether a value of a graph is a tensor whose shape may be known."""
    return value.type().kind() == "TensorType"


def replace(node, other) -> None:
    """Puts a node in the place of another one of one result."""
    other.insertBefore(node)
    other.output().setType(node.output().type())
    node.output().replaceAllUsesWith(other.output())
    node.destroy()
