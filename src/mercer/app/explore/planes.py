"""Rows in a plane: which of them are drawn, in which two coordinates, with which colours."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from mercer._core.errors import ParameterError
from mercer.app.explore.dataset import Dataset, described_classes
from mercer.app.explore.fitting import POINTS, SAMPLE, Shown, drawn, rows_at
from mercer.app.outcome import Observer, refuse, refuse_value
from mercer.views.base import listing, plain, span
from mercer.views.checks import component as component_index
from mercer.views.classes import Classes, alarm_classes, classes
from mercer.views.scatter import BINS, MOST_LISTED, cells
from mercer.views.wording import count, number

if TYPE_CHECKING:
    from mercer import views
    from mercer._core.types import Array, Indices
    from mercer.views.fitted import Fitted


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
    def plain(self) -> dict[str, Any]:
        """As JSON has it, with a sentence."""
        m = self.of if self.rows is None else len(self.rows)
        words = {
            "all": f"all {count(self.of)} rows",
            "sample": f"{count(m)} of {count(self.of)} rows, drawn with seed 0, while you drag",
            "density": f"all {count(self.of)} rows, counted in {BINS} × {BINS} cells",
        }[self.how]
        return {"how": self.how, "rows": m, "of": self.of, "words": words}


def listed(view: views.View) -> dict[str, Any]:
    """The caption of a view and its tables, for those who don't see it."""
    return {"caption": view.caption, "tables": plain(view.tables)}


def method_of(own: Fitted) -> dict[str, str]:
    """How a model takes scores back to rows, and how well it does."""
    found = own.preimage
    quality = "" if found is None or found.quality is None else str(found.quality)
    return {"method": "" if found is None else repr(found.method), "quality": quality}


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
        d = data.raw.rows.shape[1]
        asked = given if isinstance(given, dict) else {}
        if asked.get("pca"):
            return cls(data, None, scale)
        pair: Any = [0, min(1, d - 1)] if given is None else asked.get("columns")
        whole = isinstance(pair, list) and len(pair) == 2 and all(type(j) is int for j in pair)
        if not whole or not all(0 <= j < d for j in pair):
            must_be = f'two columns from 0 to {d - 1}, {{"columns": [0, 1]}}, or {{"pca": true}}'
            refuse_value("plane", given, must_be)
        return cls(data, (pair[0], pair[1]), scale)

    @property
    def axes(self) -> list[str]:
        if self.columns is None:
            return ["first principal axis", "second principal axis"]
        return [self.data.raw.names[j] for j in self.columns]

    def points(self, rows: Indices | None = None) -> Array:  # (m, 2)
        if self.columns is not None:
            return self.data.columns(list(self.columns), rows)
        sheet = self.data.sheet(self.scale)
        return self._of_prepared(rows_at(sheet.rows, rows))

    def _of_prepared(self, prepared: Any) -> Array:
        found = np.asarray(self.data.plane(self.scale).transform(prepared))
        return found if found.shape[1] == 2 else np.column_stack([found, np.zeros(len(found))])

    def of_raw(self, raw: Array) -> Array:  # (m, d) -> (m, 2)
        """Rows in the units of the file; a column without numbers has no place in the plane."""
        used = np.asarray(raw) if self.columns is None else np.asarray(raw)[:, list(self.columns)]
        if np.isnan(used).any():
            refuse("The model has no value for a column of this plane. Choose two that it has.")
        if self.columns is not None:
            return used
        return self._of_prepared(self.data.sheet(self.scale).preparation.scaled(raw))

    def raw(self, at: Array) -> Array:  # (m, 2) -> (m, d)
        """Points of the plane of the principal axes as rows in the units of the file."""
        pca = self.data.plane(self.scale)
        rows = np.asarray(pca.inverse_transform(np.asarray(at)[:, : pca.n_components_]))
        return np.asarray(self.data.sheet(self.scale).preparation.unscaled(rows))


def coloured(data: Dataset, color: Any, shown: Shown | None) -> Classes:
    """The classes of all rows: their labels, a column, a component, or the alarms of a detector."""
    n = data.n
    if color is None or color == "none":
        return classes(None, n)
    if color == "label":
        return data.classes
    if isinstance(color, dict) and "column" in color:
        return classes(data.columns([color["column"]])[:, 0], n)
    must_be = "'label', 'alarm', {\"column\": 0}, {\"component\": 0} or None"
    if shown is None:
        must_be = "'label', a column or None where there is no recipe"
    elif color == "alarm":
        if shown.inside.detector is not None:
            return _alarms(shown)
        must_be = "'alarm' of a detector only"
    elif isinstance(color, dict) and "component" in color:
        component = component_index(color["component"], shown.inside.k)
        return classes(all_scores(shown.inside, shown.sheet.rows)[:, component], n)
    raise ParameterError.about(parameter="color", value=color, must_be=must_be)


def rows_panel(
    data: Dataset, scale: str, plane: Any, color: Any = "label", shown: Shown | None = None
) -> Panel:
    """All rows in a plane, with their classes; many of them counted in cells."""
    choice, seen = Choice.among(data.n, "rest"), Plane.read(plane, data, scale)
    points, looks = seen.points(), coloured(data, color, shown)
    across, up = seen.axes
    marks = "Darker cells hold more rows" if choice.how == "density" else "Each mark is a row"
    first = [[i, *map(number, point)] for i, point in enumerate(points[:MOST_LISTED])]
    caption = f"The first {len(first)} of {count(len(points))} rows"
    header = {
        "shown": choice.plain,
        "axes": seen.axes,
        "classes": described_classes(looks),
        "tables": [plain(listing(caption, ["row", *seen.axes], first))],
        "caption": f"{marks}: {up} against {across}, {choice.plain['words']}.",
    }
    drawn_as = drawn_points(points, choice, looks)
    return Panel({**header, **drawn_as.header}, drawn_as.arrays)


def drawn_points(points: Array, choice: Choice, looks: Classes | None = None) -> Panel:
    """Points less their centre, which float32 holds to the last digit; or the cells that they fall into."""
    across, up = (span(column, 0.04) for column in points[:, :2].T)
    centre = np.array([0.5 * sum(across), 0.5 * sum(up)])
    if max(np.ptp(across), np.ptp(up)) > np.finfo(np.float32).max:
        refuse("The numbers of these columns are too large to be drawn. Give them in another unit.")
    header: dict[str, Any] = {"centre": centre.tolist(), "extent": [list(across), list(up)]}
    if choice.how != "density":
        found = {"points": points[:, :2] - centre, "rows": choice.rows}
        if looks is not None:
            found |= {"codes": looks.codes, "shade": looks.shade}
        return Panel(header, {name: each for name, each in found.items() if each is not None})
    filled = cells(points[:, 0], points[:, 1], across, up, classes(None, len(points)))
    density = np.zeros(BINS * BINS)
    density[filled.places] = filled.counts
    return Panel(header, {"density": density.reshape(BINS, BINS)})


def all_scores(own: Fitted, rows: Any, observer: Observer | None = None) -> Array:  # (n, k)
    """Scores of all rows, NaN where cells are missing, a block at a time; it may be stopped between two."""
    blocks, n = [], int(rows.shape[0])
    for place, block in own.blocks(rows):
        blocks.append(own.scores(block) if own.looks_back else _scores_of_whole(own, block))
        if observer is not None and observer.step(min(place.stop, n), n, "rows", None):
            break
    return np.concatenate(blocks)


def scores_at(
    own: Fitted, rows: Any, some: Indices | None, observer: Observer | None = None
) -> Array:  # (m, k)
    """Scores of some rows; a row of a detector that looks back is judged by those before it."""
    if own.looks_back:
        return rows_at(all_scores(own, rows, observer), some)
    return all_scores(own, rows_at(rows, some), observer)


def _scores_of_whole(own: Fitted, block: Any) -> Array:  # (b, d) -> (b, k)
    """Scores of the rows without a gap, each in its place."""
    whole = whole_rows(block)
    if whole is None:
        return own.scores(block)
    found = np.full((len(whole), own.k), np.nan)
    if whole.any():
        found[whole] = own.scores(block[whole])
    return found


def _alarms(shown: Shown) -> Classes:
    """Which rows are alarms, and which could not be judged: with a gap, or too few rows before them."""
    own, rows = shown.inside, shown.sheet.rows
    if own.looks_back:
        seen = own.monitor(rows[:], top=0).table
        return alarm_classes(seen["alarm"], judged=seen["judged"])
    whole = whole_rows(rows[:])
    if whole is None:
        return alarm_classes(own.alarm(rows))
    found = np.zeros(len(whole), dtype=bool)
    if whole.any():
        found[whole] = own.alarm(np.asarray(rows[:])[whole])
    return alarm_classes(found, judged=whole)


def whole_rows(block: Any) -> Any:  # (b, d) -> (b,) bool
    """Which rows lack nothing; None where that is so of all, or where rows are sparse and have no gaps."""
    if not isinstance(block, np.ndarray):
        return None
    whole = ~np.isnan(block).any(axis=1)
    return None if whole.all() else whole
