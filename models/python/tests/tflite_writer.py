"""Small TFLite files, written with the flatbuffers package from TFLite's schema: there is no TensorFlow here.

``Net`` collects tensors and operators of one subgraph; ``save`` writes the file. Scales and zero points are those of
TFLite: one of each a tensor, or one scale a channel with zero points of 0.
"""

from __future__ import annotations

import os
from dataclasses import dataclass

import flatbuffers
import numpy as np
import tflite
from tests import support

TYPES = {
    "float32": tflite.TensorType.FLOAT32,
    "float16": tflite.TensorType.FLOAT16,
    "int32": tflite.TensorType.INT32,
    "int8": tflite.TensorType.INT8,
    "uint8": tflite.TensorType.UINT8,
    "int64": tflite.TensorType.INT64,
}


@dataclass
class Quantisation:
    """What the integers of a tensor stand for: ``scale * (value - zero)``."""

    scale: list[float]
    zero: int = 0
    axis: int = 0


class Net:
    """One subgraph under construction."""

    def __init__(self, seed: int = 0) -> None:
        self.builder = flatbuffers.Builder(1024)
        self.generator = np.random.default_rng(seed)
        self.tensors: list[int] = []
        self.buffers: list[bytes] = [b""]
        self.operators: list[int] = []
        self.codes: list[tuple[int, str]] = []
        self.inputs: list[int] = []
        self.outputs: list[int] = []

    def vector(self, values: list, kind: str) -> int:
        """A vector of numbers (``Int32``, ``Int64``, ``Float32``) or of tables (``UOffsetTRelative``)."""
        size = {"Int64": 8}.get(kind, 4)
        self.builder.StartVector(size, len(values), size)
        for value in reversed(values):
            getattr(self.builder, f"Prepend{kind}")(value)
        return self.builder.EndVector()

    def tensor(
        self,
        name: str,
        shape: tuple[int, ...],
        dtype: str = "float32",
        quantised: Quantisation | None = None,
        value: np.ndarray | None = None,
    ) -> int:
        """A tensor; its number in the subgraph."""
        b = self.builder
        place = 0
        if value is not None:
            place = len(self.buffers)
            self.buffers.append(np.ascontiguousarray(value).tobytes())
        scales = None
        if quantised is not None:
            scale = self.vector(quantised.scale, "Float32")
            zero = self.vector([quantised.zero] * len(quantised.scale), "Int64")
            tflite.QuantizationParametersStart(b)
            tflite.QuantizationParametersAddScale(b, scale)
            tflite.QuantizationParametersAddZeroPoint(b, zero)
            tflite.QuantizationParametersAddQuantizedDimension(b, quantised.axis)
            scales = tflite.QuantizationParametersEnd(b)
        text = b.CreateString(name)
        dims = self.vector(list(shape), "Int32")
        tflite.TensorStart(b)
        tflite.TensorAddShape(b, dims)
        tflite.TensorAddType(b, TYPES[dtype])
        tflite.TensorAddBuffer(b, place)
        tflite.TensorAddName(b, text)
        if scales is not None:
            tflite.TensorAddQuantization(b, scales)
        self.tensors.append(tflite.TensorEnd(b))
        return len(self.tensors) - 1

    def input(self, name: str, *shape: int, dtype: str = "float32", quantised: Quantisation | None = None) -> int:
        """A tensor that is fed."""
        self.inputs.append(self.tensor(name, shape, dtype, quantised))
        return self.inputs[-1]

    def weight(self, name: str, *shape: int, std: float = 0.3) -> int:
        """A seeded float weight."""
        return self.given(name, (self.generator.standard_normal(shape) * std).astype(np.float32))

    def given(self, name: str, value: np.ndarray, quantised: Quantisation | None = None) -> int:
        """A tensor with values."""
        return self.tensor(name, value.shape, value.dtype.name, quantised, value)

    def operator(self, name: str, inputs: list[int], outputs: list[int], options: str = "", **settings: int) -> None:
        """An operator; ``options`` names the table of its ``settings`` (vectors are made with ``vector``)."""
        b = self.builder
        code = (getattr(tflite.BuiltinOperator, name), "")
        if code not in self.codes:
            self.codes.append(code)
        table = None
        if options:
            getattr(tflite, f"{options}Start")(b)
            for key, value in settings.items():
                getattr(tflite, f"{options}Add{key}")(b, value)
            table = getattr(tflite, f"{options}End")(b)
        read, written = self.vector(inputs, "Int32"), self.vector(outputs, "Int32")
        tflite.OperatorStart(b)
        tflite.OperatorAddOpcodeIndex(b, self.codes.index(code))
        tflite.OperatorAddInputs(b, read)
        tflite.OperatorAddOutputs(b, written)
        if table is not None:
            tflite.OperatorAddBuiltinOptionsType(b, getattr(tflite.BuiltinOptions, options))
            tflite.OperatorAddBuiltinOptions(b, table)
        self.operators.append(tflite.OperatorEnd(b))

    def conv(self, data: int, weight: int, bias: int, output: int, stride: int = 1, **settings: int) -> None:
        """CONV_2D with padding so that the size stays, as far as the stride lets it."""
        settings = {"Padding": tflite.Padding.SAME, "StrideH": stride, "StrideW": stride, **settings}
        dilation = {"DilationHFactor": 1, "DilationWFactor": 1}
        self.operator("CONV_2D", [data, weight, bias], [output], "Conv2DOptions", **dilation, **settings)

    def finish(self, *outputs: int) -> bytes:
        """The file's bytes."""
        b = self.builder
        read, written = self.vector(self.inputs, "Int32"), self.vector(list(outputs), "Int32")
        tensors = self.vector(self.tensors, "UOffsetTRelative")
        operators = self.vector(self.operators, "UOffsetTRelative")
        tflite.SubGraphStart(b)
        tflite.SubGraphAddTensors(b, tensors)
        tflite.SubGraphAddInputs(b, read)
        tflite.SubGraphAddOutputs(b, written)
        tflite.SubGraphAddOperators(b, operators)
        subgraphs = self.vector([tflite.SubGraphEnd(b)], "UOffsetTRelative")
        codes = self.vector([self.code(number) for number, _ in self.codes], "UOffsetTRelative")
        buffers = self.vector([self.buffer(content) for content in self.buffers], "UOffsetTRelative")
        tflite.ModelStart(b)
        tflite.ModelAddVersion(b, 3)
        tflite.ModelAddOperatorCodes(b, codes)
        tflite.ModelAddSubgraphs(b, subgraphs)
        tflite.ModelAddBuffers(b, buffers)
        b.Finish(tflite.ModelEnd(b), b"TFL3")
        return bytes(b.Output())

    def code(self, number: int) -> int:
        """An operator's entry in the table of those that occur."""
        tflite.OperatorCodeStart(self.builder)
        tflite.OperatorCodeAddDeprecatedBuiltinCode(self.builder, min(number, 127))
        tflite.OperatorCodeAddBuiltinCode(self.builder, number)
        tflite.OperatorCodeAddVersion(self.builder, 1)
        return tflite.OperatorCodeEnd(self.builder)

    def buffer(self, content: bytes) -> int:
        """A buffer of values, aligned as interpreters want them."""
        data = None
        if content:
            self.builder.StartVector(1, len(content), 16)
            self.builder.head = self.builder.Head() - len(content)
            self.builder.Bytes[self.builder.Head() : self.builder.Head() + len(content)] = content
            data = self.builder.EndVector()
        tflite.BufferStart(self.builder)
        if data is not None:
            tflite.BufferAddData(self.builder, data)
        return tflite.BufferEnd(self.builder)

    def save(self, *outputs: int, name: str = "net") -> str:
        """Writes the file to a folder that goes when the tests end."""
        path = os.path.join(support.scratch(), f"{name}.tflite")
        with open(path, "wb") as file:
            file.write(self.finish(*outputs))
        return path
