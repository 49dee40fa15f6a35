"""From the finger to the frame: `python -m benchmarks.explore`, on a machine that does nothing else.

A real Chromium drags the width slider of `mercer explore` with the mouse, 60 moves a second, on n rows of
d = 10 standard normal columns. For each input event: the milliseconds until the first frame after the
drawing of the scores of that width, or of a later one (the newest request wins, so a width may be skipped).
Beside it the frames a second, the processor time of the server for each drawing, and its resident memory
before and after. Needs Linux (/proc), Playwright and Chromium.

    python -m benchmarks.explore     # n = 2000, 20 000 and 200 000; then 1000 moves for the memory
    python -m benchmarks.explore --rows 2000 --moves 50 --memory-moves 0
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator

COLUMNS, PACE, PATIENCE = 10, 1 / 60, 120_000  # columns, seconds a move, ms to wait for a page
FLAGS = ["--no-sandbox", "--enable-unsafe-swiftshader", "--disable-background-networking"]
# Input events by the text that they make of the kernel, and frames by the kernel that they show.
WATCH = """() => {
  const root = document.getElementById("explore"), field = document.querySelector(".expression");
  window.moves = []; window.paints = [];
  document.addEventListener("input", (event) => {
    if (event.target.type === "range") window.moves.push([event.timeStamp, field.value]);
  });
  new MutationObserver(() => {
    const text = root.dataset.drawn;
    requestAnimationFrame(() => window.paints.push([performance.now(), text]));
  }).observe(root, { attributes: true, attributeFilter: ["data-drawn"] });
}"""

LAST = """() => {
  const text = document.querySelector(".expression").value;
  return document.getElementById("explore").dataset.drawn === text && window.paints.at(-1)?.[1] === text;
}"""
AT_REST = "() => !document.querySelector('main > .grid > :is(.stale, .waiting)')"

HEADS = {
    "inputs": "inputs",
    "drawn": "drawn",
    "median_ms": "median ms",
    "p95_ms": "95 % ms",
    "worst_ms": "worst ms",
    "frames_a_second": "frames/s",
    "server_cpu_ms_a_frame": "server CPU ms/frame",
    "memory_before_mb": "MB before",
    "memory_after_mb": "MB after",
}


@contextmanager
def served(path: Path) -> Iterator[tuple[str, int]]:
    """The command in a process of its own: its address and its number."""
    command = [sys.executable, "-m", "mercer", "explore", str(path), "--no-browser"]
    run = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    try:
        assert run.stdout is not None
        yield run.stdout.readline().strip(), run.pid
    finally:  # whatever it computes: a long product ends with the process
        run.kill()
        run.wait()


def resident(pid: int) -> float:
    """Resident memory of a process, MB of 10⁶ bytes."""
    lines = Path(f"/proc/{pid}/status").read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS")) * 1024 / 1e6


def processor(pid: int) -> float:
    """Processor time of a process so far, seconds."""
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def dragged(page: Any, moves: int) -> float:
    """Hold the handle and move it back and forth; the seconds that took."""
    box = page.get_by_role("slider", name="gamma of").bounding_box()
    # A triangle between a quarter and three quarters of the track, at most one pixel or so a move.
    phase = np.abs((np.arange(moves) / 120 + 0.5) % 2 - 1)
    places = box["x"] + box["width"] * (0.25 + 0.5 * phase)
    y = box["y"] + box["height"] / 2
    page.mouse.move(places[0], y)
    page.mouse.down()
    begun = time.perf_counter()
    for i, x in enumerate(places):
        page.mouse.move(float(x), y)
        page.wait_for_timeout(max(0.0, 1e3 * (begun + (i + 1) * PACE - time.perf_counter())))
    took = time.perf_counter() - begun
    page.wait_for_timeout(20)
    page.mouse.up()
    return took


def waits(inputs: list[Any], frames: list[Any]) -> np.ndarray:
    """Milliseconds from each input to the first frame that shows it or a later one."""
    shown = []  # (time, newest input that the frame shows)
    for when, text in frames:
        found = [i for i, (at, wanted) in enumerate(inputs) if wanted == text and at < when]
        if found:
            shown.append((when, max(found)))
    return np.array(
        [
            min(when for when, newest in shown if newest >= i and when >= at) - at
            for i, (at, _) in enumerate(inputs)
        ]
    )


def measured(browser: Any, path: Path, moves: int) -> dict[str, Any]:
    """One drag over one file."""
    with served(path) as (url, pid):
        context = browser.new_context(viewport={"width": 1300, "height": 900})
        context.set_default_timeout(PATIENCE)
        page = context.new_page()
        page.goto(url)
        page.wait_for_selector("#explore[data-settled*='RBF']")
        page.wait_for_function(AT_REST)
        page.evaluate(WATCH)
        dragged(page, 10)  # what is loaded with the first drag
        page.wait_for_selector("#explore[data-settled*='RBF']")
        page.wait_for_function(
            AT_REST
        )  # or pre-images of the drag before would run beside this one
        page.evaluate("() => { window.moves = []; window.paints = []; }")
        before, begun = resident(pid), processor(pid)
        took = dragged(page, moves)
        page.wait_for_function(LAST)
        spent, after = processor(pid) - begun, resident(pid)
        inputs, frames = page.evaluate("() => [window.moves, window.paints]")
        context.close()
    each = waits(inputs, frames)
    return {
        "inputs": len(inputs),
        "drawn": len(frames),
        "median_ms": float(np.median(each)),
        "p95_ms": float(np.quantile(each, 0.95)),
        "worst_ms": float(each.max()),
        "frames_a_second": len(frames) / took,
        "server_cpu_ms_a_frame": 1e3 * spent / max(1, len(frames)),
        "memory_before_mb": before,
        "memory_after_mb": after,
    }


def line(name: str, found: dict[str, Any]) -> str:
    """One measurement as a row of the table."""
    return " | ".join([f"| {name}", *(f"{found[key]:.0f}" for key in HEADS)]) + " |"


def main() -> None:
    """Measure, and print a table as it grows."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rows", type=int, nargs="+", default=[2000, 20_000, 200_000])
    parser.add_argument("--moves", type=int, default=240, help="moves of the mouse in each drag")
    parser.add_argument(
        "--memory-moves", type=int, default=1000, help="and once more with so many; 0 leaves it out"
    )
    parser.add_argument("--json", type=Path, help="write the figures here too")
    given = parser.parse_args()
    from playwright.sync_api import sync_playwright

    print(" | ".join(["| rows", *HEADS.values()]), " |\n|", " --: |" * (len(HEADS) + 1), sep="")
    runs = [(n, given.moves, str(n)) for n in given.rows]
    if given.memory_moves:
        n = min(given.rows)
        runs.append((n, given.memory_moves, f"{n}, {given.memory_moves} moves"))
    results = {}
    with sync_playwright() as started, tempfile.TemporaryDirectory() as folder:
        browser = started.chromium.launch(executable_path=shutil.which("chromium"), args=FLAGS)
        for n, moves, name in runs:
            path = Path(folder, f"normal-{n}.npy")
            np.save(path, np.random.default_rng(0).standard_normal((n, COLUMNS)))
            results[name] = measured(browser, path, moves)
            print(line(name, results[name]), flush=True)
        browser.close()
    if given.json:
        given.json.write_text(json.dumps(results, indent=1), encoding="utf-8")


if __name__ == "__main__":
    main()
