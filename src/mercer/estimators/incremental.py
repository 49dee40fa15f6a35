"""Kernel PCA of rows that come in batches, as a scikit-learn estimator."""

from __future__ import annotations

from copy import copy
from dataclasses import KW_ONLY, dataclass, field, replace
from typing import Any, Self

import numpy as np

from mercer._core.errors import ZeroVarianceError, refuse
from mercer._core.public import public
from mercer._core.types import Rows
from mercer.estimators.base import Projector, warn_of
from mercer.estimators.derived import Returning
from mercer.estimators.form import STREAM
from mercer.estimators.input import (
    as_generator,
    check_n_components,
    check_weights,
    remember,
    training_rows,
)
from mercer.estimators.parameters import EngineLike, KernelLike, PreimageLike, Seed
from mercer.estimators.preimages import fit_preimage, named_preimage, refuse_stream_preimage
from mercer.estimators.progress import observing
from mercer.estimators.streaming import Reader, batch_rows, stream_rules
from mercer.kernels import Kernel
from mercer.model import Fit
from mercer.preimage import FittedPreimage, Preimage
from mercer.solvers.base import Status
from mercer.stream.dictionary import stream_bytes
from mercer.stream.incremental import Stream


@public
@dataclass(eq=False, repr=False)
class IncrementalKernelPCA(Returning, Projector):
    """Kernel PCA of a stream: rows are seen once, in batches, and memory does not grow with their number.

    A dictionary of at most m = `max_landmarks` rows Z stands for the feature space. Each row is projected
    onto the span of φ(Z) as it comes, and only the mean and the scatter of the projections are kept. The
    dictionary takes in rows that it misses, by randomly pivoted Cholesky; when it is full, it keeps the
    points that hold most of what was seen. What was missed is counted, and bounds the true eigenvalues.

    A batch of b rows costs O(bm²), and O(m³) when points are exchanged; the model O(m²) memory.

    Parameters
    ----------
    n_components : int, float or None, default=2
        As in `KernelPCA`. While the rows so far have fewer, ``n_components_`` is smaller: `fit` warns then,
        `partial_fit` does not, since a stream may begin small.
    kernel : str, Kernel or callable, default="rbf"
        As in `KernelPCA`, but not ``"precomputed"``. A parameter that depends on data, such as
        ``gamma="median"``, is read off the first batch (of equal rows: and the first that differs) and then
        stays: give a number where these may not look like the rest.
    preimage : str, Preimage or None, default=None
        As in `KernelPCA`; learned from the landmarks, when it is asked for. Landmarks are spread out, not
        typical: `"gradient"` and `"fixed-point"`, which only start there, do better than `"ridge"`.
    max_landmarks : int, default=500
        The most rows that the dictionary may hold.
    tol : float, default=1e-4
        Share of a batch's Σk(x, x) that the dictionary may miss before it takes in new points; components
        with a smaller share of the variance are not found well. Smaller: more landmarks, tighter bounds, as
        long as `max_landmarks` leaves room and down to about 1e-6 (1e-4 for rows in float32), below which
        rounding may set the limit: a landmark that the others leave nearly nothing of goes, and rows that
        were seen lose that little. With too few landmarks a small `tol` drops points and takes them in
        again in turn, which may widen the bounds: raise `max_landmarks`.
    forgetting : float, default=1.0
        In (0, 1]: what the weight of every row is multiplied by when the next row comes, so that the
        last 1/(1 - forgetting) rows or so count, however they are cut into batches.
    batch_size : int, default=1000
        Rows that are worked on at a time, of a longer X too.
    engine, verbose, random_state
        As in `KernelPCA`; the seed is that of the pivots and of the sampled median.

    Attributes
    ----------
    n_components_, kernel_, eigenvalues_, explained_variance_, preimage_
        As in `KernelPCA`, of all rows so far, weighted as they are by now.
    explained_variance_ratio_ : ndarray of shape (k,)
        Shares of the total variance, of which what the dictionary missed is a part.
    landmarks_ : ndarray or sparse matrix of shape (m, d)
        The rows in the dictionary.
    n_samples_seen_ : int
        Rows seen since the last `fit`, or since the first `partial_fit`.
    fit_ : Fit
        The fitted value: projection and evidence. Print it. ``fit_.trace_error`` is the share of tr K
        that was missed, ``fit_.bounds`` are bounds on the eigenvalues of an exact fit to all rows.
    stream_ : Stream
        The running sums.

    See Also
    --------
    KernelPCA : All rows at once; exact.
    mercer.approximations.RPCholesky : Landmarks for rows that are all there.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer import IncrementalKernelPCA
    >>> from mercer.kernels import RBF
    >>> rng = np.random.default_rng(0)
    >>> model = IncrementalKernelPCA(2, kernel=RBF(gamma=0.1), max_landmarks=50)
    >>> for _ in range(10):
    ...     model = model.partial_fit(rng.standard_normal((100, 3)))
    >>> model.n_samples_seen_, len(model.landmarks_) <= 50
    (1000, True)
    >>> model.transform(rng.standard_normal((4, 3))).shape
    (4, 2)
    """

    _advice = STREAM

    n_components: int | float | None = 2
    _: KW_ONLY
    kernel: KernelLike = "rbf"
    preimage: PreimageLike = None
    max_landmarks: int = 500
    tol: float = 1e-4
    forgetting: float = 1.0
    batch_size: int = 1000
    engine: EngineLike = "auto"
    verbose: int = 0
    random_state: Seed = None

    stream_: Stream = field(init=False)
    _cached: Fit | None = field(init=False)
    _back: tuple[Fit, Preimage, FittedPreimage] | None = field(init=False)

    # ── fit ─────────────────────────────────────────────────────────────────
    def _fit(self, X: Any, sample_weight: Any = None) -> Fit:
        data = training_rows(self, X, sample_weight)
        with observing(self, verbose=self.verbose) as observer:
            stream = Reader(self, None, X, data.rows).read(data.weights, observer)
        fit = self._solved(stream)
        n = data.n if data.weights is None else int(np.count_nonzero(data.weights))
        if stream.n_rows < n:
            fit = replace(fit, pairs=replace(fit.pairs, status=Status.STOPPED))
        warn_of(fit)  # a warning may be an error, and then nothing has happened
        self._record(stream, X, data.rows, fit)
        return fit

    def partial_fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Take in one more batch. A batch that raises leaves the model as it was.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (b, d), or a source of rows
            The next rows, in their order; one is enough.
        y : ignored
        sample_weight : array-like of shape (b,), optional
            How often each row counts: 2 is a row that is there twice, 0 one that is not there.

        Returns
        -------
        self
        """
        del y
        past = self.__dict__.get("stream_")
        rows = batch_rows(self, X, past)
        weights = check_weights(sample_weight, int(rows.shape[0]), least=0)
        self._record(Reader(self, past, X, rows).read(weights), X, rows, None)
        return self

    def _check_stream(self) -> None:
        """Raise unless the stream can go on with these parameters, which in a model file may be any."""
        stream_rules(self)
        refuse_stream_preimage(named_preimage(self.preimage), self.stream_)

    def _record(self, stream: Stream, X: Any, rows: Rows, fit: Fit | None) -> None:
        """Only now, with everything done, does the estimator change."""
        if fit is not None or "stream_" not in self.__dict__:
            remember(self, X, rows)
        self.stream_, self._dtype = stream, stream.dtype
        self._cached = fit

    def _become(self, fit: Fit, X: Any, sample_weight: Any) -> None:
        """The number of components is read off the stream's sums, and the pre-image off its landmarks."""
        self._cached = fit if _is_same(fit.asked, self.n_components) else None
        del X, sample_weight

    def _learn_preimage(self, method: Preimage | None, X: Any, sample_weight: Any) -> None:
        if X is not None or sample_weight is not None:
            wanted = "None: the pre-image of a stream is learned from its landmarks"
            refuse("X", X, wanted, f"a {type(X).__name__}")
        refuse_stream_preimage(method, self.stream_)

    # ── what was found ──────────────────────────────────────────────────────
    def _solved(self, stream: Stream) -> Fit:
        asked = check_n_components(self.n_components, int(self.max_landmarks), "max_landmarks")
        m, d = int(self.max_landmarks), int(stream.dictionary.points.shape[1])
        return stream.fit(asked, n_bytes=stream_bytes(m, int(self.batch_size), d))

    def _current(self) -> Fit:
        """The small eigenproblem, solved when it is asked for, once between two batches."""
        cached = self._cached
        if cached is None or not _is_same(cached.asked, self.n_components):
            cached = self._cached = self._solved(self.stream_)
        return cached

    def _fitted(self, name: str) -> Fit:
        self._seen(name)
        try:
            return self._current()
        except ZeroVarianceError as error:  # hasattr(model, "eigenvalues_"): not yet
            raise AttributeError(str(error)) from error

    @property
    def fit_(self) -> Fit:  # type: ignore[override]
        """Projection and evidence, of the rows seen so far."""
        return self._fitted("fit_")

    @property
    def preimage_(self) -> FittedPreimage:  # type: ignore[override]
        """The pre-image: learned from the landmarks when it is asked for, once between two batches."""
        fit, method = self._fitted("preimage_"), named_preimage(self.preimage)
        if method is None:
            msg = "`preimage_` needs a pre-image method; got preimage=None. Use `with_preimage`."
            raise AttributeError(msg)
        back: tuple[Fit, Preimage, FittedPreimage] | None = self.__dict__.get("_back")
        if back is None or back[0] is not fit or back[1] != method:
            refuse_stream_preimage(method, self.stream_)
            rng = as_generator(self.random_state)
            found = fit_preimage(method, fit, self.kernel_, self.landmarks_, rng=rng)
            back = self._back = (fit, copy(method), found)
        return back[2]

    @property
    def _sparse(self) -> bool:
        return hasattr(self.landmarks_, "indptr")

    def _seen(self, name: str) -> Stream:
        if "stream_" not in self.__dict__:
            super()._fitted(name)  # raises
        return self.stream_

    @property
    def kernel_(self) -> Kernel:
        """The kernel with every parameter a number."""
        return self._seen("kernel_").dictionary.kernel

    @property
    def landmarks_(self) -> Rows:
        """The rows in the dictionary."""
        return self._seen("landmarks_").dictionary.points

    @property
    def n_samples_seen_(self) -> int:
        """Rows seen, without those of weight zero."""
        return self._seen("n_samples_seen_").n_rows


def _is_same(asked: Any, n_components: Any) -> bool:
    """1 component is not 1.0, all of the variance."""
    return asked == n_components and isinstance(asked, float) == isinstance(n_components, float)
