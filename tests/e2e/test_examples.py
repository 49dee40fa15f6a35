"""The gallery: every example runs, asks a question, draws a picture, and finds what its page claims."""

import ast
import re
import runpy
from pathlib import Path

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import pytest
from threadpoolctl import threadpool_limits

mpl.use("Agg")
ROOT = Path(__file__).parents[2]
EXAMPLES = sorted((ROOT / "examples").rglob("plot_*.py"))
CLAIMS = {}


def claims(name):
    """Register what holds of the variables that an example ends with."""

    def keep(check):
        CLAIMS[name] = check
        return check

    return keep


@claims("circles")
def circles(found):
    assert found["accuracies"]["data"] < 0.8
    assert found["accuracies"]["PCA"] < 0.8
    assert found["accuracies"]["kernel PCA"] == 1.0
    assert np.sqrt(np.mean((found["returned"] - found["X"]) ** 2)) < 0.01  # beside a radius of 1
    assert found["model"].residuals_.max() < 1e-12
    assert "All eigenvalues are alike" in str(found["caught"][0].message)


@claims("moons")
def moons(found):
    assert list(found["accuracies"].values()) == [0.88, 0.72, 1.0]  # the page says the first
    assert np.sqrt(np.mean((found["returned"] - found["X"]) ** 2)) < 0.01


@claims("circle_map")
def circle_map(found):
    np.testing.assert_allclose(found["u"], found["expected"], atol=1e-8)
    assert abs(found["values"][-1]) < 1e-12 * found["values"][0]
    # 1, cos θ, sin θ, cos 2θ, sin 2θ span what six columns see; centring takes the constant.
    assert found["model"].n_components_ == 4


@claims("classifier")
def classifier(found):
    found = found["found"]
    assert found["circles"]["before"] < 0.8
    assert found["circles"]["after"] > 0.97
    assert found["moons"]["after"] > found["moons"]["before"] + 0.03
    assert found["digits"]["after"] > 0.9
    assert all(len(set(row["validated"])) > 1 for row in found.values())  # the width matters


@claims("ring")
def ring(found):
    assert found["accuracies"]["PCA"] < 0.7
    assert found["accuracies"]["kernel PCA"] == 1.0


@claims("same_numbers")
def same_numbers(found):
    np.testing.assert_allclose(found["ours"].eigenvalues_, found["theirs"].eigenvalues_)
    assert found["apart"].max() < 1e-8


@claims("kernels_side_by_side")
def kernels_side_by_side(found):
    assert found["accuracies"]["linear"] < 0.92
    assert found["accuracies"]["Gaussian, γ = 10"] > 0.95


@claims("width")
def width(found):
    assert found["alike"][0] > 0.999  # too wide is linear
    assert found["needed"][0] == 2
    assert found["needed"][-1] > 150  # too narrow: nearly every point is alone
    assert found["first"][0] > 50 * found["first"][-1]


@claims("not_a_kernel")
def not_a_kernel(found):
    for (eta, theta), verdict in found["verdicts"].items():
        points, v = verdict.witness.points, verdict.witness.vector
        assert v @ np.tanh(eta * points @ points.T + theta) @ v < 0


@claims("text")
def text(found):
    assert found["same"] > 0.75  # 25 % by chance


@claims("strings")
def strings(found):
    assert np.linalg.eigvalsh(found["K"]).min() > -1e-12
    english = found["language"] == "English"
    first = found["scores"][:, 0]
    assert first[english].min() > np.median(first[~english])


@claims("graph")
def graph(found):
    place, community = found["places"]["kernel PCA"], found["community"]
    centres = np.stack([place[community == c].mean(axis=0) for c in range(3)])
    nearest = np.linalg.norm(place[:, None] - centres, axis=2).argmin(axis=1)
    assert np.mean(nearest == community) > 0.95


@claims("groups_of_columns")
def groups_of_columns(found):
    assert found["explained"]["one kernel for all columns", "hour"] < 0.3
    assert found["explained"]["one for each group", "hour"] > 0.9
    assert found["explained"]["one for each group", "load"] > 0.75


@claims("choosing")
def choosing(found):
    assert found["accuracies"]["a line on the data"] < 0.7
    assert found["accuracies"]["chosen without labels"] > 0.95
    assert found["accuracies"]["chosen with labels"] > 0.95
    assert any("nearly constant" in symptom for symptom in found["found_symptoms"])


@claims("meaning")
def meaning(found):
    np.testing.assert_allclose(found["found"].shares.sum(axis=0), 1.0)
    assert found["found"].top(0)[0] == "flavanoids"


@claims("how_many")
def how_many(found):
    whole = found["whole"].explained_variance_ratio_
    assert whole.sum() >= 0.95 > whole[:-1].sum()
    assert found["flattering"][-1] == pytest.approx(1.0)
    assert found["few"].explained_variance_ratio_.sum() < 0.85


@claims("walk")
def walk(found):
    assert found["distances"]["kernel PCA"] < found["distances"]["PCA"]


@claims("denoising")
def denoising(found):
    for kind, noisy in (("Gaussian noise", 0.25), ("speckle", 0.17)):
        errors = found["errors"][kind]
        assert errors["noisy"] == pytest.approx(noisy, abs=0.01)
        assert all(error < 0.4 * noisy for name, error in errors.items() if name != "noisy")
        assert errors["distances"] < errors["PCA"]
        # Two searches for one minimum.
        assert errors["gradient"] == pytest.approx(errors["fixed-point"], rel=0.02)


@claims("preimage_field")
def preimage_field(found):
    assert found["off"]["kernel PCA, 12 components"] < 0.05 < found["off"]["PCA, 1 component"]


@claims("eigenfaces")
def eigenfaces(found):
    errors = found["errors"]
    assert found["model"].plan_.route == "dual"
    assert found["model"].residuals_.max() < 1e-12
    assert np.all(np.diff(errors) < 0)
    assert np.all(errors[2] > 5 * errors[:2])


@claims("glasses")
def glasses(found):
    errors = found["errors"]
    assert errors["kernel PCA"] < errors["PCA"] < 0.7 * errors["glasses"]


@claims("monitoring")
def monitoring(found):
    rates = found["found"]
    assert rates["PCA"]["detected"] < 0.05  # a bend is not a plane
    assert rates["kernel PCA"]["detected"] > 0.7
    assert max(row["false alarms"] for row in rates.values()) < 0.02
    assert found["names"][np.argmax(found["seen"].contributions.mean(axis=0))] == "heat"


@claims("contributions")
def contributions(found):
    assert found["leaders"] == ["level", "temperature"]


@claims("novelty")
def novelty(found):
    assert found["called_new"]["kernel PCA"] > found["called_new"]["PCA, 1 component"] > 0.5


@claims("windows")
def windows(found):
    assert found["worst"] <= 753 < found["worst"] + 60
    assert found["index"][: 720 - 60].max() < found["index"].max() / 2


@claims("stream")
def stream(found):
    assert found["shares"]["forgets"][-1] > 0.8
    assert found["shares"]["does not"][-1] < 0.2
    low, high = found["bounds"].T
    assert np.all((low <= found["exact"]) & (found["exact"] <= high))


@claims("certificate")
def certificate(found):
    assert all(found["inside"])
    assert [m.fit_.trace_error for m in found["fits"]["RPCholesky"]] == sorted(
        (m.fit_.trace_error for m in found["fits"]["RPCholesky"]), reverse=True
    )


@claims("memory_time")
def memory_time(found):
    budgets = 1e6 * np.array(found["budgets"])
    assert all(plan.n_bytes <= budget for plan, budget in zip(found["plans"], budgets, strict=True))
    assert found["held"] == sorted(found["held"])
    assert found["held"][0] < 50 < found["held"][-1] == 100


@claims("gpu")
def gpu(found):
    page = (ROOT / "docs" / "gpu-inside.md").read_text()
    assert "docs/gpu-inside.md" in found["origin"]
    for record in found["records"]:  # what is drawn is what the page of measurements says
        rows = f"{int(record['rows']):,}".replace(",", " ")
        assert f"{rows} × {record['columns']}" in page
        assert record["seconds"] in page.replace("*", "")


@claims("cluster")
def cluster(found):
    assert found["apart"] < 1e-10
    assert np.linalg.norm(found["scores"][:, :2], axis=1).min() > 0.3  # still a ring


# ── all of them ─────────────────────────────────────────────────────────────
def test_every_example_has_claims_that_are_tested():
    assert {path.stem.removeprefix("plot_") for path in EXAMPLES} == set(CLAIMS)
    assert len(EXAMPLES) >= 24


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda p: p.stem)
def test_an_example_is_a_question_in_the_gallerys_form(path):
    text = path.read_text()
    title, rule, empty, *_ = ast.get_docstring(ast.parse(text), clean=False).strip().split("\n")
    assert "?" in title
    assert rule == "=" * len(title)
    assert not empty
    assert re.search(r"^# %%$", text, re.MULTILINE)


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda p: p.stem)
def test_an_example_draws_and_finds_what_its_page_claims(path, tmp_path, monkeypatch):
    if path.stem == "plot_cluster":
        pytest.importorskip("distributed")
    monkeypatch.chdir(tmp_path)
    try:
        with threadpool_limits(limits=1):  # matrices this small are slowed down by threads
            found = runpy.run_path(str(path))
        assert plt.get_fignums()
        CLAIMS[path.stem.removeprefix("plot_")](found)
    finally:
        plt.close("all")
    assert not any(tmp_path.iterdir())  # nothing is left on the disk


def test_sections_have_a_heading():
    for folder in {path.parent for path in EXAMPLES} | {ROOT / "examples"}:
        assert (folder / "GALLERY_HEADER.rst").read_text().count("\n") > 3
