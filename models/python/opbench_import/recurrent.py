"""LSTM, GRU and RNN nodes as basic operators, because the frontend has none of them.

The input projection of all time steps is one matrix product; each step is then one recurrent product (two for a GRU
that resets before it) and its gates. Formulas and gate orders (LSTM: i o f c, GRU: z r h) are those of the ONNX
operator specification. Initial states stay run-time values, so that every step costs the same.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import onnx
from onnx import helper

from .emit import Emitter
from .errors import unsupported
from .onnx_graph import OnnxGraph
from .params import Param, normal, with_value, without_value

SUPPORTED = frozenset({"LSTM", "GRU", "RNN"})
GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}
DEFAULT_ACTIVATIONS = {"LSTM": ["Sigmoid", "Tanh", "Tanh"], "GRU": ["Sigmoid", "Tanh"], "RNN": ["Tanh"]}
ACTIVATIONS: dict[str, dict[str, float | None]] = {
    "Sigmoid": {},
    "Tanh": {},
    "Relu": {},
    "Softsign": {},
    "Softplus": {},
    "HardSigmoid": {"alpha": 0.2, "beta": 0.5},
    "LeakyRelu": {"alpha": 0.01},
    "ThresholdedRelu": {"alpha": 1.0},
    "Elu": {"alpha": 1.0},
    "Affine": {"alpha": None, "beta": None},
    "ScaledTanh": {"alpha": None, "beta": None},
}
"""Functions and their numbers, with the defaults of ONNX's operators of those names; None if ONNX has no default."""


def unroll(graph: OnnxGraph) -> None:
    """Replaces every recurrent node and recomputes types."""
    if not any(n.op_type in SUPPORTED for n in graph.nodes):
        return
    nodes: list[onnx.NodeProto] = []
    for node in graph.nodes:
        nodes += Unrolled(graph, node).build() if node.op_type in SUPPORTED else [node]
    graph.nodes = nodes
    graph.drop_unused()
    graph.infer()


@dataclass
class Direction:
    """Weights of one direction, ready for products: ``w`` [I, G*H], ``r`` [H, G*H], biases [G*H] or None."""

    w: str
    r: Param
    input_bias: str | None
    reset_bias: str | None
    activations: list[tuple[str, dict[str, float]]]
    """Functions with their numbers."""
    reverse: bool
    peepholes: list[str]
    """Weights [H] by which the cell reaches the gates i, o and f; empty without."""


class Unrolled(Emitter):
    """One recurrent node on its way to basic operators."""

    def __init__(self, graph: OnnxGraph, node: onnx.NodeProto) -> None:
        super().__init__(graph, node)
        self.inputs = list(node.input) + [""] * (8 - len(node.input))
        self.batch_first = self.options.get("layout", 0) == 1
        shape = graph.shape(node.input[0])
        self.refuse(shape)
        first, second, self.features = shape
        self.batch, self.steps = (first, second) if self.batch_first else (second, first)
        recurrence = graph.params[self.inputs[2]]
        self.directions, _, self.hidden = recurrence.shape
        self.gates = GATES[node.op_type]
        self.reset_after = self.options.get("linear_before_reset", 0) == 1
        lengths = graph.value(self.inputs[4]) if self.inputs[4] else None
        whole = not self.inputs[4] or lengths is not None and bool(np.all(lengths == self.steps))
        self.lengths = "" if whole else self.inputs[4]

    def refuse(self, shape: tuple | None) -> None:
        """Rejects nodes that the unrolling does not cover, by name."""
        op = self.node.op_type
        names = self.options.get("activations")
        reasons = {
            "its input has no static shape": shape is None or len(shape) != 3,
            "its weights are computed by the model": any(self.inputs[i] not in self.graph.params for i in (1, 2))
            or bool(self.inputs[3])
            and self.inputs[3] not in self.graph.params,
            "its peephole weights are computed by the model": bool(self.inputs[7])
            and self.inputs[7] not in self.graph.params,
            "it uses an activation other than " + ", ".join(ACTIVATIONS): bool(names)
            and any(text(a) not in ACTIVATIONS for a in names),
        }
        for reason, holds in reasons.items():
            if holds:
                raise unsupported(
                    op,
                    self.label,
                    f"operator {op} (node '{self.label}') cannot be unrolled: {reason}; export the model without that",
                )

    def columns(self, value: str, gate: int, count: int = 1) -> str:
        """Columns of ``count`` gates from a [B, G*H] tensor."""
        start = gate * self.hidden
        return self.emit("Slice", [value, self.ints([start]), self.ints([start + count * self.hidden]), self.ints([1])])

    def reshape(self, value: str, shape: list[int]) -> str:
        """A view of ``value``."""
        return self.emit("Reshape", [value, self.ints(shape)])

    def build(self) -> list[onnx.NodeProto]:
        """All nodes that replace this one."""
        sequence = self.node.input[0]
        if self.batch_first:
            sequence = self.emit("Transpose", [sequence], perm=[1, 0, 2])
        finished = [self.direction(d, sequence) for d in range(self.directions)]
        outputs = list(self.node.output) + [""] * (3 - len(self.node.output))
        if outputs[0]:
            self.name_sequence([f[0] for f in finished], outputs[0])
        for position, output in ((1, outputs[1]), (2, outputs[2])):
            if output:
                self.name_state([f[position] for f in finished], output)
        return self.nodes

    def name_sequence(self, per_direction: list[list[str]], output: str) -> None:
        """Joins the states of all steps into Y: [S, D, B, H], or [B, S, D, H] when batch comes first."""
        joined = []
        for states in per_direction:
            whole = self.emit("Concat", states, axis=0) if len(states) > 1 else states[0]
            joined.append(self.reshape(whole, [self.steps, 1, self.batch, self.hidden]))
        value = self.emit("Concat", joined, axis=1) if len(joined) > 1 else joined[0]
        if self.batch_first:
            value = self.emit("Transpose", [value], perm=[2, 0, 1, 3])
        self.nodes[-1].output[0] = output

    def name_state(self, states: list[str], output: str) -> None:
        """Joins final states into Y_h or Y_c: [D, B, H], or [B, D, H] when batch comes first."""
        value = self.emit("Concat", states, axis=0) if len(states) > 1 else states[0]
        value = self.reshape(value, [self.directions, self.batch, self.hidden])
        if self.batch_first:
            value = self.emit("Transpose", [value], perm=[1, 0, 2])
        self.nodes[-1].output[0] = output

    def weights(self, index: int) -> Direction:
        """Slices the stacked weights of one direction and sums the biases that are always added together."""
        graph, width = self.graph, self.gates * self.hidden
        std = normal(1.0 / math.sqrt(self.hidden))
        w, r = (self.matrix(graph.params[self.inputs[i]], index, std) for i in (1, 2))
        functions = self.functions()
        own = len(DEFAULT_ACTIVATIONS[self.node.op_type])
        input_bias = reset_bias = None
        if self.inputs[3]:
            bias = graph.params[self.inputs[3]]
            if bias.value is None:
                total = without_value((width,), bias.dtype, normal(0.01))
                reset = without_value((width,), bias.dtype, normal(0.01))
            else:
                from_input, from_state = bias.value[index][:width].copy(), bias.value[index][width:].copy()
                separate = np.zeros_like(from_state)
                if self.node.op_type == "GRU" and self.reset_after:
                    # The candidate's recurrent bias is inside the product with the reset gate: it cannot move.
                    separate[2 * self.hidden :] = from_state[2 * self.hidden :]
                total, reset = with_value(from_input + from_state - separate), with_value(separate)
            input_bias = graph.add_param(graph.fresh(self.inputs[3]), total)
            reset_bias = graph.add_param(graph.fresh(self.inputs[3]), reset)
        direction = self.options.get("direction", "forward")
        backwards = direction == "reverse" or direction == "bidirectional" and index == 1
        name = graph.add_param(graph.fresh(self.inputs[1]), w)
        chosen = functions[index * own : (index + 1) * own]
        return Direction(name, r, input_bias, reset_bias, chosen, backwards, self.peepholes(index))

    def functions(self) -> list[tuple[str, dict[str, float]]]:
        """The functions of all directions. Lists of alphas and betas hold numbers for those functions alone that have one."""
        names = self.options.get("activations") or DEFAULT_ACTIVATIONS[self.node.op_type] * self.directions
        given = {key: list(self.options.get(f"activation_{key}", [])) for key in ("alpha", "beta")}
        found = []
        for name in map(text, names):
            numbers = {key: given[key].pop(0) if given[key] else default for key, default in ACTIVATIONS[name].items()}
            if None in numbers.values():
                raise self.refusal(f"its activation {name} lacks activation_alpha or activation_beta, which have no default")
            found.append((name, numbers))
        return found

    def peepholes(self, index: int) -> list[str]:
        """The peephole weights of one direction, gate by gate."""
        if not self.inputs[7]:
            return []
        stacked, hidden = self.graph.params[self.inputs[7]], self.hidden
        fill = normal(1.0 / math.sqrt(hidden))
        parts = []
        for gate in range(3):
            part = stacked.derive((hidden,), lambda v, g=gate: v[index][g * hidden : (g + 1) * hidden])
            part.fill = fill
            parts.append(self.graph.add_param(self.graph.fresh(self.inputs[7]), part))
        return parts

    def matrix(self, stacked: Param, index: int, fill: dict) -> Param:
        """One direction's [rows, columns] of a [D, rows, columns] weight, transposed for a product from the left."""
        part = stacked.derive(stacked.shape[1:], lambda v: v[index])
        part.fill = fill
        return part.transposed((1, 0))

    def initial(self, position: int, index: int) -> str:
        """The initial state of one direction: [B, H]."""
        graph, name = self.graph, self.inputs[position]
        shape = (self.batch, self.hidden)
        if not name:
            zero = with_value(np.broadcast_to(np.float32(0), shape).astype(graph.dtype(self.node.input[0])))
            state = graph.add_param(graph.fresh("zero_state"), zero)
            graph.runtime.add(state)
            return state
        if self.batch_first:
            name = self.emit("Transpose", [name], perm=[1, 0, 2])
        if self.directions > 1:
            name = self.emit("Slice", [name, self.ints([index]), self.ints([index + 1]), self.ints([0])])
        return self.reshape(name, list(shape))

    def direction(self, index: int, sequence: str) -> tuple[list[str], str, str]:
        """States of all steps in time order, the final state and the final cell (empty but for an LSTM)."""
        weights = self.weights(index)
        projected = self.emit("MatMul", [sequence, weights.w])
        if weights.input_bias:
            projected = self.emit("Add", [projected, weights.input_bias])
        steps = self.split_steps(projected)
        state = self.initial(5, index)
        cell = self.initial(6, index) if self.node.op_type == "LSTM" else ""
        recurrence = self.recurrences(weights)
        order = range(self.steps)[::-1] if weights.reverse else range(self.steps)
        states = [""] * self.steps
        for t in order:
            before, cell_before = state, cell
            if self.node.op_type == "LSTM":
                state, cell = self.lstm_step(steps[t], state, cell, recurrence, weights)
            elif self.node.op_type == "GRU":
                state = self.gru_step(steps[t], state, recurrence, weights)
            else:
                state = self.activate(weights, 0, self.add_product(steps[t], state, recurrence[0]))
            states[t] = state
            if self.lengths:
                # After its end, a sequence keeps its state and has no results.
                nothing = self.constant(0, self.graph.dtype(self.node.input[0]))
                within = self.within(t)
                states[t] = self.emit("Where", [within, state, nothing])
                state = self.emit("Where", [within, state, before])
                cell = self.emit("Where", [within, cell, cell_before]) if cell else cell
        return states, state, cell

    def within(self, step: int) -> str:
        """[B, 1]: which sequences have such a step."""
        lengths = self.reshape(self.cast(self.lengths, "int64"), [self.batch, 1])
        return self.emit("Less", [self.ints([step]), lengths])

    def split_steps(self, projected: str) -> list[str]:
        """The projection of each step: [B, G*H]."""
        width = self.gates * self.hidden
        if self.steps == 1:
            return [self.reshape(projected, [self.batch, width])]
        pieces = [self.graph.fresh(self.label) for _ in range(self.steps)]
        self.nodes.append(
            helper.make_node("Split", [projected, self.ints([1] * self.steps)], pieces, name=self.label, axis=0)
        )
        return [self.reshape(p, [self.batch, width]) for p in pieces]

    def recurrences(self, weights: Direction) -> list[str]:
        """The recurrent matrices of a step: one, or (z r) and (h) for a GRU that resets first."""
        graph, r, hidden = self.graph, weights.r, self.hidden
        if self.node.op_type != "GRU" or self.reset_after:
            return [graph.add_param(graph.fresh(self.inputs[2]), r)]
        parts = (slice(0, 2 * hidden), slice(2 * hidden, 3 * hidden))
        derived = [r.derive((hidden, p.stop - p.start), lambda v, p=p: v[:, p]) for p in parts]
        return [graph.add_param(graph.fresh(self.inputs[2]), d) for d in derived]

    def activate(self, weights: Direction, which: int, value: str) -> str:
        """Applies the activation of a position (f, g, h), to what ``clip`` leaves of the value; ONNX Runtime does not limit
        the cell of an LSTM (h)."""
        if "clip" in self.options and which < 2:
            bound, dtype = float(self.options["clip"]), self.graph.dtype(self.node.input[0])
            value = self.emit("Clip", [value, self.constant(-bound, dtype), self.constant(bound, dtype)])
        name, numbers = weights.activations[which]
        if name not in ("Affine", "ScaledTanh"):
            return self.emit(name, [value], **numbers)
        dtype = self.graph.dtype(self.node.input[0])
        alpha, beta = (self.constant(numbers[key], dtype) for key in ("alpha", "beta"))
        if name == "Affine":
            return self.emit("Add", [self.emit("Mul", [value, alpha]), beta])
        return self.emit("Mul", [self.emit("Tanh", [self.emit("Mul", [value, beta])]), alpha])

    def add_product(self, projected: str, state: str, matrix: str) -> str:
        """``state * R + projection``."""
        return self.emit("Add", [self.emit("MatMul", [state, matrix]), projected])

    def lstm_step(
        self, projected: str, state: str, cell: str, recurrence: list[str], weights: Direction
    ) -> tuple[str, str]:
        """c' = f c + i g; h' = o tanh(c'); peepholes let the cell into the gates, input_forget makes f = 1 - i."""
        gates = self.add_product(projected, state, recurrence[0])

        def gate(place: int, seen: str) -> str:
            value = self.columns(gates, place)
            if weights.peepholes:
                value = self.emit("Add", [value, self.emit("Mul", [seen, weights.peepholes[place]])])
            return self.activate(weights, 0, value)

        i = gate(0, cell)
        # With peepholes the output gate sees the new cell.
        o = "" if weights.peepholes else gate(1, cell)
        if self.options.get("input_forget", 0):
            f = self.emit("Sub", [self.constant(1, self.graph.dtype(self.node.input[0])), i])
        else:
            f = gate(2, cell)
        g = self.activate(weights, 1, self.columns(gates, 3))
        cell = self.emit("Add", [self.emit("Mul", [f, cell]), self.emit("Mul", [i, g])])
        o = o or gate(1, cell)
        return self.emit("Mul", [o, self.activate(weights, 2, cell)]), cell

    def gru_step(self, projected: str, state: str, recurrence: list[str], weights: Direction) -> str:
        """h' = (1 - z) h~ + z h, written as h~ + z (h - h~)."""
        if self.reset_after:
            product = self.emit("MatMul", [state, recurrence[0]])
            if weights.reset_bias:
                product = self.emit("Add", [product, weights.reset_bias])
            z, r = (
                self.activate(weights, 0, self.emit("Add", [self.columns(projected, n), self.columns(product, n)]))
                for n in range(2)
            )
            inner = self.emit("Add", [self.columns(projected, 2), self.emit("Mul", [r, self.columns(product, 2)])])
        else:
            gates = self.activate(weights, 0, self.add_product(self.columns(projected, 0, 2), state, recurrence[0]))
            z, r = self.columns(gates, 0), self.columns(gates, 1)
            inner = self.add_product(self.columns(projected, 2), self.emit("Mul", [r, state]), recurrence[1])
        candidate = self.activate(weights, 1, inner)
        return self.emit("Add", [candidate, self.emit("Mul", [z, self.emit("Sub", [state, candidate])])])


def text(value: bytes | str) -> str:
    """An ONNX string."""
    return value.decode() if isinstance(value, bytes) else value
