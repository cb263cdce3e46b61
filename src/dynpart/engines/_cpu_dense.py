"""Compiled pursuit of rows of any family: log-densities are tabulated for each row."""

# mypy: allow-untyped-defs
from __future__ import annotations

import numpy as np
from numba import njit

from dynpart.engines._cpu_pursuit import (
    TILE,
    add_rows,
    first_expert,
    pursue_row,
    take_over,
)
from dynpart.engines._cpu_refine import new_refinement, refine_row

_u = np.uintp  # see _cpu_pursuit


@njit(cache=True, nogil=True)
def tabulate(T, row, n, lo, hi, theta, log_partition, offsets, table):
    """Log-densities of variables lo to hi of n rows, under all experts, float64 rounded to float32.

    Parameters
    ----------
    T : ndarray of shape (n_statistics, n_rows, n_features)
    row : int
        The first row.
    theta : ndarray of shape (n_statistics, n_features, n_lanes)
    log_partition : ndarray of shape (n_features, n_lanes)
    offsets : ndarray of shape (block, n_features)
        Where in the flat `table` the experts' values for a row's variable begin.
    """
    n_statistics, _, n_lanes = theta.shape
    scratch = np.empty(n_lanes)
    # Variables outside, rows inside: a few rows share one reading of the experts.
    for variable in range(lo, hi):
        d = _u(variable)
        for number in range(n):
            i, at = _u(row + number), offsets[_u(number), d]
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


@njit(cache=True, nogil=True)
def sum_all(gains, offsets, table):
    """gains[0] = sums over all variables: the gains over no expert at all."""
    gains[:] = 0.0
    for lo in range(0, offsets.size, TILE):
        add_rows(gains, 0, lo, min(lo + TILE, offsets.size), offsets, table)


@njit(cache=True, nogil=True)
def pursue(
    T, lo, hi, block, theta, log_partition, rank, rank_by_expert, rule, place, table, order, loglik
):
    """Codes of rows lo to hi, `block` rows at a time in `table`, which has room for them."""
    n_features, n_lanes = rank.shape
    _, max_active, _, cost, n_swaps, prune = rule
    scratch = new_refinement(cost.size, rank)
    work = scratch[0]
    active = work[2]
    owner_rank, owner_log = work[3]
    all_offsets = np.arange(block * n_features).reshape(block, n_features) * n_lanes
    gains = np.empty((1, n_lanes))
    for begin in range(lo, hi, block):
        n = min(block, hi - begin)
        tabulate(T, begin, n, 0, n_features, theta, log_partition, all_offsets, table)
        for i in range(n):
            row = begin + i
            offsets = all_offsets[i]
            sum_all(gains, offsets, table)
            j = first_expert(gains, 0, cost, place, active)
            score = gains[0, j]
            order[row, 0] = j
            owner_rank[:] = cost.size
            owner_log[:] = 0
            if max_active > 1 or n_swaps:
                take_over(j, gains, 0, offsets, table, rank, rank_by_expert, work)
            loglik[row] = pursue_row(
                gains, 0, score, offsets, table, rank, rank_by_expert, rule, order, row, work
            )
            if n_swaps or prune:
                loglik[row] = refine_row(
                    order[row], gains, 0, offsets, table, rank, rank_by_expert, rule, scratch
                )
