"""From outcomes to an order, a table and reasons in words."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from mercer._core.errors import InputError, SelectionWarning, many
from mercer._core.findings import warn
from mercer._core.table import Table
from mercer._core.wording import brief
from mercer.diagnostics import selection_agreement as agreement
from mercer.diagnostics.selection_door import shown
from mercer.diagnostics.selection_trial import BACK_ROWS, Court, Outcome
from mercer.diagnostics.symptoms import median_gamma

WHAT = {
    "agreement": (
        "two questions that lean opposite ways: do neighbours among the rows held out share their scores, "
        "and do two halves of the rows span the same scores? A candidate has to win both to replace the "
        "reference"
    ),
    "denoising": (
        "rows that were held out, with noise added, come back to input space; the error is their distance "
        "from the rows without it"
    ),
    "reconstruction": "rows that were held out come back to input space; the error is how far they miss",
    "variance": "the share of the squared length of held-out points that lies in the components",
}
# What the witnesses of the criterion agreement say of candidates.
VERDICTS = {
    "better": "better on both",
    "worse": "worse on one and no better on the other",
    "split": "better on one and worse on the other",
    "can't tell": "within noise",
}
# Criteria whose figure is to be large, and its name in the table.
GAINS = {"agreement": "shared", "variance": "captured"}
# Two stabilities this near are alike.
STEADY = 0.02


# ── order ───────────────────────────────────────────────────────────────────
@dataclass(frozen=True)
class Order:
    """Outcomes, best first, and how sure that is."""

    outcomes: list[Outcome]
    equal: int = 0  # how many are within one standard error of the best
    # With the criterion agreement, of the candidates that could be fitted, in the same order.
    contests: tuple[agreement.Contest, ...] = ()

    @property
    def conclusive(self) -> bool:
        """Whether the first one is there because of evidence, and not because something has to be."""
        return self.contests[0].wins if self.contests else self.equal == 1


def in_order(outcomes: list[Outcome], court: Court) -> Order:
    """Best first; candidates that failed come last."""
    fine, failed = [o for o in outcomes if not o.failure], [o for o in outcomes if o.failure]
    if not fine:
        first = f"{brief(failed[0].candidate.kernel)}: {failed[0].failure}"
        msg = f"None of the {len(failed)} candidates could be fitted. The first, {first}"
        if len(failed) == 1:
            msg = f"The only candidate could not be fitted. {first}"
        raise InputError(msg)
    if court.criterion != "agreement":
        return _by_loss(fine, failed, judged=court.judge is not None)
    rng = np.random.default_rng(court.seed)
    found = agreement.contests(fine, median_gamma(court.rows, rng=rng, weights=court.weights))
    order = agreement.agreed_first(fine, found)
    return Order([*(fine[i] for i in order), *failed], contests=tuple(found[i] for i in order))


def _by_loss(fine: list[Outcome], failed: list[Outcome], *, judged: bool) -> Order:
    """By the mean loss, or the score of a judge alone."""
    # Without labels those within one standard error of the least loss count as equal, and then fewer
    # symptoms, fewer components and the more stable subspace decide, in this order.
    fine.sort(key=lambda outcome: (outcome.loss, outcome.candidate.k))
    equal = agreement.within_one_error(fine)
    equal[0] = True
    if not judged:
        first = sorted((o for o, e in zip(fine, equal, strict=True) if e), key=_preference)
        fine = first + [o for o, e in zip(fine, equal, strict=True) if not e]
    return Order(fine + failed, int(equal.sum()))


def without_repeats(outcomes: list[Outcome]) -> list[Outcome]:
    """One of those that the rank has cut to the same number of components of the same kernel."""
    found = {(o.candidate.place, o.candidate.k): o for o in reversed(outcomes)}
    return list(reversed(found.values()))


def _preference(outcome: Outcome) -> tuple[int, int, float, float]:
    steady = 0.0 if np.isnan(outcome.stability) else outcome.stability
    return len(outcome.symptoms), outcome.candidate.k, -round(steady / STEADY), outcome.loss


# ── table ───────────────────────────────────────────────────────────────────
def table_of(order: Order, court: Court) -> Table:
    """A row for each candidate, best first."""
    outcomes = order.outcomes
    names = [shown(o.resolved or o.candidate.kernel) for o in outcomes]
    columns: dict[str, Any] = {
        "rank": np.arange(1, len(outcomes) + 1),
        "kernel": [kernel for kernel, _ in names],
        "parameters": [parameters for _, parameters in names],
        "components": [o.candidate.k for o in outcomes],
    }
    columns |= figures(outcomes, court)
    columns["stability"] = [o.stability for o in outcomes]
    if order.contests:  # how far each is from the reference, in standard errors, and what follows
        missing = len(outcomes) - len(order.contests)
        columns["z_shared"] = [c.neighbours for c in order.contests] + [np.nan] * missing
        columns["z_stability"] = [c.halves for c in order.contests] + [np.nan] * missing
        columns["verdict"] = [c.verdict for c in order.contests] + [""] * missing
    columns["variance_kept"] = [o.kept for o in outcomes]
    columns["symptoms"] = [
        f"failed: {o.failure}" if o.failure else "; ".join(o.symptoms) for o in outcomes
    ]
    return Table(columns)


def figures(outcomes: list[Outcome], court: Court) -> dict[str, Any]:
    """What each scored, with its standard error; or the errors in input space, of an entry."""
    means = np.array([np.nan if o.failure else o.loss for o in outcomes])
    errors = np.array(
        [
            agreement.standard_error(o.losses, o.weights) if len(o.losses) > 1 else np.nan
            for o in outcomes
        ]
    )
    if court.judge is not None or court.criterion in GAINS:
        name = "score" if court.judge is not None else GAINS[court.criterion]
        return {name: -means, "standard_error": errors}
    d = court.rows.shape[1]
    root = np.sqrt(means / d)  # root mean squared error of an entry
    of_mean = [np.nan if o.failure else np.sqrt(o.mean(o.of_mean) / d) for o in outcomes]
    plain = [np.nan if o.failure else np.sqrt(o.mean(o.plain) / d) for o in outcomes]
    # d√m = dm/(2√m)
    slopes = np.divide(0.5, d * root, out=np.zeros_like(root), where=root > 0)
    columns: dict[str, Any] = {"error": root, "standard_error": errors * slopes}
    if court.noise is not None:
        columns["error_without_noise"] = plain
    return {**columns, "error_of_mean": of_mean}


# ── words ───────────────────────────────────────────────────────────────────
def reasons(order: Order, table: Table, court: Court, *, n: int, drawn: int) -> list[str]:
    """Why the first one, and what to know about it."""
    outcomes, best = order.outcomes, order.outcomes[0]
    lines = []
    if drawn < n:
        lines.append(f"judged on {drawn} of {n} rows, drawn with a seed; raise `max_rows` for more")
    if court.rows.shape[0] < drawn:
        lines.append(f"{court.rows.shape[0]} rows are distinct: repeated ones count by weight")
    if court.judge is not None:
        scored = f"{court.criterion or 'its own score'}, over {len(court.folds)} folds"
        lines.append(f"judge: {court.judge!r} on the scores, {scored}")
    else:
        lines.append(f"criterion {court.criterion}: {WHAT[court.criterion]}")
    if order.contests:
        lines += _agreement(order, table)
    else:
        row, judged = next(iter(table)), court.judge is not None
        lines.append(_first_place(best, row, order.equal, judged=judged))
        # The error is also that of the pre-image, which does not learn from all rows.
        most = max(len(train) for train, _ in court.folds)
        linear = best.resolved is not None and best.resolved.is_linear
        if len(best.plain) > 0 and not linear and most > BACK_ROWS:
            lines.append(
                f"the pre-image is learned from {BACK_ROWS} of the {most} rows of a fold, for all kernels "
                "but the linear one: learned from all of them, errors may be less and close candidates may "
                "change places"
            )
    lines += _edges(best, outcomes, of_width=not order.contests or order.conclusive)
    lines += [f"it has this symptom: {name}" for name in best.symptoms]
    failed = [o for o in outcomes if o.failure]
    lines += [f"{brief(o.candidate.kernel)} failed: {o.failure}" for o in failed[:3]]
    if len(failed) > 3:
        lines.append(f"{len(failed) - 3} more failed: see the table")
    return lines


def _agreement(order: Order, table: Table) -> list[str]:
    """What the two witnesses say of the first one, and how often they could not tell."""
    first, row = order.outcomes[0], next(iter(table))
    own = order.contests[0].k  # as many components as the first one has
    verdicts = [contest.verdict for contest in order.contests if contest.k == own]
    found = ((verdicts.count(name), words) for name, words in VERDICTS.items())
    counts = ", ".join(f"{count} {words}" for count, words in found if count)
    if order.conclusive:
        return [
            f"{brief(first.resolved)} beats the reference on both: neighbours share {row['shared']:.3g} "
            f"components ({row['z_shared']:.1f} standard errors more), stability {row['stability']:.2f} "
            f"({row['z_stability']:.1f} more); of all candidates {counts}"
        ]
    if len(verdicts) == 1:
        return [f"{brief(first.resolved)} is the only kernel: there is nothing to tell"]
    return [
        f"no criterion can tell: nothing beats the reference, {brief(first.resolved)}, by more than four "
        f"standard errors on both, and it is kept ({counts}). This is not evidence for it: labels can tell "
        "(pass y, or --supervised at the command line)"
    ]


def _first_place(best: Outcome, row: dict[str, Any], equal: int, *, judged: bool) -> str:
    text = f"{brief(best.resolved)} with {many(best.candidate.k, 'component')}: "
    if "error" in row:
        text += f"error {row['error']:.4g} (always saying the mean: {row['error_of_mean']:.4g})"
    else:
        name = "score" if "score" in row else "captured"
        text += f"{name} {row[name]:.4g}"
    if equal > 1 and judged:
        are = "is" if equal == 2 else "are"
        text += f"; {equal - 1} of the others {are} within one standard error of it"
    elif equal > 1:
        text += (
            f"; {equal} candidates are within one standard error of the best, and of these it has the fewest "
            "symptoms, then components, then the most stable subspace"
        )
    return text


def _edges(best: Outcome, outcomes: list[Outcome], *, of_width: bool) -> list[str]:
    """A winner at the end of what was tried may not be the best there is."""
    lines, own = [], best.candidate.place
    ks = {o.candidate.k for o in outcomes if o.candidate.place == own and not o.failure}
    if best.candidate.k == max(ks) and len(ks) > 1 and not best.full:
        lines.append("it has the most components that were tried: more may be better")
    if not of_width:
        return lines
    gamma = getattr(best.resolved, "gamma", None)
    same = (o.resolved for o in outcomes if type(o.resolved) is type(best.resolved))
    gammas = {float(g) for o in same if isinstance(g := getattr(o, "gamma", None), float)}
    if isinstance(gamma, float) and len(gammas) > 2 and gamma in (min(gammas), max(gammas)):
        end, way = ("widest", "smaller") if gamma == min(gammas) else ("narrowest", "larger")
        lines.append(f"it is the {end} {type(best.resolved).__name__} tried: try {way} `gamma` too")
    return lines


def warn_of(best: Outcome, *, judged: bool) -> None:
    """Warn where even the winner is not good; what a judge found good is good, whatever its symptoms."""
    ills = [] if judged else best.symptoms
    wrong = [f"has this symptom: {name}" for name in ills if not name.endswith("Warning")]
    if len(best.of_mean) > 0 and best.loss >= best.mean(best.of_mean):
        wrong.append("brings rows back no better than always saying the mean does")
    if wrong:
        name, what = brief(best.candidate.kernel), "; it ".join(wrong)
        msg = f"The best candidate, {name}, {what}. Scale the columns, or try other kernels."
        warn(msg, SelectionWarning)
