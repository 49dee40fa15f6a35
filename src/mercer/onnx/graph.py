"""A builder of ONNX graphs: one call a node, numbers in one precision."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from itertools import count
from typing import TYPE_CHECKING, Any

import numpy as np

from mercer.data.frames import need

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from mercer._core.types import Array

# Operators are used as opset 13 has them (ONNX 1.8, 2020), and none whose form changed since: a graph runs
# on old runtimes and, stamped with a newer opset, on new ones.
OPSET = 13
IR_VERSION = 7  # the one that came with opset 13

Value = str  # the name of a tensor in the graph


@dataclass(frozen=True)
class Graph:
    """Nodes and stored tensors, in the order in which they were asked for.

    `op` writes one node and gives the name of its output. A number or an array among its inputs is stored:
    floating-point ones in the precision of the graph, whole numbers and booleans as they are.
    """

    dtype: np.dtype[
        Any
    ]  # float32 or float64: what floating-point numbers are stored and computed in
    prefix: str = ""
    nodes: list[Any] = field(default_factory=list)
    tensors: list[Any] = field(default_factory=list)
    numbers: Iterator[int] = field(default_factory=count)

    @property
    def is_double(self) -> bool:
        """Whether it computes in float64."""
        return self.dtype == np.float64

    def at(self, dtype: Any) -> Graph:
        """The same graph, written to in another precision."""
        return replace(self, dtype=np.dtype(dtype))

    # ── nodes ───────────────────────────────────────────────────────────────
    def op(self, kind: str, *inputs: Value | float | Array, **attributes: Any) -> Value:
        """One node with one output."""
        number = inputs[-1]
        if kind in ("Mul", "Div") and not isinstance(number, str) and self._looks_like_one(number):
            # Powers of two cost no digit.
            twice = self.op(kind, *inputs[:-1], np.asarray(2.0 * number))
            return self.op("Mul", twice, 0.5 if kind == "Mul" else 2.0)
        helper = need("onnx.helper", extra="onnx")
        names = [value if isinstance(value, str) else self.store(value) for value in inputs]
        out = self.name(kind)
        self.nodes.append(helper.make_node(kind, names, [out], name=f"{out}_node", **attributes))
        return out

    def _looks_like_one(self, value: float | Array) -> bool:
        """Whether onnxruntime would take this factor for 1 and leave it out.

        Its optimiser rounds a double to float32 before it looks (seen in 1.31): a γ of 1.000000001 would be
        gone, and with it 1e-9 of every exponent.
        """
        one = np.asarray(value)
        near = one.size == 1 and self.is_double and one.dtype.kind == "f"
        return bool(near and np.all(one != 1.0) and np.all(one.astype(np.float32) == 1.0))

    def store(self, value: float | Array) -> Value:
        """A tensor that travels with the graph."""
        array = np.asarray(value, order="C")
        if array.dtype.kind == "f":
            array = array.astype(self.dtype)
        name = self.name("stored")
        from_array = need("onnx.numpy_helper", extra="onnx").from_array
        self.tensors.append(from_array(array, name))
        return name

    def name(self, kind: str) -> Value:
        """A name that nothing else in the graph has."""
        return f"{self.prefix}{kind.lower()}_{next(self.numbers)}"

    def cast(self, x: Value) -> Value:
        """X in the precision of this graph."""
        return self.op("Cast", x, to=self.element_type)

    @property
    def element_type(self) -> int:
        """ONNX's number for the precision."""
        tensor = need("onnx", extra="onnx").TensorProto
        return int(tensor.DOUBLE if self.is_double else tensor.FLOAT)

    # ── what is needed everywhere ───────────────────────────────────────────
    def row_sum(self, x: Value) -> Value:  # (b, d) -> (b, 1)
        """Σ_j x_ij."""
        return self.op("ReduceSum", x, np.array([1]), keepdims=1)

    def squared_norms(self, x: Value) -> Value:  # (b, d) -> (b, 1)
        """‖x_i‖²."""
        return self.row_sum(self.op("Mul", x, x))

    def columns(self, x: Value, chosen: Any) -> Value:  # (b, d) -> (b, len(chosen))
        """Some of the columns, in this order."""
        return self.op("Gather", x, np.asarray(chosen, dtype=np.int64), axis=1)

    def power(self, x: Value, exponent: int) -> Value:
        """x^p for a whole p ≥ 1, by squaring: defined for negative x, and exact where products are."""
        out, square = None, x
        while True:
            if exponent & 1:
                out = square if out is None else self.op("Mul", out, square)
            exponent >>= 1
            if exponent == 0:
                assert out is not None  # p ≥ 1 has a highest bit
                return out
            square = self.op("Mul", square, square)

    def filled(self, x: Value, width: int, value: float) -> Value:  # (b, d) -> (b, width)
        """One number, as often as there are rows in x times `width`."""
        rows = self.op("Slice", self.op("Shape", x), np.array([0]), np.array([1]))
        shape = self.op("Concat", rows, np.array([width]), axis=0)
        return self.op("Expand", value, shape)

    def over_features(
        self, x: Value, z: Array, term: Callable[[Graph, Value, Value], Value]
    ) -> Value:  # (b, d), (m, d) -> (b, m)
        """Σ_j term(x_ij, z_lj), one feature after the other: a few (b, m) arrays, never a (b, m, d) one.

        `term` is given columns (b, 1) and rows (1, m), and writes into the body of the loop.
        """
        onnx = need("onnx", extra="onnx")
        helper, tensor = onnx.helper, onnx.TensorProto
        rows = self.store(z.T[:, None, :])  # (d, 1, m)
        body = replace(self, nodes=[])
        step, go, before = (self.name(part) for part in ("step", "go", "before"))
        one = body.op("Reshape", step, np.array([1]))
        x_j = body.op("Gather", x, one, axis=1)  # (b, 1)
        z_j = body.op("Gather", rows, step, axis=0)  # (1, m)
        after = body.op("Add", before, term(body, x_j, z_j))
        inputs = [
            helper.make_tensor_value_info(step, tensor.INT64, []),
            helper.make_tensor_value_info(go, tensor.BOOL, []),
            helper.make_tensor_value_info(before, self.element_type, None),
        ]
        on = body.op("Identity", go)
        outputs = [
            helper.make_tensor_value_info(on, tensor.BOOL, []),
            helper.make_tensor_value_info(after, self.element_type, None),
        ]
        graph = helper.make_graph(body.nodes, "feature", inputs, outputs)
        start = self.filled(x, len(z), 0.0)
        return self.op("Loop", np.array(z.shape[1]), np.array(True), start, body=graph)
