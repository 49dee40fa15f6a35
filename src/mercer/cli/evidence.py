"""What a fitted model has to show for itself: numbers for --json, lines for people."""

from __future__ import annotations

from typing import Any

import numpy as np

from mercer._core.errors import many
from mercer.kernels.text import kernel_text

SHOWN = 10  # components in a table for people
KINDS = {
    "KernelPCA": "kernel PCA",
    "PCA": "linear PCA",
    "KernelPCADetector": "a detector on kernel PCA",
    "IncrementalKernelPCA": "kernel PCA of a stream",
}


def projector(model: Any) -> Any:
    """The model that has components: a detector's own, or the model itself."""
    return getattr(model, "model_", model)


def facts(model: Any) -> dict[str, Any]:
    """The evidence as numbers."""
    inner = projector(model)
    fit = inner.fit_
    found: dict[str, Any] = {
        "kind": type(model).__name__,
        "kernel": told_kernel(inner),
        "components": int(inner.n_components_),
        "eigenvalues": inner.eigenvalues_,
        "explained_variance_ratio": inner.explained_variance_ratio_,
        "variance_kept": float(np.sum(inner.explained_variance_ratio_)),
        "total": float(fit.total),
        "residuals": inner.residuals_,
        "largest_residual": float(np.max(inner.residuals_, initial=0.0)),
        "status": fit.pairs.status.name,
        "route": fit.plan.route,
        "solver": repr(fit.plan.approximation or fit.plan.solver),
        "trace_left_out": float(fit.trace_error),
        "bounds": fit.bounds,
        "evidence": str(fit).splitlines(),
    }
    if (back := getattr(inner, "preimage_", None)) is not None:
        found["preimage"] = repr(back.method)
        found["preimage_quality"] = None if back.quality is None else str(back.quality)
    if (limits := getattr(model, "limits_", None)) is not None:
        found["limits"] = {"T2": limits.t2, "Q": limits.q, "index": limits.index}
    return found


def told_kernel(model: Any) -> str:
    """The kernel as an expression; linear PCA has the linear one."""
    kernel = getattr(model, "kernel_", None)
    return "Linear()" if kernel is None else kernel_text(kernel)


def told(model: Any, *, n: int, d: int) -> str:
    """The evidence for people."""
    inner = projector(model)
    kind = KINDS.get(type(model).__name__, type(model).__name__)
    lines = [f"{kind} of {many(n, 'row')} x {many(d, 'feature')}"]
    lines += [f"kernel      {told_kernel(inner)}", *str(inner.fit_).splitlines()]
    if (back := getattr(inner, "preimage_", None)) is not None:
        quality = "" if back.quality is None else f": {back.quality}"
        lines.append(f"way back    {back.method!r}{quality}")
    if (limits := getattr(model, "limits_", None)) is not None:
        lines.append(f"limits      {limits}")
    return "\n".join([*lines, "", *_table(inner)])


def _table(model: Any) -> list[str]:
    shares, bounds = model.explained_variance_ratio_, model.fit_.bounds
    lines = [f"{'component':>9}  {'eigenvalue':>12}  {'between':>27}  {'variance':>8}  {'sum':>7}"]
    for j in range(min(len(shares), SHOWN)):
        low, high = bounds[j]
        lines.append(
            f"{j:>9}  {model.eigenvalues_[j]:>12.6g}  {f'{low:.6g} and {high:.6g}':>27}  "
            f"{shares[j]:>8.2%}  {np.sum(shares[: j + 1]):>7.2%}"
        )
    if len(shares) > SHOWN:
        lines.append(f"{'…':>9}  and {len(shares) - SHOWN} more; --json has them all")
    return lines
