"""What is copied from the page runs in an empty folder, and makes the fit that the page shows."""

import contextlib
import io
import json
import shlex

import numpy as np
import pytest

import mercer
from markets.commands import good
from mercer.app.explore import BUILTINS, Recipe, fitted, write_builtin
from mercer.web.answers import place_for, received
from mercer.web.session import Session


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


NAMES = ["rows.csv", "my rows (1).csv", 'Größe\'s "2" <b> & #1 %20;$x.csv', "-o.csv"]


@pytest.mark.parametrize("name", NAMES)
def test_what_is_copied_about_a_file_names_it_as_its_owner_does(name, tmp_path, monkeypatch):
    rows = np.random.default_rng(0).standard_normal((40, 2))
    np.savetxt(tmp_path / name, rows, delimiter=",", header="a,b", comments="")
    monkeypatch.chdir(tmp_path)
    session = Session()
    try:
        path = place_for(session, name)
        path.write_bytes((tmp_path / name).read_bytes())
        key = json.loads(received(session, path, name).body)["table"]["id"]
        data, recipe = session.table(key), Recipe.read({"kernel": "rbf(gamma=1)"})
        here: dict[str, object] = {}
        with contextlib.redirect_stdout(io.StringIO()):
            exec(recipe.python(data), here)
        assert np.array_equal(here["fitted"].sheet.rows, data.sheet("standard").rows)
        good(*shlex.split(recipe.command(data))[1:])
        assert mercer.load("model.mercer").model.transform(rows).shape == here["scores"].shape
    finally:
        session.close()
