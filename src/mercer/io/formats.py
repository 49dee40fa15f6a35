"""Formats of files: by which endings they are known, and which module reads them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mercer._core.errors import DataError

if TYPE_CHECKING:
    from pathlib import Path

SUFFIXES = {
    ".csv": "csv",
    ".txt": "csv",
    ".tsv": "tsv",
    ".tab": "tsv",
    ".npy": "npy",
    ".npz": "npz",
    ".parquet": "parquet",
    ".pq": "parquet",
    ".arrow": "arrow",
    ".feather": "arrow",
    ".ipc": "arrow",
    ".h5": "hdf5",
    ".hdf5": "hdf5",
    ".he5": "hdf5",
    ".h5ad": "h5ad",
}
FORMATS = {
    "csv": ("mercer.io.csv_table", "open_csv"),
    "tsv": ("mercer.io.csv_table", "open_tsv"),
    "npy": ("mercer.io.arrays", "open_npy_table"),
    "npz": ("mercer.io.npz", "open_npz"),
    "images": ("mercer.io.images", "open_images"),
    "parquet": ("mercer.io.arrow", "open_parquet_table"),
    "arrow": ("mercer.io.arrow", "open_arrow"),
    "hdf5": ("mercer.io.hdf5", "open_hdf5"),
    "h5ad": ("mercer.io.hdf5", "open_h5ad"),
}


def format_of(path: Path, asked: str | None) -> str:
    """The format that was asked for, or that the name of the file stands for."""
    shown = str(path)
    if not path.exists():
        msg = f"There is no file or folder {shown!r} (looked for {str(path.absolute())!r})."
        raise DataError(msg)
    if not path.is_file() and not path.is_dir():  # a device has no end
        msg = f"{shown!r} is neither a file nor a folder. Give one of them, or - for a pipe."
        raise DataError(msg)
    if asked is not None:
        form = asked
    elif path.is_dir():
        form = "parquet" if any(path.glob("*.parquet")) else "images"
    else:
        form = SUFFIXES.get(path.suffix.lower(), "")
    if path.is_dir() and form not in ("images", "parquet"):
        msg = f"{shown!r} is a folder, where a {form} file was needed. Name the file in it."
        raise DataError(msg)
    if not form:
        msg = (
            f"{shown!r} has the ending {path.suffix!r}, which stands for no format that can be read. Give "
            f"--format: one of {', '.join(FORMATS)}."
        )
        raise DataError(msg)
    return form
