"""Relax operators to tensor functions, each block marked with the operator that it came from.

Contractions use the kernels of this package; everything else TVM's own rule. Every resulting block carries the
annotation ``opbench``: JSON with the Relax operator's name and attributes. It survives fusion, so the analysis reads
facts there rather than guessing from names, and it is stripped before the module is written. Reshapes are left alone:
the virtual machine turns them into views.
"""

from __future__ import annotations

import json
from functools import partial

from tvm.ir import Op

import tvm
from tvm import relax, te, tirx, topi

from . import functions, kernels, regions, tensor_ir, windows

MARK = "opbench"
VIEWS = ("relax.reshape", "relax.squeeze", "relax.expand_dims", "relax.flatten")
INJECTIVE = 2
OUT_ELEMWISE_FUSABLE = 4


def plain(value: object) -> object:
    """An attribute as JSON; None for kinds without effect on the computation."""
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if hasattr(value, "value") and isinstance(value.value, int | float):
        return value.value
    if isinstance(value, tvm.ir.Array | list | tuple):
        return [plain(v) for v in value]
    return str(value)


def attribute_map(call: relax.Call) -> dict:
    """The attributes of a Relax call."""
    if call.attrs is None:
        return {}
    described = getattr(type(call.attrs), "__tvm_ffi_type_info__", None)
    names = [f.name for f in described.fields] if described is not None else []
    return {name: plain(getattr(call.attrs, name)) for name in names if name != "span"}


def argument_shapes(call: relax.Call) -> list:
    """Shapes of the tensor arguments."""
    shapes = []
    for arg in call.args:
        ty = getattr(arg, "ty", None)
        if isinstance(ty, relax.TensorType) and isinstance(ty.shape, relax.ShapeExpr):
            shapes.append([int(d) for d in ty.shape.values])
    return shapes


def mark(builder: relax.BlockBuilder, call: relax.Expr, facts: dict, pattern: int | None = None) -> relax.Expr:
    """The call of a tensor function with its blocks marked by ``facts``."""
    if not (isinstance(call, tvm.ir.Call) and isinstance(call.op, Op) and call.op.name == "relax.call_tir"):
        return call
    variable = call.args[0]
    function = builder.get()[variable]
    facts = {**facts, "blocks": len(tensor_ir.blocks(function))}
    marked = tensor_ir.annotate(function, MARK, json.dumps(facts, sort_keys=True))
    if pattern is not None:
        marked = marked.with_attr("op_pattern", pattern)
    fresh = builder.add_func(marked, variable.name_hint)
    return tvm.ir.Call(call.op, [fresh, *call.args[1:]], attrs=call.attrs, ty_args=call.ty_args)


def conv_options(call: relax.Call) -> dict:
    """Strides, padding, dilation and groups of a Relax convolution."""
    attrs = call.attrs
    return {
        "strides": [int(v) for v in attrs.strides],
        "padding": [int(v) for v in attrs.padding],
        "dilation": [int(v) for v in attrs.dilation],
        "groups": int(attrs.groups),
    }


def packed_convolution(
    builder: relax.BlockBuilder, call: relax.Call, data: relax.Expr, weight: relax.Expr, block: int | None
) -> relax.Expr:
    """A convolution over a packed (or, without ``block``, plain) weight."""
    options = conv_options(call)
    rank = len(call.args[0].ty.shape.values) - 2
    shape = [int(d) for d in call.args[1].ty.shape.values]
    letters = "OI" + "DHW"[3 - rank :]
    kind = f"conv{rank}d"
    facts = {
        "op": call.op.name,
        "attrs": {
            **options,
            "kernel": shape[2:],
            "in_channels": shape[1] * options["groups"],
            "out_channels": shape[0],
            "weight_layout": f"{letters}{block}o" if block else letters,
        },
        "extents": {"ff": shape[0]},
    }

    def expression(data, weight):
        return kernels.convolution(data, weight, options, block, shape[0])

    made = builder.call_te(expression, data, weight, primfunc_name_hint=kind)
    return mark(builder, made, facts, OUT_ELEMWISE_FUSABLE)


def packed_dense(
    builder: relax.BlockBuilder, call: relax.Call, data: relax.Expr, weight: relax.Expr, block: int | None
) -> relax.Expr:
    """A product with a packed (or plain) weight matrix."""
    shape = [int(d) for d in call.args[1].ty.shape.values]
    facts = {
        "op": "dense",
        "attrs": {"in_channels": shape[0], "out_channels": shape[1], "weight_layout": f"NK{block}n" if block else "KN"},
        "extents": {"j": shape[1]},
    }

    def expression(data, weight):
        return kernels.dense(data, weight, block, shape[1])

    made = builder.call_te(expression, data, weight, primfunc_name_hint="dense")
    return mark(builder, made, facts, OUT_ELEMWISE_FUSABLE)


def convolution_rule(builder: relax.BlockBuilder, call: relax.Call) -> relax.Expr:
    """Convolutions whose weight was not packed: depthwise ones, and weights that the model computes."""
    options = conv_options(call)
    data, weight = call.args
    shape = [int(d) for d in weight.ty.shape.values]
    channels = int(data.ty.shape.values[1])
    if not (options["groups"] == channels and channels > 1):
        return packed_convolution(builder, call, data, weight, None)
    rank = len(shape) - 2
    letters = "OI" + "DHW"[3 - rank :]
    facts = {
        "op": call.op.name,
        "attrs": {
            **options,
            "kernel": shape[2:],
            "in_channels": channels,
            "out_channels": shape[0],
            "weight_layout": letters,
        },
        "extents": {"xx": int(call.ty.shape.values[-1])},
    }

    def expression(data, weight):
        return windows.depthwise_convolution(data, weight, options)

    made = builder.call_te(expression, data, weight, primfunc_name_hint=f"depthwise_conv{rank}d")
    return mark(builder, made, facts, OUT_ELEMWISE_FUSABLE)


def transposed_convolution_rule(builder: relax.BlockBuilder, call: relax.Call) -> relax.Expr:
    """Transposed convolutions as one plain convolution for each phase; dilated ones by TVM's rule."""
    options = conv_options(call)
    if any(d != 1 for d in options["dilation"]):
        return default_rule(call.op.name)(builder, call)
    shapes = argument_shapes(call)
    output = [int(d) for d in call.ty.shape.values]
    axes = kernels.SPATIAL_NAMES[len(output) - 2]
    window = kernels.REDUCE_NAMES[len(output) - 2]
    facts = {
        "op": call.op.name,
        "attrs": attribute_map(call),
        "shapes": shapes,
        # Every value of the data meets every tap once, whatever the phases compute beside that.
        "extents": {"pp": 1, **dict(zip(axes, shapes[0][2:])), **dict(zip(window, shapes[1][2:]))},
    }

    def expression(data, weight):
        return windows.transposed_convolution(data, weight, {**options, "extents": output[2:]})

    made = builder.call_te(expression, *call.args, primfunc_name_hint=call.op.name.rsplit(".", 1)[-1])
    return mark(builder, made, facts, OUT_ELEMWISE_FUSABLE)


def max_pool_rule(builder: relax.BlockBuilder, call: relax.Call) -> relax.Expr:
    """Maximum over windows of images; other layouts by TVM's rule."""
    attrs = attribute_map(call)
    if attrs["layout"] != "NCHW" or attrs["out_layout"] not in ("", "NCHW"):
        return default_rule(call.op.name)(builder, call)
    width = int(call.ty.shape.values[-1])
    options = {name: attrs[name] for name in ("strides", "padding", "dilation")}
    options["extents"] = [int(d) for d in call.ty.shape.values[2:]]

    def expression(data):
        return windows.max_pool(data, attrs["pool_size"], options)

    made = builder.call_te(expression, call.args[0], primfunc_name_hint="max_pool2d")
    facts = {"op": call.op.name, "attrs": attrs, "shapes": argument_shapes(call), "extents": {"xx": width}}
    return mark(builder, made, facts, OUT_ELEMWISE_FUSABLE)


def average_pool_rule(builder: relax.BlockBuilder, call: relax.Call) -> relax.Expr:
    """Means of windows of images that do not reach beyond the padding; others by TVM's rule."""
    attrs, shapes = attribute_map(call), argument_shapes(call)
    extents = [int(d) for d in call.ty.shape.values[2:]]
    ends = [s + attrs["padding"][i] + attrs["padding"][2 + i] for i, s in enumerate(shapes[0][2:])]
    last = [(e - 1) * s + k for e, s, k in zip(extents, attrs["strides"], attrs["pool_size"])]
    fits = all(reached <= end for reached, end in zip(last, ends)) and all(d == 1 for d in attrs["dilation"])
    images = attrs["layout"] == "NCHW" and attrs["out_layout"] in ("", "NCHW")
    if not fits or not images or str(call.ty.dtype.dtype) != "float32":
        return default_rule(call.op.name)(builder, call)
    options = {name: attrs[name] for name in ("strides", "padding", "dilation", "count_include_pad")}

    def expression(data):
        return windows.average_pool(data, attrs["pool_size"], {**options, "extents": extents})

    made = builder.call_te(expression, call.args[0], primfunc_name_hint="avg_pool2d")
    facts = {"op": call.op.name, "attrs": attrs, "shapes": shapes, "extents": {"xx": extents[-1]}}
    return mark(builder, made, facts, OUT_ELEMWISE_FUSABLE)


def enlargement(call: relax.Call) -> list[int] | None:
    """How often each value of an image occurs along each axis of a nearest-neighbour resize; None for other operators."""
    attrs = call.attrs
    images = call.args[0].ty.shape.values, call.ty.shape.values
    before, after = ([int(d) for d in shape[2:]] for shape in images)
    if attrs.layout != "NCHW" or attrs.method != "nearest_neighbor" or any(a % b for a, b in zip(after, before)):
        return None
    transformation, rounding = attrs.coordinate_transformation_mode, attrs.rounding_method
    # Which source position these take for the values of a run follows from their definitions in ONNX.
    whole_runs = (transformation == "asymmetric" and rounding == "floor") or (
        transformation == "half_pixel" and rounding.startswith("round")
    )
    return [a // b for a, b in zip(after, before)] if whole_runs else None


def resize_rule(builder: relax.BlockBuilder, call: relax.Call) -> relax.Expr:
    """Images that are enlarged by whole numbers copy their values; others take TVM's rule."""
    scales = enlargement(call)
    if scales is None:
        return default_rule(call.op.name)(builder, call)

    def expression(data):
        return windows.enlarged(data, scales)

    made = builder.call_te(expression, call.args[0], primfunc_name_hint="resize2d")
    facts = {"op": call.op.name, "attrs": attribute_map(call), "shapes": argument_shapes(call)}
    return mark(builder, made, facts)


def region_rule(builder: relax.BlockBuilder, call: relax.Call) -> relax.Expr:
    """RoiAlign with loops of fixed extents where the boxes set the number of samples; TVM's rule for a given number."""
    if int(call.attrs.sample_ratio) > 0 or call.attrs.mode != "avg" or call.attrs.layout != "NCHW":
        return default_rule(call.op.name)(builder, call)

    def expression(data, rois):
        return regions.aligned_average(data, rois, call)

    made = builder.call_te(expression, *call.args, primfunc_name_hint="roi_align")
    return mark(builder, made, {"op": call.op.name, "attrs": attribute_map(call), "shapes": argument_shapes(call)})


FEW_ROWS = 2
"""Rows of a product for which the other operand is not worth being transposed: it would be read and written for them alone."""


def turned_operands(module: tvm.IRModule) -> dict:
    """What the transposed matrices of a module were before: for each variable the expression whose last two axes it swaps."""
    found = {}
    for block in module["main"].body.blocks:
        for binding in block.bindings:
            call = binding.value
            if isinstance(call, tvm.ir.Call) and call.op == Op.get("relax.permute_dims"):
                rank = len(call.args[0].ty.shape.values)
                axes = [int(a) % rank for a in call.attrs.axes] if call.attrs.axes is not None else list(range(rank))[::-1]
                if rank >= 2 and axes == [*range(rank - 2), rank - 1, rank - 2]:
                    found[binding.var] = call.args[0]
    return found


def matmul_rule(turned: dict, builder: relax.BlockBuilder, call: relax.Call) -> relax.Expr:
    """Products of two activations, and products with a weight that could not be packed; ``turned`` has what matrices were
    before they were transposed."""
    left, right = call.args
    ranks = len(left.ty.shape.values), len(right.ty.shape.values)
    if min(ranks) < 2:
        return default_rule("relax.matmul")(builder, call)
    as_it_was = turned.get(right) if int(left.ty.shape.values[-2]) <= FEW_ROWS else None
    expression = kernels.matmul if as_it_was is None else kernels.inner_products
    made = builder.call_te(
        expression,
        left,
        right if as_it_was is None else as_it_was,
        primfunc_name_hint="matmul" if max(ranks) == 2 else "batch_matmul",
    )
    return mark(builder, made, {"op": call.op.name, "attrs": {}, "shapes": argument_shapes(call)}, OUT_ELEMWISE_FUSABLE)


def mean_rule(builder: relax.BlockBuilder, call: relax.Call) -> relax.Expr:
    """Mean over all spatial axes of an image or volume is global average pooling; other means use TVM's rule."""
    rank = len(call.args[0].ty.shape.values)
    axes = sorted(int(a) % rank for a in call.attrs.axis) if call.attrs.axis is not None else []
    if not (4 <= rank <= 5 and axes == list(range(2, rank))):
        return default_rule("relax.mean")(builder, call)
    keepdims = bool(call.attrs.keepdims)

    def expression(data):
        return kernels.global_average(data, keepdims)

    made = builder.call_te(expression, call.args[0], primfunc_name_hint="global_avg_pool")
    kernel = [int(d) for d in call.args[0].ty.shape.values[2:]]
    return mark(builder, made, {"op": "global_avg_pool", "attrs": {"kernel": kernel}}, None)


def response_normalisation(builder: relax.BlockBuilder, data: relax.Expr, options: dict) -> relax.Expr:
    """ONNX's LRN, for which Relax has no operator; ``options``: size, alpha, beta, bias."""

    def expression(data):
        return kernels.response_normalisation(data, **options)

    made = builder.call_te(expression, data, primfunc_name_hint="lrn")
    return mark(builder, made, {"op": "lrn", "attrs": options})


def gather(builder: relax.BlockBuilder, data: relax.Expr, position: relax.Expr, axis: int) -> relax.Expr:
    """Slices of ``data`` at positions along ``axis``; negative positions count from the end, as in ONNX."""

    def expression(data, position):
        return kernels.gather(data, position, axis)

    made = builder.call_te(expression, data, position, primfunc_name_hint="gather")
    shapes = [[int(d) for d in e.ty.shape.values] for e in (data, position)]
    return mark(builder, made, {"op": "relax.take", "attrs": {"axis": axis}, "shapes": shapes}, INJECTIVE)


def reinterpretation(builder: relax.BlockBuilder, data: relax.Expr, dtype: str) -> relax.Expr:
    """The bits of ``data`` as another element type of the same size."""

    def expression(data):
        if data.dtype == "bool" or dtype == "bool":
            return topi.cast(data, dtype)
        return te.compute(data.shape, lambda *axes: tirx.reinterpret(dtype, data(*axes)), name="reinterpret")

    made = builder.call_te(expression, data, primfunc_name_hint="reinterpret")
    return mark(builder, made, {"op": "reinterpret", "attrs": {}, "shapes": []}, INJECTIVE)


def function_rule(builder: relax.BlockBuilder, call: relax.Call) -> relax.Expr:
    """Functions in the form of ``functions`` where there is one."""
    expression = functions.expression(call)
    if expression is None:
        return default_rule(call.op.name)(builder, call)
    made = builder.call_te(expression, call.args[0], primfunc_name_hint=call.op.name.rsplit(".", 1)[-1])
    return mark(builder, made, {"op": call.op.name, "attrs": attribute_map(call), "shapes": argument_shapes(call)})


def default_rule(name: str):
    """TVM's rule for an operator, with marked blocks."""
    rule = Op.get(name).get_attr("FLegalize")

    def legalise(builder: relax.BlockBuilder, call: relax.Call) -> relax.Expr:
        made = rule(builder, call)
        return mark(builder, made, {"op": name, "attrs": attribute_map(call), "shapes": argument_shapes(call)})

    return legalise


def view(_builder: relax.BlockBuilder, call: relax.Call) -> relax.Expr:
    """A change of shape alone, as the one operator for it that the virtual machine turns into a view."""
    # A reshape must stay the very same call: legalisation goes on until nothing changes.
    return call if call.op.name == "relax.reshape" else relax.op.reshape(call.args[0], call.ty.shape)


def rules(module: tvm.IRModule) -> dict:
    """The legalisation table for the operators that ``module`` uses."""
    used = set()

    def visit(expr):
        if isinstance(expr, tvm.ir.Call) and isinstance(expr.op, Op):
            used.add(expr.op.name)

    relax.analysis.post_order_visit(module["main"], visit)
    table = {name: default_rule(name) for name in used if Op.get(name).get_attr("FLegalize") is not None}
    table.update({name: view for name in VIEWS if name in used})
    own = {
        "relax.nn.conv1d": convolution_rule,
        "relax.nn.conv2d": convolution_rule,
        "relax.nn.conv3d": convolution_rule,
        "relax.nn.conv1d_transpose": transposed_convolution_rule,
        "relax.nn.conv2d_transpose": transposed_convolution_rule,
        "relax.nn.conv3d_transpose": transposed_convolution_rule,
        "relax.nn.max_pool2d": max_pool_rule,
        "relax.nn.avg_pool2d": average_pool_rule,
        "relax.image.resize2d": resize_rule,
        "relax.vision.roi_align": region_rule,
        "relax.matmul": partial(matmul_rule, turned_operands(module)),
        "relax.mean": mean_rule,
        "relax.nn.softmax": function_rule,
        "relax.nn.log_softmax": function_rule,
        "relax.nn.leakyrelu": function_rule,
        **dict.fromkeys(functions.UNARY, function_rule),
    }
    table.update({name: rule for name, rule in own.items() if name in used})
    return table
