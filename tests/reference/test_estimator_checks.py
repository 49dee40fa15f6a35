"""scikit-learn's common checks, for every estimator, with no exception list."""

import pickle

import joblib
import numpy as np
import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

import mercer
import mercer.sklearn
from mercer.kernels import RBF, Chi2, Linear

ESTIMATORS = [
    mercer.KernelPCA(),
    mercer.KernelPCA(kernel="linear"),
    mercer.KernelPCA(kernel=RBF() + 0.5 * Linear(), preimage="ridge"),
    mercer.KernelPCA(0.9, kernel="laplacian", solver="krylov"),
    mercer.KernelPCA(kernel="precomputed"),
    mercer.KernelPCA(kernel="chi2"),
    mercer.KernelPCA(kernel=Chi2() + RBF()),
    mercer.PCA(),
    mercer.PCA(1),
    mercer.sklearn.KernelPCA(),
    mercer.sklearn.KernelPCA(n_components=2, kernel="rbf", eigen_solver="randomized"),
]


# The checks fit on a handful of random rows: that spectra are flat or short there is no news.
@pytest.mark.filterwarnings("ignore::mercer._core.errors.MercerWarning")
@parametrize_with_checks(ESTIMATORS)
def test_common_checks(estimator, check):
    check(estimator)


@pytest.mark.parametrize("estimator", ESTIMATORS, ids=repr)
@pytest.mark.filterwarnings("ignore::mercer._core.errors.MercerWarning")
def test_pickle_and_joblib_keep_every_bit(estimator, tmp_path, rng):
    x = rng.standard_normal((40, 3)) * [1, 2, 4]
    x = np.abs(x) if estimator.__sklearn_tags__().input_tags.positive_only else x
    data = x @ x.T if getattr(estimator, "kernel", "") == "precomputed" else x
    fitted = estimator.fit(data)
    again = pickle.loads(pickle.dumps(fitted))
    np.testing.assert_array_equal(again.transform(data), fitted.transform(data))
    joblib.dump(fitted, tmp_path / "model.joblib")
    loaded = joblib.load(tmp_path / "model.joblib", mmap_mode="r")
    np.testing.assert_array_equal(loaded.transform(data), fitted.transform(data))
