"""
A sensor drifts within its range: which model notices?
======================================================

The load changes slowly; flow, heat and pressure follow it, heat along a curve. After row 200 the heat
sensor drifts, while every reading stays within its normal range. Two detectors are fitted to normal
rows: linear PCA, and kernel PCA with the median distance as its width. Linear PCA models the curve as
a plane and detects nothing.
"""

# %%
import matplotlib.pyplot as plt
import numpy as np

from mercer import PCA, KernelPCADetector, plots

names = ["load", "flow", "heat", "pressure"]


def process(n, *, seed):
    """Sensor readings while the load wanders between -2 and 2."""
    rng = np.random.default_rng(seed)
    load = np.zeros(n + 50)
    for t, shock in enumerate(rng.standard_normal(n + 49), start=1):
        load[t] = 0.8 * load[t - 1] + shock
    load = 2.0 * np.tanh(load[50:] / 2.0)
    sensors = np.column_stack([load, 0.8 * load, load**2, np.sin(load)])
    return sensors + 0.1 * rng.standard_normal((n, 4))


normal, second, faulty = (process(n, seed=s) for s, n in enumerate((600, 600, 400)))
drift = np.clip((np.arange(400) - 200) / 50.0, 0.0, 1.0)
faulty[:, 2] += drift * np.where(faulty[:, 2] > 2.0, -1.5, 1.5)

# %%
# Control charts of both: T² along the components, Q away from them, each with its limit.

detectors = {
    "PCA": KernelPCADetector(model=PCA(0.99)),
    "kernel PCA": KernelPCADetector(kernel="rbf"),
}
fig = plt.figure(figsize=(14, 5.2), layout="constrained")
found = {}
for part, (name, detector) in zip(fig.subfigures(1, 2), detectors.items(), strict=True):
    detector.fit(normal)
    seen = detector.monitor(faulty, names=names)
    found[name] = {
        "false alarms": float(np.mean(detector.predict(second) == -1)),
        "detected": float(np.mean(seen.table["alarm"][250:])),
        "summary": seen.summary(),
    }
    seen.plot(fault_at=200, fig=part)
    part.suptitle(f"{name}: {found[name]['detected']:.0%} of the fault seen")
    print(f"{name}: {found[name]['false alarms']:.1%} false alarms on a normal run")

# %%
# Which sensor was it?

print(found["kernel PCA"]["summary"])
fig, ax = plt.subplots(figsize=(5.2, 2.2), layout="constrained")
plots.contribution_bars(seen.contributions, names, ax=ax, title="behind the alarms")
