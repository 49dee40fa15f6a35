"""The kinds of pictures: from a model file, its rows and what the user chose to a matplotlib figure."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from mercer import PCA, plots
from mercer._core.errors import many
from mercer._core.types import Array
from mercer.app.monitor import monitored
from mercer.app.rows import Opened, read_sheet
from mercer.cli.ending import refuse
from mercer.cli.monitor import draw_charts
from mercer.cli.plot_file import new_figure, verbatim
from mercer.cli.verb import Call
from mercer.data.frames import need
from mercer.preprocessing.align import Sheet
from mercer.views.fitted import Fitted

SHOWN_LEVELS = 6
GRID = 120  # points along each side: finer than the eye at the usual size
SHOWN_FACES = 15
FACES_ACROSS = 8
CELL, TEXT = 1.15, 0.2  # inches across a face, and for the line above it


@dataclass(frozen=True)
class Asked:
    """What a picture is made from: the model, where its rows are, and what the user chose."""

    call: Call
    found: Opened
    data: str | None
    size: tuple[float, float] | None
    components: tuple[int, ...] | None = None
    variables: tuple[str, ...] | None = None
    fixed: str = "median"

    @property
    def model(self) -> Any:
        return self.found.model

    @cached_property
    def sheet(self) -> Sheet:
        return read_sheet(self.call, str(self.data), self.found)

    @cached_property
    def labels(self) -> Any:
        return label_values(self.sheet.labels)

    @property
    def shown(self) -> list[str]:
        """Names of the d columns that the model sees, as a picture shows them."""
        return [verbatim(name) for name in self.sheet.names]

    def figure(self, width: float, height: float) -> Any:
        """An empty figure of the size that was asked for, or of this one."""
        return new_figure(self.size or (width, height))

    def chosen(self, most: int) -> list[int]:
        """The components that were asked for, or the first few, counted from 0; all of them there."""
        k = len(self.found.eigenvalues)
        wanted = range(1, min(k, most) + 1) if self.components is None else self.components
        for component in wanted:
            if component > k:
                refuse(
                    f"--components must be numbers from 1 to {k}, the components of "
                    f"{str(self.found.path)!r}; got {component}."
                )
        return [component - 1 for component in wanted]


def label_values(labels: Any) -> Any:
    """Labels as numbers where all are, so that a measurement gets a colour bar; else as they are."""
    if labels is None:
        return None
    values = np.asarray(labels)
    if values.dtype.kind not in "OUS":
        return values
    texts = ["missing" if value is None else str(value) for value in values]
    with suppress(ValueError):
        numbers = np.array(texts, dtype=np.float64)
        if np.isfinite(numbers).all():
            return numbers
    return np.array([verbatim(text) for text in texts])


# ── of rows ─────────────────────────────────────────────────────────────────
def draw_scores(asked: Asked) -> Any:
    """Two components against each other, coloured by label."""
    chosen = asked.chosen(2)
    if len(chosen) > 2:
        listed = ",".join(map(str, asked.components or ()))
        refuse(f"--components must be one or two components for scores; got {listed}.")
    figure = asked.figure(6.0, 4.6)
    sheet, ax = asked.sheet, figure.subplots()
    plots.scores(asked.model, sheet.rows, asked.labels, components=chosen, time=sheet.clock, ax=ax)
    return figure


def draw_panels(asked: Asked) -> Any:
    """The four panels: data, PCA, kernel PCA, and the points taken back."""
    asked.found.require_preimage("The fourth panel")
    rows = np.asarray(asked.sheet.rows)  # (n, 2)
    if rows.shape[1] != 2:
        refuse(
            f"Panels show two variables, and this model has {rows.shape[1]}. Draw its scores: "
            f"mercer plot scores {asked.found.path} DATA -o scores.png"
        )
    scores = np.asarray(asked.model.transform(rows))
    back = Fitted.of(asked.model, asked.found.preparation).back(scores)
    taken_back = f"back from {many(scores.shape[1], 'component')}"
    figure = asked.figure(7.6, 6.4)
    axes = plots.panels(
        asked.sheet.raw(),
        _linear(asked.call, rows),
        scores,
        back,
        asked.labels,
        titles=("data", "PCA", model_name(asked.found), taken_back),
        fig=figure,
    )
    for ax in (axes[0, 0], axes[1, 1]):
        ax.set(xlabel=asked.shown[0], ylabel=asked.shown[1])
    return figure


def _linear(call: Call, rows: Array) -> Array:
    """Scores of linear PCA; what it has to say about itself is no warning about the model."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        scores: Array = PCA(2).fit_transform(rows)
    for found in caught:
        call.say(f"note: the panel of PCA: {found.message}")
    return scores


def draw_levels(asked: Asked) -> Any:
    """The first components, or those asked for, as functions over two variables in their own units."""
    chosen = asked.chosen(SHOWN_LEVELS)
    axes = plots.contours(
        asked.model,
        asked.sheet.rows,
        preparation=asked.found.preparation,
        component=chosen if len(chosen) > 1 else chosen[0],
        variables=asked.variables,
        fixed=int(asked.fixed) if asked.fixed.isdecimal() else asked.fixed,
        names=asked.sheet.names,
        labels=asked.labels,
        resolution=GRID,
    )
    for ax in np.atleast_1d(axes):
        ax.set(xlabel=verbatim(ax.get_xlabel()), ylabel=verbatim(ax.get_ylabel()))
    figure = np.atleast_1d(axes)[0].figure
    need("matplotlib.pyplot", extra="plot").close(figure)  # pyplot made it, and would keep it
    if asked.size is not None:
        figure.set_size_inches(asked.size)
    return figure


def draw_reconstruction(asked: Asked) -> Any:
    """Rows there and back: points of two variables, pictures, or the error of each column."""
    figure = asked.figure(5.6, 5.0)
    plots.reconstruction(
        asked.model,
        asked.sheet.rows,
        asked.labels,
        names=asked.shown,
        shape=_image_shape(asked, needed=False),
        preparation=asked.found.preparation,
        fig=figure,
    )
    return figure


def draw_chart(asked: Asked) -> Any:
    """T² and Q over time."""
    seen = monitored(asked.model, asked.sheet, top=0)
    figure = asked.figure(8.0, 5.2)
    draw_charts(asked.call, seen, figure)
    return figure


def draw_contributions(asked: Asked) -> Any:
    """Which variables led alarms, and when."""
    seen = monitored(asked.model, asked.sheet, top=3)
    if seen.report.contributions is None or not seen.count:
        why = "this kernel has no derivative" if seen.count else "no row is an alarm"
        refuse(
            f"There are no contributions to draw: {why}. Draw the statistics: mercer plot chart "
            f"{asked.found.path} {asked.data} -o chart.png"
        )
    figure = asked.figure(8.0, 3.6)
    plots.contributions_over_time(seen.report, ax=figure.subplots())
    return figure


# ── of the model alone ──────────────────────────────────────────────────────
def draw_spectrum(asked: Asked) -> Any:
    """Each eigenvalue as a share of the true total, and what the fit is sure of."""
    figure = asked.figure(5.6, 4.0)
    plots.spectrum(asked.model, ax=figure.subplots())
    return figure


def draw_faces(asked: Asked) -> Any:
    """The mean as a picture, and for each component what one standard deviation along it adds."""
    shape = _image_shape(asked)
    chosen = asked.chosen(SHOWN_FACES)
    across = min(FACES_ACROSS, len(chosen) + 1)
    tall = CELL * shape[0] / shape[1] + TEXT
    figure = asked.figure(CELL * across, tall * -(-(len(chosen) + 1) // across))
    plots.components(
        asked.model,
        shape,
        components=chosen,
        n_columns=across,
        preparation=asked.found.preparation,
        fig=figure,
    )
    return figure


def _image_shape(asked: Asked, *, needed: bool = True) -> Any:
    """Height and width of the training images: the model knows them, or --image-size says them."""
    shape = asked.call.reading.image_size
    if shape is None and asked.found.preparation is not None:
        shape = asked.found.preparation.image_shape
    if shape is None and needed:
        refuse(
            f"{str(asked.found.path)!r} was not fitted to a folder of images. If its columns are pixels, "
            "row by row, say their shape: --image-size HEIGHTxWIDTH"
        )
    if shape is None:
        return None
    (height, width), d = map(int, shape), int(asked.model.n_features_in_)
    if height * width != d:
        refuse(f"--image-size {height}x{width} means {height * width} pixels; there are {d}.")
    return height, width


def model_name(found: Opened) -> str:
    """What the picture calls the model."""
    if found.kernel is None:
        return "PCA of the model"
    text = f"kernel PCA, {found.kernel!r}"
    return text if len(text) < 48 else "kernel PCA"


DRAW: dict[str, Callable[[Asked], Any]] = {
    "scores": draw_scores,
    "spectrum": draw_spectrum,
    "panels": draw_panels,
    "levels": draw_levels,
    "faces": draw_faces,
    "reconstruction": draw_reconstruction,
    "chart": draw_chart,
    "contributions": draw_contributions,
}
