"""Overlapping pieces of a signal or an image: cut out and transformed (STFT), or put together (Col2Im)."""

from __future__ import annotations

import numpy as np
import onnx

from .arithmetic import pair_matrix
from .emit import Emitter


def short_time_fourier(e: Emitter) -> list[onnx.NodeProto]:
    """STFT(signal, step, window, length): frames side by side, weighted, times the matrix of a Fourier transform."""
    shape, step = e.graph.shape(e.input(0)), e.graph.value(e.input(1))
    window, length = e.input(2), e.graph.value(e.input(3)) if e.input(3) else None
    if length is None and window and e.graph.shape(window):
        length = np.array(e.graph.shape(window))
    if shape is None or len(shape) not in (2, 3) or step is None or length is None:
        raise e.refusal("the shape of its signal, its step or the length of its frames is computed by the model")
    step, length = int(step.reshape(-1)[0]), int(length.reshape(-1)[0])
    dtype = e.graph.dtype(e.input(0)) or "float32"
    batch, samples, parts = (*shape, 1)[:3]
    frames = 1 + (samples - length) // step
    if frames < 1:
        raise e.refusal(f"its signal of {samples} samples is shorter than a frame of {length}")
    places = np.arange(frames)[:, None] * step + np.arange(length)
    data = e.emit("Reshape", [e.input(0), e.ints([batch, samples, parts])])
    data = e.emit("Gather", [data, e.ints(places)], axis=1)
    if window:
        data = e.emit("Mul", [data, e.emit("Reshape", [window, e.ints([length, 1])])])
    joined = e.emit("Reshape", [data, e.ints([batch, frames, length * parts])])
    one_sided = bool(e.options.get("onesided", 1)) and parts == 1
    matrix = pair_matrix((length, parts), 0, length, False, one_sided).astype(dtype)
    product = e.emit("MatMul", [joined, e.constant(matrix, dtype)])
    return e.finish(e.emit("Reshape", [product, e.ints([batch, frames, matrix.shape[1] // 2, 2])]))


def columns_to_image(e: Emitter) -> list[onnx.NodeProto]:
    """Col2Im: a transposed convolution whose weight puts each place of a block where it lies in the image."""
    shape = e.graph.shape(e.input(0))
    image, block = (e.graph.value(e.input(i)) for i in (1, 2))
    if shape is None or image is None or block is None:
        raise e.refusal("its shapes are computed by the model")
    image, block = image.tolist(), block.tolist()
    spatial, places = len(block), int(np.prod(block))
    strides, dilations = (e.options.get(name, [1] * spatial) for name in ("strides", "dilations"))
    pads = e.options.get("pads", [0] * (2 * spatial))
    reach = [(k - 1) * d + 1 for k, d in zip(block, dilations)]
    room = [i + b + a - r for i, b, a, r in zip(image, pads[:spatial], pads[spatial:], reach)]
    blocks = [r // s + 1 for r, s in zip(room, strides)]
    channels, dtype = shape[1] // places, e.graph.dtype(e.input(0)) or "float32"
    data = e.emit("Reshape", [e.input(0), e.ints([shape[0] * channels, places, *blocks])])
    weight = e.constant(np.eye(places).reshape(places, 1, *block), dtype)
    left = [r - (b - 1) * s for r, b, s in zip(room, blocks, strides)]
    result = e.emit(
        "ConvTranspose",
        [data, weight],
        kernel_shape=block,
        strides=strides,
        dilations=dilations,
        pads=pads,
        output_padding=left,
    )
    return e.finish(e.emit("Reshape", [result, e.ints([shape[0], channels, *image])]))


RULES = {"STFT": short_time_fourier, "Col2Im": columns_to_image}
