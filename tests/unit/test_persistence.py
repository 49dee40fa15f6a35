"""Other ways to keep a model: skops with the published list of types, joblib, cloudpickle, pickle."""

import importlib
import io
import pickle

import cloudpickle
import joblib
import numpy as np
import pandas as pd
import pytest
import skops.io as sio
from scipy import sparse
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import mercer
from mercer import PCA, IncrementalKernelPCA, KernelPCA, KernelPCADetector
from mercer.approximations import RandomFourier, RPCholesky
from mercer.kernels import RBF, Linear, Polynomial
from mercer.preimage import PREIMAGES
from mercer.solvers import BlockKrylov
from mercer.solvers.base import Status

X = np.random.default_rng(4).standard_normal((40, 3)) * [2.0, 1.0, 0.5]
NEW = np.random.default_rng(5).standard_normal((5, 3))

MODELS = {
    "exact": lambda: KernelPCA(2, kernel=RBF(0.2) + 0.5 * Linear()).fit(X),
    "krylov": lambda: KernelPCA(2, kernel=RBF(0.2), solver=BlockKrylov()).fit(X),
    "frame": lambda: KernelPCA(2, kernel=RBF(0.2)).fit(pd.DataFrame(X)),
    "primal": lambda: KernelPCA(2, kernel=Polynomial(2)).fit(X),
    "columns": lambda: KernelPCA(2, kernel=Polynomial(2).on([0, 2]).normalised()).fit(X),
    "float32": lambda: KernelPCA(2, kernel=RBF(0.2)).fit(X.astype(np.float32)),
    "sparse": lambda: KernelPCA(2, kernel=RBF(0.2)).fit(sparse.csr_array(X)),
    "rpcholesky": lambda: KernelPCA(2, kernel=RBF(0.2), approximation=RPCholesky(9)).fit(X),
    "fourier": lambda: KernelPCA(2, kernel=RBF(0.2), approximation=RandomFourier(8)).fit(X),
    "pca": lambda: PCA(2).fit(X),
    "stream": lambda: IncrementalKernelPCA(2, kernel=RBF(0.2), max_landmarks=9).partial_fit(X),
    "detector": lambda: KernelPCADetector(kernel=RBF(0.1)).fit(X),
    "drop-in": lambda: mercer.sklearn.KernelPCA(2, kernel="rbf").fit(X),
    "pipeline": lambda: make_pipeline(StandardScaler(), KernelPCA(2, kernel=RBF(0.2))).fit(X),
    **{
        name: lambda name=name: KernelPCA(
            2, kernel="linear" if name == "exact" else RBF(0.2), preimage=name
        ).fit(X)
        for name in PREIMAGES
    },
}

pytestmark = pytest.mark.filterwarnings("ignore::mercer.errors.MercerWarning")


@pytest.fixture(params=sorted(MODELS), scope="module")
def model(request):
    return MODELS[request.param]()


def through_skops(model):
    kept = sio.dumps(model)
    unknown = sio.get_untrusted_types(data=kept)
    assert set(unknown) <= set(mercer.SKOPS_TRUSTED)
    return sio.loads(kept, trusted=[name for name in mercer.SKOPS_TRUSTED if name in unknown])


def through_joblib(model):
    file = io.BytesIO()
    joblib.dump(model, file)
    file.seek(0)
    return joblib.load(file)


WAYS = {
    "skops": through_skops,
    "joblib": through_joblib,
    "cloudpickle": lambda model: pickle.loads(cloudpickle.dumps(model)),
}


@pytest.mark.parametrize("way", sorted(WAYS))
def test_the_same_scores_come_back(model, way):
    again = WAYS[way](model)
    question = "score_samples" if hasattr(model, "score_samples") else "transform"
    np.testing.assert_array_equal(getattr(again, question)(NEW), getattr(model, question)(NEW))
    if getattr(model, "preimage", None) is not None:
        np.testing.assert_array_equal(again.reconstruct(NEW), model.reconstruct(NEW))


def test_the_evidence_comes_back_through_skops():
    model = MODELS["krylov"]()
    again = through_skops(model)
    assert again.fit_.pairs.status is Status.CONVERGED
    assert str(again.fit_) == str(model.fit_)


def test_the_published_types_are_there_and_hold_no_code():
    for name in mercer.SKOPS_TRUSTED:
        module, _, kind = name.rpartition(".")
        assert isinstance(getattr(importlib.import_module(module), kind), type), name
    assert not any("function" in name.lower() for name in mercer.SKOPS_TRUSTED)


def test_a_function_is_kept_by_cloudpickle_and_not_trusted_by_the_list():
    offset = 1.0
    model = KernelPCA(2, kernel=lambda x, y: float(x @ y) + offset).fit(X)
    again = pickle.loads(cloudpickle.dumps(model))
    np.testing.assert_array_equal(again.transform(NEW), model.transform(NEW))
    with pytest.raises(Exception, match=r"lambda|function|pickl"):
        sio.loads(sio.dumps(model), trusted=mercer.SKOPS_TRUSTED)


def test_a_stream_goes_on_after_joblib():
    model = MODELS["stream"]()
    again = through_joblib(model)
    np.testing.assert_array_equal(
        again.partial_fit(NEW).transform(X), model.partial_fit(NEW).transform(X)
    )
