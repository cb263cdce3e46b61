"""Mixtures: rows explained by one expert each, with the experts as components.

Formulas on arrays, NumPy's or torch's, that all engines share.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dynpart.arrays import as_float64, block_values, is_observed, namespace, row_blocks
from dynpart.engines._contract import Experts, ResponsibilitySums, row_log_base
from dynpart.rows import Rows

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class MixtureSums:
    """Sums over rows for EM of a mixture; parts combine with ``+``.

    Attributes
    ----------
    sums : ResponsibilitySums
        Sums of rows and statistics, weighted by the probability of each expert given the row.
    usage : ndarray of shape (n_experts,)
        Number of rows of each expert, weighted likewise.
    log_likelihood : float
        Sum of log P(x) over rows.
    log_joint : float
        Sum of log P(x, expert) over rows, for the most probable expert of each.
    """

    sums: ResponsibilitySums
    usage: Array
    log_likelihood: float
    log_joint: float

    def __add__(self, other: MixtureSums) -> MixtureSums:
        return MixtureSums(
            self.sums + other.sums,
            self.usage + other.usage,
            self.log_likelihood + other.log_likelihood,
            self.log_joint + other.log_joint,
        )

    def without(self, other: MixtureSums) -> MixtureSums:
        """The sums minus those of some rows, with weights bounded below by 0."""
        return MixtureSums(
            self.sums.without(other.sums),
            namespace(self.usage).clip(self.usage - other.usage, 0, None),
            self.log_likelihood - other.log_likelihood,
            self.log_joint - other.log_joint,
        )


def mixture_sums(
    rows: Rows, experts: Experts, log_weight: Array, sharpness: float = 1.0
) -> MixtureSums:
    """The E-step of a mixture whose components are these experts, each on its own.

    Parameters
    ----------
    rows : Rows
    experts : Experts
    log_weight : array of shape (n_experts,)
        Log probabilities of the experts. All three have arrays of the same kind.
    sharpness : float, default=1.0
        Rows are weighted by this power of the experts' probabilities given the row: the higher,
        the larger the share of the most probable expert.

    Returns
    -------
    MixtureSums
    """
    experts.check_shapes(rows, cost=log_weight)
    blocks = row_blocks(*rows.shape, values=block_values(rows.values))
    parts = [_of_block(rows[block], experts, log_weight, sharpness) for block in blocks]
    total = parts[0]
    for part in parts[1:]:
        total = total + part
    return total


def mixture_densities(rows: Rows, experts: Experts, log_weight: Array) -> Array:
    """Log P(x) of each row under the same mixture, shape (n_rows,)."""
    experts.check_shapes(rows, cost=log_weight)
    values = block_values(rows.values)
    blocks = [rows[block] for block in row_blocks(*rows.shape, values=values)]
    told = [
        _log_sum(_scores(block, experts, log_weight)[2]) + row_log_base(block, experts.family)
        for block in blocks
    ]
    return namespace(told[0]).concatenate(told)


def mixture_scores(T: Array, observed: Array | None, experts: Experts) -> Array:
    """Log P_k(x) of whole rows, without b(x), shape (n_rows, n_experts).

    Parameters
    ----------
    T : array of shape (n_statistics, n_rows, n_features)
        Statistics, 0 for missing values.
    observed : array of shape (n_rows, n_features) or None
        1 where a value was observed, 0 elsewhere; None if all were.
    experts : Experts
    """
    theta, log_partition = experts.natural
    scores = -log_partition.sum(axis=1) if observed is None else -observed @ log_partition.T
    for s in range(len(T)):
        scores = scores + T[s] @ theta[s].T
    return scores


def _scores(rows: Rows, experts: Experts, log_weight: Array) -> tuple[Array, Array | None, Array]:
    """Statistics, flags of observed values, and log P(x, expert) without b(x), of some rows."""
    T = as_float64(experts.family.statistics(rows.values))
    observed = None
    if not rows.complete:
        known = is_observed(T[0])
        T, observed = namespace(T).where(known, T, 0.0), as_float64(known)
    scores = mixture_scores(T, observed, experts)
    scores += log_weight
    return T, observed, scores


def _log_sum(scores: Array) -> Array:
    """Log of the sum of exponentials, row by row."""
    xp = namespace(scores)
    top = xp.amax(scores, axis=1)
    return top + xp.log(xp.exp(scores - top[:, None]).sum(axis=1))


def _of_block(rows: Rows, experts: Experts, log_weight: Array, sharpness: float) -> MixtureSums:
    T, observed, scores = _scores(rows, experts, log_weight)
    xp, base = namespace(T), row_log_base(rows, experts.family)
    top = xp.amax(scores, axis=1)
    # In place: on a GPU these take as long as the matrix products.
    scores -= top[:, None]
    share: Any = xp.exp(scores, out=scores)
    total = share.sum(axis=1)
    told: Any = top + xp.log(total) + base
    best: Any = top + base
    if sharpness != 1:
        share **= sharpness
        total = share.sum(axis=1)
    if rows.weight is None:
        share /= total[:, None]
    else:
        share *= (rows.weight / total)[:, None]
        told, best = told * rows.weight, best * rows.weight
    usage = share.sum(axis=0)
    statistics = [share.T @ statistic for statistic in T]
    if observed is None:
        weight = xp.broadcast_to(usage[:, None], statistics[0].shape)
    else:
        weight = share.T @ observed
    sums = xp.stack([weight, *statistics])
    return MixtureSums(ResponsibilitySums(sums), usage, told.sum(), best.sum())
