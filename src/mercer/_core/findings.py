"""What a call reports beside its result, as data, and how mercer's own warnings are given.

A program may collect the findings of a call (`collected`); without a collector a finding is a Python
warning. The collector belongs to the context of the call, so that threads never mix theirs.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from contextlib import AbstractContextManager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from mercer._core.errors import MercerWarning, Remedy, users_level
from mercer._core.observer import holding

Level = Literal["info", "note", "warning"]


@dataclass(frozen=True)
class Finding:
    """Something that a user should know.

    Parameters
    ----------
    code : str
        Which finding it is, such as ``"rank"``: the same in every version.
    message : str
        A sentence; a `Message` where it names parameters.
    numbers : dict
        The figures in the sentence, by name.
    remedy : Remedy, optional
        What to set, and to which value.
    level : {"info", "note", "warning"}
        What was read or written; what was done to the data; what may make the result useless.
    """

    code: str
    message: str
    numbers: dict[str, Any] = field(default_factory=dict)
    remedy: Remedy | None = None
    level: Level = "warning"

    @classmethod
    def of(cls, warning: MercerWarning) -> Finding:
        """The finding behind a warning of the library."""
        return cls(warning.code, warning.args[0], warning.numbers, warning.remedy)


Collector: TypeAlias = Callable[[MercerWarning], None]
_collector: ContextVar[Collector | None] = ContextVar("collector", default=None)


def warn(
    message: str | MercerWarning,
    category: type[MercerWarning] = MercerWarning,
    code: str = "",
    numbers: dict[str, Any] | None = None,
    remedy: Remedy | None = None,
) -> None:
    """Warn the caller: the collector of this call, or Python's warnings at the line that called mercer."""
    warning = message
    if not isinstance(warning, MercerWarning):
        warning = category(warning, code=code, numbers=numbers, remedy=remedy)
    collector = _collector.get()
    if collector is None:
        warnings.warn(warning, stacklevel=users_level())
    else:
        collector(warning)


def collected(collector: Collector) -> AbstractContextManager[None]:
    """Hand the warnings of the block to `collector`, in this thread only.

    >>> warned = []
    >>> with collected(warned.append):
    ...     warn("Two components were asked for, and there is one.")
    >>> [warning.code for warning in warned]
    ['mercer']
    """
    return holding(_collector, collector)


def silenced() -> AbstractContextManager[None]:
    """A block without warnings of mercer."""
    return collected(lambda _warning: None)


# Whether arrays have the columns of the fit, in their order, because a caller matched them by name.
_matched: ContextVar[bool] = ContextVar("matched", default=False)


def columns_matched() -> AbstractContextManager[None]:
    """Don't warn in the block that arrays have no column names: they were matched by name before."""
    return holding(_matched, True)


def are_columns_matched() -> bool:
    """Whether columns of arrays were matched by name before."""
    return _matched.get()
