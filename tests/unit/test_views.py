"""A view is a value: JSON carries it whole, nothing changes it, and every renderer draws the same numbers."""

import dataclasses
import json
import re

import matplotlib as mpl

mpl.use("Agg")

import numpy as np
import pandas as pd
import polars as pl
import pytest
from matplotlib.dates import num2date
from matplotlib.figure import Figure
from sklearn.datasets import load_iris
from sklearn.decomposition import PCA as Theirs
from sklearn.decomposition import KernelPCA as TheirKernels

import mercer
from conftest import frozen
from mercer import PCA, KernelPCA, KernelPCADetector, Prepared, plots, views
from mercer.errors import DetectorWarning, InputError
from mercer.kernels import RBF
from mercer.preprocessing.preparation import Preparation
from mercer.report import build
from mercer.views.leaders import events_table
from mercer.views.process import axis_times

X = frozen(load_iris().data[::2])
Y = load_iris().target[::2]
NAMES = ["sepal length", "sepal width", "petal length", "petal width"]
MODEL = KernelPCA(3, kernel=RBF(0.3), preimage="ridge").fit(X)
LINEAR = PCA(3).fit(X)
NORMAL = np.random.default_rng(0).standard_normal((300, 4))
DETECTOR = KernelPCADetector().fit(NORMAL)
RUN = np.random.default_rng(1).standard_normal((80, 4))
RUN[40:, 2] += 6.0
RUN[50, 0] = np.nan
CLOCK = np.datetime64("2026-01-05T22:00") + np.arange(80) * np.timedelta64(10, "m")
SEEN = DETECTOR.monitor(RUN, time=CLOCK, names=list("abcd"))
EVENTS = DETECTOR.events(RUN, time=CLOCK, names=list("abcd"))

VIEWS = {
    "scores": lambda: views.scores(MODEL, X, Y),
    "scores of a detector": lambda: views.scores(DETECTOR, NORMAL),
    "scores with a measurement": lambda: views.scores(MODEL, X, X[:, 0]),
    "biplot": lambda: views.biplot(MODEL, X, names=NAMES),
    "spectrum": lambda: views.spectrum(MODEL),
    "spectrum of an approximation": lambda: views.spectrum(
        KernelPCA(2, approximation="nystrom").fit(NORMAL)
    ),
    "levels": lambda: views.levels(MODEL, X, variables=(0, 2), labels=Y, resolution=12),
    "reconstruction": lambda: views.reconstruction(MODEL, X, names=NAMES),
    "distances": lambda: views.distances([1.0, np.inf, 0.0], [1.0, 1.0, 2.0]),
    "components": lambda: views.components(LINEAR, (2, 2)),
    "monitoring": lambda: views.monitoring(SEEN),
    "monitoring with infinite rows": lambda: views.monitoring(
        KernelPCADetector(kernel="poly").fit(NORMAL), [[1e200] * 4, [0.0] * 4]
    ),
    "contributions": lambda: views.contributions(DETECTOR, X=RUN[41:44], names=list("abcd")),
    "contributions over time": lambda: views.contributions_over_time(SEEN),
    "blame of an event": lambda: views.event_blame(EVENTS[0]),
}


@pytest.fixture(scope="module")
def made():
    return {name: make() for name, make in VIEWS.items()}


# ── values ──────────────────────────────────────────────────────────────────
def same(value, told):
    """Whether JSON says what the view holds, to the last bit."""
    if isinstance(value, np.ndarray) and value.dtype.kind == "f":
        numbers = [
            np.nan if v is None else float(v) for v in np.ravel(np.array(told, dtype=object))
        ]
        return np.array_equal(np.ravel(value), numbers, equal_nan=True)
    if isinstance(value, np.ndarray) and value.dtype.kind == "M":
        return np.array_equal(value, np.array(told, dtype=value.dtype))
    if isinstance(value, np.ndarray):
        return value.tolist() == told
    if dataclasses.is_dataclass(value):
        return all(same(getattr(value, f.name), told[f.name]) for f in dataclasses.fields(value))
    if isinstance(value, (list, tuple)):
        return len(value) == len(told) and all(map(same, value, told))
    return value == told


@pytest.mark.parametrize("name", VIEWS)
def test_json_carries_every_field_of_a_view_and_brings_the_same_numbers_back(made, name):
    view = made[name]
    told = json.loads(json.dumps(view.to_dict(), allow_nan=False))
    assert told.pop("kind") == view.kind
    assert set(told) == {field.name for field in dataclasses.fields(view)}
    assert same(view, told)
    assert view.caption


@pytest.mark.parametrize("name", VIEWS)
def test_nothing_changes_a_view(made, name):
    view = made[name]
    with pytest.raises(dataclasses.FrozenInstanceError):
        view.caption = "other"
    arrays = [getattr(view, field.name) for field in dataclasses.fields(view)]
    for array in (a for a in arrays if isinstance(a, np.ndarray)):
        with pytest.raises(ValueError, match="read-only"):
            array[...] = array


def test_the_arrays_of_a_caller_stay_writeable():
    own = np.array([[1.0, 2.0], [3.0, 4.0]])
    views.scores(own)
    own[0, 0] = 5.0  # would raise


# ── models as well as arrays ────────────────────────────────────────────────
def test_a_model_and_its_arrays_make_the_same_views():
    ratio = MODEL.explained_variance_ratio_
    arrays = views.scores(MODEL.transform(X), Y, explained_variance_ratio=ratio)
    assert arrays.to_dict() == views.scores(MODEL, X, Y).to_dict()
    share = views.spectrum(MODEL.eigenvalues_, total=MODEL.fit_.total)
    np.testing.assert_array_equal(share.shares, views.spectrum(MODEL).shares)
    knobs = {"variables": (0, 2), "component": [1], "resolution": 9}
    ours = views.levels(MODEL, X, **knobs)
    np.testing.assert_array_equal(ours.values, views.levels(MODEL.transform, X, **knobs).values)
    assert ours.titles == (f"component 2 ({100 * ratio[1]:.1f} %)",)


def test_a_prepared_model_takes_rows_as_the_file_has_them():
    center, spread = X.mean(axis=0), X.std(axis=0)
    inner = KernelPCA(2, kernel=RBF(0.1), preimage="ridge").fit((X - center) / spread)
    model = Prepared(Preparation(tuple(NAMES), center=center, spread=spread), inner)
    np.testing.assert_allclose(views.scores(model, X).points, model.transform(X))
    knobs = {"variables": ("sepal width", "petal width"), "resolution": 7, "component": 0}
    view = views.levels(model, X, **knobs)
    assert view.axes == ("sepal width", "petal width")
    np.testing.assert_allclose(view.points, X[:, [1, 3]], rtol=1e-14)
    corner = np.median(X, axis=0)
    corner[[1, 3]] = view.across[0], view.up[0]
    np.testing.assert_allclose(view.values[0, 0, 0], model.transform(corner[None])[0, 0])
    back = views.reconstruction(model, X)
    error = np.sqrt(np.mean((model.reconstruct(X) - X) ** 2, axis=0))
    np.testing.assert_allclose(back.error, error)


@pytest.mark.parametrize("kind", [pd.DataFrame, pl.DataFrame])
def test_frames_bring_their_names_and_their_order_is_checked(tmp_path, kind):
    """Warnings are errors here: none about names that arrays don't have."""
    frame, other = (
        kind(dict(zip(NAMES, X.T, strict=True))),
        kind(dict(zip(NAMES[::-1], X.T, strict=True))),
    )
    model = KernelPCA(2, kernel=RBF(0.3), preimage="ridge").fit(frame)
    detector = KernelPCADetector(model=PCA(2)).fit(frame)
    scores = kind(
        dict(zip("ab", MODEL.transform(X)[:, :2].T, strict=True))
    )  # which has `transform`
    np.testing.assert_array_equal(views.scores(scores).points, MODEL.transform(X)[:, :2])
    np.testing.assert_allclose(
        views.scores(model, frame).points, MODEL.transform(X)[:, :2], atol=1e-9
    )
    assert set(views.biplot(model, frame).arrows.names) <= set(NAMES)
    assert views.reconstruction(model, frame).names == tuple(NAMES)
    assert views.levels(model, frame, variables=NAMES[:2], resolution=4).axes == tuple(NAMES[:2])
    assert views.monitoring(detector, frame).charts[0].name == "T²"
    assert views.contributions(detector, X=frame).names
    for one in (model, detector):
        assert "petal width" in mercer.report(one, frame, tmp_path / "r.html").read_text("utf-8")
    with pytest.raises(InputError, match="in their order: sepal length, sepal width"):
        views.reconstruction(model, other)


def test_shares_of_a_model_of_scikit_learn_are_its_own():
    theirs = Theirs(2).fit(X)
    view = views.spectrum(theirs)
    np.testing.assert_allclose(view.shares, theirs.explained_variance_ratio_)
    assert view.whole
    assert plots.scores(theirs, X, ax=Figure().subplots()).get_xlabel().endswith("%)")


@pytest.mark.parametrize("model", [Theirs(2), TheirKernels(2, kernel="rbf"), PCA(2)])
def test_a_total_that_is_given_is_the_whole_of_any_model(model):
    view = views.spectrum(model.fit(X), total=1000.0)
    np.testing.assert_allclose(view.shares, view.eigenvalues / 1000.0)
    assert view.whole
    assert "kept" not in view.axes[1]


def test_bounds_are_those_of_the_fit_in_shares(made):
    view = made["spectrum of an approximation"]
    assert view.evidence.startswith("The fit is an approximation: ")
    assert "of a true one" in made["spectrum"].evidence
    assert views.spectrum([1.0]).evidence == ""
    low, high = view.bounds.T
    assert np.all(low <= view.shares + 1e-12)
    assert np.all(view.shares <= high + 1e-12)


def test_components_of_linear_pca_are_its_axes(made):
    theirs = Theirs(3).fit(X)
    for image, axis in zip(made["components"].images[1:], theirs.components_, strict=True):
        unit = image.ravel() / np.linalg.norm(image)
        assert abs(unit @ axis) == pytest.approx(1.0, abs=1e-9)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: views.scores(KernelPCA(2), X), "not fitted"),
        (lambda: views.scores(X[:, :2], X, Y), "not rows as well"),
        (lambda: views.monitoring(MODEL, X), "needs a detector; got a KernelPCA"),
        (lambda: views.reconstruction(KernelPCA(2).fit(X), X), "preimage='ridge'"),
        (lambda: views.components(LINEAR), r"`shape` must be \(height, width\)"),
        (
            lambda: views.contributions_over_time(DETECTOR.monitor(NORMAL[:3])),
            "There are no contributions to draw: no row is an alarm.",
        ),
        (lambda: plots.contours(MODEL, X), r"variables=\('x0', 'x3'\)"),
    ],
)
def test_what_can_not_be_shown_is_refused_with_a_way_out(call, words):
    with pytest.raises(InputError, match=words):
        call()


# ── a process ───────────────────────────────────────────────────────────────
def test_charts_hold_the_statistics_limits_and_alarms_of_the_table(made):
    view = made["monitoring"]
    for chart, name in zip(view.charts, ("T2", "Q"), strict=True):
        np.testing.assert_array_equal(chart.values, SEEN.table[name])
        np.testing.assert_array_equal(chart.alarm, SEEN.table["alarm"])
        assert chart.limit == SEEN.line(name)
    assert not view.judged[50]
    np.testing.assert_array_equal(view.time, CLOCK)


def test_only_the_statistic_that_decides_has_a_limit():
    detector = KernelPCADetector(statistic="Q").fit(NORMAL)
    t2, q = views.monitoring(detector, RUN).charts
    assert t2.limit is None
    assert q.limit == pytest.approx(detector.limits_.q)


def test_contributions_over_time_are_mean_shares_of_the_alarms_in_each_slot(made):
    view = made["contributions over time"]
    assert view.names[0] == "c"
    own = np.maximum(SEEN.contributions, 0.0)
    own = own / own.sum(axis=1, keepdims=True)
    for i, name in enumerate(view.names):
        for slot in range(len(view.rows) - 1):
            inside = (SEEN.explained >= view.rows[slot]) & (SEEN.explained < view.rows[slot + 1])
            wanted = own[inside, "abcd".index(name)].mean() if inside.any() else np.nan
            assert view.shares[i, slot] == pytest.approx(wanted, nan_ok=True)


def test_blame_of_an_event_is_that_of_its_alarms(made):
    view, event = made["blame of an event"], EVENTS[0]
    assert view.names[0] == event.led[0][0] == "c"
    inside = (SEEN.explained >= event.first) & (SEEN.explained <= event.last)
    own = np.maximum(SEEN.contributions[inside], 0.0)
    own = own / own.sum(axis=1, keepdims=True)
    assert (
        len(own) == view.rows[-1] == event.alarms - event.unjudged
    )  # one lacks a cell, for certain
    counts = np.diff(view.rows)
    np.testing.assert_allclose(
        view.shares @ counts / counts.sum(), own.mean(axis=0)[["abcd".index(n) for n in view.names]]
    )
    assert view.time[0] == CLOCK[event.first]
    ax = plots.contributions_over_time(event, ax=Figure().subplots())
    assert ax.get_yticklabels()[0].get_text() == "c"


def test_events_in_a_table_are_those_of_the_stream():
    rows = events_table(SEEN).rows
    assert [(r[0], r[1], r[3]) for r in rows] == [
        (str(CLOCK[e.first]), str(CLOCK[e.last]), e.severity) for e in EVENTS
    ]
    assert rows[0][2].startswith("c")


def test_times_in_no_order_are_counted():
    with pytest.warns(DetectorWarning, match="older than one before"):
        shuffled = DETECTOR.monitor(RUN, time=CLOCK[::-1])
    view = views.monitoring(shuffled)
    np.testing.assert_array_equal(view.time, np.arange(80))
    assert view.axis == "row"
    chart = plots.monitoring(shuffled, axis="clock", fig=Figure())[-1]
    assert chart.get_xlabel() == "row"
    assert axis_times(["1", "b"]) is None


def test_whole_numbers_that_do_not_count_the_rows_are_times_in_every_picture():
    seen = DETECTOR.monitor(RUN, time=10 * np.arange(80))
    assert views.monitoring(seen).axis == views.contributions_over_time(seen).axis == "time"
    counted = DETECTOR.monitor(RUN)
    assert views.monitoring(counted).axis == views.contributions_over_time(counted).axis == "row"


def test_pictures_of_a_process_are_over_clock_time():
    axes = plots.monitoring(SEEN, fig=Figure())
    first, last = (num2date(t) for t in axes[1].get_lines()[0].get_xdata(orig=False)[[0, -1]])
    assert (first.hour, last.hour) == (22, 11)
    marks = {one.get_label(): one.get_marker() for one in axes[0].get_lines()}
    assert marks["alarm"] != marks["normal"], "alarms have a shape of their own"
    ax = plots.contributions_over_time(SEEN, ax=Figure().subplots())
    assert ax.get_yticklabels()[0].get_text() == "c"


def test_rows_of_a_detector_are_marked_as_alarms():
    ax = plots.scores(DETECTOR, RUN[~np.isnan(RUN).any(axis=1)], ax=Figure().subplots())
    drawn = {c.get_label(): len(c.get_offsets()) for c in ax.collections}
    assert drawn == {"normal": 79 - SEEN.table["alarm"].sum(), "alarm": SEEN.table["alarm"].sum()}
    shapes = {c.get_paths()[0].vertices.tobytes() for c in ax.collections}
    assert len(shapes) == 2


# ── the report ──────────────────────────────────────────────────────────────
def test_a_report_is_written_whole_and_is_what_build_makes(tmp_path):
    path = mercer.report(MODEL, X, tmp_path / "r.html", labels=Y, names=NAMES)
    assert path.read_text("utf-8") == build(MODEL, X, labels=Y, names=NAMES)
    with pytest.raises(InputError):
        mercer.report(MODEL, X[:, :2], path)
    assert path.read_text("utf-8").endswith("</html>\n")
    assert list(tmp_path.iterdir()) == [path]
    with pytest.raises(TypeError, match="lables"):
        mercer.report(MODEL, X, path, lables=Y)


def test_the_first_event_leads_and_an_alarm_before_it_is_said_to_be_of_none():
    run = np.zeros((400, 4))
    run[5, 1] = 9.0  # one row is no event
    for begin in range(20, 400, 30):
        run[begin : begin + 3, 3] = 9.0
    html = build(DETECTOR, run, names=list("abcd"))
    first = r"<dt>first event</dt><dd><b>21</b><span>3 rows, severity high, led by d</span>"
    assert re.search(first + r".*1 alarm without an event", html, re.DOTALL)
    alone = build(DETECTOR, run[:15], names=list("abcd"))
    begins = (
        r"<dt>first alarm, of no event</dt><dd><b>6</b><span>1 row, severity high, led by b</span>"
    )
    assert re.search(r"<dt>events</dt><dd><b>none</b>.*" + begins, alone, re.DOTALL)


@pytest.mark.parametrize("given", ["time", "index"])
def test_a_detectors_page_begins_with_alarms_on_the_clock(given):
    if given == "time":
        html = build(DETECTOR, RUN, names=list("abcd"), time=CLOCK)
    else:
        html = build(DETECTOR, pd.DataFrame(RUN, columns=list("abcd"), index=CLOCK))
    first = str(CLOCK[np.flatnonzero(SEEN.table["alarm"])[0]]).replace("T", " ")
    header = html[: html.index("<main>")]
    assert f"The first is at time {first}" in header
    assert "led by c" in header
    assert re.search(r"<section[^>]*>", html)[0].startswith('<section id="monitoring"')
    ticks = re.findall(r'text-anchor="middle">([^<]*)</text>', html)
    assert "2026-01-06 00:00" in ticks
    assert "03:00" in ticks
    assert "leaders-figure" in html


def test_rows_without_a_past_are_left_out_of_pictures_of_scores_and_counted():
    lagged = KernelPCADetector(lags=2).fit(NORMAL)
    rows = np.nan_to_num(RUN)
    view = views.scores(lagged, rows, ids=[f"r{i}" for i in range(80)])
    np.testing.assert_array_equal(view.rows, np.arange(2, 80))
    assert (view.without_past, view.left_out, view.ids[0]) == (2, 0, "r2")
    assert "2 rows with too few before them are not drawn" in view.caption
    assert sum(view.classes.counts) == 78
    assert view.classes.counts[1] == np.sum(lagged.predict(rows) == -1)
    arrows = views.biplot(lagged, rows, names=list("abcd"), top=12).arrows
    assert "a (1 row before)" in arrows.names
    found = views.contributions(lagged, X=rows[40:50], names=list("abcd"))
    assert found.axis == "mean contribution of 8 rows"
    assert found.names[0] == "c"


@pytest.mark.parametrize("brought", ["index", "argument"])
@pytest.mark.parametrize("knobs", [{"smoothing": 0.3}, {"lags": 2}], ids=["smoothing", "lags"])
def test_pictures_of_scores_mark_the_alarms_of_a_monitor_after_a_gap(knobs, brought):
    minute, day = np.timedelta64(1, "m"), np.timedelta64(1, "D")
    start = np.datetime64("2026-01-05T00:00", "ns")
    usual = pd.DataFrame(NORMAL, columns=list("abcd"))
    usual.index = pd.DatetimeIndex(start + minute * np.arange(len(NORMAL)))
    detector = KernelPCADetector(**knobs).fit(usual)
    time = start + minute * np.arange(60) + day * (np.arange(60) >= 30)
    rows = usual[:60].set_axis(pd.DatetimeIndex(time))
    rows.iloc[20:30] += 6.0  # what comes after the gap is judged without them
    table = detector.monitor(rows).table
    straight = detector.monitor(rows.set_axis(usual.index[:60])).table
    assert np.any(table["alarm"] != straight["alarm"])  # or there is nothing to get wrong
    if brought == "index":
        view, arrows = views.scores(detector, rows), views.biplot(detector, rows)
        np.testing.assert_array_equal(arrows.rows, view.rows)
    else:
        view = views.scores(detector, rows.to_numpy(), time=time)
    np.testing.assert_array_equal(view.rows, np.flatnonzero(table["judged"]))
    np.testing.assert_array_equal(view.classes.codes == 1, table["alarm"][view.rows])


@pytest.mark.parametrize("shape", [(3,), (3, 1)])
def test_scores_that_are_not_finite_are_left_out_and_counted(shape):
    values = np.array([1.0, np.inf, 2.0]).reshape(shape)
    view = views.scores(values, components=(0,), keep_infinite=False)
    assert (view.rows.tolist(), view.left_out) == ([0, 2], 1)


SHORT = {"too few rows": NORMAL[:2], "no complete row": np.full((9, 4), np.nan)}


@pytest.mark.parametrize("rows", SHORT.values(), ids=SHORT)
@pytest.mark.parametrize("name", ["scores", "biplot", "contributions", "monitoring"])
def test_rows_of_which_none_can_be_judged_are_refused_in_words(name, rows):
    lagged = KernelPCADetector(lags=2).fit(NORMAL)
    ask = {"contributions": lambda *about: views.contributions(about[0], X=about[1])}
    with pytest.raises(InputError, match=r"at least 3 rows|None of 9 rows|NaN"):
        ask.get(name, getattr(views, name))(lagged, rows)


def test_the_legend_of_a_report_counts_the_points_that_are_drawn():
    lagged = KernelPCADetector(lags=2).fit(NORMAL)
    page = build(lagged, np.nan_to_num(RUN))
    legend = page[page.index('class="legend"') :].partition("</ul>")[0]
    assert sum(int(n) for n in re.findall(r'class="count">(\d+)<', legend)) == 78


def test_a_refused_argument_brings_its_name_and_the_remedy():
    with pytest.raises(InputError, match="eigenvalues must be non-negative") as caught:
        views.spectrum([1.0, 2.0])
    assert caught.value.parameter == "eigenvalues"
    assert str(caught.value.remedy).startswith("Sort them")
