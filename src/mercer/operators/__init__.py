"""Kernel matrices as operators: all that a solver may know about them."""

from mercer.operators.base import SymmetricOperator
from mercer.operators.centred import Centred
from mercer.operators.gram import Gram, StoredGram

__all__ = ["Centred", "Gram", "StoredGram", "SymmetricOperator"]
