"""Compiled pursuit of rows of any family: log-densities are tabulated for each row."""

# mypy: allow-untyped-defs
from __future__ import annotations

import numpy as np

from dynpart.compiled import compiled, part
from dynpart.engines._cpu_inner import best_expert, largest_of
from dynpart.engines._cpu_pursuit import FIRST, add_all, begin_with, pursue_row
from dynpart.engines._cpu_refine import finish_row

_u = np.uintp  # see _cpu_pursuit


@part
def tabulate(T, row, n, lo, hi, theta, log_partition, n_experts, relative, offsets, table, common):
    """Log-densities of variables lo to hi of n rows, under all experts, float64 rounded to float32.

    Parameters
    ----------
    T : ndarray of shape (n_statistics, n_rows, n_features)
        NaN for missing values: there all experts have density one. If there is one more statistic
        than experts have parameters, it is the least log-density of the value under any expert.
    row : int
        The first row.
    theta : ndarray of shape (n_statistics, n_features, n_lanes)
    log_partition : ndarray of shape (n_features, n_lanes)
    n_experts : int
        Number of experts, without the padding.
    relative : bool
        Whether to subtract the largest log-density of a variable before rounding. Without b(x),
        those of large counts have more digits than float32 holds, and differ by few nats between
        experts. Normal densities without a bound are tabulated faster, and nothing is subtracted.
    offsets : ndarray of shape (block, n_features)
        Where in the flat `table` the experts' values for a row's variable begin.
    common : ndarray of shape (block,)
        What was subtracted is added to it, for each row.
    """
    n_statistics, _, n_lanes = theta.shape
    scratch, has_least = np.empty(n_lanes), len(T) > n_statistics
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
                if not relative and not has_least:
                    for k in range(n_lanes):
                        value = x * theta[0, d, k] + y * theta[1, d, k] - log_partition[d, k]
                        table[_u(at + k)] = value
                    continue
                for k in range(n_lanes):
                    scratch[k] = x * theta[0, d, k] + y * theta[1, d, k] - log_partition[d, k]
            else:
                for k in range(n_lanes):
                    scratch[k] = -log_partition[d, k]
                for s in range(n_statistics):
                    x = T[_u(s), i, d]
                    for k in range(n_lanes):
                        scratch[k] += x * theta[_u(s), d, k]
            if has_least:
                least = T[_u(n_statistics), i, d]
                for k in range(n_experts):
                    scratch[k] = scratch[k] if scratch[k] > least else least
            most = largest_of(scratch)
            for k in range(n_lanes):
                table[_u(at + k)] = scratch[k] - most
            common[number] += most


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
    T, lo, hi, block, theta, log_partition, relative, rank, rank_by_expert, rule, scratch, table,
    order, loglik,
):  # fmt: skip
    """Codes of rows lo to hi, `block` rows at a time; `table` is scratch for them."""
    n_features, n_lanes = rank.shape
    _, max_active, _, cost, n_swaps, _, _, _ = rule
    work, alone, top = scratch[0], scratch[2][1], scratch[5][0]
    code = np.empty(max_active, np.int64)
    asleep = np.zeros(cost.size, np.bool_)
    all_offsets = np.arange(block * n_features).reshape(block, n_features) * n_lanes
    gains, common = np.empty((1, n_lanes)), np.empty(block)
    for begin in range(lo, hi, block):
        n = block if begin + block < hi else hi - begin
        common[:] = 0.0
        tabulate(
            T, begin, n, 0, n_features, theta, log_partition, cost.size, relative, all_offsets,
            table, common,
        )  # fmt: skip
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
            loglik[row] = common[i] + finish_row(
                code, total, first - cost[j], gains, FIRST, offsets, table, rank, rank_by_expert,
                rule, scratch,
            )  # fmt: skip
            for step in range(max_active):
                order[row, step] = code[step]
