"""Pre-images: from scores to points in input space."""

from typing import Literal, TypeAlias

from mercer.preimage.base import Examples, FittedPreimage, Preimage, Quality
from mercer.preimage.exact import Distances, Exact
from mercer.preimage.ridge import Ridge
from mercer.preimage.search import FixedPoint, Gradient

# The names of the table below, for editors to complete; a test holds the two together.
PreimageName: TypeAlias = Literal["ridge", "fixed-point", "distances", "gradient", "exact"]
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
    "PreimageName",
    "Quality",
    "Ridge",
]
