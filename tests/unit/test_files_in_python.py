"""Every file that the command line reads is rows in Python: the same ones, by name, in bounded memory."""

import sys
import tracemalloc

import duckdb
import h5py
import numpy as np
import openpyxl
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import zarr
from PIL import Image

import mercer
from mercer._core.observer import WANTED, holding
from mercer.data import sources
from mercer.data.csv import blocks as csv_blocks
from mercer.data.csv.table import CsvTable
from mercer.data.excel import ExcelTable
from mercer.data.formats import FORMATS
from mercer.data.frames import MissingPackageError
from mercer.data.sources import as_source
from mercer.errors import (
    DataError,
    InputError,
    ReadingWarning,
    StoppedError,
    UnknownParameterError,
)
from mercer.preprocessing.align import learned_rows

GUESSED = "ignore::mercer._core.errors.ReadingWarning"  # in one of the files
NAMES = ["age", "mass", "size"]
N = 60
X = np.random.default_rng(5).standard_normal((N, 3))
FRAME = pd.DataFrame(X, columns=NAMES)


def workbook(path, rows, title="rows"):
    book = openpyxl.Workbook()
    book.active.title = title
    for row in rows:
        book.active.append(row)
    book.save(path)
    return path


def excel(path):
    return workbook(path, [NAMES, *X.tolist()])


def hdf5(path):
    with h5py.File(path, "w") as file:
        file["rows"] = X


def h5ad(path):
    with h5py.File(path, "w") as file:
        file["X"] = X
        file["var/_index"] = np.array(NAMES, dtype="S")


def arrow_file(path):
    with pa.OSFile(str(path), "w") as sink, pa.ipc.new_file(sink, pa.table(FRAME).schema) as writer:
        writer.write_table(pa.table(FRAME))


FILES = {
    "t.csv": lambda p: FRAME.to_csv(p, index=False),
    "t.txt": lambda p: FRAME.to_csv(p, index=False, sep=";", decimal=","),
    "t.tsv": lambda p: FRAME.to_csv(p, index=False, sep="\t"),
    "t.npy": lambda p: np.save(p, X),
    "t.npz": lambda p: np.savez(p, rows=X, names=np.array(NAMES)),
    "t.parquet": lambda p: FRAME.to_parquet(p, index=False),
    "t.arrow": arrow_file,
    "t.h5": hdf5,
    "t.h5ad": h5ad,
    "t.xlsx": excel,
    "t.zarr": lambda p: zarr.save_array(p, X),
}
NAMELESS = {"t.npy", "t.h5", "t.zarr"}


@pytest.fixture(params=sorted(FILES))
def file(request, tmp_path):
    FILES[request.param](tmp_path / request.param)
    return tmp_path / request.param


def test_every_format_of_the_command_line_is_in_this_market():
    endings = {ending for form in FORMATS.values() for ending in form.endings}
    known = {name.removeprefix("t") for name in FILES} - {".zarr"}
    assert all(set(form.endings) & known for name, form in FORMATS.items() if name != "images")
    assert known <= endings


@pytest.mark.filterwarnings(GUESSED)
def test_a_file_is_the_rows_that_it_has(file):
    source, x = as_source(str(file)), X
    if file.suffix == ".xlsx":  # openpyxl writes 16 digits
        x = np.array([[float(f"{value:.16g}") for value in row] for row in X])
    np.testing.assert_array_equal(source[:], x)
    np.testing.assert_array_equal(source[np.array([3, 4, 50])], x[[3, 4, 50]])
    np.testing.assert_array_equal(source[17:40], x[17:40])
    for height in (1, 7, N):
        blocks = list(source.blocks(height))
        assert all(np.array_equal(block, x[place]) for place, block in blocks)
    assert source.columns == (None if file.name in NAMELESS else tuple(NAMES))


@pytest.mark.filterwarnings(GUESSED)
@pytest.mark.parametrize(
    "model",
    [
        mercer.KernelPCA(2, kernel=mercer.kernels.RBF(0.5)),
        mercer.PCA(2),
        mercer.IncrementalKernelPCA(2, kernel=mercer.kernels.RBF(0.5)),
        mercer.KernelPCADetector(2),
    ],
    ids=lambda model: type(model).__name__,
)
def test_estimators_take_paths_as_they_take_arrays(model, file):
    from sklearn.base import clone

    ask = "decision_function" if hasattr(model, "monitor") else "transform"
    rows = X if file.name in NAMELESS else FRAME
    array, path = clone(model).fit(X), clone(model).fit(str(file))
    expected, found = getattr(array, ask)(X), getattr(path, ask)(rows)
    signs = np.sign(np.sum(expected * found, axis=0))  # those of PCA on the way over covariances
    np.testing.assert_allclose(found * signs, expected, atol=1e-9)
    np.testing.assert_allclose(getattr(path, ask)(file), found, atol=1e-12)
    assert hasattr(path, "feature_names_in_") == (file.name not in NAMELESS)


def test_new_files_go_by_the_names_of_the_fit(tmp_path):
    model = mercer.KernelPCA(2, kernel=mercer.kernels.RBF(0.5)).fit(FRAME)
    mixed = FRAME[NAMES[::-1]].assign(town=["Ulm"] * N)
    mixed.to_csv(tmp_path / "new.csv", index=False)
    mixed.to_parquet(tmp_path / "new.parquet")
    for name in ("new.csv", "new.parquet"):
        np.testing.assert_allclose(
            model.transform(tmp_path / name), model.transform(FRAME), atol=1e-12
        )
    table = mercer.open_table(tmp_path / "new.csv", id="town")
    np.testing.assert_allclose(model.transform(table), model.transform(FRAME), atol=1e-12)
    mixed.drop(columns="mass").to_csv(tmp_path / "less.csv", index=False)
    with pytest.raises(InputError, match=r"no column 'mass'.*Its columns are 'size', 'age'"):
        model.transform(tmp_path / "less.csv")


def test_a_model_of_the_command_line_takes_files(tmp_path):
    mixed = FRAME.assign(town=["Ulm", "Rome"] * (N // 2), name=[f"r{i}" for i in range(N)])
    mixed.to_csv(tmp_path / "t.csv", index=False)
    table = mercer.open_table(tmp_path / "t.csv", id="name")
    sheet, _ = learned_rows(table, memory_bytes=10**8, one_hot=True)
    preparation = sheet.preparation
    model = mercer.Prepared(preparation, mercer.PCA(2).fit(sheet.rows))
    for x in (str(tmp_path / "t.csv"), mercer.open_table(tmp_path / "t.csv", id="name")):
        np.testing.assert_allclose(model.transform(x), model.transform(mixed), atol=1e-12)
    mixed.loc[7, "mass"] = np.nan
    mixed.to_csv(tmp_path / "gap.csv", index=False)
    assert np.isnan(model.gappy_rows(tmp_path / "gap.csv")[7, 1])
    with pytest.raises(InputError, match=r"1 value is missing, the first in line 9, column 'mass'"):
        model.transform(tmp_path / "gap.csv")


def test_images_are_rows_too(tmp_path):
    for i in range(4):
        Image.fromarray(np.full((2, 2), 10 * i, np.uint8)).save(tmp_path / f"{i}.png")
    assert as_source(tmp_path)[:].tolist() == [[10.0 * i] * 4 for i in range(4)]


def test_a_table_with_options_is_fitted_to(tmp_path):
    FRAME.assign(name=[f"r{i}" for i in range(N)]).to_csv(tmp_path / "t.csv", index=False)
    with pytest.raises(InputError, match=r"'name' has words \('r0' in line 2\).*id='name'"):
        mercer.PCA(2).fit(tmp_path / "t.csv")
    table = mercer.open_table(tmp_path / "t.csv", id="name")
    model = mercer.PCA(2).fit(table)
    np.testing.assert_allclose(model.transform(table), model.transform(FRAME), atol=1e-12)
    assert list(model.feature_names_in_) == NAMES
    with pytest.raises(UnknownParameterError, match=r"no option 'ids'. Did you mean 'id'"):
        mercer.open_table(tmp_path / "t.csv", ids="name")


def test_few_rows_are_parsed_once_and_many_as_often_as_they_are_read(tmp_path, monkeypatch):
    FRAME.to_csv(tmp_path / "t.csv", index=False)
    passes, real = [], CsvTable._chunks
    monkeypatch.setattr(CsvTable, "_chunks", lambda *a: passes.append(1) or real(*a))
    source = as_source(tmp_path / "t.csv")
    np.testing.assert_array_equal(source[:], X)
    assert len(passes) == 1
    monkeypatch.setattr(sources, "KEPT_SHARE", 0.0)
    source = as_source(tmp_path / "t.csv")
    np.testing.assert_array_equal(source[:], X)
    assert len(passes) == 3


QUERIES = {
    "polars": pl.DataFrame(FRAME.to_dict("list")),
    "lazy polars": pl.DataFrame(FRAME.to_dict("list")).lazy(),
    "Arrow": pa.table(FRAME),
    "DuckDB": duckdb.from_arrow(pa.table(FRAME)),
}


@pytest.mark.parametrize("query", QUERIES)
def test_frames_and_queries_have_one_door(query):
    model = mercer.KernelPCA(2, kernel=mercer.kernels.RBF(0.5)).fit(QUERIES[query])
    whole = mercer.KernelPCA(2, kernel=mercer.kernels.RBF(0.5)).fit(FRAME)
    np.testing.assert_allclose(model.eigenvalues_, whole.eigenvalues_, rtol=1e-12)
    np.testing.assert_allclose(whole.transform(QUERIES[query]), whole.transform(FRAME), atol=1e-12)
    assert list(model.feature_names_in_) == NAMES


# ── options ─────────────────────────────────────────────────────────────────
READ = {
    "values that stand for nothing": (
        "a,b\n-999,2\n3,n.d.\n",
        {"na_values": ["-999", "n.d."]},
        {"na_values": ["-999", "n.d."]},
    ),
    "one such value": ("a,b\n-999,2\n3,4\n", {"na_values": "-999"}, {"na_values": ["-999"]}),
    "comments": (
        "# made today\na,b\n1,2\n # more\n3,4\n#\n",
        {"comment": "#"},
        {"skiprows": [0, 3, 5]},
    ),
    "lines before the table": ("Station 7\n\na,b\n1,2\n3,4\n", {"skip_rows": 2}, {"skiprows": 2}),
    "lines and a mark": ("\ufeffStation 7\na,b\n1,2\n", {"skip_rows": 1}, {"skiprows": 1}),
    "units": ("t,p\n°C,kPa\n1,2\n3,4\n", {}, {"skiprows": [1]}),
    "units, some": ("t;p\n°C;\n1,5;2\n3;4\n", {}, {"skiprows": [1], "sep": ";", "decimal": ","}),
    "units, said": ("t,p\n1,kPa\n1,2\n", {"units_row": True}, {"skiprows": [1]}),
    "a sheet with all of it": (
        "Lab 3\n# x\nt;p\n°C;kPa\n1,5;-999\n3,5;4\n",
        {"skip_rows": 1, "comment": "#", "na_values": ["-999"]},
        {"skiprows": [0, 1, 3], "sep": ";", "decimal": ",", "na_values": ["-999"]},
    ),
}


@pytest.mark.parametrize("case", READ)
def test_options_read_what_pandas_reads_with_them(case, tmp_path):
    text, options, pandas = READ[case]
    (tmp_path / "t.csv").write_text(text, encoding="utf-8")
    table = mercer.open_table(tmp_path / "t.csv", **options)
    frame = pd.read_csv(tmp_path / "t.csv", **pandas)
    (chunk,) = table.chunks(100)
    np.testing.assert_array_equal(chunk.numbers, frame.to_numpy(dtype=float))
    assert [column.name for column in table.columns] == list(frame.columns)


def test_guesses_hear_what_stands_for_nothing(tmp_path):
    (tmp_path / "t.csv").write_text("mm,2010\nn.d.,1\n" + "4,3\n" * 6)
    with pytest.raises(InputError, match="line 1 may be names or the first row"):
        mercer.open_table(tmp_path / "t.csv")
    table = mercer.open_table(tmp_path / "t.csv", na_values="n.d.")
    assert [column.name for column in table.columns] == ["mm", "2010"]


def test_units_are_guessed_where_words_stand_above_numbers_alone(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("t,p\n°C,kPa\n1,2\n3,4\n")
    assert (
        "line 2 is left out, since it has units (guessed): '°C', 'kPa'"
        in mercer.open_table(path).notes
    )
    for text in ("t,p\nlow,2\n1,2\nx,4\n", "t,p\n1,kPa\n2,2\n3,4\n", "t,p\n°C,kPa\n1,2\n"):
        path.write_text(text)
        assert any(c.kind == "category" for c in mercer.open_table(path).columns)
    path.write_text("t,p\n°C,kPa\n1,2\n3,4\n")
    kinds = [c.kind for c in mercer.open_table(path, units_row=False).columns]
    assert kinds == ["category", "category"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a;b\n1,5;2\n3;4\n", "separated by semicolons.*decimal comma"),
        ("1,2\n3,4\n", "without a header"),
        (",a\nu,1\nv,2\n", "first column has no name"),
        ("t,p\n°C,kPa\n1,2\n3,4\n", "line 2 is left out"),
        ("a,b\n1,2\n\n3,4\n", "1 blank line skipped"),
    ],
)
def test_a_guess_is_warned_of(text, said, tmp_path):
    (tmp_path / "t.csv").write_text(text)
    with pytest.warns(ReadingWarning, match=f"{said}.*mercer.open_table"):
        mercer.PCA(1).fit(tmp_path / "t.csv")


def test_lines_are_counted_as_the_file_has_them(tmp_path):
    (tmp_path / "t.csv").write_text("Lab\n# c\na,b\n%,m\n1,2\n# c\n\n3,x\n")
    options = {"skip_rows": 1, "comment": "#", "units_row": True, "columns": ["a", "b"]}
    with pytest.raises(InputError, match=r"'x' in line 8"):
        as_source(mercer.open_table(tmp_path / "t.csv", **options))
    (tmp_path / "t.csv").write_text("Lab\n# c\na,b\n%,m\n" + "1,2\n# c\n" * 1500 + "1,2,3\n")
    with pytest.raises(InputError, match=r"line 3005 has 3 fields"):
        as_source(mercer.open_table(tmp_path / "t.csv", **options))


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"skip_rows": -1}, "skip_rows must be a number of lines; got -1"),
        ({"skip_rows": 9}, "skip_rows must be less than the 2 lines of CSV file .*; got 9"),
        ({"comment": ""}, "comment must be a text"),
        ({"decimal": "x"}, "decimal must be"),
        ({"dtype": "int8"}, "dtype must be"),
        ({"delimiter": "ab"}, "delimiter must be one character"),
        ({"format": "xyz"}, "format must be one of csv"),
        ({"id": "c"}, "no column 'c', which `id` names"),
    ],
)
def test_options_that_can_not_be_meant_are_refused(options, said, tmp_path):
    (tmp_path / "t.csv").write_text("a,b\n1,2\n")
    with pytest.raises(InputError, match=said) as caught:
        mercer.open_table(tmp_path / "t.csv", **options)
    assert caught.value.parameter == next(iter(options))


# ── workbooks ───────────────────────────────────────────────────────────────
# Of each format: options that it can't obey, and one that has no bearing on it.
UNHEARD = {"csv": ["array"], "npy": ["array", "na_values", "skip_rows"], "parquet": ["na_values"]}
VALUES = {"array": "x", "na_values": ["-999"], "skip_rows": 1}


@pytest.mark.parametrize("form", UNHEARD)
def test_what_a_format_can_not_obey_is_not_ignored(form, tmp_path):
    path = tmp_path / f"t.{form}"
    frame = pd.DataFrame({"a": [1.0, -999.0], "b": [2.0, 3.0]})
    {
        "csv": lambda: frame.to_csv(path, index=False),
        "npy": lambda: np.save(path, frame.to_numpy()),
        "parquet": lambda: frame.to_parquet(path),
    }[form]()
    for option in UNHEARD[form]:
        said = f"`{option}` does not apply to .*: it is for the formats '"
        with pytest.raises(InputError, match=said) as caught:
            mercer.open_table(path, **{option: VALUES[option]})
        assert caught.value.parameter == option
        assert caught.value.remedy.startswith("Leave it out.")
    if form != "csv":
        table = mercer.open_table(path, delimiter=";", header=True)
        assert table.notes == ["left out, since the file is not text: `delimiter`, `header`"]
        np.testing.assert_array_equal(next(table.chunks(9)).numbers, frame.to_numpy())


def test_a_sheet_is_read_to_the_bit_with_ids_gaps_and_units(tmp_path):
    import datetime as dt

    day = dt.datetime(2024, 1, 31, 10, 30)
    rows = [["Lab 3"], ["time", "p", "q"], ["", "kPa", "1/s"], [day, 0.1, None], [day, 1e-7, 12]]
    path = workbook(tmp_path / "t.xlsx", [*rows, [day, 2 / 3, True]])
    table = mercer.open_table(path, id="time", skip_rows=1)
    (chunk,) = table.chunks(100)
    assert chunk.numbers.tobytes() == np.array([[0.1, np.nan], [1e-7, 12], [2 / 3, 1]]).tobytes()
    assert list(chunk.ids) == ["2024-01-31 10:30:00"] * 3
    assert [chunk.place(i) for i in range(3)] == ["line 4", "line 5", "line 6"]


def test_a_long_sheet_is_read_from_any_row(tmp_path, monkeypatch):
    monkeypatch.setattr("mercer.data.excel.BLOCK_BYTES", 64)
    rows = [[f"r{i}", i, i / 4] for i in range(50)]
    table = mercer.open_table(workbook(tmp_path / "t.xlsx", [["id", "a", "b"], *rows]), id="id")
    for start in (0, 17, 49, 3):
        chunks = list(table.chunks(5, start))
        assert [i for chunk in chunks for i in chunk.ids] == [f"r{i}" for i in range(start, 50)]
        assert chunks[0].numbers[0].tolist() == [start, start / 4]
        assert chunks[0].place(0) == f"line {start + 2}"


PATHS = {
    "two arrays": ("a.npz", lambda path: np.savez(path, a=np.eye(3), b=np.eye(3)), "array"),
    "an ending": ("a.dat", lambda path: path.write_text("a,b\n1,2\n3,4\n"), "format"),
    "a line too short": ("a.csv", lambda path: path.write_text("a,b\n1,2\n3\n"), "delimiter"),
}


@pytest.mark.parametrize("case", PATHS)
def test_options_of_reading_are_those_of_open_table(case, tmp_path):
    name, write, option = PATHS[case]
    write(tmp_path / name)
    with pytest.raises(InputError, match=rf"`{option}`.*mercer\.open_table\(path, {option}=…\)"):
        mercer.PCA().fit(tmp_path / name)


def unwanted():
    raise StoppedError


def test_a_workbook_is_not_gone_through_once_it_is_no_longer_wanted(tmp_path, monkeypatch):
    """A library looks through a whole sheet for its size, before it hands out the first row."""
    path = workbook(tmp_path / "t.xlsx", [["a", "b"], [1, 2], [3, 5]])
    monkeypatch.setattr(ExcelTable, "_chosen", lambda *_: pytest.fail("all of it was read"))
    with holding(WANTED, unwanted), pytest.raises(StoppedError):
        mercer.open_table(path)


def test_rows_of_a_file_end_where_they_are_no_longer_wanted(tmp_path):
    np.save(tmp_path / "t.npy", np.arange(20.0).reshape(10, 2))
    chunks = mercer.open_table(tmp_path / "t.npy").chunks(2)
    assert len(next(chunks)) == 2
    with holding(WANTED, unwanted), pytest.raises(StoppedError):
        next(chunks)


@pytest.mark.parametrize("name", ["a.csv.gz", "a.xls", "1-D.npz"])
def test_what_no_option_of_reading_helps_is_not_answered_by_one(name, tmp_path):
    np.savez(tmp_path / "1-D.npz", a=np.arange(3.0))
    (tmp_path / name).touch()
    with pytest.raises(InputError) as caught:
        mercer.PCA().fit(tmp_path / name)
    assert "open_table" not in str(caught.value)


def test_workbooks_that_can_not_be_used_are_refused(tmp_path, monkeypatch):
    path = workbook(tmp_path / "t.xlsx", [["a"], [1], ["x"]], title="first")
    with pytest.raises(InputError, match=r"no sheet 'frist'.*Did you mean 'first'"):
        mercer.open_table(path, array="frist")
    with pytest.raises(InputError, match=r"'x' in line 3"):
        as_source(path)
    book = openpyxl.load_workbook(path)
    book.create_sheet("second")
    book.save(path)
    several = r"several sheets.*`array`.*'first', 'second'"
    with pytest.raises(InputError, match=rf"{several}\.$"):
        mercer.open_table(path)
    with pytest.raises(InputError, match=rf"{several}.*mercer\.open_table\(path, array=…\)"):
        mercer.PCA().fit(path)
    (tmp_path / "bad.xlsx").write_bytes(path.read_bytes()[:-200])
    with pytest.raises(InputError, match="not a workbook"):
        mercer.open_table(tmp_path / "bad.xlsx")
    (tmp_path / "t.xls").write_bytes(b"\xd0\xcf\x11\xe0rest")
    with pytest.raises(InputError, match=r"Save the sheet as \.xlsx or CSV"):
        mercer.open_table(tmp_path / "t.xls")
    monkeypatch.setitem(sys.modules, "openpyxl", None)
    with pytest.raises(MissingPackageError, match=r"pip install .mercer\[excel\]"):
        mercer.open_table(path)


def test_a_large_csv_takes_little_memory(tmp_path, monkeypatch):
    block = 2**18
    monkeypatch.setattr(csv_blocks.text_blocks, "__kwdefaults__", {"block_bytes": block})
    monkeypatch.setattr(sources, "KEPT_SHARE", 0.0)
    with (tmp_path / "t.csv").open("w") as file:
        file.write(",".join(NAMES) + "\n" + (",".join(map(repr, X[0].tolist())) + "\n") * 200_000)
    source = as_source(tmp_path / "t.csv")
    tracemalloc.start()
    n = sum(len(rows) for _, rows in source.blocks(1000))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert n == 200_000
    # A block as bytes, twice where a line spans two, as text, and with four bytes a letter where it is taken
    # line by line, its rest, the bytes for Arrow, and which of them end a line.
    assert peak < 12 * block < (tmp_path / "t.csv").stat().st_size / 3


WRONG_OPTIONS = {
    "columns": 3,
    "na_values": 3,
    "id": 3,
    "label": "",
    "delimiter": 3,
    "header": "yes",
    "units_row": "x",
    "comment": 3,
    "skip_rows": -1,
    "decimal": ";",
    "array": 3,
}


@pytest.mark.parametrize("name", sorted(WRONG_OPTIONS))
def test_an_option_of_the_wrong_kind_is_named(name, tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("a,b\n1,2\n3,4\n")
    with pytest.raises(DataError, match=rf"^{name} must be .*; got {WRONG_OPTIONS[name]!r}"):
        mercer.open_table(path, **{name: WRONG_OPTIONS[name]})


@pytest.mark.parametrize("path", [None, 3, b"x", ["a.csv"]], ids=repr)
def test_a_path_is_a_path(path):
    with pytest.raises(DataError, match=r"^path must be the path of a file"):
        mercer.open_table(path)
