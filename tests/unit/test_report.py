"""A report says what the model says, asks nobody for anything, and obeys nothing that it shows."""

import base64
import hashlib
import io
import json
import platform
import re
import warnings
from html.parser import HTMLParser

import numpy as np
import pytest
from sklearn.datasets import load_digits, make_circles
from sklearn.decomposition import PCA as Theirs

import mercer
from mercer import PCA, IncrementalKernelPCA, KernelPCA, KernelPCADetector, sklearn
from mercer.data.formats import open_table
from mercer.data.table import Reading
from mercer.errors import InputError
from mercer.kernels import RBF
from mercer.preprocessing.preparation import Preparation
from mercer.report import build, drawing, scatter
from mercer.views import classes as looks
from mercer.views.scatter import BINS, cells
from mercer.views.surface import zero_line
from mercer.views.wording import number

EVIL = "<script>alert(1)</script>"
NASTY = [
    EVIL,
    "</script><!--",
    "\"'><img src=x onerror=alert(2)>",
    "&lt;",
    "tab\tnul\0",
    "\udc80",
    "`a`",
]
PAGE = ["data", "kernel", "spectrum", "scores", "levels", "evidence", "reconstruction", "reproduce"]
# A detector's page begins with what it saw.
SECTIONS = {False: PAGE, True: ["monitoring", "scores", *(s for s in PAGE if s != "scores")]}
VOID = {"meta", "img", "link"}


class Page(HTMLParser):
    """What a browser would see: elements with attributes, and their text. Tags have to be balanced."""

    def __init__(self, html):
        super().__init__(convert_charrefs=True)
        self.elements, self.texts, self.stack = [], {}, []
        self.feed(html)
        self.close()
        assert self.stack == []

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))
        assert len(dict(attrs)) == len(attrs), "an attribute twice"
        if tag not in VOID:
            self.stack.append((tag, dict(attrs).get("id")))

    def handle_endtag(self, tag):
        assert self.stack.pop()[0] == tag

    def handle_data(self, data):
        for _, name in {entry for entry in self.stack if entry[1]}:
            self.texts[name] = self.texts.get(name, "") + data
        self.texts["all"] = self.texts.get("all", "") + data
        if self.stack and self.stack[-1][0] in ("style", "script", "title"):
            self.texts[self.stack[-1][0]] = data

    def all(self, tag):
        return [attrs for name, attrs in self.elements if name == tag]

    def data(self):
        return json.loads(self.texts["scores-data"])


def cloud(n=60, d=3, seed=0):
    return np.random.default_rng(seed).standard_normal((n, d))


def gram(n=40):
    return cloud(n) @ cloud(n).T


CASES = {
    "kernel": lambda: (KernelPCA(3).fit(cloud()), cloud()),
    "back": lambda: (KernelPCA(3, preimage="fixed-point").fit(cloud()), cloud()),
    "plane": lambda: (KernelPCA(8, kernel=RBF(gamma=1.0)).fit(cloud(d=2)), cloud(d=2)),
    "columns": lambda: (KernelPCA(2, kernel=RBF("median").on([0, 2])).fit(cloud()), cloud()),
    "one": lambda: (PCA(1).fit(cloud()), cloud()),
    "whole": lambda: (PCA().fit(cloud()), cloud()),
    "low-rank": lambda: (KernelPCA(2, approximation="nystrom").fit(cloud(300)), cloud(300)),
    "fourier": lambda: (KernelPCA(2, approximation="fourier").fit(cloud(300)), cloud(300)),
    "precomputed": lambda: (KernelPCA(2, kernel="precomputed").fit(gram()), gram()),
    "invalid": lambda: (KernelPCA(2, kernel="sigmoid").fit(cloud()), cloud()),
    "stream": lambda: (IncrementalKernelPCA(2, max_landmarks=20).fit(cloud()), cloud()),
    "detector": lambda: (KernelPCADetector().fit(cloud(200)), cloud(9) * 9),
    "drop-in": lambda: (sklearn.KernelPCA(3, kernel="rbf").fit(cloud()), cloud()),
    "single": lambda: (KernelPCA(2, preimage="ridge").fit(cloud().astype("f4")), cloud(1).astype("f4")),
    "callable": lambda: (KernelPCA(2, kernel=lambda x, y: float(x @ y)).fit(cloud(12)), cloud(12)),
}  # fmt: skip


@pytest.fixture(scope="module")
def made():
    """Models are fitted once; that they warn is tested elsewhere."""
    built = {}

    def of(name):
        if name not in built:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                model, X = CASES[name]()
            built[name] = (model, X, build(model, X))
        return built[name]

    return of


# ── every page ──────────────────────────────────────────────────────────────
@pytest.mark.parametrize("name", CASES)
def test_every_section_that_applies_says_something_and_no_other_is_there(made, name):
    page = Page(made(name)[2])
    wanted = {"data", "kernel", "spectrum", "scores", "evidence", "reproduce"}
    wanted |= {"monitoring"} if name == "detector" else set()
    wanted |= {"levels"} if name == "plane" else set()
    wanted |= set() if name in ("detector", "precomputed", "drop-in") else {"reconstruction"}
    assert [attrs["id"] for attrs in page.all("section")] == [
        s for s in SECTIONS[name == "detector"] if s in wanted
    ]
    for section in wanted:
        assert len(page.texts[section]) > len(page.texts[f"{section}-title"]) + 30
    assert "nan" not in page.texts["all"].replace("not a number", "").lower().split()
    ids = [attrs["id"] for _, attrs in page.elements if "id" in attrs]
    assert len(ids) == len(set(ids))


@pytest.mark.parametrize("name", CASES)
def test_nothing_is_asked_of_anybody(made, name):
    page = Page(made(name)[2])
    for tag, attrs in page.elements:
        assert tag not in ("iframe", "object", "embed", "form", "base")
        for key, value in attrs.items():
            assert not key.startswith("on")
            assert key != "style", "the policy forbids it"
            if key in ("src", "href", "xlink:href"):
                assert value.startswith(("data:", "#"))
    assert "url(" not in page.texts["style"]
    assert "@import" not in page.texts["style"]


@pytest.mark.parametrize("name", ["plane", "detector"])
def test_pictures_have_words(made, name):
    page = Page(made(name)[2])
    described = [attrs for attrs in page.all("svg") if attrs.get("role") == "img"]
    assert len(described) >= 4
    for attrs in described:
        assert attrs["aria-label"]
        assert page.texts[attrs["aria-describedby"]]


def test_only_our_own_script_may_run(made):
    html = made("kernel")[2]
    page = Page(html)
    (policy,) = (m["content"] for m in page.all("meta") if "http-equiv" in m)
    assert policy.startswith("default-src 'none'")
    assert "unsafe" not in policy
    for kind in ("style", "script"):
        body = re.search(rf"<{kind}>(.*?)</{kind}>", html, re.DOTALL)[1]
        digest = base64.b64encode(hashlib.sha256(body.encode()).digest()).decode()
        assert f"{kind}-src 'sha256-{digest}'" in policy


def test_the_same_model_and_rows_give_the_same_bytes_but_for_the_date(made):
    model, X, html = made("plane")
    assert build(model, X) == html
    dated = build(model, X, date="2026-01-05")
    assert dated.replace(" on 2026-01-05.", ".") == html


# ── what it shows is text ───────────────────────────────────────────────────
def test_markup_in_labels_ids_names_and_titles_is_shown_and_not_obeyed():
    X = cloud(len(NASTY), 3)
    model = PCA(2).fit(X)
    header = {"about": {"command": EVIL, "notes": [EVIL], "warnings": [EVIL]}, "kernel": EVIL}
    html = build(
        model,
        X,
        labels=NASTY,
        ids=NASTY,
        names=[EVIL, "b", "c"],
        source=EVIL,
        title=EVIL,
        notes=[EVIL],
        digest=EVIL,
        header={
            **header,
            "mercer_version": EVIL,
            "versions": {EVIL: EVIL},
            "data": {"digest": EVIL},
        },
        commands=[EVIL],
        date=EVIL,
    )
    page = Page(html)
    assert [attrs.get("type") for attrs in page.all("script")] == ["application/json", None]
    assert page.all("img") == []
    assert page.texts["title"] == EVIL
    for section in ("data", "scores", "reproduce", "evidence"):
        assert EVIL in page.texts[section]
    found = page.data()
    assert found["ids"][0] == EVIL
    assert set(found["classes"]) >= {EVIL, "</script><!--", "&lt;", "`a`"}
    html.encode("utf-8")
    assert "\0" not in html


def test_a_selection_is_told_with_its_reasons():
    X = cloud()
    chosen = {
        "reasons": ["it won", EVIL],
        "table": [{"rank": 1, "kernel": "rbf"}, {"rank": 2, "kernel": "lin"}],
    }
    page = Page(build(KernelPCA(2).fit(X), X, header={"about": {"selection": chosen}}))
    assert "it won" in page.texts["kernel"]
    assert EVIL in page.texts["kernel"]
    assert "Candidates" in page.texts["kernel"]


@pytest.mark.parametrize(
    "junk", [None, 5, "x", [], [1], {"x": 1}, {"reasons": 7, "table": [3, {}]}], ids=repr
)
def test_a_header_may_hold_anything(junk):
    X = cloud()
    keys = ("about", "data", "kernel", "versions", "mercer_version")
    build(PCA(2).fit(X), X, header=dict.fromkeys(keys, junk))
    inner = dict.fromkeys(("command", "notes", "warnings", "selection"), junk)
    facts = dict.fromkeys(("n", "digest"), junk)
    page = Page(build(KernelPCA(2).fit(X), X, header={"about": inner, "data": facts}, digest="d"))
    assert len(page.texts["kernel"]) > 100


# ── numbers ─────────────────────────────────────────────────────────────────
def decoded(text, dtype):
    return np.frombuffer(base64.b64decode(text), dtype)


@pytest.mark.parametrize("name", ["kernel", "plane", "detector", "drop-in"])
def test_the_points_are_the_scores_of_the_model(made, name):
    model, X, html = made(name)
    found = Page(html).data()
    projector, rows = model, X
    if name == "detector":
        projector, rows = model.model_, (X - model.center_) / model.spread_
    scores = projector.transform(rows)
    c = len(found["axes"])
    assert c == min(scores.shape[1], 10)
    values = decoded(found["values"], "<f4").reshape(c, len(X))
    np.testing.assert_allclose(values, scores[:, :c].T, rtol=1e-5, atol=1e-6)


def test_the_picture_without_the_script_has_every_row_once():
    X, y = make_circles(200, random_state=0)
    X = X * [1.0, 2.0]
    page = Page(build(PCA(2).fit(X), X, labels=np.array(["a", "b", "c"])[y]))
    drawn = [a for a in page.all("path") if "mark" in a.get("class", "") and "data-code" in a]
    assert [a["d"].count("M") for a in drawn] == [100, 100]


def test_columns_are_told_in_the_units_of_the_file():
    raw = cloud() * [1.0, 50.0, 1e-3] + [0.0, 900.0, 1.0]
    made = Preparation(("a", "b", "c"), center=raw.mean(axis=0), spread=raw.std(axis=0))
    X = made.scaled(raw)
    page = Page(build(KernelPCA(2).fit(X), X, preparation=made, missing=[0, 7, 0]))
    text = page.texts["data"]
    for j, name in enumerate("abc"):
        column = raw[:, j]
        told = "".join(number(v) for v in (column.min(), column.mean(), column.std(), column.max()))
        assert f"{name}{told}{[0, 7, 0][j]}" in text
    assert "standardised" in text


def test_shares_are_those_of_the_true_whole():
    X = cloud(50, 6)
    theirs = Theirs(3).fit(X).explained_variance_ratio_
    text = Page(build(PCA(3).fit(X), X)).texts["spectrum"]
    for share in theirs:
        assert f"{100 * share:.2f} %" in text
    assert f"{100 * theirs.sum():.1f} % of the variance" in text


@pytest.mark.parametrize(
    ("name", "sure"), [("low-rank", "at least "), ("fourier", "about "), ("plane", "")]
)
def test_what_an_approximation_keeps_is_told_as_a_bound_wherever_it_is_told(made, name, sure):
    model, _, html = made(name)
    text, kept = Page(html).texts, model.fit_.explained.sum()
    assert f" that hold {sure}{100 * kept:.1f} % of the variance" in text["all"]
    assert f"all together {sure}{100 * kept:.1f} % of the variance" in text["spectrum"]
    assert f"hold {sure}{100 * kept:.2f} % of the whole" in text["evidence"]


def test_one_component_holds_and_several_hold(made):
    assert "found 1 component that holds " in Page(made("one")[2]).texts["all"]
    assert "found 3 components that hold " in Page(made("kernel")[2]).texts["all"]


def test_a_kernel_on_some_columns_is_told_with_its_rule_and_its_columns(made):
    text = Page(made("columns")[2]).texts["kernel"]
    assert "kernel__gamma by the median rule" in text
    assert "columns[0, 2][0, 2]" in text


@pytest.mark.parametrize("share", [0.1, 0.119, 0.4])
def test_the_number_on_a_bar_is_not_crossed_by_the_line_of_sums(share):
    # The line leaves the top of the first bar upwards: a number above it would be struck through.
    X = np.diag(np.sqrt([share, 1 - share]))[[0, 0, 1, 1]] * [[1], [-1], [1], [-1]]
    html = build(PCA(2).fit(X), X)
    inside = re.findall(r'class="value inside">([\d.]+)', html)
    assert f"{100 * share:.1f}" in inside


def test_errors_of_the_way_back_are_scikit_learns():
    X = cloud(80, 4) @ np.diag([3.0, 2.0, 1.0, 0.5])
    pca = Theirs(2).fit(X)
    error = pca.inverse_transform(pca.transform(X)) - X
    text = Page(build(PCA(2).fit(X), X)).texts["reconstruction"]
    rmse, spread = np.sqrt(np.mean(error**2)), np.sqrt(np.mean((X - X.mean(axis=0)) ** 2))
    assert f"is {rmse:.3g}; always saying the mean of the column would give {spread:.3g}" in text
    assert f"{100 * (rmse / spread) ** 2:.1f} % of the squared error" in text
    kept = 1 - np.sum(error**2) / np.sum((X - X.mean(axis=0)) ** 2)
    assert f"hold {100 * kept:.1f} %" in text


def test_eigenfaces_are_the_axes_of_pca():
    X = load_digits().data[:300]
    made = Preparation(tuple(f"p{j}" for j in range(64)), image_shape=(8, 8))
    page = Page(build(PCA(4).fit(X), X, preparation=made))
    Image = pytest.importorskip("PIL.Image")
    found = [
        np.asarray(
            Image.open(io.BytesIO(base64.b64decode(a["src"].partition(",")[2]))), float
        ).ravel()
        for a in page.all("img")
    ]
    assert len(found) == 1 + 4 + 2 * 6
    for image, axis in zip(found[1:5], Theirs(4).fit(X).components_, strict=True):
        assert abs(np.corrcoef(image, axis)[0, 1]) > 0.9999
    assert abs(np.corrcoef(found[0], X.mean(axis=0))[0, 1]) > 0.9999


def test_alarms_are_the_detectors():
    normal, run = cloud(200), cloud(50, seed=1)
    run[30:, 1] += 8.0
    detector = KernelPCADetector().fit(normal)
    ids = [f"minute {i}" for i in range(50)]
    page = Page(build(detector, run, ids=ids, names=["a", "b", "c"]))
    text, begin = page.texts["monitoring"], page.texts["all"].partition("Limits:")[0]
    alarms = np.flatnonzero(detector.predict(run) == -1)
    assert f"{len(alarms)} of 50 rows are alarms" in begin
    assert f"The first is at id minute {alarms[0]};" in begin
    events = detector.events(run)
    length = events[0].last - events[0].first + 1
    told = f"{length} rows, severity {events[0].severity}, led by b"
    assert f"first eventminute {events[0].first}{told}" in begin
    assert text.index("The dashed line is the limit") < text.index("Events: 3 of 5 rows")
    outside = len(alarms) - sum(event.alarms for event in events)
    assert (f"{outside} alarm" in begin) == bool(outside)
    top = detector.monitor(run, names=["a", "b", "c"]).alarms["top"]
    for i, words in zip(alarms[:20], top, strict=False):
        assert f"minute {i}{words}" in text
    assert str(detector.limits_) in text


def test_rows_go_by_the_column_of_ids_where_there_is_one(tmp_path):
    lines = [
        "minute,a,b,c",
        *(f"m{i},{row[0]},{row[1]},{row[2]}" for i, row in enumerate(cloud(200))),
    ]
    (tmp_path / "run.csv").write_text("\n".join(lines))
    preparation, _ = Preparation.learn(
        open_table(tmp_path / "run.csv", Reading(id="minute")), scale="none"
    )
    detector = KernelPCADetector().fit(cloud(200))
    ids = [f"m{i}" for i in range(200)]
    html = build(detector, 9 * cloud(200), preparation=preparation, ids=ids)
    assert ">minute</text>" in html
    assert "row</text>" not in html
    assert "minuteleading variables" in Page(html).texts["monitoring"]
    assert ">row</text>" in build(detector, cloud(200))


def test_versions_of_the_fit_and_of_the_page_stand_side_by_side():
    header = {"mercer_version": "0.0.7", "versions": {"python": "3.9.1", "other": "5"}}
    text = Page(build(PCA(2).fit(cloud()), cloud(), header=header)).texts["reproduce"]
    assert (
        f"mercer0.0.7{mercer.__version__}python3.9.1{platform.python_version()}numpy—{np.__version__}"
        in text
    )
    assert "other5—" in text


def test_evidence_is_the_fits_own(made):
    model, _, html = made("invalid")
    text = Page(html).texts["evidence"]
    for told in map(str, model.fit_.warnings()):
        assert told.replace("`", "") in text
    certificate = made("low-rank")[0].fit_.certificate
    assert str(certificate) in Page(made("low-rank")[2]).texts["evidence"]


# ── too many points ─────────────────────────────────────────────────────────
@pytest.mark.parametrize(("n", "kind"), [(20_000, "points"), (20_001, "cells")])
def test_above_twenty_thousand_points_are_counted_and_that_is_said(n, kind):
    X = cloud(n, 3) * [3.0, 2.0, 1.0]
    html = build(PCA(3).fit(X), X, labels=np.where(X[:, 0] > 0, "right", "left"))
    found = Page(html).data()
    assert found["kind"] == kind
    assert ("as 160 × 160 cells" in html) == (kind == "cells")
    assert len(html) < 4e6
    if kind == "cells":
        assert sorted(found["pairs"]) == ["0,1", "0,2", "1,2"]
        for pair in found["pairs"].values():
            assert decoded(pair["counts"], "<u4").sum() == n


def test_cells_are_numpys_histogram_and_the_label_of_most():
    rng = np.random.default_rng(0)
    x, y, codes = rng.random(5000), rng.random(5000), rng.integers(0, 3, 5000)
    look = looks.classes(codes, 5000)
    found = cells(x, y, (0.0, 1.0), (0.0, 1.0), look)
    edges = np.linspace(0, 1, BINS + 1)
    whole = np.stack(
        [np.histogram2d(y[codes == c], x[codes == c], [edges, edges])[0].ravel() for c in range(3)]
    )
    np.testing.assert_array_equal(found.counts, whole.sum(axis=0)[found.places])
    np.testing.assert_array_equal(found.codes, whole.argmax(axis=0)[found.places])
    np.testing.assert_array_equal(found.majority, whole.max(axis=0)[found.places])
    assert found.counts.sum() == 5000
    # Every cell is drawn once, in its own colour and strength.
    drawn = np.zeros(BINS**2, dtype=int)
    look_of = dict(
        zip(
            found.places.tolist(),
            zip(found.codes.tolist(), found.levels().tolist(), strict=True),
            strict=True,
        )
    )
    for code, level, d in scatter.cell_paths(found):
        for a, b, run in re.findall(r"M(\d+) (\d+)h(\d+)v1h-\3z", d):
            for place in range(BINS * int(b) + int(a), BINS * int(b) + int(a) + int(run)):
                drawn[place] += 1
                assert look_of[place] == (code, level)
    np.testing.assert_array_equal(np.flatnonzero(drawn), found.places)
    assert drawn.max() == 1


# ── parts ───────────────────────────────────────────────────────────────────
def test_labels_of_every_kind_have_a_look_and_none_is_lost():
    few = looks.classes(["run 10", "run 9", None, " ", "run 9"], 5)
    assert few.names == ("run 9", "run 10", looks.MISSING)
    assert few.counts == (2, 1, 2)
    numbers = looks.classes(np.linspace(0.0, 6.0, 61), 61)
    assert len(numbers.names) == looks.BANDS
    np.testing.assert_array_equal(numbers.codes, np.minimum(np.linspace(0, 6, 61).astype(int), 5))
    words = looks.classes([f"w{i}" for i in range(100)] + ["often"] * 9, 109)
    assert words.names[0] == "often"
    assert len(words.names) == looks.MOST_CLASSES
    for found, n in ((few, 5), (numbers, 61), (words, 109)):
        assert sum(found.counts) == n
        np.testing.assert_array_equal(
            np.bincount(found.codes, minlength=len(found.names)), found.counts
        )


def test_no_two_classes_look_alike():
    look = looks.classes(np.arange(20), 20)
    middle = np.zeros(1)
    drawn = {
        drawing.points(middle, middle, c, 1.0, class_=drawing.class_colour(look, c))
        for c in range(20)
    }
    assert len(drawn) == 20


@pytest.mark.parametrize("shape", [(3, 5), (4, 7, 4)])
def test_pictures_are_read_back_by_pillow(shape):
    Image = pytest.importorskip("PIL.Image")
    pixels = np.random.default_rng(0).integers(0, 256, shape).astype(np.uint8)
    np.testing.assert_array_equal(
        np.asarray(Image.open(io.BytesIO(drawing.encoded(pixels)))), pixels
    )


def test_the_zero_line_of_a_disc_is_its_circle():
    side = np.linspace(-1, 1, 81)
    found = zero_line(side, side, side[None, :] ** 2 + side[:, None] ** 2 - 0.5)  # (s, 2, 2)
    np.testing.assert_allclose(np.hypot(*found.reshape(-1, 2).T), np.sqrt(0.5), atol=1e-3)
    lengths = np.linalg.norm(found[:, 0] - found[:, 1], axis=1)
    np.testing.assert_allclose(lengths.sum(), 2 * np.pi * np.sqrt(0.5), rtol=5e-3)


def test_the_zero_line_of_a_saddle_is_joined_by_its_middle():
    ends = np.array([0.0, 1.0])
    for middle in (0.5, -0.5):  # the positive corners meet in the middle, or the negative ones
        corners = np.array([[1.0, -1.0], [-1.0, 1.0]]) + middle
        pieces = zero_line(ends, ends, corners)
        assert len(pieces) == 2
        cut = {tuple(np.round(piece.mean(axis=0)).astype(int)) for piece in pieces}
        assert cut == ({(0, 1), (1, 0)} if middle > 0 else {(0, 0), (1, 1)})


@pytest.mark.parametrize(
    "ends", [(0.0, 1.0), (-3e-9, 2e-9), (1e6, 1.00001e6), (-5.0, 1e12), (0.13, 0.131)]
)
def test_ticks_are_round_few_and_inside(ends):
    ticks = drawing.nice(*ends)
    step = np.diff(ticks)
    assert 2 <= len(ticks) <= 6
    assert ticks[0] >= ends[0] - 1e-9 * step[0]
    assert ticks[-1] <= ends[1] + 1e-9 * step[0]
    np.testing.assert_allclose(step, step[0], rtol=1e-3)
    mantissa = f"{step[0]:.3e}".partition("e")[0]
    assert float(mantissa) in (1, 2, 5, 10)


@pytest.mark.parametrize(
    ("change", "what"),
    [
        ({"labels": ["a"]}, "labels"),
        ({"ids": [1, 2]}, "ids"),
        ({"names": ["a"]}, "names"),
        ({"X": np.ones((4, 2))}, "2 columns"),
        ({"X": np.ones((0, 3))}, "no rows"),
        ({"X": np.ones(3)}, "2-D"),
        ({"model": PCA(2)}, "not fitted"),
    ],
)
def test_what_can_not_be_shown_is_refused(change, what):
    given = {"model": PCA(2).fit(cloud()), "X": cloud(), **change}
    with pytest.raises(InputError, match=what):
        build(given.pop("model"), given.pop("X"), **given)


@pytest.mark.parametrize(
    "model", [PCA(2), KernelPCA(2, kernel="poly"), KernelPCADetector(kernel="poly")], ids=repr
)
def test_rows_too_far_out_to_be_computed_are_told_of(model):
    X = cloud(100)
    far = np.concatenate([np.full((2, 3), 1e200), X[:20]])
    page = Page(build(model.fit(X), far))
    text = "".join(page.texts.get(s, "") for s in ("scores", "reconstruction", "monitoring"))
    assert "too far out to be computed" in text
    found = page.data()
    if found["n"] == 20:  # they are not drawn, and the others keep their names
        assert found["ids"] == [str(i + 3) for i in range(20)]
    assert np.isfinite(decoded(found["values"], "<f4")).all()
    drawn = [a["d"] for a in page.all("path")]
    assert not any("nan" in d or "inf" in d for d in drawn)


def test_a_page_is_not_written_under_the_name_of_another_format(tmp_path):
    X = np.arange(12.0).reshape(6, 2)
    model = KernelPCA(2, kernel=RBF(0.01)).fit(X)
    for path, said in (
        ("r.pdf", "path must be a file that ends in .html"),
        ("r.html", "report has"),
    ):
        about = {"titel": "t"} if path == "r.html" else {}
        with pytest.raises(InputError, match=said):
            mercer.report(model, X, tmp_path / path, **about)
    assert not list(tmp_path.iterdir())
