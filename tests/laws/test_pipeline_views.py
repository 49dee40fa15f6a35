"""Pictures and importance of a pipeline: whatever scikit-learn can transform, by the pipeline's own steps."""

import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.compose import ColumnTransformer, make_column_selector, make_column_transformer
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.feature_selection import SelectKBest, VarianceThreshold, f_regression
from sklearn.impute import KNNImputer, SimpleImputer
from sklearn.pipeline import FeatureUnion, make_pipeline, make_union
from sklearn.preprocessing import (
    FunctionTransformer,
    KBinsDiscretizer,
    OneHotEncoder,
    OrdinalEncoder,
    PolynomialFeatures,
    PowerTransformer,
    QuantileTransformer,
    SplineTransformer,
    StandardScaler,
    TargetEncoder,
)

import mercer
from mercer import PCA, IncrementalKernelPCA, KernelPCA, KernelPCADetector, plots, views
from mercer.diagnostics import importance
from mercer.errors import InputError
from mercer.kernels import RBF
from mercer.views.fitted import Fitted

pytestmark = [
    pytest.mark.filterwarnings("ignore::mercer.errors.MercerWarning"),
    pytest.mark.filterwarnings("ignore:X does not have valid feature names:UserWarning"),
    pytest.mark.filterwarnings("ignore:.TargetEncoder:FutureWarning"),
]

RNG = np.random.default_rng(4)
N = 60
FRAME = pd.DataFrame(RNG.standard_normal((N, 3)) * [1.0, 10.0, 100.0], columns=["a", "b", "c"])
WORDS = RNG.choice(["red", "blue", "green", "rare"], N, p=[0.4, 0.3, 0.25, 0.05])
MIXED = FRAME.assign(colour=WORDS, size=RNG.choice(["s", "m"], N))
GAPPY = MIXED.mask(RNG.random(MIXED.shape) < 0.1)
TARGET = FRAME["a"].to_numpy() + RNG.standard_normal(N)
NUMBERS, NAMES = ["a", "b", "c"], ["colour", "size"]
CONSTANT = make_pipeline(
    SimpleImputer(strategy="constant", fill_value="none"), OneHotEncoder(sparse_output=False)
)


class Mine(TransformerMixin, BaseEstimator):
    """A step of one's own, which turns columns round and has no names for them."""

    def fit(self, X, _y=None):
        self.n_features_in_ = X.shape[1]
        return self

    def transform(self, X):
        return np.asarray(X)[:, ::-1]


def beside(*parts, **how):
    return make_column_transformer((StandardScaler(), NUMBERS), *parts, **how)


def kpca():
    return KernelPCA(2, kernel=RBF(0.1))


class Elsewhere(pd.DataFrame):
    """A data frame of another package, such as one of places."""

    __module__ = "elsewhere.frames"


def relation():
    return pytest.importorskip("duckdb").from_df(FRAME)


# Tables that `fit` reads.
TABLES = {
    "data frame of another package": lambda: Elsewhere(FRAME),
    "polars": lambda: pytest.importorskip("polars").from_pandas(FRAME),
    "polars, lazy": lambda: pytest.importorskip("polars").from_pandas(FRAME).lazy(),
    "Arrow": lambda: pytest.importorskip("pyarrow").Table.from_pandas(FRAME),
    "relation": relation,
}


@pytest.mark.parametrize("detects", [False, True])
@pytest.mark.parametrize("name", TABLES)
def test_pictures_are_of_whatever_fit_reads(name, detects):
    model = KernelPCADetector(2, kernel=RBF(0.1)) if detects else kpca()
    model.fit(TABLES[name]())
    view, wanted = views.scores(model, TABLES[name]()), views.scores(model, FRAME)
    np.testing.assert_allclose(view.points, wanted.points, rtol=1e-10, atol=1e-12)
    assert plots.scores(model, TABLES[name]()) is not None


PIPELINES = {
    "constant words": (beside((CONSTANT, ["colour"])), MIXED),
    "constant words, gaps": (
        make_column_transformer(
            (make_pipeline(SimpleImputer(), StandardScaler()), NUMBERS), (CONSTANT, NAMES)
        ),
        GAPPY,
    ),
    "rare words": (beside((OneHotEncoder(min_frequency=5), ["colour"])), MIXED),
    "few categories": (beside((OneHotEncoder(max_categories=2), NAMES)), MIXED),
    "first word left out": (beside((OneHotEncoder(drop="first"), NAMES)), MIXED),
    "one-hot, sparse": (
        make_column_transformer((OneHotEncoder(min_frequency=5), NAMES), sparse_threshold=1.0),
        MIXED,
    ),
    "one-hot, plain": (beside((OneHotEncoder(), NAMES)), MIXED),
    "ordinal": (beside((OrdinalEncoder(), NAMES)), MIXED),
    "target": (beside((TargetEncoder(cv=3), NAMES)), MIXED),
    "remainder": (
        make_column_transformer((OrdinalEncoder(), NAMES), remainder="passthrough"),
        MIXED,
    ),
    "remainder scaled": (
        make_column_transformer((OrdinalEncoder(), NAMES), remainder=StandardScaler()),
        MIXED,
    ),
    "dropped": (ColumnTransformer([("n", StandardScaler(), NUMBERS), ("w", "drop", NAMES)]), MIXED),
    "selected by type": (
        make_column_transformer(
            (StandardScaler(), make_column_selector(dtype_include=np.number)), (CONSTANT, NAMES)
        ),
        MIXED,
    ),
    "columns by position": (
        ColumnTransformer([("n", StandardScaler(), [2, 0]), ("w", CONSTANT, [3])]),
        MIXED,
    ),
    "function without names": (FunctionTransformer(np.tanh), FRAME),
    "function with names": (
        FunctionTransformer(np.tanh, feature_names_out="one-to-one"),
        FRAME,
    ),
    "a step of one's own": (Mine(), FRAME),
    "a step of one's own, set_output": (make_pipeline(Mine(), StandardScaler()), FRAME),
    "bins": (KBinsDiscretizer(3, encode="onehot-dense", quantile_method="linear"), FRAME),
    "sparse bins": (KBinsDiscretizer(3, quantile_method="linear"), FRAME),
    "polynomial": (make_pipeline(StandardScaler(), PolynomialFeatures(2)), FRAME),
    "splines": (SplineTransformer(4), FRAME),
    "quantiles": (QuantileTransformer(n_quantiles=10), FRAME),
    "powers": (PowerTransformer(), FRAME),
    "neighbours": (make_pipeline(KNNImputer(), StandardScaler()), GAPPY[NUMBERS]),
    "indicator": (
        make_pipeline(SimpleImputer(add_indicator=True), StandardScaler()),
        GAPPY[NUMBERS],
    ),
    "chosen": (SelectKBest(f_regression, k=2), FRAME),
    "variance": (make_pipeline(VarianceThreshold(), StandardScaler()), FRAME),
    "union": (make_union(StandardScaler(), PolynomialFeatures(2, include_bias=False)), FRAME),
    "union with a function": (
        FeatureUnion([("s", StandardScaler()), ("f", FunctionTransformer(np.tanh))]),
        FRAME,
    ),
    "pandas out": (beside((OrdinalEncoder(), NAMES)).set_output(transform="pandas"), MIXED),
    "polars out": (
        beside((OrdinalEncoder(), NAMES)).set_output(transform="polars"),
        MIXED,
    ),
    "pipeline in a pipeline": (
        make_pipeline(beside((CONSTANT, NAMES)), make_pipeline(PowerTransformer())),
        MIXED,
    ),
    "plain scaler": (StandardScaler(), FRAME),
    "scaler of an array": (make_pipeline(StandardScaler(), PowerTransformer()), FRAME.to_numpy()),
    "passthrough": (make_pipeline("passthrough", FunctionTransformer(np.tanh)), FRAME),
    "texts": (
        make_column_transformer((TfidfVectorizer(), "text")),
        pd.DataFrame(
            {"text": [f"{word} {size}" for word, size in zip(WORDS, NAMES * 30, strict=True)]}
        ),
    ),
}
MODELS = {
    "KernelPCA": kpca,
    "PCA": lambda: PCA(2),
    "drop-in": lambda: mercer.sklearn.KernelPCA(2, kernel="rbf", gamma=0.1),
    "pipeline": lambda: make_pipeline(kpca()),
}


@pytest.fixture(params=PIPELINES)
def market(request):
    steps, rows = PIPELINES[request.param]
    return lambda model: (make_pipeline(steps, model).fit(rows, TARGET), rows)


@pytest.mark.parametrize("model", MODELS)
def test_scores_are_those_of_the_pipeline(market, model):
    pipeline, rows = market(MODELS[model]())
    wanted = pipeline.transform(rows)
    view = views.scores(pipeline, rows, components=range(wanted.shape[1]))
    # Scalers are read as one, (x - c)/s, so a row may move by rounding where all steps are known.
    np.testing.assert_allclose(view.points, wanted, rtol=0, atol=1e-9 * np.abs(wanted).max())
    last = pipeline[-1] if model != "pipeline" else pipeline[-1][-1]
    spectrum = views.spectrum(pipeline)
    np.testing.assert_array_equal(spectrum.eigenvalues, last.eigenvalues_)
    for draw in (plots.scores, plots.arrows):
        if model != "drop-in" or draw is plots.scores:
            assert draw(pipeline, rows, ax=Figure().subplots()).collections
    assert plots.spectrum(pipeline, ax=Figure().subplots()).patches


def test_importance_is_of_the_columns_that_the_steps_make(market):
    pipeline, rows = market(kpca())
    made = pipeline[:-1].transform(rows)
    made = made.toarray() if hasattr(made, "toarray") else np.asarray(made)
    blame = importance(pipeline, rows)
    if (
        Fitted.of(pipeline).steps is None
    ):  # all steps are known: blame is folded to the columns of rows
        assert set(blame.names) <= set(rows.columns)
        return
    alone = importance(pipeline[-1], made)
    np.testing.assert_allclose(blame.sizes, alone.sizes, rtol=1e-12)
    try:
        names = tuple(pipeline[:-1].get_feature_names_out())
    except AttributeError:  # then they are numbered: names of other columns would be wrong
        numbered = [f"x{j}" for j in range(made.shape[1])]
        names = tuple(getattr(pipeline[-1], "feature_names_in_", numbered))
    assert blame.names == names
    given = [f"made {j}" for j in range(made.shape[1])]
    assert list(importance(pipeline, rows, names=given).names) == given
    assert Fitted.of(pipeline).names(None, rows) == names


def test_a_detector_behind_any_steps_is_seen():
    pipeline = make_pipeline(PowerTransformer(), KernelPCADetector(2)).fit(FRAME)
    far = pd.concat([FRAME, FRAME[:3].add([50.0, 0.0, 0.0])])
    view = views.scores(pipeline, far)
    assert len(view.points) == N + 3
    alarms = np.flatnonzero(pipeline.predict(far) == -1)
    marked = np.flatnonzero([view.classes.names[code] == "alarm" for code in view.classes.codes])
    np.testing.assert_array_equal(marked, alarms)


def test_level_sets_are_over_the_columns_that_the_steps_make():
    pipeline = make_pipeline(FunctionTransformer(np.tanh), kpca()).fit(FRAME[["a", "b"]])
    view = views.levels(pipeline, FRAME[["a", "b"]], resolution=3)
    at = np.array([[view.across[0], view.up[0]]])
    np.testing.assert_allclose(view.values[:, 0, 0], pipeline[-1].transform(at)[0], rtol=1e-12)


def test_a_stream_behind_any_steps_is_seen():
    steps = PowerTransformer().fit(FRAME)
    stream = IncrementalKernelPCA(2, kernel=RBF(0.1)).fit(steps.transform(FRAME))
    pipeline = make_pipeline(steps, stream)
    np.testing.assert_allclose(
        views.scores(pipeline, FRAME).points, pipeline.transform(FRAME), rtol=1e-12
    )


def test_what_is_no_model_at_the_end_is_refused():
    pipeline = make_pipeline(kpca(), StandardScaler()).fit(FRAME)
    with pytest.raises(InputError, match="must be the last step"):
        views.spectrum(pipeline)
    with pytest.raises(InputError, match="must be the last step"):
        importance(pipeline, FRAME)
    with pytest.raises(InputError, match="not fitted"):
        views.scores(make_pipeline(PowerTransformer(), kpca()), FRAME)
