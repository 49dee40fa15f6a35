"""What the page says of a width, and of PCA beside a kernel: counted by hand, or known from the rows."""

import numpy as np
import pytest
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.preprocessing import KernelCenterer

from mercer.app.explore import Dataset, Recipe, fitted, write_builtin
from mercer.app.explore.fitting import closeness
from mercer.app.explore.judging import beside_pca
from mercer.kernels import RBF, Linear, Matern


@pytest.fixture
def twins(rng):
    """Forty rows: four places far apart, ten rows at each."""
    return np.repeat(100.0 * rng.standard_normal((4, 3)), 10, axis=0)


def test_rows_at_four_places_have_nine_neighbours_each(twins):
    found = closeness(RBF(1.0), twins, twins, len(twins), "gamma")
    assert found["neighbours"] == pytest.approx(9.0, abs=1e-9)
    # Of more rows of the same kind each has as many more.
    many = closeness(RBF(1.0), twins, twins, 400, "gamma")
    assert many["neighbours"] == pytest.approx(9.0 * 399 / 39)


def test_the_alignment_is_that_of_the_centred_matrices(rng):
    X = rng.standard_normal((50, 3))
    K, L = (KernelCenterer().fit_transform(m) for m in (rbf_kernel(X, gamma=0.4), X @ X.T))
    expected = np.sum(K * L) / np.sqrt(np.sum(K**2) * np.sum(L**2))
    found = closeness(RBF(0.4), X, X, 50, "gamma")
    assert found["alignment"] == pytest.approx(expected, rel=1e-10)


@pytest.mark.parametrize(
    ("kernel", "knob", "level", "words"),
    [
        (RBF(1e-6), "gamma", "warning", ("too wide", "A larger gamma")),
        (RBF(1e6), "gamma", "warning", ("too narrow", "A smaller gamma")),
        (RBF(sigma=1e-3), "sigma", "warning", ("too narrow", "A larger sigma")),
        (
            Matern(length_scale=1e-3),
            "length_scale",
            "warning",
            ("too narrow", "A larger length_scale"),
        ),
        (RBF(1.0), "gamma", "note", ("Only near rows are alike",)),
    ],
    ids=["wide", "narrow", "sigma", "matern", "between"],
)
def test_what_to_do_about_a_width(tmp_path, kernel, knob, level, words):
    X = np.asarray(write_builtin("circles", tmp_path).sheet("standard").rows)
    found = closeness(kernel, X, X, len(X), knob)
    assert found["level"] == level
    assert all(each in " ".join(found["words"]) for each in words)


def test_a_kernel_without_a_width_is_not_said_to_have_one(rng):
    X = rng.standard_normal((9, 2))
    assert closeness(Linear(), X, X, 9, "gamma") == {}


# ── beside PCA ──────────────────────────────────────────────────────────────
def told(data, kernel, kind="kpca", scale="standard"):
    recipes = {"kind": kind, "kernel": kernel}, {"kind": "pca"}
    fits = [fitted(Recipe(components=3, scale=scale, **each), data, "rest") for each in recipes]
    return beside_pca(*fits, [0, 1])


def test_circles_need_components_that_bend(tmp_path):
    found = told(write_builtin("circles", tmp_path), "rbf(gamma=2)")
    assert found["right"][0] == 1.0
    assert "gets 100 % of the labels right" in found["words"]
    assert "no better than always naming the largest class (50 %)" in found["words"]
    assert "PCA only turns these rows" in found["words"]


def test_what_separates_nothing_is_not_praised(tmp_path):
    found = told(write_builtin("circles", tmp_path), "rbf(gamma=1e-6)")
    assert "on those of PCA it does as badly" in found["words"]
    assert "bend with the rows" not in found["words"]


def test_groups_that_lie_side_by_side_gain_nothing(tmp_path, rng):
    rows = rng.standard_normal((200, 4)) * [1.0, 0.3, 0.2, 0.1]
    rows[:100, 0] += 9.0
    np.savez(tmp_path / "rows.npz", rows=rows, labels=np.repeat(["a", "b"], 100))
    found = told(Dataset(tmp_path / "rows.npz"), "rbf(gamma=0.05)", scale="none")
    assert "bending gains nothing here" in found["words"]


def test_rows_without_labels_and_pca_itself(tmp_path, rng):
    np.save(tmp_path / "rows.npy", rng.standard_normal((30, 3)))
    assert told(Dataset(tmp_path / "rows.npy"), "rbf(gamma=1)")["words"] == ""
    found = told(write_builtin("circles", tmp_path), None, kind="pca")
    assert found["words"].startswith("A straight line on components 1 and 2 of PCA gets")


@pytest.mark.parametrize("components", [[], [-1], ["a"], [np.nan], None])
def test_components_are_places(tmp_path, components):
    from mercer._core.errors import InputError

    data = write_builtin("circles", tmp_path)
    both = [fitted(Recipe(kind="pca"), data, "rest")] * 2
    with pytest.raises(InputError, match="components must be a list of components"):
        beside_pca(*both, components)
