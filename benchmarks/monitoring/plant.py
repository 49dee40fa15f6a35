"""A process with known truth: nonlinear, autocorrelated, with seasons and a drift that is normal.

A load, a feed and the weather, all slow, drive a reactor of first-order lags; twelve sensors and four valves
show curves of its states. Fouling wanders slowly in normal operation too. Each fault is one change of one
thing, so that the sensor to blame is known.
"""

from __future__ import annotations

import numpy as np

SENSORS = (
    "load", "feed", "ambient", "temperature", "pressure", "level", "product", "cooling out", "power",
    "density", "purity", "recycle", "cooling valve", "feed valve", "drain valve", "steam valve",
)  # fmt: skip
DAY = 480  # rows
BURN = 1000
# What each fault changes, and the sensors that show it first.
FAULTS: dict[str, tuple[str, ...]] = {
    "bias of the level sensor": ("level", "drain valve"),
    "drift of the density sensor": ("density",),
    "gain of the power sensor": ("power",),
    "noise of the product sensor": ("product",),
    "stuck purity sensor": ("purity",),
    "weaker cooling": ("cooling valve", "temperature", "cooling out"),
    "slower reactor": ("temperature", "pressure"),
    "bent pressure curve": ("pressure",),
    "leak in the recycle": ("recycle",),
    "sticking feed valve": ("feed valve",),
}


def run(n: int, rng: np.random.Generator, fault: str | None = None, at: int = 0) -> np.ndarray:
    """Rows of the sensors, (n, 16); the fault begins with row ``at`` and stays."""
    total = n + BURN
    load, feed, weather = (_slow(total, keep, rng) for keep in (0.95, 0.9, 0.9))
    season = np.sin(2 * np.pi * (np.arange(total) / DAY + rng.uniform()))
    ambient = 0.7 * season + 0.5 * weather
    fouling = 0.3 * _slow(total, 0.99, rng)
    begun = np.zeros(total) if fault is None else (np.arange(total) >= BURN + at).astype(float)
    now = {name: begun if name == fault else np.zeros(total) for name in FAULTS}
    temperature = level = purity = 0.0
    states = np.empty((total, 4))
    for t in range(total):
        heat = load[t] + 0.4 * load[t] * np.tanh(feed[t]) + 0.3 * ambient[t]
        cooling = np.tanh(0.8 * temperature)
        pace = 0.25 * (1.0 - 0.8 * now["slower reactor"][t])
        weaker = 1.0 - 0.6 * now["weaker cooling"][t]
        temperature += pace * (
            heat - (1.2 + 0.2 * fouling[t]) * weaker * cooling - 1.0 * temperature
        )
        level += 0.3 * (feed[t] - 0.8 * np.sinh(0.7 * level))
        purity += 0.15 * (np.exp(-0.5 * (temperature - 0.3) ** 2) - 0.4 * fouling[t] - purity)
        states[t] = temperature, level, purity, cooling
    return _sensed((load, feed, ambient), states, now, rng)[BURN:]


def _sensed(
    drivers: tuple[np.ndarray, ...],
    states: np.ndarray,
    now: dict[str, np.ndarray],
    rng: np.random.Generator,
) -> np.ndarray:
    load, feed, ambient = drivers
    temperature, level, purity, cooling = states.T
    total = len(load)
    pressure = 0.8 * np.tanh(temperature) ** 2 + 0.3 * temperature
    pressure = pressure + now["bent pressure curve"] * 0.8 * temperature
    product = np.log1p(np.exp(load)) * (1.0 + 0.2 * purity)
    valve = np.tanh(feed)
    recycle = 0.6 * product + 0.3 * level - 0.15 * now["leak in the recycle"]
    shown = np.column_stack([
        load, feed, ambient, temperature, pressure, level, product, cooling + 0.5 * ambient,
        np.exp(0.4 * load), 0.8 * np.tanh(feed) ** 2 - 0.3 * temperature, purity, recycle, cooling, valve,
        np.sinh(0.7 * level), np.maximum(load, -0.5) - 0.5 * ambient,
    ])  # fmt: skip
    spread = shown.std(axis=0)
    sticking = np.flatnonzero(now["sticking feed valve"])
    if len(sticking):  # it moves in steps, when it has to
        held = np.round(shown[sticking, 13] / 0.8) * 0.8
        shown[sticking, 13] = held
    noise = 0.08 * spread * rng.standard_normal(shown.shape)
    noise[:, 6] *= 1.0 + 4.0 * now["noise of the product sensor"]
    shown[:, 5] += 0.6 * spread[5] * now["bias of the level sensor"]
    since = np.cumsum(now["drift of the density sensor"])
    shown[:, 9] += 5.0 * spread[9] * since / max(total - BURN, 1)
    shown[:, 8] += now["gain of the power sensor"] * 0.5 * (shown[:, 8] - 1.0)
    stuck = np.flatnonzero(now["stuck purity sensor"])
    if len(stuck):
        shown[stuck, 10] = shown[stuck[0], 10]
    return shown + noise


def _slow(n: int, keep: float, rng: np.random.Generator) -> np.ndarray:
    from scipy import signal

    gain = np.sqrt(1.0 - keep**2)
    return signal.lfilter([gain], [1.0, -keep], rng.standard_normal(n))


def data(
    seed: int = 0, *, normal: int = 2000, test: int = 1000, at: int = 200
) -> dict[str, np.ndarray]:
    """Training rows, a longer normal run, and a run for each fault, in the form of the other process."""
    rng = np.random.default_rng(seed)
    train = run(normal, rng)
    runs = [run(test, rng)] + [run(test, rng, fault, at) for fault in FAULTS]
    return {
        "train_normal": train,
        "test": np.stack(runs),
        "fault": np.arange(len(runs)),
        "normal": run(3 * test, rng),
    }
