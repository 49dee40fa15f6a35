"""`mercer reconstruct`: rows through the components and back, in the units of the file."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import click
import numpy as np

from mercer import IncrementalKernelPCA, KernelPCA
from mercer._core.errors import many
from mercer._core.memory import parse_bytes
from mercer.cli.data import open_model, reading_options
from mercer.cli.frame import verb
from mercer.cli.stream import Route, rows_out, send
from mercer.engine.moments import ColumnMoments
from mercer.estimators.input import as_generator
from mercer.estimators.preimages import fit_preimage_later
from mercer.preimage import PREIMAGES

if TYPE_CHECKING:
    from mercer._core.types import Array
    from mercer.cli.data import Opened
    from mercer.cli.frame import Talk
    from mercer.data.table import Reading
    from mercer.io.preparation import Preparation

EXAMPLE = """
mercer demo --csv circles.csv
mercer fit circles.csv --id id --label label -k 10 --preimage ridge -o model.mercer
mercer reconstruct model.mercer circles.csv -o back.csv
"""


@verb(example=EXAMPLE, memory=True)
@click.argument("model")
@click.argument("data")
@rows_out
@reading_options
def reconstruct(
    talk: Talk, *, model: str, data: str, output: str | None, reading: Reading, memory: str
) -> None:
    """Take rows through the components and back: what is left out is gone.

    What comes out has the columns and units of the training file. The way back is the one that MODEL was
    fitted with (--preimage); a model without one learns it here, from the points that it rests on.
    """
    opened = open_model(model)
    _find_way_back(talk, opened, memory)
    route, loss = (
        Route.of(talk, opened, data=data, output=output, reading=reading, memory=memory),
        Loss(),
    )

    def through(preparation: Preparation, rows: Array) -> Array:
        back: Array = opened.model.inverse_transform(opened.model.transform(rows))
        loss.add(rows, back)
        return preparation.unscaled(back)

    results = send(talk, opened, route, lambda preparation: preparation.features, through)
    talk.say(str(loss))
    talk.tell({**results, "mean_squared_error": loss.error, "error_of_mean": loss.of_mean})


def _find_way_back(talk: Talk, opened: Opened, memory: str) -> None:
    """Give the model a way back, if it has none; raise with what to do where none can be found."""
    if opened.is_detector:
        msg = f"{opened.path} is a detector. Fit with --model kpca --preimage ridge to reconstruct."
        raise click.UsageError(msg)
    kernel = getattr(opened.model, "kernel_", None)
    if kernel is not None and kernel.is_precomputed:
        msg = f"{opened.path} was fitted to kernel values: it never saw rows that it could lead back to."
        raise click.UsageError(msg)
    # scikit-learn's drop-in says by another name whether it has one.
    has = getattr(opened.model, "preimage", getattr(opened.model, "fit_inverse_transform", True))
    if has is not None and has is not False:
        return
    if not _learned(talk, opened, memory):
        command = opened.about.get("command") or f"mercer fit DATA -o {opened.path}"
        msg = (
            f"{opened.path} knows no way back from scores to rows, and no rows to learn one from. Fit it "
            f"with one: {command} --preimage ridge"
        )
        raise click.UsageError(msg)


def _learned(talk: Talk, opened: Opened, memory: str) -> bool:
    """Whether a way back could be learned from what the model holds; it is said, for it is a choice."""
    model = opened.model
    if not isinstance(model, (KernelPCA, IncrementalKernelPCA)):
        return False
    rng = as_generator(model.random_state)
    with talk.timed("way back"):
        back = fit_preimage_later(model.fit_, model.kernel_, budget=parse_bytes(memory), rng=rng)
    if back is None:
        return False
    name = next(name for name, kind in PREIMAGES.items() if type(back.method) is kind)
    if isinstance(model, KernelPCA):
        model.preimage_ = back
    else:  # a stream learns it from its landmarks when it is asked
        model.preimage = back.method
    talk.note(
        f"{opened.path} was fitted without a way back: {name} was learned from its "
        f"{many(back.n_rows, 'point')} (fit with --preimage to choose and keep one)"
    )
    return True


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
