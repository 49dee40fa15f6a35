"""Low-rank approximations of a kernel matrix. An approximation's knobs live on it."""

from mercer.approximations.base import Approximation, LowRank
from mercer.approximations.nystrom import Nystrom
from mercer.approximations.random_features import RandomFourier
from mercer.approximations.rpcholesky import RPCholesky

APPROXIMATIONS: dict[str, type[Approximation]] = {
    "rpcholesky": RPCholesky,
    "nystrom": Nystrom,
    "fourier": RandomFourier,
}

__all__ = ["APPROXIMATIONS", "Approximation", "LowRank", "Nystrom", "RPCholesky", "RandomFourier"]
