"""A race on this machine: who takes part, how long each takes, and how right what comes out is."""

from __future__ import annotations

import contextlib
import ctypes
import gc
import time
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.decomposition import KernelPCA as TheirKernelPCA
from sklearn.metrics.pairwise import rbf_kernel

from mercer import KernelPCA
from mercer._core.memory import format_bytes
from mercer.kernels import RBF
from mercer.planning.plan import TIGHT_TOL
from mercer.planning.problem import SMALL_ROWS
from mercer.solvers import BlockKrylov

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from mercer._core.types import Array

MERCER = "mercer"
DENSE_UP_TO = 3000  # rows: beyond, all n eigenpairs take minutes, and nobody wants them
MATRICES = 3  # n x n of them are alive at once in scikit-learn's fit: K, its centred copy, and work
BLOCK = 512  # rows of K at a time when residuals are measured
WARM_ROWS = 200


@dataclass(frozen=True)
class Method:
    """A name, and how an unfitted estimator of k components is made; or why it does not take part."""

    name: str
    make: Callable[[], Any]
    left_out: str = ""


@dataclass(frozen=True)
class Outcome:
    """What one method did: seconds of each run, and the worth of its eigenpairs."""

    name: str
    seconds: tuple[float, ...] = ()
    residual: float | None = None
    peak_bytes: int | None = None  # above what was resident before; None where the system can't say
    left_out: str = ""
    remarks: tuple[str, ...] = ()  # warnings of the fit

    @property
    def median(self) -> float | None:
        """Median seconds."""
        return float(np.median(self.seconds)) if self.seconds else None


def methods(n: int, k: int, gamma: float, *, memory_bytes: int, seed: int) -> list[Method]:
    """Everybody who takes part in a race over n rows, mercer first."""
    listed = [Method(MERCER, _ours(k, gamma, memory_bytes, seed))]
    if n > SMALL_ROWS:
        # There its choice stops where scores no longer change visibly; this one is nearly as exact as ARPACK.
        tight = _ours(k, gamma, memory_bytes, seed, solver=BlockKrylov(tol=TIGHT_TOL))
        listed.append(Method(f"{MERCER} tol={TIGHT_TOL:g}", tight))
    need = MATRICES * 8 * n**2
    for solver in ("arpack", "randomized", "dense"):
        reason = ""
        if need > memory_bytes:
            reason = f"it would take about {format_bytes(need)}, beyond --memory"
        elif solver == "dense" and n > DENSE_UP_TO:
            reason = f"all {n} eigenpairs take minutes; it takes part up to {DENSE_UP_TO} rows"
        listed.append(Method(f"scikit-learn {solver}", _theirs(solver, k, gamma, seed), reason))
    return listed


def _ours(k: int, gamma: float, memory: int, seed: int, **settings: Any) -> Callable[[], Any]:
    return lambda: KernelPCA(
        k, kernel=RBF(gamma=gamma), memory=memory, random_state=seed, **settings
    )


def _theirs(solver: str, k: int, gamma: float, seed: int) -> Callable[[], Any]:
    return lambda: TheirKernelPCA(
        k, kernel="rbf", gamma=gamma, eigen_solver=solver, random_state=seed
    )


def race(
    x: Array,
    entered: Sequence[Method],
    *,
    gamma: float,
    repeat: int,
    say: Callable[[str], None],
) -> Iterator[Outcome]:
    """Every method `repeat` times, in turns: a machine that slows down slows all of them."""
    runs: dict[str, list[_Run]] = {method.name: [] for method in entered}
    racing = [method for method in entered if not method.left_out]
    for method in racing:  # imports, threads and plans of libraries are not what is asked about
        _run(method, x[:WARM_ROWS], warm=True)
    for turn in range(repeat):
        for method in racing:
            runs[method.name].append(_run(method, x))
            say(f"run {turn + 1} of {repeat}: {method.name} {runs[method.name][-1].seconds:.2f} s")
    for method in entered:
        yield _outcome(method, runs[method.name], x, gamma)


@dataclass(frozen=True)
class _Run:
    model: Any
    seconds: float
    peak_bytes: int | None
    remarks: tuple[str, ...]


def _run(method: Method, x: Array, *, warm: bool = False) -> _Run:
    model = method.make()
    model.n_components = min(model.n_components, len(x) - 1)
    before = None if warm else _mark()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        begun = time.perf_counter()
        model.fit(x)
        seconds = time.perf_counter() - begun
    after = None if before is None else max(_resident("VmHWM") - before, 0)
    return _Run(model, seconds, after, tuple(dict.fromkeys(str(w.message) for w in caught)))


def _outcome(method: Method, runs: Sequence[_Run], x: Array, gamma: float) -> Outcome:
    if not runs:
        return Outcome(method.name, left_out=method.left_out)
    model = runs[-1].model
    peaks = [run.peak_bytes for run in runs if run.peak_bytes is not None]
    return Outcome(
        method.name,
        tuple(run.seconds for run in runs),
        residual(x, gamma, model.eigenvalues_, model.eigenvectors_),
        int(np.median(peaks)) if peaks else None,
        remarks=runs[-1].remarks,
    )


def residual(x: Array, gamma: float, values: Array, vectors: Array) -> float:
    """max_i ‖K̃u_i - λ_i u_i‖ / λ_1, for everybody by the same product, with scikit-learn's kernel.

    Examples
    --------
    >>> import numpy as np
    >>> x = np.array([[0.0], [1.0]])  # K̃ has one eigenvalue, 1 - exp(-1), with u = (1, -1)/√2
    >>> u = np.array([[1.0], [-1.0]]) / np.sqrt(2)
    >>> residual(x, 1.0, np.array([1 - np.exp(-1.0)]), u) < 1e-15
    True
    """
    u = np.asarray(vectors, dtype=np.float64)  # (n, k)
    inner = u - u.mean(axis=0)  # HU
    product = np.vstack(
        [rbf_kernel(x[i : i + BLOCK], x, gamma=gamma) @ inner for i in range(0, len(x), BLOCK)]
    )  # (n, k)
    product -= product.mean(axis=0)
    error = product - u * np.asarray(values, dtype=np.float64)
    return float(np.linalg.norm(error, axis=0).max() / np.max(values))


# ── memory ──────────────────────────────────────────────────────────────────
def _mark() -> int | None:
    """Set the system's high-water mark back, where it can be, and tell what is resident now."""
    gc.collect()
    # Freed heap pages that are still resident would hide what a fit takes again.
    with contextlib.suppress(OSError, AttributeError):  # where there is no glibc
        ctypes.CDLL("libc.so.6").malloc_trim(0)
    try:
        Path("/proc/self/clear_refs").write_text("5")
        return _resident("VmRSS")
    except (OSError, ValueError):  # not Linux, or not allowed
        return None


def _resident(field: str) -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(f"{field}:"):
            return int(line.split()[1]) * 1024
    msg = f"no {field} in /proc/self/status"
    raise OSError(msg)
