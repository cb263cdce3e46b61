"""Rows left out of a fit, to score it on unseen rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dynpart.arrays import like
from dynpart.engines import Engine

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class LeftOut:
    """Rows that are left out together.

    Attributes
    ----------
    indices : ndarray of shape (n_left_out,)
        Ascending.
    amount : ndarray of shape (n_left_out,) or None
        How much of each row's weight is left out; None if rows have no weights.
    """

    indices: NDArray[np.intp]
    amount: Array | None

    def taken(self, engine: Engine, rows: Any) -> Any:
        """The left-out ones among rows held by the engine."""
        part = engine.take(rows, self.indices)
        return part if self.amount is None else part.weighing(like(self.amount, part.values))

    def of_others(self, weight: Array | None, n_rows: int) -> tuple[NDArray[np.intp], Array | None]:
        """Rows with remaining weight, and this weight; None if rows have no weights."""
        if self.amount is None or weight is None:
            return np.delete(np.arange(n_rows), self.indices), None
        rest = weight.copy()
        rest[self.indices] -= self.amount
        left = np.flatnonzero(rest > 0)
        return left, rest[left]


def leave_out(
    weight: Array | None, n_rows: int, n_left_out: int, n_folds: int, rng: np.random.Generator
) -> list[LeftOut]:
    """Draw rows and divide them into folds; a row of weight w is drawn as w equal rows would be.

    Parameters
    ----------
    weight : ndarray of shape (n_rows,) or None
    n_rows : int
    n_left_out : int
        Total weight of the rows to draw; at most that of all rows.
    n_folds : int
    rng : numpy.random.Generator

    Returns
    -------
    list of LeftOut
        Non-empty folds.

    Examples
    --------
    >>> import numpy as np
    >>> [fold] = leave_out(np.array([2.0, 1.0]), 2, 3, 1, np.random.default_rng(0))
    >>> fold.indices, fold.amount
    (array([0, 1]), array([2., 1.]))
    """
    total = n_rows if weight is None else int(max(1, round(weight.sum())))
    places = rng.permutation(total)[:n_left_out]
    folds = [np.sort(places[part::n_folds]) for part in range(min(n_folds, len(places)))]
    if weight is None:
        return [LeftOut(fold, None) for fold in folds]
    # Unit u of n is the row at which the weight so far exceeds the middle of that unit.
    ends = np.cumsum(weight)
    middles = (np.arange(total) + 0.5) * (ends[-1] / total)
    rows = np.searchsorted(ends, middles, side="right").clip(max=n_rows - 1)
    found = []
    for fold in folds:
        indices, often = np.unique(rows[fold], return_counts=True)
        found.append(LeftOut(indices, np.minimum(often * (ends[-1] / total), weight[indices])))
    return found


def together(folds: list[LeftOut]) -> LeftOut:
    """The rows of all folds, left out at once."""
    indices = np.concatenate([fold.indices for fold in folds])
    found, place = np.unique(indices, return_inverse=True)
    if folds[0].amount is None:
        return LeftOut(found, None)
    amounts = np.concatenate([fold.amount for fold in folds if fold.amount is not None])
    return LeftOut(found, np.bincount(place, amounts, len(found)).astype(float))
