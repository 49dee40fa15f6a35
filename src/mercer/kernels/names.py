"""From what a user writes to a kernel, or another object that has a name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, TypeAlias

from mercer._core.errors import KernelError, ParameterError, nearest, quoted_value
from mercer.kernels.algebra import Constant
from mercer.kernels.base import Kernel
from mercer.kernels.custom import Custom, GaussianProcess, Precomputed
from mercer.kernels.dot import Cosine, Linear, Polynomial, Sigmoid
from mercer.kernels.stationary import RBF, Chi2, Laplacian, Matern, RationalQuadratic

# The names of the table below, for editors to complete; a test holds the two together.
KernelName: TypeAlias = Literal[
    "chi2",
    "cosine",
    "gaussian",
    "laplacian",
    "linear",
    "matern",
    "poly",
    "polynomial",
    "precomputed",
    "rational_quadratic",
    "rbf",
    "sigmoid",
]
KERNELS: dict[str, type[Kernel]] = {
    "chi2": Chi2,
    "cosine": Cosine,
    "gaussian": RBF,
    "laplacian": Laplacian,
    "linear": Linear,
    "matern": Matern,
    "poly": Polynomial,
    "polynomial": Polynomial,
    "precomputed": Precomputed,
    "rational_quadratic": RationalQuadratic,
    "rbf": RBF,
    "sigmoid": Sigmoid,
}


OF_OBJECTS = (Custom, GaussianProcess)  # which a text has no word for


def kernel_classes() -> dict[str, type[Kernel]]:
    """The classes that a text may call, by plain name: the library's, and those that users defined last."""
    kinds: list[Any] = [Kernel]
    for kind in kinds:  # which grows meanwhile
        kinds += kind.__subclasses__()
    others = {
        kind.__name__: kind
        for kind in kinds
        if not kind.__module__.startswith("mercer.") and not issubclass(kind, OF_OBJECTS)
    }
    return by_plain_name(others) | by_plain_name({**KERNELS, "constant": Constant})


def by_plain_name(known: Mapping[str, type]) -> dict[str, Any]:
    """Classes by their names here and their own, such as fixed-point and FixedPoint."""
    classes = {kind.__name__: kind for kind in known.values()}
    return {plain_name(name): kind for name, kind in {**classes, **known}.items()}


def plain_name(name: str) -> str:
    """A name in which case, dashes and underscores don't count."""
    return name.lower().replace("_", "").replace("-", "")


def is_positive_only(kernel: Any) -> bool:
    """Whether a kernel, as a user writes it, refuses negative entries; no for what is not a kernel."""
    try:
        return as_kernel(kernel).shape().counts_only
    except KernelError:
        return False


def as_kernel(kernel: Any) -> Kernel:
    """A kernel object from a name, an expression, a kernel, a Gaussian-process kernel or a function.

    Examples
    --------
    >>> as_kernel("rbf")
    RBF(gamma='median')
    >>> as_kernel("rbf(gamma=2) + 0.5*linear")
    RBF(gamma=2) + 0.5 * Linear()
    """
    if isinstance(kernel, Kernel):
        return kernel
    if isinstance(kernel, str):
        if kernel in KERNELS:
            return KERNELS[kernel]()
        from mercer.kernels.text import parse_kernel  # which knows the names of this file

        return parse_kernel(kernel)
    if isinstance(kernel, type):
        name = kernel.__name__
        msg = f"kernel must be an object; got the class {name}. Write {name}()."
        raise KernelError(msg)
    if hasattr(kernel, "is_stationary") and hasattr(kernel, "diag"):
        return GaussianProcess(kernel)
    if callable(kernel):
        return Custom(kernel)
    msg = (
        f"kernel must be a name, a mercer.kernels object or a function of two points; got "
        f"{quoted_value(kernel)}. {nearest('', KERNELS)}"
    )
    raise KernelError(msg)


def named(
    what: str, given: Any, kind: type[Any], known: Mapping[str, type], default: str | None
) -> Any:
    """The default, an object, or the one behind a name or a call such as ``ridge(alpha=1e-3)``."""
    if isinstance(given, kind) or given is default:
        return given
    if isinstance(given, str):
        from mercer.kernels.text import parse_call  # which knows the names of this file

        also = () if default is None else (default,)
        return known[given]() if given in known else parse_call(given, known, what=what, also=also)
    wanted = f"{default!r}, a name or an object"
    hint = f"Write {given.__name__}(...)." if isinstance(given, type) else nearest("", known)
    raise ParameterError.about(parameter=what, value=given, must_be=wanted, remedy=hint)
