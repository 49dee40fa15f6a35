"""From a file to rows that a model takes: what has to be done to them, and all of them with it done."""

from mercer.io.match import matched
from mercer.io.preparation import Preparation
from mercer.io.sheet import Sheet, prepared_rows

__all__ = ["Preparation", "Sheet", "matched", "prepared_rows"]
