"""`mercer demo`: two data sets that no line separates, before and after kernel PCA."""

from __future__ import annotations

import os
import warnings
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import numpy as np
from sklearn.datasets import make_circles, make_moons
from sklearn.linear_model import LogisticRegression
from threadpoolctl import threadpool_limits

from mercer import PCA, KernelPCA, plots
from mercer.cli.ending import refuse
from mercer.cli.output import check_output, replacing
from mercer.cli.plot_file import new_figure, save
from mercer.cli.verb import Call, verb
from mercer.data.frames import MissingPackageError
from mercer.kernels import RBF

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from mercer._core.types import Array

SENSORS = ("flow", "temperature", "pressure", "level", "power")
BEGUN = np.datetime64("2026-01-05T06:00")
MINUTES = 300  # rows of each process file
FAULT_AT = 200  # the minute from which the flow sensor of the second file reads too high


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
    ambient = _slow(rng)
    columns = [
        10 + 1.5 * load,
        60 + 4 * load + ambient,
        2 + 0.2 * load**2,
        1.2 - 0.1 * load + 0.02 * ambient,
        30 + 3 * load + 0.6 * load**2 - 0.5 * ambient,
    ]
    spreads = np.array([0.15, 0.3, 0.02, 0.01, 0.3])
    readings = np.column_stack(columns) + spreads * rng.standard_normal((MINUTES, len(SENSORS)))
    if fault_at is not None:
        readings[:, 0] += np.clip(0.05 * (minute - fault_at), 0.0, 2.0)
    return readings


def _slow(rng: np.random.Generator) -> Array:
    """An autoregression of standard deviation 1 whose memory is about twenty minutes."""
    keep, value, values = 0.95, rng.standard_normal(), []
    for shock in rng.standard_normal(MINUTES):
        value = keep * value + np.sqrt(1 - keep**2) * shock
        values.append(value)
    return np.array(values)


# ── files ───────────────────────────────────────────────────────────────────
def write_circles(path: str) -> int:
    """Write id, x, y and label to a CSV file, or to stdout for -; the number of rows."""
    points, which = circles()
    names = np.array(["outer", "inner"])[which]
    # Ids are words: whoever forgets --id is told of a column of words, and fits no row numbers.
    rows = [
        (f"p{i:03d}", *map(repr, map(float, point)), name)
        for i, (point, name) in enumerate(zip(points, names, strict=True))
    ]
    _write(path, ("id", "x", "y", "label"), rows)
    return len(rows)


def write_process(normal: str, faulty: str) -> int:
    """Write the process in order, and out of order from minute FAULT_AT on; the rows of each file."""
    for path, seed, fault_at in ((normal, 0, None), (faulty, 2, FAULT_AT)):
        readings = process(seed=seed, fault_at=fault_at)
        rows = [
            (str(BEGUN + minute), *(f"{value:.4f}" for value in reading))
            for minute, reading in enumerate(readings)
        ]
        _write(path, ("time", *SENSORS), rows)
    return MINUTES


def _write(path: str, header: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    # No cell has a comma, a quote or a line break in it.
    text = "".join(f"{','.join(cells)}\n" for cells in (header, *rows))
    if path == "-":
        click.echo(text, nl=False)
        return
    with replacing(check_output(path, (), option="the file")) as file:
        file.write(text.encode())


@dataclass(frozen=True)
class Case:
    """A data set of the plane, and the kernel that untangles it."""

    name: str
    make: Callable[[], tuple[Any, Any]]
    classes: tuple[str, str]
    gamma: float
    back: int  # components for the way back: enough that the points return where they were


CASES = (
    Case("circles", circles, classes=("outer circle", "inner circle"), gamma=10, back=10),
    Case(
        "moons",
        lambda: make_moons(50, random_state=0),
        classes=("upper moon", "lower moon"),
        gamma=15,
        back=10,
    ),
)


@verb(example="mercer demo --out out\nmercer demo --csv circles.csv")
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    metavar="FOLDER",
    help="Folder for the pictures circles.png and moons.png; made if need be. "
    "It is called out unless it is named.",
)
@click.option(
    "--csv",
    metavar="FILE",
    help="Write the two circles, id,x,y,label, to a CSV file (- is stdout) and fit nothing, "
    "unless --out is given too.",
)
@click.option(
    "--process",
    nargs=2,
    metavar="NORMAL FAULTY",
    help="Write two CSV files of a made process with five sensors, one in order and one whose "
    f"flow sensor drifts from minute {FAULT_AT} on.",
)
def demo(call: Call, out: Path | None, csv: str | None, process: tuple[str, str] | None) -> None:
    """Fit two circles and two moons; print what was found, draw it.

    Neither data set can be split by a line. After kernel PCA with a Gaussian kernel both can.
    """
    if csv == "-" and (call.as_json or out is not None):
        refuse("--csv - fills stdout with the data: leave out --json and --out, or name a file.")
    written = _write_data(call, csv, process)
    if written and out is None:
        call.tell({"files": written})
        return
    out = Path("out") if out is None else out
    # Matrices this small gain nothing from threads, and on a busy machine threads that wait for
    # each other take seconds.
    with threadpool_limits(limits=1):
        rows, drawn = zip(*(_fit(case) for case in CASES), strict=True)
    pictures, failure = _draw_all(out, drawn)
    if failure is not None and call.as_json:  # one document, a result or an error
        raise failure
    results = {
        "classifier": "LogisticRegression, accuracy on its training points",
        "data": rows,
        "pictures": pictures,
        "files": written,
    }
    call.tell(results, _as_table(rows))
    for row in rows:
        for note in row["notes"]:
            call.say(f"note: {row['data']}, {note}")
    for path in pictures:
        call.say(f"wrote {path}")
    if failure is not None:
        raise failure


def _write_data(
    call: Call, csv: str | None, process: tuple[str, str] | None
) -> list[dict[str, Any]]:
    """Write the files that were asked for; their names and numbers of rows."""
    paths = [*([] if csv is None else [csv]), *(process or ())]
    if len({os.path.realpath(path) for path in paths}) < len(paths):
        refuse(f"{', '.join(paths)}: one of these files comes twice. Give each its own name.")
    written = []
    if csv is not None:
        written.append({"file": csv, "rows": write_circles(csv)})
    if process is not None:
        n = write_process(*process)
        written += [{"file": path, "rows": n} for path in process]
    for entry in written:
        if entry["file"] != "-":
            call.say(f"wrote {entry['file']}: {entry['rows']} rows")
    return written


# ── fit ─────────────────────────────────────────────────────────────────────
def _fit(case: Case) -> tuple[dict[str, Any], tuple[Any, ...]]:
    """What is told about a data set, and the arrays of its panels, the labels last."""
    points, which = case.make()
    labels = np.array(case.classes)[which]  # (n,)
    kernel, notes = RBF(gamma=case.gamma), list[str]()
    with _noted("PCA", notes):
        linear = PCA(n_components=2).fit_transform(points)
    with _noted("kernel PCA", notes):
        model = KernelPCA(n_components=2, kernel=kernel).fit(points)
    with _noted("the way back", notes):
        back = KernelPCA(n_components=case.back, kernel=kernel, preimage="ridge")
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


@contextmanager
def _noted(what: str, notes: list[str]) -> Iterator[None]:
    """Warnings become notes: part of what a demonstration has to say."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield
    notes += [f"{what}: {warning.message}" for warning in caught]


def _accuracy(features: Any, labels: Any) -> float:
    # Hardly any penalty: the question is whether a line exists, not whether it generalises.
    line = LogisticRegression(C=1e6, max_iter=10_000).fit(features, labels)
    return float(line.score(features, labels))


# ── tell ────────────────────────────────────────────────────────────────────
TOLD = {
    "data set": "two {data}",
    "points": "{n}",
    "kernel": "{kernel}",
    "components": "{components}",
    "variance kept, of the true trace": "{variance_kept:.1%}",
    "linear accuracy before, on the data": "{accuracy_before:.1%}",
    "linear accuracy after, on the scores": "{accuracy_after:.1%}",
    "route, solver": "{route}, {solver}",
    "largest residual, relative": "{largest_residual:.1e}",
}


def _as_table(rows: Sequence[dict[str, Any]]) -> str:
    """One column a data set, plain ASCII: it fits any terminal of 80 characters."""
    lines = [
        f"{title:<37}" + "".join(f"{form.format(**row):>18}" for row in rows)
        for title, form in TOLD.items()
    ]
    lines.insert(1, "-" * len(lines[0]))
    lines.append("Linear accuracy: share of its own training points that a logistic regression")
    lines.append("gets right; 50.0% is what a coin gets.")
    return "\n".join(lines)


# ── draw ────────────────────────────────────────────────────────────────────
def _draw_all(out: Path, drawn: Sequence[tuple[Any, ...]]) -> tuple[list[Path], Exception | None]:
    """The pictures that could be written, and why not all could."""
    pictures: list[Path] = []
    try:
        figures = {case.name: new_figure((7.6, 6.4)) for case in CASES}
        out.mkdir(parents=True, exist_ok=True)
        for case, arrays in zip(CASES, drawn, strict=True):
            path = out / f"{case.name}.png"
            kernel = f"kernel PCA, RBF γ = {case.gamma:g}"
            titles = ("data", "PCA", kernel, f"back from {case.back} components")
            plots.panels(*arrays, titles=titles, fig=figures[case.name])
            save(figures[case.name], path)
            pictures.append(path)
    except MissingPackageError as error:
        return pictures, error
    except OSError as error:
        reason = error.strerror or str(error).rstrip(".")
        msg = (
            f"The pictures cannot be written to {str(out)!r}: {reason}. "
            "Name a folder that can be written to with --out."
        )
        return pictures, OSError(msg)
    return pictures, None
