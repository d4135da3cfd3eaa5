"""Each rewrite leaves a graph's result as it was; checked in ONNX Runtime on small graphs."""

import unittest

import numpy as np
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

from builder.graph import Graph, ZooError, fold
from builder.passes import (
    drop_no_ops,
    drop_zero_states,
    fold_batch_norm,
    fold_class_token,
    index_before_transpose,
    merge_pool_padding,
    name_weights,
    negative_last_index,
)

OPSET = [helper.make_opsetid("", 17)]
RANDOM = np.random.default_rng(7)


def values(*shape):
    """Random float32 values."""
    return RANDOM.standard_normal(shape).astype(np.float32)


def make(nodes, data, weights=None, constants=None):
    """A Graph from nodes that read "data" and compute "out"."""
    tensors = {**(weights or {}), **(constants or {})}
    graph = helper.make_graph(
        nodes,
        "test",
        [helper.make_tensor_value_info("data", TensorProto.FLOAT, data.shape)],
        [helper.make_tensor_value_info("out", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(array, name) for name, array in tensors.items()],
    )
    model = helper.make_model(graph, opset_imports=OPSET, ir_version=8)
    result = Graph(model, set(weights or {}))
    result.infer_shapes()
    return result


def run(graph, data):
    """The graph's result."""
    tensors = {**graph.weights, **graph.constants}
    proto = helper.make_graph(
        graph.nodes,
        "test",
        graph.inputs,
        [helper.make_tensor_value_info(graph.outputs[0], TensorProto.FLOAT, None)],
        [numpy_helper.from_array(np.asarray(array), name) for name, array in tensors.items()],
    )
    model = helper.make_model(proto, opset_imports=OPSET, ir_version=8)
    session = onnxruntime.InferenceSession(model.SerializeToString())
    return session.run(None, {"data": data})[0]


def operators(graph):
    """Operator types, in order."""
    return [node.op_type for node in graph.nodes]


class Rewrites(unittest.TestCase):
    """One test a pass."""

    def unchanged(self, graph, data, rewrite, expected):
        before = run(graph, data)
        rewrite(graph)
        graph.prune()
        self.assertEqual(operators(graph), expected)
        np.testing.assert_allclose(run(graph, data), before, rtol=1e-5, atol=1e-5)

    def batch_norm(self, with_bias):
        weights = {
            "conv.weight": values(4, 3, 3, 3),
            "bn.weight": values(4),
            "bn.bias": values(4),
            "bn.mean": values(4),
            "bn.var": np.abs(values(4)) + 0.5,
        }
        inputs = ["data", "conv.weight"]
        if with_bias:
            weights["conv.bias"] = values(4)
            inputs.append("conv.bias")
        norm = ["conv", "bn.weight", "bn.bias", "bn.mean", "bn.var"]
        nodes = [
            helper.make_node("Conv", inputs, ["conv"], "conv"),
            helper.make_node("BatchNormalization", norm, ["out"], "bn", epsilon=1e-3),
        ]
        return nodes, weights

    def test_batch_norm_goes_into_the_convolution(self):
        data = values(2, 3, 8, 8)
        for with_bias in (False, True):
            nodes, weights = self.batch_norm(with_bias)
            graph = make(nodes, data, weights)
            self.unchanged(graph, data, fold_batch_norm, ["Conv"])
            self.assertEqual(set(graph.weights), {"conv.weight", "conv.bias"})

    def test_batch_norm_stays_apart_if_the_convolution_has_other_readers(self):
        data = values(2, 3, 8, 8)
        nodes, weights = self.batch_norm(False)
        nodes[1].output[0] = "normal"
        nodes.append(helper.make_node("Add", ["normal", "conv"], ["out"], "add"))
        graph = make(nodes, data, weights)
        self.unchanged(graph, data, fold_batch_norm, ["Conv", "Mul", "Add", "Add"])
        self.assertEqual(graph.weights["bn.scale"].shape, (4, 1, 1))

    def test_padding_goes_into_the_pooling(self):
        data = values(1, 2, 6, 6)
        widths = np.array([0, 0, 0, 0, 0, 0, 1, 1], np.int64)
        for pool, value in (("MaxPool", -np.inf), ("AveragePool", 0.0)):
            constants = {"widths": widths, "value": np.array(value, np.float32)}
            nodes = [
                helper.make_node("Pad", ["data", "widths", "value"], ["padded"], "pad"),
                helper.make_node(pool, ["padded"], ["out"], "pool", kernel_shape=[2, 2]),
            ]
            graph = make(nodes, data, constants=constants)
            self.unchanged(graph, data, merge_pool_padding, [pool])

    def test_padding_that_can_win_the_maximum_is_refused(self):
        constants = {"widths": np.array([0, 0, 0, 0, 0, 0, 1, 1], np.int64)}
        nodes = [
            helper.make_node("Pad", ["data", "widths"], ["padded"], "pad"),
            helper.make_node("MaxPool", ["padded"], ["out"], "pool", kernel_shape=[2, 2]),
        ]
        with self.assertRaises(ZooError):
            merge_pool_padding(make(nodes, values(1, 2, 6, 6), constants=constants))

    def test_no_ops_are_dropped_and_others_kept(self):
        data = values(1, 2, 6, 6)
        nodes = [
            helper.make_node("AveragePool", ["data"], ["a"], "unit", kernel_shape=[1, 1]),
            helper.make_node("Concat", ["a"], ["b"], "single", axis=1),
            helper.make_node(
                "AveragePool", ["b"], ["c"], "stride", kernel_shape=[1, 1], strides=[2, 2]
            ),
            helper.make_node("Concat", ["c", "c"], ["out"], "double", axis=1),
        ]
        graph = make(nodes, data)
        self.unchanged(graph, data, drop_no_ops, ["AveragePool", "Concat"])

    def test_class_token_goes_into_the_positions(self):
        data = values(2, 3, 4)
        weights = {"token": values(1, 1, 4), "positions": values(1, 4, 4)}
        constants = {"shape": np.array([2, 1, 4], np.int64)}
        nodes = [
            helper.make_node("Expand", ["token", "shape"], ["tokens"], "expand"),
            helper.make_node("Concat", ["tokens", "data"], ["all"], "concat", axis=1),
            helper.make_node("Add", ["all", "positions"], ["out"], "add"),
        ]
        graph = make(nodes, data, weights, constants)
        self.unchanged(graph, data, fold_class_token, ["Pad", "Add"])

    def test_zero_states_go_and_others_stay(self):
        data = values(5, 2, 3)
        weights = {"w": values(1, 16, 3), "r": values(1, 16, 4), "b": values(1, 32)}
        constants = {"h": np.zeros((1, 2, 4), np.float32), "c": values(1, 2, 4)}
        names = ["data", "w", "r", "b", "", "h", "c"]
        lstm = helper.make_node("LSTM", names, ["out"], "lstm", hidden_size=4)
        graph = make([lstm], data, weights, constants)
        self.unchanged(graph, data, drop_zero_states, ["LSTM"])
        self.assertEqual(list(graph.nodes[0].input), ["data", "w", "r", "b", "", "", "c"])

    def test_last_step_is_taken_before_the_transpose(self):
        data = values(5, 2, 3)
        constants = {"last": np.array(4, np.int64)}
        nodes = [
            helper.make_node("Transpose", ["data"], ["swapped"], "swap", perm=[1, 0, 2]),
            helper.make_node("Gather", ["swapped", "last"], ["out"], "take", axis=1),
        ]
        graph = make(nodes, data, constants=constants)

        def rewrite(graph):
            negative_last_index(graph)
            index_before_transpose(graph)

        self.unchanged(graph, data, rewrite, ["Gather"])
        self.assertEqual(graph.constants["last"], -1)

    def test_transpose_that_reorders_the_rest_stays(self):
        data = values(5, 2, 3)
        constants = {"first": np.array(0, np.int64)}
        nodes = [
            helper.make_node("Transpose", ["data"], ["swapped"], "swap", perm=[2, 0, 1]),
            helper.make_node("Gather", ["swapped", "first"], ["out"], "take", axis=1),
        ]
        graph = make(nodes, data, constants=constants)
        self.unchanged(graph, data, index_before_transpose, ["Transpose", "Gather"])

    def test_folding_keeps_weights_named(self):
        data = values(2, 3, 8)
        weights = {"fc.weight": values(4, 8)}
        nodes = [
            helper.make_node("Transpose", ["fc.weight"], ["turned"], "turn", perm=[1, 0]),
            helper.make_node("MatMul", ["data", "turned"], ["product"], "fc"),
            helper.make_node("Shape", ["product"], ["shape"], "shape"),
            helper.make_node("Reshape", ["product", "shape"], ["out"], "reshape"),
        ]
        graph = make(nodes, data, weights)

        def rewrite(graph):
            fold(graph)
            name_weights(graph)

        self.unchanged(graph, data, rewrite, ["MatMul", "Reshape"])
        self.assertEqual(graph.weights["fc.weight"].shape, (8, 4))
        self.assertEqual(graph.constants["shape"].tolist(), [2, 3, 4])


if __name__ == "__main__":
    unittest.main()
