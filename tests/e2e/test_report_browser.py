"""The report in a real browser with the network off: no request, no error, and what is under the pointer."""

import io
import json
import re

import numpy as np
import pytest
from sklearn.datasets import make_circles

from browsing import chromium
from mercer import KernelPCA, KernelPCADetector
from mercer.kernels import RBF
from mercer.report import build, report

EVIL = "<script>alert(1)</script>"
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
]


playwright = pytest.importorskip("playwright.sync_api")
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
def circles():
    X, y = make_circles(120, factor=0.3, noise=0.05, random_state=0)
    model = KernelPCA(3, kernel=RBF(gamma=2.0)).fit(X)
    return model, X, np.array([EVIL, "inner"])[y]


@pytest.fixture(scope="module")
def page_file(circles, tmp_path_factory):
    model, X, labels = circles
    path = tmp_path_factory.mktemp("browser") / "report.html"
    ids = [f"<b>{i}</b>" for i in range(len(X))]
    path.write_text(build(model, X, labels=labels, ids=ids), encoding="utf-8")
    return path


class Seen:
    """A page, and everything it did that it should not do."""

    def __init__(self, browser, path, **options):
        self.context = browser.new_context(
            offline=True, viewport={"width": 900, "height": 900}, **options
        )
        self.page = self.context.new_page()
        self.requests, self.trouble = [], []
        self.page.on("request", lambda r: self.requests.append(r.url))
        self.page.on("console", lambda m: self.trouble.append(m.text))
        self.page.on("pageerror", lambda e: self.trouble.append(str(e)))
        self.page.on("dialog", lambda d: (self.trouble.append(d.message), d.dismiss()))
        self.page.goto(path.as_uri())

    def point(self, x, y):
        """Move the pointer to a place given in the units of the picture of the scores."""
        picture = self.page.locator("svg.live")
        picture.scroll_into_view_if_needed()
        box = picture.bounding_box()
        wide, tall = (int(v) for v in picture.get_attribute("viewBox").split()[2:])
        self.page.mouse.move(
            box["x"] + box["width"] * x / wide, box["y"] + box["height"] * y / tall
        )

    def tip(self):
        tip = self.page.locator("#scores-tip")
        return tip.inner_text().splitlines() if tip.is_visible() else []

    def pixels(self, selector):
        image = pytest.importorskip("PIL.Image")
        shot = self.page.locator(selector).first.screenshot()
        return np.asarray(image.open(io.BytesIO(shot)).convert("RGB"), dtype=float)


@pytest.fixture
def seen(browser, page_file):
    opened = Seen(browser, page_file)
    yield opened
    opened.context.close()


def places(seen, axes=(0, 1)):
    """Where the points are drawn, by the same rule as the page states in its data."""
    data = json.loads(seen.page.locator("#scores-data").text_content())
    import base64

    values = np.frombuffer(base64.b64decode(data["values"]), "<f4").reshape(-1, data["n"])
    values, frame = values.astype(float), data["frame"]
    across, up = (values[j] for j in axes)
    sides = []
    for column, start, end in (
        (across, frame["left"], frame["width"] - frame["right"]),
        (up, frame["height"] - frame["bottom"], frame["top"]),
    ):
        pad = data["margin"] * np.ptp(column)
        low, high = column.min() - pad, column.max() + pad
        sides.append(start + (column - low) / (high - low) * (end - start))
    return np.column_stack(sides)


def lonely(points):
    """The point that is farthest from its nearest neighbour."""
    gaps = np.linalg.norm(points[:, None] - points[None], axis=2)
    np.fill_diagonal(gaps, np.inf)
    return int(gaps.min(axis=1).argmax())


def shown(value):
    return float(value.replace("−", "-"))


def test_the_page_loads_nothing_and_complains_about_nothing(seen, page_file):
    seen.page.wait_for_load_state("networkidle")
    assert seen.requests == [page_file.as_uri()]
    assert seen.trouble == []


def test_labels_are_text(seen):
    assert EVIL in seen.page.locator(".legend").inner_text()
    assert seen.page.locator("script").count() == 2
    assert seen.trouble == []


@pytest.mark.parametrize("axes", [(0, 1), (2, 0)])
def test_the_pointer_tells_what_is_under_it(seen, circles, axes):
    model, X, labels = circles
    for which, axis in zip("xy", axes, strict=True):
        seen.page.locator(f"#scores-{which}").select_option(str(axis))
    points = places(seen, axes)
    i = lonely(points)
    seen.point(*points[i])
    found = seen.tip()
    assert found[:2] == [f"<b>{i}</b>", f"label: {labels[i]}"]
    scores = model.transform(X)[i]
    for line, axis in zip(found[2:], axes, strict=True):
        name, _, value = line.partition(": ")
        assert name == f"component {axis + 1} ({100 * model.explained_variance_ratio_[axis]:.1f} %)"
        assert shown(value) == pytest.approx(scores[axis], rel=1e-3)
    seen.point(0, 0)
    assert seen.tip() == []


def test_other_components_are_drawn_where_they_are(seen):
    before = seen.page.locator(".marks path").first.get_attribute("d")
    seen.page.locator("#scores-y").select_option("2")
    after = seen.page.locator(".marks path").first.get_attribute("d")
    assert before != after
    drawn = np.array(
        [[float(v) for v in part.split("h")[0].split()] for part in after.split("M")[1:]]
    )
    points = places(seen, (0, 2))
    assert all(np.linalg.norm(points - p, axis=1).min() < 0.2 for p in drawn)
    # Choosing what the other axis has makes them change places.
    seen.page.locator("#scores-x").select_option("2")
    assert seen.page.locator("#scores-y").input_value() == "0"
    assert seen.trouble == []


def test_keys_go_from_point_to_point_and_the_legend_hides(seen):
    seen.page.locator("svg.live").focus()
    seen.page.keyboard.press("ArrowRight")
    first = seen.tip()
    seen.page.keyboard.press("ArrowRight")
    second = seen.tip()
    assert first
    assert second
    assert first != second
    assert shown(second[2].partition(": ")[2]) >= shown(first[2].partition(": ")[2])
    seen.page.keyboard.press("Escape")
    assert seen.tip() == []
    button = seen.page.locator(".legend button").first
    button.click()
    assert button.get_attribute("aria-pressed") == "false"
    assert not seen.page.locator(".marks path").first.is_visible()
    assert seen.page.locator(".marks path").nth(1).is_visible()


def test_pictures_are_not_blank_in_light_and_dark(browser, page_file):
    paper = {}
    for scheme in ("light", "dark"):
        opened = Seen(browser, page_file, color_scheme=scheme)
        for selector in (
            "svg.live",
            "#spectrum-figure svg",
            "#levels-figure svg",
            "#missed-figure svg",
        ):
            assert opened.pixels(selector).std() > 5, (scheme, selector)
        paper[scheme] = opened.pixels("svg.live")[0, 0].mean()
        opened.context.close()
    assert paper["light"] > 200
    assert paper["dark"] < 60


def pages(opened):
    pdf = opened.page.pdf(format="A4")
    assert pdf.startswith(b"%PDF")
    return pdf.count(b"/Type /Page") - pdf.count(b"/Type /Pages")


def test_a_detectors_page_is_sound_and_prints_on_six_pages(browser, tmp_path):
    rng = np.random.default_rng(0)
    detector = KernelPCADetector().fit(rng.standard_normal((600, 25)))
    run = rng.standard_normal((1500, 25))
    run[700:, 3] += 8.0
    run[5, 1] = np.nan
    time = np.datetime64("2026-01-05T06:00") + np.arange(1500) * np.timedelta64(1, "m")
    path = report(detector, run, tmp_path / "r.html", time=time, labels=np.arange(1500) % 20)
    for options in ({}, {"color_scheme": "dark"}):
        opened = Seen(browser, path, **options)
        for selector in ("#charts-figure svg", "#leaders-figure svg", "svg.live"):
            assert opened.pixels(selector).std() > 5, selector
        assert pages(opened) <= 6
        opened.page.set_viewport_size({"width": 400, "height": 700})
        assert opened.page.evaluate("document.documentElement.scrollWidth") <= 400
        assert opened.trouble == []
        opened.context.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_cards_hold_their_dates_and_what_is_wider_than_a_phone_shows_it(browser, tmp_path, scheme):
    rng = np.random.default_rng(0)
    detector = KernelPCADetector().fit(rng.standard_normal((200, 3)))
    rows = rng.standard_normal((300, 3))
    rows[100:140, 1] += 9.0
    time = np.datetime64("2026-04-03T15:30:07") + np.arange(300) * np.timedelta64(3, "m")
    names = [f"a long name of sensor {i}" for i in range(3)]
    path = report(detector, rows, tmp_path / "r.html", time=time, names=names)
    opened = Seen(browser, path, color_scheme=scheme)
    for width in (1400, 900, 390):
        opened.page.set_viewport_size({"width": width, "height": 900})
        inside = "found => found.every(one => one.scrollWidth <= one.clientWidth)"
        assert opened.page.locator(".tiles > div").evaluate_all(inside), width
    # The last pixels of a table that goes on are shaded; scrolled to its end, they are paper.
    table = "section .scroll:visible"
    found = opened.page.locator(table).first
    assert found.evaluate("found => found.scrollWidth > found.clientWidth + 40")
    paper = opened.page.evaluate("getComputedStyle(document.body).backgroundColor")
    paper = np.array([int(part) for part in re.findall(r"\d+", paper)[:3]])

    def shaded():
        """How far the pixels at the right end, in the middle of its height, are from paper."""
        edge = opened.pixels(table)[:, -3:]
        middle = slice(len(edge) // 3, 2 * len(edge) // 3)
        return np.median(np.abs(edge[middle] - paper))

    before = shaded()
    found.evaluate("found => { found.scrollLeft = found.scrollWidth; }")
    assert before > shaded() + 10
    opened.context.close()


def test_it_prints_and_fits_a_phone(browser, page_file):
    opened = Seen(browser, page_file, color_scheme="dark")
    assert 3 <= pages(opened) <= 6
    opened.page.locator("details").first.evaluate("found => found.open = true")
    opened.page.emulate_media(media="print")
    shown = [found.is_visible() for found in opened.page.locator("details").all()]
    assert shown == [True] + [False] * (len(shown) - 1), "on paper is what was open"
    opened.page.emulate_media(media="print", color_scheme="dark")
    assert opened.pixels("svg.live")[0, 0].mean() > 200, "paper is white"
    opened.page.emulate_media(media="screen")
    opened.page.set_viewport_size({"width": 360, "height": 700})
    assert opened.page.evaluate("document.documentElement.scrollWidth") <= 360
    opened.context.close()


def test_cells_tell_their_counts(browser, circles, tmp_path, monkeypatch):
    monkeypatch.setattr("mercer.report.scatter.MOST_POINTS", 100)
    model, X, labels = circles
    path = tmp_path / "cells.html"
    path.write_text(build(model, X, labels=labels), encoding="utf-8")
    opened = Seen(browser, path)
    opened.page.locator("svg.live").focus()
    opened.page.locator("#scores-x").select_option("2")
    opened.page.locator("svg.live").focus()
    opened.page.keyboard.press("ArrowLeft")
    found = opened.tip()
    assert found[0].endswith(" points")
    assert found[1] in (f"100 % {EVIL}", "100 % inner", f"50 % {EVIL}")
    assert found[2].startswith("component 3 (")
    assert opened.trouble == []
    assert opened.pixels("svg.live").std() > 1
    opened.context.close()
