"""`mercer monitor --shadow`: two detectors on the same rows, of which one counts."""

from __future__ import annotations

import csv
import json

import pytest

from markets.commands import good, results, run
from mercer import load


@pytest.fixture(scope="module")
def models(plant):
    """A detector, one that raises many more alarms, and one of fewer columns."""
    good(
        "fit",
        plant / "normal.csv",
        "--id",
        "time",
        "--model",
        "detector",
        "--false-alarm",
        0.2,
        "-o",
        plant / "eager.mercer",
    )
    few = ("--columns", "flow,temperature,pressure")
    good(
        "fit",
        plant / "normal.csv",
        "--id",
        "time",
        "--model",
        "detector",
        *few,
        "-o",
        plant / "few.mercer",
    )
    return plant / "d.mercer", plant / "eager.mercer", plant / "few.mercer"


def table(text):
    names, *rows = (line.split(",") for line in text.replace('"', "").splitlines())
    return names, rows


def alarms(plant, model):
    """By the model itself, in Python."""
    import numpy as np

    rows = np.loadtxt(plant / "faulty.csv", delimiter=",", skiprows=1, usecols=range(1, 6))
    own = load(model)
    return own.model.predict(rows[:, : own.model.n_features_in_]) == -1


@pytest.mark.parametrize("live", [False, True])
def test_the_table_events_and_exit_code_are_those_of_the_one_that_counts(
    plant, models, tmp_path, live
):
    old, new, _ = models
    extra = ("--marks", "--events", tmp_path / "e.jsonl", "--shadow-events", tmp_path / "s.jsonl")
    more = extra if live else ()
    alone = run(
        "monitor",
        old,
        plant / "faulty.csv",
        *(("--marks", "--events", tmp_path / "a.jsonl") if live else ()),
    )
    both = run("monitor", old, plant / "faulty.csv", "--shadow", new, *more)
    assert both.exit_code == alone.exit_code == 4
    told, wanted = both.stdout.splitlines(), alone.stdout.splitlines()
    assert [line.rsplit(",", 2)[0] for line in told] == wanted
    assert told[0].endswith(",shadow_index,shadow_alarm")
    assert [line.endswith(",1") for line in told[1:]] == alarms(plant, new).tolist()
    a, b = alarms(plant, old), alarms(plant, new)
    assert f"d.mercer has {a.sum()} alarms" in both.stderr
    assert (
        f"Alarms of d.mercer alone: {(a & ~b).sum()}, of eager.mercer alone: {(b & ~a).sum()}."
        in both.stderr
    )
    if live:
        assert (tmp_path / "e.jsonl").read_text() == (tmp_path / "a.jsonl").read_text()
        shadow = [json.loads(line) for line in (tmp_path / "s.jsonl").read_text().splitlines()]
        wanted = load(new).model.events(*_rows(plant))
        ended = [e for e in shadow if e["status"] == "ended"]
        assert [(e["first_row"], e["last_row"]) for e in ended] == [
            (e.first, e.last) for e in wanted
        ]


def _rows(plant):
    lines = (plant / "faulty.csv").read_text().splitlines()[1:]
    cells = [line.split(",") for line in lines]
    return [[float(c) for c in row[1:]] for row in cells], [row[0] for row in cells]


def test_a_quiet_detector_with_an_eager_shadow_ends_with_0(models, lines):
    old, new, _ = models
    calm = run("monitor", old, "-", "--shadow", new, input="".join(lines[:200]))
    assert calm.exit_code == 0
    assert "in the shadow, event 1" in calm.stderr
    assert "eager.mercer alone: event 1" in calm.stderr
    swapped = run("monitor", new, "-", "--shadow", old, input="".join(lines[:200]))
    assert swapped.exit_code == 4


def test_the_document_has_the_comparison(plant, models):
    old, new, _ = models
    found = results("monitor", old, plant / "faulty.csv", "--shadow", new, code=4)["shadow"]
    events = [load(m).model.events(*_rows(plant)) for m in (old, new)]
    spans = [[(e.first, e.last) for e in own] for own in events]

    def alone(mine, others):
        return sum(not any(a <= d and c <= b for c, d in others) for a, b in mine)

    assert (found["events_old"], found["events_new"]) == tuple(map(len, events))
    assert found["events_only_old"] == alone(*spans)
    assert found["events_only_new"] == alone(*reversed(spans)) > 0
    assert found["detectors"] == {"counts": str(old), "shadow": str(new)}


def test_a_shadow_of_fewer_columns(plant, models):
    old, _, few = models
    both = run("monitor", old, plant / "faulty.csv", "--shadow", few, "--marks")
    whole = run("monitor", old, plant / "faulty.csv", "--shadow", few)
    own = [line.rsplit(",", 2)[1:] for line in both.stdout.splitlines()]
    assert own == [line.rsplit(",", 2)[1:] for line in whole.stdout.splitlines()]
    alone = run("monitor", few, plant / "faulty.csv", "-q").stdout
    names, rows = table(alone)
    assert [row[0] for row in own[1:]] == [row[names.index("index")] for row in rows]


def test_detectors_change_places_and_back_without_a_lost_row(plant, models, lines, tmp_path):
    """Promotion and rollback: each goes on from its own past, in the middle of events."""
    old, new, _ = models
    data, out, state = tmp_path / "r.csv", tmp_path / "o.csv", tmp_path / "s.json"
    args = ("--state", state, "-o", out, "-q", "--marks")
    for end, pair in ((231, (old, new)), (260, (new, old)), (len(lines), (old, new))):
        data.write_text("".join(lines[:end]))
        assert run("monitor", pair[0], data, "--shadow", pair[1], *args).exit_code == 4
    own = {
        m: run("monitor", m, plant / "faulty.csv", "-q", "--marks").stdout.splitlines()
        for m in (old, new)
    }
    wanted = [*own[old][:231], *own[new][231:260], *own[old][260:]]
    got, theirs = (list(csv.DictReader(found)) for found in (out.read_text().splitlines(), wanted))
    for mine, line in zip(got, theirs, strict=True):
        assert all(mine[name] == line[name] for name in line if name != "event")
    # Numbers go on where both logs ended: what one calls an event in a stretch, the other does too.
    for part in (slice(0, 230), slice(230, 259), slice(259, None)):
        pairs = {(a["event"], b["event"]) for a, b in zip(got[part], theirs[part], strict=True)}
        assert len({a for a, _ in pairs}) == len({b for _, b in pairs}) == len(pairs)
        assert all(bool(a) == bool(b) for a, b in pairs)
    told = json.loads(state.read_text())["units"][str(data)]["shadow"]["agreement"]["counts"]
    a, b = alarms(plant, old), alarms(plant, new)
    assert (told["rows"], told["only_new"]) == (360, (b & ~a).sum())
    # Without its shadow the detector goes on as well; another one does not.
    assert run("monitor", old, data, *args).exit_code == 4
    refused = run("monitor", new, data, *args)
    assert refused.exit_code == 3
    assert "must be a state of this detector" in refused.stderr
    assert "--shadow" in refused.stderr


@pytest.mark.parametrize("ends", [(231, 260), (225, 300), (150, 231)])
def test_every_event_that_is_raised_is_ended_once_whatever_detector_counts(
    models, lines, tmp_path, ends
):
    old, new, _ = models
    data, paths = tmp_path / "r.csv", [tmp_path / "e.jsonl", tmp_path / "s.jsonl"]
    args = ("--state", tmp_path / "s.json", "--events", paths[0], "--shadow-events", paths[1], "-q")
    calls = [*zip((*ends, len(lines)), ((old, new), (new, old), (old, new)), strict=True)]
    table, lasts = tmp_path / "o.csv", 0
    for end, pair in calls:
        data.write_text("".join(lines[:end]))
        run("monitor", pair[0], data, "--shadow", pair[1], *args, "--marks", "-o", table)
    for path in paths:
        told = [json.loads(line) for line in path.read_text().splitlines()]
        raised = [e["event"] for e in told if e["status"] == "raised"]
        ended = [e["event"] for e in told if e["status"] == "ended"]
        assert raised == sorted(set(raised))
        assert ended == raised[: len(ended)]  # each once, in turn; the last one may go on
        assert len(raised) - len(ended) <= 1
        assert all(e["end"] is not None for e in told if e["status"] == "ended")
        lasts += len(raised) > 2
    assert lasts, "there is more than one event to be numbered"
    told = [json.loads(line) for line in paths[0].read_text().splitlines()]
    rows = list(csv.DictReader(table.read_text().splitlines()))
    assert {row["event"] for row in rows} - {""} <= {str(e["event"]) for e in told}


def test_the_exit_code_after_a_change_is_that_of_the_one_that_counts_now(models, lines, tmp_path):
    old, new, _ = models
    data = tmp_path / "r.csv"
    data.write_text("".join(lines[:200]))  # nothing to the old one, an event to the new one
    args = ("--state", tmp_path / "s.json", "-q")
    assert run("monitor", new, data, "--shadow", old, *args).exit_code == 4
    assert run("monitor", old, data, "--shadow", new, *args).exit_code == 0


def test_metrics_of_both(plant, models, tmp_path):
    old, new, _ = models
    prom = tmp_path / "m.prom"
    run("monitor", old, plant / "faulty.csv", "--shadow", new, "--metrics", prom, "-q")
    a, b = alarms(plant, old), alarms(plant, new)
    assert f'mercer_shadow_only_new_total{{unit="faulty"}} {(b & ~a).sum()}' in prom.read_text()


@pytest.mark.parametrize(
    ("args", "code", "words"),
    [
        (("faulty.csv", "--shadow", "d.mercer"), 2, "is the detector that counts"),
        (("faulty.csv", "--shadow", "d.mercer", "--marks"), 2, "is the detector that counts"),
        (("faulty.csv", "--shadow", "none.mercer"), 3, "none.mercer"),
        (("faulty.csv", "--shadow-events", "s.jsonl"), 2, "--shadow-events needs --shadow"),
        (("-", "--shadow", "eager.mercer", "--json"), 2, "a pipe can be read once"),
    ],
)
def test_what_can_not_be_meant_is_said(models, args, code, words, monkeypatch):
    monkeypatch.chdir(models[0].parent)
    text = "time,flow,temperature,pressure,level,power\n1,1,1,1,1,1\n"
    result = run("monitor", "d.mercer", *args, input=text)
    assert result.exit_code == code, result.output
    assert words in result.stderr


def test_a_shadow_that_could_not_judge_does_not_agree(models, lines, tmp_path):
    old, _, few = models
    rows = [line.rstrip("\n").split(",") for line in lines]
    missing = rows[0].index("power")
    for row in rows[1:]:
        row[missing] = ""
    data = tmp_path / "nopower.csv"
    data.write_text("\n".join(map(",".join, rows)) + "\n")
    for live in ((), ("--marks",)):
        told = run("monitor", few, data, "--shadow", old, *live).stderr
        assert "0 rows that both could judge" in told or "d.mercer could not judge" in told
        assert "agree on 100" not in told


def test_a_shadow_holds_no_row_back(models, lines, tmp_path):
    """Lines that lack what only the shadow needs: the same verdicts, at the same row, also with a state."""
    _, _, few = models
    names = lines[0].strip().split(",")
    points = []
    for i, line in enumerate(lines[200:260]):
        cells = dict(zip(names, line.strip().split(","), strict=True))
        fields = ",".join(f"{name}={cells[name]}" for name in ("flow", "temperature", "pressure"))
        points.append(f"p {fields} {1767600000 + 60 * i}\n")
    told = [
        run(
            "monitor",
            few,
            "-",
            *args,
            "-q",
            "--state",
            tmp_path / f"{len(args)}",
            input="".join(points),
        )
        for args in ((), ("--shadow", models[0]))
    ]
    assert told[0].exit_code == told[1].exit_code == 4
    assert len(told[0].stdout.splitlines()) == len(told[1].stdout.splitlines()) == 61


def test_a_shadow_is_looked_at_before_the_rows_and_is_not_written_over(plant, models, tmp_path):
    old, _, few = models
    copy = tmp_path / "few.csv"
    copy.write_bytes(few.read_bytes())
    over = run("monitor", old, plant / "faulty.csv", "--shadow", copy, "-o", copy)
    assert over.exit_code == 2
    assert copy.read_bytes() == few.read_bytes()
    gone = run("monitor", old, tmp_path / "nothing.csv", "--shadow", tmp_path / "none.mercer")
    assert "none.mercer" in gone.stderr  # before the data file is missed


def test_what_is_done_to_the_rows_for_the_shadow_alone_is_said(plant, lines, tmp_path):
    data, filling = tmp_path / "rows.csv", tmp_path / "filling.mercer"
    time, _, others = lines[5].split(",", 2)
    data.write_text("".join([*lines[:5], f"{time},,{others}", *lines[6:]]))
    how = ("--id", "time", "--model", "detector", "--impute", "mean")
    run("fit", plant / "normal.csv", *how, "-o", filling)
    found = run("monitor", plant / "d.mercer", data, "--shadow", filling, "-o", tmp_path / "t.csv")
    assert "for the shadow, 1 missing value imputed in column 'flow'" in found.stderr
    assert found.stderr.count("missing value imputed") == 1
