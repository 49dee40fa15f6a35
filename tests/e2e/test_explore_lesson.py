"""What one can learn from the page alone: why PCA fails, what a width does, what an exact fit takes."""

import json
import re
from urllib.parse import quote

import numpy as np
import pytest

import mercer
from browsing import FLAGS, PATIENCE, Visit, chromium, explored, visits
from mercer.app.explore import fitting

playwright = pytest.importorskip("playwright.sync_api")
pytest.importorskip("starlette")
pytest.importorskip("uvicorn")
playwright.expect.set_options(timeout=PATIENCE)
expect = playwright.expect

pytestmark = [
    pytest.mark.skipif(chromium() is None, reason="no Chromium on PATH or in $MERCER_CHROMIUM"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),  # of playwright's own pipes
]


@pytest.fixture(scope="module")
def browser():
    with playwright.sync_playwright() as started:
        opened = started.chromium.launch(executable_path=chromium(), args=FLAGS)
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


def test_circles_say_why_pca_fails_and_show_it(visit):
    seen = visit()
    lesson = seen.page.locator(".lesson")
    expect(lesson).to_contain_text("of this kernel gets 100 % of the labels right")
    expect(lesson).to_contain_text("no better than always naming the largest class (50 %)")
    expect(lesson).to_contain_text("PCA only turns these rows")
    lesson.get_by_role("button", name="Show PCA beside it").click()
    expect(seen.panel("Scores, kernel B").locator("figcaption")).to_be_visible()
    assert seen.page.get_by_role("tab", name="Compare").get_attribute("aria-selected") == "true"
    assert seen.page.get_by_role("combobox", name="Kernel B").input_value() == "linear()"


def test_the_width_says_when_it_is_too_wide_and_when_too_narrow(visit):
    seen = visit()
    said = seen.page.locator(".closeness li")
    expect(said).to_contain_text("Only near rows are alike")
    for gamma, words in (("0.0005", "too wide to bend"), ("5000", "too narrow: nearly every row")):
        seen.kernel().fill(f"rbf(gamma={gamma})")
        expect(said).to_contain_text(words)
        assert "warning" in said.get_attribute("class")
        # Neither separates the circles, which is said too.
        expect(seen.page.locator(".lesson")).to_contain_text("on those of PCA it does as badly")
    seen.kernel().fill("rbf(gamma=")
    expect(said).to_be_hidden()


@pytest.mark.parametrize("wide", [1300, 400])
def test_panels_do_not_move_when_the_lesson_arrives(visit, wide):
    """Its place is kept from the first moment, and is as large as its words."""
    seen = visit()
    seen.page.set_viewport_size({"width": wide, "height": 800})
    lesson = seen.page.locator(".lesson")
    expect(lesson).to_contain_text("of the labels right")
    height = "e => e.getBoundingClientRect().height"
    kept = float(lesson.evaluate("e => parseFloat(getComputedStyle(e).minHeight)"))
    assert lesson.evaluate(height) == pytest.approx(kept, abs=1)


def test_an_exact_fit_of_many_rows_is_asked_for_when_its_cost_is_known(
    browser, monkeypatch, tmp_path, rng
):
    monkeypatch.setattr(fitting, "EXACT_ROWS", {"drag": 300, "rest": 300, "exact": None})
    rows = rng.standard_normal((600, 3))
    np.save(tmp_path / "many.npy", rows)
    with mercer.explore(tmp_path / "many.npy", browser=False) as page:
        seen = Visit(browser, page.url)
        seen.settled()
        badge = seen.panel("Scores").locator(".badge")
        expect(badge).to_have_text("approximate")
        seen.kernel().fill("rbf(gamma=0.3)")
        seen.settled("0.3")
        seen.page.get_by_role("button", name="What would an exact fit take?").click()
        expect(seen.page.locator(".findings")).to_contain_text("An exact fit to all 600 rows takes")
        seen.page.get_by_role("button", name="Fit exactly").click()
        expect(badge).to_be_hidden()
        seen.settled("0.3")
        seen.panel("Level sets").get_by_role("combobox").select_option("component 2")
        seen.settled("0.3")
        expect(badge).to_be_hidden()  # another view of the same fit is exact too
        found = np.load(seen.saved("Scores (NPY)", tmp_path))
        seen.context.close()
        assert seen.trouble == []
    prepared = (rows - rows.mean(0)) / rows.std(0)
    exact = mercer.KernelPCA(6, kernel="rbf(gamma=0.3)").fit_transform(prepared)
    assert np.allclose(np.abs(found), np.abs(exact), atol=1e-5)


def test_a_row_of_pixels_is_a_picture_under_the_pointer(browser):
    with explored("faces") as url:
        seen = Visit(browser, url)
        seen.settled()
        plot = seen.panel("Data").locator(".plot")
        plot.focus()
        plot.press("ArrowRight")
        face = seen.panel("Data").locator(".tip canvas")
        expect(face).to_be_visible()
        assert face.evaluate("c => [c.height, c.width]") == [56, 46]
        seen.context.close()
        assert seen.trouble == []


PIXELS = "c => c.toDataURL()"


def test_three_components_are_turned_by_keys(visit):
    seen = visit()
    panel = seen.panel("Scores")
    panel.get_by_role("combobox", name="component in depth").select_option(label="3")
    expect(panel).to_contain_text("Three components")
    seen.settled("gamma=2")
    before = panel.locator("canvas").evaluate(PIXELS)
    panel.locator(".plot").press("Shift+ArrowRight")
    seen.page.wait_for_function(
        "([c, before]) => c.toDataURL() !== before",
        arg=[panel.locator("canvas").element_handle(), before],
    )
    assert seen.page.get_by_role("button", name="Save these rows").is_disabled()


def test_paper_is_light_whatever_the_screen(visit):
    pictures = []
    for scheme in ("light", "dark"):
        seen = visit(color_scheme=scheme)
        expect(seen.page.locator(".lesson")).to_contain_text("of the labels right")
        # As in printing, where nothing waits for a frame.
        seen.page.evaluate("window.requestAnimationFrame = () => 0")
        seen.page.emulate_media(media="print")
        pictures.append(seen.panel("Level sets").locator("canvas").evaluate(PIXELS))
    assert pictures[0] == pictures[1]


def test_the_kernel_that_was_typed_comes_back_after_pca(visit):
    seen = visit()
    seen.kernel().fill("rbf(gamma=3.5)")
    seen.settled("gamma=3.5")
    model = seen.page.get_by_role("combobox", name="Model")
    model.select_option("pca")
    seen.settled("Linear")
    model.select_option("kpca")
    seen.settled("gamma=3.5")
    assert seen.kernel().input_value() == "rbf(gamma=3.5)"


def test_the_formula_says_whether_its_columns_are_scaled(visit):
    seen = visit()
    seen.kernel().fill("rbf(gamma=2)")
    seen.settled("gamma=2")
    formula = seen.page.locator(".sidebar .formula")
    playwright.expect(formula).to_contain_text("of scaled columns")
    seen.page.get_by_role("combobox", name="Scaling").select_option("none")
    playwright.expect(formula).not_to_contain_text("of scaled columns")


@pytest.mark.parametrize(
    ("name", "wrong", "right", "words"),
    [
        ("gamma of rbf as a number", ("-1", "0", "wide", "1e400", ""), "3", "gamma must be"),
        ("Components", ("-3", "0", "2.5"), "4", "components must be"),
    ],
)
def test_a_number_that_can_not_be_used_is_refused_in_words(visit, name, wrong, right, words):
    seen = visit()
    field = seen.page.get_by_label(name, exact=True)
    before = seen.settled()
    for text in wrong:
        field.fill(text)
        field.press("Enter")
        expect(field).to_have_attribute("aria-invalid", "true")
        expect(field).to_have_accessible_description(re.compile(f"{words}.*; got {text}"))
        assert seen.settled() == before  # the fit stays that of the last number which could be used
    field.fill(right)
    field.press("Enter")
    expect(field).to_have_attribute("aria-invalid", "false")
    expect(seen.page.locator(".objection:visible")).to_have_count(0)


def test_an_empty_number_of_components_is_the_default(visit):
    seen = visit()
    seen.drop("named.csv", "a,b\n" + "".join(f"{i},{i * i % 7}\n" for i in range(9)))
    facts, field = seen.page.locator(".sidebar .facts"), seen.page.get_by_role("spinbutton")
    seen.settled("RBF")  # the circles have another
    expect(field).to_have_value("")
    expect(facts).to_contain_text("RBF")
    default = facts.inner_text()
    field.fill("1")
    expect(facts).to_contain_text("1 component holds")
    field.fill("")
    field.press("Enter")
    expect(facts).to_have_text(default)


def test_a_text_that_can_not_be_used_is_not_called_no_kernel(visit):
    seen = visit()
    notice = seen.page.locator(".notice")
    seen.kernel().fill("rbf(gamma=0)")  # 1 for all rows: that is a kernel
    expect(notice).to_contain_text("“rbf(gamma=0)” can’t be used")
    expect(notice).not_to_contain_text("is not a kernel")


def test_the_way_back_leads_to_a_kernel_that_was_fitted(visit):
    seen = visit()
    notice = seen.page.locator(".notice")
    seen.kernel().fill("chi2(gamma=1)")
    expect(notice).to_contain_text("could not be fitted")
    seen.kernel().fill("chi2(")
    expect(notice).to_contain_text("can’t be used")
    expect(notice.get_by_role("button")).to_have_text("Back to rbf(gamma=2)")
    seen.may_refuse = True


def test_a_function_that_these_rows_refute_is_called_so_beside_its_field(visit):
    seen = visit()
    says = seen.page.locator(".sidebar .says")
    for text, words in (
        ("sigmoid(gamma=1, coef0=1)", "Not a kernel on these rows"),
        ("rbf(gamma=2)", "A kernel: "),
        ("sigmoid(gamma=1, coef0=-1)", "Not a kernel on these rows"),
    ):
        seen.kernel().fill(text)
        expect(says).to_contain_text(words)
    caption = seen.panel("Level sets").locator("figcaption")
    expect(caption).to_contain_text("Component 1 as a function of x and y")  # and no share


def test_a_refused_file_is_not_said_to_be_read(visit):
    seen = visit()
    seen.drop("empty.csv", "")
    expect(seen.page.locator(".said")).to_have_text("empty.csv was not opened.")
    expect(seen.page.locator(".notice")).to_contain_text("is empty")
    seen.may_refuse = True


def test_rows_that_are_all_equal_offer_no_model_of_other_rows(visit):
    seen = visit()
    seen.drop("equal.csv", "a,b\n" + "3,4\n" * 9)
    notice = seen.page.locator(".notice")
    expect(notice).to_contain_text("All 9 rows are equal")
    expect(notice.get_by_role("button")).to_have_count(0)
    seen.may_refuse = True


def test_numbers_beyond_float32_are_refused_in_words(visit):
    seen = visit()
    seen.drop("huge.csv", "a,b\n" + "".join(f"{i}e300,{i}\n" for i in range(9)))
    expect(seen.panel("Data")).to_contain_text("too large to be drawn")
    seen.may_refuse = True


def test_one_column_and_one_component_are_spoken_of_as_one(visit):
    seen = visit()
    seen.drop("two.csv", "a\n1\n2\n")
    expect(seen.page.locator(".sidebar .fit")).to_contain_text("1 component holds 100.0 %")
    expect(seen.panel("Level sets")).to_contain_text("these rows have one")
    seen.may_refuse = True


def test_what_was_guessed_of_a_file_is_said_apart(visit):
    seen = visit()
    seen.drop("named.csv", "a,b,name\n" + "".join(f"{i},{i * i % 7},n{i}\n" for i in range(9)))
    said = "named.csv: 9 rows; column 'name' names the rows."
    expect(seen.page.locator(".said")).to_have_text(said)


def test_the_second_kernel_stands_while_the_first_is_being_typed(visit):
    seen = visit()
    seen.page.locator(".lesson").get_by_role("button").click()
    second = seen.panel("Scores, kernel B")
    expect(second.locator("figcaption")).to_contain_text("Component 2")
    seen.kernel().fill("rbf(gamma=")
    expect(seen.page.locator(".notice")).to_be_visible()
    expect(second.locator(".tag")).to_have_text("")
    expect(seen.panel("Scores").locator(".tag")).to_have_text("still rbf(gamma=2)")
    expect(seen.page.locator(".versus")).to_have_count(0)


def test_the_slider_of_a_walk_speaks_of_scores(visit):
    seen = visit()
    panel = seen.panel("Walk")
    expect(panel).to_contain_text("A ring in Data and Level sets marks it.")
    slider = panel.get_by_role("slider")
    slider.press("End")
    assert slider.get_attribute("aria-valuetext") == panel.locator("output").inner_text()


@pytest.mark.parametrize(
    "part",
    [
        {"view": {"tab": 99}},
        {"view": {"tab": "x"}},
        {"view": {"plane": None, "components": "x", "level": {}, "walk": "x"}},
        {"recipe": {"kernel": 5}},
    ],
)
def test_a_damaged_link_opens_what_is_left_of_it(visit, part):
    link = {"table": {"built-in": "circles"}, **part}
    seen = visit("#" + quote(json.dumps(link)))
    assert seen.settled()
    expect(seen.page.locator(".notice")).to_be_hidden()
    expect(seen.page.locator(".panel .message:visible")).to_have_count(0)
