"""What a fitted model is made of, whichever class it is: cards, views, exports and use cases ask here."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from mercer._core.errors import ParameterError, refuse
from mercer._core.types import Array
from mercer._core.wording import Message
from mercer.data.arrays import is_a
from mercer.estimators.base import Projector
from mercer.estimators.detector import KernelPCADetector
from mercer.estimators.drop_in import Evidence, is_precomputed
from mercer.estimators.incremental import IncrementalKernelPCA
from mercer.estimators.kernel_pca import KernelPCA
from mercer.estimators.prepared import Prepared
from mercer.kernels import Kernel
from mercer.model import Fit
from mercer.operators.sections import KernelSections
from mercer.preimage.base import FittedPreimage


def is_model(thing: Any) -> bool:
    """Whether this is a model, of mercer or of another library, and not rows."""
    return isinstance(thing, (BaseEstimator, Prepared))


def is_fitted(model: Any) -> bool:
    """Whether a model has seen rows; all of scikit-learn's form say so by the number of their columns."""
    return hasattr(model, "n_features_in_")


def is_pipeline(model: Any) -> bool:
    """Whether this is scikit-learn's `Pipeline`, which is not imported for the question."""
    return is_a(model, "sklearn.pipeline", "Pipeline")


def require_fitted(model: Any, kind: type | tuple[type, ...], names: str) -> None:
    """Raise unless it is a fitted model of such a kind."""
    if not isinstance(model, kind):
        step = "Pass its last step, model[-1], and the rows that reach it, model[:-1].transform(X)."
        remedy = step if is_pipeline(model) else ""
        refuse("model", model, f"a fitted mercer.{names}", f"a {type(model).__name__}", remedy)
    check_is_fitted(model)


@dataclass(frozen=True, eq=False)
class Anatomy:
    """A fitted model, and its parts: of mercer, or of another library that keeps to scikit-learn's names."""

    model: Any

    @property
    def detector(self) -> KernelPCADetector | None:
        """The model, where it judges rows."""
        return self.model if isinstance(self.model, KernelPCADetector) else None

    @property
    def is_detector(self) -> bool:
        """Whether it judges rows, in place of giving scores."""
        return self.detector is not None

    @property
    def projector(self) -> Any:
        """What gives scores: the model, or the one inside a detector."""
        return self.model if self.detector is None else self.detector.model_

    @property
    def fit(self) -> Fit | None:
        """The evidence; None of a stream without variance yet, and of a model that keeps none."""
        return getattr(self.projector, "fit_", None)

    @property
    def kernel(self) -> Kernel | None:
        """The kernel with every parameter a number; None of linear PCA, and of kernel values alone."""
        model = self.projector
        if isinstance(model, (KernelPCA, IncrementalKernelPCA)):
            return model.kernel_
        sections = model._projection.sections if isinstance(model, Evidence) else None
        return sections.kernel if isinstance(sections, KernelSections) else None

    @property
    def is_precomputed(self) -> bool:
        """Whether it was fitted to kernel values, and never saw rows."""
        if self.kernel is not None:
            return self.kernel.is_precomputed
        return is_precomputed(vars(self.projector).get("kernel"))

    @property
    def has_preimage(self) -> bool:
        """Whether scores lead back to rows; `fit_inverse_transform` is scikit-learn's name for it."""
        model = self.projector
        if isinstance(model, (KernelPCA, IncrementalKernelPCA)):
            return model.preimage is not None
        return bool(vars(model).get("fit_inverse_transform", hasattr(model, "inverse_transform")))

    def require_preimage(self, what: str) -> None:
        """Refuse a model whose scores don't lead back to rows."""
        if not self.has_preimage:
            template = (
                "{what} needs a way from scores back to rows, and this {kind} has none. Fit with one, such "
                "as {preimage:'ridge'}."
            )
            raise ParameterError(Message(template, what=what, kind=type(self.model).__name__))

    @property
    def preimage(self) -> FittedPreimage | None:
        """What was fitted for it, where that was done with the model; a stream fits its own when asked."""
        return vars(self.projector).get("preimage_")

    @property
    def measures_distance(self) -> bool:
        """Whether the distance of a row from the components is known."""
        return isinstance(self.projector, Projector) and not self.is_precomputed

    @property
    def eigenvalues(self) -> Array:  # (k,)
        """The eigenvalues; the variances where the model has no others."""
        if is_pipeline(self.model):
            Prepared.from_pipeline(self.model)  # which names the step that can't be looked behind
        model = self.projector
        found = getattr(model, "eigenvalues_", None)
        return np.asarray(model.explained_variance_ if found is None else found, dtype=np.float64)

    @property
    def shares(self) -> Array | None:  # (k,)
        """The share of the whole variance of each component; None where the whole is not known."""
        found = getattr(self.projector, "explained_variance_ratio_", None)
        if found is None or np.isnan(found).any():
            return None
        return np.clip(np.asarray(found, dtype=np.float64), 0.0, 1.0)

    @property
    def dtype(self) -> np.dtype[Any]:
        model = self.projector
        return model._dtype if isinstance(model, Projector) else np.dtype(np.float64)

    @property
    def feature_names(self) -> tuple[str, ...] | None:
        """Names of the columns that the model takes, where they are known."""
        if isinstance(self.model, Prepared):
            return tuple(self.model.preparation.features)
        # A pipeline has those of its first step.
        names = getattr(self.model, "feature_names_in_", None)
        return None if names is None else tuple(map(str, names))
