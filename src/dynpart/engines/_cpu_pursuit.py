"""Compiled kernels of the hard pursuit: incremental steps.

A row's log-densities are rows of a table: `offsets[d]` is where in the flat table those of all
experts for variable d begin. Binary rows share one table, other families have a table per row.
Every row is processed separately, in an order of operations that depends only on the row and the
experts, so its code does not depend on batch or thread.
"""

# mypy: allow-untyped-defs, disable-error-code="call-arg,unreachable"
from __future__ import annotations

import numpy as np

from dynpart.compiled import in_place, inlined
from dynpart.engines._cpu_inner import add_changes as add_some_changes
from dynpart.engines._cpu_inner import add_rows, best_expert, positions

TILE = 64
"""Variables whose terms are summed in float32 before the sum enters a gain in float64."""

FIRST = np.int64(0)
"""Index of the only row of an array; a literal would cause another compilation."""

_u = np.uintp  # unsigned indices need no test for negative ones, so loops vectorise


@in_place
def add_all(gains, i, offsets, table):
    """gains[i] += sums over all variables of a row."""
    n_features = offsets.size
    for lo in range(0, n_features, TILE):
        hi = lo + TILE if lo + TILE < n_features else n_features
        add_rows(gains, i, lo, hi, offsets, table)


@in_place
def add_changes(gains, i, m, sign, wins, offsets, old, new, new_at, table, rank):
    """Update gains[i] as m variables pass from an owner to a better one (sign -1: the reverse).

    The gain of an expert ranked above both owners changes by the old owner's log-density minus the
    new one's; an expert between the two loses the gain it had on the variable.

    Parameters
    ----------
    wins : ndarray
        The variables; the first m entries are valid.
    old, new : tuple of two ndarray
        Ranks and log-densities of the owners of all variables; the new ranks begin at `new_at`.
    """
    old_rank, old_log = old
    new_rank, new_log = new
    for lo in range(0, m, TILE):
        hi = lo + TILE if lo + TILE < m else m
        add_some_changes(
            gains, i, lo, hi, sign, wins, offsets, old_rank, old_log, new_rank, new_at, new_log,
            table, rank,
        )  # fmt: skip


@inlined
def copy_row(target, i, source, j):
    """target[i] = source[j], without the copy that an assignment makes first."""
    for k in range(target.shape[1]):
        target[i, k] = source[j, k]


@in_place
def first_expert(gains, i, cost, place, active):
    """The expert in this place, from 0, of the order of gain minus cost; `active` is scratch."""
    active[:] = False
    for _ in range(place):
        active[best_expert(gains, i, cost, active)[0]] = True
    return best_expert(gains, i, cost, active)[0]


def new_work(n_experts, n_features, rank):
    """Scratch for one row: flags, variables won, active experts, owners old and new."""
    return (
        np.zeros((n_features + 15) // 16 * 16, np.uint8),
        np.empty(n_features + 15, np.int32),
        np.zeros(n_experts, np.bool_),
        (np.empty(n_features, rank.dtype), np.empty(n_features, np.float32)),
        (np.empty(n_features, rank.dtype), np.empty(n_features, np.float32)),
    )


@in_place
def take_over(j, gains, i, offsets, table, rank, rank_by_expert, work):
    """Assign to expert j the variables on which it ranks best, and update all gains."""
    flags, wins, _, owners, heirs = work
    owner_rank, owner_log = owners
    new_log = heirs[1]
    n_features = owner_rank.size
    for d in range(n_features):
        flags[d] = rank_by_expert[_u(j), d] < owner_rank[d]
    m = positions(flags, n_features, wins)
    for q in range(m):
        at = _u(wins[q])
        new_log[at] = table[_u(offsets[at] + j)]
    new = rank_by_expert.reshape(-1), new_log
    add_changes(gains, i, m, 1.0, wins, offsets, owners, new, j * n_features, table, rank)
    for q in range(m):
        at = _u(wins[q])
        owner_rank[at] = rank_by_expert[_u(j), at]
        owner_log[at] = new_log[at]


@in_place
def begin_with(j, gains, i, alone, offsets, table, rank, rank_by_expert, work):
    """Assign all variables to expert j: gains[i] are then those over j; `alone` over none."""
    owner_rank, owner_log = work[3]
    owner_rank[:] = rank_by_expert.shape[0]
    owner_log[:] = 0
    copy_row(gains, i, alone, FIRST)
    take_over(j, gains, i, offsets, table, rank, rank_by_expert, work)


@in_place
def pursue_row(gains, i, total, offsets, table, rank, rank_by_expert, rule, code, work):
    """Activate experts after the first, which owns all variables, while gains exceed costs.

    Parameters
    ----------
    gains : ndarray of shape (n, n_lanes)
        gains[i] holds the gains of all experts over the first one; if the code is to be refined, it
        finally holds those over the code.
    total : float
        Log-likelihood of the first expert alone.
    code : ndarray of shape (max_active,)
        Begins with the first expert; the others are filled in as they are activated.
    work : tuple
        Scratch, initialised with the first expert as owner. Variables on which all experts agree
        have rank 0, so no expert takes them over.

    Returns
    -------
    total : float
        Log-likelihood of the code.
    """
    min_active, max_active, margin, cost, n_swaps, _, _, _ = rule
    active = work[2]
    active[:] = False
    active[code[0]] = True
    for step in range(1, code.size):
        code[step] = -1
    n_active = 1
    while n_active < max_active:
        j, most = best_expert(gains, i, cost, active)
        if j < 0 or (most <= margin and n_active >= min_active):
            break
        total += gains[i, j]
        active[j] = True
        code[n_active] = j
        n_active += 1
        if n_active < max_active or n_swaps:
            take_over(j, gains, i, offsets, table, rank, rank_by_expert, work)
    return total


@in_place
def count_active(code):
    """Experts of a code, which is padded with -1."""
    n_active = 0
    while n_active < code.size and code[n_active] >= 0:
        n_active += 1
    return n_active
