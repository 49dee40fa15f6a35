"""Scores of the rows of a file, or the rows that they lead back to, chunk by chunk: memory does not grow."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from mercer import IncrementalKernelPCA, KernelPCA
from mercer._core.errors import many
from mercer._core.types import Array
from mercer.app.outcome import Request, Run, refuse
from mercer.app.rows import (
    OfModel,
    Opened,
    check_output,
    component_names,
    match_table,
    open_model,
    write_note,
)
from mercer.data.writers import SUFFIXES, open_writer
from mercer.engine.moments import ColumnMoments
from mercer.estimators.input import as_generator
from mercer.estimators.preimages import fit_preimage_later
from mercer.preimage import PREIMAGES
from mercer.preprocessing.align import MatchedTable

CHUNK_BYTES = 64 * 2**20  # numbers of a chunk, in and out; more would not be faster
SHARE = 16  # of the memory that is allowed: a chunk is copied a few times on its way


@dataclass(frozen=True)
class Sent:
    """Rows that went through a model: in a file, or here, with what stands beside them."""

    facts: dict[str, Any]
    rows: Array | None = None  # (n, k)
    ids: Any = None  # (n,) or None
    labels: Any = None  # (n,) or None


@dataclass(frozen=True, kw_only=True)
class OfRowsOut(OfModel, Request[Sent]):
    """A request for rows that went through a model.

    Parameters
    ----------
    output : str, optional
        A .csv, .tsv, .npy, .npz, .parquet or .arrow file, or ``-`` for CSV on the standard output. Without
        one the outcome holds the rows.
    """

    output: str | None = None

    def opened(self) -> Opened:
        """The model, once it is certain that the rows can be written."""
        if self.output is not None and self.output != "-":
            path = check_output(self.output, [self.data, self.model])
            if (ending := path.suffix.lower()) not in SUFFIXES:
                refuse(
                    "{output:{path}} {has}. It must end in one of {endings}.",
                    path=self.output,
                    endings=", ".join(SUFFIXES),
                    has=f"ends in {ending!r}" if ending else "has no extension",
                )
        return open_model(self.model)


@dataclass(frozen=True, kw_only=True)
class TransformRequest(OfRowsOut):
    """The scores of the rows of a file."""

    def fulfil(self, run: Run) -> Sent:
        """Columns are found by the names that the model was fitted with; ids and labels come along."""
        opened = self.opened()
        if opened.is_detector:
            refuse(
                "{model} must hold a model that gives scores; {path} holds a detector, which judges rows. "
                "Use mercer monitor {path} {data}.",
                path=self.model,
                data=self.data,
            )
        names = component_names(len(opened.model.get_feature_names_out()))
        table = match_table(run, self.data, opened)
        return send(run, table, self.output, names, opened.model.transform, dtype=opened.dtype)


def send(
    run: Run,
    table: MatchedTable,
    output: str | None,
    names: Sequence[str],
    through: Callable[[Array], Array],
    *,
    dtype: Any,
) -> Sent:
    """Write ``through(rows)`` of every chunk of prepared rows; ids and labels come along."""
    path = None if output in (None, "-") else Path(output)
    prepare, written = table.preparation, list(names)
    width = 8 * (len(table.columns) + len(prepare.features) + len(written))
    height = max(1, min(CHUNK_BYTES, run.budget // SHARE) // width)
    replaced = path is not None and path.exists()
    file: Any = nullcontext()
    if output is not None:
        file = open_writer(
            output, written, id_name=table.id_name, label_name=table.label_name, dtype=dtype
        )
    n = 0
    held: list[Any] = []  # of chunks, where no file takes them
    with run.timed("rows"), file as writer:
        for chunk in table.chunks(height):
            rows = (through(prepare(chunk)), chunk.ids, chunk.labels)
            if writer is None:
                held.append(rows)
            else:
                writer.write(*rows)
            n += len(chunk)
            run.advance(n, table.n_rows, "rows")
    for note in (*table.fresh_notes(), *(() if writer is None else writer.notes)):
        run.note(note)
    facts = {"n": n, "columns": written, "id": table.id_name, "label": table.label_name}
    facts["output"] = None
    if output is None:  # all rows, ids and labels: a file has at least one row
        columns = zip(*held, strict=True)
        return Sent(facts, *(None if c[0] is None else np.concatenate(c) for c in columns))
    size = f"{many(n, 'row')}, {many(len(written), 'column')}"
    run.say(f"{table.source}: {size} written", "sent", n=n)
    if path is not None:
        run.say(write_note(path, replaced=replaced), "wrote", path=str(path))
        facts["output"] = {"path": str(path), "bytes": path.stat().st_size}
    return Sent(facts)


# ── and back, in the units of the file ──────────────────────────────────────
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
        """Mean squared error of a number where each row is replaced by the mean."""
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
