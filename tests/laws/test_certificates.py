"""No true eigenvalue lies outside of the bounds that a low-rank fit hands over, and they say something."""

import re

import numpy as np
import pytest

from conftest import frozen
from markets.kernels import INDEFINITE, VALID
from mercer import KernelPCA
from mercer._core.errors import InputError, KernelError
from mercer._core.observer import SILENT
from mercer.approximations import Nystrom, RandomFourier, RPCholesky
from mercer.kernels import RBF, Custom, Laplacian, Linear, Matern, Polynomial
from mercer.model import certificate as certificates
from mercer.model import lowrank
from mercer.model.certificate import refined_ceiling
from mercer.model.lowrank import SLACK, fit_low_rank
from mercer.model.lowrank_pass import WIDER
from mercer.model.result import Task
from mercer.planning.plan import Problem, plan_approximation

DTYPES = {"float32": np.float32, "float64": np.float64}
PROBLEMS = 6  # for each kernel and dtype: 276 in all
# Rounding of the dense reference itself, relative to the trace.
REFERENCE = 1e-14


def fitted(approximation, kernel, x, *, asked=None, weights=None, seed=0):
    rng = np.random.default_rng(seed)
    plan = plan_approximation(Problem(*x.shape, asked, x.dtype.itemsize), approximation)
    factor = approximation(kernel, x, weights=weights, rng=rng, observer=SILENT)
    return fit_low_rank(Task(kernel, x, asked, plan, rng, weights, SILENT), factor)


def dense_eigenvalues(kernel, x, weights):
    """Of the centred matrix in float64, weighted where the rows are: descending."""
    k, w = kernel(x.astype(np.float64)), np.ones(len(x)) if weights is None else weights
    h = np.eye(len(x)) - np.outer(np.ones(len(x)), w / w.sum())
    k = np.sqrt(w)[:, None] * (h @ k @ h.T) * np.sqrt(w)
    return np.linalg.eigvalsh(0.5 * (k + k.T))[::-1]


def problem(t, seed, dtype):
    """Rows of a decaying spectrum, here and there far from the origin, with and without weights."""
    rng = np.random.default_rng([t, seed])
    n = int(rng.integers(20, 70))
    x = rng.standard_normal((n, 4)) * 10.0 ** (-rng.uniform(0.0, 1.0) * np.arange(4))
    x += rng.choice([0.0, 0.0, 3.0])
    rank = n if t == 0 else int(rng.integers(1, n))
    weights = (None, rng.integers(1, 5, n).astype(float), rng.random(n) + 0.01)[t % 3]
    sampling = "uniform" if t % 4 < 2 else "k-means++"
    approximation = RPCholesky(rank) if t % 2 else Nystrom(rank, sampling)
    return approximation, frozen(x.astype(dtype)), weights


def used(fit, true):
    """How much of its room the worst eigenvalue takes, downwards and upwards: at most one."""
    certificate, found = fit.certificate, fit.eigenvalues
    true = true[: len(found)]
    slack = REFERENCE * certificate.trace
    below = (found - true) / (certificate.rounding + slack)
    above = (true - found) / (certificate.left_out + certificate.rounding + slack)
    return float(below.max()), float(above.max())


@pytest.mark.parametrize("dtype", sorted(DTYPES))
@pytest.mark.parametrize("name", sorted(VALID))
def test_no_eigenvalue_lies_outside_of_its_bounds(name, dtype, record_property):
    kernel, worst = VALID[name], []
    for t in range(PROBLEMS):
        approximation, x, weights = problem(t, sorted(VALID).index(name), DTYPES[dtype])
        fit = fitted(approximation, kernel, x, weights=weights, seed=t)
        true = dense_eigenvalues(kernel, x, weights)
        worst.append(used(fit, true))
        slack = REFERENCE * fit.certificate.trace
        low, high = fit.bounds.T
        assert np.all(low - slack <= true[: len(low)])
        assert np.all(true[: len(low)] <= high + slack)
        assert fit.total >= true.sum() - fit.certificate.rounding - slack
    record_property("worst", np.max(worst, axis=0).tolist())
    assert np.max(worst) <= 1.0


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("approximation", [RPCholesky, Nystrom])
def test_refining_never_loosens_a_bound(approximation, weighted, cloud, rng):
    weights = rng.random(len(cloud)) + 0.1 if weighted else None
    true = dense_eigenvalues(RBF(0.3), cloud, weights)[:4]
    for rank in (6, 12, 30):
        rough, refined = (
            KernelPCA(
                4, kernel=RBF(0.3), approximation=approximation(rank, refine=r), random_state=0
            )
            .fit(cloud, sample_weight=weights)
            .fit_
            for r in (0, 1)
        )
        slack = REFERENCE * rough.certificate.trace + refined.cut
        assert np.all(refined.bounds[:, 0] >= rough.bounds[:, 0] - slack)
        assert np.all(refined.bounds[:, 1] <= rough.bounds[:, 1] + slack)
        assert np.all(refined.bounds[:, 0] - slack <= true)
        assert np.all(true <= refined.bounds[:, 1] + slack)
        assert np.all(refined.first(2).bounds[:, 1] <= rough.bounds[:2, 1] + slack)


@pytest.mark.parametrize("engine", ["numpy", "auto"])
@pytest.mark.parametrize("weighted", [False, True])
def test_bounds_of_a_refined_fit_allow_for_the_rounding_of_distances(weighted, engine, rng):
    # Beside the width squares of x are large: a distance that is made of them loses digits.
    x, gamma = rng.standard_normal((80, 1)), 2e4
    weights = rng.random(80) + 0.1 if weighted else None
    share = np.full(80, 1 / 80) if weights is None else weights / weights.sum()
    k = np.exp(-gamma * (x - x.T) ** 2)  # of differences, in which nothing cancels
    k = k - k @ share - (k @ share)[:, None] + share @ k @ share
    roots = np.sqrt(80 * share if weights is None else weights)
    true = np.linalg.eigvalsh(k * roots * roots[:, None])[::-1][:6]
    for method in (RPCholesky(80, refine=1), Nystrom(80, refine=2), Nystrom(20, refine=1)):
        fit = KernelPCA(6, kernel=RBF(gamma), approximation=method, engine=engine, random_state=0)
        low, high = fit.fit(x, sample_weight=weights).fit_.bounds.T
        assert np.all(low <= true + REFERENCE * true[0])
        assert np.all(true <= high + REFERENCE * true[0])


@pytest.mark.parametrize("approximation", [RPCholesky, Nystrom])
@pytest.mark.parametrize("dtype", sorted(DTYPES))
@pytest.mark.parametrize("name", ["rbf", "matern-3/2", "poly2", "sum"])
def test_with_all_rows_as_landmarks_only_rounding_is_left(name, dtype, approximation, cloud):
    kernel, x = VALID[name], cloud.astype(DTYPES[dtype])
    fit = fitted(approximation(len(x)), kernel, x)
    certificate, eps = fit.certificate, np.finfo(x.dtype).eps
    assert certificate.share <= 100 * eps
    assert certificate.rounding <= 5e3 * eps * certificate.trace
    true = dense_eigenvalues(kernel, x, None)[: len(fit.eigenvalues)]
    np.testing.assert_allclose(fit.eigenvalues, true, atol=100 * eps * certificate.trace)


@pytest.mark.parametrize("approximation", [RPCholesky, Nystrom])
def test_the_bound_is_no_larger_than_it_has_to_be(approximation, cloud):
    """The trace left out is the dense one, and with few landmarks one eigenvalue takes much of it."""
    kernel = RBF(0.05)
    rng = np.random.default_rng(0)
    factor = approximation(3)(kernel, cloud, weights=None, rng=rng, observer=SILENT)
    f = factor.features(cloud)
    left_out = np.trace(kernel(cloud) - f @ f.T)
    fit = fitted(approximation(3), kernel, cloud)
    assert fit.certificate.left_out == pytest.approx(left_out, rel=1e-10)
    assert fit.trace_error == pytest.approx(left_out / len(cloud), rel=1e-10)
    assert used(fit, dense_eigenvalues(kernel, cloud, None))[1] > 0.1


def test_a_certificate_that_leaves_rounding_out_would_be_wrong_in_float32(cloud):
    kernel, x = RBF(0.05), cloud.astype(np.float32)
    fit = fitted(Nystrom(len(x)), kernel, x)
    true = dense_eigenvalues(kernel, x, None)[: len(fit.eigenvalues)]
    left_out = fit.certificate.left_out
    assert np.any((fit.eigenvalues > true) | (true > fit.eigenvalues + left_out))


# ── kernels of which nothing is known, and those known to be none ───────────
@pytest.mark.parametrize("approximation", [RPCholesky(20), Nystrom(20), RPCholesky("auto")])
@pytest.mark.parametrize("name", sorted(INDEFINITE))
def test_an_indefinite_kernel_has_no_low_rank_bound(name, approximation, cloud):
    with pytest.raises(KernelError, match=r"not positive semi-definite.*no low-rank bound"):
        fitted(approximation, INDEFINITE[name], cloud)


def test_an_indefinite_kernel_that_looks_valid_at_the_landmarks_is_found_by_the_pass(cloud):
    """k(x, x) = 1 and one landmark: only the rows show that a projection is longer than its point."""

    def lying(x, y):
        return np.where(np.all(x[:, None] == y[None], axis=2), 1.0, 2.0)

    with pytest.raises(KernelError, match="less its part in the span of the landmarks is -3"):
        fitted(Nystrom(1), Custom(lying, "matrices"), cloud)


def test_validity_that_is_not_known_is_told_by_what_was_seen(cloud):
    known, unknown = (fitted(Nystrom(20), VALID[name], cloud) for name in ("rbf", "matrices"))
    assert known.low_end is None
    assert not unknown.low_end.complete
    assert unknown.low_end.lowest > -1e-12


# ── features that are no projection ─────────────────────────────────────────
def error_norm(kernel, x, fit, weights=None):
    """‖K̃ - K̂‖₂ with K̂ the centred products of the scores of a fit that keeps all components."""
    w = np.ones(len(x)) if weights is None else weights
    h = np.eye(len(x)) - np.outer(np.ones(len(x)), w / w.sum())
    gap = h @ kernel(x) @ h.T - fit.projection(x) @ fit.projection(x).T
    return np.linalg.norm(np.sqrt(w)[:, None] * gap * np.sqrt(w), 2)


@pytest.mark.parametrize("weighted", [False, True])
def test_of_few_rows_the_estimate_is_the_error_itself(weighted, cloud, rng):
    weights = rng.integers(1, 4, len(cloud)).astype(float) if weighted else None
    fit = fitted(RandomFourier(30), RBF(0.3), cloud, weights=weights)
    true = dense_eigenvalues(RBF(0.3), cloud, weights)[: len(fit.eigenvalues)]
    assert fit.certificate.kind == "estimate"
    assert np.isnan(fit.trace_error)
    assert fit.certificate.left_out == pytest.approx(error_norm(RBF(0.3), cloud, fit, weights))
    assert np.max(np.abs(fit.eigenvalues - true)) <= fit.certificate.left_out


@pytest.mark.parametrize("weighted", [False, True])
def test_of_many_rows_samples_judge_the_error(weighted, rng, monkeypatch):
    monkeypatch.setattr(lowrank, "SAMPLE_ROWS", 200)
    x = frozen(rng.standard_normal((500, 3)))
    weights = rng.random(len(x)) + 0.1 if weighted else None
    fit = fitted(RandomFourier(100), RBF(0.2), x, weights=weights)
    norm = error_norm(RBF(0.2), x, fit, weights)
    assert norm <= fit.certificate.left_out <= 2.0 * norm


# ── what is asked for and can't be had ──────────────────────────────────────
def test_more_components_than_the_rank_are_refused_unless_there_are_no_more(cloud):
    with pytest.raises(InputError, match=r"10 components.*rank 5"):
        fitted(Nystrom(5), RBF(0.3), cloud, asked=10)
    assert len(fitted(RPCholesky(20), Linear(), cloud, asked=10).eigenvalues) == 4


def test_a_share_that_the_rank_does_not_show_is_refused(cloud):
    with pytest.raises(InputError, match=r"n_components=0.99.*rank 5 shows only \d"):
        fitted(RPCholesky(5), RBF(0.3), cloud, asked=0.99)
    with pytest.raises(InputError, match="Raise its rank"):
        fitted(RPCholesky(30), RBF(0.3), cloud, asked=1.0)
    whole = fitted(RPCholesky(60), RBF(0.3), cloud, asked=1.0)
    assert whole.explained.sum() == pytest.approx(1.0)


@pytest.mark.parametrize("share", [0.3, 0.6, 0.9])
def test_a_share_of_the_variance_is_never_overstated(share, cloud):
    fit = fitted(RPCholesky(40), RBF(0.1), cloud, asked=share)
    true = dense_eigenvalues(RBF(0.1), cloud, None)
    k = len(fit.eigenvalues)
    assert true[:k].sum() / true.sum() >= fit.explained.sum() >= share
    assert fit.explained[:-1].sum() < share


# ── few components, found apart from all others ─────────────────────────────
@pytest.mark.parametrize("dtype", sorted(DTYPES))
@pytest.mark.parametrize("approximation", [RPCholesky, Nystrom])
@pytest.mark.parametrize("weighted", [False, True])
def test_few_components_are_the_first_of_all(weighted, approximation, dtype, rng):
    x = frozen(rng.standard_normal((400, 4)).astype(dtype))
    weights = rng.random(400) + 0.1 if weighted else None
    kernel = RBF(0.5)
    few, some = (
        fitted(approximation(60), kernel, x, asked=asked, weights=weights) for asked in (3, None)
    )
    unit = float(np.finfo(dtype).eps)
    np.testing.assert_allclose(few.eigenvalues, some.eigenvalues[:3], rtol=64.0 * unit)
    assert few.total == pytest.approx(some.total, rel=64.0 * unit)
    # What the others may have moved by is bounded, and sections squared in float32, for next to nothing of
    # what is left out.
    assert few.certificate.left_out == pytest.approx(some.certificate.left_out, rel=SLACK * WIDER)
    wider = few.certificate.rounding - some.certificate.rounding
    most = (1.0 + SLACK) * WIDER * few.certificate.left_out
    assert -1e-3 * some.certificate.rounding <= wider <= most
    assert max(used(few, dense_eigenvalues(kernel, x, weights))) <= 1.0
    assert np.all(few.residuals <= 64.0 * np.finfo(np.float64).eps)


def test_where_next_to_nothing_is_left_out_all_components_are_looked_at(cloud):
    """A bound on the moves of the others would be most of the certificate."""
    few, some = (fitted(Nystrom(len(cloud)), RBF(0.3), cloud, asked=asked) for asked in (2, None))
    assert few.certificate.rounding == some.certificate.rounding


@pytest.mark.parametrize("unit", [1e-16, 1e-7, 1e-3])
def test_moves_of_components_that_are_left_aside_are_bounded_by_their_sums(unit, rng):
    m, k, trace = 40, 4, 1e4
    lengths, whiten = rng.random(m) + 0.5, np.triu(rng.standard_normal((m, m)))
    values = np.sort(trace * rng.random(m) ** 8)[::-1] / m
    axes, _ = np.linalg.qr(rng.standard_normal((m, m)))
    coef = whiten @ axes
    rounding = certificates.EntryRounding(lengths, trace, unit)
    moves = rounding.moves(values, coef)
    bound = rounding.aside(values[:k], coef[:, :k], whiten, values[k:].sum())
    assert moves[k:].sum() <= (1.0 + 1e-12) * bound <= 20.0 * moves[k:].sum()
    squares, dtype = rng.random(m), np.dtype(np.float32)
    each = certificates.square_moves(squares, coef, dtype)
    aside = certificates.squares_aside(squares, each[:k], whiten, dtype)
    assert aside == pytest.approx(each[k:].sum(), rel=1e-12)


# ── refined pairs ───────────────────────────────────────────────────────────
@pytest.mark.parametrize("known", [False, True])
@pytest.mark.parametrize("scale", [1e-250, 1.0, 1e250])
def test_no_eigenvalue_lies_above_its_ceiling(scale, known):
    """Whatever the space is that Ritz pairs are of, and also where it misses the first directions."""
    for seed in range(400):
        rng = np.random.default_rng(seed)
        n, k, fall = 20, int(rng.integers(1, 7)), rng.uniform(0.1, 0.9)
        true = np.sort(fall ** np.arange(n) * rng.uniform(0.5, 2.0, n))[::-1]
        axes, _ = np.linalg.qr(
            np.eye(n)[:, seed % 3 :][:, :k] + 10.0 ** rng.uniform(-9, 0) * rng.normal(size=(n, k))
        )
        theta, turn = np.linalg.eigh(axes.T @ (true[:, None] * axes))
        theta, u = theta[::-1], axes @ turn[:, ::-1]
        residuals = np.linalg.norm(true[:, None] * u - u * theta, axis=0)
        above = true[: k + seed % 2] + 10.0 ** rng.uniform(-12, 0) if known else np.empty(0)
        rest = true.sum() - theta.sum()
        none = np.zeros(k)
        found = refined_ceiling(scale * theta, none, scale * residuals, scale * rest, scale * above)
        assert np.all(true[:k] <= found / scale * (1.0 + 1e-13) + 1e-14)
        # And where values are only known up to their rounding, which may hide that θ_i lies below a bound.
        off = theta[0] * 10.0 ** rng.uniform(-8, -2, k)
        seen = theta + rng.choice([-1.0, 1.0], k) * off
        size, left = residuals + off, rest + off.sum()
        found = refined_ceiling(
            scale * seen, scale * off, scale * size, scale * left, scale * above
        )
        assert np.all(true[:k] <= found / scale * (1.0 + 1e-13) + 1e-14)


@pytest.mark.parametrize("dtype", sorted(DTYPES))
@pytest.mark.parametrize(
    "approximation", [RPCholesky(80, refine=1), Nystrom(80, refine=2)], ids=repr
)
def test_bounds_of_refined_pairs_are_no_wider_than_their_residuals(approximation, dtype, rng):
    """And narrower: where no eigenvalue is near, residuals count by their squares."""
    x = rng.standard_normal((400, 3)).astype(DTYPES[dtype])
    model = KernelPCA(3, kernel=RBF(0.1), approximation=approximation, random_state=0).fit(x)
    true, fit = dense_eigenvalues(RBF(0.1), x, None)[:4], model.fit_
    residual = np.linalg.norm(fit.residuals * true[0])
    low, high = fit.bounds.T
    slack = 4.0 * (fit.rounded.sum() + REFERENCE * true[0])
    assert np.all((low - slack <= true[:3]) & (true[:3] <= high + slack))
    assert np.all(high - low <= 2.0 * residual**2 / (true[2] - true[3]) + slack)


REFINED = [RPCholesky(20), Nystrom(20), RPCholesky(60, refine=1), Nystrom(60, refine=1)]


@pytest.mark.parametrize("offset", [0.0, 1e5])
@pytest.mark.parametrize("approximation", REFINED, ids=repr)
def test_what_is_printed_of_bounds_is_what_they_are(approximation, offset, rng):
    x = (rng.standard_normal((200, 3)) + offset).astype(np.float32)
    fit = KernelPCA(3, kernel=RBF(0.1), approximation=approximation, random_state=0).fit(x).fit_
    told = re.search(r"lies at most (\S+) above the one found, and at most (\S+) below", str(fit))
    wide = np.abs(fit.bounds - fit.eigenvalues[:, None]).max(axis=0)
    np.testing.assert_allclose([float(told[1]), float(told[2])], wide[::-1], rtol=0.05)


# ── an offset ───────────────────────────────────────────────────────────────
OFFSET = {  # columns 0 and 1 lie far away, and column 2 where products are taken does not
    "rbf": RBF(0.1).on([0, 1]),
    "laplacian": Laplacian(0.3).on([0, 1]),
    "matern": Matern(2.5, 2.0).on([0, 1]),
    "sum": RBF(0.1).on([0, 1]) + Linear().on([2]),
    "product": RBF(0.1).on([0, 1]) * Polynomial(2).on([2]),
    "normalised": (RBF(0.1).on([0, 1]) * Polynomial(2).on([2])).normalised(),
}


@pytest.mark.parametrize("engine", ["auto", "numpy"])
@pytest.mark.parametrize(
    "approximation", [RPCholesky(100), Nystrom(100), RPCholesky("auto", tol=1e-3)], ids=repr
)
@pytest.mark.parametrize("name", OFFSET)
def test_an_offset_costs_an_approximation_nothing(name, approximation, engine, rng):
    """The same rows, 1e5 away: a multiple of their unit, so that both hold the same digits."""
    kernel, near = OFFSET[name], np.round(64.0 * rng.standard_normal((500, 3))) / 64.0
    options = {"kernel": kernel, "approximation": approximation, "engine": engine}
    fits = []
    for shift in (0.0, 1e5):
        x = (near + np.array([shift, -shift, 0.0])).astype(np.float32)
        fits.append(KernelPCA(3, **options, random_state=0).fit(x))
        np.testing.assert_array_equal(x - np.array([shift, -shift, 0.0]), near)
    first, far = (fit.fit_ for fit in fits)
    assert far.trace_error <= 3.0 * first.trace_error
    assert np.ptp(far.bounds, axis=1).max() <= 3.0 * np.ptp(first.bounds, axis=1).max()
    true = dense_eigenvalues(kernel, near, None)[:3]
    low, high = far.bounds.T
    assert np.all((low <= true) & (true <= high))
