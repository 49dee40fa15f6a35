"""The drop-in gives scikit-learn's numbers, and works where scikit-learn fails."""

import inspect
from dataclasses import dataclass
from itertools import product

import numpy as np
import pandas as pd
import pytest
import sklearn
from scipy import linalg, sparse
from sklearn.base import clone
from sklearn.datasets import load_iris, make_blobs
from sklearn.decomposition import KernelPCA as Reference
from sklearn.exceptions import ConvergenceWarning
from sklearn.pipeline import make_pipeline
from sklearn.utils import get_tags

import mercer
from mercer.errors import InputError
from mercer.estimators.anatomy import Anatomy
from mercer.kernels import RBF, Chi2, Custom, Linear, Matern, Polynomial, Precomputed
from mercer.sklearn import KernelPCA
from mercer.solvers import BlockKrylov, Lanczos, Lapack

KERNELS = {
    "linear": {},
    "poly": {"degree": 2, "gamma": 0.1, "coef0": 0.5},
    "rbf": {"gamma": 0.2},
    "sigmoid": {"gamma": 0.01, "coef0": 0.1},
    "cosine": {},
}
SOLVERS = ["auto", "dense", "arpack", "randomized"]


def _dotted(u, v):
    return float(u @ v) ** 2


def test_the_signature_is_scikit_learns():
    assert inspect.signature(KernelPCA) == inspect.signature(Reference)
    assert len(inspect.signature(KernelPCA).parameters) == 16


@pytest.mark.parametrize("n", [60, 500])
@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("kernel", sorted(KERNELS))
def test_numbers_and_attributes(kernel, solver, n, rng):
    x, x_new = rng.standard_normal((n, 6)) / np.arange(1, 7), rng.standard_normal((9, 6))
    params = {"n_components": 4, "kernel": kernel, **KERNELS[kernel]}
    theirs = Reference(**params, eigen_solver="dense").fit(x)
    ours = KernelPCA(**params, eigen_solver=solver, random_state=0).fit(x)
    np.testing.assert_allclose(ours.eigenvalues_, theirs.eigenvalues_, rtol=1e-8)
    np.testing.assert_allclose(ours.eigenvectors_, theirs.eigenvectors_, atol=1e-7)
    np.testing.assert_allclose(ours.transform(x_new), theirs.transform(x_new), atol=1e-7)
    np.testing.assert_allclose(ours._centerer.K_fit_rows_, theirs._centerer.K_fit_rows_, atol=1e-9)
    np.testing.assert_allclose(ours._centerer.K_fit_all_, theirs._centerer.K_fit_all_, atol=1e-9)
    for name in vars(theirs):
        assert hasattr(ours, name), name


def test_the_way_back_is_scikit_learns(rng):
    x = rng.standard_normal((80, 3))
    params = {"n_components": 5, "kernel": "rbf", "fit_inverse_transform": True, "alpha": 1e-2}
    theirs, ours = Reference(**params, eigen_solver="dense").fit(x), KernelPCA(**params).fit(x)
    scores = theirs.transform(x[:7])
    np.testing.assert_allclose(ours.dual_coef_, theirs.dual_coef_, atol=1e-6)
    np.testing.assert_allclose(
        ours.inverse_transform(scores), theirs.inverse_transform(scores), atol=1e-7
    )


def test_corners_that_are_no_kernel_of_ours(rng):
    x = rng.standard_normal((30, 3))
    for params in ({"kernel": "rbf", "gamma": 0.0}, {"kernel": "sigmoid", "gamma": 0.0}):
        theirs, ours = (
            kind(n_components=2, **params).fit_transform(x) for kind in (Reference, KernelPCA)
        )
        np.testing.assert_allclose(ours, theirs, atol=1e-6)


def test_a_near_identity_kernel_does_not_crash(rng):
    x = 100 * rng.standard_normal((200, 10))
    assert KernelPCA(3, kernel="rbf").fit_transform(x).shape == (200, 3)
    assert KernelPCA(3, kernel="rbf", eigen_solver="dense").fit_transform(x).shape == (200, 3)
    model = KernelPCA(n_components=2, kernel="rbf", gamma=1e4).fit(load_iris().data)
    np.testing.assert_allclose(model.eigenvalues_, [1.98667, 1.0], rtol=1e-4)


def test_the_pre_image_system_is_solved_once(monkeypatch, rng):
    calls = []
    module = sklearn.decomposition._kernel_pca.linalg
    monkeypatch.setattr(module, "solve", lambda *a, **k: calls.append(1) or linalg_solve(*a, **k))
    KernelPCA(2, kernel="rbf", fit_inverse_transform=True).fit_transform(
        rng.standard_normal((30, 3))
    )
    assert len(calls) == 1


linalg_solve = linalg.solve


def test_a_precomputed_matrix_has_to_be_square():
    with pytest.raises(ValueError, match="must be square"):
        KernelPCA(kernel="precomputed").fit(np.ones((3, 2)))


def test_an_asymmetric_matrix_is_accepted(rng):
    k = rng.standard_normal((20, 3))
    k = k @ k.T
    k[0, 1] += 0.5
    assert KernelPCA(2, kernel="precomputed").fit(k).transform(k[:4]).shape == (4, 2)


def test_float32_keeps_its_dtype_and_its_rank():
    x, _ = make_blobs(30, centers=[[0, 0, 0], [1, 1, 1]], random_state=0, cluster_std=0.1)
    shapes = {dtype: KernelPCA().fit_transform(x.astype(dtype)).shape for dtype in ("f4", "f8")}
    assert shapes["f4"] == shapes["f8"]
    assert KernelPCA(2).fit_transform(x.astype("f4")).dtype == np.float32


# ── digits ──────────────────────────────────────────────────────────────────
@pytest.mark.parametrize(("n", "kind"), [(600, Lanczos), (1600, BlockKrylov)])
@pytest.mark.parametrize("solver", ["auto", "arpack", "randomized"])
def test_small_eigenvalues_have_scikit_learns_digits(solver, n, kind, rng):
    x = rng.standard_normal((n, 3))
    params = {"n_components": 20, "kernel": "rbf", "gamma": 1e-3}
    theirs = Reference(**params, eigen_solver="dense").fit(x).eigenvalues_
    model = KernelPCA(**params, eigen_solver=solver, random_state=0).fit(x)
    assert isinstance(model.plan_.solver, kind)
    assert theirs[-1] < 1e-7 * theirs[0]  # or there is nothing small to get wrong
    np.testing.assert_allclose(model.eigenvalues_, theirs, rtol=1e-8, atol=1e-13 * theirs[0])


def test_digits_do_not_stop_where_the_planner_turns_to_float32(rng):
    x = rng.standard_normal((3010, 2))
    params = {"n_components": 5, "kernel": "rbf", "gamma": 1e-3}
    theirs = Reference(**params, eigen_solver="dense").fit(x)
    ours = KernelPCA(**params, random_state=0).fit(x)
    assert isinstance(ours.plan_.solver, BlockKrylov)
    assert ours.plan_.recipe.proof is None
    top = theirs.eigenvalues_[0]
    assert np.all(theirs.eigenvalues_[2:] < 1e-2 * top)
    np.testing.assert_allclose(ours.eigenvalues_, theirs.eigenvalues_, rtol=1e-8, atol=1e-13 * top)
    np.testing.assert_allclose(ours.eigenvectors_, theirs.eigenvectors_, atol=1e-8)


@pytest.mark.parametrize(
    ("solver", "dtype", "tol", "expected"),
    [
        ("auto", "f8", 0, 1e-12),
        ("auto", "f4", 0, 1e-6),
        ("randomized", "f8", 1e-3, 1e-12),
        ("arpack", "f8", 0, 1e-12),
        ("arpack", "f8", 1e-5, 1e-5),
    ],
)
def test_the_tolerance(solver, dtype, tol, expected, rng):
    x = rng.standard_normal((1510, 3)).astype(dtype)
    model = KernelPCA(3, kernel="rbf", eigen_solver=solver, tol=tol, random_state=0).fit(x)
    assert model.plan_.solver.tol == expected


def test_lapack_stays_where_the_planner_chooses_it(rng):
    x = rng.standard_normal((60, 3))
    model = KernelPCA(3, kernel="rbf", eigen_solver="arpack", tol=1e-2).fit(x)
    assert isinstance(model.plan_.solver, Lapack)


# ── a solver that does not get there ────────────────────────────────────────
@dataclass
class Impatient(BlockKrylov):
    """Gives up after one product, and begins at random."""

    max_products: int = 1
    landmarks: int = 0


def _noisy(n, d, rng):
    """Dot products of rows of noise: no gaps, so one product is never enough."""
    features = rng.standard_normal((n, d))
    return features @ features.T


@pytest.mark.parametrize("solver", ["auto", "arpack", "randomized"])
def test_lapack_takes_over_from_an_unconverged_solver(solver, monkeypatch, rng):
    monkeypatch.setattr("mercer.sklearn.BlockKrylov", Impatient)
    k = _noisy(1510, 700, rng)
    theirs = Reference(3, kernel="precomputed", eigen_solver="dense").fit(k)
    ours = KernelPCA(3, kernel="precomputed", eigen_solver=solver, random_state=0).fit(k)
    np.testing.assert_allclose(ours.eigenvalues_, theirs.eigenvalues_, rtol=1e-10)
    np.testing.assert_allclose(ours.transform(k[:5]), theirs.transform(k[:5]), atol=1e-8)
    assert ours.plan_.solver == Lapack(subset=True)
    assert "did not converge" in str(ours.plan_)


def test_lapack_takes_over_on_the_side_of_the_map(monkeypatch, rng):
    monkeypatch.setattr("mercer.sklearn.BlockKrylov", Impatient)
    x = rng.standard_normal((1500, 1010))  # a covariance too large for the planner's LAPACK
    ours = KernelPCA(3, random_state=0).fit(x)
    assert ours.plan_.route == "primal"
    assert isinstance(ours.plan_.solver, Lapack)
    expected = linalg.svdvals(x - x.mean(axis=0))[:3] ** 2
    np.testing.assert_allclose(ours.eigenvalues_, expected, rtol=1e-10)


def test_a_warning_where_lapack_does_not_fit(monkeypatch, rng):
    k = _noisy(1510, 700, rng)
    monkeypatch.setattr("mercer.sklearn.BlockKrylov", Impatient)
    monkeypatch.setattr("mercer.sklearn.parse_bytes", lambda *_, **__: 2 * 1010**2 * 8 - 1)
    with pytest.warns(ConvergenceWarning, match=r"residual of \d\.\de-0\d of the largest"):
        model = KernelPCA(3, kernel="precomputed", random_state=0).fit(k)
    assert isinstance(model.plan_.solver, BlockKrylov)


# ── parameters ──────────────────────────────────────────────────────────────
def test_numpy_integers_count_components(rng):
    x = rng.standard_normal((50, 4))
    for k in (np.int64(3), np.int8(3), np.uint8(6)):
        theirs, ours = (kind(n_components=k).fit(x) for kind in (Reference, KernelPCA))
        np.testing.assert_allclose(ours.eigenvalues_, theirs.eigenvalues_, atol=1e-10)


@pytest.mark.parametrize("zero", ["gamma", "degree"])
@pytest.mark.parametrize("kernel", [*sorted(KERNELS), "precomputed"])
def test_a_zero_parameter_is_scikit_learns_affair(kernel, zero, rng):
    x = rng.standard_normal((30, 3))
    x = x @ x.T if kernel == "precomputed" else x
    theirs, ours = (
        kind(2, kernel=kernel, eigen_solver="dense", **{zero: 0}).fit(x)
        for kind in (Reference, KernelPCA)
    )
    np.testing.assert_allclose(ours.eigenvalues_, theirs.eigenvalues_, atol=1e-10)
    np.testing.assert_allclose(
        np.abs(ours.transform(x[:4])), np.abs(theirs.transform(x[:4])), atol=1e-6
    )


@pytest.mark.parametrize(
    ("params", "n_completed"),
    [({}, 0), ({"n_components": 6, "remove_zero_eig": True}, 0), ({"n_components": 6}, 1)],
)
def test_no_null_space_is_made_only_to_be_dropped(params, n_completed, monkeypatch, rng):
    calls, qr = [], np.linalg.qr
    monkeypatch.setattr(np.linalg, "qr", lambda *a, **k: calls.append(1) or qr(*a, **k))
    x = rng.standard_normal((60, 4))
    ours = KernelPCA(**params).fit(x)
    assert len(calls) == n_completed
    theirs = Reference(**params, eigen_solver="dense").fit(x)
    np.testing.assert_allclose(ours.eigenvalues_, theirs.eigenvalues_, atol=1e-10)


@pytest.mark.parametrize("kernel", sorted(KERNELS))
def test_sparse_and_dense_rows_mix(kernel, rng):
    x = np.maximum(rng.standard_normal((60, 6)), 0)
    x_new = np.maximum(rng.standard_normal((7, 6)), 0)
    params = {"n_components": 3, "kernel": kernel, **KERNELS[kernel]}
    expected = Reference(**params, eigen_solver="dense").fit(x).transform(x_new)
    for old, new in ((sparse.csr_matrix(x), x_new), (x, sparse.csr_matrix(x_new))):
        np.testing.assert_allclose(KernelPCA(**params).fit(old).transform(new), expected, atol=1e-7)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize(
    "params", [{}, {"n_components": 60}, {"n_components": 60, "remove_zero_eig": True}]
)
def test_evidence_is_of_the_eigenvalues_that_scikit_learn_keeps(params, weighted, dtype, rng):
    centres = 5.0 * rng.standard_normal((4, 2))
    x = (centres[np.arange(60) % 4] + 0.05 * rng.standard_normal((60, 2))).astype(dtype)
    weights = rng.uniform(0.5, 2.0, 60) if weighted else None
    ours = KernelPCA(kernel="rbf", gamma=0.3, **params).fit(x, sample_weight=weights)
    there = ours.eigenvalues_[ours.eigenvalues_ > 0]
    np.testing.assert_allclose(ours.fit_.eigenvalues, there, rtol=1e-6, atol=1e-6 * there[0])
    assert len(ours.residuals_) == len(there)
    # Kernel values of at most 1 and their sums are rounded, and divided by the root of an eigenvalue.
    off = np.abs(ours.fit_.projection(x) - ours.transform(x)[:, : len(there)])
    assert np.all(off <= 8.0 * np.finfo(dtype).eps * np.sqrt(60.0 / there))


@pytest.mark.parametrize(
    "params", [{}, {"n_components": 2}, {"n_components": 2, "remove_zero_eig": True}]
)
def test_constant_rows_have_scikit_learns_shapes(params):
    x = np.ones((9, 3))
    theirs, ours = (kind(**params).fit(x) for kind in (Reference, KernelPCA))
    np.testing.assert_array_equal(ours.eigenvalues_, theirs.eigenvalues_)
    assert ours.eigenvectors_.shape == theirs.eigenvectors_.shape
    np.testing.assert_array_equal(ours.transform(x[:4] + 1.0), theirs.transform(x[:4] + 1.0))
    gram = ours.eigenvectors_.T @ ours.eigenvectors_
    np.testing.assert_allclose(gram, np.eye(len(gram)), atol=1e-12)


# ── kernel objects ───────────────────────────────────────────────────────────
OBJECTS = {
    "rbf": RBF(0.3),
    "median": RBF("median"),
    "sum": RBF("median") + 0.5 * Linear(),
    "polynomial": Polynomial(2, gamma=0.5),
    "linear": Linear(),
    "matern": Matern(1.5, 2.0),
    "chi2": Chi2(0.5),
    "columns": RBF(0.5).on([0, 2]),
    "names": RBF("median").on(["c", "a"]),
    "function": Custom(_dotted),
}


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("kind", [pd.DataFrame, sparse.csr_matrix, sparse.csr_array])
@pytest.mark.parametrize("name", sorted(OBJECTS))
def test_a_kernel_object_is_that_kernel(name, kind, weighted, rng):
    """scikit-learn on the kernel matrix of the rows that count is the reference."""
    if name == "names" and kind is not pd.DataFrame:
        pytest.skip("sparse rows have no names")
    x, x_new = rng.random((40, 4)), rng.random((7, 4))
    weights = np.arange(40) % 4 if weighted else np.ones(40, dtype=int)
    copies = np.repeat(np.arange(40), weights)
    named = {"columns": list("abcd")} if kind is pd.DataFrame else {}
    ours = KernelPCA(3, kernel=OBJECTS[name]).fit(kind(x, **named), sample_weight=weights)
    k = (
        mercer.KernelPCA(3, kernel=OBJECTS[name])
        .fit(pd.DataFrame(x[copies], columns=list("abcd")))
        .kernel_
    )
    theirs = Reference(3, kernel="precomputed", eigen_solver="dense").fit(k(x[copies]))
    np.testing.assert_allclose(ours.eigenvalues_, theirs.eigenvalues_, rtol=1e-8)
    scores = theirs.transform(k(x_new, x[copies]))
    np.testing.assert_allclose(ours.transform(kind(x_new, **named)), scores, atol=1e-7)
    assert clone(ours).kernel == OBJECTS[name]


@pytest.mark.parametrize("name", sorted({*OBJECTS} - {"chi2", "columns", "names", "function"}))
def test_a_kernel_object_leads_back_and_is_kept_in_a_file(name, rng, tmp_path):
    x, x_new = rng.random((40, 4)), rng.random((7, 4))
    params = {"n_components": 3, "fit_inverse_transform": True, "alpha": 0.1}
    ours = KernelPCA(kernel=OBJECTS[name], **params).fit(x)
    k = mercer.KernelPCA(3, kernel=OBJECTS[name]).fit(x).kernel_
    pairs = Reference(kernel=lambda u, v: k([u], [v]).item(), eigen_solver="dense", **params).fit(x)
    scores = pairs.transform(x_new)
    np.testing.assert_allclose(
        ours.inverse_transform(scores), pairs.inverse_transform(scores), atol=1e-6
    )
    ours.save(tmp_path / "model.mercer")
    again = mercer.load(tmp_path / "model.mercer")
    np.testing.assert_array_equal(again.transform(x_new), ours.transform(x_new))
    np.testing.assert_array_equal(again.inverse_transform(scores), ours.inverse_transform(scores))
    assert again.kernel == ours.kernel == OBJECTS[name]


def test_a_precomputed_object_is_the_name(rng):
    x = rng.random((30, 4))
    k = RBF(0.3)(x)
    named, made = (KernelPCA(2, kernel=kind) for kind in ("precomputed", Precomputed()))
    np.testing.assert_array_equal(made.fit_transform(k), named.fit_transform(k))
    assert get_tags(made).input_tags.pairwise
    assert Anatomy(made).is_precomputed
    with pytest.raises(ValueError, match="with a precomputed kernel"):
        made.set_params(fit_inverse_transform=True).fit(k)


def test_a_kernel_object_has_its_own_parameters(rng):
    x = rng.random((30, 4))
    model = KernelPCA(2, kernel=RBF(0.5))
    values = model.set_params(kernel__gamma=2.0).fit(x).eigenvalues_
    np.testing.assert_allclose(
        values, KernelPCA(2, kernel="rbf", gamma=2.0).fit(x).eigenvalues_, rtol=1e-10
    )
    with pytest.raises(InputError, match="kernel_params must be None where kernel is an object"):
        model.set_params(kernel_params={"gamma": 1.0}).fit(x)
    with pytest.raises(InputError, match="must be an object; got the class RBF"):
        KernelPCA(2, kernel=RBF).fit(x)
    for old, new in ((x - 2.0, x), (x, x - 2.0)):
        with pytest.raises(InputError, match="Negative values"):
            KernelPCA(2, kernel=Chi2(0.5)).fit(old).transform(new)


# ── functions and sparse rows ────────────────────────────────────────────────
SPARSE = [
    sparse.csr_matrix, sparse.csc_matrix, sparse.coo_matrix, sparse.csr_array, sparse.csc_array,
    sparse.coo_array,
]  # fmt: skip


class Seen:
    """A product of matrices for one kind of sparse rows, of entries for the other; it notes what it gets."""

    def __init__(self):
        self.kinds = set()

    def __call__(self, u, v, a=1.0):
        self.kinds.add((type(u), type(v), u.shape, v.shape, u.dtype))
        return a * float((u * v.T).sum()) ** 2


@pytest.mark.parametrize("params", [None, {"a": 2.0}], ids=["bare", "kernel_params"])
@pytest.mark.parametrize(("kind", "new"), [(np.asarray, np.asarray), *product(SPARSE, SPARSE[::3])])
def test_a_function_is_handed_what_scikit_learn_hands_it(kind, new, params, rng):
    x, x_new = (rng.random((n, 6)) * (rng.random((n, 6)) < 0.6) for n in (30, 7))
    fitted, seen = [], []
    for model in (Reference, KernelPCA):
        function = Seen()
        fit = model(3, kernel=function, kernel_params=params, random_state=0).fit(kind(x))
        fitted.append((fit.eigenvalues_, np.abs(fit.transform(new(x_new)))))
        seen.append(function.kinds)
    assert seen[0] == seen[1]
    for theirs, ours in zip(*fitted, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("kind", SPARSE)
@pytest.mark.parametrize("kernel", sorted(KERNELS))
def test_names_on_every_kind_of_sparse_rows(kernel, kind, rng):
    x, x_new = (kind(rng.random((n, 6)) * (rng.random((n, 6)) < 0.6)) for n in (30, 7))
    params = {"n_components": 3, "kernel": kernel, **KERNELS[kernel]}
    theirs, ours = Reference(**params, eigen_solver="dense").fit(x), KernelPCA(**params).fit(x)
    np.testing.assert_allclose(ours.eigenvalues_, theirs.eigenvalues_, rtol=1e-8)
    np.testing.assert_allclose(ours.transform(x_new), theirs.transform(x_new), atol=1e-7)


# ── weights ──────────────────────────────────────────────────────────────────
@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("kernel", [*sorted(KERNELS), "precomputed", _dotted])
def test_a_row_of_weight_two_is_a_row_twice(kernel, solver, rng):
    """scikit-learn on repeated rows is the reference; weights 0, 1, 2, 3."""
    x, x_new = rng.standard_normal((40, 4)) / np.arange(1, 5), rng.standard_normal((7, 4))
    weights = np.arange(40) % 4
    copies = np.repeat(np.arange(40), weights)
    kept, first = np.unique(copies, return_index=True)
    repeated, repeated_new = x[copies], x_new
    if kernel == "precomputed":
        gram = np.exp(-0.3 * ((x[:, None] - x) ** 2).sum(axis=-1))
        x, x_new = gram, np.exp(-0.3 * ((x_new[:, None] - x) ** 2).sum(axis=-1))
        repeated, repeated_new = gram[np.ix_(copies, copies)], x_new[:, copies]
    back = kernel != "precomputed"
    params = {"n_components": 3, "kernel": kernel, "alpha": 0.1, "fit_inverse_transform": back}
    params |= KERNELS.get(kernel, {}) if isinstance(kernel, str) else {}
    theirs = Reference(**params, eigen_solver="dense").fit(repeated)
    ours = KernelPCA(**params, eigen_solver=solver, random_state=0)
    scores = ours.fit_transform(x, sample_weight=weights)
    np.testing.assert_allclose(ours.eigenvalues_, theirs.eigenvalues_, rtol=1e-8)
    np.testing.assert_allclose(ours.eigenvectors_[kept], theirs.eigenvectors_[first], atol=1e-7)
    np.testing.assert_allclose(scores, ours.transform(x), atol=1e-7)  # those of weight 0 too
    np.testing.assert_allclose(ours.transform(x_new), theirs.transform(repeated_new), atol=1e-7)
    if back:
        some = theirs.transform(repeated[:9])
        np.testing.assert_allclose(
            ours.inverse_transform(some), theirs.inverse_transform(some), atol=1e-6
        )


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize(
    ("kernel", "unit"),
    [*product(["rbf"], [1e-300, 1e-100, 1e40, 1e200]), *product(["linear"], [1e-300, 1e-100])],
)
def test_scores_do_not_depend_on_the_unit_of_the_weights(kernel, unit, dtype, rng):
    x, weights = rng.standard_normal((40, 4)).astype(dtype), rng.uniform(0.5, 2.0, 40)
    one, other = (
        KernelPCA(3, kernel=kernel).fit(x, sample_weight=w) for w in (weights, unit * weights)
    )
    rtol = 1e4 * np.finfo(dtype).eps
    np.testing.assert_allclose(other.eigenvalues_ / unit, one.eigenvalues_, rtol=rtol)
    np.testing.assert_allclose(other.transform(x), one.transform(x), atol=rtol)
    assert other.transform(x).dtype == dtype
    assert len(other.residuals_) == 3


def test_weights_travel_through_a_pipeline_and_by_routing(rng):
    x, weights = rng.standard_normal((30, 3)), np.arange(30) % 3
    alone = KernelPCA(2, kernel="rbf").fit(x, sample_weight=weights)
    with sklearn.config_context(enable_metadata_routing=True):
        step = KernelPCA(2, kernel="rbf").set_fit_request(sample_weight=True)
        routed = make_pipeline(step).fit(x, sample_weight=weights)[0]
    piped = make_pipeline(KernelPCA(2, kernel="rbf")).fit(x, kernelpca__sample_weight=weights)[0]
    for model in (routed, piped):
        np.testing.assert_array_equal(model.eigenvalues_, alone.eigenvalues_)
    with pytest.raises(ValueError, match="30 numbers") as caught:
        KernelPCA(2).fit(x, sample_weight=[1, 2, 3])
    assert (caught.value.parameter, caught.value.value) == ("sample_weight", (3,))


@pytest.mark.parametrize("weights", [np.ones(30), None])
def test_weights_of_one_are_none(weights, rng):
    x = rng.standard_normal((30, 3))
    theirs, ours = KernelPCA(2, kernel="rbf").fit(x), KernelPCA(2, kernel="rbf")
    np.testing.assert_array_equal(
        ours.fit_transform(x, sample_weight=weights), theirs.fit_transform(x)
    )


# ── what is refused ──────────────────────────────────────────────────────────
_X = np.random.default_rng(5).standard_normal((12, 4))
_HOLE = np.where(np.arange(48).reshape(12, 4) == 9, np.nan, _X)
NO_ROWS = {
    "sparse K": sparse.csr_matrix(_X @ _X.T),
    "sparse K, coo_array": sparse.coo_array(_X @ _X.T),
    "sparse, not square": sparse.csr_array(_X),
    "sparse, one-dimensional": sparse.coo_array(_X[0]),
    "sparse, complex": sparse.csr_array(_X + 1j),
    "not square": _X,
    "NaN": _HOLE,
    "sparse NaN": sparse.csr_array(_HOLE),
    "None": [[1.0, 2.0, 3.0, 4.0], [None, 0.0, 1.0, 2.0], [0.0, 1.0, 1.0, 0.0]],
    "one-dimensional": _X[0],
    "three-dimensional": _X[None],
    "a number": np.float64(3.0),
    "nothing": None,
    "text": "abc",
    "texts": ["a", "b"],
    "texts in rows": np.array([["a", 1.0], ["b", 2.0]], dtype=object),
    "complex": _X + 1j,
    "no rows": _X[:0],
    "no columns": _X[:, :0],
    "dictionary": {"a": [1.0, 2.0]},
    "set": {1.0, 2.0},
    "dictionaries": [{"a": 1.0}, {"a": 2.0}],
    "dictionaries in rows": np.array([[{"a": 1.0}, 2.0], [3.0, 4.0]], dtype=object),
    "ragged": [[1.0, 2.0], [3.0]],
    "records": np.rec.fromarrays([_X[:, 0], _X[:, 1]], names="a,b"),
    "bytes": b"abc",
    "series": pd.Series(_X[:, 0]),
    "texts in a frame": pd.DataFrame({"a": ["x", "y"]}),
    "an object": object(),
}


@pytest.mark.parametrize("kernel", [*sorted(KERNELS), "precomputed", _dotted])
@pytest.mark.parametrize("name", NO_ROWS)
@pytest.mark.filterwarnings("ignore:X has feature names:UserWarning")
def test_what_scikit_learn_refuses_is_refused_by_the_same_type(name, kernel):
    """A caller who catches scikit-learn's error catches mercer's."""
    rows = _X @ _X.T if kernel == "precomputed" else _X

    def told(ask):
        try:
            ask(NO_ROWS[name])
        except Exception as error:  # any is compared
            return error
        return None

    for ask in (
        lambda cls: cls(2, kernel=kernel).fit,
        lambda cls: cls(2, kernel=kernel).fit(rows).transform,
    ):
        theirs, ours = told(ask(Reference)), told(ask(KernelPCA))
        # Of None, and of a row that an old NumPy warns of, the error is that of the function itself.
        of_function = callable(kernel) and (name == "None" or isinstance(theirs, Warning))
        if theirs is None or of_function:
            continue
        bases = [base for base in (ValueError, TypeError) if isinstance(theirs, base)]
        assert bases, theirs
        assert isinstance(ours, bases[0]), (theirs, ours)
        if "Sparse data was passed" in str(theirs):
            assert str(ours).startswith("Sparse data was passed for X, but dense data is required")
