"""The linked panels: rows in a plane, scores, level sets, spectrum and the way back."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from mercer import views
from mercer._core.errors import InputError, MercerError, ParameterError
from mercer.app.explore.dataset import described_classes
from mercer.app.explore.fitting import POINTS, SAMPLE, drawn
from mercer.app.outcome import Run, as_dict, plain
from mercer.views.base import spaced, span
from mercer.views.checks import component as component_index
from mercer.views.classes import Classes, alarm_classes, classes
from mercer.views.rebuilt import MOST_ROWS
from mercer.views.scatter import BINS, MOST_LISTED, cells
from mercer.views.wording import count, number

if TYPE_CHECKING:
    from collections.abc import Callable

    from mercer._core.types import Array, Indices
    from mercer.app.explore.dataset import Dataset
    from mercer.app.explore.fitting import Shown
    from mercer.app.outcome import Observer
    from mercer.views.fitted import Fitted

GRID = {"drag": 48, "rest": 96, "exact": 96}
FEW = 500  # rows of which the way back is quick enough to follow a finger


@dataclass(frozen=True, eq=False)
class Panel:
    """What a page draws: words and numbers of plain JSON, and arrays by name."""

    header: dict[str, Any]
    arrays: dict[str, Any] = field(default_factory=dict)


# ── which rows ──────────────────────────────────────────────────────────────
@dataclass(frozen=True, eq=False)
class Choice:
    """The rows that are drawn, and how that is said."""

    how: str  # "all", "sample" or "density"
    of: int
    rows: Indices | None  # None: all of them

    @classmethod
    def among(cls, n: int, quality: str) -> Choice:
        """All, a seeded sample while the finger is down, or all of them counted in cells."""
        if quality == "drag" and n > SAMPLE:
            return cls("sample", n, drawn(n, SAMPLE))
        return cls("density" if n > POINTS else "all", n, None)

    @property
    def m(self) -> int:
        """How many there are."""
        return self.of if self.rows is None else len(self.rows)

    @property
    def plain(self) -> dict[str, Any]:
        """As JSON has it, with a sentence."""
        words = {
            "all": f"all {count(self.of)} rows",
            "sample": f"{count(self.m)} of {count(self.of)} rows, drawn with seed 0, while you drag",
            "density": f"all {count(self.of)} rows, counted in {BINS} × {BINS} cells",
        }[self.how]
        return {"how": self.how, "rows": self.m, "of": self.of, "words": words}


def listed(view: views.View) -> dict[str, Any]:
    """The caption of a view and its tables, for those who don't see it."""
    return {"caption": view.caption, "tables": plain_tables(view)}


def plain_tables(view: views.View) -> list[dict[str, Any]]:
    """Tables as JSON has them."""
    return [
        {
            "caption": t.caption,
            "head": list(t.head),
            "rows": [list(r) for r in t.rows],
            "texts": t.texts,
        }
        for t in view.tables
    ]


# ── a plane of the data ─────────────────────────────────────────────────────
@dataclass(frozen=True, eq=False)
class Plane:
    """Two coordinates to look at rows in: two columns, or linear PCA of all of them."""

    data: Dataset
    columns: tuple[int, int] | None  # None: PCA
    scale: str

    @classmethod
    def read(cls, given: Any, data: Dataset, scale: str) -> Plane:
        """A plane of JSON: ``{"columns": [0, 1]}`` or ``{"pca": true}``."""
        given = {"columns": [0, min(1, data.raw.rows.shape[1] - 1)]} if given is None else given
        if isinstance(given, dict) and given.get("pca"):
            return cls(data, None, scale)
        pair: Any = given.get("columns") if isinstance(given, dict) else None
        d = data.raw.rows.shape[1]
        whole = isinstance(pair, list) and len(pair) == 2 and all(type(j) is int for j in pair)
        if not whole or not all(0 <= j < d for j in pair):
            must_be = f'two columns from 0 to {d - 1}, {{"columns": [0, 1]}}, or {{"pca": true}}'
            raise ParameterError.about(parameter="plane", value=given, must_be=must_be)
        return cls(data, (pair[0], pair[1]), scale)

    @property
    def axes(self) -> list[str]:
        """What the two are called."""
        if self.columns is None:
            return ["first principal axis", "second principal axis"]
        return [self.data.raw.names[j] for j in self.columns]

    def points(self, rows: Indices | None = None) -> Array:  # (m, 2)
        """The rows, or those at some positions."""
        if self.columns is not None:
            return self.data.columns(list(self.columns), rows)
        sheet = self.data.sheet(self.scale)
        return self._of_prepared(sheet.rows if rows is None else sheet.rows[rows])

    def _of_prepared(self, prepared: Any) -> Array:
        found = np.asarray(self.data.plane(self.scale).transform(prepared))
        return found if found.shape[1] == 2 else np.column_stack([found, np.zeros(len(found))])

    def of_raw(self, raw: Array) -> Array:  # (m, d) -> (m, 2)
        """Rows in the units of the file."""
        if self.columns is not None:
            return np.asarray(raw)[:, list(self.columns)]
        return self._of_prepared(self.data.sheet(self.scale).preparation.scaled(raw))


def coloured(data: Dataset, color: Any, shown: Shown | None) -> Classes:
    """The classes of all rows: their labels, a column, a component, or the alarms of a detector."""
    n = data.n
    if color is None or color == "none":
        return classes(None, n)
    if color == "label":
        return data.classes
    if isinstance(color, dict) and "column" in color:
        return classes(data.column(color["column"]), n)
    if shown is None:
        raise ParameterError.about(
            parameter="color",
            value=color,
            must_be="'label', a column or None where there is no recipe",
        )
    if color == "alarm":
        if shown.inside.detector is None:
            raise ParameterError.about(
                parameter="color", value=color, must_be="'alarm' of a detector only"
            )
        return alarm_classes(shown.inside.alarm(shown.sheet.rows))
    if isinstance(color, dict) and "component" in color:
        component = component_index(color["component"], shown.inside.k)
        return classes(_scores(shown.inside, shown.sheet.rows)[:, component], n)
    must_be = "'label', 'alarm', {\"column\": 0}, {\"component\": 0} or None"
    raise ParameterError.about(parameter="color", value=color, must_be=must_be)


def rows_panel(
    data: Dataset, scale: str, plane: Any, color: Any = "label", shown: Shown | None = None
) -> Panel:
    """All rows in a plane, with their classes; many of them counted in cells."""
    choice, seen = Choice.among(data.n, "rest"), Plane.read(plane, data, scale)
    points, looks = seen.points(), coloured(data, color, shown)
    header: dict[str, Any] = {
        "shown": choice.plain,
        "axes": seen.axes,
        "classes": described_classes(looks),
    }
    header["tables"] = [_first_rows(points, seen.axes)]
    header["caption"] = f"{seen.axes[1]} against {seen.axes[0]}: {choice.plain['words']}."
    drawn_as = _drawn(points, choice, looks)
    return Panel({**header, **drawn_as.header}, drawn_as.arrays)


def _first_rows(points: Array, axes: list[str]) -> dict[str, Any]:
    """The first rows as a table, for those who don't see the picture."""
    rows = [[str(i), *map(number, point)] for i, point in enumerate(points[:MOST_LISTED])]
    caption = f"The first {len(rows)} of {count(len(points))} rows"
    return {"caption": caption, "head": ["row", *axes], "rows": rows, "texts": 1}


def _drawn(points: Array, choice: Choice, looks: Classes | None = None) -> Panel:
    """Points less their centre, which float32 holds to the last digit; or the cells that they fall into."""
    across, up = (span(column, 0.04) for column in points[:, :2].T)
    centre = np.array([0.5 * sum(across), 0.5 * sum(up)])
    header: dict[str, Any] = {"centre": centre.tolist(), "extent": [list(across), list(up)]}
    if choice.how != "density":
        arrays: dict[str, Any] = {"points": points[:, :2] - centre}
        if looks is not None:
            arrays["codes"] = looks.codes
            if looks.shade is not None:
                arrays["shade"] = looks.shade
        if choice.rows is not None:
            arrays["rows"] = choice.rows
        return Panel(header, arrays)
    own = classes(None, len(points)) if looks is None else looks
    found = cells(points[:, 0], points[:, 1], across, up, own)
    density, codes = np.zeros(BINS * BINS), np.zeros(BINS * BINS)
    density[found.places], codes[found.places] = found.counts, found.codes
    arrays = {"density": density.reshape(BINS, BINS), "density_codes": codes.reshape(BINS, BINS)}
    return Panel(header, arrays)


# ── panels of a fit ─────────────────────────────────────────────────────────
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
    header: dict[str, Any] = {
        "recipe": shown.recipe.plain,
        "quality": quality,
        "fit": shown.described,
        "shown": choice.plain,
        "panels": {},
        "findings": list(shown.findings),
        "timings": {name: 1e3 * seconds for name, seconds in shown.timings.items()},
    }
    arrays: dict[str, Any] = {}
    for name, options in wanted.items():
        if name not in PANELS:
            raise ParameterError.about(parameter="panels", value=name, must_be=", ".join(PANELS))
        if not isinstance(options, dict):
            continue  # false: not wanted
        begun = time.perf_counter()
        try:
            panel = PANELS[name](shown, options, choice, quality, observer)
        except MercerError as error:
            panel = Panel(
                {"error": {"code": "refused", "message": str(error), "remedy": error.remedy}}
            )
        header["panels"][name] = panel.header
        header["timings"][name] = 1e3 * (time.perf_counter() - begun)
        arrays |= panel.arrays
    return Panel(header, arrays)


def _scores(own: Fitted, rows: Any, observer: Observer | None = None) -> Array:  # (n, k)
    """Scores of all rows, a block at a time, which may be stopped between two of them."""
    blocks, n = [], int(rows.shape[0])
    for place, block in own.blocks(rows):
        blocks.append(own.scores(block))
        if observer is not None and observer.step(min(place.stop, n), n, "rows", None):
            break
    return np.concatenate(blocks)


def _score_panel(
    shown: Shown, options: dict[str, Any], choice: Choice, quality: str, observer: Observer | None
) -> Panel:
    del quality
    own, rows = shown.inside, shown.sheet.rows
    asked = options.get("components", [0, 1])
    if not isinstance(asked, list) or not 1 <= len(asked) <= 3:
        raise ParameterError.about(
            parameter="components", value=asked, must_be="one to three components"
        )
    k = own.k
    wanted = [j for j in asked if not (isinstance(j, int) and j >= k)] or [0]
    scores = _scores(own, rows if choice.rows is None else rows[choice.rows], observer)
    view = views.scores(
        scores, components=wanted, explained_variance_ratio=own.shares, keep_infinite=False
    )
    header = {
        **listed(view),
        "axes": list(view.axes),
        "components": wanted,
        "left_out": view.left_out,
    }
    chosen = scores[:, wanted]
    if choice.how == "density":
        flat = chosen if chosen.shape[1] > 1 else np.column_stack([chosen, np.zeros(len(chosen))])
        found = _drawn(flat, choice, shown.data.classes if len(flat) == shown.data.n else None)
        arrays = {
            "score_density": found.arrays["density"],
            "score_codes": found.arrays["density_codes"],
        }
        return Panel({**header, **found.header}, arrays)
    arrays = {"scores": chosen}
    if choice.rows is not None:
        arrays["rows"] = choice.rows
    return Panel(header, arrays)


def _level_panel(
    shown: Shown, options: dict[str, Any], choice: Choice, quality: str, observer: Observer | None
) -> Panel:
    del observer
    own, component = shown.inside, options.get("component", 0)
    component = min(component, own.k - 1) if isinstance(component, int) else component
    plane = Plane.read(options.get("plane"), shown.data, _scale(shown))
    some = choice.rows if choice.how != "density" else drawn(choice.of, SAMPLE)
    rows = shown.sheet.rows if some is None else shown.sheet.rows[some]
    knobs: dict[str, Any] = {"component": component, "resolution": GRID[quality]}
    if plane.columns is None:
        pca = shown.data.plane(plane.scale)
        through: Callable[[Any], Any] = lambda at: own.scores(pca.inverse_transform(at))  # noqa: E731
        view = views.levels(through, plane.points(some), names=plane.axes, **knobs)
    else:
        if plane.columns[0] == plane.columns[1]:
            msg = "Level sets are drawn over two different columns. Choose another one for an axis."
            raise InputError(msg)
        knobs |= {"variables": plane.columns, "fixed": options.get("fixed", "median")}
        view = views.levels(shown.model, rows, preparation=shown.sheet.preparation, **knobs)
    centre = np.array([view.across.mean(), view.up.mean()])
    header = {
        **listed(view),
        "axes": list(view.axes),
        "titles": list(view.titles),
        "where": view.where,
        "reach": float(view.reach[0]),
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


def _scale(shown: Shown) -> str:
    return "standard" if shown.recipe.scale == "standard" else "none"


def _spectrum_panel(shown: Shown, *_unused: Any) -> Panel:
    view = views.spectrum(shown.model)
    fit = shown.inside.fit
    header = {
        **listed(view),
        "axes": list(view.axes),
        "evidence": view.evidence,
        "enough": view.enough,
        "reached": view.reached,
        "whole": view.whole,
        "certificate": "" if fit is None or fit.certificate is None else str(fit.certificate),
    }
    arrays = {"eigenvalues": view.eigenvalues, "shares": view.shares, "running": view.running}
    if view.bounds is not None:
        arrays["bounds"] = view.bounds
    if fit is not None:
        arrays["residuals"] = fit.residuals
    return Panel(header, arrays)


def _back_panel(
    shown: Shown, options: dict[str, Any], choice: Choice, quality: str, observer: Observer | None
) -> Panel:
    """The way back, where it is quick enough to follow a finger; others are asked for by themselves."""
    del choice
    if len(shown.sheet) > FEW:
        words = "when you let go" if quality == "drag" else "by itself: it takes a moment"
        return Panel({"later": f"The way back is computed {words}."})
    return back_panel(shown, options.get("plane"), observer)


def back_panel(shown: Shown, given: Any, observer: Observer | None = None) -> Panel:
    """Rows taken to their scores and back, beside what always saying the mean would be wrong by."""
    if shown.inside.detector is not None:
        msg = "A detector judges rows and has no way back to them. Choose kernel PCA to see it."
        raise InputError(msg)
    run = Run(observer)
    with run.following(), run.timed("way back"):
        back = shown.returning()
    own, sheet = back.inside, shown.sheet
    plane = Plane.read(given, shown.data, _scale(shown))
    view = views.reconstruction(back.model, sheet.rows, preparation=sheet.preparation)
    which = spaced(len(sheet), MOST_ROWS)
    if len(view.rows) == len(which) and np.array_equal(view.rows, which):
        raw, there = view.original, view.back
    else:
        block = sheet.rows[which]
        raw, there = own.raw(block), own.back(own.scores(block))
    points = plane.of_raw(there)
    centre = np.array([0.5 * sum(span(c, 0.0)) for c in plane.of_raw(raw).T])
    spread = np.where(view.spread > 0, view.spread, 1.0)
    method = own.projector.preimage_ if hasattr(own.projector, "preimage_") else None
    header = {
        **listed(view),
        "findings": [as_dict(finding) for finding in run.findings],
        "axes": plane.axes,
        "centre": centre.tolist(),
        "method": "" if method is None else repr(method.method),
        "quality": "" if method is None or method.quality is None else str(method.quality),
        "rms": float(np.sqrt(np.mean(view.error**2))),
        "mean_rms": float(np.sqrt(np.mean(view.spread**2))),
        "worst": [
            {
                "name": view.names[j],
                "error": number(view.error[j]),
                "spread": number(view.spread[j]),
                "relative": plain(float(view.relative[j])),
            }
            for j in view.drawn.tolist()
        ],
    }
    row_error = np.sqrt(np.mean(((there - raw) / spread) ** 2, axis=1))
    return Panel(header, {"back": points - centre, "back_rows": which, "row_error": row_error})


PANELS: dict[str, Callable[..., Panel]] = {
    "scores": _score_panel,
    "levels": _level_panel,
    "spectrum": _spectrum_panel,
    "back": _back_panel,
}
