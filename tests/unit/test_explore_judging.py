"""What the search for a kernel says where the rows do not decide, and the greys of walks."""

from mercer.app.explore import Recipe, fitted, meaning, write_builtin
from mercer.app.explore.judging import select
from mercer.app.outcome import Run


def test_rows_that_do_not_decide_are_said_to_and_labels_are_named(tmp_path):
    data = write_builtin("circles", tmp_path)
    found = select(Recipe(), data, ["rbf(gamma=1)", "rbf(gamma=1.01)"], [2])
    assert not found.header["conclusive"]
    assert found.header["reasons"][0].startswith("These rows alone do not decide")
    assert "judge by predicting them" in found.header["reasons"][0]
    assert "No criterion" not in " ".join(found.header["reasons"])


def test_greys_of_a_walk_are_those_of_all_walks(tmp_path):
    data = write_builtin("digits", tmp_path)
    shown = fitted(Recipe(kernel="rbf(gamma=0.001)", components=3, scale="none"), data, "rest")
    ends = set()
    with Run().following():  # some pre-images are far off, which is said on the page
        for component, at in ((0, "mean"), (2, "mean"), (0, 4)):
            header = meaning.walk(shown, component, at, 5, {"pca": True}).header
            ends.add((header["low"], header["high"]))
    assert ends == {(0.0, 16.0)}
