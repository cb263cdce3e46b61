"""Column means and variances of a table, in one bounded-memory pass whose parts add up."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import reduce
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dynpart.arrays import as_float64, is_tensor, like, namespace

BLOCK_VALUES = 1 << 21
DEVICE_BLOCK_VALUES = 1 << 26


@dataclass(frozen=True)
class ColumnMoments:
    """What one block of rows says about each column; blocks combine with ``+``.

    Attributes
    ----------
    n_rows : int
    mean : ndarray of shape (n_features,)
    variance : ndarray of shape (n_features,)
    is_binary : bool
        Whether every value is 0 or 1.
    """

    n_rows: int
    mean: NDArray[np.float64]
    variance: NDArray[np.float64]
    is_binary: bool

    def like(self, reference: Any) -> ColumnMoments:
        """The same moments as the kind of arrays that `reference` is."""
        mean, variance = like(self.mean, reference), like(self.variance, reference)
        return replace(self, mean=mean, variance=variance)

    def __add__(self, other: ColumnMoments) -> ColumnMoments:
        # The pairwise update of Chan et al.: no cancellation, whatever the size of the means.
        n_rows = self.n_rows + other.n_rows
        share = other.n_rows / n_rows
        gap = other.mean - self.mean
        mean = self.mean + gap * share
        variance = (
            self.variance * (1 - share) + other.variance * share + gap**2 * share * (1 - share)
        )
        return ColumnMoments(n_rows, mean, variance, self.is_binary and other.is_binary)


def row_blocks(n_rows: int, row_size: int, *, values: int = BLOCK_VALUES) -> Iterator[slice]:
    """Slices that cut `n_rows` rows into blocks of about `values` numbers each."""
    step = max(1, values // max(1, row_size))
    for start in range(0, n_rows, step):
        yield slice(start, min(start + step, n_rows))


def _block_moments(block: Any) -> ColumnMoments:
    xp = namespace(block)
    if block.dtype in (xp.bool, xp.uint8):
        is_binary = bool(block.max() <= 1)
    else:
        is_binary = bool(((block == 0) | (block == 1)).all())
    if is_binary:
        mean = block.sum(axis=0, dtype=xp.float64) / len(block)
        return ColumnMoments(len(block), mean, mean * (1 - mean), True)
    values = as_float64(block)
    mean = values.mean(axis=0)
    return ColumnMoments(len(values), mean, ((values - mean) ** 2).mean(axis=0), False)


def column_moments(X: NDArray) -> ColumnMoments:
    """Mean and variance of every column of `X`, block by block.

    Parameters
    ----------
    X : array of shape (n_rows, n_features)
        At least one row; never copied as a whole.

    Returns
    -------
    ColumnMoments

    Examples
    --------
    >>> import numpy as np
    >>> from dynpart.families import column_moments
    >>> column_moments(np.array([[0.0, 1.0], [2.0, 1.0]])).mean
    array([1., 1.])
    """
    values = DEVICE_BLOCK_VALUES if is_tensor(X) else BLOCK_VALUES
    return reduce(
        lambda left, right: left + right,
        (_block_moments(X[block]) for block in row_blocks(*X.shape, values=values)),
    )
