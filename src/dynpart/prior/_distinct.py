"""Counts of equal codes: distinct codes in ascending order, on the host or on a GPU."""

from __future__ import annotations

from typing import Any

import numpy as np

from dynpart.arrays import as_float64, like, namespace, row_blocks, stable_order

WORD = 62
"""Number of bits of a code that are compared at a time, as one integer."""


def distinct_codes(codes: Any, weight: Any = None) -> tuple[Any, Any]:
    """One row of each distinct code, and the number of rows with this code.

    Parameters
    ----------
    codes : array of shape (n_rows, n_experts)
        Binary codes.
    weight : array of shape (n_rows,), default=None
        Weights of the rows; 3 is equivalent to three equal rows.

    Returns
    -------
    rows : array of shape (n_codes,), integers
        A row of each distinct code, in ascending order; the first expert is the highest bit.
    counts : array of shape (n_codes,), float64
        Total weight of the rows with this code.

    Examples
    --------
    >>> import numpy as np
    >>> from dynpart.prior import distinct_codes
    >>> distinct_codes(np.array([[1, 0], [0, 1], [1, 0]]))
    (array([1, 0]), array([1., 2.]))
    """
    xp, words = namespace(codes), _words(codes)
    order = stable_order(words[-1])
    for word in words[-2::-1]:
        order = order[stable_order(word[order])]
    in_order = xp.stack(words)[:, order]
    differs = (in_order[:, 1:] != in_order[:, :-1]).any(axis=0)
    begins = xp.concatenate([xp.ones_like(order[:1], dtype=bool), differs])
    first = xp.nonzero(begins)[0] if xp is np else begins.nonzero()[:, 0]
    if weight is None:
        ends = xp.concatenate([first[1:], first[:1] * 0 + len(order)])
        return order[first], as_float64(ends - first)
    total = xp.cumsum(as_float64(like(weight, codes))[order], 0)
    ends = xp.concatenate([total[first[1:] - 1], total[-1:]])
    counts = ends - xp.concatenate([ends[:1] * 0, ends[:-1]])
    return order[first], xp.clip(counts, 0.0, None)


def _words(codes: Any) -> list[Any]:
    """Codes as integers of 62 bits, the first bit the highest; each of shape (n_rows,)."""
    xp, (n_rows, n_experts) = namespace(codes), codes.shape
    words = []
    for start in range(0, n_experts, WORD):
        bits = codes[:, start : start + WORD]
        value = like(2 ** np.arange(bits.shape[1], dtype=np.int64)[::-1].copy(), codes)
        parts = [((bits[some] != 0) * value).sum(axis=1) for some in row_blocks(n_rows, WORD)]
        words.append(xp.concatenate(parts) if parts else 0 * value[:0])
    return words
