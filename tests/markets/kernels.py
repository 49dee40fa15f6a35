"""The kernels of the market. Each is concrete: no parameter waits for data."""

import numpy as np
from sklearn.gaussian_process import kernels as gp

from mercer.kernels import (
    RBF,
    Chi2,
    Cosine,
    Custom,
    GaussianProcess,
    Laplacian,
    Linear,
    Matern,
    Polynomial,
    RationalQuadratic,
    Sigmoid,
)


def exponential(x, y):
    """A function of two matrices."""
    return np.exp(x @ y.T / 10.0)


def product_of_sums(x, y):
    """A function of two points."""
    return float(x.sum() * y.sum() + np.dot(x, y))


VALID = {
    "linear": Linear(),
    "poly1": Polynomial(1, gamma=0.5, coef0=0.3),
    "poly2": Polynomial(2, gamma=0.5),
    "poly3-homogeneous": Polynomial(3, gamma=0.2, coef0=0.0),
    "poly4": Polynomial(4, gamma=0.1, coef0=2.0),
    "rbf": RBF(0.3),
    "rbf-sigma": RBF(sigma=1.5),
    "cosine": Cosine(),
    "laplacian": Laplacian(0.4),
    "matern-1/2": Matern(0.5, 1.3),
    "matern-3/2": Matern(1.5, 1.3),
    "matern-5/2": Matern(2.5, 1.3),
    "matern-0.8": Matern(0.8, 1.3),
    "matern-inf": Matern(np.inf, 1.3),
    "rational-quadratic": RationalQuadratic(0.7, 1.2),
    "sum": RBF(0.3) + 0.5 * Linear(),
    "product": RBF(0.1) * Polynomial(2),
    "power": (RBF(0.2) + 1.0) ** 3,
    "columns": RBF(0.3).on([0, 2]) + Linear().on([1]),
    "normalised": Polynomial(2).normalised(),
    "gp": GaussianProcess(gp.RBF(1.2) + gp.ConstantKernel(0.5)),
    "matrices": Custom(exponential, "matrices"),
    "points": Custom(product_of_sums, "points"),
}

# Only on rows without negative entries.
HISTOGRAM = {"chi2": Chi2(0.5)}

INDEFINITE = {"sigmoid": Sigmoid(0.5, -0.5), "minus-rbf": -RBF(0.3)}
