"""What the search for a kernel says where the rows do not decide."""

from mercer.app.explore import Recipe, write_builtin
from mercer.app.explore.judging import select


def test_rows_that_do_not_decide_are_said_to_and_labels_are_named(tmp_path):
    data = write_builtin("circles", tmp_path)
    found = select(Recipe(), data, ["rbf(gamma=1)", "rbf(gamma=1.01)"], [2])
    assert not found.header["conclusive"]
    assert found.header["reasons"][0].startswith("These rows alone do not decide")
    assert "judge by predicting them" in found.header["reasons"][0]
    assert "No criterion" not in " ".join(found.header["reasons"])
