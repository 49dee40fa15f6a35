"""How a monitored run is told: one limit a statistic, wild readings named, gaps marked, runs by onset."""

import csv
import io
import re
import warnings

import matplotlib as mpl

mpl.use("Agg")

import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure

from markets.commands import good, results
from markets.commands import run as cli
from mercer import PCA, KernelPCADetector, Prepared
from mercer._core.errors import InputError
from mercer.app import monitor
from mercer.kernels import Polynomial
from mercer.monitoring.alarms import alarm_runs, shares
from mercer.preprocessing.preparation import Preparation
from mercer.report import build

NAMES = ("flow", "heat", "level", "power")


def process(n, *, seed=0):
    """Two causes behind four sensors."""
    rng = np.random.default_rng(seed)
    mixing = np.array([[1.0, 0.8, 0.3, 0.0], [0.0, 0.5, 1.0, 0.9]])
    return rng.standard_normal((n, 2)) @ mixing + 0.1 * rng.standard_normal((n, 4))


KINDS = {
    "default": {},
    "rbf": {"kernel": "rbf", "n_components": 20},
    "pca": {"model": PCA(2)},
    "polynomial": {"kernel": Polynomial(3), "n_components": 10},
    "unscaled": {"scale": False},
    "laplacian": {"kernel": "laplacian", "n_components": 20},
}


@pytest.fixture(scope="module")
def plant(tmp_path_factory):
    """Two files of a process with gaps, a wild reading and a broken sensor, and a detector of the first."""
    folder = tmp_path_factory.mktemp("alarms")
    run = process(120, seed=1)
    run[60:, 2] += 3.0
    run[20, 1] = 1e30
    run[[30, 80, 81], [0, 3, 3]] = np.nan
    for name, rows in (("normal", process(300)), ("run", run)):
        pd.DataFrame(rows, columns=NAMES).to_csv(folder / f"{name}.csv", index=False)
    good("fit", folder / "normal.csv", "--model", "detector", "-o", folder / "d.mercer")
    return folder


def frame(path):
    return pd.read_csv(path).to_numpy()


# ── one limit for each statistic ────────────────────────────────────────────
def test_table_chart_json_csv_page_and_limits_have_one_limit(plant):
    detector = KernelPCADetector().fit(frame(plant / "normal.csv"))
    seen = detector.monitor(frame(plant / "run.csv"), names=NAMES)
    told = results("monitor", plant / "d.mercer", plant / "run.csv", code=4)
    rows = list(
        csv.DictReader(io.StringIO(cli("monitor", plant / "d.mercer", plant / "run.csv").stdout))
    )
    page = build(detector, frame(plant / "run.csv"))
    axes = dict(zip(("T2", "Q"), seen.plot(fig=Figure()), strict=True))
    for name, own in (("T2", detector.limits_.t2), ("Q", detector.limits_.q)):
        (line,) = [one for one in axes[name].get_lines() if one.get_label() == "limit"]
        assert set(line.get_ydata()) == {own}
        assert set(seen.table[f"{name}_limit"]) == {own}
        # pandas before 3 may read the last digit of a number otherwise.
        assert told["limits"][name] == pytest.approx(own, rel=1e-12)
        (written,) = {float(row[f"{name}_limit"]) for row in rows}
        assert written == pytest.approx(own, rel=1e-12)
        assert f"below {own:.4g}" in str(detector.limits_)
        assert f"below {own:.4g}" in page
    assert told["limits"]["index"] == detector.limits_.index == -detector.offset_ == 1.0


@pytest.mark.parametrize("statistic", ["T2", "Q", "combined"])
@pytest.mark.parametrize("knobs", [{}, {"limits": "approximate"}, {"contamination": 0.05}])
def test_a_row_is_an_alarm_when_a_statistic_is_above_its_limit(statistic, knobs):
    detector = KernelPCADetector(model=PCA(2), statistic=statistic, **knobs).fit(process(300))
    table = detector.monitor(process(2000, seed=1) * 1.3, top=0).table
    ratios = {name: table[name] / table[f"{name}_limit"] for name in ("T2", "Q")}
    index = np.maximum(*ratios.values()) if statistic == "combined" else ratios[statistic]
    np.testing.assert_allclose(table["index"], index, rtol=1e-12)
    np.testing.assert_array_equal(table["alarm"], index > 1.0)
    assert 0 < table["alarm"].sum() < 2000


def test_a_model_saved_with_two_limits_is_told_with_one():
    detector = KernelPCADetector(model=PCA(2)).fit(process(300))
    old = KernelPCADetector(model=PCA(2)).fit(process(300))
    limits = detector.limits_
    object.__setattr__(
        old, "limits_", type(limits)(limits.t2 / 1.25, limits.q / 1.25, 1.25, 0.01, "x")
    )
    old.offset_ = -1.25
    run = process(200, seed=1) * 1.3
    for one, other in zip(detector.monitor(run).table, old.monitor(run).table, strict=True):
        assert one == pytest.approx(other)
    line = old.monitor(run).plot(fig=Figure())[0].get_lines()[-1]
    np.testing.assert_allclose(line.get_ydata(), limits.t2)


# ── wild readings ───────────────────────────────────────────────────────────
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("size", [1e30, -1e30, 1e100, -1e200, 1e308, np.inf, -np.inf])
@pytest.mark.parametrize("kind", KINDS)
def test_a_wild_sensor_is_named_without_a_warning(kind, size, dtype):
    detector = KernelPCADetector(**KINDS[kind]).fit(process(200).astype(dtype))
    run = process(6, seed=1)
    run[3, 2] = size
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        seen = detector.monitor(run, names=NAMES)
        seen.plot(fig=Figure())
    assert seen.table["alarm"][3]
    named = dict(re.findall(r"(\w+) (\d+) %", seen.table["top"][3]))
    assert next(iter(named)) == "level"
    assert abs(sum(map(int, named.values())) - 100) <= 2  # three roundings
    assert "level" in seen.summary()


@pytest.mark.parametrize("kind", KINDS)
def test_several_wild_sensors_are_all_named(kind):
    detector = KernelPCADetector(**KINDS[kind]).fit(process(200))
    run = process(2, seed=1)
    run[1, [1, 3]] = 1e30, -1e200
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        seen = detector.monitor(run, names=NAMES)
    named = dict(re.findall(r"(\w+) (\d+) %", seen.table["top"][1]))
    assert set(named) == {"heat", "power"}
    assert all(name in seen.summary() for name in named)


@pytest.mark.parametrize("kernel", ["auto", "rbf"])
@pytest.mark.parametrize("size", [1e30, 1e200])
def test_contributions_of_a_wild_row_sum_to_its_statistic(kernel, size):
    detector = KernelPCADetector(2, kernel=kernel).fit(process(200))
    far = process(1, seed=1)
    far[0, 2] = size
    start = detector.baselines_ * detector.spread_ + detector.center_
    gained = detector.statistics(far)["Q"] - detector.statistics(start)["Q"]
    parts = detector.contributions(far, "Q")
    assert np.min(np.abs(parts.sum() - gained)) < 1e-5 * parts.sum()
    assert np.argmax(parts) == 2


def test_shares_sum_to_one_however_large():
    parts = np.array([[1e308, 1e308, 1.0], [1e-320, 0.0, -5.0], [np.nan] * 3, [-1.0, 0.0, 0.0]])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = shares(parts)
    np.testing.assert_allclose(found.sum(axis=1), [1.0, 1.0, 0.0, 0.0])
    np.testing.assert_allclose(found[0], [0.5, 0.5, 0.0], atol=1e-300)


# ── gaps ────────────────────────────────────────────────────────────────────
@pytest.mark.parametrize("kind", ["array", "pandas", "nullable", "memmap", "prepared"])
def test_complete_rows_are_judged_as_if_the_others_were_not_there(kind, tmp_path):
    x, run = process(300), process(50, seed=1)
    run[30:, 2] += 3.0
    run[[5, 5, 33], [0, 1, 3]] = np.nan
    whole = ~np.isnan(run).any(axis=1)
    framed = kind in ("pandas", "nullable")
    model = KernelPCADetector().fit(pd.DataFrame(x, columns=NAMES) if framed else x)
    given, asked = run, model
    if framed:
        given = pd.DataFrame(run, columns=NAMES).astype("Float64" if kind == "nullable" else float)
    elif kind == "memmap":
        np.save(tmp_path / "run.npy", run)
        given = np.load(tmp_path / "run.npy", mmap_mode="r")
    elif kind == "prepared":
        asked = Prepared(Preparation(NAMES), model)
    seen = asked.monitor(given, time=np.arange(50) + 100)
    alone = asked.monitor(given[whole])
    for name in ("T2", "Q", "index", "alarm", "top"):
        np.testing.assert_array_equal(seen.table[name][whole], alone.table[name])
    np.testing.assert_array_equal(seen.table["judged"], whole)
    assert np.isnan(seen.table["Q"][~whole]).all()
    assert not seen.table["alarm"][~whole].any()
    np.testing.assert_array_equal(seen.missing, [1, 1, 0, 1])
    assert "2 of 50 rows could not be judged: cells are missing in " in seen.summary()
    assert f"of {whole.sum()} judged rows" in seen.summary()
    (run_,) = [one for one in seen.runs if one.first <= 32 < one.last]
    assert (run_.unjudged, run_.last) == (1, 49)
    assert "1 not judged" in seen.summary()


def test_a_run_without_a_complete_row_and_other_questions_are_refused(plant, tmp_path):
    detector = KernelPCADetector().fit(process(100))
    with pytest.raises(InputError, match=r"None of 3 rows can be judged: .* missing in x0 \(3\)"):
        detector.monitor([[np.nan, 0, 0, 0]] * 3)
    for ask in ("predict", "decision_function", "score_samples", "statistics", "contributions"):
        with pytest.raises(InputError, match="NaN") as caught:
            getattr(detector, ask)([[np.nan, 0, 0, 0]])
        assert caught.value.parameter == "X"
    (tmp_path / "empty.csv").write_text("flow,heat,level,power\n1,,2,3\n2,,3,1\n")
    result = cli("monitor", plant / "d.mercer", tmp_path / "empty.csv")
    assert result.exit_code == 3
    assert "None of 2 rows can be judged" in result.stderr
    with pytest.raises(InputError, match="None of 2 rows is complete"):
        build(detector, np.full((2, 4), np.nan))


@pytest.mark.parametrize("block", [20_000, 7, 1])
def test_the_command_marks_counts_and_names_gaps(plant, monkeypatch, block):
    monkeypatch.setattr(monitor, "BLOCK", block)
    result = cli("monitor", plant / "d.mercer", plant / "run.csv")
    assert result.exit_code == 4
    rows = list(csv.DictReader(io.StringIO(result.stdout)))
    gone = [i for i, row in enumerate(rows) if row["judged"] == "0"]
    assert gone == [30, 80, 81]
    assert {rows[i][name] for i in gone for name in ("T2", "Q", "index", "top")} == {""}
    assert (
        "3 of 120 rows could not be judged: cells are missing in power (2), flow (1)."
        in result.stderr
    )
    found = results("monitor", plant / "d.mercer", plant / "run.csv", code=4)
    told = found["not_judged"]
    assert [row["row"] for row in told["rows"]] == gone
    assert told["missing_cells"] == {"flow": 1, "power": 2}
    runs = found["alarms"]["runs"]
    (wild,) = [one for one in runs if one["first"] <= 20 <= one["last"]]
    broken = runs[-1]
    assert wild["began_with"][0]["variable"] == "heat"
    assert (broken["not_judged"], broken["began_with"][0]["variable"]) == (2, "level")


def test_charts_have_gaps_and_marks(plant):
    detector = KernelPCADetector().fit(frame(plant / "normal.csv"))
    axes = detector.monitor(frame(plant / "run.csv")).plot(fig=Figure())
    for ax in axes:
        (marks,) = [one for one in ax.get_lines() if one.get_label() == "not judged"]
        np.testing.assert_array_equal(marks.get_xdata(), [30, 80, 81])
        assert np.isnan(ax.get_lines()[0].get_ydata()[[30, 80, 81]]).all()
    page = build(detector, frame(plant / "run.csv"), names=NAMES)
    assert "3 of 120 rows could not be judged: cells are missing in power (2), flow (1)." in page
    assert page.count("stroke unjudged") == 3
    assert "led when it began" in page


# ── runs ────────────────────────────────────────────────────────────────────
@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        ("....", []),
        ("!!..!", [(0, 4, 3, 0)]),
        ("!!...!", [(0, 1, 2, 0), (5, 5, 1, 0)]),
        ("!?????!", [(0, 6, 2, 5)]),
        ("!.?.?.!", [(0, 0, 1, 0), (6, 6, 1, 0)]),
        ("?!?", [(1, 1, 1, 0)]),
    ],
)
def test_short_gaps_and_unjudged_rows_break_no_run(rows, expected):
    signs = np.array(list(rows))
    found = alarm_runs(signs == "!", signs != "?")
    assert [(run.first, run.last, run.alarms, run.unjudged) for run in found] == expected


@pytest.mark.parametrize("column", range(4))
@pytest.mark.parametrize("kind", ["default", "pca", "rbf", "laplacian"])
def test_a_drift_is_blamed_on_its_sensor_and_not_on_the_answer_to_it(kind, column):
    """The sensor drifts; from alarm 10 on a controller moves two others, by more."""
    detector = KernelPCADetector(**KINDS[kind]).fit(process(300))
    run = process(100, seed=2)
    run[40:, column] += 0.15 * np.arange(1, 61).clip(max=20)
    answer = [(column + 1) % 4, (column + 2) % 4]
    run[60:, answer] += [5.0, -5.0]
    seen = detector.monitor(run, names=NAMES)
    longest = max(seen.runs, key=lambda one: one.rows)
    assert 40 <= longest.first < 60
    assert seen.began_with(longest)[0][0] == NAMES[column]
    assert NAMES[column] in seen.summary()


def test_the_gain_of_linear_pca_is_the_reconstruction_based_contribution():
    """(e_j'Mx)²/M_jj of Q = x'Mx, Alcala & Qin (2009), as a share of Q."""
    from mercer.monitoring.alarms import gains

    x = process(300)
    detector = KernelPCADetector(model=PCA(2), statistic="Q").fit(x)
    z = (process(5, seed=3) * 2.0 - detector.center_) / detector.spread_
    axes = np.linalg.svd((x - detector.center_) / detector.spread_, full_matrices=False)[2][:2]
    m = np.eye(4) - axes.T @ axes
    best = -(z @ m) / np.diag(m) + z  # where each variable would have to be
    inside = np.abs(best) < 3.5
    expected = (z @ m) ** 2 / np.diag(m) / np.sum(z @ m * z, axis=1, keepdims=True)
    assert inside.sum() > 10
    found = gains(lambda rows: detector._judge.index(detector._gauge(rows)), detector._baselines, z)
    np.testing.assert_allclose(found[inside], expected[inside], atol=1e-6)


# ── constant columns ────────────────────────────────────────────────────────
def test_stuck_sensors_have_names_at_the_command_line(tmp_path):
    pd.DataFrame(process(60), columns=NAMES).assign(valve=1.0).to_csv(
        tmp_path / "x.csv", index=False
    )
    result = cli("fit", tmp_path / "x.csv", "--model", "detector", "-o", tmp_path / "d.mercer")
    assert result.exit_code == 0
    assert "do not change in the training rows: 4 ('valve')" in " ".join(result.stderr.split())


def test_wild_readings_have_names_at_the_command_line(tmp_path):
    frame = pd.DataFrame(process(100), columns=NAMES)
    frame.iloc[30, 2] = 1e6
    frame.to_csv(tmp_path / "x.csv", index=False)
    fit = ["fit", tmp_path / "x.csv", "--model", "detector", "-o", tmp_path / "d.mercer"]
    result = cli(*fit)
    assert result.exit_code == 0
    assert f"row 30, column 2 ({NAMES[2]!r}): 1e+06" in " ".join(result.stderr.split())
    kept = cli(*fit, "--wild", "keep")
    assert kept.exit_code == 0
    assert "row 30" not in " ".join(kept.stderr.split())


@pytest.mark.parametrize("package", ["pandas", "polars", "pyarrow"])
def test_stuck_sensors_have_names_in_every_frame(package):
    frames = pytest.importorskip(package)
    columns = {**dict(zip(NAMES, process(60).T, strict=True)), "valve": np.ones(60)}
    table = frames.table(columns) if package == "pyarrow" else frames.DataFrame(columns)
    with pytest.warns(UserWarning, match=re.escape("4 ('valve')")):
        KernelPCADetector().fit(table)
