"""Rows from anywhere: every source hands out the same rows, and says what is wrong with bad ones."""

import os
import pickle
import subprocess
import sys
import tracemalloc
from contextlib import nullcontext
from functools import partial
from io import BytesIO
from itertools import pairwise
from pathlib import Path

import h5py
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
import zarr
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from scipy import sparse

import mercer
from mercer._core.errors import InputError
from mercer.data import arrow, files
from mercer.data.batches import Batches
from mercer.data.formats import open_table
from mercer.data.frames import MissingPackageError
from mercer.data.rows import row_blocks, take_rows
from mercer.data.sources import as_source, in_memory

N, D = 57, 4
NAMES = ["length", "width", "weight", "age"]
X = np.random.default_rng(5).standard_normal((N, D))
X.flags.writeable = False
X32 = X.astype(np.float32)
WHOLE = np.random.default_rng(6).integers(-90, 90, (N, D))
CUTS = [0, 1, 1, 13, 30, 30, 57]  # batches of 1, 0, 12, 17, 0 and 27 rows


# ── the market: the same rows in every place ────────────────────────────────
def npy(folder, rows):
    np.save(folder / "rows.npy", rows)
    return str(folder / "rows.npy")


def raw(folder, rows, offset):
    with (folder / "rows.dat").open("wb") as file:
        file.write(b"\1" * offset + rows.tobytes())
    return folder / "rows.dat"


def memmap_with_offset(folder):
    file = raw(folder, X, 5000)
    return np.memmap(file, dtype="f8", mode="r", offset=5000, shape=(N, D))


def memmap_part(folder):
    wide = np.full((3 * N + 1, D + 3), np.nan)
    wide[-2::-3, 2:-1] = X  # every third row, from the last but one upwards
    file = raw(folder, wide, 4100)
    whole = np.memmap(file, dtype="f8", mode="r", offset=4100, shape=wide.shape)
    return whole[-2::-3, 2:-1]


def memmap_of_ours(folder):
    changed = np.load(npy(folder, np.zeros((N, D))), mmap_mode="c")
    changed[:] = X
    return changed


def cut(rows, make=np.asarray):
    for start, stop in pairwise(CUTS):
        yield make(rows[start:stop])


def pandas_frame(rows):
    return pd.DataFrame(rows, columns=NAMES)


def polars_frame(rows):
    return pl.DataFrame(rows, schema=NAMES)


def csv_file(folder, extra=None):
    frame = pandas_frame(X)
    if extra is not None:
        frame.insert(2, extra, [f"r{i}" for i in range(N)])
    frame.to_csv(folder / "rows.csv", index=False)
    return folder / "rows.csv"


def npz(folder, rows):
    np.savez_compressed(folder / "rows.npz", rows=rows)
    return folder / "rows.npz"


def hdf5(folder):
    with h5py.File(folder / "rows.h5", "w") as file:
        file["rows"] = X32
    return folder / "rows.h5"


def arrow_table(rows):
    return pa.table({name: rows[:, j] for j, name in enumerate(NAMES)})


def mixed(rows):
    for p, batch in enumerate(cut(rows)):
        yield batch.astype(np.float64) if p == 3 else batch


def singles_with_an_empty_double():
    yield np.empty((0, D))
    yield X32


def lists(rows):
    return [batch.tolist() for batch in cut(rows) if len(batch)]


def parquet(folder, table, rows=10, name="rows.parquet"):
    pq.write_table(table, folder / name, row_group_size=rows)
    return folder / name


def parquet_folder(folder):
    table = arrow_table(X)
    parquet(folder, table[:20], name="a.parquet")
    parquet(folder, table[20:33].select(NAMES[::-1]), name="b.parquet")
    parquet(folder, table[33:33], name="c.parquet")
    parquet(folder, table[33:], name="d.parquet")
    (folder / "_SUCCESS").touch()
    return folder


def with_index(folder):
    frame = pandas_frame(X).set_axis([f"r{i}" for i in range(N)])
    frame.to_parquet(folder / "indexed.parquet")
    return folder / "indexed.parquet"


def many_kinds(folder):
    columns = [
        pa.array(WHOLE[:, 0], pa.int16()),
        pa.array(WHOLE[:, 1], pa.int32()).cast(pa.decimal128(12, 2)),
        pa.array(WHOLE[:, 2] > 0),
        pa.array(WHOLE[:, 3].astype(np.float32)),
    ]
    return parquet(folder, pa.table(columns, names=NAMES))


def every_row(folder):
    data = ds.dataset(parquet(folder, arrow_table(X)))
    return data.filter(ds.field("age") > -100.0)


def chunked(folder, chunks, rows=X, **options):
    path = folder / "rows.zarr"
    array = zarr.create_array(path, shape=rows.shape, chunks=chunks, dtype=rows.dtype, **options)
    array[:] = rows
    return path


def promising(folder, shape, chunks):
    """An array of metadata alone."""
    zarr.create_array(folder / "rows.zarr", shape=shape, chunks=chunks, dtype="f8")
    return folder / "rows.zarr"


class Lazy:
    """Looks like an h5py data set (chunks or None) or a dask array (all heights) and counts reads."""

    def __init__(self, rows, chunks, shape=None):
        self.rows, self.chunks, self.dtype = rows, chunks, rows.dtype
        self.shape = rows.shape if shape is None else shape
        self.read = 0

    def __getitem__(self, key):
        assert isinstance(key, slice)
        self.read += len(self.rows[key])
        return self.rows[key]


MARKET = {
    "npy": (lambda f: npy(f, X), X),
    "npy, as a path": (lambda f: Path(npy(f, X)), X),
    "npy, Fortran order": (lambda f: npy(f, np.asfortranarray(X)), X),
    "npy, big-endian": (lambda f: npy(f, X.astype(">f8")), X),
    "npy, big-endian single": (lambda f: npy(f, X32.astype(">f4")), X32),
    "npy, single": (lambda f: npy(f, X32), X32),
    "npy, half": (lambda f: npy(f, X.astype("f2")), X.astype("f2").astype("f8")),
    "npy, long double": (lambda f: npy(f, X.astype(np.longdouble)), X),
    "npy, integers": (lambda f: npy(f, WHOLE.astype(">i2")), WHOLE.astype("f8")),
    "npy, booleans": (lambda f: npy(f, WHOLE > 0), (WHOLE > 0).astype("f8")),
    "memmap, offset": (memmap_with_offset, X),
    "memmap, part": (memmap_part, X),
    "memmap, transposed": (lambda f: np.load(npy(f, X.T.copy()), mmap_mode="r").T, X),
    "memmap, copy on write": (memmap_of_ours, X),
    "batches": (lambda _: partial(cut, X), X),
    "batches, single": (lambda _: partial(cut, X32), X32),
    "batches, mixed": (lambda _: partial(mixed, X32), X32.astype("f8")),
    "batches, empty double": (lambda _: singles_with_an_empty_double, X32),
    "batches, integers": (lambda _: partial(cut, WHOLE), WHOLE.astype("f8")),
    "batches, Fortran": (lambda _: partial(cut, np.asfortranarray(X)), X),
    "batches, CSR": (lambda _: partial(cut, X, sparse.csr_matrix), X),
    "batches, CSC single": (lambda _: partial(cut, X32, sparse.csc_array), X32),
    "batches, lists": (lambda _: partial(lists, X), X),
    "batches, masked": (lambda _: partial(cut, X, np.ma.MaskedArray), X),
    "batches, pandas": (lambda _: partial(cut, X, pandas_frame), X),
    "batches, pandas single": (lambda _: partial(cut, X32, pandas_frame), X32),
    "batches, polars": (lambda _: partial(cut, X, polars_frame), X),
    "batches, polars single": (lambda _: partial(cut, X32, polars_frame), X32),
    "batches, Arrow": (lambda _: partial(cut, X, arrow_table), X),
    "csv": (csv_file, X),
    "csv, a table": (lambda f: open_table(csv_file(f, extra="id"), id="id"), X),
    "npz": (lambda f: npz(f, X), X),
    "hdf5": (hdf5, X32),
    "Parquet": (lambda f: parquet(f, arrow_table(X)), X),
    "Parquet, single": (lambda f: parquet(f, arrow_table(X32), rows=20), X32),
    "Parquet, folder": (parquet_folder, X),
    "Parquet, pandas index": (with_index, X),
    "Parquet, many kinds": (
        many_kinds,
        np.where([False, False, True, False], WHOLE > 0, WHOLE).astype("f8"),
    ),
    "Parquet, open file": (lambda f: pq.ParquetFile(parquet(f, arrow_table(X))), X),
    "Arrow table": (lambda _: pa.concat_tables(cut(X, arrow_table)), X),
    "Arrow batch": (lambda _: arrow_table(X32).to_batches()[0], X32),
    "Arrow data set": (lambda f: ds.dataset(parquet(f, arrow_table(X))), X),
    "Arrow data set, filter": (every_row, X),
    "zarr": (lambda f: chunked(f, (10, 3)), X),
    "zarr, rows one by one": (lambda f: chunked(f, (1, D)), X),
    "zarr, one chunk": (lambda f: chunked(f, (N, D)), X),
    "zarr, shards": (lambda f: chunked(f, (5, 2), shards=(20, 4)), X),
    "zarr, version 2": (lambda f: chunked(f, (10, 4), X32, zarr_format=2), X32),
    "zarr, array": (lambda f: zarr.open_array(chunked(f, (9, 4)), mode="r"), X),
    "h5py's way": (lambda _: Lazy(X32, None), X32),
    "dask's way": (lambda _: Lazy(X, ((20, 0, 37), (3, 1))), X),
}
UNPICKLED = {"Parquet, open file", "Arrow data set, filter"}  # Arrow cannot pickle those itself
market = pytest.mark.parametrize("opened", sorted(MARKET), indirect=True)


@pytest.fixture
def opened(request, tmp_path):
    make, expected = MARKET[request.param]
    return as_source(make(tmp_path)), expected


def dense(rows):
    return rows.toarray() if sparse.issparse(rows) else rows


def assert_rows(rows, expected):
    if not sparse.issparse(rows):
        assert type(rows) is np.ndarray
        assert rows.flags.c_contiguous
        assert rows.flags.writeable
    assert rows.dtype == expected.dtype
    assert rows.dtype.isnative
    np.testing.assert_array_equal(dense(rows), expected)


@market
def test_blocks_follow_each_other_and_are_the_rows(opened):
    source, expected = opened
    assert source.shape == expected.shape
    assert source.dtype == expected.dtype
    for height in (1, 7, 16, N, 1000):
        done = 0
        for i, block in row_blocks(source, height):
            assert (i.start, i.stop) == (done, min(done + height, N))
            assert_rows(block, expected[i])
            done = i.stop
        assert done == N


@market
def test_slices_and_positions_are_those_of_the_array(opened, rng):
    source, expected = opened
    assert_rows(in_memory(source), expected)
    for key in (slice(3, 3), slice(5, 31), slice(-4, None), slice(50, 900), slice(2, 50, 7)):
        assert_rows(source[key], expected[key])
    for positions in (rng.integers(0, N, 40), np.array([56]), np.array([], dtype=np.intp)):
        assert_rows(take_rows(source, positions), expected[positions])


FILES = {name for name in MARKET if name.startswith(("npy", "Parquet"))} - UNPICKLED


@pytest.mark.parametrize("name", sorted(FILES))
def test_a_table_of_the_same_file_has_the_same_rows(name, tmp_path):
    """Estimators and the command line look at one reader: what one reads, the other does."""
    make, expected = MARKET[name]
    path = make(tmp_path)
    source, table = as_source(path), open_table(path)
    assert table.n_rows == N
    assert table.dtype == source.dtype
    assert not table.named or tuple(c.name for c in table.columns) == source.columns
    for height in (7, 1000):
        assert_rows(np.concatenate([c.numbers for c in table.chunks(height)]), expected)


@market
def test_blocks_are_the_callers_to_keep(opened):
    source, expected = opened
    for height in (3, N):
        kept = [block for _, block in source.blocks(height)]
        for block in kept:
            (block.data if sparse.issparse(block) else block)[...] += 1
    assert_rows(in_memory(source), expected)


@pytest.mark.parametrize("opened", sorted(MARKET.keys() - UNPICKLED), indirect=True)
def test_sources_pickle_as_the_way_to_the_rows(opened):
    source, expected = opened
    again = pickle.loads(pickle.dumps(source))
    assert repr(again) == repr(source)
    assert_rows(in_memory(again), expected)


@market
def test_a_source_stays_what_it_is(opened, request):
    source, _ = opened
    case = request.node.callspec.params["opened"]
    assert as_source(source) is source
    source.check_unchanged()
    named = (
        "pandas" in case
        or "polars" in case
        or "Arrow" in case
        or "Parquet" in case
        or "csv" in case
    )
    assert source.columns == (tuple(NAMES) if named else None)
    assert source.resident_bytes(10) >= 0
    assert repr(source).endswith(f", {N} x {D} {source.dtype}")


def test_the_names_of_sources(tmp_path):
    def two():
        return [X[:2], X[2:]]

    assert repr(as_source(npy(tmp_path, X32))).endswith("rows.npy', 57 x 4 float32")
    assert repr(as_source(two)) == "batches from 'two', 57 x 4 float64"
    assert repr(as_source(memmap_with_offset(tmp_path))).startswith("memmap of 'rows.dat', 57 x 4")
    assert "of 4 Parquet files" in repr(as_source(parquet_folder(tmp_path)))


def test_what_is_in_memory_keeps_its_own_door(tmp_path):
    mapped = np.load(npy(tmp_path, X), mmap_mode="r")
    in_memory_already = [
        X,
        mapped.astype(np.float32),  # its type is np.memmap, its rows are not in the file
        mapped.copy(),
        sparse.csr_array(X),
        pandas_frame(X),
        polars_frame(X),
        pd.Series(X[:, 0]),
        X.tolist(),
        None,
    ]
    assert [as_source(x) for x in in_memory_already] == [None] * len(in_memory_already)


# ── cuts and heights of any kind ────────────────────────────────────────────
@hypothesis_settings(max_examples=60, deadline=None)
@given(
    cuts=st.lists(st.integers(0, N), max_size=8),
    height=st.integers(1, 70),
    positions=st.lists(st.integers(0, N - 1), max_size=12),
    make=st.sampled_from([np.asarray, sparse.csr_array, arrow_table]),
)
def test_any_cut_into_batches_and_blocks(cuts, height, positions, make):
    edges = [0, *sorted(cuts), N]
    source = Batches(lambda: (make(X[a:b]) for a, b in pairwise(edges)))
    blocks = list(source.blocks(height))
    assert [i.stop - i.start for i, _ in blocks] == [
        len(block[:]) for block in np.split(X, range(height, N, height))
    ]
    np.testing.assert_array_equal(np.concatenate([dense(block) for _, block in blocks]), X)
    where = np.array(positions, dtype=np.intp)
    np.testing.assert_array_equal(dense(take_rows(source, where)), X[where])


@hypothesis_settings(max_examples=60, deadline=None)
@given(
    tall=st.integers(1, 80),
    height=st.integers(1, 70),
    start=st.integers(0, N),
    span=st.integers(0, N),
)
def test_any_chunks_and_any_slice(tall, height, start, span):
    source = as_source(Lazy(X, (tall, 2)))
    np.testing.assert_array_equal(np.concatenate([b for _, b in source.blocks(height)]), X)
    np.testing.assert_array_equal(source[start : start + span], X[start : start + span])


# ── no more is read, and no more is held, than has to be ────────────────────
def test_positions_read_only_their_row_groups(tmp_path, monkeypatch):
    source = as_source(parquet(tmp_path, arrow_table(X), rows=10))
    read, real = [], arrow.ParquetTable._batches

    def batches(*asked):
        row, found = real(*asked)
        read.append((row, asked[-1]))
        return row, found

    monkeypatch.setattr(arrow.ParquetTable, "_batches", batches)
    take_rows(source, np.array([49, 42, 48, 43]))
    assert read == [(40, 42)]


def test_batches_stop_when_all_rows_are_found():
    pulled = []

    def counted():
        for batch in np.split(X, [10, 20, 30]):
            pulled.append(len(batch))
            yield batch

    source = as_source(counted)
    assert pulled == [10, 10, 10, 27]  # the counting pass
    del pulled[:]
    take_rows(source, np.array([12, 3]))
    assert pulled == [10, 10]


def test_each_chunk_is_read_once_a_pass():
    array = Lazy(X, (10, D))
    source = as_source(array)
    for _ in source.blocks(3):
        pass
    assert array.read == N


def traced_peak(work):
    tracemalloc.start()
    try:
        work()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


TALL = 250_000  # rows of 20 doubles: 40 MB
BATCH = 6_250  # 1 MB


def big_npy(folder):
    rows = np.lib.format.open_memmap(folder / "big.npy", "w+", "f8", (TALL, 20))
    rows.flush()
    return folder / "big.npy"


def big_batches(_):
    return lambda: (np.zeros((BATCH, 20)) for _ in range(TALL // BATCH))


def big_frames(_):
    return lambda: (pd.DataFrame(np.zeros((BATCH, 20))) for _ in range(TALL // BATCH))


def big_zarr(folder):
    path = folder / "big.zarr"
    zarr.create_array(path, shape=(TALL, 20), chunks=(BATCH, 20), dtype="f8", compressors=None)
    return path


@pytest.mark.parametrize("make", [big_npy, big_batches, big_frames, big_zarr])
def test_small_blocks_of_40_megabytes_take_little_memory(make, tmp_path):
    x = make(tmp_path)
    source = as_source(x)
    assert source.shape == (TALL, 20)
    block = 500 * 20 * 8

    def one_pass():
        assert sum(len(rows) for _, rows in source.blocks(500)) == TALL

    positions = np.arange(0, TALL, 500)
    allowed = source.resident_bytes(500) + 3 * block + 200_000
    assert allowed < 4_000_000
    assert traced_peak(lambda: as_source(x)) < allowed
    assert traced_peak(one_pass) < allowed
    assert traced_peak(lambda: source[positions]) < allowed


def test_the_planner_hears_of_the_largest_batch_and_of_its_copies():
    tallest = 27 * D * 8  # the last of the batches
    assert as_source(partial(cut, X)).resident_bytes(5) == tallest
    assert (
        as_source(partial(cut, X, pandas_frame)).resident_bytes(5) == 2 * tallest
    )  # frame and rows
    assert (
        as_source(partial(cut, X, sparse.csr_array)).resident_bytes(5) > 2 * tallest
    )  # indices too


def test_a_pickle_holds_no_rows(tmp_path):
    path = big_npy(tmp_path)
    for x in (path, np.load(path, mmap_mode="r")):
        assert len(pickle.dumps(as_source(x))) < 2_000


def test_one_row_group_is_held_at_a_time(tmp_path):
    rows = np.random.default_rng(0).standard_normal((80_000, D))
    source = as_source(parquet(tmp_path, arrow_table(rows), rows=4_000))
    before = pa.total_allocated_bytes()
    held = [pa.total_allocated_bytes() - before for _ in source.blocks(1_000)]
    assert 0 < max(held) <= source.resident_bytes(1_000) < rows.nbytes / 2


def test_nothing_is_imported_before_it_is_met():
    code = "import mercer.data.sources, sys; print(*sys.modules)"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not set(out.stdout.split()) & {"pyarrow", "zarr", "pandas", "polars", "sklearn"}


@pytest.mark.parametrize(
    ("package", "file"), [("pyarrow", "rows.parquet"), ("zarr", "rows.zarr")], ids=lambda x: x
)
def test_a_missing_package_is_named(package, file, tmp_path, monkeypatch):
    parquet(tmp_path, arrow_table(X))
    chunked(tmp_path, (10, 4))
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(
        MissingPackageError, match=rf"{package}, which is not installed.*pip install .mercer\["
    ):
        as_source(tmp_path / file)


# ── which columns ───────────────────────────────────────────────────────────
CHOSEN = ["age", "length"]


@pytest.mark.parametrize(
    "make",
    [
        lambda f: parquet(f, arrow_table(X).append_column("city", [["Ulm"] * N])),
        parquet_folder,
        lambda f: ds.dataset(parquet(f, arrow_table(X))),
        lambda _: arrow_table(X),
        lambda _: partial(cut, X, pandas_frame),
        lambda _: partial(cut, X, polars_frame),
        lambda _: partial(cut, X, arrow_table),
    ],
)
def test_columns_are_read_by_name_and_in_the_order_asked_for(make, tmp_path):
    source = as_source(make(tmp_path), columns=CHOSEN)
    assert tuple(source.columns) == tuple(CHOSEN)
    assert_rows(in_memory(source), np.ascontiguousarray(X[:, [3, 0]]))


def test_one_column_by_its_name(tmp_path):
    source = as_source(parquet(tmp_path, arrow_table(X)), columns="width")
    assert_rows(in_memory(source), np.ascontiguousarray(X[:, [1]]))


# ── what is refused ─────────────────────────────────────────────────────────
def spoilt(value, row=43, column=2):
    rows = X.copy()
    rows[row, column] = value
    return rows


def saved(rows):
    return lambda f: npy(f, rows)


def written(content, name="rows.npy"):
    def make(folder):
        (folder / name).write_bytes(content)
        return folder / name

    return make


def npy_bytes():
    file = BytesIO()
    np.save(file, X)
    return file.getvalue()


def folder_called(name):
    def make(folder):
        (folder / name).mkdir()
        return folder / name

    return make


def batches(*them):
    return lambda _: lambda: iter(them)


def partitioned(folder):
    (folder / "year=2020").mkdir()
    parquet(folder / "year=2020", arrow_table(X))
    return folder


def half_partitioned(folder):
    parquet(folder, arrow_table(X))
    return partitioned(folder)


def two_tables(folder):
    parquet(folder, arrow_table(X), name="a.parquet")
    parquet(folder, arrow_table(X).rename_columns([*NAMES[:3], "height"]), name="b.parquet")
    return folder


def zarr_group(folder):
    zarr.open_group(folder / "g.zarr", mode="w").create_array("rows", shape=(3, 2), dtype="f8")
    return folder / "g.zarr"


def twice(name):
    return pa.table([pa.array([1.0]), pa.array([2.0])], names=[name, name])


NULLS = pa.table({"a": [1.0, 2.0, 3.0, 4.0], "b": [1, 2, 3, None]})
TEXT = pa.table({"a": [1.0, 2.0], "city": ["Ulm", "Rom"], "day": pa.array([1, 2], pa.date32())})
RECORDS = np.zeros(3, dtype=[("a", "f4"), ("b", "f8")])

BAD = {
    # files of NumPy
    "missing": (lambda f: f / "no.npy", r"no file or folder .*no\.npy"),
    "npy: folder": (folder_called("rows.npy"), "is a folder; an NPY file is needed"),
    "npy: empty": (written(b""), "of 0 bytes can't be read.*np.save"),
    "npy: garbage": (
        written(b"garbage" * 20),
        "of 140 bytes can't be read: it does not begin like an NPY file",
    ),
    "npy: half a header": (written(npy_bytes()[:40]), "of 40 bytes can't be read"),
    "npy: a header of gigabytes": (
        written(b"\x93NUMPY\x01\x01\xff\xff\xff\xff" + b" " * 200),
        "of 212 bytes can't be read: it does not begin like an NPY file, or is damaged",
    ),
    "npy: short": (
        written(npy_bytes()[:-9]),
        r"holds 1943 bytes, but its header promises 1952: \(57, 4\) of float64",
    ),
    "npy: long": (written(npy_bytes() + b"..."), "holds 1955 bytes.*promises 1952"),
    "npy: objects": (saved(np.array([[1, None]])), "Python objects, which are pickled"),
    "npy: text": (saved(np.array([["a", "b"]])), "dtype <U1: text, but numbers"),
    "npy: bytes": (saved(np.array([[b"a", b"b"]])), r"dtype \|S1: text, but numbers"),
    "npy: complex": (saved(X + 1j), "complex128: complex numbers, but real"),
    "npy: dates": (saved(np.zeros((2, 2), "M8[D]")), "dates, but numbers"),
    "npy: records": (saved(RECORDS), "named fields.*structured_to_unstructured"),
    "npy: 1-D": (saved(X[0]), r"1-D of shape \(4,\).*reshape\(-1, 1\)"),
    "npy: 3-D": (saved(X[None]), r"3-D of shape \(1, 57, 4\).*reshape\(len\(x\), -1\)"),
    "npy: no rows": (saved(X[:0]), "0 rows and 4 columns"),
    "npy: no columns": (saved(X[:, :0]), "57 rows and 0 columns"),
    "npy: NaN": (
        saved(spoilt(np.nan)),
        r"NaN in NPY file '.*rows\.npy': first in row 43, column 2;",
    ),
    "npy: infinity": (saved(spoilt(-np.inf)), r"Infinity \(-inf\) in NPY.*row 43, column 2;"),
    "npy: too long a double": (
        saved(X.astype(np.longdouble) * np.longdouble("1e400")),
        "Infinity",
    ),
    "memmap: records": (
        lambda f: np.load(npy(f, RECORDS), mmap_mode="r"),
        "memmap of 'rows.npy' has dtype.*named fields",
    ),
    "memmap: NaN": (
        lambda f: np.load(npy(f, spoilt(np.nan)), mmap_mode="r")[40:],
        "NaN in memmap of 'rows.npy': first in row 3, column 2;",
    ),
    "csv: missing": (
        written(b"a,b\n1,2\n\n3,\n", "rows.csv"),
        r"NaN in CSV file .*first in line 4, column 1 \('b'\)",
    ),
    "csv: text": (
        written(b"a,b\n1,2\n3,x\n", "rows.csv"),
        r"column 'b' has words \('x' in line 3; .*open_table\(path, id='b'\).*columns=\[",
    ),
    "csv: late text": (
        written(b"a,b\n" + b"1,2\n" * 1500 + b"3,x\n", "rows.csv"),
        "'x' is not a number, in line 1502, column 'b'",
    ),
    "zarr file": (written(b"", "rows.zarr"), r"ends in '\.zarr'.*`format`: one of csv"),
    # batches
    "generator": (
        lambda _: (b for b in [X]),
        "got a generator.*a function that makes a new iterator",
    ),
    "shared generator": (
        lambda _: partial(iter, iter([X])),
        "a second call gave no batch.*a function that makes a new iterator",
    ),
    "no iterator": (lambda _: lambda: None, "returned a NoneType.*yields 2-D arrays"),
    "no batches": (batches(), r"no rows in 0 batch"),
    "no rows": (batches(X[:0], X[:0]), r"no rows in 2 batch"),
    "batch width": (
        batches(X[:9], X[9:12], X[12:, :3]),
        r"batch 2 \(the 3rd\) .* has 3 columns, but 4 were expected",
    ),
    "batch 1-D": (batches(X, X[0]), r"batch 1 \(the 2nd\) .* is 1-D of shape \(4,\)"),
    "batch kind": (
        batches(X, sparse.csr_array(X)),
        "has sparse rows, but dense ones were expected",
    ),
    "batch ragged": (
        batches([[1.0, 2.0], [3.0]]),
        r"batch 0 .*must have rows of one length; got 2 numbers in row 0 and 1 number in row 1",
    ),
    "batch text": (batches([["a", "b"]]), r"batch 0 \(the 1st\).*text, but numbers"),
    "batch complex": (batches(X + 1j), "complex numbers, but real"),
    "batch sparse complex": (batches(sparse.csr_array(X + 1j)), "complex numbers, but real"),
    "batch NaN": (
        batches(*[X[:5]] * 6, spoilt(np.nan, row=3)),
        r"NaN in batches .*row 33, which is row 3 of batch 6 \(the 7th\), column 2;",
    ),
    "batch sparse infinity": (
        batches(sparse.csr_array(X), sparse.csr_array(spoilt(np.inf))),
        r"Infinity \(inf\).*row 100, which is row 43 of batch 1 \(the 2nd\), column 2;",
    ),
    "batch masked": (
        batches(np.ma.masked_equal(X, X[9, 1])),
        r"batch 0 \(the 1st\).* has 1 masked values?, the first in row 9, column 1\.",
    ),
    "frame NaN": (batches(pandas_frame(spoilt(np.nan))), r"row 43.*column 2 \('weight'\)"),
    "frame missing": (
        batches(pd.DataFrame({"a": pd.array([1, 2, None], dtype="Int64")})),
        r"NaN.*row 2.*column 0 \('a'\)",
    ),
    "polars null": (batches(pl.DataFrame({"a": [True, None]})), r"NaN.*row 1.*column 0 \('a'\)"),
    "frame order": (
        batches(pandas_frame(X), pandas_frame(X)[NAMES[::-1]]),
        r"batch 1 \(the 2nd\) .* has the columns \('age', .*same order",
    ),
    "pandas text": (batches(TEXT.to_pandas()), r"no numbers: 'city' \(.*only: \['a'\]"),
    "polars text": (
        batches(pl.from_arrow(TEXT)),
        r"no numbers: 'city' \(String\).*only: \['a'\]",
    ),
    "Arrow text": (batches(TEXT), r"'city' \(string\), 'day' \(date32.*only: \['a'\]"),
    # tables and chunks
    "Parquet: empty": (written(b"", "a.parquet"), r"a\.parquet' can't be read.*0 bytes"),
    "Parquet: garbage": (written(b"garbage" * 9, "a.parquet"), "can't be read"),
    "Parquet: text": (
        lambda f: parquet(f, TEXT),
        r"'city' has words \(its type is string\).* 'day'",
    ),
    "Parquet: null": (
        lambda f: parquet(f, NULLS, rows=3),
        r"NaN in Parquet file .*first in row 3, column 1 \('b'\)",
    ),
    "Parquet: NaN": (
        lambda f: parquet(f, arrow_table(spoilt(np.nan))),
        r"NaN in Parquet file .*row 43, column 2 \('weight'\)",
    ),
    "Parquet: no rows": (lambda f: parquet(f, arrow_table(X[:0])), "columns and no rows"),
    "Parquet: one name twice": (
        lambda f: parquet(f, twice("a")),
        "has two columns named 'a'",
    ),
    "folder: empty": (folder_called("tables"), "no image in it"),
    "folder: partitioned": (partitioned, "below it, such as 'year=2020'.*pyarrow.dataset"),
    "folder: half partitioned": (half_partitioned, "below it, such as 'year=2020'"),
    "folder: two tables": (
        two_tables,
        r"'b.parquet' and .*'a.parquet' have other columns.*: 'age'",
    ),
    "folder: null": (
        lambda f: [parquet(f, NULLS[:3], name="a.parquet"), parquet(f, NULLS, name="b.parquet"), f][
            2
        ],
        r"NaN in folder .*row 6, column 1 \('b'\)",
    ),
    "table: null": (
        lambda _: NULLS,
        r"NaN in Arrow table: first in row 3, column 1",
    ),
    "zarr: nothing": (folder_called("rows.zarr"), "zarr array '.*rows.zarr' can't be read"),
    "zarr: group": (zarr_group, r"is a zarr group.*Give one of: '.*g\.zarr/rows'"),
    "zarr: more chunks than can be counted": (
        lambda f: promising(f, (10**14, 200_000), (1, 200_000)),
        "promises rows of .*it is not read",
    ),
    "zarr: 1-D": (lambda f: chunked(f, (9,), X[:, 0]), "1-D of shape"),
    "zarr: NaN": (
        lambda f: chunked(f, (9, 4), spoilt(np.nan)),
        "NaN in zarr array .*row 43, column 2;",
    ),
    "unknown length": (lambda _: Lazy(X, None, shape=(np.nan, 2)), "nan rows and 2 columns"),
}


@pytest.mark.parametrize(("names", "advice"), [(("a", "b"), "[ab]"), ((), "name")])
def test_an_open_zarr_group_is_answered_with_an_array_of_it(names, advice, tmp_path):
    group = zarr.open_group(tmp_path / "g.zarr", mode="w")
    for name in names:
        group.create_array(name, shape=(4, 2), dtype="f8")
    said = rf"X is a Group; .* Pass one of its arrays, such as x\['{advice}'\]\."
    with pytest.raises(InputError, match=said):
        mercer.PCA(1).fit(group)


@pytest.mark.parametrize("form", ["h5", "zarr"])
def test_what_promises_a_thousand_times_its_bytes_is_read_where_it_is_handed_over_open(
    form, tmp_path, monkeypatch
):
    monkeypatch.setattr(files, "HARMLESS_BYTES", 2**20)
    path, about = (
        tmp_path / f"rows.{form}",
        {"shape": (10**7, 4), "chunks": (1000, 4), "dtype": "f8"},
    )
    with h5py.File(path, "w") if form == "h5" else nullcontext(zarr.open_group(path)) as store:
        rows = (store.create_dataset if form == "h5" else store.create_array)("X", **about)
        rows[:1000] = np.arange(4000.0).reshape(1000, 4)
    place = path if form == "h5" else path / "X"
    with pytest.raises(InputError, match=r"promises rows of .* If you trust it, pass the open"):
        as_source(place)
    opened = h5py.File(path) if form == "h5" else nullcontext({"X": zarr.open_array(place)})
    with opened as store:
        np.testing.assert_array_equal(as_source(store["X"])[1:2], [[4.0, 5.0, 6.0, 7.0]])


def test_an_open_hdf5_file_is_answered_with_a_data_set_of_it(tmp_path):
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["x"] = X32
        file["group/y"] = X32
        for held, said in ((file, r"x\['group'\]"), (file["group"], r"x\['y'\]")):
            with pytest.raises(InputError, match=rf"data sets, such as {said}"):
                mercer.KernelPCA(2).fit(held)


@pytest.mark.parametrize("case", sorted(BAD))
def test_bad_rows_are_refused_with_their_place(case, tmp_path):
    make, says = BAD[case]
    x = make(tmp_path)
    with pytest.raises(InputError, match=f"(?s){says}"):
        for _ in as_source(x).blocks(20):
            pass


@pytest.mark.parametrize(
    "case", ["npy: NaN", "memmap: NaN", "Parquet: NaN", "zarr: NaN", "table: null"]
)
def test_positions_are_refused_with_the_same_place(case, tmp_path):
    make, says = BAD[case]
    source = as_source(make(tmp_path))
    with pytest.raises(InputError, match=f"(?s){says}"):
        take_rows(source, np.arange(len(source[:0]), source.shape[0])[::-1])


@pytest.mark.parametrize(
    ("make", "columns", "says"),
    [
        (lambda f: parquet(f, arrow_table(X)), ["age", "size"], "no column.* 'size'.*'length'"),
        (
            lambda _: partial(cut, X, pandas_frame),
            ["size"],
            r"batch 0 .*one column named 'size'; got 0",
        ),
        (lambda _: partial(cut, X), ["age"], r"is an ndarray: there are no names"),
        (
            lambda f: npy(f, X),
            ["age"],
            r"columns must be None for NPY file.*no such names; got \['age'\]",
        ),
        (lambda f: np.load(npy(f, X), mmap_mode="r"), ["age"], "None for memmap"),
        (lambda f: chunked(f, (9, 4)), ["age"], "None for zarr array"),
    ],
)
def test_columns_that_are_not_there(make, columns, says, tmp_path):
    with pytest.raises(InputError, match=f"(?s){says}"):
        as_source(make(tmp_path), columns=columns)


@pytest.mark.parametrize("positions", [[3, 1], [-1, 2], [2, N]])
def test_rows_in_order_are_asked_for_in_order(positions):
    with pytest.raises(InputError, match=r"ascending positions from 0 to 56.*take_rows"):
        as_source(partial(cut, X))[np.array(positions)]


# ── what changes while it is read ───────────────────────────────────────────
def first_file(path):
    return min(p for p in Path(path).rglob("*") if p.is_file()) if path.is_dir() else path


CHANGES = {
    "npy": lambda f: Path(npy(f, X)),
    "Parquet": lambda f: parquet(f, arrow_table(X)),
    "Parquet folder": lambda f: parquet_folder(f) / "b.parquet",
    "zarr": lambda f: chunked(f, (10, 4)) / "c" / "2" / "0",
}


@pytest.mark.parametrize("case", sorted(CHANGES))
@pytest.mark.parametrize("how", ["touched", "longer", "gone"])
def test_a_file_that_changes_is_noticed(case, how, tmp_path):
    file = CHANGES[case](tmp_path)
    path = {"zarr": tmp_path / "rows.zarr", "Parquet folder": tmp_path}.get(case, file)
    source = as_source(path)
    data = pickle.dumps(source)
    source.check_unchanged()
    size = file.stat().st_size
    if how == "touched":
        stat = file.stat()
        os.utime(file, ns=(stat.st_atime_ns, stat.st_mtime_ns + 1_000_000_000))
    elif how == "longer":
        file.write_bytes(file.read_bytes() + b"more")
    else:
        file.unlink()
    now = {"touched": f"{size} bytes", "longer": f"{size + 4} bytes", "gone": "not there"}[how]
    says = f"(?s)changed while it was in use: .*was {size} bytes, .* and is {now}"
    with pytest.raises(InputError, match=says):
        source.check_unchanged()
    with pytest.raises(InputError, match=says):
        next(iter(source.blocks(10)))
    with pytest.raises(InputError, match=says):
        pickle.loads(data)


def test_a_change_during_a_pass_is_noticed_at_its_end(tmp_path):
    path = Path(npy(tmp_path, X))
    passing = as_source(path).blocks(50)
    next(passing)
    os.utime(path, ns=(0, 0))
    with pytest.raises(InputError, match="changed while it was in use"):
        list(passing)


@pytest.mark.parametrize("left", [0, 500])
def test_a_shortened_file_is_an_error_and_no_crash(left, tmp_path):
    path = Path(npy(tmp_path, X))
    source = as_source(path)
    os.truncate(path, left)
    with pytest.raises(InputError, match=f"was 1952 bytes.*is {left} bytes"):
        source[:5]


def test_a_spoilt_row_group_is_an_input_error(tmp_path):
    path = parquet(tmp_path, arrow_table(X))
    stat = path.stat()
    source = as_source(path)
    content = bytearray(path.read_bytes())
    content[4:200] = bytes(196)
    path.write_bytes(content)
    os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns))  # behind the back of the time stamp
    with pytest.raises(InputError, match="can't be read"):
        source[:5]


def changing(*passes):
    """A function that makes other batches at each call."""
    calls = iter(passes)
    return lambda: iter(next(calls))


LATER = {
    "other height": (
        [X[:9], X[9:]],
        [X[:9], X[10:]],
        r"batch 1 \(the 2nd\) had 48 rows .* and 47 rows",
    ),
    "other width": (
        [X[:9], X[9:]],
        [X[:9], X[9:, :2]],
        r"batch 1 \(the 2nd\) .*has 2 columns, but 4",
    ),
    "other precision": ([X32], [X32.astype("f8")], "57 rows of float32 .* 57 rows of float64"),
    "fewer": ([X[:9], X[9:]], [X[:9]], r"batch 1 \(the 2nd\) had 48 rows .* is missing now"),
    "more": ([X[:9]], [X[:9], X[9:]], r"ended after batch 0 \(the 1st\).*goes on with batch 1"),
    "shuffled": ([X], [X[::-1]], "57 rows of float64 with checksum .* shuffle with a fixed seed"),
    "spoilt": ([X], [spoilt(np.nan)], "checksum"),
    "sparse, moved": (
        [sparse.csr_array(X)],
        [sparse.csr_array(np.roll(X, 1, axis=0))],
        "checksum",
    ),
}


@pytest.mark.parametrize("case", sorted(LATER))
def test_a_later_pass_has_to_bring_the_same_batches(case):
    first, later, says = LATER[case]
    source = as_source(changing(first, later, later))
    for read in (lambda: list(source.blocks(10)), lambda: source[-1:]):
        with pytest.raises(InputError, match=f"(?s){says}"):
            read()


def test_the_memmap_of_a_caller_is_only_read(tmp_path):
    path = npy(tmp_path, X)
    mapped = np.load(path, mmap_mode="r+")
    before = Path(path).read_bytes()
    for _, block in as_source(mapped).blocks(10):
        block *= 2.0  # noqa: PLW2901
    mapped.flush()
    assert Path(path).read_bytes() == before
    np.testing.assert_array_equal(mapped, X)
