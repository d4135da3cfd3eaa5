"""Prints the intrinsics of CPUs that add four products of bytes to each of 16 sums, as JSON for `tensorize.rs`.

    .venv/bin/python tvm/src/dot_products.py > tvm/src/dot_products.json

`vnni` is one instruction (vpdpbusd of AVX-512 VNNI); `portable` takes the bytes out of words by shifts, on any CPU that has its
lowest byte first.
"""

import json

import tvm
from tvm.script import tirx as T


@T.prim_func(s_tir=True)
def computes(
    A: T.Buffer((4,), "uint8", offset_factor=1),
    B: T.Buffer((16, 4), "int8", offset_factor=1),
    C: T.Buffer((16,), "int32", offset_factor=1, scope="local"),
) -> None:
    with T.sblock("root"):
        T.reads(C[0:16], A[0:4], B[0:16, 0:4])
        T.writes(C[0:16])
        for i in T.serial(0, 16):
            for k in T.serial(0, 4):
                with T.sblock("update"):
                    vi, vk = T.axis.remap("SR", [i, k])
                    C[vi] = C[vi] + T.cast(A[vk], "int32") * T.cast(B[vi, vk], "int32")


@T.prim_func(s_tir=True)
def vnni(
    A: T.Buffer((4,), "uint8", offset_factor=1),
    B: T.Buffer((16, 4), "int8", offset_factor=1),
    C: T.Buffer((16,), "int32", offset_factor=1, scope="local"),
) -> None:
    with T.sblock("root"):
        T.reads(C[0:16], A[0:4], B[0:16, 0:4])
        T.writes(C[0:16])
        C[T.ramp(T.int32(0), 1, 16)] = T.call_llvm_pure_intrin(
            T.llvm_lookup_intrinsic_id("llvm.x86.avx512.vpdpbusd.512"),
            C.vload([0], dtype="int32x16"),
            T.reinterpret(T.broadcast(T.reinterpret(A.vload([0], "uint8x4"), dtype="int32"), 16), dtype="uint8x64"),
            B.vload([0, 0], dtype="int8x64"),
            dtype="int32x16",
        )


@T.prim_func(s_tir=True)
def portable(
    A: T.Buffer((4,), "uint8", offset_factor=1),
    B: T.Buffer((16, 4), "int8", offset_factor=1),
    C: T.Buffer((16,), "int32", offset_factor=1, scope="local"),
) -> None:
    with T.sblock("root"):
        T.reads(C[0:16], A[0:4], B[0:16, 0:4])
        T.writes(C[0:16])
        words = T.reinterpret(B.vload([0, 0], dtype="int8x64"), dtype="int32x16")
        C[T.ramp(T.int32(0), 1, 16)] = (
            C.vload([0], dtype="int32x16")
            + T.broadcast(T.cast(A[0], "int32"), 16)
            * T.shift_right(T.shift_left(words, T.broadcast(24, 16)), T.broadcast(24, 16))
            + T.broadcast(T.cast(A[1], "int32"), 16)
            * T.shift_right(T.shift_left(words, T.broadcast(16, 16)), T.broadcast(24, 16))
            + T.broadcast(T.cast(A[2], "int32"), 16)
            * T.shift_right(T.shift_left(words, T.broadcast(8, 16)), T.broadcast(24, 16))
            + T.broadcast(T.cast(A[3], "int32"), 16) * T.shift_right(words, T.broadcast(24, 16))
        )


does = {"dot_16x4_vnni": vnni, "dot_16x4_portable": portable}
print(json.dumps({name: [tvm.ir.save_json(f) for f in (computes, function)] for name, function in does.items()}))
