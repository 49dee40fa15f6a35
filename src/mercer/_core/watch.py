"""Long work tells how far it is: the seam between what computes and whoever wants to know."""

from __future__ import annotations

from typing import Any, Protocol


class Watch(Protocol):
    """Somebody who looks on: a line on the terminal, a callback, a checkpoint."""

    def step(self, done: int, expected: int | None, what: str, residual: float | None) -> None:
        """`done` of about `expected` steps ("products", "rows") are made; the worst residual so far."""
        ...

    def resume(self) -> dict[str, Any] | None:
        """The state (arrays and plain numbers by name) in which an earlier run was cut off."""
        ...

    def keep(self, state: dict[str, Any]) -> None:
        """The state after a step; whoever wants to resume from it writes it down."""
        ...


class Blind:
    """Nobody looks on."""

    def step(self, done: int, expected: int | None, what: str, residual: float | None) -> None:
        """Nothing happens."""

    def resume(self) -> dict[str, Any] | None:
        """Nothing to resume."""
        return None

    def keep(self, state: dict[str, Any]) -> None:
        """Nothing is kept."""
