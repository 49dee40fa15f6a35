"""What a model file may hold of scikit-learn: kernels, splitters, steps of a pipeline; and the drop-in."""

from __future__ import annotations

from sklearn.compose import ColumnTransformer
from sklearn.gaussian_process import kernels
from sklearn.impute import SimpleImputer
from sklearn.model_selection import KFold, LeaveOneOut, ShuffleSplit, TimeSeriesSplit
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import (
    KernelCenterer,
    MaxAbsScaler,
    MinMaxScaler,
    OneHotEncoder,
    OrdinalEncoder,
    RobustScaler,
    StandardScaler,
)

from mercer.persistence.schema import COMMON, Stored, of_parameters
from mercer.sklearn import KernelPCA, _Pairwise

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
    MaxAbsScaler: {"scale_": 'Annotated[Array, "d"]', "n_features_in_": "int"},
    MinMaxScaler: {"scale_": 'Annotated[Array, "d"]', "min_": 'Annotated[Array, "d"]'},
    OneHotEncoder: {"categories_": "Any", "n_features_in_": "int"},
    OrdinalEncoder: {"categories_": "Any", "n_features_in_": "int"},
    Pipeline: {},
    RobustScaler: {"n_features_in_": "int"},
    SimpleImputer: {"statistics_": "Any", "n_features_in_": "int"},
    StandardScaler: {"n_features_in_": "int"},
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
    "gamma_": "float",
    "n_features_in_": "int",
    "plan_": "Plan",
}
_SOMETIMES = frozenset({*COMMON, "X_transformed_fit_", "dual_coef_"})

CLASSES = {
    "GaussianKernel": kernels.Kernel,
    "KernelCenterer": KernelCenterer,
    "PairwiseFunction": _Pairwise,
}
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
        KernelCenterer,
        {"K_fit_rows_": 'Annotated[Array, "n"]', "K_fit_all_": "float", "n_features_in_": "int"},
        making="estimator",
        is_open=True,
    ),
    "PairwiseFunction": Stored(
        _Pairwise, {"metric": "str", "n_jobs": "None | int", "params": "Any"}
    ),
    "sklearn.KernelPCA": Stored(KernelPCA, COMMON | _DROP_IN, _SOMETIMES, "estimator"),
}
