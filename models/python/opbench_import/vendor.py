"""Operators of ONNX Runtime's own domain (com.microsoft), which its optimiser and its quantiser write into files, as the
operators that they consist of. Definitions: ONNX Runtime's ContribOperators.md.
"""

from __future__ import annotations

import math

import numpy as np
import onnx

from .emit import Emitter

DOMAIN = "com.microsoft"


def fused_product(e: Emitter) -> list[onnx.NodeProto]:
    """FusedMatMul: alpha * A * B, each transposed in its last two axes if so asked."""
    if e.options.get("transBatchA") or e.options.get("transBatchB"):
        raise e.refusal("it moves the batch behind the rows; export the model without ONNX Runtime's optimiser")
    operands = (e.input(0), e.options.get("transA", 0)), (e.input(1), e.options.get("transB", 0))
    left, right = (turned(e, name, is_turned, len(static(e, name))) for name, is_turned in operands)
    result = e.emit("MatMul", [left, right])
    alpha = e.options.get("alpha", 1.0)
    if alpha != 1.0:
        result = e.emit("Mul", [result, e.constant(alpha, e.graph.dtype(e.input(0)) or "float32")])
    return e.finish(result)


def turned(e: Emitter, value: str, is_turned: int, rank: int) -> str:
    """A matrix, or a stack of them, transposed."""
    if not is_turned or rank < 2:
        return value
    return e.emit("Transpose", [value], perm=[*range(rank - 2), rank - 1, rank - 2])


def static(e: Emitter, value: str) -> tuple[int, ...]:
    """The shape of a value; raises ``ImportFailure`` where it is not fixed."""
    shape = e.graph.shape(value)
    if shape is None:
        raise e.refusal(f"the shape of its input '{value}' is not fixed")
    return shape


def quick_gelu(e: Emitter) -> list[onnx.NodeProto]:
    """QuickGelu: x * sigmoid(alpha * x)."""
    alpha = e.constant(e.options.get("alpha", 1.702), e.graph.dtype(e.input(0)) or "float32")
    gate = e.emit("Sigmoid", [e.emit("Mul", [e.input(0), alpha])])
    return e.finish(e.emit("Mul", [e.input(0), gate]))


def skip_normalisation(e: Emitter) -> list[onnx.NodeProto]:
    """SkipLayerNormalization(input, skip, gamma, beta, bias) with the sum as its fourth result."""
    if any(e.node.output[1:3]):
        raise e.refusal("its mean and deviation are read; export the model without ONNX Runtime's optimiser")
    total = e.emit("Add", [e.input(0), e.input(1)])
    if e.input(4):
        total = e.emit("Add", [total, e.input(4)])
    if len(e.node.output) > 3 and e.node.output[3]:
        e.finish(total, 3)
    scaled = [total, e.input(2)] + ([e.input(3)] if e.input(3) else [])
    return e.finish(e.emit("LayerNormalization", scaled, axis=-1, epsilon=e.options.get("epsilon", 1e-12)))


def attention(e: Emitter) -> list[onnx.NodeProto]:
    """Attention(input, weights, bias): queries, keys and values of one product, softmax(Q Kᵀ scale) V."""
    if any(e.input(i) for i in range(3, 7)) or any(e.node.output[1:]):
        raise e.refusal("it has a mask, a past or a bias of scores; export the model without ONNX Runtime's optimiser")
    batch, tokens, _ = static(e, e.input(0))
    columns = static(e, e.input(1))[1]
    heads = e.options["num_heads"]
    widths = e.options.get("qkv_hidden_sizes") or [columns // 3] * 3
    dtype = e.graph.dtype(e.input(0)) or "float32"
    joined = e.emit("MatMul", [e.input(0), e.input(1)])
    if e.input(2):
        joined = e.emit("Add", [joined, e.input(2)])
    starts = np.cumsum([0, *widths])
    parts = []
    for start, width in zip(starts, widths):
        part = e.emit("Slice", [joined, e.ints([start]), e.ints([start + width]), e.ints([2])])
        part = e.emit("Reshape", [part, e.ints([batch, tokens, heads, width // heads])])
        parts.append(e.emit("Transpose", [part], perm=[0, 2, 1, 3]))
    scale = e.options.get("scale") or 1.0 / math.sqrt(widths[0] // heads)
    query = e.emit("Mul", [parts[0], e.constant(scale, dtype)])
    scores = e.emit("MatMul", [query, e.emit("Transpose", [parts[1]], perm=[0, 1, 3, 2])])
    if e.options.get("unidirectional"):
        later = np.triu(np.full((tokens, tokens), e.options.get("mask_filter_value", -10_000.0)), 1)
        scores = e.emit("Add", [scores, e.constant(later, dtype)])
    result = e.emit("MatMul", [e.emit("Softmax", [scores], axis=-1), parts[2]])
    result = e.emit("Transpose", [result], perm=[0, 2, 1, 3])
    return e.finish(e.emit("Reshape", [result, e.ints([batch, tokens, widths[2]])]))


RULES = {
    "Attention": attention,
    "FusedMatMul": fused_product,
    "QuickGelu": quick_gelu,
    "SkipLayerNormalization": skip_normalisation,
}
"""By operator; quantised ones are in ``expand``."""
