"""From a fitted model to what a file holds: a list of objects in JSON, and arrays by name.

Objects stand in the list after those that they are made of, and name them by their place: there are no
cycles, an object that two others share is stored once, and reading the list needs no recursion.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from enum import Enum
from typing import Any, NoReturn

import numpy as np
from scipy import sparse

from mercer._core.container import NAMES, storable
from mercer._core.errors import ModelFileError
from mercer.data.rows import RowSource
from mercer.data.sources import in_memory
from mercer.persistence.invariants import check_object
from mercer.persistence.schema import check_fields, check_parameters, known_type, name_of

WAY_OUT = (
    "Model files hold no Python code, so that any file is safe to open. Use a kernel or an object of "
    "mercer, or joblib.dump or cloudpickle for a model that stays on your own machine."
)
PLAIN = (type(None), bool, int, float, str, np.generic)  # entries of an array of objects
BIT_GENERATORS = ("PCG64", "PCG64DXSM", "MT19937", "Philox", "SFC64")
# They observe a fit, and are not a part of what was fitted.
FORGOTTEN = ("_skl_callbacks", "_callback_fit_ctx", "_parent_callback_ctx")


class Encoder:
    """Turns values into trees, and keeps the objects and arrays that these refer to."""

    def __init__(self) -> None:
        self.objects: list[dict[str, Any]] = []
        self.arrays: dict[str, Any] = {}  # by where they were met first
        self._places: dict[int, int] = {}  # of objects, by their identity
        self._named: dict[int, str] = {}  # names of arrays, by identity
        self._alive: list[Any] = []  # an identity is only good while its object lives

    def value(self, value: Any, where: str) -> Any:
        """The tree of a value; `where` is how an error names it."""
        if value is None or isinstance(value, (bool, str)) or type(value) is int:
            return value
        if type(value) is float:
            return value if math.isfinite(value) else {"$float": repr(value)}
        for kinds, encode in self._ways():
            if isinstance(value, kinds):
                return encode(value, where)
        return self._object(value, where)

    def _ways(self) -> tuple[tuple[Any, Callable[[Any, str], Any]], ...]:
        return (
            ((list, tuple), self._sequence),
            (dict, self._dict),
            (np.ndarray, self._array),
            (np.generic, self._scalar),
            (RowSource, self._rows),
            (sparse.sparray | sparse.spmatrix, self._csr),
            (np.dtype, lambda v, _: {"$dtype": v.newbyteorder("<").str}),
            (type, self._type),
            (slice, lambda v, w: {"$slice": [self.value(p, w) for p in (v.start, v.stop, v.step)]}),
            (os.PathLike, lambda v, _: {"$path": os.fspath(v)}),
            (np.random.Generator, self._generator),
            (np.random.RandomState, self._random_state),
        )

    # ── containers ──────────────────────────────────────────────────────────
    def _sequence(self, value: Any, where: str) -> Any:
        if type(value) not in (list, tuple):
            _refuse(value, where)
        parts = [self.value(part, f"{where}[{i}]") for i, part in enumerate(value)]
        return parts if isinstance(value, list) else {"$tuple": parts}

    def _dict(self, value: Any, where: str) -> Any:
        if not all(isinstance(name, str) for name in value):
            msg = f"{where} is a dict with keys that are not texts, which a model file can't hold."
            raise ModelFileError(msg)
        return {"$dict": {name: self.value(v, f"{where}[{name!r}]") for name, v in value.items()}}

    # ── arrays ──────────────────────────────────────────────────────────────
    def _array(self, value: Any, where: str) -> Any:
        if value.dtype.kind in "OU":
            if value.ndim != 1 or not all(isinstance(part, PLAIN) for part in value.tolist()):
                _refuse(value, where)
            if all(isinstance(name, str) for name in value):
                mark = "$names" if value.dtype.kind == "O" else "$texts"
                return {mark: [str(name) for name in value]}
            # What scikit-learn fills with, or leaves out, by column: numbers, words and None.
            return {"$objects": [self.value(part, where) for part in value]}
        if not storable(value.dtype):
            msg = f"{where} is an array of {value.dtype}, which a model file can't hold. {WAY_OUT}"
            raise ModelFileError(msg)
        return {"$array": self._name(value, where)}

    def _scalar(self, value: Any, where: str) -> Any:
        kind = value.dtype.newbyteorder("<").str
        if kind not in NAMES:
            _refuse(value, where)
        return {"$scalar": kind, "value": self.value(value.item(), where)}

    def _type(self, value: type, where: str) -> Any:
        if not issubclass(value, np.generic) or not storable(value):
            _refuse(value, where)
        return {"$type": np.dtype(value).newbyteorder("<").str}

    def _name(self, array: Any, where: str) -> str:
        if id(array) not in self._named:
            self._named[id(array)] = where
            self.arrays[where] = array
        return self._named[id(array)]

    def _rows(self, value: RowSource, where: str) -> Any:
        if getattr(value, "is_sparse", False):
            return self.value(in_memory(value), where)
        return {"$array": self._name(value, where)}

    def _csr(self, value: Any, where: str) -> Any:
        if value.format != "csr":
            _refuse(value, where)
        self._alive.append(value)
        names = ("data", "indices", "indptr")
        parts = {name: self._array(getattr(value, name), f"{where}.{name}") for name in names}
        kind = "array" if isinstance(value, sparse.sparray) else "matrix"
        return {"$csr": parts, "shape": list(map(int, value.shape)), "kind": kind}

    # ── objects ─────────────────────────────────────────────────────────────
    def _object(self, value: Any, where: str) -> Any:
        if id(value) not in self._places:
            name = name_of(value)
            if name is None:
                _refuse(value, where)
            entry = {"type": name, **self._parts(value, name, where)}
            check_object(name, value)
            self._places[id(value)] = len(self.objects)
            self.objects.append(entry)
            self._alive.append(value)
        return {"$ref": self._places[id(value)]}

    def _parts(self, value: Any, name: str, where: str) -> dict[str, Any]:
        known = known_type(name)
        assert known is not None  # `name_of` has found it
        if known.making == "member":
            assert isinstance(value, Enum)
            return {"fields": {"name": value.name}}
        if known.making == "value":
            held = {field: getattr(value, field) for field in known.fields}
            trees = self._trees(held, where)  # the first to refuse: it knows where
            check_fields(known, name, held)
            return {"fields": trees}
        params = value.get_params(deep=False)
        learned = {n: v for n, v in vars(value).items() if n not in params and n not in FORGOTTEN}
        for n in () if known.is_open else learned.keys() - known.fields.keys():
            msg = (
                f"{where} has an attribute {n!r}, which a {name} does not have and which would be lost: a "
                "model file keeps parameters and what was learned. Delete it, or keep it beside the model."
            )
            raise ModelFileError(msg)
        if "_metadata_request" in learned:
            learned["_metadata_request"] = learned["_metadata_request"]._serialize()
        if not isinstance(params.get("engine", ""), str):
            params["engine"] = "auto"  # an object may be a process, a device: not for another day
        trees = {"fields": self._trees(params, where), "learned": self._trees(learned, where)}
        check_parameters(name, params)
        if learned:
            check_fields(known, name, learned)
        return trees

    def _trees(self, values: dict[str, Any], where: str) -> dict[str, Any]:
        return {name: self.value(value, f"{where}.{name}") for name, value in values.items()}

    # ── random numbers ──────────────────────────────────────────────────────
    def _generator(self, value: Any, where: str) -> Any:
        bits = value.bit_generator
        if type(bits).__name__ not in BIT_GENERATORS:
            _refuse(bits, where)
        return {"$generator": self.value(bits.state, where)}

    def _random_state(self, value: Any, where: str) -> Any:
        return {"$random_state": self.value(value.get_state(legacy=False), where)}


def _refuse(value: Any, where: str) -> NoReturn:
    what = "a Python function" if callable(value) and hasattr(value, "__code__") else None
    what = what or f"a {type(value).__module__}.{type(value).__qualname__}"
    msg = f"{where} is {what}, which a model file can't hold. {WAY_OUT}"
    raise ModelFileError(msg)
