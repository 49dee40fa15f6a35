"""Tiles on a device, by torch: a GPU, or the processor for trials without one. Needs ``mercer[gpu]``."""

from mercer.engine.torch.engine import TorchEngine
from mercer.engine.torch.several import SeveralEngine

__all__ = ["SeveralEngine", "TorchEngine"]
