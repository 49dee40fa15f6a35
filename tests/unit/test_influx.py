"""InfluxDB line protocol: lines of the published grammar, round trips, refusals, and points as rows."""

from __future__ import annotations

import re
from contextlib import suppress

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from mercer._core.errors import DataError
from mercer.data.influx import Point, as_text, guess_precision, parse_point
from mercer.data.table import Reading
from mercer.preprocessing.influx import InfluxReader, RowReader
from mercer.preprocessing.preparation import Preparation


def format_point(point):
    """The line of a point."""
    head = re.sub(r"([, ])", r"\\\1", point.measurement)
    tags = "".join(f",{escaped(name)}={escaped(value)}" for name, value in point.tags.items())
    fields = ",".join(f"{escaped(name)}={written(value)}" for name, value in point.fields.items())
    return f"{head}{tags} {fields}" + ("" if point.time is None else f" {point.time}")


def escaped(text):
    return re.sub(r"([,= ])", r"\\\1", text)


def written(value):
    if isinstance(value, str):
        return '"' + re.sub(r'(["\\])', r"\\\1", value) + '"'
    if isinstance(value, bool):
        return str(value).lower()
    return f"{value}i" if isinstance(value, int) else repr(value)


def test_points_are_written_with_what_has_to_be_escaped():
    point = Point("a b", {"x": 1.5, "n": 2, "ok": True, "s": 'say "no"'}, {"k": "1,2"}, 7)
    assert format_point(point) == 'a\\ b,k=1\\,2 x=1.5,n=2i,ok=true,s="say \\"no\\"" 7'
    assert parse_point(format_point(point)) == point


# Lines of the reference of InfluxDB's line protocol, with what it says of each.
PUBLISHED = [
    (
        'myMeasurement,tag1=value1,tag2=value2 fieldKey="fieldValue" 1556813561098000000',
        Point(
            "myMeasurement",
            {"fieldKey": "fieldValue"},
            {"tag1": "value1", "tag2": "value2"},
            1556813561098000000,
        ),
    ),
    ("myMeasurement fieldKey=1.0", Point("myMeasurement", {"fieldKey": 1.0})),
    ("myMeasurement fieldKey=1", Point("myMeasurement", {"fieldKey": 1.0})),
    ("myMeasurement fieldKey=-1.234456e+78", Point("myMeasurement", {"fieldKey": -1.234456e78})),
    ("myMeasurement fieldKey=12485903i", Point("myMeasurement", {"fieldKey": 12485903})),
    ("myMeasurement fieldKey=-12485903i", Point("myMeasurement", {"fieldKey": -12485903})),
    ("myMeasurement fieldKey=12485903u", Point("myMeasurement", {"fieldKey": 12485903})),
    *(
        (f"m a={word}", Point("m", {"a": value}))
        for value, words in (
            (True, ("t", "T", "true", "True", "TRUE")),
            (False, ("f", "F", "false", "False", "FALSE")),
        )
        for word in words
    ),
    # Spaces and commas in measurements, keys and tag values.
    (r"my\ Measurement fieldKey=1", Point("my Measurement", {"fieldKey": 1.0})),
    (r"my\,measurement a=1", Point("my,measurement", {"a": 1.0})),
    (
        r'myMeasurement,tagKey1=tag\ Value1,tag\ Key2=tagValue2 fieldKey="x"',
        Point(
            "myMeasurement", {"fieldKey": "x"}, {"tagKey1": "tag Value1", "tag Key2": "tagValue2"}
        ),
    ),
    (r"m,k\=1=a\,b f\,1\==2", Point("m", {"f,1=": 2.0}, {"k=1": "a,b"})),
    # An equals sign in a measurement is no sign at all; in texts nothing is but the quote.
    ("m=1 a=1", Point("m=1", {"a": 1.0})),
    (r'm a="string, with = and spaces"', Point("m", {"a": "string, with = and spaces"})),
    (r'm a="\"string\" within a string"', Point("m", {"a": '"string" within a string'})),
    (r'm a="\ \," 5', Point("m", {"a": r"\ \,"}, time=5)),
    # Backslashes of the reference: one and two both stay one in a text, and before letters they stay.
    (
        r'm a="this field has a backslash \ in it"',
        Point("m", {"a": "this field has a backslash \\ in it"}),
    ),
    (r'm a="C:\\logs"', Point("m", {"a": r"C:\logs"})),
    (r"m,path=C:\logs a=1", Point("m", {"a": 1.0}, {"path": r"C:\logs"})),
    ("m\N{SNOWMAN},t\N{FIRE}=x f=1", Point("m\N{SNOWMAN}", {"f": 1.0}, {"t\N{FIRE}": "x"})),
    ("m a=1 -1", Point("m", {"a": 1.0}, time=-1)),
    ("m  a=1   7 ", Point("m", {"a": 1.0}, time=7)),
]


@pytest.mark.parametrize(
    ("line", "point"), PUBLISHED, ids=lambda x: x if isinstance(x, str) else ""
)
def test_lines_of_the_published_grammar(line, point):
    assert parse_point(line) == point
    kinds = [type(value) for value in parse_point(line).fields.values()]
    assert kinds == [type(value) for value in point.fields.values()]


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("", "a measurement"),
        ("time,flow,heat", "a tag, as name=value"),
        ("1.0,2.0", "a tag, as name=value"),
        ("m", "a space and then fields"),
        ("m ", "a field, as name=value"),
        ("m a", "a field, as name=value"),
        ("m a=", "a number"),
        ("m a=1.2.3", "a number"),
        ("m a=1x", "a number"),
        ("m a=-1u", "a number"),
        ("m a=nan", "a number"),
        ("m a=Bad", "a number"),
        ('m a="open', "ends with a quote"),
        ("m a='x'", "a number"),
        ("m a=1,", "a field, as name=value"),
        ("m,t= a=1", "the value of a tag"),
        ("m,t a=1", "a tag, as name=value"),
        ("m a=1 1.5", "a whole number as the time"),
        ("m a=1 12 13", "a whole number as the time"),
        ('m a="x"5', "a whole number as the time"),
    ],
)
def test_what_is_no_point_is_refused_with_the_place(line, words):
    with pytest.raises(DataError, match="not line protocol") as found:
        parse_point(line)
    assert words in str(found.value)


# A backslash may not stand before what is escaped, or at the end: the format has no way to write that.
NAMES = st.text(
    st.characters(blacklist_categories=["Cc", "Cs", "Z"], blacklist_characters="\\"), min_size=1
) | st.sampled_from(["a b", "a,b", "a=b", ", =", "C:\\logs"])
FIELDS = (
    st.floats(allow_nan=False, allow_infinity=False)
    | st.integers(-(2**63), 2**63 - 1)
    | st.booleans()
    | st.text(st.characters(blacklist_categories=["Cc", "Cs"]))
)


@given(
    st.builds(
        Point,
        NAMES.filter(lambda name: not name.startswith("#")),
        st.dictionaries(NAMES, FIELDS, min_size=1, max_size=4),
        st.dictionaries(NAMES, NAMES, max_size=3),
        st.none() | st.integers(-(2**63), 2**63 - 1),
    )
)
def test_a_point_is_read_back_as_it_was_written(point):
    assert parse_point(format_point(point)) == point


@given(st.text(max_size=60))
@example("p flow=" + "9" * 5000 + "i 1")
@example("p flow=1 " + "9" * 5000)
@example("p flow=" + "9" * 5000 + " 1")
def test_no_text_makes_the_parser_raise_anything_else(text):
    with suppress(DataError):
        parse_point(text)


@given(st.integers(631152000, 4102444799), st.sampled_from(["s", "ms", "us", "ns"]))
def test_the_unit_of_a_time_is_guessed_and_the_time_is_numpys(seconds, unit):
    stamp = seconds * {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}[unit] + (unit != "s")
    assert guess_precision(stamp) == unit
    wanted = np.datetime64(stamp, unit)
    assert np.datetime64(as_text(stamp, unit).rstrip("Z"), unit) == wanted


# ── points as rows ──────────────────────────────────────────────────────────
def reader(numbers=("flow", "heat"), **reading):
    own = Preparation(numbers=tuple(numbers))
    return InfluxReader(own, Reading(**reading), "lines", numbers)


def test_lines_of_one_time_are_one_row_once_it_is_complete():
    own = reader()
    first = own(["r flow=1 1767603600", "r heat=2i 1767603600", "r flow=3,heat=4 1767603601"])
    np.testing.assert_array_equal(first.rows, [[1.0, 2.0], [3.0, 4.0]])
    assert first.times == ["2026-01-05T09:00:00Z", "2026-01-05T09:00:01Z"]
    assert own.notes == ["times are taken for seconds (--precision)"]
    assert len(own(["r flow=5 1767603602"]).rows) == 0  # it waits
    later = own(["r flow=6 1767603603"])
    np.testing.assert_array_equal(later.rows, [[5.0, np.nan]])
    np.testing.assert_array_equal(own.rest().rows, [[6.0, np.nan]])
    assert len(own.rest().rows) == 0


@given(
    st.lists(st.tuples(st.integers(0, 3), st.sampled_from(["flow", "heat"])), max_size=12),
    st.data(),
)
def test_rows_do_not_depend_on_how_lines_are_cut_or_where_a_reader_stops(steps, data):
    lines = [f"r {name}={i} {1767603600 + t}" for i, (t, name) in enumerate(steps)]
    whole, parts, at = reader(), reader(), data.draw(st.integers(0, len(lines)))
    wanted = [whole(lines), whole.rest()]
    found = [parts(lines[:at])]
    again = reader()
    again.go_on(parts.head)
    found += [again(lines[at:]), again.rest()]
    for name in ("rows", "times", "bad"):
        one, other = (
            np.concatenate([np.array(getattr(a, name)) for a in x]) for x in (wanted, found)
        )
        np.testing.assert_array_equal(one, other)
    readings = {f"{value}" for value in np.concatenate([a.rows.ravel() for a in wanted])} - {"nan"}
    assert len(readings) == len(lines)  # none is lost, none is used twice


def test_measurements_booleans_texts_and_quality():
    own = reader(("r.flow", "open", "heat"))
    rows = own(
        [
            'r flow=1.5,open=t,heat=7,heat_quality="Bad" 1767603600000',
            'r flow=2,open=false,heat="No Data" 1767603601000',
            'r flow=2,open=false,heat=3,Quality="Uncertain" 1767603602000',
            'r flow=2,open=false,heat=3,Quality="OK (0x0)" 1767603603000',
        ]
    ).rows
    np.testing.assert_array_equal(rows, [[1.5, 1, np.nan], [2, 0, np.nan], [np.nan] * 3, [2, 0, 3]])


def test_other_measurements_comments_tags_and_bad_lines():
    own = reader()
    found = own(
        [
            "# a comment",
            "cpu usage=3 1767603600",
            "r,unit=1 flow=1,heat=2 1767603600",
            "r,unit=2 flow=3 1767603601",
            "r,unit=1 flow=5 1767603601",
            "r flow= 1767603602",
        ]
    )
    np.testing.assert_array_equal(found.rows, [[1, 2], [3, np.nan], [5, np.nan], [np.nan, np.nan]])
    assert [bool(bad) for bad in found.bad] == [False, False, False, True]
    assert any("'cpu'" in note for note in own.notes)
    assert any("unit=2 and unit=1" in note.replace("'", "") for note in own.notes)


@pytest.mark.parametrize("cut", [0, 1, 2])
def test_lines_before_the_names_count_however_they_arrive(cut):
    own = RowReader(Preparation(("flow",)), Reading(skip_rows=1), "the lines", ("flow",))
    lines = ["# export", "heat,flow", "7,1.5"]
    found = [own(lines[:cut], fresh=True), own(lines[cut:])]
    assert [row.tolist() for part in found for row in part.rows] == [[1.5]]


@pytest.mark.parametrize(
    ("first", "influx"),
    [
        ("r,unit=1 flow=1.0 5", True),
        ("r flow=1.0", True),
        ("r other=1.0", False),
        ("time,flow,heat", False),
        ("flow;heat", False),
        ("1.0,2.0", False),
        ("1.0 2.0", False),
        ("time flow heat", False),
    ],
)
def test_the_format_is_recognised_by_the_first_line_alone(first, influx):
    own = RowReader(Preparation(numbers=("flow", "heat")), Reading(), "lines", ("flow", "heat"))
    try:
        own(["", first])
    except DataError:  # columns that a CSV lacks
        assert not influx
    assert any("line protocol" in note for note in own.notes) == influx
