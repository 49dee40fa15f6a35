"""Questions about a kernel or a fit that are asked before or after it, never during."""

from mercer.diagnostics.components import Components, n_components
from mercer.diagnostics.detection import DetectorSelection, select_detector
from mercer.diagnostics.importance import Importance, gradients, importance
from mercer.diagnostics.mercer_check import Verdict, check_kernel
from mercer.diagnostics.preimages import compare_preimages
from mercer.diagnostics.selection import Selection, select
from mercer.diagnostics.symptoms import Symptom, symptoms, widths
from mercer.diagnostics.witness import Witness

__all__ = [
    "Components",
    "DetectorSelection",
    "Importance",
    "Selection",
    "Symptom",
    "Verdict",
    "Witness",
    "check_kernel",
    "compare_preimages",
    "gradients",
    "importance",
    "n_components",
    "select",
    "select_detector",
    "symptoms",
    "widths",
]
