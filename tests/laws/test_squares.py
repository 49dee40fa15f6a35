"""Laws of the two ways to the scatter of low-rank features: squares of sections, or features of every row."""

import numpy as np
import pytest

from mercer._core.observer import SILENT
from mercer.approximations import Nystrom, RPCholesky, rpcholesky
from mercer.approximations.landmarks import entry_error
from mercer.approximations.rpcholesky import PivotSearch
from mercer.engine.moments import Moments
from mercer.engine.wide import times_transposed, triangle_product, wide_times
from mercer.kernels import RBF, Sigmoid
from mercer.model import lowrank, lowrank_pass
from mercer.model.certificate import EntryRounding
from mercer.model.lowrank_pass import ROWS_A_LANDMARK, square_dtype
from mercer.model.result import Task
from mercer.planning.plan import plan_approximation
from mercer.planning.problem import Problem

EPS = float(np.finfo(np.float64).eps)

N, M, D = 600, 40, 6
FLOAT64, FLOAT32 = np.dtype(np.float64), np.dtype(np.float32)
# From a core that is nearly the identity to one whose last eigenvalues are rounding.
GAMMAS = {"narrow": 1.0, "usual": 0.2, "wide": 0.01, "very wide": 1e-4}


def task_of(kernel, x, weights=None, asked=5):
    plan = plan_approximation(Problem(*x.shape, asked, x.dtype.itemsize), Nystrom(M))
    return Task(kernel, x, asked, plan, np.random.default_rng(0), weights, SILENT)


def factor_of(kernel, x, approximation=None, weights=None):
    chosen = approximation or Nystrom(M)
    return chosen(kernel, x, weights=weights, rng=np.random.default_rng(0), observer=SILENT)


@pytest.fixture(params=["float64", "float32"])
def dtype(request):
    return np.dtype(request.param)


@pytest.fixture
def rows(rng, dtype):
    return rng.standard_normal((N, D)).astype(dtype)


def fitted(monkeypatch, way, task, factor):
    monkeypatch.setattr(lowrank, "square_dtype", lambda *_: way)
    return lowrank.fit_low_rank(task, factor)


def exact_values(gamma, x, factor, weights=None):
    """Eigenvalues of Σw(f - μ)(f - μ)ᵀ for f = k(x, Z)W, kernel values and sums with three more digits."""
    wide, z = x.astype(np.longdouble), x[factor.landmarks].astype(np.longdouble)
    gaps = ((wide[:, None, :] - z[None, :, :]) ** 2).sum(axis=2)
    features = np.exp(-np.longdouble(gamma) * gaps) @ factor.whiten.astype(np.longdouble)
    w = np.ones(len(x)) if weights is None else weights
    features -= w @ features / w.sum()
    scatter = features.T @ (w[:, None] * features)
    return np.linalg.eigvalsh(scatter.astype(np.float64))[::-1]


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("name", sorted(GAMMAS))
def test_both_ways_are_right_to_the_rounding_they_tell(name, weighted, rows, rng, monkeypatch):
    kernel, weights = RBF(GAMMAS[name]), rng.random(N) + 0.1 if weighted else None
    dtype = rows.dtype
    factor, task = factor_of(kernel, rows, weights=weights), task_of(kernel, rows, weights)
    way = square_dtype(task, factor, dtype)
    for squared_in in (None, way):
        fit = fitted(monkeypatch, squared_in, task, factor)
        if fit.projection.coef.dtype != dtype:  # made again in float64, with another W
            continue
        exact = exact_values(GAMMAS[name], rows, factor, weights)
        room = fit.certificate.rounding + 4.0 * np.finfo(np.float64).eps * exact[0]
        assert np.max(np.abs(fit.eigenvalues - exact[:5])) <= room


@pytest.mark.parametrize("asked", [5, None])
def test_squares_are_taken_where_they_lose_little(asked, dtype, rows):
    """For all components where all may be kept, and else for those that were asked for and for the bounds."""
    found = {}
    for name, gamma in GAMMAS.items():
        kernel = RBF(gamma)
        task = task_of(kernel, rows, asked=asked)
        found[name] = square_dtype(task, factor_of(kernel, rows), dtype)
    assert found["narrow"] is dtype
    if dtype == FLOAT32:
        assert found["wide"] is FLOAT64
    else:
        assert found["wide"] is (None if asked is None else FLOAT64)
        assert found["very wide"] is None  # float32 has no such directions left


def test_a_few_components_tell_what_all_would(dtype, rows, monkeypatch):
    for gamma in GAMMAS.values():
        task, factor = task_of(RBF(gamma), rows, asked=3), factor_of(RBF(gamma), rows)
        few = square_dtype(task, factor, dtype)
        with monkeypatch.context() as patch:
            patch.setattr(lowrank_pass, "FEW", N)  # all are looked at
            assert square_dtype(task, factor, dtype) is few


def test_squares_that_turn_out_to_lose_more_are_not_used(rng, monkeypatch):
    """A few rows may mislead; when all are seen, features are made after all."""
    x = rng.standard_normal((N, D))
    kernel = RBF(1e-4)
    factor, task = factor_of(kernel, x), task_of(kernel, x)
    assert square_dtype(task, factor, FLOAT64) is None
    forced, features = (fitted(monkeypatch, way, task, factor) for way in (FLOAT64, None))
    np.testing.assert_array_equal(forced.eigenvalues, features.eigenvalues)
    np.testing.assert_array_equal(forced.projection.coef, features.projection.coef)


@pytest.mark.parametrize("gamma", [0.2, 0.01, 1e-3])
def test_components_that_were_asked_for_keep_their_digits(gamma, rng, monkeypatch):
    """Their own rounding, not that of all components, bounds what squares cost them: here twice, for both."""
    x = rng.standard_normal((N, D))
    kernel = RBF(gamma)
    factor, task = factor_of(kernel, x), task_of(kernel, x)
    assert square_dtype(task, factor, FLOAT64) is FLOAT64
    squares, features = (fitted(monkeypatch, way, task, factor) for way in (FLOAT64, None))
    lengths = np.ones(M)
    unit = entry_error(kernel, x[factor.landmarks])
    coef, values = features.projection.coef, features.eigenvalues
    moves = EntryRounding(lengths, float(N), unit).moves(values, coef)
    assert np.all(np.abs(squares.eigenvalues - values) <= 2.0 * moves)
    scores = [each.projection(x) for each in (squares, features)]
    assert np.all(np.abs(scores[0] - scores[1]) <= 2.0 * M**0.5 * moves / values**0.5)


def test_models_of_both_ways_are_the_same(dtype, rows, monkeypatch):
    kernel = RBF(0.3)
    factor, task = factor_of(kernel, rows, RPCholesky(M)), task_of(kernel, rows)
    squares, features = (fitted(monkeypatch, way, task, factor) for way in (dtype, None))
    eps = float(np.finfo(dtype).eps)
    room = squares.certificate.rounding
    assert features.certificate.rounding < room <= 5.0 * features.certificate.rounding
    np.testing.assert_allclose(squares.eigenvalues, features.eigenvalues, rtol=0, atol=room)
    assert squares.total == pytest.approx(features.total, rel=100 * eps)
    mean = features.mean.coef
    np.testing.assert_allclose(squares.mean.coef, mean, atol=1e4 * eps * np.abs(mean).max())


def test_a_kernel_in_doubt_has_features(rng):
    """Their lengths tell that it is none; so do few rows, whose squares save nothing."""
    x, kernel = rng.standard_normal((N, D)), Sigmoid(0.01, coef0=0.5)
    assert kernel.why_valid() is None
    assert square_dtype(task_of(kernel, x), factor_of(RBF(0.3), x), FLOAT64) is None
    few = x[: ROWS_A_LANDMARK * M - 1]
    assert square_dtype(task_of(RBF(0.3), few), factor_of(RBF(0.3), few), FLOAT64) is None


@pytest.mark.parametrize("parts", [1, 7, 64])
def test_candidates_looked_at_in_parts_are_the_same_pivots(parts, rng, monkeypatch):
    """What a pivot takes off a candidate is the same, whether they are looked at together or not."""
    x, kernel = rng.standard_normal((2000, 3)), RBF(0.5)
    expected = factor_of(kernel, x, RPCholesky(90)).landmarks
    for looked_at in (lambda _: 10**9, lambda _: parts):
        monkeypatch.setattr(rpcholesky, "looked_at", looked_at)
        np.testing.assert_array_equal(factor_of(kernel, x, RPCholesky(90)).landmarks, expected)
    assert len(np.unique(expected)) == 90


@pytest.mark.parametrize("fresh", [1, 50, 200, 256])
def test_products_with_a_triangle_skip_zeros_alone(fresh, dtype, rng):
    w = np.triu(rng.standard_normal((256, 256)))[:, 256 - fresh :].astype(dtype)
    x = rng.standard_normal((30, 256)).astype(dtype)
    found = triangle_product(x, w)
    assert found.dtype == dtype
    room = 256 * float(np.finfo(dtype).eps) * (np.abs(x) @ np.abs(w))
    assert np.all(np.abs(found - x @ w) <= room)


# Rows of one slice, of whole slices, and one more; columns of a part of a triangle's block, and of several.
@pytest.mark.parametrize("shape", [(1, 3), (255, 96), (256, 97), (513, 200)], ids=str)
def test_wide_products_are_those_of_numpy_on_any_number_of_threads(shape, rng):
    n, m = shape
    a, square = rng.standard_normal((n, m)), rng.standard_normal((m, m))
    upper = np.triu(square)
    almost = upper.copy()
    almost[-1, 0] = 1.0  # no triangle, by one number
    for c in (square, upper, almost, square[:, :2]):
        room = 2 * m * EPS * (np.abs(a) @ np.abs(c))
        found = [wide_times(a, c, n_threads=n_threads) for n_threads in (1, 2, 5)]
        assert np.all(np.abs(found[0] - a @ c) <= room)
        for other in found[1:]:
            np.testing.assert_array_equal(other, found[0])
    room = 2 * m * EPS * (np.abs(a) @ np.abs(upper).T)
    assert np.all(np.abs(times_transposed(a, upper) - a @ upper.T) <= room)


def test_moments_may_use_the_room_of_the_block(rows, rng):
    weights = rng.random(N)
    for w in (None, weights):
        kept = Moments.of(rows, w)
        found = Moments.of(rows.copy(), w, overwrite=True)
        np.testing.assert_array_equal(found.scatter, kept.scatter)
        np.testing.assert_array_equal(found.mean, kept.mean)


def test_merged_moments_are_symmetric_to_the_last_bit(rng):
    x = 5.0 + rng.standard_normal((300, 7))
    parts = [Moments.of(x[i : i + 100]) for i in (0, 100, 200)]
    found = parts[0].merged(parts[1]).merged(parts[2])
    np.testing.assert_array_equal(found.scatter, found.scatter.T)
    centred = x - x.mean(axis=0)
    np.testing.assert_allclose(found.scatter, centred.T @ centred, rtol=1e-12, atol=1e-10)


# ── candidates ──────────────────────────────────────────────────────────────
class Passes(PivotSearch):
    """Counts passes over the rows, and candidates."""

    def __init__(self, *given):
        self.passes = self.candidates = 0
        super().__init__(*given)

    def update(self, **told):
        self.passes += 1
        super().update(**told)

    def _accept(self, candidates, dice, *, most):
        self.candidates += len(candidates)
        return super()._accept(candidates, dice, most=most)


def search_of(kernel, x, rank, monkeypatch, seed=0):
    made = []
    monkeypatch.setattr(
        rpcholesky, "PivotSearch", lambda *given: made.append(Passes(*given)) or made[-1]
    )
    chosen = RPCholesky(rank)(
        kernel, x, weights=None, rng=np.random.default_rng(seed), observer=SILENT
    )
    return made[0], chosen


def test_no_pass_is_made_where_more_candidates_are_cheaper(rng, monkeypatch):
    x = rng.standard_normal((20_000, 6))
    search, found = search_of(RBF(0.1), x, 100, monkeypatch)
    assert (search.passes, found.rank) == (0, 100)
    assert search.candidates > 4 * 100  # one draw was not enough
    monkeypatch.setattr(rpcholesky, "ROWS_A_CANDIDATE", 1e9)
    search, found = search_of(RBF(0.1), x, 100, monkeypatch)
    assert (search.passes > 0, found.rank) == (True, 100)


@pytest.mark.parametrize("distinct", [1, 3, 20])
def test_a_search_ends_where_nothing_is_left(distinct, rng, monkeypatch):
    """However many rows there are, and so however cheap candidates: nothing but rounding is accepted."""
    x = rng.standard_normal((distinct, 4))[rng.integers(0, distinct, 50_000)]
    search, found = search_of(RBF(0.05), x, 60, monkeypatch)
    assert len(np.unique(x[search.landmarks], axis=0)) == search.rank == found.rank == distinct


@pytest.mark.parametrize("candidates", [2, 12])
def test_more_candidates_follow_the_law_of_the_first(candidates, monkeypatch):
    """The third pivot of RPCholesky has a law of its own, which no number of draws changes.

    Nor does it matter in how many parts candidates are looked at, and which are rejected at a glance.
    """
    x = np.array([[0.0], [0.1], [0.5], [1.0], [1.2], [3.0]])
    core, n = RBF(0.7)(x, x), 600
    law = np.zeros(6)
    for i in range(6):
        one = core - np.outer(core[i], core[i]) / core[i, i]
        for j in set(range(6)) - {i}:
            two = one - np.outer(one[j], one[j]) / one[j, j]
            share = np.diagonal(core)[i] / np.trace(core) * one[j, j] / np.trace(one)
            law += share * np.maximum(np.diagonal(two), 0.0) / np.trace(two)
    monkeypatch.setattr(rpcholesky, "CANDIDATES", candidates)  # many draws, or many parts of one
    monkeypatch.setattr(rpcholesky, "LEAST", 1)
    monkeypatch.setattr(rpcholesky, "ROWS_A_CANDIDATE", 0)
    drawn = np.zeros(6)
    for seed in range(n):
        search, _ = search_of(RBF(0.7), x, 3, monkeypatch, seed)
        drawn[search.landmarks[2]] += 1
    spread = np.sqrt(n * law * (1.0 - law))
    assert np.all(np.abs(drawn - n * law) <= 5.0 * spread)
