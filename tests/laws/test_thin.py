"""Laws of products with thin matrices: right to rounding, however numbers lie, on any number of threads."""

import numpy as np
import pytest

from mercer.engine import thin
from mercer.engine.native import bindings, compiled, matrices
from mercer.operators.gram import StoredGram

DTYPES = {"float64": np.float64, "float32": np.float32}
# (n, v, w): one number, nothing at all, whole vectors, none whole, longer than a part of a sum.
SHAPES = [
    (1, 1, 1),
    (3, 0, 2),
    (0, 3, 2),
    (3, 2, 0),
    (7, 3, 5),
    (49, 130, 8),
    (100, 16, 16),
    (513, 60, 33),
    (60, 513, 17),
    (700, 40, 28),
    (2500, 7, 40),
    (2500, 513, 3),
]


def unaligned(x):
    room = np.zeros(x.nbytes + 1, dtype=np.uint8)
    moved = room[1:].view(x.dtype).reshape(x.shape)
    moved[:] = x
    return moved


LAYOUTS = {
    "rows": np.ascontiguousarray,
    "columns": np.asfortranarray,
    "backwards": lambda x: np.ascontiguousarray(x[::-1])[::-1],
    "every other row": lambda x: np.repeat(x, 2, axis=0)[::2],
    "every other column": lambda x: np.repeat(x, 2, axis=1)[:, ::2],
    "not aligned": unaligned,
}


@pytest.fixture(params=sorted(DTYPES))
def dtype(request):
    return DTYPES[request.param]


@pytest.fixture(params=["compiled", "numpy"])
def engine(request, monkeypatch):
    """With the library, and as if it were not there."""
    if request.param == "numpy":
        monkeypatch.setattr(thin, "compiled", lambda: None)
    elif compiled() is None:
        pytest.skip("no compiler when mercer was installed")


def close(found, terms, dtype):
    """Whether a sum is within its rounding: a sum of n terms is off by n units of their absolute sum."""
    exact, size, n = terms
    assert found.shape == exact.shape
    bound = (n + 2) * np.finfo(dtype).eps * size
    assert np.all(np.abs(found - exact) <= bound)


def product(a, b):
    """A b in extended precision, with the sums of sizes, and the number of terms."""
    a, b = a.astype(np.longdouble), b.astype(np.longdouble)
    return a @ b, np.abs(a) @ np.abs(b), a.shape[1]


@pytest.mark.usefixtures("engine")
@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("layout", sorted(LAYOUTS))
def test_products_are_right_to_rounding(shape, layout, dtype, rng):
    n, v, w = shape
    laid = LAYOUTS[layout]
    a, b = (laid(rng.standard_normal((n, size)).astype(dtype)) for size in (v, w))
    c = laid(rng.standard_normal((v, w)).astype(dtype))
    close(thin.inner(a, b), product(a.T, b), dtype)
    close(thin.times(a, c), product(a, c), dtype)
    assert thin.times(a, c).dtype == dtype
    block = laid(rng.standard_normal((n, w)).astype(dtype))
    exact, size, terms = product(a, c)
    expected = block - exact, size + np.abs(block), terms + 1
    thin.subtract(block, a, c)
    close(block, expected, dtype)


@pytest.mark.usefixtures("engine")
@pytest.mark.parametrize("n_threads", [1, 2, 5])
@pytest.mark.parametrize("shape", [(7, 3, 6), (5000, 40, 6)], ids=str)
def test_products_on_threads_are_right_to_rounding(shape, n_threads, rng, monkeypatch):
    monkeypatch.setattr(thin, "n_blas_threads", lambda: n_threads)
    for name, number in {"FLOPS_A_THREAD": 1, "ALONE": 0, "COMPILED_FLOPS_A_THREAD": 1}.items():
        monkeypatch.setattr(thin, name, number)
    n, v, w = shape
    a, b, c = (rng.standard_normal(size) for size in ((n, v), (n, w), (v, w)))
    close(thin.inner(a, b), product(a.T, b), np.float64)
    close(thin.times(a, c), product(a, c), np.float64)
    exact, size, terms = product(a, c)
    expected = b - exact, size + np.abs(b), terms + 1
    thin.subtract(b, a, c)
    close(b, expected, np.float64)
    assert np.array_equal(thin.inner(a, b), thin.inner(a, b))


@pytest.mark.skipif(compiled() is None, reason="no compiler when mercer was installed")
@pytest.mark.parametrize("shape", [(2500, 60, 8), (5000, 7, 33), (300, 300, 16)], ids=str)
def test_no_bit_depends_on_the_number_of_threads(shape, dtype, rng):
    n, v, w = shape
    a, b, c = (rng.standard_normal(size).astype(dtype) for size in ((n, v), (n, w), (v, w)))
    a = np.asfortranarray(a)
    sums = [matrices.summed(compiled(), a.T, b, t) for t in (1, 2, 3, 16)]
    products = [np.zeros((n, w)) for _ in sums]
    for t, y in zip((1, 2, 3, 16), products, strict=True):
        matrices.added(compiled(), a, c, y, t)
    assert all(np.array_equal(each, sums[0]) for each in sums)
    assert all(np.array_equal(each, products[0]) for each in products)
    assert not bindings._RUNNING  # nobody is left at work


@pytest.mark.usefixtures("engine")
@pytest.mark.parametrize("n_threads", [1, 2, 5])
def test_a_stored_matrix_multiplies_vectors_of_any_precision(n_threads, dtype, rng):
    half = rng.standard_normal((400, 400)).astype(dtype)
    stored, v = StoredGram(half + half.T, n_threads), rng.standard_normal((400, 6))
    found = stored.matmat(v)
    assert found.dtype == v.dtype
    rounded = v.astype(dtype)
    exact, size, terms = product(stored.matrix, rounded)
    close(found, (exact, size, terms + 1), dtype)


@pytest.mark.usefixtures("engine")
def test_what_is_not_finite_stays_so(rng):
    a, c = rng.standard_normal((50, 20)), rng.standard_normal((20, 8))
    a[3, 4] = np.nan
    a[5, 6] = np.inf
    found = thin.times(a, c)
    assert np.isnan(found[3]).all()
    assert not np.isfinite(found[5]).any()
    assert np.isfinite(np.delete(found, [3, 5], axis=0)).all()
