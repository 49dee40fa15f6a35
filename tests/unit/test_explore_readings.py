"""Rows for a detector are read as `mercer monitor` reads them: "Bad" is a reading that is missing."""

import numpy as np
import pytest

from mercer import KernelPCA, app
from mercer.app import demo
from mercer.app.explore import Recipe, meaning, panels, planes
from mercer.app.explore.dataset import opened
from mercer.web.launch import begin
from mercer.web.session import Session

BAD = {3: "Bad", 40: "No Data"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tank")
    (folder / "normal.csv").write_text(demo.process_text(faulty=False))
    lines = demo.process_text(faulty=True).splitlines()
    for row, word in BAD.items():
        cells = lines[row + 1].split(",")
        cells[2 if word == "Bad" else 3] = word
        lines[row + 1] = ",".join(cells)
    (folder / "today.csv").write_text("\n".join(lines) + "\n")
    asked = {"kind": "detector", "reading": app.Reading(id="time")}
    app.run(
        app.FitRequest(data=str(folder / "normal.csv"), output=str(folder / "tank.mercer"), **asked)
    )
    return folder


@pytest.fixture
def shown(folder):
    session = Session()
    begin(session, str(folder / "today.csv"), str(folder / "tank.mercer"))
    yield session.shown(session.start["table"], Recipe.read(session.start["recipe"]), "rest")
    session.close()


def test_alarms_are_those_of_the_command_line(shown, folder):
    request = app.MonitorRequest(model=str(folder / "tank.mercer"), data=str(folder / "today.csv"))
    table = app.run(request).value.seen.report.table
    panel = meaning.timeline(shown, None)
    np.testing.assert_array_equal(panel.arrays["alarm"], table["alarm"])
    np.testing.assert_array_equal(np.flatnonzero(~np.asarray(table["judged"])), sorted(BAD))
    assert panel.header["judged"] == 358


def test_the_panels_draw_complete_rows_and_say_how_many_are_not(shown):
    panel = panels(shown, {"scores": {}, "levels": {"plane": {"pca": True}}}, "rest")
    assert np.flatnonzero(np.isnan(panel.arrays["scores"]).any(axis=1)).tolist() == sorted(BAD)
    scores = panel.header["panels"]["scores"]
    assert "2 of 360 rows lack a reading, and are left out" in scores["caption"]
    assert "error" not in panel.header["panels"]["levels"]


@pytest.mark.parametrize("lags", [0, 2])
def test_rows_that_could_not_be_judged_are_not_coloured_as_normal(folder, tmp_path, lags):
    asked = {"kind": "detector", "reading": app.Reading(id="time"), "lags": lags}
    model, today = str(tmp_path / "lags.mercer"), str(folder / "today.csv")
    app.run(app.FitRequest(data=str(folder / "normal.csv"), output=model, **asked))
    table = app.run(app.MonitorRequest(model=model, data=today)).value.seen.report.table
    alarms, judged = int(sum(table["alarm"])), int(sum(table["judged"]))
    session = Session()
    begin(session, today, model)
    shown = session.shown(session.start["table"], Recipe.read(session.start["recipe"]), "rest")
    found = planes.coloured(shown.data, "alarm", shown)
    session.close()
    assert found.names == ("normal", "alarm", "not judged")
    assert found.counts == (judged - alarms, alarms, len(table) - judged)


def test_a_class_that_is_called_bad_is_a_class(tmp_path):
    path = tmp_path / "parts.csv"
    path.write_text("width,height,verdict\n1,2,Bad\n2,3,Good\n3,1,Bad\n")
    data = opened(path, name="parts.csv")
    assert list(data.raw.names) == ["width", "height"]
    assert data.classes.counts == (2, 1)


def test_a_column_that_begins_with_bad_readings_is_one_of_numbers(folder, tmp_path):
    lines = [line.split(",") for line in (folder / "normal.csv").read_text().splitlines()]
    for cells in lines[1:50]:
        cells[2] = "Bad"
    path = tmp_path / "bad.csv"
    path.write_text("\n".join(",".join(cells) for cells in lines) + "\n")
    told = opened(path, name="bad.csv")
    assert lines[0][2] in told.raw.names
    assert told.raw.labels is None


def test_a_notebook_shows_a_model_file_with_the_rows_beside_it(tmp_path):
    """As `mercer.explore` does: it began with the model alone, and showed the rows that this keeps."""
    pytest.importorskip("anywidget")
    from mercer.web.widget import widget

    X = np.random.default_rng(0).standard_normal((30, 3))
    KernelPCA(2).fit(X).save(tmp_path / "model.mercer")
    np.savetxt(tmp_path / "rows.csv", X[:20] + 1.0, delimiter=",", header="a,b,c", comments="")
    page = widget(tmp_path / "model.mercer", tmp_path / "rows.csv")
    try:
        assert page.session.described(page.session.start["table"])["name"] == "rows.csv"
    finally:
        page.close()
