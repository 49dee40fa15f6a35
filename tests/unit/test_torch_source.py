"""The text of fused passes: what has one, what it computes in NumPy's hands, what it must not say."""

import re
from dataclasses import asdict

import numpy as np
import pytest

from markets.kernels import HISTOGRAM, INDEFINITE, VALID
from markets.triton import in_place_of_triton
from mercer.engine.native.engine import program_of
from mercer.engine.torch.fused import Blocks
from mercer.engine.torch.source import LOW, is_shifted, source, why_not_fused
from mercer.kernels import RBF, Chi2, Laplacian, Linear, Matern, Polynomial

KERNELS = VALID | HISTOGRAM | INDEFINITE
PROGRAMS = {
    name: program
    for name, kernel in KERNELS.items()
    if not isinstance(program := program_of(kernel), str)
}
FUSED = sorted(name for name, program in PROGRAMS.items() if why_not_fused(program) is None)


def run(text, monkeypatch):
    in_place_of_triton(monkeypatch)
    space = {}
    exec(text, space)
    return space


# ── which kernels ───────────────────────────────────────────────────────────
def test_most_kernels_have_a_fused_form():
    assert set(PROGRAMS) - set(FUSED) == {"laplacian", "chi2", "columns"}


REFUSED = {
    "l1": (Laplacian(0.5), False, "not a function of products"),
    "chi2": (Chi2(0.5), False, "not a function of products"),
    "columns": (RBF(0.3).on([0]) + Linear().on([1]), False, "different columns"),
    "lengths": (
        Polynomial(2).normalised() + Polynomial(3).normalised(),
        False,
        "more than one kind",
    ),
    "kink": (Matern(0.5, 1.0), True, "near points"),
}


@pytest.mark.parametrize("name", sorted(REFUSED))
def test_what_has_none_says_why(name):
    kernel, precise, words = REFUSED[name]
    assert words in why_not_fused(program_of(kernel), precise=precise)


def test_a_matern_kernel_that_is_smooth_at_zero_is_precise_too():
    assert why_not_fused(program_of(Matern(1.5, 1.0)), precise=True) is None
    assert why_not_fused(program_of(Matern(0.5, 1.0))) is None  # roughly


# ── what it must not say ────────────────────────────────────────────────────
@pytest.mark.parametrize("precise", [False, True])
@pytest.mark.parametrize("name", FUSED)
def test_sums_over_tiles_are_no_accumulator(name, precise):
    """A product with V begins at zero, and is scaled before it is added: Triton moves plain additions of
    products into the tensor core, which truncates."""
    text = source(PROGRAMS[name], precise=precise)
    compile(text, name, "exec")
    assert "product = tl.dot(high, v)\n" in text
    assert re.findall(r"^ *sums (?!= mercer).*$", text, re.MULTILINE) == [
        "    sums = tl.zeros((BM, C), dtype=tl.float32)",
        "        sums += product * v_scale[None, :]",
    ]
    assert not re.search(r"tl\.dot\([^)]*sums", text)
    assert text.count("tl.dot(") == (9 if precise else 3)
    assert ("x_low + " in text) == precise
    # The order of atomics is nobody's, unless all that are added to a number are one program's.
    assert re.findall(r"tl\.atomic_add\((\w+) ", text) == ["mine"]


def test_one_kernel_has_one_text():
    """Compiled once, and found again by the text."""
    first, second = (source(program_of(RBF(0.3))) for _ in range(2))
    assert first == second != source(program_of(RBF(0.4)))


# ── what it computes ────────────────────────────────────────────────────────
@pytest.mark.parametrize("name", FUSED)
def test_the_formula_is_that_of_numpy(name, monkeypatch, rng):
    """In float64 to rounding: the same operations on the same pairs, but for e^u as a power of two."""
    kernel, x, z = KERNELS[name], rng.standard_normal((30, 3)), rng.standard_normal((20, 3))
    formula = run(source(PROGRAMS[name]), monkeypatch)["mercer_formula"]
    unit = any(leaf.unit_rows for leaf in PROGRAMS[name].leaves)
    x, z = ((y / np.linalg.norm(y, axis=1, keepdims=True) if unit else y) for y in (x, z))
    divided = [step.lengths.of for step in PROGRAMS[name].steps if step.lengths is not None]
    lengths = [np.ones(len(y)) for y in (x, z)]
    if divided:  # k(x, x) = 1 + ‖x‖² to the power that the market has
        lengths = [1.0 / (1.0 + np.sum(y * y, axis=1)) for y in (x, z)]
    found = formula(
        x @ z.T,
        np.sum(x * x, axis=1)[:, None],
        np.sum(z * z, axis=1)[None, :],
        lengths[0][:, None],
        lengths[1][None, :],
    )
    exact = kernel(x, z)
    np.testing.assert_allclose(found, exact, rtol=1e-12, atol=1e-13 * np.abs(exact).max())


def halves(x, axis):
    """High and low half floats over powers of two, and these."""
    scale = 2.0 ** np.frexp(np.abs(x).max(axis=axis, keepdims=True))[1]
    high = (x / scale).astype(np.float16)
    low = ((x / scale - high) / LOW).astype(np.float16)
    return high, low, np.squeeze(scale, axis).astype(np.float32)


def padded(x, n, d=None):
    out = np.zeros((n,) if d is None else (n, d), dtype=x.dtype)
    out[tuple(slice(0, each) for each in x.shape)] = x
    return out


def in_numpys_hands(text, x, v, own, monkeypatch, *, precise, alike, minus, cut, mirror):
    """The pass over k(X, X), its sums over parts, or over bands and programs, in float64."""
    n, d = len(x), 32
    tall = -(-n // 64) * 64
    high, low, scales = halves(x, 1)
    scale = float(scales.max())
    if alike:
        shares = (scales / scale).astype(np.float16)[:, None]
        high, low, scales = high * shares, low * shares, np.full_like(scales, scale)
    rows = high + (LOW * low.astype("f8") if precise else 0.0)
    norms = np.sum(rows**2, axis=1) * scales.astype("f8") ** 2
    side = [padded(high, tall, d), padded(low, tall, d)]
    side += [padded(each.astype("f4"), tall) for each in (scales, norms, np.ones(n))]
    side[3][n:] = np.nan  # what lies beyond the rows is multiplied by nothing
    v_high, v_low, v_scales = halves(v, 0)
    right = [padded(v_high, tall, 16), padded(v_low, tall, 16), padded(v_scales, 16)]
    given = *side, *side, *right, padded(own.astype("f4"), tall)
    numbers, passes = (scale, scale, -0.5 * minus, 0.5, 1.0), run(text, monkeypatch)
    constants = {"D": d, "C": 16, "ALIKE": alike, **asdict(cut)}
    if not mirror:
        out = np.zeros((3, tall, 16), dtype=np.float32)
        sizes = n, n, tall, 32
        launch = passes["mercer_pass"][(tall // cut.BM, 3)]
        launch(*given, out, *sizes, *numbers, GRAM=True, **constants)
        return out.astype("f8").sum(axis=0)[:n, : v.shape[1]] / 0.5
    sums, out = np.zeros((tall, 16)), np.zeros((tall, 16), dtype=np.float32)
    for begin, end in ((0, 64), (64, n)):
        mirrored = np.zeros((2, end - begin, 16), dtype=np.float32)
        launch = passes["mercer_mirrored_pass"][(2,)]
        launch(*given, out, mirrored, n, begin, end, *numbers, **constants)
        sums[begin:] += out[begin:]
        sums[begin:end] += mirrored.sum(axis=0)
    return sums[:n, : v.shape[1]] / 0.5


SIZES = {"of one": 1.0, "raw": 1e5, "tiny": 1e-6}


@pytest.mark.parametrize("size", sorted(SIZES))
@pytest.mark.parametrize("alike", [False, True])
@pytest.mark.parametrize("precise", [False, True])
@pytest.mark.parametrize("cut", [None, Blocks(32, 16, 16), Blocks(16, 32, 16)])
def test_the_pass_is_a_product_with_the_matrix(*, cut, precise, alike, size, monkeypatch, rng):
    """Not a multiple of any block, in parts or, by tiles for both sides of the diagonal, in bands; rows of
    any size fit into half floats. The diagonal is given: one that no distance of a row to itself gives."""
    x, v = rng.standard_normal((90, 20)), rng.standard_normal((90, 5))
    x[7] = x[3]
    kernel = RBF(0.02 / SIZES[size] ** 2)
    text = source(program_of(kernel), precise=precise)
    given = {"precise": precise, "alike": alike, "minus": 0.25, "mirror": cut is not None}
    given["cut"] = cut or Blocks(32, 16, 16)
    found = in_numpys_hands(text, SIZES[size] * x, v, np.full(90, 1.5), monkeypatch, **given)
    exact = (RBF(0.02)(x) + 0.5 * np.eye(90) - 0.25) @ v
    # Rows, tiles and V are off by 2⁻¹² of their sizes each, or by 2⁻²³ and the rounding of float32 sums.
    unit = 2.0**-21 if precise else 2.0**-10
    assert np.all(np.abs(found - exact) <= unit * np.abs(v).sum(axis=0))


@pytest.mark.parametrize("d", [1, 10, 64, 768, 10_000])
@pytest.mark.parametrize("precise", [False, True])
def test_blocks_suit_tensor_cores(d, precise):
    cut = Blocks.usual(d, precise=precise)
    assert 2 * max(d, 16) > cut.BK
    for columns in (16, 32, 64, 128):
        both = Blocks.mirrored(columns, precise=precise)
        for side in (cut.BM, cut.BN, cut.BK, both.BM, both.BN, both.BK):
            assert side >= 16
            assert side & (side - 1) == 0


def test_names_of_a_pass_keep_their_shapes():
    """Triton refuses a variable that has one shape before a branch and another within it."""
    text = source(PROGRAMS["rbf"], precise=True)
    _, within = text.split("if first + BN <= start:")
    within, _ = within.split("z_at += BN * D")
    names = set(re.findall(r"^ *(\w+) \+?= ", within, re.MULTILINE))
    assert names == {"mirrored", "besides", "at"}
    assert not any(
        re.search(rf"^ *{name} = ", text.split(within)[0], re.MULTILINE) for name in names
    )


def test_rows_are_counted_from_their_middle_where_nothing_but_distances_is_taken():
    assert is_shifted(program_of(RBF(0.3)))
    assert not is_shifted(program_of(RBF(0.3) + Linear()))
