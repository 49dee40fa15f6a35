"""From a fitted model to an ONNX model: what goes in, what comes out, and what is written on it."""

from __future__ import annotations

import json
from importlib.util import find_spec
from typing import Any

import numpy as np

from mercer._core.errors import GraphWarning, InputError, refuse
from mercer._core.findings import warn
from mercer._core.params import Whole, require
from mercer._core.public import public
from mercer._core.version import VERSION
from mercer.data.frames import need
from mercer.estimators import PCA, IncrementalKernelPCA, KernelPCA, KernelPCADetector
from mercer.onnx.fitted import Fitted, fitted, guard, scores, statistics
from mercer.onnx.graph import (
    INPUT,
    IR_VERSION,
    LABEL,
    OPSET,
    SCORES,
    STATISTICS,
    Graph,
    Value,
)
from mercer.onnx.kernels import nan_where_infinite
from mercer.onnx.verify import sample_rows, verify
from mercer.preprocessing.preparation import Preparation
from mercer.sklearn import KernelPCA as DropIn

DTYPES = ("float32", "float64")
DOUBLE = np.dtype(np.float64)
GLANCE_ROWS = 20  # that a graph is tried on before it is handed over


@public
def to_onnx(model: Any, *, dtype: Any = None, opset: int | None = None) -> Any:
    """A fitted model as an ONNX model: rows in, scores out; of a detector T², Q, index and label.

    Parameters
    ----------
    model : KernelPCA, PCA, IncrementalKernelPCA, KernelPCADetector, Prepared or mercer.sklearn.KernelPCA
        Fitted. Of a `Prepared`, filling and scaling are part of the graph.
    dtype : "float32", "float64" or None, default=None
        Precision of input and output; None is that of the training rows. Inside, float64 is used where
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

    Warns
    -----
    GraphWarning
        Where onnxruntime is installed and runs the graph: it differs from the model by more than rounding on
        a few rows like those of the fit. `verify` says how far on any rows.

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
    source = fitted(model)
    g = Graph(chosen_dtype(dtype, source.dtype))
    source.require_exportable(g.dtype)
    outputs = write(source, Value(g, INPUT))
    newest = int(need("onnx", extra="onnx").defs.onnx_opset_version())
    opset = OPSET if opset is None else int(require("opset", opset, Whole(OPSET, newest)))
    for name, value in outputs.items():
        g.end(value, name, f"{name}_out")
    if find_spec("onnxruntime") is not None:
        # The runtime that is installed may not know the opset that is asked for; the nodes are the same.
        _warn_of(_assembled(g, source, outputs, OPSET), model, is_double=g.is_double)
    return _assembled(g, source, outputs, opset)


def _warn_of(proto: Any, model: Any, *, is_double: bool) -> None:
    """Warn where the graph does not do what the model does, as far as onnxruntime can run it."""
    rows = sample_rows(model, rng=np.random.default_rng(0))
    try:
        agreement = verify(proto, model, rows[:: max(1, len(rows) // GLANCE_ROWS)])
    except InputError as error:  # float32 can't hold the rows
        warn(str(error), GraphWarning, "graph")
        return
    except ImportError:  # onnxruntime is there, but broken
        return
    except Exception as error:
        # Those of onnxruntime have no class in common but this one.
        if not type(error).__module__.startswith("onnxruntime."):
            raise
        return
    if not agreement.ok:
        amplified = (
            "the model amplifies rounding: keep fewer components or, in a detector whose Q lies below "
            "rounding, use statistic='T2' or a narrower kernel."
        )
        remedy = "In float64, too, " if is_double else "Use dtype='float64'; if it still differs, "
        msg = f"The graph does not agree with the model: {agreement}. {remedy}{amplified}"
        warn(msg, GraphWarning, "graph")


def chosen_dtype(dtype: Any, own: np.dtype[Any]) -> np.dtype[Any]:
    """The precision of input and output, checked."""
    if dtype is None:
        return own
    try:
        found = np.dtype(dtype)
    except TypeError:
        found = None
    if found is None or found.name not in DTYPES:
        refuse("dtype", dtype, "'float32', 'float64' or None")
    return found


# ── the graph ───────────────────────────────────────────────────────────────
def write(model: Fitted, x: Value) -> dict[str, Value]:
    """The nodes from the input to the named outputs, in the precision of the input."""
    own = x.graph.dtype
    rows = x if model.preparation is None else prepared(model.preparation, x.at(DOUBLE))
    if model.detector is not None:
        columns = statistics(model, rows.at(DOUBLE))
        flat = {name: columns[name].op("Squeeze", np.array([1])) for name in (*STATISTICS, LABEL)}
        return {name: v if name == LABEL else v.at(own) for name, v in flat.items()}
    rows = rows.at(model.precision(own))
    found = (scores(model, rows) + guard(rows)).at(own)
    return {SCORES: nan_where_infinite(found)}  # what overflowed, or does now, is not known


def prepared(preparation: Preparation, x: Value) -> Value:
    """Missing numbers filled, columns scaled: what the fit did, in float64."""
    if preparation.fills is not None:
        # Those of categories are never missing here.
        levels = len(preparation.features) - len(preparation.numbers)
        fills = np.concatenate([preparation.fills, np.full(levels, np.nan)])
        x = x.unless(x.op("IsNaN"), fills)
    if preparation.center is not None:
        x = x - np.asarray(preparation.center, dtype=np.float64)
    if preparation.spread is not None:
        x = x / np.asarray(preparation.spread, dtype=np.float64)
    return x


# ── the model around it ─────────────────────────────────────────────────────
def _assembled(g: Graph, model: Fitted, outputs: dict[str, Value], opset: int) -> Any:
    onnx = need("onnx", extra="onnx")
    info = onnx.helper.make_tensor_value_info
    shape = ["n", model.projection.n_components] if SCORES in outputs else ["n"]
    label = onnx.TensorProto.INT64
    shown = [info(name, label if name == LABEL else g.element_type, shape) for name in outputs]
    rows = info(INPUT, g.element_type, ["n", model.model.n_features_in_])
    facts, preparation = _facts(g, model), model.preparation
    words = f"Kernel PCA by mercer {VERSION}: {facts['mercer.kernel']}, {facts['mercer.route']}."
    if preparation is not None:
        levels = ", and one column of 0 and 1 for each level of a category"
        words += " X has the columns of the file, in the units of the file"
        words += f"{levels if preparation.categories else ''}: {facts['mercer.features']}."
    graph = onnx.helper.make_graph(g.nodes, "mercer", [rows], shown, g.tensors, doc_string=words)
    opsets = [onnx.helper.make_opsetid("", opset)]
    proto = onnx.helper.make_model(
        graph,
        ir_version=max(IR_VERSION, onnx.helper.find_min_ir_version_for(opsets)),
        opset_imports=opsets,
        producer_name="mercer",
        producer_version=VERSION,
    )
    onnx.helper.set_model_props(proto, facts)
    onnx.checker.check_model(proto)
    return proto


def _facts(g: Graph, model: Fitted) -> dict[str, str]:
    detector = model.detector
    names = model.names if model.preparation is None else model.preparation.features
    facts = {
        "mercer.version": VERSION,
        "mercer.kernel": "precomputed" if model.kernel.is_precomputed else repr(model.kernel),
        "mercer.route": model.route,
        "mercer.precision": (DOUBLE if detector else model.precision(g.dtype)).name,
    }
    if names is not None:
        facts["mercer.features"] = json.dumps(list(names))
    if detector is not None:
        limits, index = detector.limits_, -float(detector.offset_)
        facts["mercer.limits"] = json.dumps({"T2": limits.t2, "Q": limits.q, "index": index})
    return facts


# ── for skl2onnx: pipelines that hold one of mercer's estimators export as others do ─────
ALIASES = {
    KernelPCA: "MercerKernelPCA",
    PCA: "MercerPCA",
    IncrementalKernelPCA: "MercerIncrementalKernelPCA",
    DropIn: "MercerDropInKernelPCA",
    KernelPCADetector: "MercerKernelPCADetector",
}


def register() -> None:
    """Teach skl2onnx mercer's estimators, so that ``skl2onnx.to_onnx(pipeline, …)`` converts them.

    `KernelPCA`, `PCA`, `IncrementalKernelPCA` and `mercer.sklearn.KernelPCA` give one output, their scores;
    `KernelPCADetector` gives a label and a decision function, as scikit-learn's detectors do there. To be
    called once in a process; again does no harm.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> from mercer import KernelPCA
    >>> from mercer.onnx import register
    >>> import skl2onnx
    >>> register()
    >>> X = np.random.default_rng(0).standard_normal((60, 3)).astype(np.float32)
    >>> pipeline = make_pipeline(StandardScaler(), KernelPCA(2)).fit(X)
    >>> [output.name for output in skl2onnx.to_onnx(pipeline, X[:1]).graph.output]
    ['variable']
    """
    update = need("skl2onnx", extra="onnx").update_registered_converter
    for kind, alias in ALIASES.items():
        update(kind, alias, _set_shapes, _convert)


def _set_shapes(operator: Any) -> None:
    n, source = operator.inputs[0].get_first_dimension(), fitted(operator.raw_operator)
    types = need("skl2onnx.common.data_types", extra="onnx")
    *labels, numbers = operator.outputs
    for label in labels:  # of a detector
        label.type = types.Int64TensorType([n, 1])
    tensor = types.DoubleTensorType if _is_double(operator) else types.FloatTensorType
    numbers.type = tensor([n, 1 if labels else source.projection.n_components])


def _is_double(operator: Any) -> bool:
    """Double rows give double scores; any others give floats."""
    types = need("skl2onnx.common.data_types", extra="onnx")
    return isinstance(operator.inputs[0].type, types.DoubleTensorType)


def _convert(scope: Any, operator: Any, container: Any) -> None:
    opset = container.target_opset_any_domain("")
    if opset < OPSET:
        must_be = f"at least {OPSET} for mercer's graphs"
        refuse("target_opset", opset, must_be, f"target_opset={opset}")
    dtype = np.dtype(np.float64 if _is_double(operator) else np.float32)
    source = fitted(operator.raw_operator)
    source.require_exportable(dtype)
    g = Graph(dtype, prefix=scope.get_unique_operator_name("mercer") + "_")
    x = Value(g, operator.inputs[0].full_name).op("Cast", to=g.element_type)
    if source.detector is None:
        outputs = list(write(source, x).values())
    else:
        found = statistics(source, x.at(DOUBLE))
        decision = found["index"].op("Neg") - float(source.detector.offset_)
        outputs = [found[LABEL], decision.at(dtype)]
    for value, variable in zip(outputs, operator.outputs, strict=True):
        g.end(value, variable.full_name, g.name("out"))
    container.nodes.extend(g.nodes)
    container.initializers.extend(g.tensors)
    container.node_domain_version_pair_sets.add(("", OPSET))
