"""
The zoo: experts in words
=========================

This example fits 101 animals with traits such as hair, feathers and milk. Six experts describe
them. The name of an expert lists its most unusual opinions, and a few active experts explain each
animal.
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
# Left: the opinion of each expert about each trait. Right: its expertise.

figure = plot_experts(model)
