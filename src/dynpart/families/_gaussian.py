"""The Gaussian family: measurements, T(x) = (x, x^2) around the data's mean."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from dynpart.arrays import as_float64, like, namespace
from dynpart.families._base import Array, Family
from dynpart.families._moments import ColumnMoments

LOG_2PI = float(np.log(2 * np.pi))


@dataclass(frozen=True, eq=False)
class Gaussian(Family):
    """Gaussian variables, measured from `centre` so that squares lose no digits.

    Mean parameters are (m, v + m^2) with m the mean relative to `centre`.

    Parameters
    ----------
    centre : ndarray of shape (n_features,)
        The data's column means.
    floor : float
        Smallest variance an expert may have, in squared units of the data.

    Examples
    --------
    >>> import numpy as np
    >>> from dynpart.families import Gaussian
    >>> family = Gaussian(centre=np.array([10.0]), floor=0.1)
    >>> family.statistics(np.array([[12.0]])).ravel()
    array([2., 4.])
    """

    centre: Array
    floor: float
    name: ClassVar[str] = "gaussian"
    n_statistics: ClassVar[int] = 2

    @classmethod
    def for_data(cls, moments: ColumnMoments, *, variance_floor: float) -> Gaussian:
        """Centre on the data; `variance_floor` is relative to the mean column variance."""
        scale = float(moments.variance.mean())
        return cls(moments.mean, variance_floor * scale if scale > 0 else 1.0)

    def statistics(self, X: NDArray) -> Array:
        x = as_float64(X) - self.centre
        return namespace(x).stack([x, x * x])

    def natural(self, eta: Array) -> tuple[Array, Array]:
        m, v = _mean_and_variance(eta)
        xp = namespace(eta)
        theta = xp.stack([m / v, -0.5 / v])
        return theta, 0.5 * (m * m / v + xp.log(v) + LOG_2PI)

    def pull(self, T: Array, eta: Array) -> Array:
        # F(eta)(T - eta) with d/dm at fixed second moment: the mean also moves the variance.
        m, v = _mean_and_variance(eta)
        by_mean, by_variance = gaussian_score(T[0], m, v)
        return namespace(eta).stack([by_mean - 2 * m * by_variance, by_variance])

    def constrain(self, eta: Array) -> Array:
        m, v = _mean_and_variance(eta)
        return _mean_parameters(m, self._floored(v))

    def population(self, moments: ColumnMoments) -> Array:
        return _mean_parameters(moments.mean - self.centre, moments.variance)

    def mean(self, eta: Array) -> Array:
        return eta[0] + self.centre

    def variance(self, eta: Array) -> Array:
        return _mean_and_variance(eta)[1]

    def from_moments(self, mean: Array, variance: Array) -> Array:
        return self.constrain(_mean_parameters(mean - self.centre, variance))

    def update(self, weight: Array, T_sum: Array, population: Array, epsilon: float) -> Array:
        m0, v0 = _mean_and_variance(population)
        total = weight + epsilon
        m = (T_sum[0] + epsilon * m0) / total  # eq. 5
        # eq. 6, with the sum of r (x - m)^2 around the shrunk mean written out in centred sums
        spread = T_sum[1] - 2 * m * T_sum[0] + m * m * weight
        v = (spread + epsilon * v0) / total
        return _mean_parameters(m, self._floored(v))

    def equally_sure(self, eta: Array) -> Array:
        return _mean_parameters(eta[0], self.floor + 0 * eta[0])

    def draw(self, eta: Array, rng: np.random.RandomState) -> Array:
        m, v = _mean_and_variance(eta)
        return m + self.centre + np.sqrt(v) * rng.standard_normal(m.shape)

    def check(self, X: NDArray, name: str = "X") -> None:
        """Every finite number has a Gaussian density."""

    def like(self, reference: Any) -> Gaussian:
        return replace(self, centre=like(self.centre, reference))

    def _floored(self, variance: Array) -> Array:
        return namespace(variance).clip(variance, self.floor, None)


def _mean_and_variance(eta: Array) -> tuple[Array, Array]:
    return eta[0], eta[1] - eta[0] * eta[0]


def _mean_parameters(m: Array, v: Array) -> Array:
    return namespace(m).stack([m, v + m * m])


def gaussian_score(x: Array, mu: Array, v: Array) -> tuple[Array, Array]:
    """df/dmu and df/dv of the composed mean and variance, appendix A.2.1."""
    residual = x - mu
    return residual / v, (residual * residual - v) / (2 * v * v)


def gaussian_expertise_derivative(
    x: Array, mu: Array, v: Array, mu_k: Array, v_k: Array, total: Array
) -> Array:
    """df/de_k, appendix A.2.2, with `total` the sum E of the active experts' expertise."""
    by_mean, by_variance = gaussian_score(x, mu, v)
    mean_slope = (mu_k - mu) / total
    variance_slope = (v_k - v + (mu_k - mu) ** 2) / total
    return by_mean * mean_slope + by_variance * variance_slope
