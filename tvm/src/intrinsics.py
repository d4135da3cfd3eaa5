"""Prints the tensor intrinsics of CUDA's tensor cores as TVM's Python package registers them, and those of bfloat16, which it
has generators for.

One JSON object: for each name what the intrinsic computes and how the target is asked for it, each as TVM's JSON.
"""

import json

import tvm
import tvm.s_tir.tensor_intrin.cuda as registered
from tvm.s_tir import TensorIntrin

FRAGMENT = "16x16x16"
# The intrinsics of mma.sync are registered under plain strings.
MMA = (
    [f"mma_init_m16n8k8_{t}" for t in ("f16", "f32")]
    + [f"mma_load_m16n8k8_f16_{side}_shared_dyn" for side in "AB"]
    + [f"mma_sync_m16n8k8_f16f16{t}" for t in ("f16", "f32")]
    + [f"mma_store_m16n8k8_{t}_global" for t in ("f16", "f32")]
)


def of_bfloat16():
    """The fragments' loads and products; sums are of single precision, whose fragments are registered."""
    of = "bf16"
    for side in "ab":
        for transposed in (False, True):
            name = f"wmma_load_16x16x16_{of}_{side}{'_trans' if transposed else ''}_shared_dyn"
            yield name, registered.get_wmma_load_intrin(16, 16, 16, "bfloat16", "shared.dyn", side == "b", transposed)
    for transposed in (False, True):
        name = f"wmma_sync_16x16x16_{of}{of}f32{'_trans' if transposed else ''}"
        yield name, registered.get_wmma_sync_intrin(16, 16, 16, "bfloat16", "float32", transposed)


for name, (computes, does) in of_bfloat16():
    TensorIntrin.register(name, computes, does)

constants = {value for value in vars(registered).values() if isinstance(value, str)}
wmma = sorted(name for name in constants if name.startswith("wmma_") and FRAGMENT in name)

def swapped(description):
    """The same product with its factors in the other order: matching does not know that products commute."""
    graph = json.loads(description)
    (product,) = [node for node in graph["nodes"] if node["type"] == "prim.Mul"]
    factors = product["data"]
    factors["a"], factors["b"] = factors["b"], factors["a"]
    # Blocks list their reads in the order of occurrence: the sum, then the factors.
    for node in graph["nodes"]:
        if node["type"].endswith("SBlock"):
            reads = graph["nodes"][node["data"]["reads"]]["data"]
            reads[1:] = reads[:0:-1]
    return json.dumps(graph)


result = {}
for name in wmma + [name for name, _ in of_bfloat16()] + MMA:
    intrinsic = TensorIntrin.get(name)
    computes, does = tvm.ir.save_json(intrinsic.desc), tvm.ir.save_json(intrinsic.impl)
    result[name] = [computes, does]
    if name.startswith("wmma_sync"):
        result[f"{name}_swapped"] = [swapped(computes), does]
print(json.dumps(result))
