"""
What does a component mean?
===========================

178 wines with 13 measurements each. The slopes of a score show which measurements it depends on;
multiplied by standard deviations they can be compared. Here they are in words, as arrows on the
scores, and as level sets over the two most important measurements, with the others at their medians.
"""

# %%
import matplotlib.pyplot as plt
from sklearn.datasets import load_wine
from sklearn.preprocessing import StandardScaler

from mercer import KernelPCA, plots
from mercer.diagnostics import importance
from mercer.kernels import RBF

wine = load_wine()
names = [name.replace("_", " ").replace(" of diluted wines", "") for name in wine.feature_names]
X = StandardScaler().fit_transform(wine.data)
cultivar = [f"cultivar {c + 1}" for c in wine.target]

model = KernelPCA(2, kernel=RBF()).fit(X)
found = importance(model, X, names=names)
print(found)

# %%
# Of two wines that differ in one measurement alone, the one with more of it lies further along that
# arrow.

fig, ax = plt.subplots(figsize=(6.6, 4.8), layout="constrained")
plots.arrows(model, X, cultivar, names=names, ax=ax)

# %%
# The colours are scores of points *in the slice*; the data points are drawn at their two
# measurements.

fig, axes = plt.subplots(1, 2, figsize=(10.0, 4.4), layout="constrained")
for component, ax in enumerate(axes):
    top = found.top(component, count=2)
    plots.contours(
        model, X, component=component, variables=top, names=names, labels=cultivar, ax=ax
    )
