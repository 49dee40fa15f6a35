"""The Matérn function of one variable, for every smoothness ν."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy import special

from mercer._core.types import Array


def matern(s: Array, nu: float) -> Array:
    """2^(1-ν)/Γ(ν) · s^ν K_ν(s) of each entry, one at s = 0 and zero at s = ∞."""
    # Beyond, the value is zero, while powers of s overflow and SciPy's K_ν of 1e9 is NaN.
    s = np.minimum(s, vanishing(nu))
    if nu in _POLYNOMIALS:
        out = np.exp(-s)
        out *= _POLYNOMIALS[nu](s)
        return out
    return _debye(s, nu) if nu >= LARGE_NU else _bessel(s, nu)


def vanishing(nu: float) -> float:
    """An s from which on the Matérn function is below the least positive number."""
    # log M ≤ ν log(s/ν) + ν - s + O(log s) for s > ν, and about -s²/(4ν) below that: both are under -1500
    # here, where e^-745 is zero already.
    return 2000.0 + 100.0 * math.sqrt(nu)


_POLYNOMIALS: dict[float, Callable[[Array], Any]] = {
    0.5: lambda s: 1.0,  # noqa: ARG005
    1.5: lambda s: 1.0 + s,
    2.5: lambda s: 1.0 + s + s * s / 3.0,
}


# From here on K_ν overflows near zero, and the expansion for large ν is right to 1e-9.
LARGE_NU = 50.0


def _debye(s: Array, nu: float) -> Array:
    # Debye's expansion of K_ν(νz): with w = √(1 + z²), all that is large cancels on paper, and
    # s^ν K_ν(s) over its limit at zero is exp(ν(log((1 + w)/2) - (w - 1))) · w^(-1/2) · Σ(1/w)/Σ(1).
    z = s.astype(np.float64) / nu
    w = np.sqrt(1.0 + z * z)
    e = z * z / (1.0 + w)  # w - 1, which would cancel
    out = np.exp(nu * (np.log1p(0.5 * e) - e)) / np.sqrt(w)
    out *= debye_sum(1.0 / w, nu) / debye_sum(1.0, nu)
    return out.astype(s.dtype, copy=False)


def debye_sum(t: Any, nu: float) -> Any:
    """Σ_k (-1)^k u_k(t)/ν^k up to k = 3, for all that has arithmetic."""
    q = t * t
    u1 = t * (3.0 - 5.0 * q) / 24.0
    u2 = q * (81.0 + q * (-462.0 + q * 385.0)) / 1152.0
    u3 = t * q * (30375.0 + q * (-369603.0 + q * (765765.0 - q * 425425.0))) / 414720.0
    return 1.0 - (u1 - (u2 - u3 / nu) / nu) / nu


def _bessel(s: Array, nu: float) -> Array:
    # s^ν K_ν(s) tends to 2^(ν-1) Γ(ν) at 0, where the two factors are 0 and inf.
    out = np.ones_like(s)
    # Beyond ROUGH_NU 1 - M(s) is below s^(2ν): nothing, beside 1.
    far = s >= NEAR_ZERO if nu < ROUGH_NU else s > LEAST
    t = s[far].astype(np.float64)
    if nu < ROUGH_NU:  # both factors are ordinary numbers
        near = (s > 0.0) & (s < NEAR_ZERO)
        out[near] = _cusp(s[near].astype(np.float64), nu)
        value = 2.0 ** (1.0 - nu) * special.rgamma(nu) * t**nu * special.kve(nu, t) * np.exp(-t)
    else:
        # In logarithms, with the exponentially scaled Bessel function: neither factor overflows.
        log_value = (1.0 - nu) * np.log(2.0) - special.gammaln(nu) + nu * np.log(t)
        log_value += np.log(special.kve(nu, t)) - t
        value = np.exp(log_value)
    out[far] = np.minimum(value, 1.0)
    return out


# Below this ν the function has a cusp at zero that reaches up to s = 1 from the least number on.
ROUGH_NU = 0.5
NEAR_ZERO = 1e-8  # the next term of the series at zero is s², nothing beside 1
LEAST = 1e-16
ZETA_3, ZETA_5, ZETA_7 = 1.2020569031595942, 1.0369277551433699, 1.0083492773819228


def _cusp(s: Array, nu: float) -> Array:
    """1 - Γ(1-ν)/Γ(1+ν) (s/2)^(2ν), the Matérn function for ν < 1/2 but for terms of s²."""
    # As 1 - e^g, which loses no digit where ν, and g with it, is small: log Γ(1-ν)/Γ(1+ν) is then taken
    # from its series 2(γν + ζ(3)ν³/3 + ζ(5)ν⁵/5 + …).
    if nu < 0.02:
        q = nu * nu
        series = q * (ZETA_3 / 3.0 + q * (ZETA_5 / 5.0 + q * ZETA_7 / 7.0))
        ratio = 2.0 * nu * (np.euler_gamma + series)
    else:
        ratio = special.gammaln(1.0 - nu) - special.gammaln(1.0 + nu)
    return np.asarray(-np.expm1(ratio + 2.0 * nu * (np.log(s) - math.log(2.0))))


def matern_slope(s: Array, nu: float) -> Array:
    """M'(s)/s of M(s) = 2^(1-ν)/Γ(ν) · s^ν K_ν(s); 0 at s = 0 where it has no limit there."""
    if nu > 1.0:  # d/ds s^ν K_ν = -s^ν K_(ν-1), again such a function
        out = matern(s, nu - 1.0)
        out *= -0.5 / (nu - 1.0)
        return out
    out = np.zeros_like(s)
    far = s > np.finfo(s.dtype).eps
    t = np.minimum(s[far].astype(np.float64), vanishing(nu))
    # K_(ν-1) = K_(1-ν), exponentially scaled.
    log_scale = (1.0 - nu) * np.log(2.0) - special.gammaln(nu) + (nu - 1.0) * np.log(t) - t
    out[far] = -np.exp(log_scale) * special.kve(1.0 - nu, t)
    return out


def inverse_matern(values: Array, nu: float) -> Array:
    """The s with M(s) = value, for values between 0 (s = inf) and 1 (s = 0), by bisection."""
    values = np.asarray(values, dtype=np.float64)
    low, high = np.zeros_like(values), np.ones_like(values)
    inside = (values > 0.0) & (values < 1.0)
    for _ in range(60):  # M falls at least like exp(-s) far out, and 1e-308 is reached by s < 2^12
        short = inside & (matern(high, nu) > values)
        if not np.any(short):
            break
        high = np.where(short, 2.0 * high, high)
    for _ in range(80):
        middle = 0.5 * (low + high)
        above = matern(middle, nu) > values
        low, high = np.where(above, middle, low), np.where(above, high, middle)
    low = np.where(np.isnan(values), np.nan, low)
    return np.where(values >= 1.0, 0.0, np.where(values <= 0.0, np.inf, 0.5 * (low + high)))
