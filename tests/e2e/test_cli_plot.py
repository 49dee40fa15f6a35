"""`mercer plot`: what is drawn is what the model says, and what can't be drawn is answered with a hint."""

import shlex
import sys
from pathlib import Path

import numpy as np
import pytest
from matplotlib.image import imread
from sklearn.decomposition import PCA, KernelPCA
from sklearn.preprocessing import StandardScaler

from markets.commands import good, results, run
from mercer.app.demo import circles, process
from mercer.cli.plot import KINDS
from mercer.cli.plot_kinds import DRAW, label_values

MAGIC = {"png": b"\x89PNG", "svg": b"<?xml", "pdf": b"%PDF"}
SHAPE = (8, 6)
# Every kind with the model and the rows that it is drawn from.
CALLS = {
    "scores": ("circles.mercer", "circles.csv"),
    "spectrum": ("circles.mercer",),
    "panels": ("circles.mercer", "circles.csv"),
    "levels": ("circles.mercer", "circles.csv", "--components", "1,2"),
    "faces": ("faces.mercer", "--image-size", "8x6"),
    "reconstruction": ("circles.mercer", "circles.csv"),
    "chart": ("detector.mercer", "faulty.csv", "--time", "time"),
    "contributions": ("detector.mercer", "faulty.csv", "--time", "time"),
}


def offsets(group):
    return np.asarray(group.get_offsets())  # where the points of a scatter lie


@pytest.fixture(scope="module")
def shelf(tmp_path_factory):
    """Data and models of every kind."""
    folder = tmp_path_factory.mktemp("shelf")
    np.save(folder / "faces.npy", np.random.default_rng(0).uniform(size=(30, 48)))
    np.save(folder / "matrix.npy", np.eye(20))
    named = ("--id", "id", "--label", "label")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        for line in (
            ("demo", "--csv", "circles.csv", "--process", "normal.csv", "faulty.csv"),
            ("fit", "circles.csv", *named, "--kernel", "rbf(gamma=2)", "--components", "3",
             "--preimage", "ridge", "-o", "circles.mercer"),
            ("fit", "normal.csv", "--id", "time", "-o", "plain.mercer"),
            ("fit", "matrix.npy", "--kernel", "precomputed", "-o", "matrix.mercer"),
            ("fit", "normal.csv", "--id", "time", "--model", "detector", "-o", "detector.mercer"),
            ("fit", "faces.npy", "--model", "pca", "--components", "4", "--scale", "none", "-o",
             "faces.mercer"),
        ):  # fmt: skip
            good(*line)
    lines = (folder / "normal.csv").read_text().splitlines()
    (folder / "quiet.csv").write_text("\n".join(lines[:3]) + "\n")
    return folder


@pytest.fixture
def here(shelf, monkeypatch):
    monkeypatch.chdir(shelf)
    return shelf


@pytest.fixture
def drawn(shelf, tmp_path, monkeypatch):
    """The figure of a call, before it becomes a file."""

    monkeypatch.chdir(shelf)

    def call(kind, *args):
        kept = []
        monkeypatch.setattr("mercer.cli.plot.save", lambda figure, *_, **__: kept.append(figure))
        monkeypatch.setattr("mercer.cli.plot.write_note", lambda *_, **__: "")
        good("plot", kind, *args, "-o", tmp_path / "x.png")
        return kept[0]

    return call


@pytest.mark.parametrize("named", ["--time", "--id"])
def test_scores_of_rows_with_a_gap_are_the_alarms_of_the_monitor(drawn, tmp_path, named):
    good("fit", "normal.csv", "--id", "time", "--model", "detector", "--smoothing", "0.2", "-o",
         tmp_path / "smooth.mercer")  # fmt: skip
    head, *lines = (line.split(",") for line in Path("faulty.csv").read_text().splitlines())
    at = head.index("time")
    for line in lines[300:]:  # where a fault ends, which smoothed rows would go on to show
        line[at] = line[at].replace("2026-", "2027-", 1)
    text = "\n".join(",".join(line) for line in [head, *lines])
    (tmp_path / "gap.csv").write_text(text + "\n")
    model, rows = tmp_path / "smooth.mercer", tmp_path / "gap.csv"
    told = results("monitor", model, rows, "--time", "time", code=4)["alarms"]
    ax = drawn("scores", model, rows, named, "time").axes[0]
    alarms = [text.get_text() for text in ax.get_legend().get_texts()].index("alarm")
    assert len(offsets(ax.collections[alarms])) == told["count"]


# ── files ───────────────────────────────────────────────────────────────────
def test_every_kind_has_a_case():
    assert set(CALLS) == set(KINDS) == set(DRAW)


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize("kind", CALLS)
def test_each_kind_is_a_picture(tmp_path, kind):
    path = tmp_path / "a.png"
    assert results("plot", kind, *CALLS[kind], "-o", path, "--dpi", "60")["kind"] == kind
    assert path.read_bytes().startswith(MAGIC["png"])
    assert imread(path)[..., :3].std() > 0.05  # not a blank sheet


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize("suffix", MAGIC)
def test_the_same_picture_is_the_same_file(tmp_path, suffix):
    path = tmp_path / f"a.{suffix}"
    good("plot", "spectrum", "circles.mercer", "-o", path)
    first = path.read_bytes()
    assert first.startswith(MAGIC[suffix])
    again = run("plot", "spectrum", "circles.mercer", "-o", path)
    assert f"replaced {path}" in again.stderr
    assert path.read_bytes() == first


@pytest.mark.usefixtures("here")
def test_size_title_and_dpi(tmp_path):
    path = tmp_path / "a.png"
    args = ("--size", "5x4", "--dpi", "50", "--title", "a title")
    good("plot", "spectrum", "circles.mercer", "-o", path, *args)
    assert imread(path).shape[:2] == (200, 250)


# ── what is drawn ───────────────────────────────────────────────────────────
def test_scores_are_scikit_learns_of_standardised_rows(drawn):
    figure = drawn("scores", "circles.mercer", "circles.csv", "--components", "2,3")
    points, which = circles()
    X = StandardScaler().fit_transform(points)
    theirs = KernelPCA(3, kernel="rbf", gamma=2.0, eigen_solver="dense").fit_transform(X)[:, 1:]
    ax = figure.axes[0]
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["inner", "outer"]
    for group, mine in zip(ax.collections, (which == 1, which == 0), strict=True):
        assert np.abs(offsets(group)) == pytest.approx(np.abs(theirs[mine]), abs=1e-9)


def test_the_spectrum_is_shares_of_the_true_trace(drawn):
    points, _ = circles()
    X = StandardScaler().fit_transform(points)
    every = KernelPCA(None, kernel="rbf", gamma=2.0, eigen_solver="dense").fit(X).eigenvalues_
    line = drawn("spectrum", "circles.mercer").axes[0].get_lines()[0]
    assert line.get_ydata() == pytest.approx(100 * np.cumsum(every[:3]) / every.sum(), rel=1e-9)


def test_panels_are_in_the_units_of_the_file(drawn):
    figure = drawn("panels", "circles.mercer", "circles.csv")
    points, which = circles()
    data, back = figure.axes[0], figure.axes[3]
    assert offsets(data.collections[0]) == pytest.approx(points[which == 1], rel=1e-12)
    assert data.get_xlabel() == "x"
    returned = np.vstack([offsets(group) for group in back.collections[1:]])
    assert np.abs(returned).max() < 1.6  # not standardised, where the circle has radius 2


def test_levels_are_the_scores_over_two_named_variables(drawn):
    args = ("--variables", "flow,power", "--components", "1", "--fixed", "7")
    figure = drawn("levels", "plain.mercer", "normal.csv", *args)
    ax = figure.axes[0]
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("flow", "power")
    assert "as in row 7" in ax.get_title()
    assert offsets(ax.collections[-1]) == pytest.approx(process(seed=0)[:, [0, 4]], abs=1e-4)


def test_a_title_leaves_what_is_said_about_other_variables(drawn):
    args = ("--variables", "flow,power", "--title", "mine")
    figure = drawn("levels", "plain.mercer", "normal.csv", *args)
    assert figure.get_suptitle().splitlines()[0] == "mine"
    assert "the others at their medians" in figure.get_suptitle()


def test_faces_are_scikit_learns_components(drawn):
    figure = drawn("faces", "faces.mercer", "--image-size", "8x6", "--components", "1,3")
    X = np.random.default_rng(0).uniform(size=(30, 48))
    theirs = PCA(4, svd_solver="full").fit(X)
    mean, *faces = (np.asarray(ax.get_images()[0].get_array()) for ax in figure.axes)
    assert mean == pytest.approx((theirs.mean_ - theirs.mean_.mean()).reshape(SHAPE))
    for face, component in zip(faces, theirs.components_[[0, 2]], strict=True):
        unit = face.ravel() / np.linalg.norm(face)
        assert abs(unit @ component) == pytest.approx(1.0, abs=1e-9)


def test_a_chart_is_over_clock_time(drawn):
    figure = drawn("chart", "detector.mercer", "faulty.csv", "--time", "time")
    assert [ax.get_ylabel() for ax in figure.axes] == ["T²", "Q"]
    when = figure.axes[1].get_lines()[0].get_xdata()
    assert when[0] == np.datetime64("2026-01-05T06:00")


def test_scores_of_a_detector_tell_alarms_from_the_others(drawn):
    figure = drawn("scores", "detector.mercer", "faulty.csv", "--id", "time")
    counts = {c.get_label(): len(c.get_offsets()) for c in figure.axes[0].collections}
    told = results("monitor", "detector.mercer", "faulty.csv", "--time", "time", code=4)["alarms"]
    assert counts == {"normal": 360 - told["count"], "alarm": told["count"]}


def test_contributions_are_over_clock_time(drawn):
    ax = drawn("contributions", "detector.mercer", "faulty.csv", "--time", "time").axes[0]
    assert ax.xaxis.get_major_formatter().__class__.__name__ == "ConciseDateFormatter"
    assert len(ax.get_yticklabels()) == 5


def test_labels_that_are_numbers_are_a_measurement():
    assert label_values(None) is None
    assert label_values(np.array(["1.5", "2"], dtype=object)).dtype.kind == "f"
    assert list(label_values(np.array(["a", None], dtype=object))) == ["a", "missing"]


def test_labels_and_names_are_shown_as_they_are(here, drawn):
    """No formula is made of dollars, and no label is hidden from the legend by a first _."""
    labels = ["$\\frac{", "_under", "<script>alert(1)</script>", "5 $ or 6 $"]
    lines = ["id,$x_{,_y,label"]
    lines += [f"{i},{i % 7},{i % 5},{labels[i % 4]}" for i in range(40)]
    (here / "odd.csv").write_text("\n".join(lines))
    good("fit", "odd.csv", "--id", "id", "--label", "label", "-o", "odd.mercer")
    figure = drawn("scores", "odd.mercer", "odd.csv", "--title", "$\\frac")
    figure.canvas.draw()  # a formula that is none would raise
    texts = [
        text.get_text().replace("\\$", "$") for text in figure.axes[0].get_legend().get_texts()
    ]
    assert sorted(text.strip("\N{WORD JOINER}") for text in texts) == sorted(labels)
    drawn("levels", "odd.mercer", "odd.csv", "--components", "1").canvas.draw()


def test_a_hint_with_names_of_several_words_can_be_pasted(here):
    (here / "words.csv").write_text("a (cm),b c,d's\n1,2,4\n3,5,1\n9,2,6\n")
    good("fit", "words.csv", "-o", "words.mercer")
    call = ["plot", "levels", "words.mercer", "words.csv", "-o", "words.png"]
    hint = run(*call).stderr.split("move: ")[1]
    good(*call, *shlex.split(hint))


# ── what can't be drawn ─────────────────────────────────────────────────────
@pytest.mark.parametrize(
    ("line", "code", "told"),
    [
        ("score circles.mercer circles.csv", 2, "Did you mean 'scores'?"),
        (
            "scores circles.mercer circles.csv -o a.gif",
            2,
            "must end in .png, .svg or .pdf; got 'a.gif'",
        ),
        ("scores circles.mercer circles.csv -o a", 2, "Use 'a.png'"),
        ("scores circles.mercer", 2, "needs rows"),
        ("spectrum circles.mercer circles.csv", 2, "needs no rows"),
        ("scores circles.mercer circles.csv -o none/a.png", 1, "folder does not exist"),
        ("scores circles.mercer circles.csv --components 1,4", 2, "from 1 to 3"),
        ("scores circles.mercer circles.csv --components 0,1", 2, "counted from 1"),
        ("scores circles.mercer circles.csv --components 1,2,3", 2, "one or two"),
        ("scores circles.mercer circles.csv --components first", 2, "such as 1,2"),
        ("scores circles.mercer circles.csv --variables x,y", 2, "is for levels"),
        ("scores circles.mercer circles.csv --size big", 2, "such as 6x4.5"),
        ("panels detector.mercer normal.csv", 2, "mercer plot chart"),
        ("contributions detector.mercer quiet.csv --time time", 2, "no row is an alarm"),
        ("contributions circles.mercer circles.csv", 2, "--model detector"),
        ("reconstruction plain.mercer normal.csv", 2, "--preimage ridge"),
        ("chart circles.mercer circles.csv", 2, "--model detector"),
        ("panels plain.mercer normal.csv", 2, "--preimage ridge"),
        ("faces circles.mercer", 2, "--image-size"),
        ("levels matrix.mercer matrix.npy --variables x0,x1", 2, "was fitted to a kernel matrix"),
        ("faces faces.mercer --image-size 7x7", 2, "there are 48"),
        ("levels plain.mercer normal.csv", 2, "--variables flow,power"),
        ("levels plain.mercer normal.csv --variables flow,powr", 2, "'power'"),
        ("levels plain.mercer normal.csv --variables flow", 2, "two names"),
        ("levels circles.mercer circles.csv --fixed 400", 2, "0 to 399"),
        ("scores absent.mercer circles.csv", 3, "absent.mercer"),
        ("scores circles.csv circles.csv", 3, "circles.csv"),
    ],
)
def test_mistakes_are_one_line_with_a_hint(here, line, code, told):
    before = sorted(path.name for path in here.iterdir())
    output = () if "-o" in line else ("-o", "a.png")
    result = run("plot", *line.split(), *output)
    assert result.exit_code == code, result.stderr
    assert told in " ".join(result.stderr.split())
    assert "Traceback" not in result.stderr
    assert sorted(path.name for path in here.iterdir()) == before


@pytest.mark.usefixtures("here")
def test_without_matplotlib_the_install_command_is_told(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    result = run("plot", "spectrum", "circles.mercer", "-o", "a.png")
    assert result.exit_code == 1
    assert 'pip install "mercer[plot]"' in result.stderr


@pytest.mark.usefixtures("here")
def test_a_full_disk_leaves_the_old_picture(tmp_path, monkeypatch):
    path = tmp_path / "a.png"
    path.write_bytes(b"the old one")

    def full(*_args, **_kwargs):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("matplotlib.figure.Figure.savefig", full)
    result = run("plot", "spectrum", "circles.mercer", "-o", path)
    assert result.exit_code == 1
    assert "No space left on device" in result.stderr
    assert path.read_bytes() == b"the old one"
    assert [file.name for file in tmp_path.iterdir()] == ["a.png"]
