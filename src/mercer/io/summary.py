"""What a model file says about its model in words and plain numbers, for people and for `mercer info`."""

from __future__ import annotations

import math
import platform
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any

import numpy as np

from mercer._core.errors import InputError, MercerError
from mercer.data.rows import RowSource
from mercer.data.sources import as_source
from mercer.io.schema import name_of
from mercer.kernels.base import Kernel
from mercer.kernels.rows import as_rows
from mercer.kernels.text import kernel_text
from mercer.model.checkpoint import digest
from mercer.operators.sections import KernelSections

if TYPE_CHECKING:
    from mercer._core.types import Array
    from mercer.model import Fit

# Not a plain import: the root package names every layer above this one, though it loads none.
VERSION: str = import_module("mercer").__version__
SHOWN = 100  # numbers of a list that people are shown


def described(model: Any, data: Any, about: Any) -> dict[str, Any]:
    """The header of a model, less what is read back from it."""
    inner = unwrapped(model)
    return {
        "mercer_version": VERSION,
        **identity(model),
        "config": {name: plain(value) for name, value in inner.get_params(deep=False).items()},
        "evidence": _evidence(inner),
        "data": _data(inner, data),
        "about": plain(about),
        "versions": _versions(),
    }


def unwrapped(model: Any) -> Any:
    """The estimator, without the preparation of its rows."""
    return model.model if name_of(model) == "Prepared" else model


def identity(model: Any) -> dict[str, Any]:
    """What a model is, as `mercer info` tells it before anybody uses it."""
    inner = unwrapped(model)
    names = getattr(inner, "feature_names_in_", None)
    if inner is not model:
        names = model.preparation.features
    return {
        "kind": name_of(inner),
        "prepared": inner is not model,
        "kernel": _kernel_text(inner),
        "features": None if names is None else [str(name) for name in names],
    }


def plain(value: Any) -> Any:
    """The value as JSON can hold it and people can read it; what is neither number nor text is told."""
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, np.ndarray):
        return plain(value.tolist()) if value.size <= SHOWN else f"array of shape {value.shape}"
    if isinstance(value, (list, tuple)):
        return [plain(part) for part in value]
    if isinstance(value, dict):
        return {str(name): plain(part) for name, part in value.items()}
    return text_of(value) if isinstance(value, Kernel) else repr(value)


def text_of(kernel: Kernel) -> str:
    """The kernel as one would write it on the command line, or as it prints where there is no such text."""
    try:
        return kernel_text(kernel)
    except MercerError:
        return repr(kernel)


def _kernel_text(model: Any) -> str | None:
    model = getattr(model, "model_", model)  # inside of a detector
    kernel = getattr(model, "kernel_", None)
    if kernel is None and hasattr(model, "_projection"):  # the drop-in
        kernel = getattr(model._projection.sections, "kernel", None)
        return str(model.kernel) if kernel is None else text_of(kernel)
    return None if kernel is None else text_of(kernel)


# ── evidence ────────────────────────────────────────────────────────────────
def _evidence(model: Any) -> dict[str, Any]:
    limits = getattr(model, "limits_", None)
    if limits is not None:
        return {**_evidence(model.model_), "limits": str(limits).splitlines()}
    if hasattr(model, "_projection"):
        values = model.eigenvalues_
        return {"summary": str(model.plan_).splitlines(), "eigenvalues": _first(values)}
    fit: Fit | None = getattr(model, "fit_", None)  # None: a stream that has no variance yet
    if fit is None:
        return {"summary": ["no component yet"]}
    return {
        "summary": str(fit).splitlines(),
        "n_components": int(fit.projection.n_components),
        "eigenvalues": _first(fit.eigenvalues),
        "explained": _first(fit.explained),
        "residuals": _first(fit.residuals),
        "trace_error": plain(float(fit.trace_error)),
        "status": fit.pairs.status.name,
        "route": fit.plan.route,
        "weight": float(fit.weight),
    }


def _first(values: Array) -> list[Any]:
    return [plain(value) for value in values[:SHOWN]]


# ── the training rows ───────────────────────────────────────────────────────
def _data(model: Any, given: Any) -> dict[str, Any]:
    if isinstance(given, dict):
        found = plain(given)
        assert isinstance(found, dict)
        return found
    rows, of = (_points(model), "points") if given is None else (_rows(given), "data")
    facts: dict[str, Any] = {
        "n": _count(model),
        "d": int(model.n_features_in_),
        "dtype": None,
        "digest": None,
    }
    if rows is not None:
        facts |= {"n": int(rows.shape[0]), "dtype": str(rows.dtype), "digest": digest(rows)}
    return {**facts, "digest_of": None if rows is None else of}


def _rows(given: Any) -> Any:
    source = as_source(given)
    if source is not None:
        return source
    if hasattr(given, "to_numpy"):
        given = given.to_numpy()
    try:
        return as_rows(given)
    except (TypeError, ValueError) as error:
        msg = f"`data` needs the training rows, numbers in a 2-D array or a file, but: {error}"
        raise InputError(msg) from error


def _points(model: Any) -> Any:
    """The training rows, where an exact fit keeps them."""
    fit: Fit | None = vars(model).get("fit_")
    if hasattr(model, "_projection"):
        return model.X_fit_
    if fit is None or fit.is_low_rank or not isinstance(fit.projection.sections, KernelSections):
        return None
    points = fit.projection.sections.points
    if isinstance(points, RowSource):
        points.check_unchanged()
    return points


def _count(model: Any) -> int | None:
    model = getattr(model, "model_", model)
    if hasattr(model, "n_samples_seen_"):
        return int(model.n_samples_seen_)
    fit: Fit | None = vars(model).get("fit_")
    return int(fit.weight) if fit is not None and fit.weight == int(fit.weight) else None


def _versions() -> dict[str, str]:
    found = {"python": platform.python_version()}
    for package in ("numpy", "scipy", "scikit-learn"):
        try:
            found[package] = version(package)
        except PackageNotFoundError:  # vendored without its metadata
            found[package] = "unknown"
    return found
