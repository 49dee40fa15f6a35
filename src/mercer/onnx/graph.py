"""A builder of ONNX graphs: one call a node, numbers in one precision."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from itertools import count
from typing import Any, TypeAlias

import numpy as np

from mercer._core.types import Array
from mercer.data.frames import need

Operand: TypeAlias = "Value | float | Array"
# Operators are used as opset 13 has them (ONNX 1.8, 2020), and none whose form changed since: a graph runs
# on old runtimes and, stamped with a newer opset, on new ones.
OPSET = 13
IR_VERSION = 7  # that of opset 13
# Names of what goes in and comes out.
INPUT = "X"
SCORES, STATISTICS, LABEL = "scores", ("T2", "Q", "index"), "label"


@dataclass(frozen=True)
class Graph:
    """Nodes and stored tensors, in the order in which they were asked for.

    `op` writes one node and gives its output. A number or an array among its inputs is stored: floating-point
    ones in the precision of the graph, whole numbers and booleans as they are.
    """

    # float32 or float64: what floating-point numbers are stored and computed in
    dtype: np.dtype[Any]
    prefix: str = ""
    nodes: list[Any] = field(default_factory=list)
    tensors: list[Any] = field(default_factory=list)
    numbers: Iterator[int] = field(default_factory=count)

    @property
    def is_double(self) -> bool:
        """Whether it computes in float64."""
        return self.dtype == np.float64

    @property
    def element_type(self) -> int:
        """ONNX's number for the precision."""
        tensor = need("onnx", extra="onnx").TensorProto
        return int(tensor.DOUBLE if self.is_double else tensor.FLOAT)

    def at(self, dtype: Any) -> Graph:
        """The same graph, written to in another precision."""
        return replace(self, dtype=np.dtype(dtype))

    def op(self, kind: str, *inputs: Operand, **attributes: Any) -> Value:
        """One node with one output."""
        number, is_factor = inputs[-1], kind in ("Mul", "Div")
        if is_factor and not isinstance(number, Value) and self._looks_like_one(number):
            # Powers of two cost no digit.
            twice = self.op(kind, *inputs[:-1], np.asarray(2.0 * number))
            return twice * (0.5 if kind == "Mul" else 2.0)
        helper = need("onnx.helper", extra="onnx")
        names = [(v if isinstance(v, Value) else self.store(v)).name for v in inputs]
        out = self.name(kind)
        self.nodes.append(helper.make_node(kind, names, [out], name=f"{out}_node", **attributes))
        return Value(self, out)

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
        self.tensors.append(need("onnx.numpy_helper", extra="onnx").from_array(array, name))
        return Value(self, name)

    def end(self, value: Value, output: str, name: str) -> None:
        """The node that gives a value the name of an output."""
        make_node = need("onnx.helper", extra="onnx").make_node
        self.nodes.append(make_node("Identity", [value.name], [output], name=name))

    def name(self, kind: str) -> str:
        """A name that nothing else in the graph has."""
        return f"{self.prefix}{kind.lower()}_{next(self.numbers)}"


def _binary(kind: str, *, swapped: bool = False) -> Callable[[Value, Operand], Value]:
    def write(self: Value, other: Operand) -> Value:
        return self.graph.op(kind, *((other, self) if swapped else (self, other)))

    return write


@dataclass(frozen=True, eq=False)
class Value:
    """A tensor in a graph, in one precision: arithmetic on it writes nodes."""

    graph: Graph
    name: str

    __array_ufunc__ = None  # an array beside it leaves the arithmetic to it
    __add__ = __radd__ = _binary("Add")
    __sub__, __rsub__ = _binary("Sub"), _binary("Sub", swapped=True)
    __mul__ = __rmul__ = _binary("Mul")
    __truediv__, __rtruediv__ = _binary("Div"), _binary("Div", swapped=True)
    # Not "MatMul": onnxruntime's optimiser takes a number beside one into the node, as a factor in float32.
    __matmul__ = _binary("Gemm")
    __and__, __or__ = _binary("And"), _binary("Or")
    __lt__, __le__, __gt__ = _binary("Less"), _binary("LessOrEqual"), _binary("Greater")
    equals, at_most, at_least = _binary("Equal"), _binary("Min"), _binary("Max")

    def op(self, kind: str, *others: Operand, **attributes: Any) -> Value:
        """One node, whose first input this is."""
        return self.graph.op(kind, self, *others, **attributes)

    def at(self, dtype: Any) -> Value:
        """The same numbers in another precision."""
        g = self.graph.at(dtype)
        return self if g.dtype == self.graph.dtype else g.op("Cast", self, to=g.element_type)

    def unless(self, condition: Value, other: Operand) -> Value:
        """Itself, but `other` where the condition holds."""
        return self.graph.op("Where", condition, other, self)

    def row_sum(self) -> Value:  # (b, d) -> (b, 1)
        """Σ_j x_ij."""
        return self.op("ReduceSum", np.array([1]), keepdims=1)

    def squared_norms(self) -> Value:  # (b, d) -> (b, 1)
        """‖x_i‖²."""
        return (self * self).row_sum()

    def columns(self, chosen: Any) -> Value:  # (b, d) -> (b, len(chosen))
        """Some of the columns, in this order."""
        return self.op("Gather", np.asarray(chosen, dtype=np.int64), axis=1)

    def power(self, exponent: int) -> Value:
        """x^p for a whole p ≥ 1, by squaring: defined for negative x, and exact where products are."""
        if exponent == 1:
            return self
        half = (self * self).power(exponent // 2)
        return half * self if exponent & 1 else half

    def filled(self, width: int, value: float) -> Value:  # (b, d) -> (b, width)
        """One number, as often as there are rows times `width`."""
        rows = self.op("Shape").op("Slice", np.array([0]), np.array([1]))
        return self.graph.op("Expand", value, rows.op("Concat", np.array([width]), axis=0))

    def over_features(
        self, z: Array, term: Callable[[Value, Value], Value]
    ) -> Value:  # (b, d), (m, d) -> (b, m)
        """Σ_j term(x_ij, z_lj), one feature after the other: a few (b, m) arrays, never a (b, m, d) one.

        `term` is given columns (b, 1) and rows (1, m), and writes into the body of the loop.
        """
        g, onnx = self.graph, need("onnx", extra="onnx")
        info, tensor = onnx.helper.make_tensor_value_info, onnx.TensorProto
        rows = g.store(z.T[:, None, :])  # (d, 1, m)
        body = replace(g, nodes=[])
        step, go, before = (Value(body, g.name(part)) for part in ("step", "go", "before"))
        x_j = body.op("Gather", self, step.op("Reshape", np.array([1])), axis=1)  # (b, 1)
        z_j = body.op("Gather", rows, step, axis=0)  # (1, m)
        after, on = before + term(x_j, z_j), go.op("Identity")
        count, flag = info(step.name, tensor.INT64, []), info(go.name, tensor.BOOL, [])
        inputs = [count, flag, info(before.name, g.element_type, None)]
        outputs = [info(on.name, tensor.BOOL, []), info(after.name, g.element_type, None)]
        graph = onnx.helper.make_graph(body.nodes, "feature", inputs, outputs)
        start = self.filled(len(z), 0.0)
        return g.op("Loop", np.array(z.shape[1]), np.array(True), start, body=graph)
