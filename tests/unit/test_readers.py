"""Files of rows: what is read is what others read, and what can't be read is refused in one sentence."""

import errno
import io
import mmap
import os
import re
import struct
import subprocess
import sys
import threading
import zipfile

import h5py
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image
from pyarrow import parquet as pq
from scipy import sparse

import mercer
from mercer._core.errors import DataError, InputError, MercerError
from mercer.cli import options
from mercer.data import files, formats
from mercer.data import npy as npz
from mercer.data.csv import blocks as csv_blocks
from mercer.data.csv import table as csv_table
from mercer.data.csv.numbers import numbers
from mercer.data.formats import open_table
from mercer.data.hdf5 import Bytes
from mercer.data.table import Reading
from mercer.data.view import require_numbers
from mercer.preprocessing.align import ReadingsTable

# Written by people: the text, how it is to be read, and what pandas needs to be told to read the same.
DIALECTS = {
    "commas": ("a,b\n1,2.5\n-3,4e2\n", {}, {}),
    "semicolons": ("a;b\n1;2.5\n3;4\n", {}, {"sep": ";"}),
    "decimal commas": ("a;b\n1;2,5\n3,25;4\n", {}, {"sep": ";", "decimal": ","}),
    "decimal commas, said": (
        'a,b\n1,"2,5"\n3,4\n',
        {"decimal": ",", "delimiter": ","},
        {"decimal": ","},
    ),
    "tabs": ("a\tb\n1\t2\n3\t4\n", {}, {"sep": "\t"}),
    "bars": ("a|b\n1|2\n3|4\n", {}, {"sep": "|"}),
    "windows": ("a,b\r\n1,2\r\n3,4\r\n", {}, {}),
    "old macs": ("a,b\r1,2\r3,4\r", {}, {}),
    "no last line end": ("a,b\n1,2\n3,4", {}, {}),
    "a byte order mark": ("\ufeffa,b\n1,2\n3,4\n", {}, {}),
    "quotes": ('"a","b, ""c"""\n"1","2"\n3,4\n', {}, {}),
    "blanks": ("a, b\n1,  2\n 3 ,4 \n", {}, {"skipinitialspace": True}),
    "blank lines": ("a,b\n\n1,2\n\n3,4\n\n", {}, {}),
    "missing": ("a,b\n,2\nNA,NaN\n3,?\nnull,N/A\n1,\n", {}, {"na_values": ["?"]}),
    "numbers alone": ("1,2\n3,4\n", {}, {"header": None}),
    "numbers as names": ("400,402\n3,4\n", {"header": True}, {}),
    "a trailing delimiter": ("a,b,\n1,2,\n3,4,\n", {}, {"usecols": ["a", "b"]}),
    "row names": (",a,b\nu,1,2\nv,3,4\n", {}, {"index_col": 0}),
    "one column": ("a\n1\n\n3\n", {}, {"skip_blank_lines": False}),
    "ids and labels": (
        'id,a,b,label\n007,1,2,"x\ny"\n8,3,4,z\n',
        {"id": "id", "label": "label"},
        {"usecols": ["a", "b"]},
    ),
    "chosen columns": ("a,b,c\n1,2,3\n4,5,6\n", {"columns": ("c", "a")}, {"usecols": ["a", "c"]}),
}


def written(folder, text, name="t.csv"):
    path = folder / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def read(table, height=1000):
    """All rows of a table, put together from chunks."""
    chunks = list(table.chunks(height))
    assert [c.start for c in chunks] == list(np.cumsum([0, *map(len, chunks)])[:-1])
    assert all(len(c) <= height for c in chunks)
    return np.concatenate([c.numbers for c in chunks])


@pytest.mark.parametrize("height", [1, 1000])
@pytest.mark.parametrize("block", [2, 7, 2**20])
@pytest.mark.parametrize("name", DIALECTS)
def test_a_csv_file_is_what_pandas_reads_however_it_is_cut(
    name, block, height, tmp_path, monkeypatch
):
    text, reading, pandas = DIALECTS[name]
    monkeypatch.setattr(csv_blocks.text_blocks, "__kwdefaults__", {"block_bytes": block})
    table = open_table(written(tmp_path, text), Reading(**reading))
    frame = pd.read_csv(io.StringIO(text.removeprefix("\ufeff"), newline=""), **pandas)
    if table.named:
        frame = frame[[column.name for column in table.columns]]
    np.testing.assert_array_equal(read(table, height), frame.to_numpy(dtype=float))


def test_ids_and_labels_stay_as_they_are_written(tmp_path):
    text, reading, _ = DIALECTS["ids and labels"]
    (chunk,) = open_table(written(tmp_path, text), Reading(**reading)).chunks(10)
    assert list(chunk.ids) == ["007", "8"]
    assert list(chunk.labels) == ["x\ny", "z"]
    assert [chunk.place(row) for row in range(2)] == ["line 2", "line 4"]
    (chunk,) = open_table(written(tmp_path, ",a\nu,1\n")).chunks(10)
    assert list(chunk.ids) == ["u"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a;b\n1;2\n", "separated by semicolons"),
        ("a;b\n1,5;2\n", "decimal comma"),
        ("1,2\n3,4\n", "without a header"),
        (",a\nu,1\n", "kept as the ids"),
        ("a,b,\n1,2,\n", "empty column.*left out: 3"),
        ("a,b\n\n1,2\n", "1 blank line"),
    ],
)
def test_a_guess_is_said(text, said, tmp_path):
    table = open_table(written(tmp_path, text))
    read(table)
    assert re.search(said, "; ".join(table.notes))


# Fields that both parsers may see: numbers in every form, and what is nearly one.
FIELDS = st.one_of(
    st.floats(allow_nan=False).map(repr),
    st.integers().map(str),
    st.sampled_from(
        ["1.", ".5", "+1", " 2 ", "1e5", "-0", "007", "1E-3", "1e400", "", " ", "1-2", ".", "e"]
    ),
    st.text(alphabet="0123.eE+- ", max_size=4),
)
LINES = st.lists(st.lists(FIELDS, min_size=2, max_size=2).map(",".join), min_size=1, max_size=6)


# Whatever comes, NumPy's parser and ours agree, in numbers and in what is refused.
@pytest.mark.filterwarnings(
    "ignore::mercer._core.errors.RoundingWarning"
)  # of integers beyond 2^53
@settings(max_examples=200, deadline=None)
@given(LINES, st.sampled_from(["\n", "\r\n", "\n\n", ",1\n"]))
def test_the_fast_path_reads_what_the_other_one_reads(tmp_path_factory, lines, end):
    path = written(tmp_path_factory.mktemp("fast"), "a,b\n" + "".join(line + end for line in lines))
    outcomes = []
    for plain in (csv_table.CsvTable._plain_chunk, lambda *_: None):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(csv_table.CsvTable, "_plain_chunk", plain)
            try:
                outcomes.append(read(open_table(path)).tobytes())
            except InputError as error:
                outcomes.append(str(error))
    assert outcomes[0] == outcomes[1]


@given(st.lists(st.floats(allow_infinity=False, allow_nan=False), min_size=1))
def test_a_number_that_was_written_is_read_bit_for_bit(values):
    assert numbers([repr(v) for v in values]).tobytes() == np.array(values).tobytes()


def test_a_word_of_many_digits_is_read_in_one_pass(tmp_path):
    word = "1" * 130_000 + "x"  # a pattern that tries every split of the digits would take minutes
    table = open_table(written(tmp_path, f"a,b\n1,{word}\n"))
    assert table.columns[1].kind == "category"
    assert next(table.chunks(1)).words["b"][0] == word


@pytest.mark.parametrize("word", ["1_000", "٣", "0x1f", "1,5", "nanny", "1-2", "1e", "--1"])
def test_what_float_may_take_is_still_no_number(word, tmp_path):
    path = written(tmp_path, "a|b\n" + "1|2\n" * 1500 + f"{word}|2\n")
    with pytest.raises(InputError, match=r"line 1502, column 'a'"):
        read(open_table(path, Reading(delimiter="|")))


REFUSED = {
    "empty": (b"", "is empty"),
    "blank": (b"\n \n\n", "is empty"),
    "a header and no rows": (b"a,b\n", "no rows"),
    "a header and blank lines": (b"a,b\n\n\n", "no rows"),
    "nul bytes": (b"a,b\n1,\0\n", "NUL bytes.*UTF-8"),
    "utf-16": ("a,b\n1,2\n".encode("utf-16"), "iconv -f UTF-16"),
    "latin-1": ("a,b\n1,2\ncafé,3\n".encode("latin-1"), "line 3 is not UTF-8.*LATIN1"),
    "gzip": (b"\x1f\x8b\x08\x00rest", "gunzip"),
    "a workbook": (b"PK\x03\x04rest", "Excel"),
    "an npy file": (b"\x93NUMPYrest", "`format='npy'`"),
    "ragged": (b"a,b\n1,2\n\n1,2,3\n", "line 4 has 3 field.*2 names in the header"),
    "ragged without names": (b"1,2\n3\n", "line 2 has 1 field.*2 fields in the first line"),
    "two names alike": (b"a,b,a\n1,2,3\n", "has two columns named 'a' \\(1 and 3\\)"),
    "a column without a name": (b"a,,c\n1,2,3\n", "column 2 has values and no name"),
    "a value below no name, late": (
        b"a,b,\n" + b"1,2,\n" * 1500 + b"1,2,3\n",
        "column 3 has values",
    ),
    "infinity": (b"a,b\n1,inf\n", "'inf' is infinite.*line 2, column 'b'"),
    "too large": (b"a,b\n1,2\n1e999,2\n", "'1e999' is infinite.*line 3, column 'a'"),
    "a quote that stays open": (b'a,b\n1,2\n"3,4\n5,6\n', "line 3.*never closed"),
    "text after a quote": (b'a,b\n"1"2,3\n', "line 2.*closing quote"),
    "an endless quote": (b'a,b\n"' + b"x\n" * 200_000, "line 2.*never closed"),
    "names or a row": (b"u,400\nv,1\nw,2\n", "`header=True` if it has.*`header=False`"),
    "points where commas were": (
        b"a;b\n" + b"1,5;2\n" * 1500 + b"1.5;2\n",
        r"'1.5' is not a number, since the comma is the decimal mark, in line 1502",
    ),
    "too large, with a comma": (b"a;b\n1,5;2\n1,5e999;2\n", "is infinite.*line 3, column 'a'"),
    "a point in a decimal comma file": (
        b"a;b\n" + b"1,5;2\n" * 1500 + b"1.000,5;2\n",
        r"'1.000,5' is not a number, since the comma is the decimal mark, in line 1502",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_no_table_is_refused_in_one_sentence(name, tmp_path):
    data, said = REFUSED[name]
    with pytest.raises(InputError, match=said) as caught:
        read(open_table(written(tmp_path, data)))
    assert "\n" not in str(caught.value)


NOT_NUMBERS = {
    "one cell": (
        "x\n" + "1\n" * 20 + "n.a.x\n3\n",
        "line 22, column 'x': 'n.a.x' is not a number \\(the other 21 values looked at are\\). "
        "Correct it, or use `na_values='n.a.x'`",
    ),
    "a historian": (
        "x\n" + "1\n" * 20 + "Bad\nNo Data\n",
        "line 22.*'Bad' is not a number \\(20 of the 22 .*use `na_values=\\('Bad', 'No Data'\\)`",
    ),
    "a historian above all": (
        "k,x\nu,1\nBad,2\n",
        "column 'k' has words .*If 'Bad' stands for a missing reading, .* If not, open the file with",
    ),
    "thousands": (
        'a,x\n1,"1,000"\n2,"2,500.5"\n',
        "line 2, column 'x': '1,000' .* thousands .* Write 1000\\.",
    ),
    "thousands or decimals": (
        "a;x\n1;1,000\n2;2,125\n",
        "'1,000' .* thousands .* Write 1000, or use `decimal=','`",
    ),
    "decimals, as a zero says": ('a,x\n1,"1,000"\n2,"0,125"\n', "'1,000' .* decimal comma"),
    "a decimal comma": ('a,x\n1,"0,5"\n', "'0,5' .* decimal comma. Use `decimal=','`"),
    "spaces": ("a b\n1 2\n3 4\n", "'a b' is the only column.*spaces. Use `delimiter='space'`"),
    "two spaces": ("a  b\n1  2\n", "is the only column.*Put one comma, or one space"),
    "Excel": ("a,x\n1,#DIV/0!\n2,3\n", "column 'x' holds an Excel error: '#DIV/0!'"),
    "days": ("day,x\n2024-01-01,1\n2024-01-02,2\n", "'day' has dates .*id='day'.* or choose"),
    "days of an order unknown": ("day,x\n01/02/2024,1\n", "'day' has dates"),
    "words": (
        "k,x\nu,1\nb,2\n",
        "'k' has words \\('u' in line 2\\), and a kernel .* Open the file",
    ),
}


@pytest.mark.parametrize("name", NOT_NUMBERS)
def test_a_column_without_numbers_is_told_by_what_it_looks_like(name, tmp_path):
    data, said = NOT_NUMBERS[name]
    with pytest.raises(InputError, match=said) as caught:
        require_numbers(open_table(written(tmp_path, data)))
    assert ("has words" in str(caught.value)) == ("words" in name or "above all" in name)


def test_fields_between_spaces_are_read_as_the_message_says(tmp_path):
    path = written(tmp_path, "a b\n1 2\n3 4\n")
    assert read(open_table(path, Reading(delimiter="space"))).tolist() == [[1, 2], [3, 4]]


BY_NAME = {
    "a.csv.gz": r"ends in '\.gz'.*Unpack it with gunzip first",
    "a.mercer": "is a model file, and rows are needed here. Give a file of data",
    "a": "has no extension.*Give `format`: one of csv",
    "a.xls": r"Save the sheet as \.xlsx or CSV",
    "a.json": r"not a format that can be read\. Convert it to CSV or Parquet first: pandas\.read_json",
    "a.pkl": r"not a format that can be read\. Load it only if you trust it, and save it as CSV or",
    "a.dat": r"Give `format`: one of csv",
}


@pytest.mark.parametrize("name", BY_NAME)
def test_what_is_not_rows_by_its_name_is_refused_with_what_to_do(name, tmp_path):
    (tmp_path / name).write_bytes(b"")
    with pytest.raises(DataError, match=BY_NAME[name]):
        open_table(tmp_path / name)


# How pandas writes a file of each format that it reads and mercer does not, and what it needs for the two.
WRITERS = {
    ".json": (lambda rows, path: rows.to_json(path, orient="records"), ()),
    ".jsonl": (lambda rows, path: rows.to_json(path, orient="records", lines=True), ()),
    ".ndjson": (lambda rows, path: rows.to_json(path, orient="records", lines=True), ()),
    ".xml": (lambda rows, path: rows.to_xml(path, index=False), ("lxml",)),
    ".html": (lambda rows, path: rows.to_html(path, index=False), ("lxml",)),
    ".orc": (lambda rows, path: rows.to_orc(path, index=False), ("pyarrow.orc",)),
    ".dta": (lambda rows, path: rows.to_stata(path, write_index=False), ()),
    ".sav": (lambda rows, path: pytest.importorskip("pyreadstat").write_sav(rows, path), ()),
}


def test_every_format_that_pandas_is_advised_for_is_tried():
    assert set(WRITERS) == set(formats.FOREIGN)


@pytest.mark.parametrize("ending", formats.FOREIGN)
def test_the_advised_call_of_pandas_converts_the_file(ending, tmp_path):
    write, needed = WRITERS[ending]
    for module in needed:
        pytest.importorskip(module)
    rows = pd.DataFrame({"a": [1.5, 2.0, 3.25], "b": [4.0, 5.5, 6.0]})
    path, new_path = tmp_path / f"rows{ending}", tmp_path / "rows.csv"
    write(rows, path)
    with pytest.raises(DataError, match="If its ending is wrong, rename it") as caught:
        open_table(path)
    call = re.search(r"first: (pandas\..*\))\. If", str(caught.value))[1]
    exec(call, {"pandas": pd, "path": path, "new_path": new_path})
    assert read(open_table(new_path)).tolist() == rows.to_numpy().tolist()


@pytest.mark.parametrize("ending", [".pkl", ".pickle", ".PKL"])
def test_a_pickle_is_not_advised_to_be_loaded_blindly(ending, tmp_path):
    path = tmp_path / f"rows{ending}"
    path.write_bytes(b"")
    with pytest.raises(DataError, match="Load it only if you trust it") as caught:
        open_table(path)
    assert "read_pickle" not in str(caught.value)


def test_a_fit_to_a_format_that_is_not_read_advises_no_option(tmp_path):
    path = tmp_path / "x.json"
    path.write_text("[[1, 2]]")
    with pytest.raises(DataError, match=r"\.json.*Convert it") as caught:
        mercer.PCA(1).fit(str(path))
    assert "format=" not in str(caught.value)
    assert "`format`" not in str(caught.value)


@pytest.mark.parametrize("option", ["id", "label"])
@pytest.mark.parametrize("named", ["part,date", "part, date", "part,dote"])
def test_several_columns_in_place_of_one_are_refused_in_words(option, named, tmp_path):
    path = written(tmp_path, "part,date,x\na,2024-01-01,1\nb,2024-01-02,2\n")
    said = (
        rf"no column '{named}', which `{option}` names\. `{option}` takes one column: name 'part'"
    )
    with pytest.raises(DataError, match=said) as caught:
        open_table(path, **{option: named})
    assert (caught.value.parameter, caught.value.value) == (option, named)


def test_the_only_array_of_an_archive_may_lack_columns(tmp_path):
    np.savez(tmp_path / "a.npz", a=np.arange(50.0))
    said = r"its only array 'a' is 1-D \(50,\)\. Use reshape\(-1, 1\)"
    with pytest.raises(DataError, match=said):
        open_table(tmp_path / "a.npz")


def test_a_folder_that_may_not_be_read_is_not_taken_for_an_empty_one(tmp_path, monkeypatch):
    def refused(_path):
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(formats.os, "scandir", refused)
    with pytest.raises(DataError, match="can't be read: Permission denied"):
        open_table(tmp_path)


def test_lists_are_not_numbers(tmp_path):
    path = tmp_path / "l.parquet"
    pq.write_table(pa.table({"l": [[1.0], [2.0]]}), path)
    with pytest.raises(InputError, match=r"'l' holds lists, which are not numbers.*each entry"):
        require_numbers(open_table(path))


def test_a_line_without_an_end_is_refused_before_it_fills_the_memory(tmp_path, monkeypatch):
    monkeypatch.setattr(csv_blocks, "LINE_BYTES", 10_000)
    monkeypatch.setattr(csv_blocks.text_blocks, "__kwdefaults__", {"block_bytes": 1000})
    path = written(tmp_path, "a,b\n1,2\n" + "1" * 100_000)
    with pytest.raises(InputError, match="line 3 is longer"):
        read(open_table(path))


def test_thousands_are_not_taken_for_decimals(tmp_path):
    table = open_table(written(tmp_path, "a;b\n1,234;2\n5,678;3\n"))
    assert [column.kind for column in table.columns] == ["category", "number"]
    assert "'1,234' in line 2" in table.columns[0].example


def test_decimals_below_one_are_not_taken_for_thousands(tmp_path):
    table = open_table(written(tmp_path, "a;b\n1,234;2\n0,678;3\n"))
    assert read(table).tolist() == [[1.234, 2], [0.678, 3]]


def test_a_header_is_told_from_a_row_that_is_like_the_others(tmp_path):
    iris = "5.1,3.5,setosa\n4.9,3.0,setosa\n6.3,3.3,virginica\n5.8,2.7,virginica\n5.0,3.6,setosa\n5.4,3.9,x\n"
    table = open_table(written(tmp_path, iris), Reading(columns=("0", "x1")))
    assert not table.named
    assert read(table).shape == (6, 2)


def test_lines_longer_than_the_head_are_looked_at_too(tmp_path, monkeypatch):
    monkeypatch.setattr("mercer.data.csv.sniff.HEAD_BYTES", 100)
    names = [f"column_{j}" for j in range(300)]
    rows = "".join(",".join(["1"] * 299 + ["word"]) + "\n" for _ in range(3))
    table = open_table(written(tmp_path, ",".join(names) + "\n" + rows))
    assert [column.name for column in table.columns if column.kind == "category"] == names[-1:]


def test_a_file_that_changes_between_two_passes_is_noticed(tmp_path):
    table = open_table(written(tmp_path, "a,b\n1,2\n"))
    written(tmp_path, "a,b\n1,2\n3,4\n")
    with pytest.raises(InputError, match="changed while it was in use"):
        read(table)


def test_the_standard_input_is_read_as_often_as_needed(monkeypatch):
    for form, data in (("csv", b"a,b\n1,2\n"), ("npy", npy_bytes(np.array([[1.0, 2.0]])))):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))
        table = open_table("-", Reading(format=form))
        assert read(table).tolist() == read(table).tolist() == [[1.0, 2.0]]
    with pytest.raises(InputError, match="pipe"):
        open_table("-", Reading(format="images"))
    with pytest.raises(InputError, match="neither a file nor a folder"):
        open_table("/dev/null", Reading(format="csv"))


def test_a_named_pipe_is_read_like_the_standard_input(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    writer = threading.Thread(target=(tmp_path / "pipe").write_text, args=("a,b\n1,2\n",))
    writer.start()
    table = open_table(tmp_path / "pipe")
    writer.join()
    assert read(table).tolist() == read(table).tolist() == [[1.0, 2.0]]


# ── arrays ──────────────────────────────────────────────────────────────────
def npy_bytes(array, **kwargs):
    out = io.BytesIO()
    np.save(out, array, **kwargs)
    return out.getvalue()


@pytest.fixture
def cells(rng):
    return rng.standard_normal((30, 4)).astype(np.float32)


def h5ad(path, x, kind="csr"):
    with h5py.File(path, "w") as file:
        if kind == "dense":
            file["X"] = x
        else:
            matrix = (sparse.csr_matrix if kind == "csr" else sparse.csc_matrix)(x)
            group = file.create_group("X")
            group.attrs.update({"encoding-type": f"{kind}_matrix", "shape": x.shape})
            for part in ("data", "indices", "indptr"):
                group[part] = getattr(matrix, part)
        obs, var = file.create_group("obs"), file.create_group("var")
        obs.attrs["_index"] = var.attrs["_index"] = "names"
        obs["names"] = [f"cell {i}" for i in range(len(x))]
        var["names"] = [f"gene {j}" for j in range(x.shape[1])]
        obs.create_group("kind")["categories"] = ["B", "T"]
        obs["kind"]["codes"] = np.arange(len(x)) % 2
    return path


def frame_of(x):
    frame = pd.DataFrame(x, columns=[f"c{j}" for j in range(x.shape[1])])
    frame["name"] = [f"r{i}" for i in range(len(x))]
    return frame


ARRAYS = {
    "npy": np.save,
    "npy in Fortran's order": lambda p, x: np.save(p, np.asfortranarray(x)),
    "npy of big ends": lambda p, x: np.save(p, x.astype(">f4")),
    "npz": lambda p, x: np.savez(p, x=x),
    "npz, packed": lambda p, x: np.savez_compressed(p, x=x, y=np.arange(3)),
    "npz in Fortran's order": lambda p, x: np.savez(p, x=np.asfortranarray(x)),
    "hdf5": lambda p, x: h5py.File(p, "w").create_dataset("g/x", data=x).file.close(),
    "h5ad, dense": lambda p, x: h5ad(p, x, "dense"),
    "h5ad, sparse": h5ad,
    "parquet": lambda p, x: frame_of(x)[["c0", "c1", "c2", "c3"]].to_parquet(p, row_group_size=11),
    "arrow": lambda p, x: frame_of(x)[["c0", "c1", "c2", "c3"]].to_feather(p, chunksize=11),
}
ENDINGS = {
    "npy": "npy",
    "npz": "npz",
    "hdf5": "h5",
    "h5ad": "h5ad",
    "parquet": "parquet",
    "arrow": "feather",
}


@pytest.mark.parametrize("height", [7, 1000])
@pytest.mark.parametrize("name", ARRAYS)
def test_arrays_are_read_in_slices_and_keep_their_precision(name, height, tmp_path, cells):
    x = np.where(cells > 1, 0, cells)
    path = tmp_path / f"t.{ENDINGS[name.replace(',', ' ').split()[0]]}"
    ARRAYS[name](path, x)
    table = open_table(path)
    found = read(table, height)
    assert found.dtype == table.dtype == np.float32
    np.testing.assert_array_equal(found, x)
    np.testing.assert_array_equal(read(open_table(path, Reading(dtype="float64"))), x)
    few = open_table(path, Reading(columns=(table.columns[2].name, table.columns[0].name)))
    np.testing.assert_array_equal(read(few), x[:, [2, 0]])


@pytest.mark.parametrize("name", ARRAYS)
def test_a_change_during_a_pass_is_noticed_at_its_end(name, tmp_path, cells):
    path = tmp_path / f"t.{ENDINGS[name.replace(',', ' ').split()[0]]}"
    ARRAYS[name](path, cells)
    passing = open_table(path).chunks(20)
    next(passing)
    os.utime(path, ns=(0, 0))
    with pytest.raises(InputError, match="changed while it was in use"):
        list(passing)


def test_rows_below_a_folder_of_parquet_files_are_not_passed_over(tmp_path, cells):
    (tmp_path / "year=2020").mkdir()
    for name in ("a.parquet", "year=2020/b.parquet"):
        frame_of(cells).to_parquet(tmp_path / name)
    with pytest.raises(InputError, match="in folders below it, such as 'year=2020'"):
        open_table(tmp_path)


def test_what_stands_beside_the_rows_is_found_in_every_format(tmp_path, cells):
    names, kinds = [f"r{i}" for i in range(30)], ["B", "T"] * 15
    np.savez(tmp_path / "t.npz", x=cells, name=names, kind=np.array(kinds, dtype="S1"))
    frame_of(cells).assign(kind=kinds).to_parquet(tmp_path / "t.parquet")
    frame_of(cells).assign(kind=kinds).to_csv(tmp_path / "t.csv", index=False)
    with h5py.File(tmp_path / "t.h5", "w") as file:
        file["x"], file["name"], file["kind"] = cells, names, kinds
    for ending in ("npz", "parquet", "csv", "h5"):
        table = open_table(tmp_path / f"t.{ending}", Reading(id="name", label="kind"))
        chunks = list(table.chunks(11))
        assert [i for c in chunks for i in c.ids] == names, ending
        assert [i for c in chunks for i in c.labels] == kinds, ending
        assert (table.id_name, table.label_name, len(table.columns)) == ("name", "kind", 4)
    table = open_table(h5ad(tmp_path / "t.h5ad", cells), Reading(label="kind"))
    (chunk,) = table.chunks(100)
    assert (chunk.ids[3], list(chunk.labels[:2])) == ("cell 3", ["B", "T"])
    assert table.columns[1].name == "gene 1"


def test_cells_without_names_have_no_ids(tmp_path, cells):
    with h5py.File(tmp_path / "t.h5ad", "w") as file:
        file["X"] = cells
    table = open_table(tmp_path / "t.h5ad")
    assert (table.id_name, next(table.chunks(100)).ids) == (None, None)
    with pytest.raises(InputError, match="no column 'kind' in obs"):
        open_table(tmp_path / "t.h5ad", Reading(label="kind"))


def test_a_column_of_texts_is_one_of_words_also_in_parquet(tmp_path, cells):
    frame_of(cells).to_parquet(tmp_path / "t.parquet")
    column = open_table(tmp_path / "t.parquet").columns[-1]
    assert (column.name, column.kind) == ("name", "category")


def bomb(path):
    about = {"descr": "<f8", "fortran_order": False, "shape": (2**16, 64)}
    with (
        zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive,
        archive.open("x.npy", "w") as member,
    ):
        np.lib.format.write_array_header_1_0(member, about)
        for _ in range(32):
            member.write(bytes(2**20))


def lying(path):
    with zipfile.ZipFile(path, "w") as archive, archive.open("x.npy", "w") as member:
        about = {"descr": "<f8", "fortran_order": False, "shape": (10**12, 10**3)}
        np.lib.format.write_array_header_1_0(member, about)


def spoilt(path):
    np.savez(path, x=np.arange(400.0).reshape(100, 4))
    data = bytearray(path.read_bytes())
    data[1000] ^= 1
    path.write_bytes(bytes(data))


BAD_FILES = {
    "npz bomb": ("t.npz", bomb, "times as much"),
    "npz that promises a petabyte": ("t.npz", lying, "promises 8000000000000128"),
    "npz with a flipped bit": ("t.npz", spoilt, "CRC|damaged"),
    "npz of objects": ("t.npz", lambda p: np.savez(p, x=np.array([[{}, 1]])), "pickled"),
    "npz of many": (
        "t.npz",
        lambda p: np.savez(p, x=np.eye(2), y=np.eye(3)),
        "Name one with `array`; it has 'x'",
    ),
    "npz of none": (
        "t.npz",
        lambda p: np.savez(p, x=np.arange(3)),
        "its only array 'x' is 1-D",
    ),
    "npz of noise": ("t.npz", lambda p: p.write_bytes(b"noise" * 9), "not a valid NPZ archive"),
    "npy of objects": ("t.npy", lambda p: np.save(p, np.array([[{}, 1]])), "pickled"),
    "npy of one dimension": ("t.npy", lambda p: np.save(p, np.arange(3.0)), "reshape"),
    "npy cut short": (
        "t.npy",
        lambda p: p.write_bytes(npy_bytes(np.eye(9))[:-8]),
        "cut short, or something was appended",
    ),
    "npy whose header has gigabytes": (
        "t.npy",
        lambda p: p.write_bytes(b"\x93NUMPY\x02\x00\xff\xff\xff\xff" + b" " * 200),
        "does not begin like an NPY file",
    ),
    "npz whose array is called otherwise": (
        "t.npz",
        lambda p: np.savez(p, columns_x=np.eye(2)),
        "no array 'columns_y'. Did you mean 'columns_x'. Its arrays are 'columns_x'",
    ),
    "parquet with infinity": (
        "t.parquet",
        lambda p: pd.DataFrame({"a": np.float32([1, np.inf])}).to_parquet(p),
        r"infinity in row 1 .counted from 0., column 'a'\. Drop the row",
    ),
    "parquet too large for float32": (
        "t.parquet",
        lambda p: pd.DataFrame({"a": [1.0, 1e300]}).to_parquet(p),
        r"1e\+300 is too large for float32 in row 1 .*, column 'a'\. Leave `dtype` out",
    ),
    "npy of noise": ("t.npy", lambda p: p.write_bytes(b"noise"), "np.save"),
    "npy with infinity": (
        "t.npy",
        lambda p: np.save(p, [[1.0, np.inf]]),
        "infinity in row 0.*'x1'",
    ),
    "npy too large for float32": (
        "t.npy",
        lambda p: np.save(p, [[1.0, 1e300]]),
        r"1e\+300 is too large for float32 in row 0 .*, column 'x1'\. Leave `dtype` out",
    ),
    "csv too large for float32": (
        "t.csv",
        lambda p: p.write_text("a,b\n1,2\n3,1e300\n"),
        r"1e\+300 is too large for float32 in line 3, column 'b'\. Leave `dtype` out",
    ),
    "csv of words too large for float32": (
        "t.csv",
        lambda p: p.write_text("w,b\nyes,2\nno,1e300\n"),
        r"1e\+300 is too large for float32 in line 3, column 'b'\. Leave `dtype` out",
    ),
    "parquet of noise": ("t.parquet", lambda p: p.write_bytes(b"noise"), "can't be read"),
    "arrow of noise": ("t.arrow", lambda p: p.write_bytes(b"noise"), "can't be read"),
    "empty arrow": ("t.arrow", lambda p: p.write_bytes(b""), "can't be read"),
    "hdf5 of noise": ("t.h5", lambda p: p.write_bytes(b"noise"), "not a valid HDF5 file"),
    "h5ad by columns": ("t.h5ad", lambda p: h5ad(p, np.eye(4), "csc"), "tocsr"),
    "an ending of nothing": ("t.xyz", lambda p: p.write_bytes(b"noise"), "`format`: one of csv"),
    "a folder": ("t.csv", lambda p: p.mkdir(), "has no image in it"),
    "nothing": ("t.csv", lambda _: None, "There is no file"),
}


@pytest.mark.parametrize("name", BAD_FILES)
def test_files_that_are_broken_or_traps_are_refused(name, tmp_path, monkeypatch):
    monkeypatch.setattr(files, "HELD_BYTES", 2**20)
    file, make, said = BAD_FILES[name]
    make(tmp_path / file)
    asked = {"array": "columns_y"} if "called otherwise" in name else {}
    reading = Reading(dtype="float32" if "float32" in name else None, **asked)
    with pytest.raises(InputError, match=said) as caught:
        read(open_table(tmp_path / file, reading))
    assert "\n" not in str(caught.value)


def test_a_member_of_an_archive_is_never_unpacked_beyond_memory(tmp_path, monkeypatch):
    monkeypatch.setattr(npz, "available_bytes", lambda: 100)
    np.savez(tmp_path / "t.npz", x=np.asfortranarray(np.ones((20, 4))))
    with pytest.raises(InputError, match=r"np\.save, in C order"):
        read(open_table(tmp_path / "t.npz"))


@pytest.mark.parametrize(
    ("module", "file", "command"),
    [("pyarrow", "t.parquet", "parquet"), ("h5py", "t.h5", "hdf5"), ("PIL", "t", "images")],
)
def test_a_missing_package_is_answered_with_the_command_that_installs_it(
    module, file, command, tmp_path, monkeypatch
):
    (tmp_path / file).mkdir() if command == "images" else (tmp_path / file).touch()
    for name in [name for name in sys.modules if name.partition(".")[0] == module]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(MercerError, match=rf'pip install "mercer\[{command}\]"'):
        open_table(tmp_path / file)


# ── images ──────────────────────────────────────────────────────────────────
def picture(path, pixels, **kwargs):
    path.parent.mkdir(exist_ok=True, parents=True)
    Image.fromarray(np.asarray(pixels)).save(path, **kwargs)


def test_images_are_rows_of_grey_values(tmp_path, rng):
    grey = rng.integers(0, 256, (3, 4, 5), dtype=np.uint8)
    deep = rng.integers(0, 65536, (4, 5), dtype=np.uint16)
    picture(tmp_path / "b/1.pgm", grey[0])
    picture(tmp_path / "b/2.png", deep)
    picture(tmp_path / "a/3.png", np.stack([grey[1]] * 3, axis=-1))
    (tmp_path / "notes.txt").touch()
    table = open_table(tmp_path)
    (chunk,) = table.chunks(10)
    assert list(chunk.ids) == ["a/3.png", "b/1.pgm", "b/2.png"]
    assert list(chunk.labels) == ["a", "b", "b"]
    np.testing.assert_array_equal(chunk.numbers.reshape(3, 4, 5), [grey[1], grey[0], deep])
    assert table.image_shape == (4, 5)
    assert table.columns[6].name == "pixel_1_1"
    assert "1 of 3 images are coloured" in table.notes[0]
    assert "'notes.txt'" in table.notes[1]


def test_images_of_two_sizes_are_refused_or_brought_to_one(tmp_path):
    picture(tmp_path / "1.png", np.full((4, 4), 7, np.uint8))
    picture(tmp_path / "2.png", np.full((8, 6), 7, np.uint8))
    with pytest.raises(InputError, match=r"2 sizes.*`image_size=\(4, 4\)`"):
        open_table(tmp_path)
    table = open_table(tmp_path, Reading(image_size=(4, 4)))
    np.testing.assert_array_equal(read(table), 7.0)
    assert "1 of 2 images brought to 4x4" in table.notes[0]
    assert next(table.chunks(10)).labels is None
    with pytest.raises(InputError, match="no folders below it to label images by"):
        open_table(tmp_path, Reading(image_size=(4, 4), label="who"))


@pytest.mark.parametrize(
    "size", [64, (0, 5), (-3, -3), "ab", (2.5, 2), (2, 3, 4), True, (True, True)]
)
def test_an_image_size_is_a_height_and_a_width(size):
    with pytest.raises(
        InputError, match=r"image_size must be a height and a width in pixels.*; got"
    ):
        Reading(image_size=size)
    assert Reading(image_size=[2, np.int64(3)]).image_size == (2, 3)  # as a model file has it


@pytest.mark.parametrize("pixels", [100, 25_000_000])
def test_an_image_that_can_not_be_used_is_named(pixels, tmp_path, monkeypatch):
    picture(tmp_path / "good.png", np.zeros((20, 20), np.uint8))
    monkeypatch.setattr("mercer.data.images.MAX_PIXELS", pixels)
    if pixels > 400:
        (tmp_path / "bad.png").write_bytes((tmp_path / "good.png").read_bytes()[:40])
    with pytest.raises(InputError, match=r"'(bad|good).png' can't be read"):
        read(open_table(tmp_path))


# ── memory ──────────────────────────────────────────────────────────────────
@pytest.mark.parametrize(
    "options", [{}, {"id": "u"}, {"label": "u"}], ids=["words", "ids", "labels"]
)
def test_rows_are_kept_only_where_their_texts_fit_too(options, tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("x,u\n" + "".join(f"{i},{f'a word of row {i}':>40}\n" for i in range(3000)))
    room = 3000 * 40
    for n_bytes, is_kept in ((room, False), (10 * room, True)):
        table = open_table(path, **options)
        before = table.resident_bytes()
        table.keep(n_bytes)
        texts = [
            part
            for chunk in table.chunks(500)
            for part in (*chunk.words.values(), chunk.ids, chunk.labels)
        ]
        assert (table.resident_bytes() > before) == is_kept
    held = sum(sys.getsizeof(text) for part in texts if part is not None for text in part)
    assert table.resident_bytes() - before > held / 2


def test_a_table_of_readings_holds_what_its_file_holds(tmp_path):
    (tmp_path / "a.csv").write_text("x,y\n1,2\n3,4\n")
    table = open_table(tmp_path / "a.csv")
    assert ReadingsTable(table, whole=True).resident_bytes() >= table.resident_bytes() > 0


# ── files that would lead elsewhere ─────────────────────────────────────────
def elsewhere(way):
    def write(folder):
        np.zeros((6, 2)).tofile(folder / "other.bin")
        with h5py.File(folder / "other.h5", "w") as other:
            other["x"] = np.zeros((6, 2))
        with h5py.File(folder / "rows.h5", "w") as file:
            way(file, folder)
        return folder / "rows.h5"

    return write


def virtual(file, folder):
    layout = h5py.VirtualLayout((6, 2), dtype="f8")
    layout[:] = h5py.VirtualSource(folder / "other.h5", "x", (6, 2))
    file.create_virtual_dataset("x", layout)


def external(file, folder):
    file.create_dataset("x", (6, 2), "f8", external=[(str(folder / "other.bin"), 0, 96)])


def linked(file, folder):
    file["x"] = h5py.ExternalLink(str(folder / "other.h5"), "x")


def soft(file, folder):
    file["out"] = h5py.ExternalLink(str(folder / "other.h5"), "/")
    file["x"] = h5py.SoftLink("/out/x")


ELSEWHERE = {
    "virtual": (virtual, "'/x' is a virtual data set, made of other files"),
    "external storage": (external, "'/x' is stored in another file"),
    "external link": (linked, "'x' is a link to another file"),
    "soft link": (soft, "'out' is a link to another file"),
}


@pytest.mark.parametrize("way", ELSEWHERE)
def test_rows_of_another_file_are_refused(way, tmp_path):
    build, says = ELSEWHERE[way]
    with pytest.raises(
        DataError, match=says + r"\. Only what is in the file itself is read\."
    ) as caught:
        open_table(elsewhere(build)(tmp_path), Reading(array="x"))
    assert caught.value.remedy.startswith("Copy the rows into it")


def test_a_link_to_another_file_is_told_where_no_data_set_was_named(tmp_path):
    for build, name in ((linked, "x"), (soft, "out")):
        with pytest.raises(
            DataError, match=f"'{name}' is a link to another file, which is not followed"
        ):
            open_table(elsewhere(build)(tmp_path))


def test_soft_links_inside_a_file_are_followed(tmp_path):
    with h5py.File(tmp_path / "x.h5", "w") as file:
        file["a/b"], file["link"] = np.arange(12.0).reshape(6, 2), h5py.SoftLink("a/b")
    (chunk,) = open_table(tmp_path / "x.h5", Reading(array="link")).chunks(10)
    np.testing.assert_array_equal(chunk.numbers, np.arange(12.0).reshape(6, 2))


@pytest.mark.parametrize("attributes", [0, 60])  # those of many stand in further blocks of a header
@pytest.mark.parametrize("userblock", [0, 512])
@pytest.mark.parametrize("form", ["earliest", "latest"])
def test_a_virtual_data_set_is_known_by_its_bytes(form, userblock, attributes, tmp_path):
    """As h5py knows it, for which HDF5 has to read its layout, and may die over it."""
    path, things = tmp_path / "rows.h5", []
    with h5py.File(path, "w", libver=form, userblock_size=userblock, track_order=True) as file:
        file["plain"], file["group/chunked"] = np.eye(3), np.eye(2)
        file.create_dataset("group/packed", data=np.eye(4), chunks=True, compression="gzip")
        virtual(file, tmp_path)
        for j in range(attributes):
            file["x"].attrs[f"attribute {j}"] = "text " * 20
    with (
        h5py.File(path) as file,
        path.open("rb") as plain,
        mmap.mmap(plain.fileno(), 0, access=mmap.ACCESS_READ) as data,
    ):
        found = Bytes(data, userblock, *file.id.get_create_plist().get_sizes())
        file.visititems(lambda _, thing: things.append(thing))
        assert len(things) == 5
        for thing in things:
            known = getattr(thing, "is_virtual", False)
            assert found.is_virtual(h5py.h5o.get_info(thing.id).addr) == known, thing


def test_a_header_that_is_none_is_left_to_hdf5(tmp_path):
    """Wherever it is said to be, and whatever it promises."""
    endless = struct.pack("<HHIQ", 0x10, 16, 0, 0) + struct.pack("<Q", 2**32)  # goes on at itself
    (tmp_path / "t.h5").write_bytes(b"OHDR" + bytes(16) + endless + b"\xff" * 64 + b"OHDR")
    with (tmp_path / "t.h5").open("rb") as plain:
        data = mmap.mmap(plain.fileno(), 0, access=mmap.ACCESS_READ)
    with data:
        for address in (*range(len(data) + 2), 2**63, 2**64 - 1):
            assert not Bytes(data, 0, 8, 8).is_virtual(address)


def test_other_data_sets_of_a_file_with_a_virtual_one_are_read(tmp_path):
    with h5py.File(tmp_path / "rows.h5", "w") as file:
        virtual(file, tmp_path)
        file["plain"], file["group/self"] = np.eye(3), h5py.SoftLink("/x")
        file["group/again"] = file["group"]
    (chunk,) = open_table(tmp_path / "rows.h5").chunks(10)
    np.testing.assert_array_equal(chunk.numbers, np.eye(3))
    with pytest.raises(DataError, match="'/x' is a virtual data set"):
        open_table(tmp_path / "rows.h5", Reading(array="group/self"))


# ── heaps of variable-length values ─────────────────────────────────────────
def has_endless_heap(path):
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        return Bytes(data, 0, 8, 8).has_endless_heap()


def spoil_heap(path, index, size):
    """Alter the first object of the first collection of a file."""
    data = bytearray(path.read_bytes())
    struct.pack_into("<HHIQ", data, data.index(b"GCOL") + 16, index, 0, 0, size)
    path.write_bytes(data)
    return path


@pytest.mark.parametrize("kind", ["csr", "dense"])
def test_a_heap_over_which_hdf5_hangs_is_refused(kind, cells, tmp_path):
    """Whether an attribute or a data set would be the first to be read; `fuzz` has the objects that hang."""
    path = spoil_heap(h5ad(tmp_path / "t.h5ad", cells, kind), 0, 0)
    code = f"from mercer.data import formats; formats.open_table({str(path)!r})"
    run = subprocess.run(  # it hangs where no alarm reaches
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=600, check=False
    )
    assert "object of no size, over which HDF5 never ends. The file is damaged" in run.stderr


def test_heaps_are_found_wherever_they_lie(cells, tmp_path):
    """Files of the newest form may have them at any byte."""
    good = h5ad(tmp_path / "t.h5ad", cells)
    for before in range(9):
        (tmp_path / "t.h5").write_bytes(bytes(before) + good.read_bytes())
        assert not has_endless_heap(tmp_path / "t.h5")
        assert has_endless_heap(spoil_heap(tmp_path / "t.h5", 0, 0))


def test_plain_data_that_look_like_a_heap_are_read(cells, tmp_path):
    inner = h5ad(tmp_path / "inner.h5ad", cells).read_bytes()  # a whole file, as a value of another
    signature = b"GCOL\x01".ljust(16, b"\0")
    with h5py.File(tmp_path / "t.h5", "w") as file:
        file["inner"], file["x"] = np.void(inner), np.eye(3)
        file["texts"] = np.array([signature] * 500)
        file["cut"] = np.void(inner[: inner.index(b"GCOL") + 2000])
    read(open_table(tmp_path / "t.h5"))


def test_collections_that_overlap_are_not_walked_over_and_over(tmp_path):
    """Each of 60 000 would be walked to the end of the file: some 10⁹ steps."""
    n = 60_000
    pieces = (struct.pack("<4sB3xQHHIQ", b"GCOL", 1, 32 * (n - i), 1, 0, 0, 16) for i in range(n))
    (tmp_path / "t.h5").write_bytes(b"".join(pieces))
    assert has_endless_heap(tmp_path / "t.h5")


@pytest.mark.parametrize("form", ["EPS", "GIF", "JPEG"])
def test_an_image_is_what_its_ending_promises(form, tmp_path):
    Image.new("RGB", (8, 8)).save(tmp_path / "a.png", form)
    with pytest.raises(DataError, match=r"'a\.png' can't be read as PNG, which its name promises"):
        open_table(tmp_path)


def test_a_sparse_archive_is_named_as_such(tmp_path):
    sparse.save_npz(tmp_path / "x.npz", sparse.csr_array(np.eye(4)))
    with pytest.raises(DataError, match=r"holds a sparse matrix.*load_npz.*toarray"):
        open_table(tmp_path / "x.npz")


def test_the_command_line_offers_every_format():
    """Its own list: the help of a command must not import NumPy."""
    assert tuple(options.FORMATS) == tuple(formats.FORMATS)


@pytest.mark.parametrize("ending", ["arrow", "parquet"])
def test_a_name_that_is_no_text_is_told_with_the_file(ending, tmp_path):
    path = tmp_path / f"x.{ending}"
    frame = pd.DataFrame({"qqqq": [1.0, 2.0], "b": [3.0, 4.0]})
    frame.to_feather(path, compression="uncompressed") if ending == "arrow" else frame.to_parquet(
        path
    )
    path.write_bytes(path.read_bytes().replace(b"qqqq", b"\xff\xff\xff\xff"))
    with pytest.raises(DataError, match="can't be read"):
        open_table(path)
