"""`mercer demo`: two data sets that no line separates, before and after kernel PCA."""

from __future__ import annotations

import os
import warnings
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import numpy as np
from sklearn.datasets import make_moons
from sklearn.linear_model import LogisticRegression
from threadpoolctl import threadpool_limits

from mercer import PCA, KernelPCA, plots
from mercer.cli.demo_data import FAULT_AT, circles, write_circles, write_process
from mercer.cli.frame import verb
from mercer.cli.plot_file import new_figure, save
from mercer.data.frames import MissingPackageError
from mercer.kernels import RBF

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from mercer.cli.frame import Talk


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


@dataclass(frozen=True)
class Row:
    """What is told about one data set, as the fitted model has it."""

    data: str
    n: int
    kernel: str
    components: int
    variance_kept: float  # of the true trace
    accuracy_before: float
    accuracy_after: float
    route: str
    solver: str
    largest_residual: float
    notes: tuple[str, ...]


@dataclass(frozen=True)
class Drawn:
    """The arrays of the four panels."""

    points: Any  # (n, 2)
    labels: Any  # (n,)
    linear: Any  # (n, 2)
    curved: Any  # (n, 2)
    returned: Any  # (n, 2)


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
def demo(talk: Talk, out: Path | None, csv: str | None, process: tuple[str, str] | None) -> None:
    """Fit two circles and two moons; print what was found, draw it.

    Neither data set can be split by a line. After kernel PCA with a Gaussian kernel both can.
    """
    if csv == "-" and (talk.as_json or out is not None):
        msg = "--csv - fills stdout with the data: leave out --json and --out, or name a file."
        raise click.UsageError(msg)
    written = _write_data(talk, csv, process)
    if written and out is None:
        talk.tell({"files": written})
        return
    out = Path("out") if out is None else out
    # Matrices this small gain nothing from threads, and on a busy machine threads that wait for
    # each other take seconds.
    with threadpool_limits(limits=1):
        rows, drawn = zip(*(_fit(case) for case in CASES), strict=True)
    pictures, failure = _draw_all(out, drawn)
    if failure is not None and talk.as_json:  # one document, a result or an error
        raise failure
    talk.tell(_results(rows, pictures, written), _as_table(rows))
    for row in rows:
        for note in row.notes:
            talk.say(f"note: {row.data}, {note}")
    for path in pictures:
        talk.say(f"wrote {path}")
    if failure is not None:
        raise failure


def _write_data(
    talk: Talk, csv: str | None, process: tuple[str, str] | None
) -> list[dict[str, Any]]:
    """Write the files that were asked for; their names and numbers of rows."""
    paths = [*([] if csv is None else [csv]), *(process or ())]
    if len({os.path.realpath(path) for path in paths}) < len(paths):
        msg = f"{', '.join(paths)}: one of these files comes twice. Give each its own name."
        raise click.UsageError(msg)
    written = []
    if csv is not None:
        written.append({"file": csv, "rows": write_circles(csv)})
    if process is not None:
        n = write_process(*process)
        written += [{"file": path, "rows": n} for path in process]
    for entry in written:
        if entry["file"] != "-":
            talk.say(f"wrote {entry['file']}: {entry['rows']} rows")
    return written


# ── fit ─────────────────────────────────────────────────────────────────────
def _fit(case: Case) -> tuple[Row, Drawn]:
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
    row = Row(
        data=case.name,
        n=len(points),
        kernel=repr(model.kernel_),
        components=scores.shape[1],
        variance_kept=float(model.explained_variance_ratio_.sum()),
        accuracy_before=_accuracy(points, labels),
        accuracy_after=_accuracy(scores, labels),
        route=model.plan_.route,
        solver=type(model.plan_.solver).__name__,
        largest_residual=float(np.max(model.residuals_)),
        notes=tuple(notes),
    )
    return row, Drawn(points, labels, linear, scores, returned)


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
def _as_table(rows: Sequence[Row]) -> str:
    """One column a data set, plain ASCII: it fits any terminal of 80 characters."""
    told: list[tuple[str, Callable[[Row], str]]] = [
        ("data set", lambda row: f"two {row.data}"),
        ("points", lambda row: f"{row.n}"),
        ("kernel", lambda row: row.kernel),
        ("components", lambda row: f"{row.components}"),
        ("variance kept, of the true trace", lambda row: f"{row.variance_kept:.1%}"),
        ("linear accuracy before, on the data", lambda row: f"{row.accuracy_before:.1%}"),
        ("linear accuracy after, on the scores", lambda row: f"{row.accuracy_after:.1%}"),
        ("route, solver", lambda row: f"{row.route}, {row.solver}"),
        ("largest residual, relative", lambda row: f"{row.largest_residual:.1e}"),
    ]
    lines = [f"{title:<37}" + "".join(f"{tell(row):>18}" for row in rows) for title, tell in told]
    lines.insert(1, "-" * len(lines[0]))
    lines.append("Linear accuracy: share of its own training points that a logistic regression")
    lines.append("gets right; 50.0% is what a coin gets.")
    return "\n".join(lines)


def _results(
    rows: Sequence[Row], pictures: Sequence[Path], written: Sequence[dict[str, Any]]
) -> dict[str, Any]:
    return {
        "classifier": "LogisticRegression, accuracy on its training points",
        "data": [asdict(row) for row in rows],
        "pictures": list(pictures),
        "files": list(written),
    }


# ── draw ────────────────────────────────────────────────────────────────────
def _draw_all(out: Path, drawn: Sequence[Drawn]) -> tuple[list[Path], Exception | None]:
    """The pictures that could be written, and why not all could."""
    pictures: list[Path] = []
    try:
        figures = {case.name: new_figure((7.6, 6.4)) for case in CASES}
        out.mkdir(parents=True, exist_ok=True)
        for case, arrays in zip(CASES, drawn, strict=True):
            path = out / f"{case.name}.png"
            figure = figures[case.name]
            _draw(case, arrays, figure)
            save(figure, path)
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


def _draw(case: Case, arrays: Drawn, figure: Any) -> None:
    titles = (
        "data",
        "PCA",
        f"kernel PCA, RBF γ = {case.gamma:g}",
        f"back from {case.back} components",
    )
    plots.panels(
        arrays.points,
        arrays.linear,
        arrays.curved,
        arrays.returned,
        arrays.labels,
        titles=titles,
        fig=figure,
    )
