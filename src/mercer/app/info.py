"""What is in a model file, or what this machine has to compute with."""

from __future__ import annotations

import platform
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from mercer._core.memory import available_bytes
from mercer.app.outcome import Request, Run


@dataclass(frozen=True)
class Info:
    """The header of a model file, or the machine and its devices."""

    facts: dict[str, Any]
    devices: tuple[str, ...] = ()  # in words


@dataclass(frozen=True, kw_only=True)
class InfoRequest(Request[Info]):
    """The header of a model file, which is checked to its last byte; without one, the machine."""

    model: str | None = None

    def fulfil(self, run: Run) -> Info:
        """Read the header, or look for devices: importing torch for that takes seconds."""
        with run.timed("read"):
            if self.model is None:
                return _machine()
            from mercer.persistence.model_file import read_header

            path = Path(self.model)
            return Info({"header": read_header(path), "bytes": path.stat().st_size})


def _machine() -> Info:
    from mercer.engine.native import compiled
    from mercer.engine.resolve import NO_LIBRARY, resolve_engine
    from mercer.engine.torch.place import devices

    native, (found, why) = compiled(), devices()
    facts = {
        "python": platform.python_version(),
        "threads": resolve_engine("numpy").facts().lanes,
        "free_bytes": available_bytes(),
        "compiled_tiles": None if native is None else native.isa,
        "no_compiled_tiles": NO_LIBRARY if native is None else None,
        "devices": [{**asdict(each), "half_floats": each.no_halves is None} for each in found],
        "no_device": why,
    }
    return Info(facts, tuple(map(str, found)) or (f"none: {why}",))
