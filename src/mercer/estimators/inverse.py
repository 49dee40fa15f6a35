"""From scores back to rows: for estimators that may have been given a way."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sklearn.utils.validation import check_is_fitted

from mercer._core.errors import InputError
from mercer.estimators.base import Projector
from mercer.estimators.preimages import preimages_for, warn_if_far, warn_if_unsettled

if TYPE_CHECKING:
    from mercer._core.types import Array
    from mercer.preimage import FittedPreimage


class Inverse(Projector):
    """`inverse_transform` and `reconstruct`, by the pre-image method that the fit was given."""

    def _way_back(self) -> FittedPreimage | None:
        """The way back; None where none was asked for."""
        return getattr(self, "preimage_", None)

    def _rows_are_sparse(self) -> bool:
        """Whether the training rows were sparse, which no way back leads to."""
        raise NotImplementedError

    def inverse_transform(self, X: Any) -> Array:
        """Points in input space whose scores are near the given ones.

        Parameters
        ----------
        X : array-like of shape (b, k)
            Scores. Where they lie far outside of the training scores, or their points far outside of the
            training rows, a `PreimageWarning` says so.

        Returns
        -------
        points : ndarray of shape (b, d)
        """
        check_is_fitted(self)
        back = self._way_back()
        if back is None:
            model: Any = self  # whoever has a `preimage` has a kernel
            ways = preimages_for(model.kernel_, self._current(), sparse=self._rows_are_sparse())
            msg = (
                "inverse_transform was called, but this model was fitted with preimage=None and knows no "
                f"way back. Fit it with {ways}."
            )
            raise InputError(msg)
        scores = self._scores(X)
        points, settled = back.found(scores)
        warn_if_unsettled(back, settled)
        warn_if_far(back, scores, points)
        return points.astype(self._dtype, copy=False)

    def reconstruct(self, X: Any) -> Array:
        """Each row as the components see it, back in input space: what noise they leave out is gone.

        Parameters
        ----------
        X : array-like of shape (b, d)
            Rows; for a precomputed kernel the (b, n) kernel values against the training points.

        Returns
        -------
        points : ndarray of shape (b, d)
            ``inverse_transform(transform(X))``.

        Examples
        --------
        >>> from sklearn.datasets import make_circles
        >>> from mercer import KernelPCA
        >>> X, _ = make_circles(200, noise=0.02, random_state=0)
        >>> model = KernelPCA(20, kernel="rbf", preimage="fixed-point").fit(X)
        >>> bool(abs(model.reconstruct(X) - X).max() < 0.01)
        True
        """
        return self.inverse_transform(self.transform(X))
