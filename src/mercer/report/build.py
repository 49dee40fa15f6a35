"""A fitted model and rows in, one HTML page out, which loads nothing."""

from __future__ import annotations

import base64
import hashlib
import inspect
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from mercer._core.atomic import written_whole
from mercer._core.errors import ParameterError, UnknownParameterError
from mercer._core.public import public, unknown_words
from mercer._core.version import VERSION
from mercer.report.markup import paragraph, static, tag, tiles
from mercer.report.pictures import levels, reconstruction, spectrum
from mercer.report.process import alarms, key_figures
from mercer.report.prose import data, evidence, in_short, kernel, kernel_text, reproduce
from mercer.report.scatter import scores
from mercer.report.subject import Subject, subject
from mercer.views.variance import how_sure
from mercer.views.wording import count, counted, share

# The title of each section, and what makes its parts; one without parts is left out.
SECTIONS: dict[str, tuple[str, Callable[[Subject], Sequence[Any]]]] = {
    "data": ("Data", data),
    "kernel": ("Kernel and how it was chosen", kernel),
    "spectrum": ("Spectrum and variance", spectrum),
    "scores": ("Scores", scores),
    "levels": ("Level sets", levels),
    "evidence": ("How far it can be trusted", evidence),
    "reconstruction": ("What the components keep", reconstruction),
    "reproduce": ("How to reproduce it", reproduce),
}
# A page about a detector begins with what it saw.
FIRST = {"monitoring": ("Alarms", alarms), "scores": SECTIONS["scores"]}

ENDINGS = (".html", ".htm", "")  # of a page; any other promises another format


@public
def report(model: Any, X: Any, path: str | os.PathLike[str], **about: Any) -> Path:
    """Write one HTML file that shows a model and rows, and needs nothing else to be read.

    Parameters
    ----------
    model, X
        As `mercer.report.build` takes them.
    path : str or path
        The file, which is written whole or not at all.
    **about
        All other parameters of `mercer.report.build`.

    Returns
    -------
    path : Path
        The file that was written.

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np
    >>> import mercer
    >>> X = np.random.default_rng(0).standard_normal((50, 3))
    >>> model = mercer.KernelPCA(2).fit(X)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     mercer.report(model, X, f"{folder}/r.html", names=["a", "b", "c"]).name
    'r.html'
    """
    target, known = Path(path), list(inspect.signature(build).parameters)
    if not about.keys() <= {*known}:
        raise UnknownParameterError(unknown_words("mercer.report", known, about))
    if target.suffix.lower() not in ENDINGS:
        must_be, remedy = "a file that ends in .html", "For a PDF, print the page from a browser."
        raise ParameterError.about(
            parameter="path", value=str(path), must_be=must_be, remedy=remedy
        )
    if not target.parent.is_dir():  # before the page is made
        msg = f"There is no folder {target.parent} to write the report {target.name} to. Create it first."
        raise FileNotFoundError(msg)
    page = build(model, X, **about).encode("utf-8")
    with written_whole(target) as file:
        file.write(page)
    return target


@public
def build(
    model: Any,
    X: Any,
    *,
    preparation: Any = None,
    names: Sequence[str] | None = None,
    ids: Any = None,
    labels: Any = None,
    time: Any = None,
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
        A fitted model.
    X : array-like or sparse matrix of shape (n, d), or a source of rows
        As `model` takes them: scaled, where it was fitted to scaled rows. For a `Prepared` as the file has
        them.
    preparation : Preparation, optional
        What was done to the rows, so that the page can show them in the units of the file.
    names : sequence of d strings, optional
        Names of the columns; those of the preparation or of the model otherwise.
    ids, labels : array-like of shape (n,), optional
        What each row is called, and what it is.
    time : array-like of shape (n,), optional
        When each row was taken, in place of `ids`: dates or numbers make the time axis of a detector's
        charts. The index of a data frame of dates otherwise.
    missing : array-like of shape (d,), optional
        How many values of each column were missing before they were filled in.
    header : mapping, optional
        That of the model file, as `mercer.persistence.model_file.read_header` gives it.
    notes : sequence of str, optional
        What was done to the rows while they were read.
    digest : str, optional
        SHA-256 of the rows.
    source, model_file : str, optional
        Where the rows and the model are from, for the commands that reproduce the page.
    commands : sequence of str, optional
        What made this page, for the same.
    title : str, optional
        The title of the page.
    date : str, optional
        When it was made; left out otherwise.

    Returns
    -------
    html : str
        The page, to be written as UTF-8.

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
        preparation,
        names,
        ids=time if ids is None else ids,
        labels=labels,
        missing=missing,
        header=dict(header or {}),
        notes=tuple(notes),
        digest=digest,
        source=source,
        model_file=model_file,
        commands=tuple(commands),
        title=title,
        id_name="id" if time is None else "time",
    )
    return _page(about, date)


def _page(about: Subject, date: str | None) -> str:
    what = f" of {about.data_file}" if about.data_file else ""
    title = about.title or f"{_method(about)}{what}"
    style, script = static("report.css"), static("report.js")
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", http_equiv="Content-Security-Policy", content=_policy(style, script)),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", name="color-scheme", content="light dark"),
        tag("meta", name="generator", content=f"mercer {VERSION}"),
        tag("title", title),
        # Otherwise a browser goes looking for one.
        tag("link", rel="icon", href="data:,"),
        tag("style", style),
    )
    maker = f"Made by mercer {VERSION}" + (f" on {date}." if date else ".")
    links, sections = [], []
    order = SECTIONS if about.fitted.detector is None else FIRST | SECTIONS
    for id_, (name, made) in order.items():
        parts = [part for part in made(about) if part is not None]
        if parts:
            heading = tag("h2", name, id=f"{id_}-title")
            links.append(tag("li", tag("a", name, href=f"#{id_}")))
            sections.append(tag("section", heading, *parts, id=id_, aria_labelledby=f"{id_}-title"))
    contents = tag("nav", tag("ul", *links), aria_label="Contents")
    top = tag("header", tag("h1", title), paragraph(maker, class_="made"), *_lede(about), contents)
    body = tag("body", top, tag("main", *sections), tag("script", script))
    return f"<!doctype html>\n{tag('html', head, body, lang='en')}\n"


def _policy(style: str, script: str) -> str:
    """Nothing may be loaded, and only our own script runs: even a slip in escaping would do no harm."""
    ours = (base64.b64encode(hashlib.sha256(text.encode()).digest()) for text in (style, script))
    style_hash, script_hash = (f"'sha256-{digest.decode()}'" for digest in ours)
    return (
        f"default-src 'none'; style-src {style_hash}; script-src {script_hash}; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )


def _method(about: Subject) -> str:
    fitted = about.fitted
    if fitted.detector is not None:
        return "Monitoring"
    return "PCA" if fitted.kernel is None and not fitted.is_precomputed else "Kernel PCA"


def _lede(about: Subject) -> list[Any]:
    """The page in one paragraph and a few numbers."""
    fitted = about.fitted
    if fitted.detector is not None:
        words = about.watched[0].summary(about.row_name)
        return [paragraph(words, class_="lede"), tiles(key_figures(about))]
    numbers = {"rows": about.n, "columns": fitted.d, "components": fitted.k}
    facts = [(what, count(n), "") for what, n in numbers.items()]
    with_what = "" if _method(about) == "PCA" else f" with the kernel {kernel_text(about)}"
    text = f"{_method(about)}{with_what} found {counted(fitted.k, 'component')}"
    fit, proof = fitted.fit, "This kind of model carries no evidence of its own."
    if fit is not None:
        kept, sure = share(float(fit.explained.sum())), how_sure(fit)
        text += f" that {'holds' if fitted.k == 1 else 'hold'} {sure}{kept} of the variance"
        proof, fact = in_short(about, fit)
        facts += [("variance kept", kept, sure.strip() or "of the total variance"), fact]
    text += "."
    if about.entry("about", "selection", dict) is not None:
        text += " The kernel was chosen by comparison on rows held out."
    text += f" {proof}"
    if fit is not None and fit.warnings():
        text += f" The fit gave {counted(len(fit.warnings()), 'warning')}: see below."
    return [paragraph(text, class_="lede"), tiles(facts)]
