"""What one takes away from the page: a model, scores, selected rows, a report, and the file itself."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import numpy as np

from mercer._core.errors import DataError
from mercer.app.explore.meaning import row_number
from mercer.app.explore.planes import all_scores
from mercer.app.outcome import Run, refuse, refuse_value
from mercer.app.rows import component_names, keep_model
from mercer.data.writers import open_writer
from mercer.report import build

if TYPE_CHECKING:
    from mercer.app.explore.dataset import Dataset
    from mercer.app.explore.fitting import Shown
    from mercer.preprocessing.align import Sheet

FORMATS = ("csv", "tsv", "npy", "npz", "parquet", "arrow")
MOST_SELECTED = 2_000_000


@dataclass(frozen=True)
class Kept:
    """A file to hand over: what it is called, and its bytes."""

    name: str
    body: bytes
    kind: str = "application/octet-stream"


def model(shown: Shown) -> Kept:
    """The model file, with the pre-image where one was asked for: what `mercer fit` would write."""
    if shown.recipe.model is not None:
        refuse("This model was not fitted here: its file is the one that was opened.")
    whole = shown.returning() if shown.recipe.preimage is not None else shown
    with TemporaryDirectory() as folder:
        path = Path(folder, "model.mercer")
        request = shown.recipe.request(shown.data, output=path.name)
        about = {**request.about, "command": "explore"}
        keep_model(Run(), path, whole.model, shown.sheet, about)
        return Kept(f"{stem(shown.data)}.mercer", path.read_bytes())


def scores(shown: Shown, form: Any) -> Kept:
    """The scores of all rows, with what names and labels them."""
    values = all_scores(shown.inside, shown.sheet.rows)
    names = component_names(values.shape[1])
    return _table(f"{stem(shown.data)}-scores", form, names, values, shown.sheet)


def selection(data: Dataset, rows: Any, form: Any) -> Kept:
    """Rows of the file that were selected, in its units, with their numbers where nothing else names them."""
    if not isinstance(rows, list) or not 1 <= len(rows) <= MOST_SELECTED:
        refuse_value("rows", rows, "a list of rows, at least one")
    places = np.array([row_number("rows", row, data.n) for row in rows])
    sheet = data.raw
    ids = places if sheet.ids is None else np.asarray(sheet.ids)[places]
    labels = None if sheet.labels is None else np.asarray(sheet.labels)[places]
    some = replace(sheet, rows=np.asarray(sheet.rows[places]), ids=ids, labels=labels)
    return _table(f"{stem(data)}-selection", form, list(sheet.names), some.rows, some)


def _table(name: str, form: Any, names: list[str], values: Any, sheet: Sheet) -> Kept:
    """Values as a file, beside the ids and labels of a sheet."""
    form = "csv" if form is None else form
    if form not in FORMATS:
        refuse_value("format", form, ", ".join(FORMATS))
    id_name = None if sheet.ids is None else sheet.id_name or "row"
    label_name = None if sheet.labels is None else sheet.label_name or "label"
    with TemporaryDirectory() as folder:
        path = Path(folder, f"{name}.{form}")
        with open_writer(
            path, names, dtype=values.dtype, id_name=id_name, label_name=label_name
        ) as writer:
            writer.write(values, sheet.ids, sheet.labels)
        return Kept(path.name, path.read_bytes())


def report(shown: Shown, title: Any) -> Kept:
    """The page of `mercer report`: one HTML file that opens anywhere."""
    if title is not None and not isinstance(title, str):
        refuse_value("title", title, "a text or None")
    sheet, data = shown.sheet, shown.data
    page = build(
        shown.returning().model,
        sheet.rows,
        preparation=sheet.preparation,
        ids=sheet.ids,
        labels=sheet.labels,
        digest=sheet.digest,
        source=data.source,
        commands=[] if shown.recipe.model else [shown.recipe.command(data)],
        notes=[*data.guessed, *data.noted],
        title=title,
    )
    return Kept(f"{stem(data)}-report.html", page.encode(), "text/html; charset=utf-8")


def file(data: Dataset) -> Kept:
    """The file of the rows, as it is."""
    if data.path.is_dir():
        refuse("{name} is a folder, which is not one file to save.", name=data.path.name)
    try:
        return Kept(data.path.name, data.path.read_bytes())
    except OSError as error:
        msg = f"{data.path.name} can't be read any more: {error.strerror}."
        raise DataError(msg) from error


def stem(data: Dataset) -> str:
    """A name for a file that is safe everywhere."""
    kept = "".join(c if c.isalnum() or c in "-_" else "-" for c in Path(data.name).stem)
    return kept.strip("-")[:60] or "mercer"
