"""Tiles on a device, by torch: a GPU, or the processor for trials without one. Needs ``mercer[gpu]``."""

from mercer.engine.torch.engine import TorchEngine

__all__ = ["TorchEngine"]
