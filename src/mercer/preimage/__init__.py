"""The way back: from scores to points in input space."""

from mercer.preimage.base import Examples, FittedPreimage, Preimage, Quality
from mercer.preimage.distances import Distances
from mercer.preimage.exact import Exact
from mercer.preimage.ridge import Ridge
from mercer.preimage.search import FixedPoint, Gradient

PREIMAGES: dict[str, type[Preimage]] = {
    "ridge": Ridge,
    "fixed-point": FixedPoint,
    "distances": Distances,
    "gradient": Gradient,
    "exact": Exact,
}

__all__ = [
    "PREIMAGES",
    "Distances",
    "Exact",
    "Examples",
    "FittedPreimage",
    "FixedPoint",
    "Gradient",
    "Preimage",
    "Quality",
    "Ridge",
]
