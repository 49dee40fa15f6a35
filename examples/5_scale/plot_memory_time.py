"""
How much time does memory save?
===============================

An exact fit holds as much of the kernel matrix as memory allows and makes the rest anew for every
product. ``plan`` says before the fit what a budget costs: bytes, products, and seconds, for which
it times a few tiles on this machine. Nothing is fitted here.
"""

# %%
import matplotlib.pyplot as plt
import numpy as np

from mercer import KernelPCA
from mercer.errors import MemoryBudgetError
from mercer.kernels import RBF

rng = np.random.default_rng(0)
budgets = np.array([40, 80, 300, 2000]) * 1e6
plans = {}
for n in (10_000, 20_000):
    rows = rng.standard_normal((n, 10), dtype=np.float32)
    for budget in budgets:
        try:
            plans[n, budget] = KernelPCA(10, kernel=RBF(gamma=0.05), memory=int(budget)).plan(rows)
        except MemoryBudgetError as error:
            print(f"{n} rows within {budget / 1e6:.0f} MB:", str(error).split(". ")[1])

# %%
# Left: seconds that are expected. Right: what the plan would use of the budget.

fig, (left, right) = plt.subplots(1, 2, figsize=(10, 3.8), layout="constrained")
for n in (10_000, 20_000):
    fitting = [budget for budget in budgets if (n, budget) in plans]
    megabytes = np.array(fitting) / 1e6
    left.loglog(megabytes, [plans[n, b].seconds for b in fitting], "o-", label=f"{n} rows")
    right.loglog(megabytes, [plans[n, b].n_bytes / 1e6 for b in fitting], "o-", label=f"{n} rows")
right.loglog(budgets / 1e6, budgets / 1e6, color="0.6", linestyle="--", label="the budget")
left.set(xlabel="memory that is allowed (MB)", ylabel="expected seconds")
right.set(xlabel="memory that is allowed (MB)", ylabel="planned memory (MB)")
for ax in (left, right):
    ax.legend()

# %%
# The whole plan of one of them.

print(plans[20_000, 300e6])
