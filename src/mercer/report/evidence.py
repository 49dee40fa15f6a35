"""What was proved about the fit, in plain words."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from mercer._core.status import Status
from mercer.report.data_summary import training
from mercer.report.markup import Html, bullets, folded, paragraph, tag
from mercer.report.section import Section
from mercer.report.shown import count, number, power_of_ten, share, small_share

if TYPE_CHECKING:
    from mercer.model import Fit
    from mercer.report.subject import Subject

NO_EVIDENCE = (
    "This model is the drop-in for scikit-learn's class: it keeps that class's attributes, and no evidence "
    "beside them. A model of `mercer fit` hands over residuals, bounds and the validity of its kernel."
)


def evidence(subject: Subject) -> Section:
    """The section."""
    fit = subject.fit
    if fit is None:
        return Section("evidence", "How far it can be trusted", [paragraph(NO_EVIDENCE)])
    told = [" ".join(text.split()) for _, text in fit.warnings()]
    told += [text for text in _fit_warnings(subject) if text not in told]
    parts: list[Any] = [bullets(_sentences(fit, subject), class_="facts")]
    if told:
        parts.insert(0, _alarm(told))
    else:
        parts.append(paragraph("The fit gave no warning.", class_="good"))
    parts.append(paragraph(_limits(subject)))
    parts.append(folded("As mercer prints it", tag("pre", str(fit))))
    return Section("evidence", "How far it can be trusted", parts)


def one_line(subject: Subject) -> str:
    """The evidence in one sentence, for the summary."""
    fit = subject.fit
    if fit is None:
        return "This kind of model carries no evidence of its own."
    if fit.certificate is not None:
        if fit.certificate.kind == "estimate":
            return (
                "The eigenvalues are approximate: an estimate, not a bound, puts them within "
                f"{number(fit.certificate.left_out, 3)} of the true ones."
            )
        return (
            f"The fit is an approximation that left out {small_share(fit.trace_error)} of the trace of the "
            "kernel matrix, which bounds every eigenvalue."
        )
    worst = float(np.max(fit.residuals))
    matrix = "matrix" if subject.kernel is None else "kernel matrix"
    within = (
        f"Each eigenvalue is within {power_of_ten(worst)} of a true one, in units of the largest"
    )
    if fit.pairs.unseen is None:
        return f"{within}: a product with the {matrix} at the end of the fit proves it."
    return f"{within}: rows of the {matrix}, drawn at random at the end of the fit, confirm it."


def how_sure(fit: Fit) -> str:
    """What belongs before the share of the variance: an approximation knows it from below, or about."""
    if fit.certificate is None or fit.trace_error == 0.0:
        return ""
    return "at least " if fit.certificate.kind == "below" else "about "


def _fit_warnings(subject: Subject) -> list[str]:
    """What the command that fitted the model warned of."""
    about = subject.header.get("about")
    told = about.get("warnings") if isinstance(about, dict) else None
    return [str(text) for text in told] if isinstance(told, list) else []


def _alarm(told: list[str]) -> Html:
    strong = tag("strong", "The fit warned." if len(told) == 1 else "The fit gave warnings.")
    return tag("div", paragraph(strong), bullets(told), class_="warning")


def _sentences(fit: Fit, subject: Subject) -> list[Any]:
    found = [_eigenvalues(fit), _variance(fit), _validity(fit, subject), _scores(fit)]
    reasons = "; ".join(fit.plan.reasons)
    how = str(fit.plan).splitlines()[0]
    found.append(_said("How it was computed.", f"{how}{f': {reasons}' if reasons else ''}."))
    return found


def _said(head: str, text: str) -> Html:
    return tag("span", tag("b", head), " ", text)


def _eigenvalues(fit: Fit) -> Html:
    if fit.certificate is not None:
        return _said("Eigenvalues.", f"The fit is an approximation: {fit.certificate}.")
    worst = float(np.max(fit.residuals))
    first = number(float(fit.eigenvalues[0]), 3)
    text = (
        f"The largest residual ‖K̃u − λu‖/λ₁ is {power_of_ten(worst)}. So each eigenvalue is within "
        f"{power_of_ten(worst)} of a true one, in units of the largest, which is {first}."
    )
    if fit.pairs.status is not Status.CONVERGED:
        text += f" The solver {fit.pairs.status.value}"
    return _said("Eigenvalues.", text)


def _variance(fit: Fit) -> Html:
    text = (
        f"The components hold {how_sure(fit)}{share(float(fit.explained.sum()), 2)} of the whole, "
        f"{number(fit.total, 6)}: that is the trace, not the sum of what was kept."
    )
    return _said("Variance.", text)


def _validity(fit: Fit, subject: Subject) -> Html:
    if subject.kernel is None:
        return _said("Validity.", "Linear PCA: there is no kernel that could be invalid.")
    if fit.low_end is None:
        text = "The kernel is positive semi-definite whatever the data: there is a feature space behind it."
        return _said("Validity.", text)
    part = "" if fit.low_end.complete else " in the part of the spectrum that was looked at"
    lowest = number(fit.low_end.lowest, 3)
    text = f"Nothing guarantees this kernel. The smallest eigenvalue{part} is {lowest}"
    text += ", clearly negative." if fit.is_indefinite else ", which is rounding."
    return _said("Validity.", text)


def _scores(fit: Fit) -> Html:
    off = power_of_ten(fit.orthogonality)
    return _said("Scores.", f"Those of different components are uncorrelated to {off}.")


def _limits(subject: Subject) -> str:
    n = training(subject).get("n")
    whose = f" of {count(n)} rows" if isinstance(n, int) else ""
    return (
        f"All this is about the arithmetic: that the numbers are those of the matrix{whose}. It does "
        "not say that the kernel suits the data, or that a component means something."
    )
