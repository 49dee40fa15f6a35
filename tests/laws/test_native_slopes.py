"""Slopes by compiled tiles, held against the host's derivatives, central differences and mpmath."""

import pickle
import signal
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import mpmath
import numpy as np
import pytest
from scipy import sparse
from scipy.spatial.distance import cdist

from markets.kernels import HISTOGRAM, INDEFINITE, VALID
from mercer import KernelPCA
from mercer.engine.formula import Affine, Exp, Pair, Pow
from mercer.engine.native import NativeEngine, compiled
from mercer.engine.native import slopes as native_slopes
from mercer.engine.steps import AxisSlopes, FixedPoints, SlopeSums
from mercer.kernels import RBF, Chi2, Laplacian, Linear, Matern, Polynomial, RationalQuadratic
from mercer.kernels.base import Kernel
from mercer.model.space import _axis_slopes, _slope_sums
from mercer.preimage import FixedPoint, Gradient
from mercer.preimage.search import _fixed_points

pytestmark = pytest.mark.skipif(compiled() is None, reason="no compiler when mercer was installed")


class Powered(Kernel):
    """e^-‖x - x'‖^2p, whose derivative in ‖x - x'‖² has no end at a distance of 0."""

    proof = "it is a positive mixture of Gaussians"

    def __init__(self, p=0.5):
        self.p = p

    def formula(self):
        return Exp(Affine(Pow(Pair("sqdist"), self.p), -1.0))


RADIAL = {
    "rbf": RBF(0.3),
    "matern-1/2": Matern(0.5, 2.0),
    "matern-3/2": Matern(1.5, 1.3),
    "matern-9/2": Matern(4.5, 1.3),
    "rational": RationalQuadratic(0.7, 1.1),
    "sum": RBF(0.2) + 0.5 * Matern(2.5, 1.0),
    "product": RBF(0.1) * RationalQuadratic(1.0, 2.0) + 0.3,
    "square": RBF(0.1) ** 2,
    "kinked": Powered(0.75),
    "kinked root": Powered(0.5),
}
MARKET = VALID | INDEFINITE | HISTOGRAM
COMPILED = {name: k for name, k in MARKET.items() if NativeEngine(1).facts().runs(k) is None}
KERNELS = COMPILED | {
    "columns twice": RBF(0.3).on([0, 0, 2]) * Linear().on([-1]),
    "mask": (RBF(0.3) + Polynomial(2)).on([True, False, True, True]),
    "normalised sum": (RBF(0.3) + Polynomial(3)).normalised() * Laplacian(0.1),
    "normalised columns": (RBF(0.5).on([0, 2]) + Polynomial(2).on([1, 3])).normalised(),
    "normalised twice": (Polynomial(2).normalised() + Linear()).normalised(),
    "counts": Chi2(0.5).on([0, 1]) + Laplacian(0.2).on([2, 3]),
    **{f"radial {name}": kernel for name, kernel in RADIAL.items()},
}
DTYPES = {"float64": np.float64, "float32": np.float32}


def step_of(kind, kernel, rng, shape=(90, 150), *, d=4, far=0.0, dtype=np.float64, **own):
    """A step against some points, rows (some at points, or all but there) and targets."""
    (b, m), k = shape, 3
    x, z = (rng.standard_normal((n, d)).astype(dtype) + dtype(far) for n in shape)
    if kernel.positive_only:
        x, z = np.abs(x), np.abs(z)
    same = min(3, b, m)
    x[:same] = z[:same]
    x[same : 2 * same] = z[:same][: len(x[same : 2 * same])] * dtype(1 + 1e-6)
    host = _fixed_points if kind is FixedPoints else _slope_sums
    coef, mean = rng.standard_normal((m, k)).astype(dtype), rng.random(m).astype(dtype)
    return kind(kernel, z, coef, mean, host, **own), x, rng.standard_normal((b, k)).astype(dtype)


def by_tiles(step, x, *t, n_threads=2, dtype=None):
    """What compiled tiles make of it, and nothing else: the host is not asked."""
    found = native_slopes.pulled(
        NativeEngine(n_threads), step, x, *t, dtype=dtype, n_threads=n_threads
    )
    assert found is not None
    return found


def size_of(step, x, t):  # -> (b,)
    """Σ_j |γ_ij| (‖∂k(x_i, z_j)/∂x_i‖ + 10) for each row: sums are off by units of it.

    Slopes in distances are p(x - z), and sums of p x and of p z are made apart: by as much more are these
    off as x and z are longer than their difference.
    """
    weights = np.abs(t @ step.coef.T + (0.0 if step.mean is None else step.mean))
    z, one = step.points.astype(np.float64), np.ones((len(x), 1))
    slopes = [step.kernel.tile_slope(x, z[j : j + 1], one) for j in range(len(z))]
    sizes = np.linalg.norm(slopes, axis=2).T  # (b, m)
    if step.kernel.tree().has("sqdist"):
        reach = np.linalg.norm(x, axis=1)[:, None] + np.linalg.norm(z, axis=1)
        gaps = cdist(x, z)
        sizes = sizes * (1.0 + reach / np.where(gaps > 0, gaps, np.inf))
    return np.einsum("ij,ij->i", weights, sizes + 10.0)


SHAPES = [(1, 1), (1, 40), (40, 1), (25, 23), (193, 24), (95, 401)]


@pytest.mark.parametrize("name", sorted(KERNELS))
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_slopes_are_those_of_numpy(name, shape, rng):
    """Rounding of a term, of a formula of a few steps, is a few hundred units of what it is made of."""
    step, x, t = step_of(SlopeSums, KERNELS[name], rng, shape)
    for own in (step, replace(step, mean=None)):
        found, expected = by_tiles(own, x, t), own(x, t)
        assert found.dtype == expected.dtype
        room = 300 * np.finfo(np.float64).eps * size_of(own, x, t)
        assert np.all(np.abs(found - expected) <= room[:, None])
        assert np.all(np.isfinite(found))


@pytest.mark.parametrize("name", sorted(KERNELS))
@pytest.mark.parametrize("rows_in", sorted(DTYPES))
def test_slopes_are_those_of_numpy_in_either_precision(name, rows_in, rng):
    """Of float32 rows in float64, and all in float32: off by units of that, but for near pairs at a kink."""
    kernel, dtype = KERNELS[name], DTYPES[rows_in]
    step, x, t = step_of(SlopeSums, kernel, rng, (50, 130), dtype=dtype)
    wide = replace(
        step,
        points=step.points.astype(np.float64),
        coef=step.coef.astype(np.float64),
        mean=step.mean.astype(np.float64),
    )
    x = x[6:]  # not those at points: a kink there is as wide as float32 is coarse
    t = t[6:]
    exact = wide(x.astype(np.float64), t.astype(np.float64))
    units = size_of(wide, x.astype(np.float64), t)
    for dtype_of_sums in {np.float64, dtype}:
        own = wide if dtype_of_sums == np.float64 else step
        found = by_tiles(own, x, t.astype(dtype_of_sums), dtype=dtype_of_sums)
        assert found.dtype == dtype_of_sums
        room = 300 * np.finfo(dtype_of_sums).eps * units
        assert np.all(np.abs(found - exact) <= room[:, None])


@pytest.mark.parametrize("name", ["rbf", "laplacian", "normalised", "columns"])
def test_slopes_of_each_axis_are_sums_towards_it(name, rng, monkeypatch):
    monkeypatch.setattr(native_slopes, "BLOCK", 24)  # runs of eight rows, or one
    monkeypatch.setattr(native_slopes, "MOST_ROWS", 24)
    step, x, t = step_of(SlopeSums, KERNELS[name], rng)
    step = replace(step, mean=None)
    host = {"kernel": step.kernel, "points": step.points, "coef": step.coef, "mean": None}
    axes = AxisSlopes(**host, host=_axis_slopes)
    found = by_tiles(axes, x)
    np.testing.assert_allclose(found, axes(x), atol=1e-11 * np.abs(found).max())
    np.testing.assert_allclose(
        np.einsum("bk,bkd->bd", t, found), step(x, t), atol=1e-11 * np.abs(found).max()
    )


@pytest.mark.parametrize("name", sorted(COMPILED))
def test_slopes_are_central_differences(name, rng):
    kernel, h = COMPILED[name], 1e-6
    step, x, t = step_of(SlopeSums, kernel, rng, (20, 60))
    x, t = np.abs(x[6:]) + 0.1, t[6:]  # no kinks, and counts
    weights = t @ step.coef.T + step.mean
    found = by_tiles(step, x, t)
    for j in range(x.shape[1]):
        move = h * np.eye(x.shape[1])[j]
        up, down = (kernel.tile(x + s * move, step.points) for s in (1.0, -1.0))
        expected = np.einsum("ij,ij->i", weights, up - down) / (2.0 * h)
        np.testing.assert_allclose(found[:, j], expected, atol=1e-6 * np.abs(found).max())


@pytest.mark.parametrize("nu", [0.5, 1.5, 2.5, 4.5, 7.5])
@pytest.mark.parametrize("gap", [1e-5, 0.3, 2.0, 25.0])
def test_slopes_of_matern_kernels_are_exact(nu, gap):
    """Near, where polynomials cancel, and far, where they decay: against mpmath's own Bessel functions."""
    points, coef = np.array([[0.0], [0.0], [1.0]]), np.array([[1.0], [0.0], [0.0]])
    step = SlopeSums(Matern(nu, 1.0), points, coef, None, _slope_sums)
    found = by_tiles(step, np.array([[gap]]), np.ones((1, 1)))[0, 0]
    with mpmath.workprec(300):

        def matern(r):
            s = mpmath.sqrt(2 * nu) * r
            return 2 ** (1 - mpmath.mpf(nu)) / mpmath.gamma(nu) * s**nu * mpmath.besselk(nu, s)

        exact = float(mpmath.diff(matern, mpmath.mpf(gap)))
    assert abs(found - exact) <= 1e-13 * abs(exact)


@pytest.mark.parametrize("far", [0.0, 20.0, 2.0**20], ids=["near", "away", "far"])
@pytest.mark.parametrize("name", sorted(RADIAL))
def test_fixed_points_are_those_of_numpy(name, far, rng):
    step, x, t = step_of(FixedPoints, RADIAL[name], rng, far=far, share=0.05)
    found, expected = by_tiles(step, x, t), step(x, t)
    sound = expected[:, -1] == 1.0
    assert 0 < sound.sum() < len(x)  # both kinds are there
    np.testing.assert_array_equal(found[:, -1], expected[:, -1])
    # A quotient whose denominator is a twentieth of its terms or more.
    np.testing.assert_allclose(found[sound], expected[sound], rtol=1e-8)


LAYOUTS = {
    "fortran": np.asfortranarray,
    "reversed": lambda x: x[::-1, ::-1],
    "strided": lambda x: np.repeat(x, 2, axis=1)[:, ::2],
    "unaligned": lambda x: (
        np.frombuffer(b"\0" + x.tobytes(), dtype=np.uint8)[1:].view(x.dtype).reshape(x.shape)
    ),
    "read-only": lambda x: np.frombuffer(x.tobytes(), dtype=x.dtype).reshape(x.shape),
}


@pytest.mark.parametrize("layout", sorted(LAYOUTS))
@pytest.mark.parametrize("kernel", [RBF(0.1), Laplacian(0.1)], ids=repr)
def test_rows_may_lie_in_any_order(layout, kernel, rng):
    step, x, t = step_of(SlopeSums, kernel, rng, (211, 100), d=7)
    x, z = LAYOUTS[layout](x), LAYOUTS[layout](step.points)
    plain = replace(step, points=np.ascontiguousarray(z))
    expected = by_tiles(plain, np.ascontiguousarray(x), t)
    np.testing.assert_array_equal(by_tiles(replace(step, points=z), x, t), expected)


@pytest.mark.parametrize("name", ["rbf", "laplacian", "chi2", "normalised", "columns"])
@pytest.mark.parametrize("shape", [(30, 9000), (700, 5000)], ids=str)
def test_no_bit_depends_on_the_number_of_threads(name, shape, rng, monkeypatch):
    monkeypatch.setattr(native_slopes, "MOST_ROWS", 500)  # runs of rows
    step, x, t = step_of(SlopeSums, KERNELS[name], rng, shape)
    first = by_tiles(step, x, t, n_threads=1)
    for n_threads in (2, 3, 7, 7):
        np.testing.assert_array_equal(by_tiles(step, x, t, n_threads=n_threads), first)


def test_fixed_points_depend_on_no_number_of_threads(rng):
    step, x, t = step_of(FixedPoints, RBF(0.3), rng, (200, 9000), share=0.05)
    first = by_tiles(step, x, t, n_threads=1)
    for n_threads in (2, 5):
        np.testing.assert_array_equal(by_tiles(step, x, t, n_threads=n_threads), first)


@pytest.mark.parametrize("name", ["matern", "huge", "sparse", "overflow"])
def test_what_has_no_compiled_form_is_the_hosts(name, rng):
    kernel = {"matern": Matern(0.8, 1.0), "overflow": Polynomial(300, gamma=1.0)}.get(
        name, RBF(0.3)
    )
    step, x, t = step_of(SlopeSums, kernel, rng)
    if name == "huge":
        x = 1e200 * x
    if name == "overflow":
        x = 100.0 * x
    if name == "sparse":
        x = sparse.csr_array(x)
    assert native_slopes.pulled(NativeEngine(1), step, x, t, dtype=None, n_threads=1) is None
    with np.errstate(over="ignore", invalid="ignore"):
        found, expected = NativeEngine(1).map(x, step, t, dtype=np.float64), step(x, t)
    np.testing.assert_allclose(found, expected, rtol=1e-12, equal_nan=True)


def test_points_are_forgotten_with_their_search(rng):
    before = len(native_slopes._PACKED)
    step, x, t = step_of(SlopeSums, RBF(0.2), rng)
    by_tiles(step, x, t)
    assert len(native_slopes._PACKED) == before + 1
    del step
    assert len(native_slopes._PACKED) == before


@pytest.mark.parametrize("method", [FixedPoint(), Gradient()], ids=repr)
@pytest.mark.parametrize("kernel", [RBF(0.3), Matern(2.5, 1.5)], ids=repr)
def test_searches_end_where_those_of_numpy_do(method, kernel, rng):
    """Not bit for bit: steps are stopped where they are shorter than the tolerance."""
    x = rng.standard_normal((200, 3)) / [1.0, 2.0, 3.0]
    given = {"kernel": kernel, "preimage": method, "random_state": 0}
    model, other = (KernelPCA(8, engine=e, **given).fit(x) for e in ("numpy", "native"))
    scores = model.transform(x[:30])
    own = other.transform(x[:30])
    np.testing.assert_allclose(own, scores, atol=1e-8)
    missed = np.abs(other.inverse_transform(own) - model.inverse_transform(scores)).max(axis=1)
    assert np.mean(missed <= 1e-4 * np.abs(x).max()) >= 0.95
    np.testing.assert_array_equal(other.inverse_transform(own), other.inverse_transform(own))


@pytest.mark.parametrize("kernel", [RBF(1e-3), Laplacian(1e-3)], ids=repr)
def test_ctrl_c_ends_a_pass(kernel, rng):
    """A pass of many seconds, interrupted: it ends by the signal, not by its end."""
    if not hasattr(signal, "pthread_kill"):
        pytest.skip("no such signal here")
    step, x, t = step_of(SlopeSums, kernel, rng, (30_000, 30_000), d=20)
    main, stopped = threading.get_ident(), []

    def stop():
        stopped.append(time.monotonic())
        signal.pthread_kill(main, signal.SIGINT)

    threading.Timer(0.5, stop).start()
    with pytest.raises(KeyboardInterrupt):
        by_tiles(step, x, t, n_threads=1)
    assert stopped


def test_the_first_slopes_of_a_model_are_the_same_on_every_thread(rng):
    """Packed points are there whole or not at all: no thread falls back to the host meanwhile."""
    x = rng.standard_normal((1500, 6))
    model = KernelPCA(4, kernel=RBF(0.1), preimage="gradient", random_state=0).fit(x)
    scores, stored = model.transform(x[:6]), pickle.dumps(model)
    expected = pickle.loads(stored).inverse_transform(scores)
    for _ in range(5):
        fresh, begin = pickle.loads(stored), threading.Barrier(4)

        def asked(_, fresh=fresh, begin=begin):
            begin.wait()
            return fresh.inverse_transform(scores)

        with ThreadPoolExecutor(4) as pool:
            for found in pool.map(asked, range(4)):
                np.testing.assert_array_equal(found, expected)
