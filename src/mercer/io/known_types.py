"""The types that a model file may hold: an allow-list of names, and how each is found and made.

Nothing is ever made from a file but what is in `table`, or a kernel with a formula that the program itself
has defined, and nothing is imported before a file asks for it by one of these names. Every field has a kind,
written as alternatives such as ``none|number``:

    none bool int number text texts dtype   a number may be a NumPy scalar; texts is a tuple of text
    seed                                    none, an int from 0 on, or random numbers
    names                                   an array of column names
    any                                     any value that a file may hold
    float[m,k]  rows[n,d]                   arrays; a letter is one length within one object, and rows may
                                            be sparse
    Kernel, Fit, …                          an object of that type or family

A name that ends in ``?`` may be missing.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from importlib import import_module
from typing import Any, Literal, TypeAlias

# value: made by its constructor from its fields. estimator: by its constructor from its parameters, with
# what it has learned set afterwards. member: of an enumeration, by its name.
Making: TypeAlias = Literal["value", "estimator", "member"]


@dataclass(frozen=True)
class Known:
    """A type that may be in a file."""

    home: str  # "module:Class"
    fields: dict[
        str, str
    ]  # kinds by name: of a value's fields, or of what an estimator has learned
    making: Making = "value"
    kind: type | None = None  # of a kernel that was registered by its formula: the class itself

    @classmethod
    def of(cls, home: str, fields: str = "", making: Making = "value") -> Known:
        """From a text such as ``"sections: Sections; coef: float[m,k]"``."""
        pairs = (part.split(":") for part in fields.split(";") if part.strip())
        return cls(home, {name.strip(): kind.strip() for name, kind in pairs}, making)

    @property
    def type(self) -> Any:
        """The class."""
        return found(self.home) if self.kind is None else self.kind

    @property
    def required(self) -> set[str]:
        """Names that have to be there."""
        return {name for name in self.fields if not name.endswith("?")}

    @property
    def kinds(self) -> dict[str, str]:
        """Kinds by name, whether the name may be missing or not."""
        return {name.removesuffix("?"): kind for name, kind in self.fields.items()}


@cache
def found(home: str) -> Any:
    """The class behind ``"module:Class"``, of a text in these tables and never of one in a file."""
    module, _, name = home.partition(":")
    return getattr(import_module(module), name)


@cache
def table() -> dict[str, Known]:
    """All known types by the name that they have in a file."""
    from mercer.io.known_kernels import KERNELS
    from mercer.io.known_values import ESTIMATORS, VALUES

    return {**KERNELS, **VALUES, **ESTIMATORS}


def known_type(name: str) -> Known | None:
    """What is known by this name: a type of the tables, or a kernel whose class the program has defined.

    A kernel with a formula is registered by the name of its class (`mercer.kernels.base.FORMULAS`). Names of
    the tables come first.
    """
    from mercer.io.known_kernels import of_formula
    from mercer.kernels.base import FORMULAS

    if name in table() or name not in FORMULAS:
        return table().get(name)
    return of_formula(FORMULAS[name], "any")


def name_of(value: Any) -> str | None:
    """The name in a file of a value's type: of exactly that type, since a subclass may do anything."""
    kind = type(value)
    for name in _by_class_name().get(kind.__name__, ()):
        home = table()[name].home
        # Only of the same package: to find out, nothing else is imported.
        if home.startswith(kind.__module__.partition(".")[0]) and found(home) is kind:
            return name
    registered = known_type(kind.__name__)
    return None if registered is None or registered.kind is not kind else kind.__name__


@cache
def _by_class_name() -> dict[str, list[str]]:
    names: dict[str, list[str]] = {}
    for name, known in table().items():
        names.setdefault(known.home.partition(":")[2], []).append(name)
    return names
