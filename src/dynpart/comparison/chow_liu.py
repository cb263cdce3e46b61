"""Chow-Liu trees of binary columns: the tree under which training rows are likeliest."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.sparse.csgraph import breadth_first_order, minimum_spanning_tree

from dynpart.prior import CodePrior

Array = NDArray[np.float64]

SMOOTHING = 0.5
"""Pseudo-count of each value of a column, for each value of its parent."""
ROWS_AT_ONCE = 2**16
"""Rows whose pairs are counted at once: single precision is exact up to this count."""


def chow_liu_tree(rows: NDArray) -> CodePrior:
    """The tree of largest total mutual information (Chow & Liu, 1968).

    Parameters
    ----------
    rows : ndarray of shape (n_rows, n_features)
        Zeros and ones.

    Returns
    -------
    CodePrior
        Of a single type: the distribution of binary rows in which every column but the first
        depends on its parent. `log_prob` gives log P(x).

    Examples
    --------
    >>> import numpy as np
    >>> coin = np.arange(200) % 2
    >>> tree = chow_liu_tree(np.c_[coin, coin])
    >>> np.exp(tree.log_prob(np.array([[0, 0], [0, 1], [1, 1]]))).round(3)
    array([0.498, 0.002, 0.498])
    """
    counts = pair_counts(rows)
    # A weight of 0 would mean that there is no edge.
    weight = -1.0 - mutual_information(counts)
    np.fill_diagonal(weight, 0.0)
    _, parent = breadth_first_order(minimum_spanning_tree(weight), 0, directed=False)
    every = np.arange(len(parent))
    # The root has its own frequencies, repeated for both values of a parent that does not exist.
    branch = np.moveaxis(counts[:, :, np.maximum(parent, 0), every], 2, 0)
    branch[0] = np.diagonal(counts[:, :, 0, 0])
    smoothed = branch + SMOOTHING
    table = np.log(smoothed / smoothed.sum(axis=2, keepdims=True))
    return CodePrior(np.zeros(1), np.maximum(parent, -1)[None].astype(np.int64), table[None])


def pair_counts(rows: NDArray) -> Array:
    """Joint counts of the values of all pairs of columns.

    Parameters
    ----------
    rows : ndarray of shape (n_rows, n_features)

    Returns
    -------
    ndarray of shape (2, 2, n_features, n_features)
        ``[a, b, i, j]`` is the number of rows with a in column i and b in column j.
    """
    n_rows, n_features = rows.shape
    both = np.zeros((n_features, n_features))
    for begin in range(0, n_rows, ROWS_AT_ONCE):
        block = rows[begin : begin + ROWS_AT_ONCE].astype(np.float32)
        both += block.T @ block
    on = np.diagonal(both)
    left, right = on[:, None] - both, on[None, :] - both
    return np.array([[n_rows - both - left - right, right], [left, both]])


def mutual_information(counts: Array) -> Array:
    """Mutual information of all pairs of columns in nats, shape (n_features, n_features).

    Parameters
    ----------
    counts : ndarray of shape (2, 2, n_features, n_features)
        See `pair_counts`.
    """
    p = counts / counts.sum(axis=(0, 1))
    expected = p.sum(axis=1, keepdims=True) * p.sum(axis=0, keepdims=True)
    ratio = np.divide(p, expected, out=np.ones_like(p), where=p > 0)
    return np.maximum(np.sum(p * np.log(ratio), axis=(0, 1)), 0.0)
