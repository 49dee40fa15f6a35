"""What is copied from the page runs in an empty folder, and makes the fit that the page shows."""

import contextlib
import io

import numpy as np
import pytest

from mercer.app.explore import BUILTINS, Recipe, fitted, write_builtin


@pytest.mark.parametrize("name", ["circles", "moons", "tank"])
def test_a_program_about_built_in_rows_makes_them(name, tmp_path, monkeypatch):
    (tmp_path / "page").mkdir()
    data = write_builtin(name, tmp_path / "page")
    recipe = Recipe.read(BUILTINS[name].recipe)
    monkeypatch.chdir(tmp_path)
    here: dict[str, object] = {}
    with contextlib.redirect_stdout(io.StringIO()):
        exec(recipe.python(data), here)
    shown = fitted(recipe, data, "exact")
    own, seen = here["fitted"], shown.inside
    assert len(own.sheet) == data.n
    if name == "tank":
        told = shown.model.monitor(shown.sheet.rows).table["index"]
        np.testing.assert_allclose(here["seen"].table["index"], told)
    else:
        np.testing.assert_allclose(
            here["scores"], seen.scores(shown.sheet.rows), rtol=1e-8, atol=1e-10
        )


def test_a_command_about_built_in_rows_makes_them_and_one_about_a_file_does_not(tmp_path):
    data = write_builtin("circles", tmp_path)
    command = Recipe.read({"kernel": "rbf(gamma=2)"}).command(data)
    assert command.startswith("python -c ")
    assert " && mercer fit circles.csv " in command
    data.suggested = {}
    assert Recipe.read({"kernel": "rbf(gamma=2)"}).command(data).startswith("mercer fit ")
