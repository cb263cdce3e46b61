"""Compiled: the sums of EM over codes, and the forest of the strongest dependences.

A code is the list of its active experts, so the time of a step depends on the length of codes and
not on the number of experts.
"""

# mypy: allow-untyped-defs
from __future__ import annotations

import numpy as np

from dynpart.compiled import compiled, in_place, inlined

LEAST = -25.0
"""Nats relative to the likeliest type below which a type is left out of P(h): one in 10^11."""


@compiled
def shares_of_types(start, experts, counts, tables, least, share, n_rows, active):
    """Rows of each code that belong to each type, and sums over them.

    Parameters
    ----------
    start : ndarray of shape (n_codes + 1,)
        Start of each code in `experts`.
    experts : ndarray of shape (n_active,)
    counts : ndarray of shape (n_codes,)
        Number of rows with each code.
    tables : tuple
        Coefficients of a prior, `CodePrior.by_expert`.
    least : float
        Nats relative to the likeliest type below which a type gets no rows.
    share : ndarray of shape (n_codes, n_types)
        Output.
    n_rows : ndarray of shape (n_types,)
        Zeros; the rows of each type are added.
    active : ndarray of shape (n_types, n_experts)
        Zeros; the rows of each type in which an expert is active are added.
    """
    n_types, n_experts = active.shape
    is_active, score = np.zeros(n_experts + 1), np.empty(n_types)
    linked = any_edge(tables[3])
    for i in range(len(counts)):
        code = experts[start[i] : start[i + 1]]
        score_types(code, tables, linked, is_active, score)
        _shared_out(score, least, counts[i], share[i])
        for c in range(n_types):
            if share[i, c] > 0:
                n_rows[c] += share[i, c]
                for k in code:
                    active[c, k] += share[i, c]


@compiled
def log_probabilities(start, experts, tables, found):
    """Log P(h) of codes, written to `found`; see `shares_of_types`."""
    single = tables[1]
    is_active = np.zeros(len(single) + 1)
    score, share = np.empty(single.shape[1]), np.empty(single.shape[1])
    linked = any_edge(tables[3])
    for i in range(len(found)):
        score_types(experts[start[i] : start[i + 1]], tables, linked, is_active, score)
        found[i] = _shared_out(score, LEAST, 1.0, share)


@in_place
def any_edge(pair):
    """Whether any type has an edge; NumPy's `any` would make Numba import SciPy."""
    for k in range(pair.shape[0]):
        for c in range(pair.shape[1]):
            if pair[k, c] != 0:
                return True
    return False


@in_place
def first_largest(values):
    """Index of the largest value, the first of several."""
    best = 0
    for place in range(1, len(values)):
        if values[place] > values[best]:
            best = place
    return best


@in_place
def score_types(code, tables, linked, is_active, score):
    """Log w_c + log P_c(h) of a code; edges count only if types are `linked`.

    `is_active` is all zeros before and after.
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
    """Divide `count` rows by the exponentials of scores; returns the log of their sum.

    Types whose score is below `least` nats relative to the likeliest get none.
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
def likeliest_types(start, experts, tables, own, most):
    """The likeliest type of codes in `own`, its log P(h, type) in `most`; see `shares_of_types`."""
    single = tables[1]
    is_active, score = np.zeros(len(single) + 1), np.empty(single.shape[1])
    linked = any_edge(tables[3])
    for i in range(len(own)):
        score_types(experts[start[i] : start[i + 1]], tables, linked, is_active, score)
        own[i] = first_largest(score)
        most[i] = score[own[i]]


@compiled
def sums_of_pairs(start, experts, counts, share, least, first, pairs):
    """Count the rows of each type in which two experts are both active.

    Parameters
    ----------
    start, experts, counts, share
        See `shares_of_types`.
    least : float
        Share of a row in a type below which it is left out.
    first : int
        First type of `pairs`.
    pairs : ndarray of shape (n_some_types, n_pairs)
        Zeros; rows are added. Expert k and another one up to k are at k (k + 1) / 2 + other.
    """
    for i in range(len(counts)):
        code = experts[start[i] : start[i + 1]]
        for c in range(len(pairs)):
            rows = share[i, first + c]
            if rows > least * counts[i]:
                for place in range(len(code)):
                    begin = code[place] * (code[place] + 1) // 2
                    for other in range(place + 1):
                        pairs[c, begin + code[other]] += rows


@compiled
def gains_of_edges(pairs, n_rows, overall, shrinkage, price, gain):
    """Gain of an edge between two experts, minus its price.

    The gain is the mutual information of both ends, times the rows of the type. It is at most the
    entropy of either end, so experts that are almost always or never active are skipped.

    Parameters
    ----------
    pairs : ndarray of shape (n_types, n_pairs)
        Rows in which both experts are active; see `sums_of_pairs`.
    n_rows : ndarray of shape (n_types,)
    overall : ndarray of shape (n_experts,)
        Frequency of each expert in all rows.
    shrinkage : float
        Weight, in rows, of independent experts with these frequencies in each type.
    price : float
        Nats that an edge must gain.
    gain : ndarray of shape (n_types, n_pairs)
        Zeros; written where a positive gain is possible.
    """
    n_experts = len(overall)
    single, entropy = np.empty(n_experts), np.empty(n_experts)
    for c in range(len(pairs)):
        total = n_rows[c] + shrinkage
        whole = _x_log_x(total)
        for k in range(n_experts):
            single[k] = pairs[c, k * (k + 1) // 2 + k] + shrinkage * overall[k]
            entropy[k] = whole - _x_log_x(single[k]) - _x_log_x(total - single[k])
            if entropy[k] <= price:
                continue
            begin = k * (k + 1) // 2
            for other in range(k):
                if entropy[other] <= price:
                    continue
                both = pairs[c, begin + other] + shrinkage * overall[k] * overall[other]
                found = _x_log_x(both) + _x_log_x(single[k] - both) + entropy[k] + entropy[other]
                found += _x_log_x(single[other] - both)
                found += _x_log_x(total - single[k] - single[other] + both)
                gain[c, begin + other] = found - whole - price


@compiled
def heaviest_forests(gain, parent):
    """Parents in the forests of the edges with the highest positive gains (Prim).

    Parameters
    ----------
    gain : ndarray of shape (n_types, n_pairs)
        See `gains_of_edges`.
    parent : ndarray of shape (n_types, n_experts)
        Output; -1 for roots.
    """
    n_types, n_experts = parent.shape
    best, link = np.empty(n_experts), np.empty(n_experts, np.int64)
    for c in range(n_types):
        best[:], link[:] = 0.0, -1
        for _ in range(n_experts):
            k = first_largest(best)
            parent[c, k] = link[k]
            best[k] = -np.inf  # it is in the forest now
            for other in range(n_experts):
                high, low = max(k, other), min(k, other)
                found = gain[c, high * (high + 1) // 2 + low]
                if found > best[other] and best[other] >= 0:
                    best[other], link[other] = found, k


@inlined
def _x_log_x(x):
    return x * np.log(x) if x > 0 else 0.0


def examples():
    """Every kernel with arguments of the types that fitting uses."""
    from dynpart.prior._code_prior import CodePrior

    tables, (start, experts) = CodePrior.independent([0.5, 0.5]).by_expert, code_lists(np.eye(2))
    one, share, pairs = np.ones(1), np.ones((2, 1)), np.ones((1, 3))
    lists = start, experts, np.ones(2)
    return [
        (shares_of_types, *lists, tables, LEAST, share, one, np.ones((1, 2))),
        (heaviest_forests, pairs, np.zeros((1, 2), np.int64)),
        (gains_of_edges, pairs, one, np.ones(2), 1.0, 1.0, pairs),
        (log_probabilities, start, experts, tables, np.ones(2)),
        (likeliest_types, start, experts, tables, np.zeros(2, np.int64), np.ones(2)),
        (sums_of_pairs, *lists, share, 1.0, 0, pairs),
    ]


def code_lists(codes):
    """Start of each code in the list of active experts, and the list."""
    row, expert = np.nonzero(codes)
    return np.searchsorted(row, np.arange(len(codes) + 1)), expert.astype(np.int32)
