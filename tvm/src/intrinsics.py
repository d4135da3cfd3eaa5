"""Prints the tensor intrinsics of CUDA's tensor cores as TVM's Python package registers them.

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

constants = {value for value in vars(registered).values() if isinstance(value, str)}
wmma = sorted(name for name in constants if name.startswith("wmma_") and FRAGMENT in name)

def swapped(description):
    """The same product with its factors in the other order: matching does not know that products commute."""
    graph = json.loads(description)
    (product,) = [node for node in graph["nodes"] if node["type"] == "prim.Mul"]
    factors = product["data"]
    factors["a"], factors["b"] = factors["b"], factors["a"]
    # Blocks list what they read in the order in which it occurs: the sum, then the factors.
    for node in graph["nodes"]:
        if node["type"].endswith("SBlock"):
            reads = graph["nodes"][node["data"]["reads"]]["data"]
            reads[1:] = reads[:0:-1]
    return json.dumps(graph)


result = {}
for name in wmma + MMA:
    intrinsic = TensorIntrin.get(name)
    computes, does = tvm.ir.save_json(intrinsic.desc), tvm.ir.save_json(intrinsic.impl)
    result[name] = [computes, does]
    if name.startswith("wmma_sync"):
        result[f"{name}_swapped"] = [swapped(computes), does]
print(json.dumps(result))
