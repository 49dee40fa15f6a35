"""A fitted model and rows in, one HTML page out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from mercer._core.public import public
from mercer.report.back import reconstruction
from mercer.report.data_summary import data
from mercer.report.evidence import evidence, how_sure, one_line
from mercer.report.kernel import kernel, kernel_text, selection
from mercer.report.levels import levels
from mercer.report.looks import looks
from mercer.report.markup import paragraph
from mercer.report.measure import measured
from mercer.report.monitoring import monitoring
from mercer.report.page import page
from mercer.report.reproduce import reproduce
from mercer.report.scatter import scores
from mercer.report.section import tiles
from mercer.report.shown import count, counted, power_of_ten, share, small_share
from mercer.report.spectrum import spectrum
from mercer.report.subject import subject

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from mercer.report.subject import Subject


@public
def build(
    model: Any,
    X: Any,
    *,
    preparation: Any = None,
    names: Sequence[str] | None = None,
    ids: Any = None,
    labels: Any = None,
    missing: Any = None,
    header: Mapping[str, Any] | None = None,
    notes: Sequence[str] = (),
    digest: str | None = None,
    source: str | None = None,
    model_file: str | None = None,
    commands: Sequence[str] = (),
    title: str | None = None,
    date: str | None = None,
) -> str:
    """One HTML page that shows a model and rows, and needs nothing else to be read.

    It loads nothing, from anywhere: style, script and pictures are in it, and a content security policy
    keeps it so. The same model and rows give the same text, to the last byte.

    Parameters
    ----------
    model : KernelPCA, PCA, IncrementalKernelPCA, KernelPCADetector or Prepared
        Fitted.
    X : array-like or sparse matrix of shape (n, d), or a source of rows
        As `model` takes them: scaled, where it was fitted to scaled rows. For a `Prepared` as the file has
        them.
    preparation : Preparation, optional
        What was done to the rows, so that the page can show them in the units of the file.
    names : sequence of d strings, optional
        Names of the columns; those of the preparation or of the model otherwise.
    ids, labels : array-like of shape (n,), optional
        What each row is called, and what it is.
    missing : array-like of shape (d,), optional
        How many values of each column were missing before they were filled in.
    header : mapping, optional
        Of the model file, as `mercer.io.model_file.read_header` gives it.
    notes : sequence of str, optional
        What was done to the rows while they were read.
    digest : str, optional
        SHA-256 of the rows.
    source, model_file : str, optional
        Where the rows and the model are from, for the commands that reproduce the page.
    commands : sequence of str, optional
        What made this page, for the same.
    title : str, optional
        Of the page.
    date : str, optional
        When it was made; left out otherwise.

    Returns
    -------
    html : str
        To be written as UTF-8.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer import KernelPCA
    >>> from mercer.report import build
    >>> X = np.random.default_rng(0).standard_normal((50, 3))
    >>> html = build(KernelPCA(2).fit(X), X, labels=["a", "<b>"] * 25)
    >>> "&lt;b&gt;" in html, "<b>&lt;" in html
    (True, False)
    """
    about = subject(
        model,
        X,
        preparation=preparation,
        names=names,
        ids=ids,
        labels=labels,
        missing=missing,
        header=dict(header or {}),
        notes=tuple(notes),
        digest=digest,
        source=source,
        model_file=model_file,
        commands=tuple(commands),
        title=title,
    )
    found, look = measured(about), looks(about.labels, about.n)
    sections = [
        data(about, found, look),
        kernel(about),
        spectrum(about),
        scores(about, found, look),
        levels(about, look),
        evidence(about),
        reconstruction(about, found),
        monitoring(about),
        reproduce(about),
    ]
    return page(_title(about), _lede(about), sections, date=date)


def _title(about: Subject) -> str:
    if about.title:
        return about.title
    what = f" of {about.called}" if about.called else ""
    return f"{_method(about)}{what}"


def _method(about: Subject) -> str:
    if about.detector is not None:
        return "Monitoring"
    return "PCA" if about.kernel is None and not about.is_precomputed else "Kernel PCA"


def _lede(about: Subject) -> list[Any]:
    """The page in one paragraph and a few numbers."""
    fit = about.fit
    kept = None if fit is None else share(float(fit.explained.sum()))
    with_what = "" if _method(about) == "PCA" else f" with the kernel {kernel_text(about)}"
    text = f"{_method(about)}{with_what} found {counted(about.k, 'component')}"
    hold = "holds" if about.k == 1 else "hold"
    text += "." if fit is None else f" that {hold} {how_sure(fit)}{kept} of the variance."
    chosen = selection(about)
    if chosen is not None:
        text += " The kernel was chosen by comparison on rows held out."
    text += f" {one_line(about)}"
    warned = [] if fit is None else fit.warnings()
    if warned:
        text += f" The fit gave {counted(len(warned), 'warning')}: see below."
    return [paragraph(text, class_="lede"), tiles(_facts(about, kept))]


def _facts(about: Subject, kept: str | None) -> list[tuple[str, str, str]]:
    facts = [
        ("rows", count(about.n), ""),
        ("columns", count(about.d), ""),
        ("components", count(about.k), ""),
    ]
    fit = about.fit
    if fit is None or kept is None:
        return facts
    facts.append(("variance kept", kept, how_sure(fit).strip() or "of the true whole"))
    certificate = fit.certificate
    if certificate is None:
        worst = float(np.max(fit.residuals))
        facts.append(("largest residual", power_of_ten(worst), "of the largest eigenvalue"))
    elif certificate.kind == "estimate":
        facts.append(("estimated error", power_of_ten(certificate.left_out), "of each eigenvalue"))
    else:
        facts.append(("left out", small_share(fit.trace_error), "of the trace"))
    return facts
