"""Recipes of random operators. Each adds one operator with random shapes and attributes to a model.

What is an attribute in one operator set and an input in another is given as the set wants it.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from onnx import TensorProto, helper

from .random_draw import BOOL, FLOAT, INT8, INT32, INT64, UINT8, Draw, Invalid


def pads(r: Draw, spatial: int, most: int = 2) -> list[int]:
    """Pads before and after each axis."""
    return [r.size(0, most) for _ in range(2 * spatial)]


def window(r: Draw, spatial: int, *, dilations: bool = True) -> dict:
    """Attributes of an operator that moves a window over images."""
    options = r.some(strides=[r.size(1, 3) for _ in range(spatial)])
    if dilations:
        options |= r.some(dilations=[r.size(1, 2) for _ in range(spatial)])
    if r.maybe(0.3):
        options["auto_pad"] = r.pick("SAME_UPPER", "SAME_LOWER", "VALID")
        # Runtimes disagree on how a dilated window is padded to the same size.
        options.pop("dilations", None)
    elif r.maybe(0.7):
        options["pads"] = pads(r, spatial, 1)
    return options


def unary(r: Draw) -> None:
    op = r.pick(*UNARY)
    x, _ = r.data(dtype=BOOL if op == "Not" else FLOAT)
    options = {}
    if op == "Gelu":
        options = r.some(approximate=r.pick("none", "tanh"))
    if op == "IsInf":
        options = r.some(detect_negative=r.size(0, 1), detect_positive=r.size(0, 1))
    r.node(op, [x], **options)


UNARY = (
    "Abs Neg Exp Sigmoid Tanh Relu Floor Ceil Softplus Softsign Sign Erf Sin Cos Atan Sinh Cosh Asinh Round IsNaN Identity Sqrt Log "
    "Reciprocal HardSwish Mish Not Gelu Tan Acos Asin Atanh Acosh IsInf"
).split()


def shaped_unary(r: Draw) -> None:
    x, shape = r.data()
    op = r.pick("LeakyRelu", "Elu", "Selu", "HardSigmoid", "ThresholdedRelu", "Celu", "Shrink", "PRelu", "Clip", "Softmax", "LogSoftmax", "Hardmax")
    if op in ("Softmax", "LogSoftmax", "Hardmax"):
        r.node(op, [x], **r.some(axis=r.size(-len(shape) if r.opset >= 11 else 0, len(shape) - 1)))
    elif op == "PRelu":
        slope = r.pick(shape, (1,), shape[-1:], (shape[1], *[1] * (len(shape) - 2)) if len(shape) > 1 else (1,))
        r.node(op, [x, r.weight(slope)])
    elif op == "Clip":
        options = r.some(min=np.float32(-0.4), max=np.float32(0.7))
        r.node(op, [x], **({k: float(v) for k, v in options.items()} if r.opset < 11 else options))
    elif op == "Shrink":
        r.node(op, [x], **r.some(lambd=0.3, bias=0.1))
    elif op in ("Selu", "HardSigmoid"):
        other = "gamma" if op == "Selu" else "beta"
        r.node(op, [x], **r.some(**{"alpha": float(r.rng.uniform(0.1, 1.5)), other: float(r.rng.uniform(0.1, 1.5))}))
    else:
        r.node(op, [x], **r.some(alpha=float(r.rng.uniform(0.1, 1.5))))


def broadcast(r: Draw, shape: tuple[int, ...]) -> tuple[int, ...]:
    """A shape that broadcasts with another."""
    part = shape[r.size(0, len(shape)) :]
    return tuple(1 if r.maybe(0.3) else d for d in part)


def binary(r: Draw) -> None:
    op = r.pick(*"Add Sub Mul Div Pow Equal Less Greater LessOrEqual GreaterOrEqual Max Min Mean Sum And Or Xor Mod BitShift BitwiseAnd Where".split())
    kind = {"And": BOOL, "Or": BOOL, "Xor": BOOL, "BitShift": UINT8, "BitwiseAnd": INT32, "Mod": r.pick(INT32, INT64, FLOAT)}
    dtype = kind.get(op) or r.pick(FLOAT, FLOAT, INT32 if op in ("Add", "Sub", "Mul", "Div") else FLOAT)
    x, shape = r.data(dtype=dtype)
    options = {}
    if op == "Where":
        c, _ = r.data(shape, BOOL)
        y, _ = r.data(broadcast(r, shape), dtype)
        r.node(op, [c, x, y] if r.maybe() else [c, y, x])
        return
    if op == "Pow":
        y = r.given(np.float32(r.pick(2.0, 3.0, 0.5, 1.0, -1.0, 4.0)))
    elif dtype in (INT32, INT64) and op in ("Div", "Mod"):
        y = r.given(r.rng.integers(1, 5, broadcast(r, shape)) * r.pick(1, -1), dtype)
    elif op == "BitShift":
        y = r.given(r.rng.integers(0, 9, broadcast(r, shape)), UINT8)
        options = {"direction": r.pick("LEFT", "RIGHT")}
    else:
        y, _ = r.data(broadcast(r, shape), dtype)
    if op == "Mod":
        options = {"fmod": 1} if dtype == FLOAT else r.some(fmod=1)
    names = [x, y] if r.maybe() or op in ("Pow", "Div", "Mod", "BitShift") else [y, x]
    if op in ("Max", "Min", "Mean", "Sum") and r.maybe(0.3):
        names.append(r.data(shape, dtype)[0])
    r.node(op, names, **options)


def reduction(r: Draw) -> None:
    op = r.pick(*"Sum Mean Max Min Prod L1 L2 LogSum LogSumExp SumSquare".split())
    x, shape = r.data()
    axes = sorted(r.rng.choice(len(shape), r.size(1, len(shape)), replace=False).tolist())
    if r.opset >= 11 and r.maybe(0.3):
        axes = [a - len(shape) for a in axes]
    options = r.some(keepdims=r.size(0, 1), axes=np.array(axes, dtype=np.int64))
    if r.opset >= 18:
        options |= r.some(noop_with_empty_axes=r.size(0, 1))
    r.node(f"Reduce{op}", [x], **options)


def argument(r: Draw) -> None:
    x, shape = r.data()
    options = r.some(axis=r.size(0, len(shape) - 1), keepdims=r.size(0, 1))
    if r.opset >= 12:
        options |= r.some(select_last_index=r.size(0, 1))
    r.node(r.pick("ArgMax", "ArgMin"), [x], **options)


def top(r: Draw) -> None:
    x, shape = r.data()
    axis = r.size(0, len(shape) - 1)
    k = r.size(1, shape[axis])
    options = r.some(largest=r.size(0, 1)) if r.opset >= 11 else {}
    if r.opset < 10:
        r.node("TopK", [x], 2, axis=axis, k=k)
    else:
        r.node("TopK", [x, r.given(np.array([k]))], 2, axis=axis, **options)


def convolution(r: Draw) -> None:
    x, shape = r.image()
    spatial, channels = len(shape) - 2, shape[1]
    group = r.pick(1, 1, channels)
    outputs = group * r.size(1, 5)
    kernel = tuple(r.size(1, 3) for _ in range(spatial))
    options = window(r, spatial) | ({"group": group} if group > 1 else {})
    inputs = [x, r.weight((outputs, channels // group, *kernel))]
    if r.maybe():
        inputs.append(r.weight((outputs,)))
    r.node("Conv", inputs, **options, **r.some(kernel_shape=list(kernel)))


def transposed_convolution(r: Draw) -> None:
    x, shape = r.image(r.pick(1, 2, 2, 3))
    spatial, channels = len(shape) - 2, shape[1]
    group = r.pick(1, 1, channels)
    kernel = tuple(r.size(2, 4) for _ in range(spatial))
    strides = [r.size(1, 3) for _ in range(spatial)]
    options = {"strides": strides, "group": group} | r.some(dilations=[r.size(1, 2)] * spatial)
    if r.maybe(0.3):
        options["auto_pad"] = r.pick("SAME_UPPER", "SAME_LOWER", "VALID")
        options.pop("dilations", None)
    else:
        options |= r.some(pads=pads(r, spatial, 1), output_padding=[r.size(0, s - 1) for s in strides])
    inputs = [x, r.weight((channels, r.size(1, 4), *kernel))]
    if r.maybe():
        inputs.append(r.weight((onnx_out(r, inputs[1]) * group,)))
    r.node("ConvTranspose", inputs, **options)


def onnx_out(r: Draw, name: str) -> int:
    """Results a group of a transposed convolution's weight."""
    return next(w.dims[1] for w in r.weights if w.name == name)


def pooling(r: Draw) -> None:
    op = r.pick("MaxPool", "AveragePool", "LpPool", "GlobalAveragePool", "GlobalMaxPool", "GlobalLpPool")
    x, shape = r.image()
    spatial = len(shape) - 2
    if op.startswith("Global"):
        r.node(op, [x], **(r.some(p=r.size(1, 3)) if op == "GlobalLpPool" else {}))
        return
    dilated = {"MaxPool": r.opset >= 10, "AveragePool": r.opset >= 19, "LpPool": r.opset >= 18}[op]
    options = window(r, spatial, dilations=dilated)
    options["kernel_shape"] = [r.size(2, 3) for _ in range(spatial)]
    if op == "AveragePool":
        options |= r.some(count_include_pad=r.size(0, 1))
    if op == "LpPool":
        options |= r.some(p=r.size(1, 3))
    if r.opset >= {"MaxPool": 10, "AveragePool": 10, "LpPool": 18}[op]:
        options |= r.some(ceil_mode=r.size(0, 1))
    r.node(op, [x], **options)


def normalisation(r: Draw) -> None:
    op = r.pick("BatchNormalization", "InstanceNormalization", "LRN", "LpNormalization", "MeanVarianceNormalization", "LayerNormalization", "GroupNormalization", "RMSNormalization")
    x, shape = r.image()
    channels = shape[1]
    positive = lambda: r.given(r.rng.uniform(0.5, 1.5, channels).astype(np.float32))
    if op == "BatchNormalization":
        r.node(op, [x, positive(), r.weight((channels,)), r.weight((channels,)), positive()], **r.some(epsilon=1e-3))
    elif op == "InstanceNormalization":
        r.node(op, [x, positive(), r.weight((channels,))], **r.some(epsilon=1e-3))
    elif op == "LRN":
        r.node(op, [x], size=r.pick(1, 3, 5, 2), **r.some(alpha=0.1, beta=0.5, bias=2.0))
    elif op == "LpNormalization":
        r.node(op, [x], **r.some(axis=r.size(-1, len(shape) - 1), p=r.size(1, 2)))
    elif op == "MeanVarianceNormalization":
        r.node(op, [x], **(r.some(axes=[0, *range(2, len(shape))]) if len(shape) > 3 else {"axes": [0, 2]}))
    elif op in ("LayerNormalization", "RMSNormalization"):
        axis = r.size(1, len(shape) - 1)
        inputs = [x, r.weight(shape[axis:])] + ([r.weight(shape[axis:])] if op[0] == "L" and r.maybe() else [])
        r.node(op, inputs, axis=axis, **r.some(epsilon=1e-3))
    else:
        groups = r.pick(1, channels)
        count = groups if r.opset < 21 else channels
        r.node(op, [x, r.weight((count,)), r.weight((count,))], num_groups=groups, **r.some(epsilon=1e-3))


def product(r: Draw) -> None:
    op = r.pick("MatMul", "MatMul", "Gemm", "Einsum")
    if op == "Gemm":
        m, n, k = r.shape(3)
        turned = r.size(0, 1), r.size(0, 1)
        a, _ = r.data((k, m) if turned[0] else (m, k))
        right = (n, k) if turned[1] else (k, n)
        b = r.weight(right) if r.maybe() else r.data(right)[0]
        inputs = [a, b]
        if r.maybe() or r.opset < 11:
            bias = r.pick((n,), (1, n), (m, 1), (m, n), (1,))
            inputs.append(r.weight(bias) if r.maybe() else r.data(bias)[0])
        r.node(op, inputs, transA=turned[0], transB=turned[1], **r.some(alpha=0.5, beta=1.5))
    elif op == "Einsum":
        i, j, k, b = r.shape(4)
        equation, left, right = r.pick(
            ("ij,jk->ik", (i, j), (j, k)), ("bij,bkj->bik", (b, i, j), (b, k, j)), ("ij,kj->ki", (i, j), (k, j)),
            ("bij,jk", (b, i, j), (j, k)), ("i,j->ij", (i,), (j,)), ("...ij,...jk->...ik", (b, i, j), (b, j, k)), ("ij,ij->i", (i, j), (i, j)),
        )
        r.node(op, [r.data(left)[0], r.data(right)[0]], equation=equation)
    else:
        x, shape = r.data(r.pick(r.shape(2), r.shape(3), r.shape(4), r.shape(1)))
        n = r.size()
        right = r.pick((shape[-1], n), (*shape[:-2], shape[-1], n), (shape[-1],))
        r.node(op, [x, r.weight(right) if r.maybe() else r.data(right)[0]])


def movement(r: Draw) -> None:
    op = r.pick(*"Transpose Reshape Flatten Squeeze Unsqueeze Concat Split Slice Pad Tile Expand DepthToSpace SpaceToDepth ReverseSequence Trilu EyeLike CumSum Shape Size".split())
    x, shape = r.data()
    rank = len(shape)
    axis = r.size(0, rank - 1)
    if op == "Transpose":
        r.node(op, [x], **r.some(perm=r.rng.permutation(rank).tolist()))
    elif op == "Reshape":
        target = [-1] if r.maybe(0.3) else [0, -1] if rank > 1 else [-1, 1]
        r.node(op, [x, r.given(np.array(target))])
    elif op == "Flatten":
        r.node(op, [x], **r.some(axis=r.size(-rank if r.opset >= 11 else 0, rank)))
    elif op == "Squeeze":
        x, shape = r.data((1, *shape[:2], 1))
        r.node(op, [x], **r.some(axes=np.array([0, 3] if r.maybe() else [0])))
    elif op == "Unsqueeze":
        r.node(op, [x], axes=np.array(sorted({0, r.size(1, rank)})))
    elif op == "Concat":
        other = tuple(r.size() if i == axis else d for i, d in enumerate(shape))
        r.node(op, [x, r.data(other)[0], *([x] if r.maybe(0.3) else [])], axis=axis if r.opset < 11 or r.maybe() else axis - rank)
    elif op == "Split":
        first = r.size(1, max(1, shape[axis] - 1))
        if shape[axis] < 2:
            raise Invalid(op)
        r.node(op, [x], 2, axis=axis, split=np.array([first, shape[axis] - first]))
    elif op == "Slice":
        start, end = sorted((r.size(0, shape[axis]), r.size(0, shape[axis])))
        if start == end:
            raise Invalid(op)
        if r.opset < 10:
            r.node(op, [x], starts=[start], ends=[end if r.maybe() else 1000], axes=[axis])
        else:
            step = r.pick(1, 1, 2, -1)
            bounds = (start, end) if step > 0 else (end - 1, start - 1 - (shape[axis] if start == 0 else 0))
            if step < 0 and start == 0:
                bounds = (end - 1, -1000)
            r.node(op, [x], starts=np.array([bounds[0]]), ends=np.array([bounds[1]]), axes=np.array([axis]), steps=np.array([step]))
    elif op == "Pad":
        mode = r.pick("constant", "reflect", "edge", *(["wrap"] if r.opset >= 19 else []))
        most = 2 if mode == "constant" else min(shape) - 1 if mode == "reflect" else min(2, min(shape))
        amounts = np.array([r.size(0, max(0, most)) for _ in range(2 * rank)])
        options = {"mode": mode, "pads": amounts}
        if mode == "constant" and r.maybe():
            options |= {"value": 1.5} if r.opset < 11 else {"constant_value": np.float32(1.5)}
        r.node(op, [x], **options)
    elif op == "Tile":
        r.node(op, [x, r.given(np.array([r.size(1, 3) for _ in shape]))])
    elif op == "Expand":
        target = [r.size(1, 3) if d == 1 else d for d in shape]
        r.node(op, [x, r.given(np.array([r.size(1, 2), *target] if r.maybe() else target))])
    elif op == "DepthToSpace":
        block = r.size(1, 3)
        x, _ = r.data((1, block * block * r.size(1, 3), *r.shape(2)))
        r.node(op, [x], blocksize=block, **(r.some(mode=r.pick("DCR", "CRD")) if r.opset >= 11 else {}))
    elif op == "SpaceToDepth":
        block = r.size(1, 3)
        x, _ = r.data((1, r.size(1, 3), block * r.size(1, 3), block * r.size(1, 3)))
        r.node(op, [x], blocksize=block)
    elif op == "ReverseSequence":
        x, shape = r.data((4, 3, *shape[:1]))
        batch = r.size(0, 1)
        lengths = r.rng.integers(1, shape[1 - batch] + 1, shape[batch])
        r.node(op, [x, r.given(lengths)], batch_axis=batch, time_axis=1 - batch)
    elif op == "Trilu":
        x, _ = r.data(r.shape(r.size(2, 3)))
        r.node(op, [x, *([r.given(np.array(r.size(-2, 2)))] if r.maybe() else [])], **r.some(upper=r.size(0, 1)))
    elif op == "EyeLike":
        x, _ = r.data(r.shape(2))
        r.node(op, [x], **r.some(k=r.size(-1, 2)))
    elif op == "CumSum":
        r.node(op, [x, r.given(np.array(axis))], **r.some(exclusive=r.size(0, 1), reverse=r.size(0, 1)))
    else:
        x, shape = r.data()
        y = r.node(op, [x])[0]
        r.node("Cast", [y], to=TensorProto.FLOAT)


def selection(r: Draw) -> None:
    op = r.pick("Gather", "GatherElements", "GatherND", "ScatterElements" if r.opset >= 11 else "Scatter", "ScatterND", "OneHot")
    x, shape = r.data()
    rank = len(shape)
    axis = r.size(0, rank - 1)
    low = -shape[axis] if r.opset >= 11 and r.maybe(0.3) else 0
    if op == "Gather":
        indices = r.rng.integers(low, shape[axis], r.shape(r.size(0, 2)))
        r.node(op, [x, r.given(indices, r.pick(INT32, INT64))], axis=axis)
    elif op in ("GatherElements", "ScatterElements", "Scatter"):
        other = tuple(r.size(1, d) for d in shape)
        if op == "GatherElements":
            other = tuple(r.size() if i == axis else n for i, n in enumerate(other))
            r.node(op, [x, r.given(r.rng.integers(low, shape[axis], other))], axis=axis)
            return
        # Without duplicates along the axis: their order is not defined.
        order = np.argsort(r.rng.random((*other[:axis], shape[axis], *other[axis + 1 :])), axis=axis)
        indices = np.take(order, range(other[axis]), axis=axis)
        options = r.some(reduction=r.pick("add", "mul", "max", "min")) if op == "ScatterElements" and r.opset >= 18 else {}
        r.node(op, [x, r.given(indices), r.data(other)[0]], axis=axis, **options)
    elif op in ("GatherND", "ScatterND"):
        last = r.size(1, rank)
        places = [np.unravel_index(i, shape[:last]) for i in r.rng.permutation(int(np.prod(shape[:last])))[: r.size(1, 4)]]
        indices = np.array(places).reshape(len(places), last)
        if op == "GatherND":
            r.node(op, [x, r.given(indices)])
        else:
            options = r.some(reduction=r.pick("add", "mul")) if r.opset >= 16 else {}
            r.node(op, [x, r.given(indices), r.data((len(places), *shape[last:]))[0]], **options)
    else:
        depth = r.size(2, 6)
        name = r.given(r.rng.integers(-depth, depth, shape))
        r.node(op, [name, r.given(np.array(depth)), r.data((2,))[0]], **r.some(axis=r.size(-1, rank)))


def resizing(r: Draw) -> None:
    x, shape = r.image(r.pick(1, 2, 2, 3))
    rank = len(shape)
    if r.opset < 10:
        scales = np.array([1, 1, *(r.pick(1.0, 2.0, 1.5, 3.0, 2.3) for _ in shape[2:])], dtype=np.float32)
        options = {"mode": r.pick("nearest", "linear")}
        if r.opset < 9:
            r.node("Upsample", [x], scales=scales.tolist(), **options)
        else:
            r.node("Upsample", [x, r.given(scales)], **options)
        return
    scales = np.array([1, 1, *(r.pick(1.0, 2.0, 0.5, 1.5, 0.6, 3.0, 2.3) for _ in shape[2:])], dtype=np.float32)
    if r.opset == 10:
        r.node("Resize", [x, r.given(scales)], mode=r.pick("nearest", "linear"))
        return
    mode = r.pick("nearest", "linear", "cubic") if rank == 4 else r.pick("nearest", "linear")
    kinds = ["half_pixel", "pytorch_half_pixel", "align_corners", "asymmetric"] + (["half_pixel_symmetric"] if r.opset >= 19 else [])
    options = r.some(coordinate_transformation_mode=r.pick(*kinds))
    if mode == "nearest":
        options |= r.some(nearest_mode=r.pick("round_prefer_floor", "round_prefer_ceil", "floor", "ceil"))
    if mode == "cubic":
        options |= r.some(cubic_coeff_a=-0.5, exclude_outside=r.size(0, 1))
    if r.opset >= 18 and mode != "nearest":
        options |= r.some(antialias=r.size(0, 1))
    empty = r.given(np.zeros(0, dtype=np.float32))
    if r.maybe():
        sizes = np.array([*shape[:2], *(r.size(2, 12) for _ in shape[2:])])
        inputs = [x, empty, empty if r.opset < 13 else "", r.given(sizes)]
    else:
        inputs = [x, empty if r.opset < 13 else "", r.given(scales)]
    r.node("Resize", inputs, mode=mode, **options)


def region(r: Draw) -> None:
    x, shape = r.data((1, r.size(1, 3), 8, 8))
    boxes = np.sort(r.rng.uniform(0, 16, (3, 2, 2)), axis=1).reshape(3, 4).astype(np.float32)
    options = r.some(spatial_scale=float(r.pick(1.0, 0.5, 0.3)), sampling_ratio=r.size(0, 3), output_height=r.size(1, 4), output_width=r.size(1, 4), mode=r.pick("avg", "max"))
    if r.opset >= 16:
        options |= r.some(coordinate_transformation_mode=r.pick("half_pixel", "output_half_pixel"))
    op = r.pick("RoiAlign", "MaxRoiPool", "GridSample")
    if op == "RoiAlign":
        r.node(op, [x, r.given(boxes), r.given(np.zeros(3, dtype=np.int64))], **options)
    elif op == "GridSample":
        grid = r.given(r.rng.uniform(-1.2, 1.2, (1, *r.shape(2), 2)).astype(np.float32))
        linear, cubic = ("bilinear", "bicubic") if r.opset < 20 else ("linear", "cubic")
        r.node(op, [x, grid], **r.some(align_corners=r.size(0, 1), padding_mode=r.pick("zeros", "border", "reflection"), mode=r.pick(linear, "nearest", cubic)))
    else:
        rois = np.concatenate([np.zeros((3, 1), dtype=np.float32), np.floor(boxes)], axis=1)
        r.node(op, [x, r.given(rois)], pooled_shape=[2, 2], **r.some(spatial_scale=0.5))


def recurrent(r: Draw) -> None:
    op, gates = r.pick(("RNN", 1), ("GRU", 3), ("LSTM", 4))
    steps, batch, width, hidden = r.shape(4, 1, 4)
    direction = r.pick("forward", "reverse", "bidirectional")
    both = 2 if direction == "bidirectional" else 1
    inputs = [r.data((steps, batch, width))[0], r.weight((both, gates * hidden, width)), r.weight((both, gates * hidden, hidden))]
    inputs.append(r.weight((both, 2 * gates * hidden)) if r.maybe() else "")
    inputs.append(r.given(r.rng.integers(1, steps + 1, batch), INT32) if r.maybe(0.2) else "")
    if r.maybe():
        inputs.append(r.weight((both, batch, hidden)))
        if op == "LSTM":
            inputs += [r.weight((both, batch, hidden))] + ([r.weight((both, 3 * hidden))] if r.maybe() else [])
    options = {"hidden_size": hidden, "direction": direction}
    count = {"RNN": 1, "GRU": 2, "LSTM": 3}[op] * both
    if r.maybe(0.4):
        functions = [r.pick("Sigmoid", "Tanh", "Relu", "HardSigmoid", "Affine", "LeakyRelu", "ScaledTanh", "Elu", "Softsign", "Softplus") for _ in range(count)]
        options["activations"] = functions
        if r.maybe(0.6):
            # A number for each function that takes one, in their order.
            takes_alpha = [f for f in functions if f in ("HardSigmoid", "Affine", "LeakyRelu", "ScaledTanh", "Elu")]
            takes_beta = [f for f in functions if f in ("HardSigmoid", "Affine", "ScaledTanh")]
            if len(takes_alpha) == len(functions) and len(takes_beta) == len(functions):
                options |= {"activation_alpha": [0.3] * len(functions), "activation_beta": [0.4] * len(functions)}
    if op == "GRU":
        options |= r.some(linear_before_reset=r.size(0, 1))
    if r.maybe(0.2):
        options["clip"] = 0.5
    r.node(op, inputs, 3 if op == "LSTM" else 2, **options)


def quantised(r: Draw) -> None:
    dtype = r.pick(UINT8, INT8)
    zero = lambda: r.given(np.array(r.rng.integers(-20, 20) + (128 if dtype == UINT8 else 0), dtype=dtype))
    scale = lambda: r.given(np.float32(r.rng.uniform(0.01, 0.05)))
    op = r.pick("round trip", "Conv", "MatMul", "QLinearConv", "QLinearMatMul", "DynamicQuantizeLinear", "MatMulInteger", "ConvInteger")
    if op == "DynamicQuantizeLinear":
        x, _ = r.data()
        r.node(op, [x], 3)
    elif op in ("MatMul", "QLinearMatMul", "MatMulInteger"):
        m, n, k = r.shape(3, 1, 9)
        weight = r.weight((k, n), INT8 if dtype == INT8 or r.maybe() else dtype)
        if op == "MatMulInteger":
            r.node(op, [r.data((m, k), dtype)[0], weight, *([zero()] if r.maybe() else [])])
            return
        x = r.node("QuantizeLinear", [r.data((m, k))[0], s := scale(), z := zero()])[0]
        ws, wz = scale(), r.given(np.array(0, dtype=weights_type(r, weight)))
        if op == "MatMul":
            y = r.node(op, [r.node("DequantizeLinear", [x, s, z])[0], r.node("DequantizeLinear", [weight, ws, wz])[0]])[0]
            r.node("QuantizeLinear", [y, r.given(np.float32(0.2)), zero()])
        else:
            r.node(op, [x, s, z, weight, ws, wz, r.given(np.float32(0.2)), zero()])
    elif op in ("Conv", "QLinearConv", "ConvInteger"):
        channels, outputs = r.size(1, 9), r.size(1, 9)
        weight = r.weight((outputs, channels, 3, 3), INT8 if dtype == INT8 or r.maybe() else dtype)
        options = r.some(pads=pads(r, 2), strides=[r.size(1, 2)] * 2)
        if op == "ConvInteger":
            r.node(op, [r.data((1, channels, 7, 7), dtype)[0], weight, *([zero()] if r.maybe() else [])], **options)
            return
        x = r.node("QuantizeLinear", [r.data((1, channels, 7, 7))[0], s := scale(), z := zero()])[0]
        ws, wz = scale(), r.given(np.array(0, dtype=weights_type(r, weight)))
        if op == "Conv":
            y = r.node(op, [r.node("DequantizeLinear", [x, s, z])[0], r.node("DequantizeLinear", [weight, ws, wz])[0]], **options)[0]
            r.node("QuantizeLinear", [y, r.given(np.float32(0.2)), zero()])
        else:
            r.node(op, [x, s, z, weight, ws, wz, r.given(np.float32(0.2)), zero()], **options)
    else:
        x, shape = r.data()
        s, z = scale(), zero()
        y = r.node("QuantizeLinear", [x, s, z])[0]
        r.node("DequantizeLinear", [y, s, z])


def weights_type(r: Draw, name: str) -> str:
    """The element type of a given tensor."""
    tensor = next(w for w in r.weights if w.name == name)
    return helper.tensor_dtype_to_np_dtype(tensor.data_type).name


def microsoft(r: Draw) -> None:
    op = r.pick("FusedMatMul", "QuickGelu", "Gelu", "FastGelu", "BiasGelu", "SkipLayerNormalization", "FusedConv", "QGemm", "QLinearAveragePool", "Attention")
    ms = {"domain": "com.microsoft"}
    if op == "FusedMatMul":
        m, n, k = r.shape(3)
        a, b = r.size(0, 1), r.size(0, 1)
        r.node(op, [r.data((k, m) if a else (m, k))[0], r.data((n, k) if b else (k, n))[0]], transA=a, transB=b, **r.some(alpha=0.5), **ms)
    elif op in ("QuickGelu", "Gelu", "FastGelu"):
        r.node(op, [r.data()[0]], **(r.some(alpha=1.2) if op == "QuickGelu" else {}), **ms)
    elif op == "BiasGelu":
        x, shape = r.data()
        r.node(op, [x, r.weight(shape[-1:])], **ms)
    elif op == "SkipLayerNormalization":
        x, shape = r.data(r.shape(3))
        inputs = [x, r.data(shape)[0], r.weight(shape[-1:])] + ([r.weight(shape[-1:])] if r.maybe() else [])
        r.node(op, inputs, epsilon=1e-3, **ms)
    elif op == "FusedConv":
        x, shape = r.image(2)
        r.node(op, [x, r.weight((3, shape[1], 3, 3))], activation=r.pick("Relu", "Tanh", "Sigmoid"), **ms)
    elif op == "QGemm":
        m, n, k = r.shape(3)
        x = r.node("QuantizeLinear", [r.data((m, k))[0], s := r.given(np.float32(0.03)), z := r.given(np.uint8(120))])[0]
        w, ws, wz = r.weight((k, n), INT8), r.given(np.float32(0.02)), r.given(np.int8(0))
        r.node(op, [x, s, z, w, ws, wz, "", r.given(np.float32(0.1)), r.given(np.uint8(128))], **ms)
    elif op == "QLinearAveragePool":
        x = r.node("QuantizeLinear", [r.data((1, 3, 8, 8))[0], s := r.given(np.float32(0.03)), z := r.given(np.uint8(120))])[0]
        r.node(op, [x, s, z, s, z], kernel_shape=[2, 2], **r.some(strides=[2, 2]), **ms)
    else:
        heads, width = r.size(1, 2), 4
        hidden = heads * width
        x, _ = r.data((1, r.size(1, 5), hidden))
        r.node(op, [x, r.weight((hidden, 3 * hidden)), r.weight((3 * hidden,))], num_heads=heads, **r.some(unidirectional=r.size(0, 1)), **ms)


RECIPES: list[Callable[[Draw], None]] = [
    unary, shaped_unary, binary, reduction, argument, top, convolution, transposed_convolution, pooling, normalisation, product,
    movement, movement, selection, selection, resizing, region, recurrent, quantised, microsoft,
]
