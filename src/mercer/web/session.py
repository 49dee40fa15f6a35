"""What a server holds between requests: tables, model files and a few fits, all of them bounded."""

from __future__ import annotations

import itertools
import threading
from collections import OrderedDict
from dataclasses import replace
from pathlib import Path
from shutil import rmtree
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from mercer._core.errors import MercerError
from mercer._core.memory import format_bytes
from mercer._core.params import OneOf, require
from mercer.app.explore import BUILTINS, Dataset, Recipe, fitted, write_builtin
from mercer.app.explore.dataset import opened
from mercer.app.explore.fitting import Shown, of_model, way_of
from mercer.app.outcome import refuse_value
from mercer.app.rows import Opened, open_model
from mercer.data.formats import SUFFIXES
from mercer.data.table import Reading
from mercer.views.fitted import Fitted
from mercer.web.desk import Desk, Job

MOST_TABLES, MOST_MODELS, MOST_FITS = 24, 8, 6
MODEL_SUFFIX = ".mercer"
MOST_BYTES = 2 * 2**30  # of all files of a session together, those that are still on their way too


class FullError(MercerError):
    """A body that is longer than is taken, or a file for which the session has no room left."""


class NotFoundError(MercerError):
    """A table or a model that the session does not hold, or no longer."""


class Session:
    """Tables by number, models by number, and the last few fits.

    Nothing that a page says becomes a path: files lie in a folder of the session, under numbers.
    """

    def __init__(self) -> None:
        self._folder = TemporaryDirectory(prefix="mercer-explore-", ignore_cleanup_errors=True)
        self.folder = Path(self._folder.name)
        self.tables: OrderedDict[str, Dataset] = OrderedDict()
        self.models: OrderedDict[str, Opened] = OrderedDict()
        self.partners: dict[str, str] = {}  # rows that a detector of a table is to watch
        self.own_tables: dict[str, str] = {}  # tables of the rows that a model keeps
        self.start: dict[str, Any] | None = None
        self._fits: OrderedDict[tuple[Any, ...], Shown] = OrderedDict()
        self._lock, self._numbers = threading.RLock(), itertools.count(1)
        self._model_files: dict[str, Path] = {}
        self._held: dict[Path, int] = {}  # bytes of files that were handed over, by their folder
        self.desk = Desk()

    def close(self) -> None:
        """End all work, and take the folder away."""
        self.desk.close()
        self._folder.cleanup()

    def place(self) -> tuple[str, Path]:
        """A number, and a new folder of that name for a file."""
        number = str(next(self._numbers))
        folder = self.folder / number
        folder.mkdir()
        return number, folder

    def discard(self, path: Path) -> None:
        """Take a file of the session's own away, with its folder; one of the user's stays where it is."""
        if path.parent.parent == self.folder:
            rmtree(path.parent, ignore_errors=True)
            with self._lock:
                self._held.pop(path.parent, None)

    def hold(self, path: Path, n_bytes: int) -> None:
        """Count bytes that are about to be written to a file; raises where all files have too many."""
        with self._lock:
            if sum(self._held.values()) + n_bytes > MOST_BYTES:
                most = format_bytes(MOST_BYTES)
                msg = f"The files of this page would have more than {most} together. Stop the server and "
                msg += "name the file: mercer explore FILE reads it where it lies."
                raise FullError(msg)
            self._held[path.parent] = self._held.get(path.parent, 0) + n_bytes

    # ── tables ──────────────────────────────────────────────────────────────
    def add(self, data: Dataset, number: str) -> str:
        """Keep a table; the oldest goes where there are too many."""
        key = f"t{number}"
        with self._lock:
            self.tables[key] = data
            pinned = {(self.start or {}).get("table"), *self.partners.values()}
            while len(self.tables) > MOST_TABLES:
                self.drop(next(each for each in self.tables if each not in pinned))
        return key

    def drop(self, key: str) -> None:
        """Let a table go, with the fits to it."""
        with self._lock:
            data = self.table(key)
            del self.tables[key]
            self.partners.pop(key, None)
            if all(other.path != data.path for other in self.tables.values()):
                self.discard(data.path)
            for fit in [each for each in self._fits if each[0] == key]:
                del self._fits[fit]

    def table(self, key: Any) -> Dataset:
        """A table by its number."""
        with self._lock:
            if not isinstance(key, str) or key not in self.tables:
                msg = "This table is not open, or no longer. Open it again."
                raise NotFoundError.saying(msg, parameter="table")
            self.tables.move_to_end(key)
            return self.tables[key]

    def described(self, key: str) -> dict[str, Any]:
        """A table in words, under its number."""
        partner = self.partners.get(key)
        partner = partner if partner in self.tables else None
        return {**self.table(key).described(), "id": key, "partner": partner}

    def open_builtin(self, name: Any) -> str:
        """A data set of mercer's own, which is opened once."""
        require("builtin", name, OneOf(tuple(BUILTINS)))
        with self._lock:
            for key, data in self.tables.items():
                if data.name == name and data.suggested is BUILTINS[name].recipe:
                    return key
            number, folder = self.place()
            key = self.add(write_builtin(name, folder), number)
            partner = BUILTINS[name].partner
            if partner is not None:
                self.partners[key] = self.open_builtin(partner)
            return key

    def open_file(self, path: Path, name: str, reading: Reading | None = None) -> str:
        """A file of rows, or a folder of images."""
        return self.add(opened(path, name=name, reading=reading), str(next(self._numbers)))

    def reread(self, key: str, body: dict[str, Any]) -> str:
        """The same file, read in another way."""
        data = self.table(key)
        columns = body.get("columns")
        if columns is not None:
            if not isinstance(columns, list):
                refuse_value("columns", columns, "a list of names or None")
            columns = tuple(map(str, columns))
        id_, label = body.get("id"), body.get("label")
        shape = body.get("image_shape")
        sides = isinstance(shape, list) and len(shape) == 2 and all(type(s) is int for s in shape)
        if shape is not None and not (sides and min(shape) > 0):
            refuse_value("image_shape", shape, "a height and a width, or None")
        again = replace(
            data,
            reading=replace(data.reading, id=id_, label=label, columns=columns),
            image_shape=None if shape is None else (shape[0], shape[1]),
            impute=body.get("impute"),
            one_hot=body.get("one_hot") is True,
            guessed=(),
            readings=False,
        )
        _ = again.raw, again.file_columns  # a file that can't be read so is refused now
        return self.add(again, str(next(self._numbers)))

    # ── models ──────────────────────────────────────────────────────────────
    def add_model(self, found: Opened, file: Path | None = None) -> str:
        """Keep a model, and where its file lies; the oldest goes where there are too many."""
        key = f"m{next(self._numbers)}"
        with self._lock:
            self.models[key] = found
            if file is not None:
                self._model_files[key] = file
            while len(self.models) > MOST_MODELS:
                self.drop_model(next(iter(self.models)))
        return key

    def drop_model(self, key: str) -> None:
        """Let a model go, with its file."""
        with self._lock:
            del self.models[key]
            self.own_tables.pop(key, None)
            if key in self._model_files:
                self.discard(self._model_files.pop(key))

    def keep_rows(self, key: str) -> str | None:
        """A table of the rows that a model keeps; None where it keeps none, or only landmarks."""
        found = self.model(key)
        own = Fitted.of(found.model, found.preparation)
        rows = own.training_rows
        if rows is None:
            return None
        number, folder = self.place()
        path = folder / "rows.npz"
        try:
            self.hold(path, int(np.asarray(rows).nbytes))
            np.savez(path, rows=rows, names=np.array(own.names(), dtype=np.str_))
        except BaseException:  # no room: nothing of it stays, the model neither
            self.discard(path)
            self.drop_model(key)
            raise
        data = Dataset(path, name=f"rows of {found.path.name}", image_shape=own.image_shape)
        table = self.add(data, number)
        self.own_tables[key] = table
        return table

    def open_model_file(self, path: Path, name: str) -> str:
        """A model file, checked to the last byte; nothing in it is run."""
        return self.add_model(replace(open_model(path), path=Path(name)), path)

    def model(self, key: Any) -> Opened:
        """A model by its number."""
        with self._lock:
            if not isinstance(key, str) or key not in self.models:
                msg = "This model is not open, or no longer. Open its file again."
                raise NotFoundError.saying(msg, parameter="model")
            return self.models[key]

    def described_model(self, key: str) -> dict[str, Any]:
        """A model in words, under its number."""
        found = self.model(key)
        own, kind = Fitted.of(found.model, found.preparation), type(found.model).__name__
        kernel = "Linear()" if own.kernel is None else repr(own.kernel)
        return {
            "id": key,
            "name": found.path.name,
            "kind": kind,
            "kernel": kernel,
            "features": list(own.names()),
            "is_detector": found.is_detector,
            "components": own.k,
            "words": f"{kind} with {kernel}, {own.k} components",
            "recipe": {"model": key},
            "table": self.own_tables.get(key),
        }

    # ── fits ────────────────────────────────────────────────────────────────
    def shown(self, key: Any, recipe: Recipe, quality: Any, job: Job | None = None) -> Shown:
        """A fit, made where it is not at hand; one that was stopped is not kept."""
        data = self.table(key)
        way = way_of(recipe, data, quality)
        own, place = way.recipe, (key, *way.key)
        model = None if own.model is None else self.model(own.model)

        def made() -> Shown:
            # By the one worker, which may have made it for another while this one waited.
            found = self._kept(place)
            if found is None and model is not None:
                found = self._keep(place, of_model(own, data, model), job)
            return found or self._keep(place, fitted(recipe, data, quality, job), job)

        found = self._kept(place) or self.desk.alone(made)
        return found if found.recipe.preimage == own.preimage else replace(found, recipe=own)

    def _kept(self, place: tuple[Any, ...]) -> Shown | None:
        with self._lock:
            if place in self._fits:
                self._fits.move_to_end(place)
            return self._fits.get(place)

    def _keep(self, place: tuple[Any, ...], made: Shown, job: Job | None) -> Shown:
        with self._lock:
            if (job is None or not job.cancelled.is_set()) and place[0] in self.tables:
                self._fits[place] = made
                while len(self._fits) > MOST_FITS:
                    self._fits.popitem(last=False)
        return made


def is_readable(name: str) -> bool:
    """Whether the ending of a name is one that is read."""
    return Path(name).suffix.lower() in {*SUFFIXES, MODEL_SUFFIX}


def safe_name(name: str) -> str:
    """The name of a file as one of the session's own: its ending, and letters that mean nothing to a system.

    >>> safe_name("../../etc/passwd.csv"), safe_name("Größe 2.CSV"), safe_name(".csv")
    ('passwd.csv', 'Größe-2.csv', 'file.csv')
    """
    last = name.replace("\\", "/").rpartition("/")[2]
    stem, dot, ending = last.rpartition(".")
    kept = "".join(c if c.isalnum() or c in "-_" else "-" for c in stem).strip("-")[:80]
    return f"{kept or 'file'}{dot}{ending.lower()}"
