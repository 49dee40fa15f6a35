"""A day of rows, one a second, through a stream: the verdicts of a file, flat memory, and what may go wrong.

``python -m benchmarks.monitoring.day`` asks: are the verdicts on 86 400 rows those of `monitor` to the bit,
how many rows a second of processor time go through, does memory stay flat; and the same with 1 % of the cells
missing, three frozen sensors, a clock that jumps, a file that rotates, and a process that is ended and
started again ten times; how many rows a second the command takes, from CSV to CSV, its start included. The
plant is made up: 30 sensors, five slow causes, a fault every hour.
"""

from __future__ import annotations

import json
import resource
import signal
import subprocess
import sys
import tempfile
import time
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import numpy as np

from mercer import KernelPCADetector

if TYPE_CHECKING:
    from mercer._core.types import Array

DAY, TRAIN, SENSORS, CAUSES = 86_400, 2_000, 30, 5
HOUR = 3_600
BEGUN = np.datetime64("2026-01-05T00:00:00")


def plant(n: int, *, seed: int) -> Array:  # (n, SENSORS)
    """Causes that keep 0.98 of themselves from second to second, and noise."""
    from scipy.signal import lfilter

    rng = np.random.default_rng(seed)
    mix = np.random.default_rng(99).standard_normal((CAUSES, SENSORS))
    keep = 0.98
    shocks = np.sqrt(1 - keep**2) * rng.standard_normal((n + 1000, CAUSES))
    causes = lfilter([1.0], [1.0, -keep], shocks, axis=0)[1000:]
    return np.asarray(causes @ mix + 0.4 * rng.standard_normal((n, SENSORS)))


def a_day(n: int) -> tuple[Array, list[int]]:
    """Rows with a fault of five minutes each hour, and where these begin."""
    rows, begins = plant(n, seed=1), list(range(HOUR // 2, n - 600, HOUR))
    for k, begin in enumerate(begins):
        rows[begin : begin + 300, (7 * k) % SENSORS] += 4.0 * (-1) ** k
    return rows, begins


def spoilt(rows: Array) -> tuple[Array, Any]:
    """1 % of the cells missing, three sensors frozen for an hour, a clock put back by one, a late row."""
    out, n = rows.copy(), len(rows)
    rng = np.random.default_rng(2)
    out[rng.random(out.shape) < 0.01] = np.nan
    third = n // 3
    out[third : third + n // 24, [3, 11, 19]] = out[third - 1, [3, 11, 19]]
    times = BEGUN + np.arange(n).astype("m8[s]")
    times[n // 2 :] -= np.timedelta64(HOUR, "s")
    times[100] -= np.timedelta64(50, "s")
    return out, times


def resident() -> float:
    """MB that this process holds now."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize() / 1e6


def streamed(detector: KernelPCADetector, rows: Array, times: Any = None) -> dict[str, Any]:
    """One row at a time: verdicts, events, rows a second of processor time, and memory along the way."""
    stream, n = detector.stream(), len(rows)
    numbers, events, sizes = np.empty((n, 4)), [], []
    begun = time.process_time()
    for i in range(n):
        verdict = stream.push(rows[i], None if times is None else str(times[i]))
        numbers[i] = verdict.t2, verdict.q, verdict.index, verdict.alarm
        if verdict.ended is not None:
            events.append(verdict.ended)
        if i % (n // 8) == n // 16:
            sizes.append(resident())
    spent = time.process_time() - begun
    found = {"rows_a_second": n / spent, "memory_mb": [round(size, 1) for size in sizes]}
    return found | {
        "numbers": numbers,
        "events": [*events, *stream.close()],
        "counts": stream.counts,
    }


def same(detector: KernelPCADetector, rows: Array, found: dict[str, Any]) -> bool:
    """Whether the verdicts are those of `monitor`, to the bit.

    A row that lacks cells has no statistics in either; it is an alarm of a stream alone, where no normal
    value of the missing cells would bring it below its limit.
    """
    table = detector.monitor(rows, top=0).table
    wanted = np.column_stack([table[name] for name in ("T2", "Q", "index", "alarm")]).astype(float)
    judged, numbers = np.asarray(table["judged"], dtype=bool), found["numbers"]
    statistics = np.array_equal(wanted[:, :3], numbers[:, :3], equal_nan=True)
    return bool(statistics and np.array_equal(wanted[judged, 3], numbers[judged, 3]))


def children() -> float:
    """Seconds of processor time that ended processes of this one have taken."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def text_of(rows: Array, times: Any) -> list[str]:
    """CSV lines, the names first."""
    lines = [",".join(["time", *(f"s{j}" for j in range(SENSORS))])]
    for row, when in zip(rows, times, strict=True):
        cells = ("Bad" if value != value else repr(float(value)) for value in row)  # noqa: PLR0124
        lines.append(f"{when},{','.join(cells)}")
    return lines


def rotate(data: Path) -> None:
    """As logrotate does: each file one number up, so that rows nobody has read yet are there all the same."""
    for i in range(9, 0, -1):
        if (older := data.with_name(f"{data.name}.{i}")).exists():
            older.rename(data.with_name(f"{data.name}.{i + 1}"))
    data.rename(data.with_name(f"{data.name}.1"))


def _wait_for_state(path: Path, process: subprocess.Popen[bytes]) -> None:
    """Until the command has judged rows and written its state: how long it takes to start depends."""
    written = path.stat().st_mtime_ns if path.exists() else 0
    while process.poll() is None and not (path.exists() and path.stat().st_mtime_ns > written):
        time.sleep(0.05)


def stopped_and_started(folder: Path, lines: list[str], parts: int) -> dict[str, Any]:
    """The command, ended by SIGTERM and started again while its file grows and rotates, beside one run."""
    model, data, events = (folder / name for name in ("d.mercer", "day.csv", "events.jsonl"))
    command = [
        sys.executable,
        "-m",
        "mercer",
        "monitor",
        str(model),
        str(data),
        "--follow",
        "-q",
        "--top",
        "0",
    ]
    command += [
        "--state",
        str(folder / "state.json"),
        "--events",
        str(events),
        "-o",
        str(folder / "out.csv"),
    ]
    cuts = np.linspace(1, len(lines), parts + 1).astype(int)
    data.write_text(lines[0] + "\n")
    for k, (begin, end) in enumerate(pairwise(cuts)):
        if k % 3 == 2:
            rotate(data)
            data.write_text(lines[0] + "\n")
        with data.open("a") as file:
            file.write("\n".join(lines[begin:end]) + "\n")
        with subprocess.Popen(command) as process:
            _wait_for_state(folder / "state.json", process)
            time.sleep(0.7 * (k % 3))  # often in the middle of it
            process.send_signal(signal.SIGTERM)
            process.wait()
    final = [*command[:6], *command[7:]]  # to the end, without --follow
    subprocess.run(final, check=False)
    whole = folder / "whole.csv"
    whole.write_text("\n".join(lines) + "\n")
    once = [*command[:5], str(whole), *command[7:]]
    for option, name in (("--state", "once.json"), ("--events", "once.jsonl"), ("-o", "once.csv")):
        once[once.index(option) + 1] = str(folder / name)
    before = children()
    subprocess.run(once, check=False)
    spent = children() - before
    once[once.index("--top") + 1] = "3"
    before = children()
    explained = [*once[: once.index("--state")], "-o", str(folder / "explained.csv")]
    subprocess.run([*explained, "--marks"], check=False)
    explained_spent = children() - before
    mine, theirs = ((folder / name).read_text() for name in ("out.csv", "once.csv"))
    logs = [
        [json.loads(line) | {"unit": ""} for line in (folder / name).read_text().splitlines()]
        for name in ("events.jsonl", "once.jsonl")
    ]
    return {
        "starts": parts + 1,
        "same_table": mine == theirs,
        "same_events": logs[0] == logs[1],
        "events": len(logs[1]),
        "rows_a_second": round((len(lines) - 1) / spent),
        "rows_a_second_explained": round((len(lines) - 1) / explained_spent),
    }


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--rows", default=DAY, show_default=True, help="Rows of the day.")
def main(rows: int) -> None:
    """A day of rows through a stream, on one core: seconds are those of the processor."""
    begun = time.monotonic()
    detector = KernelPCADetector().fit(plant(TRAIN, seed=0))
    day, begins = a_day(rows)
    bad, times = spoilt(day)
    for name, data, clock in (("whole rows", day, None), ("spoilt rows", bad, times)):
        found = streamed(detector, data, clock)
        caught = sum(
            any(b <= e.last and e.first < b + 300 for e in found["events"]) for b in begins
        )
        click.echo(
            f"{name}: {rows} rows, {found['rows_a_second']:.0f} a second of processor time; memory "
            f"{found['memory_mb']} MB; as the batch: {same(detector, data, found)}; {caught} of "
            f"{len(begins)} faults in {len(found['events'])} events; {found['counts']}"
        )
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        train = folder / "train.csv"
        train.write_text(
            "\n".join(text_of(plant(TRAIN, seed=0), BEGUN + np.arange(TRAIN).astype("m8[s]")))
            + "\n"
        )
        fit = [
            sys.executable,
            "-m",
            "mercer",
            "fit",
            str(train),
            "--id",
            "time",
            "--model",
            "detector",
        ]
        subprocess.run(
            [*fit, "-o", str(folder / "d.mercer"), "-q"], check=True, stdout=subprocess.DEVNULL
        )
        click.echo(f"ended and started: {stopped_and_started(folder, text_of(bad, times), 10)}")
    click.echo(f"all of it took {time.monotonic() - begun:.0f} s by the clock")


if __name__ == "__main__":
    main()
