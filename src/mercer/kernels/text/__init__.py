"""Kernels as text, ``rbf(gamma=0.5) + 0.1*linear()``: read safely, and written so that they read back."""

from mercer.kernels.text.build import kernel_text, parse_call, parse_kernel

__all__ = ["kernel_text", "parse_call", "parse_kernel"]
