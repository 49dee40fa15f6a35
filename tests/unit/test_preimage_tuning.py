"""The numbers that a ridge is chosen by, against a regression that is really done without each row."""

import numpy as np
import pytest
from sklearn.datasets import make_swiss_roll
from sklearn.kernel_ridge import KernelRidge

import mercer
from mercer.kernels import RBF
from mercer.preimage import Ridge, ridge
from mercer.preimage.tuning import SKETCH, Spectrum, Trial, best_width, sketched, widths


@pytest.mark.parametrize("alpha", [1e-6, 1e-2, 10.0])
def test_left_out_is_what_a_regression_without_the_row_misses(alpha, rng):
    scores, x = rng.standard_normal((12, 2)), rng.standard_normal((12, 3))
    spectrum = Spectrum.of(RBF(0.4), scores)
    found = spectrum.left_out(x, np.array([alpha]))[0]
    for i in range(12):
        others = np.arange(12) != i
        reference = KernelRidge(alpha=alpha, kernel="rbf", gamma=0.4).fit(scores[others], x[others])
        wanted = x[i] - reference.predict(scores[i : i + 1])[0]
        np.testing.assert_allclose(found[i], wanted, rtol=1e-5, atol=1e-7)
    reference = KernelRidge(alpha=alpha, kernel="rbf", gamma=0.4).fit(scores, x)
    np.testing.assert_allclose(spectrum.coef(x, alpha), reference.dual_coef_, rtol=1e-5)


def test_mixed_columns_keep_lengths(rng):
    x = rng.standard_normal((400, 500))
    few = sketched(x, rng=rng)
    assert few.shape == (400, SKETCH)
    assert np.mean(few**2) * SKETCH == pytest.approx(np.mean(x**2) * 500, rel=0.05)
    assert sketched(x[:, :SKETCH], rng=rng) is not few
    np.testing.assert_array_equal(sketched(x[:, :SKETCH], rng=rng), x[:, :SKETCH])


@pytest.mark.parametrize("alpha", [1e-3, 1.0])
def test_moved_is_what_a_regression_without_the_row_misses_beside_it(alpha, rng):
    scores, x = rng.standard_normal((12, 2)), rng.standard_normal((12, 3))
    some, beside = np.array([1, 4, 9]), rng.standard_normal((3, 2))
    spectrum = Spectrum.of(RBF(0.4), scores)
    found = spectrum.moved(x, np.array([alpha]), some, RBF(0.4)(beside, scores))
    missed = []
    for i, point in zip(some, beside, strict=True):
        others = np.arange(12) != i
        reference = KernelRidge(alpha=alpha, kernel="rbf", gamma=0.4).fit(scores[others], x[others])
        missed.append(x[i] - reference.predict(point[None])[0])
    assert found == pytest.approx([np.mean(np.square(missed))], rel=1e-5)


@pytest.mark.parametrize("least", [1.0 / 64, 0.25, 1.0, 4.0, 256.0])
def test_the_least_error_is_found_beyond_a_rise(least):
    asked = []

    def tried(gamma):
        asked.append(gamma)
        rises = 3.0 if gamma != least and 0.2 < gamma < 20.0 else 0.0
        return Trial(gamma, 1.0, abs(np.log(gamma / least)) + rises, None)

    assert best_width(widths(1.0), tried).gamma == least
    assert len(asked) == len(set(asked)) == 9  # no decomposition twice


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
    factor = ridge.linalg.cho_factor
    monkeypatch.setattr(ridge, "TUNING_ROWS", 40)
    monkeypatch.setattr(
        ridge.linalg, "cho_factor", lambda *a, **k: calls.append(a[0].shape) or factor(*a, **k)
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
