"""Laws of squares of sections, the sums of a low-rank fit: by compiled products, and by NumPy."""

from functools import partial

import numpy as np
import pytest

from mercer._core.errors import KernelError
from mercer.approximations.landmarks import checked_lengths, core_matrix, whitening
from mercer.engine.native import NativeEngine
from mercer.engine.native import passes as native_passes
from mercer.engine.native import squares as native_squares
from mercer.engine.native.bindings import compiled
from mercer.engine.numpy import NumpyEngine
from mercer.engine.steps import SquareSections
from mercer.kernels import RBF, Linear, Polynomial

ENGINES = {"native": NativeEngine, "numpy": NumpyEngine}
EPS = float(np.finfo(np.float64).eps)
# Precisions of the sections, and of their squares.
PRECISIONS = {
    "float64": ("float64",) * 2,
    "float32": ("float32",) * 2,
    "mixed": ("float32", "float64"),
}
# Rows, landmarks and columns: one of each, and not a multiple of anything.
SHAPES = [(1, 1, 1), (3, 2, 1), (95, 24, 3), (97, 25, 3), (700, 49, 5), (1300, 101, 4)]


@pytest.fixture(params=sorted(ENGINES))
def engine(request):
    return ENGINES[request.param](2)


@pytest.fixture(autouse=True)
def several_blocks(monkeypatch):
    monkeypatch.setattr(native_squares, "MOST_ROWS", 500)
    monkeypatch.setattr(native_squares, "LEAST_ROWS", 1)
    monkeypatch.setattr(native_squares, "RUN_ROWS", 900)


def squared(engine, kernel, x, z, *, precisions="float64", weights=None):
    dtype, squared_in = (np.dtype(each) for each in PRECISIONS[precisions])
    lengths = partial(checked_lengths, kernel)
    step = SquareSections(kernel, z, dtype, squared_in, weights, lengths, engine)
    return engine.fold(x, step, width=len(z))


def exact(kernel, x, z, weights=None):
    """Σw, mean and scatter of k(x, Z), sums with three more digits; and the lengths Σw(c - mean)²."""
    c = kernel(x.astype(np.float64), z.astype(np.float64)).astype(np.longdouble)
    w = np.ones(len(x)) if weights is None else weights
    mean = w @ c / w.sum()
    centred = np.sqrt(w)[:, None] * (c - mean)
    scatter = centred.T @ centred
    return mean, scatter, np.sqrt(np.diagonal(scatter))


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("precisions", sorted(PRECISIONS))
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_moments_are_right_to_rounding(shape, precisions, weighted, engine, rng):
    n, m, d = shape
    x = rng.standard_normal((n, d)).astype(PRECISIONS[precisions][0])
    z, kernel = x[rng.integers(0, n, m)] + x.dtype.type(0.1), RBF(0.3)
    weights = rng.random(n) + 0.1 if weighted else None
    found = squared(engine, kernel, x, z, precisions=precisions, weights=weights)
    mean, scatter, lengths = exact(kernel, x, z, weights)
    total = n if weights is None else weights.sum()
    unit = float(np.finfo(x.dtype).eps)
    assert found.moments.weight == pytest.approx(total, rel=1e-14)
    assert found.trace == pytest.approx(total, rel=1e-13)  # k(x, x) = 1
    assert np.max(np.abs(found.moments.mean - mean)) <= 8.0 * unit
    # Kernel values of up to 1 are off by a few units, each: √Σw of them in a column, times its length.
    room = 8.0 * unit * np.sqrt(total) * (lengths + lengths[:, None]) + 64.0 * unit**2 * total
    assert np.all(np.abs(found.moments.scatter - scatter) <= room)
    # Some BLAS round the last columns of an outer product once and the others twice.
    gap = np.abs(found.moments.scatter - found.moments.scatter.T)
    assert np.all(gap <= 8.0 * EPS * lengths * lengths[:, None])


def test_float64_squares_of_float32_sections_lose_nothing_more(engine, rng):
    """Products of small whole numbers are float32 numbers; their squares are right to float64's rounding."""
    x = rng.integers(-9, 10, (1300, 4)).astype(np.float32)
    z = x[:30]
    _, scatter, lengths = exact(Linear(), x, z)
    found = squared(engine, Linear(), x, z, precisions="mixed").moments.scatter
    assert np.all(np.abs(found - scatter) <= 64.0 * EPS * lengths * lengths[:, None])


def test_rows_that_are_all_alike_have_no_variance(engine):
    x = np.full((1100, 3), 0.7)
    z = np.array([[0.1, 0.2, 0.3], [2.0, 0.0, -1.0]])
    found = squared(engine, RBF(0.3), x, z).moments
    # Compiled tiles round all rows alike. A BLAS may round the last rows of a block another way, by a unit or
    # two of values that are at most one: squares of those.
    unit = 0.0 if isinstance(engine, NativeEngine) else 4.0 * EPS
    assert np.all(np.abs(found.scatter) <= len(x) * unit**2)
    np.testing.assert_allclose(found.mean, RBF(0.3)(x[:1], z)[0], rtol=4 * EPS)


@pytest.mark.parametrize("far", [1e3, 1e6])
def test_nothing_cancels_however_far_from_zero_sections_lie(far, engine, rng):
    """A plain Σccᵀ less its mean would be off by eps·far²; here what each value is rounded to counts."""
    x = np.sort(far + rng.standard_normal((1200, 1)), axis=0)  # blocks have means far apart
    z = np.array([[1.0], [2.0]])
    found = squared(engine, Linear(), x, z).moments
    _, scatter, lengths = exact(Linear(), x, z)
    room = 16.0 * EPS * far * np.sqrt(len(x)) * (lengths + lengths[:, None])
    assert np.all(np.abs(found.scatter - scatter) <= room)


def test_one_row_may_weigh_more_than_all_others(engine, rng):
    x, weights = rng.standard_normal((1200, 2)), np.ones(1200)
    weights[777] = 1e12
    z = x[:20]
    found = squared(engine, RBF(0.3), x, z, weights=weights).moments
    _, scatter, lengths = exact(RBF(0.3), x, z, weights)
    assert np.all(np.abs(found.scatter - scatter) <= 1e-8 * lengths * lengths[:, None])


def test_rows_of_no_weight_count_for_nothing(engine, rng):
    x, z = rng.standard_normal((1600, 3)), rng.standard_normal((30, 3))
    weights = np.ones(1600)
    weights[:600] = weights[700:900] = 0.0  # a whole block, and parts of others
    found = squared(engine, RBF(0.2), x, z, weights=weights)
    kept = squared(engine, RBF(0.2), x[weights > 0], z)
    assert found.trace == kept.trace
    np.testing.assert_allclose(found.moments.mean, kept.moments.mean, rtol=1e-13)
    np.testing.assert_allclose(found.moments.scatter, kept.moments.scatter, rtol=0, atol=1e-11)


@pytest.mark.skipif(compiled() is None, reason="not compiled")
@pytest.mark.parametrize("precisions", sorted(PRECISIONS))
def test_no_bit_depends_on_the_number_of_threads(precisions, monkeypatch, rng):
    x = rng.standard_normal((1700, 5)).astype(PRECISIONS[precisions][0])
    weights = rng.random(1700)
    one = squared(
        NativeEngine(1), RBF(0.2), x, x[:130], precisions=precisions, weights=weights
    ).moments
    for n_threads in (2, 3, 16):
        other = squared(
            NativeEngine(n_threads), RBF(0.2), x, x[:130], precisions=precisions, weights=weights
        ).moments
        np.testing.assert_array_equal(one.scatter, other.scatter)
        np.testing.assert_array_equal(one.mean, other.mean)
    monkeypatch.setattr(native_squares, "GROUP", 1)
    other = squared(
        NativeEngine(2), RBF(0.2), x, x[:130], precisions=precisions, weights=weights
    ).moments
    np.testing.assert_array_equal(one.scatter, other.scatter)


@pytest.mark.skipif(compiled() is None, reason="not compiled")
def test_rows_are_squared_by_the_library(monkeypatch, rng):
    """And not by NumPy, in silence."""
    monkeypatch.setattr(NumpyEngine, "fold", None)
    x = rng.standard_normal((300, 3))
    assert squared(NativeEngine(2), RBF(0.2) + Polynomial(2), x, x[:10]).moments.weight == 300


LAYOUTS = {
    "Fortran": np.asfortranarray,
    "every other row": lambda x: np.repeat(x, 2, axis=0)[::2],
    "backwards": lambda x: x[::-1].copy()[::-1],
    "a part of wider rows": lambda x: np.hstack([x, x])[:, : x.shape[1]],
}


@pytest.mark.parametrize("layout", sorted(LAYOUTS))
def test_rows_may_lie_in_any_order(layout, engine, rng):
    x = rng.standard_normal((600, 3))
    usual = squared(engine, RBF(0.2), x, x[:20]).moments.scatter
    found = squared(engine, RBF(0.2), LAYOUTS[layout](x), x[:20]).moments.scatter
    np.testing.assert_allclose(found, usual, rtol=0, atol=1e-12)


@pytest.mark.parametrize("size", [1e-100, 1e100])
def test_numbers_beyond_squares_are_left_to_numpy(size, rng):
    x, kernel = size * rng.standard_normal((900, 2)), RBF(0.2 / size / size)
    found, host = (squared(each(1), kernel, x, x[:7]) for each in (NativeEngine, NumpyEngine))
    np.testing.assert_array_equal(found.moments.scatter, host.moments.scatter)


def test_lengths_that_are_none_are_told(engine):
    x = np.array([[-2.0], [1.0]])
    with pytest.raises(KernelError, match="not positive semi-definite"):
        squared(engine, Polynomial(1, coef0=-2.0), x, x)


# ── W ───────────────────────────────────────────────────────────────────────
@pytest.mark.parametrize("gamma", [1.0, 0.2, 0.05, 1e-3])
def test_whitening_inverts_the_core(gamma, rng):
    """WᵀKW = I: by the Cholesky factor of a core that is far from singular, and else by its eigenvectors."""
    z = rng.standard_normal((60, 6))
    core = core_matrix(RBF(gamma), z) * np.outer(s := 10.0 ** rng.uniform(-3, 3, 60), s)
    whiten = whitening(core, EPS)
    assert whiten.shape[1] == 60 or gamma < 0.05
    reach = np.diagonal(core) @ whiten**2  # how far W amplifies the rounding of the core
    gap = np.abs(whiten.T @ core @ whiten - np.eye(whiten.shape[1]))
    assert np.all(gap <= 4.0 * EPS * np.sqrt(60) * np.sqrt(reach * reach[:, None]))


def test_whitening_cuts_what_is_rounding_and_nothing_else(rng):
    """The same directions whichever way they are found: all above the cut, none below."""
    for gamma, unit in ((0.2, EPS), (1e-2, EPS), (0.2, 1e-7), (1e-2, 1e-7), (1e-3, 1e-7)):
        z = rng.standard_normal((50, 4))
        core = core_matrix(RBF(gamma), z)
        values = np.linalg.eigvalsh(core)
        cut = max(10.0 * unit * np.sqrt(50), 50 * EPS * values[-1])
        assert whitening(core, unit).shape[1] == np.sum(values > cut)


# ── memory between products ─────────────────────────────────────────────────
@pytest.mark.skipif(compiled() is None, reason="not compiled")
@pytest.mark.parametrize("most", [0, 2**23])
def test_memory_that_is_used_again_changes_no_bit_and_is_given_back_where_it_is_large(
    most, monkeypatch, rng
):
    x, engine, kernel = rng.standard_normal((500, 3)), NativeEngine(2), RBF(0.2)
    usual = engine.gram_times(kernel, engine.load(x, kernel, x.dtype, width=192), x)
    monkeypatch.setattr(native_passes, "ROOM_BYTES", most)
    rows = engine.load(x, kernel, x.dtype, width=192)
    for _ in range(2):
        np.testing.assert_array_equal(engine.gram_times(kernel, rows, x), usual)
    held = room_bytes(rows)
    assert (held == 0) == (most == 0)


def room_bytes(rows):
    """Bytes of the rooms that these rows hold on to."""
    return sum(each.nbytes for each in rows._rooms.values())
