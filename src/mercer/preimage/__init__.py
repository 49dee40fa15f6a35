"""The way back: from scores to points in input space."""

from mercer.preimage.base import FittedPreimage, Preimage, Quality
from mercer.preimage.ridge import Ridge

PREIMAGES: dict[str, type[Preimage]] = {"ridge": Ridge}

__all__ = ["PREIMAGES", "FittedPreimage", "Preimage", "Quality", "Ridge"]
