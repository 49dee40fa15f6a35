"""The text of a fused pass, K @ V without K, written from the operations of a kernel: Triton reads it.

A program of the device has BM rows of X and a share of those of Z. For each BN of these: products of the
rows on tensor cores, the formula in registers, and its product with V on tensor cores again.

Tensor cores truncate what they add to their accumulator: over many tiles that is a bias, not noise. So a
product with V has an accumulator for each tile, and is added to the sums by ordinary float32 arithmetic,
times the scales of V: without these Triton would move the addition back into the tensor core. A precise
product of rows has one for each BK columns, times a one that Triton does not know.

Rows are half floats times a power of two, one for all or, where their sizes are far apart, one for each, so
that numbers of any size fit. `precise`: two half floats a number, high + low · 2⁻¹¹, and the three parts of
each product that matter. The same holds for V, column by column, and for tiles, with one power of two.
"""

from __future__ import annotations

import math

from mercer.engine.native import bindings as op
from mercer.engine.native.program import Leaf, Program, Step
from mercer.engine.torch.evaluate import FAR, is_kinked

LOW = 2.0**-11  # of a low part: a half float has eleven bits
LOG2E = math.log2(math.e)
FUSED = ("dot", "sqdist")  # products of rows, which tensor cores make


def why_not_fused(program: Program, *, precise: bool = False) -> str | None:
    """Why a pass of this kernel is made of torch tiles, in words; None where it is fused."""
    kinds = {leaf.kind for leaf in program.leaves}
    if not kinds or not kinds <= set(FUSED):
        return "it is not a function of products or squared distances of rows"
    if len({(leaf.columns, leaf.unit_rows) for leaf in program.leaves}) > 1:
        return "its parts look at different columns"
    pairs = [i for i, step in enumerate(program.steps) if step.code == op.PAIR]
    if len({step.lengths for step in program.steps if step.lengths is not None}) > 1:
        return "it is divided by lengths of more than one kind"
    if precise and any(is_kinked(program, i) for i in pairs):
        return "a root shows what products of rows lose of the distances of near points"
    return None


def why_not_sections(program: Program) -> str | None:
    """The same of products with new rows, which nothing proves.

    What tensor cores cut off is a share of x·z. A distance has it beside norms of the same size; scores by
    dot products and their powers are small sums of large terms: on an H200 their errors were three times
    those of float32 tiles, and more.
    """
    if not is_shifted(program):
        return "scores are differences of large dot products, of which tensor cores cut digits off"
    return why_not_fused(program, precise=True)


def is_shifted(program: Program) -> bool:
    """Whether rows are counted from their middle: where nothing but distances is taken of them."""
    return all(leaf.kind == "sqdist" for leaf in program.leaves)


def source(program: Program, *, precise: bool = False) -> str:
    """The module: `mercer_formula`, on registers, `mercer_strip`, the loop around it, and the passes."""
    parts = (_HEAD, "\n".join(formula(program)), _strip(precise=precise), _PASS, _MIRRORED)
    return "\n\n".join(parts) + "\n"


# ── the formula ─────────────────────────────────────────────────────────────
def formula(program: Program) -> list[str]:
    """A function of x·z, squared norms and inverse lengths, on whatever shape these have together."""
    lines = ["@triton.jit", "def mercer_formula(dot, x_norms, z_norms, x_lengths, z_lengths):"]
    top = -1  # of the stack
    for step in program.steps:
        if step.code in (op.PAIR, op.CONSTANT):
            top += 1
        elif step.code in (op.ADD, op.MULTIPLY):
            top -= 1
        leaf = program.leaves[step.number] if step.code == op.PAIR else None
        lines += [f"    {line}" for line in _written(step, leaf, f"t{top}", f"t{top + 1}")]
    return [*lines, "    return t0"]


# What becomes of the register t, or of it and the one above.
_ASSIGNED = {
    op.CONSTANT: "tl.zeros_like(dot) + {a!r}",
    op.EXP: "tl.exp2({t} * {a_log2e!r})",
    # 1 - 2/(1 + e^2u), whose exponential may overflow to infinity.
    op.TANH: f"1.0 - 2.0 / (1.0 + tl.exp2({{t}} * {2.0 * LOG2E!r}))",
    op.ROOT: "tl.sqrt({t})",
    op.POWER: "tl.exp2(tl.log2({t}) * {a!r})",
    op.ADD: "{t} + {above}",
    op.MULTIPLY: "{t} * {above}",
    op.OUTER: "{t} * (x_lengths * z_lengths)",
}


def _written(step: Step, leaf: Leaf | None, t: str, above: str) -> list[str]:
    """The lines of an operation."""
    match step.code:
        case op.PAIR if leaf is not None and leaf.kind == "dot":
            return [f"{t} = dot"]
        case op.PAIR:
            return [f"{t} = tl.maximum(x_norms + z_norms - 2.0 * dot, 0.0)"]
        case op.AFFINE:
            return [f"{t} = {t} * {step.a!r}" + (f" + {step.b!r}" if step.b else "")]
        case op.WHOLE_POWER:
            return _whole_power(t, step.number)
        case op.POLY_EXP:
            return _poly_exp(t, step)
    made = _ASSIGNED[step.code].format(t=t, above=above, a=step.a, a_log2e=step.a * LOG2E)
    return [f"{t} = {made}"]


def _whole_power(t: str, n: int) -> list[str]:
    """t^n by squares: bits of n from the top."""
    if n == 0:
        return [f"{t} = tl.zeros_like({t}) + 1.0"]
    lines = [f"u = {t}"] if n > 1 else []
    for bit in f"{n:b}"[1:]:
        lines.append(f"{t} = {t} * {t}")
        if bit == "1":
            lines.append(f"{t} = {t} * u")
    return lines


def _poly_exp(t: str, step: Step) -> list[str]:
    assert step.coefficients is not None
    *lower, total = (repr(float(c)) for c in step.coefficients)
    for c in reversed(lower):
        total = f"({total} * {t} + {c})"
    return [f"{t} = tl.minimum({t}, {FAR!r})", f"{t} = {total} * tl.exp2({t} * {-LOG2E!r})"]


# ── the loop ────────────────────────────────────────────────────────────────
_HEAD = """import triton
import triton.language as tl

"""


def _strip(*, precise: bool) -> str:
    """The loop, with lines that begin with `+` for precise products alone, with `-` for rough ones alone."""
    kept, left = ("+", "-") if precise else ("-", "+")
    lines = [line for line in _STRIP.splitlines() if not line.startswith(left)]
    return "\n".join(f" {line[1:]}" if line.startswith(kept) else line for line in lines)


_GIVEN = """x_high, x_low, x_scales, x_norms, x_lengths,
    z_high, z_low, z_scales, z_norms, z_lengths,
    v_high, v_low, v_scales, own"""
_NUMBERS = "x_scale, z_scale, offset, shrink, one"
_CUT = "BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr"

# Shapes: rows (n, D) and V (m, C), padded with zeros, D to a multiple of BK; norms, scales, lengths (n,).
# MIRROR: X is Z, and a tile below the diagonal is that above it, whose product is added to `mine`.
_STRIP = f"""@triton.jit
def mercer_strip(
    start, begin, end,
    {_GIVEN}, mine,
    n, m, {_NUMBERS},
    D: tl.constexpr, C: tl.constexpr, GRAM: tl.constexpr, ALIKE: tl.constexpr, MIRROR: tl.constexpr,
    {_CUT},
):
    rows = start + tl.arange(0, BM)
    along, columns = tl.arange(0, BK), tl.arange(0, C)
    # Many rows have more numbers than 32 bits count: where a block of them begins is counted in 64.
    x_at = start.to(tl.int64) * D + (tl.arange(0, BM)[:, None] * D + along[None, :])
    z_at = begin.to(tl.int64) * D + (tl.arange(0, BN)[None, :] * D + along[:, None])
    norms, lengths = tl.load(x_norms + rows), tl.load(x_lengths + rows)
    scales, v_scale = tl.load(x_scales + rows), tl.load(v_scales + columns)
    rows_at = rows[:, None].to(tl.int64) * C + columns[None, :]
    if MIRROR:
        v_rows = tl.load(v_high + rows_at)
    sums = tl.zeros((BM, C), dtype=tl.float32)
    for first in range(begin, end, BN):
        others = first + tl.arange(0, BN)
        dot = tl.zeros((BM, BN), dtype=tl.float32)
+       cross = tl.zeros((BM, BN), dtype=tl.float32)
        for k in range(0, D, BK):
            x = tl.load(x_high + x_at + k)
            z = tl.load(z_high + z_at + k)
-           dot = tl.dot(x, z, dot)
+           dot += tl.dot(x, z) * one
+           cross = tl.dot(x, tl.load(z_low + z_at + k), cross)
+           cross = tl.dot(tl.load(x_low + x_at + k), z, cross)
+       dot += cross * {LOW!r}
        if ALIKE:
            dot *= x_scale * z_scale
        else:
            dot *= scales[:, None] * tl.load(z_scales + others)[None, :]
        other_norms, other_lengths = tl.load(z_norms + others), tl.load(z_lengths + others)
        tile = mercer_formula(
            dot, norms[:, None], other_norms[None, :], lengths[:, None], other_lengths[None, :]
        )
        if GRAM:
            if first < start + BM and start < first + BN:
                tile = tl.where(rows[:, None] == others[None, :], tl.load(own + rows)[:, None], tile)
        tile = tile * shrink + offset
        if first + BN > m:
            tile = tl.where(others[None, :] < m, tile, 0.0)
        if MIRROR:
            if start + BM > n:
                tile = tl.where(rows[:, None] < n, tile, 0.0)
        v_at = others[:, None].to(tl.int64) * C + columns[None, :]
        v = tl.load(v_high + v_at)
        high = tile.to(tl.float16)
        product = tl.dot(high, v)
+       low = ((tile - high.to(tl.float32)) * {1.0 / LOW!r}).to(tl.float16)
+       extra = tl.dot(high, tl.load(v_low + v_at))
+       extra = tl.dot(low, v, extra)
+       product += extra * {LOW!r}
        sums += product * v_scale[None, :]
        if MIRROR:
            if first + BN <= start:
                mirrored = tl.dot(tl.trans(high), v_rows)
+               besides = tl.dot(tl.trans(high), tl.load(v_low + rows_at))
+               besides = tl.dot(tl.trans(low), v_rows, besides)
+               mirrored += besides * {LOW!r}
                at = (others - begin)[:, None] * C + columns[None, :]
                tl.atomic_add(mine + at, mirrored * v_scale[None, :], sem="relaxed")
        z_at += BN * D
    return sums"""

# A program has BM rows of X and a part of Z. `out` is (parts, n, C): sums over parts are float64, and
# no program decides their order.
_PASS = f"""@triton.jit
def mercer_pass(
    {_GIVEN}, out,
    n, m, n_padded, part_rows, {_NUMBERS},
    D: tl.constexpr, C: tl.constexpr, GRAM: tl.constexpr, ALIKE: tl.constexpr,
    {_CUT},
):
    start = tl.program_id(0) * BM
    part = tl.program_id(1)
    end = tl.minimum((part + 1) * part_rows, m)
    sums = mercer_strip(
        start, part * part_rows, end, {_GIVEN}, out, n, m, {_NUMBERS},
        D, C, GRAM, ALIKE, False, BM, BN, BK,
    )
    rows, columns = start + tl.arange(0, BM), tl.arange(0, C)
    out_at = (part.to(tl.int64) * n_padded + rows[:, None]) * C + columns[None, :]
    tl.store(out + out_at, sums, mask=rows[:, None] < n)"""

# k(X, X) between the rows of a band and all rows from its first on: tiles on and above the diagonal. There
# are as many programs as the device runs at once, and they take strips of BM rows in turn, the longest first.
# `out` is (n, C); `mirrored` is (programs, band, C), what each of them adds to the rows of the band. One
# thread of one program adds to a number, so that the order is that of its tiles.
_MIRRORED = f"""@triton.jit
def mercer_mirrored_pass(
    {_GIVEN}, out, mirrored,
    n, begin, end, {_NUMBERS},
    D: tl.constexpr, C: tl.constexpr, ALIKE: tl.constexpr,
    {_CUT},
):
    program, programs = tl.program_id(0), tl.num_programs(0)
    mine = mirrored + program.to(tl.int64) * (end - begin) * C
    strips = (n - begin + BM - 1) // BM
    for turn in range(0, (strips + programs - 1) // programs):
        there = program + (turn % 2) * (programs - 1 - 2 * program)  # to and fro
        strip = strips - 1 - (turn * programs + there)
        if strip >= 0:
            start = begin + strip * BM
            stop = tl.minimum(start + BM, end)
            sums = mercer_strip(
                start, begin, stop, {_GIVEN}, mine, n, n, {_NUMBERS},
                D, C, True, ALIKE, True, BM, BN, BK,
            )
            rows, columns = start + tl.arange(0, BM), tl.arange(0, C)
            out_at = rows[:, None].to(tl.int64) * C + columns[None, :]
            tl.store(out + out_at, sums, mask=rows[:, None] < n)"""
