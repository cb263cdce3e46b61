"""Variances of normal opinions, shrunk towards what all experts of a variable have in common."""

from __future__ import annotations

from typing import Any

from dynpart.arrays import log_gamma, namespace
from dynpart.families._base import Array
from dynpart.families._moments import TINY

WORTHS = (1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0)
"""Rows that the common variance of a variable may count for in the variance of an expert."""
FEWEST = 1.0
"""Degrees of freedom, at least, by which variances are taken to be known."""


def shrunk_variances(
    mean: Array,
    weight: Array,
    T_sum: Array,
    heard_weight: Array,
    heard_T: Array,
    total: Array,
    epsilon: float,
) -> Array:
    """Variances that unseen rows will bear out, shape (n_experts, n_features).

    The variance s^2 of an expert with w rows has w - 1 degrees of freedom. It is shrunk towards
    the variance within all experts of the variable, which counts for `a` rows: the number under
    which all s^2 together are likeliest, if variances follow a scaled inverse chi-squared
    distribution. A normal density that stands in for the predictive one, which has heavier tails,
    is (1 + 1/w) nu / (nu - 2) times as wide, with nu = w - 1 + a, or the degrees of freedom of all
    experts if these are fewer. Like the mean, the variance then gets a share of the data's own.

    Parameters
    ----------
    mean : ndarray of shape (n_experts, n_features)
        What the experts think.
    weight, T_sum, heard_weight, heard_T, epsilon
        As in :meth:`dynpart.families.Family.shrunk`.
    total : ndarray of shape (n_features,)
        Variance of the data.
    """
    xp = namespace(weight)
    n_rows = xp.clip(weight.sum(axis=0), TINY, None)
    own = heard_T[1] - 2 * mean * heard_T[0] + mean * mean * heard_weight
    square = xp.clip(own, 0.0, None) / xp.clip(heard_weight, TINY, None)
    free = xp.clip(weight - 1, 0.0, None)
    seen = square * weight / xp.clip(free, FEWEST, None)
    all_free = free.sum(axis=0)
    common = (free * seen).sum(axis=0) / xp.clip(all_free, TINY, None)
    common = xp.where(common > 0, common, total)
    common = xp.where(common > 0, common, 1.0)
    worth = max(WORTHS, key=lambda rows: _evidence(free, seen, common, rows))
    nu = xp.clip(xp.minimum(free + worth, all_free + 0 * free), 2 + FEWEST, None)
    v = (free * seen + worth * common) / (free + worth)
    v = v * (1 + 1 / (weight + epsilon)) * nu / (nu - 2)
    rest = epsilon * (1 - xp.clip(weight / n_rows, 0.0, 1.0))
    return (weight * v + rest * total) / xp.clip(weight + rest, TINY, None)


def _evidence(free: Array, seen: Array, common: Array, rows: float) -> float:
    """Log-likelihood of the experts' variances if the common one counts for so many rows."""
    xp = namespace(free)
    ratio: Any = free * seen / (rows * common)
    half = 0 * free + rows / 2
    terms = log_gamma(free / 2 + half) - log_gamma(half) - (free / 2 + half) * xp.log1p(ratio)
    # What depends on `rows` of (a v)^(a/2) / (a v + d s^2)^((a + d)/2) beyond the ratio.
    return float((terms - free / 2 * xp.log(rows * common)).sum())
