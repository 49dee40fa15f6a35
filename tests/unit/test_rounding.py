"""Numbers that float64 does not hold are told of, once, in Python and files and at the command line."""

import warnings
from decimal import Decimal
from fractions import Fraction

import h5py
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import feather
from scipy import sparse

import mercer
import mercer.sklearn as drop_in
from markets.commands import document
from mercer.data.formats import open_table
from mercer.errors import RoundingWarning
from mercer.kernels import RBF

LONG = 2**53 + 1  # the first whole number that float64 does not hold
EVEN = 2**54 + 4  # larger, and held
X = np.random.default_rng(0).integers(-9, 9, (20, 2))


def with_value(value, dtype=np.int64):
    x = X.astype(dtype)
    x[3, 1] = value
    return x


def frame(value):
    return {"a": X[:, 0] / 4, "b": with_value(value)[:, 1]}


ROUNDED = {
    "int64": with_value(LONG),
    "negative": with_value(-LONG),
    "largest": with_value(2**63 - 1),
    "uint64": abs(with_value(LONG)).astype(np.uint64),
    "list": with_value(LONG).tolist(),
    "list of both": [[0.5, 1], *with_value(LONG).tolist()],
    "objects": with_value(LONG, object),
    "decimals": with_value(Decimal(LONG), object),
    "fractions": with_value(Fraction(LONG), object),
    "pandas": pd.DataFrame(frame(LONG)),
    "pandas, nullable": pd.DataFrame(frame(LONG)).astype({"b": "Int64"}),
    "polars": pl.DataFrame(frame(LONG)),
    "Arrow": pa.table(frame(LONG)),
    "Arrow, decimals": pa.table(
        {"b": pa.array([Decimal(int(v)) for v in with_value(LONG)[:, 1]], pa.decimal128(30, 0))}
    ),
    "CSR": sparse.csr_array(with_value(LONG)),
    "COO": sparse.coo_array(with_value(LONG)),
}
EXACT = {
    "int64": X,
    "2**53": with_value(2**53),
    "even": with_value(EVEN),
    "least": with_value(-(2**63)),
    "int8": X.astype(np.int8),
    "uint64": abs(with_value(EVEN)).astype(np.uint64),
    "booleans": X > 0,
    "float16": (X / 3).astype(np.float16),
    "float32": (X / 3).astype(np.float32),
    "large floats": X * 1e100,
    "objects": with_value(EVEN, object),
    "decimal fractions": with_value(
        Decimal("0.1"), object
    ),  # read to the nearest, as Python reads 0.1
    "pandas": pd.DataFrame(frame(EVEN)),
    "polars": pl.DataFrame(frame(EVEN)),
    "Arrow": pa.table(frame(EVEN)),
    "CSR": sparse.csr_array(with_value(EVEN)),
}


def model():
    return mercer.KernelPCA(1, kernel="linear")


def told(call):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        call()
    return [w for w in caught if issubclass(w.category, RoundingWarning)]


@pytest.mark.parametrize("kind", ROUNDED)
def test_lost_digits_are_told_once_with_their_place(kind):
    (warning,) = told(lambda: model().fit(ROUNDED[kind]))
    message = str(warning.message)
    row = 4 if kind == "list of both" else 3
    assert f"in row {row}, column" in message
    assert "is read as " in message
    assert warning.filename == __file__


@pytest.mark.parametrize("kind", EXACT)
def test_what_float64_holds_is_not_told(kind):
    assert told(lambda: model().fit(EXACT[kind])) == []


def test_long_doubles_are_told_where_they_lose_digits():
    if np.finfo(np.longdouble).nmant <= np.finfo(np.float64).nmant:
        pytest.skip("long doubles are doubles here")
    thirds, quarters = X.astype(np.longdouble) / 3, X.astype(np.longdouble) / 4
    assert len(told(lambda: model().fit(thirds))) == 1
    assert told(lambda: model().fit(quarters)) == []
    np.testing.assert_array_equal(
        model().fit(quarters).eigenvalues_, model().fit(X / 4).eigenvalues_
    )


def test_float16_is_widened_exactly():
    half = (X / 3).astype(np.float16)
    np.testing.assert_array_equal(
        model().fit(half).eigenvalues_, model().fit(half.astype(np.float64)).eigenvalues_
    )


DOORS = {
    "transform": lambda x: mercer.KernelPCA(1, kernel="linear").fit(X).transform(x),
    "partial_fit": lambda x: mercer.IncrementalKernelPCA(1, kernel="linear").partial_fit(x),
    "batches": lambda x: model().fit(lambda: iter([X, x])),
    "kernel": RBF(1e-9),
    "check_kernel": lambda x: mercer.check_kernel(RBF(1e-9), x),
    "drop-in": lambda x: drop_in.KernelPCA(1).fit(x),
    "weights": lambda x: model().fit(X, sample_weight=abs(x[:, 1]) + (x[:, 1] == 0)),
}


@pytest.mark.parametrize("door", DOORS)
def test_every_door_tells(door):
    assert len(told(lambda: DOORS[door](with_value(LONG)))) == 1
    assert told(lambda: DOORS[door](X)) == []


# ── files ───────────────────────────────────────────────────────────────────
def csv(path, value, beside=""):
    rows = "".join(f"{a / 4},{b}{beside}\n" for a, b in with_value(value))
    path.write_text(f"a,b{',w' if beside else ''}\n{rows}")


def hdf5(path, value):
    with h5py.File(path, "w") as file:
        file["x"] = with_value(value)


FILES = {
    ".csv": csv,
    "words.csv": lambda path, value: csv(path, value, ",word"),
    ".npy": lambda path, value: np.save(path, with_value(value)),
    ".npz": lambda path, value: np.savez(path, X=with_value(value)),
    ".parquet": lambda path, value: pq.write_table(pa.table(frame(value)), path),
    ".arrow": lambda path, value: feather.write_feather(pa.table(frame(value)), path),
    ".h5": hdf5,
}


@pytest.mark.parametrize("kind", FILES)
def test_files_tell_once_however_often_they_are_read(kind, tmp_path):
    FILES[kind](tmp_path / f"rows{kind}", LONG)
    table = open_table(tmp_path / f"rows{kind}")

    def read():
        for _ in range(2):
            for _ in table.chunks(4):
                pass

    (warning,) = told(read)
    place = "line 5" if kind.endswith("csv") else "row 3"
    assert f"{LONG} in {place}, column" in str(warning.message)
    FILES[kind](tmp_path / f"exact{kind}", EVEN)
    assert told(lambda: list(open_table(tmp_path / f"exact{kind}").chunks(4))) == []


def test_texts_that_are_no_whole_numbers_are_read_to_the_nearest(tmp_path):
    (tmp_path / "x.csv").write_text("a,b\n9007199254740993.0,1e23\n0.1,12345678901234567e3\n")
    assert told(lambda: list(open_table(tmp_path / "x.csv").chunks(4))) == []


@pytest.mark.parametrize("kind", [".npy", ".parquet"])
def test_a_path_tells_in_python_too(kind, tmp_path):
    FILES[kind](tmp_path / f"rows{kind}", LONG)
    (warning,) = told(lambda: model().fit(tmp_path / f"rows{kind}"))
    assert f"{LONG} in row 3, column 1" in str(warning.message)


def test_the_command_line_tells(tmp_path):
    csv(tmp_path / "x.csv", LONG)
    told = document("fit", tmp_path / "x.csv", "-k", "1", "-o", tmp_path / "m.mercer")
    assert str(LONG) in " ".join(told["warnings"])
