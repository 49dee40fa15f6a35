"""
Which heartbeat is odd? Windows of a time series
================================================

A signal is cut into windows, which become rows. The model learns the windows of a normal stretch; a
beat of another shape, with the same height and length, lies off its components. The signal is
simulated: three bumps per beat, with random times and sizes.
"""

# %%
import matplotlib.pyplot as plt
import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from mercer import KernelPCADetector

rng = np.random.default_rng(0)
beat = np.linspace(0, 1, 60, endpoint=False)


def pulse(*, odd=False):
    """One beat of 60 samples: a small wave, a spike and a broad wave; an odd one has its spike late."""
    places = np.array([0.2, 0.55 if odd else 0.4, 0.7]) + 0.005 * rng.standard_normal(3)
    sizes = np.array([0.15, 1.0, 0.3]) * (1 + 0.05 * rng.standard_normal(3))
    widths = np.array([0.05, 0.04, 0.07])
    return np.sum(
        sizes[:, None] * np.exp(-(((beat - places[:, None]) / widths[:, None]) ** 2)), axis=0
    )


def signal(n, odd=()):
    """n beats, some of them odd, with noise."""
    beats = np.concatenate([pulse(odd=i in odd) for i in range(n)])
    return beats + 0.02 * rng.standard_normal(len(beats))


normal, new = signal(80), signal(20, odd=(12,))
windows = sliding_window_view(normal, 60)[
    ::7
]  # 7 and 60 have no common factor: every phase of a beat is seen
detector = KernelPCADetector(kernel="rbf", scale=False, wild="keep", false_alarm=0.002).fit(windows)
index = -detector.score_samples(sliding_window_view(new, 60))

# %%
fig, (above, below) = plt.subplots(2, 1, figsize=(10, 4.4), layout="constrained", sharex=True)
time = np.arange(len(new))
above.plot(time, new, linewidth=0.9)
above.axvspan(720, 780, color="C3", alpha=0.2, label="a spike 9 samples late")
above.legend(loc="upper right")
above.set_ylabel("signal")
below.plot(time[30 : 30 + len(index)], index, linewidth=0.9, label="index of the window around it")
below.axhline(-detector.offset_, color="C3", linestyle="--", label="limit")
below.set(ylabel="index", xlabel="sample")
below.legend(loc="upper right")
worst = int(np.argmax(index))
print(f"the worst window is that of samples {worst} to {worst + 59}; the late spike is at 753")
