"""From Relax operators to the operator kinds of graph.json, and which operator of a fused function is its anchor."""

from __future__ import annotations

KINDS = {
    "dense": "dense",
    "qconv2d": "qconv2d",
    "qdense": "qdense",
    "relax.quantize": "quantize",
    "relax.dequantize": "dequantize",
    "relax.requantize": "requantize",
    "global_avg_pool": "global_avg_pool",
    "lrn": "lrn",
    "relax.nn.conv1d_transpose": "conv_transpose",
    "relax.nn.conv2d_transpose": "conv_transpose",
    "relax.nn.conv3d_transpose": "conv_transpose",
    "relax.nn.max_pool1d": "max_pool",
    "relax.nn.max_pool2d": "max_pool",
    "relax.nn.max_pool3d": "max_pool",
    "relax.nn.avg_pool1d": "avg_pool",
    "relax.nn.avg_pool2d": "avg_pool",
    "relax.nn.avg_pool3d": "avg_pool",
    "relax.nn.adaptive_avg_pool1d": "avg_pool",
    "relax.nn.adaptive_avg_pool2d": "avg_pool",
    "relax.nn.adaptive_avg_pool3d": "avg_pool",
    "relax.nn.softmax": "softmax",
    "relax.nn.log_softmax": "softmax",
    "relax.nn.layer_norm": "layer_norm",
    "relax.nn.group_norm": "layer_norm",
    "relax.nn.instance_norm": "layer_norm",
    "relax.nn.rms_norm": "layer_norm",
    "relax.nn.batch_norm": "batch_norm",
    "relax.broadcast_to": "broadcast",
    "relax.tile": "broadcast",
    "relax.repeat": "broadcast",
    "relax.permute_dims": "transpose",
    "relax.layout_transform": "transpose",
    "relax.concat": "concat",
    "relax.stack": "concat",
    "relax.nn.pad": "pad",
    "relax.strided_slice": "slice",
    "relax.split": "slice",
    "relax.dynamic_strided_slice": "slice",
    "relax.take": "gather",
    "relax.gather_elements": "gather",
    "relax.gather_nd": "gather",
    "relax.index_tensor": "gather",
    "relax.image.resize2d": "resize",
    "relax.image.resize3d": "resize",
    "relax.reshape": "reshape",
    "relax.flatten": "reshape",
    "relax.squeeze": "reshape",
    "relax.expand_dims": "reshape",
    "relax.astype": "cast",
}

REDUCTIONS = (
    "sum",
    "mean",
    "max",
    "min",
    "prod",
    "variance",
    "std",
    "argmax",
    "argmin",
    "cumsum",
    "cumprod",
    "median",
    "norm",
)
OTHER = (
    "scatter",
    "topk",
    "sort",
    "argsort",
    "one_hot",
    "unique",
    "arange",
    "full",
    "zeros",
    "ones",
    "tril",
    "triu",
    "eye",
    "grid_sample",
    "multinomial",
)

OWN_KERNELS = ("global_avg_pool", "lrn")
"""Kernels of this package that represent several operators of Relax, or none: named by their kind."""

# Smaller is stronger: the anchor of a fused function is its strongest operator.
RANKS = (
    (
        "conv1d",
        "conv2d",
        "depthwise_conv2d",
        "group_conv2d",
        "conv3d",
        "conv_transpose",
        "dense",
        "matmul",
        "batch_matmul",
        "qconv2d",
        "qdense",
    ),
    ("softmax", "layer_norm", "batch_norm", "lrn", "max_pool", "avg_pool", "global_avg_pool", "reduce"),
    ("resize", "gather", "concat", "transpose", "pad", "other"),
    ("elementwise",),
    ("requantize", "quantize", "dequantize"),
    ("slice", "broadcast", "cast", "reshape"),
)


def kind_of(facts: dict) -> str:
    """The kind of one marked operator."""
    op = facts["op"]
    if op in ("relax.nn.conv1d", "relax.nn.conv2d", "relax.nn.conv3d"):
        return convolution_kind(op.removeprefix("relax.nn."), facts["attrs"])
    if op == "relax.matmul":
        return "batch_matmul" if max(len(s) for s in facts["shapes"]) > 2 else "matmul"
    if op in KINDS:
        return KINDS[op]
    name = op.rsplit(".", 1)[-1]
    if name in REDUCTIONS:
        return "reduce"
    if any(name.startswith(o) for o in OTHER):
        return "other"
    return "elementwise"


def convolution_kind(name: str, attrs: dict) -> str:
    """Plain, depthwise or grouped."""
    groups = attrs["groups"]
    if groups > 1 and groups == attrs["in_channels"]:
        return "depthwise_conv2d"
    if groups > 1 and name == "conv2d":
        return "group_conv2d"
    return name


def rank(kind: str) -> int:
    """Strength of a kind as an anchor; smaller is stronger."""
    return next((i for i, kinds in enumerate(RANKS) if kind in kinds), len(RANKS))


def short_name(facts: dict) -> str:
    """The operator's part in a fused function's readable name."""
    kind = kind_of(facts)
    if rank(kind) == 0 or kind in OWN_KERNELS:
        return kind
    name = facts["op"].rsplit(".", 1)[-1]
    return {
        "permute_dims": "transpose",
        "astype": "cast",
        "strided_slice": "slice",
        "concat": "concat",
        "take": "gather",
    }.get(name, name)
