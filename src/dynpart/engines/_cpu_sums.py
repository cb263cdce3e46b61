"""Compiled sums over rows: expertise gradients (appendix A) and responsibilities (eq. 5 and 6).

Work is split into tiles of variables and blocks of rows, independent of the number of threads.
Within a tile all parameters of an expert are contiguous and stay in the cache. Terms are added in
the precision of the tables for a few rows, and these sums in float64. Composed opinions are stored
relative to the first active expert's: if it is the only one they are exactly zero, and so is the
evidence. Values of `missing` or more, and NaN, were not observed; if `missing` is None all were.
Rows have weights, or `weight` is None.
"""

# mypy: allow-untyped-defs
from __future__ import annotations

import numpy as np

from dynpart.compiled import compiled, part

TILE = 64
"""Variables of a tile."""
FLUSH = 128
"""Minimum number of rows whose terms are added before they enter the float64 sums."""

_u = np.uintp  # unsigned indices need no test for negative ones, so loops vectorise


@part
def _flush(part, out, experts, n_parts):
    """Add the running sums of a tile to out[s, k] (float64), and reset them."""
    for k in range(experts):
        for s in range(n_parts):
            at = (k * n_parts + s) * TILE
            for t in range(TILE):
                out[_u(s), _u(k), t] += part[_u(at + t)]
                part[_u(at + t)] = 0


@compiled(error_model="numpy")
def binary_gradients(X, missing, weight, lo, hi, start, width, order, tile, out):
    """Sums of g and g^2 over rows lo to hi, for the variables of one tile.

    Parameters
    ----------
    missing : uint8 or None
        The value that stands for what was not observed.
    weight : ndarray of shape (n_rows,) or None
    tile : ndarray of shape (n_experts * 2 * TILE,)
        Levels of expertise and probabilities of the tile, expert by expert.
    out : ndarray of shape (2, n_experts, TILE)
        Sums, added to.
    """
    n_experts = out.shape[1]
    part = np.zeros(n_experts * 2 * TILE, tile.dtype)
    work = np.zeros(4 * TILE, tile.dtype)
    one = tile.dtype.type(1)
    flush = max(FLUSH, 2 * n_experts)
    for begin in range(lo, hi, flush):
        for row in range(begin, min(begin + flush, hi)):
            first = np.int64(order[row, 0]) * 2 * TILE + TILE
            for t in range(TILE):
                work[t] = 0
                work[_u(TILE + t)] = 0
                work[_u(2 * TILE + t)] = tile[_u(first + t)]
            for step in range(order.shape[1]):
                if order[row, step] < 0:
                    break
                at = np.int64(order[row, step]) * 2 * TILE
                for t in range(TILE):
                    work[t] += tile[_u(at + t)]
                    work[_u(TILE + t)] += tile[_u(at + t)] * (
                        tile[_u(at + TILE + t)] - work[_u(2 * TILE + t)]
                    )
            for t in range(TILE):
                work[t] = one / work[t]
                work[_u(TILE + t)] *= work[t]
            for t in range(width):
                # (x - mu) / (mu (1 - mu)) for x in {0, 1}, times 1 / E
                mu = work[_u(2 * TILE + t)] + work[_u(TILE + t)]
                work[_u(3 * TILE + t)] = work[t] / (mu if X[_u(row), _u(start + t)] else mu - one)
            if missing is not None:
                for t in range(width):
                    if X[_u(row), _u(start + t)] >= missing:
                        work[_u(3 * TILE + t)] = 0
            for step in range(order.shape[1]):
                if order[row, step] < 0:
                    break
                at = np.int64(order[row, step]) * 2 * TILE
                for t in range(TILE):
                    ahead = (tile[_u(at + TILE + t)] - work[_u(2 * TILE + t)]) - work[_u(TILE + t)]
                    g = tile[_u(at + t)] * work[_u(3 * TILE + t)] * ahead
                    counted = g if weight is None else g * tile.dtype.type(weight[row])
                    part[_u(at + t)] += counted
                    part[_u(at + TILE + t)] += counted * g
        _flush(part, out, n_experts, 2)


@compiled(error_model="numpy")
def level_gradients(X, missing, weight, lo, hi, start, width, order, tile, out):
    """The same for rows of any number of levels: g = r (p_k(x) / p(x) - 1), the level's alone.

    Parameters
    ----------
    X : ndarray of shape (n_rows, n_features), uint8 or uint16
    missing : unsigned integer or None
        The value that stands for what was not observed.
    tile : ndarray of shape (n_experts * (1 + n_levels) * TILE,)
        Levels of expertise and probabilities of all levels, expert by expert.
    """
    n_experts = out.shape[1]
    size = tile.size // n_experts
    part = np.zeros(n_experts * 2 * TILE, tile.dtype)
    work = np.zeros(3 * TILE, tile.dtype)
    # Probabilities of the row's levels under its experts, minus those of the first one.
    ahead = np.zeros(order.shape[1] * TILE, tile.dtype)
    first = np.zeros(TILE, tile.dtype)
    place = np.arange(TILE, 2 * TILE)
    flush = max(FLUSH, 2 * n_experts)
    for begin in range(lo, hi, flush):
        for row in range(begin, min(begin + flush, hi)):
            for t in range(width):
                place[t] = (1 + np.int64(X[_u(row), _u(start + t)])) * TILE + t
            if missing is not None:
                for t in range(width):
                    if X[_u(row), _u(start + t)] >= missing:
                        place[t] = TILE + t
            at = np.int64(order[row, 0]) * size
            for t in range(TILE):
                first[t] = tile[_u(at + place[t])]
                work[t] = 0
                work[_u(TILE + t)] = 0
            n_active = 0
            while n_active < order.shape[1] and order[row, n_active] >= 0:
                at = np.int64(order[row, n_active]) * size
                room = n_active * TILE
                for t in range(TILE):
                    ahead[_u(room + t)] = tile[_u(at + place[t])]
                for t in range(TILE):
                    ahead[_u(room + t)] -= first[t]
                    work[t] += tile[_u(at + t)]
                    work[_u(TILE + t)] += tile[_u(at + t)] * ahead[_u(room + t)]
                n_active += 1
            for t in range(TILE):
                work[t] = 1 / work[t]
                work[_u(TILE + t)] *= work[t]
                work[_u(2 * TILE + t)] = work[t] / (first[t] + work[_u(TILE + t)])
            if missing is not None:
                for t in range(width):
                    if X[_u(row), _u(start + t)] >= missing:
                        work[_u(2 * TILE + t)] = 0
            for step in range(n_active):
                at = np.int64(order[row, step]) * size
                to = np.int64(order[row, step]) * 2 * TILE
                here = step * TILE
                for t in range(TILE):
                    gap = ahead[_u(here + t)] - work[_u(TILE + t)]
                    g = tile[_u(at + t)] * work[_u(2 * TILE + t)] * gap
                    counted = g if weight is None else g * tile.dtype.type(weight[row])
                    part[_u(to + t)] += counted
                    part[_u(to + TILE + t)] += counted * g
        _flush(part, out, n_experts, 2)


@compiled(error_model="numpy")
def level_sums(X, missing, weight, lo, hi, start, width, order, tile, out):
    """Sums of r over the rows lo to hi in which a variable has each level.

    Parameters
    ----------
    X, missing
        As in `level_gradients`.
    tile : ndarray of shape (n_experts * TILE,)
        Levels of expertise of the tile.
    out : ndarray of shape (n_levels, n_experts, TILE)
        Sums, added to.
    """
    n_levels, n_experts, _ = out.shape
    part = np.zeros(n_experts * n_levels * TILE, tile.dtype)
    work = np.zeros(TILE, tile.dtype)
    place = np.zeros(TILE, np.int64)
    one = tile.dtype.type(1)
    flush = max(FLUSH, n_experts * n_levels)
    for begin in range(lo, hi, flush):
        for row in range(begin, min(begin + flush, hi)):
            for t in range(TILE):
                work[t] = 0
            for step in range(order.shape[1]):
                if order[row, step] < 0:
                    break
                at = np.int64(order[row, step]) * TILE
                for t in range(TILE):
                    work[t] += tile[_u(at + t)]
            counted = one if weight is None else tile.dtype.type(weight[row])
            for t in range(width):
                x = np.int64(X[_u(row), _u(start + t)])
                known = missing is None or x < missing
                place[t] = x * TILE + t if known else t
                work[t] = counted / work[t] if known else 0 * one
            for step in range(order.shape[1]):
                if order[row, step] < 0:
                    break
                at = np.int64(order[row, step]) * TILE
                to = np.int64(order[row, step]) * n_levels * TILE
                for t in range(width):
                    part[_u(to + place[t])] += tile[_u(at + t)] * work[t]
        _flush(part, out, n_experts, n_levels)


@compiled(error_model="numpy")
def normal_gradients(T, missing, weight, lo, hi, start, width, order, tile, out):
    """The same for rows of normal families; `tile` holds expertise, m and v + m^2, each (TILE,)."""
    n_experts = out.shape[1]
    part = np.zeros(n_experts * 2 * TILE, tile.dtype)
    work = np.zeros(8 * TILE, tile.dtype)
    flush = max(FLUSH, 2 * n_experts)
    for begin in range(lo, hi, flush):
        for row in range(begin, min(begin + flush, hi)):
            first = np.int64(order[row, 0]) * 3 * TILE
            for t in range(TILE):
                work[t] = 0
                work[_u(TILE + t)] = 0
                work[_u(2 * TILE + t)] = 0
                work[_u(3 * TILE + t)] = tile[_u(first + TILE + t)]
                work[_u(4 * TILE + t)] = tile[_u(first + 2 * TILE + t)]
            for step in range(order.shape[1]):
                if order[row, step] < 0:
                    break
                at = np.int64(order[row, step]) * 3 * TILE
                for t in range(TILE):
                    e = tile[_u(at + t)]
                    work[t] += e
                    work[_u(TILE + t)] += e * (tile[_u(at + TILE + t)] - work[_u(3 * TILE + t)])
                    work[_u(2 * TILE + t)] += e * (
                        tile[_u(at + 2 * TILE + t)] - work[_u(4 * TILE + t)]
                    )
            for t in range(width):
                work[_u(5 * TILE + t)] = T[0, _u(row), _u(start + t)]
            for t in range(TILE):
                per_total = 1 / work[t]
                work[_u(TILE + t)] *= per_total
                work[_u(2 * TILE + t)] *= per_total
                m = work[_u(3 * TILE + t)] + work[_u(TILE + t)]
                v = work[_u(4 * TILE + t)] + work[_u(2 * TILE + t)] - m * m
                residual = work[_u(5 * TILE + t)] - m
                by_mean = residual / v
                by_variance = (residual * residual - v) / (2 * v * v)
                work[_u(6 * TILE + t)] = (by_mean - 2 * m * by_variance) * per_total
                work[_u(7 * TILE + t)] = by_variance * per_total
            if missing is not None:
                for t in range(width):
                    if not work[_u(5 * TILE + t)] < missing:
                        work[_u(6 * TILE + t)] = 0
                        work[_u(7 * TILE + t)] = 0
            for step in range(order.shape[1]):
                if order[row, step] < 0:
                    break
                at = np.int64(order[row, step]) * 3 * TILE
                to = np.int64(order[row, step]) * 2 * TILE
                for t in range(TILE):
                    by_m = (tile[_u(at + TILE + t)] - work[_u(3 * TILE + t)]) - work[_u(TILE + t)]
                    by_q = (tile[_u(at + 2 * TILE + t)] - work[_u(4 * TILE + t)]) - work[
                        _u(2 * TILE + t)
                    ]
                    g = tile[_u(at + t)] * (
                        work[_u(6 * TILE + t)] * by_m + work[_u(7 * TILE + t)] * by_q
                    )
                    counted = g if weight is None else g * weight[row]
                    part[_u(to + t)] += counted
                    part[_u(to + TILE + t)] += counted * g
        _flush(part, out, n_experts, 2)


@compiled(error_model="numpy")
def compose(lo, hi, width, order, tile, n_statistics, offset, total):
    """Composed opinions of rows lo to hi on the variables of one tile.

    Parameters
    ----------
    tile : ndarray of shape (n_experts * (1 + n_statistics) * TILE,)
        Levels of expertise and mean parameters of the tile, expert by expert.
    offset : ndarray of shape (n_statistics, hi - lo, TILE)
        Composed mean parameters minus those of the first active expert; filled in.
    total : ndarray of shape (hi - lo, TILE)
        The sum E of the active experts' expertise; filled in.
    """
    size = (1 + n_statistics) * TILE
    for row in range(lo, hi):
        i = row - lo
        first = np.int64(order[row, 0]) * size
        for t in range(width):
            total[i, t] = 0
        for s in range(n_statistics):
            for t in range(width):
                offset[s, i, t] = 0
        for step in range(order.shape[1]):
            if order[row, step] < 0:
                break
            at = np.int64(order[row, step]) * size
            for t in range(width):
                total[i, t] += tile[_u(at + t)]
            for s in range(1, 1 + n_statistics):
                for t in range(width):
                    ahead = tile[_u(at + s * TILE + t)] - tile[_u(first + s * TILE + t)]
                    offset[s - 1, i, t] += tile[_u(at + t)] * ahead
        for s in range(n_statistics):
            for t in range(width):
                offset[s, i, t] /= total[i, t]


@compiled(error_model="numpy")
def general_gradients(pull, offset, weight, lo, hi, width, order, tile, out):
    """Sums of g and g^2 over rows lo to hi, from the pull on the composed opinions.

    Parameters
    ----------
    pull : ndarray of shape (n_statistics, hi - lo, TILE)
        F(eta) (T - eta) over E, zero for missing values.
    offset : ndarray of shape (n_statistics, hi - lo, TILE)
        As returned by `compose`.
    weight : ndarray of shape (n_rows,) or None
    tile : ndarray
        As in `compose`.
    out : ndarray of shape (2, n_experts, TILE)
        Sums, added to.
    """
    n_statistics = len(pull)
    size = (1 + n_statistics) * TILE
    g = np.empty(TILE)
    for row in range(lo, hi):
        i = row - lo
        first = np.int64(order[row, 0]) * size
        for step in range(order.shape[1]):
            k = np.int64(order[row, step])
            if k < 0:
                break
            at = k * size
            for t in range(width):
                g[t] = 0
            for s in range(n_statistics):
                for t in range(width):
                    there = (1 + s) * TILE + t
                    ahead = (tile[_u(at + there)] - tile[_u(first + there)]) - offset[s, i, t]
                    g[t] += pull[s, i, t] * ahead
            for t in range(width):
                term = g[t] * tile[_u(at + t)]
                counted = term if weight is None else term * weight[row]
                out[0, k, t] += counted
                out[1, k, t] += counted * term


@compiled(error_model="numpy")
def opinion_derivatives(pull, weight, lo, hi, width, order, tile, out):
    """Sums over rows lo to hi of the derivative by an opinion and of its square.

    Parameters
    ----------
    pull : ndarray of shape (hi - lo, width)
        df/dmu over E, zero for missing values.
    weight : ndarray of shape (n_rows,) or None
    tile : ndarray of shape (n_experts * 2 * TILE,)
        Levels of expertise and probabilities of the tile, expert by expert.
    out : ndarray of shape (2, n_experts, TILE)
        Sums, added to.
    """
    for row in range(lo, hi):
        for step in range(order.shape[1]):
            k = np.int64(order[row, step])
            if k < 0:
                break
            at = k * 2 * TILE
            for t in range(width):
                term = pull[row - lo, t] * tile[_u(at + t)]
                counted = term if weight is None else term * weight[row]
                out[0, k, t] += counted
                out[1, k, t] += counted * term


@compiled(error_model="numpy")
def responsibility_sums(T, missing, weight, lo, hi, start, width, order, tile, out):
    """Sums of r, and of r T_s(x) for every statistic, over rows lo to hi.

    Parameters
    ----------
    T : ndarray of shape (n_statistics, n_rows, n_features)
    tile : ndarray of shape (n_experts * TILE,)
        Levels of expertise of the tile.
    out : ndarray of shape (1 + n_statistics, n_experts, TILE)
    """
    n_parts, n_experts, _ = out.shape
    part = np.zeros(n_experts * n_parts * TILE, tile.dtype)
    work = np.zeros((1 + n_parts) * TILE, tile.dtype)
    one = tile.dtype.type(1)
    flush = max(FLUSH, 2 * n_experts)
    for begin in range(lo, hi, flush):
        for row in range(begin, min(begin + flush, hi)):
            for t in range(TILE):
                work[t] = 0
            for step in range(order.shape[1]):
                if order[row, step] < 0:
                    break
                at = np.int64(order[row, step]) * TILE
                for t in range(TILE):
                    work[t] += tile[_u(at + t)]
            counted = one if weight is None else tile.dtype.type(weight[row])
            for t in range(TILE):
                work[t] = counted / work[t]
            for s in range(n_parts - 1):
                for t in range(width):
                    work[_u((1 + s) * TILE + t)] = T[_u(s), _u(row), _u(start + t)]
            if missing is not None:
                for t in range(width):
                    if not T[0, _u(row), _u(start + t)] < missing:
                        work[t] = 0
                        for s in range(n_parts - 1):
                            work[_u((1 + s) * TILE + t)] = 0
            for step in range(order.shape[1]):
                if order[row, step] < 0:
                    break
                at = np.int64(order[row, step]) * TILE
                to = np.int64(order[row, step]) * n_parts * TILE
                if n_parts == 2:
                    for t in range(TILE):
                        r = tile[_u(at + t)] * work[t]
                        part[_u(to + t)] += r
                        part[_u(to + TILE + t)] += r * work[_u(TILE + t)]
                    continue
                for t in range(TILE):
                    part[_u(to + t)] += tile[_u(at + t)] * work[t]
                for s in range(1, n_parts):
                    for t in range(TILE):
                        part[_u(to + s * TILE + t)] += (
                            tile[_u(at + t)] * work[t] * work[_u(s * TILE + t)]
                        )
        _flush(part, out, n_experts, n_parts)
