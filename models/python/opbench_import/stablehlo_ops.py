"""StableHLO operations as Relax calls, one rule each; a form that a rule does not cover raises ``Refused``.

A rule gets the walk (its ``tensor`` gives operands) and the operation, and returns the expression of its one result.
"""

from __future__ import annotations

import math

import numpy as np

from tvm import relax

from .rebuild import constant_value, dtype_of, shape_of

LARGEST = 1 << 31
"""Elements of a tensor that is computed at the import."""

DTYPES = {
    "f16": "float16",
    "bf16": "bfloat16",
    "f32": "float32",
    "f64": "float64",
    "i1": "bool",
    **{f"i{bits}": f"int{bits}" for bits in (8, 16, 32, 64)},
    **{f"ui{bits}": f"uint{bits}" for bits in (8, 16, 32, 64)},
}


class Refused(Exception):
    """A form of an operation without a rule; the argument names it."""


def tensor_type(kind) -> tuple[list[int], str]:
    """Static shape and element type of an MLIR type."""
    shape = getattr(kind, "shape", None)
    element = str(getattr(kind, "element_type", kind))
    if shape is None or element not in DTYPES:
        raise Refused(f"values of type {kind} have no place in a tensor graph here")
    if not kind.has_static_shape:
        raise Refused(f"type {kind} has open dimensions; export the model with fixed shapes")
    return [int(d) for d in shape], DTYPES[element]


def result(operation) -> tuple[list[int], str]:
    """Shape and element type of the operation's one result."""
    if len(operation.results) != 1:
        raise Refused(f"it has {len(operation.results)} results")
    return tensor_type(operation.results[0].type)


def numbers(operation, name: str, default: list[int] | None = None) -> list[int]:
    """An attribute that is a list of integers."""
    if name not in operation.attributes:
        return list(default or [])
    return [int(v) for v in operation.attributes[name]]


def pairs(operation, name: str, count: int) -> list[list[int]]:
    """An attribute of shape [count, 2]; zeros where it is left out."""
    if name not in operation.attributes:
        return [[0, 0]] * count
    return np.array(operation.attributes[name]).reshape(-1, 2).tolist()


def whole(operation, name: str, default: int = 1) -> int:
    """An attribute that is an integer."""
    return int(operation.attributes[name].value) if name in operation.attributes else default


def operands(walk, operation) -> list[relax.Expr]:
    """The operands as they are."""
    return [walk.tensor(v) for v in operation.operands]


def direction_of(operation) -> str:
    """The direction of a comparison: EQ, NE, LT, LE, GT or GE."""
    return str(operation.attributes["comparison_direction"]).split()[-1].rstrip(">")


def unary(op):
    """An operation of one tensor."""
    return lambda walk, operation: op(walk.tensor(operation.operands[0]))


def binary(op):
    """An operation of two tensors of one shape; the operator broadcasts its operands itself."""

    def rule(walk, operation):
        shape, _ = result(operation)
        left, right = (walk.thin.get(v, walk.tensor(v)) for v in operation.operands)
        if np.broadcast_shapes(shape_of(left), shape_of(right)) != tuple(shape):
            left = walk.tensor(operation.operands[0])
        return op(left, right)

    return rule


def maximum(left: relax.Expr, right: relax.Expr) -> relax.Expr:
    """The larger of two values; with a constant zero it is a rectifier."""
    for data, other in ((left, right), (right, left)):
        value = constant_value(other)
        if value is not None and value.size == 1 and float(value.reshape(())) == 0.0 and "float" in dtype_of(data):
            return relax.op.nn.relu(data)
    return relax.op.maximum(left, right)


def away_from_zero(walk, operation):
    """round_nearest_afz: halves away from zero, where Relax rounds them to even."""
    data = walk.tensor(operation.operands[0])
    half = walk.emit(relax.op.add(walk.emit(relax.op.abs(data)), relax.const(0.5, dtype_of(data))))
    return relax.op.multiply(walk.emit(relax.op.sign(data)), walk.emit(relax.op.floor(half)))


def complement_of_error(walk, operation):
    """erfc: 1 - erf(x)."""
    data = walk.tensor(operation.operands[0])
    return relax.op.subtract(relax.const(1.0, dtype_of(data)), walk.emit(relax.op.erf(data)))


def log_plus_one(walk, operation):
    """log_plus_one: log(1 + x)."""
    data = walk.tensor(operation.operands[0])
    return relax.op.log(walk.emit(relax.op.add(data, relax.const(1.0, dtype_of(data)))))


def exponential_minus_one(walk, operation):
    """exponential_minus_one: exp(x) - 1."""
    data = walk.tensor(operation.operands[0])
    return relax.op.subtract(walk.emit(relax.op.exp(data)), relax.const(1.0, dtype_of(data)))


def cube_root(walk, operation):
    """cbrt: the root of the absolute value, with the sign of the value."""
    data = walk.tensor(operation.operands[0])
    root = walk.emit(relax.op.power(walk.emit(relax.op.abs(data)), relax.const(1.0 / 3.0, dtype_of(data))))
    return relax.op.multiply(walk.emit(relax.op.sign(data)), root)


def bits(of_truth, of_integers):
    """An operation on truth values that works on the bits of integers."""
    return lambda *args: (of_truth if dtype_of(args[0]) == "bool" else of_integers)(*args)


def whole_quotient(walk, left: relax.Expr, right: relax.Expr) -> relax.Expr:
    """The quotient of integers towards zero: Relax rounds quotients down."""
    sizes = [walk.emit(relax.op.abs(v)) if dtype_of(v).startswith("int") else v for v in (left, right)]
    quotient = walk.emit(relax.op.floor_divide(*sizes))
    if not dtype_of(left).startswith("int"):
        return quotient
    signs = [walk.emit(relax.op.sign(v)) for v in (left, right)]
    return walk.emit(relax.op.multiply(quotient, walk.emit(relax.op.multiply(*signs))))


def divided(walk, operation):
    """A quotient; for integers it is rounded towards zero."""
    left, right = operands(walk, operation)
    if "float" in dtype_of(left):
        return binary(relax.op.divide)(walk, operation)
    return whole_quotient(walk, left, right)


def remainder(walk, operation):
    """The remainder of the quotient towards zero."""
    left, right = operands(walk, operation)
    if "float" in dtype_of(left):
        quotient = walk.emit(relax.op.trunc(walk.emit(relax.op.divide(left, right))))
    else:
        quotient = whole_quotient(walk, left, right)
    return relax.op.subtract(left, walk.emit(relax.op.multiply(quotient, right)))


def constant(_walk, operation):
    """A constant; one value everywhere stays one."""
    shape, dtype = result(operation)
    attribute = operation.attributes["value"]
    if math.prod(shape) > LARGEST:
        raise Refused(f"a constant of shape {shape} is too large")
    if dtype == "bfloat16":
        import ml_dtypes

        return relax.const(np.array([float(v) for v in attribute], ml_dtypes.bfloat16).reshape(shape), dtype)
    return relax.const(np.array(attribute).astype(dtype).reshape(shape), dtype)


def iota(_walk, operation):
    """Counting along one axis."""
    shape, dtype = result(operation)
    if math.prod(shape) > LARGEST:
        raise Refused(f"a result of shape {shape} is too large")
    axis = whole(operation, "iota_dimension")
    along = np.arange(shape[axis]).reshape([-1 if d == axis else 1 for d in range(len(shape))])
    return relax.const(np.broadcast_to(along, shape).astype(dtype), dtype)


def broadcast(walk, operation):
    """broadcast_in_dim: the operand's axes placed among the result's, which then are filled."""
    shape, _ = result(operation)
    places = numbers(operation, "broadcast_dimensions")
    source = operation.operands[0]
    data = walk.thin.get(source, walk.tensor(source))
    own = tensor_type(source.type)[0]
    extents = shape_of(data)
    # A thin operand lines up with the last axes of the tensor that it represents.
    extents = (1,) * (len(own) - len(extents)) + extents
    aligned = [1] * len(shape)
    for place, extent in zip(places, extents):
        aligned[place] = extent
    if sorted(places) != places:
        data = walk.emit(relax.op.permute_dims(walk.tensor(source), list(np.argsort(places))))
        aligned = [own[places.index(d)] if d in places else 1 for d in range(len(shape))]
    trimmed = aligned
    while trimmed and trimmed[0] == 1:
        trimmed = trimmed[1:]
    value = constant_value(data)
    if list(shape_of(data)) != trimmed:
        data = walk.emit(relax.op.reshape(data, trimmed)) if value is None else relax.const(value.reshape(trimmed), dtype_of(data))
    walk.thin[operation.results[0]] = data
    return data if trimmed == shape else relax.op.broadcast_to(data, shape)


def product(walk, operation):
    """dot_general: batch axes first, then rows, then columns."""
    from jaxlib.mlir.dialects import stablehlo

    shape, dtype = result(operation)
    d = stablehlo.DotDimensionNumbers(operation.attributes["dot_dimension_numbers"])
    left, right = (of_type(walk, t, dtype) for t in operands(walk, operation))
    batch, summed = list(d.lhs_batching_dimensions), list(d.lhs_contracting_dimensions)
    rows = [a for a in range(len(shape_of(left))) if a not in (*batch, *summed)]
    batch_right, summed_right = list(d.rhs_batching_dimensions), list(d.rhs_contracting_dimensions)
    columns = [a for a in range(len(shape_of(right))) if a not in (*batch_right, *summed_right)]
    sizes_left, sizes_right = shape_of(left), shape_of(right)
    depth = math.prod(sizes_left[a] for a in summed)
    lead = [sizes_left[a] for a in batch]
    left = arranged(walk, left, [*batch, *rows, *summed], [*lead, math.prod(sizes_left[a] for a in rows), depth])
    width = math.prod(sizes_right[a] for a in columns)
    right = arranged(walk, right, [*batch_right, *summed_right, *columns], [*lead, depth, width])
    made = walk.emit(relax.op.matmul(left, right))
    return made if list(shape_of(made)) == shape else relax.op.reshape(made, shape)


def of_type(walk, tensor: relax.Expr, dtype: str) -> relax.Expr:
    """The tensor in the type that sums are to have."""
    return tensor if dtype_of(tensor) == dtype else walk.emit(relax.op.astype(tensor, dtype))


def arranged(walk, tensor: relax.Expr, axes: list[int], shape: list[int]) -> relax.Expr:
    """The tensor with its axes in another order and then in another shape; a constant at once."""
    value = constant_value(tensor)
    if value is not None and dtype_of(tensor) != "bfloat16":
        return relax.const(np.ascontiguousarray(value.transpose(axes).reshape(shape)), dtype_of(tensor))
    if axes != sorted(axes):
        tensor = walk.emit(relax.op.permute_dims(tensor, axes))
    return tensor if list(shape_of(tensor)) == shape else walk.emit(relax.op.reshape(tensor, shape))


SPATIAL = {1: "W", 2: "HW", 3: "DHW"}
CONVOLUTIONS = {1: relax.op.nn.conv1d, 2: relax.op.nn.conv2d, 3: relax.op.nn.conv3d}


def convolution(walk, operation):
    """A convolution with any order of axes; dilated data make it a transposed one."""
    from jaxlib.mlir.dialects import stablehlo

    shape, dtype = result(operation)
    d = stablehlo.ConvDimensionNumbers(operation.attributes["dimension_numbers"])
    rank = len(d.input_spatial_dimensions)
    if rank not in CONVOLUTIONS:
        raise Refused(f"it has {rank} spatial dimensions")
    between = numbers(operation, "lhs_dilation", [1] * rank)
    if any(bool(v) for v in numbers(operation, "window_reversal")) or whole(operation, "batch_group_count") != 1:
        raise Refused("it has a reversed window, or groups of the batch")
    padding = pairs(operation, "padding", rank)
    transposes = any(v != 1 for v in between)
    if any(v < 0 for pair in padding for v in pair) and not transposes:
        raise Refused("its padding takes something away")
    data, weight = (of_type(walk, t, dtype) for t in operands(walk, operation))
    last = list(d.input_spatial_dimensions) == list(range(1, rank + 1)) and d.input_batch_dimension == 0
    letters = SPATIAL[rank]
    layout = f"N{letters}C" if last else f"NC{letters}"
    if not last:
        axes = [d.input_batch_dimension, d.input_feature_dimension, *d.input_spatial_dimensions]
        data = arranged(walk, data, axes, [shape_of(data)[a] for a in axes])
    axes = [d.kernel_output_feature_dimension, d.kernel_input_feature_dimension, *d.kernel_spatial_dimensions]
    weight = arranged(walk, weight, axes, [shape_of(weight)[a] for a in axes])
    if transposes:
        made = transposed_convolution(walk, operation, data, weight, (between, padding, layout))
        return placed(made, d, last)
    made = walk.emit(
        CONVOLUTIONS[rank](
            data,
            weight,
            strides=numbers(operation, "window_strides", [1] * rank),
            padding=[p[0] for p in padding] + [p[1] for p in padding],
            dilation=numbers(operation, "rhs_dilation", [1] * rank),
            groups=whole(operation, "feature_group_count"),
            data_layout=layout,
            kernel_layout=f"OI{letters}",
        )
    )
    return placed(made, d, last)


def transposed_convolution(walk, operation, data: relax.Expr, weight: relax.Expr, facts: tuple) -> relax.Expr:
    """A convolution over data with zeros between them, as the transposed one of a turned weight [I, O, K...]."""
    between, padding, layout = facts
    rank = len(between)
    window, dilation = shape_of(weight)[2:], numbers(operation, "rhs_dilation", [1] * rank)
    if numbers(operation, "window_strides", [1] * rank) != [1] * rank or whole(operation, "feature_group_count") != 1:
        raise Refused("it is a transposed one with strides or groups")
    given = constant_value(weight)
    if given is None or rank != 2:
        raise Refused("it is a transposed one with a computed weight, or not of images")
    turned = np.flip(given, tuple(range(2, 2 + rank))).swapaxes(0, 1)
    full = [(k - 1) * d for k, d in zip(window, dilation)]
    before = [f - p[0] for f, p in zip(full, padding)]
    after = [f - p[1] for f, p in zip(full, padding)]
    if min(before) < 0:
        raise Refused("it is a transposed one with a margin before the data")
    return walk.emit(
        relax.op.nn.conv2d_transpose(
            data,
            relax.const(np.ascontiguousarray(turned), dtype_of(weight)),
            strides=between,
            padding=before + [max(a, 0) for a in after],
            output_padding=[max(-a, 0) for a in after],
            dilation=dilation,
            data_layout=layout,
            kernel_layout="IOHW",
        )
    )


def placed(made: relax.Expr, d, last: bool) -> relax.Expr:
    """A convolution's result with its axes where the operation has them."""
    out = [d.output_batch_dimension, *d.output_spatial_dimensions, d.output_feature_dimension]
    if not last:
        out = [d.output_batch_dimension, d.output_feature_dimension, *d.output_spatial_dimensions]
    back = [out.index(a) for a in range(len(out))]
    return made if back == sorted(back) else relax.op.permute_dims(made, back)


IDENTITIES = {"stablehlo.add": 0.0, "stablehlo.multiply": 1.0, "stablehlo.maximum": -np.inf, "stablehlo.minimum": np.inf}
REDUCTIONS = {
    "stablehlo.add": relax.op.sum,
    "stablehlo.multiply": relax.op.prod,
    "stablehlo.maximum": relax.op.max,
    "stablehlo.minimum": relax.op.min,
}


def extreme_place(walk, operation) -> list:
    """The largest or smallest elements of an axis and where the first of them is: a reduction of the data together with
    their places, as JAX writes argmax."""
    data, places = (walk.tensor(v) for v in list(operation.operands)[:2])
    axes = numbers(operation, "dimensions")
    inner = [o for o in operation.regions[0].blocks[0].operations if o.operation.name == "stablehlo.compare"]
    direction = direction_of(inner[0]) if inner else ""
    counted = constant_value(places)
    if len(operation.operands) != 4 or len(axes) != 1 or direction not in ("GT", "GE", "LT", "LE") or counted is None:
        raise Refused("it reduces several tensors at once")
    extent = shape_of(data)[axes[0]]
    along = np.arange(extent).reshape([-1 if a == axes[0] else 1 for a in range(counted.ndim)])
    if not np.array_equal(counted, np.broadcast_to(along, counted.shape)):
        raise Refused("it reduces several tensors at once")
    largest = direction in ("GT", "GE")
    value = walk.emit((relax.op.max if largest else relax.op.min)(data, axis=axes))
    place = walk.emit((relax.op.argmax if largest else relax.op.argmin)(data, axis=axes[0]))
    return [value, walk.emit(relax.op.astype(place, dtype_of(places)))]


TRUTH = {"stablehlo.and": relax.op.min, "stablehlo.or": relax.op.max}


def truth_reduction(walk, operation, name: str):
    """Whether all or any values are true, as the smallest or largest of small integers."""
    data = walk.emit(relax.op.astype(walk.tensor(operation.operands[0]), "uint8"))
    return relax.op.astype(walk.emit(TRUTH[name](data, axis=numbers(operation, "dimensions"))), "bool")


def reducer(walk, operation) -> str:
    """The only operation of a reduction's body. The initial value must be its neutral element."""
    if len(operation.operands) != 2:
        raise Refused("it reduces several tensors at once")
    inner = [o.operation.name for o in operation.regions[0].blocks[0].operations]
    if len(inner) != 2 or inner[0] not in REDUCTIONS:
        raise Refused(f"its body is {', '.join(inner[:-1]) or 'empty'}; only a sum, product, maximum or minimum is known")
    start = constant_value(walk.thin.get(operation.operands[1], walk.tensor(operation.operands[1])))
    wanted = IDENTITIES[inner[0]]
    if start is not None and start.dtype.kind in "iu" and not np.isfinite(wanted):
        wanted = np.iinfo(start.dtype).min if wanted < 0 else np.iinfo(start.dtype).max
    if start is None or float(start.reshape(())) != wanted:
        raise Refused("it does not start with what changes nothing")
    return inner[0]


def reduce(walk, operation):
    """A reduction over some axes."""
    if len(operation.results) == 2:
        return extreme_place(walk, operation)
    inner = [o.operation.name for o in operation.regions[0].blocks[0].operations]
    if inner[0] in TRUTH and len(inner) == 2 and result(operation)[1] == "bool":
        return truth_reduction(walk, operation, inner[0])
    op = REDUCTIONS[reducer(walk, operation)]
    return op(walk.tensor(operation.operands[0]), axis=numbers(operation, "dimensions"))


def reduce_window(walk, operation):
    """Maximum and average pooling over the two spatial axes of images, or the one of signals."""
    shape, _ = result(operation)
    name = reducer(walk, operation)
    window = numbers(operation, "window_dimensions")
    data = walk.tensor(operation.operands[0])
    ones = [1] * len(window)
    strides = numbers(operation, "window_strides", ones)
    dilation = numbers(operation, "window_dilations", ones)
    padding = pairs(operation, "padding", len(window))
    if len(window) == 3:
        # A signal is an image of one row.
        before = 1 if window[2] == 1 else 2
        window, strides, dilation = ([*v[:before], 1, *v[before:]] for v in (window, strides, dilation))
        padding.insert(before, [0, 0])
        extents = list(shape_of(data))
        data = walk.emit(relax.op.reshape(data, [*extents[:before], 1, *extents[before:]]))
    first = next((f for f in (1, 2) if len(window) == 4 and set(window[:f] + window[f + 2 :]) == {1}), None)
    apart = [i for i in range(len(window)) if first is None or not first <= i < first + 2]
    if first is None or any(padding[i] != [0, 0] or strides[i] != 1 for i in apart):
        raise Refused(f"its window {window} does not lie in the two spatial axes of images")
    if any(v != 1 for v in numbers(operation, "base_dilations")) or name not in ("stablehlo.maximum", "stablehlo.add"):
        raise Refused("it is neither a maximum nor a sum of a plain window")
    both = slice(first, first + 2)
    options = {
        "pool_size": window[both],
        "strides": strides[both],
        "padding": [p[0] for p in padding[both]] + [p[1] for p in padding[both]],
        "dilation": dilation[both],
        "layout": "NHWC" if first == 1 else "NCHW",
    }
    if name == "stablehlo.maximum":
        made = walk.emit(relax.op.nn.max_pool2d(data, **options))
    else:
        mean = walk.emit(relax.op.nn.avg_pool2d(data, count_include_pad=True, **options))
        made = walk.emit(relax.op.multiply(mean, relax.const(float(math.prod(window)), dtype_of(data))))
    return made if list(shape_of(made)) == shape else relax.op.reshape(made, shape)


def pad(walk, operation):
    """Padding with one value; not between elements. Negative padding takes elements away."""
    low, high = numbers(operation, "edge_padding_low"), numbers(operation, "edge_padding_high")
    value = constant_value(walk.tensor(operation.operands[1]))
    if any(numbers(operation, "interior_padding")) or value is None:
        raise Refused("it pads between elements, or with a computed value")
    widths = [max(w, 0) for pair in zip(low, high) for w in pair]
    padded = walk.tensor(operation.operands[0])
    if any(widths):
        padded = walk.emit(relax.op.nn.pad(padded, widths, pad_value=float(value.reshape(()))))
    for axis, (before, after) in enumerate(zip(low, high)):
        if min(before, after) < 0:
            end = shape_of(padded)[axis] + min(after, 0)
            padded = walk.emit(relax.op.strided_slice(padded, [axis], [-min(before, 0)], [end], [1]))
    return padded


def sliced(walk, operation):
    """A part of a tensor at fixed places."""
    starts, limits = numbers(operation, "start_indices"), numbers(operation, "limit_indices")
    strides = numbers(operation, "strides", [1] * len(starts))
    return relax.op.strided_slice(walk.tensor(operation.operands[0]), list(range(len(starts))), starts, limits, strides)


COMPARISONS = {
    "EQ": relax.op.equal,
    "NE": relax.op.not_equal,
    "LT": relax.op.less,
    "LE": relax.op.less_equal,
    "GT": relax.op.greater,
    "GE": relax.op.greater_equal,
}


def compare(walk, operation):
    """A comparison. Truth values are compared by logical operators, because LLVM refuses TVM's comparisons of them."""
    direction = direction_of(operation)
    if direction in ("EQ", "NE") and dtype_of(walk.tensor(operation.operands[0])) == "bool":
        differs = walk.emit(binary(relax.op.logical_xor)(walk, operation))
        return differs if direction == "NE" else relax.op.logical_not(differs)
    return binary(COMPARISONS[direction])(walk, operation)


def select(walk, operation):
    """One of two tensors, element by element."""
    return relax.op.where(*operands(walk, operation))


def clamp(walk, operation):
    """Numbers between two bounds."""
    low, data, high = operands(walk, operation)
    return relax.op.minimum(walk.emit(relax.op.maximum(data, low)), high)


def converted(walk, operation):
    """Another element type; of a constant at once."""
    data, dtype = walk.tensor(operation.operands[0]), result(operation)[1]
    value = constant_value(data)
    if value is not None and value.size == 1 and dtype != "bfloat16":
        return relax.const(value.astype(dtype), dtype)
    return relax.op.astype(data, dtype)


def reshaped(walk, operation):
    """Another shape."""
    return relax.op.reshape(walk.tensor(operation.operands[0]), result(operation)[0])


def transposed(walk, operation):
    """Another order of axes."""
    return relax.op.permute_dims(walk.tensor(operation.operands[0]), numbers(operation, "permutation"))


def concatenated(walk, operation):
    """Several tensors in a row; those without elements add nothing."""
    parts = [t for t in operands(walk, operation) if math.prod(shape_of(t))]
    return parts[0] if len(parts) == 1 else relax.op.concat(parts, axis=whole(operation, "dimension"))


RULES = {
    "stablehlo.abs": unary(relax.op.abs),
    "stablehlo.add": binary(relax.op.add),
    "stablehlo.and": binary(bits(relax.op.logical_and, relax.op.bitwise_and)),
    "stablehlo.atan2": binary(relax.op.atan2),
    "stablehlo.broadcast_in_dim": broadcast,
    "stablehlo.cbrt": cube_root,
    "stablehlo.ceil": unary(relax.op.ceil),
    "stablehlo.clamp": clamp,
    "stablehlo.compare": compare,
    "stablehlo.concatenate": concatenated,
    "stablehlo.constant": constant,
    "stablehlo.convert": converted,
    "stablehlo.convolution": convolution,
    "stablehlo.cosine": unary(relax.op.cos),
    "stablehlo.divide": divided,
    "stablehlo.dot_general": product,
    "stablehlo.exponential": unary(relax.op.exp),
    "stablehlo.exponential_minus_one": exponential_minus_one,
    "stablehlo.floor": unary(relax.op.floor),
    "stablehlo.iota": iota,
    "stablehlo.is_finite": unary(relax.op.isfinite),
    "stablehlo.log": unary(relax.op.log),
    "stablehlo.log_plus_one": log_plus_one,
    "stablehlo.logistic": unary(relax.op.sigmoid),
    "stablehlo.maximum": binary(maximum),
    "stablehlo.minimum": binary(relax.op.minimum),
    "stablehlo.multiply": binary(relax.op.multiply),
    "stablehlo.negate": unary(relax.op.negative),
    "stablehlo.not": unary(bits(relax.op.logical_not, relax.op.bitwise_not)),
    "stablehlo.or": binary(bits(relax.op.logical_or, relax.op.bitwise_or)),
    "stablehlo.pad": pad,
    "stablehlo.power": binary(relax.op.power),
    "stablehlo.reduce": reduce,
    "stablehlo.reduce_window": reduce_window,
    "stablehlo.remainder": remainder,
    "stablehlo.reshape": reshaped,
    "stablehlo.round_nearest_afz": away_from_zero,
    "stablehlo.round_nearest_even": unary(relax.op.round),
    "stablehlo.rsqrt": unary(relax.op.rsqrt),
    "stablehlo.select": select,
    "stablehlo.shift_left": binary(relax.op.left_shift),
    "stablehlo.shift_right_arithmetic": binary(relax.op.right_shift),
    "stablehlo.sign": unary(relax.op.sign),
    "stablehlo.sine": unary(relax.op.sin),
    "stablehlo.slice": sliced,
    "stablehlo.sqrt": unary(relax.op.sqrt),
    "stablehlo.subtract": binary(relax.op.subtract),
    "stablehlo.tan": unary(relax.op.tan),
    "stablehlo.tanh": unary(relax.op.tanh),
    "stablehlo.transpose": transposed,
    "stablehlo.xor": binary(bits(relax.op.logical_xor, relax.op.bitwise_xor)),
    "chlo.acos": unary(relax.op.acos),
    "chlo.acosh": unary(relax.op.acosh),
    "chlo.asin": unary(relax.op.asin),
    "chlo.asinh": unary(relax.op.asinh),
    "chlo.atan": unary(relax.op.atan),
    "chlo.atanh": unary(relax.op.atanh),
    "chlo.cosh": unary(relax.op.cosh),
    "chlo.erf": unary(relax.op.erf),
    "chlo.erfc": complement_of_error,
    "chlo.sinh": unary(relax.op.sinh),
    "chlo.square": unary(relax.op.square),
    "chlo.tan": unary(relax.op.tan),
}
