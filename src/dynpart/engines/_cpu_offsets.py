"""Compiled pursuit of binary rows under autoregressive experts.

Every row has its own table of log-densities, filled from one offset per variable.
"""

# mypy: allow-untyped-defs
from __future__ import annotations

import numpy as np

from dynpart.compiled import compiled, part
from dynpart.engines._cpu_dense import find_largest
from dynpart.engines._cpu_inner import best_expert
from dynpart.engines._cpu_pursuit import FIRST, add_all, begin_with, pursue_row
from dynpart.engines._cpu_refine import finish_row

FARTHEST = 500.0
"""Offsets are clipped to this, in nats, so that their exponentials are finite."""
FAR = 1e20
"""Bound of exp(offset) up to which odds are multiplied in single precision."""
LOG_2 = np.float32(0.6931472)
SQRT_HALF = np.float32(0.70710677)
MANTISSA, EXPONENT_OF_HALF = np.int32(0x007FFFFF), np.int32(0x3F000000)

_u = np.uintp  # see _cpu_pursuit


@part
def tabulate_given(x, row, offset, against, scratch, table):
    """Log P_k(x_d | x_<d) of one row's variables under all experts.

    Parameters
    ----------
    x : ndarray of shape (n_rows, n_features), uint8
    row : int
    offset : ndarray of shape (n_rows, n_features)
        Contribution of earlier values to the log-odds.
    against : ndarray of shape (2, n_features, n_lanes), float32
        Odds against the value 0, and against the value 1, without the offset.
    scratch : ndarray of shape (n_lanes,), float32
    table : ndarray of shape (n_features * n_lanes,)
    """
    i = _u(row)
    _, n_features, n_lanes = against.shape
    for variable in range(n_features):
        d = _u(variable)
        value = _u(x[i, d])
        o = min(max(offset[i, d], -FARTHEST), FARTHEST)
        factor = np.exp(o) if value == 0 else np.exp(-o)
        odds = against[value, d]
        density = table[variable * n_lanes : (variable + 1) * n_lanes]
        if factor > FAR:
            for k in range(n_lanes):
                density[k] = -np.log(1.0 + factor * odds[k])
            continue
        single = np.float32(factor)
        for k in range(n_lanes):
            scratch[k] = np.float32(1) + single * odds[k]
        minus_log(scratch, scratch.view(np.int32), density)


@part
def minus_log(y, bits, out):
    """Write -log(y) of numbers from 1 on into `out`, in single precision and without a branch.

    y = m 2^e with m between the roots of 1/2 and 2, and log(m) by a series in (m - 1) / (m + 1).

    Parameters
    ----------
    y : ndarray of shape (n,), float32
        Overwritten.
    bits : ndarray of shape (n,), int32
        The same memory.
    out : ndarray of shape (n,), float32
    """
    for k in range(y.size):
        out[k] = np.float32((bits[k] >> 23) - 126)
    for k in range(y.size):
        bits[k] = (bits[k] & MANTISSA) | EXPONENT_OF_HALF  # now y is between 1/2 and 1
    for k in range(y.size):
        small = y[k] < SQRT_HALF
        m = y[k] + y[k] if small else y[k]
        e = out[k] - np.float32(1) if small else out[k]
        z = (m - np.float32(1)) / (m + np.float32(1))
        zz = z * z
        series = np.float32(1 / 9) * zz + np.float32(1 / 7)
        series = series * zz + np.float32(1 / 5)
        series = series * zz + np.float32(1 / 3)
        out[k] = -(e * LOG_2 + np.float32(2) * (z * zz * series + z))


@compiled
def pursue(
    x, offset, lo, hi, against, rank, rank_by_expert, rule, scratch, table, order, loglik,
):  # fmt: skip
    """Codes of rows lo to hi, one at a time; `table` is scratch for one row."""
    n_features, n_lanes = rank.shape
    _, max_active, _, cost, n_swaps, _, _, _ = rule
    work, alone, top = scratch[0], scratch[2][1], scratch[5][0]
    code = np.empty(max_active, np.int64)
    asleep = np.zeros(cost.size, np.bool_)
    places = np.arange(n_features) * n_lanes
    gains = np.empty((1, n_lanes))
    lanes = np.empty(n_lanes, np.float32)
    for row in range(lo, hi):
        tabulate_given(x, row, offset, against, lanes, table)
        alone[:] = 0.0
        add_all(alone, FIRST, places, table)
        j = best_expert(alone, FIRST, cost, asleep)[0]
        first = alone[0, j]
        code[0] = j
        if max_active > 1 or n_swaps:
            begin_with(j, gains, FIRST, alone, places, table, rank, rank_by_expert, work)
        total = pursue_row(
            gains, FIRST, first, places, table, rank, rank_by_expert, rule, code, work
        )
        if n_swaps:
            find_largest(places, table, cost.size, top)
        loglik[row] = finish_row(
            code, total, first - cost[j], gains, FIRST, places, table, rank, rank_by_expert, rule,
            scratch,
        )  # fmt: skip
        for step in range(max_active):
            order[row, step] = code[step]
