"""mercer's estimators for skl2onnx: pipelines that hold one export as others do."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from mercer._core.errors import InputError
from mercer.data.frames import need
from mercer.estimators import PCA, IncrementalKernelPCA, KernelPCA, KernelPCADetector
from mercer.onnx.export import DOUBLE, LABEL, Source, write
from mercer.onnx.graph import OPSET, Graph
from mercer.onnx.projection import statistics
from mercer.sklearn import KernelPCA as DropIn

if TYPE_CHECKING:
    from mercer.onnx.graph import Value

ALIASES: dict[type, str] = {
    KernelPCA: "MercerKernelPCA",
    PCA: "MercerPCA",
    IncrementalKernelPCA: "MercerIncrementalKernelPCA",
    DropIn: "MercerDropInKernelPCA",
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
        update(kind, alias, _score_shapes, _convert_scores)
    update(KernelPCADetector, "MercerKernelPCADetector", _label_shapes, _convert_labels)


# ── shapes ──────────────────────────────────────────────────────────────────
def _score_shapes(operator: Any) -> None:
    n = operator.inputs[0].get_first_dimension()
    k = Source.of(operator.raw_operator).fitted.projection.n_components
    operator.outputs[0].type = _tensor_type(operator)([n, k])


def _label_shapes(operator: Any) -> None:
    types = need("skl2onnx.common.data_types", extra="onnx")
    n = operator.inputs[0].get_first_dimension()
    operator.outputs[0].type = types.Int64TensorType([n, 1])
    operator.outputs[1].type = _tensor_type(operator)([n, 1])


def _tensor_type(operator: Any) -> Any:
    """Double rows give double scores; any others give floats."""
    types = need("skl2onnx.common.data_types", extra="onnx")
    double = isinstance(operator.inputs[0].type, types.DoubleTensorType)
    return types.DoubleTensorType if double else types.FloatTensorType


# ── converters ──────────────────────────────────────────────────────────────
def _convert_scores(scope: Any, operator: Any, container: Any) -> None:
    g, source, x = _begun(scope, operator, container)
    (found,) = write(g, source, None, x).values()
    _finish(g, {found: operator.outputs[0]}, container)


def _convert_labels(scope: Any, operator: Any, container: Any) -> None:
    g, source, x = _begun(scope, operator, container)
    double = g.at(DOUBLE)
    found = statistics(double, source.detector, source.fitted, double.cast(x))
    offset = float(source.detector.offset_)
    decision = g.cast(double.op("Sub", double.op("Neg", found["index"]), offset))
    _finish(g, {found[LABEL]: operator.outputs[0], decision: operator.outputs[1]}, container)


def _begun(scope: Any, operator: Any, container: Any) -> tuple[Graph, Source, Value]:
    opset = container.target_opset_any_domain("")
    if opset < OPSET:
        msg = f"target_opset={opset} came, but mercer's graphs need {OPSET} or more."
        raise InputError(msg)
    types = need("skl2onnx.common.data_types", extra="onnx")
    dtype = np.float64 if _tensor_type(operator) is types.DoubleTensorType else np.float32
    source = Source.of(operator.raw_operator)
    source.fitted.require_exportable(np.dtype(dtype))
    g = Graph(np.dtype(dtype), prefix=scope.get_unique_operator_name("mercer") + "_")
    return g, source, g.cast(operator.inputs[0].full_name)


def _finish(g: Graph, outputs: dict[Value, Any], container: Any) -> None:
    helper = need("onnx.helper", extra="onnx")
    for value, variable in outputs.items():
        name = g.name("out")
        g.nodes.append(helper.make_node("Identity", [value], [variable.full_name], name=name))
    container.nodes.extend(g.nodes)
    container.initializers.extend(g.tensors)
    container.node_domain_version_pair_sets.add(("", OPSET))
