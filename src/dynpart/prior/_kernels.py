"""Compiled: what EM over codes sums up, and the forest of strongest dependences.

A code is the list of its active experts, so that a step takes as long as codes are, not as experts
are many.
"""

# mypy: allow-untyped-defs
from __future__ import annotations

import numpy as np

from dynpart.compiled import compiled, in_place, inlined

LEAST = -25.0
"""Nats below the likeliest type from which on a type adds nothing to P(h): one in 10^11."""
LEAST_SHARE = -12.0
"""The same for a row's share in a type, while types are learnt: six in a million."""


@compiled
def shares_of_types(start, experts, counts, tables, share, n_rows, active):
    """Rows of each code that belong to each type, and sums over them; returns sum of log P(h).

    Parameters
    ----------
    start : ndarray of shape (n_codes + 1,)
        Where in `experts` the active experts of each code begin.
    experts : ndarray of shape (n_active,)
    counts : ndarray of shape (n_codes,)
        How many rows have each code.
    tables : tuple
        A prior's coefficients, `CodePrior.by_expert`.
    share : ndarray of shape (n_codes, n_types)
        To be filled in.
    n_rows : ndarray of shape (n_types,)
        Zeros, to which the rows of each type are added.
    active : ndarray of shape (n_types, n_experts)
        Zeros, to which the rows of each type are added in which an expert is active.
    """
    n_types, n_experts = active.shape
    is_active, score = np.zeros(n_experts + 1), np.empty(n_types)
    linked = tables[3].any()
    total = 0.0
    for i in range(len(counts)):
        code = experts[start[i] : start[i + 1]]
        score_types(code, tables, linked, is_active, score)
        total += counts[i] * _shared_out(score, LEAST_SHARE, counts[i], share[i])
        for c in range(n_types):
            if share[i, c] > 0:
                n_rows[c] += share[i, c]
                for k in code:
                    active[c, k] += share[i, c]
    return total


@compiled
def log_probabilities(start, experts, tables, found):
    """Log P(h) of codes, filled into `found`; see `shares_of_types`."""
    single = tables[1]
    is_active = np.zeros(len(single) + 1)
    score, share = np.empty(single.shape[1]), np.empty(single.shape[1])
    linked = tables[3].any()
    for i in range(len(found)):
        score_types(experts[start[i] : start[i + 1]], tables, linked, is_active, score)
        found[i] = _shared_out(score, LEAST, 1.0, share)


@in_place
def score_types(code, tables, linked, is_active, score):
    """Log w_c + log P_c(h) of a code; edges count if there are any, that is if types are `linked`.

    `is_active` is all zeros, and left so.
    """
    constant, single, parent, pair = tables
    n_types = len(score)
    for c in range(n_types):
        score[c] = constant[c]
    for k in code:
        for c in range(n_types):
            score[c] += single[k, c]
    if linked:
        for k in code:
            is_active[k] = 1.0
        for k in code:
            for c in range(n_types):
                score[c] += pair[k, c] * is_active[parent[k, c]]
        for k in code:
            is_active[k] = 0.0


@in_place
def _shared_out(score, least, count, share):
    """Share out so many rows by the exponentials of scores; returns the log of their sum.

    Types that are more than `least` nats below the likeliest get nothing.
    """
    most = score[0]
    for c in range(1, len(score)):
        most = max(most, score[c])
    total = 0.0
    for c in range(len(score)):
        share[c] = np.exp(score[c] - most) if score[c] - most > least else 0.0
        total += share[c]
    for c in range(len(score)):
        share[c] *= count / total
    return most + np.log(total)


@compiled
def sums_of_pairs(start, experts, counts, share, least, first, pairs):
    """Add up in how many rows of each type two experts are both active.

    Parameters
    ----------
    start, experts, counts, share
        See `shares_of_types`.
    least : float
        Share of a row in a type below which it adds nothing.
    first : int
        The type that `pairs` begins with.
    pairs : ndarray of shape (n_some_types, n_experts, n_experts)
        Zeros, to which rows are added.
    """
    for i in range(len(counts)):
        code = experts[start[i] : start[i + 1]]
        for c in range(len(pairs)):
            rows = share[i, first + c]
            if rows > least * counts[i]:
                for k in code:
                    for other in code:
                        pairs[c, k, other] += rows


@compiled
def heaviest_forests(pairs, n_rows, overall, shrinkage, price, parent):
    """Parents in forests of the strongest dependences, of those that pay for themselves (Prim).

    An edge gains the mutual information of its ends, times the rows of the type. That is at most
    what telling either of them takes, so experts that are almost always or never active are passed
    over.

    Parameters
    ----------
    pairs : ndarray of shape (n_types, n_experts, n_experts)
        Rows in which both experts are active.
    n_rows : ndarray of shape (n_types,)
    overall : ndarray of shape (n_experts,)
        How often each expert is active in all rows.
    shrinkage : float
        Rows of independent experts with these frequencies that are added to each type.
    price : float
        Nats that an edge must gain.
    parent : ndarray of shape (n_types, n_experts)
        To be filled in; -1 for those without.
    """
    n_types, n_experts = parent.shape
    best, link = np.empty(n_experts), np.empty(n_experts, np.int64)
    single, entropy = np.empty(n_experts), np.empty(n_experts)
    for c in range(n_types):
        total = n_rows[c] + shrinkage
        for k in range(n_experts):
            single[k] = pairs[c, k, k] + shrinkage * overall[k]
            entropy[k] = _x_log_x(single[k]) + _x_log_x(total - single[k]) - _x_log_x(total)
            best[k], link[k] = 0.0, -1
        for _ in range(n_experts):
            k = int(np.argmax(best))
            parent[c, k] = link[k]
            best[k] = -np.inf  # it has a place now
            if -entropy[k] <= price:
                continue
            for other in range(n_experts):
                if best[other] == -np.inf or -entropy[other] <= price + best[other]:
                    continue
                both = pairs[c, k, other] + shrinkage * overall[k] * overall[other]
                gain = _x_log_x(both) + _x_log_x(single[k] - both) - entropy[k] - entropy[other]
                gain += _x_log_x(single[other] - both)
                gain += _x_log_x(total - single[k] - single[other] + both)
                gain -= price + _x_log_x(total)
                if gain > best[other]:
                    best[other], link[other] = gain, k


@inlined
def _x_log_x(x):
    return x * np.log(x) if x > 0 else 0.0


def code_lists(codes):
    """Where in the list of active experts those of each code begin, and the list."""
    row, expert = np.nonzero(codes)
    return np.searchsorted(row, np.arange(len(codes) + 1)), expert.astype(np.int32)
