"""Loading: creates an estimator from the content of a file."""

from __future__ import annotations

import os

from dynpart.estimator import DynamicPartitionModel
from dynpart.storage import MOST_BYTES, restore


def load(path: str | os.PathLike[str], *, max_bytes: int = MOST_BYTES) -> DynamicPartitionModel:
    """Read a fitted model from a file.

    Loading runs no code from the file. Its memory is at most a small multiple of the file's size.

    Parameters
    ----------
    path : path-like
        A file written by `save`.
    max_bytes : int, default=2**32
        Larger files are rejected.

    Returns
    -------
    DynamicPartitionModel
        As it was saved: same codes, same parameters, same history.

    Raises
    ------
    ModelFileError
        If the file is truncated, oversized, tampered with, foreign or of a newer format.
    FileNotFoundError
        If there is no file.
    """
    return restore(path, DynamicPartitionModel, max_bytes=max_bytes)
