"""Panels as files: the pictures of `mercer.plots`, as PNG or SVG."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any

from mercer import plots
from mercer._core.errors import InputError, ParameterError
from mercer._core.params import OneOf, require
from mercer.app.explore.fitting import SAMPLE, drawn
from mercer.app.explore.keeping import Kept, stem
from mercer.app.explore.meaning import watched
from mercer.app.explore.planes import Plane
from mercer.app.monitor import monitored
from mercer.data.frames import need
from mercer.views.classes import classes

if TYPE_CHECKING:
    from collections.abc import Callable

    from mercer.app.explore.dataset import Dataset
    from mercer.app.explore.fitting import Shown

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
        DRAW[name](shown, body, figure, watch)
        figure.savefig(file, format=form, dpi=144, metadata={"Date": None} if form == "svg" else {})
    return Kept(f"{stem(shown.data)}-{name}.{form}", file.getvalue(), KINDS[form])


def _some(shown: Shown) -> tuple[Any, Any]:
    """The rows of a picture and their labels: all, or a sample that its title names."""
    some = drawn(len(shown.sheet), SAMPLE)
    looks = shown.data.classes
    if len(shown.sheet) != shown.data.n:
        looks = classes(None, len(shown.sheet))
    if some is None:
        return shown.sheet.rows, looks
    return shown.sheet.rows[some], looks.taken(some)


def _said(shown: Shown, figure: Any) -> None:
    if len(shown.sheet) > SAMPLE:
        words = f"{SAMPLE} of {len(shown.sheet)} rows, drawn with seed 0"
        figure.suptitle(words, fontsize=9)


def _scores(shown: Shown, body: dict[str, Any], figure: Any, watch: Dataset | None) -> None:
    del watch
    rows, looks = _some(shown)
    chosen = body.get("components", [0, 1])
    if not isinstance(chosen, list):
        raise ParameterError.about(
            parameter="components", value=chosen, must_be="a list of one or two components"
        )
    own = shown.inside
    values = own.scores(rows)
    plots.scores(
        values,
        looks,
        components=chosen[:2],
        explained_variance_ratio=own.shares,
        ax=figure.subplots(),
    )
    _said(shown, figure)


def _spectrum(shown: Shown, body: dict[str, Any], figure: Any, watch: Dataset | None) -> None:
    del body, watch
    plots.spectrum(shown.model, ax=figure.subplots())


def _levels(shown: Shown, body: dict[str, Any], figure: Any, watch: Dataset | None) -> None:
    del watch
    scale = "standard" if shown.recipe.scale == "standard" else "none"
    plane = Plane.read(body.get("plane"), shown.data, scale)
    if plane.columns is None:
        msg = "A picture of level sets is over two columns. Choose them in place of the principal axes."
        raise InputError(msg)
    rows, looks = _some(shown)
    plots.contours(
        shown.model,
        rows,
        preparation=shown.sheet.preparation,
        component=body.get("component", 0),
        variables=plane.columns,
        labels=looks,
        ax=figure.subplots(),
    )
    _said(shown, figure)


def _reconstruction(shown: Shown, body: dict[str, Any], figure: Any, watch: Dataset | None) -> None:
    del body, watch
    looks = shown.data.classes if len(shown.sheet) == shown.data.n else None
    plots.reconstruction(
        shown.returning().model,
        shown.sheet.rows,
        looks,
        preparation=shown.sheet.preparation,
        fig=figure,
    )


def _chart(shown: Shown, body: dict[str, Any], figure: Any, watch: Dataset | None) -> None:
    del body
    seen = monitored(shown.model, watched(shown, watch), top=0)
    seen.report.plot(fig=figure)


def _components(shown: Shown, body: dict[str, Any], figure: Any, watch: Dataset | None) -> None:
    del body, watch
    back = shown.returning()
    plots.components(
        back.model, shown.inside.image_shape, preparation=shown.sheet.preparation, fig=figure
    )


DRAW: dict[str, Callable[..., None]] = {
    "scores": _scores,
    "spectrum": _spectrum,
    "levels": _levels,
    "reconstruction": _reconstruction,
    "components": _components,
    "chart": _chart,
}
