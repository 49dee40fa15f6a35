"""Graphs against models, against scikit-learn's own through skl2onnx, and in a second runtime."""

import json
import sys
import warnings
from contextlib import nullcontext

import numpy as np
import onnx
import onnxruntime
import pandas as pd
import pyarrow as pa
import pytest
import skl2onnx
from onnx.reference import ReferenceEvaluator
from sklearn.compose import ColumnTransformer, make_column_transformer
from sklearn.decomposition import KernelPCA as Reference
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, PolynomialFeatures, StandardScaler

import mercer.sklearn
from markets.kernels import HISTOGRAM, VALID
from mercer import PCA, IncrementalKernelPCA, KernelPCA, KernelPCADetector, Prepared
from mercer.approximations import RandomFourier, RPCholesky
from mercer.errors import GraphWarning, InputError, KernelError
from mercer.kernels import (
    RBF,
    Chi2,
    Cosine,
    Custom,
    Laplacian,
    Linear,
    Matern,
    Polynomial,
    RationalQuadratic,
    Sigmoid,
)
from mercer.onnx import Agreement, export, register, to_onnx, verify
from mercer.onnx.verify import (
    DisagreementError,
    _run,
    _session,
    require_agreement,
    sample_rows,
)
from mercer.preprocessing.preparation import Preparation

pytestmark = pytest.mark.filterwarnings("ignore::mercer._core.errors.MercerWarning")

# Measured over this market: 4e-15 and 3e-6 at most. The rest is room for other machines' exp and BLAS.
TOLERANCE = {"float64": 1e-13, "float32": 1e-5}

NO_GRAPH = {"gp", "matrices", "points", "matern-0.8"}
KERNELS = {name: kernel for name, kernel in VALID.items() if name not in NO_GRAPH} | {
    **HISTOGRAM,
    "matern-7/2": Matern(3.5, 1.3),
    "matern-19/2": Matern(9.5, 1.3),
    "matern-99/2": Matern(49.5, 1.3),
    "matern-60": Matern(60.0, 1.3),
    "sigmoid": Sigmoid(0.5, -0.5),
    "fractional": Polynomial(1.5, gamma=0.01, coef0=5.0),
    "difference": 2.0 * RBF(0.3) - 0.1 * RBF(2.0),
    "product-map": Polynomial(2, gamma=0.5) * Linear().on([0, -1]) + Linear().normalised(),
}
EXACT_ONLY = {"sigmoid", "fractional", "difference"}  # not known to be valid
ROUTES = {"exact": None, "low-rank": RPCholesky(rank=25)}


def metadata(proto):
    return {entry.key: entry.value for entry in proto.metadata_props}


def run(proto, x):
    session = onnxruntime.InferenceSession(
        proto.SerializeToString(), providers=["CPUExecutionProvider"]
    )
    return session.run(None, {session.get_inputs()[0].name: x})


def rows_of(name, cloud, histograms):
    """Training rows, and rows to ask about: the same, some near, some far."""
    x = histograms if name in HISTOGRAM else cloud
    rng = np.random.default_rng(3)
    near = x + 0.1 * rng.standard_normal(x.shape)
    asked = np.concatenate([x, near, 5.0 * x[:10], np.zeros((1, x.shape[1]))])
    return x, np.abs(asked) if name in HISTOGRAM else asked


# ── kernels x routes x precisions ───────────────────────────────────────────
CASES = [
    (name, route)
    for name in KERNELS
    for route in ROUTES
    if route == "exact" or name not in EXACT_ONLY
]


@pytest.mark.parametrize(("name", "route"), CASES)
def test_the_graph_says_what_the_model_says(name, route, cloud, histograms):
    x, asked = rows_of(name, cloud, histograms)
    model = KernelPCA(3, kernel=KERNELS[name], approximation=ROUTES[route]).fit(x)
    for dtype, tolerance in TOLERANCE.items():
        proto = to_onnx(model, dtype=dtype)
        found = verify(proto, model, asked)
        assert found.max_rel <= tolerance, (dtype, found)
        assert found.ok
        assert found.n == len(asked)
        assert run(proto, asked.astype(dtype))[0].dtype == dtype


FOURIER = {"rbf": RBF(0.3), "laplacian": Laplacian(0.4), "matern": Matern(0.5, 1.3)}


def phase_rounding(model, x):
    """What two float64 products ωᵀ(x - c) may make of the scores, in units of the largest.

    Summed in any order, with or without fused steps, d products and a difference are each right to
    (d + 1) u Σ|ω||x - c| with u = eps/2, so two of them differ by twice that. A phase that is off by δ moves
    its cosine and its sine by δ together, and the scores by the length of their coefficients.
    """
    projection, m = model.fit_.projection, len(model.fit_.projection.sections.frequencies)
    sections, coef = projection.sections, projection.coef
    sizes = np.abs(x - sections.centre) @ np.abs(sections.frequencies).T  # (n, M)
    off = (x.shape[1] + 1) * np.finfo(float).eps * sizes
    moved = np.sqrt(sections.amplitude / m) * np.hypot(coef[:m], coef[m:])  # (M, k)
    return np.max(off @ moved / np.abs(model.transform(x)).max(axis=0))


@pytest.mark.parametrize("name", FOURIER)
def test_random_features_have_right_phases_however_long_the_frequencies(name, cloud):
    model = KernelPCA(3, kernel=FOURIER[name], approximation=RandomFourier(200)).fit(cloud)
    for x in (cloud, 1e3 * cloud):  # a thousand times as far the phases are thousands of turns
        open_ = phase_rounding(model, x)
        assert open_ < 1e-9  # a phase in float32 would be off by a thousandth and more
        for dtype, tolerance in TOLERANCE.items():
            assert verify(to_onnx(model, dtype=dtype), model, x).max_rel <= tolerance + open_


OTHERS = {
    "pca": lambda: PCA(2),
    "stream": lambda: IncrementalKernelPCA(3, kernel=RBF(0.3), max_landmarks=30),
    "weights": lambda: KernelPCA(3, kernel=RBF(0.3)),
    "refined": lambda: KernelPCA(3, kernel=RBF(0.3), approximation=RPCholesky(25, refine=1)),
}


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("name", OTHERS)
def test_other_models_too(name, dtype, cloud):
    weights = {"sample_weight": np.arange(len(cloud)) % 3} if name == "weights" else {}
    model = OTHERS[name]().fit(cloud, **weights)
    assert verify(to_onnx(model, dtype=dtype), model, cloud).max_rel <= TOLERANCE[dtype]


def test_a_precomputed_kernel_takes_kernel_values(cloud):
    gram = RBF(0.3)(cloud)
    model = KernelPCA(3, kernel="precomputed").fit(gram)
    proto = to_onnx(model)
    assert verify(proto, model, RBF(0.3)(cloud[:7] + 0.1, cloud)).max_rel <= 1e-13
    assert metadata(proto)["mercer.kernel"] == "precomputed"


def test_sparse_rows_are_stored_dense(cloud):
    from scipy import sparse

    x = np.where(cloud > 0.5, cloud, 0.0)
    model = KernelPCA(3, kernel=RBF(0.3)).fit(sparse.csr_array(x))
    assert verify(to_onnx(model), model, x).max_rel <= 1e-13


# ── numbers that we did not make ────────────────────────────────────────────
PLAIN = {
    "linear": {},
    "poly": {"degree": 2, "gamma": 0.25, "coef0": 1.0},  # parameters that float32, which skl2onnx
    "rbf": {"gamma": 0.25},  # stores them in, holds as they are
    "sigmoid": {"gamma": 0.015625, "coef0": 0.125},
    "cosine": {},
}


@pytest.mark.parametrize("kernel", PLAIN)
def test_the_drop_in_gives_the_numbers_of_skl2onnx(kernel, cloud):
    theirs = Reference(2, kernel=kernel, eigen_solver="dense", **PLAIN[kernel]).fit(cloud)
    ours = mercer.sklearn.KernelPCA(2, kernel=kernel, **PLAIN[kernel]).fit(cloud)
    asked = cloud + 0.1
    expected = run(skl2onnx.to_onnx(theirs, cloud[:1]), asked)[0]
    np.testing.assert_allclose(run(to_onnx(ours), asked)[0], expected, rtol=0, atol=1e-11)


@pytest.mark.parametrize("name", ["rbf", "laplacian", "chi2", "matern-60", "product-map", "poly4"])
def test_another_runtime_gives_the_same(name, cloud, histograms):
    x, asked = rows_of(name, cloud, histograms)
    model = KernelPCA(3, kernel=KERNELS[name]).fit(x)
    found = ReferenceEvaluator(to_onnx(model)).run(None, {"X": asked})[0]
    np.testing.assert_allclose(
        found, model.transform(asked), rtol=0, atol=1e-12 * np.abs(found).max()
    )


@pytest.mark.parametrize("opset", [13, 17, 18, 21])
def test_every_opset_means_the_same(opset, cloud):
    model = KernelPCA(3, kernel=Laplacian(0.3) + Polynomial(2)).fit(cloud)
    proto = to_onnx(model, opset=opset)
    assert proto.opset_import[0].version == opset
    assert verify(proto, model, cloud).max_rel <= 1e-13


# ── what the runtime makes of it ────────────────────────────────────────────
SCALED = {
    "0.3 * rbf": 0.3 * RBF(0.3),
    "0.3 * cosine": 0.3 * Cosine(),
    "0.3 * unit": 0.3 * (RBF(0.3) + Linear()).normalised(),
    "poly + rbf": Polynomial(3, 7.25, 1.0) + RBF(1.0),
    "rbf * poly": 0.7 * RBF(0.3) * Polynomial(2, gamma=0.3),
}
MODELS = {
    "kernel": lambda kernel: KernelPCA(3, kernel=kernel, solver="lapack"),
    "low rank": lambda kernel: KernelPCA(2, kernel=kernel, approximation=RPCholesky(20)),
    "detector": lambda kernel: KernelPCADetector(2, kernel=kernel, limits="approximate"),
    "detector in a pipeline": lambda kernel: make_pipeline(
        StandardScaler(), KernelPCADetector(2, kernel=kernel, limits="approximate")
    ),
}
# Kernels that have several columns, or to which all positive rows of one column are one point.
SEVERAL = {"columns", "product-map", "cosine", "0.3 * cosine"}


def optimised(proto, level, path=None):
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level, options.log_severity_level = level, 3
    if path is not None:
        options.optimized_model_filepath = str(path)
    return onnxruntime.InferenceSession(
        proto.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )


FACTORED = [
    (name, model, columns)
    for name in sorted(KERNELS | SCALED)
    for model in MODELS
    for columns in (1, 4)
    if not (columns == 1 and name in SEVERAL)
    and not (name in EXACT_ONLY and model != "kernel")
    and not (name in HISTOGRAM and "detector" in model)  # whose scaled rows are no histograms
]


@pytest.mark.parametrize(("name", "model", "columns"), FACTORED)
def test_no_number_becomes_an_attribute_of_a_node(name, model, columns, cloud, tmp_path):
    """Those are in float32: onnxruntime's optimiser had made one of a factor beside a product of matrices."""
    x = 0.37 * np.abs(cloud)[:, :columns]
    proto = to_onnx(MODELS[model]((KERNELS | SCALED)[name]).fit(x), dtype="float64")
    levels, path = onnxruntime.GraphOptimizationLevel, tmp_path / "optimised.onnx"
    fast = optimised(proto, levels.ORT_ENABLE_ALL, path).run(None, {"X": x})
    plain = optimised(proto, levels.ORT_DISABLE_ALL).run(None, {"X": x})
    nodes = onnx.load(path).graph.node
    factors = [a.f for node in nodes for a in node.attribute if a.type == onnx.AttributeProto.FLOAT]
    assert set(factors) <= {0.0, 1.0}
    for one, other in zip(fast, plain, strict=True):
        size = float(np.abs(other).max())
        # Sums of 60 products in another order, and of Q, a difference of two lengths of about one.
        np.testing.assert_allclose(one, other, rtol=0, atol=1e-13 * max(size, 1.0))


def test_a_graph_that_differs_from_its_model_is_warned_of(cloud, monkeypatch):
    model = KernelPCA(2, kernel=RBF(0.3)).fit(cloud)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        to_onnx(model)
    assembled = export._assembled

    def off(*parts):
        """The graph with one of its arrays off by a hundredth: no processor rounds so much."""
        proto = assembled(*parts)
        for stored in proto.graph.initializer:
            values = onnx.numpy_helper.to_array(stored)
            if values.dtype.kind == "f" and values.size > 100:
                stored.CopyFrom(onnx.numpy_helper.from_array(1.01 * values, stored.name))
                break
        return proto

    monkeypatch.setattr(export, "_assembled", off)
    with pytest.warns(
        GraphWarning, match=r"does not agree with the model: largest.*dtype='float64'"
    ):
        to_onnx(model, dtype="float32")


def test_the_graph_is_tried_at_the_opset_that_every_runtime_knows(cloud, monkeypatch):
    """A runtime older than the opset that is asked for says nothing about the graph."""
    model, tried = KernelPCA(2, kernel=RBF(0.3)).fit(cloud), []

    def old(proto):
        tried.append(proto.opset_import[0].version)
        if tried[-1] > 13:
            msg = "Opset 21 is under development."
            raise onnxruntime.capi.onnxruntime_pybind11_state.Fail(msg)
        return _session(proto)

    monkeypatch.setattr(sys.modules["mercer.onnx.verify"], "_session", old)
    assert to_onnx(model, opset=21).opset_import[0].version == 21
    assert tried == [13]


@pytest.mark.parametrize(
    ("error", "passes"),
    [
        (onnxruntime.capi.onnxruntime_pybind11_state.Fail("no such operator"), False),
        (onnxruntime.capi.onnxruntime_pybind11_state.NotImplemented("no kernel"), False),
        (ImportError("DLL load failed"), False),
        (ValueError("a defect of ours"), True),
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_runtime_that_can_not_run_the_graph_is_no_reason_not_to_make_it(
    error, passes, cloud, monkeypatch
):
    def broken(_):
        raise error

    model, wanted = KernelPCA(2, kernel=RBF(0.3)).fit(cloud), nullcontext()
    if passes:
        wanted = pytest.raises(type(error), match=str(error))
    monkeypatch.setattr(sys.modules["mercer.onnx.verify"], "_session", broken)
    with wanted, warnings.catch_warnings():
        warnings.simplefilter("error")
        onnx.checker.check_model(to_onnx(model))


FLOAT_DETECTORS = {
    "rbf": RBF(0.3),
    "laplacian": Laplacian(0.3),
    "polynomial": Polynomial(2),
    "cosine": Cosine(),
    "linear": Linear(),  # whose T² is infinite in float32 far away, and not in float64
    "sum": RBF(0.3) + Linear(),
}


@pytest.mark.parametrize("statistic", ["combined", "T2", "Q"])
@pytest.mark.parametrize("name", FLOAT_DETECTORS)
def test_a_detector_fitted_in_float32_is_compared_in_float32(name, statistic, cloud):
    x = cloud.astype(np.float32)
    kernel = FLOAT_DETECTORS[name]
    detector = KernelPCADetector(2, kernel=kernel, statistic=statistic, limits="approximate").fit(x)
    assert detector.score_samples(x).dtype == np.float32
    for dtype in (None, "float64"):
        with warnings.catch_warnings():
            warnings.simplefilter("error", GraphWarning)
            proto = to_onnx(detector, dtype=dtype)
        found = verify(proto, detector, x)
        assert found.ok, (dtype, found)
        assert found.tolerance == 1e-4
        double = proto.graph.output[0].type.tensor_type.elem_type == onnx.TensorProto.DOUBLE
        assert double == (dtype == "float64")  # None: that of the training rows


def test_float64_is_not_advised_for_a_graph_in_float64(cloud, monkeypatch):
    model = KernelPCA(2, kernel=RBF(0.3)).fit(cloud)
    wrong = Agreement(1.0, 0.5, 20, 1e-9, 5e8)
    monkeypatch.setattr("mercer.onnx.export.verify", lambda *_: wrong)
    for dtype in ("float32", "float64"):
        with pytest.warns(GraphWarning, match="keep fewer components") as told:
            to_onnx(model, dtype=dtype)
        assert ("Use dtype='float64'" in str(told[0].message)) == (dtype == "float32")


def test_rows_that_the_precision_of_the_graph_does_not_hold_are_warned_of(cloud):
    far = KernelPCA(2, kernel=RBF(1e-80)).fit(1e40 * cloud)
    with np.errstate(over="ignore"), pytest.warns(GraphWarning, match=r"which float32 can't"):
        to_onnx(far, dtype="float32")


@pytest.mark.parametrize("gamma", [1e-6, 1e-8, 3e-9, 1e-9, 1e-10])
def test_what_verify_finds_of_a_detector_is_warned_of(gamma, cloud):
    """Q of normal rows is as small as rounding: of the model as of the graph, which have different digits."""
    for columns in (1, 2, 4):
        x = cloud[:, :columns]
        detector = KernelPCADetector(2, kernel=RBF(gamma), statistic="Q", limits="approximate").fit(
            x
        )
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            proto = to_onnx(detector)
        warned = any(issubclass(warning.category, GraphWarning) for warning in told)
        rows = sample_rows(detector, rng=np.random.default_rng(0))[::25]
        assert warned == (not verify(proto, detector, rows).ok)


# ── what the graph holds ────────────────────────────────────────────────────
def test_a_low_rank_graph_holds_the_landmarks_and_nothing_of_the_size_of_the_data():
    x = np.random.default_rng(0).standard_normal((3000, 10))
    model = KernelPCA(4, kernel=RBF(0.05), approximation=RPCholesky(rank=40)).fit(x)
    proto = to_onnx(model)
    assert all(max(t.dims, default=1) <= 40 for t in proto.graph.initializer)
    assert proto.ByteSize() < 8 * 40 * (10 + 4 + 2) + 4000
    exact = to_onnx(KernelPCA(4, kernel=RBF(0.05)).fit(x[:500]))
    assert any(500 in t.dims for t in exact.graph.initializer)


def test_the_metadata_say_what_it_is(cloud):
    import pandas as pd

    frame = pd.DataFrame(cloud, columns=["a", "b", "c", "d"])
    proto = to_onnx(KernelPCA(2, kernel=RBF(0.5) + 0.1 * Linear()).fit(frame))
    facts = metadata(proto)
    assert facts["mercer.kernel"] == "RBF(gamma=0.5) + 0.1 * Linear()"
    assert facts["mercer.version"] == mercer.__version__
    assert facts["mercer.precision"] == "float64"
    assert facts["mercer.route"] == "exact, 60 points"
    assert json.loads(facts["mercer.features"]) == ["a", "b", "c", "d"]
    assert (proto.opset_import[0].version, proto.ir_version) == (13, 7)
    assert [
        d.dim_param or d.dim_value for d in proto.graph.input[0].type.tensor_type.shape.dim
    ] == ["n", 4]


# ── numerics ────────────────────────────────────────────────────────────────
@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("name", ["rbf", "laplacian", "matern-1/2", "matern-5/2", "linear"])
def test_far_from_the_origin(name, dtype, cloud):
    x = (cloud + 1e3).astype(np.float32).astype(np.float64)
    model = KernelPCA(3, kernel=KERNELS[name]).fit(x)
    found = verify(to_onnx(model, dtype=dtype), model, x)
    # The rows themselves are multiples of 6e-5 there: 1e-12 of rounding is shifted, not amplified.
    assert found.max_rel <= {"float64": 1e-11, "float32": 1e-5}[dtype]


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("gamma", [1e4, 1e9])
def test_kernels_much_narrower_than_the_data(gamma, dtype):
    """Pairs 1/√γ apart among rows of size one: the expansion of ‖x - z‖² has no digits left for them."""
    rng = np.random.default_rng(0)
    x = np.repeat(rng.standard_normal((20, 3)), 3, axis=0)
    x = (x + rng.standard_normal(x.shape) / np.sqrt(gamma)).astype(np.float32).astype(np.float64)
    model = KernelPCA(3, kernel=RBF(gamma)).fit(x)
    found = verify(to_onnx(model, dtype=dtype), model, x)
    assert found.max_rel <= {"float64": 1e-9, "float32": 1e-5}[dtype]


def test_numbers_that_are_one_in_float32_are_not_taken_for_one(cloud):
    """onnxruntime leaves out a factor of type double that float32 rounds to 1."""
    near = 1.0 + 1e-9
    kernel = near * RBF(near).on([0]) + Polynomial(2, gamma=near) * Laplacian(near) + Sigmoid(near)
    for x in (cloud, 1.0 + cloud[:, :1] / cloud[:, :1].std()):
        model = KernelPCA(3, kernel=kernel).fit(x)
        assert verify(to_onnx(model), model, x).max_rel <= 1e-13
    spread = near * np.arange(-30, 30)[:, None] / np.arange(-30, 30).std(ddof=1)
    detector = KernelPCADetector(kernel=RBF(0.3)).fit(spread)
    assert detector.spread_[0] == pytest.approx(near, rel=1e-14)
    assert verify(to_onnx(detector), detector, 0.5 * spread).max_rel <= 1e-11


@pytest.mark.parametrize("nu", [1.5, 2.5, 9.5, 24.5, 49.5])
def test_half_integer_matern_against_many_digits(nu):
    """mercer's own value is a Bessel function in double precision; this is one of 40 digits."""
    import mpmath

    s = np.geomspace(1e-3, 700.0, 40)[:, None]
    with mpmath.workdps(40):
        values = [
            mpmath.power(2, 1 - nu) / mpmath.gamma(nu) * t**nu * mpmath.besselk(nu, t)
            for t in s[:, 0]
        ]
    model = KernelPCA(1, kernel=Matern(nu, np.sqrt(2 * nu))).fit(np.array([[0.0], [1.0]]))
    proto = to_onnx(model)
    (matmul,) = (
        n for n in proto.graph.node if n.op_type == "Gemm" and n.input[0].startswith("mul")
    )
    proto.graph.output.append(
        onnx.helper.make_tensor_value_info(matmul.input[0], onnx.TensorProto.DOUBLE, None)
    )
    tile = run(proto, s)[-1]
    np.testing.assert_allclose(tile[:, 0], np.array(values, dtype=float), rtol=0, atol=2e-15)


def test_float32_is_left_where_terms_cancel(cloud):
    """All components: coefficients of 1/√λ for tiny λ. In float32 their scores would be noise."""
    model = KernelPCA(None, kernel=RBF(1e-3)).fit(cloud)
    proto = to_onnx(model, dtype="float32")
    assert metadata(proto)["mercer.precision"] == "float64"
    assert run(proto, cloud.astype(np.float32))[0].dtype == np.float32
    # The last components are rounding, in the model as in the graph; that is told, and not held against it.
    for dtype in TOLERANCE:
        found = verify(to_onnx(model, dtype=dtype), model, cloud)
        assert found.max_rel > found.tolerance
        assert found.ok
    leading = KernelPCA(14, kernel=RBF(1e-3)).fit(cloud)
    proto = to_onnx(leading, dtype="float32")
    assert metadata(proto)["mercer.precision"] == "float64"
    assert verify(proto, leading, cloud).max_rel <= 1e-6


def test_a_model_fitted_in_float32(cloud):
    x = cloud.astype(np.float32)
    model = KernelPCA(3, kernel=RBF(0.3)).fit(x)
    proto = to_onnx(model)
    assert run(proto, x)[0].dtype == np.float32
    found = verify(proto, model, x)
    assert found.max_rel <= 1e-5
    assert found.tolerance == verify(to_onnx(model, dtype="float64"), model, x).tolerance == 1e-4


# ── rows that mercer refuses ────────────────────────────────────────────────
@pytest.mark.parametrize("name", KERNELS)
def test_a_row_that_is_no_row_has_no_scores(name, cloud, histograms):
    x, asked = rows_of(name, cloud, histograms)
    model = KernelPCA(2, kernel=KERNELS[name]).fit(x)
    asked = asked[:5].copy()
    asked[[0, 2, 4], [1, 1, 3]] = np.nan, np.inf, -np.inf
    found = run(to_onnx(model), asked)[0]
    assert np.all(np.isnan(found[[0, 2, 4]]))
    np.testing.assert_allclose(found[[1, 3]], model.transform(asked[[1, 3]]), atol=1e-9)


def test_histograms_with_empty_bins(histograms):
    x = np.where(histograms > 0.5, histograms, 0.0)
    assert np.any((x[:, None, :] + x[None, :, :]).sum(axis=2) == 0.0)  # 0/0 in all bins
    model = KernelPCA(3, kernel=Chi2(0.5)).fit(x)
    for dtype, tolerance in TOLERANCE.items():
        assert verify(to_onnx(model, dtype=dtype), model, x).max_rel <= tolerance


def test_rows_outside_of_a_kernels_domain_have_no_scores(histograms):
    model = KernelPCA(2, kernel=Chi2(0.5)).fit(histograms)
    asked = histograms[:3].copy()
    asked[1, 2] = -0.1
    with pytest.raises(InputError):
        model.transform(asked)
    assert list(np.isnan(run(to_onnx(model), asked)[0][:, 0])) == [False, True, False]
    model = KernelPCA(2, kernel=Polynomial(1.5, gamma=1.0, coef0=0.1)).fit(histograms)
    with pytest.raises(KernelError):
        model.transform(-histograms[:2])
    assert np.all(np.isnan(run(to_onnx(model), -histograms[:2])[0]))


def test_no_rows_no_scores(cloud):
    for kernel in (RBF(0.3), Laplacian(0.3), Polynomial(2) * Linear()):
        proto = to_onnx(KernelPCA(2, kernel=kernel).fit(cloud))
        assert run(proto, cloud[:0])[0].shape == (0, 2)


# ── refusals ────────────────────────────────────────────────────────────────
class Twice(RBF):
    """A subclass with another tile."""

    def tile(self, x, y):
        return 2.0 * super().tile(x, y)

    def tile_diag(self, x):
        return 2.0 * super().tile_diag(x)


REFUSED = {
    "function": (Custom(lambda x, y: x @ y.T, "matrices"), "Python function"),
    "inside": (RBF(0.3) + Custom(lambda x, y: x @ y.T, "matrices"), "Python function"),
    "gp": (VALID["gp"], "scikit-learn's own"),
    "bessel": (Matern(0.8, 1.3), "nu=0.5 or nu=1.5"),
    "bessel inside": (2.0 * Matern(3.2, 1.0).on([0]), "nu=2.5 or nu=3.5"),
    "subclass": (Twice(0.3), "Twice is not one of mercer's own"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_has_no_graph_is_refused_in_a_sentence(name, cloud):
    kernel, why = REFUSED[name]
    model = KernelPCA(2, kernel=kernel).fit(cloud)
    with pytest.raises(KernelError, match=why):
        to_onnx(model)


def test_wrong_arguments(cloud):
    model = KernelPCA(2).fit(cloud)
    with pytest.raises(InputError, match="got 'float16'"):
        to_onnx(model, dtype="float16")
    for opset in (12, 999, 13.0, True):
        with pytest.raises(InputError, match="opset must be an integer from 13"):
            to_onnx(model, opset=opset)
    others = KernelPCA(3).fit(cloud), KernelPCADetector().fit(cloud)
    for other in others:
        with pytest.raises(InputError, match="scores of another model than this"):
            verify(to_onnx(KernelPCA(2).fit(cloud)), other, cloud)
        with pytest.raises(InputError, match=r"of another model than this KernelPCA.* made from"):
            verify(to_onnx(other), KernelPCA(2).fit(cloud), cloud)
    with pytest.raises(InputError, match="got a StandardScaler"):
        to_onnx(StandardScaler().fit(cloud))
    behind = make_pipeline(StandardScaler(), KernelPCA(2), LogisticRegression())
    with pytest.raises(InputError, match=r"got LogisticRegression after it.*skl2onnx"):
        to_onnx(behind.fit(cloud, cloud[:, 0] > 0))
    with pytest.raises(InputError, match=r"got PolynomialFeatures.*skl2onnx"):
        to_onnx(make_pipeline(PolynomialFeatures(), KernelPCA(2)).fit(cloud))
    for unfitted in (KernelPCA(2), KernelPCADetector(), mercer.sklearn.KernelPCA(2)):
        with pytest.raises(NotFittedError):
            to_onnx(unfitted)
    with pytest.raises(InputError, match="shape"):
        verify(to_onnx(model), model, cloud[:0])


def test_a_graph_too_large_for_a_file_is_refused_before_it_is_made(cloud, monkeypatch):
    monkeypatch.setattr("mercer.onnx.fitted.MOST_BYTES", 1000)
    with pytest.raises(InputError, match=r"60 points of 4 numbers .*rpcholesky"):
        to_onnx(KernelPCA(2).fit(cloud))


# ── verification can fail ───────────────────────────────────────────────────
def test_a_wrong_graph_is_found_out(cloud):
    model = KernelPCA(2, kernel=RBF(0.3)).fit(cloud)
    other = KernelPCA(2, kernel=RBF(0.3001)).fit(cloud)
    found = verify(to_onnx(other), model, cloud)
    assert not found.ok
    with pytest.raises(DisagreementError, match="does not agree with the model"):
        require_agreement(found)
    broken = to_onnx(model)
    onnx.helper.set_model_props(broken, {})
    for tensor in broken.graph.initializer:
        if list(tensor.dims) == [60, 2]:
            coef = onnx.numpy_helper.to_array(tensor).copy()
            coef[7, 1] = np.nan
            tensor.CopyFrom(onnx.numpy_helper.from_array(coef, tensor.name))
    found = verify(broken, model, cloud)
    assert np.isnan(found.max_rel)
    assert not found.ok
    assert not Agreement(0.0, 0.0, 10, 1e-9, 0.0, n_labels=1).ok


@pytest.mark.parametrize(
    "make",
    [
        lambda x: KernelPCA(2).fit(x),
        lambda x: KernelPCA(2, kernel=Polynomial(2)).fit(x),
        lambda x: KernelPCA(2, approximation=RandomFourier(50), kernel=RBF(0.3)).fit(x),
        lambda x: KernelPCA(2, kernel=Chi2()).fit(np.abs(x)),
        lambda x: KernelPCA(2, kernel="precomputed").fit(RBF(0.3)(x)),
        lambda x: PCA(2).fit(x + 50.0),
        lambda x: KernelPCADetector().fit(x * 7.0 + 50.0),
    ],
    ids=["exact", "map", "fourier", "chi2", "precomputed", "pca", "detector"],
)
def test_rows_to_try_a_graph_on(make, cloud):
    model = make(cloud)
    rows = sample_rows(model, rng=np.random.default_rng(0))
    assert len(rows) >= 200
    assert verify(to_onnx(model), model, rows).ok
    again = sample_rows(model, rng=np.random.default_rng(0))
    assert np.array_equal(rows, again)


# ── detectors ───────────────────────────────────────────────────────────────
DETECTORS = {
    "default": {},
    "pca": {"model": PCA(2)},
    "map": {"model": KernelPCA(2, kernel=Polynomial(2))},
    "kernel": {"kernel": Matern(1.5, 2.0).normalised() + 0.1 * Polynomial(2), "statistic": "Q"},
    "low-rank": {"approximation": RPCholesky(20), "statistic": "T2", "n_components": 3},
    "stream": {"model": IncrementalKernelPCA(3, kernel=RBF(0.1)), "scale": False},
}


@pytest.mark.parametrize("name", DETECTORS)
def test_detectors_judge_alike(name, cloud):
    x = cloud * [1.0, 100.0, 0.01, 1.0] + [0.0, 1e3, 0.0, -5.0] if name != "stream" else cloud
    detector = KernelPCADetector(random_state=0, **DETECTORS[name]).fit(x)
    asked = np.concatenate([x, 3.0 * (x - x.mean(axis=0)) + x.mean(axis=0)])
    assert set(detector.predict(asked)) == {1, -1}
    for dtype in TOLERANCE:
        proto = to_onnx(detector, dtype=dtype)
        assert [o.name for o in proto.graph.output] == ["T2", "Q", "index", "label"]
        found = verify(proto, detector, asked)
        assert found.ok, (dtype, found)
        assert metadata(proto)["mercer.precision"] == "float64"
    limits = json.loads(metadata(proto)["mercer.limits"])
    assert limits["T2"] == detector.limits_.t2


def test_a_row_that_is_no_row_is_an_alarm(cloud):
    detector = KernelPCADetector(model=KernelPCA(2, kernel=Polynomial(3))).fit(cloud)
    asked = cloud[:3].copy()
    asked[1, 0] = np.nan
    asked[2] = 1e200  # its statistics overflow: infinite, as in the model
    t2, q, index, label = run(to_onnx(detector), asked)
    assert label[1] == -1
    assert np.isnan(t2[1])
    assert np.isinf(index[2])
    assert np.isinf(detector.statistics(asked[2:])["index"][0])
    assert label[2] == -1
    assert q[0] == pytest.approx(detector.statistics(asked[:1])["Q"][0])


# ── prepared models ─────────────────────────────────────────────────────────
@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("kind", [KernelPCA, PCA, IncrementalKernelPCA, KernelPCADetector])
def test_filling_and_scaling_are_inside(kind, dtype, cloud):
    raw = cloud * [1.0, 100.0, 0.01, 1.0] + [5.0, 1e4, 0.0, -3.0]
    center, spread = raw.mean(axis=0), raw.std(axis=0)
    preparation = Preparation(
        ("a", "b", "c", "d"), fills=center + 0.5 * spread, center=center, spread=spread
    )
    model = Prepared(preparation, kind().fit((raw - center) / spread))
    proto = to_onnx(model, dtype=dtype)
    rows = sample_rows(model, rng=np.random.default_rng(0))
    assert np.isnan(rows).any()
    found = verify(proto, model, rows)
    assert found.ok
    limit = (
        TOLERANCE[dtype]
        if kind is not KernelPCADetector
        else {"float64": 1e-9, "float32": 1e-6}[dtype]
    )
    assert found.max_rel <= limit
    assert json.loads(metadata(proto)["mercer.features"]) == ["a", "b", "c", "d"]
    # A gap gives what its fill gives.
    gap, full = raw[:1].astype(dtype), raw[:1].astype(dtype)
    gap[0, 1], full[0, 1] = np.nan, preparation.fills[1]
    np.testing.assert_allclose(run(proto, gap)[0], run(proto, full)[0], rtol=1e-4)


def as_csv(frame, folder):
    path = folder / "rows.csv"
    frame.to_csv(path, index=False)
    return path


FORMS = {
    "frame": lambda frame, _: frame,
    "frame in another order": lambda frame, _: frame[frame.columns[::-1]].assign(more="x"),
    "Arrow": lambda frame, _: pa.Table.from_pandas(frame),
    "file": as_csv,
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("words", [False, True])
def test_frames_and_files_are_verified_like_arrays(form, words, cloud, tmp_path, rng):
    frame = pd.DataFrame(cloud, columns=list("abcd"))
    if words:
        frame = frame.assign(e=rng.choice(["u", "v", "w"], len(frame)))
        parts = (StandardScaler(), list("abcd")), (OneHotEncoder(sparse_output=False), ["e"])
        model = make_pipeline(make_column_transformer(*parts), KernelPCA(3)).fit(frame)
        array = Prepared.from_pipeline(model).coded_rows(frame)
    else:
        model, array = KernelPCA(3).fit(frame), cloud
    if form == "file" and words:  # a pipeline takes no files
        model = Prepared.from_pipeline(model)
    found = verify(to_onnx(model), model, FORMS[form](frame, tmp_path))
    assert found.ok
    assert found.n == len(array)
    np.testing.assert_allclose(run(to_onnx(model), array)[0], model.transform(frame), atol=1e-12)


def test_words_that_no_column_of_the_graph_holds_are_refused(cloud):
    model = KernelPCA(2).fit(cloud)
    with pytest.raises(InputError, match="4 columns of numbers"):
        verify(to_onnx(model), model, np.full((3, 4), "red"))


# ── pipelines ───────────────────────────────────────────────────────────────
PIPELINES = {
    "kernel": lambda: KernelPCA(3),
    "loop": lambda: KernelPCA(3, kernel=Laplacian(0.3)),
    "map": lambda: KernelPCA(3, kernel=Polynomial(2)),
    "pca": lambda: PCA(2),
    "stream": lambda: IncrementalKernelPCA(3),
    "drop-in": lambda: mercer.sklearn.KernelPCA(3, kernel="rbf"),
}


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", PIPELINES)
def test_a_pipeline_with_a_scaler_in_front(name, dtype, cloud):
    register()
    x = (cloud * [1.0, 10.0, 100.0, 0.1] + 50.0).astype(dtype)
    pipeline = make_pipeline(StandardScaler(), PIPELINES[name]()).fit(x)
    found = run(skl2onnx.to_onnx(pipeline, x[:1]), x)[0]
    assert found.dtype == dtype
    scale = np.abs(found).max()
    np.testing.assert_allclose(found, pipeline.transform(x), rtol=0, atol=TOLERANCE[dtype] * scale)


def test_a_pipeline_with_columns_and_a_classifier_behind(cloud):
    register()
    register()  # does no harm
    x, y = cloud.astype(np.float32), (cloud[:, 0] > 0).astype(int)
    columns = ColumnTransformer(
        [
            ("a", KernelPCA(2, kernel=RBF(0.1)), [0, 1]),
            ("b", KernelPCA(2, kernel=Laplacian(0.1)), [2, 3]),
        ]
    )
    pipeline = make_pipeline(columns, LogisticRegression()).fit(x, y)
    proto = skl2onnx.to_onnx(pipeline, x[:1], options={"zipmap": False})
    label, probability = run(proto, x)
    assert np.array_equal(label, pipeline.predict(x))
    np.testing.assert_allclose(probability, pipeline.predict_proba(x), atol=1e-5)


def test_a_pipeline_with_a_detector_behind(cloud):
    register()
    pipeline = make_pipeline(StandardScaler(), KernelPCADetector()).fit(cloud)
    label, decision = run(skl2onnx.to_onnx(pipeline, cloud[:1]), 2.0 * cloud)
    assert np.array_equal(label[:, 0], pipeline.predict(2.0 * cloud))
    np.testing.assert_allclose(decision[:, 0], pipeline.decision_function(2.0 * cloud), rtol=1e-8)


def test_old_opsets_and_functions_are_refused_in_pipelines(cloud):
    register()
    model = KernelPCA(2).fit(cloud)
    with pytest.raises(InputError, match="target_opset=12"):
        skl2onnx.to_onnx(model, cloud[:1], target_opset=12)
    with pytest.raises(KernelError, match="Python function"):
        skl2onnx.to_onnx(KernelPCA(2, kernel=VALID["matrices"]).fit(cloud), cloud[:1])


# ── far rows ────────────────────────────────────────────────────────────────
FAR_KERNELS = {
    **KERNELS,
    "cosine-of-points": Cosine() + 1e-9 * RBF(1e-3),
    "heavy-tail": RationalQuadratic(0.01, 1.0),
    "normalised-poly3": Polynomial(3).normalised(),
    "normalised-poly3-of-points": Polynomial(3).normalised() + 1e-9 * RBF(1e-3),
    "normalised-homogeneous": Polynomial(3, coef0=0.0).normalised(),
    "normalised-sum": (RBF(0.3) + Linear()).normalised(),
}
FACTORS = {
    "float32": (1e-44, 1e-30, 1e-10, 1e3, 1e7, 1e12, 1e20, 1e37),
    "float64": (1e-300, 1e-160, 1e-30, 1e3, 1e7, 1e20, 1e100, 1e160, 1e307),
}


@pytest.mark.parametrize("dtype", FACTORS)
@pytest.mark.parametrize("name", sorted(FAR_KERNELS))
def test_scores_of_far_and_tiny_rows_are_the_models_or_nan(name, dtype, cloud, histograms):
    """Never another number: the graph can't raise, and an overflow on the way must not pass for a score."""
    x = histograms if name in HISTOGRAM or name == "fractional" else cloud
    model = KernelPCA(2, kernel=FAR_KERNELS[name], solver="lapack").fit(x)
    session = onnxruntime.InferenceSession(
        to_onnx(model, dtype=dtype).SerializeToString(), providers=["CPUExecutionProvider"]
    )
    spread = np.sqrt(model.explained_variance_)
    for factor in FACTORS[dtype]:
        rows = (factor * (np.abs(x[:20]) if x is histograms else x[:20])).astype(dtype)
        found = session.run(None, {"X": rows})[0].astype(np.float64)
        with np.errstate(all="ignore"):
            own = model.fit_.projection(rows.astype(np.float64))
        known = np.isfinite(found)
        assert not np.any(np.isinf(found))
        assert np.all(np.isfinite(own[known]))
        scale = np.maximum(np.max(np.abs(own), axis=0, where=known, initial=0.0), spread)
        tolerance = 1e-4 if dtype == "float32" else 1e-8
        assert np.all((np.abs(found - own) <= tolerance * scale)[known])


def test_verify_looks_at_far_rows_and_says_how_far(cloud):
    model = KernelPCA(2, kernel=RBF(0.3)).fit(cloud)
    found = verify(to_onnx(model, dtype="float32"), model, cloud)
    assert found.ok
    assert (found.n_far, found.n_unknown) == (100, 0)
    assert "also on 100 rows spread out and shrunk by 1e-30 to 1e+20" in str(found)
    cubic = KernelPCA(2, kernel=Polynomial(3)).fit(cloud)
    found = verify(to_onnx(cubic, dtype="float32"), cubic, cloud)
    assert found.ok
    assert found.n_unknown == 20  # those at 1e20, whose cubes float32 can't hold
    assert "20 of which the graph answers with NaN" in str(found)


def test_verify_refuses_a_graph_that_is_wrong_far_away_only(cloud, monkeypatch):
    """As graphs once were: squares overflow in float32, and a number over infinity is zero."""
    model = KernelPCA(2, kernel=Cosine() + 1e-9 * RBF(1e-3)).fit(cloud)
    assert verify(to_onnx(model, dtype="float32"), model, cloud).ok

    def naive(of, x, z, d):
        del of, d
        unit = x / x.squared_norms().op("Sqrt")
        return unit @ np.ascontiguousarray((z / np.linalg.norm(z, axis=1)[:, None]).T)

    monkeypatch.setattr("mercer.onnx.kernels._unit", naive)
    far = (1e20 * cloud).astype(np.float32)
    if np.isnan(_run(_session(to_onnx(model, dtype="float32")), far, len(cloud))["scores"]).any():
        pytest.skip("this onnxruntime divides otherwise, and its answer is NaN")
    found = verify(to_onnx(model, dtype="float32"), model, cloud)
    assert found.max_rel < found.tolerance
    assert not found.ok


def test_a_difference_far_away_that_is_no_number_is_no_agreement(cloud, monkeypatch):
    model = KernelPCA(2, kernel=RBF(0.3)).fit(cloud)
    found = {
        far: Agreement(0.0, 0.0, 20, 1e-9, np.nan if far else 0.0, n_unknown=0)
        for far in (False, True)
    }
    module = sys.modules["mercer.onnx.verify"]  # whose name in the package is a function
    monkeypatch.setattr(module, "_compared_scores", lambda *_, far: found[far])
    assert not verify(to_onnx(model), model, cloud).ok


def test_verify_looks_at_far_rows_of_detectors_and_prepared_models(cloud):
    detector = KernelPCADetector(3, kernel=Polynomial(3).normalised(), random_state=0).fit(cloud)
    found = verify(to_onnx(detector), detector, cloud)
    assert found.ok
    assert found.n_far == 100
    center, spread = cloud.mean(axis=0), cloud.std(axis=0)
    preparation = Preparation(("a", "b", "c", "d"), center=center, spread=spread)
    model = Prepared(preparation, KernelPCA(2, kernel=RBF(0.3)).fit(preparation.scaled(cloud)))
    found = verify(to_onnx(model), model, cloud)
    assert found.ok
    assert found.n_far == 100
