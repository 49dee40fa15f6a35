"""Kernels and feature maps that a model file may hold, those of scikit-learn's Gaussian processes too."""

from mercer.io.known_types import Known

_ONE = "none|number|text"  # a parameter: a number, or a rule such as "median"


def _own(module: str, name: str, fields: str = "") -> Known:
    return Known.of(f"mercer.kernels.{module}:{name}", fields)


def _gp(name: str, fields: str) -> Known:
    return Known.of(f"sklearn.gaussian_process.kernels:{name}", fields)


_GP = {
    "gp.CompoundKernel": _gp("CompoundKernel", "kernels: any"),
    "gp.ConstantKernel": _gp(
        "ConstantKernel", "constant_value: number; constant_value_bounds: any"
    ),
    "gp.DotProduct": _gp("DotProduct", "sigma_0: number; sigma_0_bounds: any"),
    "gp.ExpSineSquared": _gp(
        "ExpSineSquared",
        "length_scale: number; periodicity: number; length_scale_bounds: any; periodicity_bounds: any",
    ),
    "gp.Exponentiation": _gp("Exponentiation", "kernel: GaussianKernel; exponent: number"),
    "gp.Matern": _gp("Matern", "length_scale: any; length_scale_bounds: any; nu: number"),
    "gp.PairwiseKernel": _gp(
        "PairwiseKernel",
        "gamma: number; gamma_bounds: any; metric: text; pairwise_kernels_kwargs: any",
    ),
    "gp.Product": _gp("Product", "k1: GaussianKernel; k2: GaussianKernel"),
    "gp.RBF": _gp("RBF", "length_scale: any; length_scale_bounds: any"),
    "gp.RationalQuadratic": _gp(
        "RationalQuadratic",
        "length_scale: number; alpha: number; length_scale_bounds: any; alpha_bounds: any",
    ),
    "gp.Sum": _gp("Sum", "k1: GaussianKernel; k2: GaussianKernel"),
    "gp.WhiteKernel": _gp("WhiteKernel", "noise_level: number; noise_level_bounds: any"),
}

_MAPS = {
    "ColumnsMap": _own("feature_map", "ColumnsMap", "d: int; columns: any"),
    "ComposedMap": _own("map_algebra", "ComposedMap", "outer: FeatureMap; inner: FeatureMap"),
    "IdentityMap": _own("feature_map", "IdentityMap", "d: int"),
    "PolynomialMap": _own(
        "feature_map", "PolynomialMap", "d: int; degree: int; gamma: number; coef0: number"
    ),
    "ProductMap": _own("map_algebra", "ProductMap", "left: FeatureMap; right: FeatureMap"),
    "ScaledMap": _own("map_algebra", "ScaledMap", "inner: FeatureMap; factor: number"),
    "SumMap": _own("map_algebra", "SumMap", "left: FeatureMap; right: FeatureMap"),
    "UnitMap": _own("map_algebra", "UnitMap", "inner: FeatureMap"),
}

KERNELS = {
    "Chi2": _own("histogram", "Chi2", f"gamma: {_ONE}"),
    "Constant": _own("algebra", "Constant", f"value: {_ONE}"),
    "Cosine": _own("dot", "Cosine"),
    # A function is never in a file. That of the drop-in is a name and numbers.
    "Custom": _own("custom", "Custom", "function: PairwiseFunction; form: text"),
    "GaussianProcess": _own("custom", "GaussianProcess", "kernel: GaussianKernel"),
    "Laplacian": _own("stationary", "Laplacian", f"gamma: {_ONE}"),
    "Linear": _own("dot", "Linear"),
    "Matern": _own("stationary", "Matern", f"nu: {_ONE}; length_scale: {_ONE}"),
    "Normalised": _own("derived", "Normalised", "kernel: Kernel"),
    "OnColumns": _own("derived", "OnColumns", "kernel: Kernel; columns: any"),
    "PairwiseFunction": Known.of(
        "mercer.sklearn:_Pairwise", "metric: text; n_jobs: none|int; params: any"
    ),
    "Polynomial": _own("dot", "Polynomial", f"degree: {_ONE}; gamma: {_ONE}; coef0: {_ONE}"),
    "Power": _own("algebra", "Power", f"kernel: Kernel; exponent: {_ONE}"),
    "Precomputed": _own("custom", "Precomputed"),
    "Product": _own("algebra", "Product", "left: Kernel; right: Kernel"),
    "RBF": _own("stationary", "RBF", f"gamma: {_ONE}; sigma: {_ONE}"),
    "RationalQuadratic": _own(
        "stationary", "RationalQuadratic", f"alpha: {_ONE}; length_scale: {_ONE}"
    ),
    "Scale": _own("algebra", "Scale", f"kernel: Kernel; factor: {_ONE}"),
    "Sigmoid": _own("dot", "Sigmoid", f"gamma: {_ONE}; coef0: {_ONE}"),
    "Sum": _own("algebra", "Sum", "left: Kernel; right: Kernel"),
    **_MAPS,
    **_GP,
}
