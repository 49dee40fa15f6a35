"""The linked panels of a fit: scores, level sets, spectrum and pre-images."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import numpy as np

from mercer import views
from mercer._core.errors import MercerError
from mercer.app.explore import planes
from mercer.app.explore.fitting import SAMPLE, SYMPTOM_ROWS, Shown, drawn, quietly, rows_at
from mercer.app.explore.planes import Choice, Panel, Plane
from mercer.app.outcome import Observer, Run, as_dict, plain, refuse, refuse_value
from mercer.views.base import listing, spaced, span
from mercer.views.scatter import component_names
from mercer.views.variance import MOST_ROWS
from mercer.views.wording import counted, number

if TYPE_CHECKING:
    from collections.abc import Callable


GRID = {"drag": 48, "rest": 96, "exact": 96}
ALIKE = "Rows that the kernel finds alike lie close together."
THREE = (
    "Three components, each as long as its largest score. A drag, or Shift and the arrow keys, turns them; "
    "Shift and a drag selects."
)
NO_SHARES = (
    "A bar is an eigenvalue. This kernel is indefinite on these rows: negative eigenvalues are subtracted "
    "from the whole variance, so shares of it add up to more than 100 %, mean little, and are not drawn."
)
SEEN = "The fit has seen these rows; the error on rows held out from the pre-image is under Method."
FEW = 500  # rows whose pre-images are quick enough to follow a finger


def panels(
    shown: Shown, wanted: dict[str, Any], quality: str, observer: Observer | None = None
) -> Panel:
    """Those panels of a fit that are wanted, in one value; one that can't be made has its error in its place.

    Parameters
    ----------
    shown : Shown
    wanted : dict
        ``"scores"``, ``"levels"``, ``"spectrum"`` and ``"back"``, each with its options.
    quality : {"drag", "rest", "exact"}
    observer : Observer, optional
        May stop the work between blocks of rows.
    """
    choice = Choice.among(len(shown.sheet), quality)
    with quietly(quality, choice.of):
        described = shown.described
    header: dict[str, Any] = {
        "recipe": shown.recipe.plain,
        "quality": quality,
        "fit": described,
        "shown": choice.plain,
        "panels": {},
        "findings": list(shown.findings),
        "timings": {name: 1e3 * seconds for name, seconds in shown.timings.items()},
    }
    arrays: dict[str, Any] = {}
    for name, options in wanted.items():
        if name not in PANELS:
            refuse_value("panels", name, ", ".join(PANELS))
        if not isinstance(options, dict):
            continue  # false: not wanted
        begun = time.perf_counter()
        try:
            with quietly(quality, choice.of):
                panel = PANELS[name](shown, options, choice, quality, observer)
        except MercerError as error:
            refusal = {"code": "refused", "message": str(error), "remedy": error.remedy}
            panel = Panel({"error": refusal})
        header["panels"][name] = panel.header
        header["timings"][name] = 1e3 * (time.perf_counter() - begun)
        arrays |= panel.arrays
    return Panel(header, arrays)


def _score_panel(
    shown: Shown, options: dict[str, Any], choice: Choice, quality: str, observer: Observer | None
) -> Panel:
    del quality
    own, rows = shown.inside, shown.sheet.rows
    asked = options.get("components", [0, 1])
    if not isinstance(asked, list) or not 1 <= len(asked) <= 3:
        refuse_value("components", asked, "one to three components")
    wanted = [j for j in asked if not (isinstance(j, int) and j >= own.k)] or [0]
    scores = shown.scores if choice.rows is None else None
    if scores is None:
        scores = planes.scores_at(own, rows, choice.rows, observer)
    view = views.scores(
        scores, components=wanted, explained_variance_ratio=shown.shares, keep_infinite=False
    )
    caption, gaps = view.caption, int(np.isnan(scores).any(axis=1).sum())
    if gaps:
        why = " or have too few rows before them" if own.looks_back else ""
        far = f"{counted(view.left_out, 'row')} too far out to be computed are not drawn."
        gone = f"{gaps} of {len(scores)} rows lack a reading{why}, and are left out."
        caption = caption.replace(far, gone)
    header = {
        **planes.listed(view),
        "caption": f"{caption if len(wanted) < 3 else THREE} {ALIKE}",
        "axes": list(view.axes),
        "components": wanted,
    }
    chosen = scores[:, wanted]
    if choice.how == "density":
        flat = chosen if chosen.shape[1] > 1 else np.column_stack([chosen, np.zeros(len(chosen))])
        found = planes.drawn_points(flat, choice)
        return Panel({**header, **found.header}, {"score_density": found.arrays["density"]})
    sample = {} if choice.rows is None else {"rows": choice.rows}
    return Panel(header, {"scores": chosen, **sample})


def _level_panel(
    shown: Shown, options: dict[str, Any], choice: Choice, quality: str, observer: Observer | None
) -> Panel:
    del observer
    own, component = shown.inside, options.get("component", 0)
    if own.looks_back:
        refuse(
            "This detector judges a row by those before it: one point of the plane has no component. Fit "
            "kernel PCA to the rows to see level sets."
        )
    component = min(component, own.k - 1) if isinstance(component, int) else component
    plane = Plane.read(options.get("plane"), shown.data, shown.recipe.scale)
    some = choice.rows if choice.how != "density" else drawn(choice.of, SAMPLE)
    rows = rows_at(shown.sheet.rows, some)
    whole = planes.whole_rows(rows[:])
    rows = rows if whole is None else rows[:][whole]
    knobs: dict[str, Any] = {"component": component, "resolution": GRID[quality]}
    if plane.columns is None:
        # The plane is that of the file's rows: a detector, or a saved model, scales them in its own way.
        through: Callable[[Any], Any] = lambda at: own.raw_scores(shown.of_file(plane.raw(at)))  # noqa: E731
        view = views.levels(through, plane.points(some), names=plane.axes, **knobs)
    else:
        if plane.columns[0] == plane.columns[1]:
            remedy = ", and these rows have one." if own.d == 1 else ". Choose another for an axis."
            refuse("Level sets are drawn over two different columns{why}", why=remedy)
        knobs |= {"variables": plane.columns, "fixed": options.get("fixed", "median")}
        view = views.levels(shown.model, rows, preparation=shown.sheet.preparation, **knobs)
    centre = np.array([view.across.mean(), view.up.mean()])
    title = component_names([component], shown.shares)[0].capitalize()
    header = {
        **planes.listed(view),
        "axes": list(view.axes),
        "caption": f"{title} as a function of {' and '.join(view.axes)}: points of one "
        "shade have about the same score, which is 0 on the line.",
        "where": view.where.capitalize(),
        "reach": max(float(view.reach[0]), _reach(shown, component)),
        "extent": [[float(a[0]), float(a[-1])] for a in (view.across, view.up)],
        "centre": centre.tolist(),
        "component": component,
    }
    arrays = {
        "levels": view.values[0],
        "across": view.across - centre[0],
        "up": view.up - centre[1],
        "zero": view.zeros[0] - centre,
    }
    return Panel(header, arrays)


def _reach(shown: Shown, component: int) -> float:
    """The largest score of some rows: a grid can miss the one row that a narrow kernel is about."""
    rows = shown.sheet.rows
    scores = planes.all_scores(shown.inside, rows_at(rows, drawn(len(rows), SYMPTOM_ROWS)))
    return float(np.nanmax(np.abs(scores[:, component])))


def _spectrum_panel(shown: Shown, *_unused: Any) -> Panel:
    view = views.spectrum(shown.model)
    fit = shown.inside.fit
    header = {
        **planes.listed(view),
        "caption": f"A bar is one component's share of the variance, the line is their sum. {view.caption}",
        "axes": list(view.axes),
        "evidence": view.evidence,
        "enough": view.enough,
        "reached": view.reached,
        "whole": view.whole,
        "shares": True,
        "certificate": "" if fit is None or fit.certificate is None else str(fit.certificate),
    }
    if shown.is_indefinite:
        rows = [[i, number(value)] for i, value in enumerate(view.eigenvalues, 1)]
        tables = [plain(listing("Eigenvalues", ["component", "eigenvalue"], rows))]
        header |= {"caption": NO_SHARES, "tables": tables, "reached": None, "shares": False}
        return Panel(header, {"eigenvalues": view.eigenvalues})
    arrays = {"eigenvalues": view.eigenvalues, "shares": view.shares, "running": view.running}
    if view.bounds is not None:
        arrays["bounds"] = view.bounds
    if fit is not None:
        arrays["residuals"] = fit.residuals
    return Panel(header, arrays)


def _back_panel(
    shown: Shown, options: dict[str, Any], choice: Choice, quality: str, observer: Observer | None
) -> Panel:
    """Pre-images, where they are quick enough to follow a finger; others are asked for by themselves."""
    del choice
    if len(shown.sheet) > FEW:
        words = "when you let go" if quality == "drag" else "now; that takes a moment"
        return Panel({"later": f"Pre-images are computed {words}."})
    return back_panel(shown, options.get("plane"), observer)


def back_panel(shown: Shown, given: Any, observer: Observer | None = None) -> Panel:
    """Rows taken to their scores and back, beside the error of always answering with the mean."""
    if shown.inside.detector is not None:
        refuse("A detector judges rows and has no pre-images. Choose kernel PCA to see them.")
    run = Run(observer)
    with run.following(), run.timed("pre-image"):
        back = shown.returning()
    own, sheet = back.inside, shown.sheet
    plane = Plane.read(given, shown.data, shown.recipe.scale)
    view = views.reconstruction(back.model, sheet.rows, preparation=sheet.preparation)
    which = spaced(len(sheet), MOST_ROWS)
    if len(view.rows) == len(which) and np.array_equal(view.rows, which):
        raw, there = view.original, view.back
    else:
        block = sheet.rows[which]
        raw, there = own.raw(block), own.back(own.scores(block))
    points = plane.of_raw(shown.in_file(there))
    centre = np.array([0.5 * sum(span(c, 0.0)) for c in plane.of_raw(shown.in_file(raw)).T])
    spread = np.where(view.spread > 0, view.spread, 1.0)
    header = {
        **planes.listed(view),
        **planes.method_of(own),
        "findings": [as_dict(finding) for finding in run.findings],
        "axes": plane.axes,
        "centre": centre.tolist(),
        "rms": float(np.sqrt(np.mean(view.error**2))),
        "mean_rms": float(np.sqrt(np.mean(view.spread**2))),
    }
    if header["quality"] and shown.recipe.model is None:
        header["caption"] = f"{view.caption} {SEEN}"
    row_error = np.sqrt(np.mean(((there - raw) / spread) ** 2, axis=1))
    return Panel(header, {"back": points - centre, "back_rows": which, "row_error": row_error})


PANELS: dict[str, Callable[..., Panel]] = {
    "scores": _score_panel,
    "levels": _level_panel,
    "spectrum": _spectrum_panel,
    "back": _back_panel,
}
