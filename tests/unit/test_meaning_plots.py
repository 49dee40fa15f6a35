"""Arrows and slices are read back from the picture and held against the model."""

import matplotlib as mpl

mpl.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure
from sklearn.datasets import load_iris

from conftest import frozen
from mercer import PCA, KernelPCA, plots
from mercer._core.errors import InputError
from mercer.diagnostics import gradients, importance
from mercer.kernels import RBF

IRIS = load_iris(as_frame=True)
X = frozen(IRIS.data.to_numpy()[::2])
NAMES = list(IRIS.feature_names)
SPECIES = IRIS.target_names[IRIS.target][::2]
LINEAR = PCA(3).fit(X)
MODEL = KernelPCA(3, kernel=RBF(0.3)).fit(X)


@pytest.fixture(autouse=True)
def _closed_figures():
    plt.close("all")  # what another test of this process has left
    yield
    plt.close("all")


def drawn(ax):
    """The arrows, from their common start: (m, 2), and the names of the variables."""
    (quiver,) = [c for c in ax.collections if c.get_gid() == "arrows"]
    return np.column_stack([quiver.U, quiver.V]), quiver.XY


def named(ax):
    return [text.get_text() for text in ax.texts]


PICTURES = {
    "arrows": lambda: plots.arrows(
        MODEL.transform(X), importance(MODEL, X).slopes, SPECIES, names=NAMES, title="iris"
    ),
    "arrows that lie together": lambda: plots.arrows(
        np.random.default_rng(0).standard_normal((50, 2)),
        1.0 + 0.02 * np.random.default_rng(1).standard_normal((9, 2)),
        names=[f"a variable with a long name {l}" for l in range(9)],
        top=9,
    ),
    "slice": lambda: plots.levels(
        X, MODEL.transform, variables=(2, 3), names=NAMES, labels=SPECIES, resolution=20
    ),
    "slices": lambda: plots.levels(
        X, MODEL.transform, variables=(0, 1), fixed=3, n_components=3, resolution=20
    ),
}


@pytest.mark.parametrize("name", PICTURES)
def test_a_picture_fits_its_figure_and_covers_no_text(name):
    axes = np.atleast_1d(np.asarray(PICTURES[name](), dtype=object)).ravel()
    figure = axes[0].get_figure(root=True)
    figure.draw_without_rendering()
    content, (width, height) = figure.get_tightbbox(), figure.get_size_inches()
    assert min(content.x0, content.y0) > -0.02
    assert content.x1 < width + 0.02
    assert content.y1 < height + 0.02
    texts = [t for ax in axes for t in (ax.title, ax.xaxis.label, ax.yaxis.label, *ax.texts)]
    boxes = [(t.get_text(), t.get_window_extent()) for t in texts if t.get_text()]
    for i, (text, box) in enumerate(boxes):
        for other, taken in boxes[:i]:
            assert not box.overlaps(taken), f"{text!r} covers {other!r}"


# ── arrows ──────────────────────────────────────────────────────────────────
@pytest.mark.parametrize("pair", [(0, 1), (2, 0)])
def test_arrows_of_linear_pca_are_its_axes(pair):
    """In units of the variables; one factor for all of them."""
    ax = plots.arrows(LINEAR.transform(X), gradients(LINEAR, X), components=pair, names=NAMES)
    tips, starts = drawn(ax)
    axes = LINEAR.components_[list(pair)].T  # (d, 2)
    order = np.argsort(-np.linalg.norm(axes, axis=1))
    factor = tips[0, 0] / axes[order][0, 0]
    assert factor > 0
    np.testing.assert_allclose(tips, factor * axes[order], rtol=1e-10)
    np.testing.assert_allclose(
        starts, np.zeros_like(starts), atol=1e-12
    )  # training scores are centred
    assert sorted(named(ax)) == sorted(NAMES)


def test_arrows_of_importance_are_mean_slopes_times_deviations():
    scores, found = MODEL.transform(X), importance(MODEL, X)
    tips, _ = drawn(plots.arrows(scores, found.slopes))
    wanted = (gradients(MODEL, X).mean(axis=0) * X.std(axis=0)).T[:, :2]
    wanted = wanted[np.argsort(-np.linalg.norm(wanted, axis=1))]
    np.testing.assert_allclose(tips / tips[0, 0], wanted / wanted[0, 0], rtol=1e-8)


def test_arrows_stay_among_the_points_and_only_the_longest_are_drawn():
    scores = MODEL.transform(X) + np.array([5.0, -3.0, 0.0])  # centred elsewhere
    slopes = importance(MODEL, X).slopes
    ax = plots.arrows(scores, 1e6 * slopes, names=NAMES, top=2)
    tips, starts = drawn(ax)
    ends = starts + tips
    assert np.all(ends > scores[:, :2].min(axis=0))
    assert np.all(ends < scores[:, :2].max(axis=0))
    longest = np.argsort(-np.linalg.norm(slopes[:, :2], axis=1))[:2]
    assert sorted(named(ax)) == sorted(NAMES[l] for l in longest)


def test_each_name_stands_at_its_arrow():
    ax = plots.arrows(MODEL.transform(X), importance(MODEL, X).slopes, names=NAMES)
    tips, starts = drawn(ax)
    slopes = importance(MODEL, X).slopes[:, :2]
    order = np.argsort(-np.linalg.norm(slopes, axis=1))
    places = {text.get_text(): np.array(text.get_position()) for text in ax.texts}
    size = np.array([np.ptp(ax.get_xlim()), np.ptp(ax.get_ylim())])
    for l, end in zip(order, starts + tips, strict=True):
        assert np.abs((places[NAMES[l]] - end) / size).max() < 0.1


def test_a_variable_without_a_direction_has_no_arrow():
    slopes = np.array([[1.0, 0.0], [0.0, 0.0]])
    ax = plots.arrows(np.eye(2), slopes, names=["moves", "does not"])
    assert named(ax) == ["moves"]
    assert named(plots.arrows(np.eye(2), 0 * slopes)) == ["no variable moves these scores one way"]


def test_arrows_are_drawn_where_they_are_wanted():
    own = Figure().subplots()
    assert plots.arrows(MODEL.transform(X), gradients(MODEL, X[:4]), ax=own) is own
    assert plt.get_fignums() == []


# ── slices ──────────────────────────────────────────────────────────────────
def bands(ax):
    """Vertices on the edges of the filled bands, with the two levels that each band lies between."""
    filled = ax.collections[0]
    edges = np.concatenate([[-np.inf], filled.levels, [np.inf]])
    for path, low, high in zip(filled.get_paths(), edges[:-1], edges[1:], strict=True):
        if len(path.vertices):
            yield path.vertices, low, high


def lifted(points, held, pair):
    rows = np.tile(held, (len(points), 1))
    rows[:, pair] = points
    return rows


HELD = {
    "median": ("median", np.median(X, axis=0)),
    "row": (7, X[7]),
    "point": ([5.0, 3.0, 4.0, 1.0], np.array([5.0, 3.0, 4.0, 1.0])),
}


@pytest.mark.parametrize("held", HELD)
@pytest.mark.parametrize("pair", [(2, 3), (3, 0)])
def test_the_colours_are_the_scores_of_the_slice(held, pair):
    fixed, point = HELD[held]
    ax = plots.levels(X, MODEL.transform, variables=pair, fixed=fixed, component=1, resolution=120)
    seen, width = 0, np.diff(ax.collections[0].levels)[0]
    for vertices, low, high in bands(ax):
        values = MODEL.transform(lifted(vertices, point, pair))[:, 1]
        assert np.all(values > low - 0.05 * width)
        assert np.all(values < high + 0.05 * width)
        seen += len(values)
    assert seen > 500


def test_the_transform_is_asked_for_the_slice_and_for_nothing_else():
    asked = []

    def transform(rows):
        asked.append(rows.copy())
        return MODEL.transform(rows)

    plots.levels(X, transform, variables=(1, 2), resolution=30, margin=0.0)
    rows = np.concatenate(asked)
    assert rows.shape == (900, 4)
    medians = np.median(X, axis=0)
    assert np.all(rows[:, [0, 3]] == medians[[0, 3]])
    for l in (1, 2):
        wanted = np.linspace(X[:, l].min(), X[:, l].max(), 30)
        np.testing.assert_allclose(np.unique(rows[:, l]), wanted)


def test_names_choose_and_label_the_variables():
    ax = plots.levels(X, MODEL.transform, variables=[NAMES[3], NAMES[1]], names=NAMES, resolution=9)
    assert (ax.get_xlabel(), ax.get_ylabel()) == (NAMES[3], NAMES[1])
    assert ax.get_title() == "component 1, the others at their medians"
    ax = plots.levels(X, MODEL.transform, variables=(3, 1), fixed=7, resolution=9)
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("feature 4", "feature 2")
    assert ax.get_title().endswith("as in row 7")


def test_a_model_of_named_columns_gets_named_columns():
    frame = pd.DataFrame(X, columns=NAMES)
    model = KernelPCA(1, kernel=RBF(0.3)).fit(frame)
    ax = plots.levels(frame, model.transform, variables=NAMES[:2], resolution=9)  # warns otherwise
    assert ax.get_xlabel() == NAMES[0]


# ── bad input ───────────────────────────────────────────────────────────────
Z, SLOPES = MODEL.transform(X), importance(MODEL, X).slopes
BAD = {
    "one component": (lambda: plots.arrows(Z, SLOPES, components=(0,)), "two different"),
    "component 3 of 3": (lambda: plots.arrows(Z, SLOPES, components=(0, 3)), "from 0 to 2"),
    "slopes turned": (lambda: plots.arrows(Z, SLOPES.T), "are of 4 components"),
    "gradients turned": (
        lambda: plots.arrows(Z, gradients(MODEL, X).transpose(0, 2, 1)),
        "are of 4 components",
    ),
    "names too few": (lambda: plots.arrows(Z, SLOPES, names=["a"]), "4 variables"),
    "no arrows": (lambda: plots.arrows(Z, SLOPES, top=0), "integer >= 1"),
    "NaN slope": (lambda: plots.arrows(Z, SLOPES * np.nan), "NaN"),
    "flat scores": (lambda: plots.arrows(Z[:, 0], SLOPES), r"\(n, k\)"),
    "no variables": (
        lambda: plots.levels(X, MODEL.transform),
        r"got `X` of shape \(75, 4\).*variables=",
    ),
    "one variable": (lambda: plots.levels(X, MODEL.transform, variables=(1,)), "two different"),
    "variable twice": (lambda: plots.levels(X, MODEL.transform, variables=(1, 1)), "two different"),
    "variable 4": (lambda: plots.levels(X, MODEL.transform, variables=(1, 4)), "from 0 to 3"),
    "unknown name": (
        lambda: plots.levels(X, MODEL.transform, variables=("a", "b"), names=NAMES),
        "Unknown variable 'a': the names are sepal length",
    ),
    "name of none": (lambda: plots.levels(X, MODEL.transform, variables=("a", "b")), "no names"),
    "fixed at mean": (
        lambda: plots.levels(X, MODEL.transform, variables=(0, 1), fixed="mean"),
        "got 'mean'",
    ),
    "fixed at row 75": (
        lambda: plots.levels(X, MODEL.transform, variables=(0, 1), fixed=75),
        "fixed must be an integer from 0 to 74",
    ),
    "fixed at two values": (
        lambda: plots.levels(X, MODEL.transform, variables=(0, 1), fixed=[1.0, 2.0]),
        "`fixed` has 2 entries",
    ),
    "one column": (lambda: plots.levels(X[:, :1], MODEL.transform), r"got shape \(75, 1\)"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_input_is_named_before_a_figure_is_made(name):
    call, message = BAD[name]
    with pytest.raises(InputError, match=message):
        call()
    assert plt.get_fignums() == []
