"""Low-rank approximations of a kernel matrix. An approximation's knobs live on it."""

from typing import Literal, TypeAlias

from mercer.approximations.base import Approximation, LowRank
from mercer.approximations.nystrom import Nystrom
from mercer.approximations.random_features import RandomFourier
from mercer.approximations.rpcholesky import RPCholesky

# The names of the table below, for editors to complete; a test holds the two together.
ApproximationName: TypeAlias = Literal["rpcholesky", "nystrom", "fourier"]
APPROXIMATIONS: dict[str, type[Approximation]] = {
    "rpcholesky": RPCholesky,
    "nystrom": Nystrom,
    "fourier": RandomFourier,
}

__all__ = [
    "APPROXIMATIONS",
    "Approximation",
    "ApproximationName",
    "LowRank",
    "Nystrom",
    "RPCholesky",
    "RandomFourier",
]
