"""How a solver ended. The value of each member is the message, and each message ends in a remedy."""

from enum import Enum


class Status(Enum):
    """How a solver ended."""

    CONVERGED = "converged: every residual is within the tolerance."
    MAX_PRODUCTS = (
        "stopped at `max_products` before every residual met the tolerance. "
        "Raise `max_products`, loosen `tol`, or use solver='lapack'."
    )
    STOPPED = (
        "stopped early because a callback asked for it. Let it run on, or take the residuals for what "
        "they are."
    )
    REFINED = (
        "made the exact passes that were asked for. The residuals say how near the pairs have come: raise "
        "`refine` for more, or use approximation=None."
    )
    STAGNATED = (
        "stopped because rounding keeps the residuals above the tolerance. Centre and scale the "
        "columns (StandardScaler), fit in float64, or loosen `tol`."
    )

    @property
    def ok(self) -> bool:
        """Whether the answer is what was asked for."""
        return self in (Status.CONVERGED, Status.REFINED)
