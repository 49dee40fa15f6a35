"""The examples run, and the figures they print are what they claim."""

import importlib.util
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from sklearn.decomposition import PCA
from threadpoolctl import threadpool_limits

EXAMPLES = Path(__file__).parents[2] / "examples"
PNG = b"\x89PNG\r\n\x1a\n"


def load(name):
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def run(name, folder, *args):
    """What main() returns; matrices this small are slowed down by threads."""
    with threadpool_limits(limits=1):
        return load(name).main(["--out", str(folder), *args])


def assert_pictures(folder, *names):
    assert sorted(path.name for path in folder.iterdir()) == sorted(names)
    assert all((folder / name).read_bytes().startswith(PNG) for name in names)


def test_every_example_has_a_test_and_says_what_it_shows():
    names = {path.stem for path in EXAMPLES.glob("*.py")}
    assert names == {
        "circles",
        "moons",
        "circle_map",
        "cluster",
        "eigenfaces",
        "classifier",
        "stream",
        "choosing",
        "denoising",
        "meaning",
        "monitoring",
    }
    for name in names:
        assert f"python examples/{name}.py" in load(name).__doc__


def test_circles(tmp_path, capsys):
    figures = run("circles", tmp_path)
    assert figures["accuracy_before"] < 0.8
    assert figures["accuracy_pca"] < 0.8
    assert figures["accuracy_after"] == 1.0
    assert figures["return_error"] < 0.01  # beside a radius of 1
    assert figures["largest_residual"] < 1e-12
    assert "All eigenvalues are alike" in capsys.readouterr().out
    assert_pictures(tmp_path, "circles.png", "levels.png", "spectrum.png")


def test_moons(tmp_path):
    figures = run("moons", tmp_path)
    assert figures["accuracy_before"] == 0.88  # the docstring says so
    assert figures["accuracy_first_pca"] < 0.9
    assert figures["accuracy_first"] == 1.0
    assert figures["return_error"] < 0.01
    assert_pictures(tmp_path, "moons.png", "moons_first.png")


@pytest.mark.parametrize(("a", "b", "r"), [(1.0, -0.5, 2.0), (0.0, 0.0, 1.0), (-3.0, 2.0, 0.5)])
def test_circle_map_finds_the_equation(tmp_path, a, b, r):
    figures = run("circle_map", tmp_path, "--centre", str(a), str(b), "--radius", str(r))
    # Evenly spaced points: each coordinate has the variance r²/2, times n/(n - 1).
    np.testing.assert_allclose(figures["variances"], r**2 / 2 * 200 / 199, rtol=1e-12)
    assert figures["smallest_over_largest"] < 1e-12
    f1, f2 = load("circle_map").points_on_circle(a, b, r, n=7).T
    phi = np.column_stack([np.ones(7), f1**2, f2**2, f1 * f2, f1, f2])
    u = figures["u_found"]
    np.testing.assert_allclose(phi @ u, 0.0, atol=1e-8)
    np.testing.assert_allclose(u, figures["u_expected"], atol=1e-8)
    # 1, cos θ, sin θ, cos 2θ, sin 2θ span what six columns see; centring takes the constant.
    assert figures["dimension"] == 6
    assert figures["components_kept"] == 4
    assert_pictures(tmp_path, "circle_map.png")


def test_classifier(tmp_path):
    figures = run("classifier", tmp_path, "--digits", "300")
    assert figures["circles"]["before"] < 0.8
    assert figures["circles"]["after"] > 0.97
    assert figures["moons"]["after"] > figures["moons"]["before"] + 0.03
    assert figures["digits"]["after"] > 0.9
    for found in figures.values():  # the search has turned the knob
        assert len(set(found["validated"])) > 1
        assert found["gamma"] in found["gammas"]
    assert_pictures(tmp_path, "classifier.png")


# ── eigenfaces ──────────────────────────────────────────────────────────────
def test_eigenfaces_tell_a_face_from_a_flower(tmp_path, capsys):
    figures = run("eigenfaces", tmp_path)
    errors = figures["errors"]
    assert figures["route"] == "dual"
    assert "dual route" in capsys.readouterr().out
    assert figures["largest_residual"] < 1e-12
    assert list(errors) == ["stranger", "new picture", "no face"]
    assert all((np.diff(row) < 0).all() for row in errors.values())
    assert (errors["no face"] > 2 * errors["stranger"]).all()
    assert figures["errors_of_stranger"].max() < errors["no face"][0]
    # The same picture in two blocks of rows, whose products sum in two orders. A score is a sum of d pixels,
    # off by at most dε‖x‖, k of them by √k times that, and relative errors are in units of ‖x‖: twice that.
    d, k = 56 * 46, figures["steps"][0]
    gap = figures["errors_of_stranger"][0] - errors["stranger"][0]
    assert abs(gap) <= 2 * d * np.sqrt(k) * np.finfo(np.float64).eps
    assert_pictures(tmp_path, "eigenfaces.png", "ladder.png")


def test_eigenfaces_errors_are_scikit_learns(tmp_path):
    example = load("eigenfaces")
    pictures, people = example.synthetic_faces(n_people=6, n_pictures=5, shape=(24, 20))
    np.savez(tmp_path / "faces.npz", X=pictures, y=people)
    figures = run("eigenfaces", tmp_path / "out", "--faces", str(tmp_path / "faces.npz"))
    X = pictures.reshape(30, -1)
    train = np.arange(1, 25)  # neither the first picture nor those of the last person
    assert figures["components"] == 23
    assert figures["steps"] == [23]
    theirs = PCA(n_components=23, svd_solver="full").fit(X[train])
    rebuilt = theirs.inverse_transform(theirs.transform(X[[25, 0]]))
    expected = np.linalg.norm(rebuilt - X[[25, 0]], axis=1) / np.linalg.norm(X[[25, 0]], axis=1)
    ours = [figures["errors"]["stranger"][0], figures["errors"]["new picture"][0]]
    np.testing.assert_allclose(ours, expected, rtol=1e-8)


def test_eigenfaces_from_a_folder_with_a_subfolder_for_each_person(tmp_path):
    example = load("eigenfaces")
    pictures, people = example.synthetic_faces(n_people=3, n_pictures=4, shape=(24, 20))
    for i, (picture, person) in enumerate(zip(pictures, people, strict=True)):
        file = tmp_path / f"s{person}" / f"{i:02}.{('png', 'pgm')[i % 2]}"
        file.parent.mkdir(exist_ok=True)
        Image.fromarray(picture.clip(0, 255).astype(np.uint8)).save(file)
    loaded, names = example.load_faces(tmp_path)
    np.testing.assert_array_equal(loaded, pictures.clip(0, 255).astype(np.uint8))
    np.testing.assert_array_equal(np.unique(names, return_inverse=True)[1], people)


@pytest.mark.parametrize("name", ["missing", "empty", "flat.npy", "text.txt"])
def test_eigenfaces_refuse_what_holds_no_faces(tmp_path, name):
    (tmp_path / "empty").mkdir()
    (tmp_path / "text.txt").write_text("no faces")
    np.save(tmp_path / "flat.npy", np.zeros((5, 6)))
    with pytest.raises(SystemExit, match=name):
        run("eigenfaces", tmp_path / "out", "--faces", str(tmp_path / name))


def test_stream(capsys):
    with threadpool_limits(limits=1):
        shown = load("stream").main(["--batches", "30"])
    told = shown["told"]
    assert told["forgets"] > 0.8
    assert told["does not"] < 0.2
    low, high = np.asarray(shown["bounds"]).T
    assert np.all((low <= shown["exact"]) & (shown["exact"] <= high))
    assert "6000" in capsys.readouterr().out


def test_denoising(tmp_path):
    figures = run("denoising", tmp_path, "--train", "200")
    for kind, noisy in (("gaussian", 0.25), ("speckle", 0.17)):
        errors = figures[kind]["errors"]
        assert errors["noisy"] == pytest.approx(noisy, abs=0.01)
        # Every way that takes an RBF kernel is there, and each removes most of the noise.
        assert set(errors) >= {"noisy", "PCA", "ridge", "fixed-point", "distances", "gradient"}
        assert all(error < 0.4 * noisy for name, error in errors.items() if name != "noisy")
        # Two searches for one minimum.
        assert errors["gradient"] == pytest.approx(errors["fixed-point"], rel=0.02)
    assert figures["gaussian"]["errors"]["distances"] < figures["gaussian"]["errors"]["PCA"]
    assert_pictures(tmp_path, "denoising.png")


def test_meaning(tmp_path, capsys):
    figures = run("meaning", tmp_path)
    np.testing.assert_allclose(figures["shares"].sum(axis=0), 1.0)
    assert figures["top"][0][0] == "flavanoids"
    assert "component 1 (29.0% of the variance)" in capsys.readouterr().out
    assert_pictures(tmp_path, "meaning_arrows.png", "meaning_levels.png")


def test_monitoring(tmp_path, capsys):
    figures = run("monitoring", tmp_path)
    assert figures["PCA"]["detected"] < 0.05  # a bend is no plane
    assert figures["kernel PCA"]["detected"] > 0.7
    assert max(found["false_alarms"] for found in figures.values()) < 0.02
    assert "Leading when it began: heat" in figures["kernel PCA"]["summary"]
    assert "Leading when it began: heat" in capsys.readouterr().out
    assert_pictures(tmp_path, "monitoring.png", "monitoring_variables.png")


def test_choosing(capsys):
    with threadpool_limits(limits=1):
        figures = load("choosing").main(["--rows", "120"])
    assert figures["a line"] < 0.7
    assert figures["without labels"] > 0.95
    assert figures["with labels"] > 0.95
    assert "nearly constant" in capsys.readouterr().out


def test_a_cluster_finds_what_one_process_finds():
    pytest.importorskip("distributed")
    assert load("cluster").main(["--rows", "20000"]) < 1e-10
