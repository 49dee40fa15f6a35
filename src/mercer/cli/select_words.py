"""What `mercer select` found: a document for programs, the winner and the table for people."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mercer.cli.frame import plain
from mercer.kernels.text import kernel_text

if TYPE_CHECKING:
    from mercer.diagnostics import Selection


def facts(found: Selection, *, n: int, judged: int) -> dict[str, Any]:
    """The comparison as JSON can hold it: what a report shows as the way a kernel was chosen."""
    return {
        "winner": {"kernel": kernel_text(found.best_kernel_), "components": found.n_components_},
        "conclusive": found.conclusive_,
        "reasons": _reasons(found),
        "table": [plain(row) for row in found.table_],
        "n": n,
        "n_judged": min(n, judged),
    }


def told(found: Selection) -> str:
    """The winner, why, and the table."""
    head = f"{found.word}  {kernel_text(found.best_kernel_)} with {found.n_components_} components"
    return "\n".join([head, *(f"  - {line}" for line in _reasons(found)), "", str(found.table_)])


def _reasons(found: Selection) -> list[str]:
    """One line each: a judge prints itself over several."""
    return [" ".join(reason.split()) for reason in found.reasons_]


def winner_options(found: Selection) -> str:
    """The winner as options of `mercer fit`."""
    return f'--kernel "{kernel_text(found.best_kernel_)}" --components {found.n_components_}'
