"""Matrices with a known spectrum: the cases on which eigensolvers fail."""

import numpy as np


def symmetric(values, *, seed=0):
    """A symmetric matrix with the given eigenvalues, and a random orthogonal basis."""
    rng = np.random.default_rng(seed)
    q, _ = np.linalg.qr(rng.standard_normal((len(values), len(values))))
    matrix = (q * values) @ q.T
    return 0.5 * (matrix + matrix.T)


N = 160

SPECTRA = {
    "geometric": 0.8 ** np.arange(N),
    "algebraic": 1.0 / np.arange(1, N + 1),
    "slow": 1.0 / np.sqrt(np.arange(1, N + 1)),
    "repeated": np.repeat([4.0, 3.0, 2.0, 1.0], N // 4),
    "multiplicity-30-on-top": np.concatenate([np.full(30, 5.0), np.linspace(1.0, 0.0, N - 30)]),
    "clustered": np.concatenate([1.0 + 1e-9 * np.arange(20), np.linspace(0.5, 0.0, N - 20)])[::-1],
    "rank-3": np.concatenate([[3.0, 2.0, 1.0], np.zeros(N - 3)]),
    "zero": np.zeros(N),
    "identity": np.ones(N),
    "indefinite": np.linspace(1.0, -1.0, N),
    "huge": 1e150 * 0.7 ** np.arange(N),
    "tiny": 1e-150 * 0.7 ** np.arange(N),
    "one-dominates": np.concatenate([[1e8], np.linspace(1.0, 0.1, N - 1)]),
}
