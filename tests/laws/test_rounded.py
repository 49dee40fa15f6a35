"""Laws of tiles that are made once and held rounded, and of the spot checks that answer for them."""

import gc
import weakref

import numpy as np
import pytest

from markets.kernels import VALID
from mercer import KernelPCA
from mercer.engine.base import Rounding, TileStore
from mercer.engine.numpy import NumpyEngine
from mercer.engine.tiles import n_upper
from mercer.errors import RankWarning
from mercer.kernels import RBF
from mercer.model import Plan, Task, fit_kernel_pca
from mercer.operators import Centred, Gram
from mercer.planning.recipe import Proof, TileCache, Tiles
from mercer.solvers import BlockKrylov
from mercer.solvers.basis import KrylovBasis
from mercer.solvers.refine import spot_checked

N = 900


def clusters(rng):
    """A hundred clusters of nine rows: eigenvectors that live on a few rows each."""
    return np.repeat(6 * rng.standard_normal((N // 9, 4)), 9, axis=0) + 0.1 * rng.standard_normal(
        (N, 4)
    )


def outliers(rng):
    rows = rng.standard_normal((N, 5))
    rows[:7] *= 40.0
    return rows


# Rows, and the width of an RBF kernel on them.
DATA = {
    "normal": (lambda rng: rng.standard_normal((N, 3)), 1.5),
    "wide rows": (lambda rng: rng.standard_normal((N, 40)), 7.0),
    "clusters": (clusters, 1.0),
    "outliers": (outliers, 2.0),
    "heavy tails": (lambda rng: rng.standard_t(1.5, (N, 4)), 2.0),
    "lattice": (lambda rng: np.round(2 * rng.standard_normal((N, 3))), 2.0),
    "far from the origin": (lambda rng: 1e4 + rng.standard_normal((N, 4)), 2.0),
}


def gram(kernel, x, *, width=16, n_threads=1, rounding=None, **how):
    store = TileStore(rounding=rounding)
    return Gram(NumpyEngine(n_threads), kernel, x, store, width=width, **how)


def held_plan(*, packed):
    store = TileCache.within(10**9, n=N, width=128, itemsize=2 if packed else 4)
    return Plan("dual", BlockKrylov(), Tiles(128, "float32", store, Proof(128)), 0)


def true_products(x, sigma, weights, v):
    """P S K S P v in float64, K formed as a whole by the kernel itself."""
    roots = np.ones(len(x)) if weights is None else np.sqrt(weights)

    def project(block):
        return block - np.outer(roots, roots @ block) / (roots @ roots)

    k = RBF(sigma=sigma)(x.astype(np.float64))
    return project(roots[:, None] * (k @ (roots[:, None] * project(v))))


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("name", sorted(DATA))
def test_residuals_told_are_no_less_than_the_true_ones(name, dtype, packed, weighted):
    rng = np.random.default_rng(11)
    make, sigma = DATA[name]
    x = make(rng).astype(dtype)
    weights = rng.random(N) ** 3 + 0.01 if weighted else None
    kernel = RBF(sigma=sigma).resolve(x, rng=rng)
    fit = fit_kernel_pca(Task(kernel, x, 8, held_plan(packed=packed), rng, weights))
    pairs = fit.pairs
    true = true_products(x, sigma, weights, pairs.vectors) - pairs.vectors * pairs.values
    found = np.linalg.norm(true, axis=0) / pairs.values[0]
    # A thousandth of what a residual may be is not told where corrections follow a proof.
    assert np.all(found <= pairs.residuals + 1e-9)
    # The tolerance is the solver's. Vectors that are handed out in float32 are off by half a unit of their
    # length, and ‖(A - λ)δ‖ is at most λ₁‖δ‖; of entries in float64 next to nothing is added.
    added = pairs.rounding / pairs.values[0]
    assert np.max(pairs.residuals - added) <= 1e-6
    assert np.max(added) <= np.finfo(np.float32).eps


def test_most_fits_need_no_second_pass():
    """Else all this is for nothing: the cheap answer is the usual one."""
    rng = np.random.default_rng(11)
    spotted = []
    for make, sigma in DATA.values():
        x = make(rng)
        plan = held_plan(packed=False)
        kernel = RBF(sigma=sigma).resolve(x, rng=rng)
        fit = fit_kernel_pca(Task(kernel, x, 8, plan, rng))
        spotted.append(fit.pairs.unseen is not None)
    assert np.mean(spotted) > 0.5


@pytest.mark.parametrize("packed", [False, True])
def test_it_does_not_matter_who_makes_the_tiles(cloud, rng, packed):
    n = len(cloud)
    v = rng.standard_normal((n, 3))
    rounding = Rounding(packed=packed, minus=0.4)
    exact = gram(VALID["rbf"], cloud, n_threads=2, rounding=rounding)
    whole = exact.matmat(v)  # fills
    np.testing.assert_array_equal(whole, gram(VALID["rbf"], cloud, n_threads=2).matmat(v))
    alone = gram(VALID["rbf"], cloud, n_threads=2, rounding=rounding).rough
    np.testing.assert_array_equal(exact.rough.matmat(v), alone.matmat(v))  # fills itself


@pytest.mark.parametrize("packed", [False, True])
def test_the_rough_operator_is_the_same_matrix_less_its_constant(cloud, rng, packed):
    kernel, few = VALID["rbf"], np.array([3, 0, 41])
    operator = gram(kernel, cloud, rounding=Rounding(packed=packed, minus=0.4))
    v, some = rng.standard_normal((len(cloud), 3)), rng.standard_normal((3, 2))
    k = kernel(cloud)
    for which, minus, atol in ((operator, 0.0, 1e-12), (operator.rough, 0.4, 1e-3)):
        assert which.minus == minus
        less = k - minus
        np.testing.assert_allclose(which.matmat(v), less @ v, atol=atol)
        np.testing.assert_allclose(which.rows(few, v), less[few] @ v, atol=1e-12)
        np.testing.assert_allclose(which.cross(few, some), less[:, few] @ some, atol=1e-12)
        np.testing.assert_allclose(which.block(few), less[np.ix_(few, few)], atol=1e-12)
        np.testing.assert_allclose(which.dense(), less, atol=1e-12)
        np.testing.assert_allclose(which.diag(), 1.0, atol=1e-12)
    means = Centred(operator).rough.row_means
    np.testing.assert_allclose(means, k.mean(axis=0), atol=1e-4)


def test_tiles_are_made_once(cloud, rng, monkeypatch):
    made, tile = [], RBF.tile

    def counting(self, x, y):
        made.append(1)
        return tile(self, x, y)

    monkeypatch.setattr(RBF, "tile", counting)
    exact = gram(RBF(0.3), cloud, rounding=Rounding())
    v = rng.standard_normal((len(cloud), 2))
    exact.matmat(v)
    assert len(made) == n_upper(len(cloud), exact.x.width)
    exact.rough.matmat(v)
    exact.rough.matmat(v)
    assert len(made) == n_upper(len(cloud), exact.x.width)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("stored", [False, True])
def test_some_rows_are_those_of_the_product(cloud, rng, weighted, stored):
    weights = rng.random(len(cloud)) + 0.1 if weighted else None
    entries = gram(VALID["rbf"], cloud, n_threads=2, rounding=Rounding(minus=0.3))
    operator = Centred(entries.stored() if stored else entries, weights)
    v, rows = rng.standard_normal((len(cloud), 3)), np.array([5, 0, 5, 59])
    np.testing.assert_allclose(operator.rows(rows, v), operator.matmat(v)[rows], atol=1e-13)
    if not stored:
        rough = operator.rough
        np.testing.assert_allclose(rough.rows(rows, v), rough.matmat(v)[rows], atol=1e-4)


@pytest.mark.parametrize(("size", "is_found_out"), [(1e-2, True), (1e-3, True), (1e-6, False)])
def test_a_rough_operator_that_lies_is_found_out_where_it_matters(size, is_found_out):
    """Noise in the held tiles, hence in every product but the first: the pairs are right all the same."""
    rng = np.random.default_rng(3)
    x = rng.standard_normal((N, 3))
    exact = gram(RBF(0.2), x, width=128, rounding=Rounding())
    exact.rough.matmat(np.ones((N, 1)))
    kept = exact.x.kept._rounded
    for place, tile in enumerate(kept):
        kept[place] = (tile + size * rng.standard_normal(tile.shape)).astype(np.float32)
    pairs = BlockKrylov()(Centred(exact), 6, rng=rng)
    assert pairs.status.ok
    assert (pairs.unseen is None) == is_found_out  # proved with a product of its own
    true = true_products(x, np.sqrt(1 / 0.4), None, pairs.vectors) - pairs.vectors * pairs.values
    found = np.linalg.norm(true, axis=0) / pairs.values[0]
    assert np.all(found <= pairs.residuals + 1e-9)
    assert found.max() <= 1e-6


def test_the_spot_check_measures_what_is_missing():
    """Products that are off by a known amount, seen to a factor of two on either side."""
    rng = np.random.default_rng(5)
    x = rng.standard_normal((N, 3))
    operator = Centred(gram(RBF(0.2), x, width=128))
    basis = KrylovBasis(np.empty((N, 0)), 40)
    basis.append(rng.standard_normal((N, 20)), rng=rng)
    basis.multiply(operator)
    basis.extend()
    basis.multiply(operator)
    for off in (1e-3, 1e-6):
        noise = rng.standard_normal((N, 5))
        noise *= off / np.linalg.norm(noise, axis=0)
        images = basis.images
        basis.images = lambda s, images=images, noise=noise: images(s) + noise
        found = spot_checked(operator, basis, 5, tol=1e-6, rng=rng).unseen
        basis.images = images
        assert np.all((found > off) & (found < 4 * off))


def test_a_vector_on_two_rows_is_looked_at_there():
    """Rows that a draw of a few hundred would miss once in ten."""
    rng = np.random.default_rng(8)
    x = 10.0 * rng.standard_normal((N, 6))
    x[1::100] = x[::100] + 0.1  # nine pairs of neighbours, far from all others
    operator = Centred(gram(RBF(0.5), x, width=128))
    basis = KrylovBasis(np.empty((N, 0)), N)
    basis.append(rng.standard_normal((N, N)), rng=rng)
    basis.multiply(operator)
    images = basis.images
    off = np.zeros((N, 9))
    for seed in range(20):
        top = np.argmax(np.abs(basis.q @ basis.ritz(9)[1]), axis=0)
        off[top, np.arange(9)] = 1e-5
        basis.images = lambda s: images(s) + off
        found = spot_checked(operator, basis, 9, tol=1e-6, rng=np.random.default_rng(seed)).unseen
        assert np.all(found > 1e-5)


def test_columns_that_are_constant_change_nothing(rng):
    x = rng.standard_normal((60, 3))
    padded = np.concatenate([np.full((60, 2), 7.3), x, np.zeros((60, 1))], axis=1)
    v = rng.standard_normal((60, 2))
    for sliced in (False, True):
        plain, wide = (gram(RBF(0.3), rows, n_threads=2, sliced=sliced) for rows in (x, padded))
        np.testing.assert_array_equal(wide.matmat(v), plain.matmat(v))
        np.testing.assert_array_equal(wide.block(np.arange(5)), plain.block(np.arange(5)))


def test_rows_that_are_all_the_same_have_distance_zero():
    same = np.full((20, 3), 2.5)
    np.testing.assert_array_equal(gram(RBF(0.3), same, width=8).dense(), 1.0)


def test_new_rows_may_differ_where_the_fitted_ones_did_not(rng):
    x = rng.standard_normal((3100, 3))
    x[:, 1] = 0.5
    model = KernelPCA(2, kernel=RBF(0.3)).fit(x)
    moved = x[:5] + np.array([0.0, 1.0, 0.0])
    assert np.abs(model.transform(moved) - model.transform(x[:5])).max() > 1e-3


def test_tiles_are_gone_with_their_operators(cloud):
    """No cycle of references: memory is free when the fit is done, not when Python next looks for cycles."""
    operator = Centred(gram(RBF(0.3), cloud, rounding=Rounding()))
    operator.rough.matmat(operator.matmat(np.ones((len(cloud), 1))))
    gone = weakref.ref(operator.gram.x.kept)
    gc.disable()
    try:
        del operator
        assert gone() is None
    finally:
        gc.enable()


def test_no_slice_of_rows_outlives_a_pass(cloud, rng):
    """Two operators over rows of a file would else hold the slices of both."""
    operator = gram(VALID["rbf"], cloud, sliced=True)
    v = rng.standard_normal((len(cloud), 2))
    few = np.arange(3)
    for use in (
        lambda: operator.matmat(v),
        operator.dense,
        operator.diag,
        lambda: operator.rows(few, v),
        lambda: operator.cross(few, v[:3]),
    ):
        use()
        assert not operator.x.rows.recent


@pytest.mark.parametrize("k", [160, 240])
def test_more_components_than_there_are_take_no_more_products(k, rng):
    x = rng.standard_normal((150, 6))[rng.integers(0, 150, 3012)]
    with pytest.warns(RankWarning, match="only 149"):
        model = KernelPCA(k, kernel=RBF(0.3)).fit(x)
    assert model.fit_.pairs.n_products < 20
