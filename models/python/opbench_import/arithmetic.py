"""Forms of arithmetic operators that TVM's frontend lacks or converts to something else than ONNX defines."""

from __future__ import annotations

import numpy as np
import onnx

from .emit import Emitter


def floating(dtype: str | None) -> bool:
    """Whether an element type is a floating-point one; unknown types count as such."""
    return dtype is None or dtype.startswith(("float", "bfloat"))


def cast_like(e: Emitter) -> list[onnx.NodeProto]:
    """CastLike: a Cast to the type of the second input, whose values are not read."""
    dtype = e.graph.dtype(e.input(1))
    if dtype is None:
        raise e.refusal("the type of its second input is not known")
    return e.finish(e.cast(e.input(0), dtype))


def infinite(e: Emitter) -> list[onnx.NodeProto] | None:
    """IsInf of one sign; the frontend ignores which sign is asked for."""
    signs = [s for s, key in ((1, "detect_positive"), (-1, "detect_negative")) if e.options.get(key, 1)]
    if len(signs) == 2:
        return None
    dtype = e.graph.dtype(e.input(0)) or "float32"
    if not signs:
        return e.finish(e.emit("And", [e.cast(e.input(0), "bool"), e.constant(False, "bool")]))
    return e.finish(e.emit("Equal", [e.input(0), e.constant(signs[0] * np.inf, dtype)]))


def remainder(e: Emitter) -> list[onnx.NodeProto] | None:
    """Mod of floating-point numbers. The frontend's Mod with the sign of the divisor is wrong for infinities. So it is
    computed from ``r``, the remainder with the sign of the dividend: ``r + divisor`` where the signs differ, else ``r``.
    Half precision is computed in single precision, because code for GPUs has no other remainder. The value is the same."""
    dtype = e.graph.dtype(e.input(0)) or "float32"
    halves = dtype in ("float16", "bfloat16")
    if not floating(dtype) or e.options.get("fmod", 0) and not halves:
        return None
    operands = [e.input(0), e.input(1)]
    if halves:
        plain = e.cast(e.emit("Mod", [e.cast(o, "float32") for o in operands], fmod=1), dtype)
    else:
        plain = e.emit("Mod", operands, fmod=1)
    if e.options.get("fmod", 0):
        return e.finish(plain)
    nothing = e.constant(0.0, dtype)
    unlike = e.emit("Less", [e.emit("Mul", [e.emit("Sign", [plain]), e.emit("Sign", [e.input(1)])]), nothing])
    return e.finish(e.emit("Where", [unlike, e.emit("Add", [plain, e.input(1)]), plain]))


def power(e: Emitter) -> list[onnx.NodeProto] | None:
    """Pow: both operands in the type of the base; whole numbers in double precision, which holds 53 bits of them."""
    base, exponent = (e.graph.dtype(e.input(i)) for i in range(2))
    if base is None or exponent is None or base == exponent and floating(base):
        return None
    if floating(base):
        return e.finish(e.emit("Pow", [e.input(0), e.cast(e.input(1), base)]))
    if base in ("int64", "uint64") and not floating(exponent):
        raise e.refusal(f"TVM has no powers of {base}, and double precision does not hold all of them; cast to int32 or float")
    result = e.emit("Pow", [e.cast(e.input(i), "float64") for i in range(2)])
    return e.finish(e.cast(result, base))


def root_mean_square(e: Emitter) -> list[onnx.NodeProto] | None:
    """RMSNormalization of whole tensors, for which TVM's kernel cannot be built."""
    shape = e.graph.shape(e.input(0))
    if shape is None or e.options.get("axis", -1) % len(shape):
        return None
    dtype = e.graph.dtype(e.input(0)) or "float32"
    wide = onnx.helper.tensor_dtype_to_np_dtype(e.options.get("stash_type", 1)).name
    data = e.cast(e.input(0), wide)
    mean = e.emit("ReduceMean", [e.emit("Mul", [data, data]), e.ints(list(range(len(shape))))], keepdims=1)
    shifted = e.emit("Add", [mean, e.constant(e.options.get("epsilon", 1e-5), wide)])
    normal = e.emit("Div", [data, e.emit("Sqrt", [shifted])])
    return e.finish(e.emit("Mul", [e.cast(normal, dtype), e.input(1)]))


def length_normalised(e: Emitter) -> list[onnx.NodeProto]:
    """LpNormalization: data over its norm along an axis, 0 where that is 0."""
    order, data = e.options.get("p", 2), e.input(0)
    axes = [e.options.get("axis", -1)]
    if e.graph.opset >= 18:
        norm = e.emit(f"ReduceL{order}", [data, e.ints(axes)], keepdims=1)
    else:
        norm = e.emit(f"ReduceL{order}", [data], axes=axes, keepdims=1)
    nothing = e.constant(0.0, e.graph.dtype(data) or "float32")
    return e.finish(e.emit("Where", [e.emit("Equal", [norm, nothing]), nothing, e.emit("Div", [data, norm])]))


def fourier(e: Emitter) -> list[onnx.NodeProto]:
    """DFT of a known length, as products with its matrices of cosines and sines; complex numbers are pairs on the last axis."""
    shape = e.graph.shape(e.input(0))
    length = e.graph.value(e.input(1)) if e.input(1) else None
    if shape is None or e.input(1) and length is None or e.input(2) and e.graph.value(e.input(2)) is None:
        raise e.refusal("its length or its axis is computed by the model")
    axis = e.options.get("axis", 1) if e.graph.opset < 20 else -2
    axis = (int(e.graph.value(e.input(2)).reshape(())) if e.input(2) else axis) % len(shape)
    points, dtype = shape[axis], e.graph.dtype(e.input(0)) or "float32"
    size = points if length is None else int(length.reshape(()))
    inverse, one_sided = e.options.get("inverse", 0), e.options.get("onesided", 0)
    if length is None and inverse and one_sided:
        size = 2 * (points - 1)
    matrix = pair_matrix(shape, axis, size, bool(inverse), bool(one_sided)).astype(dtype)
    order = [i for i in range(len(shape)) if i not in (axis, len(shape) - 1)] + [axis, len(shape) - 1]
    moved = e.emit("Transpose", [e.input(0)], perm=order)
    rest = [shape[i] for i in order[:-2]]
    joined = e.emit("Reshape", [moved, e.ints([*rest, points * shape[-1]])])
    product = e.emit("MatMul", [joined, e.constant(matrix, dtype)])
    parts = 1 if inverse and one_sided else 2
    apart = e.emit("Reshape", [product, e.ints([*rest, matrix.shape[1] // parts, parts])])
    return e.finish(e.emit("Transpose", [apart], perm=[int(i) for i in np.argsort(order)]))


def pair_matrix(shape: tuple, axis: int, size: int, inverse: bool, one_sided: bool) -> np.ndarray:
    """The matrix from (points x parts) to (results x parts): parts are one for real numbers, two for complex ones."""
    points, parts = shape[axis], shape[-1]
    unit = np.eye(points)
    if inverse and one_sided:
        columns = [np.fft.irfft(unit * factor, size, axis=1) for factor in (1, 1j)][:parts]
        return np.stack(columns, axis=1).reshape(points * parts, size)
    transform = np.fft.ifft if inverse else np.fft.fft
    columns = [transform(unit * factor, size, axis=1) for factor in (1, 1j)[:parts]]
    results = size // 2 + 1 if one_sided else size
    whole = np.stack(columns, axis=1)[:, :, :results]
    return np.stack([whole.real, whole.imag], axis=-1).reshape(points * parts, results * 2)


RULES = {
    "LpNormalization": length_normalised,
    "DFT": fourier,
    "CastLike": cast_like,
    "IsInf": infinite,
    "Mod": remainder,
    "Pow": power,
    "RMSNormalization": root_mean_square,
}
