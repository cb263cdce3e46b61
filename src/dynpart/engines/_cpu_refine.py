"""Compiled refinement of hard codes: each active expert is dropped, replaced or kept.

Taking an expert out touches the variables it owns and no others: they fall to their heirs, the
second best of the active experts. A pass over all experts so costs about as much as one expert that
takes over every variable.
"""

# mypy: allow-untyped-defs, disable-error-code="unreachable"
from __future__ import annotations

import numpy as np
from numba import njit

from dynpart.engines._cpu_pursuit import (
    add_changes,
    best_expert,
    new_work,
    positions,
    take_over,
)

_u = np.uintp  # see _cpu_pursuit


@njit(cache=True, nogil=True)
def new_refinement(n_experts, rank):
    """Scratch of `refine_row`: that of a pursuit, owners, heirs, and gains without an expert.

    The last are flags for variables on which all experts agree: they are left to nobody.
    """
    n_features, n_lanes = rank.shape
    return (
        new_work(n_experts, n_features, rank),
        np.empty(n_features, rank.dtype),
        np.empty(n_features, rank.dtype),
        np.empty((1, n_lanes)),
        np.zeros(n_features, np.bool_),
    )


@njit(cache=True, nogil=True)
def opinion(k, nobody, offset, table):
    """Log-density of a variable under expert k, zero if k is nobody."""
    return table[_u(offset) + _u(k)] if k < nobody else np.float32(0)


@njit(cache=True, nogil=True)
def find_owners(code, rank_by_expert, scratch):
    """Find the best (owner) and second best (heir) of the code's experts for every variable."""
    (_, _, _, (owner_rank, _), (heir_rank, _)), owner, heir, _, agreed = scratch
    nobody = owner.dtype.type(rank_by_expert.shape[0])
    owner_rank[:] = nobody
    heir_rank[:] = nobody
    owner[:] = nobody
    heir[:] = nobody
    for step in range(code.size):
        if code[step] < 0:
            continue
        j = _u(code[step])
        expert = owner.dtype.type(j)
        for d in range(owner.size):
            r = rank_by_expert[j, d]
            first, second = r < owner_rank[d], r < heir_rank[d]
            heir[d] = owner[d] if first else expert if second else heir[d]
            heir_rank[d] = owner_rank[d] if first else r if second else heir_rank[d]
            owner[d] = expert if first else owner[d]
            owner_rank[d] = r if first else owner_rank[d]
    for d in range(owner.size):
        owner[d] = nobody if agreed[d] else owner[d]
        owner_rank[d] = 0 if agreed[d] else owner_rank[d]


@njit(cache=True, nogil=True)
def read_opinions(offsets, table, scratch):
    """Read the owners' opinions; where all experts agree, anybody's."""
    (_, _, _, (_, owner_log), _), owner, _, _, agreed = scratch
    for d in range(owner.size):
        k = 0 if agreed[d] else owner[d]
        owner_log[d] = table[_u(offsets[d]) + _u(k)]


@njit(cache=True, nogil=True)
def find_heirs(j, nobody, offsets, table, scratch):
    """List the variables of expert j and what their heirs think of them; returns how many."""
    (flags, owned, _, _, (_, heir_log)), owner, heir, _, _ = scratch
    j = owner.dtype.type(j)
    for d in range(owner.size):
        flags[d] = owner[d] == j
    m = positions(flags, owned)
    for q in range(m):
        at = _u(owned[q])
        heir_log[at] = opinion(heir[at], nobody, offsets[at], table)
    return m


@njit(cache=True, nogil=True)
def bequeath(m, work):
    """Leave m variables, those that `find_heirs` has listed, to their heirs."""
    _, owned, _, (owner_rank, owner_log), (heir_rank, heir_log) = work
    for q in range(m):
        d = _u(owned[q])
        owner_rank[d] = heir_rank[d]
        owner_log[d] = heir_log[d]


@njit(cache=True, nogil=True)
def gains_over_code(code, gains, i, offsets, table, rank, rank_by_expert, scratch):
    """Set gains[i] to the gains of all experts over those of a code."""
    (_, listed, _, owners, _), _, _, _, _ = scratch
    find_owners(code, rank_by_expert, scratch)
    read_opinions(offsets, table, scratch)
    # As if every owner lost its variable to an expert of the same opinion that nobody beats.
    unbeaten = np.zeros_like(owners[0])
    n_features = offsets.size
    for d in range(n_features):
        listed[d] = d
    gains[i] = 0.0
    new = unbeaten, owners[1]
    add_changes(gains, i, n_features, -1.0, listed, offsets, owners, new, 0, table, rank)


@njit(cache=True, nogil=True)
def swap_experts(code, gains, i, offsets, table, rank, rank_by_expert, rule, scratch):
    """Drop, replace or keep each active expert in turn, until a whole round has changed nothing."""
    min_active, _, margin, cost, n_swaps, _ = rule
    work, _, _, without, _ = scratch
    _, owned, active, owners, heirs = work
    active[:] = False
    n_active = 0
    for step in range(code.size):
        if code[step] >= 0:
            active[code[step]] = True
            n_active += 1
    n_settled = 0
    for turn in range(n_swaps * code.size):
        if n_settled == code.size:
            break
        n_settled += 1
        step = turn % code.size
        j = np.int64(code[step])
        if j < 0:
            continue
        m = find_heirs(j, cost.size, offsets, table, scratch)
        without[0] = gains[i]
        add_changes(without, 0, m, -1.0, owned, offsets, heirs, owners, 0, table, rank)
        active[j] = False
        best, most = best_expert(without, 0, cost, active)
        drop = n_active > min_active and most <= margin
        if not drop and most <= without[0, j] - cost[j] + margin:
            active[j] = True
            continue
        n_settled = 0
        gains[i] = without[0]
        bequeath(m, work)
        if drop:
            n_active -= 1
            code[step] = -1
        else:
            take_over(best, gains, i, offsets, table, rank, rank_by_expert, work)
            active[best] = True
            code[step] = best
        find_owners(code, rank_by_expert, scratch)


@njit(cache=True, nogil=True)
def prune_experts(code, offsets, table, rank_by_expert, rule, scratch):
    """Drop the experts that do not earn their cost, in turn."""
    min_active, _, margin, cost, _, _ = rule
    work = scratch[0]
    _, owned, _, (_, owner_log), (_, heir_log) = work
    n_active = np.count_nonzero(code >= 0)
    for step in range(code.size):
        j = np.int64(code[step])
        if j < 0 or n_active <= min_active:
            continue
        earned = 0.0
        m = find_heirs(j, cost.size, offsets, table, scratch)
        for q in range(m):
            d = _u(owned[q])
            earned += owner_log[d] - heir_log[d]
        if earned - cost[j] <= margin:
            n_active -= 1
            code[step] = -1
            bequeath(m, work)
            find_owners(code, rank_by_expert, scratch)


@njit(cache=True, nogil=True)
def sum_of(values):
    """Sum in float64, by eight running sums that do not wait for each other."""
    part = np.zeros(8)
    whole = values.size // 8 * 8
    for start in range(0, whole, 8):
        for t in range(8):
            part[t] += values[_u(start + t)]
    total = part.sum()
    for d in range(whole, values.size):
        total += values[d]
    return total


@njit(cache=True, nogil=True)
def refine_row(code, gains, i, offsets, table, rank, rank_by_expert, rule, scratch):
    """Swap and prune the experts of one row as its rule says.

    Parameters
    ----------
    code : ndarray of shape (max_active,)
        Active experts, padded with -1; overwritten.
    gains : ndarray of shape (n, n_lanes)
        gains[i] holds the gains of all experts over the code, if there are swaps; overwritten.
    scratch : tuple
        If there are swaps, it holds the opinions of the code's owners.

    Returns
    -------
    total : float
        Log-likelihood of the code under the hard composition.
    """
    _, _, _, _, n_swaps, prune = rule
    find_owners(code, rank_by_expert, scratch)
    if n_swaps:
        swap_experts(code, gains, i, offsets, table, rank, rank_by_expert, rule, scratch)
    else:
        read_opinions(offsets, table, scratch)
    if prune:
        prune_experts(code, offsets, table, rank_by_expert, rule, scratch)
    last = 0
    for step in range(code.size):
        j = code[step]
        code[step] = -1
        if j >= 0:
            code[last] = j
            last += 1
    return sum_of(scratch[0][3][1])
