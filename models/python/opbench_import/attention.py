"""ONNX's Attention (operator sets 23 to 25) as the operators that it consists of, in every form that the operator has.

Grouped queries go through one product for all queries of a group, so that keys and values are not copied. A row whose keys
are all masked has the result 0, which needs operators of its own only where the mask is computed or has such a row.
"""

from __future__ import annotations

import math

import numpy as np
import onnx

from .emit import Emitter

SCORES, CAPPED, MASKED, WEIGHTS = range(4)
"""Meaning of ``qk_matmul_output_mode``."""


def attention(e: Emitter) -> list[onnx.NodeProto]:
    """Attention(Q, K, V, mask, past key, past value, lengths) with results Y, present key and value, scores."""
    return Attention(e).build()


class Attention:
    """One node on its way to basic operators."""

    def __init__(self, e: Emitter) -> None:
        self.e = e
        shapes = [e.graph.shape(e.input(i)) for i in range(3)]
        if any(s is None or len(s) not in (3, 4) for s in shapes):
            raise e.refusal("its queries, keys or values have no static shape of 3 or 4 dimensions")
        self.joined = len(shapes[0]) == 3
        self.dtype = e.graph.dtype(e.input(0)) or "float32"
        heads = [e.options.get("q_num_heads"), e.options.get("kv_num_heads"), e.options.get("kv_num_heads")]
        if self.joined and not all(heads[:2]):
            raise e.refusal("inputs of 3 dimensions need q_num_heads and kv_num_heads")
        self.shapes = [self.split_shape(s, h) for s, h in zip(shapes, heads)]
        self.batch, self.heads, self.queries, self.width = self.shapes[0]
        self.groups = self.shapes[1][1]
        if self.heads % self.groups:
            raise e.refusal(f"{self.heads} heads of queries do not divide into {self.groups} of keys")
        past = e.graph.shape(e.input(4)) if e.input(4) else (0, 0, 0, 0)
        if past is None or len(past) != 4:
            raise e.refusal("its past keys have no static shape of 4 dimensions")
        self.past = past[2]
        self.keys = self.past + self.shapes[1][2]
        self.lengths = e.input(6)

    def split_shape(self, shape: tuple, heads: int | None) -> tuple[int, int, int, int]:
        """[batch, heads, tokens, width] of an input."""
        return shape if len(shape) == 4 else (shape[0], heads, shape[1], shape[2] // heads)

    def build(self) -> list[onnx.NodeProto]:
        """All nodes that replace this one."""
        e = self.e
        query, key, value = (self.split(i) for i in range(3))
        if self.past:
            key, value = (e.emit("Concat", [e.input(i), own], axis=2) for i, own in ((4, key), (5, value)))
        scale = e.options.get("scale") or 1.0 / math.sqrt(self.width)
        query = e.emit("Mul", [query, e.constant(scale, self.dtype)])
        stages = {SCORES: self.product(query, e.emit("Transpose", [key], perm=[0, 1, 3, 2]), self.width, self.keys)}
        stages[CAPPED] = self.capped(stages[SCORES])
        bias, masked_rows = self.bias()
        stages[MASKED] = e.emit("Add", [stages[CAPPED], bias]) if bias else stages[CAPPED]
        stages[WEIGHTS] = self.weights(stages[MASKED], masked_rows)
        result = self.product(stages[WEIGHTS], value, self.keys, self.shapes[2][3])
        if self.joined:
            result = e.emit("Transpose", [result], perm=[0, 2, 1, 3])
            result = e.emit("Reshape", [result, e.ints([self.batch, self.queries, -1])])
        outputs = [result, key, value, stages[e.options.get("qk_matmul_output_mode", SCORES)]]
        for position, output in enumerate(e.node.output[1:], start=1):
            if output:
                e.finish(outputs[position], position)
        return e.finish(result)

    def split(self, position: int) -> str:
        """An input with an axis of heads."""
        e, name = self.e, self.e.input(position)
        if not self.joined:
            return name
        batch, heads, tokens, width = self.shapes[position]
        return e.emit("Transpose", [e.emit("Reshape", [name, e.ints([batch, tokens, heads, width])])], perm=[0, 2, 1, 3])

    def product(self, left: str, right: str, inner: int, columns: int) -> str:
        """``left`` [B, H, Q, inner] times ``right`` [B, G, inner, columns], each group of heads with its own."""
        e = self.e
        if self.groups == self.heads:
            return e.emit("MatMul", [left, right])
        rows = self.heads // self.groups * self.queries
        grouped = e.emit("Reshape", [left, e.ints([self.batch, self.groups, rows, inner])])
        result = e.emit("MatMul", [grouped, right])
        return e.emit("Reshape", [result, e.ints([self.batch, self.heads, self.queries, columns])])

    def capped(self, scores: str) -> str:
        """``cap * tanh(scores / cap)``, if there is a cap."""
        e, cap = self.e, self.e.options.get("softcap", 0.0)
        if cap <= 0.0:
            return scores
        bound = e.constant(cap, self.dtype)
        return e.emit("Mul", [e.emit("Tanh", [e.emit("Div", [scores, bound])]), bound])

    def bias(self) -> tuple[str, str]:
        """The term added to the scores, and the rows of it that are masked whole; empty if there is none."""
        e = self.e
        known = self.known_bias()
        name = "" if known is None else e.constant(known, self.dtype)
        computed = self.computed_bias()
        for part in computed:
            name = e.emit("Add", [name, part]) if name else part
        nothing = e.constant(-np.inf, self.dtype)
        if computed:
            return name, e.emit("Equal", [e.emit("ReduceMax", [name, e.ints([-1])], keepdims=1), nothing])
        if known is None:
            return "", ""
        rows = np.all(np.isneginf(known), axis=-1, keepdims=True)
        return name, e.constant(rows, "bool") if rows.any() else ""

    def known_bias(self) -> np.ndarray | None:
        """The part that follows from attributes and a constant mask."""
        e = self.e
        parts = []
        if self.bounded() and not self.lengths:
            allowed = self.within(np.arange(self.queries)[:, None] + self.past - np.arange(self.keys)[None, :])
            parts.append(np.where(allowed, 0.0, -np.inf))
        mask = e.graph.value(e.input(3)) if e.input(3) else None
        if mask is not None:
            mask = np.where(mask, 0.0, -np.inf) if mask.dtype == bool else mask.astype(np.float64)
            missing = [(0, 0)] * (mask.ndim - 1) + [(0, self.keys - mask.shape[-1])]
            parts.append(np.pad(mask, missing, constant_values=-np.inf))
        return sum(parts) if parts else None

    def bounded(self) -> bool:
        """Whether queries see only keys at some distance."""
        options = self.e.options
        sides = (options.get("left_window_size", -1), options.get("right_window_size", -1))
        return bool(options.get("is_causal", 0)) or max(sides) >= 0

    def within(self, distance: np.ndarray) -> np.ndarray:
        """Which distances (query minus key) a query sees."""
        options = self.e.options
        left, right = options.get("left_window_size", -1), options.get("right_window_size", -1)
        seen = np.ones_like(distance, dtype=bool)
        if options.get("is_causal", 0):
            seen &= distance >= 0
        if left >= 0:
            seen &= distance <= left
        if right >= 0:
            seen &= -distance <= right
        return seen

    def computed_bias(self) -> list[str]:
        """The part that depends on a mask or on lengths that the model computes."""
        e = self.e
        parts = []
        if e.input(3) and e.graph.value(e.input(3)) is None:
            parts.append(self.computed_mask(e.input(3)))
        if self.lengths:
            lengths = e.emit("Reshape", [e.cast(self.lengths, "int64"), e.ints([-1, 1, 1, 1])])
            places = e.ints(np.arange(self.keys).reshape(1, 1, 1, -1))
            parts.append(self.hidden(e.emit("Less", [places, lengths])))
            if self.bounded():
                parts += self.bounds_by_length(lengths)
        return parts

    def bounds_by_length(self, lengths: str) -> list[str]:
        """Bounds of the distance where the last query stands at the end of each sample's keys."""
        e, options = self.e, self.e.options
        plain = np.arange(self.queries)[:, None] - self.queries - np.arange(self.keys)[None, :]
        distance = e.emit("Add", [e.ints(plain), lengths])
        bounds = []
        if options.get("is_causal", 0):
            bounds.append(e.emit("GreaterOrEqual", [distance, e.ints(0)]))
        if options.get("left_window_size", -1) >= 0:
            bounds.append(e.emit("LessOrEqual", [distance, e.ints(options["left_window_size"])]))
        if options.get("right_window_size", -1) >= 0:
            bounds.append(e.emit("GreaterOrEqual", [distance, e.ints(-options["right_window_size"])]))
        return [self.hidden(bound) for bound in bounds]

    def computed_mask(self, mask: str) -> str:
        """A mask as an addend; keys after its end are hidden."""
        e = self.e
        shape = e.graph.shape(mask)
        if shape is None:
            raise e.refusal("its mask has no static shape")
        added = self.hidden(mask) if e.graph.dtype(mask) == "bool" else mask
        missing = self.keys - shape[-1]
        if missing:
            rest = e.constant(np.full((*shape[:-1], missing), -np.inf), self.dtype)
            added = e.emit("Concat", [added, rest], axis=-1)
        return added

    def hidden(self, seen: str) -> str:
        """0 where ``seen``, else minus infinity."""
        e = self.e
        return e.emit("Where", [seen, e.constant(0.0, self.dtype), e.constant(-np.inf, self.dtype)])

    def weights(self, scores: str, masked_rows: str) -> str:
        """The softmax of the scores; 0 in rows that are masked whole."""
        e = self.e
        precision = e.options.get("softmax_precision")
        wider = None if precision is None else onnx.helper.tensor_dtype_to_np_dtype(precision).name
        if wider in (None, self.dtype):
            result = e.emit("Softmax", [scores], axis=-1)
        else:
            result = e.cast(e.emit("Softmax", [e.cast(scores, wider)], axis=-1), self.dtype)
        return e.emit("Where", [masked_rows, e.constant(0.0, self.dtype), result]) if masked_rows else result
