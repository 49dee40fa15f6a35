"""What a straight line tells of labels: circles that no line separates, and a kernel after which one does."""

import numpy as np
import pytest
from sklearn.datasets import make_circles

import mercer
from mercer.app.explore import Dataset, Recipe, fitted, panels, write_builtin
from mercer.app.explore.judging import separated


def fits(data, *kernels):
    return [fitted(Recipe(kernel=text, components=2), data, "rest") for text in kernels]


def test_a_line_separates_circles_after_a_kernel_and_not_after_pca(tmp_path):
    data = write_builtin("circles", tmp_path)
    found = separated(*fits(data, "linear()", "rbf(gamma=2)"), [0, 1])
    assert found["right"][0] < 0.6
    assert found["right"][1] > 0.95
    assert (found["better"], found["commonest"]) == (1, 0.5)
    assert "B separates the classes better" in found["words"]


def test_the_same_kernel_twice_has_no_winner(tmp_path):
    data = write_builtin("moons", tmp_path)
    found = separated(*fits(data, "rbf(gamma=5)", "rbf(gamma=5)"), [0, 1])
    assert (found["better"], found["p_value"]) == (None, 1.0)


@pytest.mark.parametrize("rename", ["no label", "one label"])
def test_without_classes_nothing_wins(tmp_path, rename):
    points, _ = make_circles(60, random_state=0)
    labels = {"labels": np.full(60, "a")} if rename == "one label" else {}
    np.savez(tmp_path / "rows.npz", rows=points, **labels)
    found = separated(*fits(Dataset(tmp_path / "rows.npz"), "linear()", "rbf(gamma=2)"), [0, 1])
    assert (found["right"], found["better"]) == (None, None)
    assert "do not say which kernel is better" in found["words"]


def test_a_detector_of_the_page_has_the_defaults_of_the_command_line(tmp_path):
    data = write_builtin("tank", tmp_path)
    asked = Recipe.read({"kind": "detector"}).request(data).asked.estimator(100).get_params()
    own = mercer.KernelPCADetector().get_params()
    assert {name: asked[name] for name in ("n_components", "kernel")} == {
        name: own[name] for name in ("n_components", "kernel")
    }
    assert Recipe.read({}).components == 6


def test_an_indefinite_kernel_has_no_shares_of_the_variance(tmp_path):
    data = write_builtin("circles", tmp_path)
    shown = fitted(Recipe(kernel="sigmoid(gamma=1, coef0=-1)"), data, "rest")
    parts = panels(shown, {"scores": {}, "spectrum": {}, "levels": {}}, "rest")
    spectrum = parts.header["panels"]["spectrum"]
    assert "shares" not in parts.arrays
    assert "running" not in parts.arrays
    assert spectrum["reached"] is None
    assert "indefinite" in spectrum["caption"]
    assert "%" not in parts.header["panels"]["scores"]["axes"][0]
    proved = fitted(Recipe(kernel="rbf(gamma=2)"), data, "rest")
    assert {"shares", "running"} <= panels(proved, {"spectrum": {}}, "rest").arrays.keys()


def test_a_component_that_is_not_drawn_counts_too(tmp_path):
    data = write_builtin("circles", tmp_path)
    six_each = [
        fitted(Recipe(kernel=text, components=6), data, "rest")
        for text in ("linear()", "poly(degree=2)")
    ]
    found = separated(*six_each, [0, 1])
    assert found["right"][1] < 0.6  # x² + y² is a later one
    assert found["kept"]["right"][1] > 0.95
    assert found["kept"]["better"] == 1
    assert "B separates the classes better there" in found["words"]


def test_the_wide_kernel_of_a_detector_is_no_mistake(tmp_path):
    data = write_builtin("tank", tmp_path)
    shown = fitted(Recipe(kind="detector"), data, "rest")
    assert shown.closeness["words"] == ["Nearly linear, as intended for a detector."]
    assert shown.symptoms == []
    given = fitted(Recipe(kind="detector", kernel="rbf(gamma=1e-9)", components=2), data, "rest")
    assert given.symptoms  # but one that was typed may be
