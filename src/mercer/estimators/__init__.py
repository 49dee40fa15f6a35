"""Estimators in scikit-learn's form: parameters in, a fit, attributes out."""

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
