"""Newton's method for opinions (appendix B), with both safeguards of the appendix."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from dynpart.arrays import namespace
from dynpart.engines import Experts, OpinionSums, ResponsibilitySums

Array = NDArray[np.float64]

WAY = 0.5
"""Share of the distance to 0 or 1 that a step covers if it would leave the unit interval."""


def as_average(sums: OpinionSums, eta: Array) -> ResponsibilitySums:
    """The parabola through the derivatives at an opinion, as a weight and a weighted target.

    Newton's step alone ends at statistics / weight. Unlike derivatives, parabolas at different
    opinions, such as those of successive batches, can be added.

    Parameters
    ----------
    sums : OpinionSums
    eta : ndarray of shape (1, n_experts, n_features)
        The opinions at which the derivatives were computed.
    """
    xp = namespace(eta)
    return ResponsibilitySums(xp.stack([sums.second, sums.second * eta[0] + sums.first]))


def newton_opinions(
    experts: Experts, sums: ResponsibilitySums, population: Array, epsilon: float
) -> Experts:
    """One step of Newton's method for every opinion.

    If an expert is hardly responsible, the second derivative vanishes. So squared log-odds,
    relative to those of the population, are penalised: to second order as much as the epsilon
    rows that eq. 5 adds to an average. An estimate outside the unit interval is moved back into
    it.

    Parameters
    ----------
    experts : Experts
        Of binary variables.
    sums : ResponsibilitySums
        As returned by :func:`as_average`.
    population : ndarray of shape (1, n_features)
    epsilon : float
        Weight of the penalty, above 0.

    Returns
    -------
    Experts
    """
    xp, family, mu = namespace(experts.eta), experts.family, experts.eta[0]
    usual = family.constrain(population)[0]
    variance = mu * (1 - mu)
    odds = xp.log(mu) - xp.log1p(-mu) - (xp.log(usual) - xp.log1p(-usual))
    penalty = epsilon * usual * (1 - usual) / variance**2
    # The parabola of the penalty; its curvature is the part that is never negative.
    weight = sums.weight + penalty
    target = (sums.statistics[0] + penalty * (mu - odds * variance)) / weight
    low, high = family.clip, 1 - family.clip
    target = xp.where(target < low, mu + WAY * (low - mu), target)
    target = xp.where(target > high, mu + WAY * (high - mu), target)
    return replace(experts, eta=family.constrain(target[None]))
