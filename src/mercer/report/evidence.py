"""What was proved about the fit, in plain words, and how to get the same again."""

from __future__ import annotations

import platform
import shlex
from importlib import metadata
from typing import TYPE_CHECKING, Any

import numpy as np

from mercer._core.version import VERSION
from mercer.report.markup import Html, bullets, folded, grid, paragraph, tag
from mercer.views.variance import how_sure, trust
from mercer.views.wording import count, number, power_of_ten, share, small_share

if TYPE_CHECKING:
    from mercer.model import Fit
    from mercer.report.subject import Subject

PACKAGES = ("numpy", "scipy", "scikit-learn")
NO_EVIDENCE = (
    "This model is the drop-in for scikit-learn's class: it keeps that class's attributes, and no evidence "
    "beside them. A model of `mercer fit` hands over residuals, bounds and the validity of its kernel."
)


def evidence(subject: Subject) -> list[Any]:
    """Warnings first, then what is known of eigenvalues, variance, kernel and scores."""
    fit = subject.fitted.fit
    if fit is None:
        return [paragraph(NO_EVIDENCE)]
    told = [" ".join(text.split()) for text in map(str, fit.warnings())]
    # What the command that fitted the model warned of.
    theirs = map(str, subject.entry("about", "warnings", list) or [])
    told += [text for text in theirs if text not in told]
    facts = bullets(_sentences(fit, subject), class_="facts")
    first = [facts, paragraph("The fit gave no warning.", class_="good")]
    if told:
        strong = tag("strong", "The fit warned." if len(told) == 1 else "The fit gave warnings.")
        first = [tag("div", paragraph(strong), bullets(told), class_="warning"), facts]
    n = subject.entry("data", "n", int)
    whose = "" if n is None else f" of {count(n)} rows"
    limits = (
        f"All this is about the arithmetic: that the numbers are those of the matrix{whose}. It does "
        "not say that the kernel suits the data, or that a component means something."
    )
    printed = folded("As mercer prints it", tag("pre", str(fit)))
    return [*first, paragraph(limits), printed]


def in_short(subject: Subject, fit: Fit) -> tuple[str, tuple[str, str, str]]:
    """The evidence in one sentence and as a key figure, for the summary."""
    certificate = fit.certificate
    if certificate is None:
        worst = power_of_ten(float(np.max(fit.residuals)))
        matrix = "matrix" if subject.fitted.kernel is None else "kernel matrix"
        how = f"a product with the {matrix} at the end of the fit proves it"
        if fit.pairs.unseen is not None:
            how = f"rows of the {matrix}, drawn at random at the end of the fit, confirm it"
        text = f"Each eigenvalue is within {worst} of a true one, in units of the largest: {how}."
        return text, ("largest residual", worst, "of the largest eigenvalue")
    if certificate.kind == "estimate":
        text = (
            "The eigenvalues are approximate: an estimate, not a bound, puts them within "
            f"{number(certificate.left_out, 3)} of the true ones."
        )
        error = power_of_ten(certificate.left_out)
        return text, ("estimated error", error, "of each eigenvalue")
    left_out = small_share(fit.trace_error)
    text = (
        f"The fit is an approximation that left out {left_out} of the trace of the kernel matrix, which "
        "bounds every eigenvalue."
    )
    return text, ("left out", left_out, "of the trace")


def _sentences(fit: Fit, subject: Subject) -> list[Html]:
    reasons = "; ".join(fit.plan.reasons)
    said = {
        "Eigenvalues.": trust(fit),
        "Variance.": (
            f"The components hold {how_sure(fit)}{share(float(fit.explained.sum()), 2)} of the whole, "
            f"{number(fit.total, 6)}: that is the trace, not the sum of what was kept."
        ),
        "Validity.": _validity(fit, subject),
        "Scores.": (
            f"Those of different components are uncorrelated to {power_of_ten(fit.orthogonality)}."
        ),
        "How it was computed.": (
            f"{str(fit.plan).splitlines()[0]}{f': {reasons}' if reasons else ''}."
        ),
    }
    return [tag("span", tag("b", head), " ", text) for head, text in said.items()]


def _validity(fit: Fit, subject: Subject) -> str:
    if subject.fitted.kernel is None:
        return "Linear PCA: there is no kernel that could be invalid."
    if fit.low_end is None:
        return "The kernel is positive semi-definite whatever the data: there is a feature space behind it."
    part = "" if fit.low_end.complete else " in the part of the spectrum that was looked at"
    sign = "clearly negative" if fit.is_indefinite else "which is rounding"
    lowest = number(fit.low_end.lowest, 3)
    return f"Nothing guarantees this kernel. The smallest eigenvalue{part} is {lowest}, {sign}."


# ── how to get the same again ───────────────────────────────────────────────
def reproduce(subject: Subject) -> list[Any]:
    """Commands, versions, seed and hashes."""
    return [
        paragraph("With the same files and versions these commands give the same numbers:"),
        tag("pre", "\n".join(_commands(subject)), class_="commands", tabindex="0"),
        _versions(subject),
        _facts(subject),
    ]


def _commands(subject: Subject) -> list[str]:
    """The fit, the use and this report, as one types them."""
    model, data = map(shlex.quote, subject.files)
    # A model that Python fitted is told as Python has it.
    fit = subject.entry("about", "command", str)
    if fit is None:
        fit = f"# fitted in Python: {' '.join(repr(subject.fitted.model).split())}"
    use = f"mercer transform {model} {data} -o scores.csv"
    if subject.fitted.detector is not None:
        use = f"mercer monitor {model} {data} -o alarms.csv"
    return [fit, use, *(subject.commands or (f"mercer report {model} {data} -o report.html",))]


def _facts(subject: Subject) -> Html:
    seed = subject.fitted.seed
    n, theirs = subject.entry("data", "n", int), subject.entry("data", "digest", object)
    known = {
        "seed": "fixed (none was given)" if seed is None else str(seed),
        "training rows": None if n is None else count(n),
        "digest of the training rows": tag("code", theirs) if theirs else None,
        "digest of these rows": None if subject.digest is None else tag("code", subject.digest),
    }
    rows = [[what, value] for what, value in known.items() if value is not None]
    return grid(["what", "which"], rows, caption="Seed and hashes", texts=2)


def _versions(subject: Subject) -> Html:
    """Of what the fit and the page were made with, side by side: a difference is seen at once."""
    here = {"mercer": VERSION, "python": platform.python_version()}
    here |= {name: metadata.version(name) for name in PACKAGES}
    told = subject.header.get("versions")
    fitted = {"mercer": subject.header.get("mercer_version")}
    fitted |= told if isinstance(told, dict) else {}
    if not any(fitted.values()):  # a model that was never in a file
        return paragraph(f"Made with {', '.join(' '.join(one) for one in here.items())}.")
    rows = [
        [name, *(str(made.get(name) or "—") for made in (fitted, here))] for name in here | fitted
    ]
    return grid(["version of", "at the fit", "of this page"], rows, caption="Versions", texts=3)
