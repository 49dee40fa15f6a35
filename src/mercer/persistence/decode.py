"""From what a file holds back to a fitted model: every value is checked before it is used."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
from scipy import sparse

from mercer._core.container import NAMES
from mercer._core.errors import ModelFileError
from mercer.data.intake import is_compressed
from mercer.data.table import objects
from mercer.persistence.encode import BIT_GENERATORS, PLAIN
from mercer.persistence.invariants import check_object
from mercer.persistence.schema import (
    Stored,
    check_fields,
    check_parameters,
    known_type,
    plan_of_format_1,
)

# A sum of a kernel with itself, ten times over, is a thousand kernels to compute and ten to store.
MOST_PARTS = 10_000
MOST_INTEGER = 2**128
# Values that JSON has no form for are marked: `Decoder` has a method of the same name for each mark, and what
# is marked is of one type.
MARKED: dict[str, Any] = {
    **dict.fromkeys(("names", "objects", "slice", "texts", "tuple"), list),
    **dict.fromkeys(("csr", "dict", "generator", "random_state"), dict),
    **dict.fromkeys(("dtype", "float", "path", "scalar", "type"), str),
    "array": (int, str),
    "ref": int,
}
BESIDE = {"$csr": ("shape", "kind"), "$scalar": ("value",)}  # names that a marked value also has
MOST_POSITION = {"MT19937": 624, "Philox": 4}  # NumPy reads from there without a look


class Decoder:
    """Makes the objects of a file, one after the other."""

    def __init__(self, arrays: dict[Any, np.ndarray[Any, Any]]) -> None:
        self._arrays = arrays
        self._built: list[Any] = []
        self._matrices: dict[Any, Any] = {}
        self._sizes: list[int] = []  # of objects, shared parts counted as often as they are used
        self._size = 0

    def add(self, entry: Any) -> None:
        entry = _parts(entry, {"type", "fields"}, "an object", may=frozenset({"learned"}))
        name = entry["type"]
        known = known_type(name) if isinstance(name, str) else None
        if known is None:
            _wrong(
                f"it holds a {name!r}, which this mercer does not know; if it is your own kernel, import "
                "the module that defines it before you load the file"
            )
        self._size = 1
        fields, learned = (self._trees(entry.get(part, {}), name) for part in ("fields", "learned"))
        if self._size > MOST_PARTS:
            _wrong(f"its {name} has more than {MOST_PARTS} parts")
        value = _made(known, name, fields, learned)
        check_object(name, value)
        self._built.append(value)
        self._sizes.append(self._size)

    def _trees(self, trees: Any, name: str) -> dict[str, Any]:
        if not isinstance(trees, dict):
            _wrong(f"the fields of its {name} are a {type(trees).__name__}")
        return {field: self.value(tree) for field, tree in trees.items()}

    def value(self, tree: Any) -> Any:
        """The value of a tree; objects that it names are there already."""
        if tree is None or isinstance(tree, (bool, str, float)):
            return tree
        if isinstance(tree, int):
            if abs(tree) >= MOST_INTEGER:
                _wrong("it holds an integer of more than 128 bits")
            return tree
        self._size += 1
        if isinstance(tree, list):
            return [self.value(part) for part in tree]
        mark = next((name for name in tree if name.startswith("$")), "")
        if mark[1:] not in MARKED:
            what = f"a value marked {mark!r}" if mark else "a value without a mark"
            _wrong(f"it holds {what}, which this mercer does not know")
        _parts(tree, {mark, *BESIDE.get(mark, ())}, f"a value marked {mark!r}")
        value = tree[mark]
        if not isinstance(value, MARKED[mark[1:]]) or isinstance(value, bool):
            _wrong(f"{mark!r} marks a value of type {type(value).__name__}")
        return getattr(self, f"_{mark[1:]}")(value, tree)

    # ── what stands in a tree ───────────────────────────────────────────────
    def _ref(self, place: Any, _: Any) -> Any:
        if not 0 <= place < len(self._built):
            _wrong(f"an object refers to object {place!r}, which does not come before it")
        self._size += self._sizes[place]
        return self._built[place]

    def _array(self, name: Any, _: Any) -> Any:
        if name not in self._arrays:
            _wrong(f"an object refers to the array {name!r}, which is not there")
        return self._arrays[name]

    def _csr(self, parts: Any, tree: Any) -> Any:
        parts = _parts(parts, {"data", "indices", "indptr"}, "a sparse matrix")
        data, indices, indptr = (self.value(parts[n]) for n in ("data", "indices", "indptr"))
        shape = tree["shape"]
        if not (isinstance(shape, list) and len(shape) == 2 and all(type(i) is int for i in shape)):
            _wrong(f"a sparse matrix has the shape {shape!r}")
        sound = is_compressed(data, indices, indptr, *shape) and data.ndim == 1
        sound = sound and len(data) == len(indices) == indptr[-1]
        if tree["kind"] not in ("array", "matrix") or not sound:
            _wrong("the indices of a sparse matrix lie outside of it")
        kind = sparse.csr_array if tree["kind"] == "array" else sparse.csr_matrix
        key = (kind, *map(id, (data, indices, indptr)), *shape)
        if key not in self._matrices:  # what was one matrix is one again
            self._matrices[key] = kind((data, indices, indptr), shape=tuple(shape))
        return self._matrices[key]

    def _dict(self, parts: Any, _: Any) -> Any:
        return self._trees(parts, "dict")

    def _tuple(self, parts: Any, _: Any) -> Any:
        return tuple(map(self.value, parts))

    def _slice(self, parts: Any, _: Any) -> Any:
        return slice(*map(self.value, parts))

    def _names(self, parts: Any, _: Any) -> Any:
        if not all(isinstance(part, str) for part in parts):
            _wrong("a name is not a text")
        return np.array(parts, dtype=object)

    def _objects(self, parts: Any, _: Any) -> Any:
        values = [self.value(part) for part in parts]
        if not all(isinstance(value, PLAIN) for value in values):
            _wrong("an array of objects has one that is neither a number nor a text")
        return objects(values)

    def _texts(self, parts: Any, tree: Any) -> Any:
        return self._names(parts, tree).astype(str)

    def _path(self, text: Any, _: Any) -> Any:
        return Path(text)

    def _float(self, text: Any, _: Any) -> float:
        if text not in ("nan", "inf", "-inf"):
            _wrong(f"{text!r} stands where a number is needed")
        return float(text)

    def _dtype(self, text: Any, _: Any) -> np.dtype[Any]:
        if text not in (*NAMES, "|O"):
            _wrong(f"{text!r} is not a dtype of a model file")
        return np.dtype(text)

    def _type(self, text: Any, tree: Any) -> Any:
        return self._dtype(text, tree).type

    def _scalar(self, text: Any, tree: Any) -> Any:
        value = self.value(tree["value"])
        if not isinstance(value, (bool, int, float)) or text == "|O":
            _wrong(f"{value!r} stands where a number is needed")
        return self._dtype(text, tree).type(value)

    # ── random numbers ──────────────────────────────────────────────────────
    def _generator(self, tree: Any, _: Any) -> np.random.Generator:
        return np.random.Generator(_bits(self.value(tree)))

    def _random_state(self, tree: Any, _: Any) -> np.random.RandomState:
        state = self.value(tree)
        made = np.random.RandomState(_bits(state))
        made.set_state(state)
        return made


def _bits(state: Any) -> Any:
    name = state.get("bit_generator") if isinstance(state, dict) else None
    if name not in BIT_GENERATORS:
        _wrong(f"{name!r} is not a random generator of a model file")
    inner = state.get("state")
    position = inner.get("pos", 0) if isinstance(inner, dict) else 0
    position = state.get("buffer_pos", position)
    if type(position) is not int or not 0 <= position <= MOST_POSITION.get(name, 0):
        _wrong(f"a random generator stands at position {position!r}")
    bits = getattr(np.random, name)()
    bits.state = state
    return bits


# ── objects ─────────────────────────────────────────────────────────────────
def _made(known: Stored, name: str, fields: dict[str, Any], learned: dict[str, Any]) -> Any:
    if known.making == "estimator":
        return _made_estimator(known, name, fields, learned)
    if learned:
        _wrong(f"its {name} has learned something, which it does not")
    if name == "Plan" and "storage" in fields:
        known = plan_of_format_1()
    check_fields(known, name, fields)
    kind: Any = known.kind
    if known.making == "member":
        if fields["name"] not in kind.__members__:
            _wrong(f"{fields['name']!r} is not a {name}")
        return kind[fields["name"]]
    if name == "PairwiseFunction":  # made from a model otherwise
        made = kind.__new__(kind)
        made.__dict__.update(fields)
        return made
    return kind(**fields)


def _made_estimator(
    known: Stored, name: str, params: dict[str, Any], learned: dict[str, Any]
) -> Any:
    extra = set(params) - set(inspect.signature(known.kind).parameters)
    if extra:  # one that is missing is younger than the file, and has its default
        _wrong(f"its {name} has the parameters {sorted(extra)}, which this mercer does not know")
    check_parameters(name, params)
    made = known.kind(**params)
    if not learned:
        return made
    check_fields(known, name, learned)
    requests = learned.pop("_metadata_request", None)
    if requests is not None:  # which metadata a pipeline may hand to which method
        kept = made._metadata_request = made._get_metadata_request()
        for method, aliases in requests.items():
            for param, alias in aliases.items():
                getattr(kept, method).add_request(param=param, alias=alias)
    made.__dict__.update(learned)
    return made


def _parts(tree: Any, needed: set[str], what: str, may: frozenset[str] = frozenset()) -> Any:
    if not isinstance(tree, dict) or not needed <= set(tree) <= needed | may:
        _wrong(f"{what} is described wrongly")
    return tree


def _wrong(why: str) -> NoReturn:
    raise ModelFileError(why)
