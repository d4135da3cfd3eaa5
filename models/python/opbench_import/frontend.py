"""Own translations of ONNX operators for which TVM's frontend makes needless kernels.

Clip with known bounds is one ``clip`` (the frontend guards the bounds against NaN at run time); Max and Min of two
tensors are one element-wise operator (the frontend stacks and reduces); Gather knows the axis it indexes (the
frontend asks for its extent with kernels), and of one known position it is a slice. LRN is one operator (the frontend
makes a three-dimensional pooling and four element-wise operators of it), PRelu takes slopes of any shape.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from tvm.relax.frontend.onnx import onnx_frontend

import tvm
from tvm import relax

from . import expand, legalise


def known(value: relax.Expr | None) -> bool:
    """Whether an input is absent or a constant."""
    return value is None or isinstance(value, tvm.ir.GenericConst)


def number(value: relax.Expr | None, default: float) -> float:
    """A constant's number, or the default for an absent input."""
    return default if value is None else float(value.value.numpy())


class Clip(onnx_frontend.Clip):
    """Clip with bounds known at import."""

    @classmethod
    def _impl_v1(cls, bb, inputs, attr, params):
        return bounded(inputs[0], float(attr.get("min", float("-inf"))), float(attr.get("max", float("inf"))))

    @classmethod
    def _impl_v13(cls, bb, inputs, attr, params):
        low, high = inputs[1], inputs[2]
        if not (known(low) and known(high)):
            return super()._impl_v13(bb, inputs, attr, params)
        return bounded(inputs[0], number(low, float("-inf")), number(high, float("inf")))


def bounded(data: relax.Expr, low: float, high: float) -> relax.Expr:
    """``data`` limited to [low, high]; the common rectifier under its own name."""
    if low == 0.0 and high == float("inf"):
        return relax.op.nn.relu(data)
    if low == float("-inf") and high == float("inf"):
        return data
    return relax.op.clip(data, low, high)


class Cast(onnx_frontend.Cast):
    """Conversions; of whole numbers without looking for infinities first."""

    @classmethod
    def _impl_v13(cls, bb, inputs, attr, params):
        if attr["tvm_custom"]["name"] == expand.WHOLE_SUMS:
            return relax.op.astype(inputs[0], "int32")
        return super()._impl_v13(bb, inputs, attr, params)


class Max(onnx_frontend.Max):
    """Maximum; of two tensors it is one element-wise operator."""

    @classmethod
    def _impl_v1(cls, bb, inputs, attr, params):
        return relax.op.maximum(*inputs) if len(inputs) == 2 else super()._impl_v1(bb, inputs, attr, params)


class Min(onnx_frontend.Min):
    """Minimum; of two tensors it is one element-wise operator."""

    @classmethod
    def _impl_v1(cls, bb, inputs, attr, params):
        return relax.op.minimum(*inputs) if len(inputs) == 2 else super()._impl_v1(bb, inputs, attr, params)


class Gather(onnx_frontend.Gather):
    """Gather along an axis of known extent; of one known position it is a slice."""

    @classmethod
    def _impl_v13(cls, bb, inputs, attr, params):
        data, position = inputs[0], inputs[1]
        shape = getattr(data.ty, "shape", None)
        static = isinstance(shape, relax.ShapeExpr) and isinstance(data.ty, relax.TensorType)
        if not static or isinstance(position, relax.ShapeExpr) or isinstance(data, tvm.ir.GenericConst):
            return super()._impl_v13(bb, inputs, attr, params)
        axis = int(attr.get("axis", 0)) % len(shape.values)
        extent = int(shape.values[axis])
        if isinstance(position, tvm.ir.GenericConst):
            at = position.value.numpy()
            if at.ndim == 0:
                first = int(at) % extent
                part = bb.normalize(relax.op.strided_slice(data, [axis], [first], [first + 1]))
                return relax.op.squeeze(part, [axis])
            return relax.op.take(data, relax.const(at % extent, at.dtype), axis)
        return legalise.gather(bb, data, position, axis)


class PRelu(onnx_frontend.OnnxOpConverter):
    """Leaky rectifier with given slopes: max(x, 0) + slope min(x, 0), for slopes of any shape that broadcasts."""

    @classmethod
    def _impl_v1(cls, bb, inputs, attr, params):
        data, slope = inputs
        zero = relax.const(0, data.ty.dtype.dtype)
        below = bb.normalize(relax.op.multiply(slope, bb.normalize(relax.op.minimum(data, zero))))
        return relax.op.add(bb.normalize(relax.op.nn.relu(data)), below)


class Pow(onnx_frontend.Pow):
    """Powers that are a few multiplications or a root (the frontend calls the C library for each element)."""

    @classmethod
    def _impl_v7(cls, bb, inputs, attr, params):
        data, exponent = inputs
        floating = str(data.ty.dtype.dtype).startswith(("float", "bfloat"))
        single = isinstance(exponent, tvm.ir.GenericConst) and exponent.value.numpy().size == 1
        if not (floating and single and not isinstance(data, tvm.ir.GenericConst)):
            return super()._impl_v7(bb, inputs, attr, params)
        power = float(exponent.value.numpy().reshape(()))
        square = bb.normalize(relax.op.multiply(data, data))
        if power == 2.0:
            return square
        if power == 3.0:
            return relax.op.multiply(square, data)
        if power == 0.5:
            return relax.op.sqrt(data)
        return super()._impl_v7(bb, inputs, attr, params)


class Elu(onnx_frontend.Elu):
    """Exponential linear unit in the type of its data (the frontend's constants are single precision)."""

    @classmethod
    def _impl_v1(cls, bb, inputs, attr, params):
        data = inputs[0]
        dtype = data.ty.dtype.dtype
        if str(dtype) == "float32":
            return super()._impl_v1(bb, inputs, attr, params)
        alpha, one, zero = (relax.const(v, dtype) for v in (attr.get("alpha", 1.0), 1.0, 0.0))
        negative = bb.normalize(relax.op.exp(bb.normalize(relax.op.minimum(data, zero))))
        below = bb.normalize(relax.op.multiply(alpha, bb.normalize(relax.op.subtract(negative, one))))
        return relax.op.add(bb.normalize(relax.op.nn.relu(data)), below)


class LRN(onnx_frontend.OnnxOpConverter):
    """Local response normalisation over channels as one operator (the frontend pools over five dimensions)."""

    @classmethod
    def _impl_v1(cls, bb, inputs, attr, params):
        options = {
            "size": attr["size"],
            "alpha": attr.get("alpha", 1e-4),
            "beta": attr.get("beta", 0.75),
            "bias": attr.get("bias", 1.0),
        }
        return legalise.response_normalisation(bb, inputs[0], options)


class BitCast(onnx_frontend.OnnxOpConverter):
    """The same bits as another element type."""

    @classmethod
    def _impl_v26(cls, bb, inputs, attr, params):
        return legalise.reinterpretation(bb, inputs[0], onnx_frontend.get_type(attr["to"]))


OWN = {
    "BitCast": BitCast,
    "Elu": Elu,
    "Cast": Cast,
    "Clip": Clip,
    "Max": Max,
    "Min": Min,
    "Gather": Gather,
    "LRN": LRN,
    "PRelu": PRelu,
    "Pow": Pow,
}


@contextlib.contextmanager
def own_translations() -> Iterator[None]:
    """Puts the translations of this module into the frontend's table for the time being."""
    original = onnx_frontend._get_convert_map  # noqa: SLF001 - the table has no public name
    onnx_frontend._get_convert_map = lambda: {**original(), **OWN}
    try:
        yield
    finally:
        onnx_frontend._get_convert_map = original
