"""Files and lines at another pace than those of the fit: a detector that looks back says so."""

from __future__ import annotations

import numpy as np
import pytest

from markets.commands import good, refused, run, write_csv
from mercer._core.errors import many
from mercer.cli.monitor import WORDS
from mercer.monitoring.clock import KINDS

PACES = {
    "thinned": (
        slice(None, None, 2),
        "The rows are 2 min apart, but the detector was fitted to rows 1 min apart",
    ),
    "backwards": (slice(None, None, -1), "Times must go forwards from row to row"),
}
LOOKS_BACK = {"smoothing": ("--smoothing", "0.2"), "lags": ("--lags", "2")}


def table(path, part=slice(None), *, day=False):
    """Rows one minute apart, a part of them; with `day`, of each stamp the date alone."""
    rows = np.random.default_rng(0).standard_normal((360, 2))
    stamps = np.datetime64("2024-01-01T00:00") + np.arange(360).astype("m8[m]")
    when = np.datetime_as_string(stamps, "D" if day else "m")
    return write_csv(path, {"time": when[part], "flow": rows[part, 0], "heat": rows[part, 1]})


@pytest.fixture(scope="module", params=LOOKS_BACK)
def fitted(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp("pace")
    fit = ("fit", table(folder / "normal.csv"), "--id", "time", "--model", "detector")
    good(*fit, *LOOKS_BACK[request.param], "-o", folder / "d.mercer")
    return folder / "d.mercer", request.param


@pytest.mark.parametrize("pace", PACES)
def test_a_file_at_another_pace_is_refused(fitted, tmp_path, pace):
    part, words = PACES[pace]
    told = refused("monitor", fitted[0], table(tmp_path / "rows.csv", part), code=3)
    assert words in told
    if pace == "thinned":
        assert ("moving mean restarts" if fitted[1] == "smoothing" else "no row has 2 rows") in told
        assert "Give rows every 1 min, or fit a detector to rows like these." in told


def test_stamps_that_carry_only_the_date_are_refused(fitted, tmp_path):
    told = refused("monitor", fitted[0], table(tmp_path / "rows.csv", day=True), code=3)
    assert "Times must go forwards from row to row; got 0 of 360 rows older than one before" in told
    assert "359 of the same time" in told


@pytest.mark.parametrize("part", [slice(None, None, -1)])
@pytest.mark.parametrize("options", LOOKS_BACK.values())
def test_a_fit_that_looks_back_refuses_times_that_go_back(tmp_path, part, options):
    fit = ("fit", table(tmp_path / "rows.csv", part), "--id", "time", "--model", "detector")
    assert "Times must go forwards from row to row" in refused(*fit, *options, code=3)


def test_rows_that_are_judged_one_by_one_are_judged_backwards_with_a_warning(tmp_path):
    normal, back = (
        table(tmp_path / "n.csv"),
        table(tmp_path / "b.csv", slice(None, None, -1)),
    )
    good("fit", normal, "--id", "time", "--model", "detector", "-o", tmp_path / "d.mercer")
    words = "359 of 360 rows are older than one before"
    assert words in run("monitor", tmp_path / "d.mercer", back).stderr
    assert words not in run("monitor", tmp_path / "d.mercer", normal).stderr


def test_lines_at_another_pace_are_said_once_and_counted(fitted, tmp_path):
    rows = table(tmp_path / "rows.csv", slice(None, None, 2))
    told = run("monitor", fitted[0], rows, "--state", tmp_path / "s.json", "--marks")
    words = (
        "Most of the first 20 rows follow a gap, but the detector was fitted to rows 1 min apart"
    )
    assert told.stderr.count(words) == 1
    assert told.stdout.count(",gap") == 179
    if fitted[1] == "smoothing":
        assert "179 rows followed a gap" in told.stderr
    else:
        assert told.exit_code == 3
        assert "none has 2 rows directly before it, 179 of them after a gap" in told.stderr
        assert "lacks a reading" not in told.stderr


@pytest.mark.parametrize("day", [False, True])
def test_lines_out_of_their_turn_are_refused(fitted, tmp_path, day):
    rows = table(tmp_path / "rows.csv", slice(None) if day else slice(None, None, -1), day=day)
    told = run("monitor", fitted[0], rows, "--state", tmp_path / "s.json")
    assert told.exit_code == 3
    assert "Times must go forwards from row to row" in told.stderr
    assert "lack" not in told.stderr


def test_times_are_read_in_the_format_that_is_given_as_rows_arrive(fitted, tmp_path):
    """01/02/2024 is not guessed: a gap and a spoilt time are seen by the format alone."""
    rows = np.random.default_rng(1).standard_normal((120, 2))
    minutes = (np.arange(120) + 600 * (np.arange(120) > 60)).astype("m8[m]")
    stamps = (np.datetime64("2024-02-01T00:00") + minutes).tolist()
    when = [f"{stamp:%d/%m/%Y %H:%M}" for stamp in stamps]
    path = write_csv(tmp_path / "rows.csv", {"time": when, "flow": rows[:, 0], "heat": rows[:, 1]})
    given = ("--time", "time", "--time-format", "%d/%m/%Y %H:%M", "-q")
    whole = run("monitor", fitted[0], path, *given).stdout
    assert whole.count("01/02/2024") == 120
    assert run("monitor", fitted[0], "-", *given, input=path.read_text()).stdout == whole
    spoilt = path.read_text().replace(when[50], "yesterday").splitlines(keepends=True)
    late = "".join([*spoilt, *spoilt[20:22]])
    marks = run("monitor", fitted[0], "-", *given, "--marks", input=late).stdout
    assert marks.count(",gap") == 1
    assert marks.count(",late") == 2


@pytest.mark.parametrize("written", ["%Y-%m-%dT%H:%M", "%d/%m/%Y %H:%M"])
def test_a_time_that_cannot_be_read_is_counted_and_hides_no_gap(fitted, tmp_path, written):
    """In a file and in rows that arrive; the format is not to be guessed where days and months are alike."""
    rows = np.random.default_rng(1).standard_normal((120, 2))
    minutes = (np.arange(120) + 600 * (np.arange(120) > 60)).astype("m8[m]")
    stamps = (np.datetime64("2024-02-01T00:00") + minutes).tolist()
    when = [stamp.strftime(written) for stamp in stamps]
    when[30] = "Bad"
    path = write_csv(tmp_path / "rows.csv", {"time": when, "flow": rows[:, 0], "heat": rows[:, 1]})
    given = ("--time", "time", *(() if written.startswith("%Y") else ("--time-format", written)))
    whole = run("monitor", fitted[0], path, *given)
    assert "1 of 120 rows has no time that can be read; the first is row 30" in whole.stderr
    live = run(
        "monitor", fitted[0], "-", *given, "--metrics", tmp_path / "m.prom", input=path.read_text()
    )
    assert live.stdout == whole.stdout
    assert "1 row followed a gap; 1 row has no time that can be read" in live.stderr
    assert 'mercer_no_time_total{unit="stdin"} 1' in (tmp_path / "m.prom").read_text()


def test_every_kind_of_wrong_time_is_in_the_summary_and_the_metrics(fitted, tmp_path):
    clock = [*range(60), 58, 59, *range(20, 80), "Bad", *range(80, 100)]  # late, repeated, put back
    rows = np.random.default_rng(1).standard_normal((len(clock), 2))
    start = np.datetime64("2024-01-01T00:00")
    when = [t if t == "Bad" else str(start + t) for t in clock]
    path = write_csv(tmp_path / "rows.csv", {"time": when, "flow": rows[:, 0], "heat": rows[:, 1]})
    seen = run("monitor", fitted[0], path, "--metrics", tmp_path / "m.prom", "--marks")
    rows_of = {kind: seen.stdout.count(f",{kind}") for kind in KINDS}
    assert min(rows_of.values()) > 0
    for kind, count in rows_of.items():
        assert (
            f'mercer_{kind.replace(" ", "_")}_total{{unit="rows"}} {count}\n'
            in (tmp_path / "m.prom").read_text()
        )
        assert (
            f"; {many(count, WORDS[kind][0])} {WORDS[kind][1 if count == 1 else 2]}" in seen.stderr
        )
