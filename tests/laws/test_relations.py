"""Laws of relations: an onset is the likelihood ratio of a refit, shrinkage the best of held-out rows."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy import signal
from scipy.stats import multivariate_normal

import mercer
from mercer import PCA, AlarmRule, KernelPCADetector
from mercer.engine.moments import Moments
from mercer.kernels import RBF, Polynomial
from mercer.monitoring.alarms import gains
from mercer.monitoring.contributions import MOST_COLUMNS, SHRINKAGE, STRETCHES, Relations, shrinkage

NAMES = ("a", "b", "c", "d", "e")
PASTS = {"none": {}, "lags": {"lags": 2}, "both": {"lags": 1, "smoothing": 0.3}}


def process(n: int, *, seed: int = 0) -> np.ndarray:
    """Two causes that remember behind five sensors."""
    rng = np.random.default_rng(seed)
    causes = signal.lfilter([1.0], [1.0, -0.3], rng.standard_normal((n, 2)), axis=0)
    mixing = np.random.default_rng(99).standard_normal((2, 5))
    return causes @ mixing + 0.2 * rng.standard_normal((n, 5))


def fitted(**knobs) -> KernelPCADetector:
    return KernelPCADetector(model=PCA(0.99), **knobs).fit(process(2000))


def covariance(relations: Relations) -> np.ndarray:
    whiten = relations.whiten
    return np.linalg.inv(whiten @ whiten.T)


def test_the_covariance_is_that_of_the_rows_with_a_share_of_its_diagonal():
    detector = fitted()
    x = detector._judge.scaled(process(2000))
    own, seen = np.cov(x.T, bias=True), covariance(detector._baselines.relations)
    np.testing.assert_allclose(np.diag(seen), np.diag(own), rtol=1e-9)
    off = ~np.eye(5, dtype=bool)
    shares = 1.0 - seen[off] / own[off]
    np.testing.assert_allclose(shares, shares[0], rtol=1e-6)
    assert np.isclose(shares[0], SHRINKAGE, rtol=1e-6).any()


@pytest.mark.parametrize("n", [30, 600])
def test_the_share_is_that_with_the_likeliest_rows_held_out(n):
    """By SciPy's density; a few rows are shrunk more than many."""
    x = process(n) / process(600).std(axis=0)
    parts = np.array_split(x, STRETCHES)
    unit = x.std(axis=0)
    found = shrinkage([Moments.of(part) for part in parts], unit, np.ones(5, dtype=bool))
    told = []
    for share in SHRINKAGE:
        total = 0.0
        for i, part in enumerate(parts):
            rest = np.concatenate(parts[:i] + parts[i + 1 :])
            s = (1.0 - share) * np.cov(rest.T, bias=True) + share * np.diag(unit**2)
            total += multivariate_normal(rest.mean(axis=0), s).logpdf(part).sum()
        told.append(total)
    assert found == SHRINKAGE[np.argmax(told)]
    assert found > 1e-3 if n == 30 else found < 1e-1


@pytest.mark.parametrize("name", PASTS)
def test_a_gain_is_the_likelihood_ratio_of_a_deviation(name):
    """Against a regression by generalised least squares on each way in turn: what of x'S⁻¹x it explains."""
    detector = fitted(**PASTS[name])
    base = detector._baselines
    ways = detector._past.ways(detector._scale.unit)
    every = np.eye(5)[:, None, :] if ways is None else ways
    rows, _ = detector._past.rows(process(300, seed=1))
    x = detector._judge.scaled(rows)[::40]
    root = np.linalg.cholesky(np.linalg.inv(covariance(base.relations)))  # whitens rows
    y = (x - base.relations.middle) @ root
    found = gains(base.measure(None), base, x, ways)
    whole = np.sum(y**2, axis=1)
    inside = 0
    for j in range(5):
        fits = [np.linalg.lstsq((w @ root)[:, None], y.T, rcond=None) for w in every[j]]
        left = np.min([f[1] if len(f[1]) else whole for f in fits], axis=0)
        at = np.max([np.abs(x[:, j] - f[0][0]) for f in fits], axis=0)
        near = at < 3.5  # a value within four spreads of normal
        inside += near.sum()
        np.testing.assert_allclose(found[near, j], 1.0 - left[near] / whole[near], atol=1e-6)
    assert inside > 20


@pytest.mark.parametrize("name", PASTS)
@pytest.mark.parametrize("column", range(5))
def test_a_sensor_that_is_off_is_named_at_once(name, column):
    detector = fitted(**PASTS[name])
    run = process(200, seed=2)
    run[100:, column] += 1.5 * run[:, column].std()
    events = detector.events(run, names=NAMES, rule=AlarmRule())
    event = next(one for one in events if one.last >= 100)
    assert event.onset[0][0] == NAMES[column]


@pytest.mark.filterwarnings("ignore::mercer.errors.DetectorWarning")
def test_only_what_is_straight_has_relations():
    x, knobs = process(400), {"limits": "approximate"}
    for kernel in ("auto", "linear", Polynomial(1)):
        assert KernelPCADetector(kernel=kernel, **knobs).fit(x)._baselines.relations is not None
    for model in (
        KernelPCADetector(kernel="rbf", n_components=20),
        KernelPCADetector(kernel=Polynomial(3)),
    ):
        assert model.set_params(**knobs).fit(x)._baselines.relations is None
    for statistic in ("T2", "Q"):  # which ask for less than all relations
        assert KernelPCADetector(statistic=statistic, **knobs).fit(x)._baselines.relations is None


def test_columns_have_a_limit():
    gauge = fitted()._gauge
    x = np.zeros((20, MOST_COLUMNS + 1))
    assert Relations.of(gauge.space, gauge.variances, x) is None


@pytest.mark.filterwarnings("ignore::mercer.errors.DetectorWarning")
def test_a_kernel_that_bends_is_asked_for_its_index():
    detector = KernelPCADetector(kernel=RBF(0.3), n_components=20).fit(process(400))
    base = detector._baselines
    assert base.measure(detector.predict) == detector.predict


def test_relations_change_no_verdict():
    detector, run = fitted(lags=1), process(300, seed=3) * 1.3
    bare = fitted(lags=1)
    bare._baselines = replace(bare._baselines, relations=None)
    told, plain = (one.monitor(run, names=NAMES).table for one in (detector, bare))
    for name in told.columns:
        np.testing.assert_array_equal(told[name], plain[name])
    assert told["alarm"].any()


def test_weights_are_copies():
    x = process(200)
    space = KernelPCADetector(model=PCA(5)).fit(x)._gauge
    # Copies stand in the stretch of their row where every row has as many.
    twice = Relations.of(space.space, space.variances, np.repeat(x, 2, axis=0))
    weighted = Relations.of(space.space, space.variances, x, np.full(200, 2.0))
    np.testing.assert_allclose(covariance(weighted), covariance(twice), rtol=1e-9)


def test_a_column_that_never_moved_is_blamed_when_it_does():
    x = np.column_stack([process(400), np.full(400, 7.0)])
    with pytest.warns(UserWarning, match="do not change"):
        detector = KernelPCADetector(model=PCA(0.99)).fit(x)
    run = np.column_stack([process(60, seed=4), np.full(60, 7.0)])
    run[30:, 5] += 3.0
    event = detector.events(run, rule=AlarmRule())[-1]
    assert event.onset[0][0] == "x5"


def test_a_file_without_relations_names_by_the_index(tmp_path):
    detector, run = fitted(lags=1), process(200, seed=5)
    run[100:, 2] += 4.0
    detector.save(tmp_path / "d.mercer")
    again = mercer.load(tmp_path / "d.mercer")
    assert np.array_equal(again._baselines.relations.whiten, detector._baselines.relations.whiten)
    assert str(again.events(run)) == str(detector.events(run))
    detector._baselines = replace(detector._baselines, relations=None)
    detector.save(tmp_path / "old.mercer")
    old = mercer.load(tmp_path / "old.mercer").events(run)
    assert str(old) == str(detector.events(run))
    assert [e.onset[0][0] for e in old][-1] == "x2"
