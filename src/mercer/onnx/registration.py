"""mercer's estimators for skl2onnx: pipelines that hold one export as others do."""

from __future__ import annotations

from typing import Any

import numpy as np

from mercer._core.errors import InputError
from mercer.data.frames import need
from mercer.estimators import PCA, IncrementalKernelPCA, KernelPCA, KernelPCADetector
from mercer.onnx.export import DOUBLE, LABEL, write
from mercer.onnx.fitted import fitted
from mercer.onnx.graph import OPSET, Graph, Value
from mercer.onnx.projection import statistics
from mercer.sklearn import KernelPCA as DropIn

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
    *labels, numbers = operator.outputs
    for label in labels:  # of a detector
        label.type = need("skl2onnx.common.data_types", extra="onnx").Int64TensorType([n, 1])
    width = 1 if labels else source.projection.n_components
    numbers.type = _tensor_type(operator)([n, width])


def _tensor_type(operator: Any) -> Any:
    """Double rows give double scores; any others give floats."""
    types = need("skl2onnx.common.data_types", extra="onnx")
    double = isinstance(operator.inputs[0].type, types.DoubleTensorType)
    return types.DoubleTensorType if double else types.FloatTensorType


def _convert(scope: Any, operator: Any, container: Any) -> None:
    opset = container.target_opset_any_domain("")
    if opset < OPSET:
        msg = f"target_opset={opset} came, but mercer's graphs need {OPSET} or more."
        raise InputError(msg)
    types = need("skl2onnx.common.data_types", extra="onnx")
    double = _tensor_type(operator) is types.DoubleTensorType
    dtype = np.dtype(np.float64 if double else np.float32)
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
    helper = need("onnx.helper", extra="onnx")
    for value, variable in zip(outputs, operator.outputs, strict=True):
        name = g.name("out")
        g.nodes.append(helper.make_node("Identity", [value.name], [variable.full_name], name=name))
    container.nodes.extend(g.nodes)
    container.initializers.extend(g.tensors)
    container.node_domain_version_pair_sets.add(("", OPSET))
