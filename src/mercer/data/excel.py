"""Excel workbooks (.xlsx): a sheet as the lines of a CSV file, with all that is asked of one."""

from __future__ import annotations

import csv
import io
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from mercer._core.errors import DataError
from mercer._core.observer import require_wanted
from mercer.data.columns import hint
from mercer.data.csv.blocks import BLOCK_BYTES, Mark
from mercer.data.csv.table import CsvTable
from mercer.data.files import explained, require_promise
from mercer.data.frames import need
from mercer.data.table import Reading


class WantedFile(io.FileIO):
    """A file that is read as long as that is wanted.

    A library may go through a whole sheet, and all texts of a workbook, before it hands out a row.
    """

    def read(self, size: int | None = -1, /) -> bytes:
        require_wanted()
        return super().read(size)


class ExcelTable(CsvTable):
    """The rows of a sheet. Numbers are those of the cells, to the bit; times are texts as in ISO 8601."""

    _seeks = False

    def __init__(self, path: Path, reading: Reading, source: str) -> None:
        self._sheet = reading.array
        super().__init__(path, replace(reading, delimiter=","), source)

    def _first_mark(self, reading: Reading) -> Mark:
        return Mark(0, reading.skip_rows)  # a sheet is read from its beginning, whatever is skipped

    def _texts(self, block_bytes: int | None = None, begin: Mark | None = None) -> Any:
        del begin
        size, lines = block_bytes or BLOCK_BYTES, io.StringIO(newline="")
        write = csv.writer(lines, lineterminator="\n").writerow
        width = blank = 0
        with self._rows() as rows:
            for row in rows:
                require_wanted()  # a block of short rows takes many seconds
                cells = [_text(cell) for cell in row]
                while cells and not cells[-1]:
                    cells.pop()
                if not cells:  # those at the end of a sheet are none of its rows
                    blank += 1
                    continue
                width = width or len(cells)
                lines.write("\n" * blank)
                write(cells + [""] * (width - len(cells)))
                blank = 0
                if lines.tell() >= size:
                    yield lines.getvalue(), 0
                    lines.seek(0)
                    lines.truncate()
        if lines.tell():
            yield lines.getvalue(), 0

    @contextmanager
    def _rows(self) -> Iterator[Any]:
        """The values of the cells, row by row, as deep as the sheet goes."""
        # Readers of XML and of archives raise what they like over a damaged file.
        remedy = "It is damaged, or not a workbook. Save the sheet again, or as CSV."
        with explained(self.source, Exception, remedy=remedy, stamp=self.stamp):
            with zipfile.ZipFile(self._path) as archive:
                unpacked = sum(info.file_size for info in archive.infolist())
            packed, remedy = self._path.stat().st_size, "If you trust it, save the sheet as CSV."
            require_promise(unpacked, packed, source=self.source, remedy=remedy)
            openpyxl = need("openpyxl", extra="excel")
            with WantedFile(self._path) as file:
                book = openpyxl.load_workbook(file, read_only=True, data_only=True)
                sheet = self._chosen(book)
                sheet.reset_dimensions()  # which a program may have written as it liked
                yield sheet.iter_rows(min_row=self._marks[0][1].lines + 1, values_only=True)

    def _chosen(self, book: Any) -> Any:
        sheets = {sheet.title: sheet for sheet in book.worksheets}
        if self._sheet is None and len(sheets) == 1:
            return next(iter(sheets.values()))
        if self._sheet in sheets:
            return sheets[self._sheet]
        near = hint(self._sheet or "", list(sheets), "sheets")
        what = "several sheets" if self._sheet is None else f"no sheet {self._sheet!r}"
        msg = f"{self.source} has {what}."
        raise DataError.saying(msg, f"Name one with `array`. {near}", parameter="array")


def _text(value: Any) -> str:
    """A cell as a field: repr of a float is read back to the same bits."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(int(value))
    return value.isoformat(" ") if hasattr(value, "hour") and hasattr(value, "year") else str(value)
