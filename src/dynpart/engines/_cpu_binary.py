"""Compiled pursuit of binary rows: one table for all rows, two passes as sums over few variables.

Most variables of a row have their usual value, the one the experts together expect. The sums over
all variables then are a constant per expert plus corrections for the unusual ones: for the first
pass, and, among rows with the same first expert, for the second pass too.
"""

# mypy: allow-untyped-defs
from __future__ import annotations

import numpy as np
from numba import njit

from dynpart.engines._cpu_pursuit import (
    TILE,
    add_rows,
    first_expert,
    positions,
    pursue_row,
)
from dynpart.engines._cpu_refine import new_refinement, refine_row

BLOCK = 128
"""Rows whose gains are kept at hand while the tiles of variables go by."""

_u = np.uintp  # see _cpu_pursuit


@njit(cache=True, nogil=True)
def add_unusual(gains, rows, X, usual, start, width, surprise, first, stride):
    """Add corrections for the unusual variables of one tile to the gains of all rows.

    `surprise` is flat; those of value x of variable d begin at (x * stride + first + d) * n_lanes.
    """
    n_lanes = gains.shape[1]
    flags = np.zeros((width + 7) // 8 * 8, np.uint8)
    found = np.empty(width + 7, np.int64)
    for i in range(rows.size):
        row = _u(rows[i])
        for d in range(width):
            flags[d] = X[row, _u(start + d)] != usual[_u(start + d)]
        m = positions(flags, found)
        if m:
            for q in range(m):
                d = found[q]
                x = np.int64(X[row, _u(start + d)])
                found[q] = (x * stride + first + d) * n_lanes
            add_rows(gains, i, 0, m, found, surprise)


@njit(cache=True, nogil=True)
def first_pass(X, lo, hi, usual, surprise, constant, cost, place, first, score):
    """First expert of rows lo to hi, and its log-likelihood."""
    n_features = usual.size
    gains = np.empty((BLOCK, constant.size))
    active = np.empty(cost.size, np.bool_)
    for begin in range(lo, hi, BLOCK):
        rows = np.arange(begin, min(begin + BLOCK, hi))
        for i in range(rows.size):
            gains[i] = constant
        for start in range(0, n_features, TILE):
            width = min(TILE, n_features - start)
            add_unusual(gains, rows, X, usual, start, width, surprise, start, n_features)
        for i in range(rows.size):
            first[begin + i] = first_expert(gains, i, cost, place, active)
            score[begin + i] = gains[i, first[begin + i]]


@njit(cache=True, nogil=True)
def second_pass(rows, j, X, usual, table, rank, gains):
    """Gains of all experts over the first one, j, for rows that share it."""
    n_features, n_lanes = rank.shape
    surprise = np.empty(2 * TILE * n_lanes, np.float32)
    constant = np.zeros(n_lanes)
    part = np.empty(n_lanes, np.float32)
    gains[:] = 0.0
    zero = np.float32(0)
    for start in range(0, n_features, TILE):
        width = min(TILE, n_features - start)
        part[:] = zero
        for t in range(width):
            d = _u(start + t)
            r = rank[d, _u(j)]
            x = np.int64(usual[d])
            common = (x * n_features + start + t) * n_lanes
            rare = ((1 - x) * n_features + start + t) * n_lanes
            out = ((1 - x) * TILE + t) * n_lanes
            common_j = table[_u(common + j)]
            rare_j = table[_u(rare + j)]
            for k in range(n_lanes):
                gain = table[_u(common + k)] - common_j
                change = (table[_u(rare + k)] - rare_j) - gain
                part[k] += gain if rank[d, _u(k)] < r else zero
                surprise[_u(out + k)] = change if rank[d, _u(k)] < r else zero
        for k in range(n_lanes):
            constant[k] += part[k]
        add_unusual(gains, rows, X, usual, start, width, surprise, 0, TILE)
    for i in range(rows.size):
        for k in range(n_lanes):
            gains[_u(i), k] += constant[k]


@njit(cache=True, nogil=True)
def row_offsets(X, row, n_lanes, offsets):
    """Where in the table of log-densities the experts' opinions on this row's values begin."""
    n_features = X.shape[1]
    for d in range(n_features):
        offsets[d] = (np.int64(X[_u(row), d]) * n_features + d) * n_lanes


@njit(cache=True, nogil=True)
def pursue_group(
    rows, first, score, X, usual, agreed, table, rank, rank_by_expert, rule, order, loglik
):
    """Codes of rows with the same first expert."""
    n_features, n_lanes = rank.shape
    j = first[rows[0]]
    gains = np.empty((rows.size, n_lanes))
    _, max_active, _, _, n_swaps, prune = rule
    if max_active > 1 or n_swaps:
        second_pass(rows, j, X, usual, table, rank, gains)
    scratch = new_refinement(rank_by_expert.shape[0], rank)
    work, _, _, _, same = scratch
    owner_rank, owner_log = work[3]
    offsets = np.empty(n_features, np.int64)
    zero = rank.dtype.type(0)
    for i in range(rows.size):
        row = rows[i]
        row_offsets(X, row, n_lanes, offsets)
        for d in range(n_features):
            same[d] = agreed[1, d] if X[_u(row), d] else agreed[0, d]
            owner_rank[d] = zero if same[d] else rank_by_expert[_u(j), d]
            owner_log[d] = table[_u(offsets[d] + j)]
        order[row, 0] = j
        loglik[row] = pursue_row(
            gains, i, score[row], offsets, table, rank, rank_by_expert, rule, order, row, work
        )
        if n_swaps or prune:
            loglik[row] = refine_row(
                order[row], gains, i, offsets, table, rank, rank_by_expert, rule, scratch
            )
