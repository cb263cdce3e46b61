"""Autoregressive experts: the parts that engines share.

Formulas on arrays, NumPy's or torch's, that the reference engine, the CPU engine and the torch
engine call with their own precision.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from dynpart.arrays import as_float64, namespace
from dynpart.autoregression import AutoregressionSums, binary_log_density
from dynpart.engines._contract import Experts, PursuitRule
from dynpart.rows import Rows


def without_shift(rows: Rows, experts: Experts) -> tuple[Rows, Experts]:
    """Equivalent rows and experts without autoregression, for real values.

    Offsets of means are subtracted from the values instead. Binary rows are returned unchanged.
    """
    given, family = experts.autoregression, experts.family
    if given is None:
        return rows, experts
    if not rows.complete:
        raise ValueError("autoregressive experts need rows without gaps")
    if not family.is_normal:
        return rows, experts
    numbers = family.decode(rows.values)
    residuals = replace(rows, values=numbers - given.offsets(numbers))
    return residuals, replace(experts, autoregression=None)


def check_offsets(rule: PursuitRule) -> None:
    """Raise ValueError if codes under offsets are to be smoothed."""
    if rule.smoothed:
        raise ValueError("autoregressive experts need the hard rule: smoothed must be False")


def log_densities_given(rows: Any, experts: Experts) -> Any:
    """Log P_k(x_d | x_<d) of binary rows, shape (n_rows, n_experts, n_features).

    Parameters
    ----------
    rows : array of shape (n_rows, n_features)
        Values as :meth:`Family.encode` returns them.
    experts : Experts
        With an autoregression.
    """
    assert experts.autoregression is not None
    x = experts.family.decode(rows)
    log_odds = experts.natural[0][0] + experts.autoregression.offsets(x)[:, None]
    return binary_log_density(x[:, None], log_odds)


def autoregression_sums(
    rows: Rows, experts: Experts, owner: Any, dtype: Any = None
) -> AutoregressionSums:
    """Derivatives of log P(x | h) by weights and opinions, summed over rows.

    Parameters
    ----------
    rows : Rows
    experts : Experts
        With an autoregression.
    owner : array of shape (n_rows, n_features)
        Owner of each variable.
    dtype : optional
        Precision of products; double by default.
    """
    given, family = experts.autoregression, experts.family
    assert given is not None
    xp = namespace(experts.eta)
    numbers = family.decode(rows.values)
    measured, weights = numbers - given.centre, given.weights
    if dtype is not None:
        measured, weights = measured.astype(dtype), weights.astype(dtype)
    offsets = measured @ weights.T
    place = xp.arange(numbers.shape[1], device=owner.device if xp is not np else None)
    if family.is_normal:
        mean, variance = family.mean(experts.eta), family.variance(experts.eta)
        missed = numbers - offsets - mean[owner, place]
        spread = variance[owner, place]
        pull = missed / spread
        density = -0.5 * (missed * pull + xp.log(2 * np.pi * spread))
    else:
        log_odds = experts.natural[0][0][owner, place] + offsets
        density = binary_log_density(numbers, log_odds)
        chance_of_zero = xp.exp(binary_log_density(xp.zeros_like(log_odds), log_odds))
        pull = numbers - 1 + chance_of_zero
    n_rows: Any = len(rows)
    explained = as_float64(density).sum(axis=1)
    if rows.weight is not None:
        n_rows, explained = rows.weight.sum(), rows.weight * explained
        pull = pull * rows.weight[:, None]
    by_weight = as_float64((pull if dtype is None else pull.astype(dtype)).T @ measured)
    return AutoregressionSums(
        float(n_rows), float(explained.sum()), by_weight, _by_owner(pull, owner, experts)
    )


def _by_owner(pull: Any, owner: Any, experts: Experts) -> Any:
    """Sums of `pull` over the rows in which each expert owns a variable."""
    n_experts, n_features = experts.log2_expertise.shape
    xp = namespace(pull)
    if xp is np:
        slot = owner.astype(np.int64) * n_features + np.arange(n_features)
        sums = np.bincount(slot.ravel(), pull.ravel(), minlength=n_experts * n_features)
        return sums.reshape(n_experts, n_features)
    slot = owner.long() * n_features + xp.arange(n_features, device=owner.device)
    sums = xp.zeros(n_experts * n_features, dtype=xp.float64, device=pull.device)
    return sums.index_add_(0, slot.ravel(), pull.double().ravel()).view(n_experts, n_features)
