"""
The zoo: a table that explains itself
=====================================

101 animals, and whether each has hair, feathers, milk and so on. Six experts describe them. Each
expert has a name made of what it says, and every animal is explained by the few that are active in
it.
"""

# %%
# Learn
# -----
# The columns are yes or no. The names of columns and rows come from the data frame.

from dynpart import DynamicPartitionModel
from dynpart.datasets import load_zoo
from dynpart.plotting import plot_experts

animals = load_zoo().frame.drop(columns="legs")
model = DynamicPartitionModel(n_experts=6, random_state=0).fit(animals)

# %%
# What the experts say
# --------------------
# Each line compares an opinion with how common the trait is among all animals.

print(model.describe(animals, top=3))

# %%
# The platypus, in words
# ----------------------

print(model.explain(animals, row=animals.index.get_loc("platypus")))

# %%
# All opinions at a glance
# ------------------------
# On the left what each expert says about each trait; on the right where it is listened to.

figure = plot_experts(model)
