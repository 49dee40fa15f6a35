"""One GPU: a pass over k(X, X) in TFLOP/s beside torch's own product of matrices, and whole fits.

    python -m benchmarks.gpu passes --rows 131072 --features 64 768
    python -m benchmarks.gpu passes --rows 131072 --features 768 --tune
    python -m benchmarks.gpu fits --rows 131072 262144 1048576 --features 768 [--tiles | --engine native]
    python -m benchmarks.gpu transform --rows 1000000 --points 100000 --features 50 768
    python -m benchmarks.gpu others --rows 16384 131072 --features 768
    python -m benchmarks.gpu lowrank --rows 10000000 --features 50 --rank 1000 [--approximation fourier]
    python -m benchmarks.gpu preimages --rows 1000 --points 100000 --features 50

`--engine torch:cpu --rows 2000` is a trial without a device. Medians after a warm-up, compile time apart;
errors are those of 256 rows against float64. A pass counts 2n²(d + columns) operations, symmetric or not.
Rows have decaying variances, kernels of distances their median width. The residual of a fit is measured in
float64 on 2048 rows, by torch and by nothing of mercer's. `lowrank` reads its rows from a file, with 20 GB of
memory granted, after a fit of a few rows that loads libraries; seconds of each pass are apart.
"""

import argparse
import itertools
import resource
import tempfile
import time
from functools import partial
from pathlib import Path

import numpy as np
from scipy.spatial.distance import pdist

from benchmarks.clock import seconds_of
from mercer import KernelPCA
from mercer.approximations import Nystrom, RandomFourier, RPCholesky
from mercer.engine.native.engine import program_of
from mercer.engine.resolve import resolve_engine
from mercer.engine.torch import TorchEngine
from mercer.engine.torch.fused import Blocks, Halves, fused_columns
from mercer.engine.torch.place import IEEE_PRODUCTS, Place
from mercer.engine.torch.source import why_not_fused
from mercer.engine.torch.tiles import symmetric_times
from mercer.kernels import RBF, Laplacian, Matern, Polynomial
from mercer.preimage import FixedPoint, Gradient, Ridge

CHECKED, REPEATS = 256, 7
FITS, SECONDS = 3, 15.0  # of which the median is taken, unless they take longer
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
USUAL_ROWS = 32768  # that a processor is asked for, with a stored matrix


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
        with IEEE_PRODUCTS:
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

    x, device = rows_of(n, d), getattr(engine, "place", None)
    kernel = kernels(x)[name]
    model = KernelPCA(k, kernel=kernel, engine=engine, random_state=0)
    if device is not None and device.kind == "cuda":
        model.fit(x)  # compiles
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats(device.index)
    times = []
    while not times or (len(times) < FITS and sum(times) < SECONDS):
        times.append(seconds_of(lambda: model.fit(x)))
    took = float(np.median(times))
    peak = torch.cuda.max_memory_allocated() if torch.cuda.is_available() else 0
    pairs, true = model.fit_.pairs, ""
    if name == "rbf" and torch.cuda.is_available():
        true = f", {measured(model, x, kernel, device or Place.named('cuda')):.1e} measured"
    print(
        f"| {name} | {n} x {d}, k={k} | {took:.2f} s (of {len(times)}) | "
        f"residual {np.max(pairs.residuals):.1e} told{true} | "
        f"{pairs.n_products} products | {peak / 1e9:.2f} GB on the device | {model.plan_.engine} |",
        flush=True,
    )


def transform(engine, n, d, m):
    x = rows_of(n, d)
    kernel = kernels(x)["rbf"]
    model = KernelPCA(20, kernel=kernel, engine=engine, random_state=0).fit(x[:m])
    times = []
    for _ in range(4):
        started = time.perf_counter()
        scores = model.transform(x)
        times.append(time.perf_counter() - started)
    took, projection = float(np.median(times[1:])), model.fit_.projection
    some = np.arange(0, n, max(1, n // CHECKED))
    exact = kernel.tile(x[some].astype(np.float64), x[:m].astype(np.float64))
    exact = exact @ projection.coef.astype(np.float64) - projection.offset
    error = np.max(np.abs(scores[some] - exact) / exact.std(axis=0))
    print(
        f"| transform | {n} x {d} by {m} points | {took:.2f} s | {n / took:.0f} rows/s | "
        f"first {times[0]:.2f} s | error {error:.1e} of the spread |",
        flush=True,
    )


APPROXIMATIONS = {"rpcholesky": RPCholesky, "nystrom": Nystrom, "fourier": RandomFourier}


def told(fold):
    """`Engine.fold` that prints the seconds of each pass over the rows."""

    def timed(self, x, step, **given):
        started = time.perf_counter()
        found = fold(self, x, step, **given)
        took = time.perf_counter() - started
        print(f"  {type(step).__name__} of {x.shape[0]} rows: {took:.2f} s", flush=True)
        return found

    return timed


def lowrank(engine, n, d, rank, name):
    import torch

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rows.npy"
        some = rows_of(min(n, 1_000_000), d)
        out = np.lib.format.open_memmap(path, "w+", np.float32, (n, d))
        for start in range(0, n, len(some)):
            out[start : start + len(some)] = some[: n - start] + np.float32(1e-3 * start / n)
        out.flush()
        kernel, given = kernels(some)["rbf"], np.load(path, mmap_mode="r")
        model = KernelPCA(
            20,
            kernel=kernel,
            engine=engine,
            memory="20GB",
            approximation=APPROXIMATIONS[name](rank),
            random_state=0,
        )
        model.fit(some[: 2 * rank])  # libraries and the device's context are not the fit's
        if torch.cuda.is_available():
            torch.cuda.empty_cache()
            torch.cuda.reset_peak_memory_stats()
        type(engine).fold = told(type(engine).fold)
        took = seconds_of(lambda: model.fit(given))
        peak = torch.cuda.max_memory_allocated() if torch.cuda.is_available() else 0
        host = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    print(
        f"| {name}({rank}) | {n} x {d} from a file | {took:.1f} s | {peak / 1e9:.2f} GB on the device, "
        f"{host:.1f} GB on the host (file pages included) | {model.plan_.engine} |",
        flush=True,
    )
    print(model.fit_.certificate, model.plan_, sep="\n", flush=True)


def preimages(engine, n, d, m):
    """Targets are rows with half of their distance to the mean taken off, which are no row's image."""
    x = rows_of(max(m, n), d)
    for method in (FixedPoint(), Gradient(), Ridge()):
        model = KernelPCA(20, kernel=kernels(x)["rbf"], engine=engine, preimage=method)
        scores = 0.5 * model.fit(x[:m]).transform(x[:n])
        model.inverse_transform(scores[:2])
        took = seconds_of(partial(model.inverse_transform, scores))
        print(f"| {type(method).__name__} | {n} x {d} by {m} points | {took:.2f} s |", flush=True)


def others(n, d, k):
    """What a user could do instead: scikit-learn on the processor, or torch with a stored matrix."""
    import torch
    from sklearn.decomposition import KernelPCA as Usual

    x = rows_of(n, d)
    gamma = kernels(x)["rbf"].gamma

    def stored():  # K in float32, centred in place, and the solver of torch that takes the least memory
        rows = torch.tensor(x, device="cuda")
        norms = (rows**2).sum(dim=1)
        k_matrix = rows @ rows.T
        k_matrix.mul_(-2.0).add_(norms[:, None]).add_(norms).clamp_(min=0.0).mul_(-gamma).exp_()
        means = k_matrix.mean(dim=1)
        k_matrix.sub_(means[:, None]).sub_(means).add_(means.mean())
        values, u = torch.lobpcg(k_matrix, k=k, niter=200, tol=1e-6)
        return values, float(((k_matrix @ u - u * values).norm(dim=0) / values[0]).max())

    def usual():
        return Usual(k, kernel="rbf", gamma=gamma, eigen_solver="arpack", n_jobs=-1).fit(x), 0.0

    for what, work in (("torch, K stored, lobpcg", stored), ("scikit-learn, arpack", usual)):
        started = time.perf_counter()
        try:
            residual = work()[1]
            took = f"{time.perf_counter() - started:.1f} s, residual {residual:.1e}"
        except Exception as error:  # that it does not fit is the answer
            took = f"{type(error).__name__}: {str(error)[:80]}"
        print(f"| {what} | {n} x {d}, k={k} | {took} |", flush=True)
        if torch.cuda.is_available():
            torch.cuda.empty_cache()
        if n > USUAL_ROWS:
            break


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
    parser.add_argument(
        "what", choices=("passes", "fits", "transform", "lowrank", "preimages", "others")
    )
    parser.add_argument("--engine", default="cuda")
    parser.add_argument("--rows", type=int, nargs="+", default=[131072])
    parser.add_argument("--features", type=int, nargs="+", default=[64, 768])
    parser.add_argument("--kernels", nargs="+", default=["rbf"], choices=KERNELS)
    parser.add_argument("--columns", type=int, default=32, help="of V in a pass")
    parser.add_argument("--components", type=int, default=20, help="of a fit")
    parser.add_argument("--tiles", action="store_true", help="fits by torch tiles alone")
    parser.add_argument("--tune", action="store_true", help="all shapes of blocks")
    parser.add_argument("--points", type=int, default=100_000, help="of a transform")
    parser.add_argument("--rank", type=int, default=1000, help="of an approximation")
    parser.add_argument("--approximation", default="rpcholesky", choices=sorted(APPROXIMATIONS))
    given, gemm = parser.parse_args(), 0.0
    engine = resolve_engine(given.engine)
    if given.tiles:
        engine = TorchEngine(given.engine, fused=False)
    if given.what == "passes":
        gemm = gemm_rate(engine.place, 8192 if engine.place.kind == "cuda" else 1024)
        print(f"{engine.place.name}: torch's product runs at {gemm / 1e12:.3g} TFLOP/s", flush=True)
    for n, d, name in itertools.product(given.rows, given.features, given.kernels):
        if given.what == "passes":
            passes(engine, n, d, name, columns=given.columns, tune=given.tune, gemm=gemm)
        elif given.what == "fits":
            fits(engine, n, d, given.components, name)
        elif given.what == "others":
            others(n, d, given.components)
        elif given.what == "preimages":
            preimages(engine, n, d, given.points)
        elif given.what == "transform":
            transform(engine, n, d, given.points)
        else:
            lowrank(engine, n, d, given.rank, given.approximation)


if __name__ == "__main__":
    main()
