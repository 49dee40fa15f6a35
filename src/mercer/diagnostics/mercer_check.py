"""Is a function a kernel? Exhibit φ, or look for data that give a negative eigenvalue (Mercer)."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import Enum
from typing import Any

import numpy as np
from scipy import sparse

from mercer._core.errors import InputError, KernelError, many
from mercer._core.public import public
from mercer._core.types import Array, Indices, Rows
from mercer._core.wording import brief
from mercer.data.intake import admitted
from mercer.diagnostics.witness import KernelValues, MatrixValues, Trial, Witness
from mercer.estimators.input import as_generator
from mercer.kernels import Kernel, as_kernel
from mercer.kernels.algebra import placed
from mercer.kernels.rows import as_rows, column_names

# The eigenvalues of this many rows take about a second; a Python function is called for each pair.
MAX_ROWS = 2000
MAX_ROWS_PYTHON = 500
# A map is compared with its kernel on this many rows, if φ has no more than this many columns.
MAP_ROWS = 20
MAP_COLUMNS = 50_000
MAP_TOLERANCE = 1e-10
# Shapes of the data sets that are searched where none is given.
DIMENSIONS = (1, 2, 3, 5)
MORE_DIMENSIONS = (8, 16, 32, 64, 128)
SCALES = (1.0, 10.0, 0.1, 100.0, 0.01)
LATTICE_SIDES = {1: 40, 2: 9, 3: 4}
CLIMB_STEPS = 60


class How(Enum):
    """What a verdict rests on."""

    CONSTRUCTION = "proved by construction"
    MAP = "explicit map"
    DATA = "valid on these data"
    WITNESS = "not valid"
    SEARCH = "no counterexample found"


@dataclass(frozen=True, eq=False, repr=False)
class Verdict:
    """Whether a function is a kernel, why, and, where it is not, a witness. Prints as a sentence.

    Attributes
    ----------
    valid : True, False or None
        None: nothing was found against it, and nothing proves it.
    how : How
        What the verdict rests on.
    reason : str
        The verdict as a sentence.
    witness : Witness or None
        Points and a vector v with vᵀKv < 0, or a pair with k(x, y) ≠ k(y, x).
    kernel : Kernel or None
        The kernel as judged, with parameters such as ``gamma="median"`` fixed, so that
        ``v @ verdict.kernel(points) @ v`` is the witness's value. None for a matrix.
    smallest_eigenvalue : float or None
        Of the data set that decided, symmetrised; None where no single one did.
    n_points : int
        Points looked at, over all data sets.
    n_data_sets : int
        Data sets tried: one when the caller gave it.
    """

    valid: bool | None
    how: How
    reason: str
    witness: Witness | None = None
    kernel: Kernel | None = None
    smallest_eigenvalue: float | None = None
    n_points: int = 0
    n_data_sets: int = 1

    def __str__(self) -> str:
        return self.reason if self.witness is None else f"{self.reason}\n{self.witness}"

    def __bool__(self) -> bool:
        """Whether it is a kernel, as far as is known: None counts as no."""
        return self.valid is True

    def __repr__(self) -> str:
        shown = "" if self.witness is None else f", witness={self.witness!r}"
        return f"Verdict(valid={self.valid}, how={self.how.value!r}{shown})"


@public
def check_kernel(kernel: Any, X: Any = None, *, random_state: Any = None) -> Verdict:
    """Judge whether k(x, x') = φ(x)·φ(x') for some φ: symmetric, and no negative eigenvalue.

    A witness on the points looked at beats any proof that the kernel offers for itself.

    Parameters
    ----------
    kernel : str, Kernel, Gaussian-process kernel, callable or (n, n) array
        A name, an object, a function of two points or of two matrices, or a kernel matrix.
    X : (n, d) array or sparse matrix, optional
        Judge on these rows, or on this matrix with ``kernel="precomputed"``. Left out: data sets of many
        shapes and scales are searched for a counterexample.
    random_state : int, Generator, RandomState or None, default=None
        Seeds the rows drawn from a large X, and the search; None is a fixed seed.

    Returns
    -------
    Verdict
        ``valid`` is None when a search found nothing and nothing is proved: that is no proof.

    Notes
    -----
    Rounding moves no eigenvalue of an n × n matrix by more than 8ε√n times the largest. One counts as
    negative below -max(1e-10, 8ε√n) times the largest, and only when a second evaluation, pair by pair,
    differs by less than what is missing to zero.

    Examples
    --------
    >>> from mercer.diagnostics import check_kernel
    >>> print(check_kernel("rbf"))
    RBF(gamma='median') is a kernel: the Gaussian is the Fourier transform of a positive measure
    (Bochner).
    >>> def distance(x, y):
    ...     return abs(x[0] - y[0])
    >>> verdict = check_kernel(distance, [[0.0], [1.0], [3.0]])
    >>> print(verdict)
    Custom(distance) is not a kernel: vᵀKv = -3 < 0 on 2 points.
    Witness: points [[0.] [3.]], v = [ 0.7071 -0.7071], vᵀKv = -3.
    >>> v, points = verdict.witness.vector, verdict.witness.points
    >>> float((v @ verdict.kernel(points) @ v).round(12))
    -3.0
    """
    rng = as_generator(random_state)
    if isinstance(kernel, np.ndarray):
        if X is not None:
            msg = (
                f"X must be None where `kernel` is a matrix; got one of shape {kernel.shape} and X. Leave X "
                "out, or pass the function that made the matrix."
            )
            raise InputError(msg)
        return _judge_matrix(kernel, rng=rng)
    judged = placed(as_kernel(kernel), column_names(X))
    judged.check_parameters()
    if judged.is_precomputed:
        if X is None:
            msg = "kernel='precomputed' needs the kernel matrix; got no X. Pass the matrix as X."
            raise InputError(msg)
        return _judge_matrix(X, rng=rng)
    return _search(judged, rng=rng) if X is None else _judge_on(judged, X, rng=rng)


# ── on the caller's data ────────────────────────────────────────────────────
def _judge_matrix(K: Any, *, rng: np.random.Generator) -> Verdict:
    K = admitted(K, what="K")
    K = _checked(K.toarray() if sparse.issparse(K) else K)
    if K.shape[0] != K.shape[1]:
        msg = f"A kernel matrix must be square; got shape {K.shape}. Pass all of k(X, X)."
        raise InputError(msg)
    rows, of = _some_rows(len(K), MAX_ROWS, noun="row", rng=rng)
    trial = Trial.of(MatrixValues(K), rows, rng=rng)
    if trial.witness is not None:
        return _not_valid(trial, None, len(rows))
    reason = f"This matrix is a kernel matrix within rounding: on {of} {trial.spectrum}."
    return Verdict(True, How.DATA, reason, None, None, trial.lowest, len(rows))


def _judge_on(kernel: Kernel, X: Any, *, rng: np.random.Generator) -> Verdict:
    x = _checked(X)
    kernel = kernel.resolve(x, rng=rng)
    kernel.check_rows(x)
    most = MAX_ROWS if kernel.parallel else MAX_ROWS_PYTHON
    rows, of = _some_rows(x.shape[0], most, noun="point", rng=rng)
    trial = Trial.of(KernelValues(kernel, x), rows, rng=rng)
    if trial.witness is not None:
        return _not_valid(trial, kernel, len(rows))
    found = f"On {of} {trial.spectrum}."
    how, why = _proof(kernel, x[rows[:MAP_ROWS]], kernel.why_valid())
    reason = f"{brief(kernel)} is a kernel: {why}. {found}"
    if why is None:
        how = How.DATA
        reason = (
            f"{brief(kernel)} is valid on these data within rounding. {found} Other points may tell "
            "otherwise: `check_kernel` without X looks for some."
        )
    return Verdict(True, how, reason, None, kernel, trial.lowest, len(rows))


def _checked(X: Any) -> Rows:
    """Rows in float64, where float32 data are the same points and the kernel rounds less."""
    x = as_rows(X).astype(np.float64)
    if 0 in x.shape:
        msg = f"X must have at least one row and one column; got shape {x.shape}."
        raise InputError(msg)
    bad = np.argwhere(~np.isfinite(x.data if sparse.issparse(x) else x))
    if len(bad) > 0:
        i, j = (c[bad[0, 0]] for c in x.tocoo().coords) if sparse.issparse(x) else bad[0]
        msg = f"X must be finite; got {x[i, j]} in row {i}, column {j}. Drop such rows, or fill the gap."
        raise InputError(msg)
    return x


def _some_rows(n: int, most: int, *, noun: str, rng: np.random.Generator) -> tuple[Indices, str]:
    """At most so many rows, seeded, and a sentence that says so."""
    if n <= most:
        return np.arange(n), f"the only {noun}" if n == 1 else f"all {n} {noun}s"
    return np.sort(rng.choice(n, most, replace=False)), f"{most} {noun}s drawn from the {n}"


def _not_valid(trial: Trial, kernel: Kernel | None, *counts: int) -> Verdict:
    """The verdict on a function that is not a kernel, or on a matrix where the kernel is None."""
    witness = trial.witness
    assert witness is not None  # the caller looked
    if witness.vector is None:
        there, back = float(witness.matrix[0, 1]), float(witness.matrix[1, 0])
        why = f"it is not symmetric, k(x, y) = {there:.6g} but k(y, x) = {back:.6g}"
    else:
        m = many(len(witness.points), "row" if kernel is None else "point")
        why = f"vᵀKv = {witness.value:.4g} < 0 on {m}"
    what = (
        "This matrix is not a kernel matrix"
        if kernel is None
        else f"{brief(kernel)} is not a kernel"
    )
    return Verdict(False, How.WITNESS, f"{what}: {why}.", witness, kernel, trial.lowest, *counts)


# ── proofs ──────────────────────────────────────────────────────────────────
def _proof(kernel: Kernel, x: Rows, why: str | None) -> tuple[How, str | None]:
    """The explicit map if it exists and gives the kernel's values on x, else the closure rules, or None."""
    d = x.shape[1]
    columns = None if why is None else kernel.map_dimension(d)
    if columns is None or columns > MAP_COLUMNS:
        return How.CONSTRUCTION, why
    try:
        phi = kernel.feature_map(d)(x)  # (n, D)
    except InputError:  # it can't be written out after all
        return How.CONSTRUCTION, why
    K = kernel(x)
    if np.abs(phi @ phi.T - K).max() > MAP_TOLERANCE * np.abs(K).max():
        return How.CONSTRUCTION, why  # the map is at fault, and it was not the proof
    shape = f"{many(columns, 'column')} for {many(d, 'feature')}"
    return How.MAP, f"φ(x)·φ(x') = k(x, x') with an explicit φ of {shape}; {why}"


# ── without data: a seeded search for a counterexample ──────────────────────
def data_sets(dimensions: tuple[int, ...], *, rng: np.random.Generator) -> Iterator[Array]:
    """Point sets of many shapes and scales, simple ones first, each also without its signs."""
    for scale in SCALES:
        for d in dimensions:
            for x in _shapes(d, rng=rng):
                yield scale * x
                yield scale * np.abs(x)


def _shapes(d: int, *, rng: np.random.Generator, n: int = 12) -> Iterator[Array]:
    steps = np.linspace(-2.0, 2.0, 9)
    yield np.array([np.zeros(d), np.ones(d), -np.ones(d)])
    yield steps[:, None] if d == 1 else rng.choice([-1.0, 0.0, 1.0], size=(n, d))
    yield rng.normal(size=(n, d))
    centres = rng.normal(size=(4, d))
    yield np.repeat(centres, 3, axis=0) + 1e-3 * rng.normal(size=(n, d))  # near-duplicates
    yield rng.normal(size=d) + steps[:, None] * rng.normal(size=d)  # a line
    angles = np.linspace(0.0, 2.0 * np.pi, n, endpoint=False)
    circle = np.zeros((n, d))
    circle[:, 0] = np.cos(angles)
    circle[:, 1 % d] = np.sin(angles)
    yield circle


def lattices(dimensions: Iterable[int]) -> Iterator[Array]:
    """Larger regular sets: the finer and wider, the closer to a Fourier transform (Bochner)."""
    for spacing in 2.0 ** np.arange(-4, 4):
        for d in dimensions:
            if d in LATTICE_SIDES:
                yield spacing * np.indices((LATTICE_SIDES[d],) * d).reshape(d, -1).T


class Search:
    """Tries a kernel on one data set after the other, and counts."""

    def __init__(self, kernel: Kernel, *, rng: np.random.Generator) -> None:
        self.kernel, self.rng = kernel, rng
        self.judged = kernel  # as resolved on the latest data set
        self.usable: list[Array] = []
        self.n_points = self.n_data_sets = 0
        self.error: Exception | None = None

    def look(self, x: Array) -> Trial | None:
        """The trial on x; None where the kernel is not defined on such points."""
        try:
            with np.errstate(all="ignore"):
                self.judged = self.kernel.resolve(x, rng=self.rng)
                trial = Trial.of(KernelValues(self.judged, x), np.arange(len(x)), rng=self.rng)
        except Exception as error:  # a function may fail in any way off its domain
            if not isinstance(self.error, KernelError):  # the kernel's own complaint says most
                self.error = error
            return None
        self.n_data_sets += 1
        self.n_points += len(x)
        return trial

    def sweep(self, data_sets: Iterable[Array]) -> Trial | None:
        """The first data set with a witness."""
        for x in data_sets:
            trial = self.look(x)
            if trial is not None:
                self.usable.append(x)
                if trial.witness is not None:
                    return trial
        return None

    @property
    def dimensions(self) -> list[int]:
        """Numbers of features that the kernel takes."""
        return sorted({x.shape[1] for x in self.usable})

    def climb(self) -> Trial | None:
        """Random steps that push λ_min/λ_max down, from several starts."""
        fold = np.positive if any(np.any(x < 0) for x in self.usable) else np.abs
        for d, m, scale in itertools.product(self.dimensions[:3], (4, 7), (0.5, 2.0, 8.0)):
            x, best, step = np.zeros((m, d)), np.inf, scale
            for _ in range(CLIMB_STEPS):
                moved = fold(x + step * self.rng.normal(size=x.shape))
                trial = self.look(moved)
                if trial is not None and trial.witness is not None:
                    return trial
                if trial is not None and trial.depth < best:
                    x, best, step = moved, trial.depth, 1.5 * step  # longer while it pays
                elif best < np.inf:
                    step *= 0.85
        return None

    def undefined(self) -> InputError:
        """Why no data set could be used: the kernel's own complaint, or a call for X."""
        if isinstance(self.error, KernelError):
            return self.error
        msg = (
            f"{brief(self.kernel)} could not be evaluated on any data set of the search, with 1 to "
            f"{MORE_DIMENSIONS[-1]} features; one attempt ended in {type(self.error).__name__}: "
            f"{str(self.error).rstrip('.')}. Pass rows that it is defined on as X."
        )
        return InputError(msg)


def _search(kernel: Kernel, *, rng: np.random.Generator) -> Verdict:
    search = Search(kernel, rng=rng)
    found = search.sweep(data_sets(DIMENSIONS, rng=rng))
    if not search.usable:  # it may want more features
        found = search.sweep(data_sets(MORE_DIMENSIONS, rng=rng))
    if not search.usable:
        raise search.undefined()
    how, why = How.SEARCH, None
    if found is None:
        x = next((x for x in search.usable if x.shape[1] > 1 and len(x) > 3), search.usable[0])
        how, why = _proof(kernel.resolve(x, rng=rng), x, kernel.why_valid())
        if why is None:
            found = search.sweep(lattices(search.dimensions)) or search.climb()
    counts = search.n_points, search.n_data_sets
    if found is not None:
        return _not_valid(found, search.judged, *counts)
    if why is not None:
        return Verdict(
            True, how, f"{brief(kernel)} is a kernel: {why}.", None, kernel, None, *counts
        )
    reason = (
        f"{brief(kernel)}: no counterexample found in {search.n_data_sets} data sets. This is not a proof: "
        "others may hold one."
    )
    return Verdict(None, How.SEARCH, reason, None, kernel, None, *counts)
