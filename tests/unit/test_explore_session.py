"""What a session holds is bounded, what it leaves out is said, and an expression slides where it says."""

import gc
import json
import time
import tracemalloc
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import numpy as np
import pytest

from mercer import KernelPCA, KernelPCADetector, load
from mercer._core.errors import InputError, ParameterError, StoppedError
from mercer.app import FitRequest, run
from mercer.app.explore import BUILTINS, Recipe, fitted, panels, write_builtin
from mercer.app.explore.dataset import opened
from mercer.app.explore.expression import completed, described
from mercer.app.explore.fitting import drawn
from mercer.app.explore.planes import Choice
from mercer.app.outcome import Observer
from mercer.kernels.text import parse_kernel
from mercer.web.answers import job_of, place_for, received
from mercer.web.packets import failed, unpacked
from mercer.web.session import (
    MOST_FITS,
    MOST_TABLES,
    FullError,
    NotFoundError,
    Session,
    safe_name,
)


@pytest.fixture
def session():
    session = Session()
    yield session
    session.close()


def ask(session, name, **body):
    question, job = job_of(name, body)
    return question.answer(session, body, job)


@pytest.mark.parametrize("name", [name for name, own in BUILTINS.items() if not own.hidden])
def test_every_built_in_data_set_has_its_panels(session, name):
    key = session.open_builtin(name)
    told = session.described(key)
    wanted = {"scores": {"components": [0, 1]}, "levels": {"plane": {"pca": True}}, "spectrum": {}}
    reply = ask(session, "fit", table=key, recipe=told["suggested"], quality="drag", panels=wanted)
    header, arrays = unpacked(reply.body)
    assert all("error" not in panel for panel in header["panels"].values())
    assert arrays["scores"].shape == (told["n"], 2)
    assert np.ptp(arrays["scores"]) > 0
    assert session.open_builtin(name) == key  # opened once


def test_a_page_about_the_tank_finds_the_sensor_and_the_hour(session):
    key = session.open_builtin("tank")
    told = session.described(key)
    body = {"table": key, "recipe": told["suggested"], "watch": told["partner"]}
    header, arrays = unpacked(ask(session, "detector", **body).body)
    longest = max(header["runs"], key=lambda run: run["rows"])
    assert longest["leaders"][0]["name"] == "flow"
    assert 200 <= longest["first"] < 260  # the drift begins at minute 200, a twentieth at a time
    assert arrays["alarm"].sum() == header["count"]
    header, arrays = unpacked(ask(session, "contributions", row=longest["last"], **body).body)
    assert header["names"][0] == "flow"


def test_component_1_of_the_suggested_kernel_separates_the_circles(session):
    key = session.open_builtin("circles")
    recipe = session.described(key)["suggested"]
    wanted = {"scores": {"components": [0, 1]}}
    reply = ask(session, "fit", table=key, recipe=recipe, panels=wanted)
    _, arrays = unpacked(reply.body)
    _, rows = unpacked(ask(session, "rows", table=key).body)
    score, inner = arrays["scores"][:, 0], rows["codes"] == 0
    ends = sorted(
        [(score[inner].min(), score[inner].max()), (score[~inner].min(), score[~inner].max())]
    )
    assert ends[0][1] < ends[1][0]


def test_an_iteration_stops_at_the_digits_of_a_picture_while_the_finger_is_down(session, tmp_path):
    rng = np.random.default_rng(0)
    np.save(
        tmp_path / "x.npy", rng.standard_normal((2000, 4)) + 3.0 * rng.integers(2, size=(2000, 1))
    )
    key = session.open_file(tmp_path / "x.npy", "x.npy")
    recipe = Recipe(kernel="rbf(gamma=0.3)", components=6)
    drag, rest = (session.shown(key, recipe, quality).model for quality in ("drag", "rest"))
    assert 1e-10 < drag.residuals_.max() <= 1e-6
    assert rest.residuals_.max() <= 1e-10
    # What is shown says how far it is solved, and the settled values are between its bounds.
    header, arrays = unpacked(
        ask(
            session, "fit", table=key, recipe=recipe.plain, quality="drag", panels={"spectrum": {}}
        ).body
    )
    assert f"at most {drag.residuals_.max():.1e}" in " ".join(header["fit"]["evidence"])
    assert np.all(arrays["residuals"] >= 0.99 * drag.residuals_)
    low, high = np.transpose(drag.fit_.bounds)
    assert np.all((low <= rest.eigenvalues_) & (rest.eigenvalues_ <= high))
    np.testing.assert_allclose(arrays["eigenvalues"], rest.eigenvalues_, rtol=1e-6)
    # What is kept is what `mercer fit` would keep, to the bit.
    kept = ask(session, "save", what="model", table=key, recipe=recipe.plain).body
    (tmp_path / "kept.mercer").write_bytes(kept)
    request = FitRequest(data=str(tmp_path / "x.npy"), kernel="rbf(gamma=0.3)", components=6)
    fitted_there = run(request).value
    found = load(tmp_path / "kept.mercer").transform(np.load(tmp_path / "x.npy"))
    assert np.array_equal(found, fitted_there.model.transform(fitted_there.sheet.rows))


@pytest.mark.parametrize("n", [400, 3500])
def test_a_drag_over_rows_that_are_solved_alike_is_not_fitted_again_at_rest(session, tmp_path, n):
    np.save(tmp_path / "x.npy", np.random.default_rng(0).standard_normal((n, 4)))
    key = session.open_file(tmp_path / "x.npy", "x.npy")
    recipe = Recipe(kernel="rbf(gamma=0.3)", components=6)
    assert session.shown(key, recipe, "drag") is session.shown(key, recipe, "rest")


# ── bounds ──────────────────────────────────────────────────────────────────
def test_drags_leave_nothing_behind(session):
    key = session.open_builtin("circles")
    wanted = {"scores": {"components": [0, 1]}, "levels": {}, "spectrum": {}}

    def drag(times):
        for i in range(times):
            # More kernels than fits that are kept, so that each is fitted anew.
            recipe = {"kernel": f"rbf(gamma={1 + 0.001 * (i % 20)})", "components": 4}
            ask(session, "fit", table=key, recipe=recipe, quality="drag", panels=wanted)
        gc.collect()

    tracemalloc.start()
    try:
        drag(20)
        before, _ = tracemalloc.get_traced_memory()
        drag(60)
        after, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(session._fits) == MOST_FITS
    assert after - before < 100_000  # sixty fits of 400 rows would hold forty times as much


def test_tables_are_bounded_and_the_first_page_keeps_its_own(session, tmp_path):
    np.save(tmp_path / "x.npy", np.eye(3))
    session.start = {"table": session.open_builtin("moons")}
    keys = [session.open_file(tmp_path / "x.npy", "x.npy") for _ in range(MOST_TABLES + 3)]
    assert len(session.tables) == MOST_TABLES
    assert session.start["table"] in session.tables
    with pytest.raises(NotFoundError, match="not open"):
        session.table(keys[0])


def test_nothing_stays_of_a_model_for_whose_rows_there_is_no_room(session, tmp_path, monkeypatch):
    KernelPCA(2).fit(np.random.default_rng(0).standard_normal((300, 9))).save(tmp_path / "m.mercer")
    monkeypatch.setattr("mercer.web.session.MOST_BYTES", 20_000)  # the rows have 21.6 kB
    path = place_for(session, "m.mercer")
    path.write_bytes((tmp_path / "m.mercer").read_bytes())
    with pytest.raises(FullError, match="together") as caught:
        received(session, path, "m.mercer")
    reply = failed(caught.value)  # as a notebook has it, and a browser
    assert (reply.status, json.loads(reply.body)["error"]["code"]) == (413, "too-large")
    assert not session.models
    assert not [*session.folder.iterdir()]


@pytest.mark.parametrize(("lags", "n"), [(0, 90), (1, 90), (1, 2500)])
def test_labels_are_told_from_rows_that_have_scores(session, tmp_path, lags, n):
    rows = np.random.default_rng(0).standard_normal((n, 3))
    detector = KernelPCADetector(lags=lags).fit(rows)
    detector.save(tmp_path / "d.mercer")
    rows[5:95:9, 0] = np.nan
    whole = ~np.isnan(rows).any(axis=1)
    if lags:
        whole[1:] &= whole[:-1].copy()
        whole[0] = False
    some = drawn(n, 2000)
    used = np.sum(whole if some is None else whole[some])
    cells = [["" if np.isnan(x) else f"{x:.17g}" for x in row] for row in rows]
    lines = [f"{','.join(row)},{'ab'[i % 2]}" for i, row in enumerate(cells)]
    (tmp_path / "x.csv").write_text("\n".join(["x0,x1,x2,kind", *lines]))
    key = session.open_file(tmp_path / "x.csv", "x.csv")
    model = session.open_model_file(tmp_path / "d.mercer", "d.mercer")
    reply = ask(session, "separate", table=key, recipe={"model": model}, components=[0, 1])
    told = json.loads(reply.body)
    m = told["right"][0] * used
    assert m == pytest.approx(round(m))  # a whole number of the rows that have scores
    assert told["words"]


def test_a_fit_that_several_questions_need_is_made_once(session, monkeypatch):
    key, made = session.open_builtin("moons"), []

    def slow(*given):
        made.append(fitted(*given))
        time.sleep(0.1)  # time for the others to ask
        return made[-1]

    monkeypatch.setattr("mercer.web.session.fitted", slow)
    recipe = Recipe(kernel="rbf(gamma=1)", components=4)
    with ThreadPoolExecutor(4) as pool:
        shown = list(pool.map(lambda _: session.shown(key, recipe, "rest"), range(4)))
    assert len(made) == 1
    assert all(each is made[0] for each in shown)


def test_a_stopped_fit_is_not_kept(session, tmp_path):
    rng = np.random.default_rng(0)
    np.save(tmp_path / "x.npy", rng.standard_normal((1500, 20)))
    key = session.open_file(tmp_path / "x.npy", "x.npy")
    _, job = job_of("fit", {})
    job.cancelled.set()
    with suppress(StoppedError):
        session.shown(key, Recipe(kernel="rbf(gamma=1)", components=40), "exact", job)
    assert len(session._fits) == 0


class Steps(Observer):
    def __init__(self):
        self.stages, self.steps = [], 0

    def began(self, stage):
        self.stages.append(stage)

    def step(self, *_how_far):
        self.steps += 1
        return False


def test_a_fit_reports_how_far_it_is(tmp_path):
    np.save(tmp_path / "x.npy", np.random.default_rng(0).standard_normal((1500, 20)))
    seen = Steps()
    fitted(Recipe(components=40), opened(tmp_path / "x.npy", name="x"), "exact", seen)
    assert "fit" in seen.stages
    assert seen.steps > 0


# ── nothing in silence ──────────────────────────────────────────────────────
@pytest.mark.parametrize(
    ("n", "quality", "how", "rows"),
    [
        (20_000, "drag", "all", 20_000),
        (20_001, "drag", "sample", 20_000),
        (20_001, "rest", "all", 20_001),
        (200_000, "rest", "all", 200_000),
        (200_001, "rest", "density", 200_001),
        (2_000_000, "drag", "sample", 20_000),
    ],
)
def test_what_is_shown_is_said(n, quality, how, rows):
    choice = Choice.among(n, quality)
    told = choice.plain
    assert (told["how"], told["rows"], told["of"]) == (how, rows, n)
    digits = "".join(c for c in told["words"] if c.isdecimal())
    assert str(n) in digits
    if choice.rows is not None:
        assert len(np.unique(choice.rows)) == rows
        assert np.array_equal(choice.rows, drawn(n, rows))  # the same for the same number of rows


def test_an_approximation_has_a_badge_and_rest_has_none(tmp_path):
    rng = np.random.default_rng(0)
    np.save(tmp_path / "x.npy", rng.standard_normal((4500, 3)))
    data = opened(tmp_path / "x.npy", name="x")
    recipe = Recipe(kernel="rbf(gamma=0.3)", components=3)
    drag, rest = (fitted(recipe, data, quality) for quality in ("drag", "rest"))
    assert "Nystrom(landmarks=500" in drag.badge
    assert not rest.badge
    # Certified from below, so close to the exact ones, and never above them by more than rounding.
    low, exact = drag.inside.eigenvalues, rest.inside.eigenvalues
    assert np.all(low <= exact * (1 + 1e-10))
    assert np.all(low >= 0.9 * exact)


def test_more_rows_than_points_are_counted_and_none_is_lost(tmp_path, monkeypatch):
    from mercer.app.explore import planes

    monkeypatch.setattr(planes, "POINTS", 300)
    rng = np.random.default_rng(0)
    np.save(tmp_path / "x.npy", rng.standard_normal((500, 3)))
    data = opened(tmp_path / "x.npy", name="x")
    panel = planes.rows_panel(data, "standard", {"columns": [0, 1]})
    assert panel.header["shown"]["how"] == "density"
    assert panel.arrays["density"].sum() == 500
    found = panels(fitted(Recipe(), data, "rest"), {"scores": {"components": [0, 1]}}, "rest")
    assert found.arrays["score_density"].sum() == 500
    assert "scores" not in found.arrays


def test_a_small_file_of_more_numbers_than_memory_holds_is_not_opened(tmp_path, monkeypatch):
    pa = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    parquet.write_table(
        pa.table({"a": np.zeros(100_000), "b": np.ones(100_000)}), tmp_path / "x.parquet"
    )
    np.save(tmp_path / "x.npy", np.random.default_rng(0).standard_normal((100_000, 2)))
    monkeypatch.setattr("mercer.app.explore.dataset.available_bytes", lambda: 2_000_000)
    with pytest.raises(InputError, match=r"would unpack to 1\.6 MB"):
        opened(tmp_path / "x.parquet", name="x")
    assert opened(tmp_path / "x.npy", name="x").n == 100_000


def test_guesses_about_a_file_are_said(tmp_path):
    path = tmp_path / "x.csv"
    path.write_text("Name,a,b,unit,kind\nr1,1,2,kg,u\nr2,3,5,kg,v\nr3,2,2,kg,u\n")
    data = opened(path, name="x.csv")
    assert (data.raw.id_name, data.raw.label_name) == ("Name", "kind")
    assert data.raw.names == ("a", "b")
    notes = " ".join(data.described()["notes"])
    assert all(word in notes for word in ("'Name' names", "'kind' labels", "left out: unit"))


def test_gaps_are_filled_and_that_is_said(tmp_path):
    path = tmp_path / "x.csv"
    path.write_text("a,b\n1,2\n3,\n7,9\n5,4\n")
    data = opened(path, name="x.csv")
    told = data.described()
    assert told["notes"] == ["1 value imputed by the column median in column 'b'"]
    assert data.raw.rows[1, 1] == 4.0  # of 2, 9 and 4
    assert told["impute"] == "median"


# ── expressions ─────────────────────────────────────────────────────────────
TEXTS = {
    "rbf": [("gamma", "rbf(gamma=7.5)")],
    "rbf(gamma=2) + 0.5*linear": [("gamma", "rbf(gamma=7.5) + 0.5*linear")],
    "rbf(2)": [("gamma", "rbf(7.5)")],
    " rbf( sigma = 3 )*matern": [
        ("sigma", " rbf( sigma = 7.5 )*matern"),
        ("length_scale", " rbf( sigma = 3 )*matern(length_scale=7.5)"),
    ],
    "matern(nu=2.5)": [("length_scale", "matern(nu=2.5, length_scale=7.5)")],
    "rbf(gamma='1/d').on([0])": [("gamma", "rbf(gamma=7.5).on([0])")],
    "linear + 2": [],
}


@pytest.mark.parametrize("text", TEXTS)
def test_a_slider_changes_the_number_that_it_names(text, tmp_path):
    data = write_builtin("circles", tmp_path)
    told = described(text, data, "standard")
    found = [(w["name"], f"{w['before']}7.5{w['after']}") for w in told["widths"]]
    assert found == TEXTS[text]
    for width in told["widths"]:
        assert width["low"] < width["value"] < width["high"]
        moved = parse_kernel(f"{width['before']}{width['value']!r}{width['after']}")
        rng = np.random.default_rng(0)
        rows = data.sheet("standard").rows
        kernel = parse_kernel(text).resolve(rows, rng=rng)
        assert np.allclose(moved.resolve(rows, rng=rng)(rows[:9]), kernel(rows[:9]), rtol=1e-12)


def test_the_median_that_is_marked_is_that_of_the_rows(tmp_path):
    data = write_builtin("moons", tmp_path)
    rows = np.asarray(data.sheet("standard").rows)
    apart = np.linalg.norm(rows[:, None] - rows[None], axis=2)
    median = np.median(apart[np.triu_indices(len(rows), 1)])
    (width,) = described("rbf", data, "standard")["widths"]
    assert width["median"] == pytest.approx(1 / (2 * median**2), rel=1e-12)


def test_completion_ends_what_was_begun():
    assert [item["label"] for item in completed("rbf(gamma=1) + la")] == ["laplacian"]
    for item in completed(""):
        parse_kernel(item["insert"]).check_parameters()


# ── refusals ────────────────────────────────────────────────────────────────
@pytest.mark.parametrize(
    "recipe",
    [
        {"kind": "svm"},
        {"scale": "max"},
        {"kernel": 3},
        {"components": True},
        {"components": []},
        {"kernal": "rbf"},
        ["rbf"],
    ],
)
def test_a_recipe_that_is_none_is_refused(recipe):
    with pytest.raises(InputError):
        Recipe.read(recipe)


def test_a_recipe_survives_the_link():
    recipe = Recipe(kernel="rbf(gamma=0.1)", components=0.95, scale="none", preimage="ridge")
    assert Recipe.read(json.loads(json.dumps(recipe.plain))) == recipe


@pytest.mark.parametrize(
    ("name", "body"),
    [
        ("fit", {"quality": "fast"}),
        ("fit", {"panels": {"pie": {}}}),
        ("fit", {"panels": []}),
        ("rows", {"plane": {"columns": [0, 9]}}),
        ("rows", {"color": {"column": -1}}),
        ("rows", {"color": "alarm"}),
        ("row", {"row": 400}),
        ("row", {"row": "1"}),
        ("walk", {"component": 99}),
        ("walk", {"steps": 10**9}),
        ("image", {"rows": [0]}),
        ("save", {"what": "keys"}),
        ("save", {"what": "selection", "rows": []}),
        ("save", {"what": "scores", "format": "exe"}),
        ("kernel", {"text": None}),
        ("check", {"kernel": []}),
        ("select", {"kernels": []}),
        ("select", {"kernels": ["rbf"] * 50}),
        ("detector", {"recipe": {}}),
        ("reread", {"image_shape": [3, 5]}),
    ],
)
def test_what_can_not_be_meant_is_refused_in_words(session, name, body):
    key = session.open_builtin("circles")
    with pytest.raises(InputError) as caught:
        ask(session, name, table=key, **body)
    assert len(str(caught.value)) > 20


@pytest.mark.parametrize(
    ("name", "body"),
    [
        ("fit", {"panels": []}),
        ("rows", {"scale": "log"}),
        ("reread", {"columns": "x"}),
        ("reread", {"image_shape": [0, 5]}),
        ("save", {"what": "picture", "components": 1}),
    ],
)
def test_a_wrong_part_of_a_question_is_a_wrong_parameter(session, name, body):
    key = session.open_builtin("circles")
    with pytest.raises(ParameterError) as caught:
        ask(session, name, table=key, **body)
    assert caught.value.parameter in body


@pytest.mark.parametrize("body", [[], {"client": 1}, {"slot": "x" * 65}, {"generation": -1}])
def test_a_body_that_can_not_be_meant_is_a_wrong_parameter(body):
    with pytest.raises(ParameterError):
        job_of("state", body)


def test_a_file_that_can_not_be_read_has_a_wrong_name(session):
    with pytest.raises(ParameterError, match="a file that can be read"):
        place_for(session, "x.exe")


def test_one_panel_that_fails_leaves_the_others(session):
    key = session.open_builtin("circles")
    wanted = {"levels": {"plane": {"columns": [1, 1]}}, "spectrum": {}}
    header, arrays = unpacked(ask(session, "fit", table=key, panels=wanted).body)
    assert "two different columns" in header["panels"]["levels"]["error"]["message"]
    assert len(arrays["shares"]) == 6


def test_names_of_files_hold_nothing_but_a_name():
    for name in ("../../x.csv", "..\\..\\x.csv", "/etc/x.csv", "a\0b.csv", "C:x.csv", "\n.csv"):
        kept = safe_name(name)
        assert not set(kept) & set('/\\\0\n:"')
        assert not kept.startswith(".")
        assert kept.endswith(".csv")


def test_no_answer_says_where_files_lie(session):
    path = session.place()[1] / "x.csv"
    path.write_text("a,b\n1,2\n")
    from mercer.web.answers import received
    from mercer.web.packets import failed

    with pytest.raises(InputError) as caught:
        received(session, path, "x.csv")
    told = json.loads(failed(caught.value).body)["error"]["message"]
    assert str(session.folder) not in told
    assert "x.csv" in told
    assert not path.exists()
