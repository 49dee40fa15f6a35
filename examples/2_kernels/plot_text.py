"""
Which texts are alike?
======================

The documentation of functions of SciPy, as text: 100 functions of four modules, their words counted
and weighted (tf-idf), as a sparse matrix with thousands of columns. The kernel is the cosine, because
the length of a text does not matter. The model does not know the modules.
"""

# %%
import importlib
import inspect

import matplotlib.pyplot as plt
import numpy as np
from sklearn.feature_extraction.text import TfidfVectorizer

from mercer import KernelPCA, plots
from mercer.kernels import Cosine

modules = ["scipy.linalg", "scipy.signal", "scipy.stats", "scipy.special"]
texts, names, homes = [], [], []
for module in modules:
    found = inspect.getmembers(importlib.import_module(module), callable)
    long = [(name, doc) for name, thing in found if len(doc := inspect.getdoc(thing) or "") > 800]
    for name, doc in long[:25]:
        texts.append(doc.split("Examples")[0])
        names.append(name)
        homes.append(module)

words = TfidfVectorizer(stop_words="english", min_df=2, token_pattern=r"[a-z]{3,}").fit(texts)
X = words.transform(texts)
print(
    f"{X.shape[0]} texts, {X.shape[1]} words, {X.nnz / np.prod(X.shape):.1%} of the matrix is not zero"
)

# %%
model = KernelPCA(3, kernel=Cosine()).fit(X)
fig, axes = plt.subplots(1, 2, figsize=(10, 4.2), layout="constrained")
for ax, pair in zip(axes, [(0, 1), (1, 2)], strict=True):
    plots.scores(model, X, np.array(homes), components=pair, ax=ax)

# %%
# The nearest text to each of four functions, by the cosine in the space of three scores.

scores = model.transform(X)
scores = scores / np.linalg.norm(scores, axis=1, keepdims=True)
alike = scores @ scores.T
np.fill_diagonal(alike, -1)
same = np.mean([homes[i] == homes[alike[i].argmax()] for i in range(len(homes))])
print(f"the nearest text is of the same module for {same:.0%} (by chance 25 %)")
for module in modules:
    i = homes.index(module) + 4
    print(
        f"{homes[i]}.{names[i]} is most like {homes[alike[i].argmax()]}.{names[alike[i].argmax()]}"
    )
