"""Laws of what columns of a Cholesky factor explain of rows, in rounds of RPCholesky: compiled, or NumPy."""

import tracemalloc

import numpy as np
import pytest
from scipy import sparse

from mercer._core.observer import SILENT
from mercer.approximations.rpcholesky import PivotSearch
from mercer.engine.native import NativeEngine, squares
from mercer.engine.native.bindings import compiled
from mercer.engine.numpy import NumpyEngine
from mercer.engine.passes import pass_bytes
from mercer.engine.steps import ExplainSections
from mercer.kernels import RBF, Cosine, Laplacian, Linear, Matern, Polynomial

ENGINES = {"native": NativeEngine, "numpy": NumpyEngine}
KERNELS = {
    "rbf": RBF(0.3),
    "laplacian": Laplacian(0.2),
    "matern": Matern(1.5, 2.0),
    "cosine": Cosine(),
    "sum": RBF(0.2) + Polynomial(2, gamma=0.3),
    "product on columns": RBF(0.2).on([0, 2]) * Linear().on([1]),
}
# Rows, landmarks, columns of W and of the rows: one of each, and not a multiple of anything.
SHAPES = [
    (1, 1, 1, 1),
    (3, 2, 1, 1),
    (95, 24, 24, 3),
    (97, 25, 7, 3),
    (193, 49, 48, 5),
    (700, 130, 130, 4),
    (1300, 101, 30, 4),
]
needs_library = pytest.mark.skipif(compiled() is None, reason="not compiled")


@pytest.fixture(params=sorted(ENGINES))
def engine(request):
    return ENGINES[request.param](2)


@pytest.fixture(params=["float32", "float64"])
def dtype(request):
    return request.param


@pytest.fixture(autouse=True)
def several_blocks(monkeypatch):
    monkeypatch.setattr(squares, "RUN_ROWS", 500)


def triangle(m, a, dtype, rng):
    """The last columns of an upper triangle."""
    return np.triu(rng.standard_normal((m, m)))[:, m - a :].astype(dtype)


def explained(engine, kernel, x, z, w, *, weights=None):
    found = engine.fold(x, ExplainSections(kernel, z, w, weights, engine), width=len(w))
    return np.concatenate(found.rows), found.energies


def exact(kernel, x, z, w):
    """F = k(X, Z) W with three more digits, and how far rounding may move its entries.

    Kernel values are off by a few units of √k(x, x)√k(z, z), and a sum of m products by as many units of the
    sum of their sizes.
    """
    unit = float(np.finfo(w.dtype).eps)
    x, z = x.astype(np.float64), z.astype(np.float64)
    c, w = kernel(x, z).astype(np.longdouble), w.astype(np.longdouble)
    sizes = np.sqrt(np.outer(kernel.diag(x), kernel.diag(z)))
    return c @ w, unit * (16.0 * sizes + len(z) * np.abs(c)) @ np.abs(w)


def holds(found, kernel, x, z, w, *, weights=None):
    rows, energies = found
    f, off = exact(kernel, x, z, w)
    unit = float(np.finfo(w.dtype).eps)
    moved = 2.0 * np.abs(f) * off + off**2  # of squares, whose sums round too
    moved += unit * (len(x) + w.shape[1]) * f**2
    each = np.ones(len(x)) if weights is None else weights
    assert rows.shape == (len(x),)
    assert energies.shape == (w.shape[1],)
    assert np.all(np.abs(rows - (f**2).sum(axis=1)) <= moved.sum(axis=1))
    assert np.all(np.abs(energies - each @ f**2) <= each @ moved)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_squares_are_right_to_rounding(shape, weighted, dtype, engine, rng):
    n, m, a, d = shape
    x = rng.standard_normal((n, d)).astype(dtype)
    z, w = x[rng.integers(0, n, m)] + x.dtype.type(0.1), triangle(m, a, dtype, rng)
    weights = rng.random(n) if weighted else None
    found = explained(engine, RBF(0.3), x, z, w, weights=weights)
    holds(found, RBF(0.3), x, z, w, weights=weights)


@pytest.mark.parametrize("name", sorted(KERNELS))
def test_of_every_kind_of_kernel(name, dtype, engine, rng):
    kernel, x = KERNELS[name], rng.standard_normal((600, 3)).astype(dtype)
    z, w = x[:70], triangle(70, 40, dtype, rng)
    holds(explained(engine, kernel, x, z, w), kernel, x, z, w)


@needs_library
def test_no_bit_depends_on_the_number_of_threads(dtype, rng):
    x = rng.standard_normal((1700, 5)).astype(dtype)
    weights, w = rng.random(1700), triangle(130, 90, dtype, rng)
    one = explained(NativeEngine(1), RBF(0.2), x, x[:130], w, weights=weights)
    for n_threads in (2, 3, 16):
        other = explained(NativeEngine(n_threads), RBF(0.2), x, x[:130], w, weights=weights)
        np.testing.assert_array_equal(one[0], other[0])
        np.testing.assert_array_equal(one[1], other[1])


@needs_library
def test_rows_are_explained_by_the_library(monkeypatch, rng):
    """And not by NumPy, in silence."""
    monkeypatch.setattr(NumpyEngine, "fold", None)
    x = rng.standard_normal((300, 3))
    rows, _ = explained(NativeEngine(2), RBF(0.2) + Polynomial(2), x, x[:10], np.eye(10))
    assert len(rows) == 300


LAYOUTS = {
    "Fortran": np.asfortranarray,
    "every other row": lambda x: np.repeat(x, 2, axis=0)[::2],
    "backwards": lambda x: x[::-1].copy()[::-1],
    "a part of wider rows": lambda x: np.hstack([x, x])[:, : x.shape[1]],
}


@pytest.mark.parametrize("layout", sorted(LAYOUTS))
def test_rows_may_lie_in_any_order(layout, engine, rng):
    x, w = rng.standard_normal((600, 3)), triangle(20, 20, "float64", rng)
    usual = explained(engine, RBF(0.2), x, x[:20], w)
    found = explained(engine, RBF(0.2), LAYOUTS[layout](x), x[:20], w)
    for one, other in zip(usual, found, strict=True):
        np.testing.assert_allclose(other, one, rtol=1e-10)


HOSTS = {
    "tiny numbers": lambda x: (RBF(0.2e200), 1e-100 * x),
    "huge numbers": lambda x: (RBF(0.2e-200), 1e100 * x),
    "sparse rows": lambda x: (RBF(0.2), sparse.csr_matrix(x)),
    "no compiled form": lambda x: (Matern(0.7, 2.0), x),
}


@pytest.mark.parametrize("case", sorted(HOSTS))
def test_what_has_no_compiled_tiles_is_left_to_numpy(case, rng):
    kernel, x = HOSTS[case](rng.standard_normal((900, 2)))
    w = triangle(7, 5, "float64", rng)
    found, host = (explained(each(1), kernel, x, x[:7], w) for each in (NativeEngine, NumpyEngine))
    np.testing.assert_array_equal(found[0], host[0])
    np.testing.assert_array_equal(found[1], host[1])


def test_rows_of_no_weight_have_no_energy(engine, rng):
    x, w, weights = rng.standard_normal((1600, 3)), triangle(30, 30, "float64", rng), np.ones(1600)
    weights[:600] = weights[700:900] = 0.0  # a whole block, and parts of others
    rows, energies = explained(engine, RBF(0.2), x, x[:30], w, weights=weights)
    kept, same = explained(engine, RBF(0.2), x[weights > 0], x[:30], w)
    np.testing.assert_allclose(rows[weights > 0], kept, rtol=1e-12)
    np.testing.assert_allclose(energies, same, rtol=1e-12)


def test_what_is_left_of_a_row_is_its_distance_from_the_span(engine, rng):
    """k(x, x) - k(x, Z) k(Z, Z)⁻¹ k(Z, x), after several rounds of pivots."""
    x, kernel = rng.standard_normal((800, 4)), RBF(0.4)
    search = PivotSearch(kernel, x, None, engine)
    for _ in range(3):
        search.draw(12, rng=rng)
        search.update(observer=SILENT)
    z = x[search.landmarks]
    c, core = kernel(x, z), kernel(z, z)
    left = 1.0 - np.einsum("ij,ji->i", c, np.linalg.solve(core, c.T))
    room = 64.0 * len(z) * np.linalg.cond(core) * np.finfo(np.float64).eps
    np.testing.assert_allclose(search.left, np.maximum(left, 0.0), rtol=0, atol=room)
    assert search.rank == 36


@needs_library
@pytest.mark.parametrize("n_threads", [1, 2, 16])
@pytest.mark.parametrize("shape", [(5000, 20, 60), (6000, 8, 300)], ids=str)
def test_a_round_takes_no_more_than_is_planned_for_a_pass(
    shape, n_threads, dtype, monkeypatch, rng
):
    monkeypatch.undo()  # blocks as large as they are
    n, d, m = shape
    x, engine = rng.standard_normal((n, d)).astype(dtype), NativeEngine(n_threads)
    step = ExplainSections(RBF(0.1), x[:m], triangle(m, m, dtype, rng), None, engine)
    tracemalloc.start()
    engine.fold(x, step, width=m)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak <= pass_bytes(n, d, m, x.itemsize)
