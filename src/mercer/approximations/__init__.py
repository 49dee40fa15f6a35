"""Low-rank approximations of a kernel matrix. An approximation's knobs live on it."""

from mercer.approximations.base import Approximation, LowRank

__all__ = ["Approximation", "LowRank"]
