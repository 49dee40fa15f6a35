"""Kernel PCA as mathematics: plan, fit, project. No scikit-learn here."""

from mercer.model.dual import gram_operator
from mercer.model.fit import fit_kernel_pca
from mercer.model.projection import Projection
from mercer.model.result import Fit, Task
from mercer.operators.sections import FeatureSections, GivenSections, KernelSections
from mercer.planning.plan import plan, plan_approximation, plan_linear
from mercer.planning.problem import Problem
from mercer.planning.recipe import Plan

__all__ = [
    "FeatureSections",
    "Fit",
    "GivenSections",
    "KernelSections",
    "Plan",
    "Problem",
    "Projection",
    "Task",
    "fit_kernel_pca",
    "gram_operator",
    "plan",
    "plan_approximation",
    "plan_linear",
]
