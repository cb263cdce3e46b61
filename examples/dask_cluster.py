"""Learn on a cluster and encode lazily; here the cluster is two processes on this machine.

pip install 'dynpart[dask]'
python examples/dask_cluster.py
"""

from __future__ import annotations

import numpy as np

from dynpart import DynamicPartitionModel


def rows_of_parts(block: np.ndarray, block_info: dict | None = None) -> np.ndarray:
    """Forty binary columns in ten pairs of parts, made where they are used."""
    number = block_info[0]["chunk-location"][0] if block_info else 0
    rng = np.random.default_rng(number)
    states = np.repeat(rng.integers(0, 2, (len(block), 10)), 2, axis=1).astype(np.uint8)
    return np.hstack([states, 1 - states])


def main() -> None:
    """Fit a Dask array that no single process ever holds, and encode it chunk by chunk."""
    import dask.array as da
    from distributed import Client

    with Client(n_workers=2, threads_per_worker=1):  # or Client("scheduler-address:8786")
        X = da.zeros((200_000, 40), chunks=(50_000, 40), dtype=np.uint8).map_blocks(
            rows_of_parts, dtype=np.uint8
        )
        model = DynamicPartitionModel(n_experts=20, max_iter=10, random_state=0, verbose=1).fit(X)
        H = model.transform(X)  # nothing is computed yet
        print(H)
        print(f"{H.sum(axis=1).mean().compute():.2f} experts explain a row")


if __name__ == "__main__":
    main()
