"""Panels as files: the pictures of `mercer.plots`, as PNG or SVG."""

from __future__ import annotations

import io
from dataclasses import dataclass
from typing import Any

from mercer import plots
from mercer._core.errors import InputError
from mercer._core.params import OneOf, require
from mercer.app.explore.dataset import Dataset
from mercer.app.explore.fitting import SAMPLE, Shown, drawn
from mercer.app.explore.keeping import Kept, stem
from mercer.app.explore.meaning import watched
from mercer.app.explore.planes import Plane
from mercer.app.monitor import monitored
from mercer.app.outcome import refuse_value
from mercer.data.frames import need
from mercer.views.classes import classes

KINDS = {"png": "image/png", "svg": "image/svg+xml"}
SIZES = {"chart": (8.0, 5.2), "spectrum": (5.6, 4.0)}


def picture(shown: Shown, body: dict[str, Any], watch: Dataset | None) -> Kept:
    """One panel as a picture."""
    name, form = body.get("picture", "scores"), body.get("format", "png")
    require("picture", name, OneOf(tuple(DRAW)))
    require("format", form, OneOf(tuple(KINDS)))
    figure = need("matplotlib.figure", extra="plot").Figure(
        figsize=SIZES.get(name, (6.0, 4.8)), layout="constrained"
    )
    rc_context = need("matplotlib", extra="plot").rc_context
    file = io.BytesIO()
    with rc_context({"svg.hashsalt": "mercer"}):  # the same picture is the same file
        DRAW[name](Picture(shown, body, watch, figure))
        figure.savefig(file, format=form, dpi=144, metadata={"Date": None} if form == "svg" else {})
    return Kept(f"{stem(shown.data)}-{name}.{form}", file.getvalue(), KINDS[form])


@dataclass(frozen=True)
class Picture:
    """A fit, what was asked about it, the rows that a detector is to watch, and the figure to draw in."""

    shown: Shown
    body: dict[str, Any]
    watch: Dataset | None
    figure: Any

    def _some(self) -> tuple[Any, Any]:
        """Rows and their labels: all, or a sample that the title of the figure names."""
        sheet, data = self.shown.sheet, self.shown.data
        looks = data.classes if len(sheet) == data.n else classes(None, len(sheet))
        some = drawn(len(sheet), SAMPLE)
        if some is None:
            return sheet.rows, looks
        self.figure.suptitle(f"{SAMPLE} of {len(sheet)} rows, drawn with seed 0", fontsize=9)
        return sheet.rows[some], looks.taken(some)

    def scores(self) -> None:
        """Two components, or one."""
        rows, looks = self._some()
        chosen = self.body.get("components", [0, 1])
        if not isinstance(chosen, list):
            refuse_value("components", chosen, "a list of one or two components")
        own = self.shown.inside
        plots.scores(
            own.scores(rows),
            looks,
            components=chosen[:2],
            explained_variance_ratio=own.shares,
            ax=self.figure.subplots(),
        )

    def spectrum(self) -> None:
        """The shares of the variance."""
        plots.spectrum(self.shown.model, ax=self.figure.subplots())

    def levels(self) -> None:
        """A component over two columns."""
        shown = self.shown
        scale = "standard" if shown.recipe.scale == "standard" else "none"
        plane = Plane.read(self.body.get("plane"), shown.data, scale)
        if plane.columns is None:
            msg = "A picture of level sets is over two columns. Choose them in place of the principal axes."
            raise InputError(msg)
        rows, looks = self._some()
        plots.contours(
            shown.model,
            rows,
            preparation=shown.sheet.preparation,
            component=self.body.get("component", 0),
            variables=plane.columns,
            labels=looks,
            ax=self.figure.subplots(),
        )

    def reconstruction(self) -> None:
        """What the components keep of the rows."""
        shown, sheet = self.shown, self.shown.sheet
        looks = shown.data.classes if len(sheet) == shown.data.n else None
        plots.reconstruction(
            shown.returning().model,
            sheet.rows,
            looks,
            preparation=sheet.preparation,
            fig=self.figure,
        )

    def components(self) -> None:
        """Components as pictures."""
        shown, shape = self.shown, self.shown.inside.image_shape
        plots.components(
            shown.returning().model, shape, preparation=shown.sheet.preparation, fig=self.figure
        )

    def chart(self) -> None:
        """Statistics over time."""
        seen = monitored(self.shown.model, watched(self.shown, self.watch), top=0)
        seen.report.plot(fig=self.figure)


DRAW = {
    "scores": Picture.scores,
    "spectrum": Picture.spectrum,
    "levels": Picture.levels,
    "reconstruction": Picture.reconstruction,
    "components": Picture.components,
    "chart": Picture.chart,
}
