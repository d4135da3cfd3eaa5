"""What the zoo holds: each model's constructor, inputs and outputs.

Owns the list of models and how to build each in torch. Titles, published figures and defaults for
users stand in models/registry.toml; make_zoo.py checks that the two agree.
"""

import copy
from collections.abc import Callable
from dataclasses import dataclass

import torch
import torchvision
import transformers
from torch import nn

from . import networks


@dataclass(frozen=True)
class Input:
    """One true input: `shape` holds numbers and the symbols "batch" and "seq"."""

    name: str
    shape: tuple
    dtype: str = "float32"
    vocabulary: int = 0  # integer inputs are drawn from [0, vocabulary)


@dataclass(frozen=True)
class Definition:
    """A zoo model. `reference` builds the published model, `exported` the form that is traced."""

    name: str
    library: str
    constructor: str
    reference: Callable[[], nn.Module]
    inputs: tuple
    outputs: tuple
    exported: Callable[[nn.Module], nn.Module] = lambda reference: reference
    outputs_of: Callable = lambda result: result
    unused: tuple = ()  # prefixes of parameters that inference never touches


IMAGE = (Input("data", ("batch", 3, 224, 224)),)
LICENCES = {
    "torchvision": "definition under the BSD 3-Clause licence (torchvision); no weights included",
    "transformers": "definition under the Apache 2.0 licence (transformers); no weights included",
    "torch": "definition written for this project, Apache 2.0 licence; no weights included",
}


def _torchvision(name, constructor, call, inputs=IMAGE, **extra):
    return Definition(
        name,
        "torchvision",
        f"torchvision.models.{constructor}",
        call,
        inputs,
        ("logits",),
        **extra,
    )


def _recurrent(name, cell, label):
    return Definition(
        name,
        "torch",
        f"RecurrentClassifier({label}): torch.nn modules in models/zoo/builder/networks.py",
        lambda: networks.RecurrentClassifier(cell),
        (Input("data", ("batch", "seq", networks.RecurrentClassifier.FEATURES)),),
        ("logits",),
    )


def _bert_tiny():
    config = transformers.BertConfig(
        hidden_size=128,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=512,
        attn_implementation="eager",
    )
    return transformers.BertModel(config)


def _library_models():
    models = torchvision.models
    return [
        _torchvision("resnet-18", "resnet18()", models.resnet18),
        _torchvision("resnet-34", "resnet34()", models.resnet34),
        _torchvision("resnet-50", "resnet50()", models.resnet50),
        _torchvision(
            "resnet3d-18",
            "video.r3d_18()",
            models.video.r3d_18,
            (Input("data", ("batch", 3, 16, 112, 112)),),
        ),
        _torchvision("mobilenet", "mobilenet_v2()", models.mobilenet_v2),
        _torchvision("squeezenet_v1.1", "squeezenet1_1()", models.squeezenet1_1),
        _torchvision(
            "inception_v3",
            "inception_v3()",
            # The default initialisation draws from a truncated normal for minutes.
            lambda: models.inception_v3(init_weights=False),
            (Input("data", ("batch", 3, 299, 299)),),
            unused=("AuxLogits.",),
        ),
        _torchvision("vgg-16", "vgg16()", lambda: models.vgg16(init_weights=False)),
        _torchvision("densenet-121", "densenet121()", models.densenet121),
        _torchvision("shufflenet", "shufflenet_v2_x1_0()", models.shufflenet_v2_x1_0),
        _torchvision("efficientnet-b0", "efficientnet_b0()", models.efficientnet_b0),
        _torchvision(
            "vit-b-16",
            "vit_b_16()",
            models.vit_b_16,
            exported=lambda reference: networks.split_attention(copy.deepcopy(reference)),
        ),
        Definition(
            "bert-tiny",
            "transformers",
            "transformers.BertModel(BertConfig(hidden_size=128, num_hidden_layers=2, "
            "num_attention_heads=2, intermediate_size=512))",
            _bert_tiny,
            (
                Input("input_ids", ("batch", "seq"), "int64", 30522),
                Input("attention_mask", ("batch", "seq"), "int64", 2),
                Input("token_type_ids", ("batch", "seq"), "int64", 2),
            ),
            ("last_hidden_state", "pooler_output"),
            exported=networks.BertEncoder,
            outputs_of=lambda result: (result.last_hidden_state, result.pooler_output),
        ),
    ]


def _own_models():
    return [
        Definition(
            "mlp",
            "torch",
            "Mlp(): torch.nn modules in models/zoo/builder/networks.py",
            networks.Mlp,
            (Input("data", ("batch", 1, 28, 28)),),
            ("probabilities",),
        ),
        _recurrent("lstm", nn.LSTM, "LSTM"),
        _recurrent("gru", nn.GRU, "GRU"),
        _recurrent("rnn", nn.RNN, "RNN"),
        Definition(
            "yolov3-tiny",
            "torch",
            "Yolov3Tiny(): darknet's cfg/yolov3-tiny.cfg as torch.nn modules in "
            "models/zoo/builder/networks.py",
            networks.Yolov3Tiny,
            (Input("data", ("batch", 3, 416, 416)),),
            ("yolo_16", "yolo_23"),
        ),
        Definition(
            "yolov5n",
            "torch",
            "Yolov5n(): the layers of YOLOv5n, release 6, as torch.nn modules in models/zoo/builder/networks.py",
            networks.Yolov5n,
            (Input("data", ("batch", 3, 640, 640)),),
            ("small", "medium", "large"),
        ),
    ]


def all_definitions():
    """Every model of the zoo, in the order of the registry."""
    return _library_models() + _own_models()


def library_version(library):
    """The version of the library that a definition names, as recorded in the graph."""
    versions = {
        "torchvision": torchvision.__version__,
        "transformers": transformers.__version__,
        "torch": torch.__version__,
    }
    return versions[library].split("+")[0]


def example_inputs(definition, sizes, seed):
    """Seeded inputs for `sizes` (a map from symbol to extent), as a tuple of tensors."""
    generator = torch.Generator().manual_seed(seed)
    tensors = []
    for spec in definition.inputs:
        shape = [sizes[dim] if isinstance(dim, str) else dim for dim in spec.shape]
        if spec.vocabulary:
            tensor = torch.randint(0, spec.vocabulary, shape, generator=generator)
        else:
            tensor = torch.randn(shape, generator=generator)
        tensors.append(tensor)
    return tuple(tensors)


def randomise(model, seed):
    """Give parameters and statistics that libraries leave at 0 or 1 distinct, plausible values.

    Otherwise equal tensors would be merged by the exporter, and an error in folding batch norm
    would not show in the comparison with torch.
    """
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, tensor in [*model.named_parameters(), *model.named_buffers()]:
            if not tensor.is_floating_point() or tensor.numel() < 2:
                continue
            if name.endswith("running_var"):
                tensor.uniform_(0.5, 1.5, generator=generator)
            elif tensor.min() == tensor.max():
                noise = torch.rand(tensor.shape, generator=generator) - 0.5
                tensor.add_(noise * 0.2)
    return model
