"""What does each way back cost, and how near does it come, in input space and in feature space?"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mercer import KernelPCA
from mercer.diagnostics import compare_preimages
from mercer.kernels import Matern, Polynomial

if TYPE_CHECKING:
    from collections.abc import Iterator

    from benchmarks.preimage.data import Split

COMPONENTS = (10, 60)


def measured(name: str, data: Split) -> Iterator[dict[str, Any]]:
    fit, held = data
    kernels = {
        "rbf, median": "rbf",
        "Matérn 1.5": Matern(1.5),
        "cubic": Polynomial(3, gamma=1.0 / fit.shape[1]),
    }
    for label, kernel in kernels.items():
        for k in COMPONENTS:
            model = KernelPCA(k, kernel=kernel).fit(fit)
            if model.n_components_ < k:
                continue
            table = compare_preimages(
                model,
                held,
                rows=fit,
                methods=["ridge", "fixed-point", "distances", "gradient", "exact"],
            )
            for line in table:
                yield {"question": "methods", "data": name, "kernel": label, "k": k, **line}
