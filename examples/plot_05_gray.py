"""
Gray images: patches of a photograph
====================================

Real values have Gaussian experts. Here they describe patches of a photograph from scikit-learn:
edges, sky and roofs. A few experts share the pixels of a patch.
"""

# %%
# Patches
# -------
# 1,500 patches of 10 x 10 pixels, each minus its mean.

import numpy as np
from sklearn.datasets import load_sample_image
from sklearn.feature_extraction.image import extract_patches_2d, grid_to_graph

from dynpart import DynamicPartitionModel
from dynpart.plotting import plot_experts, plot_reconstructions

photograph = load_sample_image("china.jpg").mean(axis=2) / 255
patches = extract_patches_2d(photograph, (10, 10), max_patches=4000, random_state=0)
patches = patches.reshape(len(patches), -1)
patches = patches[patches.std(axis=1) > 0.05][:1500]
patches = patches - patches.mean(axis=1, keepdims=True)

# %%
# Neighbouring pixels learn together
# ----------------------------------
# ``connectivity`` smooths the evidence for expertise over neighbouring pixels, so that supports are
# coherent.

model = DynamicPartitionModel(
    n_experts=24, max_active=5, connectivity=grid_to_graph(10, 10), random_state=0
).fit(patches[:1200])

held_back = patches[1200:]
codes = model.transform(held_back)
error = np.sqrt(((model.inverse_transform(codes) - held_back) ** 2).mean())
print(f"{codes.sum(axis=1).mean():.1f} active experts; error {error:.3f}")
print(f"standard deviation of the pixels {held_back.std():.3f}")

# %%
# Opinions and expertise
# ----------------------

experts = plot_experts(model, image_shape=(10, 10))

# %%
# Held-back patches and their reconstructions
# -------------------------------------------

pictures = plot_reconstructions(model, held_back[:20], image_shape=(10, 10))
