"""Who looks on: lines on the terminal, scikit-learn's callbacks, and what they may not disturb."""
# ruff: noqa: ARG002 (the signatures are scikit-learn's)

import importlib.util
import inspect
import io
import pickle
import sys

import numpy as np
import pytest
from sklearn.base import BaseEstimator, TransformerMixin, clone
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from mercer import KernelPCA
from mercer._core.observer import SILENT
from mercer.errors import InputError, UnconvergedWarning
from mercer.estimators import progress
from mercer.estimators.progress import (
    CallbackSupport,
    ConsoleObserver,
    announced,
    observing,
    with_callbacks,
)
from mercer.kernels import RBF
from mercer.model.checkpoint import Checkpoint
from mercer.solvers.base import Status


class Clock:
    """Goes on by hand."""

    def __init__(self):
        self.now = 100.0

    def __call__(self):
        return self.now


class Scripted:
    """An observer that resumes from what it is given and notes what it is told."""

    def __init__(self, state=None, stop_at=None):
        self.state, self.stop_at, self.steps, self.kept = state, stop_at, [], []

    def step(self, done, expected, what, residual):
        self.steps.append((done, expected, what, residual))
        return done == self.stop_at

    def resume(self):
        return self.state

    def keep(self, state):
        self.kept.append(state())


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def stream():
    return io.StringIO()


# ── lines ───────────────────────────────────────────────────────────────────
def run(teller, clock, steps):
    """Steps of (seconds, done, expected, what, residual)."""
    for seconds, *step in steps:
        clock.now += seconds
        teller.step(*step)


def test_products_are_told_with_the_time_that_is_left(clock, stream):
    teller = ConsoleObserver("KernelPCA", stream=stream, clock=clock)
    residuals = [None, 0.5, 3e-2, 2e-3, 3.21e-4]
    run(teller, clock, [(2.4, i + 1, 9, "products", r) for i, r in enumerate(residuals)])
    assert stream.getvalue().splitlines() == [
        "KernelPCA: 1 of about 9 products, 2.4 s, about 19 s left",
        "KernelPCA: 2 of about 9 products, residual 5e-01, 4.8 s, about 17 s left",
        "KernelPCA: 3 of about 9 products, residual 3e-02, 7.2 s, about 14 s left",
        "KernelPCA: 4 of about 9 products, residual 2e-03, 9.6 s, about 12 s left",
        "KernelPCA: 5 of about 9 products, residual 3e-04, 12 s, about 9.6 s left",
    ]


def test_rows_are_counted_and_their_number_is_no_guess(clock, stream):
    teller = ConsoleObserver("KernelPCA", stream=stream, clock=clock)
    run(
        teller,
        clock,
        [(2, 400_000, 1_000_000, "rows", None), (3, 1_000_000, 1_000_000, "rows", None)],
    )
    assert stream.getvalue().splitlines() == [
        "KernelPCA: 400 000 of 1 000 000 rows, 2 s, about 3 s left",
        "KernelPCA: 1 000 000 of 1 000 000 rows, 5 s",
    ]


@pytest.mark.parametrize(
    ("done", "expected", "count"),
    [(4, None, "4 products"), (4, 3, "4 products"), (1, None, "1 product")],
)
def test_an_unknown_or_wrong_expectation_is_not_told(clock, stream, done, expected, count):
    teller = ConsoleObserver("PCA", stream=stream, clock=clock)
    run(teller, clock, [(1, done, expected, "products", 0.1)])
    assert stream.getvalue() == f"PCA: {count}, residual 1e-01, 1 s\n"


def test_about_one_line_a_second_and_always_the_last(clock, stream):
    teller = ConsoleObserver("KernelPCA", stream=stream, clock=clock)
    run(teller, clock, [(0.125, done, 100, "products", None) for done in range(1, 100)])
    before = stream.getvalue().splitlines()
    told = [int(line.split()[1]) for line in before]
    assert told == list(range(1, 100, 8))  # 8 steps a second
    run(teller, clock, [(0.125, 100, 100, "products", 1e-9)])
    assert stream.getvalue().splitlines() == before
    teller.finish()
    teller.finish()
    assert stream.getvalue().splitlines() == [
        *before,
        "KernelPCA: 100 of about 100 products, residual 1e-09, 12 s",
    ]


def test_each_kind_of_work_has_its_last_line_and_its_own_pace(clock, stream):
    teller = ConsoleObserver("KernelPCA", stream=stream, clock=clock)
    fast = [(0.1, rows, 300, "rows", None) for rows in (100, 200, 300)]
    run(teller, clock, [*fast, *fast, (5.0, 1, 3, "products", 0.1)])
    assert stream.getvalue().splitlines() == [
        "KernelPCA: 100 of 300 rows, 0.1 s, about 0.2 s left",
        "KernelPCA: 300 of 300 rows, 0.3 s",
        "KernelPCA: 300 of 300 rows, 0.6 s",
        "KernelPCA: 1 of about 3 products, residual 1e-01, 5.6 s, about 10 s left",
    ]


def test_the_pace_of_a_resumed_run_is_its_own(clock, stream):
    teller = ConsoleObserver("KernelPCA", Scripted({"product": 6}), stream=stream, clock=clock)
    assert teller.resume() == {"product": 6}
    run(teller, clock, [(1.0, 6, 9, "products", 0.1), (4.0, 7, 9, "products", 0.1)])
    assert stream.getvalue().splitlines() == [
        "KernelPCA: resumes from the checkpoint",
        "KernelPCA: 6 of about 9 products, residual 1e-01, 1 s",
        "KernelPCA: 7 of about 9 products, residual 1e-01, 5 s, about 8 s left",
    ]


def test_lines_go_to_stderr_and_hold_nothing_but_text(capsys):
    teller = ConsoleObserver("KernelPCA")
    teller.step(1, 2, "products", 0.5)
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("KernelPCA: 1 of about 2 products, residual 5e-01, ")
    assert err.endswith("\n")
    assert err.isascii()
    assert err.strip("\n").isprintable()


def test_a_terminal_that_went_away_does_not_end_the_fit(monkeypatch):
    class Gone(io.StringIO):
        def write(self, text):
            raise BrokenPipeError

    ConsoleObserver("KernelPCA", stream=Gone()).step(1, 2, "products", None)
    monkeypatch.setattr(sys, "stderr", None)  # a windowed Python has none
    ConsoleObserver("KernelPCA").step(1, 2, "products", None)


def test_a_teller_passes_everything_on(clock, stream):
    inner = Scripted(stop_at=2)
    teller = ConsoleObserver("KernelPCA", inner, stream=stream, clock=clock)
    assert teller.resume() is None
    assert [teller.step(i, 3, "products", 0.1) for i in (1, 2, 3)] == [False, True, False]
    teller.keep(lambda: {"a": 1})
    assert inner.steps == [(i, 3, "products", 0.1) for i in (1, 2, 3)]
    assert inner.kept == [{"a": 1}]


# ── an estimator that does nothing but work ─────────────────────────────────
calls_back = pytest.mark.skipif(
    importlib.util.find_spec("sklearn.callback") is None,
    reason="callbacks came with scikit-learn 1.9",
)


class Toy(CallbackSupport, TransformerMixin, BaseEstimator):
    """Three products (two were expected), then two passes over the rows."""

    def __init__(self, n_products=3, expected=2, verbose=0, checkpoint=None, fail=False):
        self.n_products = n_products
        self.expected = expected
        self.verbose = verbose
        self.checkpoint = checkpoint
        self.fail = fail

    @with_callbacks
    def fit(self, X, y=None, sample_weight=None):
        """Fit."""
        with announced(self, X, y, sample_weight):
            self._fit(X)
        return self

    @with_callbacks
    def fit_transform(self, X, y=None, sample_weight=None):
        """Fit, and give the rows back."""
        with announced(self, X, y, sample_weight):
            self._fit(X)
            return X

    def transform(self, X):
        return X

    def _fit(self, X):
        with observing(
            self,
            verbose=self.verbose,
            checkpoint=self.checkpoint,
            fingerprint=lambda: {"n": len(X)},
        ) as observer:
            self.watch_ = type(observer).__name__
            state = observer.resume() or {"product": 0}
            for product in range(state["product"] + 1, self.n_products + 1):
                observer.keep(lambda product=product: {"product": product})
                if observer.step(product, self.expected, "products", 10.0**-product):
                    break
            self.n_done_ = product
            if self.fail:
                msg = "the work failed"
                raise RuntimeError(msg)
            for _ in range(2):
                for done in (4, 8, 10):
                    observer.step(done, 10, "rows", None)


class Recorder:
    """A callback that notes every hook; True at the end of a step asks to stop."""

    def __init__(self, stop_at=None):
        self.stop_at, self.events = stop_at, []

    def setup(self, estimator, context):
        self.events.append(("setup", context.task_name))

    def teardown(self, estimator, context):
        self.events.append(("teardown", context.task_name))

    def on_fit_task_begin(self, estimator, context, *, metadata=None):
        self.events.append(("begin", context.task_name, context.max_subtasks, metadata))

    def on_fit_task_end(self, estimator, context, *, X=None, metadata=None, fitted_estimator=None):
        self.events.append(("end", context.task_name, X is not None, fitted_estimator is not None))
        return context.task_name == self.stop_at

    def names(self, kind):
        return [event[1] for event in self.events if event[0] == kind]


@calls_back
@pytest.mark.parametrize("at", [4, 5, 6, 7])  # in the midst of a stage, and at its last step
def test_a_stop_holds_in_every_stage_of_a_share(at, rng):
    x = rng.standard_normal((3100, 5))
    model = KernelPCA(0.97, kernel=RBF(0.2), random_state=0)
    model.set_callbacks(Recorder(stop_at=f"{at} products"))
    with pytest.warns(UnconvergedWarning):
        model.fit(x)
    assert model.fit_.pairs.status is Status.STOPPED
    assert model.fit_.pairs.n_products <= at + 1


class Everywhere(Recorder):
    """The same, handed down to the steps of a pipeline."""

    max_propagation_depth = None


TASKS = ["1 products", "2 products", "3 products", "products"]
PASS = ["4 rows", "8 rows", "10 rows", "rows"]


@calls_back
@pytest.mark.parametrize("method", ["fit", "fit_transform"])
def test_callbacks_see_a_task_for_each_kind_of_work_and_for_each_step(cloud, method):
    recorder = Recorder()
    toy = Toy().set_callbacks(recorder)
    assert getattr(toy, method)(cloud) is (toy if method == "fit" else cloud)
    assert recorder.events[0] == ("setup", "fit")
    assert recorder.events[-1] == ("teardown", "fit")
    assert recorder.names("end") == [*TASKS, *PASS, *PASS, "fit"]
    assert sorted(recorder.names("begin")) == sorted(recorder.names("end"))
    begun = {name: (limit, metadata) for kind, name, limit, metadata, *_ in begins(recorder)}
    assert begun["fit"] == (None, None)
    assert begun["products"] == (2, None)  # as was expected; the third is not refused
    assert begun["rows"] == (3, None)  # steps of four rows
    assert begun["2 products"] == (0, {"done": 2, "expected": 2, "residual": 1e-2})
    assert recorder.events[-2] == ("end", "fit", True, True)  # the data, and the model
    assert set(vars(toy)) == {*toy.get_params(), "_skl_callbacks", "watch_", "n_done_"}


def begins(recorder):
    return [event for event in recorder.events if event[0] == "begin"]


@calls_back
def test_the_weights_reach_the_callbacks(cloud):
    recorder = Recorder()
    Toy().set_callbacks(recorder).fit(cloud, None, np.ones(60))
    ((_, _, _, metadata),) = [event for event in begins(recorder) if event[1] == "fit"]
    np.testing.assert_array_equal(metadata["sample_weight"], np.ones(60))


@calls_back
def test_a_callback_can_ask_to_stop(cloud):
    recorder = Recorder(stop_at="2 products")
    toy = Toy(n_products=9).set_callbacks(recorder, Recorder()).fit(cloud)
    assert toy.n_done_ == 2
    assert "3 products" not in recorder.names("begin")


@calls_back
def test_callbacks_are_torn_down_when_the_fit_fails(cloud):
    recorder = Recorder()
    toy = Toy(fail=True).set_callbacks(recorder)
    with pytest.raises(RuntimeError, match="the work failed"):
        toy.fit(cloud)
    assert recorder.events[-1] == ("teardown", "fit")
    assert "fit" not in recorder.names("end")
    recorder.events.clear()
    toy.set_params(fail=False).fit(cloud)
    assert recorder.names("end")[-1] == "fit"


def test_without_callbacks_nobody_looks_on(cloud, capsys):
    assert Toy().fit(cloud).watch_ == "Observer"
    assert capsys.readouterr() == ("", "")


@calls_back
def test_a_resumed_run_does_not_guess_how_many_steps_are_left(tmp_path, cloud):
    path = tmp_path / "toy.ckpt"
    Toy(checkpoint=path).fit(cloud)
    assert Checkpoint(path, {"n": 60}).resume() == {"product": 1}
    recorder = Recorder()
    Toy(expected=3, checkpoint=path).set_callbacks(recorder).fit(cloud)
    begun = {event[1]: event[2] for event in begins(recorder)}
    assert "1 products" not in begun
    assert begun["products"] is None
    assert begun["rows"] == 3


@calls_back
def test_a_pipeline_hands_its_callbacks_down(cloud):
    recorder, own = Everywhere(), Recorder()
    toy = Toy().set_callbacks(own)
    make_pipeline(StandardScaler(), toy).set_callbacks(recorder).fit(cloud)
    assert [event[0] for event in recorder.events].count("setup") == 1
    assert recorder.names("end") == ["fit", *TASKS, *PASS, *PASS, "fit", "fit"]
    assert own.names("end") == [*TASKS, *PASS, *PASS, "fit"]
    assert toy._skl_callbacks == [own]
    # The first step of two, which is fitted with `fit_transform`.
    recorder.events.clear()
    make_pipeline(Toy(), StandardScaler()).set_callbacks(recorder).fit_transform(cloud)
    assert recorder.names("end") == [*TASKS, *PASS, *PASS, "fit", "fit", "fit-transform"]


@calls_back
def test_a_search_hands_its_callbacks_down(cloud):
    recorder = Everywhere()
    search = GridSearchCV(Toy(), {"n_products": [1, 2]}, cv=2, scoring=lambda *_: 0.0)
    search.set_callbacks(recorder).fit(cloud)
    assert (
        recorder.names("end").count("1 products") == 5
    )  # two candidates, two folds, and the refit
    assert recorder.names("end").count("2 products") == 2


@calls_back
@pytest.mark.parametrize("copied", [clone, lambda toy: pickle.loads(pickle.dumps(toy))])
def test_callbacks_survive_a_copy(cloud, copied):
    toy = Toy().set_callbacks(Recorder()).fit(cloud)
    other = copied(toy)
    (recorder,) = other._skl_callbacks
    recorder.events.clear()
    other.fit(cloud)
    assert recorder.names("end")[-1] == "fit"


@calls_back
def test_the_progress_bar_of_scikit_learn(cloud, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")  # so that no name is cut short
    from sklearn.callback import ProgressBar

    make_pipeline(StandardScaler(), Toy()).set_callbacks(ProgressBar()).fit(cloud)
    out = capsys.readouterr().out
    for name in ("Pipeline - fit", "Toy - fit #1", "Toy - products #0", "Toy - rows #1"):
        assert name in out
    assert out.count("100%") == 6


def test_an_announced_method_looks_as_before():
    assert list(inspect.signature(Toy.fit).parameters) == ["self", "X", "y", "sample_weight"]
    assert Toy.fit.__doc__ == "Fit."
    assert Toy.fit.__name__ == "fit"


def test_an_older_scikit_learn_has_no_callbacks_and_needs_none(monkeypatch, cloud, capsys):
    monkeypatch.setitem(sys.modules, "sklearn.callback", None)
    spec = importlib.util.spec_from_file_location("older_progress", progress.__file__)
    older = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(older)

    class Older(older.CallbackSupport, TransformerMixin, BaseEstimator):
        @older.with_callbacks
        def fit(self, X, y=None, sample_weight=None):
            with (
                older.announced(self, X, y, sample_weight),
                older.observing(self, verbose=1, checkpoint=None, fingerprint=dict) as observer,
            ):
                observer.step(1, 1, "products", 0.1)
            return self

    assert not hasattr(Older().fit(cloud), "set_callbacks")
    assert capsys.readouterr().err.startswith("Older: 1 of about 1 products, ")


# ── all together ────────────────────────────────────────────────────────────
@calls_back
def test_all_who_look_on_see_all(tmp_path, cloud, capsys):
    path, recorder = tmp_path / "toy.ckpt", Recorder()
    toy = Toy(verbose=1, checkpoint=path).set_callbacks(recorder).fit(cloud)
    assert toy.n_done_ == 3
    lines = capsys.readouterr().err.splitlines()
    assert all(line.startswith("Toy: ") for line in lines)
    assert [line.split(", ")[0] for line in lines] == [
        "Toy: 1 of about 2 products",
        "Toy: 3 products",
        "Toy: 10 of 10 rows",
        "Toy: 10 of 10 rows",
    ]
    assert recorder.names("end") == [*TASKS, *PASS, *PASS, "fit"]
    assert Checkpoint(path, {"n": 60}).resume() == {"product": 1}
    toy.fit(cloud)
    assert "Toy: resumes from the checkpoint" in capsys.readouterr().err
    with pytest.raises(InputError, match="n is 60 there and 59 here"):
        toy.fit(cloud[:59])


def test_nothing_is_read_for_a_fingerprint_that_nobody_wants():
    def never():
        raise AssertionError

    with observing(Toy(), verbose=0, checkpoint=None, fingerprint=never) as observer:
        assert observer is SILENT


@pytest.mark.parametrize("verbose", [True, np.int64(2), 1])
def test_verbose_is_a_number(verbose, capsys):
    with observing(Toy(), verbose=verbose, checkpoint=None, fingerprint=dict) as observer:
        observer.step(1, 1, "rows", None)
    assert capsys.readouterr().err.startswith("Toy: 1 of 1 rows")


@pytest.mark.parametrize("verbose", [-1, "yes", None, 1.5])
def test_anything_else_is_refused(verbose):
    with (
        pytest.raises(InputError, match="verbose must be an integer >= 0"),
        observing(Toy(), verbose=verbose, checkpoint=None, fingerprint=dict),
    ):
        pass
