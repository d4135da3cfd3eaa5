"""Models that the library ``transformers`` builds from a configuration, with seeded weights instead of downloaded ones.

A name is an architecture (``bert``, ``gpt2``, ``llama``), which a configuration or the folder of a checkpoint may say
instead. Parts are ``prefill`` (all tokens of a prompt) and ``decode`` (one more token, with a key-value cache) of a
language model, ``encoder`` and ``decoder`` of a model that has both.
"""

from __future__ import annotations

import difflib
import json
import os

from . import torch_graph, torch_library, transformers_parts
from .errors import ImportFailure, bad_shape
from .onnx_graph import first_line
from .request import TORCHSCRIPT, Request
from .torch_graph import SEED, Example

SMALLER = "choose a smaller one with --layers, --hidden or --config FILE.json"

SIZES = {
    "hidden": ("hidden_size", "d_model"),
    "layers": ("num_hidden_layers", "num_layers", "encoder_layers", "decoder_layers", "num_decoder_layers"),
    "heads": ("num_attention_heads", "num_heads", "encoder_attention_heads", "decoder_attention_heads"),
    "intermediate": (
        "intermediate_size",
        "d_ff",
        "d_inner",
        "ffn_dim",
        "ffn_hidden_size",
        "n_inner",
        "encoder_ffn_dim",
        "decoder_ffn_dim",
    ),
}
"""The settings of a configuration that each size of the command line is, by the names that configurations use."""

LISTED = {"num_stages"}
"""Settings that other ones list the sizes of, one by one."""


def build(request: Request) -> Example:
    """The part of the model requested by the user, with its inputs."""
    torch = torch_library.load()
    library = torch_library.load("transformers")
    torch_library.load("transformers.models.auto")
    torch.manual_seed(SEED)
    wanted = request.architecture or {}
    folder = os.path.dirname(request.file) if request.file else None
    config = configuration(library, wanted, request.file)
    runs_in_torch = request.form == TORCHSCRIPT
    if not runs_in_torch:
        # Written out step by step, attention is what an exporter can see through; it computes the same. libtorch runs
        # the library's own choice, as Python does.
        config._attn_implementation = "eager"  # noqa: SLF001 - the library's own way to choose it by configuration
    config._experts_implementation = "batched_mm"  # noqa: SLF001
    # If an architecture has several models, the library takes the first for an empty list of names, but fails for None.
    config.architectures = config.architectures or []
    try:
        chosen = transformers_parts.every(torch) if runs_in_torch else transformers_parts.first
        parts = transformers_parts.Parts(torch, library, config, wanted["name"], wanted.get("part"), chosen)
        with torch.device("meta"):
            torch_graph.require_memory(torch, parts.model(), request.model, SMALLER)
        weights = folder is not None and any(name.endswith(".safetensors") for name in os.listdir(folder))
        model = parts.model(folder if weights else None).eval()
        return parts.example(model, request.batch or 1, request.seqlen)
    except ImportFailure:
        raise
    # A configuration of nonsense fails anywhere in the library, in its own words.
    except Exception as error:  # noqa: BLE001
        raise ImportFailure(
            "corrupt_model", f"{request.model}: transformers cannot build it ({reason_of(error)})"
        ) from error


def reason_of(error: Exception) -> str:
    """The meaning of the library's error."""
    if isinstance(error, KeyError):
        return f"a setting has the value {error}, which it does not know"
    if isinstance(error, AttributeError) and "Config' object has no attribute" in str(error):
        return (
            f"its configuration has no {str(error).split()[-1]}, which the shapes of its inputs are taken from; export the model and "
            "use --modelsource onnx"
        )
    if "Unrecognized configuration class" in str(error):
        return "it has no model of its own there, it is a part of another one; name that one"
    if "ignore_mismatched_sizes" in str(error):
        return "the checkpoint's weights have other sizes; leave out the sizes that were given"
    return first_line(error)


def configuration(library, wanted: dict, file: str | None):
    """The configuration: of the architecture's own, a checkpoint's and the user's, with the sizes asked for in place."""
    given = {**(read_configuration(file) if file else {}), **(wanted.get("config") or {})}
    architecture = given.pop("model_type", None) or wanted["name"]
    known = library.models.auto.configuration_auto.CONFIG_MAPPING
    if not isinstance(architecture, str):
        raise bad_shape(f"{wanted['name']}: not a possible configuration (model_type is {architecture!r}, not a name)")
    if given.get("quantization_config"):
        raise bad_shape(
            f"{wanted['name']}: its configuration asks for quantised weights (quantization_config), which cannot be built from a "
            "configuration; leave that out, or export the model and use --modelsource onnx"
        )
    if architecture not in known:
        names = list(known.keys())
        near = difflib.get_close_matches(architecture, names, n=3)
        hint = f" (did you mean {' or '.join(repr(n) for n in near)}?)" if near else ""
        raise ImportFailure(
            "unknown_model",
            f"the installed transformers {library.__version__} knows no architecture '{architecture}'{hint}; "
            f"it has {len(names)}, bert, gpt2, llama, t5 and vit among them",
            name=architecture,
        )
    settings = {**given, **settings_of(known[architecture], architecture, wanted)}
    try:
        return known[architecture](**settings)
    # Configurations check their values in many different ways.
    except Exception as error:  # noqa: BLE001
        reason = " ".join(str(error).split())
        raise bad_shape(f"{architecture}: not a possible configuration ({reason})") from error


def read_configuration(path: str) -> dict:
    """The JSON object of a checkpoint's configuration."""
    try:
        with open(path, encoding="utf-8") as file:
            return dict(json.load(file))
    except OSError as error:
        raise ImportFailure("missing_file", f"{path}: {error.strerror or error}", path=path) from error
    except ValueError as error:
        raise ImportFailure("corrupt_model", f"{path}: not a JSON object ({first_line(error)})", path=path) from error


def settings_of(kind: type, architecture: str, sizes: dict) -> dict:
    """The sizes of the command line under the names of this architecture's configuration."""
    plain = kind()
    alias = kind.attribute_map
    settings: dict[str, int] = {}
    for size, names in SIZES.items():
        if sizes.get(size) is None:
            continue
        # None is a size that follows from another one.
        own = {alias.get(n, n) for n in names if isinstance(getattr(plain, alias.get(n, n), ""), int | None)} - LISTED
        if not own:
            raise bad_shape(f"{architecture} has no single number for --{size}; give a configuration with --config FILE.json")
        settings.update(dict.fromkeys(own, int(sizes[size])))
    if "hidden_size" in settings and getattr(plain, "embedding_size", None) == plain.hidden_size:
        settings["embedding_size"] = settings["hidden_size"]
    heads = sizes.get("heads")
    groups = getattr(plain, "num_key_value_heads", 1)
    if groups is None:
        # Some libraries' own models cannot do without it.
        settings["num_key_value_heads"] = int(heads or plain.num_attention_heads)
        return settings
    # Fewer heads than groups of them cannot be; a group a head is plain attention.
    if heads is not None and heads % groups:
        settings["num_key_value_heads"] = int(heads)
    return settings
