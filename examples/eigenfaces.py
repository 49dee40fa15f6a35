"""Eigenfaces: PCA of pictures with far more pixels than there are pictures, on the dual side.

All pictures of one person, the stranger, are left out of the training, and one picture of another
person. Both, and a picture that is no face, are rebuilt from more and more components. Faces come
back with few; what is no face does not, so the reconstruction error tells the two apart.

`--faces` takes a folder of images (a subfolder for each person where there are several) or a .npy or
.npz file with an (n, h, w) array (an .npz may name the person of each picture in a second array).
Without it the pictures are synthetic: seeded drawings of an oval with eyes, brows, nose and mouth,
made to be smooth and to vary as faces do. They are no photographs, and errors on them say nothing
about real faces.

Writes eigenfaces.png (mean face and first components) and ladder.png (the reconstructions).

    python examples/eigenfaces.py --faces my_faces/ --out out
"""

import argparse
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure
from PIL import Image
from sklearn.datasets import load_sample_image

from mercer import PCA, plots

SUFFIXES = {".png", ".pgm", ".jpg", ".jpeg", ".bmp", ".tif", ".tiff", ".gif"}
STEPS = (25, 50, 100, 200, 400, 800, 1600)


# ── pictures ────────────────────────────────────────────────────────────────
def load_faces(path):
    """(n, h, w) grey pictures and the (n,) person in each, from a folder or an array file."""
    if path.is_dir():
        return from_folder(path)
    if not path.exists():
        msg = f"{path}: there is no such folder or file."
        raise SystemExit(msg)
    if path.suffix not in {".npy", ".npz"}:
        msg = f"{path}: a folder, a .npy or a .npz file was needed."
        raise SystemExit(msg)
    loaded = np.load(path, allow_pickle=False)
    arrays = [loaded] if path.suffix == ".npy" else [loaded[name] for name in loaded.files]
    pictures = next((a for a in arrays if a.ndim == 3), None)
    if pictures is None:
        shapes = ", ".join(str(a.shape) for a in arrays)
        msg = f"{path}: an (n, h, w) array was needed, but there are {shapes}."
        raise SystemExit(msg)
    people = next((a for a in arrays if a.shape == (len(pictures),)), np.arange(len(pictures)))
    return pictures.astype(np.float64), people


def from_folder(folder):
    """Every image below the folder, resized to the first; the person is its own folder's name."""
    files = sorted(p for p in folder.rglob("*") if p.suffix.lower() in SUFFIXES)
    if len(files) < 3:
        msg = f"{folder}: at least 3 images were needed, but there are {len(files)}."
        raise SystemExit(msg)
    size, pictures = None, []
    for file in files:
        with Image.open(file) as image:
            size = size or image.size  # (w, h)
            pictures.append(np.asarray(image.convert("L").resize(size), float))
    people = np.array([str(f.parent) for f in files])
    if len(np.unique(people)) == 1:  # no subfolders: every picture is a person of its own
        people = np.arange(len(files))
    return np.stack(pictures), people


def synthetic_faces(n_people=40, n_pictures=6, shape=(56, 46), seed=0):
    """Drawings with the build of faces: each person has a geometry, each picture a light and pose."""
    rng = np.random.default_rng(seed)
    y, x = np.mgrid[-1 : 1 : shape[0] * 1j, -1 : 1 : shape[1] * 1j]  # (h, w) each
    pictures = []
    for _ in range(n_people):
        person = rng.normal(size=8)
        for _ in range(n_pictures):
            pose = rng.normal(size=4)
            pictures.append(draw_face(x - 0.04 * pose[0], y - 0.03 * pose[1], person, pose))
    return np.stack(pictures), np.repeat(np.arange(n_people), n_pictures)


def draw_face(x, y, person, pose):
    """One drawing: soft blobs on a soft oval, lit from one side."""

    def blob(cx, cy, wide, high):
        return np.exp(-(((x - cx) / wide) ** 2) - ((y - cy) / high) ** 2)

    wide, high = 0.66 + 0.05 * person[0], 0.86 + 0.05 * person[1]
    oval = 1 / (1 + np.exp(12 * ((x / wide) ** 2 + (y / high) ** 2 - 1)))
    apart, up = 0.27 + 0.03 * person[2], -0.18 + 0.03 * person[3]
    smile = 0.05 * person[4] + 0.03 * pose[2]
    dark = sum(
        0.55 * blob(side * apart, up, 0.12, 0.06)
        + (0.3 + 0.08 * person[5]) * blob(side * apart, up - 0.16, 0.17, 0.04)
        for side in (-1, 1)
    )
    dark = dark + 0.25 * blob(0, 0.15, 0.07 + 0.01 * person[6], 0.14)
    dark = dark + 0.5 * blob(0, 0.48 + smile * (x / 0.3) ** 2, 0.24 + 0.03 * person[7], 0.06)
    light = 170 + 25 * pose[3] * x
    return 40 + oval * (light * (1 - dark) - 40)


def no_face(shape):
    """A photograph of a flower in grey, cut to the shape of a face picture."""
    photo = Image.fromarray(load_sample_image("flower.jpg")).convert("L")
    height, width = shape
    tall = photo.height
    wide = round(tall * width / height)
    left = (photo.width - wide) // 2
    return np.asarray(photo.crop((left, 0, left + wide, tall)).resize((width, height)), float)


# ── the example ─────────────────────────────────────────────────────────────
def rebuild(model, X, k):
    """X rebuilt from its first k scores: the others are set to zero, which is their mean."""
    scores = model.transform(X)  # (m, all)
    scores[:, k:] = 0.0
    return model.inverse_transform(scores)  # (m, d)


def relative_error(X, rebuilt):
    return np.linalg.norm(X - rebuilt, axis=-1) / np.linalg.norm(X, axis=-1)


def leave_out(people):
    """Which rows to train on, and the held-out rows by name."""
    names, counts = np.unique(people, return_counts=True)
    stranger = people == names[-1]
    held = {"stranger": np.flatnonzero(stranger)[0]}
    if counts[0] > 1:  # a new picture of somebody who is known from others
        held["new picture"] = np.flatnonzero(people == names[0])[0]
    train = ~stranger
    train[list(held.values())] = False
    return train, stranger, held


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--out", type=Path, default=Path("out"), help="folder for the pictures")
    parser.add_argument("--faces", type=Path, help="folder of images, or .npy/.npz (n, h, w)")
    args = parser.parse_args(argv)
    args.out.mkdir(parents=True, exist_ok=True)
    pictures, people = synthetic_faces() if args.faces is None else load_faces(args.faces)
    shape = pictures.shape[1:]
    X = pictures.reshape(len(pictures), -1)  # (n, d)
    kind = "synthetic pictures" if args.faces is None else "pictures"
    print(f"{len(X)} {kind} of {shape[0]} x {shape[1]} pixels")

    train, stranger, held = leave_out(people)
    model = PCA().fit(X[train])
    figures = describe(model)
    rows = {name: X[row] for name, row in held.items()} | {"no face": no_face(shape).ravel()}
    shown = np.stack(list(rows.values()))  # (m, d)
    steps = [k for k in STEPS if k < figures["components"]] + [figures["components"]]
    rebuilt = np.stack([rebuild(model, shown, k) for k in steps], axis=1)  # (m, s, d)
    errors = relative_error(shown[:, None], rebuilt)  # (m, s)
    of_stranger = relative_error(X[stranger], rebuild(model, X[stranger], steps[0]))
    tell(rows, steps, errors, of_stranger)

    draw(args.out, model, shown, rebuilt, shape=shape, steps=steps, row_titles=list(rows))
    figures |= {"steps": steps, "errors": dict(zip(rows, errors, strict=True))}
    return figures | {"errors_of_stranger": of_stranger}


def describe(model):
    """Print which side was solved and what it found."""
    enough = int(np.searchsorted(np.cumsum(model.explained_variance_ratio_), 0.95)) + 1
    k, residual = len(model.explained_variance_), float(model.residuals_.max())
    print(model.plan_)
    print(f"{k} components, 95 % of the variance in {enough}; largest residual {residual:.1e}")
    return {
        "route": model.plan_.route,
        "components": k,
        "components_for_95": enough,
        "largest_residual": residual,
    }


def tell(names, steps, errors, of_stranger):
    """Print the relative errors side by side."""
    print(f"\n{'error with k =':14}" + "".join(f"{k:8}" for k in steps))
    for name, row in zip(names, errors, strict=True):
        print(f"{name:14}" + "".join(f"{error:8.1%}" for error in row))
    low, high = of_stranger.min(), of_stranger.max()
    print(
        f"{len(of_stranger)} picture(s) of the stranger, k = {steps[0]}: {low:.1%} to {high:.1%}\n"
    )


def draw(out, model, shown, rebuilt, *, shape, steps, row_titles):
    count = min(15, len(model.components_))
    mean = model.mean_ - model.mean_.mean()  # so that middle grey is its average brightness
    sheet = np.vstack([mean, model.components_[:count]])
    titles = ["mean face", *(f"{share:.1%}" for share in model.explained_variance_ratio_[:count])]
    tall = 1.15 * shape[0] / shape[1] + 0.24
    figure = Figure(figsize=(1.15 * 8, tall * -(-len(sheet) // 8)), layout="constrained", dpi=100)
    plots.faces(sheet, shape=shape, titles=titles, symmetric=True, fig=figure)
    save(figure, out / "eigenfaces.png")

    size = (1.15 * (len(steps) + 1) + 0.24, tall * len(shown) + 0.24)
    figure = Figure(figsize=size, layout="constrained", dpi=100)
    plots.ladder(shown, rebuilt, shape=shape, steps=steps, row_titles=row_titles, fig=figure)
    save(figure, out / "ladder.png")


def save(figure, path):
    figure.savefig(path)
    print(f"wrote {path}")


if __name__ == "__main__":
    main()
