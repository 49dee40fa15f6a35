"""The types that a model file may hold: an allow-list of names, and how each is found and made.

Nothing is ever made from a file but what is in `TYPES`, or a kernel with a formula that the program itself
has defined, and no class of these tables is imported before a file asks for it by its name. Every field has
a kind, written as alternatives such as ``none|number``:

    none bool int number text texts dtype   a number may be a NumPy scalar; texts is a tuple of text
    seed                                    none, an int from 0 on, or random numbers
    names                                   an array of column names
    any                                     any value that a file may hold
    float[m,k]  rows[n,d]                   arrays; a letter is one length within one object, and rows may
                                            be sparse
    Kernel, Fit, …                          an object of that type or family

A name that ends in ``?`` may be missing.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from mercer.kernels.base import FORMULAS
from mercer.kernels.parameters import constructor_names

if TYPE_CHECKING:
    from mercer.kernels import Kernel

# value: made by its constructor from its fields. estimator: by its constructor from its parameters, with
# what it has learned set afterwards. member: of an enumeration, by its name.
Making: TypeAlias = Literal["value", "estimator", "member"]


@dataclass(frozen=True)
class Known:
    """A type that may be in a file."""

    home: str  # "module:Class"
    fields: dict[str, str]  # kinds by name: of a value's fields, or of what an estimator learned
    making: Making = "value"
    kind: type | None = None  # of a kernel that was registered by its formula: the class itself

    @classmethod
    def of(cls, home: str, fields: str = "", making: Making = "value") -> Known:
        """From a text such as ``"sections: Sections; coef: float[m,k]"``."""
        pairs = (part.split(":") for part in fields.split(";") if part.strip())
        return cls(home, {name.strip(): kind.strip() for name, kind in pairs}, making)

    @property
    def type(self) -> Any:
        """The class."""
        return found(self.home) if self.kind is None else self.kind

    @property
    def required(self) -> set[str]:
        """Names that have to be there."""
        return {name for name in self.fields if not name.endswith("?")}

    @property
    def kinds(self) -> dict[str, str]:
        """Kinds by name, whether the name may be missing or not."""
        return {name.removesuffix("?"): kind for name, kind in self.fields.items()}


@cache
def found(home: str) -> Any:
    """The class behind ``"module:Class"``, of a text in these tables and never of one in a file."""
    module, _, name = home.partition(":")
    return getattr(import_module(module), name)


def _by_class(types: dict[str, str]) -> dict[str, Known]:
    """Types by the names of their classes, from ``"module:Class"`` within mercer and their fields."""
    return {
        home.partition(":")[2]: Known.of(f"mercer.{home}", fields) for home, fields in types.items()
    }


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
    "Sections": "KernelSections|FeatureSections|GivenSections|FourierSections",
}

# ── values of a fit, the parts of a model, and their parameters ─────────────
# Those of solvers, approximations and pre-image methods may have any value that a file may hold: they are
# checked where they are used.
_VALUES = {
    "approximations.nystrom:Nystrom": "landmarks: any; sampling: any; refine: any",
    "approximations.random_features:FourierSections": (
        "frequencies: float[m,d]; amplitude: number; centre: float[d]"
    ),
    "approximations.random_features:RandomFourier": "n_features: any; refine: any",
    "approximations.rpcholesky:RPCholesky": "rank: any; tol: any; max_rank: any; refine: any",
    "engine.moments:Moments": "weight: number; mean: float[m]; scatter: float[m,m]",
    "engine.numpy:NumpyEngine": "n_threads: none|int",
    "estimators.prepared:Prepared": "preparation: Preparation; model: any",
    "io.preparation:Preparation": (
        "numbers: texts; categories: any; fills: none|float[p]; center: none|float[d]; "
        "spread: none|float[d]; id: none|text; label: none|text; image_shape: any"
    ),
    "model.certificate:Certificate": (
        "kind: text; trace: number; left_out: number; rounding: number; goal: none|number; "
        "assumed: bool"
    ),
    "model.certificate:StreamCertificate": (
        "kind: text; trace: number; left_out: number; rounding: number; goal: none|number; "
        "assumed: bool; norm: number"
    ),
    "model.projection:Projection": "sections: Sections; coef: float[m,k]; offset: float[k]",
    "model.result:Fit": (
        "projection: Projection; pairs: EigenPairs; total: number; rank_bound: int; plan: Plan; "
        "cut: number; low_end: none|LowEnd; asked: none|int|number; weight: number; "
        "mean: FeatureMean; roots: none|float[n]; certificate: none|Certificate"
    ),
    "model.space:FeatureMean": "coef: float[m]; norm: number",
    "model.space:FeatureSpace": "projection: Projection; mean: FeatureMean",
    "monitoring.contributions:Baselines": "rows: float[m,d]; unit?: none|float[d]",
    "monitoring.limits:Limits": (
        "t2: number; q: number; index: number; rate: number; method: text; note?: text"
    ),
    "monitoring.limits:Rule": "rate: number; in_sample: bool; statistic: text; method: text",
    "monitoring.statistics:Gauge": "space: FeatureSpace; variances: float[k]; rounding: number",
    "operators.sections:FeatureSections": "feature_map: FeatureMap; parallel: bool",
    "operators.sections:GivenSections": "width: int; parallel: bool",
    "operators.sections:KernelSections": "kernel: Kernel; points: rows[m,d]",
    "planning.recipe:Given": "dtype: text",
    "planning.recipe:Proof": "width: int; sliced: bool",
    "planning.recipe:TileCache": "n_tiles: int; n_held: int; tile_bytes: int; packed: bool",
    "planning.recipe:Tiles": "width: int; dtype: text; store: none|TileCache; proof: none|Proof",
    "planning.recipe:Whole": "width: int; dtype: text",
    "preimage.base:FittedPreimage": (
        "method: Preimage; back: Back; quality: none|Quality; space: none|FeatureSpace; "
        "reach: number; length: number; centre: float[d]; radius: number"
    ),
    "preimage.base:Quality": (
        "error: number; error_of_mean: number; residual: none|number; noisy?: none|number"
    ),
    "preimage.distances:Distances": "n_neighbours: any; max_rows: any",
    "preimage.distances:DistancesBack": (
        "method: Distances; kernel: Kernel; space: FeatureSpace; near: Neighbours; own: float[n]; "
        "centre: float[d]; radius: number"
    ),
    "preimage.exact:Exact": "max_rows: any",
    "preimage.exact:ExactBack": (
        "kernel: Kernel; slopes: float[d,k]; start: float[d]; c: number; n_rows: int"
    ),
    "preimage.fixed_point:FixedPoint": "n_starts: any; max_iter: any; tol: any; max_rows: any",
    "preimage.gradient:Gradient": "n_starts: any; max_iter: any; tol: any; max_rows: any",
    "preimage.ridge:Ridge": "alpha: any; gamma: any; max_rows: any; rows: any",
    "preimage.ridge:RidgeBack": "projection: Projection",
    "preimage.search:Neighbours": "scores: float[n,k]; rows: rows[n,d]",
    "preimage.search:SearchBack": (
        "method: Search; space: FeatureSpace; near: Neighbours; radius: number"
    ),
    "solvers.base:EigenPairs": (
        "values: float[k]; vectors: float[n,k]; products: float[n,k]; n_products: int; "
        "status: Status; spectrum: none|float[s]; unseen?: none|float[k]; "
        "rounding?: none|float[k]"
    ),
    "solvers.dense:Lapack": "subset: any",
    "solvers.krylov:BlockKrylov": (
        "tol: any; block: any; max_products: any; max_basis: any; landmarks: any"
    ),
    "stream.dictionary:Dictionary": (
        "kernel: Kernel; points: rows[m,d]; lower: float[m,m]; whiten: float[m,m]"
    ),
    "stream.incremental:Stream": (
        "dictionary: Dictionary; moments: Moments; trace: number; lost: number; error: number; "
        "norm: number; n_rows: int; seed: int; dtype: dtype; cheapest: number"
    ),
}

# What plans have said in every version.
_PLAN = (
    "n_bytes: int; reasons: texts; lapack_fits: bool; most_components: int; "
    "approximation: none|Approximation; n_products: none|int; seconds: none|number; "
    "preimage?: none|text; preimage_bytes?: int; preimage_seconds?: none|number"
)

_FOLDS = {
    "KFold": "n_splits: any; shuffle: any; random_state: any",
    "LeaveOneOut": "",
    "ShuffleSplit": "n_splits: any; test_size: any; train_size: any; random_state: any",
    "TimeSeriesSplit": "n_splits: any; max_train_size: any; test_size: any; gap: any",
}

VALUES = {
    **_by_class(_VALUES),
    **{
        f"folds.{name}": Known.of(f"sklearn.model_selection:{name}", f)
        for name, f in _FOLDS.items()
    },
    "ColumnScale": Known.of("mercer.engine.moments:Scale", "mean: float[d]; spread: float[d]"),
    "LowEnd": Known.of(
        "mercer.solvers.negative_part:NegativePart",
        "lowest: number; negative: number; complete: bool",
    ),
    "Plan": Known.of(
        "mercer.planning.recipe:Plan",
        "route: text; solver: Solver; recipe: none|Given|Whole|Tiles; n_threads: int; engine: text; "
        + _PLAN,
    ),
    "Status": Known.of("mercer._core.status:Status", "name: text", "member"),
}

# Values as earlier versions wrote them: known by a field that is gone, and brought up to date on loading.
OUTDATED = {
    "Plan": (
        "storage",
        Known.of(
            "mercer.planning.recipe:plan_of_flags",
            "route: text; solver: Solver; storage: text; width: int; sketch: bool; double: bool; "
            "hold_bytes: int; held: number; packed: bool; sliced: bool; n_threads?: int; " + _PLAN,
        ),
    )
}


# ── kernels and feature maps, those of scikit-learn's Gaussian processes too ─
_WITHOUT_FORMULA = {
    # A function is never in a file. That of the drop-in is a name and numbers.
    "kernels.custom:Custom": "function: PairwiseFunction; form: text",
    "kernels.custom:GaussianProcess": "kernel: GaussianKernel",
    "kernels.custom:Precomputed": "",
    "kernels.feature_map:ColumnsMap": "d: int; columns: any",
    "kernels.map_base:ComposedMap": "outer: FeatureMap; inner: FeatureMap",
    "kernels.feature_map:IdentityMap": "d: int",
    "kernels.feature_map:PolynomialMap": "d: int; degree: int; gamma: number; coef0: number",
    "kernels.map_base:ProductMap": "left: FeatureMap; right: FeatureMap",
    "kernels.map_base:ScaledMap": "inner: FeatureMap; factor: number",
    "kernels.map_base:SumMap": "left: FeatureMap; right: FeatureMap",
    "kernels.map_base:UnitMap": "inner: FeatureMap",
}

_GAUSSIAN_PROCESSES = {
    "CompoundKernel": "kernels: any",
    "ConstantKernel": "constant_value: number; constant_value_bounds: any",
    "DotProduct": "sigma_0: number; sigma_0_bounds: any",
    "ExpSineSquared": (
        "length_scale: number; periodicity: number; length_scale_bounds: any; "
        "periodicity_bounds: any"
    ),
    "Exponentiation": "kernel: GaussianKernel; exponent: number",
    "Matern": "length_scale: any; length_scale_bounds: any; nu: number",
    "PairwiseKernel": (
        "gamma: number; gamma_bounds: any; metric: text; pairwise_kernels_kwargs: any"
    ),
    "Product": "k1: GaussianKernel; k2: GaussianKernel",
    "RBF": "length_scale: any; length_scale_bounds: any",
    "RationalQuadratic": (
        "length_scale: number; alpha: number; length_scale_bounds: any; alpha_bounds: any"
    ),
    "Sum": "k1: GaussianKernel; k2: GaussianKernel",
    "WhiteKernel": "noise_level: number; noise_level_bounds: any",
}

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
    **_by_class(_WITHOUT_FORMULA),
    **{
        f"gp.{name}": Known.of(f"sklearn.gaussian_process.kernels:{name}", fields)
        for name, fields in _GAUSSIAN_PROCESSES.items()
    },
    "PairwiseFunction": Known.of(
        "mercer.sklearn:_Pairwise", "metric: text; n_jobs: none|int; params: any"
    ),
}


# ── estimators ──────────────────────────────────────────────────────────────
# Parameters of estimators that are looked at after the fit; all others are only kept for the next one.
PARAMETERS = {
    "approximation": "none|text|Approximation",
    "engine": "text|NumpyEngine",
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
