"""The page of `mercer explore` in a real browser: what hands do there; nothing leaves the machine."""

import json
import re
from urllib.parse import unquote

import numpy as np
import pytest
from scipy.spatial.distance import pdist

import mercer
from browsing import FLAGS, PATIENCE, Visit, chromium, explored, spread, visits
from mercer import app
from mercer.app import demo
from mercer.app.explore import fitted
from mercer.app.explore.fitting import DRAG_ROWS
from mercer.app.outcome import Observer

playwright = pytest.importorskip("playwright.sync_api")
pytest.importorskip("starlette")
pytest.importorskip("uvicorn")
playwright.expect.set_options(timeout=PATIENCE)

EVIL = "<img src=x onerror=alert(1)>"

pytestmark = [
    pytest.mark.skipif(chromium() is None, reason="no Chromium on PATH or in $MERCER_CHROMIUM"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),  # of playwright's own pipes
]


@pytest.fixture(scope="module")
def launch():
    with playwright.sync_playwright() as started:
        yield lambda flags: started.chromium.launch(executable_path=chromium(), args=flags)


@pytest.fixture(scope="module")
def browser(launch):
    opened = launch(FLAGS)
    yield opened
    opened.close()


@pytest.fixture(scope="module")
def server():
    with explored("circles") as url:
        yield url


@pytest.fixture
def visit(browser, server):
    with visits(browser, server) as open_page:
        yield open_page


def test_every_panel_is_drawn_or_says_why(visit):
    seen = visit()
    for title in ("Data", "Scores", "Level sets", "Pre-image"):
        assert spread(seen.panel(title).locator("canvas").first) > 100
    assert seen.panel("Spectrum").locator(".bar").count() == 6
    assert "token" not in seen.page.url
    for name in (
        "What components mean",
        "Over time",
        "Is it a kernel?",
        "Compare",
        "Choose a kernel",
    ):
        seen.page.get_by_role("tab", name=name).click()
        assert seen.page.get_by_role("tabpanel").inner_text().strip()
    assert "WebGL2" in seen.page.locator("footer").inner_text()


def test_numbers_of_a_panel_are_those_of_python(visit):
    seen = visit()
    X = served_rows(seen)
    model = mercer.KernelPCA(6, kernel="rbf(gamma=2)").fit((X - X.mean(0)) / X.std(0))
    seen.panel("Spectrum").get_by_role("button", name="Show the numbers").click()
    text = seen.panel("Spectrum").locator("tbody tr").first.inner_text().split()
    assert float(text[1]) == pytest.approx(model.eigenvalues_[0], rel=1e-5)


def served_rows(seen):
    """The rows that are on the page, as the server has them: (400, 2)."""
    url = f"{seen.page.url.split('#')[0]}api/save"
    reply = seen.page.request.post(url, data={"what": "data", "table": "t1", "recipe": {}})
    head, *lines = (line.split(",") for line in reply.text().split())
    return np.array(lines)[:, [head.index("x"), head.index("y")]].astype(float)


def test_a_drag_redraws_while_the_finger_is_down(visit):
    seen = visit()
    box = seen.width().bounding_box()
    y = box["y"] + box["height"] / 2
    seen.page.mouse.move(box["x"] + 0.5 * box["width"], y)
    seen.page.mouse.down()
    for share in (0.6, 0.7, 0.8, 0.9):
        seen.page.mouse.move(box["x"] + share * box["width"], y)
        wanted = seen.kernel().input_value()
        seen.page.wait_for_selector(f"#explore[data-drawn={json.dumps(wanted)}]")
    seen.page.mouse.up()
    gamma = float(re.search(r"gamma=([^)]+)", wanted)[1])
    assert gamma > 2
    assert float(re.search(r"gamma=([^)]+)", seen.settled("RBF"))[1]) == pytest.approx(gamma)


def test_slow_answers_are_drawn_although_newer_requests_wait(visit):
    """A finger that never pauses must not starve the page."""
    script = """async () => {
        const { newest } = await import("/static/core/lane.js"), done = [];
        const lane = newest((job, signal) => new Promise((resolve, reject) => {
            signal.addEventListener("abort", () => reject(signal.reason));
            setTimeout(() => (done.push(job), resolve()), 500); // as slow as a fit to many rows
        }));
        for (let job = 0; job < 30; job++) {
            lane.push(job);
            await new Promise((next) => setTimeout(next, 50));
        }
        return done;
    }"""
    done = visit().page.evaluate(script)
    assert len(done) >= 2
    assert done == sorted(done)


def test_width_by_keyboard_number_and_median(visit):
    seen = visit()
    seen.width().focus()
    seen.page.keyboard.press("ArrowRight")
    step = float(re.search(r"gamma=([^)]+)", seen.kernel().input_value())[1])
    assert 2 < step < 2.2
    seen.settled(f"gamma={step}")
    twin = seen.page.get_by_role("textbox", name="as a number").first
    twin.fill("0.25")
    twin.press("Enter")
    assert seen.settled("gamma=0.25") == "RBF(gamma=0.25)"
    seen.page.get_by_role("button", name="median").first.click()
    playwright.expect(twin).not_to_have_value("0.25")
    median = twin.input_value()
    assert seen.settled(f"gamma={median}") == f"RBF(gamma={median})"
    X = served_rows(seen)
    away = pdist((X - X.mean(0)) / X.std(0))
    assert float(median) == pytest.approx(0.5 / np.median(away) ** 2, rel=2e-3)


def test_a_kernel_is_completed_and_refused_in_words(visit):
    seen = visit()
    field = seen.kernel()
    field.fill("")
    field.press_sequentially("lapl")
    assert seen.page.locator("[role=option]").count() == 1
    field.press("ArrowDown")
    field.press("Enter")
    assert seen.settled("Laplacian").startswith("Laplacian(")
    field.fill("rbf(gama=1)")
    seen.page.wait_for_selector("input[aria-invalid=true]")
    assert "no parameter 'gama'" in seen.page.locator(".says").first.inner_text()
    assert seen.trouble == []  # half a text is not a failure


OF_THE_FIT = ("Scores", "Level sets", "Spectrum", "Pre-image", "Walk")


def test_what_an_earlier_kernel_left_is_marked_as_its_own(visit):
    seen = visit()
    seen.page.get_by_role("tab", name="Is it a kernel?").click()
    playwright.expect(seen.panel("Is it a kernel?")).to_contain_text("Yes.")
    for text in ("rbf(gama=1)", "rbf(gamma=-1)", ""):
        seen.kernel().fill(text)
        playwright.expect(seen.page.locator(".notice")).to_contain_text(
            "still belongs to rbf(gamma=2)"
        )
        for title in OF_THE_FIT:
            assert "outdated" in seen.panel(title).get_attribute("class")
            assert "still rbf(gamma=2)" in seen.panel(title).locator("header").inner_text()
        assert seen.panel("Is it a kernel?").get_by_text("Yes.").is_hidden()
        assert seen.page.locator(".formula math").count() == 0
        assert seen.panel("Data").locator(".walker").is_hidden()
    seen.page.get_by_role("button", name="Back to rbf(gamma=2)").click()
    playwright.expect(seen.kernel()).to_have_value("rbf(gamma=2)")
    playwright.expect(seen.page.locator(".notice")).to_be_hidden()
    playwright.expect(seen.page.locator(".outdated:visible, .stale:visible")).to_have_count(0)
    playwright.expect(seen.panel("Is it a kernel?")).to_contain_text("Yes.")


def test_a_kernel_that_can_not_be_fitted_leaves_no_picture(visit):
    seen = visit()
    seen.kernel().fill("chi2(gamma=1)")  # of numbers below zero, which circles have
    playwright.expect(seen.page.locator(".notice")).to_contain_text("could not be fitted")
    for title in (*OF_THE_FIT, "What components mean"):
        playwright.expect(seen.panel(title)).to_have_class(re.compile("waiting"))
        assert seen.panel(title).locator(".plot, .walk, .importance-body").first.is_hidden()
    assert seen.page.locator(".findings li, .sentences li").locator("visible=true").count() == 0
    seen.page.get_by_role("button", name="Back to rbf(gamma=2)").click()
    assert seen.settled("gamma=2")
    assert seen.panel("Scores").locator(".plot").is_visible()
    seen.trouble[:] = [text for text in seen.trouble if "422" not in text]


def test_an_indefinite_kernel_is_shown_with_its_witness(visit):
    seen = visit()
    seen.page.get_by_role("tab", name="Is it a kernel?").click()
    seen.kernel().fill("sigmoid(gamma=0.5, coef0=-1)")
    seen.settled("Sigmoid")
    playwright.expect(seen.panel("Is it a kernel?")).to_contain_text("No.")
    playwright.expect(seen.panel("Data").locator(".witness").first).to_be_attached()
    playwright.expect(seen.page.locator(".findings")).to_contain_text("not positive semi-definite")


@pytest.mark.parametrize("wide", [1300, 400])
def test_the_table_of_kernels_is_no_wider_than_the_page_and_can_be_clicked(visit, wide):
    seen = visit()
    seen.page.set_viewport_size({"width": wide, "height": 800})
    seen.page.get_by_role("tab", name="Choose a kernel").click()
    panel = seen.panel("Choose a kernel")
    panel.get_by_role("textbox").fill("linear(); rbf(gamma=0.5)")
    panel.get_by_role("combobox").select_option("label")
    panel.get_by_role("button", name="Compare on rows held out").click()
    table = panel.locator(".candidates")
    table.wait_for()
    assert table.locator("tbody tr").count() >= 2
    inside = "e => e.scrollWidth <= e.clientWidth && e.getBoundingClientRect().right <= innerWidth"
    assert table.evaluate(inside)
    assert seen.page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    table.get_by_role("button", name="Use RBF(gamma=0.5)").first.click()
    assert seen.settled("RBF(gamma=0.5)")


def test_a_lasso_selects_the_same_rows_everywhere_and_saves_them(visit, tmp_path):
    seen = visit()
    box = seen.panel("Data").locator(".plot").bounding_box()
    seen.lasso("Data", 0.17 * box["width"], centre=(0.55, 0.45))
    words = seen.page.get_by_text(re.compile(r"\d+ of 400 rows are selected")).last
    count = int(words.inner_text().split()[0])
    assert 150 <= count <= 250  # the inner circle has 200
    with seen.page.expect_download() as waited:
        seen.page.get_by_role("button", name="Save these rows").click()
    waited.value.save_as(tmp_path / "rows.csv")
    lines = (tmp_path / "rows.csv").read_text().strip().splitlines()[1:]
    assert len(lines) == count
    seen.panel("Scores").locator(".plot").press("Escape")
    assert seen.page.get_by_role("button", name="Save these rows").is_disabled()


def test_marks_are_reached_by_arrow_keys(visit):
    seen = visit()
    plot = seen.panel("Data").locator(".plot")
    plot.focus()
    plot.press("ArrowRight")
    seen.page.wait_for_selector(".tip b")
    plot.press("ArrowUp")
    plot.press("Enter")
    assert seen.page.get_by_text("1 of 400 rows are selected").count()


def test_a_walk_moves_a_point_through_input_space(visit):
    seen = visit()
    walk, place = seen.panel("Walk"), seen.panel("Data").locator(".walker")
    seen.page.wait_for_selector(".moves")
    slider = walk.get_by_role("slider")
    slider.fill("0")
    first = (
        walk.locator("output").inner_text(),
        place.get_attribute("cx"),
        place.get_attribute("cy"),
    )
    slider.fill("40")
    last = walk.locator("output").inner_text(), place.get_attribute("cx"), place.get_attribute("cy")
    assert first[0] != last[0]
    assert first[1:] != last[1:]


def test_a_walk_along_a_component_of_one_kernel_is_not_drawn_over_the_level_sets_of_another(visit):
    seen = visit()
    seen.page.wait_for_selector(".moves")
    seen.page.get_by_role("tab", name="Compare").click()
    seen.panel("Compare two kernels").get_by_role("button", name="linear()").click()
    seen.page.wait_for_selector(".versus")
    seen.panel("Walk").get_by_role("slider").fill("40")
    assert seen.panel("Level sets").locator(".walker").is_visible()
    assert seen.panel("Level sets, kernel B").locator(".walker").is_hidden()


def test_a_dropped_table_is_shown_and_its_texts_stay_texts(visit):
    seen = visit()
    rng = np.random.default_rng(0)
    rows = [f"{a:.3f},{b:.3f},{c:.3f},{EVIL}" for a, b, c in rng.normal(size=(60, 3))]
    seen.drop("sensors.csv", "\n".join([f"{EVIL},b,c,kind", *rows]))
    seen.page.wait_for_selector("text=60 rows")
    seen.settled("RBF")
    assert seen.page.locator("img").count() == 0
    assert (
        seen.page.get_by_role("combobox", name="Colour by").locator("option", has_text=EVIL).count()
    )
    seen.drop("broken.csv", "a,b\n1\n2,3,4\n")
    playwright.expect(seen.page.locator(".said")).to_contain_text("broken.csv")
    seen.trouble[:] = [text for text in seen.trouble if "422" not in text]


class Held(Observer):
    """Follows a fit for a request, and makes it wait at its first step until that request is stopped."""

    def __init__(self, job):
        self.job = job

    def began(self, stage):
        self.job.began(stage)

    def step(self, *how_far):
        self.job.cancelled.wait(PATIENCE / 1000)
        return self.job.step(*how_far)


@pytest.fixture
def held_fits(monkeypatch):
    """Fits at rest end when they are stopped: no machine is too quick for the button, and none too slow."""

    def held(recipe, data, quality, job):
        return fitted(recipe, data, quality, job if quality == "drag" else Held(job))

    monkeypatch.setattr("mercer.web.session.fitted", held)


@pytest.mark.usefixtures("held_fits")
def test_a_long_fit_shows_its_progress_and_can_be_stopped(browser, tmp_path):
    np.save(tmp_path / "many.npy", np.random.default_rng(0).normal(size=(DRAG_ROWS + 1, 8)))
    with mercer.explore(tmp_path / "many.npy", browser=False) as served:
        seen = Visit(browser, served.url)
        stop = seen.page.get_by_role("button", name="Stop", exact=True).first
        # The approximation is drawn first; what runs from then on is the exact fit.
        playwright.expect(seen.panel("Scores").locator(".badge")).to_have_text("approximate")
        playwright.expect(seen.page.locator(".progress-words")).to_contain_text("fit")
        stop.click()
        said = seen.page.locator(".findings li, .panel .message").filter(has_text="stopped").first
        playwright.expect(said).to_be_visible()
        playwright.expect(stop).to_be_hidden()
        seen.context.close()
        assert [text for text in seen.trouble if "409" not in text] == []  # "stopped" is a refusal


def test_a_saved_model_gives_the_saved_scores(visit, tmp_path):
    seen = visit()
    model = mercer.load(seen.saved("Model (.mercer)", tmp_path))
    scores = np.load(seen.saved("Scores (NPY)", tmp_path))
    rows = served_rows(seen)
    assert np.allclose(model.transform(rows), scores, rtol=1e-5, atol=1e-6)


def test_a_detector_that_is_dropped_is_one_on_the_page(visit, tmp_path):
    x = np.random.default_rng(0).standard_normal((200, 2))
    path = tmp_path / "watch.mercer"
    mercer.KernelPCADetector(2, kernel="rbf", lags=1).fit(x).save(
        path
    )  # it keeps no rows of its own
    seen = visit()
    seen.page.set_input_files("input[type=file]", path)
    playwright.expect(seen.page.get_by_role("combobox", name="Model")).to_have_value("detector")
    colours = seen.page.get_by_role("combobox", name="Colour by").locator("option")
    assert "alarm" in colours.all_inner_texts()
    # The cursor begins at the first row that is judged, and a row without a place has no ring.
    behind = seen.panel("Over time").locator(".blame")
    playwright.expect(behind).to_contain_text("the statistic of p001:")
    seen.panel("Over time").locator(".plot").first.press("ArrowLeft")
    playwright.expect(behind).to_contain_text("Row 0 was not judged")
    seen.trouble[:] = [text for text in seen.trouble if "422" not in text]


def test_a_detector_and_its_rows_are_dropped_together(visit, tmp_path):
    (tmp_path / "normal.csv").write_text(tank(faulty=False))
    path = tmp_path / "watch.mercer"
    asked = {"kind": "detector", "reading": app.Reading(id="time"), "output": str(path)}
    app.run(app.FitRequest(data=str(tmp_path / "normal.csv"), **asked))
    seen = visit()
    seen.drop("today.csv", tank(faulty=True), "watch.mercer", path.read_bytes())  # in any order
    playwright.expect(seen.page.locator(".notice")).to_contain_text(
        "watch.mercer judges the 360 rows of today.csv"
    )
    playwright.expect(seen.panel("Over time")).to_contain_text("of 360 rows are alarms")


def tank(faulty):
    return demo.process_text(faulty=faulty)


def test_rows_dropped_onto_a_detector_are_judged_by_it(browser):
    with explored("tank") as url:
        seen = Visit(browser, url)
        seen.settled()
        panel, watched = (
            seen.panel("Over time"),
            seen.page.get_by_role("combobox", name="Rows to watch"),
        )
        playwright.expect(panel).to_contain_text("of 360 rows are alarms")
        seen.drop("monday.csv", tank(faulty=True).rsplit("\n", 11)[0])  # ten rows fewer
        playwright.expect(seen.page.locator(".notice")).to_contain_text(
            "judges the 350 rows of monday.csv"
        )
        playwright.expect(panel).to_contain_text("of 350 rows are alarms")
        assert watched.locator("option:checked").inner_text() == "monday.csv"
        assert "temperature" in panel.locator(".run-list").inner_text()
        assert seen.page.get_by_role("combobox", name="Model").input_value() == "detector"
        watched.select_option("The tank today")
        playwright.expect(panel).to_contain_text("of 360 rows are alarms")
        seen.context.close()
        assert seen.trouble == []


def test_rows_that_can_not_be_judged_leave_the_detector_alone(browser, tmp_path):
    with explored("tank") as url:
        seen = Visit(browser, url)
        seen.settled()
        (tmp_path / "other.csv").write_text("time,level\n1,2\n2,4\n3,5\n")
        seen.page.set_input_files(
            "input[aria-label='File of rows to watch']", tmp_path / "other.csv"
        )
        notice = seen.page.locator(".notice")
        playwright.expect(notice).to_contain_text("The rows of other.csv can't be judged")
        playwright.expect(notice).to_contain_text("which the detector needs")
        assert seen.page.get_by_role("combobox", name="Model").input_value() == "detector"
        playwright.expect(seen.panel("Over time")).to_contain_text("of 360 rows are alarms")
        seen.context.close()
        assert seen.trouble == []


def test_a_detector_file_and_the_rows_of_today(browser, tmp_path):
    model, today = tmp_path / "detector.mercer", tmp_path / "today.csv"
    (tmp_path / "normal.csv").write_text(tank(faulty=False))
    today.write_text(tank(faulty=True))
    kept = app.FitRequest(
        data=str(tmp_path / "normal.csv"),
        kind="detector",
        reading=app.Reading(id="time"),
        output=str(model),
    )
    app.run(kept)
    with explored(model, today) as url:
        seen = Visit(browser, url)
        seen.settled()
        panel = seen.panel("Over time")
        playwright.expect(panel).to_contain_text("of 360 rows are alarms")
        playwright.expect(seen.page.locator(".legend")).to_contain_text("alarm")
        assert panel.bounding_box()["y"] < seen.panel("Data").bounding_box()["y"]
        seen.page.set_input_files(
            "input[aria-label='File of rows to watch']", tmp_path / "normal.csv"
        )
        playwright.expect(seen.page.locator(".notice")).to_contain_text(
            "detector.mercer judges the 300 rows of normal.csv"
        )
        playwright.expect(panel).to_contain_text("of 300 rows")
        seen.context.close()
        assert seen.trouble == []


def test_a_link_brings_the_view_back(visit):
    first = visit()
    first.kernel().fill("rbf(gamma=3.5)")
    first.settled("gamma=3.5")
    first.panel("Level sets").get_by_role("combobox").select_option("component 2")
    first.page.wait_for_url(lambda url: '"level":1' in unquote(url))
    again = visit("#" + first.page.url.split("#")[1])
    assert again.settled("gamma=3.5")
    assert again.kernel().input_value() == "rbf(gamma=3.5)"
    assert again.panel("Level sets").get_by_role("combobox").input_value() == "1"


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing(visit, scheme):
    axe = pytest.importorskip("axe_playwright_python.sync_playwright").Axe()
    seen = visit(color_scheme=scheme)
    for name in (
        "What components mean",
        "Is it a kernel?",
        "Compare",
        "Choose a kernel",
        "Over time",
    ):
        seen.page.get_by_role("tab", name=name).click()
        if name == "Compare":
            seen.kernel().fill("rbf(gama=1)")  # what a failure looks like
            seen.page.wait_for_selector(".outdated")
        if name == "Over time":
            seen.kernel().fill("rbf(gamma=2)")
            seen.page.get_by_role("button", name="Fit a detector").click()
            seen.page.wait_for_selector(".charts canvas")
        seen.page.wait_for_timeout(300)
        found = axe.run(seen.page).response["violations"]
        assert [
            (v["id"], v["nodes"][0]["html"], v["nodes"][0]["failureSummary"]) for v in found
        ] == []


def test_without_webgl_marks_are_drawn_by_canvas(launch, server):
    bare = launch(["--no-sandbox", "--disable-gpu", "--disable-software-rasterizer"])
    seen = Visit(bare, server)
    seen.settled()
    assert "Canvas2D" in seen.page.locator("footer").inner_text()
    assert spread(seen.panel("Scores").locator("canvas").first) > 100
    bare.close()


def test_the_page_ends_its_server(browser):
    with explored("moons") as url:
        seen = Visit(browser, url)
        seen.settled()
        seen.page.get_by_role("button", name="Stop the server").click()
        seen.page.wait_for_selector("text=has stopped")
        seen.context.close()
        assert seen.trouble == []
