"""Kernel matrices as operators: all that a solver may know about them."""

from mercer.operators.base import SymmetricOperator
from mercer.operators.centred import Centred, minus_mean
from mercer.operators.dense import StoredGram
from mercer.operators.rounded import RoundedGram
from mercer.operators.tiled import TiledGram

__all__ = ["Centred", "RoundedGram", "StoredGram", "SymmetricOperator", "TiledGram", "minus_mean"]
