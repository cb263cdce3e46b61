"""
Species at sites: communities without a fixed number
====================================================

Which plants grow together? Here 300 sites have up to three of five habitats each, and every
habitat brings its own species. A mixture would need one component for every combination of
habitats; experts need one per habitat.
"""

# %%
# Sites and species
# -----------------

import numpy as np
import pandas as pd

from dynpart import DynamicPartitionModel
from dynpart.plotting import plot_experts

rng = np.random.default_rng(1)
habitats = {
    "wet meadow": ["sedge", "marigold", "horsetail", "orchid"],
    "wood edge": ["hawthorn", "bramble", "elder", "nettle"],
    "dry bank": ["thyme", "fescue", "hawkweed", "stonecrop"],
    "pond": ["reed", "water lily", "pondweed", "iris"],
    "field": ["poppy", "cornflower", "chamomile", "oat"],
}
species = [name for members in habitats.values() for name in members]

present = np.zeros((300, 5), dtype=int)
for row in present:
    row[rng.choice(5, rng.integers(1, 4), replace=False)] = 1
seen = (np.repeat(present, 4, axis=1) == 1) & (rng.random((300, 20)) < 0.85)
sites = pd.DataFrame(seen, columns=species)

# %%
# Six experts, at most three of them at a site
# --------------------------------------------
# One expert per habitat, and one for what is missing.

model = DynamicPartitionModel(n_experts=6, max_active=3, random_state=0).fit(sites)
for number, name in enumerate(model.expert_names_):
    print(f"expert {number}: {name}")

# %%
# Do codes recover the habitats?
# ------------------------------
# The model has not seen the habitats. For each habitat, find the expert whose activity agrees best
# with it, and the share of sites in which they agree.

codes = model.transform(sites)
for number, habitat in enumerate(habitats):
    agreement = (codes == present[:, [number]]).mean(axis=0)
    print(f"{habitat:<10} expert {agreement.argmax()}, {agreement.max():.0%} of the sites")

figure = plot_experts(model)
