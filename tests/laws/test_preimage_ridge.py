"""Laws of the regression that leads back: what is linear in the scores, and what only seems to be."""

import numpy as np
import pytest
from sklearn.datasets import make_circles, make_swiss_roll
from threadpoolctl import threadpool_limits

from mercer import KernelPCA, load
from mercer.engine.threads import _blas_libraries
from mercer.errors import InputError
from mercer.kernels import RBF, Polynomial
from mercer.preimage import Ridge, ridge
from mercer.preimage.tuning import Sample


def circles(n):
    return make_circles(n, factor=0.3, noise=0.05, random_state=0)[0]


def roll(n):
    return make_swiss_roll(n, random_state=0)[0] / 10.0


def normal(n):
    return np.random.default_rng(3).standard_normal((n, 4))


def error(model, rows):
    return np.sqrt(np.mean((model.reconstruct(rows) - rows) ** 2))


@pytest.mark.parametrize("few", [False, True], ids=["all rows", "tuned on few"])
@pytest.mark.parametrize("degree", [2, 3])
@pytest.mark.parametrize("market", [circles, roll, normal])
def test_new_rows_come_back_but_for_rounding_where_the_way_is_linear(
    market, degree, few, monkeypatch
):
    # With all components of (γ x·x' + 1)^p the columns of x are among the features: linear in the scores.
    if few:
        monkeypatch.setattr(ridge, "tuning_sizes", lambda n, k: (70, 140))  # noqa: ARG005
    train, held = np.split(market(400), [300])
    kernel = Polynomial(degree, gamma=1.0 / train.shape[1])
    model = KernelPCA(None, kernel=kernel, preimage="ridge").fit(train)
    assert model.preimage_.method.gamma == 0.0
    assert error(model, held) < 1e-12 * held.std()
    assert model.preimage_.quality.error < 1e-12 * held.std()


def test_small_components_that_the_way_back_rests_on_do_not_count_as_swings():
    # Far from zero the squares outweigh the columns themselves, which are in the smallest components.
    train, held = np.split(normal(400) + 3.0, [300])
    model = KernelPCA(None, kernel=Polynomial(2), preimage="ridge").fit(train)
    assert model.eigenvalues_[-1] < 1e-3 * model.eigenvalues_[0]
    assert error(model, held) < 1e-10


def test_as_many_components_as_rows_do_not_look_linear(rng):
    # n rows are a linear map of their n - 1 centred scores whatever they are; new rows are not.
    x = rng.standard_normal((160, 6))
    model = KernelPCA(None, kernel=RBF(0.3), preimage="ridge").fit(x[:80])
    assert model.n_components_ == 79
    assert model.preimage_.quality.error > 0.3 * error(model, x[80:])


def test_a_curved_way_back_is_not_taken_for_a_linear_one():
    train, held = np.split(circles(400), [300])
    model = KernelPCA(5, kernel=RBF(2.0), preimage="ridge").fit(train)
    linear = KernelPCA(5, kernel=RBF(2.0), preimage=Ridge(gamma=0)).fit(train)
    assert model.preimage_.method.gamma > 0
    assert error(model, held) < 0.1 * error(linear, held)


def test_a_linear_way_back_is_kept_in_a_file_and_can_be_asked_for_again(tmp_path):
    rows = circles(200)
    model = KernelPCA(None, kernel=Polynomial(2), preimage="ridge").fit(rows)
    model.save(tmp_path / "linear.mercer")
    np.testing.assert_array_equal(
        load(tmp_path / "linear.mercer").reconstruct(rows), model.reconstruct(rows)
    )
    again = KernelPCA(None, kernel=Polynomial(2), preimage=model.preimage_.method).fit(rows)
    np.testing.assert_allclose(again.reconstruct(rows), model.reconstruct(rows), rtol=1e-12)


@pytest.mark.parametrize("gamma", [-1.0, np.inf, np.nan, False, "wide"])
def test_a_width_that_is_none_is_refused_with_what_would_do(gamma):
    with pytest.raises(InputError, match=r"gamma must be a number > 0, 0.0 or 'auto'"):
        KernelPCA(2, preimage=Ridge(gamma=gamma)).fit(normal(20))


@pytest.mark.parametrize("n", [300, 700])
def test_widths_are_tried_on_one_thread_of_blas_however_many_rows_there_are(n, monkeypatch, rng):
    """Many problems of some hundred rows: beside other work, the threads of BLAS would spin between them."""
    monkeypatch.setattr("mercer.preimage.base.ALONE_ROWS", 400)
    counts, tried = set(), Sample.tried

    def watched(self, *args):
        counts.update(each.num_threads for each in _blas_libraries())
        return tried(self, *args)

    monkeypatch.setattr(Sample, "tried", watched)
    x = rng.standard_normal((n, 4))
    with threadpool_limits(2):
        KernelPCA(3, kernel=RBF(0.1), preimage="ridge").fit(x)
    assert counts == {1}
