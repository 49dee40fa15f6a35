"""A text file as blocks of whole lines: UTF-8, no binary, no line without an end."""

from __future__ import annotations

import io
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from mercer._core.errors import DataError, refuse_data

BLOCK_BYTES = 4 * 2**20  # read at a time; as Python's strings its fields take ten times as much
LINE_BYTES = 64 * 2**20  # no line of a table is longer

# What a file begins with that is called .csv and is something else: the reason, and the way out.
UTF_16 = ("it is UTF-16", "Convert it: iconv -f UTF-16 -t UTF-8 FILE > NEW")
FOREIGN = {
    b"\xff\xfe": UTF_16,
    b"\xfe\xff": UTF_16,
    b"\x1f\x8b": ("it is compressed", "Unpack it with gunzip."),
    b"PK\x03\x04": (
        "it is a zip archive or an Excel workbook",
        "Unpack it, or use `format='excel'` for a workbook.",
    ),
    b"\xd0\xcf\x11\xe0": ("it is an old Excel workbook", "Save the sheet as .xlsx or CSV."),
    b"\x93NUMPY": ("it is an NPY file", "Use `format='npy'`."),
    b"PAR1": ("it is a Parquet file", "Use `format='parquet'`."),
    b"ARROW1": ("it is an Arrow file", "Use `format='arrow'`."),
    b"\x89HDF": ("it is an HDF5 file", "Use `format='hdf5'`."),
    b"\x89PNG": ("it is an image", "Put images into a folder and give the folder."),
    b"%PDF": ("it is a PDF document", "Export the table from it."),
}


class Mark(NamedTuple):
    """A place in a text file where a line begins: the bytes and the lines before it."""

    offset: int = 0
    lines: int = 0


def text_blocks(
    path: Path, *, source: str, begin: Mark, block_bytes: int = BLOCK_BYTES
) -> Iterator[tuple[str, int]]:
    r"""The text of the file from a mark on, in pieces that end where a line ends, each with where it ends.

    A piece ends after ``\n``; in a file of old that has none, after ``\r``. Memory is bounded by the
    block and by the longest line that is let through, whatever the file is.
    """
    line = begin.lines + 1  # in which the piece begins
    with path.open("rb") as file:
        offset, rest = begin.offset, b""
        file.seek(offset)
        while data := file.read(block_bytes):
            if offset == 0 and not rest:
                offset, data = _without_mark(data, source)
            if b"\0" in data:
                where = f"the first in or after line {line}"
                what = f"{source} has NUL bytes ({where}): it is binary, or text in UTF-16."
                refuse_data(what, "Give a text file in UTF-8, or say what it is with `format`.")
            # The whole lines. A \r that ends the block may be half of a \r\n: an earlier one is taken.
            end = data.rfind(b"\n") + 1 or data.rfind(b"\r", 0, len(data) - 1) + 1
            if end == 0:
                rest += data
                if len(rest) > LINE_BYTES:
                    long = f"line {line} is longer than {LINE_BYTES // 2**20} MB"
                    remedy = "Look at the file."
                    refuse_data(f"{source}: {long}, so this is not a table of lines.", remedy)
                continue
            text = _decoded(rest + data[:end], line, source)
            offset, rest = offset + len(rest) + end, data[end:]
            line += text.count("\n") or text.count("\r")
            yield text, offset
        if rest:
            yield _decoded(rest, line, source), offset + len(rest)


def after_lines(path: Path, n_lines: int, *, source: str) -> Mark:
    """The place after the first lines of a file, which are not looked at."""
    with path.open("rb") as file:
        for line in range(n_lines):
            if not file.readline(LINE_BYTES):
                must_be = f"less than the {line} lines of {source}"
                raise DataError.about(parameter="skip_rows", value=n_lines, must_be=must_be)
        return Mark(file.tell(), n_lines)


def _without_mark(data: bytes, source: str) -> tuple[int, bytes]:
    for start, (reason, remedy) in FOREIGN.items():
        if data.startswith(start):
            refuse_data(f"{source} is not a text in UTF-8: {reason}.", remedy)
    found = data.removeprefix(b"\xef\xbb\xbf")
    return len(data) - len(found), found


def _decoded(data: bytes, line: int, source: str) -> str:
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        at = line + data[: error.start].count(b"\n")
        msg = f"{source}: line {at} is not UTF-8 (byte 0x{data[error.start]:02X})."
        remedy = "If it was written in Latin-1, convert it: iconv -f LATIN1 -t UTF-8 FILE > NEW"
        raise DataError.saying(msg, remedy) from error


class Feed:
    """Lines of a file but for comments, which count, or as text: the rest of the current block."""

    def __init__(self, blocks: Iterator[tuple[str, int]], begin: Mark, comment: str | None) -> None:
        self._blocks, self._comment = blocks, comment
        self._lines: io.StringIO | None  # of the block, once they are asked for one by one
        self._text, self._lines = "", None
        self._end = begin.offset  # of the current block
        self.n_lines = begin.lines  # handed out so far, or passed over

    def rest(self) -> str:
        """What is left of the current block, or the next block; empty at the end. Takes nothing."""
        if self.at_end_of_block:
            self._load()
        return self._text if self._lines is None else self._text[self._lines.tell() :]

    def skip(self, n_lines: int) -> None:
        """The rest of the block has been dealt with as text."""
        self._text, self._lines = "", None
        self.n_lines += n_lines

    @property
    def at_end_of_block(self) -> bool:
        """Whether all lines of the current block are handed out."""
        return (0 if self._lines is None else self._lines.tell()) >= len(self._text)

    @property
    def mark(self) -> Mark:
        return Mark(self._end, self.n_lines)

    def __iter__(self) -> Feed:
        return self

    def __next__(self) -> str:
        line = self._next_line()
        while self._comment is not None and line.lstrip().startswith(self._comment):
            line = self._next_line()
        return line

    def _next_line(self) -> str:
        if self.at_end_of_block:
            self._load()
        if self._lines is None:
            # Lines end as the file ends them, with \\n, \\r\\n or \\r, and keep it: csv wants to see it.
            self._lines = io.StringIO(self._text, newline="")
        line = self._lines.readline()
        if not line:
            raise StopIteration
        self.n_lines += 1
        return line

    def _load(self) -> None:
        self._lines = None
        self._text, self._end = next(self._blocks, ("", self._end))
