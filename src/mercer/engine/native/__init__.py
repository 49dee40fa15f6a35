"""Compiled tiles: pairs, formula and products in one loop without the interpreter, on all cores."""

from mercer.engine.native.bindings import compiled
from mercer.engine.native.engine import NativeEngine

__all__ = ["NativeEngine", "compiled"]
