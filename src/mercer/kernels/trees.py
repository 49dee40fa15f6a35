"""The trees of mercer's own kernels, cached by class and parameters.

A fit asks for the same tree a dozen times, and to check the parameters of a kernel and to build its tree
takes as long as a tile of fifty rows. Parameters may be set at any time, also those of a kernel inside
another, so nothing is kept with an object: what it is now is the key.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    from mercer.engine.formula import Expr
    from mercer.kernels.base import Kernel

MOST = 512  # a search over widths has a tree for each
PLAIN = frozenset((float, int, str, type(None), bool))

_TREES: dict[tuple[Any, ...], Expr] = {}


def remembered(kernel: Kernel, make: Callable[[], Expr], what: str) -> Expr:
    """The tree of the kernel as it is now, made where it is not known yet; `what` it is the tree of."""
    own = identity(kernel)
    found = None if own is None else _TREES.get((what, own))
    if found is None:
        found = make()
        # An opaque leaf holds one object of many that look alike.
        if own is not None and not found.has("opaque"):
            if len(_TREES) >= MOST:
                _TREES.clear()
            _TREES[what, own] = found
    return found


def identity(kernel: Kernel) -> tuple[Any, ...] | None:
    """Its class, and its attributes with their types; None where these need not be all that counts.

    True is equal to 1, and 1 to 1.0, but they are not the same parameter.
    """
    cls, own = type(kernel), vars(kernel)
    if not cls.__module__.startswith("mercer."):  # may have slots, or attributes of its class
        return None
    values = tuple(own.values())
    kinds = tuple(map(type, values))
    if PLAIN.issuperset(kinds):  # as of most: no loop
        return cls, tuple(own), kinds, values
    parts: list[Any] = [cls]
    for name, value in own.items():
        kind = type(value)
        if kind in PLAIN:
            parts += (name, kind, value)
        elif hasattr(value, "formula"):  # a kernel inside
            inner = identity(value)
            if inner is None:
                return None
            parts += (name, inner)
        else:
            return None
    return tuple(parts)
