"""What a fitted model is, as one value: for `mercer info`, reports, exports, programs, and the model file."""

from __future__ import annotations

import math
import platform
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, fields
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from mercer._core.errors import InputError, many
from mercer._core.public import public
from mercer.data.frames import batch_rows
from mercer.data.rows import RowSource
from mercer.data.sources import as_source
from mercer.estimators import IncrementalKernelPCA, KernelPCA, KernelPCADetector
from mercer.estimators.anatomy import Anatomy
from mercer.estimators.base import Projector
from mercer.estimators.prepared import Prepared
from mercer.model import Fit
from mercer.model.checkpoint import digest as digest_of
from mercer.operators.sections import KernelSections
from mercer.persistence.schema import name_of

SHOWN = 100  # numbers of a list that people are shown
DROP_IN, PIPELINE = "sklearn.KernelPCA", "steps.Pipeline"
NESTED = {PIPELINE: "steps", "steps.ColumnTransformer": "transformers_"}
PREPARING = ("imputer", "encoder", "scaler")


@dataclass(frozen=True)
class ModelCard:
    """What a fitted model is, in texts and numbers that JSON can hold.

    Numbers that are not finite are None; of long lists the first 100 entries are here.

    Examples
    --------
    >>> import numpy as np
    >>> import mercer
    >>> X = np.random.default_rng(0).standard_normal((40, 3))
    >>> card = mercer.card(mercer.KernelPCA(2, kernel="rbf(gamma=2)").fit(X))
    >>> card.kernel, card.n, card.d, card.n_components, card.evidence["status"]
    ('RBF(gamma=2.0)', 40, 3, 2, 'CONVERGED')
    >>> mercer.ModelCard.from_dict(card.to_dict()) == card
    True
    """

    kind: str  # the class; sklearn.KernelPCA is the drop-in
    prepared: bool = False  # rows are prepared first, by a `Prepared` or by steps of a pipeline
    kernel: str | None = None  # as one writes it at the command line; None: linear PCA
    parameters: dict[str, Any] = field(default_factory=dict)  # of the kernel
    precomputed: bool = False  # takes kernel values in place of rows
    config: dict[str, Any] = field(default_factory=dict)  # parameters of the estimator
    # summary, the lines that `fit_` prints; n_components, eigenvalues, explained, residuals, trace_error,
    # certificate, status, route, weight
    evidence: dict[str, Any] = field(default_factory=dict)
    plan: str | None = None  # what ran
    limits: dict[str, Any] | None = None  # of a detector, with the statistic that decides
    preimage: dict[str, Any] | None = None  # method, and quality where it was measured
    features: tuple[str, ...] | None = None  # names of the columns that the model takes
    preparation: dict[str, Any] | None = None  # imputer, encoder and scaler, each a list of texts
    data: dict[str, Any] = field(default_factory=dict)  # n, d, dtype, digest of the training rows
    versions: dict[str, str] = field(default_factory=dict)

    @property
    def n(self) -> int | None:
        """The number of training rows, where it is known."""
        return self.data.get("n")

    @property
    def d(self) -> int | None:
        """The number of columns that the model takes."""
        return self.data.get("d")

    @property
    def n_components(self) -> int | None:
        """k, the number of components; None of a stream that has seen no variance yet."""
        return self.evidence.get("n_components")

    @property
    def explained(self) -> tuple[float, ...]:
        """The share of the variance that each component explains, where the total is known."""
        return tuple(self.evidence.get("explained") or ())

    @property
    def is_detector(self) -> bool:
        """Whether the model judges rows."""
        return self.limits is not None

    def to_dict(self) -> dict[str, Any]:
        """The card as JSON can hold it."""
        return vars(self) | {"features": None if self.features is None else list(self.features)}

    @classmethod
    def from_dict(cls, found: Mapping[str, Any]) -> ModelCard:
        """The card of `to_dict`, or in the header of a model file, whose other names are left out."""
        kind = found.get("kind") if isinstance(found, Mapping) else None
        if not isinstance(kind, str):
            msg = f"A card needs a kind, such as 'KernelPCA'; got {kind!r}."
            raise InputError(msg)
        known = {each.name: found[each.name] for each in fields(cls) if each.name in found}
        names = known.get("features")
        return cls(**known | {"features": None if names is None else tuple(names)})


@public
def card(model: Any, data: Any = None, *, digest: bool = True) -> ModelCard:
    """What a fitted model is: kind, kernel, evidence, plan, limits, pre-image, preparation, data.

    Parameters
    ----------
    model : fitted estimator, Prepared, or scikit-learn Pipeline that ends with a model of mercer
    data : array-like, sparse matrix or source of rows, or a dict, optional
        The training rows, of which a digest is made; a dict is taken as it is. Without it, the digest is
        that of the points that an exact fit keeps anyhow.
    digest : bool, default=True
        False: nothing is hashed.

    Returns
    -------
    card : ModelCard

    Examples
    --------
    >>> import mercer
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> model = make_pipeline(StandardScaler(), mercer.PCA(2)).fit(load_iris().data)
    >>> card = mercer.card(model)
    >>> card.kind, card.preparation["scaler"], [round(share, 2) for share in card.explained]
    ('PCA', ['StandardScaler()'], [0.73, 0.23])
    """
    inner = unwrapped(model)
    if not isinstance(inner, (Projector, KernelPCADetector)) and name_of(inner) != DROP_IN:
        kinds = "KernelPCA, PCA, IncrementalKernelPCA, KernelPCADetector, Prepared"
        takes = f"{kinds} or mercer.sklearn.KernelPCA, alone or as the last step of a pipeline"
        msg = f"card takes a fitted {takes}; got a {type(inner).__name__}."
        raise InputError(msg)
    check_is_fitted(inner)
    body = Anatomy(inner)
    kernel, limits = body.kernel, None
    if isinstance(inner, KernelPCADetector):
        limits = plain({**vars(inner.limits_), "statistic": inner._rule.statistic})
    return ModelCard(
        **identity(model) | {"features": Anatomy(model).feature_names},
        parameters={} if kernel is None else plain(kernel.get_params(deep=False)),
        precomputed=body.is_precomputed,
        config={name: plain(value) for name, value in inner.get_params(deep=False).items()},
        evidence=_evidence(body),
        plan=_plan(body),
        limits=limits,
        preimage=_preimage(body.projector),
        preparation=_preparation(model),
        data=_data(inner, data, digest=digest),
        versions=_versions(),
    )


# ── what a model is ─────────────────────────────────────────────────────────
def unwrapped(model: Any) -> Any:
    """The estimator, without the preparation of its rows."""
    if isinstance(model, Prepared):
        return model.model
    return unwrapped(model.steps[-1][1]) if name_of(model) == PIPELINE else model


def identity(model: Any) -> dict[str, Any]:
    """What a model file and its model have to agree on."""
    inner, features = unwrapped(model), Anatomy(model).feature_names
    body = Anatomy(inner)
    text = None if body.kernel is None else repr(body.kernel)
    if text is None and name_of(body.projector) == DROP_IN:
        text = str(body.projector.kernel)
    return {
        "kind": name_of(inner) or type(inner).__name__,  # a subclass has no name in files
        "prepared": inner is not model,
        "kernel": text,
        "features": None if features is None else list(features),
    }


def plain(value: Any) -> Any:
    """The value as JSON can hold it; what is neither number nor text is there as it prints."""
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
    return repr(value)


# ── evidence ────────────────────────────────────────────────────────────────
def _evidence(body: Anatomy) -> dict[str, Any]:
    if body.detector is not None:
        return _evidence(Anatomy(body.projector)) | {
            "limits": str(body.detector.limits_).splitlines(),
            "fingerprint": body.detector.fingerprint_,
            "lineage": [str(step) for step in body.detector.lineage_],
            "known_events": list(body.detector.known_events_.names),
        }
    fit, inner = body.fit, body.projector
    if fit is None and isinstance(inner, Projector):
        return {"summary": ["no component yet"]}
    if fit is None:  # the drop-in
        lines, values = str(inner.plan_).splitlines(), inner.eigenvalues_
        return {"summary": lines, "n_components": len(values), "eigenvalues": plain(values[:SHOWN])}
    return {
        "summary": str(fit).splitlines(),
        "n_components": int(fit.projection.n_components),
        "eigenvalues": plain(fit.eigenvalues[:SHOWN]),
        "explained": plain(fit.explained[:SHOWN]),
        "residuals": plain(fit.residuals[:SHOWN]),
        "trace_error": plain(float(fit.trace_error)),
        "certificate": None if fit.certificate is None else str(fit.certificate),
        "status": fit.pairs.status.name,
        "route": fit.plan.route,
        "weight": float(fit.weight),
    }


def _plan(body: Anatomy) -> str | None:
    if not isinstance(body.projector, Projector):
        return str(body.projector.plan_)
    return None if body.fit is None else str(body.fit.plan)


def _preimage(projector: Any) -> dict[str, Any] | None:
    if isinstance(projector, (KernelPCA, IncrementalKernelPCA)):
        if projector.preimage is None:
            return None
        found = vars(projector).get("preimage_")  # a stream fits its own when it is needed
        quality = None if found is None or found.quality is None else plain(vars(found.quality))
        method = projector.preimage if found is None else found.method
        return {"method": str(method), "quality": quality}
    if isinstance(projector, Projector):  # linear PCA: a projection is its own
        return {"method": "exact", "quality": None}
    ridge = {"method": f"ridge(alpha={projector.alpha})", "quality": None}
    return ridge if projector.fit_inverse_transform else None


# ── the preparation of rows ─────────────────────────────────────────────────
def _preparation(model: Any) -> dict[str, Any] | None:
    found: dict[str, Any] = {name: [] for name in PREPARING}
    if isinstance(model, Prepared):
        made = model.preparation
        if made.fills is not None:
            found["imputer"].append(f"a number for each of {many(len(made.numbers), 'column')}")
        found["encoder"] += [
            f"{n}: {many(len(levels), 'level')}{', others ignored' * (n in made.ignoring)}"
            for n, levels in made.categories
        ]
        if made.center is not None or made.spread is not None:
            found["scaler"].append("mean 0 and standard deviation 1")
        return found
    if name_of(model) != PIPELINE:
        return None
    for step in _steps(model):
        kind = next((n for n in PREPARING if n in type(step).__name__.lower()), "others")
        found.setdefault(kind, []).append(repr(step))
    return found


def _steps(model: Any) -> Iterator[Any]:
    """What stands before a model, one by one, however it is nested."""
    name = name_of(model)
    if name in NESTED:
        for _, step, *_ in getattr(model, NESTED[name]):
            yield from _steps(step)
    elif not isinstance(model, (str, Projector, KernelPCADetector, Prepared)) and name != DROP_IN:
        yield model


# ── the training rows ───────────────────────────────────────────────────────
def _data(inner: Any, given: Any, *, digest: bool) -> dict[str, Any]:
    if isinstance(given, dict):
        return {str(name): plain(value) for name, value in given.items()}
    rows, of = (_points(inner), "points") if given is None else (_rows(given), "data")
    unknown = dict.fromkeys(("dtype", "digest", "digest_of"))
    facts: dict[str, Any] = {"n": _count(inner), "d": int(inner.n_features_in_), **unknown}
    if rows is not None:
        facts |= {"n": int(rows.shape[0]), "dtype": str(rows.dtype)}
        facts |= {"digest": digest_of(rows), "digest_of": of} if digest else {}
    return facts


def _rows(given: Any) -> Any:
    source = as_source(given)
    return batch_rows(given, None, what="`data`")[0] if source is None else source


def _points(inner: Any) -> Any:
    if name_of(inner) == DROP_IN:
        return inner.X_fit_
    fit: Fit | None = vars(inner).get("fit_")
    if fit is None or fit.is_low_rank or not isinstance(fit.projection.sections, KernelSections):
        return None
    points = fit.projection.sections.points
    if isinstance(points, RowSource):
        points.check_unchanged()
    return points


def _count(inner: Any) -> int | None:
    projector = Anatomy(inner).projector
    if isinstance(projector, IncrementalKernelPCA):
        return int(projector.n_samples_seen_)
    fit: Fit | None = vars(projector).get("fit_")
    return int(fit.weight) if fit is not None and fit.weight == int(fit.weight) else None


def _versions() -> dict[str, str]:
    found = {"python": platform.python_version()}
    for package in ("numpy", "scipy", "scikit-learn"):
        found[package] = "unknown"  # where it is vendored without its metadata
        with suppress(PackageNotFoundError):
            found[package] = version(package)
    return found
