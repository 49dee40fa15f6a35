"""The types that a model file may hold: an allow-list of names, and how each is found and made.

Nothing is ever made from a file but what is in `TYPES`, or a kernel with a formula that the program itself
has defined, and no class that is named here is imported before a file asks for it. Every field has
a kind, written as alternatives such as ``none|number``:

    none bool int number text texts dtype   a number may be a NumPy scalar; texts is a tuple of text
    seed                                    none, an int from 0 on, or random numbers
    names                                   an array of column names
    any                                     any value that a file may hold
    float[m,k]  rows[n,d]                   arrays; a letter is one length within one object, and rows may
                                            be sparse
    Kernel, Fit, …                          an object of that type or family

A name that ends in ``?`` may be missing. The fields of a value and their kinds are the parameters of its
constructor and their annotations, so that only the lengths of arrays have to be told here, and in `_LATER`
which fields a file may be older than. All others have to be there, whether a constructor has a default for
them or not: with it, a map would lose its gamma, and a fit that has not converged would claim that it has.
"""

from __future__ import annotations

import inspect
from dataclasses import dataclass, fields
from functools import cache, cached_property
from importlib import import_module
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from mercer.approximations import APPROXIMATIONS
from mercer.kernels.base import FORMULAS
from mercer.kernels.parameters import constructor_names
from mercer.preimage import PREIMAGES
from mercer.solvers import SOLVERS

if TYPE_CHECKING:
    from mercer.kernels import Kernel

# value: made by its constructor from its fields. estimator: by its constructor from its parameters, with
# what it has learned set afterwards. member: of an enumeration, by its name.
Making: TypeAlias = Literal["value", "estimator", "member"]

# Kinds of what annotations say in other words; what is any here is looked at in `mercer.io.agreement_models`.
ANNOTATIONS = {
    "Any": "any",
    "Kind": "text",
    "NegativePart": "LowEnd",
    "None": "none",
    "Route": "text",
    "Sequence[int]": "any",
    "float": "number",
    "np.dtype[Any]": "dtype",
    "str": "text",
    "tuple[int, int]": "any",
    "tuple[str, ...]": "texts",
    "tuple[tuple[str, tuple[str, ...]], ...]": "any",
}


@dataclass(frozen=True)
class Known:
    """A type that may be in a file."""

    home: str  # "module:Class"
    told: dict[str, str]  # kinds by name: of a value's fields, or of what an estimator learned
    making: Making = "value"
    kind: type | None = None  # of a kernel that was registered by its formula: the class itself

    @classmethod
    def of(cls, home: str, told: str = "", making: Making = "value") -> Known:
        """From a text such as ``"sections: Sections; coef: float[m,k]"``."""
        pairs = (part.split(":") for part in told.split(";") if part.strip())
        return cls(home, {name.strip(): kind.strip() for name, kind in pairs}, making)

    @property
    def type(self) -> Any:
        """The class."""
        return found(self.home) if self.kind is None else self.kind

    @cached_property
    def required(self) -> set[str]:
        """Names that have to be there."""
        return {name for name in self.told if not name.endswith("?")}

    @cached_property
    def kinds(self) -> dict[str, str]:
        """Kinds by name, whether the name may be missing or not."""
        return {name.removesuffix("?"): kind for name, kind in self.told.items()}


class Annotated(Known):
    """A dataclass: `told` are the kinds of its arrays, with their lengths."""

    @cached_property
    def required(self) -> set[str]:
        return set(self.kinds) - _LATER.get(self.home.partition(":")[2], set())

    @cached_property
    def kinds(self) -> dict[str, str]:
        return {
            field.name: "|".join(self._kind(field.name, one) for one in field.type.split(" | "))
            for field in fields(self.type)
            if field.compare  # an engine belongs to a process, not to a model
        }

    def _kind(self, name: str, annotation: str) -> str:
        if annotation in ("Array", "Rows"):
            return self.told[name]
        return ANNOTATIONS.get(annotation, annotation)


class Open(Annotated):
    """Parameters of any value that a file may hold, unless `told`: they are checked where they are used."""

    @cached_property
    def kinds(self) -> dict[str, str]:
        return {
            name: self.told.get(name, "any") for name in inspect.signature(self.type).parameters
        }


class Foreign(Open):
    """Of scikit-learn, any version of which may add parameters: those that are `told` have to be there."""

    @cached_property
    def required(self) -> set[str]:
        return set(self.told) & set(self.kinds)


@cache
def found(home: str) -> Any:
    """The class behind ``"module:Class"``, of a text in these tables and never of one in a file."""
    module, _, name = home.partition(":")
    return getattr(import_module(module), name)


# What a field may ask for by one name: an instance of a class, or one of several types.
FAMILIES = {
    "Approximation": "mercer.approximations.base:Approximation",
    "Certificate": "mercer.model.certificate:Certificate",
    "FeatureMap": "mercer.kernels.map_base:FeatureMap",
    "GaussianKernel": "sklearn.gaussian_process.kernels:Kernel",
    "Kernel": "mercer.kernels.base:Kernel",
    "Preimage": "mercer.preimage.base:Preimage",
    "Projector": "mercer.estimators.base:Projector",
    "Search": "mercer.preimage.search:Search",
    "Solver": "mercer.solvers.base:Solver",
}
UNIONS = {
    "Back": "RidgeBack|ExactBack|SearchBack|DistancesBack",
    "Recipe": "Given|Whole|Tiles|Halved",
    "Sections": "KernelSections|FeatureSections|GivenSections|FourierSections",
}

# ── values of a fit, the parts of a model, and their parameters ─────────────
_CLASSES = {
    "approximations.random_features": "FourierSections",
    "engine.moments": "Moments",
    "engine.native.engine": "NativeEngine",
    "engine.numpy": "NumpyEngine",
    "estimators.prepared": "Prepared",
    "preprocessing.preparation": "Preparation",
    "kernels.feature_map": "ColumnsMap IdentityMap PolynomialMap",
    "kernels.map_base": "ComposedMap ProductMap ScaledMap SumMap UnitMap",
    "model.certificate": "Certificate StreamCertificate",
    "model.projection": "Projection",
    "model.result": "Fit",
    "model.space": "FeatureMean FeatureSpace",
    "monitoring.contributions": "Baselines",
    "monitoring.limits": "Limits Rule",
    "monitoring.statistics": "Gauge",
    "operators.sections": "FeatureSections GivenSections KernelSections",
    "planning.recipe": "Given Halved Plan Proof TileCache Tiles Whole",
    "preimage.base": "FittedPreimage Quality",
    "preimage.distances": "DistancesBack",
    "preimage.exact": "ExactBack",
    "preimage.ridge": "RidgeBack",
    "preimage.search": "Neighbours SearchBack",
    "solvers.base": "EigenPairs",
    "stream.dictionary": "Dictionary",
    "stream.incremental": "Stream",
}
_LENGTHS = {
    "Baselines": "rows: float[m,d]; unit: float[d]",
    "Dictionary": "points: rows[m,d]; lower: float[m,m]; whiten: float[m,m]",
    "DistancesBack": "own: float[n]; centre: float[d]",
    "EigenPairs": (
        "values: float[k]; vectors: float[n,k]; products: float[n,k]; spectrum: float[s]; "
        "unseen: float[k]; rounding: float[k]"
    ),
    "ExactBack": "slopes: float[d,k]; start: float[d]",
    "FeatureMean": "coef: float[m]",
    "Fit": "roots: float[n]",
    "FittedPreimage": "centre: float[d]",
    "FourierSections": "frequencies: float[m,d]; centre: float[d]",
    "Gauge": "variances: float[k]",
    "KernelSections": "points: rows[m,d]",
    "Moments": "mean: float[m]; scatter: float[m,m]",
    "Neighbours": "scores: float[n,k]; rows: rows[n,d]",
    "Preparation": "fills: float[p]; center: float[d]; spread: float[d]",
    "Projection": "coef: float[m,k]; offset: float[k]",
}
# Fields that came later than the first files: one that lacks them has their defaults.
_LATER = {
    "Baselines": {"unit"},
    "EigenPairs": {"rounding", "unseen"},
    "Limits": {"note"},
    "Plan": {"preimage", "preimage_bytes", "preimage_seconds", "host_bytes"},
    "Quality": {"noisy"},
}
_METHODS = (*APPROXIMATIONS.values(), *PREIMAGES.values(), *SOLVERS.values())
_FOLDS = ("KFold", "LeaveOneOut", "ShuffleSplit", "TimeSeriesSplit")

VALUES = {
    **{
        name: Annotated.of(f"mercer.{module}:{name}", _LENGTHS.get(name, ""))
        for module, names in _CLASSES.items()
        for name in names.split()
    },
    **{kind.__name__: Open.of(f"{kind.__module__}:{kind.__name__}") for kind in _METHODS},
    **{f"folds.{name}": Foreign.of(f"sklearn.model_selection:{name}") for name in _FOLDS},
    "ColumnScale": Annotated.of("mercer.engine.moments:Scale", "mean: float[d]; spread: float[d]"),
    "LowEnd": Annotated.of("mercer.solvers.negative_part:NegativePart"),
    "Status": Known.of("mercer.solvers.base:Status", "name: text", "member"),
}

# Values as earlier versions wrote them: known by a field that is gone, and brought up to date on loading.
OUTDATED = {
    "Plan": (
        "storage",
        Known.of(
            "mercer.planning.recipe:plan_of_flags",
            "route: text; solver: Solver; storage: text; width: int; sketch: bool; double: bool; "
            "hold_bytes: int; held: number; packed: bool; sliced: bool; n_threads?: int; n_bytes: int; "
            "reasons: texts; lapack_fits: bool; most_components: int; approximation: none|Approximation; "
            "n_products: none|int; seconds: none|number; preimage?: none|text; preimage_bytes?: int; "
            "preimage_seconds?: none|number",
        ),
    )
}


# ── kernels, those of scikit-learn's Gaussian processes too ─────────────────
_GAUSSIAN_PROCESSES = (
    "CompoundKernel ConstantKernel DotProduct ExpSineSquared Exponentiation Matern PairwiseKernel Product "
    "RBF RationalQuadratic Sum WhiteKernel"
)
_GAUSSIAN_KINDS = {
    **dict.fromkeys(("kernel", "k1", "k2"), "GaussianKernel"),
    **dict.fromkeys(("alpha", "constant_value", "exponent", "gamma", "noise_level"), "number"),
    **dict.fromkeys(("length_scale", "nu", "periodicity", "sigma_0"), "number"),
    "kernels": "any",
    "metric": "text",
    "pairwise_kernels_kwargs": "any",
}
_MANY_SCALES = {"length_scale": "any"}  # one for each column, or one for all

# What the parameters of a kernel with a formula hold, but for those that are numbers or rules.
_PARTS = {"kernel": "Kernel", "left": "Kernel", "right": "Kernel", "columns": "any"}


def of_formula(kind: type[Kernel], otherwise: str) -> Known:
    """A kernel with a formula: by its class, made from the parameters of its constructor."""
    fields = {name: _PARTS.get(name, otherwise) for name in constructor_names(kind)}
    return Known(f"{kind.__module__}:{kind.__qualname__}", fields, kind=kind)


KERNELS = {
    **{
        name: of_formula(kind, "none|number|text")  # a number, or a rule such as "median"
        for name, kind in FORMULAS.items()
        if kind.__module__.startswith("mercer.")
    },
    **{
        f"gp.{name}": Foreign(
            f"sklearn.gaussian_process.kernels:{name}",
            _GAUSSIAN_KINDS | (_MANY_SCALES if name in ("Matern", "RBF") else {}),
        )
        for name in _GAUSSIAN_PROCESSES.split()
    },
    # A function is never in a file. That of the drop-in is a name and numbers.
    "Custom": Known.of("mercer.kernels.custom:Custom", "function: PairwiseFunction; form: text"),
    "GaussianProcess": Known.of("mercer.kernels.custom:GaussianProcess", "kernel: GaussianKernel"),
    "PairwiseFunction": Known.of(
        "mercer.sklearn:_Pairwise", "metric: text; n_jobs: none|int; params: any"
    ),
    "Precomputed": Known.of("mercer.kernels.custom:Precomputed"),
}


# ── estimators ──────────────────────────────────────────────────────────────
# Parameters of estimators that are looked at after the fit; all others are only kept for the next one.
PARAMETERS = {
    "approximation": "none|text|Approximation",
    "engine": "text|NumpyEngine|NativeEngine",
    "kernel": "text|Kernel|GaussianKernel",
    "model": "none|Projector",
    "n_components": "none|int|number",
    "preimage": "none|text|Preimage",
    "random_state": "seed",
    "solver": "text|Solver",
}

# What scikit-learn's base classes may add to an estimator.
_COMMON = (
    "n_features_in_: int; feature_names_in_?: names; _sklearn_output_config?: any; "
    "_metadata_request?: any"
)


def _estimator(home: str, learned: str) -> Known:
    return Known.of(home, f"{learned}; {_COMMON}", "estimator")


ESTIMATORS = {
    "IncrementalKernelPCA": _estimator(
        "mercer.estimators.incremental:IncrementalKernelPCA",
        "stream_: Stream; _dtype: dtype; _cached: none|Fit; _back?: none|any",
    ),
    "KernelCenterer": _estimator(
        "sklearn.preprocessing:KernelCenterer", "K_fit_rows_: float[n]; K_fit_all_: number"
    ),
    "KernelPCA": _estimator(
        "mercer.estimators.kernel_pca:KernelPCA",
        "kernel_: Kernel; fit_: Fit; plan_: Plan; _dtype: dtype; _sparse: bool; "
        "preimage_?: FittedPreimage",
    ),
    "KernelPCADetector": _estimator(
        "mercer.estimators.detector:KernelPCADetector",
        "model_: Projector; limits_: Limits; _scale: ColumnScale; _rule: Rule; _baselines: Baselines; "
        "baselines_: float[m,d]; _gauge: Gauge; _dtype: dtype; center_: float[d]; spread_: float[d]; "
        "offset_: number; set_aside_?: float[c,e]",
    ),
    "PCA": _estimator(
        "mercer.estimators.pca:PCA", "fit_: Fit; plan_: Plan; _dtype: dtype; mean_: float[d]"
    ),
    "sklearn.KernelPCA": _estimator(
        "mercer.sklearn:KernelPCA",
        "gamma_: number; X_fit_: rows[n,d]; plan_: Plan; eigenvalues_: float[k]; "
        "eigenvectors_: float[n,k]; _projection: Projection; _centerer: KernelCenterer; "
        "X_transformed_fit_?: float[n,k]; dual_coef_?: float[n,d]",
    ),
}

TYPES = {**KERNELS, **VALUES, **ESTIMATORS}  # by the name that each has in a file
