"""StableHLO modules: that TVM computes what JAX does, and what is refused in which words.

Needs the extra of ``scripts/setup --with stablehlo``; without it these tests are left out.
"""

from __future__ import annotations

import os
import unittest

import numpy as np
from opbench_import import extras, pipeline
from opbench_import.errors import ImportFailure
from opbench_import.request import Request

from . import support

try:
    jax = extras.load("stablehlo", "jax", "")
    jnp, lax = jax.numpy, jax.lax
except ImportFailure:
    jax = None

RANDOM = np.random.default_rng(0)


def weight(*shape: int) -> np.ndarray:
    """A seeded weight."""
    return (RANDOM.standard_normal(shape) * 0.3).astype(np.float32)


def import_file(content: str | bytes) -> support.Imported:
    """Imports a module's text or bytes."""
    folder = support.scratch()
    path = os.path.join(folder, "net.mlir")
    with open(path, "wb") as file:
        file.write(content.encode() if isinstance(content, str) else content)
    out = support.scratch()
    pipeline.run(Request("stablehlo", "net", out, file=path))
    return support.Imported(out)


@unittest.skipIf(jax is None, "scripts/setup --with stablehlo has not run")
class Numbers(unittest.TestCase):
    """Results against JAX's own."""

    def check(self, function, *values: np.ndarray, binary: bool = False) -> support.Imported:
        lowered = jax.jit(function).lower(*values)
        content = lowered.as_text()
        if binary:
            from jaxlib.mlir.dialects import stablehlo

            content = stablehlo.serialize_portable_artifact_str(content, stablehlo.get_minimum_version())
        imported = import_file(content)
        expected = jax.tree.leaves(function(*values))
        ours = imported.run({f"arg{i}": v for i, v in enumerate(values)})
        difference = support.largest_difference(ours, [np.asarray(e) for e in expected])
        self.assertLess(difference, 1e-5)
        return imported

    def test_a_convolutional_network(self):
        first, depthwise, last = weight(3, 3, 3, 8), weight(3, 3, 1, 8), weight(8, 5)
        layout = {"dimension_numbers": ("NHWC", "HWIO", "NHWC")}
        pool = ((1, 2, 2, 1), (1, 2, 2, 1), "VALID")

        def network(x):
            y = lax.conv_general_dilated(x, first, (1, 1), "SAME", **layout)
            y = jax.nn.relu(y + jnp.arange(8, dtype=jnp.float32) * 0.1)
            y = lax.conv_general_dilated(y, depthwise, (2, 2), "SAME", feature_group_count=8, **layout)
            y = lax.reduce_window(jax.nn.gelu(y), -jnp.inf, lax.max, *pool)
            y = lax.reduce_window(y, 0.0, lax.add, (1, 2, 2, 1), (1, 1, 1, 1), "SAME")
            y = y.mean((1, 2)) @ last + np.arange(5, dtype=np.float32)
            return jax.nn.softmax(y), jnp.tanh(y)

        x = RANDOM.standard_normal((2, 8, 8, 3)).astype(np.float32)
        for binary in (False, True):
            imported = self.check(network, x, binary=binary)
            names = [o["name"] for o in imported.graph["operators"]]
            self.assertIn("conv2d_add_relu", names)
            self.assertEqual(names.count("transpose"), 1, "channels come first once")

    def test_convolutions_with_other_orders_of_axes(self):
        w = weight(6, 4, 3, 3)

        def network(x):
            y = lax.conv_general_dilated(x, w, (2, 1), ((1, 0), (2, 1)), rhs_dilation=(1, 2))
            return lax.conv_general_dilated(
                y, weight(3, 6, 2, 2) * 0 + 0.5, (1, 1), "VALID", dimension_numbers=("NCHW", "OIHW", "CNHW")
            )

        self.check(network, RANDOM.standard_normal((2, 4, 9, 9)).astype(np.float32))

    def test_attention(self):
        table, products = weight(50, 16), [weight(16, 16) for _ in range(3)]

        def layer(tokens):
            x = jnp.take(table, tokens, axis=0, mode="clip")
            q, k, v = ((x @ m).reshape(2, 7, 4, 4) for m in products)
            scores = jax.nn.softmax(jnp.einsum("bqhd,bkhd->bhqk", q, k) / 2.0)
            scores = jnp.where(jnp.tril(jnp.ones((7, 7), bool)), scores, 0.0)
            out = jnp.einsum("bhqk,bkhd->bqhd", scores, v).reshape(2, 7, 16)
            centred = out - out.mean(-1, keepdims=True)
            return centred / jnp.sqrt((centred**2).mean(-1, keepdims=True) + 1e-5)

        imported = self.check(layer, RANDOM.integers(0, 50, (2, 7)).astype(np.int32))
        self.assertEqual(imported.graph["inputs"][0]["fill"], {"kind": "int", "low": 0, "high": 50})

    def test_single_operations(self):
        x, y = (RANDOM.standard_normal((3, 4)).astype(np.float32) for _ in range(2))
        column = RANDOM.standard_normal((3, 1)).astype(np.float32)
        table = weight(9, 4)
        for function, values in (
            (lambda i: jnp.asarray(table)[i], (np.int32([[1, 8, -1]]),)),
            (lambda a: lax.broadcast_in_dim(a, (4, 2, 3), (2, 0)), (x,)),
            (lambda a, b: lax.dot_general(a, b, (((0, 1), (0, 1)), ((), ()))), (x, y)),
            (lambda a, b: lax.dot_general(a, b, (((1,), (1,)), ((0,), (0,)))), (x, y)),
            (lambda a, b: a * b, (x, column)),
            (lambda a: lax.round(a * 4 + 0.5), (np.float32([[-2.5, -1.0, -0.5, 0.5, 1.5]]),)),
            (lambda a: lax.pad(a, np.float32(2.0), ((1, 0, 0), (0, 2, 0))), (x,)),
            (lambda a: lax.slice(a, (0, 1), (3, 4), (2, 1)), (x,)),
            (lambda a, b: jnp.concatenate([a, lax.clamp(-0.5, b, 0.5)], 1), (x, y)),
            (lambda a: (a.max(0), a.min(1), a.prod(0), (a > 0).astype(jnp.int32)), (x,)),
            (lambda a: lax.sinh(a) + lax.erf(a) + lax.cosh(a) - lax.rsqrt(a * a + 1.0), (x,)),
            (lambda a: jnp.log1p(jnp.abs(a)) + jnp.expm1(a) + jnp.cbrt(a) + jnp.tan(a / 9), (x,)),
            (lambda a, b: (jnp.arctan2(a, b), jnp.remainder(a, b)), (x, y)),
            (lambda i: (i // 3, i % -3, (i << 2) >> 1, (i & 3) ^ 1), (np.int32([[7, -7, 2, 0]]),)),
            (lambda a: (jnp.argmax(a, 1), jnp.argmin(a, 0), jnp.any(a > 1, 1), jnp.all(a > -1, 0)), (x,)),
            (lambda a: (a[:, ::-1], jnp.where(jnp.isfinite(a), a, 0)), (x,)),
            (lambda a: (jnp.pad(a, ((1, 2), (0, 1))), jnp.pad(a, ((1, 0), (0, 1)), mode="edge")), (x,)),
        ):
            self.check(function, *values)

    def test_places(self):
        x, part = RANDOM.standard_normal((3, 4)).astype(np.float32), RANDOM.standard_normal((2, 2)).astype(np.float32)
        at, table = np.int32([[0, 3, -1], [2, 1, 0]]), weight(9, 4)
        for function, values in (
            (lambda i: jnp.take(table, i, axis=0), (at,)),
            (lambda a, i: jnp.take(a, i, axis=1), (x, at)),
            (lambda a, i: jnp.take_along_axis(a[:2], i, 1), (x, at)),
            (lambda a, i: lax.dynamic_slice(a, (i, 1), (2, 2)), (x, np.int32(1))),
            (lambda a, b, i: lax.dynamic_update_slice(a, b, (i, 1)), (x, part, np.int32(7))),
            (lambda a: jax.image.resize(a.reshape(1, 3, 4, 1), (1, 6, 8, 1), "nearest"), (x,)),
        ):
            self.check(function, *values)

    def test_signals_and_transposed_convolutions(self):
        kernel, signal = weight(3, 2, 4, 5), RANDOM.standard_normal((1, 9, 4)).astype(np.float32)
        layout = ("NHWC", "HWIO", "NHWC")
        self.check(
            lambda a: (
                lax.conv_transpose(a.reshape(1, 3, 3, 4), kernel, (2, 3), "SAME", dimension_numbers=layout),
                lax.reduce_window(a, -jnp.inf, lax.max, (1, 3, 1), (1, 2, 1), "SAME"),
            ),
            signal,
        )

    def test_loops_of_a_known_number_of_rounds(self):
        recurrent, steps = weight(4, 4), RANDOM.standard_normal((5, 2, 4)).astype(np.float32)

        def layer(x):
            return lax.scan(lambda h, v: ((n := jnp.tanh(h @ recurrent + v)), n * 2), jnp.zeros((2, 4)), x)

        self.check(layer, steps)


HEAD = "module {\n  func.func public @main(%arg0: tensor<4xf32>) -> tensor<4xf32> {\n"


@unittest.skipIf(jax is None, "scripts/setup --with stablehlo has not run")
class Refusals(unittest.TestCase):
    """Modules that cannot be imported."""

    def refused(self, content: str | bytes, kind: str, *words: str) -> None:
        with self.assertRaises(ImportFailure) as caught:
            import_file(content)
        self.assertEqual(caught.exception.kind, kind, caught.exception)
        for word in words:
            self.assertIn(word, str(caught.exception))

    def test_what_is_no_module(self):
        self.refused("", "corrupt_model", "main")
        self.refused("graph {", "corrupt_model", "not a StableHLO module")
        self.refused(b"\xff\xfe\x00", "corrupt_model", "not a StableHLO module")
        self.refused(b"ML\xefR\x01cut short", "corrupt_model", "not a StableHLO module")
        self.refused(HEAD + "  return %arg1 : tensor<4xf32>\n}}", "corrupt_model", "undeclared")

    def test_operations_without_a_rule_are_named_with_their_place(self):
        body = HEAD + "    %0 = chlo.digamma %arg0 : tensor<4xf32> -> tensor<4xf32>\n    return %0 : tensor<4xf32>\n  }\n}\n"
        self.refused(body, "unsupported_operator", "chlo.digamma", "line 3:")
        text = jax.jit(lambda a: lax.while_loop(lambda s: s[0] < 9, lambda s: s + 1, a)).lower(np.float32([1])).as_text()
        self.refused(text, "unsupported_operator", "stablehlo.while")
        text = jax.jit(lambda a: lax.conv_transpose(a, weight(3, 2, 2), (2,), "SAME")).lower(weight(1, 8, 2)).as_text()
        self.refused(text, "unsupported_operator", "stablehlo.convolution", "transposed")
        text = jax.jit(jnp.sort).lower(weight(4)).as_text()
        self.refused(text, "unsupported_operator", "stablehlo.sort")

    def test_open_and_impossible_sizes(self):
        self.refused(HEAD.replace("4x", "?x") + "  return %arg0 : tensor<?xf32>\n}}", "unsupported_operator", "fixed")
        huge = "    %0 = stablehlo.iota dim = 0 : tensor<99999999999xf32>\n"
        self.refused(HEAD + huge + "    return %arg0 : tensor<4xf32>\n  }\n}\n", "unsupported_operator", "too large")

    def test_functions_that_call_themselves_or_too_many(self):
        call = "    %0 = func.call @main(%arg0) : (tensor<4xf32>) -> tensor<4xf32>\n    return %0 : tensor<4xf32>\n  }\n}\n"
        self.refused(HEAD + call, "unsupported_operator", "calls itself")
        twice = (
            "  func.func private @f{0}(%a: tensor<4xf32>) -> tensor<4xf32> {{\n"
            "    %0 = func.call @f{1}(%a) : (tensor<4xf32>) -> tensor<4xf32>\n"
            "    %1 = func.call @f{1}(%0) : (tensor<4xf32>) -> tensor<4xf32>\n"
            "    return %1 : tensor<4xf32>\n  }}\n"
        )
        chain = "".join(twice.format(i, i + 1) for i in range(40))
        last = "  func.func private @f40(%a: tensor<4xf32>) -> tensor<4xf32> {\n    return %a : tensor<4xf32>\n  }\n"
        self.refused(HEAD + call.replace("@main", "@f0")[:-2] + chain + last + "}\n", "unsupported_operator", "more than")
