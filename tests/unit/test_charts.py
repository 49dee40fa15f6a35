"""Control charts and bars show what was given."""

import matplotlib as mpl

mpl.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
import pytest
from matplotlib.figure import Figure

from mercer import PCA, KernelPCADetector, plots
from mercer._core.errors import InputError


@pytest.fixture(autouse=True)
def _closed_figures():
    plt.close("all")  # what another test of this process has left
    yield
    plt.close("all")


T2, Q = np.array([1.0, 2.0, 6.0, 3.0]), np.array([0.1, 0.2, 0.3, 40.0])


def line(ax, label):
    (found,) = [one for one in ax.get_lines() if one.get_label() == label]
    return np.asarray(found.get_xdata()), np.asarray(found.get_ydata())


def charts(**knobs):
    return plots.control_charts(T2, Q, t2_limit=5.0, q_limit=1.0, **knobs)


def test_points_limits_and_alarms_are_where_they_were_given():
    axes = charts(alarms=[False, False, True, True], time=[10, 20, 30, 40], fault_at=25)
    for ax, values, limit in zip(axes, (T2, Q), (5.0, 1.0), strict=True):
        times, shown = line(ax, "alarm")
        np.testing.assert_array_equal(times, [30, 40])
        np.testing.assert_array_equal(shown, values[2:])
        np.testing.assert_array_equal(line(ax, "normal")[1], values[:2])
        np.testing.assert_array_equal(line(ax, "limit")[1], limit)
        np.testing.assert_array_equal(line(ax, "fault begins")[0], 25)


def test_without_alarms_each_chart_marks_what_is_above_its_own_limit():
    axes = charts()
    np.testing.assert_array_equal(line(axes[0], "alarm")[0], [2])
    np.testing.assert_array_equal(line(axes[1], "alarm")[0], [3])
    assert axes[1].get_xlabel() == "row"


def test_a_logarithmic_scale_only_for_what_goes_far_beyond():
    axes = charts()
    assert axes[0].get_yscale() == "linear"
    assert axes[1].get_yscale() == "log"
    zero = plots.control_charts(T2, [0.0, 0.0, 0.0, 99.0], t2_limit=5.0, q_limit=1.0)
    assert zero[1].get_yscale() == "linear"  # zero has no logarithm


def test_a_figure_that_was_given_is_drawn_in():
    figure = Figure()
    assert charts(fig=figure)[0].figure is figure


@pytest.mark.parametrize(
    ("knobs", "words"),
    [
        ({"time": [1]}, "`time` has 1 rows"),
        ({"alarms": [True]}, "`alarms` has 1 rows"),
        ({"q_limit": 0.0}, "q_limit must be a number > 0"),
        ({"q": [1.0, 2.0]}, "`q` has 2 rows"),
        ({"t2": [np.nan]}, "NaN"),
    ],
)
def test_charts_refuse(knobs, words):
    given = {"t2": T2, "q": Q, "t2_limit": 5.0, "q_limit": 1.0} | knobs
    with pytest.raises(InputError, match=words):
        plots.control_charts(given.pop("t2"), given.pop("q"), **given)


def test_a_report_draws_lines_where_alarms_begin():
    rng = np.random.default_rng(0)
    detector = KernelPCADetector(model=PCA(2)).fit(rng.standard_normal((200, 4)))
    seen = detector.monitor(1.6 * rng.standard_normal((100, 4)))
    axes = seen.plot(fig=Figure())
    above = [
        np.isin(np.arange(100), line(ax, "alarm")[0]) & (seen.table[name] > line(ax, "limit")[1][0])
        for ax, name in zip(axes, ("T2", "Q"), strict=True)
    ]
    # Every alarm is above one of the two lines, and nothing else is.
    np.testing.assert_array_equal(above[0] | above[1], seen.table["alarm"])
    assert 0 < seen.table["alarm"].sum() < 100
    for ax, name in zip(axes, ("T2", "Q"), strict=True):
        assert np.all(line(ax, "normal")[1] <= line(ax, "limit")[1][0]), name


def test_bars_are_the_largest_in_order():
    ax = plots.contribution_bars([0.1, 3.0, -0.5, 0.01], list("abcd"), top=3, title="alarm")
    assert [label.get_text() for label in ax.get_yticklabels()] == ["b", "a", "c"]
    assert [bar.get_width() for bar in ax.patches] == [3.0, 0.1, -0.5]
    assert ax.get_title() == "alarm"


def test_bars_of_several_rows_are_their_mean():
    ax = plots.contribution_bars([[1.0, 0.0], [3.0, 2.0]])
    assert [bar.get_width() for bar in ax.patches] == [2.0, 1.0]
    assert ax.get_xlabel() == "mean contribution of 2 rows"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (([1.0, 2.0], ["a"]), "`names` has 1 entries"),
        (([np.inf, 1.0],), "NaN or infinite"),
    ],
)
def test_bars_refuse(arguments, words):
    with pytest.raises(InputError, match=words):
        plots.contribution_bars(*arguments)


def test_infinite_statistics_are_marked_on_top():
    axes = plots.control_charts(
        [1.0, np.inf, 3.0], [0.1, 0.2, 0.3], t2_limit=2.0, q_limit=1.0, fig=Figure()
    )
    marked = {line.get_label(): line.get_xydata() for line in axes[0].get_lines()}
    np.testing.assert_array_equal(marked["infinite"], [[1.0, 6.0]])
    np.testing.assert_array_equal(marked["alarm"], [[2.0, 3.0]])
    np.testing.assert_array_equal(marked["normal"], [[0.0, 1.0]])
    assert "infinite" in [text.get_text() for text in axes[0].get_legend().get_texts()]
    assert "infinite" not in [line.get_label() for line in axes[1].get_lines()]
