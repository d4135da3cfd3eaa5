"""The models that NeuSight traced: what their operators took, what it predicted, and which operators they are.

FOLDER is `scripts/asplos` of a checkout of github.com/sitar-lab/NeuSight. `label/GPU/MODEL.csv` has the measured times of a traced
model (one of its equal layers only; MODEL.json says how many there are), `results/prediction/GPU/neusight/MODEL.csv` what NeuSight
predicted, and of each node its kind and the operators that it runs.
"""

import ast
import csv
import json
import math
import sys
from collections import defaultdict
from dataclasses import dataclass, field

# What NeuSight calls the nodes that its table of errors by operator is made of; `elem` is whatever else begins with VEC.
KINDS = {"BMM": "bmm", "Linear": "linear", "VECsoftmax": "softmax", "VECln": "ln"}
# The first and the last node of the layer that stands for all layers, as NeuSight's `summarize.py` has them.
LAYERS = {
    "bert": ("bert_encoder_layer_0_attention_self_query", "bert_encoder_layer_0_output_layer_norm"),
    "gpt": ("transformer_h_0_ln_1", "add_15"),
    "opt": ("model_decoder_layers_0_self_attn_layer_norm", "view_11"),
}
# Columns of the operators that a node runs forwards, backwards and to add up gradients, of what it takes, and of what NeuSight predicted.
# NeuSight's backward operators are right for products only: it copies gradients that are only passed on, and computes a layer norm's as one product.
WHOLE = (["FwOps", "BwOps", "AccOps"], "latency", "e2e_latency")
FORWARD = (["FwOps"], "fw_latency", "fw_latency")


@dataclass
class Kind:
    """All operators of one kind in a model: ms in all, measured and by NeuSight, and how often each operator runs.

    `alone` has the operators that a node runs forwards, each with the ms that the node took and that NeuSight predicted.
    """

    measured: float = 0.0
    neusight: float = 0.0
    runs: dict = field(default_factory=lambda: defaultdict(int))
    alone: dict = field(default_factory=dict)


@dataclass
class Trace:
    """A traced model on a GPU, which is named as NeuSight's files are (`NVIDIA_L4`), with its operators by kind."""

    gpu: str
    kinds: dict


def read(folder, gpus):
    """The traces of these GPUs that have both measured times and predictions, without fused and distributed ones."""
    # The text of a node's column can be long.
    csv.field_size_limit(sys.maxsize)
    found = []
    for gpu in gpus:
        for label in sorted((folder / "label" / gpu).glob("*.csv")):
            predicted = folder / "results/prediction" / gpu / "neusight" / label.name
            # MODEL-MODE-LENGTH-BATCH, and -OPTION where layers are fused or spread over GPUs.
            if label.stem.count("-") == 3 and predicted.is_file():
                found.append(Trace(gpu, kinds(label, predicted)))
    if not found:
        remedy = "name the folder `scripts/asplos` of a checkout of NeuSight"
        sys.exit(f"error: no traced model of {', '.join(gpus)} is under {folder / 'label'}; {remedy}")
    return found


def kinds(label, predicted):
    layers = json.loads(label.with_suffix(".json").read_text())["num_layer"]
    nodes = rows(predicted)
    kind_of = {node["Name"]: name for node in nodes if (name := kind(node["OpName"]))}
    found = defaultdict(Kind)
    forward = {}
    for node, times in repeated(rows(label), label.stem, layers):
        if name := kind_of.get(node["Name"]):
            _, column, _ = phases(name)
            found[name].measured += times * float(node[column])
            forward[node["Name"]] = float(node["fw_latency"])
    for node, times in repeated(nodes, label.stem, layers):
        name = kind_of.get(node["Name"])
        if not name:
            continue
        of_kind = found[name]
        lists, _, column = phases(name)
        of_kind.neusight += times * float(node[column])
        for run in (run for one in lists for run in runs(node, one)):
            of_kind.runs[run] += times
        first = runs(node, "FwOps")
        if len(first) == 1 and forward.get(node["Name"], 0) > 0:
            of_kind.alone[first[0]] = (forward[node["Name"]], float(node["fw_latency"]))
    return {name: of_kind for name, of_kind in found.items() if of_kind.measured > 0}


def runs(node, phase):
    """The operators that a node runs in a phase: each a name and its arguments as JSON."""
    operators = ast.literal_eval(node[phase])
    return [(operator + broadcast(node, operator), json.dumps(arguments)) for operator, arguments in operators]


def phases(kind):
    return WHOLE if kind in ("linear", "bmm") else FORWARD


def broadcast(node, operator):
    """What ends the name of an operator with a single number for its second operand; the tables have measurements of such operators."""
    shapes = ast.literal_eval(node["InputShapes"])
    scalar = len(shapes) == 2 and math.prod(shapes[1]) == 1
    return "u" if scalar and operator in ("VECadd", "VECmul", "VECdiv", "VECpow") else ""


def kind(node):
    return KINDS.get(node, "elem" if node.startswith("VEC") else None)


def rows(file):
    with file.open(newline="") as lines:
        return list(csv.DictReader(lines))


def repeated(nodes, model, layers):
    """Each node with the number of times that the model runs it."""
    bounds = next((bounds for name, bounds in LAYERS.items() if name in model), None)
    if bounds is None or layers == 0:
        return [(node, 1) for node in nodes]
    names = [node["Name"] for node in nodes]
    first, last = (names.index(name) for name in bounds)
    return [(node, layers if first <= place <= last else 1) for place, node in enumerate(nodes)]
