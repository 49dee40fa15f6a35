"""Laws of the proofs that no eigenvalue was missed: runs that did are told from those that did not."""

from functools import partial
from itertools import product

import numpy as np
import pytest

from markets.spectra import symmetric
from mercer import KernelPCA
from mercer.kernels import RBF, Laplacian
from mercer.operators import Centred, StoredGram
from mercer.solvers import Lanczos, lanczos, missed
from mercer.solvers.lanczos import LanczosRun
from mercer.solvers.missed import Moments, counted, eigenvalues_above, factored, steps_to_count

TURN = 2.0 * np.pi * np.arange(240) / 240
GRID = np.stack(np.meshgrid(np.arange(15.0), np.arange(15.0)), axis=-1).reshape(-1, 2)


def kernel_matrix(x, gamma, weights=None):
    return Centred(StoredGram(RBF(gamma=gamma).tile(x, x)), weights, positive=True)


def of_values(values):
    return StoredGram(symmetric(np.asarray(values)))


def rows(seed, n, d):
    return np.random.default_rng(seed).standard_normal((n, d))


def weighted():
    weights = np.random.default_rng(5).uniform(0.1, 9.0, 200)
    return kernel_matrix(rows(2, 200, 3), 0.1, weights)


FALLING = 0.7 ** np.arange(200)
OPERATORS = {
    # Rotations and reflections map the data to themselves: eigenvalues in pairs, by no accident.
    "circle": lambda: kernel_matrix(np.stack([np.cos(TURN), np.sin(TURN)], axis=1), 1.0),
    "lattice": lambda: kernel_matrix(GRID, 0.05),
    "two groups alike": lambda: kernel_matrix(np.concatenate([rows(0, 120, 2)] * 2), 0.5),
    "far groups": lambda: kernel_matrix(
        np.concatenate([rows(0, 120, 2), 50.0 + rows(0, 120, 2)]), 0.5
    ),
    "gaussian": lambda: kernel_matrix(rows(1, 220, 2), 0.25),
    "gaussian, wide": lambda: kernel_matrix(rows(1, 220, 2), 1e-3),
    "gaussian, 20 columns": lambda: kernel_matrix(rows(1, 220, 20), 0.02),
    "weights": weighted,
    "copies": lambda: of_values(np.sort(np.repeat(FALLING[:60], 3))[::-1]),
    "clusters": lambda: of_values(
        np.repeat(FALLING[:20], 10) * (1.0 + 1e-9 * np.tile(np.arange(10), 20))
    ),
    "indefinite": lambda: of_values(FALLING * np.where(np.arange(200) % 2, -1.0, 1.0)),
    "negative outweighs": lambda: of_values(np.concatenate([FALLING[:30], -np.full(150, 0.5)])),
    "one far above": lambda: of_values(np.concatenate([[1e6], FALLING])),
    "flat": lambda: of_values(np.linspace(1.0, 0.9, 200)),
    "rank 6": lambda: of_values(np.concatenate([FALLING[:6], np.zeros(190)])),
    "small": lambda: of_values(1e-60 * FALLING),
}


class Beginning:
    """A generator whose first vector is given, and whose others are random."""

    def __init__(self, first):
        self.vectors, self.rng = [first], np.random.default_rng(0)

    def standard_normal(self, n):
        return self.vectors.pop() if self.vectors else self.rng.standard_normal(n)


def begun(operator, first, size):
    matrix, fixed = operator.unprojected()
    run = LanczosRun(matrix, fixed, room=operator.n, rng=Beginning(first))
    run.extend(size)
    return run


def starts(vectors):
    """Vectors to begin with: everything, all but one or two of the first eigenvectors, or a few of them."""
    rng = np.random.default_rng(3)
    every = rng.standard_normal(vectors.shape[1])
    yield vectors @ every
    for without in ([0], [1], [2], [5], [0, 3]):
        blind = every.copy()
        blind[without] = 0.0
        yield vectors @ blind
    few = np.zeros_like(every)
    few[2:40] = every[2:40]
    yield vectors @ few


@pytest.mark.parametrize("name", sorted(OPERATORS))
def test_a_count_never_passes_over_an_eigenvalue(name):
    """Whatever was begun with, and however few steps were taken: LAPACK counts no more than was proved."""
    operator = OPERATORS[name]()
    matrix, fixed = operator.unprojected()
    values, vectors = np.linalg.eigh(operator.dense())
    values, vectors = values[::-1], vectors[:, ::-1]
    rounding = 4.0 * operator.n * np.finfo(float).eps * np.abs(values).max()
    tries = np.random.default_rng(4)
    proved = 0
    for start, size in product(starts(vectors), (1, 2, 4, 8, 15, 30, 60)):
        run = begun(operator, start, size)
        ritz = run.ritz(1, run.size)[0]
        between = tries.uniform(0.0, 1.2 * np.abs(ritz).max(), 8)
        for least in (*ritz[:12], *between, *(values[:6] * (1.0 - 1e-6))):
            k = int(np.sum(ritz >= least))
            for noise in {None, operator.noise}:
                moments = Moments.of(matrix, fixed, noise)
                assert k == 0 or not counted(run, float(least), k - 1, moments)
                if counted(run, float(least), k, moments):
                    proved += 1
                    assert np.sum(values > least + rounding) <= k
    assert proved or name in ("flat", "clusters")  # whose moments tell nothing, and a factor has to


# What lies outside of the space of a run, beside 1, 0.6, 0.36, 0.216 and 0.1296 inside: is it missed?
BESIDE = {
    "the largest": (2.0, True),
    "a copy of the second": (0.6, True),
    "between": (0.3, True),
    "just above the last": (0.1296 * (1.0 + 1e-9), True),
    "just below the last": (0.1296 * (1.0 - 1e-4), False),
    "small": (1e-4, False),
    "negative": (-0.05, False),
}


@pytest.mark.parametrize("name", sorted(BESIDE))
def test_a_run_that_is_blind_to_an_eigenvector_is_found_out(name):
    """Two blocks, and a run that begins in one: five pairs are right to rounding, whatever the other has."""
    beside, missed = BESIDE[name]
    inside, k = 0.6 ** np.arange(100.0), 5
    matrix = np.zeros((130, 130))
    matrix[:100, :100] = symmetric(inside)
    matrix[100:, 100:] = symmetric(np.concatenate([[beside], 1e-6 * np.arange(29)]))
    start = np.zeros(130)
    start[:100] = np.random.default_rng(0).standard_normal(100)
    run = begun(StoredGram(matrix), start, 40)
    assert not run.basis[:41, 100:].any()
    values, coordinates = run.ritz(1, k)
    u = run.vectors(coordinates)
    np.testing.assert_allclose(values, inside[:k], rtol=1e-12)
    assert np.linalg.norm(matrix @ u - u * values, axis=0).max() <= 1e-13
    assert factored(run, values, u, 1e-13) is not missed
    for noise in {None, None if beside < 0.0 else 0.0}:
        assert (
            counted(run, float(values[-1]), k, Moments.of(matrix, run.fixed, noise)) is not missed
        )


@pytest.mark.parametrize("unit", [1e-40, 1.0, 1e20])
@pytest.mark.parametrize("apart", [1e-10, 1e-7, 1e-6, 1e-5, 1e-4, 1e-3, 1e-2])
@pytest.mark.parametrize("above", [False, True])
def test_a_factor_tells_what_single_precision_does_not(above, apart, unit):
    """An eigenvalue that the run is blind to, nearer and nearer to the last: on either side it is told."""
    inside, k = unit * 0.6 ** np.arange(100.0), 5
    matrix = np.zeros((130, 130))
    matrix[:100, :100] = symmetric(inside)
    beside = inside[k - 1] * (1.0 + apart if above else 1.0 - apart)
    matrix[100:, 100:] = symmetric(np.concatenate([[beside], 1e-6 * unit * np.arange(29)]))
    start = np.zeros(130)
    start[:100] = np.random.default_rng(0).standard_normal(100)
    run = begun(StoredGram(matrix), start, 40)
    values, coordinates = run.ritz(1, k)
    assert factored(run, values, run.vectors(coordinates), 1e-13) is not above


def test_single_precision_is_enough_where_nothing_is_near(monkeypatch):
    monkeypatch.delitem(missed.POTRF, missed.FLOAT64)
    operator = kernel_matrix(rows(1, 300, 200), 0.0025)
    pairs = Lanczos()(operator, 5, rng=np.random.default_rng(0))
    values = np.linalg.eigvalsh(operator.dense())[::-1]
    assert (values[4] - values[5]) / values[0] > 1e-3  # about what float32 rounds a factor to
    np.testing.assert_allclose(pairs.values, values[:5], atol=1e-12 * values[0])
    assert pairs.residuals.max() <= 1e-13


def test_a_basis_that_is_not_orthogonal_proves_nothing():
    operator = OPERATORS["gaussian"]()
    run = begun(operator, np.random.default_rng(0).standard_normal(operator.n), 30)
    moments, least = Moments.of(run.matrix, run.fixed), float(run.ritz(4, 4)[0][0])
    assert counted(run, least, 4, moments)
    run.basis[9] += 1e-4 * run.basis[5]
    assert not counted(run, least, 4, moments)


@pytest.mark.parametrize("weights", [None, np.linspace(0.5, 3.0, 90)])
def test_moments_are_those_of_the_eigenvalues(weights):
    operator = Centred(StoredGram(Laplacian(gamma=0.3).tile(*[rows(4, 90, 3)] * 2)), weights)
    values = np.linalg.eigvalsh(operator.dense())
    moments = Moments.of(*operator.unprojected())
    np.testing.assert_allclose(moments.trace, values.sum(), rtol=1e-12)
    np.testing.assert_allclose(moments.squares, np.sum(values**2), rtol=1e-12)
    run = begun(operator, np.ones(90) + rows(5, 90, 1)[:, 0], 10)
    left = moments.less(run.alpha[:10], run.beta[:10])
    basis = np.linalg.qr(run.basis[:11].T, mode="complete")[0][:, 11:]  # of what F and V leave
    rest = np.linalg.eigvalsh(basis.T @ operator.dense() @ basis)
    np.testing.assert_allclose(left.trace, rest.sum(), rtol=1e-11)
    np.testing.assert_allclose(left.squares, np.sum(rest**2), rtol=1e-11)
    assert left.count == len(rest)
    assert rest.max() <= left.largest() <= np.sqrt(left.squares) * (1.0 + 1e-12)


def test_moments_that_overflow_prove_nothing():
    run = begun(of_values(FALLING), np.random.default_rng(0).standard_normal(200), 20)
    for broken in (np.nan, np.inf):
        moments = Moments(200, broken, broken, broken, None)
        assert not counted(run, 0.5, 3, moments)


def test_the_bound_is_met_where_all_but_one_are_alike():
    """Samuelson's inequality is sharp: no better bound knows the moments alone."""
    values = np.concatenate([[2.0], np.full(99, 0.5)])
    moments = Moments(100, values.sum(), np.sum(values**2), 10.0, None)
    assert moments.largest() == pytest.approx(2.0, rel=1e-13)


def test_eigenvalues_above_counts_what_lapack_finds(rng):
    for size in (1, 2, 7, 40):
        alpha, beta = rng.standard_normal((2, size))
        beta[size // 2 :: 5] = 0.0  # it falls apart
        matrix = np.diag(alpha) + np.diag(beta[:-1], 1) + np.diag(beta[:-1], -1)
        values = np.linalg.eigvalsh(matrix)
        for sigma in rng.uniform(-3.0, 3.0, 20):
            found = eigenvalues_above(float(sigma), alpha.tolist(), beta.tolist())
            assert found == np.sum(values > sigma)
    assert eigenvalues_above(1.0, [1.0], [0.0]) == 1  # in doubt it is above


def test_a_few_more_steps_are_taken_where_they_spare_a_factor():
    operator = kernel_matrix(rows(1, 400, 20), 0.05)
    run = begun(operator, np.random.default_rng(0).standard_normal(operator.n), 20)
    moments = Moments.of(run.matrix, run.fixed)
    bound = moments.less(run.alpha[:20], run.beta[:20]).largest()
    assert steps_to_count(run, 1.1 * bound, moments, 100) > 0
    assert steps_to_count(run, 1e-3 * bound, moments, 2) == 0  # not within so few
    assert steps_to_count(run, 2.0 * bound, moments, 100) == 0  # it is low enough


@pytest.mark.parametrize("gamma", [0.01, 0.3, 3.0])
@pytest.mark.parametrize("k", [2, 5, 8])
@pytest.mark.parametrize("name", ["circle", "lattice", "far groups", "weights", "copies"])
def test_lanczos_finds_all_copies(name, k, gamma, rng):
    operator = OPERATORS[name]()
    if name == "circle":
        points = np.stack([np.cos(TURN), np.sin(TURN)], axis=1)
        operator = kernel_matrix(points, gamma)
    pairs = Lanczos()(operator, k, rng=rng)
    values = np.linalg.eigvalsh(operator.dense())[::-1][:k]
    np.testing.assert_allclose(pairs.values, values, atol=1e-12 * values[0])


@pytest.mark.parametrize(("d", "k", "seed"), [(20, 20, 0), (2, 15, 22), (2, 20, 1), (20, 5, 2)])
def test_rounding_of_the_small_problem_is_no_reason_for_lapack(d, k, seed, monkeypatch):
    """The quick driver of the tridiagonal problem may be a hundred units off, which the tolerance is not."""
    monkeypatch.setattr(lanczos, "Lapack", None)
    operator = kernel_matrix(rows(seed, 200, d), 0.5 / d)
    pairs = Lanczos()(operator, k, rng=np.random.default_rng(seed))
    assert pairs.residuals.max() <= 1e-13


def test_an_entry_that_is_wrong_makes_no_matrix_positive():
    """What is added to the trace covers thousands of units in every entry."""
    x = rows(6, 150, 2)
    gram = RBF(gamma=1e-4).tile(x, x)
    noise = np.random.default_rng(0).uniform(-1.0, 1.0, gram.shape)
    gram += 1000.0 * np.finfo(float).eps * (noise + noise.T)
    operator = Centred(StoredGram(gram), positive=True)
    values = np.linalg.eigvalsh(operator.dense())
    assert values[0] < 0.0
    moments = Moments.of(*operator.unprojected(), operator.noise)
    for k in range(1, 40):
        run = begun(operator, np.random.default_rng(k).standard_normal(150), k)
        left = moments.less(run.alpha[: run.size], run.beta[: run.size])
        basis = np.linalg.qr(run.basis[: run.size + 1].T, mode="complete")[0][:, run.size + 1 :]
        rest = np.linalg.eigvalsh(basis.T @ operator.dense() @ basis)
        error = 4.0 * np.sqrt(run.size) * 150 * np.finfo(float).eps * moments.norm
        assert rest.max() <= left.largest(error, run.size)


def test_a_fit_is_told_apart_from_what_it_missed():
    """Through the front door: eigenvalues of a circle, which are pairs, are those of LAPACK."""
    x = np.stack([np.cos(TURN), np.sin(TURN)], axis=1)
    make = partial(KernelPCA, 5, kernel=RBF(gamma=0.5), random_state=0)
    found, known = (make(solver=solver).fit(x) for solver in ("lanczos", "lapack"))
    np.testing.assert_allclose(found.eigenvalues_, known.eigenvalues_, rtol=1e-11)
