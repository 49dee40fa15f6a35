"""A text file as blocks of whole lines: UTF-8, no binary, no line without an end."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

from mercer._core.errors import DataError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

BLOCK_BYTES = 4 * 2**20  # read at a time; as Python's strings its fields take ten times as much
LINE_BYTES = 64 * 2**20  # no line of a table is longer

# What a file begins with that is called .csv and is none: the reason, and the way out.
FOREIGN = {
    b"\xff\xfe": "it is UTF-16. Convert it: iconv -f UTF-16 -t UTF-8 FILE > NEW",
    b"\xfe\xff": "it is UTF-16. Convert it: iconv -f UTF-16 -t UTF-8 FILE > NEW",
    b"\x1f\x8b": "it is compressed. Unpack it with gunzip",
    b"PK\x03\x04": "it is a zip archive or an Excel workbook. Unpack it, or save the sheet as CSV",
    b"\xd0\xcf\x11\xe0": "it is an Excel workbook. Save the sheet as CSV",
    b"\x93NUMPY": "it is an NPY file. Say --format npy",
    b"PAR1": "it is a Parquet file. Say --format parquet",
    b"ARROW1": "it is an Arrow file. Say --format arrow",
    b"\x89HDF": "it is an HDF5 file. Say --format hdf5",
    b"\x89PNG": "it is an image. Put images into a folder and give the folder",
    b"%PDF": "it is a PDF document. Export the table from it",
}


def text_blocks(path: Path, *, source: str, block_bytes: int = BLOCK_BYTES) -> Iterator[str]:
    r"""The text of the file, in pieces that end where a line ends.

    A piece ends after ``\n``; in a file of old that has none, after ``\r``. Memory is bounded by the
    block and by the longest line that is let through, whatever the file is.
    """
    line = 1  # in which the piece begins
    with path.open("rb") as file:
        rest = b""
        first = True
        while data := file.read(block_bytes):
            if first:
                data = _without_mark(data, source)
                first = False
            _require_text(data, line, source)
            end = _line_end(data)
            if end == 0:
                rest += data
                if len(rest) > LINE_BYTES:
                    msg = (
                        f"{source}: line {line} is longer than {LINE_BYTES // 2**20} MB, so this is no "
                        "table of lines. Look at the file."
                    )
                    raise DataError(msg)
                continue
            text = _decoded(rest + data[:end], line, source)
            rest = data[end:]
            line += text.count("\n") or text.count("\r")
            yield text
        if rest:
            yield _decoded(rest, line, source)


def _without_mark(data: bytes, source: str) -> bytes:
    for start, reason in FOREIGN.items():
        if data.startswith(start):
            msg = f"{source} is no text in UTF-8: {reason}."
            raise DataError(msg)
    return data.removeprefix(b"\xef\xbb\xbf")


def _require_text(data: bytes, line: int, source: str) -> None:
    if b"\0" in data:
        msg = (
            f"{source} holds NUL bytes (the first in or after line {line}): it is binary, or text in UTF-16. "
            "Give a text file in UTF-8, or say what it is with --format."
        )
        raise DataError(msg)


def _line_end(data: bytes) -> int:
    """How many bytes the whole lines of `data` have."""
    end = data.rfind(b"\n") + 1
    # A \r that ends the block may be half of a \r\n: an earlier one is taken.
    return end or data.rfind(b"\r", 0, len(data) - 1) + 1


def _decoded(data: bytes, line: int, source: str) -> str:
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        before = data[: error.start]
        at = line + before.count(b"\n")
        msg = (
            f"{source}: line {at} is no UTF-8 (byte 0x{data[error.start]:02X}). If it was written in "
            "Latin-1, convert it: iconv -f LATIN1 -t UTF-8 FILE > NEW"
        )
        raise DataError(msg) from error


class Feed:
    """Lines of the blocks of a file, which can also be had as text: the rest of the current block."""

    def __init__(self, blocks: Iterator[str]) -> None:
        self._blocks = blocks
        self._text, self._lines = "", io.StringIO("")
        self.n_lines = 0  # handed out so far

    def rest(self) -> str:
        """What is left of the current block, or the next block; empty at the end. Takes nothing."""
        if self.at_end_of_block:
            self._load()
        return self._text[self._lines.tell() :]

    def skip(self, n_lines: int) -> None:
        """The rest of the block has been dealt with as text."""
        self._text, self._lines = "", io.StringIO("")
        self.n_lines += n_lines

    @property
    def at_end_of_block(self) -> bool:
        """Whether all lines of the current block are handed out."""
        return self._lines.tell() >= len(self._text)

    def __iter__(self) -> Feed:
        return self

    def __next__(self) -> str:
        if self.at_end_of_block:
            self._load()
        line = self._lines.readline()
        if not line:
            raise StopIteration
        self.n_lines += 1
        return line

    def _load(self) -> None:
        self._text = next(self._blocks, "")
        # Lines end as the file ends them, with \\n, \\r\\n or \\r, and keep it: csv wants to see it.
        self._lines = io.StringIO(self._text, newline="")
