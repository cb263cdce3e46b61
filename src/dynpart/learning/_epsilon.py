"""The weight of the data's average in opinions, epsilon: empirical Bayes, for each variable."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dynpart.arrays import like, namespace
from dynpart.engines import ResponsibilitySums
from dynpart.families import Family

Array = NDArray[np.float64]

CANDIDATES = tuple(2.0**power for power in range(-1, 11))
"""Candidate weights of the data's average, in rows."""
ROUNDS = 20
"""EM iterations for the distribution of the weight over all variables."""
FLAT = 1e-4
"""Candidates that differ by less, in nats, are equally likely but for rounding."""


def likeliest_epsilon(
    family: Family, sums: ResponsibilitySums, population: Array, usual: float
) -> Array:
    """The weight of the data's average in the opinions about each variable (eq. 5).

    A weight of `a` rows stands for a conjugate prior on opinions. The sums of all experts then have
    a likelihood, in which the opinions are integrated out. If experts differ much about a variable,
    small weights are likely; if they differ no more than by chance, large ones. The distribution
    of weights over variables is estimated from all variables, and the result is the geometric mean
    of the candidates given the sums of the variable.

    Parameters
    ----------
    family : Family
    sums : ResponsibilitySums
    population : array of shape (n_statistics, n_features)
        Mean parameters of the data as a whole.
    usual : float
        The weight where no candidate is likelier than another, as in families that do not define
        `conjugate`, or where a likelihood is not finite.

    Returns
    -------
    array of shape (n_features,)
    """
    xp = namespace(sums.weight)
    average = family.constrain(population[:, None])
    evidence = xp.stack([_evidence(family, sums, average, rows) for rows in CANDIDATES])
    known = xp.isfinite(evidence).all(axis=0)
    evidence = xp.where(known, evidence - xp.amax(evidence, axis=0), 0.0)
    n_candidates, n_features = evidence.shape
    share = 0 * evidence[:, 0] + 1 / n_candidates
    for _ in range(ROUNDS):
        chance = xp.exp(evidence) * share[:, None]
        chance = chance / chance.sum(axis=0)
        # One more variable that favours no candidate keeps each of them possible.
        share = (chance.sum(axis=1) + 1 / n_candidates) / (n_features + 1)
    likeliest = xp.exp(like(np.log(CANDIDATES), evidence) @ chance)
    return xp.where((evidence < -FLAT).any(axis=0), likeliest, usual)


def _evidence(family: Family, sums: ResponsibilitySums, average: Array, rows: float) -> Array:
    """Log-likelihood of the sums of each variable, shape (n_features,), up to a constant."""
    prior = 0 * sums.weight + rows
    after = family.conjugate(sums.weight + prior, sums.statistics + rows * average)
    return (after - family.conjugate(prior[:1], rows * average)).sum(axis=0)
