"""All rows of a file, prepared: in memory where they fit, otherwise in a file."""

from __future__ import annotations

import hashlib
import tempfile
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from mercer._core.memory import format_bytes
from mercer.io.learning import chunk_height
from mercer.io.match import matched
from mercer.io.spool import no_room

if TYPE_CHECKING:
    from mercer._core.types import Array
    from mercer.io.preparation import Preparation
    from mercer.io.table import TableFile


@dataclass(frozen=True, eq=False)
class Sheet:
    """Prepared rows, and what stands beside them.

    Attributes
    ----------
    rows : (n, d) array or memmap
        As the model takes them.
    ids, labels : (n,) arrays or None
        As the file has them.
    names : tuple of str
        Of the d columns.
    notes : tuple of str
        What was guessed, left out, filled or kept elsewhere, for people.
    digest : str
        SHA-256 of the rows before they were filled and scaled.
    preparation : Preparation
        What was done to them.
    """

    rows: Array
    ids: Any
    labels: Any
    names: tuple[str, ...]
    notes: tuple[str, ...]
    digest: str
    preparation: Preparation
    id_name: str | None = None
    label_name: str | None = None

    def raw(self, rows: slice = slice(None)) -> Array:
        """The rows, or some of them, in the units of the file."""
        return self.preparation.unscaled(np.asarray(self.rows[rows]))

    def __len__(self) -> int:
        return int(self.rows.shape[0])


def prepared_rows(table: TableFile, preparation: Preparation, *, memory_bytes: int) -> Sheet:
    r"""Read all rows of a file, and prepare them.

    Rows that fit in half of the memory are held in it. Others are written to a temporary file, which has
    no name and is gone when nobody uses it any more; but an NPY file to which nothing has to be done is
    used where it lies.

    Parameters
    ----------
    table : TableFile
        Its columns are matched to those of the preparation by name.
    preparation : Preparation
        What is done to them.
    memory_bytes : int
        What the work may use.

    Returns
    -------
    Sheet

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from mercer.io.prepare import Preparation
    >>> from mercer.io.table import open_table
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder, "a.csv")
    ...     _ = path.write_text("y,x\n1,2\n3,4\n")
    ...     sheet = prepared_rows(open_table(path), Preparation(("x", "y")), memory_bytes=10**6)
    >>> sheet.rows
    array([[2., 1.],
           [4., 3.]])
    """
    table = matched(table, preparation)
    limit = memory_bytes // 2
    mapped = table.in_place() if preparation.is_plain else None
    if mapped is not None and mapped.nbytes <= limit:
        mapped = None
    store = _Store(len(preparation.features), table.dtype, limit, keep=mapped is None)
    digest = Digest()
    ids: list[Any] = []
    labels: list[Any] = []
    for chunk in table.chunks(chunk_height(table)):
        coded = preparation.coded(chunk)
        digest.add(coded)
        store.add(preparation.scaled(preparation.filled(coded), chunk))
        ids.append(chunk.ids)
        labels.append(chunk.labels)
    rows = store.rows() if mapped is None else mapped
    return Sheet(
        rows,
        _joined(ids),
        _joined(labels),
        preparation.features,
        (*table.notes, *store.notes),
        digest.hex(),
        preparation,
        table.id_name,
        table.label_name,
    )


def _joined(parts: list[Any]) -> Any:
    return None if not parts or parts[0] is None else np.concatenate(parts)


class _Store:
    """Blocks of rows, held until they are too many, then in a temporary file without a name."""

    def __init__(self, d: int, dtype: np.dtype[Any], limit: int, *, keep: bool) -> None:
        self._d, self._dtype, self._limit, self._keep = d, dtype, limit, keep
        self._blocks: list[Array] = []
        self._file: Any = None
        self._n = 0
        self.notes: list[str] = []

    def add(self, block: Array) -> None:
        self._n += len(block)
        if not self._keep:
            return
        self._blocks.append(block)
        if self._file is not None or self._n * self._d * self._dtype.itemsize > self._limit:
            self._spill()

    def _spill(self) -> None:
        try:
            if self._file is None:
                self._file = tempfile.TemporaryFile(prefix="mercer-")  # noqa: SIM115
            for block in self._blocks:
                self._file.write(np.ascontiguousarray(block).view(np.uint8).data)
            self._file.flush()
        except OSError as error:
            raise no_room(error, "Rows that do not fit in memory") from error
        self._blocks.clear()

    def rows(self) -> Array:
        shape = (self._n, self._d)
        if self._file is not None:
            size = format_bytes(self._n * self._d * self._dtype.itemsize)
            self.notes.append(
                f"{size} of prepared rows are more than half of the memory: kept in a temporary file in "
                f"{tempfile.gettempdir()}"
            )
            with self._file:  # the map holds on to it
                return np.memmap(self._file, dtype=self._dtype, mode="r", shape=shape)
        if len(self._blocks) == 1:
            return self._blocks[0]
        out = np.empty(shape, self._dtype)
        start = 0
        self._blocks.reverse()
        while self._blocks:  # each is let go when it has its place: never all rows twice
            block = self._blocks.pop()
            out[start : start + len(block)] = block
            start += len(block)
        return out


class Digest:
    """The SHA-256 of rows that come in blocks; the same as `mercer.model.checkpoint.digest` of them all."""

    def __init__(self) -> None:
        self._rows = hashlib.sha256()
        self._shape, self._dtype = (0, 0), ""

    def add(self, block: Array) -> None:
        """The next rows."""
        self._shape = (self._shape[0] + len(block), block.shape[1])
        self._dtype = block.dtype.str
        self._rows.update(np.ascontiguousarray(block).reshape(-1).view(np.uint8).data)

    def hex(self) -> str:
        """In hexadecimal."""
        whole = hashlib.sha256(f"{self._shape} {self._dtype}".encode())
        whole.update(self._rows.digest())
        for _ in range(3):  # the streams of sparse rows, which are empty here
            whole.update(hashlib.sha256().digest())
        return whole.hexdigest()[:32]
