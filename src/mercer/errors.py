"""The errors and warnings of mercer, to catch or to silence by name.

>>> import warnings
>>> from mercer.errors import FlatSpectrumWarning
>>> with warnings.catch_warnings():
...     warnings.simplefilter("ignore", FlatSpectrumWarning)
"""

from mercer._core.errors import (
    ApproximationWarning,
    CheckpointWarning,
    DataError,
    DetectorWarning,
    EngineWarning,
    FlatSpectrumWarning,
    GraphWarning,
    IndefiniteKernelWarning,
    InputError,
    KernelError,
    KernelSyntaxError,
    LongFitWarning,
    MemoryBudgetError,
    MercerError,
    MercerWarning,
    ModelFileError,
    NoFiniteMapError,
    ParameterError,
    PreimageWarning,
    RankWarning,
    ReadingWarning,
    RoundingWarning,
    SelectionWarning,
    StoppedError,
    UnconvergedWarning,
    UnknownParameterError,
    ZeroVarianceError,
)

__all__ = [
    "ApproximationWarning",
    "CheckpointWarning",
    "DataError",
    "DetectorWarning",
    "EngineWarning",
    "FlatSpectrumWarning",
    "GraphWarning",
    "IndefiniteKernelWarning",
    "InputError",
    "KernelError",
    "KernelSyntaxError",
    "LongFitWarning",
    "MemoryBudgetError",
    "MercerError",
    "MercerWarning",
    "ModelFileError",
    "NoFiniteMapError",
    "ParameterError",
    "PreimageWarning",
    "RankWarning",
    "ReadingWarning",
    "RoundingWarning",
    "SelectionWarning",
    "StoppedError",
    "UnconvergedWarning",
    "UnknownParameterError",
    "ZeroVarianceError",
]
