"""Normal opinions shrunk towards the common mean and variance of a variable's experts.

Empirical Bayes: the differences between experts determine the amount of shrinkage.
"""

from __future__ import annotations

from typing import Any

from dynpart.arrays import log_gamma, namespace
from dynpart.families._base import Array
from dynpart.families._moments import TINY

WORTHS = (1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0)
"""Candidate numbers of rows of a variable's common variance in the variance of an expert."""
FEWEST = 1.0
"""Minimum degrees of freedom with which variances are known."""


def shrunk_normals(
    weight: Array, smoothed_weight: Array, smoothed_T: Array, population: tuple[Array, Array]
) -> tuple[Array, Array]:
    """Shrunk means and variances, both of shape (n_experts, n_features).

    *Means.* The means of a variable's experts scatter around that of all rows, with a variance t
    beyond what chance explains. With c the variance within experts, a row of the overall mean is
    added c / t times: the mean of an expert with w rows is (T + a m) / (w + a), a = c / t, as in
    the estimator of James and Stein.

    *Variances.* The variance of an expert with w rows has w - 1 degrees of freedom. It is shrunk
    towards the variance within all experts of the variable, which counts for b rows: the number
    under which all variances together are likeliest, if they follow a scaled inverse chi-squared
    distribution.

    *Prediction.* A normal density that stands in for the predictive one, which has heavier tails,
    is (1 + 1 / (w + a)) nu / (nu - 2) times as wide, with nu = w - 1 + b, or the degrees of freedom
    of all experts if these are fewer. So an expert without rows has the mean of all rows and
    variance c + t, and a single expert is equal to independent columns. Nothing depends on the unit
    of a variable.

    Parameters
    ----------
    weight : ndarray of shape (n_experts, n_features)
        Rows that each expert was responsible for.
    smoothed_weight : ndarray of shape (n_experts, n_features)
    smoothed_T : ndarray of shape (2, n_experts, n_features)
        Rows, and sums of x and x^2 over them, smoothed over neighbouring variables.
    population : tuple of ndarray of shape (n_features,)
        Mean and variance of the data.

    Returns
    -------
    mean, variance : ndarray of shape (n_experts, n_features)
    """
    xp, (overall, total) = namespace(weight), population
    rows = xp.clip(smoothed_weight, TINY, None)
    average = xp.where(smoothed_weight > TINY, smoothed_T[0] / rows, overall)
    square = xp.clip(smoothed_T[1] / rows - average * average, 0.0, None)
    free = xp.clip(weight - 1, 0.0, None)
    seen = square * weight / xp.clip(free, FEWEST, None)
    all_free = free.sum(axis=0)
    common = (free * seen).sum(axis=0) / xp.clip(all_free, TINY, None)
    common = xp.where(common > 0, common, total)
    common = xp.where(common > 0, common, 1.0)
    added = _rows_of_the_mean(weight, average, overall, common)
    mean = (smoothed_T[0] + added * overall) / xp.clip(smoothed_weight + added, TINY, None)
    worth = max(WORTHS, key=lambda rows: _evidence(free, seen, common, rows))
    nu = xp.clip(xp.minimum(free + worth, all_free + 0 * free), 2 + FEWEST, None)
    v = (free * seen + worth * common) / (free + worth)
    unknown = 1 / xp.clip(weight + added, TINY, None)
    return mean, v * (1 + unknown) * nu / (nu - 2)


def _rows_of_the_mean(weight: Array, average: Array, overall: Array, common: Array) -> Array:
    """Number of rows of the overall mean added to every expert's mean, shape (n_features,)."""
    xp = namespace(weight)
    n_rows = xp.clip(weight.sum(axis=0), TINY, None)
    n_experts = (weight > 1).sum(axis=0)
    between = (weight * (average - overall) ** 2).sum(axis=0)
    by_chance = common * xp.clip(n_experts - 1.0, 0.0, None)
    apart = xp.clip(n_rows - (weight * weight).sum(axis=0) / n_rows, TINY, None)
    scatter = xp.clip(between - by_chance, 0.0, None) / apart
    # Experts that differ by chance alone have one mean: that of all rows.
    return common / xp.maximum(scatter, common / n_rows)


def _evidence(free: Array, seen: Array, common: Array, rows: float) -> float:
    """Log-likelihood of the experts' variances if the common one counts as `rows` rows."""
    xp = namespace(free)
    ratio: Any = free * seen / (rows * common)
    half = 0 * free + rows / 2
    terms = log_gamma(free / 2 + half) - log_gamma(half) - (free / 2 + half) * xp.log1p(ratio)
    # What depends on `rows` of (a v)^(a/2) / (a v + d s^2)^((a + d)/2) beyond the ratio.
    return float((terms - free / 2 * xp.log(rows * common)).sum())
