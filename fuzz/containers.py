"""Files with an inner structure: Arrow, Parquet, zarr, images, headers of NPY files, sparse matrices."""

from __future__ import annotations

import io
import json
import shutil
import struct
import zipfile
from copy import deepcopy
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from fuzz.doors import Door, enter_table, npy_seeds
from fuzz.mutate import mutated
from fuzz.trial import EscapeError
from fuzz.words import wild, words_altered

if TYPE_CHECKING:
    import random

N, D = 12, 3


def _rows() -> np.ndarray:
    return np.random.default_rng(0).standard_normal((N, D))


# ── Arrow and Parquet ───────────────────────────────────────────────────────
def _table() -> Any:
    import pyarrow as pa

    words = pa.array(["one", "two", "six"] * (N // 3))
    columns = {"x": _rows()[:, 0], "n": np.arange(N), "w": words, "c": words.dictionary_encode()}
    return pa.table(columns)


@cache
def arrow_seeds() -> list[bytes]:
    """A file and a stream, plain and compressed."""
    import pyarrow as pa

    found, table = [], _table()
    for new in (pa.ipc.new_file, pa.ipc.new_stream):
        for packed in (None, "lz4"):
            sink = io.BytesIO()
            with new(sink, table.schema, options=pa.ipc.IpcWriteOptions(compression=packed)) as out:
                out.write_table(table)
            found.append(sink.getvalue())
    return found


@cache
def arrow_named() -> dict[str, bytes]:
    """An offset of a text that points far beyond the file: Arrow would follow it."""
    honest = arrow_seeds()[0]
    at = honest.index(struct.pack("<4i", 0, 3, 6, 9))
    return {"one altered offset": honest[: at + 8] + struct.pack("<i", 2**30) + honest[at + 12 :]}


@cache
def parquet_seeds() -> list[bytes]:
    """One row group and several."""
    import pyarrow.parquet as pq

    found = []
    for height in (N, 5):
        sink = io.BytesIO()
        pq.write_table(_table(), sink, row_group_size=height)
        found.append(sink.getvalue())
    return found


# ── workbooks ───────────────────────────────────────────────────────────────
@cache
def excel_seeds() -> list[bytes]:
    """A sheet of numbers, words, times and gaps."""
    from datetime import datetime

    import openpyxl

    book, sink, day = openpyxl.Workbook(), io.BytesIO(), datetime(2024, 1, 31)
    for row in (["t", "x", "w"], [day, 1.5, "one"], [day, None, "two"], [day, 3, "six"]):
        book.active.append(row)
    book.save(sink)
    return [sink.getvalue()]


def excel_altered(data: bytes, others: list[bytes], rng: random.Random) -> bytes:
    """One file of the archive spoilt, and packed again: as it is, a checksum would tell."""
    if rng.random() < 0.25:
        return mutated(data, others, rng)
    sink = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as archive, zipfile.ZipFile(sink, "w") as out:
        names = archive.namelist()
        chosen = rng.choice(names)
        for name in names:
            part = archive.read(name)
            out.writestr(name, mutated(part, [part], rng) if name == chosen else part)
    return sink.getvalue()


# ── sparse matrices ─────────────────────────────────────────────────────────
@cache
def sparse_seeds() -> list[bytes]:
    """A CSR matrix as scipy.sparse.save_npz writes it."""
    from scipy import sparse

    sink = io.BytesIO()
    sparse.save_npz(sink, sparse.csr_matrix(_rows() * (_rows() > -0.5)), compressed=False)
    return [sink.getvalue()]


def sparse_altered(data: bytes, _others: list[bytes], rng: random.Random) -> bytes:
    """Entries of indices and indptr set to wild numbers."""
    with np.load(io.BytesIO(data)) as archive:
        parts = {name: archive[name] for name in ("data", "indices", "indptr")}
    for _ in range(rng.choice((1, 2, 5))):
        name = rng.choice(("indices", "indptr"))
        at = rng.randrange(len(parts[name]))
        parts[name][at] = wild(rng, most=D) % 2**31 * rng.choice((1, 1, -1))
    return _archive(parts)


def _archive(parts: dict[str, np.ndarray]) -> bytes:
    sink = io.BytesIO()
    np.savez(sink, **parts)
    return sink.getvalue()


@cache
def sparse_named() -> dict[str, bytes]:
    """Indices far outside, which SciPy's products follow."""
    with np.load(io.BytesIO(sparse_seeds()[0])) as archive:
        parts = {name: archive[name] for name in ("data", "indices", "indptr")}
    indices, indptr = parts["indices"].copy(), parts["indptr"].copy()
    indices[3], indptr[2] = 10**8, 10**8
    return {
        "a column far outside": _archive(parts | {"indices": indices}),
        "a row that ends far outside": _archive(parts | {"indptr": indptr}),
    }


def enter_sparse(path: Path) -> None:
    """A matrix that SciPy took as it was, through the doors of rows in memory."""
    from scipy import sparse

    import mercer
    from mercer.kernels import RBF

    with np.load(path) as archive:
        parts = [archive[name] for name in ("data", "indices", "indptr")]
    matrix = sparse.csr_matrix((N, D))
    matrix.data, matrix.indices, matrix.indptr = parts
    honest = mercer.KernelPCA(2, kernel=RBF(0.5)).fit(_rows())
    honest.transform(matrix)
    mercer.KernelPCA(2, kernel=RBF(0.5)).fit(lambda: iter([matrix]))


# ── headers of NPY files ────────────────────────────────────────────────────
def header_altered(data: bytes, others: list[bytes], rng: random.Random) -> bytes:
    """A header in good form that promises something else than what follows."""
    del others
    shape = tuple(wild(rng, most=N) for _ in range(rng.choice((0, 1, 2, 2, 2, 3))))
    shape = rng.choice((shape, (N, D), (D, N), (N * D,), (10**9, 10**9)))
    kinds = ("<f8", ">f8", "<f4", "<i8", "|O", "<U4", "|V8", "<f16", "<c16", "<M8[s]", "|b1", "<f2")
    descr: Any = rng.choice((*kinds, [("a", "<f8")], [("a", "<f8", (2,))], "<f0", "no", None))
    text = repr({"descr": descr, "fortran_order": rng.choice((True, False)), "shape": shape})
    head = text.encode().ljust(rng.choice((118, 246)) - 1) + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(head)) + head + data[128:]


@cache
def header_named() -> dict[str, bytes]:
    """Rows that are not there, and objects that would be unpickled."""
    rows = npy_seeds()[0][128:]
    found = {}
    for name, descr, shape in (
        ("more rows than bytes", "<f8", (10**12, D)),
        ("negative lengths", "<f8", (-N, -D)),
        ("pickled objects", "|O", (N, D)),
    ):
        head = (
            repr({"descr": descr, "fortran_order": False, "shape": shape}).encode().ljust(117)
            + b"\n"
        )
        found[name] = b"\x93NUMPY\x01\x00" + struct.pack("<H", len(head)) + head + rows
    return found


# ── images ──────────────────────────────────────────────────────────────────
IMAGES = ("PNG", "PPM", "JPEG")
OTHERS = ("EPS", "GIF", "TIFF", "BMP", "PDF", "ICO")


@cache
def image_seeds() -> list[bytes]:
    """Images of the three formats that are read, each behind the number of its ending."""
    return [bytes([place]) + _image(form) for place, form in enumerate(IMAGES)]


def _image(form: str) -> bytes:
    from PIL import Image

    sink = io.BytesIO()
    mode = "RGB" if form in ("EPS", "PDF") else "L"
    Image.effect_noise((16, 16), 50).convert(mode).save(sink, form)
    return sink.getvalue()


@cache
def image_named() -> dict[str, bytes]:
    """What Pillow would recognise by its content, under a name of ours; an EPS goes to Ghostscript."""
    return {f"{form} named .png": b"\x00" + _image(form) for form in (*OTHERS, "JPEG")}


def enter_images(path: Path) -> None:
    """The only image of a folder; its first byte says which ending it has."""
    from PIL import EpsImagePlugin

    def called(*_args: Any, **_kwargs: Any) -> None:
        msg = "Ghostscript was called"
        raise EscapeError(msg)

    EpsImagePlugin.Ghostscript = called
    folder, data = path.parent / "pictures", path.read_bytes() or b"\x00"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    ending = (".png", ".pgm", ".jpg")[data[0] % 3]
    (folder / f"a{ending}").write_bytes(data[1:])
    enter_table(folder)


# ── zarr ────────────────────────────────────────────────────────────────────
@cache
def zarr_seeds() -> list[bytes]:
    """Folders of both versions of the format, as ZIP archives."""
    import tempfile

    import zarr

    found = []
    for version in (2, 3):
        with tempfile.TemporaryDirectory() as folder:
            array = zarr.create_array(
                folder, shape=(N, D), chunks=(5, D), dtype="f8", zarr_format=version, overwrite=True
            )
            array[:] = _rows()
            files = {
                str(file.relative_to(folder)): file.read_bytes()
                for file in sorted(Path(folder).rglob("*"))
                if file.is_file()
            }
        found.append(_zipped(files))
    return found


def _zipped(files: dict[str, bytes]) -> bytes:
    sink = io.BytesIO()
    with zipfile.ZipFile(sink, "w") as archive:
        for name, data in files.items():
            archive.writestr(zipfile.ZipInfo(name), data)
    return sink.getvalue()


def _unzipped(data: bytes) -> dict[str, bytes]:
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


METADATA = ("zarr.json", ".zarray")
JSON = (None, 0, -1, 3, 10**12, 1.5, "", "|O", "<f4", "pickle", [], [10**9, 10**9], [0, 0], {}, "F")


def zarr_altered(data: bytes, _others: list[bytes], rng: random.Random) -> bytes:
    """Metadata that say something else, or chunks that hold something else."""
    files = _unzipped(data)
    name = rng.choice(list(files))
    if name in METADATA:
        tree = json.loads(files[name])
        for _ in range(rng.choice((1, 1, 2))):
            holder: Any = tree
            key = rng.choice(list(holder))
            while isinstance(holder[key], (dict, list)) and holder[key] and rng.random() < 0.7:
                holder = holder[key]
                keys = list(holder) if isinstance(holder, dict) else range(len(holder))
                key = rng.choice(list(keys))
            holder[key] = deepcopy(rng.choice(JSON))  # the next round may change what is in it
        files[name] = json.dumps(tree).encode()
    else:
        files[name] = words_altered(files[name], list(files.values()), rng)
    return _zipped(files)


@cache
def zarr_named() -> dict[str, bytes]:
    """Codecs that unpickle, and rows that no disk holds."""
    files = _unzipped(zarr_seeds()[0])
    found = {}
    for name, change in (
        ("pickle as a filter", {"filters": [{"id": "pickle"}]}),
        ("pickle as a compressor", {"compressor": {"id": "pickle"}}),
        ("chunks without rows", {"chunks": [0, 3]}),
        ("more rows than any disk holds", {"shape": [10**12, 10**6], "chunks": [10**6, 10**6]}),
        ("more columns than any memory holds", {"shape": [N, 10**12]}),
    ):
        head = json.dumps(json.loads(files[".zarray"]) | change).encode()
        found[name] = _zipped(files | {".zarray": head})
    return found


def enter_zarr(path: Path) -> None:
    """All rows of a zarr folder."""
    from mercer.data.sources import as_source

    folder = path.parent / "rows.zarr"
    shutil.rmtree(folder, ignore_errors=True)
    for name, data in _unzipped(path.read_bytes()).items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(data)
    source = as_source(folder)
    for _ in source.blocks(100):
        pass


CONTAINERS = (
    Door("arrow", ".arrow", arrow_seeds, enter_table, words_altered, arrow_named),
    Door("parquet", ".parquet", parquet_seeds, enter_table, words_altered),
    Door("sparse", ".npz", sparse_seeds, enter_sparse, sparse_altered, sparse_named),
    Door("npy, headers", ".npy", npy_seeds, enter_table, header_altered, header_named),
    Door("images", ".bin", image_seeds, enter_images, words_altered, image_named),
    Door("zarr", ".zip", zarr_seeds, enter_zarr, zarr_altered, zarr_named),
    Door("excel", ".xlsx", excel_seeds, partial(enter_table, named_by="t"), excel_altered),
)
