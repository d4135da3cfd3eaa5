"""Resize as ONNX defines it, axis by axis: each result is a weighted sum of a few elements along the axis, its taps.

TVM's own operator is kept for the forms in which it agrees with ONNX. It computes positions in single precision at run
time, so nearest neighbours at fractional scales depend on how the CPU rounds; here positions are constants.
"""

from __future__ import annotations

import math

import numpy as np
import onnx

from .emit import Emitter

WHOLE = (0.0, 1.0)
"""The region that is all of an axis, as shares of it."""
MOST_TAPS = 32
"""Taps of an axis beyond which the sum is refused: antialiasing to a thirtieth of the size and less."""


def resize(e: Emitter) -> list[onnx.NodeProto] | None:
    """The nodes that compute the node's result; None if TVM's operator does."""
    before, after = e.graph.shape(e.input(0)), e.graph.shape(e.node.output[0])
    if before is None or after is None:
        raise e.refusal("the sizes of its data and its result are not fixed")
    mode = e.options.get("mode", "nearest")
    coordinates = Coordinates.of(e)
    scaled = zip(before, after, scales(e, before, after), regions(e, coordinates, len(before)))
    axes = [Axis(*facts) for facts in scaled]
    if is_plain(e, mode, coordinates, axes):
        return without_empty_inputs(e)
    if coordinates.mode == "align_corners" and not all(a.is_ratio() for a in axes):
        raise e.refusal("with aligned corners and scales that are not the ratio of its sizes, runtimes disagree; export it with sizes")
    value = e.input(0)
    for place, axis in enumerate(axes):
        if not axis.is_kept():
            taps = nearest(axis, coordinates) if mode == "nearest" else weighted(e, mode, axis, coordinates)
            value = summed(e, value, place, len(before), taps)
    if coordinates.mode == "tf_crop_and_resize":
        value = extrapolated(e, value, axes, coordinates)
    return e.finish(value)


def without_empty_inputs(e: Emitter) -> list[onnx.NodeProto]:
    """The node itself. Sets 11 and 12 require scales even beside sizes, as an empty tensor; TVM takes one of both."""
    for i, name in enumerate(e.node.input):
        given = e.graph.value(name) if name and i else None
        if given is not None and not given.size:
            e.node.input[i] = ""
    return [e.node]


class Axis:
    """One axis: its extent before and after, and the scale between them, in single precision as runtimes have it."""

    def __init__(self, before: int, after: int, scale: float, region: tuple[float, float]) -> None:
        self.before, self.after, self.scale = before, after, np.float32(scale)
        self.region = region

    def is_kept(self) -> bool:
        """Whether nothing happens along it."""
        return self.before == self.after and self.scale == 1.0 and self.region == WHOLE

    def is_ratio(self) -> bool:
        """Whether the scale is the ratio of the extents."""
        return math.isclose(self.before * float(self.scale), self.after, rel_tol=1e-6)

    def is_whole(self) -> bool:
        """Whether each element becomes several of the same."""
        return self.is_ratio() and self.after % self.before == 0


class Coordinates:
    """Where a position of the result lies in the data."""

    def __init__(self, mode: str, rounding: str) -> None:
        self.mode, self.rounding = mode, rounding

    @staticmethod
    def of(e: Emitter) -> Coordinates:
        """Those of a node; before set 11 there was one kind, which the conversion to later sets does not name."""
        if e.graph.declared_opset < 11:
            return Coordinates("asymmetric", "simple")
        return Coordinates(
            e.options.get("coordinate_transformation_mode", "half_pixel"), e.options.get("nearest_mode", "round_prefer_floor")
        )

    def of_axis(self, axis: Axis) -> np.ndarray:
        """The positions in the data of all positions of the result."""
        x, half = np.arange(axis.after, dtype=np.float32), np.float32(0.5)
        if self.mode == "asymmetric":
            return x / axis.scale
        if self.mode == "align_corners":
            return x * np.float32(axis.before - 1) / np.float32(axis.after - 1) if axis.after > 1 else np.zeros_like(x)
        if self.mode == "pytorch_half_pixel" and axis.after == 1:
            return np.zeros_like(x)
        if self.mode == "tf_crop_and_resize":
            start, end = (np.float32(r * (axis.before - 1)) for r in axis.region)
            if axis.after == 1:
                return np.full_like(x, (start + end) / 2)
            return start + x * (end - start) / np.float32(axis.after - 1)
        if self.mode == "half_pixel_symmetric":
            adjustment = np.float32(axis.after) / (axis.scale * np.float32(axis.before))
            centre = np.float32(axis.before) / 2
            return centre * (1 - adjustment) + (x + half) / axis.scale - half
        return (x + half) / axis.scale - half

    def rounded(self, positions: np.ndarray, scale: float) -> np.ndarray:
        """The nearest elements."""
        rounding = self.rounding
        if rounding == "simple":
            rounding = "ceil" if scale < 1 else "floor"
        if rounding in ("floor", "ceil"):
            return np.floor(positions) if rounding == "floor" else np.ceil(positions)
        return np.ceil(positions - 0.5) if rounding == "round_prefer_floor" else np.floor(positions + 0.5)


def scales(e: Emitter, before: tuple[int, ...], after: tuple[int, ...]) -> list[float]:
    """The scale of each axis: as given, else the ratio of the sizes."""
    given = e.graph.value(e.input(2)) if e.input(2) else None
    if given is None or not given.size:
        return [m / n for n, m in zip(before, after)]
    axes = e.options.get("axes") or range(len(before))
    by_axis = {axis % len(before): float(s) for axis, s in zip(axes, given)}
    return [by_axis.get(i, 1.0) for i in range(len(before))]


def regions(e: Emitter, coordinates: Coordinates, rank: int) -> list[tuple[float, float]]:
    """The region of each axis that is cut out, as shares of it."""
    if coordinates.mode != "tf_crop_and_resize":
        return [WHOLE] * rank
    given = e.graph.value(e.input(1)) if e.input(1) else None
    if given is None:
        raise e.refusal("the region that it cuts out is computed by the model")
    axes = [axis % rank for axis in e.options.get("axes") or range(rank)]
    bounds = np.reshape(given, (2, len(axes))).T
    by_axis = {axis: (float(start), float(end)) for axis, (start, end) in zip(axes, bounds)}
    return [by_axis.get(i, WHOLE) for i in range(rank)]


def extrapolated(e: Emitter, value: str, axes: list[Axis], coordinates: Coordinates) -> str:
    """``value`` with the node's own number wherever the region reaches beyond the data."""
    inside = np.array(True)
    for axis in axes:
        positions = coordinates.of_axis(axis)
        inside = np.multiply.outer(inside, (positions >= 0) & (positions <= axis.before - 1))
    if inside.all():
        return value
    number = e.constant(e.options.get("extrapolation_value", 0.0), e.graph.dtype(e.input(0)) or "float32")
    return e.emit("Where", [e.constant(inside, "bool"), value, number])


def is_plain(e: Emitter, mode: str, coordinates: Coordinates, axes: list[Axis]) -> bool:
    """Whether TVM's operator computes the same: images that grow by whole numbers, or that are interpolated linearly between
    the centres of pixels or the corners."""
    if len(axes) not in (3, 4, 5) or not all(a.is_kept() for a in axes[:2]) or e.options.get("axes"):
        return False
    if e.graph.declared_opset < 11 or e.options.get("antialias") or e.options.get("exclude_outside"):
        return False
    if mode == "nearest":
        repeated = coordinates.mode == "asymmetric" and coordinates.rounding == "floor"
        repeated |= coordinates.mode in ("half_pixel", "pytorch_half_pixel") and coordinates.rounding.startswith("round")
        return repeated and all(a.is_whole() for a in axes)
    if mode != "linear" or any(a.after == 1 for a in axes[2:]) or not all(a.is_ratio() for a in axes):
        return False
    return coordinates.mode in ("half_pixel", "align_corners", "asymmetric", "pytorch_half_pixel")


Taps = list[tuple[np.ndarray, np.ndarray | None]]
"""Elements for all positions of the result, and their weights; None for a weight of one."""


def nearest(axis: Axis, coordinates: Coordinates) -> Taps:
    """The nearest element."""
    elements = coordinates.rounded(coordinates.of_axis(axis), axis.scale)
    return [(np.clip(elements, 0, axis.before - 1).astype(np.int64), None)]


def weighted(e: Emitter, mode: str, axis: Axis, coordinates: Coordinates) -> Taps:
    """The elements that are interpolated between, by how far they are."""
    kernel = {"linear": linear, "cubic": lambda d: cubic(d, e.options.get("cubic_coeff_a", -0.75))}[mode]
    reach = {"linear": 1, "cubic": 2}[mode]
    # Antialiasing widens the kernel by the factor by which the data shrink.
    widening = max(1.0, 1.0 / float(axis.scale)) if e.options.get("antialias") else 1.0
    positions = coordinates.of_axis(axis).astype(np.float64)
    count = 2 * math.ceil(reach * widening)
    if count > MOST_TAPS:
        raise e.refusal(f"each of its results is a sum of {count} elements along an axis, more than {MOST_TAPS}")
    first = np.floor(positions).astype(np.int64) - count // 2 + 1
    elements = first[:, None] + np.arange(count)
    weights = kernel(np.abs(elements - positions[:, None]) / widening)
    if e.options.get("exclude_outside"):
        weights = np.where((elements < 0) | (elements >= axis.before), 0.0, weights)
    weights = weights / weights.sum(axis=1, keepdims=True)
    elements = np.clip(elements, 0, axis.before - 1)
    return [(elements[:, i], weights[:, i]) for i in range(count) if np.any(weights[:, i])]


def linear(distance: np.ndarray) -> np.ndarray:
    """Weights by distance: a triangle."""
    return np.maximum(1.0 - distance, 0.0)


def cubic(d: np.ndarray, a: float) -> np.ndarray:
    """Weights by distance: Keys' cubic convolution with the coefficient ``a``."""
    near = ((a + 2) * d - (a + 3)) * d * d + 1
    far = ((a * d - 5 * a) * d + 8 * a) * d - 4 * a
    return np.where(d <= 1, near, np.where(d < 2, far, 0.0))


def summed(e: Emitter, value: str, axis: int, rank: int, taps: Taps) -> str:
    """The weighted sum of the elements along an axis."""
    dtype = e.graph.dtype(e.input(0)) or "float32"
    total = None
    for elements, weights in taps:
        term = e.emit("Gather", [value, e.ints(elements)], axis=axis)
        if weights is not None:
            shape = [len(weights) if i == axis else 1 for i in range(rank)]
            term = e.emit("Mul", [term, e.constant(weights.reshape(shape), dtype)])
        total = term if total is None else e.emit("Add", [total, term])
    return total
