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
    """A form of an operation that there is no rule for; the argument says which."""


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


def unary(op):
    """An operation of one tensor."""
    return lambda walk, operation: op(walk.tensor(operation.operands[0]))


def binary(op):
    """An operation of two tensors of one shape; what was broadcast for it is broadcast by the operator instead."""

    def rule(walk, operation):
        shape, _ = result(operation)
        left, right = (walk.thin.get(v, walk.tensor(v)) for v in operation.operands)
        if np.broadcast_shapes(shape_of(left), shape_of(right)) != tuple(shape):
            left = walk.tensor(operation.operands[0])
        return op(left, right)

    return rule


def maximum(left: relax.Expr, right: relax.Expr) -> relax.Expr:
    """The larger; than nothing, a rectifier."""
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
    """erfc: one less the error function."""
    data = walk.tensor(operation.operands[0])
    return relax.op.subtract(relax.const(1.0, dtype_of(data)), walk.emit(relax.op.erf(data)))


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
    # A thin operand lines up with the last axes of what it stands for.
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
    """The tensor with its axes in another order and then in another shape."""
    if axes != sorted(axes):
        tensor = walk.emit(relax.op.permute_dims(tensor, axes))
    return tensor if list(shape_of(tensor)) == shape else walk.emit(relax.op.reshape(tensor, shape))


SPATIAL = {1: "W", 2: "HW", 3: "DHW"}
CONVOLUTIONS = {1: relax.op.nn.conv1d, 2: relax.op.nn.conv2d, 3: relax.op.nn.conv3d}


def convolution(walk, operation):
    """A convolution with any order of axes; not a transposed one."""
    from jaxlib.mlir.dialects import stablehlo

    shape, dtype = result(operation)
    d = stablehlo.ConvDimensionNumbers(operation.attributes["dimension_numbers"])
    rank = len(d.input_spatial_dimensions)
    if rank not in CONVOLUTIONS:
        raise Refused(f"it has {rank} spatial dimensions")
    if any(v != 1 for v in numbers(operation, "lhs_dilation")):
        raise Refused("it is a transposed one (lhs_dilate)")
    if any(bool(v) for v in numbers(operation, "window_reversal")) or whole(operation, "batch_group_count") != 1:
        raise Refused("it has a reversed window, or groups of the batch")
    padding = pairs(operation, "padding", rank)
    if any(v < 0 for pair in padding for v in pair):
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


def reducer(walk, operation) -> str:
    """The one operation that a reduction's body is, whose start changes nothing."""
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
    op = REDUCTIONS[reducer(walk, operation)]
    return op(walk.tensor(operation.operands[0]), axis=numbers(operation, "dimensions"))


def reduce_window(walk, operation):
    """Maximum and average pooling over the two spatial axes of images."""
    shape, _ = result(operation)
    name = reducer(walk, operation)
    window = numbers(operation, "window_dimensions")
    ones = [1] * len(window)
    strides = numbers(operation, "window_strides", ones)
    dilation = numbers(operation, "window_dilations", ones)
    padding = pairs(operation, "padding", len(window))
    first = next((f for f in (1, 2) if len(window) == 4 and set(window[:f] + window[f + 2 :]) == {1}), None)
    apart = [i for i in range(len(window)) if first is None or not first <= i < first + 2]
    if first is None or any(padding[i] != [0, 0] or strides[i] != 1 for i in apart):
        raise Refused(f"its window {window} does not lie in the two spatial axes of images")
    if numbers(operation, "base_dilations", ones) != ones or name not in ("stablehlo.maximum", "stablehlo.add"):
        raise Refused("it is neither a maximum nor a sum of a plain window")
    both = slice(first, first + 2)
    options = {
        "pool_size": window[both],
        "strides": strides[both],
        "padding": [p[0] for p in padding[both]] + [p[1] for p in padding[both]],
        "dilation": dilation[both],
        "layout": "NHWC" if first == 1 else "NCHW",
    }
    data = walk.tensor(operation.operands[0])
    if name == "stablehlo.maximum":
        return relax.op.nn.max_pool2d(data, **options)
    mean = walk.emit(relax.op.nn.avg_pool2d(data, count_include_pad=True, **options))
    return relax.op.multiply(mean, relax.const(float(math.prod(window)), dtype_of(data)))


def pad(walk, operation):
    """Padding with one value; not between elements, and nothing taken away."""
    low, high = numbers(operation, "edge_padding_low"), numbers(operation, "edge_padding_high")
    value = constant_value(walk.tensor(operation.operands[1]))
    if any(numbers(operation, "interior_padding")) or min([*low, *high], default=0) < 0 or value is None:
        raise Refused("it pads between elements, takes some away, or pads with a computed value")
    widths = [w for pair in zip(low, high) for w in pair]
    return relax.op.nn.pad(walk.tensor(operation.operands[0]), widths, pad_value=float(value.reshape(())))


def gather(walk, operation):
    """Rows of a table by their numbers, the one form that embeddings take."""
    from jaxlib.mlir.dialects import stablehlo

    shape, _ = result(operation)
    d = stablehlo.GatherDimensionNumbers(operation.attributes["dimension_numbers"])
    table, index = operands(walk, operation)
    sizes, rows = numbers(operation, "slice_sizes"), shape_of(index)
    plain = list(d.collapsed_slice_dims) == [0] and list(d.start_index_map) == [0] and not list(d.operand_batching_dims)
    whole_rows = sizes[1:] == list(shape_of(table))[1:] and rows and rows[-1] == 1 and d.index_vector_dim == len(rows) - 1
    behind = list(d.offset_dims) == list(range(len(rows) - 1, len(shape)))
    if not (plain and whole_rows and behind):
        raise Refused("it gathers something else than whole rows of a table")
    flat = walk.emit(relax.op.reshape(index, list(rows[:-1])))
    bounded = walk.emit(relax.op.clip(flat, 0, shape_of(table)[0] - 1))
    return relax.op.take(table, bounded, axis=0)


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
    """A comparison."""
    direction = str(operation.attributes["comparison_direction"]).split()[-1].rstrip(">")
    return binary(COMPARISONS[direction])(walk, operation)


def select(walk, operation):
    """One of two tensors, element by element."""
    return relax.op.where(*operands(walk, operation))


def clamp(walk, operation):
    """Numbers between two bounds."""
    low, data, high = operands(walk, operation)
    return relax.op.minimum(walk.emit(relax.op.maximum(data, low)), high)


def converted(walk, operation):
    """Another element type."""
    return relax.op.astype(walk.tensor(operation.operands[0]), result(operation)[1])


def reshaped(walk, operation):
    """Another shape."""
    return relax.op.reshape(walk.tensor(operation.operands[0]), result(operation)[0])


def transposed(walk, operation):
    """Another order of axes."""
    return relax.op.permute_dims(walk.tensor(operation.operands[0]), numbers(operation, "permutation"))


def concatenated(walk, operation):
    """Several tensors in a row."""
    return relax.op.concat(operands(walk, operation), axis=whole(operation, "dimension"))


def divided(left: relax.Expr, right: relax.Expr) -> relax.Expr:
    """A quotient of floating-point numbers."""
    if "float" not in dtype_of(left):
        raise Refused("it divides integers, which Relax rounds in another way")
    return relax.op.divide(left, right)


RULES = {
    "stablehlo.abs": unary(relax.op.abs),
    "stablehlo.add": binary(relax.op.add),
    "stablehlo.and": binary(relax.op.logical_and),
    "stablehlo.broadcast_in_dim": broadcast,
    "stablehlo.ceil": unary(relax.op.ceil),
    "stablehlo.clamp": clamp,
    "stablehlo.compare": compare,
    "stablehlo.concatenate": concatenated,
    "stablehlo.constant": constant,
    "stablehlo.convert": converted,
    "stablehlo.convolution": convolution,
    "stablehlo.cosine": unary(relax.op.cos),
    "stablehlo.divide": binary(divided),
    "stablehlo.dot_general": product,
    "stablehlo.exponential": unary(relax.op.exp),
    "stablehlo.floor": unary(relax.op.floor),
    "stablehlo.gather": gather,
    "stablehlo.iota": iota,
    "stablehlo.log": unary(relax.op.log),
    "stablehlo.logistic": unary(relax.op.sigmoid),
    "stablehlo.maximum": binary(maximum),
    "stablehlo.minimum": binary(relax.op.minimum),
    "stablehlo.multiply": binary(relax.op.multiply),
    "stablehlo.negate": unary(relax.op.negative),
    "stablehlo.not": unary(relax.op.logical_not),
    "stablehlo.or": binary(relax.op.logical_or),
    "stablehlo.pad": pad,
    "stablehlo.power": binary(relax.op.power),
    "stablehlo.reduce": reduce,
    "stablehlo.reduce_window": reduce_window,
    "stablehlo.reshape": reshaped,
    "stablehlo.round_nearest_afz": away_from_zero,
    "stablehlo.round_nearest_even": unary(relax.op.round),
    "stablehlo.rsqrt": unary(relax.op.rsqrt),
    "stablehlo.select": select,
    "stablehlo.sign": unary(relax.op.sign),
    "stablehlo.sine": unary(relax.op.sin),
    "stablehlo.slice": sliced,
    "stablehlo.sqrt": unary(relax.op.sqrt),
    "stablehlo.subtract": binary(relax.op.subtract),
    "stablehlo.tanh": unary(relax.op.tanh),
    "stablehlo.transpose": transposed,
    "chlo.cosh": unary(relax.op.cosh),
    "chlo.erf": unary(relax.op.erf),
    "chlo.erfc": complement_of_error,
    "chlo.sinh": unary(relax.op.sinh),
    "chlo.square": unary(relax.op.square),
}
