"""A fit while the finger is down, and at rest: exact where that is quick, else with a badge that says so."""

from __future__ import annotations

import threading
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from mercer._core.errors import MercerError
from mercer._core.params import OneOf, require
from mercer.app.fit import rows_for
from mercer.app.outcome import Observer, Run, as_dict, refuse
from mercer.diagnostics import symptoms
from mercer.engine.resolve import resolve_engine
from mercer.engine.threads import single_threaded_blas
from mercer.estimators.fit_request import fit_request
from mercer.kernels import Linear
from mercer.kernels.text import parse_kernel
from mercer.planning.plan import ONE_BY_ONE_ROWS
from mercer.planning.problem import SMALL_ROWS
from mercer.solvers import BlockKrylov
from mercer.views.fitted import Fitted
from mercer.views.wording import count, number

if TYPE_CHECKING:
    from mercer import KernelPCA
    from mercer._core.types import Array, Indices
    from mercer.app.explore.dataset import Dataset
    from mercer.app.explore.recipe import Recipe
    from mercer.app.rows import Opened
    from mercer.preprocessing.align import Sheet

DRAG_ROWS, REST_ROWS = 4000, 20_000
EXACT_ROWS = {"drag": DRAG_ROWS, "rest": REST_ROWS, "exact": None}  # up to which a fit is exact
LANDMARKS = 500
DRAG_TOL = 1e-6  # residuals that will do for a picture in float32, while the finger is down
SAMPLE = 20_000  # rows that are drawn while the finger is down
POINTS = 200_000  # rows that are drawn as points; more are counted in cells
SYMPTOM_ROWS, NEIGHBOUR_ROWS = 200, 2000
PREIMAGE = "ridge"
ALONE = 5.0  # neighbours: fewer make a component of single rows
# Alignment with PCA: above the first nothing is bent, above the others little, and some.
SAME, STRAIGHT, BENDING = 0.999, 0.98, 0.7
INTENDED = "Nearly linear, as intended for a detector."


@dataclass(eq=False)
class Shown:
    """A fitted model, the rows that it was fitted to, and what there is to say about it."""

    recipe: Recipe
    data: Dataset
    sheet: Sheet
    model: Any
    way: Way | None = None  # None: a model that was there already
    findings: tuple[dict[str, Any], ...] = ()
    timings: dict[str, float] = field(default_factory=dict)
    lock: Any = field(default_factory=threading.RLock)

    @cached_property
    def inside(self) -> Fitted:
        return Fitted.of(self.model, self.sheet.preparation)

    @property
    def approximate(self) -> bool:
        """Whether an exact fit to all rows would give other numbers."""
        fit = self.inside.fit
        return (fit is not None and fit.is_low_rank) or (self.way is not None and self.way.sampled)

    @property
    def scores(self) -> Array | None:  # (n, k)
        """Scores of the rows of the sheet, where the fit has them: an exact one, to just these rows."""
        fit = self.inside.fit
        if self.way is None or self.recipe.kind == "detector" or fit is None or self.approximate:
            return None
        return fit.scores

    @property
    def badge(self) -> str:
        """What an approximation calls itself, and which rows it saw."""
        if not self.approximate:
            return ""
        n, fit = count(len(self.sheet)), self.inside.fit
        chosen = None if fit is None else fit.plan.approximation
        rows = f"{n} rows"
        if self.way is not None and self.way.sampled:
            rows = f"{count(SAMPLE)} of {n} rows, drawn with seed 0"
        return f"approximate: {'' if chosen is None else repr(chosen)} of {rows}"

    # ── the columns of the file and those of the model ─────────────────────
    @cached_property
    def _places(self) -> list[int] | None:
        """Where the file has the columns of the model; None where the two are the same."""
        own, file = self.inside.names(self.sheet.names), self.data.raw.names
        if tuple(own) == tuple(file) or not {*own} <= {*file}:
            return None
        place = {name: j for j, name in enumerate(file)}
        return [place[name] for name in own]

    def of_file(self, raw: Array) -> Array:  # (m, p) -> (m, d)
        """Rows of the file as rows of the model, both in the units of the file."""
        found = raw if self._places is None else raw[:, self._places]
        return self._as_wide(found, self.inside.d)

    def in_file(self, raw: Array) -> Array:  # (m, d) -> (m, p)
        """Rows of the model with the columns of the file; one that the model does not have is NaN."""
        p = len(self.data.raw.names)
        if self._places is None:
            return self._as_wide(raw, p)
        found = np.full((len(raw), p), np.nan)
        found[:, self._places] = raw
        return found

    @staticmethod
    def _as_wide(rows: Array, wanted: int) -> Array:
        if rows.shape[1] != wanted:
            n = rows.shape[1]
            refuse(f"The file has {wanted} columns here and the model {n}: they share no plane.")
        return rows

    def returning(self) -> Shown:
        """The same with a pre-image, which is learned where there is none."""
        if self.inside.detector is not None or self.inside.has_preimage:
            return self
        method = self.recipe.preimage or PREIMAGE
        with self.lock:
            kept = vars(self).setdefault("_returning", {})
            if method not in kept:
                kept[method] = replace(self, model=self.model.with_preimage(method, self._seen))
            found: Shown = kept[method]
        return found

    @property
    def _seen(self) -> Any:
        """The rows of the fit, where the model does not keep them itself."""
        fit = self.inside.fit
        if fit is not None and fit.keeps_points and not fit.is_low_rank:
            return None
        if self.way is None:  # these are rows, but perhaps not those of its fit
            refuse("This model keeps no rows for a pre-image. Fit it with one: {preimage:'ridge'}.")
        return rows_at(self.sheet.rows, self.way.drawn(len(self.sheet)))

    @property
    def is_indefinite(self) -> bool:
        """Whether the kernel has clearly negative eigenvalues on these rows."""
        fit = self.inside.fit
        return fit is not None and fit.is_indefinite

    @property
    def shares(self) -> Array | None:  # (k,)
        """Of the variance; None where its negative eigenvalues make a whole that is less than its parts."""
        return None if self.is_indefinite else self.inside.shares

    @cached_property
    def described(self) -> dict[str, Any]:
        """The evidence, the plan and the warnings, in words."""
        own, fit = self.inside, self.inside.fit
        n, d = self.sheet.rows.shape
        shares = self.shares
        return {
            "kernel": "Linear()" if own.kernel is None else repr(own.kernel),
            "formula": "" if own.kernel is None else str(own.kernel.shape()),
            "n": int(n),
            "d": int(d),
            "components": own.k,
            "approximate": self.approximate,
            "badge": self.badge,
            "evidence": [] if fit is None else str(fit).splitlines(),
            "plan": "" if fit is None else str(fit.plan),
            "status": "" if fit is None else fit.pairs.status.name,
            "variance_kept": None if shares is None else float(shares.sum()),
            "closeness": self.closeness,
            "symptoms": self.symptoms,
        }

    @cached_property
    def closeness(self) -> dict[str, Any]:
        """What the width of the kernel makes of these rows; a detector has its width for other reasons."""
        own, rows = self.inside, self.sheet.rows
        if own.chose_kernel:
            return {"words": [INTENDED], "level": "note"}
        if own.kernel is None or own.kernel.is_precomputed or own.detector is not None:
            return {}
        others = np.asarray(own.inner_at(rows, drawn(len(rows), NEIGHBOUR_ROWS)))
        some = drawn(len(others), SYMPTOM_ROWS)
        knob = "gamma" if hasattr(own.kernel, "gamma") else "length_scale"
        knob = "sigma" if "sigma=" in str(self.recipe.kernel) else knob
        return closeness(own.kernel, rows_at(others, some), others, len(rows), knob)

    @cached_property
    def symptoms(self) -> list[dict[str, Any]]:
        """What makes components of this kernel useless on these rows."""
        kernel = self.inside.kernel
        if kernel is None or kernel.is_precomputed or isinstance(kernel, Linear):
            return []
        if self.closeness:
            return []  # said there
        some = drawn(len(self.sheet), SYMPTOM_ROWS)
        rows = self.inside.inner_at(self.sheet.rows, some)
        try:
            found = symptoms(kernel, np.asarray(rows), max_rows=SYMPTOM_ROWS, random_state=0)
        except MercerError:  # a column that is constant, or words of a kernel without values there
            return []
        return [{"name": s.name, "value": s.value, "words": s.text} for s in found]


def quietly(quality: str, n: int) -> AbstractContextManager[Any]:
    """BLAS on one thread where matrices are small: its others would only spin between two calls.

    With two of them a fit of 2000 rows takes twice as much of the processors.
    """
    return single_threaded_blas() if quality == "drag" or n <= DRAG_ROWS else nullcontext()


def drawn(n: int, most: int) -> Indices | None:
    """`most` of n positions in order, seeded; None for all of them."""
    if n <= most:
        return None
    return np.sort(np.random.default_rng(0).choice(n, most, replace=False))


def rows_at(rows: Any, some: Indices | None) -> Any:
    """The rows at some positions; None: all of them."""
    return rows if some is None else rows[some]


# ── what a width makes of the rows ──────────────────────────────────────────
def closeness(kernel: Any, some: Array, others: Array, n: int, knob: str) -> dict[str, Any]:
    """What a width makes of rows: all alike, each by itself, or only near ones alike; in words.

    Two numbers say it. The values of a kernel, scaled so that a row has 1 with itself, add up to how many
    neighbours a row has: of `some` rows among `others`, which may be a part of all n. The alignment of the
    centred kernel matrix with that of the linear kernel, ⟨K, L⟩ / ‖K‖‖L‖ (Cristianini et al. 2002), is 1
    where the components are those of PCA. `knob` is the parameter that is the width; nothing is said of a
    kernel that has none.
    """
    if not kernel.shift_invariant or not hasattr(kernel, knob):
        return {}
    own = float(kernel(some[:1])[0, 0])
    near = np.asarray(kernel(some, others), dtype=np.float64) / own  # (m, q)
    # Of the q rows one is the row itself, and stands for no other.
    neighbours = float(np.median(near.sum(axis=1)) - 1.0) * (n - 1) / max(1, len(others) - 1)
    alignment = _alignment(np.asarray(kernel(some), dtype=np.float64), some @ some.T)
    wider, narrower = ("larger", "smaller") if knob != "gamma" else ("smaller", "larger")
    agrees = f"the kernel matrix agrees with that of PCA to {100 * alignment:.0f} %"
    narrowed = f"A {narrower} {knob} tells near rows from far ones."
    if neighbours < ALONE and alignment < STRAIGHT:
        verdict = (
            "That is too narrow: nearly every row stands by itself, and a component picks out a few rows. "
            f"A {wider} {knob} joins neighbours."
        )
    elif alignment >= SAME:
        verdict = f"That is too wide to bend anything: {agrees}, and components are those of PCA. {narrowed}"
    elif alignment >= STRAIGHT:
        verdict = f"That is wide: {agrees}, so first components are nearly those of PCA. {narrowed}"
    elif alignment >= BENDING:
        verdict = f"The first components are still much like those of PCA: {agrees}. {narrowed}"
    else:
        verdict = f"Only near rows are alike, so components bend with the rows: {agrees} only."
    many = count(round(neighbours)) if neighbours >= 10 else number(max(neighbours, 0.0), 2)
    begun = f"A row has {many} neighbours among {count(n - 1)} others: an equal row counts 1, a far one 0."
    level = "warning" if verdict.startswith("That is too") else "note"
    return {
        "words": [begun, verdict],
        "level": level,
        "neighbours": neighbours,
        "alignment": alignment,
    }


def _alignment(a: Array, b: Array) -> float:
    """Between two kernel matrices of the same rows, after centring."""
    a, b = (m - m.mean(axis=0) - m.mean(axis=1)[:, None] + m.mean() for m in (a, b))
    lengths = float(np.linalg.norm(a) * np.linalg.norm(b))
    return float(np.sum(a * b)) / lengths if lengths > 0 else 0.0


# ── fits ────────────────────────────────────────────────────────────────────
@dataclass(frozen=True)
class Way:
    """What is fitted at some quality: a recipe, to all rows or to a seeded sample, solved how far."""

    recipe: Recipe
    sampled: bool = False
    loose: bool = False  # an iteration stops at DRAG_TOL

    @property
    def key(self) -> tuple[str, bool, bool]:
        """The same for ways whose fits are the same."""
        return self.recipe.key, self.sampled, self.loose

    def drawn(self, n: int) -> Indices | None:
        """The rows that are seen; None: all of them."""
        return drawn(n, SAMPLE) if self.sampled else None


def way_of(recipe: Recipe, data: Dataset, quality: Any) -> Way:
    """An exact fit where that is quick, else 500 landmarks; while dragging, of a sample of many rows."""
    require("quality", quality, OneOf(tuple(EXACT_ROWS)))
    if recipe.model is not None or recipe.kind == "pca":
        return Way(recipe)
    most = EXACT_ROWS[quality]
    linear = recipe.kernel is not None and isinstance(parse_kernel(recipe.kernel), Linear)
    if most is None or data.n <= most or linear:
        # Of so many rows an iteration goes on to nearly all digits; of fewer that costs nothing.
        tight = recipe.kind == "kpca" and ONE_BY_ONE_ROWS < data.n <= SMALL_ROWS
        return Way(recipe, loose=tight and quality == "drag")
    if recipe.approximation is None:
        recipe = replace(recipe, approximation=f"nystrom(landmarks={LANDMARKS})")
    return Way(recipe, sampled=quality == "drag" and data.n > SAMPLE)


def fitted(recipe: Recipe, data: Dataset, quality: Any, observer: Observer | None = None) -> Shown:
    """Fit a recipe to a file as `mercer fit` does, without its pre-image, which `Shown.returning` learns.

    Parameters
    ----------
    recipe : Recipe
    data : Dataset
    quality : {"drag", "rest", "exact"}
        While dragging an exact fit has at most 4000 rows, at rest 20 000; more have 500 landmarks, which
        a finger sees fitted to 20 000 rows at most.
    observer : Observer, optional
        Follows the fit, and may stop it.

    Returns
    -------
    Shown
    """
    way = way_of(recipe, data, quality)
    own = way.recipe
    request = replace(own, preimage=None).request(data)
    asked = request.asked
    # A detector standardises rows itself, held-out ones too.
    sheet = data.sheet("none" if recipe.kind == "detector" or asked.is_precomputed else own.scale)
    run = Run(observer)
    with run.following(), run.timed("fit"), quietly(quality, len(sheet)):
        some = way.drawn(len(sheet))
        seen = sheet if some is None else replace(sheet, rows=sheet.rows[some])
        model = asked.of(seen.names).estimator(len(seen), scale=request.standardises)
        rows = rows_for(asked, seen)
        (_loosened(model, rows) if way.loose else model).fit(rows)
    findings = tuple(as_dict(finding) for finding in run.findings)
    return Shown(own, data, sheet, model, way, findings, run.timings)


def _loosened(model: KernelPCA, rows: Any) -> KernelPCA:
    """The estimator, whose iteration stops at DRAG_TOL where the planner would go on."""
    solver = fit_request(model, rows, None, resolve_engine(model.engine).facts()).plan.solver
    if isinstance(solver, BlockKrylov) and solver.tol < DRAG_TOL:
        model.set_params(solver=replace(solver, tol=DRAG_TOL))
    return model


def of_model(recipe: Recipe, data: Dataset, opened: Opened) -> Shown:
    """A model that is there already, and the rows of a file as it takes them."""
    sheet = data.matched(opened, gaps=opened.is_detector)
    return Shown(recipe, data, sheet, opened.model)
