#!/usr/bin/env python3
"""Builds the zoo: one small weight-free ONNX graph a model, from public model definitions.

    python models/zoo/make_zoo.py               # all models
    python models/zoo/make_zoo.py lstm gru      # some
    python models/zoo/make_zoo.py --check       # compare with the committed files, write nothing

Needs the packages of requirements.txt beside it. Every graph is checked before it is written:
against torch in ONNX Runtime, with ONNX's checker, against TVM's frontend, and against
models/registry.toml.
"""

import argparse
import sys
import tomllib
from pathlib import Path

import torch

from builder import verify
from builder.count import multiply_adds
from builder.definitions import all_definitions, library_version, randomise
from builder.export import trace
from builder.graph import ZooError
from builder.symbolic import SymbolicModel

ZOO = Path(__file__).resolve().parent
REGISTRY = ZOO.parent / "registry.toml"
# Two traces; every extent that depends on a symbol must be recognisable, so no other extent of a
# model should differ between them.
SMALL = {"batch": 2, "seq": 7}
LARGE = {"batch": 3, "seq": 13}


def main():
    """Parse, build, report; the exit status is 1 if any model failed."""
    definitions = {definition.name: definition for definition in all_definitions()}
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help="models to build (default: all)")
    parser.add_argument("--check", action="store_true", help="compare instead of writing")
    arguments = parser.parse_args()
    unknown = [name for name in arguments.names if name not in definitions]
    if unknown:
        parser.error(f"unknown model {unknown[0]}; there are {', '.join(definitions)}")
    registry = read_registry()
    failed = 0
    for name in arguments.names or definitions:
        try:
            build(definitions[name], registry.get(name), arguments.check)
        except ZooError as error:
            failed += 1
            print(f"{name}: {error}", file=sys.stderr)
    return 1 if failed else 0


def read_registry():
    """The registry's tables by model name."""
    with REGISTRY.open("rb") as file:
        return {model["name"]: model for model in tomllib.load(file)["model"]}


def build(definition, entry, check_only):
    """One model: trace, verify, compare with its registry entry, write."""
    if entry is None:
        raise ZooError(f"{REGISTRY.name} has no table for it")
    torch.manual_seed(0)
    reference = randomise(definition.reference().eval(), seed=0)
    exported = definition.exported(reference).eval()
    traces = [trace(definition, exported, sizes) for sizes in (SMALL, LARGE)]
    symbolic = SymbolicModel(definition, *traces, SMALL, LARGE)
    model = symbolic.proto()
    data = model.SerializeToString(deterministic=True)
    error = verify.check(symbolic, data, reference)
    facts = {
        "params": parameter_count(definition, reference),
        "macs": multiply_adds(model, entry["defaults"]),
    }
    print(
        f"{definition.name}: {len(model.graph.node)} nodes, {len(data)} bytes, "
        f"params {facts['params']}, macs {facts['macs']}, error {error:.1e}"
    )
    check_registry(definition, entry, facts)
    path = ZOO / f"{definition.name}.onnx"
    if not check_only:
        path.write_bytes(data)
    elif not path.is_file() or path.read_bytes() != data:
        raise ZooError(f"{path.name} is missing or differs from what this script builds")


def parameter_count(definition, model):
    """Trainable parameters of the published model, without those that inference never touches."""
    return sum(
        tensor.numel()
        for name, tensor in model.named_parameters()
        if not name.startswith(definition.unused)
    )


def check_registry(definition, entry, facts):
    """The registry must describe the graph."""
    origin = entry["origin"]
    expected = {
        "file": f"zoo/{definition.name}.onnx",
        "inputs": [(spec.name, list(spec.shape), spec.dtype) for spec in definition.inputs],
        "version": library_version(definition.library),
        "library": definition.library,
        "constructor": definition.constructor,
        **facts,
    }
    stated = {
        "file": entry["file"],
        "inputs": [(spec["name"], spec["shape"], spec["dtype"]) for spec in entry["inputs"]],
        "version": origin["version"],
        "library": origin["library"],
        "constructor": origin["constructor"],
        "params": entry["params"],
        "macs": entry["macs"],
    }
    for key, value in expected.items():
        if stated[key] != value:
            raise ZooError(f"{REGISTRY.name} gives {key} = {stated[key]}, the model has {value}")
    published = entry.get("published_macs")
    if published is not None and abs(facts["macs"] / published - 1) > 0.02:
        raise ZooError(f"{facts['macs']} multiply-adds are not within 2 % of {published}")


if __name__ == "__main__":
    sys.exit(main())
