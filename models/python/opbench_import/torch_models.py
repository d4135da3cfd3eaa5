"""Models of PyTorch: by a name of ``torchvision`` or ``timm``, or from a file.

Files are exported programs (``.pt2``), which hold the inputs that they were exported with, TorchScript modules
(``.pt``, ``.pth``), which need ``--input``, and weights (``.safetensors``) beside a configuration (``config.json``),
which are models of ``transformers``. Weights of named models are seeded, never downloaded.
"""

from __future__ import annotations

import difflib

from . import torch_graph, torch_library, transformers_models
from .errors import ImportFailure, bad_shape
from .onnx_graph import first_line
from .request import TORCHSCRIPT, InputOverride, Request
from .torch_graph import SEED, Example

DEFAULT_IMAGE = (3, 224, 224)
LIBRARIES = ("torchvision", "timm")
SMALLER = "choose a smaller one"


def build(request: Request) -> Example:
    """The model requested by the user, with its inputs."""
    torch = torch_library.load()
    torch.manual_seed(SEED)
    if request.seqlen is not None and request.architecture is None:
        raise bad_shape(f"{request.model} has no sequence of tokens, so --seqlen means nothing for it")
    if request.file is None:
        return named(torch, request)
    if request.architecture is not None:
        return transformers_models.build(request)
    try:
        if request.file.endswith(".pt2"):
            return exported(torch, request)
        return scripted(torch, request)
    except ImportFailure:
        raise
    # Damaged files fail anywhere in the reader.
    except Exception as error:  # noqa: BLE001
        raise ImportFailure(
            "corrupt_model", f"{request.file}: not a model of PyTorch, or damaged ({first_line(error)})"
        ) from error


def named(torch, request: Request) -> Example:
    """A model of a library, of seeded weights."""
    library, name = find(request.model)
    make = maker(library, name)
    try:
        with torch.device("meta"):
            plan = make()
    except NotImplementedError:
        # Some models compute their sizes with tensors, which have no values there.
        plan = make()
    torch_graph.require_memory(torch, plan, request.model, SMALLER)
    module = make().eval()
    shape = image(module, request)
    settle(torch, module, shape)
    dtype = precision(torch, request)
    return Example(module.to(dtype), {"input": torch.randn(*shape).to(dtype)})


def precision(torch, request: Request):
    """The type that the network computes in: that of ``--input``, else single precision."""
    given = only_input(request)
    name = given.dtype if given is not None and given.dtype else "float32"
    dtype = getattr(torch, name)
    if not dtype.is_floating_point:
        raise bad_shape(f"{request.model} computes in floating-point numbers, not in {name}")
    return dtype


def settle(torch, module, shape: list[int]) -> None:
    """Gives batch normalisations the statistics of one seeded batch.

    With the statistics of a fresh model (mean 0, variance 1) activations fade from layer to layer until the outputs are
    constants, which a check of results could not tell from wrong ones.
    """
    norms = [m for m in module.modules() if isinstance(m, torch.nn.modules.batchnorm._BatchNorm)]  # noqa: SLF001
    if not norms:
        return
    for norm in norms:
        norm.train()
        norm.momentum = None
    with torch.no_grad():
        # Of one image, a layer of 1x1 would have a single value a channel and no variance.
        module(torch.randn(max(2, shape[0]), *shape[1:]))
    module.eval()


def find(model: str) -> tuple[str, str]:
    """The library and the name in it; ``timm/NAME`` names one of them where both have the model."""
    wanted, _, name = model.rpartition("/")
    known: dict[str, list[str]] = {}
    for library in LIBRARIES:
        if wanted in ("", library):
            known[library] = list_models(library)
            if name in known[library]:
                return library, name
    if not known:
        raise ImportFailure("unknown_model", f"'{wanted}' is no library of models; there are {' and '.join(LIBRARIES)}")
    near = difflib.get_close_matches(name, sorted({n for names in known.values() for n in names}), n=3)
    hint = f" (did you mean {' or '.join(repr(n) for n in near)}?)" if near else ""
    count = " and ".join(f"{len(names)} of {library}" for library, names in known.items())
    raise ImportFailure("unknown_model", f"no model '{name}'{hint} among {count}, and no file of that name")


def list_models(library: str) -> list[str]:
    """All names of a library that stand for one network with one image as its input."""
    if library == "timm":
        return torch_library.load("timm").list_models()
    models = torch_library.load("torchvision.models")
    return models.list_models(module=models)


def maker(library: str, name: str):
    """A function that makes the module without its weights."""
    if library == "timm":
        timm = torch_library.load("timm")
        return lambda: timm.create_model(name, pretrained=False)
    models = torch_library.load("torchvision.models")
    extra = {"init_weights": True} if name in ("googlenet", "inception_v3") else {}
    return lambda: models.get_model(name, weights=None, **extra)


def image(module, request: Request) -> list[int]:
    """The shape of a batch of images: of ``--input``, or as the model says."""
    given = only_input(request)
    if given is not None:
        if request.batch not in (None, given.shape[0]):
            raise bad_shape(f"--batchsize {request.batch} contradicts --input with {given.shape[0]}")
        return given.shape
    size = getattr(module, "default_cfg", {}).get("input_size", DEFAULT_IMAGE)
    if type(module).__name__ == "Inception3":
        size = (3, 299, 299)
    return [request.batch or 1, *size]


def only_input(request: Request) -> InputOverride | None:
    """The one input that was given, if any."""
    if len(request.inputs) > 1 or any(i.name != "input" for i in request.inputs):
        names = ", ".join(i.name for i in request.inputs)
        raise ImportFailure(
            "unknown_input", f"{request.model} has one input, 'input', not {names}", name=names, inputs=["input"]
        )
    return request.inputs[0] if request.inputs else None


def exported(torch, request: Request) -> Example:
    """An exported program in the shapes that it was exported with."""
    if request.inputs or request.batch is not None:
        raise bad_shape(f"{request.file}: an exported program has fixed shapes; leave out --input and --batchsize")
    program = torch.export.load(request.file)
    arguments, keywords = program.example_inputs or ((), {})
    if keywords or not arguments or not all(isinstance(a, torch.Tensor) for a in arguments):
        raise ImportFailure(
            "corrupt_model",
            f"{request.file}: its example inputs are not tensors in the order of its arguments; export it with such",
        )
    names = [spec.arg.name for spec in program.graph_signature.input_specs if spec.kind.name == "USER_INPUT"]
    return Example(program.module(), dict(zip(names, arguments)))


def scripted(torch, request: Request) -> Example:
    """A TorchScript module; such files say nothing of their inputs."""
    module = torch.jit.load(request.file, map_location="cpu").eval()
    if not request.inputs:
        raise bad_shape(
            f"{request.file}: a TorchScript module does not say what it reads; give each argument in order with "
            "--input NAME:SHAPE[:DTYPE]"
        )
    inputs = {i.name: seeded(torch, i) for i in request.inputs}
    if request.form == TORCHSCRIPT:
        return Example(module, inputs)
    converter = torch_library.load("torch._export.converter").TS2EPConverter
    return Example(converter(module, tuple(inputs.values()), {}).convert().module(), inputs)


def seeded(torch, given: InputOverride):
    """Values for an input that the user described."""
    dtype = getattr(torch, given.dtype or "float32")
    if dtype.is_floating_point:
        return torch.randn(*given.shape, dtype=dtype)
    return torch.randint(0, 2, tuple(given.shape)).to(dtype)
