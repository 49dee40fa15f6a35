"""What `mercer fit` would do: for --dry-run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mercer import PCA, IncrementalKernelPCA, KernelPCA, KernelPCADetector
from mercer._core.errors import many
from mercer._core.memory import format_bytes
from mercer.estimators.detector_parts import chosen_model
from mercer.stream.batch import stream_bytes

if TYPE_CHECKING:
    from mercer.cli.frame import Talk


def tell_plan(talk: Talk, model: Any, rows: Any, weights: dict[str, Any]) -> None:
    """The plan of a fit; nothing is fitted."""
    n, d = rows.shape
    results: dict[str, Any] = {"n": n, "d": d, "estimator": repr(model), "dry_run": True}
    if isinstance(model, IncrementalKernelPCA):
        n_bytes = stream_bytes(model.max_landmarks, model.batch_size, d)
        lines = [f"one pass, at most {model.max_landmarks} rows kept, {format_bytes(n_bytes)}"]
        results |= {"route": "low-rank", "bytes": n_bytes}
    else:
        plan = _planner(model, rows).plan(rows, **weights)
        lines = str(plan).splitlines()
        results |= {"route": plan.route, "bytes": plan.n_bytes, "products": plan.n_products}
        results |= {"seconds": plan.seconds}
        results |= {
            "preimage_bytes": plan.preimage_bytes,
            "preimage_seconds": plan.preimage_seconds,
        }
    if isinstance(model, KernelPCADetector) and model.limits == "cross-validation":
        lines.append(f"  and once more for each of {model.folds} stretches of rows held out")
    talk.say("dry run: nothing was fitted, nothing was written")
    head = f"{model!r} of {many(n, 'row')} x {many(d, 'feature')}"
    talk.tell({**results, "plan": lines}, "\n".join([head, *lines]))


def _planner(model: Any, rows: Any) -> KernelPCA:
    """The kernel PCA that is planned as this model is: linear PCA is that of the linear kernel."""
    if isinstance(model, KernelPCADetector):
        found = chosen_model(model, rows)
        assert isinstance(found, KernelPCA)  # the command line hands over no other
        return found
    if isinstance(model, PCA):
        return KernelPCA(
            model.n_components,
            kernel="linear",
            solver=model.solver,
            memory=model.memory,
            engine=model.engine,
        )
    assert isinstance(model, KernelPCA)
    return model
