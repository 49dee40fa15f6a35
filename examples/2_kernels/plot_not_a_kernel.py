"""
When is tanh a kernel?
======================

tanh(η x·y + θ) is called the sigmoid kernel. It is one only if no data set has a matrix with a
negative eigenvalue; one witness, some points and a vector v with vᵀKv < 0, refutes it for good.
``check_kernel`` looks for the smallest witness. On this grid it finds one for every pair of
parameters.
"""

# %%
import matplotlib.pyplot as plt
import numpy as np

from mercer import check_kernel
from mercer.kernels import Sigmoid

etas, thetas = np.array([0.1, 0.5, 1.0, 2.0]), np.array([-1.0, -0.25, 0.0, 0.25, 1.0])
verdicts = {(e, t): check_kernel(Sigmoid(gamma=e, coef0=t)) for e in etas for t in thetas}
points = np.array([[len(verdicts[e, t].witness.points) for e in etas] for t in thetas])

# %%
# A witness to check by hand: η = θ = 1 and the points 0, 1, -1. tanh is concave on positive
# numbers, so tanh 2 + tanh 0 < 2 tanh 1.

print(verdicts[1.0, 1.0])

# %%
# Left: how many points a witness needs. A negative θ is refuted by the origin alone, since k(0, 0) =
# tanh θ < 0 would be a squared length. Right: why three are enough for η = θ = 1.

fig, (left, right) = plt.subplots(1, 2, figsize=(10, 3.8), layout="constrained")
left.imshow(points, origin="lower", cmap="Blues", vmin=0, vmax=4, aspect="auto")
for (row, column), count in np.ndenumerate(points):
    left.text(column, row, count, ha="center", va="center", color="black", fontsize=12)
left.set(xticks=range(4), xticklabels=etas, yticks=range(5), yticklabels=thetas)
left.set(xlabel="η", ylabel="θ", title="points of the smallest witness found")
t = np.linspace(-1.5, 1.5, 200)
right.plot(t, np.tanh(1 + t), label="tanh(1 + t)")
right.plot([-1, 1], np.tanh([0, 2]), "o--", color="C1", label="the chord from -1 to 1 ...")
right.plot(0, np.tanh(1), "o", color="C2", label="... lies below the value at 0")
right.set(xlabel="t = x·y", title="why three points are enough")
right.legend()
