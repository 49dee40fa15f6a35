"""Whether a value is what an annotation says: the schema of a model file is that of the code.

Annotations are read as texts, since most names in them are imported for the type checker alone:

    None  bool  int  float  str  Any    a number may be a NumPy scalar
    Annotated[Array, "m k"]             floats; a letter is one length within one object, a digit that length
    Annotated[Rows, "n d"]              the same, where rows may be sparse or in a file
    tuple[str, ...]  tuple[int, int]    and tuples of tuples
    np.dtype[Any]                       of floats
    Kernel, Fit, …                      an object of that class, as the schema knows it
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import numpy as np
from scipy import sparse

from mercer._core.params import is_whole
from mercer.data.rows import RowSource

# Whether a value is right; the lengths of letters so far are compared, and new ones kept.
Check: TypeAlias = Callable[[Any, dict[str, int]], bool]
MOST = 2**64  # of an integer; the state of a random generator is not a field
FLOATS = (np.float32, np.float64)
ROWS = (np.ndarray, RowSource, sparse.sparray, sparse.spmatrix)


def check_of(annotation: str, classes: Mapping[str, Any]) -> Check:
    """The check of an annotation; `classes` are those that it may name, or predicates in their place.

    >>> import numpy as np
    >>> lengths = {}
    >>> check_of('Annotated[Array, "m k"] | None', {})(np.zeros((5, 2)), lengths), lengths
    (True, {'m': 5, 'k': 2})
    >>> check_of('Annotated[Array, "k"]', {})(np.zeros(3), lengths)
    False
    """
    return _check(ast.parse(annotation, mode="eval").body, classes)


def _check(node: ast.expr, classes: Mapping[str, Any]) -> Check:
    if isinstance(node, ast.BinOp):
        left, right = _check(node.left, classes), _check(node.right, classes)
        return lambda value, lengths: left(value, lengths) or right(value, lengths)
    if isinstance(node, ast.Subscript):
        name, inner = ast.unparse(node.value), node.slice
        if name == "Annotated":
            assert isinstance(inner, ast.Tuple)
            rows, letters = ast.unparse(inner.elts[0]) == "Rows", ast.literal_eval(inner.elts[1])
            return lambda value, lengths: _is_array(value, letters.split(), lengths, rows=rows)
        if name == "tuple":
            assert isinstance(inner, ast.Tuple)
            return _tuple(inner.elts, classes)
        return _check(node.value, classes)
    name = ast.unparse(node)
    kind = _PLAIN.get(name) or classes[name]
    if isinstance(kind, (type, tuple)):
        return lambda value, _: isinstance(value, kind)
    return lambda value, _: bool(kind(value))


def _tuple(parts: list[ast.expr], classes: Mapping[str, Any]) -> Check:
    checks = [_check(part, classes) for part in parts if ast.unparse(part) != "..."]
    if len(checks) < len(parts):  # tuple[str, ...]
        return lambda value, n: isinstance(value, tuple) and all(checks[0](v, n) for v in value)
    return lambda value, n: (
        isinstance(value, tuple)
        and len(value) == len(checks)
        and all(check(v, n) for check, v in zip(checks, value, strict=True))
    )


def _is_array(value: Any, letters: list[str], lengths: dict[str, int], *, rows: bool) -> bool:
    if not isinstance(value, ROWS if rows else np.ndarray) or value.dtype not in FLOATS:
        return False
    if len(value.shape) != len(letters):
        return False
    sizes = zip(letters, map(int, value.shape), strict=True)
    return all(n == (int(l) if l.isdigit() else lengths.setdefault(l, n)) for l, n in sizes)


def _is_int(value: Any) -> bool:
    return is_whole(value) and abs(int(value)) <= MOST


def _is_names(value: Any) -> bool:
    texts = isinstance(value, np.ndarray) and value.ndim == 1 and value.dtype.kind in "OU"
    return texts and all(isinstance(name, str) for name in value)


def _is_seed(value: Any) -> bool:
    whole = _is_int(value) and value >= 0
    return value is None or whole or isinstance(value, (np.random.Generator, np.random.RandomState))


# A class, several, or a predicate.
_PLAIN: dict[str, Any] = {
    "Any": lambda value: True,  # noqa: ARG005
    "Array": lambda value: isinstance(value, np.ndarray) and value.dtype in FLOATS,
    "Kind": str,  # Literal[…] of its own module
    "Names": _is_names,  # of columns
    "None": lambda value: value is None,
    "Route": str,
    "Seed": _is_seed,
    "Sequence": (list, tuple, range, slice, np.ndarray),
    "bool": (bool, np.bool_),
    "float": lambda value: _is_int(value) or isinstance(value, (float, np.floating)),
    "int": _is_int,
    "np.dtype": lambda value: isinstance(value, np.dtype) and value in FLOATS,
    "str": str,
}
