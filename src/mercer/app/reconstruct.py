"""Rows through the components and back, in the units of the file."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from mercer import IncrementalKernelPCA, KernelPCA
from mercer._core.errors import many
from mercer._core.types import Array
from mercer.app.outcome import Run, refuse
from mercer.app.rows import Opened, match_table
from mercer.app.transform import OfRowsOut, Sent, send
from mercer.engine.moments import ColumnMoments
from mercer.estimators.input import as_generator
from mercer.estimators.preimages import fit_preimage_later
from mercer.preimage import PREIMAGES


@dataclass(frozen=True, kw_only=True)
class ReconstructRequest(OfRowsOut):
    """Rows through the components and back: what the components leave out is gone."""

    def fulfil(self, run: Run) -> Sent:
        """By the pre-images that the model was fitted with, or by some learned from its points."""
        opened = self.opened()
        if opened.is_detector:
            refuse(
                "{path} holds a detector. Fit with --model kpca {preimage:'ridge'} to reconstruct.",
                path=opened.path,
            )
        if opened.is_precomputed:
            refuse(
                "{path} was fitted to kernel values: its scores lead back to no rows.",
                path=opened.path,
            )
        if not opened.has_preimage:
            _learn_preimage(run, opened)
        loss, table = Loss(), match_table(run, self.data, opened)

        def through(rows: Array) -> Array:
            back: Array = opened.model.inverse_transform(opened.model.transform(rows))
            loss.add(rows, back)
            return table.preparation.unscaled(back)

        columns = table.preparation.features
        sent = send(run, table, self.output, columns, through, dtype=opened.dtype)
        errors = {"mean_squared_error": loss.error, "error_of_mean": loss.of_mean}
        run.say(str(loss), "loss", **errors)
        return replace(sent, facts={**sent.facts, **errors})


def _learn_preimage(run: Run, opened: Opened) -> None:
    """From what the model holds; a note says so, for it is a choice."""
    model, back = opened.model, None
    if isinstance(model, (KernelPCA, IncrementalKernelPCA)):
        rng = as_generator(model.random_state)
        with run.timed("preimage"):
            back = fit_preimage_later(model.fit_, model.kernel_, budget=run.budget, rng=rng)
    if back is None:
        command = opened.about.get("command") or f"mercer fit DATA -o {opened.path}"
        refuse(
            "{path} has no pre-images, and no rows to learn them from. Fit it with some: {command} "
            "--preimage ridge",
            path=opened.path,
            command=command,
        )
    name = next(name for name, kind in PREIMAGES.items() if type(back.method) is kind)
    if isinstance(model, KernelPCA):
        model.preimage_ = back
    else:  # a stream learns it from its landmarks when it is asked
        model.preimage = back.method
    run.note(
        f"{opened.path} was fitted without pre-images: {name} was learned from its "
        f"{many(back.n_rows, 'point')} (fit with --preimage to choose and keep one)",
        "preimage-learned",
        method=name,
        points=int(back.n_rows),
    )


@dataclass
class Loss:
    """Mean squared error of reconstructed rows, beside that of always answering the mean of these rows.

    Both are in the units that the model sees: of standardised columns each counts alike.
    """

    squares: float = 0.0  # Σ‖x - back(x)‖²
    seen: ColumnMoments | None = None

    def add(self, rows: Array, back: Array) -> None:  # (b, d), (b, d)
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
