"""What estimators say of parameters that they do not have but that are known elsewhere."""

from __future__ import annotations

_KRYLOV = "BlockKrylov finds its own number of steps"
_THREADS = (
    "threads are those of BLAS: set OPENBLAS_NUM_THREADS, or use threadpoolctl.threadpool_limits"
)
_CENTRED = "rows are always centred in feature space"
NEEDLESS = {
    "center": _CENTRED,
    "centre": _CENTRED,
    "copy": "rows are never changed",
    "copy_X": "rows are never changed",
    "dtype": "the precision is that of the rows",
    "iterated_power": _KRYLOV,
    "n_jobs": _THREADS,
    "n_oversamples": _KRYLOV,
    "power_iteration_normalizer": _KRYLOV,
    "remove_zero_eig": "components without variance are always left out",
    "sample_weight": "`fit` takes it",
    "scale": "a StandardScaler in front of the model scales the columns",
}
EIGEN_SOLVERS = {
    "auto": "auto", "dense": "lapack", "full": "lapack", "covariance_eigh": "lapack", "arpack": "krylov",
    "randomized": "krylov",
}  # fmt: skip
# Names that mean something in estimators of a kind, here or elsewhere.
_SMALL = (
    "A stream solves a problem of the size of its dictionary, with nothing to choose: leave it out."
)
PCA_WORDS = {"kernel": "Its kernel is the dot product: use KernelPCA(kernel={})."}
STREAM_WORDS = {
    "approximation": "The dictionary is its approximation: max_landmarks is its size, tol its error.",
    "checkpoint": "Save the model between batches instead: model.save(path).",
    "memory": "max_landmarks and batch_size bound the memory: m² + bm numbers, whatever the number of rows.",
    "n_landmarks": "Write max_landmarks={}.",
    "rank": "Write max_landmarks={}.",
    "solver": _SMALL,
    "eigen_solver": _SMALL,
    "whiten": "Divide the scores by np.sqrt(explained_variance_).",
}
_INSIDE = "Give it to the model inside: model=KernelPCA({}={{}})."
DETECTOR_WORDS = {
    "alpha": "Write false_alarm={}, the share of normal rows that may be called outliers.",
    "nu": "Write contamination={}, the share of the training rows that are not normal.",
    "preimage": "A detector needs none: leave it out.",
    "threshold": "Limits are learned: write false_alarm=0.01 or contamination=0.05.",
    **{name: _INSIDE.format(name) for name in ("checkpoint", "solver", "verbose")},
}
