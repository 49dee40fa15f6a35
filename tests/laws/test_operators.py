"""Laws of every operator: products equal the dense ones, whatever the tiling; H acts on both sides."""

import numpy as np
import pytest

from markets.kernels import VALID
from mercer._core.errors import MemoryBudgetError
from mercer.engine.base import Rounding, TileStore
from mercer.engine.numpy import NumpyEngine, PackedTile
from mercer.engine.tiles import fitting_width, n_upper, paying_threads, upper_tiles
from mercer.kernels import Custom
from mercer.operators import Centred, Gram, StoredGram

WIDTHS = [1, 7, 16, 60, 1000]


def gram(kernel, x, *, width=16, n_threads=2, keep_bytes=0, minus=0.0, rounding=None, **how):
    store = TileStore(minus, keep_bytes, rounding)
    return Gram(NumpyEngine(n_threads), kernel, x, store, width=width, **how)


def centring(n):
    return np.eye(n) - np.full((n, n), 1.0 / n)


OPERATORS = {
    "tiled": gram,
    "tiled-one-thread": lambda kernel, x: gram(kernel, x, n_threads=1),
    "stored": lambda kernel, x: gram(kernel, x).stored(),
}


@pytest.fixture(params=sorted(OPERATORS))
def make(request):
    return OPERATORS[request.param]


@pytest.fixture(params=sorted(VALID))
def kernel(request):
    return VALID[request.param]


def test_matmat_is_the_dense_product(make, kernel, cloud, rng):
    dense, v = kernel(cloud), rng.standard_normal((len(cloud), 3))
    scale = np.abs(dense).max() * np.sqrt(len(cloud))
    np.testing.assert_allclose(make(kernel, cloud).matmat(v), dense @ v, atol=1e-13 * scale)


@pytest.mark.parametrize("weighted", [None, False, True])
def test_what_is_projected_is_the_matrix(make, kernel, cloud, rng, weighted):
    """P B P with P = I - FᵀF, whatever a solver is handed to begin with."""
    operator = make(kernel, cloud)
    if weighted is not None:
        operator = Centred(operator, rng.random(len(cloud)) if weighted else None)
    b, fixed = operator.unprojected()
    assert len(fixed) == (weighted is not None)
    p = np.eye(len(cloud)) - fixed.T @ fixed
    scale = np.abs(b).max() * np.sqrt(len(cloud))
    np.testing.assert_allclose(p @ b @ p, operator.dense(), atol=1e-13 * scale)


def test_parts_of_the_matrix(make, kernel, cloud, rng):
    operator, dense = make(kernel, cloud), kernel(cloud)
    chosen = np.array([3, 0, 41])
    close = {"rtol": 1e-11, "atol": 1e-12 * np.abs(dense).max()}
    some = rng.standard_normal((len(chosen), 2))
    np.testing.assert_allclose(operator.cross(chosen, some), dense[:, chosen] @ some, **close)
    np.testing.assert_allclose(operator.block(chosen), dense[np.ix_(chosen, chosen)], **close)
    v = rng.standard_normal((len(cloud), 2))
    np.testing.assert_allclose(operator.rows(chosen, v), (dense @ v)[chosen], **close)
    np.testing.assert_allclose(operator.diag(), np.diagonal(dense), **close)
    np.testing.assert_allclose(operator.dense(), dense, **close)
    assert operator.n == len(cloud)


def test_matmat_is_symmetric(make, kernel, cloud, rng):
    operator = make(kernel, cloud)
    u, v = rng.standard_normal((2, len(cloud), 1))
    scale = np.abs(operator.diag()).sum()
    assert (u.T @ operator.matmat(v))[0, 0] == pytest.approx(
        (v.T @ operator.matmat(u))[0, 0], abs=1e-12 * scale
    )


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("n_threads", [1, 2, 5])
def test_the_answer_does_not_depend_on_the_tiling(width, n_threads, cloud, rng):
    kernel, v = VALID["rbf"], rng.standard_normal((len(cloud), 4))
    one = gram(kernel, cloud, width=60, n_threads=1).matmat(v)
    many = gram(kernel, cloud, width=width, n_threads=n_threads).matmat(v)
    np.testing.assert_allclose(many, one, atol=1e-13 * np.abs(one).max())


def test_two_runs_agree_to_the_last_bit(cloud, rng):
    operator, v = gram(VALID["rbf"], cloud, width=7), rng.standard_normal((len(cloud), 4))
    np.testing.assert_array_equal(operator.matmat(v), operator.matmat(v))


def test_centred_is_hkh(make, kernel, cloud, rng):
    h = centring(len(cloud))
    reference = h @ kernel(cloud) @ h
    operator = Centred(make(kernel, cloud))
    scale = np.abs(kernel(cloud)).max() * len(cloud)
    v = rng.standard_normal((len(cloud), 3))
    for _ in range(2):  # the first product carries the row means, the second does not
        np.testing.assert_allclose(operator.matmat(v), reference @ v, atol=1e-13 * scale)
    np.testing.assert_allclose(operator.row_means, kernel(cloud).mean(axis=0), atol=1e-13 * scale)
    np.testing.assert_allclose(operator.diag(), np.diagonal(reference), atol=1e-13 * scale)
    np.testing.assert_allclose(operator.dense(), reference, atol=1e-13 * scale)
    chosen = np.array([5, 17, 30])
    some = centring(3) @ rng.standard_normal((3, 2))
    product = reference[:, chosen] @ some
    np.testing.assert_allclose(operator.cross(chosen, some), product, atol=1e-13 * scale)
    few = centring(3) @ kernel(cloud)[np.ix_(chosen, chosen)] @ centring(3)
    np.testing.assert_allclose(operator.block(chosen), few, atol=1e-13 * scale)
    assert operator.trace() == pytest.approx(np.trace(reference), rel=1e-11, abs=1e-12 * scale)


def test_row_means_are_the_same_when_asked_for_first(cloud, rng):
    first, later = (Centred(gram(VALID["rbf"], cloud)) for _ in range(2))
    later.matmat(rng.standard_normal((len(cloud), 2)))
    np.testing.assert_allclose(first.row_means, later.row_means, rtol=1e-14)


def test_float32_storage_rounds_the_vectors_and_gives_float64_back(cloud, rng):
    matrix = VALID["rbf"](cloud)
    v = rng.standard_normal((len(cloud), 3))
    product = StoredGram(matrix.astype(np.float32)).matmat(v)
    assert product.dtype == np.float64
    np.testing.assert_allclose(product, matrix @ v, atol=1e-5)


def test_the_caller_keeps_his_matrix(cloud):
    matrix = VALID["rbf"](cloud)
    matrix.flags.writeable = False
    operator = Centred(StoredGram(matrix))
    operator.dense()[:] = 0.0
    np.testing.assert_array_equal(operator.gram.dense(), matrix)


@pytest.mark.parametrize("n", [1, 5, 64, 1000, 5000])
@pytest.mark.parametrize("itemsize", [4, 8])
@pytest.mark.parametrize("n_threads", [1, 4])
@pytest.mark.parametrize("budget", [1000, 10**6, 10**9])
def test_tiles_fit_their_budget_and_cover_the_triangle_once(n, itemsize, n_threads, budget):
    width = fitting_width(n, itemsize=itemsize, budget_bytes=budget, n_threads=n_threads)
    assert 2 * itemsize * n_threads * width**2 <= budget
    if n > 1000:
        return
    seen = np.zeros((n, n), dtype=int)
    for place, (index, i, j) in enumerate(upper_tiles(n, width)):
        assert index == place < n_upper(n, width)
        seen[i, j] += 1
        if i != j:
            seen[j, i] += 1
    assert seen.min() == seen.max() == 1


def test_a_budget_below_one_entry_is_refused():
    with pytest.raises(MemoryBudgetError, match="Raise `memory`"):
        fitting_width(10, itemsize=8, budget_bytes=15)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_a_product_is_rounded_to_eps_of_the_size(dtype, rng):
    """Entries of a million and a spread of one: what centring leaves is rounded as K was."""
    spread = rng.standard_normal((60, 60))
    matrix = (1e6 + spread + spread.T).astype(dtype)
    exact, v = matrix.astype(np.longdouble), rng.standard_normal((60, 1))
    v -= v.mean()
    v /= np.linalg.norm(v)
    h = np.eye(60, dtype=np.longdouble) - np.longdouble(1.0) / 60
    operator = Centred(StoredGram(matrix))
    error = float(np.linalg.norm((operator.matmat(v) - h @ exact @ h @ v).astype(np.float64)))
    top = np.abs(np.linalg.eigvalsh((h @ exact @ h).astype(np.float64))).max()
    assert operator.eps == np.finfo(dtype).eps
    assert error <= operator.eps * operator.size
    assert error > operator.eps * top  # which the eigenvalues alone would not explain
    assert StoredGram(matrix).size == 0.0


def test_held_tiles_change_nothing(cloud, rng):
    kernel, v = VALID["rbf"], rng.standard_normal((len(cloud), 4))
    fresh = gram(kernel, cloud, width=7).matmat(v)  # 45 tiles of 392 bytes
    for keep_bytes in (0, 392 * 10, 10**6):
        operator = gram(kernel, cloud, width=7, keep_bytes=keep_bytes)
        for _ in range(2):  # the first product fills, the second reads
            np.testing.assert_array_equal(operator.matmat(v), fresh)


def packed(tile, *, on_diagonal):
    return PackedTile.of(tile, on_diagonal=on_diagonal, codes=np.empty(tile.shape, np.uint16))


@pytest.mark.parametrize("on_diagonal", [False, True])
@pytest.mark.parametrize("scale", [1.0, 1e-20, 1e20])
def test_a_packed_tile_is_within_half_a_step(on_diagonal, scale, rng):
    tile = (scale * rng.random((40, 40 if on_diagonal else 30))).astype(np.float32)
    if on_diagonal:
        np.fill_diagonal(tile, 1e3 * scale)
    back = packed(tile.copy(), on_diagonal=on_diagonal).unpacked(np.empty(2000, "f4"))
    assert back.dtype == np.float32
    # Half a step of a range of `scale`, and the rounding of float32 on the way.
    np.testing.assert_allclose(back, tile, rtol=1e-7, atol=scale * (0.5 / 65535 + 2e-7))
    if on_diagonal:
        np.testing.assert_array_equal(back.diagonal(), tile.diagonal())


@pytest.mark.parametrize("value", [0.0, 0.3, -2.5])
def test_a_constant_tile_is_packed_without_loss(value):
    tile = np.full((5, 5), value, dtype=np.float32)
    back = packed(tile.copy(), on_diagonal=True).unpacked(np.empty(25, "f4"))
    np.testing.assert_array_equal(back, tile)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_a_packed_tile_hides_no_bad_entry(bad):
    tile = np.ones((4, 4), dtype=np.float32)
    tile[1, 2] = bad
    with np.errstate(invalid="ignore"):
        back = packed(tile, on_diagonal=False).unpacked(np.empty(16, "f4"))
    assert not np.isfinite(back[1, 2])


def test_packed_tiles_are_the_same_matrix_in_every_product(cloud, rng):
    kernel, n = VALID["rbf"], len(cloud)
    v = rng.standard_normal((n, 3))
    exact = gram(kernel, cloud, n_threads=1).matmat(v)
    packed = gram(kernel, cloud, rounding=Rounding(packed=True)).rough
    first = packed.matmat(v)
    np.testing.assert_array_equal(packed.matmat(v), first)
    # An entry is off by half a step at most, a product by the sum of |v| times that.
    bound = (1.0 / 131070 + 1e-6) * np.abs(v).sum(axis=0)
    assert np.all(np.abs(first - exact) <= bound)
    # All tiles are there: rows are read slice by slice from now on, and are the same rows.
    chosen = np.array([3, 50, 7])
    np.testing.assert_allclose(packed.block(chosen), kernel(cloud[chosen]), atol=1e-6)


def test_rows_made_ready_slice_by_slice_give_the_same_products(cloud, rng):
    v = rng.standard_normal((len(cloud), 3))
    for name in ("rbf", "poly2"):
        whole = gram(VALID[name], cloud, width=5)
        sliced = gram(VALID[name], cloud, width=5, sliced=True)
        np.testing.assert_array_equal(sliced.matmat(v), whole.matmat(v))


def test_held_tiles_are_computed_once(cloud, rng):
    calls = []

    def counted(x, y):
        calls.append(len(x))
        return x @ y.T

    operator = gram(Custom(counted), cloud, width=20, keep_bytes=10**6)
    v = rng.standard_normal((len(cloud), 2))
    operator.matmat(v)
    made = len(calls)
    operator.matmat(v)
    assert len(calls) == made


def test_a_constant_taken_off_does_not_reach_the_centred_matrix(cloud, rng):
    plain = gram(VALID["rbf"], cloud)
    less = gram(VALID["rbf"], cloud, minus=0.7)
    v = rng.standard_normal((60, 3))
    np.testing.assert_allclose(less.matmat(v), plain.matmat(v) - 0.7 * v.sum(axis=0), atol=1e-12)
    np.testing.assert_allclose(Centred(less).matmat(v), Centred(plain).matmat(v), atol=1e-12)


def test_tiles_in_another_precision_than_the_rows(cloud, rng):
    v = rng.standard_normal((60, 3))
    rows = cloud.astype(np.float32)
    proof = gram(VALID["rbf"], rows, dtype=np.float64)
    reference = VALID["rbf"](rows.astype(np.float64)) @ v
    np.testing.assert_allclose(proof.matmat(v), reference, atol=1e-13 * np.abs(reference).max())
    rough = gram(VALID["rbf"], cloud, dtype=np.float32)
    np.testing.assert_allclose(rough.matmat(v), VALID["rbf"](cloud) @ v, atol=1e-4)
    assert rough.matmat(v).dtype == np.float64


def test_weights_centre_at_the_weighted_mean(make, kernel, cloud, rng):
    weights = rng.random(60) * 3.0
    h = np.eye(60) - np.outer(np.ones(60), weights) / weights.sum()
    roots = np.sqrt(weights)
    reference = roots[:, None] * (h @ kernel(cloud) @ h.T) * roots
    operator = Centred(make(kernel, cloud), weights)
    scale = np.abs(kernel(cloud)).max() * weights.sum()
    v = rng.standard_normal((60, 3))
    for _ in range(2):
        np.testing.assert_allclose(operator.matmat(v), reference @ v, atol=1e-13 * scale)
    np.testing.assert_allclose(operator.dense(), reference, atol=1e-13 * scale)
    np.testing.assert_allclose(operator.diag(), np.diagonal(reference), atol=1e-13 * scale)
    means = kernel(cloud) @ weights / weights.sum()
    np.testing.assert_allclose(operator.row_means, means, atol=1e-13 * scale)
    assert operator.trace() == pytest.approx(np.trace(reference), abs=1e-12 * scale)


@pytest.mark.parametrize("itemsize", [4, 8])
@pytest.mark.parametrize("cores", [1, 2, 8, 16, 64])
@pytest.mark.parametrize("n", [300, 1000, 5000, 20_000, 100_000])
def test_no_tile_is_so_narrow_that_threads_wait_for_the_interpreter(n, cores, itemsize):
    """Work on a tile, w², has to grow with the queue of T threads; and each of them needs tiles."""
    n_threads = paying_threads(n, cores)
    width = fitting_width(n, itemsize=itemsize, budget_bytes=10**10, n_threads=n_threads)
    assert 1 <= n_threads <= cores
    assert n_threads == 1 or width**2 * itemsize >= 190**2 * 8 * n_threads
    assert n_threads == 1 or n_upper(n, width) >= 1.5 * n_threads


@pytest.mark.parametrize("budget", [10**6, 10**8, 10**9])
def test_a_small_budget_has_fewer_threads_rather_than_narrow_tiles(budget):
    n_threads = paying_threads(10**6, 64, budget_bytes=budget)
    width = fitting_width(10**6, itemsize=8, budget_bytes=budget, n_threads=n_threads)
    assert n_threads <= 2 or width >= 190 * np.sqrt(n_threads)
    assert paying_threads(10**6, 64, budget_bytes=4 * budget) >= n_threads
