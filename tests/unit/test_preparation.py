"""Preparation of rows: what scikit-learn does in memory, done in chunks, said, and done again to new rows."""

import io
import sys

import numpy as np
import pandas as pd
import pytest
from sklearn.compose import ColumnTransformer
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

import mercer
from mercer._core.errors import DataError, InputError, MemoryBudgetError
from mercer.data import view
from mercer.data.csv import blocks as csv_blocks
from mercer.data.csv.table import CsvTable
from mercer.data.formats import open_table
from mercer.data.npy import MappedRows
from mercer.data.rows import RowSource
from mercer.data.sources import as_source
from mercer.data.table import Chunk, Reading
from mercer.engine.moments import ColumnMoments
from mercer.model.checkpoint import digest
from mercer.preprocessing.align import learned_rows, matched, prepared_rows
from mercer.preprocessing.lines import LineReader
from mercer.preprocessing.preparation import Preparation

PLENTY = 10**9


@pytest.fixture
def measured(rng):
    """Columns of every size, far from zero and near it, one constant; some values are missing."""
    x = rng.standard_normal((500, 5)) * [1.0, 1e-6, 1e6, 0.0, 3.0] + [0.0, 1.0, 1e9, 0.1, -7.0]
    frame = pd.DataFrame(x, columns=list("abcde"))
    frame["kind"] = rng.choice(["red", "green", "blue"], 500)
    return frame


def with_gaps(frame, rng):
    frame = frame.copy()
    for name in "abe":
        frame.loc[rng.random(len(frame)) < 0.1, name] = np.nan
    return frame


def filed(folder, frame, name="t.csv", **kwargs):
    frame.to_csv(folder / name, index=False, **kwargs)
    return folder / name


@pytest.fixture(params=[2000, 2**20], ids=["many blocks", "one block"])
def cut(request, monkeypatch):
    """How the file is cut into blocks and chunks must not matter."""
    monkeypatch.setattr(csv_blocks.text_blocks, "__kwdefaults__", {"block_bytes": request.param})
    monkeypatch.setattr(view, "CHUNK_BYTES", 10 * request.param)


IMPUTERS = {
    None: "passthrough",
    "mean": SimpleImputer(strategy="mean"),
    "median": SimpleImputer(strategy="median"),
    "zero": SimpleImputer(strategy="constant", fill_value=0.0),
}


@pytest.mark.usefixtures("cut")
@pytest.mark.parametrize("impute", IMPUTERS)
@pytest.mark.parametrize("scale", ["standard", "none"])
def test_rows_are_prepared_as_by_scikit_learn(scale, impute, measured, tmp_path, rng):
    frame = measured if impute is None else with_gaps(measured, rng)
    table = open_table(filed(tmp_path, frame))
    preparation, _ = Preparation.learn(table, scale=scale, impute=impute, one_hot=True)
    rows = prepared_rows(table, preparation, memory_bytes=PLENTY).rows
    steps = make_pipeline(
        IMPUTERS[impute], StandardScaler() if scale == "standard" else "passthrough"
    )
    reference = ColumnTransformer(
        [("n", steps, list("abcde")), ("k", OneHotEncoder(sparse_output=False), ["kind"])]
    )
    expected = reference.fit_transform(frame)
    # The mean of 'b' is a million times its spread, and scikit-learn's is rounded twice.
    np.testing.assert_allclose(rows, expected, rtol=1e-9, atol=1e-9)
    names = [
        name.split("__")[1].replace("kind_", "kind=") for name in reference.get_feature_names_out()
    ]
    assert list(preparation.features) == names
    raw = np.where(frame[list("abcde")].isna(), 0.0, preparation.unscaled(rows)[:, :5])
    np.testing.assert_allclose(raw, frame[list("abcde")].fillna(0.0), rtol=1e-12)


def test_center_and_spread_are_those_of_scikit_learn_to_the_last_digits(measured, tmp_path):
    table = open_table(filed(tmp_path, measured), Reading(label="kind"))
    preparation, notes = Preparation.learn(table)
    scaler = StandardScaler().fit(measured[list("abcde")])
    np.testing.assert_allclose(preparation.center, scaler.mean_, rtol=1e-12)
    np.testing.assert_allclose(preparation.spread, scaler.scale_, rtol=1e-12)
    assert notes == ("standardised 4 columns", "constant, only centred: 'd'")


@pytest.mark.parametrize("cuts", [[500], [1, 499], [100] * 5, [1] * 500])
def test_moments_do_not_depend_on_the_blocks(cuts, measured):
    x = measured[list("abcde")].to_numpy()
    moments = ColumnMoments.empty(x[0])
    for block in np.split(x, np.cumsum(cuts)[:-1]):
        moments = moments.merged(ColumnMoments.of(block, None, x[0]))
    exact = np.array(x, dtype=np.longdouble)
    np.testing.assert_allclose(
        moments.mean, exact.mean(axis=0).astype(float), rtol=1e-14, atol=1e-15
    )
    spread = np.sqrt(((exact - exact.mean(axis=0)) ** 2).mean(axis=0)).astype(float)
    np.testing.assert_allclose(moments.spread(), spread, rtol=1e-13, atol=1e-15)


def test_the_same_rows_are_prepared_alike_to_the_last_bit_whatever_file_they_are_in(
    measured, tmp_path, rng, monkeypatch
):
    monkeypatch.setattr(csv_blocks.text_blocks, "__kwdefaults__", {"block_bytes": 3000})
    monkeypatch.setattr(view, "CHUNK_BYTES", 5000)
    frame = with_gaps(measured, rng)[list("abcde")]
    frame.to_parquet(tmp_path / "t.parquet")
    np.save(tmp_path / "t.npy", frame.to_numpy())
    files = [filed(tmp_path, frame), tmp_path / "t.parquet", tmp_path / "t.npy"]
    learned = [Preparation.learn(open_table(file, Reading()), impute="mean")[0] for file in files]
    for one in learned[1:]:
        for name in ("center", "spread", "fills"):
            np.testing.assert_array_equal(getattr(one, name), getattr(learned[0], name))


def test_columns_far_from_zero_that_move_are_scaled(tmp_path, rng):
    """However many rows there are: scikit-learn's bound would take these for constants."""
    x = rng.standard_normal((3000, 4)) * [1.0, 1e-11, 0.0, 0.0] + [1e12, 1.0, 0.1, 1e300]
    x[7, 2] = np.nextafter(0.1, 1.0)
    np.save(tmp_path / "x.npy", x)
    preparation, notes = Preparation.learn(open_table(tmp_path / "x.npy", Reading()))
    exact = np.array(x, dtype=np.longdouble)[:, :2]
    spread = np.sqrt(((exact - exact.mean(axis=0)) ** 2).mean(axis=0)).astype(float)
    np.testing.assert_allclose(preparation.spread[:2], spread, rtol=1e-9)
    assert notes == ("standardised 2 columns", "constant, only centred: 'x2', 'x3'")


def test_large_values_whose_sum_is_none_are_not_missing(tmp_path):
    x = np.repeat([1.7e308, -1.7e308], 1000)[:, None] * [1.0, 0.5]
    np.save(tmp_path / "x.npy", x)
    table = open_table(tmp_path / "x.npy", Reading())
    preparation, _ = Preparation.learn(table, scale="none")
    np.testing.assert_array_equal(prepared_rows(table, preparation, memory_bytes=PLENTY).rows, x)


def test_everything_that_is_done_is_said(measured, tmp_path, rng):
    frame = with_gaps(measured, rng)
    table = open_table(filed(tmp_path, frame), Reading(columns=("a", "b", "d", "kind")))
    preparation, notes = Preparation.learn(table, impute="mean", one_hot=True)
    count = int(frame[["a", "b"]].isna().sum().sum())
    assert notes == (
        "left out: 'c', 'e'",
        f"{count} values imputed by the column mean in columns 'a', 'b'",
        "one-hot: 'kind' as 3 columns",
        "standardised 2 columns",
        "constant, only centred: 'd'",
        "columns of 0 and 1 are not scaled: 3",
    )
    assert prepared_rows(table, preparation, memory_bytes=PLENTY).notes == ()
    again = open_table(tmp_path / "t.csv")
    assert prepared_rows(again, preparation, memory_bytes=PLENTY).notes == (
        "columns that the model does not use, left out: 'c', 'e'",
        f"{count} missing values imputed in columns 'a', 'b'",
    )


def test_a_column_without_a_name_is_spoken_of_once(tmp_path):
    (tmp_path / "t.csv").write_text("a,b,\n1,2,\n3,5,\n")
    frame = pd.DataFrame({"a": [1.0, 3.0], "b": [2.0, 5.0]}, index=["u", "v"])
    frame.to_parquet(tmp_path / "t.parquet")
    for file in ("t.csv", "t.parquet"):
        _, notes = Preparation.learn(open_table(tmp_path / file))
        assert len(notes) == 2, notes
        assert notes[1] == "standardised 2 columns"


REFUSED = {
    "words": ("a,k\n1,u\n2,v\n", {}, r"'k' has words \('u' in line 2\).*`one_hot=True`"),
    "a word among numbers": ("a,k\n1,1\n2,v\n", {}, r"'v' in line 3; 1 of the 2 values looked at"),
    "a missing value": (
        "a,b\n1,\n2,NA\n",
        {},
        r"2 values are missing, the first in line 2, column 'b'.*`impute='mean'`",
    ),
    "a missing word": (
        "a,k\n1,u\n2,\n",
        {"one_hot": True, "impute": "mean"},
        "'k'.*missing value in line 3",
    ),
    "a column of nothing": (
        "a,b\n1,\n2,\n",
        {"impute": "mean"},
        "'b' has no values, so it has no mean",
    ),
    "names": (
        "a,k\n" + "".join(f"1,w{i}\n" for i in range(1200)),
        {"one_hot": True},
        "names, not categories",
    ),
    "values beyond scaling": ("a\n1e200\n-1e200\n", {}, "'a'.*variance is not finite"),
    "days": (
        "a,day\n" + "".join(f"1,2024-01-{i:02}\n" for i in range(1, 30)),
        {"one_hot": True},
        "'day' has dates, such as '2024-01-01'.*29 columns.*`id='day'`",
    ),
    "nothing left": ("a\n1\n", {"reading": Reading(id="a")}, "no column left"),
    "an unknown scale": ("a\n1\n", {"scale": "robust"}, "scale must be one of.*; got 'robust'"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_can_not_be_prepared_is_refused_with_its_place(name, tmp_path):
    text, options, said = REFUSED[name]
    (tmp_path / "t.csv").write_text(text)
    reading = options.pop("reading", Reading()) if "reading" in options else Reading()
    with pytest.raises(InputError, match=said):
        Preparation.learn(open_table(tmp_path / "t.csv", reading), **options)


def test_missing_values_of_new_rows_are_counted_before_they_are_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(view, "CHUNK_BYTES", 64)
    (tmp_path / "t.csv").write_text("a,b\n" + "1,2\n" * 20 + "1,\n" * 30)
    table = open_table(tmp_path / "t.csv")
    with pytest.raises(
        InputError, match=r"30 values are missing, the first in line 22, column 'b'"
    ):
        prepared_rows(table, Preparation(("a", "b")), memory_bytes=PLENTY)


@pytest.mark.parametrize("impute", IMPUTERS)
def test_a_file_of_words_alone_is_prepared(impute, tmp_path):
    (tmp_path / "t.csv").write_text("k\nu\nv\n")
    table = open_table(tmp_path / "t.csv")
    preparation, _ = Preparation.learn(table, impute=impute, one_hot=True)
    assert prepared_rows(table, preparation, memory_bytes=PLENTY).rows.tolist() == [[1, 0], [0, 1]]


def test_a_median_that_would_not_fit_is_refused_and_columns_take_turns(tmp_path, measured):
    table = open_table(filed(tmp_path, measured), Reading(label="kind"))
    one_column = 2 * 8 * 500
    narrow, _ = Preparation.learn(table, impute="median", memory_bytes=one_column)
    wide, _ = Preparation.learn(table, impute="median", memory_bytes=PLENTY)
    np.testing.assert_array_equal(narrow.fills, wide.fills)
    np.testing.assert_array_equal(wide.fills, measured[list("abcde")].median())
    with pytest.raises(MemoryBudgetError, match="`impute='mean'`"):
        Preparation.learn(table, impute="median", memory_bytes=one_column - 1)


# ── new files ───────────────────────────────────────────────────────────────
@pytest.fixture
def known():
    return Preparation(("x", "y"), (("kind", ("blue", "red")),), id="id", label="group")


def test_columns_are_found_by_name_in_any_order(known, tmp_path):
    text = "group,kind,extra,y,id,x\ng,red,9,2,007,1\n"
    (tmp_path / "t.csv").write_text(text)
    found = prepared_rows(open_table(tmp_path / "t.csv"), known, memory_bytes=PLENTY)
    assert found.rows.tolist() == [[1.0, 2.0, 0.0, 1.0]]
    assert (list(found.ids), list(found.labels)) == (["007"], ["g"])
    assert (found.id_name, found.label_name) == ("id", "group")
    assert found.notes == ("columns that the model does not use, left out: 'extra'",)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("x,Y,kind\n1,2,red\n", r"lacks the column 'y'.*Did you mean 'Y'"),
        ("x,y,kind\n1,2,green\n", r"'green' in line 2.*none of the 2 categories"),
        ("x,y,kind\n1,2,\n", r"a missing value in line 2"),
        ("x,y,kind\n1,two,red\n", r"'two' is not a number, in line 2, column 'y'"),
        ("1,2,3\n", "has no names, but the model needs columns of words"),
        ("1,2\n", "has 2 columns of features, but the model was fitted to 3"),
    ],
)
def test_new_rows_that_do_not_fit_are_refused(text, said, known, tmp_path):
    (tmp_path / "t.csv").write_text(text)
    with pytest.raises(InputError, match=said):
        prepared_rows(open_table(tmp_path / "t.csv"), known, memory_bytes=PLENTY)


def test_categories_that_look_like_numbers_stay_words(tmp_path):
    (tmp_path / "t.csv").write_text("a,k\n1,1\n2,2\n")
    preparation = Preparation(("a",), (("k", ("1", "2", "x")),))
    found = prepared_rows(open_table(tmp_path / "t.csv"), preparation, memory_bytes=PLENTY)
    assert found.rows.tolist() == [[1.0, 1.0, 0.0, 0.0], [2.0, 0.0, 1.0, 0.0]]


def test_without_names_columns_are_matched_by_position(tmp_path):
    (tmp_path / "named.csv").write_text("p,q\n1,2\n")
    np.save(tmp_path / "plain.npy", [[1.0, 2.0]])
    for names, file in ((("x0", "x1"), "named.csv"), (("p", "q"), "plain.npy")):
        found = prepared_rows(open_table(tmp_path / file), Preparation(names), memory_bytes=PLENTY)
        assert found.rows.tolist() == [[1.0, 2.0]]
        assert "matched by position" in found.notes[0]
    with pytest.raises(InputError, match=r"2 columns of features.*fitted to 3"):
        matched(open_table(tmp_path / "plain.npy"), Preparation(("x0", "x1", "x2")))


@pytest.mark.parametrize(
    ("here", "there", "refused"),
    [
        ("K,bar", "K,kPa", True),
        ("K,mW", "K,MW", True),
        ("K,bar", "K,bar", False),
        ("K,bar", "K,", False),
        ("K,", "K,kPa", False),
        ("K,-", "K,kPa", False),
        (None, "K,kPa", False),
        ("K,bar", None, False),
    ],
)
def test_units_that_differ_from_those_of_the_fit_are_refused(here, there, refused, tmp_path):
    for file, units in (("fit.csv", there), ("new.csv", here)):
        line = "" if units is None else f"{units}\n"
        (tmp_path / file).write_text(f"t,p\n{line}1,2\n3,4\n5,7\n")
    preparation, _ = Preparation.learn(open_table(tmp_path / "fit.csv"))
    table = open_table(tmp_path / "new.csv")
    if not refused:
        assert prepared_rows(table, preparation, memory_bytes=PLENTY).rows.shape == (3, 2)
        return
    ours, theirs = there.partition(",")[2], here.partition(",")[2]
    said = (
        rf"new\.csv': column 'p' is in '{theirs}', but .* fitted to '{ours}'\. Convert .* '{ours}'"
    )
    with pytest.raises(DataError, match=said) as caught:
        matched(table, preparation)
    assert (caught.value.parameter, caught.value.value) == ("X", theirs)


def test_units_are_those_of_the_columns_that_are_used_and_kept_with_the_model(tmp_path):
    (tmp_path / "fit.csv").write_text("id,p,kind,t\n,kPa,,K\na,2,u,1\nb,4,v,3\nc,6,v,8\n")
    table = open_table(tmp_path / "fit.csv", id="id", columns=["t", "p", "kind"])
    preparation, _ = Preparation.learn(table, one_hot=True)
    assert preparation.units == ("K", "kPa")
    sheet = prepared_rows(table, preparation, memory_bytes=PLENTY)
    mercer.Prepared(preparation, mercer.PCA(1).fit(sheet.rows)).save(tmp_path / "m.mercer")
    assert mercer.load(tmp_path / "m.mercer").preparation.units == ("K", "kPa")


def test_a_stream_says_that_one_column_names_its_rows():
    reader = LineReader(Preparation(("x",)), Reading(id="part,date"), "the lines")
    with pytest.raises(DataError, match=r"`id` takes one column: name 'part' or 'date'\."):
        reader(["part,date,x", "a,b,1"], fresh=True)


def test_other_units_are_refused_in_a_stream_and_end_none_that_has_begun():
    preparation = Preparation(("t", "p"), units=("K", "kPa"))
    reader = LineReader(preparation, Reading(), "the lines")
    with pytest.raises(DataError, match="the lines: column 'p' is in 'bar', but"):
        reader(["t,p", "K,bar", "1,2"], fresh=True)
    reader = LineReader(preparation, Reading(), "the lines")
    assert reader(["t,p", "K,kPa", "1,2"], fresh=True).rows.tolist() == [[1.0, 2.0]]
    found = reader(["t,p", "K,bar", "1,2"], fresh=True)
    assert np.isnan(found.rows).all()
    assert "column 'p' is in 'bar', but the model was fitted to 'kPa'" in found.bad[0]
    assert reader.notes[-1] == f"{found.bad[0]}: its rows are not judged"
    assert reader(["t,p", ",kPa", "3,4"], fresh=True).rows.tolist() == [[3.0, 4.0]]


# ── where rows are kept ─────────────────────────────────────────────────────
def test_rows_in_memory_and_read_anew_for_every_pass_are_the_same(measured, tmp_path, monkeypatch):
    monkeypatch.setattr(view, "CHUNK_BYTES", 4000)
    monkeypatch.setattr(csv_blocks.text_blocks, "__kwdefaults__", {"block_bytes": 2000})
    table = open_table(filed(tmp_path, measured), Reading(label="kind", id="a"))
    preparation, _ = Preparation.learn(table)
    held = prepared_rows(table, preparation, memory_bytes=PLENTY)
    lazy = prepared_rows(table, preparation, memory_bytes=500 * 4 * 8)
    assert isinstance(lazy.rows, RowSource)
    assert "read anew for every pass" in lazy.notes[-1]
    assert as_source(lazy.rows) is lazy.rows
    np.testing.assert_array_equal(lazy.rows[:], held.rows)
    np.testing.assert_array_equal(lazy.rows[np.array([3, 4, 450])], held.rows[[3, 4, 450]])
    for height in (1, 7, 1000):
        blocks = list(lazy.rows.blocks(height))
        np.testing.assert_array_equal(np.concatenate([rows for _, rows in blocks]), held.rows)
        assert all(np.array_equal(held.rows[i], rows) for i, rows in blocks)
    np.testing.assert_array_equal(lazy.labels, measured["kind"])
    np.testing.assert_allclose(lazy.raw(slice(3)), measured[list("bcde")][:3], rtol=1e-12)
    assert lazy.digest == held.digest


@pytest.mark.parametrize("options", [{}, {"impute": "median"}, {"impute": "mean", "one_hot": True}])
def test_a_file_that_fits_in_memory_is_read_once(options, measured, tmp_path, rng, monkeypatch):
    monkeypatch.setattr(view, "CHUNK_BYTES", 4000)
    frame = with_gaps(measured, rng) if options else measured
    reading = Reading() if "one_hot" in options else Reading(label="kind")
    path, passes, real = filed(tmp_path, frame), [], CsvTable._chunks

    def chunks(self, height, start):
        passes.append(height)
        return real(self, height, start)

    monkeypatch.setattr(CsvTable, "_chunks", chunks)
    sheet, notes = learned_rows(open_table(path, reading), memory_bytes=PLENTY, **options)
    assert len(passes) == 1
    apart, said = Preparation.learn(open_table(path, reading), **options)
    again = prepared_rows(open_table(path, reading), apart, memory_bytes=PLENTY)
    np.testing.assert_array_equal(sheet.rows, again.rows)
    assert (sheet.digest, notes) == (again.digest, said)
    assert list(sheet.preparation.features) == list(apart.features)
    big = learned_rows(open_table(path, reading), memory_bytes=10_000, **options)[0]
    np.testing.assert_array_equal(big.rows[:], again.rows)


def test_the_digest_is_that_of_the_rows_as_the_file_has_them(measured, tmp_path, monkeypatch):
    monkeypatch.setattr(view, "CHUNK_BYTES", 4000)
    x = measured[list("abcde")].to_numpy()
    table = open_table(filed(tmp_path, measured), Reading(label="kind"))
    preparation, _ = Preparation.learn(table)
    assert prepared_rows(table, preparation, memory_bytes=PLENTY).digest == digest(x)


def test_a_large_npy_file_to_which_nothing_is_done_is_used_where_it_lies(tmp_path, rng):
    x = rng.standard_normal((200, 4)).astype(np.float32)
    np.save(tmp_path / "t.npy", x)
    table = open_table(tmp_path / "t.npy")
    preparation, _ = Preparation.learn(table, scale="none")
    found = prepared_rows(table, preparation, memory_bytes=x.nbytes)
    assert isinstance(found.rows, MappedRows)
    np.testing.assert_array_equal(found.rows[:], x)
    assert (found.rows.dtype, found.digest) == (np.float32, digest(x))
    scaled, _ = Preparation.learn(table)
    rows = prepared_rows(table, scaled, memory_bytes=PLENTY).rows
    assert rows.dtype == np.float32
    lazy = prepared_rows(table, scaled, memory_bytes=x.nbytes).rows
    assert lazy.random_access
    np.testing.assert_array_equal(lazy[np.array([0, 3, 150])], rows[[0, 3, 150]])
    np.testing.assert_allclose(rows, StandardScaler().fit_transform(x.astype(float)), atol=1e-6)
    x[150, 2] = np.nan
    np.save(tmp_path / "t.npy", x)
    with pytest.raises(InputError, match=r"1 value is missing, the first in row 150.*'x2'"):
        prepared_rows(open_table(tmp_path / "t.npy"), preparation, memory_bytes=x.nbytes)


def test_a_full_temporary_folder_is_said(monkeypatch):
    class Full(io.BytesIO):
        def write(self, _):
            raise OSError(28, "No space left on device")

    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"a\n1\n")))
    Full.name = "t"
    monkeypatch.setattr("mercer.data.files.tempfile.NamedTemporaryFile", lambda **_: Full())
    with pytest.raises(OSError, match=r"read from the pipe.*No space left.*TMPDIR"):
        open_table("-")


def test_inputs_are_left_as_they_are(rng):
    x = rng.standard_normal((5, 2))
    x[2, 1] = np.nan
    x.flags.writeable = False
    preparation = Preparation(
        ("a", "b"), fills=np.array([1.0, 2.0]), center=np.ones(2), spread=np.ones(2)
    )
    assert preparation(Chunk(0, x, {}))[2, 1] == 1.0
    assert np.isnan(x[2, 1])
