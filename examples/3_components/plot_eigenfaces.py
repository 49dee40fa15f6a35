"""
Is it a face?
=============

PCA of pictures with far more pixels than pictures is solved on the dual side. All pictures of one
person, the stranger, are held out, and one of another person. These, and a picture that is not a
face, are rebuilt from more and more components. Few components suffice for faces but not for other
pictures, so the reconstruction error distinguishes the two. ``mercer.datasets`` draws the faces.
"""

# sphinx_gallery_thumbnail_number = 2

# %%
import matplotlib.pyplot as plt
import numpy as np

from mercer import PCA, plots
from mercer.datasets import faces, flower

drawn = faces(40, 6)
stranger = drawn.people == 39
train = ~stranger
train[0] = False  # a picture of a person who is known from others
model = PCA().fit(drawn.X[train])
print(model.plan_)

# %%
# The mean face and the first components, with their shares of the variance.

sheet = np.vstack([model.mean_ - model.mean_.mean(), model.components_[:15]])
titles = ["mean face", *(f"{share:.1%}" for share in model.explained_variance_ratio_[:15])]
fig = plt.figure(figsize=(9.2, 3.4), layout="constrained")
plots.faces(sheet, shape=drawn.shape, titles=titles, symmetric=True, fig=fig)

# %%
# The ladder: mean + Σ score · component, with the relative error below each step.


def rebuild(X, k):
    """X from its first k scores; the others are set to zero, which is their mean."""
    scores = model.transform(X)
    scores[:, k:] = 0.0
    return model.inverse_transform(scores)


rows = {
    "stranger": drawn.X[stranger][0],
    "new picture": drawn.X[0],
    "not a face": flower(drawn.shape),
}
shown = np.stack(list(rows.values()))
steps = [5, 25, 50, 100, 200]
rebuilt = np.stack([rebuild(shown, k) for k in steps], axis=1)
errors = np.linalg.norm(shown[:, None] - rebuilt, axis=2) / np.linalg.norm(shown, axis=1)[:, None]
fig = plt.figure(figsize=(7.4, 4.8), layout="constrained")
plots.ladder(shown, rebuilt, shape=drawn.shape, steps=steps, row_titles=list(rows), fig=fig)
