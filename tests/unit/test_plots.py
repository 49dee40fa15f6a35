"""What is drawn is what was given: points, shares, curves, zero lines and pixels are read back."""

import re
import subprocess
import sys

import matplotlib as mpl

mpl.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
import pytest
from matplotlib.figure import Figure
from sklearn.datasets import make_circles
from sklearn.decomposition import PCA, KernelPCA

import mercer
from mercer import plots
from mercer._core.errors import InputError


@pytest.fixture(autouse=True)
def _closed_figures():
    plt.close("all")  # what another test of this process has left
    yield
    plt.close("all")


def frozen(array):
    array = np.array(array)
    array.flags.writeable = False
    return array


def circle(points):
    """Zero exactly on the unit circle, and a second component that is zero on a line."""
    return np.column_stack([(points**2).sum(axis=1) - 1, points[:, 0] - 0.25])


X, RINGS = map(frozen, make_circles(60, factor=0.3, noise=0.05, random_state=0))
MODEL = KernelPCA(3, kernel="rbf", gamma=4.0, fit_inverse_transform=True).fit(X)
Z = frozen(MODEL.transform(X))
BACK = frozen(MODEL.inverse_transform(Z))
LINEAR = frozen(PCA(2).fit_transform(X))
FACES = frozen(np.random.default_rng(0).normal(size=(7, 12)))
REBUILT = frozen(FACES[:2, None, :] * np.array([0.0, 0.5, 0.9])[:, None])  # errors 100, 50, 10 %

PICTURES = {
    "scores": lambda: plots.scores(Z, RINGS, title="rings"),
    "scores of many classes": lambda: plots.scores(Z, [f"class {i % 20}" for i in range(60)]),
    "scores of too many classes": lambda: plots.scores(Z, np.arange(60), title="points"),
    "scores with a measurement": lambda: plots.scores(Z, X[:, 0]),
    "one component": lambda: plots.scores(Z[:, :1], RINGS),
    "panels": lambda: plots.panels(X, LINEAR, Z, BACK, RINGS),
    "panels with a measurement": lambda: plots.panels(X, LINEAR[:, :1], Z, BACK, X[:, 0]),
    "panels of too many classes": lambda: plots.panels(X, LINEAR, Z, BACK, np.arange(60)),
    "spectrum": lambda: plots.spectrum(MODEL.eigenvalues_, total=60.0),
    "long spectrum": lambda: plots.spectrum(frozen(0.9 ** np.arange(100))),
    "levels": lambda: plots.levels(X, MODEL.transform, labels=RINGS, resolution=30),
    "grid of levels": lambda: plots.levels(
        X, MODEL.transform, n_components=2, labels=RINGS, resolution=30
    ),
    "faces": lambda: plots.faces(FACES, shape=(4, 3), n_columns=4, titles=list("abcdefg")),
    "eigenfaces": lambda: plots.faces(FACES, shape=(4, 3), symmetric=True),
    "ladder": lambda: plots.ladder(
        FACES[:2], REBUILT, shape=(4, 3), steps=[25, 50, 100], row_titles=["a face", "no face"]
    ),
}


def drawn(ax):
    """All points of the scatters in an Axes."""
    parts = [c.get_offsets() for c in ax.collections if hasattr(c, "get_sizes")]
    return np.concatenate([np.asarray(p) for p in parts if len(p)])


def same_points(a, b):
    return np.array_equal(np.sort(a.view("f8,f8"), axis=0), np.sort(b.view("f8,f8"), axis=0))


def legend_names(legend):
    return [text.get_text() for text in legend.get_texts()]


def image(ax):
    return np.asarray(ax.get_images()[0].get_array())


# Laws over all pictures


@pytest.mark.parametrize("name", PICTURES)
def test_a_picture_fits_its_own_figure_covers_no_text_and_changes_no_setting(name):
    before = dict(mpl.rcParams)
    axes = np.atleast_1d(np.asarray(PICTURES[name](), dtype=object)).ravel()
    figure = axes[0].get_figure(root=True)
    assert plt.get_fignums() == [figure.number]
    assert dict(mpl.rcParams) == before
    figure.draw_without_rendering()
    content = figure.get_tightbbox()
    width, height = figure.get_size_inches()
    assert min(content.x0, content.y0) > -0.02
    assert content.x1 < width + 0.02
    assert content.y1 < height + 0.02
    boxes = []
    for ax in axes:
        texts = [ax.title, ax.xaxis.label, ax.yaxis.label, *ax.texts]
        boxes += [(t.get_text(), t.get_window_extent()) for t in texts if t.get_text()]
    for i, (text, box) in enumerate(boxes):
        for other, taken in boxes[:i]:
            assert not box.overlaps(taken), f"{text!r} covers {other!r}"


@pytest.mark.parametrize(
    "draw",
    [
        lambda fig: plots.scores(Z, RINGS, ax=fig.subplots()),
        lambda fig: plots.scores(Z, X[:, 0], ax=fig.subplots()),
        lambda fig: plots.panels(X, LINEAR, Z, BACK, RINGS, fig=fig),
        lambda fig: plots.panels(X, LINEAR, Z, BACK, RINGS, fig=fig.subfigures(1, 2)[0]),
        lambda fig: plots.spectrum([2.0, 1.0], ax=fig.subplots()),
        lambda fig: plots.levels(X, circle, ax=fig.subplots(), resolution=9),
        lambda fig: plots.levels(X, circle, component=[1, 0], ax=fig.subplots(1, 2), resolution=9),
        lambda fig: plots.faces(FACES, shape=(4, 3), fig=fig),
        lambda fig: plots.ladder(FACES[:2], REBUILT, shape=(4, 3), steps=[1, 2, 3], fig=fig),
    ],
)
def test_given_axes_are_drawn_on_without_pyplot(draw):
    figure = Figure()
    axes = np.atleast_1d(np.asarray(draw(figure), dtype=object)).ravel()
    assert all(ax.get_figure(root=True) is figure for ax in axes)
    assert plt.get_fignums() == []


def test_importing_the_pictures_does_not_import_matplotlib():
    code = "import mercer.plots, sys; print('matplotlib' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


@pytest.mark.parametrize("name", PICTURES)
def test_without_matplotlib_the_error_gives_the_command(name, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    with pytest.raises(ImportError, match=re.escape('pip install "mercer[plot]"')):
        PICTURES[name]()


# Scores


@pytest.mark.parametrize("labels", [None, RINGS, RINGS.astype(float), X[:, 0], np.arange(60)])
def test_every_score_is_drawn_once(labels):
    ax = plots.scores(Z, labels, components=(2, 0))
    assert same_points(drawn(ax), Z[:, [2, 0]].copy())


def test_axes_name_components_from_one_with_their_share():
    ax = plots.scores(Z, components=(0, 2), explained_variance_ratio=[0.3214, 0.2, 0.05])
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("component 1 (32.1 %)", "component 3 (5.0 %)")
    assert plots.scores(Z).get_xlabel() == "component 1"


@pytest.mark.parametrize(
    ("labels", "names"),
    [
        (np.array(["outer", "inner"])[RINGS], ["inner", "outer"]),
        (RINGS, ["0", "1"]),
        (RINGS.astype(np.float32), ["0", "1"]),
        (RINGS.astype(bool), ["False", "True"]),
        (np.array([None, "a", 3] * 20, dtype=object), ["3", "a", "(no label)"]),
    ],
)
def test_classes_get_a_legend_and_a_colour_each(labels, names):
    ax = plots.scores(Z, labels)
    assert legend_names(ax.get_legend()) == names
    of = {c.get_label(): c for c in ax.collections}
    told = [
        "(no label)" if v is None else str(int(v) if isinstance(v, np.floating) else v)
        for v in labels
    ]
    assert [len(of[name].get_offsets()) for name in names] == [told.count(n) for n in names]
    assert len({tuple(c.get_facecolor()[0]) for c in ax.collections}) == len(names)
    assert len(ax.figure.axes) == 1  # no colour bar


def test_twenty_classes_all_look_different_and_the_legend_stands_outside():
    ax = plots.scores(Z, np.arange(60) % 20)
    looks = {
        (tuple(c.get_facecolor()[0]), c.get_paths()[0].vertices.tobytes()) for c in ax.collections
    }
    assert len(looks) == 20
    ax.figure.draw_without_rendering()
    assert ax.get_legend().get_window_extent().x0 >= ax.get_window_extent().x1


def test_more_than_twenty_classes_get_a_note_in_place_of_a_legend():
    ax = plots.scores(Z, np.arange(60) // 2)
    assert ax.get_legend() is None
    assert [text.get_text() for text in ax.texts] == ["30 classes, shaded in sorted order"]


def test_a_measurement_gets_a_colour_bar_and_its_own_values():
    ax = plots.scores(Z, X[:, 0])
    assert ax.get_legend() is None
    assert len(ax.figure.axes) == 2
    assert np.array_equal(ax.collections[0].get_array(), X[:, 0])


@pytest.mark.parametrize("one", [Z[:, :1], Z[:, 0], Z[:, 0].tolist()])
def test_one_component_is_a_strip_without_jitter(one):
    ax = plots.scores(one, RINGS)
    assert same_points(drawn(ax), np.column_stack([Z[:, 0], RINGS.astype(float)]))
    assert [t.get_text() for t in ax.get_yticklabels()] == ["0", "1"]
    plain = plots.scores(one)
    assert same_points(drawn(plain), np.column_stack([Z[:, 0], np.arange(60.0)]))


# Panels


def test_panels_draw_what_they_are_named_after():
    axes = plots.panels(X, LINEAR, Z, BACK, RINGS)
    assert axes.shape == (2, 2)
    assert same_points(drawn(axes[0, 0]), X.copy())
    assert same_points(drawn(axes[0, 1]), LINEAR.copy())
    assert same_points(drawn(axes[1, 0]), Z[:, :2].copy())
    assert same_points(drawn(axes[1, 1]), np.vstack([X, BACK]))
    assert axes[1, 1].collections[0].get_gid() == "original"  # faint and below
    assert legend_names(axes[0, 0].figure.legends[0]) == ["0", "1"]


def test_input_space_has_one_scale_in_both_directions_and_both_panels():
    axes = plots.panels(X * [3.0, 1.0], LINEAR, Z, BACK)
    axes[0, 0].figure.draw_without_rendering()
    units = []
    for ax in (axes[0, 0], axes[1, 1]):
        corner, right, top = ax.transData.transform([[0, 0], [1, 0], [0, 1]])
        units += [right[0] - corner[0], top[1] - corner[1]]
    assert np.ptp(units) < 1e-6 * units[0]


# Spectrum


def test_shares_are_of_the_true_total_when_it_is_known():
    ax = plots.spectrum([5.0, 3.0, 1.0], total=10.0)
    assert np.allclose([bar.get_height() for bar in ax.patches], [50, 30, 10])
    assert np.allclose(ax.get_lines()[0].get_ydata(), [50, 80, 90])
    assert "kept" not in ax.get_ylabel()
    assert "95 %, not reached" in legend_names(ax.get_legend())
    assert "cumulative, 90.0 % in all" in legend_names(ax.get_legend())


def test_without_a_total_the_axis_says_that_shares_are_of_the_kept():
    ax = plots.spectrum([5.0, 3.0, 1.0])
    assert ax.get_lines()[0].get_ydata()[-1] == pytest.approx(100)
    assert ax.get_ylabel() == "share of the kept variance (%)"


@pytest.mark.parametrize(
    ("eigenvalues", "k"),
    [([1.0], 1), ([95.0, 5.0], 1), ([94.9, 0.1, 5.0], None), ([60.0, 30.0, 5.0, 5.0], 3)],
)
def test_the_mark_stands_at_the_first_k_with_95_per_cent(eigenvalues, k):
    if k is None:  # not in descending order: the question has no meaning
        with pytest.raises(InputError, match="descending"):
            plots.spectrum(eigenvalues)
        return
    ax = plots.spectrum(eigenvalues)
    assert f"95 % with k = {k}" in legend_names(ax.get_legend())
    assert ax.get_lines()[1].get_xdata() == [k]


def test_a_long_spectrum_is_one_outline_with_the_same_heights():
    values = 0.9 ** np.arange(200)
    ax = plots.spectrum(values)
    (outline,) = ax.patches
    assert np.allclose(outline.get_data().values, 100 * values / values.sum())


# Levels


def zero_line(ax):
    (line,) = [c for c in ax.collections if c.get_gid() == "zero"]
    return np.concatenate([path.vertices for path in line.get_paths()])


def test_the_zero_line_of_a_circle_is_the_circle():
    vertices = zero_line(plots.levels(X, circle))
    assert np.allclose(np.linalg.norm(vertices, axis=1), 1.0, atol=1e-3)
    angles = np.arctan2(vertices[:, 1], vertices[:, 0])
    assert np.diff(np.sort(angles)).max() < 0.1  # all the way round


def test_the_zero_line_lies_where_a_fitted_component_is_zero():
    ax = plots.levels(X, MODEL.transform, component=1)
    assert np.abs(MODEL.transform(zero_line(ax))[:, 1]).max() < 1e-2 * np.abs(Z[:, 1]).max()
    assert same_points(drawn(ax), X.copy())


def test_colours_are_symmetric_about_zero():
    filled = plots.levels(X, circle, resolution=40).collections[0]
    assert np.allclose(filled.levels, -filled.levels[::-1])
    assert 0.0 in filled.levels


def test_several_components_give_one_axes_each():
    axes = plots.levels(X, circle, component=[1, 0], resolution=40)
    assert [ax.get_title() for ax in axes] == ["component 2", "component 1"]
    assert np.allclose(zero_line(axes[0])[:, 0], 0.25)
    assert len(plots.levels(X, MODEL.transform, n_components=3, resolution=9)) == 3


@pytest.mark.parametrize("points", [X, [[1.0, 2.0]], [[0.0, 1.0], [5.0, 1.0]]])
def test_levels_see_the_data_with_a_margin_and_call_in_blocks(points):
    seen = []

    def transform(p):
        seen.append(p)
        return np.ones((len(p), 1))  # nowhere zero: no line to mark

    ax = plots.levels(points, transform, resolution=60, margin=0.1)
    grid = np.concatenate(seen)
    assert len(grid) == 3600
    assert len(seen) > 1
    assert (grid.min(axis=0) < np.min(points, axis=0)).all()
    assert (grid.max(axis=0) > np.max(points, axis=0)).all()
    assert not [c for c in ax.collections if c.get_gid() == "zero"]


@pytest.mark.parametrize("unit", [1e-9, 1e17])
@pytest.mark.parametrize("points", [X, [[1.0, 2.0]], [[0.0, 1.0], [5.0, 1.0]]])
def test_levels_show_the_same_in_every_unit_even_where_a_variable_does_not_vary(points, unit):
    def ends(X, transform):
        ax = plots.levels(X, transform, resolution=9)
        return np.array([*ax.get_xlim(), *ax.get_ylim()])

    other = ends(unit * np.asarray(points), lambda p: p / unit)
    np.testing.assert_allclose(other / unit, ends(points, lambda p: p), rtol=1e-9, atol=1e-9)


# Images


def test_faces_show_their_rows_on_one_scale():
    axes = plots.faces(FACES, shape=(4, 3), n_columns=3, titles=list("abcdefg"))
    assert axes.shape == (7,)
    for ax, row, title in zip(axes, FACES, "abcdefg", strict=True):
        assert np.array_equal(image(ax), row.reshape(4, 3))
        assert ax.get_images()[0].get_clim() == (FACES.min(), FACES.max())
        assert ax.get_title() == title
    assert len(axes[0].figure.axes) == 7  # no empty frames in the last row


def test_eigenfaces_have_zero_in_the_middle_of_their_own_scale():
    for ax, row in zip(plots.faces(FACES, shape=(4, 3), symmetric=True), FACES, strict=True):
        assert ax.get_images()[0].get_clim() == (-np.abs(row).max(), np.abs(row).max())


def test_the_ladder_climbs_to_the_original_with_the_error_under_each_step():
    axes = plots.ladder(
        FACES[:2], REBUILT, shape=(4, 3), steps=[25, 50, 100], row_titles=["a face", "no face"]
    )
    assert axes.shape == (2, 4)
    assert [ax.get_title() for ax in axes[0]] == ["k = 25", "k = 50", "k = 100", "original"]
    assert [ax.get_ylabel() for ax in axes[:, 0]] == ["a face", "no face"]
    for i in range(2):
        assert [ax.get_xlabel() for ax in axes[i]] == ["error 100.0 %", "50.0 %", "10.0 %", ""]
        assert np.array_equal(image(axes[i, 3]), FACES[i].reshape(4, 3))
        for j in range(3):
            assert np.array_equal(image(axes[i, j]), REBUILT[i, j].reshape(4, 3))
            assert axes[i, j].get_images()[0].get_clim() == (FACES[i].min(), FACES[i].max())


def test_errors_that_are_given_are_the_ones_shown():
    errors = [[0.5, 0.25, 0.125]]
    axes = plots.ladder(FACES[:1], REBUILT[:1], shape=(4, 3), steps=[1, 2, 3], errors=errors)
    assert [ax.get_xlabel() for ax in axes[0, :3]] == ["error 50.0 %", "25.0 %", "12.5 %"]


def test_a_black_picture_has_no_relative_error():
    axes = plots.ladder(np.zeros((1, 4)), np.ones((1, 1, 4)), shape=(2, 2), steps=[1])
    assert axes[0, 0].get_xlabel() == "error undefined"


# Bad input

NAN = np.where(np.arange(180).reshape(60, 3) == 7, np.nan, Z)
BAD = {
    "NaN in the scores": (lambda: plots.scores(NAN), r"first at \(2, 1\)"),
    "text scores": (lambda: plots.scores([["a", "b"]]), "real numbers"),
    "complex scores": (lambda: plots.scores(Z + 1j), "complex128"),
    "ragged scores": (lambda: plots.scores([[1.0, 2.0], [3.0]]), "rectangular"),
    "one number": (lambda: plots.scores(3.0), r"got shape \(\)"),
    "no scores": (lambda: plots.scores(np.empty((0, 2))), r"got shape \(0, 2\)"),
    "labels too few": (lambda: plots.scores(Z, RINGS[:-1]), r"\(60,\).*got shape \(59,\)"),
    "NaN label": (lambda: plots.scores(Z, NAN[:, 1]), "1 are NaN"),
    "component 3 of 3": (lambda: plots.scores(Z, components=(0, 3)), "from 0 to 2"),
    "component -1": (lambda: plots.scores(Z, components=(0, -1)), "from 0 to 2"),
    "component twice": (lambda: plots.scores(Z, components=(1, 1)), "two different"),
    "ratios too few": (lambda: plots.scores(Z, explained_variance_ratio=[0.5]), "1 values"),
    "per cent": (lambda: plots.scores(Z, explained_variance_ratio=[50, 30]), "between 0 and 1"),
    "3-D data": (lambda: plots.panels(Z, LINEAR, Z, BACK), r"got shape \(60, 3\)"),
    "3-D way back": (lambda: plots.panels(X, LINEAR, Z, Z), "`reconstruction` must be points"),
    "rows differ": (lambda: plots.panels(X, LINEAR[:9], Z, BACK), "`pca_scores` has 9 rows"),
    "three titles": (lambda: plots.panels(X, LINEAR, Z, BACK, titles=["a"] * 3), "4 panels"),
    "negative eigenvalue": (lambda: plots.spectrum([1.0, -0.5]), "non-negative"),
    "matrix as spectrum": (lambda: plots.spectrum(Z), r"\(k,\)"),
    "total too small": (lambda: plots.spectrum([2.0, 1.0], total=2.5), "trace"),
    "all zero": (lambda: plots.spectrum([0.0, 0.0]), "positive"),
    "levels of 3-D data": (lambda: plots.levels(Z, circle), r"got `X` of shape \(60, 3\)"),
    "flat transform": (lambda: plots.levels(X, lambda p: p[:, 0]), "one row of scores"),
    "NaN transform": (lambda: plots.levels(X, lambda p: p * np.nan), "NaN"),
    "component too high": (lambda: plots.levels(X, circle, component=2), "from 0 to 1"),
    "no component": (lambda: plots.levels(X, circle, component=[]), "at least one"),
    "both": (lambda: plots.levels(X, circle, component=1, n_components=2), "leave the other"),
    "axes too few": (
        lambda: plots.levels(X, circle, n_components=2, ax=Figure().subplots()),
        "2 components to draw",
    ),
    "resolution 1": (lambda: plots.levels(X, circle, resolution=1), "integer >= 2"),
    "negative margin": (lambda: plots.levels(X, circle, margin=-1.0), "margin"),
    "wrong shape": (lambda: plots.faces(FACES, shape=(4, 4)), "16 pixels.*has 12"),
    "shape no pair": (lambda: plots.faces(FACES, shape=12), "height, width"),
    "one flat face": (lambda: plots.faces(FACES[0], shape=(4, 3)), r"got shape \(12,\)"),
    "no columns": (lambda: plots.faces(FACES, shape=(4, 3), n_columns=0), "integer >= 1"),
    "steps too few": (
        lambda: plots.ladder(FACES[:2], REBUILT, shape=(4, 3), steps=[1, 2]),
        r"must have shape \(2, 2, 12\)",
    ),
    "errors too few": (
        lambda: plots.ladder(
            FACES[:2], REBUILT, shape=(4, 3), steps=[1, 2, 3], errors=[[0.1, 0.2, 0.3]]
        ),
        r"shape \(1, 3\)",
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_input_is_named_before_a_figure_is_made(name):
    call, message = BAD[name]
    with pytest.raises(InputError, match=message):
        call()
    assert plt.get_fignums() == []


def test_scores_of_a_model_need_rows():
    model = mercer.PCA(2).fit(np.eye(4, 3))
    with pytest.raises(InputError, match=r"scores\(model, X\)"):
        plots.scores(model)
