"""Compiled kernels of the smoothed pursuit (eq. 4): products of ratios, a logarithm at the end.

The score changes by sum_d log( (1 + e_k p_k / N) / (1 + e_k / E) ) when expert k joins, with N and
E the active experts' sums of e p and e. The ratios of all variables are multiplied in float32, with
a separate exponent, which avoids a logarithm per variable. A product of a thousand factors in
float32 is exact to a ten-thousandth of a nat.
"""

# mypy: allow-untyped-defs, disable-error-code="call-arg,unreachable"
from __future__ import annotations

import numpy as np

from dynpart.compiled import compiled, inlined, part
from dynpart.engines._cpu_dense import tabulate
from dynpart.engines._cpu_inner import (
    add_rows,
    best_expert,
    exponent_of,
    mixture_shares,
    multiply_ratios,
    power_of_two,
    sum_of,
)
from dynpart.engines._cpu_levels import row_offsets
from dynpart.engines._cpu_pursuit import TILE, count_active
from dynpart.engines._cpu_refine import (
    NOBODY,
    find_owners,
    read_opinions,
)

GROUP = 16
"""Variables multiplied before the exponent is taken out of the product."""
AHEAD = 2 * GROUP
"""Distance, in variables, at which a row's own table is prefetched."""
BLOCK = 16
"""Rows that are processed together, so that a group's tables are read once for all."""
ROOM = 110
"""Binary digits a group's product may grow or shrink by: float32 has 126."""
SMALLEST = np.float32(2.0**-90)
"""Sums of the active experts below this are computed in float64."""
LOG_2 = 0.6931471805599453
TINY = 2.2250738585072014e-308

_u = np.uintp  # see _cpu_pursuit


@part(_nrt=False)
def multiply_pairs(products, i, lo, hi, offsets, factors, shares, ahead, levels):
    """Multiply the ratios of two variables at a time, where more factors could overflow."""
    mantissa, exponent = products
    for d in range(lo, hi, 2):
        two = factors[d - lo : d - lo + 2]
        end = d + 2 if d + 2 < hi else hi
        multiply_ratios(mantissa, exponent, i, d, end, offsets, two, shares, ahead, levels)


@inlined
def log_of(value):
    """Logarithm of a number that may be as small as zero."""
    return np.log(value if value > TINY else TINY)


@part(_nrt=False)
def add_exactly(gains, i, d, chosen, n_active, offset, table, log2_expertise):
    """Add the change of variable d's score in float64, for sums too small for float32."""
    n_experts = log2_expertise.shape[0]
    top = -np.inf
    for k in range(n_experts):
        top = table[offset + k] if table[offset + k] > top else top
    mixture = 0.0
    total = 0.0
    for step in range(n_active):
        e = 2.0 ** log2_expertise[chosen[step], d]
        mixture += e * np.exp(table[offset + chosen[step]] - top)
        total += e
    before = log_of(mixture) - log_of(total)
    for k in range(n_experts):
        e = 2.0 ** log2_expertise[k, d]
        p = np.exp(table[offset + k] - top)
        after = log_of(mixture + e * p) - log_of(total + e)
        gains[i, k] += after - before


@part(_nrt=False)
def join(i, lo, hi, added, mixtures, factors):
    """Add an expert with e p and e as in `added` to the mixtures of variables lo to hi of row i.

    The factors 1 + e p / N and 1 + e / E are scaled down by a power of two, half way to the largest
    value they may take (no share and no level exceeds one), so that many fit into one product.

    Returns
    -------
    shift : int
        Powers of two by which the product of these ratios is now too small.
    easy : bool
        Whether the product of all these factors fits into a float32; that of two always does.
    exact : bool
        Whether float32 represents all sums; the others have factors of one.
    """
    mixture, total = mixtures
    share, level = added
    i = _u(i)
    one = np.float32(1)
    exact = True
    shift = 0
    grown = 0
    for q in range(hi - lo):
        d = _u(lo + q)
        mixture[i, d] += share[i, d]
        total[i, d] += level[i, d]
        ok = mixture[i, d] >= SMALLEST and total[i, d] >= SMALLEST
        b = one / mixture[i, d] if ok else np.float32(0)
        b_below = one / total[i, d] if ok else np.float32(0)
        half = (exponent_of(one + b) + 1) >> 1
        half_below = (exponent_of(one + b_below) + 1) >> 1
        a = power_of_two(-half)
        a_below = power_of_two(-half_below)
        factors[q, 0] = a
        factors[q, 1] = a * b
        factors[q, 2] = a_below
        factors[q, 3] = a_below * b_below
        exact &= ok
        shift += half - half_below
        grown += half if half > half_below else half_below
    return shift, grown <= ROOM, exact


@part(_nrt=False)
def look_up_levels(i, j, X, row, shares_by_expert, levels_by_expert, added):
    """Terms of expert j in the mixtures of discrete row i: e p and e of every variable."""
    share, level = added
    i, j, row = _u(i), _u(j), _u(row)
    for d in range(share.shape[1]):
        level[i, d] = levels_by_expert[j, d]
    if shares_by_expert.shape[0] == 2:
        for d in range(share.shape[1]):
            on, off = shares_by_expert[1, j, d], shares_by_expert[0, j, d]
            share[i, d] = on if X[row, d] else off
        return
    for d in range(share.shape[1]):
        share[i, d] = shares_by_expert[_u(X[row, d]), j, d]


@part(_nrt=False)
def look_up_dense(i, j, lo, hi, offsets, shares, levels_by_expert, added):
    """The same for variables lo to hi of a row with a table of its own."""
    share, level = added
    i, j = _u(i), _u(j)
    for variable in range(lo, hi):
        d = _u(variable)
        share[i, d] = shares[_u(offsets[i, d]) + j]
        level[i, d] = levels_by_expert[j, d]


@part(_nrt=False)
def activate(n, chosen, max_active, order, lo, n_active, active):
    """Add the chosen experts to the codes; returns the number of rows that continue."""
    running = 0
    for i in range(n):
        if chosen[i] >= 0:
            active[i, chosen[i]] = True
            order[lo + i, n_active[i]] = chosen[i]
            n_active[i] += 1
            if n_active[i] < max_active:
                running += 1
            else:
                chosen[i] = -1
    return running


@part(_nrt=False)
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
    shares_by_expert : ndarray of shape (n_values, n_experts, n_features)
        The shares of discrete rows `X` in another order; empty for other rows.
    levels : ndarray of shape (n_features, n_lanes)
        e_k, at most one; `levels_by_expert` is the same in another order.
    """
    min_active, max_active, margin, cost, _, _, _, _ = rule
    n_active, active, gains, products, mixtures, added, factors, (chosen, shift) = work
    mantissa, exponent = products
    n_features = offsets.shape[1]
    discrete = shares_by_expert.size > 0
    # Discrete rows share tables that stay in the cache.
    ahead = 0 if discrete else AHEAD * levels.shape[1]
    mixtures[0][:n] = np.float32(0)
    mixtures[1][:n] = np.float32(0)
    active[:] = False
    n_active[:] = 0
    for i in range(n):
        chosen[i] = order[lo + i, 0]
    while activate(n, chosen, max_active, order, lo, n_active, active):
        gains[:] = 0.0
        mantissa[:] = np.float32(1)
        exponent[:] = 0
        shift[:] = 0
        for i in range(n):
            if discrete and chosen[i] >= 0:
                look_up_levels(i, chosen[i], X, lo + i, shares_by_expert, levels_by_expert, added)
        # A group's shares are read from memory once; its products then read the cache.
        for start in range(0, n_features, GROUP):
            stop = start + GROUP if start + GROUP < n_features else n_features
            for i in range(n):
                if chosen[i] < 0:
                    continue
                if not discrete:
                    look_up_dense(
                        i, chosen[i], start, stop, offsets, shares, levels_by_expert, added
                    )
                moved, easy, exact = join(i, start, stop, added, mixtures, factors)
                shift[i] += moved
                if easy:
                    multiply_ratios(
                        mantissa, exponent, i, start, stop, offsets, factors, shares, ahead, levels
                    )
                else:
                    multiply_pairs(
                        products, i, start, stop, offsets, factors, shares, ahead, levels
                    )
                if not exact:
                    for d in range(start, stop):
                        if factors[d - start, 1] == np.float32(0):
                            add_exactly(
                                gains, i, d, order[lo + i], n_active[i], offsets[i, d], table,
                                log2_expertise,
                            )  # fmt: skip
        for i in range(n):
            if chosen[i] < 0:
                continue
            for k in range(cost.size):
                twos = exponent[i, k] + shift[i]
                gains[i, k] += np.log(np.float64(mantissa[i, k])) + twos * LOG_2
            j, most = best_expert(gains, i, cost, active[i])
            stop_here = most <= margin and n_active[i] >= min_active
            chosen[i] = -1 if stop_here else j


def new_block_work(block, n_experts, n_features, n_lanes):
    """Scratch of `pursue_block`."""
    return (
        np.empty(block, np.int64),
        np.empty((block, n_experts), np.bool_),
        np.empty((block, n_lanes)),
        (np.empty((block, n_lanes), np.float32), np.empty((block, n_lanes), np.int32)),
        (np.empty((block, n_features), np.float32), np.empty((block, n_features), np.float32)),
        (np.empty((block, n_features), np.float32), np.empty((block, n_features), np.float32)),
        np.empty((GROUP, 4), np.float32),
        (np.empty(block, np.int64), np.empty(block, np.int64)),
    )


@part(_nrt=False)
def hard_likelihood(order, row, offsets, table, scratch):
    """Log-likelihood of a row's code, padded with -1, under the hard rule."""
    code = scratch[3][0]
    for step in range(code.size):
        code[step] = order[row, step]
    n_active = count_active(code)
    find_owners(code, n_active, NOBODY, scratch)
    read_opinions(offsets, table, scratch)
    return sum_of(scratch[0][3][1], offsets.size)


@compiled
def pursue_levels(
    X, lo, hi, first, table, shares, shares_by_expert, levels, levels_by_expert, log2_expertise,
    rule, offsets, work, scratch, order, loglik,
):  # fmt: skip
    """Codes of discrete rows lo to hi whose first experts are known.

    Parameters
    ----------
    offsets : ndarray of shape (block, n_features)
        Scratch, as are `work` (:func:`new_block_work`) and `scratch`
        (:func:`~dynpart.engines._cpu_refine.new_refinement`).
    """
    n_lanes = levels.shape[1]
    block = len(offsets)
    for begin in range(lo, hi, block):
        n = block if begin + block < hi else hi - begin
        for i in range(n):
            row_offsets(X, begin + i, n_lanes, offsets[i])
            order[begin + i, 0] = first[begin + i]
        pursue_block(
            n, X, offsets, table, shares, shares_by_expert, levels, levels_by_expert,
            log2_expertise, rule, order, begin, work,
        )  # fmt: skip
        for i in range(n):
            loglik[begin + i] = hard_likelihood(order, begin + i, offsets[i], table, scratch)


def grouped_offsets(block, n_features, n_lanes):
    """Offsets of a table in the order of a block's products: group, row, variable.

    The table is padded to whole groups.
    """
    i, d = np.arange(block)[:, None], np.arange(n_features)
    return ((d // GROUP * block + i) * GROUP + d % GROUP) * n_lanes


@part
def begin_dense(
    T, begin, n, theta, log_partition, relative, log2_levels, cost, offsets, tables, common, gains,
    order,
):  # fmt: skip
    """Fill the tables of n rows, tile by tile of variables, and find their first experts."""
    table, shares = tables
    n_features = offsets.shape[1]
    asleep = np.zeros(cost.size, np.bool_)
    gains[:] = 0.0
    common[:] = 0.0
    for start in range(0, n_features, TILE):
        stop = start + TILE if start + TILE < n_features else n_features
        tabulate(
            T, begin, n, start, stop, theta, log_partition, cost.size, relative, offsets, table,
            common,
        )  # fmt: skip
        for i in range(n):
            add_rows(gains, i, start, stop, offsets[i], table)
            mixture_shares(start, stop, offsets[i], table, log2_levels, shares)
    for i in range(n):
        order[begin + i, 0], _ = best_expert(gains, i, cost, asleep)


@compiled
def pursue_dense(
    T, lo, hi, theta, log_partition, relative, levels, levels_by_expert, log2_levels,
    log2_expertise, rule, tables, offsets, work, scratch, order, loglik,
):  # fmt: skip
    """Codes of rows lo to hi of any family; `tables` are two, each for a block of rows.

    Scratch is that of `pursue_levels`, and `offsets` are as `grouped_offsets` makes them.
    """
    cost = rule[3]
    block = len(offsets)
    gains, common = np.empty((block, levels.shape[1])), np.empty(block)
    table, shares = tables
    not_discrete = np.empty((0, 0), np.uint8), np.empty((0, 0, 0), np.float32)
    for begin in range(lo, hi, block):
        n = block if begin + block < hi else hi - begin
        begin_dense(
            T, begin, n, theta, log_partition, relative, log2_levels, cost, offsets, tables, common,
            gains, order,
        )  # fmt: skip
        pursue_block(
            n, not_discrete[0], offsets, table, shares, not_discrete[1], levels, levels_by_expert,
            log2_expertise, rule, order, begin, work,
        )  # fmt: skip
        for i in range(n):
            found = hard_likelihood(order, begin + i, offsets[i], table, scratch)
            loglik[begin + i] = common[i] + found
