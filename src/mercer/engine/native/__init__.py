"""Compiled tiles: pairs, formula and products in one loop without the interpreter, on all cores."""

from mercer.engine.native.engine import NativeEngine
from mercer.engine.native.library import compiled

__all__ = ["NativeEngine", "compiled"]
