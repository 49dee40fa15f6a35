"""Fitted models from fitted models, without a refit: fewer components, another pre-image."""

from __future__ import annotations

from copy import copy, deepcopy
from dataclasses import replace
from typing import Any, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted

from mercer._core.errors import InputError, ParameterError, refuse
from mercer._core.memory import parse_bytes
from mercer._core.params import Number, is_whole
from mercer._core.public import Public
from mercer._core.types import Array
from mercer.data.dask import DaskRows, dask_kind
from mercer.data.frames import held
from mercer.data.rows import RowSource, take_rows
from mercer.data.training import TrainingData
from mercer.estimators.input import as_generator, check_width, new_rows, training_rows
from mercer.estimators.parameters import PreimageLike
from mercer.estimators.preimages import (
    fit_preimage,
    handed_over,
    named_preimage,
    needed_bytes,
    refuse_preimage,
)
from mercer.model import Fit
from mercer.model.result import first_reaching
from mercer.operators.sections import KernelSections
from mercer.preimage import Preimage

LOOKED_AT = 16  # rows of X that are compared with those a model keeps


def kept_components(n_components: Any, values: Array, total: float) -> int:
    """How many of the components that there are: a number of them, or as many as a share takes."""
    most, share = len(values), float(values.sum()) / total
    if is_whole(n_components) and 1 <= n_components <= most:
        return int(n_components)
    is_share = not is_whole(n_components) and Number(0, 1, ends="(]").holds(n_components)
    if is_share and n_components * (1.0 - 1e-12) <= share:
        return first_reaching(values, float(n_components) * total)
    wanted = (
        f"an integer from 1 to {most}, the components of this model, or a share of the variance of at most "
        f"{np.floor(1e4 * share) / 1e4:g}, which these keep"
    )
    raise ParameterError.about(parameter="n_components", value=n_components, must_be=wanted)


class Derivable(Public):
    """What a fitted projector can become without another fit."""

    n_components: int | float | None
    whiten: bool = False  # of estimators that have no such parameter

    def truncated(
        self, n_components: int | float, X: Any = None, sample_weight: Any = None
    ) -> Self:
        """The same model with fewer components: nothing is fitted again, and this one stays as it is.

        Parameters
        ----------
        n_components : int or float
            How many to keep, or the share of the variance that the kept ones must reach.
        X, sample_weight : optional
            The training rows, and their weights if they had any, for a model with a pre-image, which is
            learned anew, that does not keep its rows: an approximation or an explicit feature map.

        Returns
        -------
        model : a fitted estimator of the same class

        Examples
        --------
        >>> import numpy as np
        >>> from mercer import KernelPCA
        >>> X = np.random.default_rng(0).standard_normal((60, 3))
        >>> model = KernelPCA(10).fit(X)
        >>> few = model.truncated(2)
        >>> np.allclose(few.transform(X), model.transform(X)[:, :2]), few.n_components_
        (True, 2)
        """
        check_is_fitted(self)
        fit = self._current()
        k = kept_components(n_components, fit.eigenvalues, fit.total)
        asked = int(n_components) if is_whole(n_components) else float(n_components)
        found = self._copied(n_components=asked)
        found._become(fit.first(k, asked), X, sample_weight)
        return found

    def _copied(self, **params: Any) -> Self:
        """A copy that shares what was learned, with other parameters; of an engine, the one there is."""
        found = copy(self)
        vars(found).update(params)
        if "engine" in vars(self):  # a copy, like a pickle, would leave a client behind
            vars(found)["engine"] = vars(self)["engine"]
        return found

    def _become(self, fit: Fit, X: Any, sample_weight: Any) -> None:
        self.fit_ = fit
        del X, sample_weight

    def _current(self) -> Fit:
        raise NotImplementedError


class Returning(Derivable):
    """A projector with a kernel and a `preimage`."""

    preimage: PreimageLike

    def with_preimage(
        self, preimage: PreimageLike, X: Any = None, sample_weight: Any = None
    ) -> Self:
        """The same model with another pre-image: only that is learned, and this model stays as it is.

        Parameters
        ----------
        preimage : str, Preimage or None
            As in the constructor; None leaves it out.
        X, sample_weight : optional
            The training rows, and their weights if they had any. A model that keeps its rows, as an exact one
            does, needs none; one that keeps landmarks, features or a kernel matrix does.

        Returns
        -------
        model : a fitted estimator of the same class

        Examples
        --------
        >>> import numpy as np
        >>> from mercer import KernelPCA
        >>> X = np.random.default_rng(0).standard_normal((60, 3))
        >>> model = KernelPCA(10).fit(X)
        >>> back = model.with_preimage("ridge")
        >>> back.inverse_transform(back.transform(X[:4])).shape
        (4, 3)
        """
        check_is_fitted(self)
        method = named_preimage(preimage)
        found = self._copied(preimage=preimage)
        found._learn_preimage(method, X, sample_weight)
        return found

    def _become(self, fit: Fit, X: Any, sample_weight: Any) -> None:
        super()._become(fit, X, sample_weight)
        if "preimage_" in vars(self):
            self._learn_preimage(named_preimage(self.preimage), X, sample_weight)

    def _learn_preimage(self, method: Preimage | None, X: Any, sample_weight: Any) -> None:
        vars(self).pop("preimage_", None)
        fit, needed = self.fit_, 0
        if method is not None:
            model: Any = self  # an estimator with a kernel, a memory and a seed
            data = _rows_of(model, fit, X, sample_weight)
            exact, rough = not fit.is_low_rank, fit.plan.approximation
            refuse_preimage(method, data, model.kernel_, rough, keeps_rows=exact)
            handed = handed_over(method, data, None if X is None else sample_weight)
            width, k = fit.projection.sections.width, fit.projection.n_components
            allowed = parse_bytes(model.memory)
            needed = needed_bytes(method, data, width, k, rows_bytes=0, allowed=allowed)
            rng, w = as_generator(deepcopy(model.random_state)), data.weights
            self.preimage_ = fit_preimage(
                method, fit, model.kernel_, data.rows, weights=w, handed=handed, rng=rng
            )
        name = None if method is None else repr(method)
        self.plan_ = replace(fit.plan, preimage=name, preimage_bytes=needed)
        self.fit_ = replace(fit, plan=self.plan_)


def _rows_of(model: Any, fit: Fit, X: Any, sample_weight: Any) -> TrainingData:
    """The training rows: those that the model keeps, or X."""
    sections, exact = fit.projection.sections, not fit.is_low_rank
    if X is not None:
        X = held(X)
        if dask_kind(X) is None:
            new_rows(model, X, model._dtype)  # raises where columns have other names, or are others
        data = training_rows(model, X, sample_weight, pairwise=model.kernel_.is_precomputed)
        check_width(model, data.d, f"{data.d} columns", data.d)
        if exact:
            _require_same(fit, data)
        return _weighted(fit, data) if sample_weight is None else data
    if exact and isinstance(sections, KernelSections):
        if isinstance(sections.points, RowSource):  # still in a file
            sections.points.check_unchanged()
        weights = None if fit.roots is None else fit.roots**2
        return TrainingData(sections.points, weights)
    msg = (
        f"A pre-image is learned from the training rows, which this model does not keep: it rests on "
        f"{sections!r}. Pass the training rows too: model.with_preimage(…, X), model.truncated(…, X)."
    )
    raise InputError(msg)


def _require_same(fit: Fit, data: TrainingData) -> None:
    """Raise unless these are the rows of an exact fit: as many, and as those it keeps."""
    n, sections = len(fit.pairs.vectors), fit.projection.sections
    wanted = f"the {n} rows that the model was fitted to, in their order"
    if data.n != n:
        remedy = "Give the weights, zeros among them, as sample_weight."
        refuse("X", data.n, wanted, f"{data.n} rows", remedy)
    if isinstance(sections, KernelSections) and not isinstance(data.rows, DaskRows):
        some = np.unique(np.linspace(0, n - 1, LOOKED_AT).astype(int))
        given, kept = (take_rows(rows, some) for rows in (data.rows, sections.points))
        if abs(given.astype(kept.dtype) - kept).max() > 0:
            refuse("X", data.n, wanted, "other rows, or another order")


def _weighted(fit: Fit, data: TrainingData) -> TrainingData:
    """The rows with the weights of the fit, which was given some; raises where it does not keep them."""
    if fit.roots is not None and len(fit.roots) == data.n:
        return replace(data, weights=fit.roots**2)
    if not np.isclose(fit.weight, data.n, rtol=1e-9):
        wanted = f"the weights of the fit, whose sum is {fit.weight:.6g}, where X is given"
        refuse("sample_weight", None, wanted)
    return data
