"""`mercer reconstruct`: rows through the components and back, in the units of the file."""

from __future__ import annotations

from dataclasses import dataclass
from operator import attrgetter
from typing import TYPE_CHECKING

import click
import numpy as np

from mercer import IncrementalKernelPCA, KernelPCA
from mercer._core.errors import many
from mercer.cli.data import Opened, open_model
from mercer.cli.ending import refuse
from mercer.cli.transform import rows_out, send
from mercer.cli.verb import Call, verb
from mercer.engine.moments import ColumnMoments
from mercer.estimators.input import as_generator
from mercer.estimators.preimages import fit_preimage_later
from mercer.preimage import PREIMAGES

if TYPE_CHECKING:
    from mercer._core.types import Array
    from mercer.preprocessing.preparation import Preparation

EXAMPLE = """
mercer demo --csv circles.csv
mercer fit circles.csv --id id --label label -k 10 --preimage ridge -o model.mercer
mercer reconstruct model.mercer circles.csv -o back.csv
"""


@verb("reading", "memory", example=EXAMPLE)
@click.argument("model")
@click.argument("data")
@rows_out
def reconstruct(call: Call, *, model: str, data: str, output: str | None) -> None:
    """Take rows through the components and back: what is left out is gone.

    What comes out has the columns and units of the training file. The way back is the one that MODEL was
    fitted with (--preimage); a model without one learns it here, from the points that it rests on.
    """
    opened = open_model(model)
    _find_way_back(call, opened)
    loss = Loss()

    def through(preparation: Preparation, rows: Array) -> Array:
        back: Array = opened.model.inverse_transform(opened.model.transform(rows))
        loss.add(rows, back)
        return preparation.unscaled(back)

    columns = attrgetter("features")  # of the preparation
    results = send(call, opened, data, output, names=columns, through=through)
    call.say(str(loss))
    call.tell({**results, "mean_squared_error": loss.error, "error_of_mean": loss.of_mean})


def _find_way_back(call: Call, opened: Opened) -> None:
    """Give the model a way back, if it has none; raise with what to do where none can be found."""
    if opened.is_detector:
        refuse(
            f"{opened.path} is a detector. Fit with --model kpca --preimage ridge to reconstruct."
        )
    if opened.is_precomputed:
        refuse(
            f"{opened.path} was fitted to kernel values: it never saw rows that it could lead back to."
        )
    if not opened.has_way_back:
        _learn_way_back(call, opened)


def _learn_way_back(call: Call, opened: Opened) -> None:
    """From what the model holds; it is said, for it is a choice."""
    model, back = opened.model, None
    if isinstance(model, (KernelPCA, IncrementalKernelPCA)):
        rng = as_generator(model.random_state)
        with call.timed("way back"):
            back = fit_preimage_later(model.fit_, model.kernel_, budget=call.budget, rng=rng)
    if back is None:
        command = opened.about.get("command") or f"mercer fit DATA -o {opened.path}"
        refuse(
            f"{opened.path} knows no way back from scores to rows, and no rows to learn one from. Fit it "
            f"with one: {command} --preimage ridge"
        )
    name = next(name for name, kind in PREIMAGES.items() if type(back.method) is kind)
    if isinstance(model, KernelPCA):
        model.preimage_ = back
    else:  # a stream learns it from its landmarks when it is asked
        model.preimage = back.method
    call.note(
        f"{opened.path} was fitted without a way back: {name} was learned from its "
        f"{many(back.n_rows, 'point')} (fit with --preimage to choose and keep one)"
    )


@dataclass
class Loss:
    """Mean squared error of what came back, beside that of always saying the mean of these rows.

    Both are in the units that the model sees, so that with --scale standard every column counts alike.
    """

    squares: float = 0.0  # Σ‖x - back(x)‖²
    seen: ColumnMoments | None = None

    def add(self, rows: Array, back: Array) -> None:  # (b, d), (b, d)
        """One chunk more."""
        self.squares += float(np.sum((rows.astype(np.float64) - back) ** 2))
        shift = rows[0].astype(np.float64) if self.seen is None else self.seen.shift
        here = ColumnMoments.of(rows, None, shift)
        self.seen = here if self.seen is None else self.seen.merged(here)

    @property
    def error(self) -> float:
        """Mean squared error of a number."""
        return self.squares / self._numbers

    @property
    def of_mean(self) -> float:
        """That of the mean."""
        return 0.0 if self.seen is None else float(np.sum(self.seen.squares)) / self._numbers

    @property
    def _numbers(self) -> float:
        return 1.0 if self.seen is None else float(np.sum(self.seen.count))

    def __str__(self) -> str:
        beside = ""  # rows that are all alike, or one, are their mean
        if self.of_mean > 0:
            share = f"{self.error / self.of_mean:.1%} of it"
            beside = f", beside {self.of_mean:.4g} of the mean of the rows ({share})"
        return f"mean squared error {self.error:.4g}{beside}, in the units of the model"
