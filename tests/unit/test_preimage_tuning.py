"""The numbers that a ridge is chosen by, against a regression that is really done without each row."""

import numpy as np
import pytest
from sklearn.datasets import make_swiss_roll
from sklearn.kernel_ridge import KernelRidge

import mercer
from mercer.kernels import RBF, Polynomial
from mercer.preimage import Ridge, regression, ridge
from mercer.preimage.regression import Affine, Factored, solved
from mercer.preimage.tuning import PENALTIES, SKETCH, Lattice, affine_features, searched, sketched


def factored(scores, x, weights, alpha):
    return Factored.of(RBF(0.4)(scores), x, alpha / weights)


def affine(scores, x, weights, alpha):
    return Affine.of(affine_features(scores, 0.7), x, weights).at(alpha)


def reference(kind, scores, x, weights, alpha):
    """scikit-learn's regression with the same kernel."""
    knobs = {"kernel": "rbf", "gamma": 0.4}
    if kind is affine:
        knobs = {"kernel": "poly", "degree": 1, "gamma": 0.7, "coef0": 1.0}
    return KernelRidge(alpha=alpha, **knobs).fit(scores, x, sample_weight=weights)


def few_rows(rng, k):
    scores, x = rng.standard_normal((12, k)), rng.standard_normal((12, 3))
    return scores, x, rng.integers(1, 4, 12).astype(float)


@pytest.mark.parametrize("k", [2, 15])  # fewer scores than rows, and more
@pytest.mark.parametrize("kind", [factored, affine])
@pytest.mark.parametrize("alpha", [1e-3, 1e-1, 10.0])
def test_left_out_is_what_a_regression_without_the_row_misses(kind, alpha, k, rng):
    scores, x, weights = few_rows(rng, k)
    fit = kind(scores, x, weights, alpha)
    found = fit.left_out()
    for i in range(12):
        others = np.arange(12) != i
        without = reference(kind, scores[others], x[others], weights[others], alpha)
        wanted = x[i] - without.predict(scores[i : i + 1])[0]
        np.testing.assert_allclose(found[i], wanted, rtol=1e-6, atol=1e-8)
    whole = reference(kind, scores, x, weights, alpha)
    np.testing.assert_allclose(fit.coef, whole.dual_coef_, rtol=1e-6, atol=1e-8)


def test_the_whole_system_misses_of_a_few_rows_what_the_trials_miss(rng):
    scores, x, weights = few_rows(rng, 2)
    few = np.array([0, 5, 11])
    coef, missed = solved(RBF(0.4)(scores), x, 1e-2 / weights, few)
    trial = factored(scores, x, weights, 1e-2)
    np.testing.assert_allclose(coef, trial.coef, rtol=1e-9)
    np.testing.assert_allclose(missed, trial.left_out()[few], rtol=1e-9)


def test_mixed_columns_keep_lengths(rng):
    x = rng.standard_normal((400, 500))
    few = sketched(x, rng=rng)
    assert few.shape == (400, SKETCH)
    assert np.mean(few**2) * SKETCH == pytest.approx(np.mean(x**2) * 500, rel=0.05)
    assert sketched(x[:, :SKETCH], rng=rng) is not few
    np.testing.assert_array_equal(sketched(x[:, :SKETCH], rng=rng), x[:, :SKETCH])


@pytest.mark.parametrize("k", [2, 15])
@pytest.mark.parametrize("kind", [factored, affine])
@pytest.mark.parametrize("alpha", [1e-2, 1.0])
def test_moved_is_what_a_regression_without_the_row_says_beside_it(kind, alpha, k, rng):
    scores, x, weights = few_rows(rng, k)
    some, beside = np.array([1, 4, 9]), rng.standard_normal((3, k))
    kernel = RBF(0.4) if kind is factored else Polynomial(1, 0.7, coef0=1.0)
    found = kind(scores, x, weights, alpha).moved(some, kernel(beside, scores))
    for i, point, said in zip(some, beside, found, strict=True):
        others = np.arange(12) != i
        without = reference(kind, scores[others], x[others], weights[others], alpha)
        np.testing.assert_allclose(said, without.predict(point[None])[0], rtol=1e-6, atol=1e-8)


class Valley:
    """Errors with their least at one width and penalty, and a rise on the way to it."""

    floor = 0.0

    def __init__(self, gamma, alpha):
        self.gamma, self.alpha, self.asked = gamma, alpha, []

    def error(self, gamma, alpha, limit=np.inf):  # noqa: ARG002
        assert (gamma, alpha) not in self.asked, "no decomposition twice"
        self.asked.append((gamma, alpha))
        off = abs(np.log(max(gamma, 1e-9) / self.gamma)) + 0.1 * abs(np.log(alpha / self.alpha))
        return off + (3.0 if gamma != self.gamma and 0.2 < gamma < 20.0 else 0.0)


@pytest.mark.parametrize("alpha", [1e-10, 1e-4, 1.0])
@pytest.mark.parametrize("gamma", [1.0 / 64, 0.25, 1.0, 4.0, 256.0])
def test_the_least_error_is_found_beyond_a_rise(gamma, alpha):
    first, second = Valley(gamma, alpha), Valley(gamma, alpha)
    gammas = np.append(0.0, 4.0 ** np.arange(-4.0, 9.0))
    found = searched(first, second, gammas, PENALTIES)
    assert found == pytest.approx((gamma, alpha))
    assert len(first.asked) < 50
    assert len(second.asked) < 30


def test_an_error_above_the_limit_is_looked_at_again_when_it_matters():
    class Twofold(Valley):
        def error(self, gamma, alpha, limit=np.inf):  # noqa: ARG002
            self.asked.append(limit)
            return 2.0 if limit > 1.0 else 1.0  # the whole of it, and what is seen at once

    lattice = Lattice(Twofold(1.0, 1.0), np.ones(1), np.ones(1))
    assert lattice.error((0, 0), 0.5) == 1.0
    assert lattice.error((0, 0), 0.9) == 1.0
    assert len(lattice.sample.asked) == 1
    assert lattice.error((0, 0)) == 2.0
    assert lattice.error((0, 0)) == 2.0
    assert len(lattice.sample.asked) == 2


@pytest.mark.filterwarnings("ignore:1 of 200 points lie:mercer.errors.PreimageWarning")
def test_scores_beside_the_rows_do_not_leave_the_data():
    rows = make_swiss_roll(800, random_state=0)[0]
    train, held = rows[:600], rows[600:]
    spread = np.sqrt(train.var(axis=0).mean())
    noisy = held + np.random.default_rng(0).normal(scale=0.3 * spread, size=held.shape)
    model = mercer.KernelPCA(20, kernel=RBF(0.1), preimage="ridge").fit(train)
    found = model.reconstruct(noisy)
    assert np.sqrt(np.mean((found - held) ** 2)) < spread
    assert np.abs(found).max() < 2.0 * np.abs(rows).max()
    left = model.preimage_.quality.error
    for gamma in model.preimage_.method.gamma * np.array([1.0 / 256, 1.0 / 16]):
        other = mercer.KernelPCA(20, kernel=RBF(0.1), preimage=Ridge(gamma=gamma)).fit(train)
        assert left <= 1.001 * other.preimage_.quality.error


def test_the_large_system_is_solved_once_and_gives_what_the_decomposition_gives(rng, monkeypatch):
    x = rng.standard_normal((120, 3))
    small = mercer.KernelPCA(10, kernel=RBF(0.2), preimage=Ridge(1e-3, 0.5)).fit(x)
    calls = []
    factor = regression.lapack.dpotrf
    monkeypatch.setattr(
        regression.lapack, "dpotrf", lambda *a, **k: calls.append(a[0].shape) or factor(*a, **k)
    )
    large = mercer.KernelPCA(10, kernel=RBF(0.2), preimage=Ridge(1e-3, 0.5)).fit(x)
    assert calls == [(120, 120)]
    np.testing.assert_allclose(large.reconstruct(x), small.reconstruct(x), atol=1e-8)


def test_a_penalty_below_rounding_is_raised_and_told(rng, monkeypatch):
    monkeypatch.setattr(ridge, "TUNING_ROWS", 40)
    x = rng.standard_normal((120, 2))
    model = mercer.KernelPCA(3, kernel=RBF(0.01), preimage=Ridge(1e-30, 1e-4)).fit(x)
    assert 1e-30 < model.preimage_.method.alpha < 1e-10
    assert np.isfinite(model.reconstruct(x)).all()
