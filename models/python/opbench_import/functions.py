"""Functions of each element or row in forms that a compiler can turn into vector instructions.

TVM's own rules call the C library for every element, at a speed that depends on the data (a dense layer with GELU took
nine times as long), and no runtime that people deploy does so. TOPI has polynomials for single precision (relative
error about 1e-7 for exp, 1e-6 for erf and tanh); other types keep TVM's rules. Each function counts as one operation.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from tvm import te, tirx, topi
from tvm import relax

BLOCKS = ("T_fast_exp", "T_fast_erf", "T_fast_tanh", "T_fast_sigmoid")
"""Blocks that are one function of each element, however many instructions it takes."""


SIGMOID_BOUND = 18.0
SIGMOID_NUMERATOR = (1.28751949e-11, 7.99680145e-08, 5.44778232e-05, 8.35824791e-03, 2.49999977e-01)
SIGMOID_DENOMINATOR = (3.00884890e-09, 5.11153665e-06, 1.61512341e-03, 1.16766234e-01, 1.0)
"""sigmoid(x) is 1/2 plus x times the quotient of these polynomials of x², for |x| up to `SIGMOID_BOUND`.

Least maximal error (9e-9), found by reweighted least squares over 9,000 points in double precision (2026-11-28).
"""


def sigmoid(data: te.Tensor) -> te.Tensor:
    """1 / (1 + exp(-x)) as a rational function, with an absolute error of at most 2e-7.

    The two polynomials are computed side by side; in an exponential each step waits for the one before. x * sigmoid(x)
    takes 0.83 of the time of `topi::fast_tanh`'s polynomials, whose degrees are 6 and 3 (AVX2, Zen 1, 2026-11-28).
    """

    def constant(value: float) -> tirx.PrimExpr:
        return tirx.const(value, data.dtype)

    def polynomial(coefficients: tuple[float, ...], square: tirx.PrimExpr) -> tirx.PrimExpr:
        value = constant(coefficients[0])
        for coefficient in coefficients[1:]:
            value = value * square + constant(coefficient)
        return value

    def curve(*index: tirx.Var) -> tirx.PrimExpr:
        x = data(*index)
        # Beyond the bound the quotient stays the same, and the line through it leaves the range of the result.
        square = tirx.min(x * x, constant(SIGMOID_BOUND**2))
        value = polynomial(SIGMOID_NUMERATOR, square) / polynomial(SIGMOID_DENOMINATOR, square) * x + constant(0.5)
        return tirx.max(tirx.min(value, constant(1.0)), constant(0.0))

    return te.compute(data.shape, curve, name="T_fast_sigmoid")


def silu(data: te.Tensor) -> te.Tensor:
    """x * sigmoid(x)."""
    return topi.multiply(data, sigmoid(data))


def gelu(data: te.Tensor) -> te.Tensor:
    """x / 2 * (1 + erf(x / sqrt(2)))."""
    curve = topi.add(1.0, topi.fast_erf(topi.multiply(data, math.sqrt(0.5))))
    return topi.multiply(topi.multiply(data, 0.5), curve)


def leaky_relu(data: te.Tensor, slope: float) -> te.Tensor:
    """max(x, 0) + slope * min(x, 0): TVM has no vector instruction for a choice between two loads."""
    zero = tirx.const(0.0, data.dtype)
    factor = tirx.const(slope, data.dtype)
    return te.compute(
        data.shape, lambda *i: tirx.max(data(*i), zero) + factor * tirx.min(data(*i), zero), name="leaky_relu"
    )


def log_softmax(data: te.Tensor) -> te.Tensor:
    """x - max - log(sum(exp(x - max))) over the last axis; one logarithm a row."""
    rows, depth = list(data.shape[:-1]), data.shape[-1]
    k, again = te.reduce_axis((0, depth), "k"), te.reduce_axis((0, depth), "k")
    largest = te.compute(rows, lambda *i: te.max(data(*i, k), axis=k), name="T_softmax_maxelem")
    shifted = te.compute(data.shape, lambda *i: data(*i) - largest(*i[:-1]), name="T_softmax_shifted")
    powers = topi.fast_exp(shifted)
    total = te.compute(rows, lambda *i: te.sum(powers(*i, again), axis=again), name="T_softmax_expsum")
    offset = te.compute(rows, lambda *i: largest(*i) + tirx.log(total(*i)), name="T_softmax_offset")
    return te.compute(data.shape, lambda *i: data(*i) - offset(*i[:-1]), name="T_log_softmax")


UNARY: dict[str, Callable[[te.Tensor], te.Tensor]] = {
    "relax.exp": topi.fast_exp,
    "relax.erf": topi.fast_erf,
    "relax.tanh": topi.fast_tanh,
    "relax.sigmoid": sigmoid,
    "relax.nn.silu": silu,
    "relax.nn.gelu": gelu,
}


def expression(call: relax.Call) -> Callable[[te.Tensor], te.Tensor] | None:
    """The polynomial form of an operator; None if TVM's rule stays."""
    if str(call.args[0].ty.dtype.dtype) != "float32":
        return None
    if call.op.name == "relax.nn.softmax":
        return lambda data: topi.nn.fast_softmax(data, axis=int(call.attrs.axis))
    if call.op.name == "relax.nn.log_softmax" and int(call.attrs.axis) in (-1, len(call.args[0].ty.shape.values) - 1):
        return log_softmax
    if call.op.name == "relax.nn.leakyrelu":
        return lambda data: leaky_relu(data, float(call.attrs.alpha))
    return UNARY.get(call.op.name)
