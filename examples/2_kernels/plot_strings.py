"""
Which language is this word? A kernel on strings
================================================

Kernel PCA needs a kernel, not columns. Here the kernel counts the letters and pairs of letters that
two words have in common, a spectrum kernel (Leslie, Eskin & Noble 2002), normalised so that long
words count no more than short ones.
"""

# %%
from collections import Counter
from itertools import pairwise

import matplotlib.pyplot as plt
import numpy as np

from mercer import KernelPCA, check_kernel

words = {
    "English": "the with that this though weather which north other bright thought width earth house",
    "Finnish": "kuusi kaksi talo katu kissa koira kauppa aamu ilta suomi kieli maito kukka kaupunki",
    "Italian": "piazza ragazzo bello fratello sorella mattina notte lingua piccolo vecchio cielo mare donna",
}
texts = [word for line in words.values() for word in line.split()]
language = np.array([name for name, line in words.items() for _ in line.split()])


def parts(word):
    """How often each letter and each pair of neighbouring letters occurs; ^ and $ mark the ends."""
    marked = f"^{word}$"
    return Counter(word) + Counter(a + b for a, b in pairwise(marked))


def alike(a, b):
    """The cosine of two counts: 1 for equal words, 0 where nothing is shared."""
    length = np.sqrt(sum(n * n for n in a.values()) * sum(n * n for n in b.values()))
    return sum(n * b[part] for part, n in a.items()) / length


counts = [parts(word) for word in texts]
K = np.array([[alike(a, b) for b in counts] for a in counts])
print("a kernel matrix:", check_kernel(K).valid)

# %%
model = KernelPCA(2, kernel="precomputed").fit(K)
scores = model.transform(K)
fig, ax = plt.subplots(figsize=(8, 5.2), layout="constrained")
for name, colour in zip(words, ("C0", "C1", "C2"), strict=True):
    rows = language == name
    ax.plot(*scores[rows].T, "o", color=colour, markersize=4, label=name)
    for place, word in zip(scores[rows], np.array(texts)[rows], strict=True):
        ax.annotate(
            word, place, xytext=(3, 2), textcoords="offset points", color=colour, fontsize=8
        )
ax.set(xlabel="component 1", ylabel="component 2", title="words by their letters and letter pairs")
ax.legend()

# %%
# A new word needs only its kernel values with the training words.

new = ["thunder", "kaunis", "castello"]
rows = np.array([[alike(parts(word), b) for b in counts] for word in new])
centres = {name: scores[language == name].mean(axis=0) for name in words}
for word, score in zip(new, model.transform(rows), strict=True):
    nearest = min(centres, key=lambda name: np.linalg.norm(centres[name] - score))
    print(f"{word}: {nearest}")
