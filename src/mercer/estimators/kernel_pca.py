"""Kernel PCA as a scikit-learn estimator: a form to fill in."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from mercer._core.memory import Memory
from mercer._core.public import public
from mercer._core.types import Array
from mercer.data.rows import RowSource
from mercer.data.training import TrainingData
from mercer.engine.resolve import resolve_engine
from mercer.engine.threads import copied, lanes
from mercer.estimators.base import Projector, warn_of
from mercer.estimators.derived import Returning
from mercer.estimators.fit_request import (
    FitRequest,
    asked_for,
    fit_request,
    warn_if_long,
    watching_request,
)
from mercer.estimators.form import KERNEL_PCA
from mercer.estimators.input import loaded, remember
from mercer.estimators.parameters import (
    ApproximationLike,
    EngineLike,
    KernelLike,
    PreimageLike,
    Seed,
    SolverLike,
)
from mercer.estimators.preimages import fit_preimage, handed_over, with_weightless
from mercer.kernels import Kernel
from mercer.model import Fit, Plan, fit_kernel_pca
from mercer.planning.problem import Ownership
from mercer.preimage.base import FittedPreimage


@public
@dataclass(eq=False, repr=False)
class KernelPCA(Returning, Projector):
    """Kernel PCA: scores(x) = k(x, Z) A - b, with the evidence that A is right. Exact, unless you ask.

    Parameters
    ----------
    n_components : int, float or None, default=2
        A number of components, a share of the variance such as 0.95, or None for all with a variance above
        rounding. Where the data have fewer, all are kept, with a `RankWarning`.
    kernel : str, Kernel or callable, default="rbf"
        A name, an object such as ``RBF(gamma="median") + 0.5 * Linear()`` or the same as text,
        ``"rbf(gamma=2) + 0.5*linear"``, a scikit-learn Gaussian-process kernel, or a Python function of two
        points or two matrices. ``"precomputed"`` takes the kernel matrix in place of X. By name, ``"rbf"``
        and ``"laplacian"`` have the median distance for a width and ``"poly"`` has gamma = 1;
        ``"rbf(gamma='1/d')"`` has scikit-learn's.
    solver : str or Solver, default="auto"
        ``"lapack"``, ``"lanczos"``, ``"krylov"``, or an object such as ``BlockKrylov(tol=1e-10)``.
    approximation : str, Approximation or None, default=None
        None: exact. ``"rpcholesky"``, ``"nystrom"``, ``"fourier"`` or an object such as
        ``RPCholesky(rank=1000)``: K is never formed, and ``fit_`` says what was left out.
    preimage : str, Preimage or None, default=None
        The pre-image method, for `inverse_transform`: ``"ridge"``, ``"fixed-point"``, ``"distances"``,
        ``"gradient"``, ``"exact"`` or an object such as ``Ridge(alpha=1e-3)``; see `with_preimage`.
    whiten : bool, default=False
        Whether scores are divided by ``np.sqrt(explained_variance_)``, so that each has variance 1 on the
        training rows; `inverse_transform` takes such scores then. The fit is the same, with axes of length
        one in feature space, so it may be set on a fitted model.
    memory : str, int or dict, default="auto"
        What the fit may use, such as ``"4GB"``; checked before anything is allocated. ``"auto"`` is a
        share of what is free. A size alone is what each place, device or host, may use;
        ``{"cuda": "20GB", "host": "4GB"}`` or ``"cuda=20GB,host=4GB"`` names some, the others are on "auto".
    engine : str, Engine or distributed.Client, default="auto"
        Where kernel values are computed: ``"native"`` by compiled tiles, ``"numpy"`` by the reference, which
        runs every kernel, ``"cuda"`` on a GPU, ``"auto"`` by the first where it can, and on a GPU where a
        long exact fit pays for it; on the workers of a cluster by a client of Dask, ``"dask"`` (the one in
        force) or ``"dask:tcp://host:8786"``, on their GPUs by ``"dask:cuda"``; or an object such as
        ``mercer.engine.native.NativeEngine(n_threads=2)``, which a model file keeps as ``"auto"``.
    checkpoint : path, optional
        A file, which stays, to which a Krylov iteration saves its state from time to time. After a kill the
        same fit resumes from there, with the same result; any other fit refuses the file, so in a search over
        parameters or folds each fit needs a path of its own, or none.
    verbose : int, default=0
        1 reports on stderr how far the fit is.
    random_state : int, Generator, RandomState or None, default=None
        Seed of start vectors, landmarks and sampled medians; None is a fixed seed.

    Attributes
    ----------
    n_components_ : int
        Number of components kept.
    kernel_ : Kernel
        The kernel with every parameter a number.
    eigenvalues_ : ndarray of shape (k,)
        Largest eigenvalues of the centred kernel matrix.
    eigenvectors_ : ndarray of shape (n, k)
        Their unit eigenvectors, of an exact fit.
    explained_variance_ : ndarray of shape (k,)
        ``eigenvalues_ / (n - 1)``: the variance of each score.
    explained_variance_ratio_ : ndarray of shape (k,)
        Shares of the true total variance; of landmarks at least these, of random features estimates.
    residuals_ : ndarray of shape (k,)
        ‖K̃u - λu‖/λ₁ of each pair as it is handed out, rounding included: its eigenvalue is within
        residual · λ₁ of a true one. Of an approximation, those of its small problem: see ``fit_.bounds``.
    plan_ : Plan
        Route, solver and storage, with reasons.
    fit_ : Fit
        The fitted value: projection and evidence. Print it.
    preimage_ : FittedPreimage
        The fitted pre-image, when ``preimage`` is set.

    See Also
    --------
    PCA : The linear case, with axes that can be written down.
    IncrementalKernelPCA : Rows that arrive in batches.
    KernelPCADetector : Whether a row is like those of the fit.
    mercer.sklearn.KernelPCA : scikit-learn's parameters and attributes.

    Examples
    --------
    >>> from sklearn.datasets import make_circles
    >>> from mercer import KernelPCA
    >>> from mercer.kernels import RBF
    >>> X, _ = make_circles(400, factor=0.3, noise=0.05, random_state=0)
    >>> model = KernelPCA(n_components=2, kernel=RBF(gamma=10)).fit(X)
    >>> model.transform(X[:3]).shape
    (3, 2)
    >>> bool(model.residuals_.max() < 1e-10)
    True
    """

    _advice = KERNEL_PCA

    n_components: int | float | None = 2
    _: KW_ONLY
    kernel: KernelLike = "rbf"
    solver: SolverLike = "auto"
    approximation: ApproximationLike = None
    preimage: PreimageLike = None
    whiten: bool = False
    memory: Memory = "auto"
    engine: EngineLike = "auto"
    checkpoint: str | Path | None = None
    verbose: int = 0
    random_state: Seed = None

    kernel_: Kernel = field(init=False)
    plan_: Plan = field(init=False)
    preimage_: FittedPreimage = field(init=False)
    _sparse: bool = field(init=False)

    # ── fit ─────────────────────────────────────────────────────────────────
    def plan(self, X: Any, sample_weight: Any = None) -> Plan:
        """What `fit` would do: route, solver, tiles, bytes, and the products and seconds to expect.

        Nothing is fitted; about a second goes into timing a few tiles of the kernel on these rows.

        Parameters
        ----------
        X : array-like, sparse matrix or source of rows
        sample_weight : array-like of shape (n,), optional

        Returns
        -------
        plan : Plan
            Print it.

        Examples
        --------
        >>> import numpy as np
        >>> from mercer import KernelPCA
        >>> X = np.random.default_rng(0).standard_normal((4000, 5))
        >>> print(KernelPCA(3, memory="200MB").plan(X))  # doctest: +ELLIPSIS
        dual route, BlockKrylov(...), half of K held as float32 tiles, checked in float64 (...), ...
        """
        facts = resolve_engine(self.engine).facts()
        with lanes(facts.lanes):
            return fit_request(self, X, sample_weight, facts).forecast()

    def _fit(self, X: Any, sample_weight: Any = None) -> Fit:
        facts = resolve_engine(self.engine).facts()
        with lanes(facts.lanes):
            request = fit_request(self, X, sample_weight, facts)
            data = loaded(request.data) if request.ownership is Ownership.LOADED else request.data
            handed = handed_over(request.preimage, data, sample_weight)
            warn_if_long(request)
            with watching_request(request) as observer:
                fit = fit_kernel_pca(request.task(data, observer))
            fit = asked_for(fit, self.n_components)
            return self._completed(fit, X, request, data, handed)

    def _completed(
        self, fit: Fit, X: Any, request: FitRequest, data: TrainingData, handed: Array | None
    ) -> Fit:
        """The fit with rows of its own and its pre-image; only when all is done does the estimator change."""
        kernel, method, rows = request.kernel, request.preimage, data.rows
        if request.ownership is Ownership.BORROWED:
            rows = copied(rows) if fit.keeps_points or method is not None else rows
            fit = fit.with_points(rows)
        if isinstance(request.data.rows, RowSource):
            request.data.rows.check_unchanged()
        back = None
        if method is not None:
            rng, weights = request.start, data.weights
            back = fit_preimage(method, fit, kernel, rows, weights=weights, handed=handed, rng=rng)
        if kernel.is_precomputed and data.kept is not None:
            fit = with_weightless(fit, data.kept, int(np.shape(X)[0]))
        warn_of(fit)  # a warning may be an error, and then nothing has happened
        remember(self, X, request.data.rows)
        if kernel.is_precomputed and data.kept is not None:  # a column for rows without weight, too
            self.n_features_in_ = int(np.shape(X)[0])
        self.kernel_, self.fit_, self.plan_ = kernel, fit, request.plan
        self._dtype, self._sparse = np.dtype(rows.dtype), data.is_sparse
        self.__dict__.pop("preimage_", None)
        if back is not None:
            self.preimage_ = back
        return fit

    # ── what was found ──────────────────────────────────────────────────────
    @property
    def eigenvectors_(self) -> Array:
        """Unit eigenvectors of the centred kernel matrix; an approximation has none."""
        fit = self._fitted("eigenvectors_")
        if fit.is_low_rank:
            msg = (
                "An approximation has no eigenvectors of the kernel matrix; `transform` gives the scores of "
                "any rows. Use approximation=None, or `refine` the approximation."
            )
            raise AttributeError(msg)
        return fit.pairs.vectors.astype(self._dtype, copy=False)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        # A text that is wrong is refused by the fit.
        precomputed = bool(getattr(self.kernel, "is_precomputed", False))
        if isinstance(self.kernel, str):
            precomputed = self.kernel.strip(" ()").lower() == "precomputed"
        tags.input_tags.pairwise = precomputed
        tags.input_tags.sparse = not precomputed and self.preimage is None
        return tags
