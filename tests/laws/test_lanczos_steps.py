"""Laws of Lanczos steps, compiled and by BLAS: orthonormal rows, and T the matrix as they see it."""

import numpy as np
import pytest

from mercer.engine.native import compiled
from mercer.solvers import lanczos
from mercer.solvers.lanczos import LanczosRun

EPS = float(np.finfo(np.float64).eps)
# Few rows, fewer than a vector has numbers, whole vectors, none whole.
SIZES = (2, 3, 7, 16, 33, 64, 131, 203)
SPECTRA = {
    "falling": lambda n: 1.0 / np.arange(1, n + 1) ** 2,
    "steep": lambda n: 0.3 ** np.arange(n),
    "flat": lambda n: np.linspace(1.0, 0.9, n),
    "of both signs": lambda n: np.linspace(1.0, -1.0, n),
    "repeated": lambda n: np.repeat([2.0, 1.0], [n // 2, n - n // 2]),
    "of rank two": lambda n: np.where(np.arange(n) < 2, 1.0, 0.0) / np.arange(1, n + 1),
}


@pytest.fixture(params=["compiled", "blas"], autouse=True)
def steps(request, monkeypatch):
    """With the library, and as if it were not there."""
    if request.param == "blas":
        monkeypatch.setattr(lanczos, "compiled", lambda: None)
    elif compiled() is None:
        pytest.skip("no compiler when mercer was installed")


def begun(matrix, fixed):
    return LanczosRun(matrix, fixed, room=len(matrix), rng=np.random.default_rng(1))


def with_spectrum(values, along=0.0):
    """A of these eigenvalues on what is orthogonal to 1, and so much along 1; and 1, of unit length."""
    n = len(values) + 1
    fixed = np.full((1, n), n**-0.5)
    start = np.random.default_rng(0).standard_normal((n, n))
    start[:, 0] = fixed[0]
    q = np.linalg.qr(start)[0]
    matrix = (q[:, 1:] * values) @ q[:, 1:].T + along * fixed.T @ fixed
    return (matrix + matrix.T) / 2, fixed


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("name", sorted(SPECTRA))
@pytest.mark.parametrize("along", [0.0, 1e3])
def test_rows_are_orthonormal_and_t_is_the_matrix_in_them(name, n, along):
    """Also where the product is large along what is projected out, and after the space is spent."""
    matrix, fixed = with_spectrum(SPECTRA[name](n), along)
    run = begun(matrix, fixed)
    run.extend(n)
    assert run.size == n
    rows = run.basis[: n + 1]
    assert np.abs(rows @ rows.T - np.eye(n + 1)).max() < 50.0 * EPS
    v, t = rows[1:], np.diag(run.alpha[:n]) + np.diag(run.beta[: n - 1], 1)
    t += np.diag(run.beta[: n - 1], -1)
    size = np.linalg.norm(matrix, 2)
    # A product of n terms is off by n units of the matrix at most, and a new vector is orthogonal to all.
    assert np.abs(v @ matrix @ v.T - t).max() < 10.0 * n * EPS * size
    expected = np.sort(SPECTRA[name](n))
    np.testing.assert_allclose(np.linalg.eigvalsh(t), expected, atol=20.0 * n * EPS * size)


@pytest.mark.parametrize("unit", [1e-60, 1.0, 1e60])
def test_steps_know_no_unit(unit):
    """A few steps of 2^j A are those of A; squares that are in range lose nothing."""
    matrix, fixed = with_spectrum(SPECTRA["falling"](50))
    scale = 2.0 ** round(np.log2(unit))
    here, there = begun(matrix, fixed), begun(scale * matrix, fixed)
    here.extend(12)
    there.extend(12)
    np.testing.assert_array_equal(there.alpha[:12], scale * here.alpha[:12])
    np.testing.assert_array_equal(there.beta[:12], scale * here.beta[:12])


@pytest.mark.parametrize("unit", [0.0, 1e-200, 1e200, np.nan, np.inf])
def test_no_step_is_made_where_squares_are_out_of_range(unit):
    with np.errstate(invalid="ignore"):
        matrix = unit * with_spectrum(SPECTRA["falling"](50))[0]
    run = begun(matrix, np.empty((0, 51)))
    run.extend(12)
    assert run.size == 0


def test_steps_may_be_made_in_parts():
    """To ask how far it is in between changes no bit."""
    matrix, fixed = with_spectrum(SPECTRA["falling"](120))
    once, often = begun(matrix, fixed), begun(matrix, fixed)
    once.extend(60)
    for size in (1, 2, 17, 40, 60):
        often.extend(size)
    np.testing.assert_array_equal(once.basis[:61], often.basis[:61])
    np.testing.assert_array_equal(once.alpha[:60], often.alpha[:60])


def test_steps_end_where_the_basis_spans_all_there_is():
    matrix, fixed = with_spectrum(SPECTRA["flat"](40))
    run = begun(matrix, fixed)
    run.extend(1000)
    assert run.size == run.room == 40
