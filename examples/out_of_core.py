"""Learn from a folder of files that need not fit in memory, then go on with a stream.

python examples/out_of_core.py
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np

from dynpart import DynamicPartitionModel
from dynpart.datasets import make_pairs


def main() -> None:
    """Write files, fit the folder, then learn from batches that pass by."""
    rng = np.random.default_rng(0)
    pairs = make_pairs(5).astype(np.uint8)
    with tempfile.TemporaryDirectory() as folder:
        for number in range(8):
            np.save(Path(folder, f"{number:03d}.npy"), pairs[rng.integers(0, 32, 5_000)])
        model = DynamicPartitionModel(n_experts=10, random_state=0).fit(folder)
    active = model.transform(pairs).sum(axis=1).mean()
    print(f"from files: {active:.1f} experts explain a row, {model.score(pairs):.2f} nats")

    for _ in range(5):  # new rows arrive, each is seen once
        model.partial_fit(pairs[rng.integers(0, 32, 500)])
    active = model.transform(pairs).sum(axis=1).mean()
    print(f"after the stream: {active:.1f} experts, {model.score(pairs):.2f} nats")


if __name__ == "__main__":
    main()
