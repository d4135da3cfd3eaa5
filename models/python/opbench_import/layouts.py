"""Channels first: Relax functions of frontends whose images have channels last, brought to the layout of our kernels.

Convolutions, pooling and resizing want channels behind the batch; what works element by element follows them, so that a
network changes its layout at its inputs and outputs alone. Weights are permuted here too; ``given`` evaluates that.
"""

from __future__ import annotations

import tvm
from tvm import relax

from .rebuild import Rebuilder, op_name, shape_of

WINDOWED = {
    "relax.nn.conv1d": ("data_layout", "kernel_layout", "OIW"),
    "relax.nn.conv2d": ("data_layout", "kernel_layout", "OIHW"),
    "relax.nn.conv3d": ("data_layout", "kernel_layout", "OIDHW"),
    "relax.nn.conv2d_transpose": ("data_layout", "kernel_layout", "IOHW"),
    "relax.nn.conv3d_transpose": ("data_layout", "kernel_layout", "IODHW"),
    "relax.nn.max_pool2d": ("layout", None, ""),
    "relax.nn.avg_pool2d": ("layout", None, ""),
    "relax.nn.adaptive_avg_pool2d": ("layout", None, ""),
    "relax.image.resize2d": ("layout", None, ""),
}
"""By operator: the attributes that name the layouts of its data and weight, and the weight's layout here."""

REDUCTIONS = ("relax.mean", "relax.sum", "relax.max", "relax.min")
AXIS = ("relax.quantize", "relax.dequantize", "relax.concat")

ELEMENTWISE = frozenset(
    f"relax.{name}"
    for name in (
        "abs add astype ceil clip cos divide equal erf exp floor greater greater_equal less less_equal log logical_not "
        "maximum minimum multiply negative nn.gelu nn.gelu_tanh nn.leakyrelu nn.relu nn.relu6 nn.silu nn.softplus "
        "not_equal power round rsqrt sigmoid sign sin sqrt square subtract tanh where"
    ).split()
)


def first_order(rank: int) -> list[int]:
    """Axes that put the last one after the first."""
    return [0, rank - 1, *range(1, rank - 1)]


def last_order(rank: int) -> list[int]:
    """Axes that put the second one last."""
    return [0, *range(2, rank), 1]


def order(given: str, wanted: str) -> list[int]:
    """Axes that turn one layout into another, both by their letters."""
    return [given.index(letter) for letter in wanted]


def with_attributes(call: relax.Call, **changed: object):
    """The attributes of a call with some of them changed."""
    described = type(call.attrs).__tvm_ffi_type_info__
    names = [f.name for f in described.fields if f.name != "span"]
    return tvm.ir.make_node(described.type_key, **{**{n: getattr(call.attrs, n) for n in names}, **changed})


class ChannelsFirst(Rebuilder):
    """``self.first`` holds what has channels first, by the old function's variables."""

    def __init__(self, module: tvm.IRModule) -> None:
        super().__init__(module)
        self.first: dict = {}
        self.dequantised: dict = {}

    def binding(self, binding: relax.Binding) -> None:
        """Emits a binding with channels first where its operator wants that or follows."""
        call = binding.value
        name = op_name(call)
        if name in WINDOWED and getattr(call.attrs, WINDOWED[name][0]).endswith("C"):
            self.first[binding.var] = self.builder.emit(self.windowed(name, call))
            return
        if any(f in self.first for f in fields(call)):
            follower = self.follower(name, call)
            if follower is not None:
                self.first[binding.var] = self.builder.emit(follower)
                return
            if name in REDUCTIONS and self.reduction(binding):
                return
        if name == "relax.dequantize":
            self.dequantised[binding.var] = call
        super().binding(binding)

    def value(self, expr: relax.Expr) -> relax.Expr:
        """A value with channels last, as the old function had it."""
        if isinstance(expr, relax.Var) and expr in self.first and expr not in self.made:
            rank = len(shape_of(self.first[expr]))
            self.made[expr] = self.builder.emit(relax.op.permute_dims(self.first[expr], last_order(rank)))
        return super().value(expr)

    def channels_first(self, expr: relax.Expr, rank: int) -> relax.Expr:
        """An argument with channels first, broadcast to ``rank`` axes as before."""
        if isinstance(expr, relax.Var) and expr in self.first:
            return self.first[expr]
        if isinstance(expr, relax.Var) and expr in self.dequantised and len(shape_of(expr)) == rank:
            # Bytes change their order, not the numbers that they stand for.
            call = self.dequantised[expr]
            self.channels_first(call.args[0], rank)
            self.first[expr] = self.builder.emit(self.follower("relax.dequantize", call))
            return self.first[expr]
        value = super().value(expr)
        shape = shape_of(value) if isinstance(value.ty, relax.TensorType) else ()
        if not shape:
            return value
        if len(shape) < rank:
            value = self.builder.emit(relax.op.reshape(value, [1] * (rank - len(shape)) + list(shape)))
        value = self.builder.emit(relax.op.permute_dims(value, first_order(rank)))
        if isinstance(expr, relax.Var) and len(shape) == rank:
            self.first[expr] = value
        return value

    def windowed(self, name: str, call: relax.Call) -> relax.Expr:
        """A convolution, a pooling or a resizing."""
        data_key, kernel_key, wanted = WINDOWED[name]
        rank = len(shape_of(call.args[0]))
        layout = "NC" + getattr(call.attrs, data_key).strip("NC")
        args = [self.channels_first(call.args[0], rank)]
        changed = {data_key: layout}
        if kernel_key is not None:
            weight = self.value(call.args[1])
            axes = order(getattr(call.attrs, kernel_key), wanted)
            args.append(self.builder.emit(relax.op.permute_dims(weight, axes)))
            changed[kernel_key] = wanted
        else:
            args += [self.value(a) for a in call.args[1:]]
        if hasattr(call.attrs, "out_layout"):
            changed["out_layout"] = layout
        return tvm.ir.Call(call.op, args, attrs=with_attributes(call, **changed), ty_args=call.ty_args)

    def follower(self, name: str, call: relax.Call) -> relax.Expr | None:
        """An operator that can do the same with channels first; None if it cannot."""
        ty = getattr(call, "ty", None)
        rank = len(shape_of(call)) if isinstance(ty, relax.TensorType) else 0
        if rank < 3:
            return None
        if name in ELEMENTWISE:
            args = [self.channels_first(a, rank) for a in call.args]
            return tvm.ir.Call(call.op, args, attrs=call.attrs, ty_args=call.ty_args)
        if name == "relax.nn.pad":
            widths = [int(w) for w in call.attrs.pad_width]
            pairs = [widths[2 * a : 2 * a + 2] for a in first_order(rank)]
            attrs = with_attributes(call, pad_width=[w for pair in pairs for w in pair])
            return tvm.ir.Call(call.op, [self.channels_first(call.args[0], rank), *call.args[1:]], attrs=attrs)
        if name in AXIS:
            axis = first_order(rank).index(int(call.attrs.axis) % rank)
            data = call.args[0]
            if isinstance(data, relax.Tuple):
                first = relax.Tuple([self.channels_first(f, rank) for f in data.fields])
            else:
                first = self.channels_first(data, rank)
            rest = [self.value(a) for a in call.args[1:]]
            return tvm.ir.Call(call.op, [first, *rest], attrs=with_attributes(call, axis=axis), ty_args=call.ty_args)
        return None

    def reduction(self, binding: relax.Binding) -> bool:
        """A reduction over all axes of the image, or one that keeps its axes; false for another."""
        call = binding.value
        rank = len(shape_of(call.args[0]))
        axes = sorted(int(a) % rank for a in call.attrs.axis) if call.attrs.axis is not None else []
        spatial = axes == list(range(1, rank - 1))
        if not axes or not (spatial or call.attrs.keepdims):
            return False
        moved = sorted(first_order(rank).index(a) for a in axes)
        made = self.builder.emit(
            tvm.ir.Call(call.op, [self.first[call.args[0]]], attrs=with_attributes(call, axis=moved))
        )
        if call.attrs.keepdims:
            self.first[binding.var] = made
        else:
            self.made[binding.var] = made
        return True


def fields(call: object) -> list:
    """The variables that a call reads, those in tuples too."""
    found = []
    for arg in call.args if isinstance(call, tvm.ir.Call) else []:
        found += list(arg.fields) if isinstance(arg, relax.Tuple) else [arg]
    return [f for f in found if isinstance(f, relax.Var)]


def channels_first(module: tvm.IRModule) -> tvm.IRModule:
    """The module with images whose channels come first wherever it can."""
    return ChannelsFirst(module).rebuild()
