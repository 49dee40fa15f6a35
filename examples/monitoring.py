"""A process whose sensors depend on one another along a curve, and a sensor that begins to drift.

Load moves slowly; flow, heat and pressure follow it, heat along a bend. After row 200 the heat sensor drifts
away, while every reading stays within what has been seen of it before. Two detectors are fitted to normal
rows: linear PCA, and kernel PCA with a width of the median distance. Printed: false alarms on a normal run,
what is seen of the fault, and what the report says. The control charts of both are saved.

    python examples/monitoring.py --out out
"""

import argparse
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from mercer import PCA, KernelPCADetector
from mercer.plots import contribution_bars

NAMES = ["load", "flow", "heat", "pressure"]
BEGINS = 200


def run(n, *, seed):
    """Sensor readings while the load wanders between -2 and 2."""
    rng = np.random.default_rng(seed)
    steps = rng.standard_normal(n + 50)
    load = np.zeros(n + 50)
    for t in range(1, n + 50):
        load[t] = 0.8 * load[t - 1] + steps[t]
    load = 2.0 * np.tanh(load[50:] / 2.0)
    sensors = np.column_stack([load, 0.8 * load, load**2, np.sin(load)])
    return sensors + 0.1 * rng.standard_normal((n, 4))


def drifting(n, *, seed):
    """The heat sensor shows up to 1.5 too little where there is heat to show, and never leaves its range."""
    readings = run(n, seed=seed)
    drift = np.clip((np.arange(n) - BEGINS) / 50.0, 0.0, 1.0)
    readings[:, 2] += drift * np.where(readings[:, 2] > 2.0, -1.5, 1.5)
    return readings


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", default="out", help="folder for the pictures")
    folder = Path(parser.parse_args(argv).out)
    folder.mkdir(parents=True, exist_ok=True)
    normal, second, faulty = run(600, seed=0), run(600, seed=1), drifting(400, seed=2)
    found = {}
    figure = Figure(figsize=(14, 5.2), layout="constrained")
    detectors = {
        "PCA": KernelPCADetector(model=PCA(0.99)),
        "kernel PCA": KernelPCADetector(kernel="rbf"),
    }
    for part, (name, detector) in zip(figure.subfigures(1, 2), detectors.items(), strict=True):
        detector.fit(normal)
        seen = detector.monitor(faulty, names=NAMES)
        false = float(np.mean(detector.predict(second) == -1))
        rate = float(np.mean(seen.table["alarm"][BEGINS + 50 :]))
        found[name] = {"false_alarms": false, "detected": rate, "summary": seen.summary()}
        print(f"{name}: {false:.1%} false alarms, {rate:.1%} of the fault seen\n  {seen.summary()}")
        seen.plot(fault_at=BEGINS, fig=part)
        part.suptitle(f"{name}: {rate:.0%} of the fault seen")
    figure.savefig(folder / "monitoring.png", dpi=100)
    bars = Figure(figsize=(5.2, 2.2), layout="constrained")
    contribution_bars(seen.contributions, NAMES, ax=bars.subplots(), title="behind the alarms")
    bars.savefig(folder / "monitoring_variables.png", dpi=100)
    return found


if __name__ == "__main__":
    main()
