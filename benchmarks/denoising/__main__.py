"""``python -m benchmarks.denoising --data DIR``: noisy digits, and what each way makes of them."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import click
import numpy as np

from benchmarks.denoising import report, ways
from benchmarks.denoising.data import FILE, NOISES, SEED, Parts, mnist, small
from benchmarks.machine import facts
from benchmarks.run import ROOT, say, write_results
from mercer.preimage import PREIMAGES

PICTURE = ROOT / "docs" / "images" / "denoising-mnist.png"
COUNTS, WIDTHS = (8, 16, 32, 64, 128, 256), (0.5, 1.0, 2.0, 4.0, 8.0)


def entrants(parts: Parts, *, quick: bool) -> dict[str, Any]:
    """Every way by name, as an iterator of its settings."""
    counts, widths = ((4, 16), (1.0, 2.0)) if quick else (COUNTS, WIDTHS)
    found: dict[str, Any] = {"PCA": ways.linear(parts), "nearest": ways.neighbours(parts)}
    for name in PREIMAGES:
        found[name] = ways.kernel(parts, name, counts, widths)
    return found


def measure(
    parts: Parts, *, quick: bool
) -> tuple[list[dict[str, Any]], list[dict[str, Any]], dict[str, dict[str, np.ndarray]]]:
    """Rows of the table, every trial, and the pictures made of the first test digits."""
    rng = np.random.default_rng(SEED)
    check = {kind: noise(parts.check, rng) for kind, noise in NOISES.items()}
    test = {kind: noise(parts.test, rng) for kind, noise in NOISES.items()}
    made = {kind: {"noisy": x} for kind, x in test.items()}
    rows = [
        {
            "way": "noisy",
            "noise": kind,
            "error": ways.error(x, parts.test),
            "knobs": {},
            "seconds": None,
        }
        for kind, x in test.items()
    ]
    trials: list[dict[str, Any]] = []
    for name, settings in entrants(parts, quick=quick).items():
        own, best = ways.quietly(ways.tried, name, settings, check, parts.check)
        trials += [trial.row() for trial in own]
        for kind, (trial, denoise) in best.items():
            started = time.perf_counter()
            made[kind][name] = ways.quietly(denoise, test[kind])
            seconds = time.perf_counter() - started
            value = ways.error(made[kind][name], parts.test)
            rows.append(
                {
                    "way": name,
                    "noise": kind,
                    "error": value,
                    "knobs": trial.knobs,
                    "seconds": seconds,
                }
            )
            say(f"{name}, {kind}: {value:.4f} with {trial.knobs}, {seconds:.1f} s")
    return rows, trials, made


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--data", "folder", type=click.Path(exists=True, file_okay=False), help=f"With {FILE}."
)
@click.option("--quick", is_flag=True, help="Toy digits, under a minute: does everything run?")
@click.option("--train", default=2000, show_default=True, help="Clean digits to fit to.")
@click.option("--update-docs", is_flag=True, help=f"Write docs/images/{PICTURE.name}.")
def main(*, folder: str | None, quick: bool, train: int, update_docs: bool) -> None:
    """Mean squared error of denoised digits: PCA, the nearest digits, kernel PCA by every way back."""
    if folder is None and not quick:
        msg = f"--data DIR is needed, a folder with {FILE}, or --quick for toy digits."
        raise click.UsageError(msg)
    parts = small() if quick else mnist(Path(folder or ""), n_train=train, n_check=150, n_test=500)
    rows, trials, made = measure(parts, quick=quick)
    text = report.markdown(rows)
    click.echo(text)
    if quick:
        return
    machine = facts(ROOT) | {"n_train": train, "trials": json.loads(json.dumps(trials))}
    stamp = machine["date"].replace(":", "").replace("+0000", "Z")
    path = write_results(machine, rows, f"denoising-{stamp}")
    path.with_suffix(".md").write_text(text + "\n")
    picture = PICTURE if update_docs else path.with_suffix(".png")
    report.draw(picture, parts.test, made, parts.shape)
    say(f"wrote {path.relative_to(ROOT)} and {picture.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
