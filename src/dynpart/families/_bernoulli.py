"""The Bernoulli family: binary variables, T(x) = x, eta = mu."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from dynpart.arrays import (
    as_float64,
    first_true,
    is_observed,
    log_gamma,
    namespace,
    place,
    row_blocks,
)
from dynpart.families._base import Array, Family
from dynpart.families._frequencies import Frequencies
from dynpart.families._moments import ColumnMoments
from dynpart.families._stored import check_names, stored_number

SURE = 0.7
"""Largest probability of an opinion for codes that are chosen for reconstruction.

Opinions rounded to 0 and 1 would count wrong values exactly, but many experts would be tied in a
greedy search.
"""
SMALLEST_CLIP = 1e-12
"""Smallest distance of a stored probability from 0 and 1, which every engine can represent."""


@dataclass(frozen=True)
class Bernoulli(Family):
    """Bernoulli variables with probabilities kept inside [clip, 1 - clip].

    Parameters
    ----------
    clip : float, default=1e-4
        Smallest probability of a value: one surprising value costs at most -log(clip) nats.

    Examples
    --------
    >>> import numpy as np
    >>> from dynpart.families import Bernoulli
    >>> Bernoulli().log_density(np.ones((1, 1)), np.full((1, 1, 1), 0.5)).round(3)
    array([[-0.693]])
    """

    clip: float = 1e-4
    name: ClassVar[str] = "bernoulli"
    kind: ClassVar[str] = "binary"
    n_statistics: ClassVar[int] = 1  # type: ignore[misc]
    n_levels: ClassVar[int] = 2  # type: ignore[misc]
    is_binary: ClassVar[bool] = True
    allows_newton: ClassVar[bool] = True

    @classmethod
    def for_data(cls, moments: ColumnMoments, *, variance_floor: float) -> Bernoulli:
        return cls()

    def statistics_of(self, X: Array) -> Array:
        return X[None]

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

    def level_probabilities(self, eta: Array) -> Array:
        return namespace(eta).stack([1 - eta[0], eta[0]])

    def mean(self, eta: Array) -> Array:
        return eta[0]

    def variance(self, eta: Array) -> Array:
        return eta[0] * (1 - eta[0])

    def from_moments(self, mean: Array, variance: Array) -> Array:
        return self.constrain(mean[None])

    def update(
        self, weight: Array, T_sum: Array, population: Array, epsilon: float | Array
    ) -> Array:
        # eq. 5
        mu = (T_sum[0] + epsilon * population[0]) / (weight + epsilon)
        return self.constrain(mu[None])

    def conjugate(self, weight: Array, T_sum: Array) -> Array:
        # beta distributions
        return log_gamma(T_sum[0]) + log_gamma(weight - T_sum[0]) - log_gamma(weight)

    def shrunk(
        self,
        eta: Array,
        weight: Array,
        T_sum: Array,
        smoothed_weight: Array,
        smoothed_T: Array,
        population: Array,
        epsilon: float | Array,
        amount: float | None = None,
    ) -> tuple[Array, float]:
        """Frequencies with at least half a row of each value added to each variable.

        :doc:`/learning` has the formula, under shrinkage.
        """
        n_rows = weight.sum(axis=0)
        ones = n_rows * population[0]
        seen = Frequencies(
            (T_sum[0], weight - T_sum[0]),
            (smoothed_T[0], smoothed_weight - smoothed_T[0]),
            (ones, n_rows - ones),
            weight,
            smoothed_weight,
            2.0,
            epsilon,
            self.clip,
        )
        if amount is None:
            amount = seen.best_shrinkage()
        return self.constrain(seen.of_level(0, 0.0, amount)[None]), amount

    def equally_sure(self, eta: Array) -> Array:
        return namespace(eta).clip(eta, 1 - SURE, SURE)

    def likeliest(self, eta: Array) -> Array:
        return as_float64(eta[0] > 0.5)

    def draw(self, eta: Array, rng: np.random.RandomState) -> Array:
        return (rng.uniform(size=eta[0].shape) < eta[0]).astype(np.uint8)

    def check(self, X: NDArray, name: str = "X", columns: Any = None) -> None:
        xp = namespace(X)
        if X.dtype == xp.bool or (X.dtype == xp.uint8 and bool((X <= 1).all())):
            return
        for block in row_blocks(*X.shape):
            part = X[block]
            wrong = first_true((part != 0) & (part != 1) & is_observed(part))
            if wrong is not None:
                value = part[wrong].item()
                where = place(block.start + wrong[0], wrong[1], columns)
                raise ValueError(
                    f"{name} must be binary (0 or 1) for family='bernoulli', found "
                    f"{value!r} in {where}; threshold the data, or use family='gaussian'"
                )

    def stored(self) -> tuple[dict[str, float], dict[str, Any]]:
        return {"clip": self.clip}, {}

    @classmethod
    def restored(
        cls, numbers: Mapping[str, Any], arrays: Mapping[str, NDArray], n_features: int
    ) -> Bernoulli:
        check_names({**numbers, **arrays}, "clip")
        return cls(stored_number(numbers, "clip", least=SMALLEST_CLIP, most=0.5))


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
