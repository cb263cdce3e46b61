"""
How many experts?
=================

More experts always describe the training rows better, but unseen rows only up to a point. With
``n_experts="auto"`` the model chooses the number that describes held-back rows best.
"""

# %%
# Bars
# ----
# Images of 5 x 5 pixels, each a few of ten horizontal and vertical bars. Ten is the true number of
# parts, and one more expert is needed for what no bar covers.

from dynpart import DynamicPartitionModel
from dynpart.datasets import make_bars
from dynpart.plotting import plot_selection, plot_stability

bars = make_bars(5, 600, random_state=0)
model = DynamicPartitionModel(n_experts="auto", random_state=0).fit(bars)
print(model.selection_)

# %%
# The curve falls until the experts suffice
# -----------------------------------------
# The lines are two baselines: independent columns, and a mixture with as many components.

curve = plot_selection(model)

# %%
# The numbers behind it
# ---------------------
# ``nats`` is the mean of log P(x | h) + log P(h) over the held-back rows.

for size in model.selection_.tried:
    print(f"{size.n_experts:>2} experts: {size.nats:7.2f} nats, {size.mean_active:.1f} active")

# %%
# Would other rows give the same experts?
# ---------------------------------------
# ``stability`` fits bootstrap samples and counts how often each expert is found again.

model.stability(bars, n_bootstraps=3, random_state=0)
print(model.stability_)
shares = plot_stability(model)
