"""Compiled kernels of the smoothed pursuit (eq. 4): products of ratios, a logarithm at the end.

The score changes by sum_d log( (1 + e_k p_k / N) / (1 + e_k / E) ) when expert k joins, with N and
E the active experts' sums of e p and e. The ratios of all variables are multiplied up in float32
with the exponent kept apart, so that no logarithm is paid per variable; and a product of a thousand
factors in float32 is exact to a ten-thousandth of a nat.
"""

# mypy: allow-untyped-defs, disable-error-code="call-arg,unreachable"
from __future__ import annotations

import numpy as np
from numba import njit

from dynpart.engines._cpu_binary import row_offsets
from dynpart.engines._cpu_dense import sum_all, tabulate
from dynpart.engines._cpu_pursuit import best_expert, new_work, refine_row
from dynpart.engines._cpu_vectors import (
    multiply_ratios_1,
    multiply_ratios_2,
    multiply_ratios_3,
    multiply_ratios_4,
    power_of_two,
)

_u = np.uintp  # see _cpu_pursuit

GROUP = 16
"""Variables multiplied before the exponent is taken out of the product."""
ROOM = 100
"""Binary digits a group's product may grow by: float32 has 127."""
SMALLEST = np.float32(2.0**-90)
"""Below this a sum of the active experts is no longer trusted to float32."""
LOG2_E = np.float32(1.4426950408889634)
TINY = 2.2250738585072014e-308


@njit(cache=True, nogil=True)
def multiply_ratios(mantissa, exponent, lo, hi, offsets, per_mixture, per_total, shares, levels):
    """Multiply the ratios of variables lo to hi into the running products of all experts."""
    n_lanes = levels.shape[1]
    k = 0
    while k + 64 <= n_lanes:
        multiply_ratios_4(
            mantissa, exponent, k, lo, hi, offsets, per_mixture, per_total, shares, levels
        )
        k += 64
    if n_lanes - k == 48:
        multiply_ratios_3(
            mantissa, exponent, k, lo, hi, offsets, per_mixture, per_total, shares, levels
        )
    elif n_lanes - k == 32:
        multiply_ratios_2(
            mantissa, exponent, k, lo, hi, offsets, per_mixture, per_total, shares, levels
        )
    elif n_lanes - k == 16:
        multiply_ratios_1(
            mantissa, exponent, k, lo, hi, offsets, per_mixture, per_total, shares, levels
        )


@njit(cache=True, nogil=True)
def add_exactly(gains, d, order, row, n_active, offset, table, log2_expertise):
    """Add the change of variable d's score in float64, for sums too small for float32."""
    n_experts = log2_expertise.shape[0]
    top = -np.inf
    for k in range(n_experts):
        top = max(top, table[offset + k])
    mixture = 0.0
    total = 0.0
    for step in range(n_active):
        e = 2.0 ** log2_expertise[order[row, step], d]
        mixture += e * np.exp(table[offset + order[row, step]] - top)
        total += e
    before = np.log(max(mixture, TINY)) - np.log(max(total, TINY))
    for k in range(n_experts):
        e = 2.0 ** log2_expertise[k, d]
        p = np.exp(table[offset + k] - top)
        after = np.log(max(mixture + e * p, TINY)) - np.log(max(total + e, TINY))
        gains[0, k] += after - before


@njit(cache=True, nogil=True)
def pursue_row(offsets, table, shares, levels, log2_expertise, rule, j, order, row, gains, work):
    """Activate experts after the first, j, by the smoothed score.

    Parameters
    ----------
    table, shares : flat ndarray
        Log-densities, and e_k p_k up to a factor per variable; both begin at `offsets`.
    levels : ndarray of shape (n_features, n_lanes)
        e_k, at most one.
    """
    min_active, max_active, margin, cost = rule
    active, mixture, total, per_mixture, per_total, digits, mantissa, exponent = work
    n_features = offsets.size
    n_experts = cost.size
    active[:] = False
    mixture[:] = np.float32(0)
    total[:] = np.float32(0)
    n_active = 0
    while True:
        active[j] = True
        order[row, n_active] = j
        n_active += 1
        if n_active == max_active:
            break
        for d in range(n_features):
            mixture[d] += shares[_u(offsets[d] + j)]
            total[d] += levels[d, _u(j)]
        for d in range(n_features):
            ok = mixture[d] >= SMALLEST and total[d] >= SMALLEST
            # A factor of exactly one leaves the variable to `add_exactly`.
            per_mixture[d] = np.float32(1) / mixture[d] if ok else np.float32(0)
            per_total[d] = np.float32(1) / total[d] if ok else np.float32(0)
            digits[d] = np.float32(1) + max(per_mixture[d], per_total[d])
        mantissa[:] = np.float32(1)
        exponent[:] = 0
        gains[:] = 0.0
        bits = digits.view(np.int32)
        lo = 0
        grown = 0
        for d in range(n_features):
            grows = (bits[d] >> 23) - 126
            if grown + grows > ROOM or d - lo == GROUP:
                multiply_ratios(
                    mantissa, exponent, lo, d, offsets, per_mixture, per_total, shares, levels
                )
                lo = d
                grown = 0
            grown += grows
            if per_mixture[d] == np.float32(0):
                add_exactly(gains, d, order, row, n_active, offsets[d], table, log2_expertise)
        multiply_ratios(
            mantissa, exponent, lo, n_features, offsets, per_mixture, per_total, shares, levels
        )
        for k in range(n_experts):
            gains[0, k] += np.log(np.float64(mantissa[k])) + exponent[k] * 0.6931471805599453
        j, most = best_expert(gains, 0, cost, active)
        if j < 0 or (most <= margin and n_active >= min_active):
            break


@njit(cache=True, nogil=True)
def new_smoothed_work(n_experts, n_features, n_lanes):
    """Scratch of the smoothed `pursue_row`."""
    return (
        np.zeros(n_experts, np.bool_),
        np.empty(n_features, np.float32),
        np.empty(n_features, np.float32),
        np.empty(n_features, np.float32),
        np.empty(n_features, np.float32),
        np.empty(n_features, np.float32),
        np.empty(n_lanes, np.float32),
        np.empty(n_lanes, np.int32),
    )


@njit(cache=True, nogil=True)
def pursue_binary(
    X, lo, hi, first, table, shares, levels, log2_expertise, rank, rank_by_expert, rule, n_swaps,
    prune, order, loglik,
):  # fmt: skip
    """Codes of binary rows lo to hi whose first experts are known."""
    n_features, n_lanes = rank.shape
    n_experts = rank_by_expert.shape[0]
    work = new_smoothed_work(n_experts, n_features, n_lanes)
    hard_work = new_work(n_experts, n_features, rank)
    offsets = np.empty(n_features, np.int64)
    gains = np.empty((1, n_lanes))
    saved = np.empty((1, n_lanes))
    for row in range(lo, hi):
        row_offsets(X, row, n_lanes, offsets)
        pursue_row(
            offsets,
            table,
            shares,
            levels,
            log2_expertise,
            rule,
            first[row],
            order,
            row,
            gains,
            work,
        )
        loglik[row] = refine_row(
            offsets, table, rank, rank_by_expert, rule, n_swaps, prune, order, row, gains, saved,
            hard_work,
        )  # fmt: skip


@njit(cache=True, nogil=True)
def mixture_shares(table, log2_levels, n_experts, shares):
    """e_k p_k, scaled so that p is at most one per variable, by a polynomial for 2^x."""
    n_features, n_lanes = log2_levels.shape
    for d in range(n_features):
        at = d * n_lanes
        top = table[at]
        for k in range(1, n_experts):
            top = max(top, table[_u(at + k)])
        for k in range(n_lanes):
            y = (table[_u(at + k)] - top) * LOG2_E + log2_levels[_u(d), k]
            y = max(y, np.float32(-125))
            whole = np.floor(y + np.float32(0.5))
            x = y - whole
            p = np.float32(1.5403530e-4)
            p = p * x + np.float32(1.3333558e-3)
            p = p * x + np.float32(9.6181291e-3)
            p = p * x + np.float32(5.5504109e-2)
            p = p * x + np.float32(2.4022651e-1)
            p = p * x + np.float32(6.9314718e-1)
            p = p * x + np.float32(1)
            shares[_u(at + k)] = p * power_of_two(np.int32(whole))


@njit(cache=True, nogil=True)
def pursue_dense(
    T, lo, hi, block, theta, log_partition, levels, log2_levels, log2_expertise, rank,
    rank_by_expert, rule, n_swaps, prune, order, loglik,
):  # fmt: skip
    """Codes of rows lo to hi of any family."""
    n_features, n_lanes = rank.shape
    cost = rule[3]
    n_experts = cost.size
    work = new_smoothed_work(n_experts, n_features, n_lanes)
    hard_work = new_work(n_experts, n_features, rank)
    tables = np.empty((block, n_features * n_lanes), np.float32)
    shares = np.empty(n_features * n_lanes, np.float32)
    offsets = np.arange(n_features) * n_lanes
    gains = np.empty((1, n_lanes))
    saved = np.empty((1, n_lanes))
    active = np.zeros(n_experts, np.bool_)
    for begin in range(lo, hi, block):
        n = min(block, hi - begin)
        tabulate(T, begin, n, theta, log_partition, tables)
        for i in range(n):
            row = begin + i
            table = tables[i]
            sum_all(gains, offsets, table)
            j, _ = best_expert(gains, 0, cost, active)
            mixture_shares(table, log2_levels, n_experts, shares)
            pursue_row(
                offsets, table, shares, levels, log2_expertise, rule, j, order, row, gains, work
            )
            loglik[row] = refine_row(
                offsets, table, rank, rank_by_expert, rule, n_swaps, prune, order, row, gains,
                saved, hard_work,
            )  # fmt: skip
