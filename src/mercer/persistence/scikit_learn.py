"""What a model file may hold of scikit-learn: kernels, splitters, steps of a pipeline; and the drop-in."""

from __future__ import annotations

import warnings
from numbers import Real
from typing import Any

import numpy as np
from scipy import sparse
from sklearn import preprocessing as steps
from sklearn.compose import ColumnTransformer
from sklearn.gaussian_process import kernels
from sklearn.impute import MissingIndicator, SimpleImputer
from sklearn.model_selection import KFold, LeaveOneOut, ShuffleSplit, TimeSeriesSplit
from sklearn.pipeline import Pipeline

from mercer._core.errors import ModelFileError
from mercer.persistence.schema import COMMON, Stored, of_parameters
from mercer.sklearn import KernelPCA, _Pairwise

ENCODERS = (steps.OneHotEncoder, steps.OrdinalEncoder)

# ── kernels of Gaussian processes, and splitters ────────────────────────────
_KERNELS = (
    kernels.CompoundKernel,
    kernels.ConstantKernel,
    kernels.DotProduct,
    kernels.ExpSineSquared,
    kernels.Exponentiation,
    kernels.Matern,
    kernels.PairwiseKernel,
    kernels.Product,
    kernels.RBF,
    kernels.RationalQuadratic,
    kernels.Sum,
    kernels.WhiteKernel,
)
_NUMBERS = "alpha constant_value exponent gamma length_scale noise_level nu periodicity sigma_0"
_PARAMETERS = {
    **dict.fromkeys(_NUMBERS.split(), "float"),
    **dict.fromkeys(("kernel", "k1", "k2"), "GaussianKernel"),
    "kernels": "Any",
    "metric": "str",
    "pairwise_kernels_kwargs": "Any",
}
_MANY_SCALES = {"length_scale": "Any"}  # one for each column, or one for all

# ── steps before a model ────────────────────────────────────────────────────
# What each has to have learned; what else it keeps for itself is of its version.
_STEPS = {
    ColumnTransformer: {"transformers_": "Any", "n_features_in_": "int"},
    steps.FunctionTransformer: {},  # without a function: "passthrough"
    steps.MaxAbsScaler: {"scale_": 'Annotated[Array, "d"]', "n_features_in_": "int"},
    steps.MinMaxScaler: {"scale_": 'Annotated[Array, "d"]', "min_": 'Annotated[Array, "d"]'},
    MissingIndicator: {"features_": "Any"},
    steps.OneHotEncoder: {"categories_": "Any", "n_features_in_": "int"},
    steps.OrdinalEncoder: {"categories_": "Any", "n_features_in_": "int"},
    Pipeline: {},
    steps.RobustScaler: {"n_features_in_": "int"},
    SimpleImputer: {"statistics_": "Any", "n_features_in_": "int"},
    steps.StandardScaler: {"n_features_in_": "int"},
}

# ── the drop-in, which has what scikit-learn's own has ──────────────────────
_DROP_IN = {
    "X_fit_": 'Annotated[Rows, "n d"]',
    "X_transformed_fit_": 'Annotated[Array, "n k"]',
    "_centerer": "KernelCenterer",
    "_projection": "Projection",
    "dual_coef_": 'Annotated[Array, "n d"]',
    "eigenvalues_": 'Annotated[Array, "k"]',
    "eigenvectors_": 'Annotated[Array, "n k"]',
    "fit_": "Fit",
    "gamma_": "float",
    "n_features_in_": "int",
    "plan_": "Plan",
}
_SOMETIMES = frozenset({*COMMON, "X_transformed_fit_", "dual_coef_", "fit_"})

STORED = {
    **{
        f"gp.{kind.__name__}": of_parameters(
            kind,
            needed=_PARAMETERS | (_MANY_SCALES if kind in (kernels.Matern, kernels.RBF) else {}),
        )
        for kind in _KERNELS
    },
    **{
        f"folds.{kind.__name__}": of_parameters(kind, needed={})
        for kind in (KFold, LeaveOneOut, ShuffleSplit, TimeSeriesSplit)
    },
    **{
        f"steps.{kind.__name__}": Stored(kind, learned, making="estimator", is_open=True)
        for kind, learned in _STEPS.items()
    },
    "KernelCenterer": Stored(
        steps.KernelCenterer,
        {"K_fit_rows_": 'Annotated[Array, "n"]', "K_fit_all_": "float", "n_features_in_": "int"},
        making="estimator",
        is_open=True,
    ),
    "PairwiseFunction": Stored(
        _Pairwise, {"metric": "str", "n_jobs": "None | int", "params": "Any"}
    ),
    "sklearn.KernelPCA": Stored(KernelPCA, COMMON | _DROP_IN, _SOMETIMES, "estimator"),
}


# ── pipelines ───────────────────────────────────────────────────────────────
def check_pipeline(model: Pipeline) -> None:
    """Raise unless a row goes through all steps and has as many columns as the model takes."""
    before, inner = model[:-1], model.steps[-1][1]
    if all(_passes(step) for _, step in before.steps):
        return
    example = [_example(before)]
    row: Any = np.array(example)
    names = getattr(before, "feature_names_in_", None)
    if names is not None and isinstance(before.steps[0][1], ColumnTransformer):
        import pandas as pd  # whose frames such a pipeline takes

        row = pd.DataFrame(example, columns=names)
    elif row.dtype.kind not in "fiub":
        row = np.array(example, dtype=object)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # rows without names, a category that is new
        found = before.transform(row)
    numbers = found.data if sparse.issparse(found) else np.asarray(found, dtype=float)
    d, why = inner.n_features_in_, None
    if not np.isfinite(numbers).all():
        why = "its steps make values that are not finite"
    elif found.shape != (1, d):
        why = f"its steps make {found.shape[1]} columns, and its model takes {d}"
    if why is not None:
        raise ModelFileError(why)


def _passes(step: Any) -> bool:
    """Whether a step leaves rows as they are: None and "passthrough" do, and a transformer of none."""
    return step is None or isinstance(step, (str, steps.FunctionTransformer))


def _example(step: Any) -> list[Any]:
    """A row that a fitted step takes: numbers, and words that it knows."""
    if isinstance(step, Pipeline):
        first, *rest = (inner for _, inner in step.steps if not _passes(inner))
        # What an imputer would put in may be a word that an encoder after it has never met.
        if isinstance(first, SimpleImputer) and rest and isinstance(rest[0], ENCODERS):
            return _example(rest[0])[: first.n_features_in_]
        return _example(first)
    if isinstance(step, ENCODERS):
        return [levels[0] for levels in step.categories_]
    if isinstance(step, SimpleImputer):
        return [float(fill) if isinstance(fill, Real) else fill for fill in step.statistics_]
    row: list[Any] = [0.0] * step.n_features_in_
    if isinstance(step, ColumnTransformer):
        for name, inner, _ in step.transformers_:
            if not _passes(inner):
                places = step._transformer_to_input_indices[name]
                for place, value in zip(places, _example(inner), strict=True):
                    row[place] = value
    return row
