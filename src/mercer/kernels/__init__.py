"""Kernels as objects: mathematics on one tile, with algebra and, where it exists, an explicit map.

Every kernel is called as ``k(X, Y)`` and gives the (n, m) matrix of ``k(x_i, y_j)``.

Examples
--------
>>> import numpy as np
>>> from mercer.kernels import RBF, Linear
>>> k = RBF(gamma=0.5) + 0.1 * Linear()
>>> k
RBF(gamma=0.5) + 0.1 * Linear()
>>> k(np.array([[0.0], [1.0]])).round(3)
array([[1.   , 0.607],
       [0.607, 1.1  ]])
"""

from mercer.kernels.algebra import Constant, Normalised, OnColumns, Power, Product, Scale, Sum
from mercer.kernels.base import Kernel
from mercer.kernels.custom import Custom, GaussianProcess, Precomputed
from mercer.kernels.dot import Cosine, Linear, Polynomial, Sigmoid
from mercer.kernels.names import KERNELS, as_kernel
from mercer.kernels.stationary import RBF, Chi2, Laplacian, Matern, RationalQuadratic

__all__ = [
    "KERNELS",
    "RBF",
    "Chi2",
    "Constant",
    "Cosine",
    "Custom",
    "GaussianProcess",
    "Kernel",
    "Laplacian",
    "Linear",
    "Matern",
    "Normalised",
    "OnColumns",
    "Polynomial",
    "Power",
    "Precomputed",
    "Product",
    "RationalQuadratic",
    "Scale",
    "Sigmoid",
    "Sum",
    "as_kernel",
]
