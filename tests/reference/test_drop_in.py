"""The drop-in gives scikit-learn's numbers, and works where scikit-learn fails."""

import inspect

import numpy as np
import pytest
import sklearn
from scipy import linalg
from sklearn.datasets import load_iris, make_blobs
from sklearn.decomposition import KernelPCA as Reference

from mercer.sklearn import KernelPCA

KERNELS = {
    "linear": {},
    "poly": {"degree": 2, "gamma": 0.1, "coef0": 0.5},
    "rbf": {"gamma": 0.2},
    "sigmoid": {"gamma": 0.01, "coef0": 0.1},
    "cosine": {},
}
SOLVERS = ["auto", "dense", "arpack", "randomized"]


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
