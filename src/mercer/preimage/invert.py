"""What can be undone in a kernel: which are functions of the distance, and which of the dot product."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from mercer.kernels.algebra import Constant, Product, Scale, Sum
from mercer.kernels.dot import OfDotProducts
from mercer.kernels.stationary import Radial

if TYPE_CHECKING:
    from mercer._core.types import Array, Rows
    from mercer.kernels.base import Kernel


def unscaled(kernel: Kernel) -> tuple[Kernel, float]:
    """(k, c) of a kernel c·k with c > 0."""
    factor = 1.0
    while isinstance(kernel, Scale) and kernel.factor > 0:
        factor *= float(kernel.factor)
        kernel = kernel.kernel
    return kernel, factor


def of_dot_product(kernel: Kernel) -> OfDotProducts | None:
    """The kernel without its factor, where its values tell dot products."""
    inner, _ = unscaled(kernel)
    if isinstance(inner, OfDotProducts) and inner.dot_product(np.ones(1)) is not None:
        return inner
    return None


def of_distance(kernel: Kernel) -> Radial | None:
    """The kernel without its factor, where its values tell distances."""
    inner, _ = unscaled(kernel)
    return inner if isinstance(inner, Radial) else None


def is_decreasing(kernel: Kernel) -> bool:
    """Whether it is a positive function of the distance that nowhere grows: radial, or made of such."""
    if isinstance(kernel, Scale):
        return kernel.factor > 0 and is_decreasing(kernel.kernel)
    if isinstance(kernel, (Sum, Product)):
        return is_decreasing(kernel.left) and is_decreasing(kernel.right)
    if isinstance(kernel, Constant):
        return bool(kernel.value >= 0)
    return isinstance(kernel, Radial)


def radial_slopes(kernel: Kernel, x: Rows, y: Rows) -> Array:  # (n, d), (m, d) -> (n, m)
    """[f'(‖x_i - y_j‖²)] of a kernel that `is_decreasing`: none of them positive."""
    if isinstance(kernel, Scale):
        return kernel.factor * radial_slopes(kernel.kernel, x, y)
    if isinstance(kernel, Sum):
        return radial_slopes(kernel.left, x, y) + radial_slopes(kernel.right, x, y)
    if isinstance(kernel, Product):
        left = radial_slopes(kernel.left, x, y) * kernel.right.tile(x, y)
        return left + radial_slopes(kernel.right, x, y) * kernel.left.tile(x, y)
    if isinstance(kernel, Constant):
        return np.zeros((x.shape[0], y.shape[0]))
    assert isinstance(kernel, Radial)
    return kernel.radial_slope(x, y)
