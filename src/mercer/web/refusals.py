"""Errors as the page shows them: a sentence, a place in a text, a remedy, and no details."""

from __future__ import annotations

from typing import Any

from mercer._core.errors import KernelSyntaxError, MercerError, StoppedError
from mercer.web.desk import BusyError, SupersededError
from mercer.web.packets import Reply, json_reply
from mercer.web.session import NotFoundError

ERRORS: dict[type[BaseException], tuple[str, int]] = {
    NotFoundError: ("not-found", 404),
    SupersededError: ("superseded", 409),
    StoppedError: ("stopped", 409),
    BusyError: ("busy", 429),
    MercerError: ("refused", 422),
    MemoryError: ("refused", 422),
    OSError: ("failed", 500),
    Exception: ("failed", 500),
}


def failed(error: BaseException) -> Reply:
    """An error as the page shows it."""
    status = next(pair[1] for kind, pair in ERRORS.items() if isinstance(error, kind))
    return json_reply({"error": told(error)}, status)


def told(error: BaseException) -> dict[str, Any]:
    """A sentence, and the place, the parameter and the remedy where it has them."""
    message, at = str(error) if isinstance(error, MercerError) else _unforeseen(error), None
    if isinstance(error, KernelSyntaxError):
        message, at = _pointed(message)
    return {
        "code": next(pair[0] for kind, pair in ERRORS.items() if isinstance(error, kind)),
        "message": message,
        "parameter": getattr(error, "parameter", None),
        "remedy": getattr(error, "remedy", ""),
        "at": at,
    }


def _unforeseen(error: BaseException) -> str:
    if isinstance(error, MemoryError):
        return "There is not enough memory for this. Use fewer rows, or an approximation."
    return f"{type(error).__name__}: this was not foreseen. The terminal has the details."


def _pointed(message: str) -> tuple[str, list[int] | None]:
    """The sentence of a syntax error, and where its caret points in a text that is shown whole."""
    lines = message.split("\n")
    if len(lines) < 3 or "^" not in lines[-1] or "…" in lines[-2]:
        return lines[0], None
    start = lines[-1].index("^") - 2
    return "\n".join(lines[:-2]), [start, start + lines[-1].count("~") + 1]
