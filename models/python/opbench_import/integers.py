"""Quantised operators as integer ones: what stands between a dequantisation and a quantisation, in 8-bit products.

Every source writes a quantised convolution as ``quantize(relu(conv(dequantize(x), dequantize(w)) + b))``: ONNX in its
QDQ form, its QLinear operators by ``expand``, TVM's TFLite frontend by itself. With x = sx (X - zx) and w = sw W the
sum is ``sx sw (sum X W - zx sum W)``, so that the product runs in integers (``qconv2d``, ``qdense``) and one
``requantize`` per element leads to the result. Where no quantisation follows, the sum is dequantised.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

import tvm
from tvm import relax

from . import integer_kernels, legalise
from .integer_kernels import SIGN
from .params import Param, constant, uniform, with_value
from .params import integers as whole_numbers
from .rebuild import Rebuilder, constant_value, dtype_of, op_name, shape_of
from .translated import Translated

BYTES = ("int8", "uint8")
CONVOLUTIONS = ("relax.nn.conv1d", "relax.nn.conv2d")
MATMUL = "relax.matmul"
MOVES = ("relax.permute_dims", "relax.reshape", "relax.squeeze", "relax.expand_dims", "relax.flatten")
LIMITS = {"int8": (-128, 127), "uint8": (0, 255)}


@dataclass
class Data:
    """Bytes and their values: ``scale * (value - zero)``; the zero point may be computed at run time."""

    value: relax.Expr
    scale: float
    zero: int | relax.Expr
    moves: tuple[relax.Call, ...] = ()
    """Changes of order or shape between the dequantisation and the product."""


@dataclass
class Weight:
    """A weight [O, I, K...] of signed numbers around zero with one scale, or one each output channel."""

    name: str
    value: np.ndarray
    scale: np.ndarray


@dataclass
class Product:
    """A convolution or a dense layer over bytes."""

    call: relax.Call
    data: Data
    weight: Weight


@dataclass
class Tail:
    """The operators between a product and its quantisation."""

    product: Product
    bias: np.ndarray
    low: float = -np.inf
    high: float = np.inf


class Recogniser(Rebuilder):
    """Rewrites quantised operators; ``self.weights`` are the parameters that it adds."""

    def __init__(self, model: Translated) -> None:
        super().__init__(model.module)
        self.weights = dict(model.params)
        self.given = {v: n for v, n in zip(self.main.params, model.names) if n in model.params}
        self.definitions: dict = {}
        self.readers: dict = {}
        for block in self.main.body.blocks:
            for binding in block.bindings:
                self.definitions[binding.var] = binding.value
                for read in reads(binding.value):
                    self.readers[read] = self.readers.get(read, 0) + 1
        for read in reads(self.main.body.body):
            self.readers[read] = self.readers.get(read, 0) + 1
        self.added: dict[str, Param] = {}

    def call(self, call: relax.Call, args: list) -> relax.Expr:
        """A quantised operator as integers, anything else as it is."""
        name = op_name(call)
        if name == "relax.quantize":
            made = self.requantized(call)
        elif name == "relax.clip" and dtype_of(call) in BYTES:
            # The activation of a TFLite operator, on bytes already.
            bounds = [float(a.value) for a in call.args[1:3]]
            inner = self.defined(call.args[0], once=True)
            made = self.requantized(inner, bounds) if op_name(inner) == "relax.quantize" else None
        elif name == "relax.astype" and dtype_of(call) == "int32":
            made = self.summed(call)
        elif name in (*CONVOLUTIONS, MATMUL):
            made = self.dequantized(call)
        else:
            made = None
        return super().call(call, args) if made is None else made

    def defined(self, expr: relax.Expr, once: bool = False) -> relax.Call | None:
        """The call that computes a variable; with ``once`` only if it has a single reader."""
        value = self.definitions.get(expr) if isinstance(expr, relax.Var) else None
        if not isinstance(value, tvm.ir.Call) or once and self.readers.get(expr) != 1:
            return None
        return value

    def numbers(self, expr: relax.Expr) -> np.ndarray | None:
        """The values of a constant or a weight."""
        if isinstance(expr, relax.Var) and expr in self.given:
            return self.weights[self.given[expr]].value
        return constant_value(expr)

    def data(self, expr: relax.Expr) -> Data | None:
        """Bytes before a dequantisation of whole tensors."""
        call = self.defined(expr)
        if op_name(call) in MOVES:
            inner = self.data(call.args[0])
            return None if inner is None else replace(inner, moves=(*inner.moves, call))
        if op_name(call) != "relax.dequantize" or dtype_of(call.args[0]) not in BYTES or dtype_of(call) != "float32":
            return None
        scale, zero = constant_value(call.args[1]), constant_value(call.args[2])
        if scale is None or scale.size != 1 or call.args[0] in self.given:
            return None
        if zero is None:
            single = not shape_of(call.args[2])
            return Data(call.args[0], float(scale.reshape(())), call.args[2]) if single else None
        return Data(call.args[0], float(scale.reshape(())), int(zero.reshape(-1)[0])) if zero.size == 1 else None

    def weight(self, expr: relax.Expr, out_axis: int) -> Weight | None:
        """A given weight of bytes before a dequantisation, its output channels first."""
        call, turned = self.defined(expr), False
        if op_name(call) == "relax.permute_dims" and len(shape_of(call)) == 2:
            call, turned = self.defined(call.args[0]), True
        if op_name(call) != "relax.dequantize" or dtype_of(call.args[0]) not in BYTES:
            return None
        value = self.numbers(call.args[0])
        scale, zero = constant_value(call.args[1]), constant_value(call.args[2])
        if value is None or scale is None or zero is None:
            return None
        axis = int(call.attrs.axis) % value.ndim
        along = [-1 if d == axis else 1 for d in range(value.ndim)]
        value = value.astype(np.int16) - (zero.reshape(along) if zero.size > 1 else zero.reshape(())).astype(np.int16)
        if turned:
            value, axis = value.T, 1 - axis
        if scale.size > 1 and axis != out_axis:
            return None
        # Unsigned bytes around a zero point that is not in their middle take nine bits.
        fits = value.min(initial=0) >= -128 and value.max(initial=0) <= 127
        value = np.moveaxis(value.astype(np.int8) if fits else value, out_axis, 0)
        return Weight(self.given.get(call.args[0], "weight"), value, scale.reshape(-1).astype(np.float32))

    def product(self, call: relax.Call | None) -> Product | None:
        """A convolution or a dense layer whose operands are bytes."""
        name = op_name(call)
        if name == MATMUL and len(shape_of(call.args[1])) == 2 and len(shape_of(call.args[0])) >= 2:
            data, weight = self.data(call.args[0]), self.weight(call.args[1], 1)
        elif name in CONVOLUTIONS:
            data, weight = self.data(call.args[0]), self.weight(call.args[1], 0)
        else:
            return None
        return Product(call, data, weight) if data is not None and weight is not None else None

    def tail(self, expr: relax.Expr) -> Tail | None:
        """The product before a bias and a rectifier, if nothing else reads them."""
        call = self.defined(expr, once=True)
        name = op_name(call)
        if name in ("relax.nn.relu", "relax.clip"):
            inner = self.tail(call.args[0])
            low, high = (0.0, np.inf) if name == "relax.nn.relu" else (float(a.value) for a in call.args[1:3])
            return replace(inner, low=low, high=high) if inner is not None and inner.low == -np.inf else None
        if name == "relax.add":
            for operand, other in (call.args, call.args[::-1]):
                inner = self.tail(operand)
                if inner is not None and not inner.bias.any() and inner.low == -np.inf:
                    bias = self.channel_vector(other, inner.product)
                    return None if bias is None else replace(inner, bias=bias)
            return None
        product = self.product(call)
        return None if product is None else Tail(product, np.zeros(1, np.float32))

    def channel_vector(self, expr: relax.Expr, product: Product) -> np.ndarray | None:
        """A given tensor as one number each output channel."""
        value = self.numbers(expr)
        rank, axis = len(shape_of(product.call)), channel_axis(product)
        if value is None or value.ndim > rank:
            return None
        shape = (1,) * (rank - value.ndim) + value.shape
        varies = [d for d, n in enumerate(shape) if n > 1]
        return value.reshape(-1).astype(np.float32) if varies in ([], [axis]) else None

    def requantized(self, call: relax.Call, bounds: tuple | list = (-np.inf, np.inf)) -> relax.Expr | None:
        """A quantisation of a product, or of bytes with another scale, the result within ``bounds``."""
        scale, zero = constant_value(call.args[1]), constant_value(call.args[2])
        if scale is None or zero is None or scale.size != 1 or zero.size != 1 or dtype_of(call) not in BYTES:
            return None
        scale, zero, dtype = float(scale.reshape(())), int(zero.reshape(-1)[0]), dtype_of(call)
        low, high = (int(choose(a, b)) for choose, a, b in zip((max, min), LIMITS[dtype], bounds))
        source = self.data(call.args[0])
        if source is not None and isinstance(source.zero, int) and not source.moves:
            vectors = [np.array([-source.zero], np.int32), ratio([source.scale], scale), np.zeros(1, np.float32)]
            return self.steps(self.value(source.value), vectors, 0, zero, dtype, (low, high))
        tail = self.tail(call.args[0])
        if tail is None or not isinstance(tail.product.data.zero, int):
            return None
        product = tail.product
        steps = product.weight.scale.astype(np.float64) * product.data.scale
        vectors = [correction(product), ratio(steps, scale), (tail.bias / scale).astype(np.float32)]
        # A rectifier between the sum and the quantisation only moves the limits.
        if np.isfinite(tail.low):
            low = max(low, int(np.round(tail.low / scale)) + zero)
        if np.isfinite(tail.high):
            high = min(high, int(np.round(tail.high / scale)) + zero)
        return self.steps(self.sums(product), vectors, channel_axis(product), zero, dtype, (low, high))

    def dequantized(self, call: relax.Call) -> relax.Expr | None:
        """A product whose result stays floating-point numbers."""
        product = self.product(call)
        if product is None or not isinstance(product.data.zero, int):
            return None
        factor = ratio(product.weight.scale.astype(np.float64) * product.data.scale, 1.0)
        args = [self.sums(product), *(self.parameter(product, v) for v in (correction(product), factor))]
        axis = channel_axis(product)

        def expression(data, correction, factor):
            return integer_kernels.dequantized(data, correction, factor, axis)

        made = self.builder.call_te(expression, *args, primfunc_name_hint="dequantize")
        return legalise.mark(self.builder, made, {"op": "relax.dequantize", "attrs": {"axis": axis}})

    def summed(self, call: relax.Call) -> relax.Expr | None:
        """The 32-bit sums themselves, as ConvInteger and MatMulInteger want them; the zero point may be a run-time value."""
        product = self.product(self.defined(call.args[0], once=True))
        if product is None or product.data.scale != 1.0 or np.any(product.weight.scale != 1.0):
            return None
        sums = self.builder.emit(self.sums(product))
        if isinstance(product.data.zero, int):
            vector = self.channels(product, correction(product))
            return relax.op.add(sums, vector)
        if is_plain(product):
            return sums
        lift = SIGN if dtype_of(product.data.value) == "int8" else 0
        zero = self.builder.emit(relax.op.astype(self.value(product.data.zero), "int32"))
        zero = self.builder.emit(relax.op.add(zero, relax.const(lift, "int32")))
        total = self.channels(product, weight_sums(product))
        return relax.op.subtract(sums, self.builder.emit(relax.op.multiply(total, zero)))

    def channels(self, product: Product, vector: np.ndarray) -> relax.Expr:
        """A vector over output channels as a parameter that broadcasts against the product."""
        rank, axis = len(shape_of(product.call)), channel_axis(product)
        return self.parameter(product, vector.reshape([-1 if d == axis else 1 for d in range(axis, rank)]))

    def sums(self, product: Product) -> relax.Expr:
        """The product in 32-bit integers: of unsigned bytes, except in groups, where the zero point is taken off first."""
        value = self.value(product.data.value)
        for call in product.data.moves:
            value = self.builder.emit(tvm.ir.Call(call.op, [value, *call.args[1:]], attrs=call.attrs))
        runtime = [] if isinstance(product.data.zero, int) else [self.value(product.data.zero)]
        known = product.data.zero
        options = None if op_name(product.call) == MATMUL else legalise.conv_options(product.call)
        plain = is_plain(product)
        weight = product.weight.value
        out, inner = weight.shape[:2]
        if not plain:
            weight = integer_kernels.packed_weight(weight)
        elif options is None:
            weight = np.ascontiguousarray(weight.T)

        def expression(data, weight, *zero):
            def point():
                return zero[0][()] if zero else tvm.tirx.const(known, "int32")

            if options is None and plain:
                return integer_kernels.plain_dense(data, weight, point)
            if options is None:
                return integer_kernels.dense(data, weight, out)
            if plain:
                return integer_kernels.plain_convolution(data, weight, options, point)
            return integer_kernels.convolution(data, weight, options, out, point)

        kind = "qdense" if options is None else "qconv2d"
        args = [value, self.parameter(product, weight), *(runtime if options is not None or plain else [])]
        made = self.builder.call_te(expression, *args, primfunc_name_hint=kind)
        return self.builder.emit(
            legalise.mark(
                self.builder, made, facts(kind, product, options, out, inner), legalise.OUT_ELEMWISE_FUSABLE
            )
        )

    def steps(self, data, vectors: list[np.ndarray], axis: int, zero: int, dtype: str, limits) -> relax.Expr:
        """A ``requantize`` with vectors for the correction, the factor and the offset."""
        name = "requantize"
        args = [self.stored(name, vector) for vector in vectors]

        def expression(data, correction, factor, offset):
            return integer_kernels.requantized(data, correction, factor, offset, axis, zero, dtype, limits)

        made = self.builder.call_te(expression, data, *args, primfunc_name_hint=name)
        return legalise.mark(self.builder, made, {"op": "relax.requantize", "attrs": {"axis": axis}})

    def parameter(self, product: Product, value: np.ndarray) -> relax.Var:
        """A parameter derived from the product's weight."""
        return self.stored(product.weight.name, value)

    def stored(self, stem: str, value: np.ndarray) -> relax.Var:
        """A new parameter; its values are part of the import."""
        name = f"{stem}__q{len(self.added)}"
        param = with_value(value)
        single = param.uniform_value()
        param.fill = constant(single) if single is not None else hint(value)
        self.added[name] = param
        var = relax.Var(name, relax.TensorType(value.shape, value.dtype.name))
        self.params.append(var)
        return var


def reads(value: relax.Expr) -> list:
    """The variables that an expression reads."""
    if isinstance(value, relax.Var):
        return [value]
    if isinstance(value, tvm.ir.Call):
        return [r for a in value.args for r in reads(a)]
    if isinstance(value, relax.Tuple):
        return [r for f in value.fields for r in reads(f)]
    return reads(value.tuple_value) if isinstance(value, relax.TupleGetItem) else []


def hint(value: np.ndarray) -> dict:
    """How to fill such a parameter where one operator is measured alone."""
    low, high = float(value.min()), float(value.max())
    return uniform(low, high) if value.dtype.kind == "f" else whole_numbers(int(high) + 1, int(low))


def ratio(steps, scale: float) -> np.ndarray:
    """Steps of a sum in steps of a result."""
    return (np.asarray(steps, np.float64) / scale).astype(np.float32)


def is_plain(product: Product) -> bool:
    """Whether dot products of bytes are useless: channels in groups share no data, and some weights are wider."""
    grouped = op_name(product.call) != MATMUL and int(product.call.attrs.groups) > 1
    return grouped or product.weight.value.dtype != np.int8


def channel_axis(product: Product) -> int:
    """The axis of output channels in the product's result."""
    return len(shape_of(product.call)) - 1 if op_name(product.call) == MATMUL else 1


def weight_sums(product: Product) -> np.ndarray:
    """The sum of each output channel's weights."""
    return product.weight.value.reshape(product.weight.value.shape[0], -1).sum(axis=1, dtype=np.int32)


def correction(product: Product) -> np.ndarray:
    """The terms that the zero point of the data, and the 128 that made them unsigned, have added to each sum."""
    if is_plain(product):
        return np.zeros(1, np.int32)
    lift = SIGN if dtype_of(product.data.value) == "int8" else 0
    return -(product.data.zero + lift) * weight_sums(product)


def facts(kind: str, product: Product, options: dict | None, out: int, inner: int) -> dict:
    """The product's entry in graph.json; elements that fill up a run of the reduction are not counted."""
    plain = is_plain(product)
    short = {} if plain or inner >= integer_kernels.DOT else {"ki" if options is None else "ri": inner}
    if options is None:
        attrs = {"in_channels": inner, "out_channels": out, "weight_layout": "KN" if plain else "NK16n4k"}
        return {"op": kind, "attrs": attrs, "extents": {"j": out, **short}}
    shape = product.weight.value.shape
    letters = "OI" + "DHW"[3 - len(shape[2:]) :]
    attrs = {
        **options,
        "kernel": list(shape[2:]),
        "in_channels": inner * options["groups"],
        "out_channels": out,
        "weight_layout": letters if plain else f"{letters}16o4i",
    }
    return {"op": kind, "attrs": attrs, "extents": {"ff": out, **short}}


def recognise(model: Translated) -> Translated:
    """The model with its quantised operators as integer ones; one without them is returned as it is."""
    quantised = any(
        op_name(b.value) == "relax.dequantize" for block in model.module["main"].body.blocks for b in block.bindings
    )
    if not quantised:
        return model
    recogniser = Recogniser(model)
    module = relax.transform.DeadCodeElimination(["main"])(recogniser.rebuild())
    params = {**model.params, **recogniser.added}
    return without_unused(replace(model, module=module, names=[*model.names, *recogniser.added], params=params))


def without_unused(model: Translated) -> Translated:
    """The model without the weights that nothing reads any more."""
    main = model.module["main"]
    used = {r for block in main.body.blocks for b in block.bindings for r in reads(b.value)} | set(reads(main.body.body))
    kept = [(v, n) for v, n in zip(main.params, model.names) if v in used or n not in model.params]
    fresh = relax.Function([v for v, _ in kept], main.body, main.ret_ty, main.is_pure, main.attrs)
    module = tvm.IRModule({**dict(model.module.functions_items()), model.module.get_global_var("main"): fresh})
    names = [n for _, n in kept]
    return replace(model, module=module, names=names, params={n: p for n, p in model.params.items() if n in names})
