"""The Bernoulli family: yes/no variables, T(x) = x, eta = mu."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from dynpart.arrays import as_float64, namespace, to_numpy
from dynpart.families._base import Array, Family
from dynpart.families._moments import ColumnMoments, row_blocks

SURE = 0.7
"""Probability from which on an opinion counts as sure where all sure ones are to count the same.

Opinions rounded to 0 and 1 would count wrong values exactly, but leave a greedy search no slope.
"""
DOUBTS = (0.0, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0)
"""Rows of either value, times the variable's spread, that may be added to what was seen."""
WORTH_A_DOUBT = 2.0
"""Nats that a doubt must gain: what one more parameter has to be worth by the usual test."""


@dataclass(frozen=True)
class Bernoulli(Family):
    """Bernoulli variables with probabilities kept inside [clip, 1 - clip].

    Parameters
    ----------
    clip : float, default=1e-4
        One surprising pixel costs at most -log(clip) nats.

    Examples
    --------
    >>> import numpy as np
    >>> from dynpart.families import Bernoulli
    >>> Bernoulli().log_density(np.ones((1, 1)), np.full((1, 1), 0.5)).round(3)
    array([-0.693])
    """

    clip: float = 1e-4
    name: ClassVar[str] = "bernoulli"
    n_statistics: ClassVar[int] = 1

    def statistics(self, X: NDArray) -> Array:
        return as_float64(X)[None]

    def natural(self, eta: Array) -> tuple[Array, Array]:
        xp = namespace(eta)
        log_off = xp.log1p(-eta)
        return xp.log(eta) - log_off, -log_off[0]

    def pull(self, T: Array, eta: Array) -> Array:
        return bernoulli_score(T, eta)

    def constrain(self, eta: Array) -> Array:
        return namespace(eta).clip(eta, self.clip, 1 - self.clip)

    def population(self, moments: ColumnMoments) -> Array:
        return moments.mean[None]

    def mean(self, eta: Array) -> Array:
        return eta[0]

    def variance(self, eta: Array) -> Array:
        return eta[0] * (1 - eta[0])

    def from_moments(self, mean: Array, variance: Array) -> Array:
        return self.constrain(mean[None])

    def update(self, weight: Array, T_sum: Array, population: Array, epsilon: float) -> Array:
        # eq. 5
        mu = (T_sum[0] + epsilon * population[0]) / (weight + epsilon)
        return self.constrain(mu[None])

    def doubted(
        self, eta: Array, heard: Array, weight: Array, T_sum: Array, population: Array
    ) -> tuple[Array, float]:
        """Opinions as if some more rows of either value had been seen.

        How many is the same for all experts, times the standard deviation of the variable, and is
        chosen by the likelihood of each row under the averages of all others, if it clearly gains.
        """
        xp = namespace(eta)
        spread = xp.sqrt(xp.clip(population[0] * (1 - population[0]), 0.0, None))
        seen = [(eta[0] * heard, T_sum[0]), ((1 - eta[0]) * heard, weight - T_sum[0])]

        def of_unseen(doubt: float) -> Any:
            total = 0.0
            for count, own in seen:
                left_out = xp.clip(own, None, 1.0)
                above = count - left_out + doubt * spread
                below = heard - left_out + 2 * doubt * spread
                chance = xp.clip(above / xp.clip(below, self.clip, None), self.clip, 1 - self.clip)
                total = total + (own * xp.log(chance)).sum()
            return total

        worth = [float(of_unseen(doubt)) for doubt in DOUBTS]
        best = max(worth)
        doubt = DOUBTS[worth.index(best)] if best > worth[0] + WORTH_A_DOUBT else 0.0
        more = doubt * spread
        return self.constrain((eta * heard + more) / (heard + 2 * more)), doubt

    def equally_sure(self, eta: Array) -> Array:
        return namespace(eta).clip(eta, 1 - SURE, SURE)

    def draw(self, eta: Array, rng: np.random.RandomState) -> Array:
        return (rng.uniform(size=eta[0].shape) < eta[0]).astype(np.uint8)

    def check(self, X: NDArray, name: str = "X") -> None:
        xp = namespace(X)
        if X.dtype == xp.bool or (X.dtype == xp.uint8 and bool((X <= 1).all())):
            return
        for block in row_blocks(*X.shape):
            wrong = (X[block] != 0) & (X[block] != 1)
            if wrong.any():
                row, column = np.argwhere(to_numpy(wrong))[0]
                value = to_numpy(X[block][row, column])[()]
                raise ValueError(
                    f"{name} must be binary (0 or 1) for family='bernoulli', found "
                    f"{value!r} in row {block.start + row}, column {column}; "
                    "threshold the data, or use family='gaussian'"
                )


def bernoulli_score(x: Array, mu: Array) -> Array:
    """df/dmu, appendix A.1.1."""
    return (x - mu) / (mu * (1 - mu))


def bernoulli_curvature(x: Array, mu: Array) -> Array:
    """d2f/dmu2, appendix A.1.1."""
    return -(((x - mu) / (mu * (1 - mu))) ** 2)


def bernoulli_opinion_derivatives(x: Array, mu: Array, r_k: Array) -> tuple[Array, Array]:
    """df/dmu_k and d2f/dmu_k2, appendix A.1.2: the log-likelihood is concave in an opinion."""
    return r_k * bernoulli_score(x, mu), r_k**2 * bernoulli_curvature(x, mu)


def bernoulli_expertise_derivative(x: Array, mu: Array, mu_k: Array, total: Array) -> Array:
    """df/de_k, appendix A.1.3, with `total` the sum E of the active experts' expertise."""
    return bernoulli_score(x, mu) * (mu_k - mu) / total
