"""Compiled: Gibbs sampling of codes, with the type of the row as a further variable.

Given the type, experts depend on each other along a tree only, so the log-odds of an expert are a
sum over its neighbours in the tree.
"""

# mypy: allow-untyped-defs
from __future__ import annotations

import numpy as np

from dynpart.compiled import compiled, in_place
from dynpart.neighbourhood._kernels import MOST, list_code

EXCHANGES = 2
"""Experts of a code, drawn at random, that may be exchanged for another in a sweep."""


@compiled
def resample(density, ranks, active, tables, fewest, most, uniform):
    """One sweep over each row's code, which is replaced by the next one of its chain.

    A sweep draws the type of the row, exchanges for some active experts, and then the state of
    every expert in turn, each given all others.

    Parameters
    ----------
    density : ndarray of shape (n_rows, n_experts, n_features)
        Log-densities of values under experts.
    ranks : ndarray of shape (n_experts, n_features)
    active : ndarray of shape (n_rows, n_experts), bool
        Codes, none of which is empty; overwritten.
    tables : tuple
        Coefficients of a prior, `CodePrior.by_expert`.
    fewest, most : int
        Limits on the number of active experts.
    uniform : ndarray of shape (n_rows, 1 + 2 * EXCHANGES + n_experts)
        Random numbers between 0 and 1.
    """
    n_experts, n_features = ranks.shape
    code = np.zeros(n_experts + 1, np.bool_), np.empty(n_experts, np.int64)
    holders = (
        np.empty(n_features, np.int64),
        np.empty(n_features, ranks.dtype),
        np.empty(n_features, ranks.dtype),
    )
    opinions = np.empty(n_features), np.empty(n_features)
    values = np.empty(n_experts), np.empty(n_experts), np.empty(len(tables[0]))
    terms = np.empty(n_features)
    for i in range(len(active)):
        scratch = code, holders, opinions, values, terms
        sweep(density[i], ranks, active[i], tables, fewest, most, uniform[i], scratch)


@in_place
def sweep(density, ranks, active, tables, fewest, most, uniform, scratch):
    """One sweep over a code."""
    (is_active, seats), holders, opinions, (odds, gains, joint), terms = scratch
    n_experts = len(ranks)
    n_active = list_code(active, is_active, seats)
    c = drawn_type(seats[:n_active], is_active, tables, joint, uniform[0])
    find_odds(seats[:n_active], is_active, tables, c, odds)
    find_holders(seats[:n_active], ranks, density, holders, opinions)
    for e in range(EXCHANGES):
        s = int(uniform[1 + 2 * e] * n_active)
        gone = seats[s]
        turn(gone, False, is_active, tables, c, odds)
        find_gains(gone, ranks, density, holders, opinions, terms, gains)
        for k in range(n_experts):
            gains[k] = -np.inf if is_active[k] else gains[k] + odds[k]
        joins = drawn(gains, uniform[2 + 2 * e])
        turn(joins, True, is_active, tables, c, odds)
        if joins != gone:
            seats[s] = joins
            find_holders(seats[:n_active], ranks, density, holders, opinions)
    for k in range(n_experts):
        if not (n_active > fewest if is_active[k] else n_active < most):
            continue
        gain = odds[k] + gain_of(k, is_active, ranks, density, holders, opinions, terms)
        wanted = uniform[1 + 2 * EXCHANGES + k] * (1 + np.exp(min(-gain, MOST))) < 1
        if wanted != is_active[k]:
            turn(k, wanted, is_active, tables, c, odds)
            if wanted:
                seats[n_active] = k
                n_active += 1
            else:
                n_active -= 1
                s = 0
                while seats[s] != k:
                    s += 1
                seats[s] = seats[n_active]
            find_holders(seats[:n_active], ranks, density, holders, opinions)
    for k in range(n_experts):
        active[k] = is_active[k]


@in_place
def drawn(values, u):
    """The index drawn with probability proportional to exp(values); `values` is overwritten."""
    top, total = -np.inf, 0.0
    for k in range(len(values)):
        top = max(top, values[k])
    for k in range(len(values)):
        values[k] = np.exp(values[k] - top)
        total += values[k]
    left, k = u * total, 0
    while k < len(values) - 1 and left >= values[k]:
        left -= values[k]
        k += 1
    while values[k] == 0:  # rounding, at the end
        k -= 1
    return k


@in_place
def drawn_type(code, is_active, tables, joint, u):
    """A type of row given its code; `joint` is scratch."""
    constant, single, parent, pair, _ = tables
    for c in range(len(joint)):
        joint[c] = constant[c]
    for k in code:
        for c in range(len(joint)):
            joint[c] += single[k, c] + (pair[k, c] if is_active[parent[k, c]] else 0.0)
    return drawn(joint, u)


@in_place
def find_odds(code, is_active, tables, c, odds):
    """Log-odds of each expert in rows of type c, given the other experts of the code."""
    _, single, parent, pair, _ = tables
    for k in range(len(odds)):
        odds[k] = single[k, c] + (pair[k, c] if is_active[parent[k, c]] else 0.0)
    for k in code:
        if parent[k, c] < len(odds):
            odds[parent[k, c]] += pair[k, c]


@in_place
def turn(k, on, is_active, tables, c, odds):
    """Turn expert k on or off, with the log-odds of its neighbours in type c."""
    _, _, parent, pair, _ = tables
    is_active[k] = on
    sign = 1.0 if on else -1.0
    if parent[k, c] < len(odds):
        odds[parent[k, c]] += sign * pair[k, c]
    for child in range(len(odds)):
        if parent[child, c] == k:
            odds[child] += sign * pair[child, c]


@in_place
def find_holders(code, ranks, density, holders, opinions):
    """Owner of each variable, its rank and that of the heir, and their log-densities."""
    owner, best, second = holders
    own, next_own = opinions
    nobody = ranks.dtype.type(len(ranks))
    owner[:], best[:], second[:], own[:], next_own[:] = -1, nobody, nobody, 0.0, 0.0
    for k in code:
        # One variable per step and no branches, so that the compiler vectorises.
        for d in range(len(own)):
            rank, value = ranks[k, d], density[k, d]
            first, next_ = rank < best[d], rank < second[d]
            second[d] = best[d] if first else (rank if next_ else second[d])
            next_own[d] = own[d] if first else (value if next_ else next_own[d])
            best[d] = rank if first else best[d]
            own[d] = value if first else own[d]
            owner[d] = k if first else owner[d]


@in_place
def find_gains(gone, ranks, density, holders, opinions, terms, gains):
    """Gains of all experts over the code without its expert `gone`, up to a constant."""
    owner, best, second = holders
    own, next_own = opinions
    for k in range(len(ranks)):
        for d in range(len(own)):
            left = owner[d] == gone
            now, rank = (next_own[d], second[d]) if left else (own[d], best[d])
            terms[d] = density[k, d] - now if ranks[k, d] < rank else 0.0
        gains[k] = sum_of(terms)


@in_place
def gain_of(k, is_active, ranks, density, holders, opinions, terms):
    """Log-likelihood with expert k minus that without it."""
    owner, best, _ = holders
    own, next_own = opinions
    for d in range(len(own)):
        if is_active[k]:
            terms[d] = own[d] - next_own[d] if owner[d] == k else 0.0
        else:
            terms[d] = density[k, d] - own[d] if ranks[k, d] < best[d] else 0.0
    return sum_of(terms)


@in_place
def sum_of(values):
    """Sum by four independent partial sums, because additions to one sum are serial."""
    a = b = c = d = 0.0
    whole = len(values) // 4 * 4
    for at in range(0, whole, 4):
        a += values[at]
        b += values[at + 1]
        c += values[at + 2]
        d += values[at + 3]
    for at in range(whole, len(values)):
        a += values[at]
    return (a + b) + (c + d)
