"""What a fitted model is made of is what it does: mercer's models, the drop-in and scikit-learn's own."""

import numpy as np
import pytest
from sklearn import decomposition
from sklearn.exceptions import NotFittedError

import mercer.sklearn
from mercer import PCA, IncrementalKernelPCA, KernelPCA, KernelPCADetector
from mercer.errors import InputError
from mercer.estimators.anatomy import Anatomy, is_model
from mercer.kernels import RBF

pytestmark = pytest.mark.filterwarnings("ignore::mercer.errors.MercerWarning")

X = np.random.default_rng(4).standard_normal((40, 3))
K = RBF(0.3)(X, X)
MODELS = {
    "kernel PCA": KernelPCA(2, kernel=RBF(0.3)),
    "kernel PCA and back": KernelPCA(2, kernel=RBF(0.3), preimage="ridge"),
    "kernel matrix": KernelPCA(2, kernel="precomputed"),
    "PCA": PCA(2),
    "stream": IncrementalKernelPCA(2, kernel=RBF(0.3)),
    "stream and back": IncrementalKernelPCA(2, kernel=RBF(0.3), preimage="ridge"),
    "detector": KernelPCADetector(2, kernel=RBF(0.3)),
    "drop-in": mercer.sklearn.KernelPCA(2, kernel="rbf", gamma=0.3),
    "drop-in and back": mercer.sklearn.KernelPCA(2, kernel="rbf", fit_inverse_transform=True),
    "drop-in, kernel matrix": mercer.sklearn.KernelPCA(2, kernel="precomputed"),
    "scikit-learn's PCA": decomposition.PCA(2),
    "scikit-learn's kernel PCA": decomposition.KernelPCA(2, kernel="rbf", gamma=0.3),
    "scikit-learn's kernel matrix": decomposition.KernelPCA(2, kernel="precomputed"),
}


@pytest.fixture(params=MODELS)
def case(request):
    rows = K if "matrix" in request.param else X
    return request.param, MODELS[request.param].fit(rows), rows


def test_pre_images_are_there_where_scores_lead_back(case):
    _, model, rows = case
    body = Anatomy(model)
    scale = body.detector._scale if body.is_detector else lambda x: x
    scores = body.projector.transform(scale(rows))
    try:
        leads_back = body.projector.inverse_transform(scores).shape == rows.shape
    except (InputError, NotFittedError, AttributeError):
        leads_back = False
    assert body.has_preimage == leads_back


def test_the_kernel_is_that_of_the_scores(case):
    name, model, rows = case
    body = Anatomy(model)
    assert body.is_precomputed == ("matrix" in name)
    assert body.is_detector == (name == "detector")
    assert len(body.eigenvalues) == 2
    if body.kernel is not None and not body.is_precomputed and not body.is_detector:
        k = body.kernel(rows, rows)
        centred = k - k.mean(axis=0) - k.mean(axis=1)[:, None] + k.mean()
        largest = np.linalg.eigvalsh(centred)[::-1][:2]
        # A stream leaves out rows, up to a share `tol` of the trace, which bounds what eigenvalues lose.
        left_out = model.tol * np.trace(k) if "stream" in name else 0.0
        np.testing.assert_allclose(body.eigenvalues, largest, rtol=1e-6, atol=left_out)
    ours = type(model).__module__.startswith("mercer.")
    needs_one = ours and name != "PCA" and "kernel matrix" not in name
    assert (body.kernel is not None) == (needs_one or name == "kernel matrix")


def test_rows_are_no_model():
    import pandas as pd

    assert is_model(PCA(2))
    assert not any(map(is_model, (X, X.tolist(), pd.DataFrame(X), None)))
