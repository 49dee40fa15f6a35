"""Laws of the compiled tiles: functions to two units, formulas as in NumPy, the same bits on any threads."""

import os
import signal
import subprocess
import sys
import threading
import tracemalloc

import mpmath
import numpy as np
import pytest
from scipy.spatial.distance import cdist
from threadpoolctl import threadpool_limits

from markets.kernels import HISTOGRAM, INDEFINITE, VALID
from mercer import KernelPCA
from mercer._core.errors import EngineWarning, InputError
from mercer.engine.base import FLOAT32, FLOAT64, Rounding, TileStore
from mercer.engine.native import NativeEngine, build, compiled
from mercer.engine.native import bindings as native
from mercer.engine.native.engine import NativeRows
from mercer.engine.numpy import NumpyEngine
from mercer.kernels import RBF, Linear, Polynomial

pytestmark = pytest.mark.skipif(compiled() is None, reason="no compiler when mercer was installed")

KERNELS = VALID | HISTOGRAM | INDEFINITE
DTYPES = {"float64": FLOAT64, "float32": FLOAT32}


@pytest.fixture(params=sorted(DTYPES))
def dtype(request):
    return DTYPES[request.param]


# ── functions ───────────────────────────────────────────────────────────────
def applied(code, x, power=0.0):
    """A function of the library on an array."""
    lib, width = compiled(), compiled().vector_bytes // x.dtype.itemsize
    room = native.aligned((-(-len(x) // width) * width,), x.dtype, zero=True)
    room[: len(x)] = x
    out = native.aligned(room.shape, x.dtype)
    lib.function[x.dtype](code, room.ctypes.data, out.ctypes.data, len(room), power)
    return out[: len(x)]


def units_off(found, exact, dtype):
    """By how many units in the last place a number is off its exact value, also where it is subnormal."""
    info = np.finfo(dtype)
    if mpmath.isnan(exact) or np.isnan(found):
        return 0.0 if mpmath.isnan(exact) and np.isnan(found) else np.inf
    edge = mpmath.mpf(float(info.max)) * (1 + mpmath.mpf(float(info.eps)) / 4)
    if abs(exact) >= edge:
        return 0.0 if np.isinf(found) and found * float(mpmath.sign(exact)) > 0 else np.inf
    if not np.isfinite(found):
        return np.inf
    exponent = int(mpmath.frexp(exact)[1]) if exact else -(10**6)
    unit = mpmath.ldexp(1, max(exponent - info.nmant - 1, int(info.minexp) - info.nmant))
    return float(abs(mpmath.mpf(float(found)) - exact) / unit)


def signed(x):
    """A float as a number of mpmath."""
    return mpmath.mpf(float(x)) if np.isfinite(x) else mpmath.mpf(str(float(x)))


SPECIAL = [0.0, -0.0, np.inf, -np.inf, np.nan]


@pytest.mark.parametrize("name", ["exp", "tanh"])
def test_functions_are_off_by_two_units_at_most(name, dtype, rng):
    """Over the whole range, where results are subnormal, and at what is not a number or has no size."""
    code, exact = {"exp": (native.EXP, mpmath.exp), "tanh": (native.TANH, mpmath.tanh)}[name]
    most = float(np.log(np.finfo(dtype).max)) * 1.06
    least = np.log10(float(np.finfo(dtype).smallest_subnormal))
    x = np.concatenate(
        [
            SPECIAL,
            rng.uniform(-most, most, 1000),
            rng.uniform(-2.0, 2.0, 1000),
            rng.choice([-1.0, 1.0], 1000) * 10.0 ** rng.uniform(least, 2.0, 1000),
        ]
    ).astype(dtype)
    with mpmath.workprec(200):
        off = [
            units_off(a, exact(signed(b)), dtype) for a, b in zip(applied(code, x), x, strict=True)
        ]
    assert max(off) <= 2.0


@pytest.mark.parametrize("power", [0.5, -0.5, 1.7, -3.3, 0.01, 25.3, -120.7, 1.0 / 3.0])
def test_powers_are_off_by_two_units_at_most(power, dtype, rng):
    info = np.finfo(dtype)
    ends = np.log10([float(info.smallest_subnormal), float(info.tiny), float(info.max)])
    x = np.concatenate(
        [
            [0.0, np.inf, np.nan, 1.0],
            10.0 ** rng.uniform(ends[0], ends[2], 700),
            10.0 ** rng.uniform(ends[0], ends[1], 300),
            rng.uniform(0.3, 3.0, 500),
            1.0 + 1e-3 * rng.standard_normal(500),
        ]
    ).astype(dtype)

    def exact(value):
        if value == 0 or mpmath.isinf(value):
            return mpmath.mpf(0) if (value == 0) == (power > 0) else mpmath.inf
        return value**power

    with mpmath.workprec(200):
        found = applied(native.POWER, x, power)
        off = [units_off(a, exact(signed(b)), dtype) for a, b in zip(found, x, strict=True)]
    assert max(off) <= 2.0
    assert np.isnan(applied(native.POWER, np.array([-1.0], dtype=dtype), power))[0]


# ── tiles ───────────────────────────────────────────────────────────────────
SHAPES = [(1, 1), (2, 5), (23, 1), (24, 3), (25, 3), (193, 2), (500, 20)]


def rows_of(kernel, n, d, rng):
    x = rng.standard_normal((n, d))
    return np.abs(x) if kernel.positive_only else x


@pytest.mark.parametrize("name", sorted(KERNELS))
@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("sliced", [False, True], ids=["packed", "sliced"])
def test_tiles_are_those_of_numpy(name, shape, sliced, dtype, rng):
    """To rounding: sums of d terms, a formula of a few steps, whose slope in the pair is at most about 10."""
    kernel = KERNELS[name]
    engine, reference = NativeEngine(2), NumpyEngine(1)
    if engine.facts().runs(kernel) is not None:
        pytest.skip("not compiled")
    x = rows_of(kernel, *shape, rng)
    try:
        kernel.check_rows(x)
    except InputError:
        pytest.skip("the kernel is not defined on so few columns")
    rows = engine.load(x.astype(dtype), kernel, dtype, sliced=sliced)
    exact = reference.gram(
        kernel, reference.load(x.astype(dtype).astype(np.float64), kernel, FLOAT64)
    )
    room = 200.0 * float(np.finfo(dtype).eps) * shape[1] * np.abs(exact).max()
    np.testing.assert_allclose(engine.gram(kernel, rows), exact, rtol=0, atol=room)


@pytest.mark.parametrize("sliced", [False, True], ids=["packed", "sliced"])
@pytest.mark.parametrize("columns", [[2, 0], [-1], [0, -2], [False, True, True], [0, 1]], ids=str)
def test_columns_are_those_that_were_named(columns, sliced, dtype, rng):
    """From either end, or as a mask, which is equal to positions as Python compares; together, too."""
    x, a = rng.standard_normal((210, 3)).astype(dtype), RBF(0.5)
    kernel = a.on(columns) + a.on([True, False, True])
    engine = NativeEngine(1)
    found = engine.gram(kernel, engine.load(x, kernel, dtype, sliced=sliced))
    chosen = x[:, np.asarray(columns)], x[:, [0, 2]]
    exact = sum(np.exp(-0.5 * cdist(y, y, "sqeuclidean")) for y in chosen)
    np.testing.assert_allclose(found, exact, rtol=0, atol=100 * np.finfo(dtype).eps)


@pytest.mark.parametrize("columns", [[0, 2], [-1], [True, False, True]], ids=str)
def test_lengths_of_sums_over_columns(columns, dtype, rng):
    """k(x, x) of a normalised kernel whose parts look at columns of their own."""
    x = rng.standard_normal((60, 3)).astype(dtype)
    kernel = (RBF(0.5).on(columns) + Linear().on([1])).normalised()
    engine, y, z = NativeEngine(1), x[:, np.asarray(columns)], x[:, 1].astype(np.float64)
    plain = np.exp(-0.5 * cdist(y, y, "sqeuclidean")) + np.outer(z, z)
    lengths = np.sqrt(plain.diagonal())
    found = engine.gram(kernel, engine.load(x, kernel, dtype))
    exact = plain / np.outer(lengths, lengths)
    np.testing.assert_allclose(found, exact, rtol=0, atol=100 * np.finfo(dtype).eps)


LAYOUTS = {
    "fortran": np.asfortranarray,
    "reversed": lambda x: x[::-1, ::-1],
    "strided": lambda x: np.repeat(x, 2, axis=1)[:, ::2],
    "unaligned": lambda x: (
        np.frombuffer(b"\0" + x.tobytes(), dtype=np.uint8)[1:].view(x.dtype).reshape(x.shape)
    ),
    "read-only": lambda x: np.frombuffer(x.tobytes(), dtype=x.dtype).reshape(x.shape),
}


@pytest.mark.parametrize("layout", sorted(LAYOUTS))
@pytest.mark.parametrize("sliced", [False, True], ids=["packed", "sliced"])
def test_rows_may_lie_in_any_order(layout, sliced, dtype, rng):
    kernel, x = RBF(0.1), rng.standard_normal((211, 7)).astype(dtype)
    laid = LAYOUTS[layout](x)
    v = rng.standard_normal((211, 3)).astype(dtype)
    engine = NativeEngine(1)
    found = engine.gram_times(kernel, engine.load(laid, kernel, dtype, sliced=sliced), v)
    plain = engine.load(np.ascontiguousarray(laid), kernel, dtype, sliced=sliced)
    again = engine.gram_times(kernel, plain, v)
    np.testing.assert_array_equal(found, again)


@pytest.mark.parametrize("n", [100, 1000, 2500])
def test_no_bit_depends_on_the_number_of_threads(n, dtype, rng):
    kernel, x = RBF(0.1), rng.standard_normal((n, 5)).astype(dtype)
    v, few = rng.standard_normal((n, 9)).astype(dtype), np.arange(0, n, 7)
    wide = np.triu(rng.standard_normal((len(few), len(few)))).astype(dtype)

    def everything(n_threads):
        engine, store = NativeEngine(n_threads), TileStore(minus=0.2, rounding=Rounding(minus=0.1))
        rows = engine.load(x, kernel, dtype, store=store)
        points = engine.load(rows.take(few), kernel, dtype)
        yield engine.gram(kernel, rows)
        yield engine.gram_times(kernel, rows, v)
        yield engine.gram_times(kernel, rows, v, rough=True)
        yield engine.times(kernel, points, rows, v)
        yield engine.times(kernel, rows, points, v[few])
        yield engine.tile(kernel, x, x[few])
        yield engine.times(kernel, engine.load(x, kernel, dtype), points, wide)

    first = list(everything(1))
    for n_threads in (2, 3, 7, 16, 16):
        for one, other in zip(first, everything(n_threads), strict=True):
            np.testing.assert_array_equal(other, one)


@pytest.mark.parametrize("n", [300, 700, 1200])
@pytest.mark.parametrize("how", ["lanczos", "krylov", "memory", "weights"])
def test_an_exact_fit_has_the_same_bits_on_any_number_of_threads(n, how, dtype, rng):
    """Tiles are cut by sizes alone, and near pairs, of which this data has many, are told pair by pair."""
    x = rng.standard_normal((n, 2)).astype(dtype)
    x[::9] = x[1::9][: len(x[::9])] + dtype.type(1e-6)
    options = {"memory": {"memory": "40MB"}, "weights": {}}.get(how, {"solver": how})
    weights = rng.uniform(0.5, 2.0, n) if how == "weights" else None

    def numbers(n_threads):
        with threadpool_limits(n_threads):
            model = KernelPCA(3, kernel=RBF(0.05), engine=NativeEngine(n_threads), **options)
            fit = model.fit(x, sample_weight=weights).fit_
            return [
                fit.pairs.values,
                fit.projection.coef,
                fit.projection.offset,
                model.transform(x),
            ]

    first = numbers(1)
    for n_threads in (2, 3, 5):
        for one, other in zip(first, numbers(n_threads), strict=True):
            np.testing.assert_array_equal(other, one)


@pytest.mark.parametrize("d", [2, 5])
def test_a_kernel_value_has_the_same_bits_whatever_rows_stand_beside(d, dtype, rng):
    """One near pair in a block changes no other entry of it."""
    points = rng.standard_normal((200, d)).astype(dtype)
    rows = (0.1 * rng.standard_normal((48, d)) + 6.0).astype(dtype)  # none of them near a point
    rows[5] = points[17] + dtype.type(1e-6)
    engine, kernel = NativeEngine(1), RBF(0.01)
    together = engine.tile(kernel, rows, points)
    alone = np.vstack([engine.tile(kernel, rows[[i]], points) for i in range(len(rows))])
    np.testing.assert_array_equal(together, alone)
    both = np.vstack([rows, points])  # and from whichever side of the diagonal it is computed
    gram = engine.gram(kernel, engine.load(both, kernel, dtype))
    np.testing.assert_array_equal(gram, gram.T)


@pytest.mark.parametrize("k", [127, 128, 300])
@pytest.mark.parametrize("size", [1.0, 2.0**41])
def test_products_with_many_columns_are_right(k, size, dtype, rng):
    """Compiled tiles times BLAS, and NumPy's own where rows are beyond the range of compiled ones."""
    kernel, v = RBF(0.05 / size**2), rng.standard_normal((300, k)).astype(dtype)
    x, z = ((size * rng.standard_normal((n, 5))).astype(dtype) for n in (900, 300))
    engine = NativeEngine(2)
    rows, points = (engine.load(each, kernel, dtype) for each in (x, z))
    found = engine.times(kernel, rows, points, v)
    assert found.dtype == dtype
    exact = np.exp(-kernel.gamma * cdist(x, z, "sqeuclidean")) @ v.astype(np.float64)
    assert np.all(np.abs(found - exact) <= 1e3 * np.finfo(dtype).eps * np.abs(v).sum(axis=0))


@pytest.mark.parametrize("k", [8, 33])
def test_a_large_product_holds_its_right_side_and_two_sums(k, rng):
    """In whole vectors of at most eight numbers, and of whole tiles of rows; nothing stays of it."""
    n, engine, kernel = 30_000, NativeEngine(2), RBF(1.0)
    x, v = rng.standard_normal((n, 1)), rng.standard_normal((n, k))
    rows = engine.load(x, kernel, x.dtype, width=192, sliced=True)
    tracemalloc.start()
    try:
        product = engine.gram_times(kernel, rows, v)
        now, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    padded = 8 * (n + 192) * (k + 8)
    assert peak <= 3 * padded + 2**21
    assert now <= padded + 2**21
    some = np.arange(0, n, 3001)
    exact = np.exp(-cdist(x[some], x, "sqeuclidean")) @ v
    np.testing.assert_allclose(product[some], exact, rtol=0, atol=1e-9)


# ── k(X, Z) written out ─────────────────────────────────────────────────────
RECTANGLES = [(1, 1), (1, 40), (40, 1), (25, 23), (193, 24), (500, 211)]


def room_of(exact, d, dtype):
    """To rounding: sums of d terms, a formula of a few steps, whose slope in the pair is at most about 10."""
    return 200.0 * float(np.finfo(dtype).eps) * d * np.abs(exact).max()


@pytest.mark.parametrize("name", sorted(KERNELS))
@pytest.mark.parametrize("shape", RECTANGLES, ids=str)
def test_sections_are_those_of_numpy(name, shape, dtype, rng):
    kernel, engine, d = KERNELS[name], NativeEngine(2), 20
    if engine.facts().runs(kernel) is not None:
        pytest.skip("not compiled")
    x, z = (rows_of(kernel, n, d, rng).astype(dtype) for n in shape)
    exact = kernel.tile(x.astype(np.float64), z.astype(np.float64))
    found = engine.tile(kernel, x, z)
    assert found.dtype == dtype
    np.testing.assert_allclose(found, exact, rtol=0, atol=room_of(exact, d, dtype))
    np.testing.assert_array_equal(NativeEngine(1).tile(kernel, x, z), found)


@pytest.mark.parametrize("layout", sorted(LAYOUTS))
def test_sections_of_rows_in_any_order(layout, dtype, rng):
    kernel, engine = RBF(0.1), NativeEngine(1)
    x, z = (rng.standard_normal((n, 7)).astype(dtype) for n in (211, 100))
    x, z = LAYOUTS[layout](x), LAYOUTS[layout](z)
    again = engine.tile(kernel, np.ascontiguousarray(x), np.ascontiguousarray(z))
    np.testing.assert_array_equal(engine.tile(kernel, x, z), again)


@pytest.mark.parametrize("size", [1e-200, 1e160])
def test_sections_beyond_squares_are_left_to_numpy(size, rng):
    kernel, x, z = RBF(1.0), size * rng.standard_normal((40, 3)), size * rng.standard_normal((9, 3))
    np.testing.assert_array_equal(NativeEngine(1).tile(kernel, x, z), kernel.tile(x, z))


def test_sections_out_of_range_are_left_to_numpy(rng):
    """A power of float32 that is infinite: what comes is what NumPy says of it."""
    kernel, x = Polynomial(20, gamma=1.0, coef0=1.0), 1e3 * rng.standard_normal((30, 3))
    x = x.astype(np.float32)
    with np.errstate(over="ignore"):
        found, expected = NativeEngine(1).tile(kernel, x, x), kernel.tile(x, x)
    np.testing.assert_array_equal(found, expected)
    assert not np.isfinite(found).all()


def test_rows_may_meet_one_point_after_the_other(rng):
    """Each is counted from a middle that both sides know, whatever lay at its address before."""
    kernel, engine, x = RBF(0.1), NativeEngine(1), 3.0 + rng.standard_normal((300, 5))
    rows, one = engine.load(x, kernel, FLOAT64, width=64), np.ones((1, 1))
    for j in range(40):
        point = engine.load(rows.take(np.array([j])), kernel, FLOAT64)
        found = engine.times(kernel, rows, point, one)
        np.testing.assert_allclose(found, kernel(x, x[j : j + 1]), rtol=1e-12, atol=0)
        del point  # its address is free for the next


def test_rows_keep_nothing_of_the_origins_of_others(rng):
    kernel, engine, x = RBF(0.1), NativeEngine(1), rng.standard_normal((300, 5))
    rows = engine.load(x, kernel, FLOAT64)
    for shift in range(5):
        z = shift + rng.standard_normal((200, 5))
        points = engine.load(z, kernel, FLOAT64)
        v = rng.standard_normal((200, 2))
        exact = kernel(x, z) @ v
        np.testing.assert_allclose(engine.times(kernel, rows, points, v), exact, atol=1e-11)
    assert len(rows._packed) <= 1


@pytest.mark.parametrize("scale", [1e-3, 1.0, 1e3, 1e5])
def test_near_points_far_from_the_rest_keep_their_digits(scale, rng):
    """Distances from differences: 1e-6 apart at a distance of `scale`, with a kernel of that width."""
    centre = scale * rng.standard_normal((1, 4))
    x = np.vstack([centre + 1e-6 * rng.standard_normal((30, 4)), rng.standard_normal((300, 4))])
    kernel, engine = RBF(1e11), NativeEngine(1)
    found = engine.gram(kernel, engine.load(x, kernel, FLOAT64))[:30, :30]
    with mpmath.workprec(200):
        rows = [[mpmath.mpf(float(a)) for a in row] for row in x[:30]]
        gaps = [[sum((a - b) ** 2 for a, b in zip(p, q, strict=True)) for q in rows] for p in rows]
        exact = np.array([[float(mpmath.exp(-(10**11) * gap)) for gap in row] for row in gaps])
    # The rows as they are, or moved by a shift of at most BLUR over the width.
    np.testing.assert_allclose(found, exact, atol=1e-8)


@pytest.mark.parametrize("n", [2, 24, 25, 50, 191, 240, 241, 400])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_matrix_of_equal_and_near_rows_is_symmetric_to_the_last_bit(n, dtype, rng):
    """A near pair is looked at again with its neighbours, which may lie on one side of the diagonal only."""
    x = (3.0 + rng.standard_normal((n, 7))).astype(dtype)
    x[n // 2], x[-1] = x[0], x[0] * (1.0 + 1e-6)
    kernel, engine = RBF(0.2), NativeEngine(1)
    matrix = engine.gram(kernel, engine.load(x, kernel, dtype))
    np.testing.assert_array_equal(matrix, matrix.T)
    np.testing.assert_array_equal(np.diagonal(matrix), 1.0)
    gaps = x.astype(np.longdouble)[:, None] - x.astype(np.longdouble)
    exact = np.exp(-np.longdouble(0.2) * np.sum(gaps**2, axis=2))
    # A squared distance is right to a few units of ‖x‖² + ‖y‖², which is below 300 here; γ takes a fifth.
    assert np.abs(matrix - exact).max() < 200.0 * np.finfo(dtype).eps


@pytest.mark.parametrize("size", [1e-200, 1e-100, 1e100, 1e160])
def test_sizes_beyond_squares_are_left_to_numpy(size, rng):
    kernel, x = RBF(1.0), size * rng.standard_normal((40, 3))
    engine = NativeEngine(1)
    rows = engine.load(x, kernel, FLOAT64)
    np.testing.assert_allclose(engine.gram(kernel, rows), kernel(x), atol=1e-12)
    assert isinstance(engine.load(x / size, kernel, FLOAT64), NativeRows)


# ── a guest in a process ────────────────────────────────────────────────────
def test_a_child_may_use_it_after_its_parent_has():
    """Threads stay, but no pass does: a process that is forked afterwards starts threads of its own."""
    if not hasattr(os, "fork"):
        pytest.skip("no fork here")
    script = (
        "import os, numpy as np\n"
        "from mercer.engine.native import NativeEngine\n"
        "from mercer.kernels import RBF\n"
        "x, kernel, engine = np.random.default_rng(0).standard_normal((600, 3)), RBF(0.1), NativeEngine(3)\n"
        "product = lambda: engine.gram_times(kernel, engine.load(x, kernel, 'float64'), x)\n"
        "before = product()\n"
        "child = os.fork()\n"
        "if child == 0:\n"
        "    os._exit(0 if np.array_equal(product(), before) else 1)\n"
        "assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0\n"
    )
    subprocess.run([sys.executable, "-W", "ignore", "-c", script], check=True, timeout=600)


@pytest.mark.parametrize("n_threads", [1, 2])
def test_ctrl_c_ends_a_pass(n_threads, rng):
    """A pass of many seconds, interrupted: it ends by the signal, not by its end."""
    if not hasattr(signal, "pthread_kill"):
        pytest.skip("no such signal here")
    kernel, x = RBF(1e-3), rng.standard_normal((60_000, 20)).astype(np.float32)
    engine = NativeEngine(n_threads)
    rows = engine.load(x, kernel, FLOAT32)
    main = threading.get_ident()
    killer = threading.Timer(0.3, lambda: signal.pthread_kill(main, signal.SIGINT))
    killer.start()
    with pytest.raises(KeyboardInterrupt):
        engine.gram_times(kernel, rows, np.ones((60_000, 8), dtype=np.float32))


def test_it_can_be_switched_off():
    """With MERCER_NATIVE=off, as where there was no compiler, everything runs on NumPy."""
    script = (
        "import numpy as np, mercer\n"
        "from mercer.engine.native import compiled\n"
        "assert compiled() is None\n"
        "x = np.random.default_rng(0).standard_normal((50, 3))\n"
        "print(mercer.KernelPCA(2).fit(x).plan_.engine)\n"
    )
    env = {**os.environ, "MERCER_NATIVE": "off"}
    run = subprocess.run(
        [sys.executable, "-c", script],
        env=env,
        check=True,
        timeout=600,
        capture_output=True,
        text=True,
    )
    assert run.stdout.strip() == "numpy"


@pytest.mark.parametrize("isa", native.ISAS)
def test_every_instruction_set_gives_the_same_to_rounding(isa):
    script = (
        "import numpy as np\n"
        "from mercer.engine.native import NativeEngine, compiled\n"
        "from mercer.kernels import RBF, Polynomial\n"
        "x = np.random.default_rng(0).standard_normal((300, 7))\n"
        "for kernel in (RBF(0.1), Polynomial(3, gamma=0.1, coef0=1.0)):\n"
        "    for dtype in ('float64', 'float32'):\n"
        "        engine = NativeEngine(2)\n"
        "        rows = engine.load(x.astype(dtype), kernel, dtype)\n"
        "        found, exact = engine.gram(kernel, rows), kernel(x)\n"
        "        assert np.abs(found - exact).max() <= 300 * np.finfo(dtype).eps * np.abs(exact).max()\n"
        "print(compiled().isa)\n"
    )
    env = {**os.environ, "MERCER_NATIVE": isa}
    run = subprocess.run(
        [sys.executable, "-c", script],
        env=env,
        check=False,
        timeout=600,
        capture_output=True,
        text=True,
    )
    if run.returncode and "has no attribute" in run.stderr:
        pytest.skip("this processor does not have it")
    assert run.returncode == 0, run.stderr
    assert run.stdout.strip() == isa


# ── the file itself ─────────────────────────────────────────────────────────
def test_a_library_of_other_sources_is_refused_aloud(monkeypatch):
    """Its structures may lie otherwise in memory: what it computes would be meaningless."""
    monkeypatch.setattr(native, "fingerprint", lambda: 1)
    with pytest.warns(EngineWarning, match=r"other sources.*mercer\.engine\.native\.build"):
        assert native.compiled.__wrapped__() is None


def test_the_fingerprint_is_that_of_every_source(tmp_path, monkeypatch):
    whole = build.fingerprint()
    for source in build.HERE.glob("*.[ch]pp"):
        (tmp_path / source.name).write_bytes(source.read_bytes())
    monkeypatch.setattr(build, "HERE", tmp_path)
    assert build.fingerprint() == whole
    for source in sorted(tmp_path.iterdir()):
        text = source.read_bytes()
        source.write_bytes(text + b"\n")
        assert build.fingerprint() != whole
        source.write_bytes(text)
    for source in tmp_path.iterdir():
        source.unlink()
    assert build.fingerprint() is None  # an installation without sources: nothing to compare with
