"""
Which variable, and when?
=========================

A process with six sensors that all follow two hidden loads. Twice something goes wrong: from row
150 on, the sensor *level* reads too high; from row 300 on, the sensor *temperature* is stuck at its
last value. Contributions say which variables raise the statistic of each alarm; drawn over time,
they distinguish the two faults.
"""

# %%
import matplotlib.pyplot as plt
import numpy as np

from mercer import KernelPCADetector, plots

names = ["flow", "temperature", "pressure", "level", "power", "speed"]
rng = np.random.default_rng(0)


def process(n):
    """Readings that follow two slow loads, one of them through a bend."""
    t = np.arange(n)
    loads = np.column_stack([np.sin(2 * np.pi * t / 97), np.cos(2 * np.pi * t / 61)])
    loads += 0.3 * rng.standard_normal((n, 2))
    mixed = loads @ [[1.0, 0.8, 0.3, 0.0, 0.5, 0.9], [0.0, 0.4, 0.9, 1.0, -0.8, 0.2]]
    mixed[:, 2] += 0.5 * loads[:, 0] ** 2
    return mixed + 0.1 * rng.standard_normal((n, 6))


detector = KernelPCADetector(false_alarm=0.005).fit(process(800))
run = process(450)
run[150:230, 3] += 1.5
run[300:400, 1] = run[299, 1]

# %%
seen = detector.monitor(run, names=names)
print(seen.summary())
fig = plt.figure(figsize=(9, 4.6), layout="constrained")
plots.monitoring(detector, run, fig=fig)

# %%
# The shares of the variables in the alarms, in slots of time.

fig, ax = plt.subplots(figsize=(9, 2.8), layout="constrained")
plots.contributions_over_time(seen, ax=ax)

# %%
# The same, summed over each of the two faults.

fig, axes = plt.subplots(1, 2, figsize=(9, 2.6), layout="constrained")
leaders = []
for ax, (begin, end) in zip(axes, [(150, 230), (300, 400)], strict=True):
    rows = run[begin:end]
    blamed = detector.contributions(rows[detector.predict(rows) == -1])
    plots.contribution_bars(blamed, names, ax=ax, title=f"rows {begin} to {end - 1}")
    leaders.append(names[int(np.argmax(blamed.mean(axis=0)))])
print("leading:", leaders)
