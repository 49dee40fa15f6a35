"""The Matérn function in a graph: half-integer ν, and ν from 50 on. ONNX has no Bessel function."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from mercer._core.errors import KernelError
from mercer.kernels.matern import LARGE_NU

if TYPE_CHECKING:
    from mercer.kernels import Kernel
    from mercer.onnx.graph import Graph, Value

# exp(-s) is zero in float64 from here on; without a clip, 0 times an overflow would be no number.
FAR = 750.0


def require_closed_form(nu: float, kernel: Kernel) -> None:
    """Raise for a ν whose values are Bessel functions."""
    p = nu - 0.5
    if nu < LARGE_NU and not p.is_integer():
        low = max(np.floor(p), 0.0) + 0.5
        msg = (
            f"{kernel!r} can't be exported: its value is a Bessel function, which ONNX does not have, but "
            f"for nu = 0.5, 1.5, 2.5, … and from {LARGE_NU:g} on. Fit with nu={low:g} or nu={low + 1.0:g}."
        )
        raise KernelError(msg)


def matern_values(g: Graph, squares: Value, nu: float) -> Value:
    """2^(1-ν)/Γ(ν) · s^ν K_ν(s) of s², in a graph of float64."""
    return _debye(g, squares, nu) if nu >= LARGE_NU else _closed(g, squares, int(nu - 0.5))


def _closed(g: Graph, squares: Value, p: int) -> Value:
    """exp(-s) Σ_j c_j s^j for ν = p + 1/2, with c_j = 2^j p! (2p-j)!/((2p)! (p-j)! j!), all positive.

    As 1 + r_1 s (1 + r_2 s (1 + …)) with r_j = c_j/c_(j-1): the c_j themselves go down to 1e-77, and
    onnxruntime's optimiser takes a double below 1e-45 for zero.
    """
    s = g.op("Min", g.op("Sqrt", squares), FAR)
    decay = g.op("Exp", g.op("Neg", s))
    if p == 0:
        return decay
    value = None
    for j in range(p, 0, -1):
        ratio = 2.0 * (p - j + 1) / ((2 * p - j + 1) * j)
        step = g.op("Mul", s if value is None else g.op("Mul", s, value), ratio)
        value = g.op("Add", step, 1.0)
    assert value is not None  # p ≥ 1
    return g.op("Mul", value, decay)


def _debye(g: Graph, squares: Value, nu: float) -> Value:
    """Debye's expansion of K_ν for large ν, as `mercer.kernels.matern` has it."""
    z2 = g.op("Mul", squares, 1.0 / nu**2)
    w = g.op("Sqrt", g.op("Add", z2, 1.0))
    e = g.op("Div", z2, g.op("Add", w, 1.0))  # w - 1
    rate = g.op("Mul", g.op("Sub", _log1p(g, g.op("Mul", e, 0.5)), e), nu)
    out = g.op("Div", g.op("Exp", rate), g.op("Sqrt", w))
    t = g.op("Div", 1.0, w)
    at_zero = 1.0 - ((3 - 5) / 24 - ((81 - 462 + 385) / 1152 - _U3 / nu) / nu) / nu
    return g.op("Mul", out, g.op("Mul", _debye_sum(g, t, nu), 1.0 / at_zero))


_U3 = (30375.0 - 369603.0 + 765765.0 - 425425.0) / 414720.0  # u₃(1)


def _debye_sum(g: Graph, t: Value, nu: float) -> Value:
    """Σ_k (-1)^k u_k(t)/ν^k up to k = 3."""
    q = g.op("Mul", t, t)

    def horner(*coefficients: float) -> Value:
        value = g.op("Add", g.op("Mul", q, coefficients[-1]), coefficients[-2])
        for coefficient in reversed(coefficients[:-2]):
            value = g.op("Add", g.op("Mul", value, q), coefficient)
        return value

    u1 = g.op("Mul", t, horner(3 / 24, -5 / 24))
    u2 = g.op("Mul", q, horner(81 / 1152, -462 / 1152, 385 / 1152))
    scaled = (c / 414720.0 for c in (30375.0, -369603.0, 765765.0, -425425.0))
    u3 = g.op("Mul", g.op("Mul", t, q), horner(*scaled))
    inner = g.op("Sub", u2, g.op("Mul", u3, 1.0 / nu))
    inner = g.op("Sub", u1, g.op("Mul", inner, 1.0 / nu))
    return g.op("Sub", 1.0, g.op("Mul", inner, 1.0 / nu))


def _log1p(g: Graph, u: Value) -> Value:
    """log(1 + u) without the loss near zero (Kahan): u log(w)/(w - 1) for the w that 1 + u rounds to."""
    w = g.op("Add", u, 1.0)
    gap = g.op("Sub", w, 1.0)
    lost = g.op("Equal", gap, 0.0)
    ratio = g.op("Div", g.op("Log", w), g.op("Where", lost, 1.0, gap))
    return g.op("Where", lost, u, g.op("Mul", u, ratio))
