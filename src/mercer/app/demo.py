"""Two data sets that no line separates, before and after kernel PCA; and data to try commands on."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from sklearn.datasets import make_circles, make_moons
from sklearn.linear_model import LogisticRegression

from mercer import PCA, KernelPCA
from mercer._core.atomic import replacing
from mercer._core.findings import collected
from mercer._core.types import Array
from mercer.app.outcome import Request, Run
from mercer.app.rows import check_output, require_different
from mercer.engine.threads import lanes, single_threaded_blas
from mercer.kernels import RBF

SENSORS = ("flow", "temperature", "pressure", "level", "power")
BEGUN = np.datetime64("2026-01-05T06:00")
MINUTES = 300  # rows of each process file
FAULT_AT = 200  # the minute from which the flow sensor of the second file reads too high
MORE = 60  # minutes after its repair
WARM_AT = 320  # the minute from which the cooling water gets warm


def circles() -> tuple[Array, Any]:
    """400 points (n, 2) on two circles, and which one (n,): 0 is the outer, 1 the inner."""
    points, which = make_circles(400, factor=0.3, noise=0.05, random_state=0)
    return np.asarray(points), np.asarray(which)


def process(*, seed: int, fault_at: int | None = None) -> Array:
    """(MINUTES, 5) readings of a heated tank: a slow load drives all five sensors, not all of them linearly.

    From `fault_at` on the flow sensor drifts by 0.05 a minute, up to 2. Each reading by itself stays in its
    usual range for long; that flow and the others no longer belong together is what a monitor can see.
    """
    rng = np.random.default_rng(seed)
    minute = np.arange(MINUTES)
    load = np.sin(2 * np.pi * minute / 150 + seed) + 0.3 * _slow(rng)  # (n,)
    readings = _readings(load, _slow(rng), rng)
    if fault_at is not None:
        readings[:, 0] += np.clip(0.05 * (minute - fault_at), 0.0, 2.0)
    return readings


def warm_hour(*, seed: int) -> Array:
    """(MORE, 5) readings that follow `process`: the sensor was repaired, and the cooling water gets warm.

    All sensors go on as they belong together, and farther than ever before: T² sees that, and Q hardly.
    """
    rng = np.random.default_rng([seed, 1])
    minute = MINUTES + np.arange(MORE)
    load = np.sin(2 * np.pi * minute / 150 + seed) + 0.3 * _slow(rng)[:MORE]
    ambient = _slow(rng)[:MORE] + np.clip(0.5 * (minute - WARM_AT), 0.0, 10.0)
    return _readings(load, ambient, rng)


def _readings(
    load: Array, ambient: Array, rng: np.random.Generator
) -> Array:  # (n,), (n,) -> (n, 5)
    columns = [
        10 + 1.5 * load,
        60 + 4 * load + ambient,
        2 + 0.2 * load**2,
        1.2 - 0.1 * load + 0.02 * ambient,
        30 + 3 * load + 0.6 * load**2 - 0.5 * ambient,
    ]
    spreads = np.array([0.15, 0.3, 0.02, 0.01, 0.3])
    return np.column_stack(columns) + spreads * rng.standard_normal((len(load), len(SENSORS)))


def _slow(rng: np.random.Generator) -> Array:
    """An autoregression of standard deviation 1 whose memory is about twenty minutes."""
    keep, value, values = 0.95, rng.standard_normal(), []
    for shock in rng.standard_normal(MINUTES):
        value = keep * value + np.sqrt(1 - keep**2) * shock
        values.append(value)
    return np.array(values)


@dataclass(frozen=True)
class Shown:
    """What was written, what was found, and the arrays of each picture, the labels last."""

    facts: dict[str, Any]
    panels: dict[str, tuple[Any, ...]]
    text: str = ""  # of the circles, where they go to the standard output


@dataclass(frozen=True, kw_only=True)
class DemoRequest(Request[Shown]):
    """Write data to try commands on, and fit two circles and two moons.

    Parameters
    ----------
    csv : str, optional
        A file for the two circles; ``-``: the outcome holds the text.
    process : pair of str, optional
        Files for a process in order, and for one out of order.
    fits : bool
        Whether to fit.
    """

    csv: str | None = None
    process: tuple[str, str] | None = None
    fits: bool = True

    def fulfil(self, run: Run) -> Shown:
        """Write, then fit. Neither data set can be split by a line; after kernel PCA both can."""
        written = self._written(run)
        text = circles_text() if self.csv == "-" else ""
        if not self.fits:
            return Shown({"files": written}, {}, text)
        # Matrices this small gain nothing from threads, and on a busy machine threads that wait for
        # each other take seconds.
        with run.timed("fit"), single_threaded_blas(), lanes(1):
            rows, drawn = zip(*(_fit(case) for case in CASES), strict=True)
        facts = {
            "classifier": "LogisticRegression, accuracy on its training points",
            "data": list(rows),
            "files": written,
        }
        panels = {case.name: arrays for case, arrays in zip(CASES, drawn, strict=True)}
        return Shown(facts, panels, text)

    def _written(self, run: Run) -> list[dict[str, Any]]:
        """Write the files that were asked for; their names and numbers of rows."""
        paths = [*([] if self.csv is None else [self.csv]), *(self.process or ())]
        require_different(paths)
        written = []
        for path in paths:
            option = "csv" if path == self.csv else "process"
            text = circles_text() if option == "csv" else process_text(faulty=path == paths[-1])
            written.append({"file": path, "rows": text.count("\n") - 1})
            if path == "-":
                continue
            with replacing(check_output(path, (), option=option)) as file:
                file.write(text.encode())
            run.say(f"wrote {path}: {written[-1]['rows']} rows", "wrote", path=path)
        return written


# ── files ───────────────────────────────────────────────────────────────────
def circles_text() -> str:
    """The two circles as CSV: id, x, y and label."""
    points, which = circles()
    names = np.array(["outer", "inner"])[which]
    # Ids are words: without --id the column is refused, where numbers would be fitted.
    rows = [
        (f"p{i:03d}", *map(repr, map(float, point)), name)
        for i, (point, name) in enumerate(zip(points, names, strict=True))
    ]
    return _text(("id", "x", "y", "label"), rows)


def process_text(*, faulty: bool) -> str:
    """The process as CSV: in order, or with two faults, of which Q sees the one and T² the other."""
    readings = process(seed=0)
    if faulty:
        readings = np.concatenate([process(seed=2, fault_at=FAULT_AT), warm_hour(seed=2)])
    rows = [
        (str(BEGUN + np.timedelta64(minute, "m")), *(f"{value:.4f}" for value in reading))
        for minute, reading in enumerate(readings)
    ]
    return _text(("time", *SENSORS), rows)


def _text(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    # No cell has a comma, a quote or a line break in it.
    return "".join(f"{','.join(cells)}\n" for cells in (header, *rows))


# ── fit ─────────────────────────────────────────────────────────────────────
@dataclass(frozen=True)
class Case:
    """A data set of the plane, and the kernel that untangles it."""

    name: str
    make: Callable[[], tuple[Any, Any]]
    classes: tuple[str, str]
    gamma: float


BACK = 10  # components for the pre-images: enough that the points return to where they were
CASES = (
    Case("circles", circles, classes=("outer circle", "inner circle"), gamma=10),
    Case("moons", partial(make_moons, 50, random_state=0), ("upper moon", "lower moon"), gamma=15),
)


def _fit(case: Case) -> tuple[dict[str, Any], tuple[Any, ...]]:
    """The facts of a data set, and the arrays of its panels, the labels last."""
    points, which = case.make()
    labels = np.array(case.classes)[which]  # (n,)
    kernel, notes = RBF(gamma=case.gamma), list[str]()

    def noted(what: str) -> Any:  # warnings are part of what a demonstration has to say
        return collected(lambda warning: notes.append(f"{what}: {warning}"))

    with noted("PCA"):
        linear = PCA(n_components=2).fit_transform(points)
    with noted("kernel PCA"):
        model = KernelPCA(n_components=2, kernel=kernel).fit(points)
    with noted("pre-images"):
        back = KernelPCA(n_components=BACK, kernel=kernel, preimage="ridge")
        returned = back.inverse_transform(back.fit_transform(points))
    scores = model.transform(points)
    row = {
        "data": case.name,
        "n": len(points),
        "kernel": repr(model.kernel_),
        "components": scores.shape[1],
        "variance_kept": float(model.explained_variance_ratio_.sum()),  # of the true trace
        "accuracy_before": _accuracy(points, labels),
        "accuracy_after": _accuracy(scores, labels),
        "route": model.plan_.route,
        "solver": type(model.plan_.solver).__name__,
        "largest_residual": float(np.max(model.residuals_)),
        "notes": notes,
    }
    return row, (points, linear, scores, returned, labels)


def _accuracy(features: Any, labels: Any) -> float:
    # Hardly any penalty: the question is whether a line exists, not whether it generalises.
    line = LogisticRegression(C=1e6, max_iter=10_000).fit(features, labels)
    return float(line.score(features, labels))
