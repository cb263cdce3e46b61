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
from dynpart.engines._cpu_pursuit import best_expert
from dynpart.engines._cpu_refine import gains_over_code, new_refinement, refine_row
from dynpart.engines._cpu_vectors import (
    LANES,
    exponent_of,
    multiply_ratios_1,
    multiply_ratios_2,
    multiply_ratios_3,
    multiply_ratios_4,
    power_of_two,
)

GROUP = 16
"""Variables multiplied before the exponent is taken out of the product."""
BLOCK = 16
"""Rows that go from step to step together, so that a group's tables are read once for all."""
ROOM = 110
"""Binary digits a group's product may grow or shrink by: float32 has 126."""
SMALLEST = np.float32(2.0**-90)
"""Below this a sum of the active experts is no longer trusted to float32."""
LOG2_E = np.float32(1.4426950408889634)
LOG_2 = 0.6931471805599453
TINY = 2.2250738585072014e-308

_u = np.uintp  # see _cpu_pursuit


@njit(cache=True, nogil=True)
def multiply_ratios(products, i, lo, hi, offsets, factors, shares, levels):
    """Multiply the ratios of variables lo to hi into row i's running products of all experts."""
    mantissa, exponent = products
    n_lanes = levels.shape[1]
    k = 0
    while k + 64 <= n_lanes:
        multiply_ratios_4(mantissa, exponent, i, k, lo, hi, offsets, factors, shares, levels)
        k += 64
    if n_lanes - k == 48:
        multiply_ratios_3(mantissa, exponent, i, k, lo, hi, offsets, factors, shares, levels)
    elif n_lanes - k == 32:
        multiply_ratios_2(mantissa, exponent, i, k, lo, hi, offsets, factors, shares, levels)
    elif n_lanes - k == 16:
        multiply_ratios_1(mantissa, exponent, i, k, lo, hi, offsets, factors, shares, levels)


@njit(cache=True, nogil=True)
def add_exactly(gains, i, d, chosen, n_active, offset, table, log2_expertise):
    """Add the change of variable d's score in float64, for sums too small for float32."""
    n_experts = log2_expertise.shape[0]
    top = -np.inf
    for k in range(n_experts):
        top = max(top, table[offset + k])
    mixture = 0.0
    total = 0.0
    for step in range(n_active):
        e = 2.0 ** log2_expertise[chosen[step], d]
        mixture += e * np.exp(table[offset + chosen[step]] - top)
        total += e
    before = np.log(max(mixture, TINY)) - np.log(max(total, TINY))
    for k in range(n_experts):
        e = 2.0 ** log2_expertise[k, d]
        p = np.exp(table[offset + k] - top)
        after = np.log(max(mixture + e * p, TINY)) - np.log(max(total + e, TINY))
        gains[i, k] += after - before


@njit(cache=True, nogil=True)
def join(i, added, mixtures, factors, easy):
    """Let an expert with e p and e as in `added` join the mixtures of row i.

    The factors 1 + e p / N and 1 + e / E are scaled down by a power of two, half way to the largest
    value they may take (no share and no level exceeds one), so that many fit into one product.

    Returns
    -------
    shift : int
        Powers of two by which the product of all ratios is now too small.
    exact : bool
        Whether float32 represents all sums; the others have factors of one.
    """
    mixture, total = mixtures
    share, level = added
    n_features = share.size
    i = _u(i)
    one = np.float32(1)
    exact = True
    shift = 0
    for d in range(n_features):
        mixture[i, d] += share[d]
        total[i, d] += level[d]
    for g in range(easy.shape[1]):
        grown = 0
        for d in range(g * GROUP, min((g + 1) * GROUP, n_features)):
            at = _u(d)
            ok = mixture[i, at] >= SMALLEST and total[i, at] >= SMALLEST
            b = one / mixture[i, at] if ok else np.float32(0)
            b_below = one / total[i, at] if ok else np.float32(0)
            half = (exponent_of(one + b) + 1) >> 1
            half_below = (exponent_of(one + b_below) + 1) >> 1
            a = power_of_two(-half)
            a_below = power_of_two(-half_below)
            factors[i, at, 0] = a
            factors[i, at, 1] = a * b
            factors[i, at, 2] = a_below
            factors[i, at, 3] = a_below * b_below
            exact &= ok
            shift += half - half_below
            grown += max(half, half_below)
        easy[i, _u(g)] = grown <= ROOM
    return shift, exact


@njit(cache=True, nogil=True)
def look_up(i, j, X, row, offsets, shares, shares_by_expert, levels_by_expert, added):
    """What expert j adds to the mixtures of row i: e p and e, variable by variable."""
    share, level = added
    j = _u(j)
    for d in range(level.size):
        level[d] = levels_by_expert[j, d]
    if shares_by_expert.size:  # binary rows
        row = _u(row)
        for d in range(share.size):
            on, off = shares_by_expert[1, j, d], shares_by_expert[0, j, d]
            share[d] = on if X[row, d] else off
    else:
        for d in range(share.size):
            share[d] = shares[_u(offsets[_u(i), d]) + j]


@njit(cache=True, nogil=True)
def pursue_block(
    n, X, offsets, table, shares, shares_by_expert, levels, levels_by_expert, log2_expertise, rule,
    order, lo, work,
):  # fmt: skip
    """Activate experts by the smoothed score, after the first, in rows lo to lo + n of `order`.

    Parameters
    ----------
    offsets : ndarray of shape (block, n_features)
        Where in the flat `table` of log-densities and in the flat `shares` (e_k p_k, up to a
        factor per variable at most one) the experts' values for a row's variable begin.
    shares_by_expert : ndarray of shape (2, n_experts, n_features)
        The shares of binary rows `X` in another order; empty for other rows.
    levels : ndarray of shape (n_features, n_lanes)
        e_k, at most one; `levels_by_expert` is the same in another order.
    """
    min_active, max_active, margin, cost, _, _ = rule
    n_active, active, gains, products, mixtures, factors, easy = work
    added = np.empty(offsets.shape[1], np.float32), np.empty(offsets.shape[1], np.float32)
    mantissa, exponent = products
    n_features = offsets.shape[1]
    mixtures[0][:n] = np.float32(0)
    mixtures[1][:n] = np.float32(0)
    active[:] = False
    n_active[:] = 0
    chosen = np.empty(n, np.int64)
    for i in range(n):
        chosen[i] = order[lo + i, 0]
    while True:
        running = 0
        for i in range(n):
            if chosen[i] < 0:
                continue
            j = chosen[i]
            active[i, j] = True
            order[lo + i, n_active[i]] = j
            n_active[i] += 1
            if n_active[i] == max_active:
                chosen[i] = -1
                continue
            running += 1
            gains[i] = 0.0
            mantissa[i] = np.float32(1)
            look_up(i, j, X, lo + i, offsets, shares, shares_by_expert, levels_by_expert, added)
            shift, exact = join(i, added, mixtures, factors, easy)
            exponent[i] = shift
            if not exact:
                for d in range(n_features):
                    if factors[i, d, 1] == np.float32(0):
                        add_exactly(
                            gains, i, d, order[lo + i], n_active[i], offsets[i, d], table,
                            log2_expertise,
                        )  # fmt: skip
        if running == 0:
            break
        for g in range(easy.shape[1]):
            start = g * GROUP
            stop = min(start + GROUP, n_features)
            for i in range(n):
                if chosen[i] < 0:
                    continue
                if easy[i, g]:
                    multiply_ratios(products, i, start, stop, offsets, factors, shares, levels)
                else:  # two factors always fit
                    for d in range(start, stop, 2):
                        end = min(d + 2, stop)
                        multiply_ratios(products, i, d, end, offsets, factors, shares, levels)
        for i in range(n):
            if chosen[i] < 0:
                continue
            for k in range(cost.size):
                gains[i, k] += np.log(np.float64(mantissa[i, k])) + exponent[i, k] * LOG_2
            j, most = best_expert(gains, i, cost, active[i])
            stop_here = most <= margin and n_active[i] >= min_active
            chosen[i] = -1 if stop_here else j


@njit(cache=True, nogil=True)
def new_block_work(block, n_experts, n_features, n_lanes):
    """Scratch of `pursue_block`."""
    return (
        np.empty(block, np.int64),
        np.empty((block, n_experts), np.bool_),
        np.empty((block, n_lanes)),
        (np.empty((block, n_lanes), np.float32), np.empty((block, n_lanes), np.int32)),
        (np.empty((block, n_features), np.float32), np.empty((block, n_features), np.float32)),
        np.empty((block, n_features, 4), np.float32),
        np.empty((block, (n_features + GROUP - 1) // GROUP), np.bool_),
    )


@njit(cache=True, nogil=True)
def refine_smoothed(code, offsets, table, rank, rank_by_expert, rule, scratch):
    """Refine a code of the smoothed pursuit by the hard rule; returns its log-likelihood."""
    n_swaps = rule[4]
    gains = np.empty((1, rank.shape[1]))
    if n_swaps:
        gains_over_code(code, gains, 0, offsets, table, rank, rank_by_expert, scratch)
    return refine_row(code, gains, 0, offsets, table, rank, rank_by_expert, rule, scratch)


@njit(cache=True, nogil=True)
def pursue_binary(
    X, lo, hi, first, table, shares, shares_by_expert, levels, levels_by_expert, log2_expertise,
    rank, rank_by_expert, rule, order, loglik,
):  # fmt: skip
    """Codes of binary rows lo to hi whose first experts are known."""
    n_features, n_lanes = rank.shape
    n_experts = rank_by_expert.shape[0]
    block = min(BLOCK, hi - lo)
    work = new_block_work(block, n_experts, n_features, n_lanes)
    scratch = new_refinement(n_experts, rank)
    offsets = np.empty((block, n_features), np.int64)
    for begin in range(lo, hi, block):
        n = min(block, hi - begin)
        for i in range(n):
            row_offsets(X, begin + i, n_lanes, offsets[i])
            order[begin + i, 0] = first[begin + i]
        pursue_block(
            n, X, offsets, table, shares, shares_by_expert, levels, levels_by_expert,
            log2_expertise, rule, order, begin, work,
        )  # fmt: skip
        for i in range(n):
            loglik[begin + i] = refine_smoothed(
                order[begin + i], offsets[i], table, rank, rank_by_expert, rule, scratch
            )


@njit(cache=True, nogil=True)
def mixture_shares(table, log2_levels, shares):
    """e_k p_k, scaled so that p is at most one per variable, by a polynomial for 2^x."""
    n_features, n_lanes = log2_levels.shape
    best = np.empty(LANES, np.float32)
    for d in range(n_features):
        at = d * n_lanes
        for k in range(LANES):
            best[k] = table[_u(at + k)]
        for strip in range(LANES, n_lanes, LANES):
            for k in range(LANES):
                value = table[_u(at + strip + k)]
                best[k] = value if value > best[k] else best[k]
        top = best[0]
        for k in range(1, LANES):
            top = max(top, best[k])
        for k in range(n_lanes):
            y = (table[_u(at + k)] - top) * LOG2_E + log2_levels[_u(d), k]
            y = y if y > np.float32(-125) else np.float32(-125)
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
    T, lo, hi, block, theta, log_partition, levels, levels_by_expert, log2_levels, log2_expertise,
    rank, rank_by_expert, rule, order, loglik,
):  # fmt: skip
    """Codes of rows lo to hi of any family."""
    n_features, n_lanes = rank.shape
    cost = rule[3]
    n_experts = cost.size
    work = new_block_work(block, n_experts, n_features, n_lanes)
    scratch = new_refinement(n_experts, rank)
    tables = np.empty((block, n_features * n_lanes), np.float32)
    shares = np.empty((block, n_features * n_lanes), np.float32)
    offsets = np.arange(block * n_features).reshape(block, n_features) * n_lanes
    gains = np.empty((1, n_lanes))
    asleep = np.zeros(n_experts, np.bool_)
    not_binary = np.empty((0, 0), np.uint8), np.empty((0, 0, 0), np.float32)
    for begin in range(lo, hi, block):
        n = min(block, hi - begin)
        tabulate(T, begin, n, theta, log_partition, tables)
        for i in range(n):
            sum_all(gains, offsets[0], tables[i])
            order[begin + i, 0], _ = best_expert(gains, 0, cost, asleep)
            mixture_shares(tables[i], log2_levels, shares[i])
        pursue_block(
            n, not_binary[0], offsets, tables.reshape(-1), shares.reshape(-1), not_binary[1],
            levels, levels_by_expert, log2_expertise, rule, order, begin, work,
        )  # fmt: skip
        for i in range(n):
            loglik[begin + i] = refine_smoothed(
                order[begin + i], offsets[0], tables[i], rank, rank_by_expert, rule, scratch
            )
