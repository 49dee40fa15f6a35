"""Saving: every fitted estimator goes into one file that holds no code."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mercer._core.public import Public
from mercer.io.model_file import save

if TYPE_CHECKING:
    import os


class Saving(Public):
    """`save`, beside `mercer.load`."""

    def save(
        self,
        path: str | os.PathLike[str],
        *,
        data: Any = None,
        about: dict[str, Any] | None = None,
    ) -> None:
        """Write the fitted model to a file, in a single step: the old file or the new one, never half.

        Parameters
        ----------
        path : str or path-like
            The file; ``.mercer`` is the usual ending.
        data : array-like, sparse matrix or source of rows, or a dict, optional
            The training rows, of which a digest is kept, so that others can tell what the model was
            fitted to; a dict is kept as it is. An exact fit keeps its rows anyhow and needs none.
        about : dict, optional
            Anything that JSON can hold, for people: who fitted it, with which command.

        Examples
        --------
        >>> import tempfile, numpy as np
        >>> import mercer
        >>> X = np.random.default_rng(0).standard_normal((40, 3))
        >>> model = mercer.KernelPCA(2).fit(X)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     model.save(f"{folder}/model.mercer")
        ...     again = mercer.load(f"{folder}/model.mercer")
        >>> np.array_equal(again.transform(X), model.transform(X))
        True
        """
        save(self, path, data=data, about=about)
