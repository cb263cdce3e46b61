"""Column means and variances of a table, in one pass with bounded memory; parts add up."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import reduce
from operator import add, and_
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dynpart.arrays import (
    BLOCK_VALUES,
    as_float64,
    is_observed,
    is_tensor,
    like,
    namespace,
    row_blocks,
    to_numpy,
)

DEVICE_BLOCK_VALUES = 1 << 26
TINY = float(np.finfo(np.float64).tiny)
FEWEST_PIXELS = 64
"""Minimum number of columns for pixels: an image of 8 x 8."""
ALIKE = 0.1
"""Minimum of the median standard deviation of pixels, relative to the largest."""
MOST_FLAGS = 0.1
"""Maximum share of pixels with values 0 and 1 only."""


@dataclass(frozen=True)
class ColumnMoments:
    """Moments of each column over a block of rows; blocks combine with ``+``.

    Missing values are ignored, and rows count with their weights.

    Attributes
    ----------
    n_rows : int
        Number of rows, without weights.
    mean : ndarray of shape (n_features,)
        Mean of the observed values.
    variance : ndarray of shape (n_features,)
        Exactly 0 for constant columns, and only for these.
    is_binary : bool
        Whether every observed value is 0 or 1.
    weight : float
        Total weight of the rows: their number if they have no weights.
    observed : ndarray of shape (n_features,)
        Total weight of the rows in which a column was observed.
    levels : ndarray of shape (n_levels, n_features) or None
        Total weight of the rows in which a column had each level, if counted.
    zero_one : ndarray of shape (n_features,), bool, or None
        Whether every observed value of a column is 0 or 1, if checked.
    """

    n_rows: int
    mean: NDArray[np.float64]
    variance: NDArray[np.float64]
    is_binary: bool
    weight: float
    observed: NDArray[np.float64]
    levels: NDArray[np.float64] | None = None
    zero_one: NDArray[np.bool_] | None = None

    @classmethod
    def complete(cls, n_rows: int, mean: Any, variance: Any, is_binary: bool) -> ColumnMoments:
        """Moments of `n_rows` rows without weights or missing values."""
        flags = mean == mean if is_binary else None
        return cls(
            n_rows, mean, variance, is_binary, float(n_rows), 0 * mean + n_rows, zero_one=flags
        )

    def like(self, reference: Any) -> ColumnMoments:
        """The same moments as arrays of the type and device of `reference`."""
        names = ("mean", "variance", "observed", "levels", "zero_one")
        known = {name: getattr(self, name) for name in names if getattr(self, name) is not None}
        return replace(self, **{name: like(value, reference) for name, value in known.items()})

    def of_columns(self, columns: Any) -> ColumnMoments:
        """The moments of some of the columns, given by their indices `columns`."""
        return replace(
            self,
            mean=self.mean[columns],
            variance=self.variance[columns],
            observed=self.observed[columns],
            levels=None if self.levels is None else self.levels[:, columns],
            zero_one=None if self.zero_one is None else self.zero_one[columns],
        )

    def __add__(self, other: ColumnMoments) -> ColumnMoments:
        # The pairwise update of Chan et al.: no cancellation, whatever the size of the means.
        xp = namespace(self.mean)
        observed = self.observed + other.observed
        share = other.observed / xp.clip(observed, TINY, None)
        gap = xp.where((self.observed > 0) & (other.observed > 0), other.mean - self.mean, 0.0)
        mean = xp.where(self.observed > 0, self.mean + gap * share, other.mean)
        variance = (
            self.variance * (1 - share) + other.variance * share + gap**2 * share * (1 - share)
        )
        varies = (gap != 0) | (self.variance > 0) | (other.variance > 0)
        variance = xp.where(varies, xp.clip(variance, TINY, None), 0.0)
        return ColumnMoments(
            self.n_rows + other.n_rows,
            mean,
            variance,
            self.is_binary and other.is_binary,
            self.weight + other.weight,
            observed,
            _both(add, self.levels, other.levels),
            _both(and_, self.zero_one, other.zero_one),
        )

    @property
    def are_pixels(self) -> bool:
        """Whether the columns look like pixels, which share one scale, and not like variables.

        Pixels are many, and the median standard deviation of those that vary is at least a tenth of
        the largest. Many 0/1 columns among other columns are flags, not pixels.
        """
        variance = to_numpy(self.variance)
        varies = variance > 0
        if len(variance) < FEWEST_PIXELS or not varies.any():
            return False
        alike = np.median(variance[varies]) >= ALIKE**2 * variance.max()
        flags = np.zeros(len(variance)) if self.zero_one is None else to_numpy(self.zero_one)
        return bool(alike and flags[varies].mean() <= MOST_FLAGS)


def _both(operation: Callable[[Any, Any], Any], one: Any, other: Any) -> Any:
    """The operation on both, or None if one is unknown."""
    return None if one is None or other is None else operation(one, other)


def _block_moments(block: Any, weight: Any) -> ColumnMoments:
    xp = namespace(block)
    n_rows = len(block)
    whole = block.dtype in (xp.bool, xp.uint8)
    seen = None if whole else is_observed(block)
    if seen is None or bool(seen.all()):
        seen = None
    if whole:
        zero_one = xp.amax(block, axis=0) <= 1
    else:
        fits = (block == 0) | (block == 1)
        zero_one = (fits if seen is None else fits | ~seen).all(axis=0)
    is_binary = bool(zero_one.all())
    total = float(n_rows) if weight is None else float(weight.sum())
    if seen is None and weight is None and is_binary:
        mean = block.sum(axis=0, dtype=xp.float64) / n_rows
        return ColumnMoments.complete(n_rows, mean, mean * (1 - mean), True)
    values = as_float64(block)
    if seen is None and weight is None:
        observed = 0 * values[0] + n_rows
        mean, lowest, highest = (
            values.mean(axis=0),
            xp.amin(values, axis=0),
            xp.amax(values, axis=0),
        )
        spread = ((values - mean) ** 2).mean(axis=0)
    else:
        counted = xp.ones_like(values) if seen is None else as_float64(seen)
        if seen is not None:
            values = xp.where(seen, values, 0.0)
        inside = counted > 0
        if weight is not None:
            counted = counted * weight[:, None]
        observed = counted.sum(axis=0)
        share = counted / xp.clip(observed, TINY, None)
        mean = (share * values).sum(axis=0)
        spread = (share * (values - mean) ** 2).sum(axis=0)
        lowest = xp.amin(xp.where(inside, values, xp.inf), axis=0)
        highest = xp.amax(xp.where(inside, values, -xp.inf), axis=0)
    # The mean of equal values is rounded, and squares of small differences vanish.
    constant = lowest >= highest
    mean = xp.where(lowest == highest, lowest, mean)
    variance = xp.where(constant, 0.0, xp.clip(spread, TINY, None))
    if is_binary:
        variance = mean * (1 - mean)
    return ColumnMoments(n_rows, mean, variance, is_binary, total, observed, zero_one=zero_one)


def column_moments(X: NDArray, weight: NDArray | None = None) -> ColumnMoments:
    """Mean and variance of every column of `X`, block by block.

    Parameters
    ----------
    X : array of shape (n_rows, n_features)
        At least one row; NaN for missing values. Never copied as a whole.
    weight : array of shape (n_rows,), default=None
        Weights of the rows; 3 is equivalent to three equal rows.

    Returns
    -------
    ColumnMoments
        Moments of blocks of rows add up: ``column_moments(a) + column_moments(b)``.

    Examples
    --------
    >>> import numpy as np
    >>> from dynpart.families import column_moments
    >>> column_moments(np.array([[0.0, 1.0], [2.0, np.nan]])).mean
    array([1., 1.])
    """
    values = DEVICE_BLOCK_VALUES if is_tensor(X) else BLOCK_VALUES
    return reduce(
        lambda left, right: left + right,
        (
            _block_moments(X[block], None if weight is None else weight[block])
            for block in row_blocks(*X.shape, values=values)
        ),
    )
