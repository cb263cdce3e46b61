"""The count family: negative binomial variables, with Poisson variables as a special case."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from dynpart.arrays import (
    as_float64,
    first_true,
    is_observed,
    like,
    log_gamma,
    namespace,
    place,
    row_blocks,
    to_numpy,
)
from dynpart.families._base import Array, Family
from dynpart.families._moments import TINY, ColumnMoments
from dynpart.families._stored import check_names, stored_column

LEAST_DISPERSION = 1e-6
"""Smallest dispersion of a negative binomial variable; below it the variable is Poisson."""
MOST_DISPERSION = 1e3
MOST_COUNT = 2.0**53
"""Largest integer that is represented exactly."""
LEAST_MEAN = 1e-6
"""Smallest mean of an expert, in rows of one count each."""
SHRINKAGES = (0.0, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0)
"""Candidate numbers of rows of the data's average, added to every opinion at the end."""


@dataclass(frozen=True, eq=False)
class Count(Family):
    """Counts with mean mu and variance mu + dispersion mu^2.

    A known dispersion makes the negative binomial distribution an exponential family: T(x) = x,
    theta = log(mu / (1 + dispersion mu)), A = log(1 + dispersion mu) / dispersion. Without
    dispersion it is the Poisson distribution. The square of x is a second statistic that no density
    uses; its sums give the dispersion that experts do not explain.

    Parameters
    ----------
    dispersion : ndarray of shape (n_features,)
        Dispersion of each variable, shared by all experts.

    Examples
    --------
    >>> import numpy as np
    >>> from dynpart.families import Count
    >>> family = Count(np.zeros(1))
    >>> family.log_density(np.array([[2.0]]), np.array([[[3.0]], [[12.0]]])).round(4)
    array([[-1.4959]])
    """

    dispersion: Array
    name: ClassVar[str] = "count"
    kind: ClassVar[str] = "count"
    n_statistics: ClassVar[int] = 2  # type: ignore[misc]

    @classmethod
    def for_data(cls, moments: ColumnMoments, *, variance_floor: float) -> Count:
        """The family with the dispersion of the data; learning reduces it. No `variance_floor`."""
        xp = namespace(moments.mean)
        return cls(_dispersion(moments.observed, moments.mean, moments.variance, xp))

    def free_parameters(self, n_features: int) -> tuple[int, ...]:
        return (1,) * n_features  # the mean; the dispersion is shared

    def of_columns(self, columns: Any) -> Count:
        return Count(self.dispersion[columns])

    def statistics_of(self, X: Array) -> Array:
        return namespace(X).stack([X, X * X])

    def log_base(self, values: NDArray) -> Any:
        x = self.decode(values)
        xp = namespace(x)
        seen = is_observed(x)
        x = xp.where(seen, x, 0.0)
        some = self.dispersion > 0
        size = 1 / xp.where(some, self.dispersion, 1.0)
        more = log_gamma(x + size) - log_gamma(size) - x * xp.log(size)
        return xp.where(seen, xp.where(some, more, 0.0) - log_gamma(x + 1), 0.0)

    def natural(self, eta: Array) -> tuple[Array, Array]:
        xp, mu = namespace(eta), eta[0]
        some = self.dispersion > 0
        dispersion = xp.where(some, self.dispersion, 1.0)
        spread = xp.where(some, xp.log1p(dispersion * mu), 0.0)
        theta = xp.log(mu) - spread
        return xp.stack([theta, 0 * mu]), xp.where(some, spread / dispersion, mu)

    def pull(self, T: Array, eta: Array) -> Array:
        by_mean = (T[0] - eta[0]) / self._variance(eta[0])
        return namespace(eta).stack([by_mean, 0 * by_mean])

    def constrain(self, eta: Array) -> Array:
        return self._opinions(namespace(eta).clip(eta[0], LEAST_MEAN, None))

    def population(self, moments: ColumnMoments) -> Array:
        mean, variance = moments.mean, moments.variance
        return namespace(mean).stack([mean, variance + mean * mean])

    def mean(self, eta: Array) -> Array:
        return eta[0]

    def variance(self, eta: Array) -> Array:
        return self._variance(eta[0])

    def from_moments(self, mean: Array, variance: Array) -> Array:
        return self.constrain(mean[None])

    def scattered(self, moments: ColumnMoments, noise: Array, spread: float) -> Array:
        """Means that differ by factors, because counts are seldom much below their mean."""
        xp = namespace(moments.mean)
        mean = xp.clip(moments.mean, LEAST_MEAN, None)
        relative = xp.sqrt(xp.clip(moments.variance, 0.0, None)) / mean
        return self.constrain(
            (mean * xp.exp(spread * noise[0] * xp.clip(relative, None, 2.0)))[None]
        )

    def change(self, before: Array, after: Array, moments: ColumnMoments) -> Any:
        """Mean change in standard deviations of each column."""
        xp = namespace(moments.variance)
        scale = xp.sqrt(moments.variance)
        return (abs(after[0] - before[0]) / xp.where(scale > 0, scale, 1.0)).mean()

    def update(
        self, weight: Array, T_sum: Array, population: Array, epsilon: float | Array
    ) -> Array:
        # eq. 5
        return self.constrain(((T_sum[0] + epsilon * population[0]) / (weight + epsilon))[None])

    def conjugate(self, weight: Array, T_sum: Array) -> Array:
        # Gamma distributions; with a dispersion, beta distributions of dispersion mu / (1 + that)
        xp, total = namespace(weight), T_sum[0]
        some = self.dispersion > 0
        size = weight / xp.where(some, self.dispersion, 1.0) + 1
        spread = log_gamma(size) - log_gamma(total + size)
        return log_gamma(total) + xp.where(some, spread, -total * xp.log(weight))

    def settled(self, weight: Array, T_sum: Array) -> Count:
        """The family with the dispersion of the residuals of the experts' means."""
        xp = namespace(weight)
        mean = T_sum[0] / xp.clip(weight, TINY, None)
        variance = xp.clip(T_sum[1] / xp.clip(weight, TINY, None) - mean * mean, 0.0, None)
        return Count(_dispersion(weight, mean, variance, xp))

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
        """Averages with half a count added to each variable, and rows of the data's average.

        An expert responsible for a share u of n rows, w of them, has the mean
        (T + u / 2 + a m) / (w + a) with m = (c + 1/2) / n and at least a = epsilon (1 - u). More
        rows of the average are added to all opinions if this raises the likelihood minus the number
        of effective parameters (w / (w + a) per mean). Less than one row adds less than half a
        count, and no row adds nothing: m is then the data's average.
        """
        xp = namespace(eta)
        total = weight.sum(axis=0)
        n_rows = xp.clip(total, 1.0, None)
        share = xp.clip(weight / n_rows, 0.0, 1.0)
        average = population[0] + 0.5 * xp.clip(total, 0.0, 1.0) / n_rows

        def means(added: float) -> tuple[Array, Array]:
            more = (epsilon + added) * (1 - share)
            below = xp.clip(smoothed_weight + more, TINY, None)
            return (smoothed_T[0] + share / 2 + more * average) / below, weight / below

        def worth(added: float) -> float:
            mean, free = means(added)
            theta, log_partition = self.natural(self.constrain(mean[None]))
            return float((T_sum[0] * theta[0] - weight * log_partition - free).sum())

        best = max(SHRINKAGES, key=worth)
        return self.constrain(means(best)[0][None]), 0.0

    def equally_sure(self, eta: Array) -> Array:
        return eta  # the mean determines the certainty of an opinion

    def likeliest(self, eta: Array) -> Array:
        """The mode."""
        xp, mu = namespace(eta), eta[0]
        return xp.floor(xp.clip(mu * (1 - self.dispersion), 0.0, None))

    def draw(self, eta: Array, rng: np.random.RandomState) -> Array:
        dispersion = np.broadcast_to(to_numpy(self.dispersion), eta[0].shape)
        some = dispersion > 0
        size = 1 / np.where(some, dispersion, 1.0)
        rate = np.where(some, eta[0] / size * rng.gamma(size), eta[0])
        return rng.poisson(np.minimum(rate, 1e18)).astype(np.float64)

    def check(self, X: NDArray, name: str = "X", columns: Any = None) -> None:
        xp = namespace(X)
        if X.dtype in (xp.bool, xp.uint8):
            return
        for block in row_blocks(*X.shape):
            part = X[block]
            odd = (part < 0) | (part != xp.floor(part)) | (part > MOST_COUNT)
            wrong = first_true(odd & is_observed(part))
            if wrong is not None:
                raise ValueError(
                    f"{name} must hold counts (0, 1, 2, ...), found {part[wrong].item()!r} in "
                    f"{place(block.start + wrong[0], wrong[1], columns)}"
                )

    def like(self, reference: Any) -> Count:
        return replace(self, dispersion=like(self.dispersion, reference))

    def stored(self) -> tuple[dict[str, float], dict[str, Any]]:
        return {}, {"dispersion": to_numpy(self.dispersion)}

    @classmethod
    def restored(
        cls, numbers: Mapping[str, Any], arrays: Mapping[str, NDArray], n_features: int
    ) -> Count:
        check_names({**numbers, **arrays}, "dispersion")
        found = stored_column(arrays, "dispersion", n_features, least=0, most=MOST_DISPERSION)
        if ((found > 0) & (found < LEAST_DISPERSION)).any():
            raise ValueError(f"dispersion must be 0 or at least {LEAST_DISPERSION:g}")
        return cls(found)

    def _variance(self, mu: Array) -> Array:
        return mu + self.dispersion * mu * mu

    def _opinions(self, mu: Array) -> Array:
        return namespace(mu).stack([mu, self._variance(mu) + mu * mu])


def _dispersion(weight: Array, mean: Array, variance: Array, xp: Any) -> Array:
    """Dispersion of each variable, from all experts or from the data as a whole.

    The correction accounts for the degree of freedom that each average uses.
    """
    if weight.ndim == 1:
        weight, mean, variance = weight[None], mean[None], variance[None]
    unbiased = variance * weight / xp.clip(weight - 1, 0.5, None)
    excess = (weight * (unbiased - mean)).sum(axis=0)
    square = (weight * mean * mean).sum(axis=0)
    found = xp.clip(excess / xp.clip(square, TINY, None), 0.0, MOST_DISPERSION)
    return as_float64(xp.where(found < LEAST_DISPERSION, 0.0, found))
