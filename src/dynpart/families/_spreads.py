"""Normal opinions shrunk towards the common mean and variance of a variable's experts.

Empirical Bayes: the differences between experts determine the amount of shrinkage.
"""

from __future__ import annotations

import numpy as np

from dynpart.arrays import like, log_gamma, namespace
from dynpart.families._base import Array
from dynpart.families._moments import TINY

WORTHS = (0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0)
"""Candidate numbers of rows of a variable's usual variance in the variance of an expert."""
SCALES = (1.0, 0.5, 0.25, 0.1, 0.03, 0.01, 0.001)
"""Candidate usual variances of a variable, relative to the variance within all its experts."""
OTHERS = 4.0
"""Weight of an average variable in the choice for a variable."""
MOST_EVIDENCE = 20.0
"""Maximum evidence of one variable against a candidate in that average, in nats."""
REPEATED = 1e-3
"""Usual variance, relative to the data's, below which values of a variable repeat exactly."""
FEW = 60.0
"""Number of rows from which on equal values are no coincidence."""
ROUNDING = 1e-12
"""Share of the rows, or of the data's variance, below which a number is a rounding error."""
FEWEST = 1.0
"""Minimum degrees of freedom with which variances are known, and rows behind means."""


def shrunk_normals(
    weight: Array, smoothed_weight: Array, smoothed_T: Array, population: tuple[Array, Array]
) -> tuple[Array, Array]:
    """Shrunk means and variances, both of shape (n_experts, n_features).

    *Means.* The means of a variable's experts scatter around that of all rows, with a variance t
    beyond what chance explains. The mean of an expert with w rows and variance v is (T + a m) / (w
    + a), with a = v / t rows of the overall mean m added, as in the estimator of James and Stein.

    *Variances.* The variance of an expert with w rows has w - 1 degrees of freedom. It is shrunk
    towards the usual variance of the variable, which counts for b rows. Both are those under which
    the variances of the variable's experts are likeliest, if they follow a scaled inverse
    chi-squared distribution. If a few experts are wide and the others narrow, the usual variance is
    smaller than the variance c within all experts.

    *Prediction.* A normal density that stands in for the predictive one, which has heavier tails,
    is (1 + 1 / (w + a)) nu / (nu - 2) times as wide as the shrunk variance, with nu = w - 1 + b, or
    the degrees of freedom of all experts if these are fewer. If nu is so small that the variance
    has no mean, c is used instead. So an expert without rows has the mean of all rows and
    variance c + t, and a single expert is equal to independent columns. Nothing depends on the unit
    of a variable.

    *Equal values.* Values of integers repeat, and an expert with w equal values has no variance.
    They are equal with probability 2^(1 - w) if two values are equally likely, so the variance is
    at least this share of the data's if the usual variance of the variable is tiny.

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
    # Where values repeat exactly, rounding must not decide whether there is any variance.
    common = xp.where(all_free > 0, xp.maximum(common, ROUNDING * total), total)
    common = xp.where(common > 0, common, 1.0)
    usual, worth = _usual_variance(free, seen, common)
    known = free + worth
    nu = xp.clip(xp.minimum(known, all_free + 0 * free), 2 + FEWEST, None)
    v = (free * seen + worth * usual) / known
    share = xp.clip((known - 2) / FEWEST, 0.0, 1.0)
    v = share * v + (1 - share) * common * (nu - 2) / nu
    added = v / common * _rows_of_the_mean(weight, average, overall, common)
    mean = (smoothed_T[0] + added * overall) / xp.clip(smoothed_weight + added, TINY, None)
    unknown = 1 / xp.clip(weight + added, TINY, None)
    v = v * (1 + unknown) * nu / (nu - 2)
    by_chance = xp.where(usual < REPEATED * total, 2.0 ** -xp.clip(weight - 1, 0.0, FEW), 0.0)
    return mean, xp.maximum(v, by_chance * total)


def _rows_of_the_mean(weight: Array, average: Array, overall: Array, common: Array) -> Array:
    """Number of rows of the overall mean added to every expert's mean, shape (n_features,)."""
    xp = namespace(weight)
    # A column may have no value in these rows.
    n_rows = xp.clip(weight.sum(axis=0), FEWEST, None)
    n_experts = (weight > 1).sum(axis=0)
    apart_from_all = (average - overall) ** 2
    between = (weight * apart_from_all).sum(axis=0)
    by_chance = common * xp.clip(n_experts - 1.0, 0.0, None)
    apart = xp.maximum(n_rows - (weight * weight).sum(axis=0) / n_rows, ROUNDING * n_rows)
    # If one expert has nearly all rows, both numbers are rounding errors; hence the bound.
    scatter = xp.minimum(
        xp.clip(between - by_chance, 0.0, None) / apart, xp.amax(apart_from_all, axis=0)
    )
    # Experts that differ by chance alone have one mean: that of all rows.
    return common / xp.maximum(scatter, common / n_rows)


def _usual_variance(free: Array, seen: Array, common: Array) -> tuple[Array, Array]:
    """The likeliest usual variance of each variable, and its number of rows.

    A few experts hardly determine both numbers, so the evidence of the other variables is added.
    """
    xp = namespace(free)
    candidates, evidence = [], []
    for rows in WORTHS:
        half = 0 * free + rows / 2
        chance = log_gamma(free / 2 + half) - log_gamma(half)
        for scale in SCALES:
            prior = rows * scale * common
            # Logarithm of (b c)^(b/2) / (b c + d s^2)^((b + d)/2) and of the gamma functions.
            terms = chance - (free / 2 + half) * xp.log1p(free * seen / prior)
            candidates.append((rows, scale))
            evidence.append((terms - free / 2 * xp.log(prior)).sum(axis=0))
    relative = xp.stack(evidence)
    relative = relative - xp.amax(relative, axis=0)
    # Bounded, so that one variable does not decide for all.
    others = xp.clip(relative, -MOST_EVIDENCE, None).mean(axis=1)
    best = xp.argmax(relative + OTHERS * others[:, None], axis=0)
    worth, scale = like(np.array(candidates), common)[best].T
    return scale * common, worth
