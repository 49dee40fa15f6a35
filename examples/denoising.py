"""Denoising: noisy digits, projected on the components of clean ones and taken back to pictures.

The models are fitted to clean digits and never see noise (Mika et al. 1999). A noisy digit is projected on
their components, which know only what digits look like, and what they cannot say of it is gone. Linear
PCA comes back by a product; kernel PCA by each of the ways in `mercer.preimage.PREIMAGES` that its kernel
allows. Each way gets the number of components, and the kernel its width, that does best on one set of
noisy digits, and is judged on another.

Two kinds of noise: Gaussian, σ = half of the grey range on every pixel, and speckle, two pixels in five
set to black or white.

Writes denoising.png (clean, noisy, and every way).

    python examples/denoising.py --out out
"""

import argparse
import warnings
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure
from sklearn.datasets import load_digits

from mercer import PCA, KernelPCA, plots
from mercer.errors import InputError, MercerWarning
from mercer.kernels import RBF
from mercer.preimage import PREIMAGES

N_CHECK, N_TEST = 100, 200
COUNTS = (8, 16, 32)
WIDTHS = (1.0, 2.0, 4.0)  # times the median distance between rows


def gaussian(X, rng):
    return X + 0.5 * rng.standard_normal(X.shape)


def speckle(X, rng):
    hit = rng.random(X.shape) < 0.4
    return np.where(hit, rng.integers(0, 2, X.shape).astype(float), X)


NOISES = {"gaussian": gaussian, "speckle": speckle}


def mean_squared_error(a, b):
    return float(np.mean((a - b) ** 2))


# ── models ──────────────────────────────────────────────────────────────────
def linear_models(X):
    return {(k,): PCA(k).fit(X) for k in range(1, min(X.shape))}


def kernel_models(X, way):
    """Every width and number of components; nothing where the way back does not take this kernel."""
    median = RBF("median").resolve(X, rng=np.random.default_rng(0)).gamma
    models = {}
    for width in WIDTHS:
        kernel = RBF(median / width**2)
        for k in COUNTS:
            try:
                models[k, width] = KernelPCA(k, kernel=kernel, preimage=way).fit(X)
            except InputError:  # such as the exact inverse, which only some dot products have
                return {}
    return models


def best(models, noisy, clean):
    """The model that takes these noisy digits nearest to the clean ones."""
    errors = {key: mean_squared_error(m.reconstruct(noisy), clean) for key, m in models.items()}
    key = min(errors, key=errors.get)
    return key, models[key]


# ── the example ─────────────────────────────────────────────────────────────
def split(n_train, rng):
    X = load_digits().data / 16.0  # grey levels from 0 to 1
    order = rng.permutation(len(X))
    ends = np.cumsum([n_train, N_CHECK, N_TEST])
    return [X[order[i:j]] for i, j in zip([0, *ends], ends, strict=False)]


def denoise(ways, noise, check, test, rng):
    """Error of every way on the test digits, and what it makes of them."""
    noisy_check, noisy = noise(check, rng), noise(test, rng)
    errors, pictures, chosen = (
        {"noisy": mean_squared_error(noisy, test)},
        {"noisy": noisy},
        {"noisy": ()},
    )
    for name, models in ways.items():
        key, model = best(models, noisy_check, check)
        pictures[name] = model.reconstruct(noisy)
        errors[name], chosen[name] = mean_squared_error(pictures[name], test), key
    return errors, pictures, chosen


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--out", type=Path, help="folder for the picture; none without it")
    parser.add_argument("--train", type=int, default=400, help="clean digits to fit to")
    args = parser.parse_args(argv)
    warnings.simplefilter("ignore", MercerWarning)  # noisy digits do lie outside of the clean ones
    rng = np.random.default_rng(0)
    train, check, test = split(args.train, rng)
    ways = {"PCA": linear_models(train)}
    ways |= {way: kernel_models(train, way) for way in PREIMAGES}
    ways = {name: models for name, models in ways.items() if models}
    figures, shown = {}, {}
    print(f"{'noise':10}{'way':14}{'error':>9}{'components':>12}{'width':>7}")
    for kind, noise in NOISES.items():
        errors, shown[kind], chosen = denoise(ways, noise, check, test, rng)
        for name, error in errors.items():
            told = [f"{value:g}" for value in chosen[name]] + ["", ""]
            print(f"{kind:10}{name:14}{error:9.4f}{told[0]:>12}{told[1]:>7}")
        figures[kind] = {"errors": errors, "chosen": chosen}
    if args.out is not None:
        args.out.mkdir(parents=True, exist_ok=True)
        draw(args.out / "denoising.png", test, shown)
    return figures


def draw(path, test, shown, count=8):
    """Two sheets side by side, a row for each way."""
    size = (12.0, 0.68 * (len(shown["speckle"]) + 1) + 0.4)
    figure = Figure(figsize=size, layout="constrained", dpi=100)
    for part, (kind, pictures) in zip(figure.subfigures(1, 2), shown.items(), strict=True):
        rows = {"clean": test} | pictures
        sheet = np.clip(np.concatenate([images[:count] for images in rows.values()]), 0, 1)
        axes = plots.faces(sheet, shape=(8, 8), n_columns=count, fig=part)
        for name, ax in zip(rows, axes[::count], strict=True):
            ax.set_ylabel(name, rotation=0, ha="right", va="center", fontsize=9)
        part.suptitle(kind, fontsize=11)
    figure.savefig(path)
    print(f"wrote {path}")


if __name__ == "__main__":
    main()
