"""Savings: bits that a model saves on rows, against independent columns; only uses its scores."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dynpart.arrays import to_numpy
from dynpart.listing import taken
from dynpart.wording import MANY_BITS, saving_in_words

Array = NDArray[np.float64]
NATS = math.log(2)
"""Nats in a bit."""
SUMMED_ROWS = 1000
"""Maximum number of rows for which codes are summed; their gain stands for that of all rows."""


def worth_in_words(
    model: Any,
    X: Any,
    scores: Array,
    independent: Array,
    *,
    weights: Array | None = None,
    row: str = "row",
    part: str = "column",
) -> str:
    """A sentence on the bits that a model saves on rows: with one code, and with all codes.

    Parameters
    ----------
    model : DynamicPartitionModel
    X : array-like of shape (n_rows, n_features)
    scores, independent : ndarray of shape (n_rows,)
        `score_samples` and `independent_scores` of the rows.
    weights : ndarray of shape (n_rows,), default=None
    row, part : str
    """
    saved = float(np.average(scores - independent, weights=weights)) / NATS
    summed = summed_saving(model, X, scores, saved, weights)
    repeats = float(np.average(model._saved_by_repeats(X), weights=weights)) / NATS
    return saving_in_words(saved, row, part, summed, repeats)


def summed_saving(
    model: Any, X: Any, scores: Array, saved: float, weights: Array | None = None
) -> float | None:
    """Bits per row that the sum over all codes saves; with many rows, estimated on some of them.

    Parameters
    ----------
    model : DynamicPartitionModel
    X : array-like of shape (n_rows, n_features)
    scores : ndarray of shape (n_rows,)
        `score_samples` of the rows.
    saved : float
        Bits per row that one code per row saves.
    weights : ndarray of shape (n_rows,), default=None

    Returns
    -------
    float or None
        None if `saved` is so large that the sum does not matter.
    """
    if saved >= MANY_BITS:
        return None
    chosen = np.arange(len(scores)) if weights is None else np.flatnonzero(weights)
    if len(chosen) > SUMMED_ROWS:
        chosen = chosen[np.arange(SUMMED_ROWS) * len(chosen) // SUMMED_ROWS]
    some = X if len(chosen) == len(scores) else taken(X, chosen)
    more = to_numpy(model.log_density(some)) - scores[chosen]
    of_rows = None if weights is None else weights[chosen]
    return saved + float(np.average(more, weights=of_rows)) / NATS
