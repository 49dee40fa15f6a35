"""Kernel expressions: they mean what Python makes of them, read back, and fail with the place."""

import math
import threading

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.gaussian_process import kernels as gp

from markets.kernels import HISTOGRAM, INDEFINITE, VALID
from mercer import kernels
from mercer._core.errors import KernelError, KernelSyntaxError
from mercer.approximations import APPROXIMATIONS, Nystrom, RPCholesky
from mercer.kernels import (
    KERNELS,
    RBF,
    Constant,
    Custom,
    Kernel,
    Linear,
    Power,
    Precomputed,
    Product,
    Scale,
    Sum,
)
from mercer.kernels.text import kernel_text, parse_call, parse_kernel
from mercer.kernels.text.parse import DEEPEST, MOST_CHARACTERS
from mercer.preimage import PREIMAGES, FixedPoint
from mercer.solvers import SOLVERS, BlockKrylov

# Python itself is the reference: an expression means what it would mean there.
PYTHON = {**{kind.__name__: kind for kind in KERNELS.values()}, **KERNELS, "inf": math.inf}

EXPRESSIONS = [
    "rbf(gamma=0.5) + 0.1*linear()",
    "sigmoid(gamma=2, coef0=-1)",
    "RBF(0.5)*RBF(sigma=2) - 3",
    "-rbf()**2",
    "(-rbf())**2",
    "2*3*rbf()",
    "2*rbf()*3",
    "rbf()*2**3",
    "rbf() + 1 - linear() - 2*linear()",
    "rbf() - (linear() - 1)",
    "linear()**2**3",
    "matern(nu=inf, length_scale=2.5)",
    "rbf(gamma=1/8) + rbf(gamma=2**-3)",
    "polynomial(2, coef0=0).on([0, 1]).normalised()",
    "(rbf('scale') + linear()).on([True, False, True])",
    "rbf(None).on((0,)) + rbf(gamma='1/d').on([-1])",
    "-(2*(linear()))*.5e1",
    "( rbf ( gamma = 1_0.5 )\n+\tlinear ( ) )",
    "- -rbf()",
    "precomputed()",
]


def written_down(kernel):
    """A kernel as plain data: its class and its parameters, all the way down."""
    if not isinstance(kernel, Kernel):
        plain = kernel.item() if isinstance(kernel, np.generic) else kernel
        return list(plain) if isinstance(plain, (tuple, np.ndarray, range)) else plain
    params = kernel.get_params(deep=False)
    return type(kernel).__name__, {name: written_down(value) for name, value in params.items()}


def message(text, read=parse_kernel):
    with pytest.raises(KernelSyntaxError) as caught:
        read(text)
    return str(caught.value)


def place(text, read=parse_kernel):
    """The part of the text that the caret and its tail are under."""
    *_, line, carets = message(text, read).split("\n")
    return line[carets.index("^") : len(carets)]


# ── meaning ─────────────────────────────────────────────────────────────────
@pytest.mark.parametrize("text", EXPRESSIONS)
def test_an_expression_means_what_it_means_in_python(text):
    names = {**PYTHON, "__builtins__": {}}
    assert written_down(parse_kernel(text)) == written_down(eval(text, names))


@pytest.mark.parametrize("name", [*KERNELS, *(kind.__name__ for kind in KERNELS.values())])
def test_a_name_alone_is_a_kernel_in_any_case(name):
    wanted = written_down(PYTHON[name]())
    assert all(
        written_down(parse_kernel(word)) == wanted
        for word in (name, name.upper(), name.lower(), f"{name}()")
    )


def test_numbers_before_kernels_and_alone():
    assert written_down(parse_kernel("+rbf()")) == written_down(RBF())
    assert written_down(parse_kernel("2 + 3")) == written_down(Constant(5))
    wanted = Sum(Constant(1), Scale(RBF(), -1.0))
    assert written_down(parse_kernel("1 - rbf()")) == written_down(wanted)
    assert written_down(parse_kernel("constant(2) * rbf()")) == written_down(
        Product(Constant(2), RBF())
    )


# ── there and back ──────────────────────────────────────────────────────────
TEXTLESS = ("gp", "matrices", "points")
MARKET = {k: v for k, v in {**VALID, **HISTOGRAM, **INDEFINITE}.items() if k not in TEXTLESS}


@pytest.mark.parametrize("name", MARKET)
def test_what_a_kernel_prints_reads_back(name):
    kernel = MARKET[name]
    assert written_down(parse_kernel(kernel_text(kernel))) == written_down(kernel)
    x = np.abs(np.random.default_rng(0).standard_normal((5, 3)))
    np.testing.assert_array_equal(parse_kernel(repr(kernel))(x), kernel(x))


NUMBERS = st.one_of(
    st.integers(-(2**63) + 1, 2**63 - 1),
    st.floats(allow_nan=False, allow_infinity=False),
    st.floats(-10, 10, width=32).map(np.float32),
)
WIDTHS = st.one_of(st.sampled_from(["scale", "1/d", None]), st.floats(1e-300, 1e300))
LEAVES = st.one_of(
    st.builds(RBF, WIDTHS),
    st.builds(RBF, sigma=st.floats(1e-9, 1e9)),
    st.builds(Linear),
    st.builds(kernels.Cosine),
    st.builds(kernels.Matern, st.sampled_from([0.5, 1.5, math.inf]), st.floats(1e-9, 1e9)),
    st.builds(kernels.Polynomial, st.integers(1, 9), WIDTHS, st.floats(-9, 9)),
    st.builds(kernels.Sigmoid, WIDTHS, st.floats(-9, 9)),
    st.builds(Constant, NUMBERS),
)
COLUMNS = st.one_of(st.lists(st.integers(-5, 99), max_size=4), st.lists(st.booleans(), min_size=1))


def grown(inner):
    return st.one_of(
        st.builds(Sum, inner, inner),
        st.builds(Product, inner, inner),
        st.builds(Scale, inner, st.one_of(NUMBERS, st.just(-1.0), st.just(-1))),
        st.builds(Power, inner, st.integers(1, 99)),
        st.builds(Kernel.on, inner, COLUMNS),
        st.builds(Kernel.normalised, inner),
        st.builds(Kernel.__sub__, inner, inner),
    )


@given(st.recursive(LEAVES, grown, max_leaves=12))
@settings(max_examples=100, deadline=None, derandomize=True)
@example(Sum(Constant(1), Constant(2)))
@example(Sum(Constant(1), Scale(Constant(2), -1.0)))
@example(Scale(Constant(-0.0), -1.0))
@example(Product(Constant(2), Constant(3)))
@example(Power(Constant(2), 3))
@example(Sum(RBF(), Sum(RBF(), RBF())))
@example(Sum(RBF(), Scale(Sum(RBF(), Linear()), -1.0)))
def test_every_tree_reads_back(kernel):
    assert written_down(parse_kernel(kernel_text(kernel))) == written_down(kernel)


class Mine(RBF):
    """A class of a user's: a text names it as it names the library's."""


class Wave(Kernel):
    """One that has a parameter without a default, and a list."""

    def __init__(self, period, *, weights=(1.0, 2.0), kind="sine"):
        self.period, self.weights, self.kind = period, weights, kind

    def tile(self, x, y):
        return np.cos((x[:, :1] - y[:, :1].T) / self.period) * sum(self.weights)

    def tile_diag(self, x):
        return np.full(len(x), sum(self.weights))


@pytest.mark.parametrize(
    ("text", "kernel"),
    [
        ("mine(sigma=2)", Mine(sigma=2)),
        ("2*MINE + linear", 2 * Mine() + Linear()),
        ("wave(2)", Wave(2)),
        ("wave(2, weights=[3, 1]).on([1])", Wave(2, weights=[3, 1]).on([1])),
    ],
)
def test_a_class_of_a_user_has_a_text_without_another_line(text, kernel):
    assert written_down(parse_kernel(text)) == written_down(kernel)
    assert written_down(parse_kernel(kernel_text(kernel))) == written_down(kernel)
    assert "Wave" in kernel_text(Wave(2, kind="saw"))
    assert "period" in message("wave()")


class Meaner(Sum):
    """A sum with mathematics of its own must not be written as a sum."""


class Linear2(Custom):
    """A function has no text, whatever its class is called."""


@pytest.mark.parametrize(
    ("kernel", "why"),
    [
        (lambda *_: 1.0, "is a Python function, which has no text"),
        (RBF() + Custom(lambda *_: 1.0), "is a Python function, which has no text"),
        (gp.RBF(1.0), "is an object of scikit-learn, which has no text"),
        (Linear() * Meaner(RBF(), RBF()), "no text that reads back"),
        (Linear2(lambda *_: 1.0), "is a Python function, which has no text"),
        (type("RBF", (Mine,), {})(), "is another kernel"),
        (RBF(gamma=-1.0), "gamma must be a number > 0"),
        (sum((RBF() for _ in range(DEEPEST + 1)), Linear()), "more than 100 levels"),
        (sum((RBF() for _ in range(5000)), Linear()), "no text that reads back"),
    ],
)
def test_a_kernel_without_a_text_says_why(kernel, why):
    with pytest.raises(KernelError, match=why):
        kernel_text(kernel)


def test_the_tallest_kernel_can_be_used_and_written():
    """At the limit everything that walks through a kernel still has stack left."""
    tall = parse_kernel("-".join(["sigmoid(0.1, coef0=-1)"] * DEEPEST))
    assert written_down(parse_kernel(kernel_text(tall))) == written_down(tall)
    x = np.eye(2)
    np.testing.assert_array_equal(clone(tall)(x), tall(x))
    assert tall.why_valid() is None
    assert len(repr(tall)) > DEEPEST


# ── wrong texts ─────────────────────────────────────────────────────────────
WRONG = {
    "": (None, "empty"),
    " \n": (None, "empty"),
    "rfb()": ("rfb", "Did you mean 'rbf'"),
    "linear() + rfb(1)": ("rfb", "Unknown kernel"),
    "rbf(gama=1)": ("gama", "Did you mean 'gamma'"),
    "linear(gamma=1)": ("gamma", "It has none"),
    "1 + rbf(gamma=-1)": ("rbf(gamma=-1)", "gamma must be a number > 0"),
    "rbf(gamma=nan)": ("rbf(gamma=nan)", "gamma must be a number > 0"),
    "rbf(gamma='medain')": ("rbf(gamma='medain')", "Did you mean 'median'"),
    "rbf(gamma=median)": ("median", "in quotes"),
    "rbf(gamma=0,5)": ("5", "with a point"),
    "rbf(1, gamma=2)": ("gamma", "twice"),
    "rbf(gamma=1, gamma=2)": ("gamma", "twice"),
    "rbf(1, 2)": ("2", "at most one unnamed argument"),
    "linear(1)": ("1", "no arguments"),
    "rbf(linear())": ("linear()", "is a kernel"),
    "rbf(gamma=0.5": ("", "the closing bracket )"),
    "rbf)": (")", "the end of the text"),
    "rbf() linear()": ("linear", "an operator"),
    "rbf()^2": ("^", "** for a power"),
    "rbf() × 2": ("×", "* for a product"),
    "rbf(gamma=“median”)": ("“", "plain quotes"),
    "rbf(gamma='median)": ("'", "the quote that it begins with"),
    "rbf(gamma='a\\'b')": ("'", "no backslash"),
    "rbf = 2": ("=", "in a call only"),
    "rbf()/2": ("/", "can't be divided"),
    "2**rbf()": ("rbf()", "whole p"),
    "rbf()**0.5": ("0.5", "exponent must be an integer >= 1"),
    "rbf()**-1": ("-1", "exponent must be an integer >= 1"),
    "rbf()**inf": ("inf", "whole p"),
    "inf*rbf()": ("*", "finite"),
    "1/0 + rbf()": ("1/0", "by zero"),
    "(-8)**0.5": ("(-8)**0.5", "no real value"),
    "10**10**10": ("10**10**10", "too large"),
    "1e999": ("1e999", "too large"),
    "9223372036854775808": ("9223372036854775808", "too large"),
    "1__0": ("1__0", "not a number"),
    "'rbf'": ("'rbf'", "this is a text"),
    "None": ("None", "this is None"),
    "[1, 2]": ("[1, 2]", "this is a list"),
    "rbf() + True": ("True", "joins kernels and numbers"),
    "-'a'": ("-'a'", "not a text"),
    "rbf().normalized()": ("normalized", "Did you mean 'normalised'"),
    "rbf().resolve(1)": ("resolve", "no method"),
    "rbf().__class__": ("__class__", "needs its brackets"),
    "2 .on([1])": ("2", "Kernels have methods"),
    "rbf().on()": ("on", "needs columns"),
    "rbf().on([0.5])": ("rbf().on([0.5])", "positions, of names or of booleans"),
    "rbf().on(['a', 1])": ("rbf().on(['a', 1])", "positions, of names or of booleans"),
    "rbf().on([[0]])": ("[0]", "A list has numbers"),
    "precomputed() + linear()": ("+", "can't be combined"),
    "__import__('os').system('true')": ("__import__", "Unknown kernel"),
    "lambda x: x": ("x", "an operator"),
    "Sum(rbf(), rbf())": ("Sum", "Unknown kernel"),
    "rbf()\n+ rfb()": ("rfb", "Unknown kernel"),
    "linear2(1)": ("linear2", "Unknown kernel"),
    "meaner(rbf(), rbf())": ("rbf()", "is a kernel"),
    "é": ("é", "U+00E9"),
    # What Python would read, warn of or choke on.
    "ﬁ()": ("ﬁ", "U+FB01"),
    "rbf(gamma=f'{1}')": ("'{1}'", "an operator"),
    "rbf(gamma=b'a')": ("'a'", "an operator"),
    "rbf(gamma='a' 'b')": ("'b'", "an operator"),
    "rbf(gamma='\\d')": ("'", "no backslash"),
    "rbf(gamma='''a''')": ("'a'", "an operator"),
    "[rbf() for x in y]": ("for", "an operator"),
    "(k := rbf())": (":", "gamma=0.5"),
    "rbf() if 1 else 2": ("if", "an operator"),
    "1if 2": ("if", "an operator"),
    "not(rbf())": ("not", "Unknown kernel"),
    "await(rbf())": ("await", "Unknown kernel"),
    "lambda": ("lambda", "Unknown kernel"),
    "rbf(lambda=1)": ("lambda", "no parameter"),
    "rbf(*[1])": ("*", "a kernel, a number"),
    "rbf(**rbf())": ("**", "a kernel, a number"),
    "rbf()(1)": ("(", "an operator"),
    "rbf()[0]": ("[", "an operator"),
    "rbf.gamma": ("gamma", "needs its brackets"),
    "rbf # ()": ("#", "comments"),
    "rbf() + \\\nrbf()": ("\\", "several lines"),
    "rbf\x00": ("�", "U+0000"),
    "rbf() @ rbf()": ("@", "Unexpected"),
    "1 < 2": ("<", "Unexpected"),
    "1j": ("j", "an operator"),
    "0x10": ("x10", "an operator"),
    "...": (".", "a kernel, a number"),
    "rbf(a=b=1)": ("=", "in a call only"),
    "[a=1]": ("=", "in a call only"),
    "rbf(2=1)": ("=", "in a call only"),
    "rbf('\ud800', gama=2)": ("gama", "Did you mean 'gamma'"),
    "rbf('é', gama=2)": ("gama", "Did you mean 'gamma'"),
}


@pytest.mark.parametrize("text", WRONG)
def test_a_wrong_text_is_told_with_its_place(text):
    where, why = WRONG[text]
    told = message(text)
    assert why in told
    if where is None:
        assert "\n" not in told
    else:
        assert place(text) == where


def test_wide_and_odd_characters_do_not_move_the_caret():
    _, line, carets = message("'漢字' + \x00").split("\n")
    assert carets.index("^") == line.index("�") + 2  # two characters of two columns
    assert "\ud800" not in message("\ud800")


def test_a_long_text_is_shown_around_the_place():
    text = " + ".join(["linear()"] * 40 + ["rfb()"] + ["linear()"] * 40)
    *_, line, carets = message(text).split("\n")
    assert place(text) == "rfb"
    assert line.strip().startswith("…")
    assert line.endswith("…")
    assert len(line) < 80
    assert len(carets) < 80


HOSTILE = {
    "brackets": "(" * 10_000,
    "closed brackets": "(" * 5000 + "rbf()" + ")" * 5000,
    "lists": "[" * 10_000,
    "calls": "rbf(" * 4000,
    "signs": "-" * 10_000 + "rbf()",
    "powers": "rbf()" + "**1" * 5000,
    "terms": "+".join(["rbf()"] * 3000),
    "methods": "rbf()" + ".normalised()" * 1000,
    "digits": "1" * 10_000,
    "underscores": "1" + "_" * 10_000,
    "a name": "x" * 10_000,
    "length": "x" * (MOST_CHARACTERS + 1),
    "quotes": "'" * 10_001,
    "towers": "9" + "**9" * 50,
    "commas": "rbf(" + "," * 1000,
    "powers of brackets": "(1)" + "**(1)" * 3000,
    "methods of brackets": "(" * 90 + "rbf()" + ".normalised().normalised())" * 90,
    "sums in brackets": "(" * 90 + "rbf()" + ("+rbf()" * 30 + ")") * 90,
    "signs in calls": "rbf(-" * 90 + "1" + ")" * 90,
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_texts_end_cleanly(name):
    assert len(message(HOSTILE[name])) < 25_000


def test_hostile_texts_end_cleanly_on_a_small_stack():
    """Python's parser recurses in C: where a chain were let through, this would end the process."""
    told, before = [], threading.stack_size(512 * 1024)
    try:
        thread = threading.Thread(target=lambda: told.extend(map(message, HOSTILE.values())))
        thread.start()
        thread.join()
    finally:
        threading.stack_size(before)
    assert len(told) == len(HOSTILE)


PIECES = ["rbf", "linear()", "(", ")", "[", "]", ",", "=", ".", "on", "+", "-", "*", "**", "/"]
PIECES += [
    "2",
    "0.5",
    "'a'",
    "'",
    "gamma",
    " ",
    "None",
    "1e9",
    "inf",
    "é",
    "\\",
    "\n",
    "normalised()",
]


@given(st.one_of(st.lists(st.sampled_from(PIECES), max_size=25).map("".join), st.text(max_size=40)))
@settings(max_examples=300, deadline=None, derandomize=True)
def test_any_text_is_a_kernel_or_a_syntax_error(text):
    try:
        kernel = parse_kernel(text)
    except KernelSyntaxError as error:
        told = str(error)
        assert told.splitlines()
        assert told.encode()  # it can be printed
        return
    assert written_down(parse_kernel(kernel_text(kernel))) == written_down(kernel)


def test_only_texts_are_read():
    with pytest.raises(KernelError, match="got a float"):
        parse_kernel(0.5)


# ── one call ────────────────────────────────────────────────────────────────
@pytest.mark.parametrize(
    ("text", "known", "wanted"),
    [
        ("rpcholesky(rank=500)", APPROXIMATIONS, RPCholesky(rank=500)),
        ("RPCholesky", APPROXIMATIONS, RPCholesky()),
        (" krylov ( tol = 1e-8 ) ", SOLVERS, BlockKrylov(tol=1e-8)),
        ("blockkrylov(1e-8, block=None)", SOLVERS, BlockKrylov(1e-8, block=None)),
        ("fixed-point(n_starts=2)", PREIMAGES, FixedPoint(n_starts=2)),
        ("fixed_point", PREIMAGES, FixedPoint()),
        ("FixedPoint()", PREIMAGES, FixedPoint()),
    ],
)
def test_a_call_makes_what_its_class_makes(text, known, wanted):
    made = parse_call(text, known)
    assert type(made) is type(wanted)
    assert made.get_params() == wanted.get_params()


def test_a_call_takes_lists():
    made = parse_call("nystrom(landmarks=[1, 2])", APPROXIMATIONS)
    assert isinstance(made, Nystrom)
    assert made.landmarks == [1, 2]


@pytest.mark.parametrize(
    ("text", "where", "why"),
    [
        ("fourrier()", "fourrier", "Unknown approximation 'fourrier'. Did you mean 'fourier'"),
        ("rpcholesky(rnak=2)", "rnak", "Did you mean 'rank'"),
        ("rpcholesky() + 1", "rpcholesky() + 1", "Expected one approximation"),
        ("2", "2", "Expected one approximation"),
        ("rpcholesky(rank=auto)", "auto", "in quotes"),
        ("rbf()", "rbf", "Unknown approximation"),
    ],
)
def test_a_wrong_call_is_told_with_its_place(text, where, why):
    def read(text):
        return parse_call(text, APPROXIMATIONS, what="approximation")

    assert why in message(text, read)
    assert place(text, read) == where
    assert "Known names" in message(" ", read)


def test_a_precomputed_kernel_has_a_text():
    assert isinstance(parse_kernel(kernel_text("precomputed")), Precomputed)
