"""Formulas on rows, in NumPy: values, also those beyond the range of numbers."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy import sparse

from mercer._core.errors import KernelError
from mercer._core.types import Array, Rows
from mercer.data.rows import row_slices
from mercer.engine import formula as f
from mercer.engine import pairwise
from mercer.kernels.matern import matern
from mercer.kernels.rows import picked

DOT = f.Pair("dot")
MIRRORED = 256  # rows that are copied to the other side of the diagonal at a time
# Scale times a quantity of each pair of rows: (n, d), (m, d), scale -> (n, m).
QUANTITIES = {
    "sqdist": pairwise.scaled_squared_distances,
    "dot": pairwise.dot,
    "l1": pairwise.manhattan_distances,
    "chi2": pairwise.chi2_distances,
}


def values(expr: f.Expr, x: Rows, y: Rows | None = None) -> Array:  # noqa: PLR0911, PLR0912  -> (n, m)
    """[k(x_i, y_j)], or [k(x_i, x_i)] without y, as a new array of the rows' dtype.

    Every operand is fresh, so each node works in place on what the one below has made.
    """
    match expr:
        case f.Exp(of):
            out = values(of, x, y)
            return np.exp(out, out=out)
        case f.Affine(of, scale) if abs(scale) > pairwise.STEEP[x.dtype] and _vanishes(of, x, y):
            return scaled(expr, x, y).values()
        case f.Affine(f.Pair(kind, unit), scale, shift):
            if y is None:
                out = _own(kind, x, scale)
            elif squarable(unit):
                out = QUANTITIES[kind](x, y, scale / unit**2)
            else:
                out = _far_squares(x, y, scale, unit)
            if shift:
                out += shift
            return out
        case f.Pow():
            return _power(expr, x, y)
        case f.Pair():
            return values(f.Affine(expr), x, y)
        case f.Affine() | f.Joined():
            return _arithmetic(expr, x, y)
        case f.Matern(of, nu):
            out = matern(root(of, x, y, math.sqrt(2.0) * math.sqrt(nu)), nu)
            return out.astype(x.dtype, copy=False)
        case f.On(of):
            return values(of, *on_columns(expr, x, y))
        case f.Unit():
            return _unit(expr, x, y)
        case f.Tanh(of):
            out = values(of, x, y)
            return np.tanh(out, out=out)
        case f.Const(value):
            shape = (x.shape[0],) if y is None else (x.shape[0], y.shape[0])
            return np.full(shape, value, dtype=x.dtype)
        case f.Opaque(kernel):
            return kernel.tile_diag(x) if y is None else kernel.tile(x, y)
    raise TypeError(type(expr))


def complete(tile: Array, expr: f.Expr, diagonal: Array) -> None:
    """Set the diagonal of [k(x_i, x_j)], where distances only nearly cancel, and make it symmetric.

    A narrow kernel magnifies the rounding of distances, which differs on the two sides of the diagonal.
    What a user's function returns is not made symmetric: checks must see that it is not.
    """
    np.fill_diagonal(tile, diagonal)
    if any(isinstance(node, f.Opaque) for node in expr.walk()):
        return
    for i in row_slices(len(tile), MIRRORED):
        tile[i, i.stop :] = tile[i.stop :, i].T
        tile[i, i] = np.tril(tile[i, i]) + np.tril(tile[i, i], -1).T


def _own(kind: str, x: Rows, scale: float) -> Array:  # -> (n,)
    if kind != "dot":
        return np.zeros(x.shape[0], dtype=x.dtype)
    with np.errstate(over="ignore"):
        own = pairwise.squared_norms(x)
    if scale == 1.0:
        return own
    own *= scale
    return in_range(own, lambda: Scaled.dots(x, None).times(scale))


def squarable(unit: float) -> bool:
    """Whether unit² is in range, and numbers over it."""
    return 1e-150 < unit < 1e150


def _far_squares(x: Rows, y: Rows, scale: float, unit: float) -> Array:  # -> (n, m)
    """Scale · ‖x - y‖²/unit² where unit² is out of range."""
    with np.errstate(over="ignore"):
        tile = scale * np.square(pairwise.scaled_distances(x, y, 1.0 / unit))
        return tile.astype(x.dtype, copy=False)


def _arithmetic(expr: f.Affine | f.Joined, x: Rows, y: Rows | None) -> Array:
    out = values(expr.parts[0], x, y)
    with np.errstate(over="ignore", invalid="ignore"):
        match expr:
            case f.Affine(_, scale, shift):
                if scale != 1.0:
                    out *= scale
                if shift:
                    out += shift
            case f.Add(_, right):
                out += values(right, x, y)
            case f.Mul(left, right):
                other = values(right, x, y)
                if _outweighs(out, left, right, x, y) or _outweighs(other, right, left, x, y):
                    return scaled(expr, x, y).values()
                out *= other
    return in_range(out, lambda: scaled(expr, x, y))


def _own_values(expr: f.Expr, x: Rows, y: Rows | None) -> Array:
    """|u(x, x)| of the rows on either side."""
    with np.errstate(over="ignore"):
        sides = [values(expr, side) for side in (x, y) if side is not None]
    return np.abs(np.concatenate(sides))


def _vanishes(expr: f.Expr, x: Rows, y: Rows | None) -> bool:
    """Whether values may have lost digits below the least number."""
    low = pairwise.SQUARABLE[x.dtype][0]
    return expr.has("dot") and bool(np.any(_own_values(expr, x, y) < low))


def _outweighs(tile: Array, expr: f.Expr, other: f.Expr, x: Rows, y: Rows | None) -> bool:
    """Whether values of a factor are so large that what has vanished in the other one may count."""
    # A factor of distances is no larger than its scale. The root of the largest number is less than `STEEP`:
    # one pass without a temporary is nearly always enough.
    if not expr.has("dot") or np.isfinite(np.vdot(tile, tile)):
        return False
    return bool(np.max(np.abs(tile)) > pairwise.STEEP[tile.dtype]) and _vanishes(other, x, y)


def root(expr: f.Expr, x: Rows, y: Rows | None, factor: float) -> Array:
    """factor · √u, accurate for near points, and in range for those whose squared distance is not."""
    if y is None:
        return np.asarray(factor * np.sqrt(values(expr, x)))
    match expr:
        case f.Pair(kind="sqdist", unit=unit):
            return pairwise.scaled_distances(x, y, factor / unit)
        case f.Affine(f.Pair(kind="sqdist") as of, scale, shift) if scale > 0 and shift >= 0:
            far = root(of, x, y, factor * math.sqrt(scale))
            return np.hypot(factor * math.sqrt(shift), far) if shift else far
    return np.asarray(factor * np.sqrt(np.maximum(values(expr, x, y), 0.0)))


def _power(expr: f.Pow, x: Rows, y: Rows | None) -> Array:
    broken = expr.whole is None
    p = expr.exponent if broken else int(expr.exponent)
    if broken and isinstance(expr.of, f.Pair) and expr.of.kind == "sqdist":
        return np.power(root(expr.of, x, y, 1.0), 2.0 * p).astype(x.dtype, copy=False)
    base = values(expr.of, x, y)
    if p < 0:
        if not base.max(initial=0.0) < np.inf:  # a heavy tail is more than zero even there
            out = np.power(root(expr.of, x, y, 1.0), 2.0 * p)
            return out.astype(x.dtype, copy=False)
        return np.power(base, float(p), out=base)
    if broken and np.any(base < 0):
        msg = (
            f"{expr} raises a negative number ({base.min():.3g}, for some pair of rows) to a fractional "
            "power, which is not a real number. Use an integer degree."
        )
        raise KernelError(msg)
    return raised(base, p)


def raised(base: Array, p: float) -> Array:
    """base^p for p ≥ 0, in place."""
    if p == 1:
        return base
    with np.errstate(over="ignore"):  # reported later
        if p == 2:
            return np.multiply(base, base, out=base)
        if p == 3:
            return np.multiply(base, base * base, out=base)
        return np.power(base, p, out=base)


def on_columns(on: f.On, x: Rows, y: Rows | None = None) -> tuple[Rows, Rows | None]:
    """Both sides, or one, on the columns that a part of a formula looks at."""
    return picked(x, on.columns), None if y is None else picked(y, on.columns)


# ── length one in feature space ─────────────────────────────────────────────
def _unit(expr: f.Unit, x: Rows, y: Rows | None) -> Array:
    if expr.of == DOT:  # rows scaled to length one: no product of theirs is out of range
        if y is None:
            return (pairwise.lengths(x) > 0).astype(x.dtype)
        return pairwise.dot(length_one(x), length_one(y))
    with np.errstate(over="ignore", invalid="ignore"):
        along_x = inverse_lengths(expr.of, x)
        if y is None:
            along = along_x if _sound(along_x) else scaled(expr.of, x).cosines
            return (along > 0).astype(x.dtype)
        along_y = inverse_lengths(expr.of, y)
        if not (_sound(along_x) and _sound(along_y)):
            return _quotient(expr.of, x, y)
        tile = values(expr.of, x, y)
        tile *= along_x[:, None]
        tile *= along_y[None, :]
    return tile


def inverse_lengths(expr: f.Expr, x: Rows) -> Array:  # (n,)
    """1/√k(x, x), and 0 where that is zero."""
    own = values(expr, x)
    if np.any(own < 0):
        msg = (
            f"{expr} has k(x, x) = {own.min():.3g} < 0 on these data, so it is not a kernel and can't be "
            "normalised. `mercer.check_kernel` shows a witness."
        )
        raise KernelError(msg)
    np.sqrt(own, out=own)
    return np.divide(1.0, own, out=np.zeros_like(own), where=own > 0)


def _sound(inverse: Array) -> bool:
    """Whether no length was zero, infinite, or so short that its square has lost digits."""
    low, high = pairwise.SQUARABLE[inverse.dtype]
    return bool(np.all((inverse > math.sqrt(low)) & (inverse < math.sqrt(high))))


def _quotient(expr: f.Expr, x: Rows, y: Rows) -> Array:
    """Where some k(x, x) is zero or out of range: the lengths of φ(x) are never put into the values."""
    shares = scaled(expr, x, y).cosines
    for own, axis in ((scaled(expr, x).cosines, 1), (scaled(expr, y).cosines, 0)):
        inverse = np.divide(1.0, np.sqrt(own), out=np.zeros_like(own), where=own > 0)
        shares = shares * np.expand_dims(inverse, axis)
    return np.asarray(shares, dtype=x.dtype)


def length_one(x: Rows) -> Rows:
    """Rows over their lengths, whatever these are."""
    with np.errstate(over="ignore"):
        squares = pairwise.squared_norms(x)
    low, high = pairwise.SQUARABLE[x.dtype]
    if not np.all((squares > low) & (squares < high)):  # rows of zeros, too long or too short ones
        return unit_rows(x)[0]
    return divided_rows(x, np.sqrt(squares))


# ── beyond the range of numbers ─────────────────────────────────────────────
# log₂ of the length of φ(x) = 0: below all others, and still a number to calculate with.
NONE = -1e9


@dataclass(frozen=True, repr=False)
class Scaled:
    """k(x_i, y_j) = c_ij 2^(a_i + b_j), where a and b are log₂ of the lengths of φ(x) and φ(y).

    For a kernel c is the cosine of two points in feature space, between -1 and 1 whatever the size of its
    values. Slower and a few digits less exact than plain values, for where these are out of range.
    """

    cosines: Array  # (n, m), or (n,) for k(x_i, x_i)
    left: Array  # (n, 1), or (n,)
    right: Array  # (1, m), or (n,)

    @classmethod
    def of(cls, values: Array, own: Array, other: Array | None = None) -> Scaled:
        """From values in range, and k(x, x) of their rows; `other` is None where values are these."""
        left = right = half_log(own)
        if other is not None:
            left, right = left[:, None], half_log(other)[None, :]
        return cls(_times_two(values, -(left + right)), left, right)

    @classmethod
    def dots(cls, x: Rows, y: Rows | None) -> Scaled:
        """Dot products of rows of any size; of each with itself where y is None."""
        u, left = unit_rows(x)
        if y is None:
            return cls(pairwise.squared_norms(u), left, left)
        v, right = unit_rows(y)
        return cls(pairwise.dot(u, v), left[:, None], right[None, :])

    def values(self) -> Array:
        """The values themselves, infinite where they are beyond the largest number."""
        return _times_two(self.cosines, self.left + self.right)

    def __add__(self, other: Scaled) -> Scaled:
        # log₂ of the lengths of two vectors at a right angle.
        left = 0.5 * np.logaddexp2(2.0 * self.left, 2.0 * other.left)
        right = 0.5 * np.logaddexp2(2.0 * self.right, 2.0 * other.right)
        cosines = _times_two(self.cosines, self.left - left + (self.right - right))
        cosines += _times_two(other.cosines, other.left - left + (other.right - right))
        return Scaled(cosines, left, right)

    def __mul__(self, other: Scaled) -> Scaled:
        left, right = self.left + other.left, self.right + other.right
        return Scaled(self.cosines * other.cosines, left, right)

    def times(self, factor: float) -> Scaled:
        sign = math.copysign(1.0, factor)
        half = 0.5 * math.log2(abs(factor)) if factor else NONE
        return Scaled(self.cosines * sign, self.left + half, self.right + half)

    def plus(self, value: float) -> Scaled:
        ones = Scaled(
            np.ones_like(self.cosines), np.zeros_like(self.left), np.zeros_like(self.right)
        )
        return self + ones.times(value)

    def power(self, exponent: float) -> Scaled:
        return Scaled(np.power(self.cosines, exponent), self.left * exponent, self.right * exponent)


def half_log(values: Array) -> Array:
    """log₂ √v, and 0 where √v is not a length."""
    sound = (values > 0) & (values < np.inf)
    return np.asarray(0.5 * np.log2(np.where(sound, values, 1.0), dtype=np.float64))


def unit_rows(x: Rows) -> tuple[Rows, Array]:  # (n, d) -> (n, d), (n,)
    """Rows of length one, but for those of zeros, and log₂ of their lengths; no square is out of range."""
    rows, powers = pairwise.balanced(x)
    norms = np.sqrt(pairwise.squared_norms(rows))
    zero = norms == 0
    norms[zero] = 1.0
    logs = np.where(zero, NONE, powers + np.log2(norms, dtype=np.float64))
    return divided_rows(rows, norms), logs


def divided_rows(x: Rows, lengths: Array) -> Rows:
    """Each row over its length."""
    if sparse.issparse(x):
        return sparse.csr_array(sparse.diags_array(1.0 / lengths) @ x)
    return x / lengths[:, None]


def _times_two(values: Array, powers: Array) -> Array:  # values · 2^powers, in their dtype
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        whole = np.clip(np.rint(powers), -10_000, 10_000)
        rest = np.exp2(np.clip(powers - whole, -0.5, 0.5))
        scaled = np.ldexp(values * rest, whole.astype(np.int32))
        return np.asarray(scaled, dtype=values.dtype)


def in_range(tile: Array, scaled: Callable[[], Scaled]) -> Array:
    """The tile, or where something in it overflowed the values of `scaled`."""
    # One pass without a temporary. A sum may overflow where no value does: then the second is as good.
    return tile if np.isfinite(np.sum(tile)) else scaled().values()


def scaled(expr: f.Expr, x: Rows, y: Rows | None = None) -> Scaled:  # noqa: PLR0911
    """[k(x_i, y_j)], or [k(x_i, x_i)] without y, also where such values would be out of range."""
    match expr:
        case f.Pair(kind="dot"):
            return Scaled.dots(x, y)
        case f.Affine(of, scale, shift):
            product = scaled(of, x, y).times(scale)
            return product.plus(shift) if shift else product
        case f.Pow(of) if expr.whole is not None and expr.whole > 0:
            return scaled(of, x, y).power(expr.whole)
        case f.Add(left, right):
            return scaled(left, x, y) + scaled(right, x, y)
        case f.Mul(left, right):
            return scaled(left, x, y) * scaled(right, x, y)
        case f.On(of):
            return scaled(of, *on_columns(expr, x, y))
    own = values(expr, x)
    if y is None:
        return Scaled.of(own, own)
    return Scaled.of(values(expr, x, y), own, values(expr, y))
