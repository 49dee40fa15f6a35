"""The small table: columns of one length, printed and read."""

import numpy as np
import pytest

from mercer._core.errors import InputError
from mercer._core.table import SHOWN, Table


def test_columns_and_rows_are_the_same_values():
    table = Table({"a": [1, 2, 3], "b": ["x", "y", "z"], "c": [["p", "q"], ["r"], []]})
    assert table.columns == ["a", "b", "c"]
    assert list(table)[1] == {"a": 2, "b": "y", "c": ("r",)}
    assert len(table) == 3
    assert list(table.take(table["a"] > 1)["b"]) == ["y", "z"]


def test_a_table_owns_its_columns():
    values = np.arange(3.0)
    table = Table({"a": values})
    values[0] = 9.0
    assert table["a"][0] == 0.0
    with pytest.raises(ValueError, match="read-only"):
        table["a"][0] = 1.0


def test_long_tables_are_cut_in_the_middle():
    text = str(Table({"i": np.arange(100)}))
    assert len(text.splitlines()) == SHOWN + 2
    assert "… 80 more rows" in text
    assert text.splitlines()[-1].strip() == "99"


def test_columns_of_two_lengths_are_refused():
    with pytest.raises(InputError, match="one length"):
        Table({"a": [1], "b": [1, 2]})


def test_an_unknown_column_is_answered_with_the_known_ones():
    with pytest.raises(InputError, match="error"):
        Table({"error": [1.0]})["eror"]


def test_a_data_frame_has_the_same_columns():
    frame = Table({"a": [1.5, 2.5], "b": ["x", "y"]}).to_pandas()
    assert list(frame.columns) == ["a", "b"]
    assert frame["a"].tolist() == [1.5, 2.5]


def test_an_empty_table_prints_its_names():
    assert str(Table({"a": [], "b": []})) == "a  b"


def test_values_stay_what_they_are():
    assert list(Table({"a": [1, "x", None]})["a"]) == [1, "x", None]
    assert Table({"a": [1, 2.5]})["a"].dtype == np.float64


@pytest.mark.parametrize("column", ["xyz", 3, (i for i in range(3)), np.ones((2, 2))])
def test_what_is_no_column_is_refused(column):
    with pytest.raises(InputError, match="one for each row"):
        Table({"a": column})
