"""HDF5 files, built anew for each input: links, external storage, virtual data sets, sparse groups."""

from __future__ import annotations

import io
import struct
import tempfile
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from fuzz.doors import Door
from fuzz.trial import EscapeError
from fuzz.words import wild, words_altered

if TYPE_CHECKING:
    import random
    from collections.abc import Callable

N, D = 6, 3
SECRET = 424242.0  # what no input may bring to light


def _rows() -> np.ndarray:
    return np.random.default_rng(0).standard_normal((N, D))


@cache
def _secrets() -> Path:
    """A folder of files that no input may make us read."""
    import h5py

    folder = Path(tempfile.mkdtemp())
    rows = np.full((N, D), SECRET)
    rows.tofile(folder / "rows.bin")
    with h5py.File(folder / "rows.h5", "w") as file:
        file["x"] = rows
        file["texts"] = [str(SECRET)] * N
    return folder


# ── ways out of a file ──────────────────────────────────────────────────────
def _external_storage(group: Any, name: str) -> None:
    group.create_dataset(
        name, (N, D), "f8", external=[(str(_secrets() / "rows.bin"), 0, N * D * 8)]
    )


def _virtual(group: Any, name: str) -> None:
    import h5py

    layout = h5py.VirtualLayout((N, D), dtype="f8")
    layout[:] = h5py.VirtualSource(str(_secrets() / "rows.h5"), "x", (N, D))
    group.create_virtual_dataset(name, layout)


def _external_link(group: Any, name: str) -> None:
    import h5py

    group[name] = h5py.ExternalLink(str(_secrets() / "rows.h5"), "texts" if name[0] == "_" else "x")


def _soft_to_external(group: Any, name: str) -> None:
    import h5py

    group["out"] = h5py.ExternalLink(str(_secrets() / "rows.h5"), "/")
    group[name] = h5py.SoftLink("out/x")


def _circle(group: Any, name: str) -> None:
    import h5py

    group[name] = h5py.SoftLink("back")
    group["back"] = h5py.SoftLink(name)


WAYS_OUT = {
    "external storage": _external_storage,
    "a virtual data set": _virtual,
    "an external link": _external_link,
    "a soft link through an external one": _soft_to_external,
    "a soft link to itself": _circle,
}


# ── ways to stay in it ──────────────────────────────────────────────────────
def _plain(group: Any, name: str) -> None:
    group[name] = _rows()


def _soft(group: Any, name: str) -> None:
    import h5py

    group["inner/rows"] = _rows()
    group[name] = h5py.SoftLink("inner/rows")


def _empty_promise(group: Any, name: str) -> None:
    group.create_dataset(name, (10**9, 10**6), "f8", chunks=(1000, 100))


def _strange(group: Any, name: str) -> None:
    import h5py

    group.create_dataset(name, (N,), h5py.vlen_dtype(np.float64))


STAYING = (_plain, _plain, _soft, _empty_promise, _strange)


# ── heaps ───────────────────────────────────────────────────────────────────
HEAP_HEADER = struct.Struct(
    "<HHIQ"
)  # index, references, reserved, size; a collection begins with 16 bytes, too
# Objects by which a walk over a collection gets no further: free space (index 0) that is smaller than its own
# header, and a size that is rounded up beyond 64 bits.
NO_STEP = {"of no size": (0, 0), "of half a header": (0, 8), "of 2**64 bytes": (1, 2**64 - 16)}


def _endless(data: bytes, index: int, size: int) -> bytes:
    """A file whose heap of variable-length values has an object like this as its first."""
    altered = bytearray(data)
    HEAP_HEADER.pack_into(altered, data.index(b"GCOL") + 16, index, 0, 0, size)
    return bytes(altered)


def _many_dimensions(data: bytes) -> bytes:
    """A file whose virtual data set is one of 2**30 dimensions, for which HDF5 writes beyond its stack."""
    selection = struct.pack("<II", 24, 2)  # bytes, dimensions
    place = data.index(selection, data.index(b"GCOL"))
    return data[:place] + struct.pack("<II", 0, 2**30) + data[place + 8 :]


# ── files ───────────────────────────────────────────────────────────────────
def _file(build: Callable[[Any], None]) -> bytes:
    import h5py

    sink = io.BytesIO()
    with h5py.File(sink, "w") as file:
        build(file)
    return sink.getvalue()


def _cells(
    file: Any, parts: dict[str, Callable[[Any, str], None]], rng: random.Random | None
) -> None:
    """An AnnData file; `parts` replace data sets by their paths."""
    group = file.create_group("X")
    group.attrs["encoding-type"], group.attrs["shape"] = "csr_matrix", (N, D)
    arrays = {
        "data": np.ones(2 * N),
        "indices": np.tile([0, D - 1], N),
        "indptr": 2 * np.arange(N + 1),
    }
    if rng is not None:
        name = rng.choice(("indices", "indptr"))
        arrays[name][rng.randrange(len(arrays[name]))] = wild(rng, most=D)
        if rng.random() < 0.3:
            group.attrs["shape"] = (wild(rng, most=N), wild(rng, most=D))
    values: dict[str, Any] = {f"X/{name}": array for name, array in arrays.items()}
    values |= {"obs/_index": [f"cell {i}" for i in range(N)]}
    values |= {"var/_index": [f"gene {j}" for j in range(D)]}
    values |= {"obs/kind/codes": np.zeros(N, np.int8), "obs/kind/categories": ["a", "b"]}
    for path, value in values.items():
        holder, _, name = path.rpartition("/")
        if path in parts:
            parts[path](file.require_group(holder), name)
        else:
            file[path] = value


PATHS = ("X/data", "X/indices", "X/indptr", "obs/_index", "var/_index", "obs/kind/categories")


def table_seeds() -> list[bytes]:
    """A plain file."""
    return [_file(partial(_plain, name="x"))]


def table_built(data: bytes, others: list[bytes], rng: random.Random) -> bytes:
    """A file whose rows are here or elsewhere, with a word or two altered in half of them."""
    if rng.random() < 0.6:
        data = _file(partial(rng.choice((*WAYS_OUT.values(), *STAYING)), name="x"))
    return words_altered(data, others, rng) if rng.random() < 0.6 else data


@cache
def table_named() -> dict[str, bytes]:
    """Each way out of a file, and layouts of virtual data sets over which HDF5 dies, or never ends."""
    named = {name: _file(partial(way, name="x")) for name, way in WAYS_OUT.items()}
    virtual = named["a virtual data set"]
    named["a virtual data set of 2**30 dimensions"] = _many_dimensions(virtual)
    return named | {f"an object {name}": _endless(virtual, *pair) for name, pair in NO_STEP.items()}


def cells_seeds() -> list[bytes]:
    """An honest AnnData file."""
    return [_file(partial(_cells, parts={}, rng=None))]


def cells_built(data: bytes, others: list[bytes], rng: random.Random) -> bytes:
    """Wild indices, or one part that is elsewhere, or words altered."""
    if rng.random() < 0.6:
        parts = (
            {rng.choice(PATHS): rng.choice(list(WAYS_OUT.values()))} if rng.random() < 0.5 else {}
        )
        data = _file(partial(_cells, parts=parts, rng=rng))
    return words_altered(data, others, rng) if rng.random() < 0.4 else data


@cache
def cells_named() -> dict[str, bytes]:
    """Each part behind each way out, and texts in heaps that never end."""
    named = {
        f"{path} behind {name}": _file(partial(_cells, parts={path: way}, rng=None))
        for path in PATHS
        for name, way in WAYS_OUT.items()
        if way is not _circle
    }
    (honest,) = cells_seeds()
    return named | {f"an object {name}": _endless(honest, *pair) for name, pair in NO_STEP.items()}


def enter_hdf5(path: Path) -> None:
    """The data set x, or X with its labels; rows of another file are an escape."""
    from mercer.data.formats import open_table
    from mercer.data.table import Reading

    cells = path.suffix == ".h5ad"
    table = open_table(path, Reading(label="kind") if cells else Reading(array="x"))
    for chunk in table.chunks(100):
        beside = [part for part in (chunk.ids, chunk.labels) if part is not None]
        texts = {str(value) for part in beside for value in part} | set(table.names)
        if np.any(chunk.numbers == SECRET) or str(SECRET) in texts:
            msg = "rows of another file"
            raise EscapeError(msg)


HDF5 = (
    Door("hdf5", ".h5", table_seeds, enter_hdf5, table_built, table_named),
    Door("h5ad", ".h5ad", cells_seeds, enter_hdf5, cells_built, cells_named),
)
