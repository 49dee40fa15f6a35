"""The link from an estimator's picture in a notebook to its page of the reference."""

from __future__ import annotations

import os
from pathlib import Path

# The site that `make docs` builds in a checkout; an installed package has none beside it.
BUILT = Path(__file__).parents[3] / "docs" / "_build" / "html"


def site() -> str:
    """Where the documents are: ``MERCER_DOCS``, or the site that was built in this checkout, or "".

    Examples
    --------
    >>> os.environ["MERCER_DOCS"] = "https://example.org/mercer/"
    >>> site()
    'https://example.org/mercer'
    >>> del os.environ["MERCER_DOCS"]
    """
    given = os.environ.get("MERCER_DOCS", "")
    return given.rstrip("/") or (BUILT.as_uri() if (BUILT / "index.html").exists() else "")


class Documented:
    """What scikit-learn's HTML repr asks for; without a site there is no link."""

    _doc_link_module = "mercer"

    @property
    def _doc_link_template(self) -> str:
        base = site()
        return f"{base}/reference/generated/{{module}}.{{name}}.html" if base else ""

    def _doc_link_url_param_generator(self) -> dict[str, str]:
        cls = type(self)
        home = cls.__module__ if cls.__module__ in ("mercer.sklearn", "mercer.pyod") else "mercer"
        return {"module": home, "name": cls.__name__}
