"""Times as people write them: read in the one way that fits, or not at all."""

import numpy as np
import pandas as pd
import pytest

import mercer
from mercer.data.times import as_times
from mercer.errors import InputError
from mercer.preprocessing.align import learned_rows

READ = {
    "ISO": (["2024-01-31", "2024-02-01"], None),
    "ISO with a clock": (["2024-01-31 10:30", "2024-02-01T11:00:00.5"], "ISO8601"),
    "ISO with a zone": (["2024-01-31T10:30+02:00", "2024-02-01T10:30Z"], "ISO8601"),
    "days first": (["31.01.2024 10:30", "01.02.2024 11:00"], "%d.%m.%Y %H:%M"),
    "slashes": (["2024/01/31", "2024/02/01"], "%Y/%m/%d"),
    "American": (["01/31/2024 10:30 PM", "02/01/2024 01:00 AM"], "%m/%d/%Y %I:%M %p"),
    "days first, by one of them": (["01/02/2024", "31/01/2024"], "%d/%m/%Y"),
    "names of months": (["31-Jan-2024", "01-Feb-2024"], "%d-%b-%Y"),
}


@pytest.mark.parametrize("case", READ)
def test_times_are_what_pandas_reads(case):
    texts, form = READ[case]
    zone = "zone" in case
    expected = pd.to_datetime(texts, format=form, utc=zone).tz_localize(None)
    np.testing.assert_array_equal(as_times(texts), expected.to_numpy().astype("M8[us]"))


@pytest.mark.parametrize(
    "texts",
    [
        *(["a", "b"], ["2024-01-31", "x"], ["01/02/2024", "03/04/2024"], ["17", "18"], [], ["1.5"]),
        ["2024-01-31 10:00", "2024-01-31 10:00+02:00"],  # two hours apart, or none
        ["2024-01-31T10:00Z", "9999-12-31T23:59-05:00"],  # beyond the calendar
    ],
)
def test_what_is_not_clear_is_not_guessed(texts):
    assert as_times(texts) is None


def test_a_format_decides_and_is_held_to(tmp_path):
    found = as_times(["01/02/2024", "03/04/2024"], "%d/%m/%Y").astype("M8[D]")
    assert list(map(str, found)) == ["2024-02-01", "2024-04-03"]
    (tmp_path / "t.csv").write_text("t,a\n01/02/2024,1\n2024-05-01,2\n")
    table = mercer.open_table(tmp_path / "t.csv", id="t", time_format="%d/%m/%Y")
    with pytest.raises(InputError, match=r"row 1 .*'2024-05-01'.*'%d/%m/%Y'") as caught:
        learned_rows(table, memory_bytes=10**8)
    assert caught.value.parameter == "time_format"
    with pytest.raises(InputError, match="no column of times is named"):
        mercer.open_table(tmp_path / "t.csv", columns=["a"], time_format="%d/%m/%Y")
    (tmp_path / "t.csv").write_text("t,a\n01/02/2024,1\n13/02/2024,2\n")
    sheet, _ = learned_rows(mercer.open_table(tmp_path / "t.csv", id="t"), memory_bytes=10**8)
    assert list(sheet.ids) == ["01/02/2024", "13/02/2024"]
    assert str(sheet.times[1].astype("M8[D]")) == "2024-02-13"
