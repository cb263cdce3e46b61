"""
Files that do not fit in memory, then a stream
==============================================

Learning needs only sums over rows. So ``fit`` reads a folder of files one block at a time, and
``partial_fit`` continues with rows that arrive later and are read once.
"""

# %%
# Eight files of 5,000 rows
# -------------------------
# The rows are the paper's synthetic example: ten binary columns in five pairs.

import tempfile
from pathlib import Path

import numpy as np

from dynpart import DynamicPartitionModel, load
from dynpart.datasets import make_pairs
from dynpart.plotting import plot_experts

rng = np.random.default_rng(0)
pairs = make_pairs(5).astype(np.uint8)

with tempfile.TemporaryDirectory() as folder:
    for number in range(8):
        np.save(Path(folder, f"{number:03d}.npy"), pairs[rng.integers(0, 32, 5_000)])
    model = DynamicPartitionModel(n_experts=10, random_state=0).fit(folder)

print(f"active experts per row: {model.transform(pairs).sum(axis=1).mean():.1f}")
print(f"score: {model.score(pairs):.2f} nats per row")

# %%
# New rows arrive
# ---------------
# Each batch updates running averages with a step that decreases from batch to batch. A stream
# scores codes by independent activations; ``recount`` learns their prior again, from rows.

for _ in range(5):
    model.partial_fit(pairs[rng.integers(0, 32, 500)])

print(f"score with independent activations: {model.score(pairs):.2f} nats per row")
model.recount(pairs[rng.integers(0, 32, 5_000)])
print(f"score with a learnt prior: {model.score(pairs):.2f} nats per row")

# %%
# One expert per level of a pair
# ------------------------------
# Each expert is certain about the two columns of one pair and undecided elsewhere.

figure = plot_experts(model)

# %%
# Save, load, continue
# --------------------
# A model file also holds the state of the stream: you can save it after any batch, load it and
# continue.

with tempfile.TemporaryDirectory() as folder:
    path = Path(folder, "stream.dynpart")
    model.save(path)
    loaded = load(path)

batch = pairs[rng.integers(0, 32, 500)]
model.partial_fit(batch)
loaded.partial_fit(batch)
print(f"equal to the last bit: {np.array_equal(model.means_, loaded.means_)}")
