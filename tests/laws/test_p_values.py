"""Laws of p-values: those of a detector are uniform for normal rows, and agree with what it predicts."""

import numpy as np
import pytest
from scipy import stats
from sklearn.model_selection import KFold

import mercer
from conftest import frozen
from mercer import PCA, KernelPCADetector, Prepared
from mercer.errors import InputError
from mercer.monitoring.limits import Calibration
from mercer.monitoring.statistics import STATISTICS
from mercer.preprocessing.preparation import Preparation

# T² alone does not see rows far from everything, and a detector says so.
pytestmark = pytest.mark.filterwarnings("ignore:A row far from everything")
MIXING = np.random.default_rng(3).standard_normal((2, 4))


def normal_rows(n, seed):
    rng = np.random.default_rng(seed)
    return frozen(rng.standard_normal((n, 2)) @ MIXING + 0.3 * rng.standard_normal((n, 4)))


def detector(**params):
    shuffled = KFold(5, shuffle=True, random_state=0)
    return KernelPCADetector(**{"n_components": 2, "folds": shuffled, **params})


FEW, MANY = normal_rows(150, 0), normal_rows(700, 1)
FRESH = normal_rows(4000, 2)
FAR = frozen(FRESH[:300] * np.linspace(1.0, 12.0, 300)[:, None])


@pytest.mark.parametrize("statistic", STATISTICS)
def test_they_are_uniform_for_fresh_rows_of_the_same_process(statistic):
    model = detector(statistic=statistic).fit(MANY)
    p = model.p_values(FRESH)
    for level in (0.01, 0.05, 0.2, 0.5, 0.8):
        # The rank among n rows held out is a beta variable, of which m fresh rows are a binomial sample.
        # Four standard deviations of both; models of four fifths of the rows shift it by less than one.
        spread = np.sqrt(level * (1 - level) * (1 / len(MANY) + 1 / len(FRESH)))
        assert abs(np.mean(p <= level) - level) < 4.0 * spread + 1 / len(MANY)
    assert p.min() >= 1 / (len(MANY) + 1)
    assert p.max() <= 1.0


@pytest.mark.parametrize("rate", [0.002, 0.01, 0.05, 0.3])
@pytest.mark.parametrize("statistic", STATISTICS)
@pytest.mark.parametrize("rows", [FEW, MANY], ids=["few", "many"])
def test_an_outlier_is_a_row_whose_p_value_is_at_most_the_rate(rows, statistic, rate):
    weights = np.arange(len(rows)) % 3 + 1.0
    for counts in (None, weights):
        model = detector(statistic=statistic, false_alarm=rate).fit(rows, sample_weight=counts)
        new = np.concatenate([FAR, FRESH[:500]])
        p, labels = model.p_values(new), model.predict(new)
        assert {-1, 1} <= set(labels)
        np.testing.assert_array_equal(p <= rate, labels == -1)


def test_rows_farther_out_have_smaller_ones():
    model = detector().fit(MANY)
    order = np.argsort(model.score_samples(FAR))
    assert np.all(np.diff(model.p_values(FAR)[order]) >= 0)


def test_the_count_is_that_of_a_permutation_test(rng):
    held, new = rng.standard_normal(50), rng.standard_normal(20)
    found = Calibration(np.sort(held), None, few=False)(new)
    for value, p in zip(new, found, strict=True):
        assert p == pytest.approx((1 + np.sum(held >= value)) / 51, abs=1e-15)
    counts = rng.integers(1, 4, 50)
    order = np.argsort(held)
    weighted = Calibration(held[order], counts[order].astype(float), few=False)(new)
    repeated = Calibration(np.sort(np.repeat(held, counts)), None, few=False)(new)
    np.testing.assert_allclose(weighted, repeated, rtol=1e-14)


def test_beyond_few_rows_the_chi_squared_distribution_counts():
    held = np.sort(stats.chi2(3).rvs(80, random_state=0))
    far = np.array([held[-1] * 3])
    g, h = held.var(ddof=1) / (2 * held.mean()), 2 * held.mean() ** 2 / held.var(ddof=1)
    found = Calibration(held, None, few=True)(far)
    assert found[0] == pytest.approx(stats.chi2(h).sf(far[0] / g), rel=1e-12)
    assert found[0] < 1 / 81


def test_they_need_rows_held_out():
    for params in ({"contamination": 0.1}, {"limits": "approximate"}):
        with pytest.raises(InputError, match="limits='cross-validation'"):
            detector(**params).fit(MANY).p_values(FRESH[:3])


def test_they_go_through_a_file_and_behind_a_preparation(tmp_path):
    model = detector(model=PCA(2)).fit(MANY)
    model.save(tmp_path / "d.mercer")
    again = mercer.load(tmp_path / "d.mercer")
    np.testing.assert_array_equal(again.p_values(FAR), model.p_values(FAR))
    prepared = Prepared(Preparation(numbers=("a", "b", "c", "d")), model)
    np.testing.assert_array_equal(prepared.p_values(FAR), model.p_values(FAR))


def test_they_keep_the_precision_of_the_rows():
    model = detector().fit(MANY.astype(np.float32))
    p = model.p_values(np.vstack([FAR, 1e30 * FAR[:1]]))
    assert p.dtype == np.float32
    assert np.all(p > 0)


def test_dask_rows_get_lazy_ones():
    da = pytest.importorskip("dask.array")
    model = detector().fit(MANY)
    lazy = model.p_values(da.from_array(FRESH[:100], chunks=(30, 4)))
    np.testing.assert_allclose(lazy.compute(), model.p_values(FRESH[:100]), atol=1e-12)
