"""
A cluster with Dask
===================

Rows stay on the workers; only sums are sent back. Here the cluster is two threads in this process.
On a real cluster only the client changes: ``Client("scheduler-address:8786")``. Needs ``pip install
'dynpart[dask]'``.
"""

# %%
# Rows generated on the workers
# -----------------------------
# Forty binary columns: ten pairs, and their opposites. No process ever holds the whole array.

import dask.array as da
import numpy as np
from distributed import Client

from dynpart import DynamicPartitionModel
from dynpart.plotting import plot_experts


def rows_of_parts(block, block_info=None):
    """The rows of one chunk."""
    number = block_info[0]["chunk-location"][0] if block_info else 0
    rng = np.random.default_rng(number)
    states = np.repeat(rng.integers(0, 2, (len(block), 10)), 2, axis=1).astype(np.uint8)
    return np.hstack([states, 1 - states])


X = da.zeros((40_000, 40), chunks=(10_000, 40), dtype=np.uint8).map_blocks(
    rows_of_parts, dtype=np.uint8
)

# %%
# Fit and encode
# --------------
# ``transform`` on a Dask array is lazy: codes are computed chunk by chunk on request.

with Client(processes=False, n_workers=1, threads_per_worker=2, dashboard_address=None):
    model = DynamicPartitionModel(n_experts=20, max_iter=10, random_state=0).fit(X)
    codes = model.transform(X)
    print(codes)
    print(f"{codes.sum(axis=1).mean().compute():.2f} active experts per row")

# %%
# The experts
# -----------
# Each expert owns the four columns of one part: a pair and its opposite.

figure = plot_experts(model)
