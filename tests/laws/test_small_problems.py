"""Laws of small and projected problems: pairs between reflections, and a basis that stays what it is."""

import numpy as np
import pytest
from scipy import linalg

from markets.spectra import SPECTRA, symmetric
from mercer.engine.native import compiled
from mercer.engine.native.matrices import Reflections
from mercer.operators import StoredGram
from mercer.solvers import Lapack, dense
from mercer.solvers.basis import ConvergenceSchedule, KrylovBasis

EPS = np.finfo(np.float64).eps
needs_library = pytest.mark.skipif(compiled() is None, reason="not compiled")


def graded(n, rng):
    """A symmetric matrix whose eigenvalues fall over twelve orders of magnitude."""
    q = np.linalg.qr(rng.standard_normal((n, n)))[0]
    matrix = (q * np.logspace(0, -12, n)) @ q.T
    return 0.5 * (matrix + matrix.T)


# ── between reflections ─────────────────────────────────────────────────────
@needs_library
@pytest.mark.parametrize("n", [2, 3, 7, 8, 9, 31, 64, 97, 150])
def test_reflections_leave_a_tridiagonal_matrix_with_the_same_eigenvalues(n, rng):
    matrix = graded(n, rng)
    before = matrix.copy()
    form = Reflections(compiled(), matrix)
    np.testing.assert_array_equal(matrix, before)
    turned = form.vectors(np.eye(n))  # Q itself
    small = np.diag(form.diagonal) + np.diag(form.off[:-1], 1) + np.diag(form.off[:-1], -1)
    # A reflection rounds to some units (Wilkinson 1965), and n - 1 of them to n times as many.
    np.testing.assert_allclose(turned.T @ turned, np.eye(n), atol=20 * n * EPS)
    np.testing.assert_allclose(turned @ small @ turned.T, matrix, atol=20 * n * EPS)


@pytest.mark.parametrize("unit", [1e-100, 1e-40, 1.0, 1e40, 1e100])
@pytest.mark.parametrize("name", sorted(SPECTRA))
def test_a_few_pairs_are_those_of_all(name, unit, rng):
    """Against SciPy's divide and conquer, whatever the size of the matrix."""
    matrix = symmetric(SPECTRA[name])
    size = np.abs(SPECTRA[name]).max() or 1.0
    every = linalg.eigh(matrix, driver="evd", eigvals_only=True)[::-1]
    for k in (1, 2, 7):
        pairs = Lapack(subset=True)(StoredGram(matrix * unit), k, rng=rng)
        np.testing.assert_allclose(pairs.values / unit, every[:k], atol=1e-12 * size)
        np.testing.assert_allclose(pairs.vectors.T @ pairs.vectors, np.eye(k), atol=1e-11)
        assert pairs.residuals.max() <= 1e-12


@needs_library
def test_coordinates_that_are_not_orthogonal_are_not_used(rng, monkeypatch):
    matrix, quick = graded(40, rng), dense.STEMR

    def spoilt(*args):
        count, values, coordinates, failed = quick(*args)
        coordinates = coordinates.copy()
        coordinates[:, 1] += 1e-9 * coordinates[:, 0]
        return count, values, coordinates, failed

    monkeypatch.setattr(dense, "STEMR", spoilt)
    pairs = Lapack(subset=True)(StoredGram(matrix), 3, rng=rng)
    np.testing.assert_allclose(pairs.vectors.T @ pairs.vectors, np.eye(3), atol=1e-13)


@pytest.mark.parametrize("unit", [1e-150, 1.0, 1e150])
@pytest.mark.parametrize(("m", "k"), [(1, 1), (10, 2), (40, 8), (40, 9), (160, 20)])
def test_the_top_of_a_projected_problem_is_that_of_all(m, k, unit, rng):
    matrix = graded(m, rng) * unit
    values, vectors = dense.top_pairs(matrix, k)
    every = np.linalg.eigvalsh(matrix)
    assert len(values) in (k, m)
    np.testing.assert_allclose(values[-k:] / unit, every[-k:] / unit, atol=40 * m * EPS)
    gap = (matrix @ vectors - vectors * values) / unit
    assert np.abs(gap).max() <= 40 * m * EPS


# ── the basis ───────────────────────────────────────────────────────────────
@pytest.mark.parametrize("name", sorted(SPECTRA))
@pytest.mark.parametrize("width", [1, 3, 8])
def test_a_basis_stays_orthonormal_and_its_projected_matrix_that_of_the_operator(name, width, rng):
    """Also after restarts, and where blocks opened at random make products of more than three terms."""
    matrix = symmetric(SPECTRA[name])
    n, size = len(matrix), np.abs(SPECTRA[name]).max() or 1.0
    basis = KrylovBasis(np.empty((n, 0)), 10 * width)
    basis.append(rng.standard_normal((n, width)), rng=rng)
    basis.multiply(StoredGram(matrix))
    for step in range(14):
        if step % 3 == 2:
            basis.inject(width, rng=rng)
        if basis.size + basis.next_width > 8 * width:
            basis.restart(3 * width)
        if basis.next_width == 0:
            break
        basis.extend()
        basis.multiply(StoredGram(matrix))
        q, inside = basis.q, basis.projected[: basis.size, : basis.size]
        np.testing.assert_allclose(q.T @ q, np.eye(basis.size), atol=1e-12)
        np.testing.assert_allclose(inside, q.T @ matrix @ q, atol=1e-11 * size)


def test_looks_are_fewer_where_they_cost_more_than_products():
    """Residuals that fall by a tenth a product: the same answer after no more than a dozen products more."""
    looks = {}
    for brisk in (False, True):
        schedule, at = ConvergenceSchedule(1e-13, 300, first=12, thrifty=True, brisk=brisk), []
        while not at or 10.0 ** (-0.25 * at[-1]) > 1e-13:
            at.append(schedule.due)
            schedule.saw(at[-1], 10.0 ** (-0.25 * at[-1]))
        looks[brisk] = at
    assert len(looks[True]) <= len(looks[False])
    assert looks[True][-1] <= looks[False][-1] + 12
