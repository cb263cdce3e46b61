"""Ranks, owners, responsibilities and composed opinions.

This module knows mean parameters of families and levels of expertise, no data.
"""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dynpart.arrays import block_values, is_remote, namespace, row_blocks

Array = NDArray[np.float64]


def expertise_ranks(log2_expertise: Array) -> NDArray[np.int32]:
    """Rank of every expert for every variable: 0 has the highest expertise.

    The hard rule (eq. 2) depends only on the order of expertise. Ties go to the expert with the
    lowest index, so the order is strict and engines need no rule for ties.

    Parameters
    ----------
    log2_expertise : ndarray of shape (n_experts, n_features)

    Returns
    -------
    ranks : ndarray of shape (n_experts, n_features)

    Examples
    --------
    >>> import numpy as np
    >>> from dynpart.composition import expertise_ranks
    >>> expertise_ranks(np.array([[1.0, 0.0], [2.0, 0.0]]))
    array([[1, 0],
           [0, 1]], dtype=int32)
    """
    xp = namespace(log2_expertise)
    if xp is np:
        by_expertise = _in_strict_order(-log2_expertise)
        ranks = np.empty(log2_expertise.shape, dtype=np.int32)
        places = np.arange(len(log2_expertise), dtype=np.int32)[:, None]
        np.put_along_axis(ranks, by_expertise, np.broadcast_to(places, ranks.shape), axis=0)
        return ranks
    by_expertise = xp.argsort(-log2_expertise, axis=0, stable=True)
    places = xp.arange(len(by_expertise), device=by_expertise.device)[:, None]
    inverse = xp.empty_like(by_expertise).scatter_(0, by_expertise, places.expand_as(by_expertise))
    return inverse.int()


def _in_strict_order(values: Array) -> NDArray[np.intp]:
    """Indices that sort each column, ties by index. Finding ties is faster than a stable sort."""
    order = np.argsort(values, axis=0)
    in_order = np.take_along_axis(values, order, axis=0)
    tied = (in_order[1:] == in_order[:-1]).any(axis=0)
    if tied.any():
        order[:, tied] = np.argsort(values[:, tied], axis=0, stable=True)
    return order


def owners(ranks: NDArray[np.int32], active: NDArray[np.bool_]) -> NDArray[np.int32]:
    """k*(d): the active expert with the highest expertise for each variable (eq. 2).

    Parameters
    ----------
    ranks : ndarray of shape (n_experts, n_features)
    active : ndarray of shape (n_rows, n_experts)
        Every row has at least one active expert.

    Returns
    -------
    owner : ndarray of shape (n_rows, n_features)
    """
    n_experts, n_features = ranks.shape
    xp = namespace(ranks)
    if xp is np:
        return _owners_of_few(ranks, active)
    if is_remote(ranks) and find_spec("triton") is not None:
        from dynpart.composition._triton_owners import owners_on_device

        tensors: Any = ranks, active
        on_device: Any = owners_on_device(*tensors)
        return on_device
    blocks = row_blocks(len(active), n_experts * n_features, values=block_values(ranks))
    found = [xp.where(active[some, :, None], ranks, n_experts).argmin(axis=1) for some in blocks]
    return xp.concatenate(found).int() if found else ranks[:0]


def _owners_of_few(ranks: NDArray[np.int32], active: NDArray[np.bool_]) -> NDArray[np.int32]:
    """The same, looping over the active experts only; for rows with few of them."""
    n_active = np.count_nonzero(active, axis=1)
    rows = np.argsort(-n_active, kind="stable")  # rows with more active experts first
    expert = np.nonzero(active[rows])[1]
    n_active = n_active[rows]
    begin = np.cumsum(n_active) - n_active
    # Rank and index in one integer: the minimum gives the owner.
    key = ranks.astype(np.int64) << 32 | np.arange(len(ranks))[:, None]
    if len(ranks) < 1 << 15:
        key = (key >> 16 | key & 0x7FFF).astype(np.int32)
    best = key[expert[begin]]
    for step in range(1, n_active.max(initial=1)):
        m = np.count_nonzero(n_active > step)
        np.minimum(best[:m], key[expert[begin[:m] + step]], out=best[:m])
    owner = np.empty(best.shape, dtype=np.int32)
    owner[rows] = best & (0x7FFF if best.dtype == np.int32 else 0xFFFFFFFF)
    return owner


def owners_of(ranks: NDArray[np.int32], order: NDArray[np.integer]) -> NDArray[np.int32]:
    """The same for codes in the order of activation, shape (n_rows, max_active), padded with -1."""
    n_experts = len(ranks)
    best = ranks[order[:, 0]]
    owner = np.repeat(order[:, :1].astype(np.int32), ranks.shape[1], axis=1)
    for slot in range(1, order.shape[1]):
        k = order[:, slot, None]
        theirs = np.where(k >= 0, ranks[order[:, slot]], n_experts)
        owner = np.where(theirs < best, k, owner)
        best = np.minimum(theirs, best)
    return owner


def supports(owner: NDArray[np.int32], n_experts: int) -> NDArray[np.bool_]:
    """S_k(h): which variables each expert explains, shape (n_rows, n_experts, n_features)."""
    return owner[:, None, :] == np.arange(n_experts)[:, None]


def responsibilities(log2_expertise: Array, active: NDArray[np.bool_]) -> Array:
    """r_k(d): each active expert's share of each variable (eq. 4).

    Parameters
    ----------
    log2_expertise : ndarray of shape (n_experts, n_features)
    active : ndarray of shape (n_rows, n_experts)

    Returns
    -------
    r : ndarray of shape (n_rows, n_experts, n_features)
        Sums to one over experts; zero for inactive ones.
    """
    level = np.where(active[:, :, None], log2_expertise, -np.inf)
    # Only ratios matter: relative to the highest active expertise, nothing overflows.
    weight = np.exp2(level - level.max(axis=1, keepdims=True))
    return weight / weight.sum(axis=1, keepdims=True)


def compose_hard(eta: Array, owner: NDArray[np.int32]) -> Array:
    """Mean parameters of the owners (eq. 2), shape (n_statistics, n_rows, n_features)."""
    return eta[:, owner, np.arange(eta.shape[2])]


def compose_smoothed(eta: Array, r: Array) -> Array:
    """Responsibility-weighted mean parameters (eq. 4, appendix A).

    Mixing mean parameters is the appendix's mu for the Bernoulli and gives the composed mean and
    the total variance for the Gaussian.

    Parameters
    ----------
    eta : ndarray of shape (n_statistics, n_experts, n_features)
    r : ndarray of shape (n_rows, n_experts, n_features)

    Returns
    -------
    ndarray of shape (n_statistics, n_rows, n_features)
    """
    return np.einsum("nkd,skd->snd", r, eta)
