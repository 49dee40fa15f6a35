"""What a picture is made from: a model file, its rows, and what the user chose."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import click
import numpy as np

from mercer.cli.data import read_sheet
from mercer.cli.plot_file import new_figure, verbatim

if TYPE_CHECKING:
    from collections.abc import Callable

    from mercer._core.types import Array
    from mercer.cli.data import Opened
    from mercer.cli.frame import Talk
    from mercer.data.table import Reading
    from mercer.io.prepare import Sheet


@dataclass(frozen=True)
class Asked:
    """What a picture is made from: the model, where its rows are, and what the user chose."""

    talk: Talk
    found: Opened
    data: str | None
    reading: Reading
    memory: str
    size: tuple[float, float] | None
    components: tuple[int, ...] | None = None
    variables: tuple[str, ...] | None = None
    fixed: str | None = None

    @property
    def model(self) -> Any:
        """The estimator."""
        return self.found.model

    @cached_property
    def sheet(self) -> Sheet:
        """The rows, prepared for the model."""
        return read_sheet(self.talk, str(self.data), self.reading, self.found, self.memory)

    @property
    def features(self) -> list[str]:
        """Names of the d columns that the model sees."""
        return list(self.sheet.names)

    @property
    def shown(self) -> list[str]:
        """The same, as a picture shows them."""
        return [verbatim(name) for name in self.sheet.names]

    def unscaled(self, rows: Array) -> Array:
        """Rows of the model in the units of the file."""
        known = self.found.preparation
        return rows if known is None else known.unscaled(rows)

    def figure(self, width: float, height: float) -> Any:
        """An empty figure of the size that was asked for, or of this one."""
        return new_figure(self.size or (width, height))

    def chosen(self, most: int) -> list[int]:
        """The components that were asked for, or the first few, all of them there."""
        k = int(self.model.n_components_)
        wanted = range(min(k, most)) if self.components is None else self.components
        for component in wanted:
            if component >= k:
                msg = (
                    f"--components has {component}, but {str(self.found.path)!r} has {k}, counted "
                    f"from 0 to {k - 1}."
                )
                raise click.UsageError(msg)
        return list(wanted)

    def way_back(self, what: str) -> Callable[[Array], Array]:
        """The model's way from scores to rows, or an error that says how to get one."""
        back = getattr(self.model, "inverse_transform", None)
        if back is None or _has_no_preimage(self.model):
            msg = (
                f"{what} needs a way back from scores to rows, and {str(self.found.path)!r} has none. "
                "Fit it with one: mercer fit DATA --preimage ridge -o MODEL"
            )
            raise click.UsageError(msg)
        return lambda scores: self.unscaled(np.asarray(back(scores)))


def _has_no_preimage(model: Any) -> bool:
    if hasattr(model, "preimage"):
        return not hasattr(model, "preimage_")
    return getattr(model, "fit_inverse_transform", True) is False  # as scikit-learn has it


def label_values(labels: Any) -> Any:
    """Labels as numbers where all are, so that a measurement gets a colour bar; else as they are."""
    if labels is None:
        return None
    values = np.asarray(labels)
    if values.dtype.kind not in "OUS":
        return values
    texts = ["missing" if value is None else str(value) for value in values]
    try:
        numbers = np.array(texts, dtype=np.float64)
    except ValueError:
        numbers = np.array([np.nan])
    return numbers if np.isfinite(numbers).all() else np.array([verbatim(text) for text in texts])
