"""Numbers on the wire are the numbers of Python, to float32: against scikit-learn, and unpacked by struct."""

import json
import struct
from itertools import pairwise, permutations

import numpy as np
import pytest
from sklearn.decomposition import PCA as LinearPCA
from sklearn.decomposition import KernelPCA as Reference
from sklearn.metrics.pairwise import euclidean_distances
from sklearn.preprocessing import StandardScaler

import mercer
from mercer import app
from mercer.web.answers import job_of
from mercer.web.session import Session

EPS = float(np.finfo(np.float32).eps)


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(3)
    X = rng.standard_normal((150, 4)) * [1.0, 20.0, 0.1, 3.0] + 1e3
    X[:70, 0] += 4.0
    return X


@pytest.fixture(scope="module")
def session(rows, tmp_path_factory):
    path = tmp_path_factory.mktemp("data") / "rows.npy"
    np.save(path, rows)
    session = Session()
    session.key = session.open_file(path, "rows.npy")
    yield session
    session.close()


def ask(session, name, **body):
    question, job = job_of(name, body)
    return session.desk.submit(
        job, lambda own: question.answer(session, body, own), fits=True
    ).result()


def parts(reply):
    """A packet as its description has it: length, JSON, float32 blocks at their offsets."""
    (length,) = struct.unpack("<I", reply.body[:4])
    assert (4 + length) % 4 == 0
    header, blocks = json.loads(reply.body[4 : 4 + length]), reply.body[4 + length :]
    arrays, ends = {}, [0]
    for name, place in header["arrays"].items():
        count = int(np.prod(place["shape"], dtype=int))
        values = struct.unpack_from(f"<{count}f", blocks, place["offset"])
        arrays[name] = np.array(values).reshape(place["shape"])
        ends += [place["offset"], place["offset"] + 4 * count]
    assert all(b == a or b > a for a, b in pairwise(ends))
    assert ends[-1] == len(blocks)
    return header, arrays


def fit(session, **more):
    recipe = {"kernel": "rbf(gamma=0.2)", "components": 3}
    body = {"table": session.key, "recipe": recipe, "quality": "rest", **more}
    return parts(ask(session, "fit", **body))


def same(found, expected, scale):
    assert np.abs(found - expected).max() <= 4 * EPS * scale


def test_scores_and_spectrum_are_those_of_scikit_learn(session, rows):
    header, arrays = fit(session, panels={"scores": {"components": [0, 2]}, "spectrum": {}})
    scaled = StandardScaler().fit_transform(rows)
    model = Reference(3, kernel="rbf", gamma=0.2, eigen_solver="dense").fit(scaled)
    expected = model.transform(scaled)[:, [0, 2]]
    signs = np.sign(np.sum(expected * arrays["scores"], axis=0))
    same(arrays["scores"] * signs, expected, np.abs(expected).max())
    same(arrays["eigenvalues"], model.eigenvalues_, model.eigenvalues_[0])
    K = np.exp(-0.2 * euclidean_distances(scaled, squared=True))
    total = np.trace(K) - K.sum() / len(K)
    same(arrays["shares"], model.eigenvalues_ / total, 1.0)
    assert header["fit"]["approximate"] is False
    assert header["shown"]["words"].startswith("all 150 rows")


def test_level_sets_are_scores_of_the_points_of_the_grid(session, rows):
    wanted = {"levels": {"component": 1, "plane": {"columns": [0, 3]}}}
    header, arrays = fit(session, panels=wanted)
    own = header["panels"]["levels"]
    scaler = StandardScaler().fit(rows)
    model = Reference(3, kernel="rbf", gamma=0.2, eigen_solver="dense").fit(scaler.transform(rows))
    points = np.tile(np.median(rows, axis=0), (96 * 96, 1))
    across, up = (np.linspace(*ends, 96) for ends in own["extent"])
    points[:, 0], points[:, 3] = (axis.ravel() for axis in np.meshgrid(across, up))
    expected = model.transform(scaler.transform(points))[:, 1].reshape(96, 96)
    sign = np.sign(np.sum(expected * arrays["levels"]))
    same(sign * arrays["levels"], expected, np.abs(expected).max())
    same(arrays["across"] + own["centre"][0], across, np.ptp(across))


def seen_in_the_plane(header, rows):
    """The grid over the first two principal axes as rows of the file; axes have no sign of their own."""
    scaler = StandardScaler().fit(rows)
    plane = LinearPCA(2).fit(scaler.transform(rows))
    own = header["panels"]["levels"]
    across, up = (np.linspace(*ends, 96) for ends in own["extent"])
    at = np.column_stack([axis.ravel() for axis in np.meshgrid(across, up)])
    ways = [(a, b) for a in (1, -1) for b in (1, -1)]
    return [scaler.inverse_transform(plane.inverse_transform(at * way)) for way in ways]


@pytest.mark.parametrize("kind", ["kpca", "detector", "saved"])
def test_level_sets_over_principal_axes_are_scores_of_rows_of_the_file(
    session, rows, tmp_path, kind
):
    """A detector scales rows itself, and a saved model has columns of its own: in another order, unscaled."""
    recipe = {"kernel": "rbf(gamma=0.2)", "components": 3, "kind": kind}
    order = [3, 1, 0, 2]
    # A detector divides by the deviation of a sample, n − 1.
    spread = rows.std(axis=0, ddof=int(kind == "detector"))
    prepared = lambda raw: (raw - rows.mean(axis=0)) / spread  # noqa: E731
    gamma = 0.2
    if kind == "saved":
        request = app.FitRequest(
            data=str(saved_rows(tmp_path, rows[:, order], order)),
            kernel="rbf(gamma=0.001)",
            components=3,
            scale="none",
            output=str(tmp_path / "m.mercer"),
        )
        app.run(request)
        recipe = {"model": session.open_model_file(tmp_path / "m.mercer", "m.mercer")}
        gamma, prepared = 0.001, np.asarray
    reference = Reference(3, kernel="rbf", gamma=gamma, eigen_solver="dense").fit(prepared(rows))
    table = session.open_file(saved_rows(tmp_path, rows, range(4), "named.csv"), "named.csv")
    wanted = {"levels": {"component": 1, "plane": {"pca": True}}}
    header, arrays = fit(session, table=table, recipe=recipe, panels=wanted)
    found = arrays["levels"].ravel()
    ways = [reference.transform(prepared(at))[:, 1] for at in seen_in_the_plane(header, rows)]
    nearest = min(np.abs(sign * found - way).max() for way in ways for sign in (1, -1))
    # The extent is written as float64, the rows of the CSV to their last digit: only float32 is lost.
    assert nearest <= 1e-5 * np.abs(found).max()


def saved_rows(folder, rows, order, name="rows.csv"):
    """A CSV whose columns are called by their place in the rows that they are of."""
    path = folder / name
    head = ",".join(f"c{j}" for j in order)
    np.savetxt(path, rows, delimiter=",", header=head, comments="", fmt="%.17g")
    return path


@pytest.mark.parametrize("plane", [{"columns": [1, 2]}, {"pca": True}], ids=["columns", "pca"])
def test_points_keep_their_digits_far_from_zero(session, rows, plane):
    header, arrays = parts(ask(session, "rows", table=session.key, plane=plane, color=None))
    expected = rows[:, [1, 2]]
    if "pca" in plane:
        expected = LinearPCA(2).fit_transform(StandardScaler().fit_transform(rows))
    found = arrays["points"] + header["centre"]
    signs = np.sign(np.sum(found * expected, axis=0))
    # Less their centre float32 loses nothing; as they are, a thousand has four digits behind the point.
    same(found * signs, expected, np.ptp(expected, axis=0).max())


def test_a_walk_moves_one_score(session):
    header, arrays = parts(
        ask(
            session,
            "walk",
            table=session.key,
            recipe={"kind": "pca", "components": 3},
            component=1,
            at={"row": 7},
            steps=5,
        )
    )
    # Linear PCA: the way back is exact, so along the path only this score changes.
    assert np.max(arrays["distance"]) < 1e-10
    steps = np.diff(arrays["path"], axis=0)
    same(steps, np.broadcast_to(steps[0], steps.shape), np.abs(arrays["path"]).max())
    assert len(header["values"]) == 5


def test_a_way_back_is_beside_the_error_of_the_mean(session, rows):
    header, arrays = parts(
        ask(session, "back", table=session.key, recipe={"kind": "pca", "components": 4}, plane=None)
    )
    assert header["rms"] < 1e-9 * header["mean_rms"]
    same(np.array(header["mean_rms"]), np.sqrt(np.mean(rows.var(axis=0))), header["mean_rms"])
    same(arrays["back"] + header["centre"], rows[:, :2], np.ptp(rows[:, :2]))


METHODS = ("ridge", "fixed-point", "distances")


@pytest.mark.parametrize(("before", "method"), list(permutations(METHODS, 2)))
def test_a_pre_image_is_of_the_method_that_was_asked_for_last(session, rows, before, method):
    recipe = {"kernel": f"rbf(gamma=0.{METHODS.index(before) + 4})", "components": 3}
    for asked in (before, method):
        own = recipe | {"preimage": asked}
        header, _ = parts(ask(session, "back", table=session.key, recipe=own, plane=None))
    scaler = StandardScaler().fit(rows)
    scaled = scaler.transform(rows)
    chain = mercer.KernelPCA(3, kernel=recipe["kernel"], preimage=method).fit(scaled)
    back = scaler.inverse_transform(chain.reconstruct(scaled))
    assert header["rms"] == pytest.approx(np.sqrt(np.mean((back - rows) ** 2)), rel=1e-3)
    # These rows flatter: what others have to expect is said, and where.
    told = float(header["quality"].removeprefix("held-out error ").partition(",")[0])
    assert told == pytest.approx(chain.preimage_.quality.error, rel=1e-3)
    assert "has seen these rows" in header["caption"]


def test_a_saved_model_gives_the_scores_of_the_page(session, tmp_path, rows):
    recipe = {"kernel": "rbf(gamma=0.2)", "components": 3}
    reply = ask(session, "save", what="model", table=session.key, recipe=recipe)
    path = tmp_path / "m.mercer"
    path.write_bytes(reply.body)
    expected = mercer.load(path).transform(rows)[:, :2]
    _, arrays = fit(session, panels={"scores": {"components": [0, 1]}})
    same(arrays["scores"], expected, np.abs(expected).max())


def test_python_of_the_page_gives_the_scores_of_the_page(session, tmp_path, monkeypatch, rows):
    recipe = {"kernel": "rbf(gamma=0.2)", "components": 3, "preimage": "ridge"}
    code = json.loads(ask(session, "code", table=session.key, recipe=recipe).body)
    monkeypatch.chdir(tmp_path)
    np.save("rows.npy", rows)
    space = {}
    exec(code["python"], space)
    _, arrays = fit(session, panels={"scores": {"components": [0, 1]}})
    same(arrays["scores"], space["scores"][:, :2], np.abs(space["scores"]).max())
    assert "mercer fit rows.npy" in code["command"]
