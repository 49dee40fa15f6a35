"""From a fitted model to an ONNX model: what goes in, what comes out, and what is written on it."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from mercer._core.errors import InputError, KernelError
from mercer._core.params import Whole, require
from mercer._core.public import public
from mercer.data.frames import need
from mercer.estimators.detector import KernelPCADetector
from mercer.estimators.prepared import Prepared
from mercer.kernels.text import kernel_text
from mercer.model.checkpoint import VERSION
from mercer.onnx.fitted import fitted
from mercer.onnx.graph import IR_VERSION, OPSET, Graph
from mercer.onnx.pairwise import nan_where_infinite
from mercer.onnx.projection import guard, scores, statistics

if TYPE_CHECKING:
    from mercer.io.preparation import Preparation
    from mercer.kernels import Kernel
    from mercer.onnx.fitted import Fitted
    from mercer.onnx.graph import Value

DTYPES = ("float32", "float64")
DOUBLE = np.dtype(np.float64)
INPUT = "X"
SCORES, STATISTICS, LABEL = "scores", ("T2", "Q", "index"), "label"


@public
def to_onnx(model: Any, *, dtype: Any = None, opset: int | None = None) -> Any:
    """A fitted model as an ONNX model: rows in, scores out; of a detector T², Q, index and label.

    Parameters
    ----------
    model : KernelPCA, PCA, IncrementalKernelPCA, KernelPCADetector, Prepared or mercer.sklearn.KernelPCA
        Fitted. Of a `Prepared`, filling and scaling are part of the graph.
    dtype : "float32", "float64" or None, default=None
        Of what goes in and comes out; None is that of the training rows. Inside, float64 is used where
        float32 would lose digits: the entry ``mercer.precision`` of the metadata says so.
    opset : int or None, default=None
        Version of ONNX's operators to state; None is 13, which runtimes since 2020 know.

    Returns
    -------
    onnx.ModelProto
        Input ``X`` of shape (n, d). Output ``scores`` of shape (n, k), or ``T2``, ``Q``, ``index`` and
        ``label`` of shape (n,). A row with a missing or infinite number gives NaN and the label -1.

    Raises
    ------
    KernelError
        The kernel, or one inside it, has no graph.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer import KernelPCA
    >>> from mercer.onnx import to_onnx, verify
    >>> X = np.random.default_rng(0).standard_normal((100, 3))
    >>> model = KernelPCA(2).fit(X)
    >>> proto = to_onnx(model)
    >>> verify(proto, model, X).ok
    True
    """
    inner, preparation = unwrapped(model)
    source = Source.of(inner)
    kind = chosen_dtype(dtype, source.fitted.dtype)
    source.fitted.require_exportable(kind)
    g = Graph(kind)
    outputs = write(g, source, preparation, INPUT)
    return _assembled(g, source, preparation, outputs, checked_opset(opset))


@dataclass(frozen=True)
class Source:
    """A fitted model and, where it judges rows, the detector around it."""

    fitted: Fitted
    detector: Any = None

    @classmethod
    def of(cls, model: Any) -> Source:
        """What a graph is written from."""
        if isinstance(model, KernelPCADetector):
            check_is_fitted(model)
            return cls(fitted(model.model_), model)
        return cls(fitted(model))


def unwrapped(model: Any) -> tuple[Any, Preparation | None]:
    """The estimator, and what is done to rows before it."""
    return (model.model, model.preparation) if isinstance(model, Prepared) else (model, None)


def chosen_dtype(dtype: Any, own: np.dtype[Any]) -> np.dtype[Any]:
    """The precision of input and output, checked."""
    if dtype is None:
        return own
    try:
        found = np.dtype(dtype)
    except TypeError:
        found = None
    if found is None or found.name not in DTYPES:
        msg = f"dtype={dtype!r} came. Use 'float32' or 'float64'."
        raise InputError(msg)
    return found


def checked_opset(opset: int | None) -> int:
    """The opset to state: any from 13 to the newest that is known here."""
    newest = int(need("onnx", extra="onnx").defs.onnx_opset_version())
    if opset is None:
        return OPSET
    return int(require("opset", opset, Whole(OPSET, newest)))


# ── the graph ───────────────────────────────────────────────────────────────
def write(g: Graph, source: Source, preparation: Preparation | None, x: Value) -> dict[str, Value]:
    """The nodes from the input to the named outputs, in the precision of the graph."""
    double = g.at(DOUBLE)
    work = double if source.detector is not None else g.at(source.fitted.precision(g.dtype))
    if preparation is not None:
        rows = prepared(double, preparation, x if g.is_double else double.cast(x))
        rows = rows if work.is_double else work.cast(rows)
    else:
        rows = x if work.dtype == g.dtype else work.cast(x)
    if source.detector is not None:
        columns = statistics(work, source.detector, source.fitted, rows)
        return {name: _flat(g, name, columns[name]) for name in (*STATISTICS, LABEL)}
    found = work.op("Add", scores(work, source.fitted, rows), guard(work, rows))
    found = found if work.dtype == g.dtype else g.cast(found)
    return {SCORES: nan_where_infinite(g, found)}  # what overflowed, or does now, is not known


def _flat(g: Graph, name: str, column: Value) -> Value:  # (b, 1) -> (b,)
    flat = g.op("Squeeze", column, np.array([1]))
    return flat if name == LABEL or g.is_double else g.cast(flat)


def prepared(g: Graph, preparation: Preparation, x: Value) -> Value:
    """Missing numbers filled, columns scaled: what the fit did, in float64."""
    if preparation.fills is not None:
        levels = len(preparation.features) - len(
            preparation.numbers
        )  # of categories, never missing here
        fills = np.concatenate([preparation.fills, np.full(levels, np.nan)])
        x = g.op("Where", g.op("IsNaN", x), fills, x)
    if preparation.center is not None:
        x = g.op("Sub", x, np.asarray(preparation.center, dtype=np.float64))
    if preparation.spread is not None:
        x = g.op("Div", x, np.asarray(preparation.spread, dtype=np.float64))
    return x


# ── the model around it ─────────────────────────────────────────────────────
def _assembled(
    g: Graph, source: Source, preparation: Preparation | None, outputs: dict[str, Value], opset: int
) -> Any:
    onnx = need("onnx", extra="onnx")
    info = onnx.helper.make_tensor_value_info
    for name, value in outputs.items():
        g.nodes.append(onnx.helper.make_node("Identity", [value], [name], name=f"{name}_out"))
    k = source.fitted.projection.n_components
    shown = [
        info(
            name,
            onnx.TensorProto.INT64 if name == LABEL else g.element_type,
            ["n", k] if name == SCORES else ["n"],
        )
        for name in outputs
    ]
    rows = info(INPUT, g.element_type, ["n", source.fitted.n_features])
    facts = _facts(g, source, preparation)
    graph = onnx.helper.make_graph(
        g.nodes, "mercer", [rows], shown, g.tensors, doc_string=_in_words(facts, preparation)
    )
    proto = onnx.helper.make_model(
        graph,
        ir_version=max(IR_VERSION, onnx.helper.find_min_ir_version_for([_opset(opset)])),
        opset_imports=[_opset(opset)],
        producer_name="mercer",
        producer_version=VERSION,
    )
    onnx.helper.set_model_props(proto, facts)
    onnx.checker.check_model(proto)
    return proto


def _opset(version: int) -> Any:
    return need("onnx.helper", extra="onnx").make_opsetid("", version)


def _facts(g: Graph, source: Source, preparation: Preparation | None) -> dict[str, str]:
    """What is written into the metadata, all of it text."""
    model, detector = source.fitted, source.detector
    names = model.names if preparation is None else preparation.features
    facts = {
        "mercer.version": VERSION,
        "mercer.kernel": _kernel_text(model.kernel),
        "mercer.route": model.route,
        "mercer.precision": (DOUBLE if detector else model.precision(g.dtype)).name,
    }
    if names is not None:
        facts["mercer.features"] = json.dumps(list(names))
    if detector is not None:
        limits = detector.limits_
        facts["mercer.limits"] = json.dumps(
            {"T2": limits.t2, "Q": limits.q, "index": -float(detector.offset_)}
        )
    return facts


def _kernel_text(kernel: Kernel) -> str:
    if kernel.is_precomputed:
        return "precomputed"
    try:
        return kernel_text(kernel)
    except KernelError:  # nested too deeply to be read back; people can still read it
        return repr(kernel)


def _in_words(facts: dict[str, str], preparation: Preparation | None) -> str:
    version, kernel, route = (facts[f"mercer.{name}"] for name in ("version", "kernel", "route"))
    what = f"Kernel PCA by mercer {version}: {kernel}, {route}."
    if preparation is None:
        return what
    if not preparation.categories:
        return f"{what} X has the columns of the file, in the units of the file: {facts['mercer.features']}."
    return (
        f"{what} X has the columns of the file, in the units of the file, and one column of 0 and 1 for each "
        f"level of a category: {facts['mercer.features']}."
    )
