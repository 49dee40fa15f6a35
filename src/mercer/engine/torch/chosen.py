"""The device that "auto" has chosen, which a model must not need elsewhere."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Self

from mercer.engine.resolve import AUTO, resolve_engine
from mercer.engine.torch.engine import TorchEngine


@dataclass(frozen=True)
class ChosenEngine(TorchEngine):
    """A device that was taken unasked: what is pickled with it computes as "auto" does where it is read."""

    def let_go(self) -> None:
        """Give back what a trial has left on the device, where the fit goes on without it."""
        with suppress(Exception):  # a device that has failed a trial fails here too
            self.place.let_go()

    def __reduce__(self) -> tuple[Any, ...]:
        return resolve_engine, (AUTO,)

    def __deepcopy__(self, memo: Any) -> Self:
        return self
