"""
Digits as parts
===============

Handwritten digits of 8 x 8 pixels, black and white. A digit is explained by a few experts, each for
its own pixels. On so few pixels supports are scattered; on larger images they are coherent parts,
above all with ``connectivity``.
"""

# %%
# Learn 20 experts, at most six of them active in a digit
# -------------------------------------------------------

from dynpart import DynamicPartitionModel
from dynpart.datasets import load_digits
from dynpart.plotting import plot_decomposition, plot_experts, plot_supports

digits = load_digits()
model = DynamicPartitionModel(n_experts=20, max_active=6, random_state=0).fit(digits.train)

codes = model.transform(digits.test)
templates = model.inverse_transform(codes)
wrong = ((templates > 0.5) != digits.test).mean()
print(f"{codes.sum(axis=1).mean():.1f} active experts, {wrong:.1%} of the pixels wrong")

# %%
# What they look like
# -------------------
# Left: the opinions (dark is 1). Right: the levels of expertise.

experts = plot_experts(model, image_shape=digits.image_shape)

# %%
# Four digits taken apart
# -----------------------
# The digit, its reconstruction, and the contribution of each active expert; gray pixels belong to
# other experts.

parts = plot_decomposition(model, digits.test[:4], image_shape=digits.image_shape)

# %%
# Supports depend on the other active experts
# -------------------------------------------
# The pixels that an expert owns (red) change with the other active experts: the partition is
# *dynamic*.

supports = plot_supports(model, digits.test, n_experts=4, n_codes=8, image_shape=(8, 8))
