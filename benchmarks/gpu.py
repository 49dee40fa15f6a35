"""One GPU: a pass over k(X, X) in TFLOP/s beside torch's own product of matrices, and whole fits.

    python -m benchmarks.gpu passes --rows 131072 --features 64 768
    python -m benchmarks.gpu passes --rows 131072 --features 768 --tune
    python -m benchmarks.gpu fits --rows 131072 262144 1048576 --features 768 [--fused]

`--engine torch:cpu --rows 2000` is a trial without a device. Medians after a warm-up, compile time apart;
errors are those of 256 rows against float64. A pass counts 2n²(d + columns) operations, symmetric or not.
"""

import argparse
import itertools
import time

import numpy as np

from mercer import KernelPCA
from mercer.engine.native.engine import program_of
from mercer.engine.torch import TorchEngine
from mercer.engine.torch.fused import Blocks, Halves, fused_columns
from mercer.engine.torch.place import ieee_products
from mercer.engine.torch.source import why_not_fused
from mercer.engine.torch.tiles import symmetric_times
from mercer.kernels import RBF, Laplacian, Matern, Polynomial

CHECKED, REPEATS = 256, 7
TUNED = itertools.product((64, 128), (64, 128), (32, 64), (4, 8), (2, 3, 4))


def kernels(d):
    """Of the median width of gaussian rows, whose squared distances are about 2d."""
    return {
        "rbf": RBF(0.5 / d),
        "matern": Matern(1.5, np.sqrt(2.0 * d)),
        "poly": Polynomial(3, gamma=1.0 / d),
        "sum": RBF(0.5 / d) + RBF(2.0 / d),
        "laplacian": Laplacian(0.5 / d),
    }


def seconds(work, place):
    """The median of some runs after one that compiles; and what that one took."""
    import torch

    def timed():
        started = time.perf_counter()
        found = work()
        if place.kind == "cuda":
            torch.cuda.synchronize(place.index)
        return time.perf_counter() - started, found

    first, found = timed()
    return float(np.median([timed()[0] for _ in range(REPEATS)])), first, found


def gemm_rate(place, size):
    """Operations a second of torch's product of half floats; on the processor, of float32."""
    import torch

    dtype = torch.float16 if place.kind == "cuda" else torch.float32
    a = torch.randn(size, size, device=place.device).to(dtype)
    return 2.0 * size**3 / seconds(lambda: a @ a, place)[0]


def passes(engine, n, d, name, *, columns, tune, gemm):
    rng, kernel = np.random.default_rng(0), kernels(d)[name]
    x, v = rng.standard_normal((n, d), dtype=np.float32), rng.standard_normal((n, columns))
    v /= np.linalg.norm(v, axis=0)
    program, some = program_of(kernel), np.arange(0, n, max(1, n // CHECKED))
    exact = kernel(x[some].astype("f8"), x.astype("f8")) @ v
    flop = 2.0 * n * n * (d + columns)

    def line(what, work):
        try:
            took, first, found = seconds(work, engine.place)
        except Exception as error:  # a shape that does not compile is a line of the table as well
            print(f"| {name} | {n} x {d} | {what} | {type(error).__name__} |")
            return
        found = np.asarray(found.cpu() if hasattr(found, "cpu") else found, dtype=np.float64)
        error = np.abs(found[some] - exact).max() / np.abs(exact).max()
        share = flop / took / gemm
        print(
            f"| {name} | {n} x {d} | {what} | {1e3 * took:.1f} ms | {flop / took / 1e12:.1f} TFLOP/s | "
            f"{100 * share:.0f} % of GEMM | error {error:.1e} | first {first:.1f} s |",
            flush=True,
        )

    rows = engine.load(x, kernel, np.dtype(np.float32), width=min(n, 16384))
    with ieee_products():
        line("torch tiles, float32", lambda: symmetric_times(rows, v, rough=False))
    right = engine.place.tensor(v, np.dtype(np.float32))
    for precise in (False, True) if engine.place.kind == "cuda" else ():
        what, why = "precise" if precise else "rough", why_not_fused(program, precise=precise)
        if why is not None:
            print(f"| {name} | {n} x {d} | {what} | not fused: {why} |")
            continue
        halves = Halves.of(program, rows.side(slice(0, n)), precise=precise)
        tried = (Blocks(*each) for each in TUNED) if tune else [Blocks.usual(d, precise=precise)]
        for cut in tried:
            if halves.high.shape[1] % cut.bk == 0:
                own = {"precise": precise, "blocks": cut}
                line(
                    f"fused, {what}, {cut}",
                    lambda own=own, h=halves: fused_columns(program, h, h, right, **own),
                )


def fits(engine, n, d, k, name):
    import torch

    x = np.random.default_rng(0).standard_normal((n, d), dtype=np.float32)
    x *= (1.0 + np.arange(d, dtype=np.float32)) ** -0.5  # decaying variances
    if engine.place.kind == "cuda":
        torch.cuda.reset_peak_memory_stats(engine.place.index)
    started = time.perf_counter()
    model = KernelPCA(k, kernel=kernels(d)[name], engine=engine, random_state=0).fit(x)
    took = time.perf_counter() - started
    peak = torch.cuda.max_memory_allocated(engine.place.index) if torch.cuda.is_available() else 0
    pairs = model.fit_.pairs
    print(
        f"| {name} | {n} x {d}, k={k} | {took:.2f} s | residual {np.max(pairs.residuals):.1e} | "
        f"{pairs.n_products} products | {peak / 1e9:.2f} GB on the device | {model.plan_.engine} |",
        flush=True,
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("what", choices=("passes", "fits"))
    parser.add_argument("--engine", default="cuda")
    parser.add_argument("--rows", type=int, nargs="+", default=[131072])
    parser.add_argument("--features", type=int, nargs="+", default=[64, 768])
    parser.add_argument("--kernels", nargs="+", default=["rbf"], choices=sorted(kernels(1)))
    parser.add_argument("--columns", type=int, default=32, help="of V in a pass")
    parser.add_argument("--components", type=int, default=20, help="of a fit")
    parser.add_argument("--fused", action="store_true", help="fits by fused products")
    parser.add_argument("--tune", action="store_true", help="all shapes of blocks")
    given = parser.parse_args()
    engine = TorchEngine(given.engine, fused=given.fused)
    gemm = gemm_rate(engine.place, 8192 if engine.place.kind == "cuda" else 1024)
    print(f"{engine.place.name}: torch's product runs at {gemm / 1e12:.3g} TFLOP/s", flush=True)
    for n, d, name in itertools.product(given.rows, given.features, given.kernels):
        if given.what == "passes":
            passes(engine, n, d, name, columns=given.columns, tune=given.tune, gemm=gemm)
        else:
            fits(engine, n, d, given.components, name)


if __name__ == "__main__":
    main()
