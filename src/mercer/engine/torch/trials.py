"""Trials of blocks: a slice of a product is timed on the device, for `tuned` to choose."""

from __future__ import annotations

import time
from dataclasses import replace
from importlib import import_module
from statistics import median
from typing import TYPE_CHECKING

from mercer.engine.torch.tuned import REPEATS, TRIAL_ROWS

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import Tensor

    from mercer.engine.torch.fused import Launch
    from mercer.engine.torch.tuned import Blocks

# Products by other blocks differ by the order of their sums, and by nothing else: of the largest, far less
# than this, unless what was compiled is wrong.
AGREES = {False: 2.0**-6, True: 2.0**-16}


def compiled_for(there: Tensor) -> tuple[str, str]:
    """The device of a tensor, and who compiles for it, in words."""
    import torch

    triton = getattr(import_module("triton"), "__version__", "of no version")
    versions = f"torch {torch.__version__}, triton {triton}"
    if there.device.type != "cuda":
        return str(there.device), versions
    major, minor = torch.cuda.get_device_capability(there.device)
    return f"{torch.cuda.get_device_name(there.device)} ({major}.{minor})", versions


def trials_of(launch: Launch) -> Callable[[Blocks], float | None]:
    """Seconds that a slice of a product takes with some blocks; None where these are not to be trusted."""
    x = launch.x.first(TRIAL_ROWS)
    some = replace(launch, x=x, z=x if launch.z is launch.x else launch.z.first(TRIAL_ROWS))
    first: list[Tensor] = []  # the product by the first blocks

    def seconds_of(cut: Blocks) -> float | None:
        found = some(cut)  # compiles
        if not first:
            first.append(found)
        off, most = (found - first[0]).abs().max(), first[0].abs().max()
        if not bool(off <= AGREES[launch.precise] * most):
            return None
        took = []
        for _ in range(REPEATS):
            _wait_for(found)
            started = time.perf_counter()
            again = some(cut)
            _wait_for(again)
            took.append(time.perf_counter() - started)
            if not again.equal(found):  # the order of its sums is nobody's
                return None
        return median(took)

    return seconds_of


def _wait_for(there: Tensor) -> None:
    import torch

    if there.device.type == "cuda":
        torch.cuda.synchronize(there.device)
