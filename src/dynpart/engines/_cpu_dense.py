"""Compiled pursuit of rows of any family: log-densities are tabulated for each row."""

# mypy: allow-untyped-defs
from __future__ import annotations

import numpy as np

from dynpart.compiled import compiled, part
from dynpart.engines._cpu_inner import best_expert
from dynpart.engines._cpu_pursuit import FIRST, add_all, begin_with, pursue_row
from dynpart.engines._cpu_refine import finish_row

_u = np.uintp  # see _cpu_pursuit


@part
def tabulate(T, row, n, lo, hi, theta, log_partition, offsets, table):
    """Log-densities of variables lo to hi of n rows, under all experts, float64 rounded to float32.

    Parameters
    ----------
    T : ndarray of shape (n_statistics, n_rows, n_features)
        NaN for missing values: there all experts have density one. Further statistics are not read.
    row : int
        The first row.
    theta : ndarray of shape (n_statistics, n_features, n_lanes)
    log_partition : ndarray of shape (n_features, n_lanes)
    offsets : ndarray of shape (block, n_features)
        Where in the flat `table` the experts' values for a row's variable begin.
    """
    n_statistics, _, n_lanes = theta.shape
    scratch = np.empty(n_lanes)
    # Rows are the inner loop: a few rows share one read of the experts.
    for variable in range(lo, hi):
        d = _u(variable)
        for number in range(n):
            i, at = _u(row + number), offsets[_u(number), d]
            if np.isnan(T[0, i, d]):
                for k in range(n_lanes):
                    table[_u(at + k)] = 0.0
                continue
            if n_statistics == 2:
                x, y = T[0, i, d], T[1, i, d]
                for k in range(n_lanes):
                    value = x * theta[0, d, k] + y * theta[1, d, k] - log_partition[d, k]
                    table[_u(at + k)] = value
                continue
            for k in range(n_lanes):
                scratch[k] = -log_partition[d, k]
            for s in range(n_statistics):
                x = T[_u(s), i, d]
                for k in range(n_lanes):
                    scratch[k] += x * theta[_u(s), d, k]
            for k in range(n_lanes):
                table[_u(at + k)] = scratch[k]


@part
def raise_to_least(T, row, n, lo, hi, n_statistics, n_experts, offsets, table):
    """Raise log-densities to the last statistic, if rows have one more than experts."""
    if len(T) == n_statistics:
        return
    for variable in range(lo, hi):
        d = _u(variable)
        for number in range(n):
            least = np.float32(T[_u(n_statistics), _u(row + number), d])
            at = offsets[_u(number), d]
            for k in range(n_experts):
                value = table[_u(at + k)]
                table[_u(at + k)] = value if value > least else least


@part
def find_largest(offsets, table, n_experts, top):
    """Largest log-density of each variable under any expert."""
    for d in range(offsets.size):
        most = table[_u(offsets[d])]
        for k in range(1, n_experts):
            log = table[_u(offsets[d] + k)]
            most = log if log > most else most
        top[d] = most


@compiled
def pursue(
    T, lo, hi, block, theta, log_partition, rank, rank_by_expert, rule, scratch, table, order,
    loglik,
):  # fmt: skip
    """Codes of rows lo to hi, `block` rows at a time; `table` is scratch for them."""
    n_features, n_lanes = rank.shape
    _, max_active, _, cost, n_swaps, _, _, _ = rule
    work, alone, top = scratch[0], scratch[2][1], scratch[5][0]
    code = np.empty(max_active, np.int64)
    asleep = np.zeros(cost.size, np.bool_)
    all_offsets = np.arange(block * n_features).reshape(block, n_features) * n_lanes
    gains = np.empty((1, n_lanes))
    for begin in range(lo, hi, block):
        n = block if begin + block < hi else hi - begin
        tabulate(T, begin, n, 0, n_features, theta, log_partition, all_offsets, table)
        raise_to_least(T, begin, n, 0, n_features, len(theta), cost.size, all_offsets, table)
        for i in range(n):
            row = begin + i
            offsets = all_offsets[i]
            alone[:] = 0.0
            add_all(alone, FIRST, offsets, table)
            j = best_expert(alone, FIRST, cost, asleep)[0]
            first = alone[0, j]
            code[0] = j
            if max_active > 1 or n_swaps:
                begin_with(j, gains, FIRST, alone, offsets, table, rank, rank_by_expert, work)
            total = pursue_row(
                gains, FIRST, first, offsets, table, rank, rank_by_expert, rule, code, work
            )
            if n_swaps:
                find_largest(offsets, table, cost.size, top)
            loglik[row] = finish_row(
                code, total, first - cost[j], gains, FIRST, offsets, table, rank, rank_by_expert,
                rule, scratch,
            )  # fmt: skip
            for step in range(max_active):
                order[row, step] = code[step]
