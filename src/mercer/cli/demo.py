"""`mercer demo`: two data sets that no line separates, before and after kernel PCA."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from mercer import plots
from mercer.app.demo import BACK, CASES, FAULT_AT, MINUTES, WARM_AT, DemoRequest
from mercer.cli.ending import refuse
from mercer.cli.options import option
from mercer.cli.plot_file import new_figure, save
from mercer.cli.verb import Call, verb
from mercer.data.frames import MissingPackageError


@verb(example="mercer demo --out out\nmercer demo --csv circles.csv")
@option(
    "--out",
    "Folder for the pictures circles.png and moons.png; made if need be. "
    "It is called out unless it is named.",
    click.Path(path_type=Path),
    metavar="FOLDER",
)
@option(
    "--csv",
    "Write the two circles, id,x,y,label, to a CSV file (- is stdout) and fit nothing, "
    "unless --out is given too.",
    "FILE",
)
@option(
    "--process",
    "Write two CSV files of a made process with five sensors, one in order and one whose "
    f"flow sensor drifts from minute {FAULT_AT} to {MINUTES}, which Q sees, and whose cooling "
    f"water gets warm from minute {WARM_AT} on, which T² sees.",
    nargs=2,
    metavar="NORMAL FAULTY",
)
def demo(call: Call, out: Path | None, csv: str | None, process: tuple[str, str] | None) -> None:
    """Fit two circles and two moons; print what was found, draw it.

    Neither data set can be split by a line. After kernel PCA with a Gaussian kernel both can.
    """
    if csv == "-" and (call.as_json or out is not None):
        refuse("--csv - fills stdout with the data: leave out --json and --out, or name a file.")
    fits = out is not None or (csv is None and process is None)
    shown = call.run(DemoRequest(csv=csv, process=process or None, fits=fits)).value
    if csv == "-":
        click.echo(shown.text, nl=False)
    if not fits:
        call.tell(shown.facts)
        return
    pictures, failure = _draw_all(Path("out") if out is None else out, shown.panels)
    if failure is not None and call.as_json:  # one document, a result or an error
        raise failure
    rows = shown.facts["data"]
    call.tell({**shown.facts, "pictures": pictures}, _as_table(rows))
    for row in rows:
        for note in row["notes"]:
            call.say(f"note: {row['data']}, {note}")
    for path in pictures:
        call.say(f"wrote {path}")
    if failure is not None:
        raise failure


# ── tell ────────────────────────────────────────────────────────────────────
LINES = {
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
        for title, form in LINES.items()
    ]
    lines.insert(1, "-" * len(lines[0]))
    lines.append("Linear accuracy: share of its own training points that a logistic regression")
    lines.append("gets right; 50.0% is what a coin gets.")
    return "\n".join(lines)


# ── draw ────────────────────────────────────────────────────────────────────
def _draw_all(out: Path, panels: dict[str, tuple[Any, ...]]) -> tuple[list[Path], Exception | None]:
    """The pictures that could be written, and why not all could."""
    pictures: list[Path] = []
    try:
        figures = {case.name: new_figure((7.6, 6.4)) for case in CASES}
        out.mkdir(parents=True, exist_ok=True)
        for case in CASES:
            path = out / f"{case.name}.png"
            kernel = f"kernel PCA, RBF γ = {case.gamma:g}"
            titles = ("data", "PCA", kernel, f"back from {BACK} components")
            plots.panels(*panels[case.name], titles=titles, fig=figures[case.name])
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
