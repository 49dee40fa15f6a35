"""The values of a fit and the estimators around them that a model file may hold."""

from mercer.io.known_types import Known

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

_of = Known.of

# What plans have said in every version.
_PLAN = (
    "n_bytes: int; reasons: texts; lapack_fits: bool; most_components: int; "
    "approximation: none|Approximation; n_products: none|int; seconds: none|number; "
    "preimage?: none|text; preimage_bytes?: int; preimage_seconds?: none|number"
)

_MODEL = {
    "Certificate": _of(
        "mercer.model.certificate:Certificate",
        "kind: text; trace: number; left_out: number; rounding: number; goal: none|number; assumed: bool",
    ),
    "Dictionary": _of(
        "mercer.stream.dictionary:Dictionary",
        "kernel: Kernel; points: rows[m,d]; lower: float[m,m]; whiten: float[m,m]",
    ),
    "EigenPairs": _of(
        "mercer.solvers.base:EigenPairs",
        "values: float[k]; vectors: float[n,k]; products: float[n,k]; n_products: int; status: Status; "
        "spectrum: none|float[s]; unseen?: none|float[k]; rounding?: none|float[k]",
    ),
    "FeatureMean": _of("mercer.model.space:FeatureMean", "coef: float[m]; norm: number"),
    "FeatureSections": _of(
        "mercer.operators.sections:FeatureSections", "feature_map: FeatureMap; parallel: bool"
    ),
    "FeatureSpace": _of(
        "mercer.model.space:FeatureSpace", "projection: Projection; mean: FeatureMean"
    ),
    "Fit": _of(
        "mercer.model.result:Fit",
        "projection: Projection; pairs: EigenPairs; total: number; rank_bound: int; plan: Plan; "
        "cut: number; low_end: none|LowEnd; asked: none|int|number; weight: number; mean: FeatureMean; "
        "roots: none|float[n]; certificate: none|Certificate",
    ),
    "FourierSections": _of(
        "mercer.approximations.random_features:FourierSections",
        "frequencies: float[m,d]; amplitude: number; centre: float[d]",
    ),
    "Gauge": _of(
        "mercer.monitoring.statistics:Gauge",
        "space: FeatureSpace; variances: float[k]; rounding: number",
    ),
    "GivenSections": _of("mercer.operators.sections:GivenSections", "width: int; parallel: bool"),
    "KernelSections": _of(
        "mercer.operators.sections:KernelSections", "kernel: Kernel; points: rows[m,d]"
    ),
    "Limits": _of(
        "mercer.monitoring.limits:Limits",
        "t2: number; q: number; index: number; rate: number; method: text; note?: text",
    ),
    "LowEnd": _of(
        "mercer.solvers.negative_part:NegativePart",
        "lowest: number; negative: number; complete: bool",
    ),
    "Moments": _of(
        "mercer.engine.moments:Moments", "weight: number; mean: float[m]; scatter: float[m,m]"
    ),
    "Given": _of("mercer.planning.recipe:Given", "dtype: text"),
    "Plan": _of(
        "mercer.planning.recipe:Plan",
        "route: text; solver: Solver; recipe: none|Given|Whole|Tiles; n_threads: int; engine: text; "
        + _PLAN,
    ),
    "Proof": _of("mercer.planning.recipe:Proof", "width: int; sliced: bool"),
    "TileCache": _of(
        "mercer.planning.recipe:TileCache",
        "n_tiles: int; n_held: int; tile_bytes: int; packed: bool",
    ),
    "Tiles": _of(
        "mercer.planning.recipe:Tiles",
        "width: int; dtype: text; store: none|TileCache; proof: none|Proof",
    ),
    "Whole": _of("mercer.planning.recipe:Whole", "width: int; dtype: text"),
    "Projection": _of(
        "mercer.model.projection:Projection",
        "sections: Sections; coef: float[m,k]; offset: float[k]",
    ),
    "Status": _of("mercer._core.status:Status", "name: text", "member"),
    "Stream": _of(
        "mercer.stream.incremental:Stream",
        "dictionary: Dictionary; moments: Moments; trace: number; lost: number; error: number; "
        "norm: number; n_rows: int; seed: int; dtype: dtype; cheapest: number",
    ),
    "StreamCertificate": _of(
        "mercer.model.certificate:StreamCertificate",
        "kind: text; trace: number; left_out: number; rounding: number; goal: none|number; assumed: bool; "
        "norm: number",
    ),
}

_SEARCH = "n_starts: any; max_iter: any; tol: any; max_rows: any"
# Params may have any value that a file may hold: whoever uses them checks them first.
_KNOBS = {
    "BlockKrylov": _of(
        "mercer.solvers.krylov:BlockKrylov",
        "tol: any; block: any; max_products: any; max_basis: any; landmarks: any",
    ),
    "Distances": _of("mercer.preimage.distances:Distances", "n_neighbours: any; max_rows: any"),
    "Exact": _of("mercer.preimage.exact:Exact", "max_rows: any"),
    "FixedPoint": _of("mercer.preimage.fixed_point:FixedPoint", _SEARCH),
    "Gradient": _of("mercer.preimage.gradient:Gradient", _SEARCH),
    "Lapack": _of("mercer.solvers.dense:Lapack", "subset: any"),
    "NumpyEngine": _of("mercer.engine.numpy:NumpyEngine", "n_threads: none|int"),
    "Nystrom": _of(
        "mercer.approximations.nystrom:Nystrom", "landmarks: any; sampling: any; refine: any"
    ),
    "RPCholesky": _of(
        "mercer.approximations.rpcholesky:RPCholesky",
        "rank: any; tol: any; max_rank: any; refine: any",
    ),
    "RandomFourier": _of(
        "mercer.approximations.random_features:RandomFourier", "n_features: any; refine: any"
    ),
    "Ridge": _of("mercer.preimage.ridge:Ridge", "alpha: any; gamma: any; max_rows: any; rows: any"),
    "folds.KFold": _of(
        "sklearn.model_selection:KFold", "n_splits: any; shuffle: any; random_state: any"
    ),
    "folds.LeaveOneOut": _of("sklearn.model_selection:LeaveOneOut"),
    "folds.ShuffleSplit": _of(
        "sklearn.model_selection:ShuffleSplit",
        "n_splits: any; test_size: any; train_size: any; random_state: any",
    ),
    "folds.TimeSeriesSplit": _of(
        "sklearn.model_selection:TimeSeriesSplit",
        "n_splits: any; max_train_size: any; test_size: any; gap: any",
    ),
}

_WAYS_BACK = {
    "DistancesBack": _of(
        "mercer.preimage.distances:DistancesBack",
        "method: Distances; kernel: Kernel; space: FeatureSpace; near: Neighbours; own: float[n]; "
        "centre: float[d]; radius: number",
    ),
    "ExactBack": _of(
        "mercer.preimage.exact:ExactBack",
        "kernel: Kernel; slopes: float[d,k]; start: float[d]; c: number; n_rows: int",
    ),
    "FittedPreimage": _of(
        "mercer.preimage.base:FittedPreimage",
        "method: Preimage; back: Back; quality: none|Quality; space: none|FeatureSpace; reach: number; "
        "length: number; centre: float[d]; radius: number",
    ),
    "Neighbours": _of("mercer.preimage.search:Neighbours", "scores: float[n,k]; rows: rows[n,d]"),
    "Quality": _of(
        "mercer.preimage.base:Quality",
        "error: number; error_of_mean: number; residual: none|number; noisy?: none|number",
    ),
    "RidgeBack": _of("mercer.preimage.ridge:RidgeBack", "projection: Projection"),
    "SearchBack": _of(
        "mercer.preimage.search:SearchBack",
        "method: Search; space: FeatureSpace; near: Neighbours; radius: number",
    ),
}

_DETECTOR = {
    "Baselines": _of(
        "mercer.monitoring.contributions:Baselines", "rows: float[m,d]; unit?: none|float[d]"
    ),
    "ColumnScale": _of("mercer.engine.moments:Scale", "mean: float[d]; spread: float[d]"),
    "Rule": _of(
        "mercer.monitoring.limits:Rule",
        "rate: number; in_sample: bool; statistic: text; method: text",
    ),
}

_PREPARED = {
    "Preparation": _of(
        "mercer.io.preparation:Preparation",
        "numbers: texts; categories: any; fills: none|float[p]; center: none|float[d]; "
        "spread: none|float[d]; id: none|text; label: none|text; image_shape: any",
    ),
    "Prepared": _of("mercer.estimators.prepared:Prepared", "preparation: Preparation; model: any"),
}

# Values as earlier versions wrote them: known by a field that is gone, and brought up to date on loading.
OUTDATED = {
    "Plan": (
        "storage",
        _of(
            "mercer.planning.recipe:plan_of_flags",
            "route: text; solver: Solver; storage: text; width: int; sketch: bool; double: bool; "
            "hold_bytes: int; held: number; packed: bool; sliced: bool; n_threads?: int; " + _PLAN,
        ),
    )
}

VALUES = {**_MODEL, **_KNOBS, **_WAYS_BACK, **_DETECTOR, **_PREPARED}

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
    return _of(home, f"{learned}; {_COMMON}", "estimator")


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
