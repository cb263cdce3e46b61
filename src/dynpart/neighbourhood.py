"""The neighbourhood of codes: sums over all codes that one change leads to.

A change activates an expert, drops one, or exchanges one for another. Codes far from the best one
explain a row so much worse that the sum over its neighbours is most of the sum over all codes.
Where all codes are few, the sum is over all of them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dynpart.arrays import row_blocks
from dynpart.engines import Experts
from dynpart.engines.reference import expert_log_densities
from dynpart.enumeration import EveryCode, all_codes
from dynpart.prior import CodePrior
from dynpart.rows import Rows

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Neighbourhood:
    """What codes near those of some rows are worth, summed.

    Attributes
    ----------
    log_density : ndarray of shape (n_rows,)
        Log of the sum of P(x | h) P(h) over a row's code and its neighbours, without b(x): a lower
        bound of log P(x).
    activation : ndarray of shape (n_rows, n_experts)
        Share of that sum in which each expert is active.
    """

    log_density: Array
    activation: Array


def neighbourhood(
    rows: Rows, active: NDArray[np.bool_], experts: Experts, prior: CodePrior
) -> Neighbourhood:
    """Sum over the neighbourhood of each row's code.

    Parameters
    ----------
    rows : Rows
    active : ndarray of shape (n_rows, n_experts), bool
        Codes, none of which is empty.
    experts : Experts
        All in NumPy's arrays.
    prior : CodePrior
    """
    size = experts.log2_expertise.size + prior.n_types * experts.n_experts
    parts = [
        _of_block(expert_log_densities(rows[block], experts), active[block], experts, prior)
        for block in row_blocks(len(rows), 4 * size)
    ]
    log_density, activation = zip(*parts, strict=True)
    return Neighbourhood(np.concatenate(log_density), np.concatenate(activation))


def all_summed(rows: Rows, experts: Experts, prior: CodePrior) -> Neighbourhood:
    """The sum over all codes, which must be few: log P(x) and P(h_k = 1 | x) are exact.

    Parameters
    ----------
    rows : Rows
    experts : Experts
        All in NumPy's arrays, without amplitudes.
    prior : CodePrior
    """
    every = EveryCode.of(experts, all_codes(experts.n_experts))
    log_density, activation = np.empty(len(rows)), np.empty((len(rows), experts.n_experts))
    for block in row_blocks(len(rows), every.row_size):
        log_density[block], posterior = every.summed(rows[block], experts, prior)
        activation[block] = posterior @ every.codes
    return Neighbourhood(log_density, np.clip(activation, 0.0, 1.0))


def _of_block(
    density: Array, active: NDArray[np.bool_], experts: Experts, prior: CodePrior
) -> tuple[Array, Array]:
    """Log of the sum, and shares of it in which experts are active."""
    joint = prior.log_joint(active)
    own, added = _values(density, active, experts, prior, joint)
    taken_out = np.full(active.shape, -np.inf)  # [n, j]: all codes without the active expert j
    brought_in = added.copy()  # [n, k]: all codes with the inactive expert k
    for rows, chosen in _active_experts(active):
        others = active[rows].copy()
        others[np.arange(len(rows)), chosen] = False
        less, exchanged = _values(
            density[rows], others, experts, prior, prior.log_joint(others), without=chosen
        )
        taken_out[rows, chosen] = np.logaddexp(less, np.logaddexp.reduce(exchanged, axis=1))
        brought_in[rows] = np.logaddexp(brought_in[rows], exchanged)
    terms = np.concatenate([own[:, None], added], axis=1)
    total = np.logaddexp(np.logaddexp.reduce(terms, axis=1), np.logaddexp.reduce(taken_out, axis=1))
    kept = -np.expm1(np.minimum(taken_out - total[:, None], 0.0))
    return total, np.where(active, kept, np.exp(brought_in - total[:, None]))


def _active_experts(
    active: NDArray[np.bool_],
) -> Iterator[tuple[NDArray[np.intp], NDArray[np.intp]]]:
    """The first active expert of every row, then the second of rows that have one, and so on."""
    place = np.cumsum(active, axis=1) * active
    for nth in range(1, int(place.max(initial=0)) + 1):
        rows, chosen = np.nonzero(place == nth)
        yield rows, chosen


def _values(
    density: Array,
    active: NDArray[np.bool_],
    experts: Experts,
    prior: CodePrior,
    joint: Array,
    without: NDArray[np.intp] | None = None,
) -> tuple[Array, Array]:
    """Log P(x | h) P(h) of codes, and of each with one further expert.

    Parameters
    ----------
    density : ndarray of shape (n_rows, n_experts, n_features)
    active : ndarray of shape (n_rows, n_experts)
        An empty code is worth nothing; one with a further expert is.
    experts : Experts
    prior : CodePrior
    joint : ndarray of shape (n_rows, n_types)
        ``prior.log_joint(active)``.
    without : ndarray of shape (n_rows,), optional
        Experts that may not come back.

    Returns
    -------
    own : ndarray of shape (n_rows,)
    added : ndarray of shape (n_rows, n_experts)
        Minus infinity for experts that are active, or may not come back.
    """
    n_experts = experts.n_experts
    rank = np.where(active[:, :, None], experts.ranks, n_experts)
    owner = rank.argmin(axis=1)
    best = np.take_along_axis(rank, owner[:, None], axis=1)
    owned = np.take_along_axis(density, owner[:, None], axis=1)
    owned = np.where(best < n_experts, owned, 0.0)
    explained = owned.sum(axis=(1, 2))
    gains = np.where(experts.ranks < best, density - owned, 0.0).sum(axis=2)
    field = _fields(active, prior)
    with_one = np.logaddexp.reduce(joint[:, :, None] + field, axis=1)
    added = explained[:, None] + gains + with_one
    added[active] = -np.inf
    if without is not None:
        added[np.arange(len(active)), without] = -np.inf
    own = explained + np.logaddexp.reduce(joint, axis=1)
    return np.where(active.any(axis=1), own, -np.inf), added


def _fields(active: NDArray[np.bool_], prior: CodePrior) -> Array:
    """What activating each expert adds to log P(h) in each type, (n_rows, n_types, n_experts)."""
    _, single, pair = prior.coefficients
    field = np.repeat(single[None], len(active), axis=0)
    for c in range(prior.n_types):
        child = np.flatnonzero(pair[c])
        above = prior.parent[c, child]
        field[:, c, child] += active[:, above] * pair[c, child]
        np.add.at(field[:, c].T, above, (active[:, child] * pair[c, child]).T)
    return field
