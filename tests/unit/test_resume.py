"""A fit that was killed goes on from its checkpoint and ends where it would have ended, to the last bit.

This file is also the script that is killed: ``python test_resume.py CASE PATH every|seldom``.
"""

import importlib.util
import os
import signal
import subprocess
import sys
from functools import partial
from pathlib import Path

import numpy as np
import pytest

import mercer
from mercer.errors import InputError
from mercer.estimators import progress
from mercer.kernels import RBF
from mercer.model.checkpoint import Checkpoint
from mercer.operators import Gram
from mercer.planning.recipe import Tiles
from mercer.solvers import BlockKrylov

# A fit is stopped by a callback, at a step of its own.
calls_back = pytest.mark.skipif(
    importlib.util.find_spec("sklearn.callback") is None,
    reason="callbacks came with scikit-learn 1.9",
)

# The step at which the fit is killed, the dtype, the weights, and what is asked of the solver. A block
# narrower than the number of components draws random vectors in the middle of the work.
CASES = {
    "plain": (3, np.float64, False, "auto"),
    "narrow block": (9, np.float64, False, BlockKrylov(tol=1e-8, block=2, max_basis=14)),
    "weighted float32": (3, np.float32, True, BlockKrylov(tol=1e-5)),
    "all tiles held": (3, np.float64, False, "auto"),
}


def fit(case, path, *callbacks, seed=0):
    """Matrix-free: K would take 32 MB, of which half has to do, and there is room for neither.

    But for one case: there its tiles are held, and have to be made again as they were.
    """
    _, dtype, weighted, solver = CASES[case]
    rng = np.random.default_rng(7)
    n, memory = (3200, "60MB") if case == "all tiles held" else (2000, "16MB")
    x = rng.standard_normal((n, 6)).astype(dtype)
    weights = rng.integers(1, 4, n).astype(float) if weighted else None
    model = mercer.KernelPCA(
        3, kernel=RBF(0.05), solver=solver, memory=memory, checkpoint=path, random_state=seed
    )
    if callbacks:
        model.set_callbacks(*callbacks)
    scores = model.fit_transform(x, sample_weight=weights)
    return model, scores


class Signal:
    """A callback that sends this process a signal at the end of a given step."""

    def __init__(self, number, step):
        self.number, self.step = number, step

    def setup(self, estimator, context): ...

    def teardown(self, estimator, context): ...

    def on_fit_task_begin(self, estimator, context): ...

    def on_fit_task_end(self, estimator, context):
        del estimator
        if context.task_name == f"{self.step} products":
            os.kill(os.getpid(), self.number)


def killed(case, path, how):
    """Run a fit in a process of its own that is killed in the middle."""
    found = subprocess.run(
        [sys.executable, __file__, case, str(path), how],
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert found.returncode == -signal.SIGKILL, found.stderr


def counted(monkeypatch):
    """The products with K that are made from now on."""
    products, matmat = [], Gram.matmat

    def counting(self, v):
        products.append(1)
        return matmat(self, v)

    monkeypatch.setattr(Gram, "matmat", counting)
    return products


def assert_same(found, expected):
    for one, other in zip(found, expected, strict=True):
        assert one.dtype == other.dtype
        np.testing.assert_array_equal(one, other)


def results(model, scores):
    return (
        scores,
        model.eigenvalues_,
        model.eigenvectors_,
        model.residuals_,
        model.fit_.projection.coef,
    )


@calls_back
@pytest.mark.parametrize(
    ("case", "how"),
    [
        ("plain", "every"),
        ("plain", "seldom"),
        ("narrow block", "every"),
        ("weighted float32", "every"),
    ],
)
def test_a_killed_fit_ends_where_it_would_have_ended(tmp_path, monkeypatch, case, how):
    path = tmp_path / "fit.ckpt"
    killed(case, path, how)
    products = counted(monkeypatch)
    fresh, fresh_scores = fit(case, None)
    n_fresh = len(products)
    assert isinstance(fresh.plan_.recipe, Tiles)
    assert fresh.fit_.pairs.n_products > CASES[case][0], "the kill came too late to mean anything"
    products.clear()
    resumed, scores = fit(case, path)
    assert_same(results(resumed, scores), results(fresh, fresh_scores))
    assert resumed.fit_.pairs.n_products == fresh.fit_.pairs.n_products
    # What the killed process had done is not done again: one product, or all up to the kill.
    assert n_fresh - len(products) >= (CASES[case][0] if how == "every" else 1)


@calls_back
@pytest.mark.parametrize("how", ["every", "seldom"])
def test_held_tiles_are_made_again_as_they_were(tmp_path, how):
    path = tmp_path / "fit.ckpt"
    killed("all tiles held", path, how)
    fresh, fresh_scores = fit("all tiles held", None)
    assert fresh.plan_.recipe.proof is not None
    assert fresh.plan_.recipe.share == 1.0
    assert fresh.fit_.pairs.unseen is not None
    resumed, scores = fit("all tiles held", path)
    assert_same(results(resumed, scores), results(fresh, fresh_scores))
    assert resumed.fit_.pairs.n_products == fresh.fit_.pairs.n_products


@calls_back
def test_ctrl_c_leaves_a_checkpoint_to_go_on_from(tmp_path):
    path = tmp_path / "fit.ckpt"
    with pytest.raises(KeyboardInterrupt):
        fit("plain", path, Signal(signal.SIGINT, 3))
    assert_same(results(*fit("plain", path)), results(*fit("plain", None)))


def test_a_finished_fit_can_be_had_again(tmp_path, monkeypatch):
    path = tmp_path / "fit.ckpt"
    first = results(*fit("plain", path))
    content = path.read_bytes()
    monkeypatch.setattr(progress, "Checkpoint", partial(Checkpoint, pause=1e9))
    assert_same(results(*fit("plain", path)), first)
    assert path.read_bytes() == content


def test_the_checkpoint_of_another_fit_is_refused_and_left_alone(tmp_path):
    path = tmp_path / "fit.ckpt"
    fit("plain", path)
    content = path.read_bytes()
    with pytest.raises(InputError, match=r"belongs to another fit: .*solver"):
        fit("narrow block", path)
    with pytest.raises(
        InputError, match=r"belongs to another fit: .*dtype is float64 there and float32"
    ):
        fit("weighted float32", path)
    with pytest.raises(InputError, match="belongs to another fit"):
        fit("plain", path, seed=1)
    path.write_bytes(content[:-1])
    with pytest.raises(InputError, match="damaged"):
        fit("plain", path)
    assert path.read_bytes() == content[:-1]


if __name__ == "__main__":
    name, target, how_often = sys.argv[1:]
    if how_often == "every":  # else the first state, and one every ten seconds
        progress.Checkpoint = partial(Checkpoint, pause=0.0, patience=0.0)
    fit(name, Path(target), Signal(signal.SIGKILL, CASES[name][0]))
