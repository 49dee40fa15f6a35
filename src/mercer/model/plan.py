"""The only chooser. A pure function of a few numbers, decided before an array is touched."""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from mercer._core.errors import InputError, MemoryBudgetError, nearest
from mercer._core.memory import format_bytes
from mercer.solvers import SOLVERS, BlockKrylov, Lapack, Solver
from mercer.solvers.krylov import MAX_BLOCK

Route: TypeAlias = Literal["primal", "dual"]
# How K is held: not at all, in the precision of the data, or in float32 under float64 proof.
Storage: TypeAlias = Literal["none", "full", "half"]

# Measured on two cores; where each rule stops paying is flat, so round numbers do.
LAPACK_ROWS = 500  # below, one LAPACK call beats any iteration
LAPACK_SHARE = 25  # k above n/25: the Krylov basis would grow towards the matrix itself
SMALL_ROWS = 3000  # products so cheap that iterating to rounding costs nothing
TIGHT_TOL = 1e-10
HALF_TOL = 5e-7  # what iterating on a float32 sketch reaches; below, each digit would cost a pass
PRODUCT_COLUMNS = 500  # columns multiplied in a typical Krylov run: blocks times products
TILE_BYTES = 64 * 2**20


@dataclass(frozen=True)
class Problem:
    """What the choice depends on."""

    n: int
    d: int
    n_components: int | float | None
    itemsize: int = 8
    budget_bytes: int = 2**63
    map_dimension: int | None = None  # of the kernel's explicit map, where there is one
    shift_invariant: bool = False
    precomputed: bool = False
    costly: bool = False  # a user's Python function: no entry is computed twice

    @property
    def k(self) -> int | None:
        """Components asked for, where that is a number."""
        return self.n_components if isinstance(self.n_components, int) else None


@dataclass(frozen=True)
class Plan:
    """Which problem is solved, how, in how many bytes, and why."""

    route: Route
    solver: Solver
    storage: Storage
    n_bytes: int
    reasons: tuple[str, ...] = field(default=())
    lapack_fits: bool = (
        True  # a share of the variance may need more components than Krylov pays for
    )

    def __str__(self) -> str:
        held = {
            "none": "K in tiles, never stored",
            "full": "K stored",
            "half": "K stored in float32, proved in float64",
        }
        what = "explicit map" if self.route == "primal" else held[self.storage]
        if self.route == "dual" and self.storage == "none" and isinstance(self.solver, Lapack):
            what = "K formed once"
        lines = [f"{self.route} route, {self.solver!r}, {what}, about {format_bytes(self.n_bytes)}"]
        return "\n".join([*lines, *(f"  - {reason}" for reason in self.reasons)])


def plan(problem: Problem, solver: str | Solver = "auto") -> Plan:
    """Choose route, solver and storage; raise before anything is allocated if nothing fits.

    Examples
    --------
    >>> print(plan(Problem(n=10_000, d=50, n_components=20, shift_invariant=True)))
    dual route, BlockKrylov(...), K stored in float32, proved in float64, about ... MB
      - n=10000 and k=20: iterating for the top k costs far less than all of LAPACK's n³
      - float32 halves the memory traffic of each product; residuals are proved in float64
    """
    chosen = _named(solver)
    primal = _primal(problem, chosen)
    if primal is not None:
        return _checked(primal, problem)
    if chosen is None:
        chosen, reason = _solver(problem)
    else:
        reason = f"solver={chosen!r} was asked for"
    if isinstance(chosen, Lapack):
        return _checked(_lapack_plan(problem, chosen, reason), problem)
    return _checked(_krylov_plan(problem, chosen, reason), problem)


def _named(solver: str | Solver) -> Solver | None:
    if isinstance(solver, Solver):
        return copy(solver)  # the plan is a record: the caller may turn his solver's knobs later
    if isinstance(solver, str):
        if solver == "auto":
            return None
        if solver in SOLVERS:
            return SOLVERS[solver]()
        msg = f"Unknown solver {solver!r}. {nearest(solver, ['auto', *SOLVERS])}"
        raise InputError(msg)
    msg = (
        f"solver must be a name or a solver object, but a {type(solver).__name__} came. "
        f"{nearest('', ['auto', *SOLVERS])}"
    )
    raise InputError(msg)


def plan_linear(problem: Problem, solver: str | Solver = "auto") -> Plan:
    """PCA itself: the d x d covariance or the n x n dot products, whichever is smaller."""
    n, d = problem.n, problem.d
    chosen = _named(solver) or _small_solver(problem, min(n, d))
    n_bytes = problem.itemsize * n * d + 8 * (4 * min(n, d) ** 2 + d * (problem.k or min(n, d)))
    if d <= n:
        reason = f"d={d} <= n={n}: the covariance is the smaller matrix"
        return _checked(Plan("primal", chosen, "none", n_bytes, (reason,)), problem)
    reason = f"d={d} > n={n}: the matrix of dot products is smaller and has the same eigenvalues"
    return _checked(Plan("dual", chosen, "full", n_bytes, (reason,)), problem)


def _primal(problem: Problem, chosen: Solver | None) -> Plan | None:
    m, n = problem.map_dimension, problem.n
    if m is None or m >= n:
        return None
    few = problem.k is not None and problem.k < n // LAPACK_SHARE
    if few and m**2 > n * (problem.d + PRODUCT_COLUMNS) and n > LAPACK_ROWS:
        return None  # the map is smaller than n, but its covariance costs more than the products
    n_bytes = 8 * (2 * n * m + 4 * m * m)
    if n_bytes > problem.budget_bytes:
        return None
    reason = f"the explicit map has {m} columns for n={n} rows: its covariance is {m} x {m}"
    return Plan("primal", chosen or _small_solver(problem, m), "none", n_bytes, (reason,))


def _small_solver(problem: Problem, size: int) -> Solver:
    k = problem.k
    if k is None or size <= 2 * LAPACK_ROWS or k > size // LAPACK_SHARE:
        return Lapack()
    return BlockKrylov(tol=TIGHT_TOL)


def _solver(problem: Problem) -> tuple[Solver, str]:
    n, k = problem.n, problem.k
    if n <= LAPACK_ROWS:
        return Lapack(), f"n={n} is small: one LAPACK call gives the whole spectrum"
    if problem.n_components is None:
        return Lapack(), f"all components of n={n} rows were asked for"
    if k is None:
        if n <= SMALL_ROWS:
            return Lapack(), f"a share of the variance was asked for, and n={n} is small"
        return BlockKrylov(), "a share of the variance was asked for: k grows until it is reached"
    if k > n // LAPACK_SHARE:
        return (
            Lapack(),
            f"k={k} is more than n/{LAPACK_SHARE}: a Krylov basis would grow towards K itself",
        )
    reason = f"n={n} and k={k}: iterating for the top k costs far less than all of LAPACK's n³"
    # In single precision rounding is all that is left below 1e-6.
    tol = 1e-6 if problem.itemsize == 4 else TIGHT_TOL if n <= SMALL_ROWS else BlockKrylov.tol
    return BlockKrylov(tol=tol), reason


def _lapack_plan(problem: Problem, solver: Lapack, reason: str) -> Plan:
    n_bytes = _lapack_bytes(problem, solver)
    if problem.costly:
        n_bytes += problem.n**2 * problem.itemsize
        return Plan(
            "dual", solver, "full", n_bytes, (reason, "a Python function is called once a pair")
        )
    return Plan("dual", solver, "none", n_bytes, (reason,))


def _lapack_bytes(problem: Problem, solver: Lapack) -> int:
    # K, the eigenvectors and LAPACK's work space of twice that; then k vectors and their products,
    # for the proof, in float64 and sorted.
    k = problem.k or problem.n
    return (2 if solver.subset else 4) * problem.n**2 * problem.itemsize + 5 * 8 * problem.n * k


def _krylov_plan(problem: Problem, solver: Solver, reason: str) -> Plan:
    n, k = problem.n, problem.k or (64 if problem.n_components else problem.n)
    # The basis of nine blocks, landmark columns twice, and as much again for what is on its way.
    basis = 8 * n * (8 * k + 16 * min(k + 12, MAX_BLOCK) + 600)
    reasons: tuple[str, ...] = (reason,)
    tol = getattr(solver, "tol", 0.0)
    half = (
        problem.shift_invariant
        and problem.itemsize == 8
        and n > SMALL_ROWS
        and tol >= HALF_TOL
        and not problem.precomputed
    )
    fits = _lapack_bytes(problem, Lapack()) <= problem.budget_bytes
    if problem.precomputed:
        reasons = (*reasons, "K is the caller's own matrix")
        return Plan("dual", solver, "full", basis, reasons, lapack_fits=fits)
    stored = n * n * (4 if half else problem.itemsize) + basis + TILE_BYTES
    if stored > problem.budget_bytes:
        why = (
            f"K would take {format_bytes(stored)} of the {format_bytes(problem.budget_bytes)} allowed: "
            "its tiles are made anew for each product"
        )
        reasons = (*reasons, why)
        return Plan("dual", solver, "none", basis + TILE_BYTES, reasons, lapack_fits=fits)
    if half:
        why = "float32 halves the memory traffic of each product; residuals are proved in float64"
        return Plan("dual", solver, "half", stored, (*reasons, why), lapack_fits=fits)
    return Plan("dual", solver, "full", stored, reasons, lapack_fits=fits)


def _checked(chosen: Plan, problem: Problem) -> Plan:
    if chosen.n_bytes > problem.budget_bytes:
        msg = (
            f"This fit needs about {format_bytes(chosen.n_bytes)} (n={problem.n}, {chosen.route} "
            f"route, {type(chosen.solver).__name__}), but `memory` allows "
            f"{format_bytes(problem.budget_bytes)}. Raise `memory`, ask for a number of components "
            f"below n/{LAPACK_SHARE} with solver='krylov', or fit on fewer rows."
        )
        raise MemoryBudgetError(msg)
    return chosen
