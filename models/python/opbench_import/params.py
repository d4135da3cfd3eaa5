"""Tensors that a model is given rather than computes: weights, biases, tables, constants.

A parameter may have no value at all (weight-free models): then only its shape, type and a hint for seeded filling are
known. Operations here work on both kinds: with values they compute, without they only follow the shapes.
Uniform values are held as broadcast scalars, so that the 500 MB of constants of a stand-in VGG cost nothing.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np


def normal(std: float) -> dict:
    """Fill hint: normal distribution around zero."""
    return {"kind": "normal", "std": float(std)}


def uniform(low: float, high: float) -> dict:
    """Fill hint: uniform distribution on [low, high)."""
    return {"kind": "uniform", "low": float(low), "high": float(high)}


def integers(high: int, low: int = 0) -> dict:
    """Fill hint: integers in [low, high)."""
    return {"kind": "int", "low": int(low), "high": int(max(high, low + 1))}


def constant(value: float) -> dict:
    """Fill hint: one value everywhere."""
    return {"kind": "const", "value": float(value)}


@dataclass
class Param:
    """One given tensor; ``transpose`` is how ``shape`` derives from ``original_shape`` (None: not transposed)."""

    shape: tuple[int, ...]
    dtype: str
    value: np.ndarray | None = None
    fill: dict | None = None
    original_shape: tuple[int, ...] | None = None
    transpose: tuple[int, ...] | None = None

    def __post_init__(self) -> None:
        self.shape = tuple(int(d) for d in self.shape)
        if self.original_shape is None:
            self.original_shape = self.shape

    @property
    def size(self) -> int:
        """Number of elements."""
        return int(np.prod(self.shape, dtype=np.int64))

    @property
    def is_float(self) -> bool:
        """Whether elements are floating-point numbers."""
        return self.dtype.startswith(("float", "bfloat"))

    def derive(self, shape: tuple[int, ...], compute: Callable[[np.ndarray], np.ndarray]) -> Param:
        """A new parameter computed from this one; ``shape`` is the shape that ``compute`` yields."""
        value = None if self.value is None else compact(compute(self.value))
        derived = Param(shape, self.dtype, value, self.fill)
        if value is not None and value.shape != derived.shape:
            raise AssertionError(f"derived parameter has shape {value.shape}, expected {derived.shape}")
        return derived

    def transposed(self, axes: tuple[int, ...]) -> Param:
        """The parameter with its axes permuted, remembering how."""
        derived = self.derive(tuple(self.shape[a] for a in axes), lambda v: v.transpose(axes))
        derived.original_shape = self.original_shape
        if self.transpose is None:
            derived.transpose = tuple(axes)
        else:
            derived.transpose = tuple(self.transpose[a] for a in axes)
        return derived

    def uniform_value(self) -> float | int | bool | None:
        """The single value of all elements; None if they differ or there are no values."""
        if self.value is None or self.value.size == 0:
            return None
        if all(s == 0 for s, d in zip(self.value.strides, self.value.shape) if d > 1):
            single = self.value.flat[0].item()
            # JSON has no infinities: such a tensor (an attention mask, usually) keeps its bytes.
            return single if math.isfinite(single) else None
        return None


def compact(value: np.ndarray) -> np.ndarray:
    """The same array; held as a broadcast scalar when every element is equal (checked cheaply on a sample first)."""
    value = np.asarray(value)
    if value.size < 2 or value.dtype.kind not in "fiub":
        return value
    first = value.reshape(-1)[0] if value.flags.c_contiguous else value[(0,) * value.ndim]
    sample = value[tuple(slice(None, None, max(1, d // 2)) for d in value.shape)]
    if not np.all(sample == first) or not np.all(value == first):
        return value
    return np.broadcast_to(np.array(first, dtype=value.dtype), value.shape)


def with_value(value: np.ndarray) -> Param:
    """A parameter that carries ``value``."""
    value = compact(np.asarray(value))
    return Param(value.shape, value.dtype.name, value)


def without_value(shape: tuple[int, ...], dtype: str, fill: dict | None = None) -> Param:
    """A parameter whose shape, type and fill hint alone are known."""
    return Param(tuple(shape), dtype, None, fill)


def dequantized(value: np.ndarray, scale: np.ndarray, zero: np.ndarray, axis: int) -> np.ndarray:
    """The numbers that quantised ones stand for, ``scale * (value - zero)``; scale and zero are one, or some along ``axis``."""
    along = [-1 if d == axis % max(1, value.ndim) else 1 for d in range(value.ndim)]
    scale, zero = (v.reshape(along) if v.size > 1 else v.reshape(()) for v in (scale, zero))
    wide = value.astype(np.int64) if value.dtype.kind in "iu" else value
    return (wide - zero).astype(np.float32) * scale.astype(np.float32)
