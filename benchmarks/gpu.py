"""One GPU: a pass over k(X, X) in TFLOP/s beside torch's own product of matrices, and whole fits.

    python -m benchmarks.gpu passes --rows 131072 --features 64 768
    python -m benchmarks.gpu passes --rows 131072 --features 768 --tune
    python -m benchmarks.gpu fits --rows 131072 262144 1048576 --features 768 [--tiles]

`--engine torch:cpu --rows 2000` is a trial without a device. Medians after a warm-up, compile time apart;
errors are those of 256 rows against float64. A pass counts 2n²(d + columns) operations, symmetric or not.
Rows have decaying variances, kernels of distances their median width. The residual of a fit is measured in
float64 on 2048 rows, by torch and by nothing of mercer's.
"""

import argparse
import itertools
import time

import numpy as np
from scipy.spatial.distance import pdist

from mercer import KernelPCA
from mercer.engine.native.engine import program_of
from mercer.engine.torch import TorchEngine
from mercer.engine.torch.fused import Blocks, Halves, fused_columns
from mercer.engine.torch.place import ieee_products
from mercer.engine.torch.source import why_not_fused
from mercer.engine.torch.tiles import symmetric_times
from mercer.kernels import RBF, Laplacian, Matern, Polynomial

CHECKED, REPEATS = 256, 7
KERNELS = ("rbf", "matern", "poly", "sum", "laplacian")
TUNED = {
    False: [
        *((128, 256, 64, 8, stages) for stages in (3, 4)),
        (256, 128, 64, 8, 3),
        *((128, 128, 64, warps, stages) for warps in (4, 8) for stages in (3, 4)),
        (128, 128, 128, 8, 2),
        *((128, 256, 32, 8, stages) for stages in (3, 4, 5)),
        (128, 256, 64, 8, 2),
    ],
    True: [
        (128, 128, 64, 8, 2),
        (128, 128, 64, 8, 3),
        (128, 128, 32, 8, 3),
        (128, 128, 32, 8, 4),
        (128, 64, 64, 8, 3),
        (128, 64, 64, 4, 3),
        (64, 128, 64, 4, 3),
    ],
}
MEASURED = 2048  # rows whose residual is computed apart


def rows_of(n, d):
    """Gaussian, with variances that fall as 1/j."""
    x = np.random.default_rng(0).standard_normal((n, d), dtype=np.float32)
    x *= (1.0 + np.arange(d, dtype=np.float32)) ** -0.5
    return x


def kernels(x):
    """Of the median distance among some of the rows."""
    some = x[:: max(1, len(x) // 1000)].astype(np.float64)
    width, city = np.median(pdist(some)), np.median(pdist(some, "cityblock"))
    size = np.mean(np.sum(some**2, axis=1))
    return {
        "rbf": RBF(0.5 / width**2),
        "matern": Matern(1.5, width),
        "poly": Polynomial(3, gamma=1.0 / size),
        "sum": RBF(0.5 / width**2) + RBF(2.0 / width**2),
        "laplacian": Laplacian(1.0 / city),
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
    rng, x = np.random.default_rng(1), rows_of(n, d)
    kernel, v = kernels(x)[name], rng.standard_normal((n, columns))
    v /= np.linalg.norm(v, axis=0)
    program, some = program_of(kernel), np.arange(0, n, max(1, n // CHECKED))
    rows = engine.load(x, kernel, np.dtype(np.float64))
    exact = engine.times(kernel, engine.load(x[some], kernel, np.dtype(np.float64)), rows, v)
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

    if not tune:
        plain = engine.load(x, kernel, np.dtype(np.float32), width=min(n, 16384))
        with ieee_products():
            line("torch tiles, float32", lambda: symmetric_times(plain, v, rough=False))
        plain.kept = None
    right = engine.place.tensor(v, np.dtype(np.float32))
    for precise in (False, True) if engine.place.kind == "cuda" else ():
        what, why = "precise" if precise else "rough", why_not_fused(program, precise=precise)
        if why is not None:
            print(f"| {name} | {n} x {d} | {what} | not fused: {why} |")
            continue
        halves = Halves.of(program, rows.sides(2**16), n, precise=precise)
        tried = [Blocks(*each) for each in TUNED[precise]] if tune else [None]
        for mirror, cut in itertools.product((False, True), tried):
            if cut is None or halves.high.shape[1] % cut.BK == 0:
                own = {"precise": precise, "blocks": cut, "mirror": mirror}
                line(
                    f"fused, {what}{', both sides' if mirror else ''}{f', {cut}' if cut else ''}",
                    lambda own=own, h=halves: fused_columns(program, h, h, right, **own),
                )


def fits(engine, n, d, k, name):
    import torch

    x = rows_of(n, d)
    kernel = kernels(x)[name]
    model = KernelPCA(k, kernel=kernel, engine=engine, random_state=0)
    model.fit(x[: min(n, 16384)])  # compiles
    if engine.place.kind == "cuda":
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats(engine.place.index)
    started = time.perf_counter()
    model.fit(x)
    took = time.perf_counter() - started
    peak = torch.cuda.max_memory_allocated(engine.place.index) if torch.cuda.is_available() else 0
    pairs = model.fit_.pairs
    true = f"{measured(model, x, kernel, engine.place):.1e} measured" if name == "rbf" else ""
    print(
        f"| {name} | {n} x {d}, k={k} | {took:.2f} s | residual {np.max(pairs.residuals):.1e} told, {true} | "
        f"{pairs.n_products} products | {peak / 1e9:.2f} GB on the device | {model.plan_.engine} |",
        flush=True,
    )
    print(model.plan_, flush=True)


def measured(model, x, kernel, place):
    """‖K̃u - λu‖/λ₁ at its largest, in float64, from some rows: K̃u = Ku - 1·m with m = (1ᵀK/n) u."""
    import torch

    n, values = len(x), model.eigenvalues_.astype(np.float64)
    u = torch.tensor(model.eigenvectors_, device=place.device).double()
    u -= u.mean(dim=0)
    means = np.asarray(model.fit_.projection.offset, dtype=np.float64) * np.sqrt(values)
    rows = np.sort(np.random.default_rng(2).choice(n, min(n, MEASURED), replace=False))
    some, product = torch.tensor(x[rows], device=place.device).double(), 0.0
    for start in range(0, n, 2**15):
        block = torch.tensor(x[start : start + 2**15], device=place.device).double()
        product = (
            product
            + torch.exp(-kernel.gamma * torch.cdist(some, block) ** 2)
            @ (u[start : start + len(block)])
        )
    gap = product.cpu().numpy() - means - u[torch.tensor(rows)].cpu().numpy() * values
    return float(np.max(np.sqrt(n / len(rows) * np.sum(gap**2, axis=0))) / values[0])


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("what", choices=("passes", "fits"))
    parser.add_argument("--engine", default="cuda")
    parser.add_argument("--rows", type=int, nargs="+", default=[131072])
    parser.add_argument("--features", type=int, nargs="+", default=[64, 768])
    parser.add_argument("--kernels", nargs="+", default=["rbf"], choices=KERNELS)
    parser.add_argument("--columns", type=int, default=32, help="of V in a pass")
    parser.add_argument("--components", type=int, default=20, help="of a fit")
    parser.add_argument("--tiles", action="store_true", help="fits by torch tiles alone")
    parser.add_argument("--tune", action="store_true", help="all shapes of blocks")
    given = parser.parse_args()
    engine = TorchEngine(given.engine, fused=False if given.tiles else None)
    gemm = gemm_rate(engine.place, 8192 if engine.place.kind == "cuda" else 1024)
    print(f"{engine.place.name}: torch's product runs at {gemm / 1e12:.3g} TFLOP/s", flush=True)
    for n, d, name in itertools.product(given.rows, given.features, given.kernels):
        if given.what == "passes":
            passes(engine, n, d, name, columns=given.columns, tune=given.tune, gemm=gemm)
        else:
            fits(engine, n, d, given.components, name)


if __name__ == "__main__":
    main()
