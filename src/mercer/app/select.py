"""Kernels side by side on rows held out; the winner, and why, kept where asked."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from mercer import diagnostics
from mercer._core.errors import InputError, MercerError, StoppedError
from mercer._core.types import Array
from mercer._core.wording import Message
from mercer.app.estimator import Asked, asked_for
from mercer.app.outcome import Request, Run, plain, refuse
from mercer.app.rows import OfTraining, check_model_output, keep_model, read_training, take_weights
from mercer.diagnostics import Selection
from mercer.diagnostics.selection_door import check_max_rows
from mercer.kernels import RBF, Kernel, Linear
from mercer.kernels.text import kernel_text, parse_kernel
from mercer.preprocessing.align import Sheet


@dataclass(frozen=True)
class Selected:
    """A comparison; the winner fitted to all rows, where that was asked for and possible."""

    selection: Selection
    facts: dict[str, Any]
    model: Any = None
    failed: bool = False  # the winner was to be kept, and could not be fitted

    @property
    def winner(self) -> dict[str, Any]:
        return self.facts["winner"]


@dataclass(frozen=True, kw_only=True)
class SelectRequest(OfTraining, Request[Selected]):
    """Compare kernels and widths on rows held out.

    Parameters
    ----------
    kernels : sequence of str or Kernel
        The candidates; the usual ones where there are none.
    components : sequence of int, optional
        Numbers of components to compare.
    supervised : bool
        Whether the scores are judged by how well they predict the label.
    criterion, noise, folds, max_rows, jobs
        As in `mercer.select`.
    approximation, preimage
        How to fit the winner.
    output : str, optional
        The model file of the winner, fitted to all rows.
    """

    kernels: tuple[str | Kernel, ...] = ()
    components: tuple[int, ...] | None = None
    supervised: bool = False
    criterion: str | None = None
    noise: float = 0.3
    folds: int = 3
    max_rows: int | None = None
    jobs: int | None = None
    weights: str | None = None
    approximation: Any = None
    preimage: Any = None
    output: str | None = None

    def fulfil(self, run: Run) -> Selected:
        """Compare, and fit the winner where it is to be kept."""
        candidates, asked = self._asked()
        if self.supervised and run.reading.label is None:
            refuse("{supervised} needs {label}: the column that the scores are to predict.")
        path = check_model_output(self.output, self.data)
        counts = take_weights(run, self.data, self.weights, "; scaling and filling count each once")
        sheet = read_training(run, self.data, self.preparing)
        if run.reading.label is not None and not self.supervised:
            message = Message("the labels have no part in the choice; {supervised} judges by them")
            run.note(message, "labels-unused")
        n, most = len(sheet), self._most_rows(run, len(sheet))
        found = self._compared(run, sheet, candidates, counts, most)
        facts = selection_facts(found, n=n, judged=most)
        if path is None:
            return Selected(found, facts)
        model, kept = _fitted(run, asked, found, sheet, counts), None
        if model is not None:
            kept = keep_model(run, path, model, sheet, {**self.about, "selection": facts})
        return Selected(found, {**facts, "model": kept}, model, failed=model is None)

    def _asked(self) -> tuple[list[Kernel] | None, Asked]:
        """The candidates, None for the usual ones; and how the winner is fitted."""
        kernels = [parse_kernel(k) if isinstance(k, str) else k for k in self.kernels]
        if any(candidate.is_precomputed for candidate in kernels):
            refuse("A precomputed kernel can't be compared with others: it has no rows.")
        parts = {"approximation": self.approximation, "preimage": self.preimage}
        judged = kernels or [RBF(), Linear()]
        asked = asked_for("kpca", parts, seed=self.seed, memory=self.memory, kernels=judged)
        return kernels or None, asked

    def _most_rows(self, run: Run, n: int) -> int:
        most: int = check_max_rows(self.max_rows, "judge" if self.supervised else self.criterion)
        if n > most:
            message = Message(
                "compared on {most} of {n} rows, drawn with seed {seed}; {max_rows} for more",
                most=most,
                n=n,
                seed=self.seed,
            )
            run.note(message, "sampled", rows=most, of=n)
        return most

    def _compared(
        self, run: Run, sheet: Sheet, candidates: Any, counts: Array | None, most: int
    ) -> Selection:
        labels = _labels(sheet) if self.supervised else None
        with run.timed("compare"):
            return diagnostics.select(
                sheet.rows,
                candidates,
                y=labels,
                sample_weight=counts,
                n_components=self.components,
                criterion=self.criterion,
                noise=self.noise,
                folds=self.folds,
                max_rows=most,
                n_jobs=self.jobs,
                refit=False,
                random_state=self.seed,
            )


def _fitted(run: Run, asked: Asked, found: Selection, sheet: Sheet, counts: Any) -> Any:
    """The winner; None where it can't be fitted, and the comparison is still worth having."""
    chosen = {"kernel": found.best_kernel_, "n_components": found.n_components_}
    try:
        with run.timed("fit"):
            winner = Asked("kpca", {**asked.params, **chosen}).estimator(len(sheet))
            return winner.fit(sheet.rows, sample_weight=counts)
    except StoppedError:
        raise
    except MercerError as error:
        words = "The winner was found, but not fitted, and nothing was written: {why}"
        run.warn(Message(words, why=error.args[0]), "not-fitted")
        return None


def _labels(sheet: Sheet) -> Any:
    """One a row; numbers where all of them are."""
    labels = np.asarray(sheet.labels)
    missing = [i for i, label in enumerate(labels) if label is None or str(label).strip() == ""]
    if missing:
        msg = Message(
            "The label of row {first} (counted from 0) is missing, as are {all} in all. Fill them, or leave "
            "{supervised} out.",
            first=missing[0],
            all=len(missing),
        )
        raise InputError(msg)
    try:
        return labels.astype(np.float64)
    except (TypeError, ValueError):
        return labels.astype(str)


def selection_facts(found: Selection, *, n: int, judged: int) -> dict[str, Any]:
    """The comparison as JSON can hold it: a report shows it as the way a kernel was chosen."""
    return {
        "winner": {"kernel": kernel_text(found.best_kernel_), "components": found.n_components_},
        "conclusive": found.conclusive_,
        "reasons": reasons(found),
        "table": [plain(row) for row in found.table_],
        "n": n,
        "n_judged": min(n, judged),
    }


def reasons(found: Selection) -> list[str]:
    """One line each: a judge prints itself over several."""
    return [" ".join(reason.split()) for reason in found.reasons_]
