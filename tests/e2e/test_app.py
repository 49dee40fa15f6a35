"""Use cases from a program: findings as data, two threads at once, observers that stop them."""

import json
import threading
import warnings
from concurrent.futures import ThreadPoolExecutor
from dataclasses import FrozenInstanceError, fields
from pathlib import Path

import numpy as np
import pytest

import mercer
from markets.commands import run, write_csv
from mercer import app
from mercer._core.errors import InputError, ParameterError
from mercer.app.demo import circles, process
from mercer.app.estimator import ESTIMATORS, takes
from mercer.app.rows import OfTraining
from mercer.data.table import Reading
from mercer.persistence.model_file import read_header

RNG = np.random.default_rng(0)
X = RNG.standard_normal((60, 3)) @ np.diag([3.0, 2.0, 1.0])
NAMED = Reading(id="id")


@pytest.fixture(scope="module")
def desk(tmp_path_factory):
    """Files of rows, and a model of each kind."""
    folder = tmp_path_factory.mktemp("app")
    columns = {
        "id": [f"r{i}" for i in range(len(X))],
        **dict(zip("uvw", X.T.tolist(), strict=True)),
    }
    write_csv(folder / "rows.csv", columns)
    np.save(folder / "K.npy", X @ X.T)
    points, which = circles()
    labelled = {"label": which.tolist(), "x": points[:, 0].tolist(), "y": points[:, 1].tolist()}
    write_csv(folder / "circles.csv", labelled)
    for name, how in (("normal", {}), ("faulty", {"fault_at": 200})):
        made = process(seed=0 if name == "normal" else 2, **how)
        write_csv(folder / f"{name}.csv", dict(zip("abcde", made.T.tolist(), strict=True)))
    for kind in ("kpca", "detector"):
        data = "rows.csv" if kind == "kpca" else "normal.csv"
        own = {"kernel": "rbf(gamma=0.1)", "components": 4} if kind == "kpca" else {}
        reading = NAMED if kind == "kpca" else Reading()
        output = str(folder / f"{kind}.mercer")
        app.run(
            app.FitRequest(
                data=str(folder / data), kind=kind, reading=reading, output=output, **own
            )
        )
    return folder


def requests(desk):
    """One request of every use case."""
    rows, model = str(desk / "rows.csv"), str(desk / "kpca.mercer")
    of_rows = {"data": rows, "reading": NAMED}
    return {
        "fit": app.FitRequest(**of_rows, kernel="rbf(gamma=0.1)", components=3),
        "plan": app.PlanRequest(**of_rows, components=3, memory="1GB"),
        "transform": app.TransformRequest(model=model, data=rows),
        "reconstruct": app.ReconstructRequest(model=model, data=rows),
        "check": app.CheckRequest(**of_rows, kernel="rbf(gamma=0.1)"),
        "select": app.SelectRequest(**of_rows, kernels=("linear()", "rbf()"), components=(2,)),
        "monitor": app.MonitorRequest(
            model=str(desk / "detector.mercer"), data=str(desk / "faulty.csv")
        ),
        "export": app.ExportRequest(model=model),
        "info": app.InfoRequest(model=model),
        "demo": app.DemoRequest(csv=str(desk / "made.csv"), fits=False),
    }


CASES = ("fit", "plan", "transform", "reconstruct", "check", "select", "monitor", "export")
CASES += ("info", "demo")


class Watcher(app.Observer):
    """Writes down what it hears of; asks to stop at a step of some kind."""

    def __init__(self, stop_at=None):
        self.stages, self.steps, self.findings = [], [], []
        self.threads = set()
        self.stop_at = stop_at

    def began(self, stage):
        self.threads.add(threading.get_ident())
        self.stages.append(stage)

    def step(self, done, expected, what, residual):
        del residual
        self.threads.add(threading.get_ident())
        self.steps.append((done, expected, what))
        return what == self.stop_at

    def found(self, finding):
        self.findings.append(finding)


# ── every use case ──────────────────────────────────────────────────────────
@pytest.mark.parametrize("case", CASES)
def test_an_outcome_is_data_and_nothing_is_printed(case, desk, capfd):
    """Warnings are errors in this suite: a use case gives none, its findings are in the outcome."""
    watcher, request = Watcher(), requests(desk)[case]
    outcome = app.run(request, watcher)
    said = capfd.readouterr()
    assert (said.out, said.err) == ("", "")
    document = json.loads(json.dumps(outcome.as_dict(), allow_nan=False))
    assert set(document) == {"value", "findings", "timings"}
    assert tuple(watcher.findings) == outcome.findings
    assert set(outcome.timings) == set(watcher.stages)
    for finding in document["findings"]:
        assert finding["code"].replace("-", "").isalpha()
        assert finding["level"] in ("info", "note", "warning")
    with pytest.raises(FrozenInstanceError):
        setattr(request, fields(request)[0].name, None)


def comparable(outcome):
    """An outcome without what differs from run to run: seconds, and a file of the process."""
    found = outcome.as_dict()
    del found["timings"]
    if isinstance(found["value"].get("plan"), dict):
        for name in ("seconds", "preimage_seconds"):
            found["value"]["plan"].pop(name)
    return found


@pytest.mark.parametrize("case", [name for name in CASES if name != "demo"])
def test_two_threads_at_once_do_not_disturb_each_other(case, desk):
    """Each has the findings of its own call, and the numbers of a call by itself."""
    request = requests(desk)[case]
    alone = comparable(app.run(request))
    watchers = Watcher(), Watcher()
    filters = list(warnings.filters)
    with ThreadPoolExecutor(2) as pool:
        both = list(pool.map(lambda watcher: app.run(request, watcher), watchers))
    assert warnings.filters == filters
    for outcome, watcher in zip(both, watchers, strict=True):
        assert comparable(outcome) == alone
        assert tuple(watcher.findings) == outcome.findings
        assert len(watcher.threads) <= 1


def test_findings_of_threads_are_never_mixed(desk):
    """Of two fits at once, one asks for more components than there are: only that one hears of it."""
    both = [
        app.FitRequest(data=str(desk / "rows.csv"), reading=NAMED, kernel="linear()", components=k)
        for k in (2, 5)
    ]
    with ThreadPoolExecutor(2) as pool:
        for _ in range(5):
            few, many = pool.map(app.run, both)
            assert [f.code for f in few.findings if f.level == "warning"] == []
            assert [f.code for f in many.findings if f.level == "warning"] == ["rank"]


# ── findings ────────────────────────────────────────────────────────────────
def warned(request):
    return [finding for finding in app.run(request).findings if finding.level == "warning"]


def test_what_the_library_warns_of_has_a_code_numbers_and_a_remedy(desk):
    rows = {"data": str(desk / "rows.csv"), "reading": NAMED}
    (rank,) = warned(app.FitRequest(**rows, kernel="linear()", components=5))
    assert (rank.code, rank.numbers) == ("rank", {"asked": 5, "kept": 3})
    assert rank.remedy == app.Remedy("n_components", 3)
    assert "n_components=3" in rank.message
    (flat,) = warned(app.FitRequest(**rows, kernel="rbf(gamma=1e6)"))
    assert flat.code == "flat-spectrum"
    assert flat.numbers["largest_eigenvalue"] == pytest.approx(flat.numbers["average"], rel=0.1)
    found = warned(app.FitRequest(**rows, kernel="sigmoid(gamma=0.05, coef0=-1)"))
    indefinite = next(finding for finding in found if finding.code == "indefinite-kernel")
    assert indefinite.numbers["smallest_eigenvalue"] < 0 < indefinite.numbers["negative_share"]


def test_findings_of_a_detector_have_codes_of_their_own(tmp_path):
    rows = np.random.default_rng(0).standard_normal((120, 4))
    rows[7, 1], rows[:, 3] = 1e6, 2.0
    np.save(tmp_path / "x.npy", rows)
    found = {
        f.code: f.numbers
        for f in warned(app.FitRequest(data=str(tmp_path / "x.npy"), kind="detector"))
    }
    assert found["wild-readings-set-aside"] == {"readings": 1, "rows": 1, "of": 120}
    assert found["still-columns"] == {"columns": 1}


def test_the_same_is_a_warning_where_nothing_collects_it():
    with pytest.warns(mercer.errors.RankWarning, match="n_components=3") as caught:
        mercer.KernelPCA(5, kernel="linear").fit(X)
    (warning,) = caught
    assert warning.message.numbers == {"asked": 5, "kept": 3}
    assert Path(warning.filename) == Path(__file__)  # at the caller's line


def test_memory_that_does_not_suffice_is_a_finding_with_a_remedy_that_fits(tmp_path):
    np.save(tmp_path / "x.npy", np.random.default_rng(0).standard_normal((20_000, 2)))
    how = {"data": str(tmp_path / "x.npy"), "kernel": "rbf(1)", "components": 30, "memory": "40MB"}
    outcome = app.run(app.PlanRequest(**how))
    assert not outcome.value.fits
    (finding,) = (f for f in outcome.findings if f.level == "warning")
    assert (finding.code, finding.numbers) == ("memory", {"memory_bytes": 40 * 10**6})
    assert finding.remedy.parameter == "approximation"
    assert app.run(app.PlanRequest(**how, approximation=finding.remedy.value)).value.fits


def test_what_was_done_to_the_rows_is_a_note(desk, tmp_path):
    path = str(desk / "rows.csv")
    outcome = app.run(app.FitRequest(data=path, reading=NAMED, scale="none"))
    read, *notes = outcome.findings
    assert (read.code, read.level, read.numbers) == ("read", "info", {"n": 60, "d": 3})
    assert "columns are not scaled" in [finding.message for finding in notes]
    output = str(tmp_path / "m.mercer")
    kept = app.run(app.FitRequest(data=path, reading=NAMED, output=output))
    assert kept.findings[-1].numbers == {"path": output}
    about = app.run(app.InfoRequest(model=output)).value.facts["header"]["about"]
    assert about["notes"] == [f.message for f in kept.findings if f.level == "note"]
    assert about["options"]["reading"]["id"] == "id"


# ── values ──────────────────────────────────────────────────────────────────
def test_scores_of_a_program_are_those_of_the_model(desk):
    model = mercer.load(desk / "kpca.mercer")
    sent = app.run(requests(desk)["transform"]).value
    np.testing.assert_array_equal(sent.rows, model.transform(X))
    assert list(sent.ids[:2]) == ["r0", "r1"]
    back = app.run(requests(desk)["reconstruct"]).value
    assert back.rows.shape == X.shape
    error = np.mean(((back.rows - X) / X.std(axis=0)) ** 2)
    assert back.facts["mean_squared_error"] == pytest.approx(error)


def test_objects_do_as_well_as_texts(desk):
    rows = {"data": str(desk / "rows.csv"), "reading": NAMED}
    text = app.FitRequest(**rows, kernel="rbf(gamma=0.5)", approximation="rpcholesky(rank=20)")
    kernel, low = mercer.kernels.RBF(gamma=0.5), mercer.approximations.RPCholesky(rank=20)
    both = (app.run(text), app.run(app.FitRequest(**rows, kernel=kernel, approximation=low)))
    one, other = (outcome.value.model.eigenvalues_ for outcome in both)
    np.testing.assert_array_equal(one, other)


def test_a_detector_tells_its_alarms(desk):
    seen = app.run(requests(desk)["monitor"]).value
    assert seen.facts["alarms"]["count"] == seen.seen.count > 0
    assert seen.facts["alarms"]["runs"][-1]["began_with"][0]["variable"] == "a"  # the flow


def test_a_matrix_and_a_kernel_of_its_own_are_judged(desk):
    assert app.run(app.CheckRequest(data=str(desk / "K.npy"), matrix=True)).value.verdict.valid
    assert app.run(app.CheckRequest(kernel="rbf(gamma=1) + linear()")).value.verdict.valid
    data = {"data": str(desk / "rows.csv"), "reading": NAMED}
    checked = app.run(app.CheckRequest(**data, kernel="sigmoid(gamma=2, coef0=-1)")).value
    assert checked.is_refuted
    assert len(checked.facts["witness"]["rows"]) == len(checked.facts["witness"]["vector"])


def test_the_winner_is_fitted_and_kept(desk, tmp_path):
    output = str(tmp_path / "w.mercer")
    chosen = app.run(
        app.SelectRequest(
            data=str(desk / "circles.csv"),
            reading=Reading(label="label"),
            kernels=("linear()", "rbf(gamma=10)"),
            components=(2,),
            supervised=True,
            output=output,
        )
    ).value
    assert chosen.winner["kernel"] == "RBF(gamma=10)"
    assert mercer.load(output).model.kernel_.gamma == 10
    assert not chosen.failed


# ── stopped ─────────────────────────────────────────────────────────────────
def test_a_fit_that_is_stopped_hands_over_what_it_has_and_writes_nothing(tmp_path):
    np.save(tmp_path / "x.npy", np.random.default_rng(0).standard_normal((1500, 8)))
    output = tmp_path / "m.mercer"
    output.write_text("before")
    request = app.FitRequest(
        data=str(tmp_path / "x.npy"),
        kernel="rbf(gamma=0.3)",
        components=30,
        solver="krylov(tol=1e-12)",
        output=str(output),
    )
    watcher = Watcher(stop_at="products")
    outcome = app.run(request, watcher)
    assert [what for *_, what in watcher.steps].count("products") <= 2
    assert outcome.value.facts["status"] == "STOPPED"
    codes = {finding.code: finding for finding in outcome.findings}
    assert codes["unconverged"].numbers["status"] == "STOPPED"
    assert codes["unconverged"].numbers["largest_residual"] > 1e-12
    assert "stopped" in codes
    assert output.read_text() == "before"


@pytest.mark.parametrize(
    ("case", "what"),
    [("transform", "rows"), ("reconstruct", "rows"), ("monitor", "rows"), ("select", "candidates")],
)
def test_all_else_ends_there_and_leaves_no_file(case, what, desk, tmp_path):
    request, output = requests(desk)[case], tmp_path / "out.csv"
    given = {field.name: getattr(request, field.name) for field in fields(request)}
    request = type(request)(**{**given, "output": str(output)})
    with pytest.raises(app.StoppedError, match="Stopped after"):
        app.run(request, Watcher(stop_at=what))
    assert list(tmp_path.iterdir()) == []


def test_steps_are_counted(desk):
    watcher = Watcher()
    app.run(requests(desk)["transform"], watcher)
    assert watcher.steps[-1][0] == len(X)
    app.run(requests(desk)["select"], watcher)
    assert watcher.steps[-1][1:] == (2, "candidates")


# ── refused ─────────────────────────────────────────────────────────────────
@pytest.mark.parametrize(
    ("how", "said"),
    [
        ({"kind": "kpac"}, "kind must be kpca, pca, detector, incremental; got 'kpac'"),
        ({"refine": 1}, "`refine` needs `approximation`"),
        ({"kind": "pca", "kernel": "rbf()"}, "`kernel` is not an option of kind=pca"),
        ({"kernel": "precomputed", "scale": "standard"}, "scale='standard' is for rows"),
        ({"kernel": "precomputed", "preimage": "ridge"}, "`preimage` needs rows"),
        ({"output": "-"}, "output=- is not a place for a model"),
        ({"solver": "krylov(tol=-1)"}, "tol must be"),
        ({"false_alarm": 0.1, "contamination": 0.1, "kind": "detector"}, "exclude each other"),
    ],
)
def test_a_request_that_can_not_be_meant_is_refused_before_data_are_read(how, said):
    with pytest.raises(ParameterError) as refusal:
        app.run(app.FitRequest(data="nowhere.csv", **how))
    assert said in str(refusal.value)


def test_what_is_wrong_with_the_data_is_an_error_of_its_kind(desk):
    with pytest.raises(InputError, match="nowhere"):
        app.run(app.FitRequest(data="nowhere.csv"))
    with pytest.raises(ParameterError, match="mercer monitor"):
        app.run(
            app.TransformRequest(model=str(desk / "detector.mercer"), data=str(desk / "rows.csv"))
        )


def test_every_option_of_a_request_is_one_of_some_model():
    of_rows = {field.name for field in fields(OfTraining)} | {"kind", "output"}
    options = {field.name for field in fields(app.FitRequest)} - of_rows
    assert {name for name in options if any(takes(kind, name) for kind in ESTIMATORS)} == options
    assert takes("kpca", "refine")
    assert not takes("pca", "refine")


def test_a_page_about_a_model_that_a_program_fitted_has_no_empty_command(desk, tmp_path):
    path = str(tmp_path / "m.mercer")
    app.run(app.FitRequest(data=str(desk / "rows.csv"), reading=NAMED, components=2, output=path))
    page = mercer.report.build(mercer.load(path), X, header=read_header(path))
    commands = page[page.index('class="commands"') :].partition("</pre>")[0]
    assert commands.partition(">")[2].startswith("# fitted in Python: KernelPCA(")
    assert run("info", path).stdout.splitlines()[6].split() == ["command", "-"]
