"""
What does a GPU save?
=====================

Seconds of exact fits on one H200, beside 16 cores of its host. The figures are recorded in
``gpu.csv`` beside this script, which says where they were measured. If torch is installed, the same
engine also runs here, on the processor (``"torch:cpu"``): the answer does not depend on the engine.
"""

# %%
import csv
import importlib.util
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

from mercer import KernelPCA
from mercer.kernels import RBF

# Sphinx-Gallery runs a script in its own folder, without a __file__.
here = Path(__file__).parent if "__file__" in globals() else Path.cwd()
lines = (here / "gpu.csv").read_text(encoding="utf-8").splitlines()
origin = " ".join(line.lstrip("# ") for line in lines if line.startswith("#"))
records = list(csv.DictReader(line for line in lines if not line.startswith("#")))
print(origin)

# %%
fig, ax = plt.subplots(figsize=(7.6, 3.6), layout="constrained")
names = [
    f"{int(r['rows']):,}".replace(",", " ") + f" × {r['columns']}, {r['engine']}" for r in records
]
seconds = [float(r["seconds"]) for r in records]
bars = ax.barh(names, seconds, color=["0.6" if "cores" in name else "C2" for name in names])
ax.bar_label(bars, fmt="%.1f s", padding=3)
ax.set(xscale="log", xlabel="seconds of an exact fit, 20 components", xlim=(0.5, 60))
ax.invert_yaxis()

# %%
# The same eigenvalues from both engines.

if importlib.util.find_spec("torch") is None:
    print(
        'torch is not installed here: pip install "mercer[gpu]", then engine="cuda" or "torch:cpu"'
    )
else:
    X = np.random.default_rng(0).standard_normal((1500, 20))
    here_and_there = [KernelPCA(5, kernel=RBF(), engine=e).fit(X) for e in ("numpy", "torch:cpu")]
    ours, theirs = (model.eigenvalues_ for model in here_and_there)
    print("eigenvalues agree:", np.allclose(ours, theirs, rtol=1e-8))
