"""Arrow's parser reads and writes what our own does: the same bits, or the same refusal."""

import io
import sys
import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mercer.data import writers
from mercer.data.csv import blocks as csv_blocks
from mercer.data.csv import table as csv_arrow
from mercer.data.formats import open_table
from mercer.data.table import Reading
from mercer.data.writers import open_writer
from mercer.errors import InputError


@pytest.fixture
def counted(monkeypatch):
    """Few lines are enough for Arrow, and the blocks that it took are counted."""
    monkeypatch.setattr(csv_arrow, "LEAST_CHARACTERS", 0)
    monkeypatch.setattr(csv_arrow, "LEAST_ROWS", 1)
    taken, real = [], csv_arrow._read

    def read(*asked):
        found = real(*asked)
        taken.append(found is not None)
        return found

    monkeypatch.setattr(csv_arrow, "_read", read)
    return taken


def outcome(path, reading):
    """All that a file is, to the bit: or the sentence that refuses it."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            table = open_table(path, reading)
            chunks = list(table.chunks(3))
        except InputError as error:
            return str(error)
    assert [c.start for c in chunks] == list(np.cumsum([0, *map(len, chunks)])[:-1])
    lines, ids = ([x for c in chunks for x in part(c)] for part in (lambda c: c.lines, _ids))
    words = {name: [w for c in chunks for w in c.words[name]] for name in chunks[0].words}
    numbers = np.concatenate([c.numbers for c in chunks])
    return numbers.tobytes(), numbers.shape, list(map(int, lines)), ids, words, table.notes


def _ids(chunk):
    return [] if chunk.ids is None else chunk.ids


# ── wild texts: fields that are nearly numbers, quotes, blanks and ends of lines everywhere ──────────
NUMBERS = st.one_of(
    st.floats(allow_nan=False).map(repr),
    st.integers(-(10**20), 10**20).map(str),
    st.sampled_from(
        [
            "1.",
            ".5",
            "+1",
            " 2",
            "2 ",
            "\t3",
            "1e5",
            "-0",
            "007",
            "1E-3",
            "1e400",
            "1e-400",
            "inf",
            "-Inf",
            "nan",
            "NaN",
            "-NAN",
            "nan(1)",
            "NA",
            "n/A",
            " NA",
            "-",
            ".",
            "?",
            "null",
            "",
            " ",
            "-999",
            " -999",
            "1_0",
            "0x1f",
            "1,5",
            '"1"',
            '"NA"',
            '" 2"',
            '"1',
            '1"',
            '"1"2',
            "٣",
            "1\xa0",
            "true",
            "1d5",
            "e",
        ]
    ),
)
TEXTS = st.one_of(
    st.text(alphabet=" ab\",;'\r\n\t\ufeffé#-", max_size=5),
    st.sampled_from(
        ["x", "007", '"q,r"', '"a ""b"""', ' "x"', '"x" ', "", "NA", "\ufeffx", '"l\nm"', "#c"]
    ),
)
LINES = st.lists(st.tuples(TEXTS, NUMBERS, NUMBERS), min_size=1, max_size=6)
READINGS = st.builds(
    Reading,
    id=st.sampled_from([None, "id"]),
    columns=st.sampled_from([None, ("a", "b"), ("b",), ("id", "a")]),
    na_values=st.sampled_from([(), ("-999",), ("-999", "1.")]),
    decimal=st.sampled_from([".", ","]),
    delimiter=st.sampled_from([",", ";"]),
    comment=st.sampled_from([None, "#"]),
    header=st.just(True),
).filter(lambda reading: not (reading.id and "id" in (reading.columns or ())))


@settings(max_examples=300, deadline=None)
@given(
    lines=LINES,
    reading=READINGS,
    end=st.sampled_from(["\n", "\r\n", "\n\n", "\r"]),
    last=st.booleans(),
)
def test_wild_texts_have_one_outcome(tmp_path_factory, lines, reading, end, last):
    path = tmp_path_factory.mktemp("wild") / "t.csv"
    records = [["id", "a", "b"], *map(list, lines)]
    text = end.join(reading.delimiter.join(record) for record in records)
    path.write_bytes((text + end * last).encode("utf-8", "surrogatepass"))
    ours = outcome(path, reading)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(csv_arrow, "LEAST_CHARACTERS", 0)
        patch.setattr(csv_arrow, "LEAST_ROWS", 1)
        assert outcome(path, reading) == ours
        patch.setattr(csv_blocks.text_blocks, "__kwdefaults__", {"block_bytes": 9})
        cut = outcome(path, reading)
    # Of several errors, that is told which is met first: other ones in other blocks.
    assert cut == ours or (isinstance(cut, str) and isinstance(ours, str))


TAMED = {
    "numbers": ("a,b\n1,2.5\n-3e5,.5\n", {}),
    "ids": ("id,a\nr1,1\n007,2\n", {"id": "id"}),
    "quoted ids": ('id,a\n"r,1",1\n"say ""so""",2\n', {"id": "id"}),
    "missing": ("id,a,b\nx,NA,1\ny,,null\n", {"id": "id"}),
    "blanks around numbers": ("a,b\n1, 2\n 3 ,4\n", {}),
    "decimal commas": ("id;a\nx;1,5\ny;2,25\n", {"id": "id"}),
    "windows": ("id,a\r\nx,1\r\ny,2\r\n", {"id": "id"}),
    "words": ("k,a\nred,1\nblue,2\n", {}),
    "row names": (",a,b\nu,1,2\nv,3,4\n", {}),
    "a trailing delimiter": ("a,b,\n1,2,\n3,4,\n", {}),
    "values that stand for nothing": ("id,a\nx,-999\ny,2\n", {"id": "id", "na_values": ["-999"]}),
    "not ASCII": ("id,a\nné,1\nü,2\n", {"id": "id"}),
}


@pytest.mark.parametrize("case", TAMED)
def test_arrow_takes_what_is_common(case, tmp_path, counted):
    text, options = TAMED[case]
    (tmp_path / "t.csv").write_text(text, newline="")
    found = outcome(tmp_path / "t.csv", Reading(**options))
    assert counted == [True]
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, "pyarrow", None)
        assert outcome(tmp_path / "t.csv", Reading(**options)) == found


def test_rows_are_found_from_any_start(tmp_path, monkeypatch):
    monkeypatch.setattr(csv_blocks.text_blocks, "__kwdefaults__", {"block_bytes": 64})
    lines = [f'"r\n{i}",{i},{i / 7!r}' for i in range(200)]
    (tmp_path / "t.csv").write_text("id,a,b\n" + "\n".join(lines))
    table = open_table(tmp_path / "t.csv", id="id")
    whole = np.concatenate([c.numbers for c in table.chunks(1000)])
    places = [chunk.place(i) for chunk in table.chunks(1000) for i in range(len(chunk))]
    for start in (0, 1, 57, 199):
        chunks = list(table.chunks(9, start))
        assert chunks[0].start == start
        np.testing.assert_array_equal(np.concatenate([c.numbers for c in chunks]), whole[start:])
        assert [c.place(i) for c in chunks for i in range(len(c))] == places[start:]
        assert next(iter(chunks[0].ids)) == f"r\n{start}"


# ── writing ─────────────────────────────────────────────────────────────────
VALUES = st.one_of(
    st.floats(),
    st.floats(-1e8, 1e8),
    st.integers(-(10**6), 10**6).map(float),
    st.sampled_from([1e-4, 9.9e-5, 1e7, 9999999.5, 1e16, -0.0, 5e-324, 123456789012345.6]),
)
IDS = st.one_of(
    st.lists(st.integers(-(2**70), 2**70), min_size=6, max_size=6),
    st.lists(st.text(alphabet='ab ,"\r\n;é\ud800', max_size=4), min_size=6, max_size=6),
    st.lists(
        st.one_of(st.none(), st.booleans(), st.floats(), st.just("x")), min_size=6, max_size=6
    ),
)


@pytest.mark.parametrize("dtype", ["f4", "f8"])
@settings(max_examples=200, deadline=None)
@given(values=st.lists(VALUES, min_size=12, max_size=12), ids=IDS)
def test_lines_have_the_bytes_of_the_csv_module(tmp_path_factory, values, ids, dtype):
    with np.errstate(over="ignore"):
        rows = np.array(values).reshape(6, 2).astype(dtype)
    path, texts = tmp_path_factory.mktemp("written") / "t.csv", []
    for cells in (10**9, 0):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(writers, "ARROW_CELLS", cells)
            with open_writer(path, ["p", "q"], id_name="id", dtype=dtype) as writer:
                writer.write(rows, ids)
        texts.append(path.read_bytes())
    assert texts[0] == texts[1]


def test_arrow_writes_what_is_common(monkeypatch):
    monkeypatch.setattr(writers, "ARROW_CELLS", 0)
    assert writers._lines(np.array([[0.5, 1.0]]), [["r1"]], ",") == b"r1,0.5,1.0\n"
    file = io.BytesIO()
    writer = writers.Csv(file, ("a",), ("id", None), np.dtype("f8"))
    writer.write(np.array([[0.1], [2.0]]), ["u", "v"])
    assert file.getvalue() == b"id,a\nu,0.1\nv,2.0\n"
