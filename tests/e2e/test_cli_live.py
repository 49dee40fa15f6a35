"""`mercer monitor` of rows as they arrive: the table of a file, through pipes, rotations and bad lines."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
import urllib.request

import numpy as np
import pytest

from markets.commands import good, run
from mercer import app, load
from mercer.app.live import LiveRequest


@pytest.fixture(scope="module")
def table(plant):
    """What the file as a whole gives."""
    return run("monitor", plant / "d.mercer", plant / "faulty.csv", "-q").stdout


def told(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def in_thread(**request):
    """A request that runs until it is stopped, and its outcome."""
    stop, found = threading.Event(), []
    asked = LiveRequest(**request, stop=stop)
    thread = threading.Thread(target=lambda: found.append(app.run(asked)))
    thread.start()

    def end():
        stop.set()
        thread.join()
        return found[0]

    return end


def until(condition):
    for _ in range(15_000):  # five minutes: a guard, not a bound
        if condition():
            return
        time.sleep(0.02)
    pytest.fail("it never happened")


# ── files that grow ─────────────────────────────────────────────────────────
def test_a_file_that_grows_rotates_and_is_cut_back_gives_the_same_table(
    plant, lines, table, tmp_path
):
    data, out = tmp_path / "rows.csv", []
    data.write_text("".join(lines[:50]))
    end = in_thread(model=str(plant / "d.mercer"), data=str(data), follow=True, emit=out.append)

    def rows():
        return "".join(out).count("\n")

    until(lambda: rows() == 50)
    with data.open("a") as file:
        file.write("".join(lines[50:90]) + lines[90][:12])  # half a line
    until(lambda: rows() == 90)
    with data.open("a") as file:
        file.write(lines[90][12:])
    until(lambda: rows() == 91)
    data.rename(tmp_path / "rows.csv.1")
    with (tmp_path / "rows.csv.1").open("a") as file:  # the writer has not noticed yet
        file.write("".join(lines[91:100]))
    data.write_text(lines[0] + "".join(lines[100:150]))
    until(lambda: rows() == 150)
    data.write_text("")  # cut back
    time.sleep(0.5)
    data.write_text(lines[0] + "".join(lines[150:]))
    until(lambda: rows() == len(lines))
    assert end().value.stopped
    assert "".join(out) == table


@pytest.mark.parametrize("rotated", [False, True])
def test_a_stop_and_a_start_lose_and_repeat_nothing(plant, lines, table, tmp_path, rotated):
    """Stopped in the middle of an event, killed between an output and its state, rotated meanwhile."""
    data, events, out, state = (tmp_path / name for name in ("r.csv", "e.jsonl", "o.csv", "s.json"))
    whole = tmp_path / "whole.jsonl"
    model = plant / "d.mercer"
    run("monitor", model, plant / "faulty.csv", "--events", whole, "--state", tmp_path / "w", "-q")
    data.write_text("".join(lines[:231]))
    args = ("monitor", model, data, "--state", state, "--events", events, "-o", out, "-q")
    assert run(*args).exit_code == 4
    with events.open("a") as file:  # what was written, and no state knows of
        file.write('{"event": 1, "status": "ended"}\n')
    with out.open("a") as file:
        file.write("2026-01-05T09:50,1,2\n")
    if rotated:
        data.rename(tmp_path / "r.csv.1")
        with (tmp_path / "r.csv.1").open("a") as file:
            file.write("".join(lines[231:240]))
        data.write_text(lines[0] + "".join(lines[240:]))
    else:
        data.write_text("".join(lines))
    assert run(*args).exit_code == 4
    assert run(*args).exit_code == 4  # nothing new
    assert out.read_text() == table
    assert [e | {"unit": ""} for e in told(events)] == [e | {"unit": ""} for e in told(whole)]
    assert [(e["event"], e["status"]) for e in told(events)] == [
        (1, "raised"),
        (1, "ended"),
        (2, "raised"),
    ]


def test_sigterm_ends_with_a_state_and_a_pipe_goes_on(plant, lines, tmp_path):
    state, events = tmp_path / "s.json", tmp_path / "e.jsonl"
    command = [sys.executable, "-m", "mercer", "monitor", str(plant / "d.mercer"), "-"]
    command += ["--state", str(state), "--events", str(events), "-q"]
    found = []
    for part in (lines[:230], lines[230:]):
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
            process.stdin.write("".join(part).encode())
            process.stdin.flush()
            got = [process.stdout.readline() for _ in part]
            process.send_signal(signal.SIGTERM)
            assert process.wait(60) == 0
            found += [*got, *process.stdout.readlines()]
    assert len(found) == len(lines)
    assert (
        b"".join(found).decode()
        == run("monitor", plant / "d.mercer", plant / "faulty.csv", "-q").stdout
    )
    assert [(e["event"], e["status"]) for e in told(events)] == [
        (1, "raised"),
        (1, "ended"),
        (2, "raised"),
    ]


LOST = """
import os, signal, sys
from mercer.app import live
from mercer.cli.main import main

opened = live.open_detector

def terminated(path):
    try:  # as imports of optional packages are written
        os.kill(os.getpid(), signal.SIGTERM)
    except:
        pass
    return opened(path)

live.open_detector = terminated
main(sys.argv[1:])
"""


def test_a_sigterm_that_a_library_has_lost_ends_it_and_no_event(plant, lines, tmp_path):
    data, state, events = (tmp_path / name for name in ("rows.csv", "s.json", "e.jsonl"))
    data.write_text("".join(lines[:231]))
    args = ["monitor", plant / "d.mercer", data, "--state", state, "--events", events, "-q"]
    assert run(*args).exit_code == 4
    before = state.read_bytes(), events.read_bytes()
    data.write_text("".join(lines))
    command = [sys.executable, "-c", LOST, *map(str, args), "--follow"]
    found = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert (found.returncode, found.stderr) == (143, "Error: Terminated.\n")
    assert before == (state.read_bytes(), events.read_bytes())
    run(*args)
    assert [(e["event"], e["status"]) for e in told(events)] == [
        (1, "raised"),
        (1, "ended"),
        (2, "raised"),
    ]


def test_the_table_does_not_depend_on_how_many_rows_are_read_at_once(
    plant, lines, tmp_path, monkeypatch
):
    """Event numbers are those of their rows, and the column of alarms is what the summary counts."""
    data, spoilt = tmp_path / "rows.csv", list(lines)
    for i in range(225, 300, 2):  # in an event, without a reading that hardly matters
        cells = spoilt[i].split(",")
        spoilt[i] = ",".join([*cells[:4], "Bad", *cells[5:]])
    data.write_text("".join(spoilt))
    texts = []
    for piece in (len(lines[1]), 7 * len(lines[1]), data.stat().st_size):  # a row, seven, all
        monkeypatch.setattr("mercer.data.lines.PIECE", piece)
        out = []
        asked = LiveRequest(
            model=str(plant / "d.mercer"), data=str(data), marks=True, emit=out.append
        )
        found = app.run(asked).value
        texts.append("".join(out))
    assert texts[0] == texts[1] == texts[2]
    rows = [line.split(",") for line in texts[0].splitlines()[1:]]
    assert sum(row[7] == "1" for row in rows) == found.alarms
    assert any(row[7:9] == ["1", "0"] for row in rows)
    assert {row[-2] for row in rows if row[-3] == "raised"} == {"1", "2"}
    assert {row[-2] for row in rows if row[-3] != "raised"} == {""}


# ── lines as plants write them ──────────────────────────────────────────────
def test_bad_lines_are_marked_and_end_nothing(plant, lines):
    names = lines[0].strip()
    spoilt = [
        names,
        lines[1].strip(),
        "2026-01-05T06:01,Bad,60,2,1.2,30",
        "2026-01-05T06:02,No Data,I/O Timeout,2,1.2,30",
        "2026-01-05T06:03,10,60",
        '2026-01-05T06:04,"never closed,1,2,3,4',
        "",
        names,
        "\x00\xff garbage \N{SNOWMAN}",
        "2026-01-05T06:06,1e999,60,2,1.2,30",
        lines[2].strip(),
        lines[2].strip(),
    ]
    result = run("monitor", plant / "d.mercer", "-", "--marks", input="\n".join(spoilt))
    rows = [line.split(",") for line in result.stdout.splitlines()]
    judged = [row[8] for row in rows[1:]]
    assert len(rows) == 1 + 9
    assert judged == ["1", "0", "0", "0", "0", "0", "1", "1", "1"]  # 1e999 is far out
    assert "missing: flow" in result.stdout
    assert "3 fields in place of 6" in result.stdout
    assert "repeated" in result.stdout
    assert "3 lines were not rows" in result.stderr


@pytest.mark.parametrize("shadow", [False, True])
def test_names_in_another_order_count_wherever_they_stand(plant, lines, table, shadow):
    """Files one after the other in one pipe."""
    args = ("--shadow", plant / "d2.mercer") if shadow else ()
    if shadow:
        good("fit", plant / "normal.csv", "--id", "time", "--model", "detector", "-o", args[1])
    turned = [",".join(line.strip().split(",")[::-1]) + "\n" for line in lines]
    text = "".join([*lines[:50], turned[0], *turned[50:90], *lines[:1], *lines[90:]])
    told = run("monitor", plant / "d.mercer", "-", "-q", *args, input=text).stdout.splitlines()
    assert [",".join(row.split(",")[:2]) for row in told] == [
        ",".join(row.split(",")[:2]) for row in table.splitlines()
    ]


def test_labels_stand_below_the_name_of_their_column(plant, tmp_path):
    for part in ("normal", "faulty"):
        first, *rows = (plant / f"{part}.csv").read_text().splitlines()
        text = "\n".join([f"{first},mode", *(f"{row},on" for row in rows)])
        (tmp_path / f"{part}.csv").write_text(text)
    model, names = tmp_path / "d.mercer", ("--id", "time", "--label", "mode")
    good("fit", tmp_path / "normal.csv", *names, "--model", "detector", "-o", model)
    whole = run("monitor", model, tmp_path / "faulty.csv", "-q").stdout
    lines = (tmp_path / "faulty.csv").read_text()
    assert run("monitor", model, "-", "-q", input=lines).stdout == whole


def test_quality_columns_and_units_of_a_historian(plant, lines):
    names = lines[0].strip().split(",")
    head = ["time", *(part for n in names[1:] for part in (f"{n}.Value", f"{n}.Quality"))]
    model = plant / "h.mercer"
    good("fit", plant / "normal.csv", "--id", "time", "--model", "detector", "-o", model)
    cells = [line.strip().split(",") for line in lines[1:6]]
    head = ["time", *(part for n in names[1:] for part in (n, f"{n}.Quality"))]
    rows = [[c[0], *(part for v in c[1:] for part in (v, "Good"))] for c in cells]
    rows[2][2] = "Bad"
    rows[3][4] = "24"
    units = ["", *(part for _ in names[1:] for part in ("bar", ""))]
    text = "\n".join(";".join(row) for row in [head, units, *rows])
    result = run("monitor", model, "-", "--marks", input=text)
    table = [line.split(",") for line in result.stdout.splitlines()]
    assert [row[8] for row in table[1:]] == ["1", "1", "0", "0", "1"]
    assert [row[-1] for row in table[3:5]] == ["missing: flow", "missing: temperature"]
    assert "which readings count is read from" in result.stderr
    assert "line of units" in result.stderr
    plain = run("monitor", model, "-", "-q", input="".join(lines[:6])).stdout.splitlines()
    assert table[1][:-3] == plain[1].split(",")


def test_several_units_in_one_call(plant, tmp_path, table):
    events, metrics = tmp_path / "e.jsonl", tmp_path / "m.prom"
    args = (plant / "faulty.csv", plant / "normal.csv", "--events", events, "--metrics", metrics)
    result = run("monitor", plant / "d.mercer", *args)
    assert result.exit_code == 4
    rows = result.stdout.splitlines()
    assert rows[0] == "unit," + table.splitlines()[0]
    own = [row.partition(",")[2] for row in rows if row.startswith(("faulty,", "unit,"))]
    assert own == table.splitlines()
    assert {e["unit"] for e in told(events)} == {"faulty"}
    assert [e["status"] for e in told(events)] == ["raised", "ended"] * 2  # there are no more rows
    assert 'mercer_rows_total{unit="faulty"} 360' in metrics.read_text()
    assert 'mercer_rows_total{unit="normal"} 300' in metrics.read_text()


@pytest.mark.parametrize(("seconds", "rows"), [(0.01, 360), (1000.0, 0)])
def test_metrics_of_a_port(plant, monkeypatch, seconds, rows):
    """Those of the last save; before the first, counters at zero."""
    import socket

    from mercer.app import live

    monkeypatch.setattr(live, "SAVE_SECONDS", seconds)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    request = {"model": str(plant / "d.mercer"), "data": str(plant / "faulty.csv")}
    end = in_thread(**request, follow=True, metrics=f":{port}")

    def text():
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=60) as answer:
                return answer.read().decode()
        except OSError:
            return ""

    try:
        until(lambda: f'mercer_rows_total{{unit="faulty"}} {rows}\n' in text())
        assert f'mercer_event_lasts{{unit="faulty"}} {int(rows > 0)}' in text()
    finally:
        end()


@pytest.mark.parametrize(
    ("args", "code", "words"),
    [
        (("none.csv", "--follow", "--json"), 2, "--json needs all rows at once"),
        (("a.csv", "b.csv", "--json"), 2, "but with several files each is judged on arrival"),
        (("faulty.csv", "--rule", "6/5"), 2, "n at most m"),
        (("faulty.csv", "--metrics", ":no"), 2, "a port such as :9108"),
        (("faulty.csv", "--metrics", "9108"), 2, "a port such as :9108"),
        (("faulty.csv", "--metrics", ":²"), 2, "a port such as :9108"),
        (("faulty.csv", "--state", "faulty.csv"), 2, "is the file that is read"),
        (("faulty.csv", "--state", "d.mercer"), 2, "is the file that is read"),
        (("faulty.csv", "--events", "one", "--state", "one"), 2, "two of these are one file"),
        (("faulty.csv", "-", "--marks"), 2, "- is one stream"),
        (("none.csv", "--state", "s.json"), 3, "none.csv"),
        (("faulty.csv", "--state", "normal.csv"), 3, "not JSON"),
    ],
)
def test_what_can_not_be_meant_is_said_in_a_line(plant, args, code, words, monkeypatch):
    monkeypatch.chdir(plant)
    result = run("monitor", "d.mercer", *args)
    assert result.exit_code == code
    assert words in result.stderr
    assert result.stderr.count("\n") == 1
    assert not os.path.exists("s.json")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "no row to judge"),
        ("time,flow,temperature,pressure,level,power\n", "no row to judge"),
        ("time,flow\n1,2\n", "lacks the columns"),
        ("time,flow,temperature,pressure,level,power\n1,,,,,\n", "None of 1 rows"),
    ],
)
def test_input_without_a_row_to_judge(plant, text, words):
    result = run("monitor", plant / "d.mercer", "-", input=text)
    assert result.exit_code == 3
    assert words in result.stderr


# ── retraining ──────────────────────────────────────────────────────────────
def test_a_detector_is_taught_a_drift_and_a_fault_by_name(plant, lines, tmp_path):
    newer, knows, fault = (tmp_path / name for name in ("n.mercer", "k.mercer", "fault.csv"))
    told = good("retrain", plant / "d.mercer", plant / "normal.csv", "-o", newer, "--why", "May")
    assert "300 of 300 rows learned" in told.stderr
    assert "they agree on" in told.stderr
    assert load(newer).model.lineage_[0].why == "May"
    fault.write_text(lines[0] + "".join(lines[240:300]))
    good("retrain", plant / "d.mercer", fault, "--event", "flow sensor", "-o", knows)
    seen = run("monitor", knows, plant / "faulty.csv", "--marks")
    assert "like 'flow sensor' (distance 0." in seen.stderr
    assert "unlike any known, nearest 'flow sensor'" in seen.stderr
    same = run("retrain", newer, plant / "normal.csv", "-o", newer)
    assert same.exit_code == 2
    assert "there to go back to" in same.stderr


# ── drift ───────────────────────────────────────────────────────────────────
@pytest.mark.parametrize("factor", [1.0, 1.5])
def test_rows_that_drift_are_said_to_and_what_to_do(plant, tmp_path, factor):
    """In the summary of a file and of a stream, in the document, and in the metrics: all the same."""
    names, *rows = (plant / "normal.csv").read_text().splitlines()
    numbers = np.array([[float(cell) for cell in row.split(",")[1:]] for row in rows])
    numbers = numbers.mean(axis=0) + factor * (numbers - numbers.mean(axis=0))
    own = [
        ",".join([row.split(",")[0], *map(repr, map(float, x))])
        for row, x in zip(rows, numbers, strict=True)
    ]
    data, prom = tmp_path / "later.csv", tmp_path / "m.prom"
    data.write_text("\n".join([names, *own]) + "\n")
    whole = run("monitor", plant / "d.mercer", data, "--id", "time")
    live = run("monitor", plant / "d.mercer", data, "--id", "time", "--metrics", prom)
    document = json.loads(run("monitor", plant / "d.mercer", data, "--json").stdout)
    drift = document.get("results", document)["drift"]
    drifted = factor > 1.0
    assert drift["drifted"] == drifted
    assert drift["level"] == pytest.approx(
        float(re.search(r"drift_level\{.*\} (\S+)", prom.read_text())[1])
    )
    assert f'mercer_drifted{{unit="later"}} {int(drifted)}' in prom.read_text()
    for told_ in (whole.stderr, live.stderr):
        assert ("mercer retrain DETECTOR" in told_) == drifted
        assert ("times what it was at the fit: the process has drifted" in told_) == drifted


# ── shelving ────────────────────────────────────────────────────────────────
@pytest.mark.parametrize(
    ("given", "shelved"),
    [
        (("--shelve", "flow=400"), [True, False]),
        (("--shelve", "400"), [True, True]),
        (("--shelve", "temperature=400"), [False, True]),
        (("--shelve", "flow=400", "--shelve", "temperature=10"), [True, False]),
    ],
)
def test_events_of_a_shelved_variable_are_recorded_and_not_announced(
    plant, tmp_path, given, shelved
):
    events = tmp_path / "e.jsonl"
    result = run("monitor", plant / "d.mercer", plant / "faulty.csv", "--events", events, *given)
    assert [e["shelved"] for e in told(events) if e["status"] == "ended"] == shelved
    for number, hidden in enumerate(shelved, start=1):
        assert (f"event {number}, fault" in result.stderr) != hidden
    words = "event was" if sum(shelved) == 1 else "events were"
    assert f" 2 events; {sum(shelved)} {words} shelved" in result.stderr


def test_shelved_events_are_counted_across_a_restart(plant, lines, tmp_path):
    data, state = tmp_path / "r.csv", tmp_path / "s.json"
    args = ("monitor", plant / "d.mercer", data, "--state", state, "--shelve", "400")
    for end in (300, len(lines)):
        data.write_text("".join(lines[:end]))
        result = run(*args)
    assert "since the state began 360 rows, 109 alarms, 2 events; 2 events were shelved" in (
        result.stderr
    )


@pytest.mark.parametrize("given", ["flow=", "flow=x", "0", "flow=-3", "flow=²"])
def test_a_shelf_has_rows(plant, given):
    result = run("monitor", plant / "d.mercer", plant / "faulty.csv", "--shelve", given)
    assert result.exit_code == 2
    assert "such as flow=600" in result.stderr
    unknown = run("monitor", plant / "d.mercer", plant / "faulty.csv", "--shelve", "fow=3")
    assert unknown.exit_code == 2
    assert "The variable of --shelve must be one of flow, temperature" in unknown.stderr
    assert "got 'fow'. Did you mean 'flow'?" in unknown.stderr


def test_files_that_are_no_lines_of_text_are_refused_by_their_names(plant, tmp_path):
    found = run("monitor", plant / "d.mercer", "rows.parquet", "--state", tmp_path / "s.json")
    assert found.exit_code == 2
    assert "Rows that arrive are lines of text: 'rows.parquet' can't be followed." in found.stderr
    assert not (tmp_path / "s.json").exists()
