"""Monomials: how many there are, in which order, with which coefficients, and how to write them."""

from __future__ import annotations

import itertools
import math
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from mercer._core.types import Array, Indices


def n_monomials(d: int, degree: int, *, homogeneous: bool = False) -> int:
    """C(d+p, p) monomials of degree ≤ p in d features; C(d+p-1, p) of degree exactly p.

    >>> n_monomials(2, 2), n_monomials(2, 2, homogeneous=True), n_monomials(1000, 6)
    (6, 3, 1418299634202451)
    """
    top = d + degree - 1 if homogeneous else d + degree
    return math.comb(max(top, 0), degree)


# ── enumeration ─────────────────────────────────────────────────────────────
class Step(NamedTuple):
    """The monomials of one degree that start with one feature, made by one multiplication."""

    feature: int
    target: slice  # where they stand among the monomials of their degree
    parents: slice  # where the same monomials less that feature stand, one degree below


def steps(d: int, degree: int) -> Iterator[Step]:
    """How the monomials of this degree arise from those one degree below, by d multiplications of blocks.

    In lexicographic order the monomials in features j, …, d-1 are the last of their degree, and those
    one degree up that start with feature j are x_j times exactly these, in the same order.
    """
    below = n_monomials(d, degree - 1, homogeneous=True)
    start = 0
    for j in range(d):
        count = n_monomials(d - j, degree - 1, homogeneous=True)
        yield Step(j, slice(start, start + count), slice(below - count, below))
        start += count


def exponents_of_degree(d: int, degree: int) -> Indices:
    """Exponents of all monomials of exactly this degree, lexicographic, one a row."""
    exponents = np.zeros((1, d), dtype=np.intp)
    for q in range(1, degree + 1):
        below, size = exponents, n_monomials(d, q, homogeneous=True)
        exponents = np.empty((size, d), dtype=np.intp)
        for step in steps(d, q):
            exponents[step.target] = below[step.parents]
            exponents[step.target, step.feature] += 1
    return exponents


def multinomials(d: int, degree: int) -> list[Array]:
    """p!/(a₁!⋯a_d!(p-q)!) for all monomials of degree q, one array for each q = 0, …, p.

    Each is an integer, and so is every intermediate product: exact up to 2⁵³.
    """
    blocks: list[Array] = [np.ones(1)]
    runs = np.zeros(1)  # the exponent of a monomial's first feature
    for q in range(1, degree + 1):
        below, runs_below = blocks[-1], runs
        block = np.empty(n_monomials(d, q, homogeneous=True))
        runs = np.ones(len(block))
        for step in steps(d, q):
            # Of the parents, those that start with this feature too come first.
            same = n_monomials(d - step.feature, q - 2, homogeneous=True) if q > 1 else 0
            first = slice(step.parents.start, step.parents.start + same)
            runs[step.target.start : step.target.start + same] += runs_below[first]
            block[step.target] = below[step.parents] * (degree - q + 1)
        block /= runs
        blocks.append(block)
    return blocks


# ── writing ─────────────────────────────────────────────────────────────────
class Symbol(NamedTuple):
    """What a term is a product of: a feature, or the length of a vector."""

    order: int
    text: str
    latex: str


@dataclass(frozen=True)
class Term:
    """√square · Π symbol^exponent: one column of a map. A `square` that is an int prints as a root."""

    square: float
    powers: tuple[tuple[Symbol, int], ...] = ()

    @property
    def text(self) -> str:
        """For example ``√6 f1 f2²``."""
        factors = [s.text + _superscript(a) for s, a in self.powers]
        number = _number(self.square, root="√{}")
        return " ".join(factors if factors and number == "1" else [number, *factors])

    @property
    def latex(self) -> str:
        r"""For example ``\sqrt{6}\,f_1 f_2^2``."""
        factors = " ".join(s.latex + _latex_power(a) for s, a in self.powers)
        number = _number(self.square, root=r"\sqrt{{{}}}")
        mantissa, e, exponent = number.partition("e")
        if e:
            number = rf"{mantissa} \cdot 10^{{{int(exponent)}}}"
        if not factors or number == "1":
            return factors or number
        return rf"{number}\,{factors}"


def feature(j: int) -> Term:
    """The feature with index j, called f1 for j = 0."""
    subscript = j + 1 if j < 9 else f"{{{j + 1}}}"
    return Term(1, ((Symbol(j, f"f{j + 1}", f"f_{subscript}"), 1),))


def product(terms: Iterable[Term], square: float = 1) -> Term:
    """√square times the product of the terms, equal symbols collected."""
    powers: dict[Symbol, int] = {}
    for term in terms:
        square *= term.square
        for symbol, a in term.powers:
            powers[symbol] = powers.get(symbol, 0) + a
    return Term(square, tuple(sorted(powers.items())))


def inverse_length(terms: Sequence[Term]) -> Term:
    """1 over the length of the vector of these terms; a long vector is shown by its ends."""
    shown = [*terms[:2], None, terms[-1]] if len(terms) > 6 else list(terms)
    text = ", ".join("…" if t is None else t.text for t in shown)
    latex = ", ".join(r"\dots" if t is None else t.latex for t in shown)
    if len(terms) > 1:
        text, latex = f"({text})", f"({latex})"
    # Lengths stand behind all features.
    return Term(1, ((Symbol(sys.maxsize, f"‖{text}‖", rf"\lVert {latex} \rVert"), -1),))


def expanded_power(
    inputs: Sequence[Term], degree: int, *, gamma: float, coef0: float
) -> Iterator[Term]:
    """The columns of the map of (γ x·x' + θ)^p over these inputs."""
    # Only with γ and θ of 0 or 1 is every coefficient the root of an integer, to be shown as such.
    g, t = (int(value) if value in (0, 1) else value for value in (gamma, coef0))
    for q in range(degree if coef0 == 0 else 0, degree + 1):
        for chosen in itertools.combinations_with_replacement(range(len(inputs)), q):
            ways = math.factorial(degree) // math.factorial(degree - q)
            for _, run in itertools.groupby(chosen):
                ways //= math.factorial(len(list(run)))
            yield product((inputs[j] for j in chosen), ways * g**q * t ** (degree - q))


def _number(square: float, *, root: str) -> str:
    if not isinstance(square, int):
        return f"{math.sqrt(square):.4g}"
    whole = math.isqrt(square)
    return str(whole) if whole * whole == square else root.format(square)


def _superscript(a: int) -> str:
    return "" if a == 1 else str(a).translate(str.maketrans("0123456789-", "⁰¹²³⁴⁵⁶⁷⁸⁹⁻"))


def _latex_power(a: int) -> str:
    if a == 1:
        return ""
    return f"^{a}" if 0 <= a <= 9 else f"^{{{a}}}"
