"""Questions about a kernel or a fit that are asked before or after it, never during."""

from mercer.diagnostics.meaning import Importance, gradients, importance
from mercer.diagnostics.mercer_check import Verdict, check_kernel
from mercer.diagnostics.witness import Witness

__all__ = ["Importance", "Verdict", "Witness", "check_kernel", "gradients", "importance"]
