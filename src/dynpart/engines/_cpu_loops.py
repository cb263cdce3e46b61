"""Inner loops of the compiled kernels, as plain loops.

`_cpu_vectors` has the same functions as explicit vectors, for processors that suit them; all others
run these. Both go over variables in the same order for each expert, so that results depend
on the list of variables alone. They differ by rounding: vectors sum in float32 and fuse products.

All tables have the experts of one variable side by side, padded to whole vectors.
"""

# mypy: allow-untyped-defs, disable-error-code="assignment"
from __future__ import annotations

import math

import numpy as np

from dynpart.compiled import in_place, inlined

LANES = 16
"""Experts per vector: tables are padded to a multiple of it."""

LOG2_E = float(np.float32(1.4426950408889634))
LOWEST = -125.0
"""Lowest exponent of a power of two in float32."""
POWER_OF_TWO = tuple(
    float(np.float32(c))
    for c in (1.5403530e-4, 1.3333558e-3, 9.6181291e-3, 5.5504109e-2, 2.4022651e-1, 6.9314718e-1, 1)
)
"""Polynomial for 2^x with x between -1/2 and 1/2, highest power first."""

_u = np.uintp  # unsigned indices need no test for negative ones, so loops vectorise
_f = np.float32


@in_place
def add_rows(gains, i, lo, hi, offsets, table):
    """gains[i] += rows of the flat table that begin at offsets[lo:hi]."""
    i = _u(i)
    for q in range(lo, hi):
        at = _u(offsets[_u(q)])
        for k in range(gains.shape[1]):
            gains[i, k] += table[at + _u(k)]


@in_place
def average_rows(out, weights, rows, n, table):
    """Set `out` to the weighted sum of n rows of a flat table, each as long as `out`.

    `rows` (int32) are their indices in the table and in `weights`.
    """
    for k in range(out.size):
        out[k] = _f(0)
    for q in range(n):
        row = _u(rows[_u(q)])
        at, weight = row * _u(out.size), weights[row]
        for k in range(out.size):
            out[k] += weight * table[at + _u(k)]


@in_place
def logarithms(values):
    """Replace values by their logarithms, minus infinity for zero; a whole number of vectors."""
    for k in range(values.size):
        value = values[_u(k)]
        values[_u(k)] = math.log(value) if value > 0 else -math.inf


@in_place
def add_changes(
    gains, i, lo, hi, sign, variables, offsets, old_rank, old_log, new_rank, new_rank_at, new_log,
    table, rank,
):  # fmt: skip
    """Move gains[i] from old owners to new and better ones, for variables lo to hi of a list."""
    i = _u(i)
    for q in range(lo, hi):
        d = _u(variables[_u(q)])
        at, before, log_before = _u(offsets[d]), old_rank[d], old_log[d]
        after, lost = new_rank[_u(new_rank_at) + d], log_before - new_log[d]
        for k in range(gains.shape[1]):
            r, gap = rank[d, k], log_before - table[at + _u(k)]
            term = gap if r < before else _f(0)
            gains[i, k] += sign * (lost if r < after else term)


@in_place
def multiply_ratios(mantissa, exponent, i, lo, hi, offsets, factors, shares, ahead, levels):
    """Multiply running products by prod (a + b e p) / prod (a' + b' e), variables lo to hi.

    Parameters
    ----------
    mantissa, exponent : ndarray of shape (block, n_lanes)
        The products of row i are mantissa[i] 2^exponent[i], with mantissas in [1, 2).
    factors : ndarray of shape (n_variables, 4)
        a, b, a', b' of these variables alone.
    ahead : int
        Elements before use at which shares are prefetched, 0 for none; only vectors use it.
    """
    i = _u(i)
    for k in range(levels.shape[1]):
        above = below = _f(1)
        for variable in range(lo, hi):
            d, q = _u(variable), _u(variable - lo)
            above *= factors[q, 0] + factors[q, 1] * shares[_u(offsets[i, d] + k)]
            below *= factors[q, 2] + factors[q, 3] * levels[d, _u(k)]
        product = mantissa[i, _u(k)] * (above / below)
        grown = exponent_of(product)
        exponent[i, _u(k)] += grown
        mantissa[i, _u(k)] = _f(math.ldexp(product, -grown))


@inlined
def largest_of(values):
    """The largest of some float64 values, a whole number of vectors."""
    most = values[0]
    for at in range(1, values.size):
        most = max(most, values[_u(at)])
    return most


@in_place
def relative_exponentials(nats, out):
    """Set `out` to the exponentials of `nats` (float64) divided by the largest of these.

    Those that are very small become 0. Both arrays are whole vectors long.

    Returns
    -------
    float
        The largest of `nats`.
    """
    most = largest_of(nats)
    for c in range(nats.size):
        y = _f(nats[_u(c)] - most) * _f(LOG2_E)
        out[_u(c)] = two_to(y) if y > _f(LOWEST) else _f(0)
    return most


@inlined
def two_to(y):
    """2^y by a polynomial, for float32 not much below zero; y less than LOWEST counts as that."""
    y = y if y > _f(LOWEST) else _f(LOWEST)
    whole = np.floor(y + _f(0.5))
    x = y - whole
    value = _f(POWER_OF_TWO[0])
    value = value * x + _f(POWER_OF_TWO[1])
    value = value * x + _f(POWER_OF_TWO[2])
    value = value * x + _f(POWER_OF_TWO[3])
    value = value * x + _f(POWER_OF_TWO[4])
    value = value * x + _f(POWER_OF_TWO[5])
    value = value * x + _f(POWER_OF_TWO[6])
    return value * power_of_two(np.int32(whole))


@in_place
def mixture_shares(lo, hi, offsets, table, log2_levels, shares):
    """e_k p_k of variables lo to hi of a row, scaled so that p is at most one per variable.

    `table` holds log p and `log2_levels` log2 e; values of a variable begin at its offset in
    `table` and in `shares`.
    """
    n_lanes = log2_levels.shape[1]
    for variable in range(lo, hi):
        d, at = _u(variable), _u(offsets[_u(variable)])
        most = table[at]
        for k in range(1, n_lanes):
            most = max(most, table[at + _u(k)])
        for k in range(n_lanes):
            log = table[at + _u(k)] - most
            shares[at + _u(k)] = two_to(log * _f(LOG2_E) + log2_levels[d, _u(k)])


@in_place
def positions(flags, n, found):
    """Indices of the set flags among the first n; returns their number.

    Flags (uint8) are 0 or 1. The length of the array is a multiple of 16; flags after the first n
    are set to 0. `found` (int32) has room for n + 15 indices.
    """
    m = 0
    for d in range(n):
        found[_u(m)] = d
        m += flags[_u(d)]
    return m


@in_place
def best_expert(gains, i, cost, active):
    """The inactive expert with the largest gain minus cost, lowest index first, and the value."""
    best = -1
    most = -np.inf
    for k in range(cost.size):
        value = gains[i, k] - cost[k]
        if value > most and not active[k]:
            most = value
            best = k
    return best, most


@in_place
def two_best(code, n_active, background, keys, lo, owner_key, heir_key):
    """The lowest and the second lowest key of the active experts, for variables from lo on.

    Parameters
    ----------
    code : ndarray of shape (max_active,)
        The first `n_active` entries are valid; `background` is added unless it is negative.
    keys : ndarray of shape (n_experts, n_features)
    owner_key, heir_key : ndarray of shape (n_features,)
        Filled in; the highest key of all where there is no expert.
    """
    highest = ~keys.dtype.type(0)
    for d in range(lo, owner_key.size):
        owner_key[_u(d)] = highest
        heir_key[_u(d)] = highest
    for step in range(n_active + (background >= 0)):
        j = _u(code[step] if step < n_active else background)
        for place in range(lo, owner_key.size):
            d = _u(place)
            key, best = keys[j, d], owner_key[d]
            better, worse = (key, best) if key < best else (best, key)
            heir_key[d] = worse if worse < heir_key[d] else heir_key[d]
            owner_key[d] = better


@inlined
def exponent_of(x):
    """Integer n with 2^n <= x < 2^(n + 1), for a normal positive float32."""
    return np.int32(math.frexp(x)[1] - 1)


@inlined
def power_of_two(n):
    """2^n as a float32, for an integer -126 <= n <= 127."""
    return _f(math.ldexp(1.0, n))


@in_place
def sum_of(values, n):
    """Sum of the first n values in float64, by four independent partial sums."""
    a = b = c = d = 0.0
    whole = n // 4 * 4
    for at in range(0, whole, 4):
        a += values[_u(at)]
        b += values[_u(at + 1)]
        c += values[_u(at + 2)]
        d += values[_u(at + 3)]
    for at in range(whole, n):
        a += values[_u(at)]
    return (a + b) + (c + d)


@inlined
def owned_by(j, owner, flags, owned):
    """Variables of expert j; returns their number.

    Parameters
    ----------
    owner : ndarray of shape (n_features,)
        The owners of all variables.
    flags : ndarray
        Scratch of :func:`positions`.
    owned : ndarray
        Filled in; it has room for n_features + 15 indices.
    """
    for d in range(owner.size):
        flags[d] = owner[d] == j
    return positions(flags, owner.size, owned)
