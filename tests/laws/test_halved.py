"""Fits by products of half floats: what a device does, by an engine of NumPy's that rounds as one would."""

from dataclasses import dataclass, replace

import numpy as np
import pytest
from scipy.linalg import eigh
from sklearn.metrics.pairwise import rbf_kernel

from mercer import KernelPCA, load
from mercer.engine.numpy import NumpyEngine
from mercer.kernels import RBF
from mercer.planning.plan import plan
from mercer.planning.problem import Problem
from mercer.planning.recipe import Halved, Tiles
from mercer.solvers import BlockKrylov, krylov

N, GAMMA = 3200, 0.1


@dataclass(frozen=True)
class HalfEngine(NumpyEngine):
    """Rows as half floats for rough products, and as float32 (or worse, by `error`) for the others."""

    parts: int = 2
    error: float = 0.0

    def facts(self):
        return replace(super().facts(), halves=lambda _kernel: self.parts)

    def load(self, x, kernel, dtype, **advice):
        rows = super().load(x, kernel, dtype, **advice)
        rows.given = x.plain() if hasattr(x, "plain") else x  # rows that were taken are ready ones
        return rows

    def gram_times(self, kernel, x, v, *, rough=False):
        rounding, rows = x.store.rounding, x.given
        if rounding is None:
            return super().gram_times(kernel, x, v)
        if not rough and rounding.halves < 2:
            plain = self.load(rows, kernel, x.dtype, width=x.width)
            return super().gram_times(kernel, plain, v) - x.store.minus * v.sum(axis=0)
        rows = rows.astype(np.float16 if rough else np.float32).astype(np.float64)
        rows = self.load(rows, kernel, np.dtype("f8"), width=x.width)
        product = super().gram_times(kernel, rows, v) - x.store.minus * v.sum(axis=0)
        off = 0.0 if rough else self.error * np.cos(np.arange(x.n))[:, None]
        return product + off * np.linalg.norm(product, axis=0) / np.sqrt(x.n)


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(0)
    return (rng.standard_normal((N, 12)) / np.sqrt(1.0 + np.arange(12))).astype(np.float32)


@pytest.fixture(scope="module")
def exact(rows):
    """The centred matrix and its largest eigenvalues, by scikit-learn and LAPACK."""
    k = rbf_kernel(rows.astype(np.float64), gamma=GAMMA)
    k -= k.mean(axis=0)
    k -= k.mean(axis=1)[:, None]
    return k, eigh(k, eigvals_only=True, subset_by_index=[N - 8, N - 1])[::-1]


def true_residuals(model, matrix):
    u, values = np.asarray(model.eigenvectors_, dtype=np.float64), model.eigenvalues_
    return np.linalg.norm(matrix @ u - u * values, axis=0) / values[0]


@pytest.mark.parametrize("parts", [1, 2])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_what_is_told_holds(rows, exact, parts, dtype):
    matrix, expected = exact
    model = KernelPCA(8, kernel=RBF(GAMMA), engine=HalfEngine(2, parts), random_state=0)
    model.fit(rows.astype(dtype))
    assert isinstance(model.plan_.recipe, Halved)
    assert model.plan_.recipe.parts == parts
    told = model.fit_.pairs.residuals
    # The tolerance; eigenvectors are handed out in the precision of the rows, which is told too.
    assert np.all(told <= (1e-6 if dtype == np.float64 else 2e-6))
    assert np.all(true_residuals(model, matrix) <= told)
    np.testing.assert_allclose(model.eigenvalues_, expected, atol=2e-6 * expected[0])


def test_a_start_that_is_solved_as_the_whole_is(rows, exact, monkeypatch):
    """From more landmarks than LAPACK is asked about: a fit of a fit, by half floats too."""
    monkeypatch.setattr(krylov, "DENSE_LANDMARKS", 60)
    asked = []
    among = krylov.KrylovSearch._among

    def counted(self, chosen, k):
        asked.append(len(chosen))
        return among(self, chosen, k)

    monkeypatch.setattr(krylov.KrylovSearch, "_among", counted)
    matrix, expected = exact
    model = KernelPCA(8, kernel=RBF(GAMMA), engine=HalfEngine(2, 2), random_state=0).fit(rows)
    assert asked
    assert asked[0] > 60
    told = model.fit_.pairs.residuals
    assert np.all(true_residuals(model, matrix) <= told)
    assert np.all(told <= 2e-6)
    np.testing.assert_allclose(model.eigenvalues_, expected, atol=2e-6 * expected[0])


def test_products_that_are_worse_than_they_should_be_are_found_out(rows, exact):
    """Rows in float64 show it, and float64 tiles take their place."""
    matrix, expected = exact
    fit = KernelPCA(8, kernel=RBF(GAMMA), engine=HalfEngine(2, 2, 1e-3), random_state=0).fit
    model = fit(rows.astype(np.float64))
    assert np.all(true_residuals(model, matrix) <= model.fit_.pairs.residuals)
    assert np.all(model.fit_.pairs.residuals <= 1.1e-6)
    np.testing.assert_allclose(model.eigenvalues_, expected, rtol=1e-9)


@pytest.mark.parametrize("gamma", [0.1, 0.02])
def test_small_components_are_held_to_the_same_rules(gamma):
    """λ₄₀ is a ten thousandth of λ₁ and less: within a thousandth of itself, none dropped, nor another's
    mean in the scores of new rows."""
    x = np.random.default_rng(1).standard_normal((N, 3))
    model = KernelPCA(40, kernel=RBF(gamma), engine=HalfEngine(2, 2), random_state=0).fit(x)
    usual = KernelPCA(40, kernel=RBF(gamma), engine="numpy", random_state=0).fit(x)
    assert len(model.eigenvalues_) == len(usual.eigenvalues_) == 40
    values = usual.eigenvalues_
    np.testing.assert_allclose(model.eigenvalues_, values, atol=1e-6 * values[0], rtol=1e-3)
    assert np.all(model.fit_.pairs.residuals <= np.minimum(1.1e-6, 1.1e-3 * values / values[0]))
    new, spread = x[:50] + 0.1, np.sqrt(values / N)
    reached = np.linalg.norm(model.transform(new), axis=1) ** 2
    expected = np.linalg.norm(usual.transform(new), axis=1) ** 2
    assert np.all(np.abs(reached - expected) <= 2e-3 * spread[0] ** 2)
    means = model.transform(x).mean(axis=0)  # zero, but for what is wrong with the offset
    assert np.all(np.abs(means) <= 1e-4 * spread)


def test_after_a_fallback_means_and_trace_are_exact_too(rows, exact):
    matrix, _ = exact
    model = KernelPCA(8, kernel=RBF(GAMMA), engine=HalfEngine(2, 2, 1e-3), random_state=0)
    model.fit(rows.astype(np.float64))
    means = model.transform(rows.astype(np.float64)).mean(axis=0)
    assert np.all(np.abs(means) <= 1e-10 * np.sqrt(model.eigenvalues_ / N))
    assert model.fit_.total == pytest.approx(np.trace(matrix), rel=1e-12)


def test_a_tight_tolerance_is_left_to_tiles(rows, exact):
    matrix, expected = exact
    solver = BlockKrylov(tol=1e-9)
    model = KernelPCA(8, kernel=RBF(GAMMA), solver=solver, engine=HalfEngine(), random_state=0)
    model.fit(rows.astype(np.float64))
    assert isinstance(model.plan_.recipe, Tiles)
    assert np.all(true_residuals(model, matrix) <= 1e-9)
    np.testing.assert_allclose(model.eigenvalues_, expected, rtol=1e-12)


def test_a_file_of_such_a_model_loads(rows, tmp_path):
    model = KernelPCA(2, kernel=RBF(GAMMA), engine=HalfEngine(), random_state=0).fit(rows)
    model.save(tmp_path / "m.mercer")
    again = load(tmp_path / "m.mercer")
    assert str(again.plan_) == str(model.plan_)
    np.testing.assert_allclose(again.transform(rows[:5]), model.transform(rows[:5]), atol=1e-6)


def test_the_plan_says_so():
    problem = Problem(200_000, 50, 20, itemsize=4, shift_invariant=True, halves=2, engine="cuda:0")
    text = str(plan(problem))
    assert "K in products of half floats, checked by rows in float64, none stored by cuda:0" in text
    assert "two to prove" in text
    one = str(plan(replace(problem, halves=1)))
    assert "proved by tiles" in one
    few = plan(
        replace(problem, budget_bytes=10**9)
    )  # rows in half floats, their sums: more than a budget
    assert not isinstance(few.recipe, Halved)
    assert few.n_bytes <= 10**9


@pytest.mark.parametrize("n", [100, 2000])
def test_few_rows_need_none(n):
    assert not isinstance(plan(Problem(n, 5, 2, shift_invariant=True, halves=2)).recipe, Halved)
