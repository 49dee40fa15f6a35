"""`mercer demo`: two data sets that no line separates, before and after kernel PCA."""

from __future__ import annotations

import json
import warnings
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import numpy as np
from sklearn.datasets import make_circles, make_moons
from sklearn.linear_model import LogisticRegression
from threadpoolctl import threadpool_limits

from mercer import PCA, KernelPCA, __version__, plots
from mercer.kernels import RBF

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

SCHEMA_VERSION = 1
MISSING = (
    "The pictures need matplotlib, which is not installed. "
    'Install it with: pip install "mercer[plot]"'
)


@dataclass(frozen=True)
class Case:
    """A data set of the plane, and the kernel that untangles it."""

    name: str
    make: Callable[[], tuple[Any, Any]]
    classes: tuple[str, str]
    gamma: float
    back: int  # components for the way back: enough that the points return where they were


CASES = (
    Case(
        "circles",
        lambda: make_circles(400, factor=0.3, noise=0.05, random_state=0),
        classes=("outer circle", "inner circle"),
        gamma=10,
        back=10,
    ),
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


@click.command(epilog="Example:\n\n\b\n  mercer demo --out out")
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    default=Path("out"),
    show_default=True,
    help="Folder for the pictures circles.png and moons.png; made if need be.",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON in place of the table.")
def demo(out: Path, as_json: bool) -> None:
    """Fit two circles and two moons; print what was found, draw it.

    Neither data set can be split by a line. After kernel PCA with a Gaussian kernel both can.
    """
    # Matrices this small gain nothing from threads, and on a busy machine threads that wait for
    # each other take seconds.
    with threadpool_limits(limits=1):
        rows, drawn = zip(*(_fit(case) for case in CASES), strict=True)
    pictures, failure = _draw_all(out, drawn)
    click.echo(_as_json(rows, pictures) if as_json else _as_table(rows))
    for row in rows:
        for note in row.notes:
            click.echo(f"note: {row.data}, {note}", err=True)
    for path in pictures:
        click.echo(f"wrote {path}", err=True)
    if failure is not None:
        raise click.ClickException(failure)


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


def _as_json(rows: Sequence[Row], pictures: Sequence[Path]) -> str:
    document = {
        "schema_version": SCHEMA_VERSION,
        "mercer": __version__,
        "classifier": "LogisticRegression, accuracy on its training points",
        "data": [asdict(row) for row in rows],
        "pictures": [str(path) for path in pictures],
    }
    return json.dumps(document, indent=2)


# ── draw ────────────────────────────────────────────────────────────────────
def _draw_all(out: Path, drawn: Sequence[Drawn]) -> tuple[list[Path], str | None]:
    """The pictures that could be written, and in a sentence why not all could."""
    pictures: list[Path] = []
    try:
        from matplotlib.figure import Figure
    except ModuleNotFoundError as cause:
        if (cause.name or "").partition(".")[0] != "matplotlib":
            raise  # it is there but broken: its own message says more
        return pictures, MISSING
    try:
        out.mkdir(parents=True, exist_ok=True)
        for case, arrays in zip(CASES, drawn, strict=True):
            path = out / f"{case.name}.png"
            # A Figure of its own needs no display and leaves pyplot's state alone.
            figure = Figure(figsize=(7.6, 6.4), layout="constrained", dpi=120)
            _draw(case, arrays, figure)
            figure.savefig(path)
            pictures.append(path)
    except OSError as error:
        reason = error.strerror or str(error)
        return pictures, (
            f"The pictures cannot be written to {str(out)!r}: {reason}. "
            "Name a folder that can be written to with --out."
        )
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
