"""A fingerprint of the training rows, by which a checkpoint recognises its data."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import Any

import numpy as np

from dynpart.arrays import row_blocks, to_numpy
from dynpart.engines.blocks import BlockRows
from dynpart.rows import Rows

CHUNK_VALUES = 1 << 22
"""Number of values copied from a GPU, or read from a mapped file, at a time."""


def digest_rows(rows: Any, engine: Any = None) -> str:
    """A hash of the values, their type and order, and the weights.

    Parameters
    ----------
    rows : object
        The data in the form of an engine. Rows in memory are read once, in pieces. Blocks are read
        once more; the hash includes their boundaries, because these affect rounding. Chunks of a
        Dask array are hashed on their workers.
    engine : Engine, default=None
        The engine of a Dask array, which has the cluster.

    Returns
    -------
    str

    Examples
    --------
    >>> import numpy as np
    >>> from dynpart.persistence import digest_rows
    >>> from dynpart.rows import Rows
    >>> digest_rows(Rows(np.eye(3))) == digest_rows(Rows(np.eye(3)[::-1]))
    False
    """
    if isinstance(rows, BlockRows):
        return _joined(map(_digest, rows))
    if getattr(engine, "name", None) == "dask":
        return _joined(engine.client.gather(engine.map("digest", _digest, rows.blocks)))
    return _digest(rows)


def _digest(rows: Rows) -> str:
    """The fingerprint of some rows."""
    n_rows, n_features = rows.shape
    kind = to_numpy(rows.values[:1]).dtype
    digest = hashlib.sha256(f"{kind.str} {n_rows} {n_features}".encode())
    for block in row_blocks(n_rows, n_features, values=CHUNK_VALUES):
        part = np.ascontiguousarray(to_numpy(rows.values[block]))
        digest.update(part.reshape(-1).view(np.uint8).data)
    if rows.weight is not None:
        digest.update(np.ascontiguousarray(to_numpy(rows.weight)).tobytes())
    return digest.hexdigest()


def _joined(digests: Iterable[str]) -> str:
    return hashlib.sha256(" ".join(digests).encode()).hexdigest()
