"""Greedy pursuit of binary codes under four composition rules, for binary rows.

Rules are written in odds o = p / (1 - p), where none needs a logarithm per variable: the
likelihood is collected as a product and its logarithm taken once per block of variables.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from dynpart.compiled import compiled, part

Array = NDArray[np.float64]

MAX, MAX_MIN, EQUAL, LOG_ODDS = range(4)

LIMIT = 1e6  # odds are clipped to [1 / LIMIT, LIMIT]
BLOCK = 32  # so many odds within the limit, or probabilities above 1e-6, multiply without overflow
MARGIN = 1e-3  # nats a unit must gain beyond its cost, as in our own pursuit


# One function per rule, each slicing its own blocks: otherwise the compiler does not vectorise.


@part(fastmath=True)
def _score_max(x, a, unit, limit):  # type: ignore[no-untyped-def]
    total = 0.0
    for lo in range(0, len(x), BLOCK):
        x_, a_, unit_ = x[lo : lo + BLOCK], a[lo : lo + BLOCK], unit[lo : lo + BLOCK]
        above, below = 1.0, 1.0
        for d in range(len(x_)):
            odds = a_[d] if a_[d] > unit_[d] else unit_[d]
            odds = min(max(odds, 1.0 / limit), limit)
            above *= x_[d] * (odds - 1.0) + 1.0
            below *= 1.0 + odds
        total += math.log(above / below)
    return total


@part(fastmath=True)
def _score_max_min(x, a, b, unit, limit):  # type: ignore[no-untyped-def]
    total = 0.0
    for lo in range(0, len(x), BLOCK):
        x_, a_, unit_ = x[lo : lo + BLOCK], a[lo : lo + BLOCK], unit[lo : lo + BLOCK]
        b_ = b[lo : lo + BLOCK]
        above, below = 1.0, 1.0
        for d in range(len(x_)):
            most = a_[d] if a_[d] > unit_[d] else unit_[d]
            odds = most * (b_[d] if b_[d] < unit_[d] else unit_[d])
            odds = min(max(odds, 1.0 / limit), limit)
            above *= x_[d] * (odds - 1.0) + 1.0
            below *= 1.0 + odds
        total += math.log(above / below)
    return total


@part(fastmath=True)
def _score_log_odds(x, a, unit, limit):  # type: ignore[no-untyped-def]
    total = 0.0
    for lo in range(0, len(x), BLOCK):
        x_, a_, unit_ = x[lo : lo + BLOCK], a[lo : lo + BLOCK], unit[lo : lo + BLOCK]
        above, below = 1.0, 1.0
        for d in range(len(x_)):
            odds = a_[d] * unit_[d]
            odds = min(max(odds, 1.0 / limit), limit)
            above *= x_[d] * (odds - 1.0) + 1.0
            below *= 1.0 + odds
        total += math.log(above / below)
    return total


@part(fastmath=True)
def _score_equal(x, a, unit, count, limit):  # type: ignore[no-untyped-def]
    total = 0.0
    share = 1.0 / (count + 1.0)
    lowest = 1.0 / (1.0 + limit)
    for lo in range(0, len(x), BLOCK):
        x_, a_, unit_ = x[lo : lo + BLOCK], a[lo : lo + BLOCK], unit[lo : lo + BLOCK]
        density = 1.0
        for d in range(len(x_)):
            p = min(max((a_[d] + unit_[d]) * share, lowest), 1.0 - lowest)
            density *= 1.0 - p + x_[d] * (2.0 * p - 1.0)
        total += math.log(density)
    return total


@part
def _score(rule, x, a, b, unit, count, limit):  # type: ignore[no-untyped-def]
    """Log-likelihood of a row after `unit` is added to the state (a, b, count)."""
    if rule == MAX:
        return _score_max(x, a, unit, limit)
    if rule == MAX_MIN:
        return _score_max_min(x, a, b, unit, limit)
    if rule == LOG_ODDS:
        return _score_log_odds(x, a, unit, limit)
    return _score_equal(x, a, unit, count, limit)


@part
def _join(rule, a, b, unit):  # type: ignore[no-untyped-def]
    """Add `unit` to the state, in place."""
    for d in range(len(unit)):
        if rule == MAX:
            a[d] = max(a[d], unit[d])
        elif rule == MAX_MIN:
            a[d] = max(a[d], unit[d])
            b[d] = min(b[d], unit[d])
        elif rule == LOG_ODDS:
            a[d] = min(max(a[d] * unit[d], 1.0 / LIMIT), LIMIT)
        else:
            a[d] += unit[d]


@part
def _pursue_row(rule, x, units, start_a, start_b, silent, cost, limit, fewest, place, order):  # type: ignore[no-untyped-def]
    """Code of one row; the first unit is the one at `place` in the order of gains."""
    a, b = start_a.copy(), start_b.copy()
    scores = np.empty(len(units))
    inactive = np.ones(len(units), dtype=np.bool_)
    current = -math.inf if rule == EQUAL else _score(rule, x, a, b, silent, 0, limit)
    for step in range(len(order)):
        for k in range(len(units)):
            scores[k] = _score(rule, x, a, b, units[k], step, limit) if inactive[k] else -math.inf
        chosen = np.argmax(scores)
        if step >= fewest and scores[chosen] - current <= cost + MARGIN:
            break
        if step == 0:
            for _ in range(place):
                scores[chosen] = -math.inf
                chosen = np.argmax(scores)
        _join(rule, a, b, units[chosen])
        inactive[chosen] = False
        order[step] = chosen
        current = scores[chosen]
    return current


@compiled
def _pursue(rule, X, units, start_a, start_b, silent, cost, limit, fewest, most, n_starts):  # type: ignore[no-untyped-def]
    n_rows = len(X)
    order = np.full((n_rows, most), -1, dtype=np.int32)
    likelihood = np.empty(n_rows)
    for n in range(n_rows):
        x = X[n].astype(np.float64)
        worth = -math.inf
        for place in range(n_starts):
            code = np.full(most, -1, dtype=np.int32)
            found = _pursue_row(
                rule, x, units, start_a, start_b, silent, cost, limit, fewest, place, code
            )
            if found - cost * np.sum(code >= 0) > worth + MARGIN or place == 0:
                worth = found - cost * np.sum(code >= 0)
                order[n] = code
                likelihood[n] = found
    return order, likelihood


def pursue(
    rule: int,
    X: NDArray,
    units: Array,
    start: Array,
    *,
    cost: float = 0.0,
    limit: float = LIMIT,
    min_active: int = 0,
    max_active: int | None = None,
    n_starts: int = 1,
) -> tuple[NDArray[np.int32], Array]:
    """Activate the unit that gains most, until none gains more than `cost`.

    Parameters
    ----------
    rule : int
        MAX, MAX_MIN, EQUAL or LOG_ODDS.
    X : ndarray of shape (n_rows, n_features)
        Binary rows.
    units : ndarray of shape (n_units, n_features)
        Odds of the units; for EQUAL their probabilities.
    start : ndarray of shape (n_features,)
        Odds with no unit active (MAX and LOG_ODDS; the other rules start undecided).
    cost : float, default=0.0
        Nats a unit must gain.
    limit : float, default=LIMIT
        Composed odds are clipped to [1 / limit, limit].
    min_active, max_active : int
        Limits on active units per row.
    n_starts : int, default=1
        Pursuits of a row, each starting with another unit; the best code is kept.

    Returns
    -------
    order : ndarray of shape (n_rows, max_active)
        Units in the order of activation, padded with -1.
    log_likelihood : ndarray of shape (n_rows,)
        Within the limit.
    """
    most = len(units) if max_active is None else min(max_active, len(units))
    fewest = max(min_active, 1) if rule == EQUAL else min_active
    undecided = np.ones(X.shape[1])
    if rule == EQUAL:
        start = np.zeros(X.shape[1])
    elif rule == MAX_MIN:
        start = undecided
    silent = np.zeros(X.shape[1]) if rule == MAX else undecided
    rows = np.ascontiguousarray(X, dtype=np.uint8)
    units = np.ascontiguousarray(units, dtype=np.float64)
    fewest, n_starts = min(fewest, most), min(n_starts, len(units))
    cost, limit = float(cost), float(limit)  # kernels are compiled once more for integers
    return _pursue(rule, rows, units, start, undecided, silent, cost, limit, fewest, most, n_starts)


def codes_from_order(order: NDArray[np.int32], n_units: int) -> NDArray[np.uint8]:
    """Binary codes of shape (n_rows, n_units) from orders of activation."""
    codes = np.zeros((len(order), n_units), dtype=np.uint8)
    rows, steps = np.nonzero(order >= 0)
    codes[rows, order[rows, steps]] = 1
    return codes
