"""Estimators in scikit-learn's form: the only layer, with `mercer.sklearn`, that imports it."""

from mercer.estimators.detector import KernelPCADetector
from mercer.estimators.incremental import IncrementalKernelPCA
from mercer.estimators.kernel_pca import KernelPCA
from mercer.estimators.pca import PCA
from mercer.estimators.prepared import Prepared
from mercer.monitoring.report import Monitoring

__all__ = [
    "PCA",
    "IncrementalKernelPCA",
    "KernelPCA",
    "KernelPCADetector",
    "Monitoring",
    "Prepared",
]
