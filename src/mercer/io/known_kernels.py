"""Kernels and feature maps that a model file may hold, those of scikit-learn's Gaussian processes too."""

from mercer.io.known_types import Known
from mercer.kernels import Kernel
from mercer.kernels.base import FORMULAS


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

_GIVEN = {
    # A function is never in a file. That of the drop-in is a name and numbers.
    "Custom": _own("custom", "Custom", "function: PairwiseFunction; form: text"),
    "GaussianProcess": _own("custom", "GaussianProcess", "kernel: GaussianKernel"),
    "PairwiseFunction": Known.of(
        "mercer.sklearn:_Pairwise", "metric: text; n_jobs: none|int; params: any"
    ),
    "Precomputed": _own("custom", "Precomputed"),
}

# What the parameters of a kernel with a formula hold, but for those that are numbers or rules.
_PARTS = {"kernel": "Kernel", "left": "Kernel", "right": "Kernel", "columns": "any"}


def of_formula(kind: type[Kernel], otherwise: str) -> Known:
    """A kernel with a formula: by its class, made from the parameters of its constructor."""
    fields = {name: _PARTS.get(name, otherwise) for name in kind._param_names()}
    return Known(f"{kind.__module__}:{kind.__qualname__}", fields, kind=kind)


KERNELS = {
    **{
        name: of_formula(kind, "none|number|text")  # a number, or a rule such as "median"
        for name, kind in FORMULAS.items()
        if kind.__module__.startswith("mercer.")
    },
    **_GIVEN,
    **_MAPS,
    **_GP,
}
