"""Compiled pursuit of discrete rows: one table for all rows, two passes as sums over few variables.

A row's values are levels, plus one for missing values if there are any. Most variables of a row
have their usual value, the one that the experts together expect. The sums over all variables then
are a constant per expert plus corrections for the unusual ones: for the first pass, and, among rows
with the same first expert, for the second pass too.
"""

# mypy: allow-untyped-defs, disable-error-code="assignment"
from __future__ import annotations

import numpy as np

from dynpart.compiled import compiled, in_place, part
from dynpart.engines._cpu_inner import add_rows, best_expert, positions
from dynpart.engines._cpu_pursuit import TILE, pursue_row
from dynpart.engines._cpu_refine import finish_row

BLOCK = 128
"""Rows whose gains stay in the cache during the loop over tiles of variables."""

_u = np.uintp  # see _cpu_pursuit


@part
def add_unusual(gains, rows, X, usual, start, width, surprise, first, stride):
    """Add corrections for the unusual variables of one tile to the gains of all rows.

    `surprise` is flat; those of value x of variable d begin at (x * stride + first + d) * n_lanes.
    """
    n_lanes = gains.shape[1]
    flags = np.zeros((width + 15) // 16 * 16, np.uint8)
    found, offsets = np.empty(width + 15, np.int32), np.empty(width, np.int64)
    for i in range(rows.size):
        row = _u(rows[i])
        for d in range(width):
            flags[d] = X[row, _u(start + d)] != usual[_u(start + d)]
        m = positions(flags, width, found)
        if m:
            for q in range(m):
                d = np.int64(found[q])
                x = np.int64(X[row, _u(start + d)])
                offsets[q] = (x * stride + first + d) * n_lanes
            add_rows(gains, i, 0, m, offsets, surprise)


@compiled
def first_pass(X, lo, hi, usual, surprise, constant, cost, first, score):
    """First expert of rows lo to hi, and its log-likelihood."""
    n_features = usual.size
    gains = np.empty((BLOCK, constant.size))
    asleep = np.zeros(cost.size, np.bool_)
    for begin in range(lo, hi, BLOCK):
        end = begin + BLOCK if begin + BLOCK < hi else hi
        rows = np.arange(begin, end)
        for i in range(rows.size):
            for k in range(constant.size):
                gains[i, k] = constant[k]
        for start in range(0, n_features, TILE):
            width = TILE if start + TILE <= n_features else n_features - start
            add_unusual(gains, rows, X, usual, start, width, surprise, start, n_features)
        for i in range(rows.size):
            first[begin + i] = best_expert(gains, i, cost, asleep)[0]
            score[begin + i] = gains[i, first[begin + i]]


@part
def second_pass(rows, j, X, usual, table, rank, gains):
    """Gains of all experts over the first one, j, for rows that share it."""
    n_features, n_lanes = rank.shape
    n_values = table.size // (n_features * n_lanes)
    surprise = np.empty(n_values * TILE * n_lanes, np.float32)
    usual_gain = np.empty(n_lanes, np.float32)
    constant = np.zeros(n_lanes)
    part = np.empty(n_lanes, np.float32)
    gains[:] = 0.0
    zero = np.float32(0)
    for start in range(0, n_features, TILE):
        width = TILE if start + TILE <= n_features else n_features - start
        part[:] = zero
        for t in range(width):
            d = _u(start + t)
            r = rank[d, _u(j)]
            x = np.int64(usual[d])
            common = (x * n_features + start + t) * n_lanes
            common_j = table[_u(common + j)]
            for k in range(n_lanes):
                usual_gain[k] = table[_u(common + k)] - common_j
                part[k] += usual_gain[k] if rank[d, _u(k)] < r else zero
            for value in range(n_values):
                if value == x:
                    continue
                rare = (value * n_features + start + t) * n_lanes
                out = (value * TILE + t) * n_lanes
                rare_j = table[_u(rare + j)]
                for k in range(n_lanes):
                    change = (table[_u(rare + k)] - rare_j) - usual_gain[k]
                    surprise[_u(out + k)] = change if rank[d, _u(k)] < r else zero
        for k in range(n_lanes):
            constant[k] += part[k]
        add_unusual(gains, rows, X, usual, start, width, surprise, 0, TILE)
    for i in range(rows.size):
        for k in range(n_lanes):
            gains[_u(i), k] += constant[k]


@in_place
def row_offsets(X, row, n_lanes, offsets):
    """Offsets in the table of log-densities at which those of this row's values begin."""
    n_features = X.shape[1]
    for d in range(n_features):
        offsets[d] = (np.int64(X[_u(row), d]) * n_features + d) * n_lanes


@in_place
def look_up(X, row, table, found):
    """found[d] = table[x(d), d] for every variable of a row."""
    row = _u(row)
    if table.shape[0] == 2:
        for d in range(found.size):
            off, on = table[0, d], table[1, d]
            found[d] = on if X[row, d] else off
        return
    for d in range(found.size):
        found[d] = table[_u(X[row, d]), d]


@part
def pursue_group(
    rows, first, score, X, usual, agreed, largest, table, rank, rank_by_expert, rule, scratch,
    order, loglik,
):  # fmt: skip
    """Codes of rows with the same first expert."""
    n_features, n_lanes = rank.shape
    j = first[rows[0]]
    gains = np.empty((rows.size, n_lanes))
    max_active, n_swaps = rule[1], rule[4]
    if max_active > 1 or n_swaps:
        second_pass(rows, j, X, usual, table, rank, gains)
    work, same, top = scratch[0], scratch[4], scratch[5][0]
    code = np.empty(max_active, np.int64)
    owner_rank, owner_log = work[3]
    offsets = np.empty(n_features, np.int64)
    zero = rank.dtype.type(0)
    # Log-densities of all values under the first expert are read once for all rows.
    n_values = agreed.shape[0]
    first_log = np.empty((n_values, n_features), np.float32)
    for value in range(n_values):
        for d in range(n_features):
            first_log[value, d] = table[_u((value * n_features + d) * n_lanes + j)]
    for i in range(rows.size):
        row = rows[i]
        row_offsets(X, row, n_lanes, offsets)
        look_up(X, row, agreed, same)
        look_up(X, row, first_log, owner_log)
        look_up(X, row, largest, top)
        for d in range(n_features):
            owner_rank[d] = zero if same[d] else rank_by_expert[_u(j), d]
        code[0] = j
        total = pursue_row(
            gains, i, score[row], offsets, table, rank, rank_by_expert, rule, code, work
        )
        loglik[row] = finish_row(
            code, total, score[row] - rule[3][j], gains, i, offsets, table, rank, rank_by_expert,
            rule, scratch,
        )  # fmt: skip
        for step in range(max_active):
            order[row, step] = code[step]


@compiled
def pursue_groups(
    rows, first, score, X, usual, agreed, largest, table, rank, rank_by_expert, rule, scratch,
    order, loglik,
):  # fmt: skip
    """Codes of rows in order of their first expert; `scratch` is that of `finish_row`."""
    lo = 0
    while lo < rows.size:
        hi = lo + 1
        while hi < rows.size and first[rows[hi]] == first[rows[lo]]:
            hi += 1
        pursue_group(
            rows[lo:hi], first, score, X, usual, agreed, largest, table, rank, rank_by_expert, rule,
            scratch, order, loglik,
        )  # fmt: skip
        lo = hi
