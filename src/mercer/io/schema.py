"""What a model file may hold, by name and by kind: the tables of `mercer.io.stored_types` put to use."""

from __future__ import annotations

from functools import cache
from pathlib import PosixPath, WindowsPath
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import sparse

from mercer._core.errors import ModelFileError
from mercer._core.params import is_whole
from mercer.data.rows import RowSource
from mercer.io.stored_types import FAMILIES, PARAMETERS, TYPES, UNIONS, found, of_formula
from mercer.kernels.base import FORMULAS

if TYPE_CHECKING:
    from collections.abc import Callable

    from mercer.io.stored_types import Known

MOST = 2**64  # of an integer; a state of random numbers is no field


# ── names ───────────────────────────────────────────────────────────────────
def known_type(name: str) -> Known | None:
    """What is known by this name: a type of the tables, or a kernel whose class the program has defined.

    A kernel with a formula is registered by the name of its class (`mercer.kernels.base.FORMULAS`). Names of
    the tables come first.
    """
    if name in TYPES or name not in FORMULAS:
        return TYPES.get(name)
    return of_formula(FORMULAS[name], "any")


def name_of(value: Any) -> str | None:
    """The name in a file of a value's type: of exactly that type, since a subclass may do anything."""
    kind = type(value)
    for name in _by_class_name().get(kind.__name__, ()):
        home = TYPES[name].home
        # Only of the same package: to find out, nothing else is imported.
        if home.startswith(kind.__module__.partition(".")[0]) and found(home) is kind:
            return name
    registered = known_type(kind.__name__)
    return None if registered is None or registered.kind is not kind else kind.__name__


@cache
def _by_class_name() -> dict[str, list[str]]:
    names: dict[str, list[str]] = {}
    for name, known in TYPES.items():
        names.setdefault(known.home.partition(":")[2], []).append(name)
    return names


# ── kinds ───────────────────────────────────────────────────────────────────
def is_kind(kind: str, value: Any, lengths: dict[str, int]) -> bool:
    """Whether the value is one of the alternatives; `lengths` are those of the letters so far.

    Examples
    --------
    >>> import numpy as np
    >>> lengths = {}
    >>> is_kind("none|float[m,k]", np.zeros((5, 2)), lengths), lengths
    (True, {'m': 5, 'k': 2})
    >>> is_kind("float[k]", np.zeros(3), lengths)
    False
    """
    kinds = (one for part in kind.split("|") for one in UNIONS.get(part, part).split("|"))
    return any(_is_one(one, value, lengths) for one in kinds)


def check_fields(known: Known, name: str, fields: dict[str, Any]) -> None:
    """Raise unless all fields of an object are there, and of their kinds."""
    missing, extra = known.required - set(fields), set(fields) - set(known.kinds)
    if missing or extra:
        msg = f"its {name} lacks {sorted(missing)} and has {sorted(extra)} in their place"
        raise ModelFileError(msg)
    lengths: dict[str, int] = {}
    for field, value in fields.items():
        _check(known.kinds[field], value, lengths, f"{field!r} of its {name}")


def check_parameters(name: str, params: dict[str, Any]) -> None:
    """Raise unless the parameters of an estimator that count after the fit are of their kinds."""
    for param, value in params.items():
        _check(PARAMETERS.get(param, "any"), value, {}, f"{param!r} of its {name}")


def _check(kind: str, value: Any, lengths: dict[str, int], what: str) -> None:
    if not is_kind(kind, value, lengths):
        msg = f"{what} is a {type(value).__name__} where {kind} was needed"
        raise ModelFileError(msg)


def _is_one(kind: str, value: Any, lengths: dict[str, int]) -> bool:
    if kind in _PLAIN:
        return bool(_PLAIN[kind](value))
    name, bracket, letters = kind.partition("[")
    if bracket:
        return _is_array(name, letters.rstrip("]").split(","), value, lengths)
    home = FAMILIES[name] if name in FAMILIES else TYPES[name].home
    return isinstance(value, found(home))


def _is_whole(value: Any) -> bool:
    return is_whole(value) and abs(int(value)) <= MOST


def _is_names(value: Any) -> bool:
    texts = isinstance(value, np.ndarray) and value.ndim == 1 and value.dtype.kind in "OU"
    return texts and all(isinstance(name, str) for name in value)


def _is_seed(value: Any) -> bool:
    whole = _is_whole(value) and value >= 0
    return value is None or whole or isinstance(value, (np.random.Generator, np.random.RandomState))


_PLAIN: dict[str, Callable[[Any], Any]] = {
    "any": lambda value: True,  # noqa: ARG005
    "bool": lambda value: isinstance(value, (bool, np.bool_)),
    "dtype": lambda value: isinstance(value, np.dtype) and value in (np.float32, np.float64),
    "int": _is_whole,
    "names": _is_names,
    "none": lambda value: value is None,
    "number": lambda value: _is_whole(value) or isinstance(value, (float, np.floating)),
    "seed": _is_seed,
    "text": lambda value: isinstance(value, str),
    "texts": lambda value: isinstance(value, tuple) and all(isinstance(v, str) for v in value),
}


def _is_array(name: str, letters: list[str], value: Any, lengths: dict[str, int]) -> bool:
    arrays: tuple[Any, ...] = (np.ndarray,)
    if name == "rows":
        arrays = (np.ndarray, RowSource, sparse.sparray, sparse.spmatrix)
    if not isinstance(value, arrays) or value.dtype not in (np.float32, np.float64):
        return False
    shape = tuple(map(int, value.shape))
    if len(shape) != len(letters):
        return False
    return all(lengths.setdefault(l, n) == n for l, n in zip(letters, shape, strict=True))


# ── skops ───────────────────────────────────────────────────────────────────
# What mercer's objects are made of, and holds no code: rows in files, written-out columns of a feature map.
_PARTS = (
    "mercer.data.files.Stamp",
    "mercer.data.npy.MappedRows",
    "mercer.data.npy.Stored",
    "mercer.kernels.monomials.Step",
    "mercer.kernels.monomials.Symbol",
    "mercer.kernels.monomials.Term",
    "numpy.dtype",
    "pathlib.PosixPath",
    "pathlib.WindowsPath",
    "scipy.sparse._csr.csr_array",
)

# The types that skops needs to be told of to load mercer's models. Python 3.13 has other names for paths.
SKOPS_TRUSTED = sorted(
    {
        *_PARTS,
        *(f"{each.__module__}.{each.__name__}" for each in (PosixPath, WindowsPath)),
        *(
            known.home.replace(":", ".")
            for known in TYPES.values()
            if known.home.startswith("mercer") and known.making != "member"
        ),
    }
)
