"""Compiled sums over rows: expertise gradients (appendix A) and responsibilities (eq. 5 and 6).

Work is cut into tiles of variables and blocks of rows, the same whatever the number of threads;
within a tile everything an active expert needs lies side by side and stays in the cache. Terms are
added in the tables' own precision for a few rows, and these sums in float64. Composed opinions
are kept as distances from the first active expert's: where it is alone they are zero to the last
digit, as the evidence then must be.
"""

# mypy: allow-untyped-defs
from __future__ import annotations

import numpy as np
from numba import njit

TILE = 64
"""Variables of a tile."""
FLUSH = 128
"""Rows, at least, whose terms are added before they go into the float64 sums."""

_u = np.uintp  # an unsigned index spares the test for "counted from the end", and so vectorises


@njit(cache=True, nogil=True)
def _flush(part, out, experts, n_parts):
    """Move the running sums of a tile into out[s, k] (float64), and begin anew."""
    for k in range(experts):
        for s in range(n_parts):
            at = (k * n_parts + s) * TILE
            for t in range(TILE):
                out[_u(s), _u(k), t] += part[_u(at + t)]
                part[_u(at + t)] = 0


@njit(cache=True, nogil=True, error_model="numpy")
def bernoulli_gradients(X, lo, hi, start, width, order, tile, out):
    """Sums of g and g^2 over rows lo to hi, for the variables of one tile.

    Parameters
    ----------
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
            for step in range(order.shape[1]):
                if order[row, step] < 0:
                    break
                at = np.int64(order[row, step]) * 2 * TILE
                for t in range(TILE):
                    ahead = (tile[_u(at + TILE + t)] - work[_u(2 * TILE + t)]) - work[_u(TILE + t)]
                    g = tile[_u(at + t)] * work[_u(3 * TILE + t)] * ahead
                    part[_u(at + t)] += g
                    part[_u(at + TILE + t)] += g * g
        _flush(part, out, n_experts, 2)


@njit(cache=True, nogil=True, error_model="numpy")
def gaussian_gradients(T, lo, hi, start, width, order, tile, out):
    """The same for Gaussian rows; `tile` holds expertise, m and v + m^2, each (TILE,)."""
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
                    part[_u(to + t)] += g
                    part[_u(to + TILE + t)] += g * g
        _flush(part, out, n_experts, 2)


@njit(cache=True, nogil=True, error_model="numpy")
def responsibility_sums(T, lo, hi, start, width, order, tile, out):
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
            for t in range(TILE):
                work[t] = one / work[t]
            for s in range(n_parts - 1):
                for t in range(width):
                    work[_u((1 + s) * TILE + t)] = T[_u(s), _u(row), _u(start + t)]
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
