"""Does the ONNX graph say what the model says, and what does it cost? Kernels x routes x precisions.

    python -m benchmarks.onnx_agreement                # the tables
    python -m benchmarks.onnx_agreement --out FILE     # and as JSON

Differences are those of `mercer.onnx.verify`: the largest |Δ score| over the larger of the component's
largest score on the rows and its standard deviation in the fit. Graph and model are asked about the same
rows: training rows, rows moved by a tenth of a standard deviation, and rows five times as far out.
Time and peak memory are those of onnxruntime on one thread, each in a process of its own; memory is in
units of one (b, m) array.
"""

import argparse
import json
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np

from benchmarks.machine import facts
from mercer import PCA, IncrementalKernelPCA, KernelPCA, KernelPCADetector
from mercer.approximations import RandomFourier, RPCholesky
from mercer.kernels import (
    RBF,
    Chi2,
    Cosine,
    Laplacian,
    Linear,
    Matern,
    Polynomial,
    RationalQuadratic,
    Sigmoid,
)
from mercer.onnx import to_onnx, verify

ROOT = Path(__file__).parents[1]
N, D, K, RANK = 400, 6, 5, 60
KERNELS = {
    "linear": Linear(),
    "polynomial, degree 2 (map)": Polynomial(2, gamma=0.5),
    "polynomial, degree 7": Polynomial(7, gamma=0.1),
    "rbf": RBF(0.1),
    "laplacian": Laplacian(0.2),
    "matern 1/2": Matern(0.5, 2.0),
    "matern 3/2": Matern(1.5, 2.0),
    "matern 5/2": Matern(2.5, 2.0),
    "matern 19/2": Matern(9.5, 2.0),
    "matern 60": Matern(60.0, 2.0),
    "rational quadratic": RationalQuadratic(0.7, 2.0),
    "cosine": Cosine(),
    "chi2": Chi2(0.5),
    "sigmoid": Sigmoid(0.05, -0.5),
    "sum": RBF(0.1) + 0.5 * Linear(),
    "product": RBF(0.1) * Polynomial(2),
    "power": (RBF(0.1) + 1.0) ** 3,
    "columns": RBF(0.1).on([0, 2]) + Linear().on([1]),
    "normalised": Polynomial(2).normalised(),
}
ROUTES = {"exact": None, "low rank": RPCholesky(RANK), "random features": RandomFourier(400)}
FOURIER = {"rbf", "laplacian", "matern 1/2", "matern 3/2", "matern 5/2", "rational quadratic"}
COSTS = {
    "rbf": RBF(0.01),
    "laplacian": Laplacian(0.02),
    "chi2": Chi2(0.1),
    "matern 1/2": Matern(0.5, 9.0),
}


def rows(seed=0):
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((N, D))
    return x, np.concatenate([x, x + 0.1 * rng.standard_normal(x.shape), 5.0 * x[:50]])


def compared(model, asked):
    out = {}
    for dtype in ("float64", "float32"):
        proto = to_onnx(model, dtype=dtype)
        notes = {entry.key: entry.value for entry in proto.metadata_props}
        found = verify(proto, model, asked)
        out[dtype] = {
            "max_rel": found.max_rel,
            "ok": found.ok,
            "computed in": notes["mercer.precision"],
            "bytes": proto.ByteSize(),
        }
    return out


def models():
    x, asked = rows()
    for name, kernel in KERNELS.items():
        counts = name == "chi2"
        own, other = (np.abs(x), np.abs(asked)) if counts else (x, asked)
        for route, approximation in ROUTES.items():
            if route == "random features" and name not in FOURIER:
                continue
            if route == "low rank" and kernel.why_valid() is None:
                continue
            model = KernelPCA(K, kernel=kernel, approximation=approximation)
            yield name, route, model.fit(own), other
    yield "linear", "PCA", PCA(K).fit(x), asked
    yield "rbf", "stream", IncrementalKernelPCA(K, kernel=RBF(0.1), max_landmarks=60).fit(x), asked
    yield "rbf, wide", "detector", KernelPCADetector().fit(x), asked


def agreement():
    table = [
        {"kernel": name, "route": route, **compared(model, asked)}
        for name, route, model, asked in models()
    ]
    print(f"{'kernel':28}{'route':18}{'float64':>10}{'float32':>10}  computed in")
    for row in table:
        shown = "".join(f"{row[dtype]['max_rel']:10.1e}" for dtype in ("float64", "float32"))
        print(f"{row['kernel']:28}{row['route']:18}{shown}  {row['float32']['computed in']}")
    worst = {dtype: max(row[dtype]["max_rel"] for row in table) for dtype in ("float64", "float32")}
    print(f"{'worst':46}{worst['float64']:10.1e}{worst['float32']:10.1e}")
    assert all(row[dtype]["ok"] for row in table for dtype in worst)
    return table


# ── cost ────────────────────────────────────────────────────────────────────
M, B, WIDE = 2000, 2000, 50
MEASURE = """
import sys, time
import numpy as np, onnxruntime
path, b, d = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
options = onnxruntime.SessionOptions()
options.intra_op_num_threads = 1
session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
x = np.random.default_rng(1).random((b, d))
session.run(None, {"X": x[:1]})
def peak():  # of this process alone: ru_maxrss has that of its parent too
    lines = open("/proc/self/status").read().splitlines()
    return next(1024 * int(line.split()[1]) for line in lines if line.startswith("VmHWM"))
before = peak()
begun = time.perf_counter()
session.run(None, {"X": x})
seconds = time.perf_counter() - begun
print(seconds, peak() - before)
"""


def cost(folder):
    x = np.random.default_rng(0).random((M, WIDE))
    table = []
    for name, kernel in COSTS.items():
        model = KernelPCA(3, kernel=kernel).fit(x)
        path = folder / "graph.onnx"
        path.write_bytes(to_onnx(model).SerializeToString())
        command = [sys.executable, "-c", MEASURE, str(path), str(B), str(WIDE)]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        seconds, peak = (float(part) for part in done.stdout.split())
        table.append(
            {"kernel": name, "seconds": seconds, "peak": peak, "arrays": peak / (8 * B * M)}
        )
    print(f"\nb = {B} rows, m = {M} points, d = {WIDE}, float64, one thread")
    print(f"{'kernel':28}{'seconds':>10}{'peak, in (b, m) arrays':>26}")
    for row in table:
        print(f"{row['kernel']:28}{row['seconds']:10.3f}{row['arrays']:26.1f}")
    return table


def main():
    import tempfile

    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--out", type=Path)
    asked = parser.parse_args()
    warnings.simplefilter("ignore")
    with tempfile.TemporaryDirectory() as folder:
        found = {"agreement": agreement(), "cost": cost(Path(folder))}
    if asked.out:
        asked.out.write_text(json.dumps({"machine": facts(ROOT), **found}, indent=2))


if __name__ == "__main__":
    main()
