"""Forms that were once imported wrongly, or not at all: each import agrees with ONNX Runtime, by its own check."""

from __future__ import annotations

import unittest
from collections.abc import Callable

import numpy as np
import onnx
from onnx import TensorProto
from opbench_import.errors import ImportFailure

from . import support
from .builders import Model

MICROSOFT = "com.microsoft"


def resized(opset: int, mode: str, *factors: float, sizes: list[int] | None = None, op: str = "Resize", **options):
    """An image of 6 x 5 resized by factors, or to sizes."""
    m = Model()
    x = m.input("x", 1, 2, 6, 5)
    scales = m.constant("scales", np.array([1, 1, *factors] if factors else [], dtype=np.float32))
    region = m.constant("region", np.zeros(0, dtype=np.float32))
    inputs = [x, scales] if opset < 11 else [x, region, scales]
    if sizes is not None:
        inputs.append(m.constant("sizes", np.array([1, 2, *sizes])))
    m.node(op, inputs, "y", mode=mode, **options)
    return m.build("y", opset=opset)


def byte_convolution(channels: int, zero: int):
    """A quantised convolution of signed bytes as ``quantize_static`` writes it."""
    m = Model()
    x = m.input("x", 1, channels, 6, 6)
    scale, point = m.constant("s", np.float32(0.03)), m.constant("z", np.int8(zero))
    weight = m.constant("w", m.generator.integers(-128, 128, (8, channels, 3, 3)).astype(np.int8))
    of_weight = [m.constant("ws", np.float32(0.02)), m.constant("wz", np.int8(0))]
    data = m.node("DequantizeLinear", [m.node("QuantizeLinear", [x, scale, point], "xq"), scale, point], "xd")
    sums = m.node("Conv", [data, m.node("DequantizeLinear", [weight, *of_weight], "wd")], "sums", pads=[1, 1, 1, 1])
    m.node("QuantizeLinear", [sums, m.constant("ys", np.float32(0.3)), point], "y")
    return typed(m.build("y"), TensorProto.INT8)


def typed(model: onnx.ModelProto, dtype: int) -> onnx.ModelProto:
    """The model with the element type of its result."""
    model.graph.output[0].type.tensor_type.elem_type = dtype
    return model


def regions(opset: int, **options):
    """RoiAlign of two boxes."""
    m = Model()
    x = m.input("x", 1, 2, 8, 8)
    boxes = m.constant("boxes", np.array([[0.5, 1.0, 6.5, 7.0], [2.0, 0.0, 7.0, 3.0]], dtype=np.float32))
    m.node("RoiAlign", [x, boxes, m.constant("of", np.zeros(2, dtype=np.int64))], "y", output_height=2, output_width=3, **options)
    return m.build("y", opset=opset)


def recurrent(op: str, gates: int, **options):
    """A recurrent layer with activations of its own."""
    m = Model()
    inputs = [m.input("x", 3, 2, 5), m.weight("w", 1, gates * 4, 5), m.weight("r", 1, gates * 4, 4)]
    m.node(op, inputs, "y", hidden_size=4, **options)
    return m.build("y", opset=14)


def scattered(**options):
    """Updates that are smaller than the data along both axes."""
    m = Model()
    inputs = [m.input("x", 5, 4), m.constant("at", np.array([[4, 0], [-2, 3]])), m.input("u", 2, 2)]
    m.node("ScatterElements", inputs, "y", axis=0, **options)
    return m.build("y", opset=18)


def of_microsoft(op: str, *inputs: np.ndarray, shape: tuple[int, ...], result: tuple[int, ...], **options):
    """One operator of com.microsoft on an input and given tensors."""
    m = Model()
    given = [m.constant(f"g{i}", value) for i, value in enumerate(inputs)]
    m.node(op, [m.input("x", *shape), *given], "y", domain=MICROSOFT, **options)
    model = m.build("y")
    model.opset_import.append(onnx.helper.make_opsetid(MICROSOFT, 1))
    model.graph.output[0].CopyFrom(onnx.helper.make_tensor_value_info("y", TensorProto.FLOAT, result))
    return model


def of_bytes(op: str, shape: tuple[int, ...], result: tuple[int, ...], given: Callable[[Model], list[str]], **options):
    """One quantised operator of com.microsoft between a quantisation and a dequantisation."""
    m = Model()
    scale, zero = m.constant("s", np.float32(0.03)), m.constant("z", np.uint8(120))
    x = m.node("QuantizeLinear", [m.input("x", *shape), scale, zero], "xq")
    y = m.node(op, [x, scale, zero, *given(m), scale, zero], "yq", domain=MICROSOFT, **options)
    m.node("DequantizeLinear", [y, scale, zero], "y")
    model = m.build("y")
    model.opset_import.append(onnx.helper.make_opsetid(MICROSOFT, 1))
    model.graph.value_info.append(onnx.helper.make_tensor_value_info("yq", TensorProto.UINT8, result))
    return model


def weights_of_gemm(m: Model) -> list[str]:
    """A weight with its scale and zero point; no bias."""
    weight = m.generator.integers(-128, 128, (6, 5)).astype(np.int8)
    return [m.constant("w", weight), m.constant("ws", np.float32(0.01)), m.constant("wz", np.int8(0)), ""]


def one(op: str, *shape: int, opset: int, **options):
    """One operator on one input."""
    m = Model()
    m.node(op, [m.input("x", *shape)], "y", **options)
    return m.build("y", opset=opset)


def normal(*shape: int) -> np.ndarray:
    """Seeded numbers."""
    return (np.random.default_rng(1).standard_normal(shape) * 0.4).astype(np.float32)


SYMMETRIC = {"coordinate_transformation_mode": "half_pixel_symmetric"}
FORMS: dict[str, Callable[[], onnx.ModelProto]] = {
    "Upsample 9, linear": lambda: resized(9, "linear", 2.0, 2.0, op="Upsample"),
    "Upsample 9, nearest, broken scale": lambda: resized(9, "nearest", 1.5, 2.3, op="Upsample"),
    "Resize 10, linear": lambda: resized(10, "linear", 2.0, 3.0),
    "Resize 10, nearest, smaller": lambda: resized(10, "nearest", 0.6, 0.5),
    "Resize 11, sizes and empty scales": lambda: resized(11, "linear", sizes=[9, 4]),
    "Resize 12, scales that are not the ratio of the sizes": lambda: resized(12, "nearest", 1.3, 0.7),
    "Resize 19, half_pixel_symmetric": lambda: resized(19, "linear", 1.3, 0.7, **SYMMETRIC),
    "Resize 18, antialias": lambda: resized(18, "cubic", 0.5, 0.6, antialias=1),
    "Hardmax 11": lambda: one("Hardmax", 2, 3, 4, opset=11),
    "Hardmax 12, axis 0": lambda: one("Hardmax", 2, 3, 4, opset=12, axis=0),
    "MeanVarianceNormalization without axes": lambda: one("MeanVarianceNormalization", 2, 3, 4, 5, opset=13),
    "RoiAlign 16, half_pixel, spatial_scale": lambda: regions(16, spatial_scale=0.5, sampling_ratio=2),
    "RoiAlign 16, sampling_ratio 0": lambda: regions(16, spatial_scale=0.7),
    "RoiAlign 10, sampling_ratio 0": lambda: regions(10),
    "Conv of signed bytes, negative zero point, padded": lambda: byte_convolution(8, -7),
    "Conv of signed bytes, odd channels": lambda: byte_convolution(3, -128),
    "LSTM, HardSigmoid with alpha and beta": lambda: recurrent(
        "LSTM", 4, activations=["HardSigmoid", "Tanh", "Softsign"], activation_alpha=[0.3], activation_beta=[0.4]
    ),
    "GRU, Affine and ScaledTanh": lambda: recurrent(
        "GRU", 3, activations=["Affine", "ScaledTanh"], activation_alpha=[0.5, 0.8], activation_beta=[0.1, 0.6]
    ),
    "ScatterElements, fewer updates": scattered,
    "ScatterElements, fewer updates, max": lambda: scattered(reduction="max"),
    "FusedMatMul": lambda: of_microsoft("FusedMatMul", normal(6, 5), shape=(3, 5), result=(3, 6), transB=1, alpha=0.5),
    "QuickGelu": lambda: of_microsoft("QuickGelu", shape=(3, 5), result=(3, 5), alpha=1.2),
    "SkipLayerNormalization": lambda: of_microsoft(
        "SkipLayerNormalization", normal(1, 3, 8), normal(8), normal(8), shape=(1, 3, 8), result=(1, 3, 8), epsilon=1e-3
    ),
    "Attention": lambda: of_microsoft(
        "Attention", normal(8, 24), normal(24), shape=(1, 3, 8), result=(1, 3, 8), num_heads=2, unidirectional=1
    ),
    "QGemm": lambda: of_bytes("QGemm", (3, 6), (3, 5), weights_of_gemm),
    "QLinearAveragePool": lambda: of_bytes("QLinearAveragePool", (1, 2, 6, 6), (1, 2, 4, 4), lambda _: [], kernel_shape=[3, 3]),
}


class CheckedForms(unittest.TestCase):
    """Each is imported, and was compared."""

    def test_forms_agree_with_onnx_runtime(self) -> None:
        for name, build in FORMS.items():
            with self.subTest(name):
                check = support.import_model(build()).graph["check"]
                self.assertRegex(check["reference"] or f"none: {check['reason']}", r"^(ONNX Runtime|ONNX's reference)")

    def test_an_extent_of_nothing_is_refused(self) -> None:
        with self.assertRaisesRegex(ImportFailure, "input 'x' has shape 0x4, which holds no element"):
            support.import_model(one("Relu", 0, 4, opset=13))

    def test_boxes_beyond_the_map_are_refused(self) -> None:
        with self.assertRaisesRegex(ImportFailure, "larger than the map"):
            support.import_model(regions(10, spatial_scale=2.0))
