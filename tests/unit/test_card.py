"""The card of a model: what it says is what the model says, for every kind of model, and JSON holds it."""

import json
from dataclasses import FrozenInstanceError

import numpy as np
import pandas as pd
import pytest
import sklearn

import mercer
from mercer import PCA, IncrementalKernelPCA, KernelPCA, KernelPCADetector, ModelCard, Prepared
from mercer.approximations import RPCholesky
from mercer.errors import InputError
from mercer.kernels import RBF, Custom, Linear
from mercer.model.checkpoint import digest
from mercer.persistence.model_file import read_header
from mercer.preprocessing.preparation import Preparation

pytestmark = pytest.mark.filterwarnings("ignore::mercer.errors.MercerWarning")

X = np.random.default_rng(3).standard_normal((50, 3)) * [2.0, 1.0, 0.5]
FRAME = pd.DataFrame(X, columns=["a", "b", "c"])
DropIn = mercer.sklearn.KernelPCA


def half_seen():
    return IncrementalKernelPCA(2, kernel=RBF(0.2)).partial_fit(X[:1])


MODELS = {
    "exact": lambda: KernelPCA(2, kernel=RBF(0.2)).fit(X),
    "names": lambda: KernelPCA(2, kernel=RBF(0.2) + 0.5 * Linear()).fit(FRAME),
    "approximation": lambda: KernelPCA(2, approximation=RPCholesky(rank=9)).fit(X),
    "pre-image": lambda: KernelPCA(2, preimage="ridge").fit(X),
    "precomputed": lambda: KernelPCA(2, kernel="precomputed").fit(RBF(0.2)(X)),
    "own function": lambda: KernelPCA(2, kernel=Custom(lambda x, y: x @ y.T, "matrices")).fit(X),
    "linear": lambda: PCA(2).fit(FRAME),
    "stream": lambda: IncrementalKernelPCA(2, preimage="gradient").fit(X),
    "stream of one row": half_seen,
    "detector": lambda: KernelPCADetector(2, kernel=RBF(0.1)).fit(FRAME),
    "detector of PCA": lambda: KernelPCADetector(model=PCA(2)).fit(X),
    "drop-in": lambda: DropIn(2, kernel="rbf", fit_inverse_transform=True).fit(X),
    "drop-in, precomputed": lambda: DropIn(2, kernel="precomputed").fit(RBF(0.2)(X)),
    "prepared": lambda: Prepared(Preparation(("a", "b", "c"), center=X[0]), PCA(2).fit(X - X[0])),
}


@pytest.fixture(params=MODELS)
def model(request):
    return MODELS[request.param]()


def test_json_holds_it(model):
    found = mercer.card(model)
    text = json.dumps(found.to_dict(), allow_nan=False)
    assert ModelCard.from_dict(json.loads(text)) == found
    with pytest.raises(FrozenInstanceError):
        found.kind = "PCA"


def test_it_says_what_the_model_says(model):
    inner = model.model if isinstance(model, Prepared) else model
    found, projector = mercer.card(model), getattr(inner, "model_", inner)
    assert found.kind == ("sklearn.KernelPCA" if type(inner) is DropIn else type(inner).__name__)
    assert found.d == inner.n_features_in_
    assert found.is_detector == isinstance(inner, KernelPCADetector)
    assert found.config.keys() == inner.get_params(deep=False).keys()
    assert found.versions["scikit-learn"] == sklearn.__version__
    if hasattr(projector, "explained_variance_ratio_"):
        assert found.n_components == len(projector.eigenvalues_)
        np.testing.assert_array_equal(found.explained, projector.explained_variance_ratio_)
        np.testing.assert_array_equal(found.evidence["residuals"], projector.residuals_)
        assert found.plan == str(projector.fit_.plan)
        assert found.evidence["summary"] == str(projector.fit_).splitlines()


def test_pre_images_and_given_kernels_are_told():
    has = {name: mercer.card(make()).preimage is not None for name, make in MODELS.items()}
    assert {name for name, known in has.items() if known} == {
        "pre-image",
        "linear",
        "stream",
        "detector of PCA",
        "drop-in",
        "prepared",
    }
    given = {name for name, make in MODELS.items() if mercer.card(make()).precomputed}
    assert given == {"precomputed", "drop-in, precomputed"}
    model = MODELS["pre-image"]()
    assert mercer.card(model).preimage["quality"]["error"] == model.preimage_.quality.error


def test_limits_are_those_of_the_detector():
    model = MODELS["detector"]()
    found = mercer.card(model)
    assert (found.limits["t2"], found.limits["q"]) == (model.limits_.t2, model.limits_.q)
    assert found.limits["statistic"] == "combined"
    assert found.evidence["limits"] == str(model.limits_).splitlines()
    assert (found.kernel, found.features) == ("RBF(gamma=0.1)", ("a", "b", "c"))


def test_the_digest_is_that_of_the_training_rows():
    exact, approximate = MODELS["exact"](), MODELS["approximation"]()
    assert mercer.card(exact).data["digest"] == digest(X)
    assert mercer.card(exact, digest=False).data["digest"] is None
    assert mercer.card(approximate).data["digest"] is None
    assert mercer.card(approximate, X).data["digest"] == digest(X)
    assert mercer.card(approximate, {"n": 7}).n == 7


def test_the_header_of_a_file_is_its_card(tmp_path):
    for name in ("exact", "detector", "stream", "prepared", "drop-in"):
        model = MODELS[name]()
        model.save(tmp_path / "m.mercer")
        assert ModelCard.from_dict(read_header(tmp_path / "m.mercer")) == mercer.card(model), name


@pytest.mark.parametrize(
    "wrong", [None, 3, "model", [], {"kind": "PCA"}, sklearn.base.BaseEstimator()]
)
def test_what_is_not_a_model_is_refused(wrong):
    with pytest.raises(InputError, match=r"card takes a fitted KernelPCA.*; got a "):
        mercer.card(wrong)


def test_a_model_that_is_not_fitted_is_refused():
    for model in (KernelPCA(2), PCA(), KernelPCADetector(), DropIn(2)):
        with pytest.raises(sklearn.exceptions.NotFittedError):
            mercer.card(model)


def test_a_card_needs_a_kind():
    for found in ({"kernel": "RBF"}, [], None):
        with pytest.raises(InputError, match="A card needs a kind"):
            ModelCard.from_dict(found)
    assert ModelCard.from_dict({"kind": "PCA", "other": 1}) == ModelCard("PCA")
