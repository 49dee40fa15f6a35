"""The numbers that a ridge is chosen by, against a regression that is really done without each row."""

import numpy as np
import pytest
from sklearn.datasets import make_swiss_roll
from sklearn.kernel_ridge import KernelRidge

import mercer
from mercer.engine.native import compiled
from mercer.kernels import RBF, Polynomial
from mercer.preimage import Ridge, regression
from mercer.preimage.regression import Spectrum, Tridiagonal, solved
from mercer.preimage.ridge import tuning_sizes
from mercer.preimage.tuning import (
    NARROWEST,
    PENALTIES,
    SKETCH,
    WIDEST,
    Look,
    Sample,
    Trial,
    affine_features,
    searched,
    sketched,
)


def gaussian(scores, weights):
    return Spectrum.of_kernel(RBF(0.4)(scores), weights)


def tridiagonal(scores, weights):
    return Tridiagonal.of_kernel(RBF(0.4)(scores), weights, compiled())


def affine(scores, weights):
    return Spectrum.of_features(affine_features(scores, 0.7), weights)


built = pytest.mark.skipif(compiled() is None, reason="no compiler when mercer was installed")
KINDS = [gaussian, affine, pytest.param(tridiagonal, marks=built)]


@built
@pytest.mark.parametrize("n", [8, 9, 31, 64, 101, 240, 241])
@pytest.mark.parametrize("size", [1e-3, 1.0, 1e3])
@pytest.mark.parametrize("name", ["gaussian", "diagonal", "of rank one"])
def test_the_tridiagonal_form_is_the_matrix_in_another_basis(name, n, size, rng):
    """κ = Q T Qᵀ with an orthogonal Q, of reflections by the library and, of more rows, by LAPACK's."""
    scores = rng.standard_normal((n, 3))
    matrices = {
        "gaussian": RBF(0.4)(scores) + scores @ scores.T,
        "diagonal": np.diag(rng.uniform(size=n)),
        "of rank one": np.ones((n, n)),
    }
    kappa = size * matrices[name]
    form = Tridiagonal.of_kernel(kappa.copy(), np.ones(n), compiled())
    q, t = form.left, np.diag(form.diagonal) + np.diag(form.off, 1) + np.diag(form.off, -1)
    eps = np.finfo(float).eps
    # n reflections, each orthogonal to a few units and rounded to n units of what it turns at most.
    assert np.abs(q.T @ q - np.eye(n)).max() < 10.0 * n * eps
    assert np.abs(q @ t @ q.T - kappa).max() < 10.0 * n * eps * np.linalg.norm(kappa, 2)
    assert not form.turned[:, n:].any()


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
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("alpha", [1e-3, 1e-1, 10.0])
def test_left_out_is_what_a_regression_without_the_row_misses(kind, alpha, k, rng):
    scores, x, weights = few_rows(rng, k)
    fit = kind(scores, weights).of(x)
    found = fit.left_out(alpha)
    for i in range(12):
        others = np.arange(12) != i
        without = reference(kind, scores[others], x[others], weights[others], alpha)
        wanted = x[i] - without.predict(scores[i : i + 1])[0]
        np.testing.assert_allclose(found[i], wanted, rtol=1e-6, atol=1e-8)
    whole = reference(kind, scores, x, weights, alpha)
    np.testing.assert_allclose(fit.coef(alpha), whole.dual_coef_, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("k", [2, 15])
@pytest.mark.parametrize("kind", KINDS)
def test_all_penalties_at_once_miss_what_each_misses_alone(kind, k, rng):
    scores, x, weights = few_rows(rng, k)
    fit, alphas = kind(scores, weights).of(x), np.array([1e-6, 1e-2, 10.0])
    wanted = [float(weights @ np.sum(fit.left_out(alpha) ** 2, axis=1)) for alpha in alphas]
    np.testing.assert_allclose(fit.left_out_errors(alphas), wanted, rtol=1e-8)


@built
@pytest.mark.parametrize(
    "d", [1, 4, 7, 12, 16, 21]
)  # columns: four, eight and sixteen share a look
@pytest.mark.parametrize("n", [8, 9, 15, 16, 17, 40, 101])  # rows: whole vectors, and a part of one
def test_the_tridiagonal_form_says_what_the_spectrum_says(n, d, rng):
    scores, x, weights = rng.standard_normal((n, 3)), rng.standard_normal((n, d)), np.ones(n)
    weights[::3] = 2.0
    alphas, some, beside = np.logspace(-3, 1, 5), np.arange(0, n, 3), rng.standard_normal((n, 3))
    form, whole = tridiagonal(scores, weights), gaussian(scores, weights)
    np.testing.assert_allclose(form.left @ form.left.T, np.eye(n), atol=1e-13)
    found, wanted = form.of(x), whole.of(x)
    # Both are those of a κ that is off by some eps n, 1e-14, of which a penalty of 1e-3 makes a thousandfold.
    close = {"rtol": 1e-7, "atol": 1e-9}
    np.testing.assert_allclose(
        found.left_out_errors(alphas), wanted.left_out_errors(alphas), **close
    )
    near = RBF(0.4)(beside[some], scores)
    for alpha in alphas:
        np.testing.assert_allclose(found.coef(alpha) * alpha, wanted.coef(alpha) * alpha, **close)
        np.testing.assert_allclose(
            found.left_out(alpha, some), wanted.left_out(alpha, some), **close
        )
        np.testing.assert_allclose(
            found.moved(alpha, some, form.seen(near)),
            wanted.moved(alpha, some, whole.seen(near)),
            **close,
        )


@built
def test_a_penalty_that_rounding_swallows_has_no_errors(rng):
    x = rng.standard_normal((20, 2))
    fit = Tridiagonal.of_kernel(-1e-9 * np.eye(20), np.ones(20), compiled()).of(x)
    assert np.isfinite(fit.left_out_errors(np.array([1e-10, 1e-8]))).tolist() == [False, True]
    with pytest.raises(np.linalg.LinAlgError, match="below the rounding"):
        Tridiagonal.of_kernel(-1e-9 * np.eye(20), np.ones(20), compiled()).of(x).coef(1e-10)


def test_the_whole_system_misses_of_its_last_rows_what_the_trials_miss(rng):
    scores, x, weights = few_rows(rng, 2)
    coef, missed = solved(RBF(0.4)(scores), x, 1e-2 / weights, 3)
    trial = gaussian(scores, weights).of(x)
    np.testing.assert_allclose(coef, trial.coef(1e-2), rtol=1e-9)
    np.testing.assert_allclose(missed, trial.left_out(1e-2)[-3:], rtol=1e-9)


def test_mixed_columns_keep_lengths(rng):
    x = rng.standard_normal((400, 500))
    few = sketched(x, rng=rng)
    assert few.shape == (400, SKETCH)
    assert np.mean(few**2) * SKETCH == pytest.approx(np.mean(x**2) * 500, rel=0.05)
    assert sketched(x[:, :SKETCH], rng=rng) is not few
    np.testing.assert_array_equal(sketched(x[:, :SKETCH], rng=rng), x[:, :SKETCH])


@pytest.mark.parametrize("k", [2, 15])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("alpha", [1e-2, 1.0])
def test_moved_is_what_a_regression_without_the_row_says_beside_it(kind, alpha, k, rng):
    scores, x, weights = few_rows(rng, k)
    some, beside = np.array([1, 4, 9]), rng.standard_normal((3, k))
    kernel = Polynomial(1, 0.7, coef0=1.0) if kind is affine else RBF(0.4)
    spectrum = kind(scores, weights)
    found = spectrum.of(x).moved(alpha, some, spectrum.seen(kernel(beside, scores)))
    for i, point, said in zip(some, beside, found, strict=True):
        others = np.arange(12) != i
        without = reference(kind, scores[others], x[others], weights[others], alpha)
        np.testing.assert_allclose(said, without.predict(point[None])[0], rtol=1e-6, atol=1e-8)


def test_the_penalty_is_the_best_of_all_though_few_are_looked_at(rng):
    scores = rng.standard_normal((60, 2))
    x = np.tanh(scores @ rng.standard_normal((2, 3))) + 0.1 * rng.standard_normal((60, 3))
    sample = Sample(scores, x, np.ones(60), 0.5)
    for gamma in (0.0, 0.05, 0.5, 2.0):
        errors = sample.spectrum(gamma).of(x).left_out_errors(PENALTIES[2:]) / x.size
        trial = sample.tried(gamma, PENALTIES)
        assert trial.error == pytest.approx(errors.min())
        assert trial.alpha == PENALTIES[2:][errors.argmin()]


class Valley:
    """Errors with their least at one width, and a rise on the way to it."""

    of_mean = 1e4

    def __init__(self, least, rise):
        self.least, self.rise, self.asked = least, rise, []

    def tried(self, gamma, alphas, limit=np.inf):  # noqa: ARG002
        assert gamma not in self.asked, "no decomposition twice"
        self.asked.append(gamma)
        step = round(np.log(gamma) / np.log(4.0)) if gamma else WIDEST - 9
        error = 1.0 + abs(step - self.least)
        if step == self.least - 1:
            error += self.rise
        return Trial(gamma, 1.0, error, None)


@pytest.mark.parametrize("rise", [0.0, 1.1])  # 3.1 after 3.0
@pytest.mark.parametrize("least", range(WIDEST, NARROWEST + 1))
def test_the_least_error_is_found_from_where_fewer_rows_begin(least, rise):
    first, second = Valley(min(least, 1), 0.0), Valley(least, rise)
    found = searched(Look(first, 1.0, PENALTIES), Look(second, 1.0, PENALTIES))
    assert found.gamma == 4.0**least
    assert len(first.asked) <= 3
    assert len(second.asked) <= 5 + max(0, least - 1)


@pytest.mark.parametrize("least", range(WIDEST, NARROWEST + 1))
def test_one_look_at_all_rows_walks_without_a_wide_scan(least):
    look = Look(valley := Valley(least, 0.0), 1.0, PENALTIES)
    assert searched(look, look).gamma == 4.0**least
    wide = 4.0**-3 in valley.asked
    assert wide == (least < -1)  # two of them on the way, or beside the least
    assert len(valley.asked) <= 5 + max(0, least - 1, -1 - least)


def test_one_look_crosses_a_flat_rise_on_its_way_to_wider_ones():
    class Flat(Valley):
        def tried(self, gamma, alphas, limit=np.inf):
            trial = super().tried(gamma, alphas, limit)
            step = round(np.log(gamma) / np.log(4.0)) if gamma else None
            error = {-1: 1.0, -2: 1.01, -3: 0.99}.get(step, 1.2)
            return Trial(gamma, 1.0, error, trial.spectrum)

    look = Look(Flat(0, 0.0), 1.0, PENALTIES)
    assert searched(look, look).gamma == 4.0**-3


def test_a_linear_way_back_is_always_tried():
    class Lined(Valley):
        def tried(self, gamma, alphas, limit=np.inf):
            trial = super().tried(gamma, alphas, limit)
            return trial if gamma else Trial(0.0, 1.0, 0.5, None)

    look = Look(Lined(0, 0.0), 1.0, PENALTIES)
    assert searched(look, look).gamma == 0.0


@pytest.mark.parametrize("k", [1, 2, 50, 4000])
def test_trials_take_all_of_few_rows_and_a_shrinking_share_of_many(k):
    for n in range(1, 101):
        assert tuning_sizes(n, k)[1] == n
    for n in (200, 1000, 5000):
        first, second = tuning_sizes(n, k)
        assert 64 <= first <= second <= n
        assert tuning_sizes(2 * n, k)[1] <= 2 * second


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


def test_a_penalty_below_rounding_is_raised_and_told(rng):
    x = rng.standard_normal((120, 2))
    model = mercer.KernelPCA(3, kernel=RBF(0.01), preimage=Ridge(1e-30, 1e-4)).fit(x)
    assert 1e-30 < model.preimage_.method.alpha < 1e-10
    assert np.isfinite(model.reconstruct(x)).all()
