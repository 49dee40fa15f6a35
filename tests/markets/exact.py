"""The formulas of all kernels in mpmath: references for values in floating point."""

import numpy as np
from mpmath import mp


def exact(kernel, x, y):
    """The kernel's formula in mpmath."""
    return FORMULAS[type(kernel).__name__](kernel, x, y)


def real(value):
    return mp.mpf(float(value))


def squares(x, y):
    return mp.fsum((a - b) ** 2 for a, b in zip(x, y, strict=True))


def chi2_distance(x, y):
    return mp.fsum((a - b) ** 2 / (a + b) for a, b in zip(x, y, strict=True) if a + b)


def squashed(t):
    return mp.tanh(t) if abs(t) < 1e4 else mp.sign(t)


def quotient(value, length):
    return value / mp.sqrt(length) if length else mp.mpf(0)


FORMULAS = {
    "RBF": lambda k, x, y: mp.exp(-real(k.gamma) * squares(x, y)),
    "Laplacian": lambda k, x, y: mp.exp(
        -real(k.gamma) * mp.fsum(abs(a - b) for a, b in zip(x, y, strict=True))
    ),
    "Matern": lambda k, x, y: (
        mp.exp(-squares(x, y) / (2 * real(k.length_scale) ** 2))
        if k.nu == np.inf
        else exact_matern(
            mp.sqrt(2 * real(k.nu) * squares(x, y)) / real(k.length_scale), real(k.nu)
        )
    ),
    "RationalQuadratic": lambda k, x, y: (
        (1 + squares(x, y) / (2 * real(k.alpha) * real(k.length_scale) ** 2)) ** -real(k.alpha)
    ),
    "Chi2": lambda k, x, y: mp.exp(-real(k.gamma) * chi2_distance(x, y)),
    "Linear": lambda _, x, y: mp.fdot(x, y),
    "Polynomial": lambda k, x, y: (real(k.gamma) * mp.fdot(x, y) + real(k.coef0)) ** k.degree,
    "Sigmoid": lambda k, x, y: squashed(real(k.gamma) * mp.fdot(x, y) + real(k.coef0)),
    "Cosine": lambda _, x, y: quotient(mp.fdot(x, y), mp.fdot(x, x) * mp.fdot(y, y)),
    "Constant": lambda k, *_: real(k.value),
    "Sum": lambda k, x, y: exact(k.left, x, y) + exact(k.right, x, y),
    "Product": lambda k, x, y: exact(k.left, x, y) * exact(k.right, x, y),
    "Scale": lambda k, x, y: real(k.factor) * exact(k.kernel, x, y),
    "Power": lambda k, x, y: exact(k.kernel, x, y) ** k.exponent,
    "OnColumns": lambda k, x, y: exact(k.kernel, *([r[c] for c in k.columns] for r in (x, y))),
    "Normalised": lambda k, x, y: quotient(
        exact(k.kernel, x, y), exact(k.kernel, x, x) * exact(k.kernel, y, y)
    ),
}


def exact_matern(s, nu):
    """2^(1-ν)/Γ(ν) · s^ν K_ν(s)."""
    if s == 0:
        return mp.mpf(1)
    return 2 ** (1 - nu) / mp.gamma(nu) * s**nu * mp.besselk(nu, s) if s < 5000 else mp.mpf(0)
