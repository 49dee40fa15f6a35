"""Estimators in scikit-learn's form: the only layer, with `mercer.sklearn`, that imports it."""

from mercer.estimators.detector import KernelPCADetector
from mercer.estimators.detector_report import Monitoring
from mercer.estimators.incremental import IncrementalKernelPCA
from mercer.estimators.kernel_pca import KernelPCA
from mercer.estimators.pca import PCA
from mercer.estimators.prepared import Prepared

__all__ = [
    "PCA",
    "IncrementalKernelPCA",
    "KernelPCA",
    "KernelPCADetector",
    "Monitoring",
    "Prepared",
]
