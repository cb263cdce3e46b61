"""
How many experts?
=================

More experts describe the training rows better, and unseen rows only up to a point. This example
scores held-back rows over the number of experts, beside the simplest rival: independent columns.
"""

# %%
# Bars
# ----
# Images of 5 x 5 pixels, each a few of ten horizontal and vertical bars. Ten is the true number of
# parts, and one more expert is needed for what no bar covers.

import warnings

import numpy as np
from matplotlib.figure import Figure
from sklearn.exceptions import ConvergenceWarning

from dynpart import DynamicPartitionModel
from dynpart.datasets import make_bars

bars = make_bars(5, 900, random_state=0)
train, held_back = bars[:600], bars[600:]

# %%
# Score each size on rows that were not learnt from
# -------------------------------------------------
# ``score`` is log P(x | h) + log P(h) in nats per row; minus that, in bits, is a code length. A fit
# warns when experts are never used. Here that is no surprise.

warnings.simplefilter("ignore", ConvergenceWarning)
sizes = [2, 4, 6, 8, 10, 12, 16]
bits = []
for n_experts in sizes:
    model = DynamicPartitionModel(n_experts, random_state=0).fit(train)
    bits.append(-model.score(held_back) / np.log(2))
    print(f"{n_experts:>2} experts: {bits[-1]:.1f} bits a row")

frequency = (train.sum(axis=0) + 0.5) / (len(train) + 1)
columns = -np.where(held_back, np.log2(frequency), np.log2(1 - frequency)).sum(axis=1).mean()
print(f"independent columns: {columns:.1f} bits a row")

# %%
# The curve falls until the experts suffice
# -----------------------------------------

figure = Figure(figsize=(6, 3.5), layout="constrained")
axes = figure.add_subplot()
axes.plot(sizes, bits, marker="o", label="dynpart")
axes.axhline(columns, linestyle="--", color="gray", label="independent columns")
axes.set(xlabel="experts", ylabel="bits per held-back row", xticks=sizes, ylim=(0, None))
axes.legend()
