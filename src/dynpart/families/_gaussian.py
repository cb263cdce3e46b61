"""The Gaussian family: measurements, T(x) = (x, x^2) around the data's mean."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
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
from dynpart.families._spreads import shrunk_normals
from dynpart.families._stored import check_names, stored_column, stored_number

LOG_2PI = float(np.log(2 * np.pi))
ORDINARY = 40
"""Distance of the data's scale from 1, in octaves, up to which the unit stays 1."""
FAR = 1e15
"""Distance from the centre, in smallest standard deviations, beyond which float32 overflows."""
DENSE = 0.01
"""Smallest variance, relative to the data's variance, with which experts still fit densities."""

SHARED_FLOOR, OWN_FLOOR = 1.0, 1e-6
"""Default smallest variances, relative to the data's: columns that share a scale, and others.

The first reconstructs best, the second lets experts fit densities: it is that of scikit-learn's
Gaussian mixtures for standardised columns. Columns with few different values have narrow experts.
"""

TAIL = 1e-4
"""Share of values that may be anywhere in a column, whatever an expert says."""

LEAST_VARIANCE, MOST_VARIANCE = 1e-300, 1e300
"""Range of the smallest variance in a file."""


@dataclass(frozen=True, eq=False)
class Gaussian(Family):
    """Gaussian variables, measured from `centre` so that squares lose no digits.

    Mean parameters are (m, v + m^2) with m the mean relative to `centre`, both in units of `unit`:
    1, or a power of two if fourth powers of the data would overflow or underflow.

    Parameters
    ----------
    centre : ndarray of shape (n_features,)
        The data's column means.
    floor : float or ndarray of shape (n_features,)
        Smallest variance an expert may have, in squared units of the data: one for all columns,
        which then share a scale, or one for each.
    yardstick : float, default=None
        Variance for choosing codes, if `floor` is a smaller bound for scores; also sets `unit`.
        None uses `floor` for both.
    tails : ndarray of shape (n_features,), default=None
        Scale of the heavy tails of each column, which then has its own `floor`, too. The density is
        (1 - TAIL) times the normal one, but at least TAIL times that of a Cauchy distribution
        around `centre`, so it integrates to at most 1. None means that opinions are normal.

    Examples
    --------
    >>> import numpy as np
    >>> from dynpart.families import Gaussian
    >>> family = Gaussian(centre=np.array([10.0]), floor=0.1)
    >>> family.statistics(np.array([[12.0]])).ravel()
    array([2., 4.])
    """

    centre: Array
    floor: float | Array
    yardstick: float | None = None
    tails: Array | None = None
    name: ClassVar[str] = "gaussian"
    kind: ClassVar[str] = "real"
    n_statistics: ClassVar[int] = 2  # type: ignore[misc]
    is_normal: ClassVar[bool] = True

    @classmethod
    def for_data(cls, moments: ColumnMoments, *, variance_floor: float) -> Gaussian:
        """Centre on the data; `variance_floor` is relative to the mean column variance."""
        scale = float(moments.variance.mean())
        return cls(moments.mean, variance_floor * scale if scale > 0 else 1.0)

    @classmethod
    def for_columns(cls, moments: ColumnMoments, *, variance_floor: float) -> Gaussian:
        """Every column has its own scale; `variance_floor` is relative to its own variance."""
        xp, variance = namespace(moments.variance), moments.variance
        floor = xp.clip(variance_floor * variance, LEAST_VARIANCE, None)
        return cls(moments.mean, xp.where(variance > 0, floor, 1.0))

    @property
    def own_scale(self) -> bool:
        """Whether every column has its own scale."""
        return not isinstance(self.floor, float)

    @cached_property
    def unit(self) -> Any:
        """Unit of the values: 1 or a power of two, for all columns or per column."""
        yardstick = self.floor if self.yardstick is None else self.yardstick
        octave = np.frexp(to_numpy(yardstick))[1] // 2
        ordinary = abs(octave) <= ORDINARY
        if ordinary.all():
            return 1.0
        unit = np.where(ordinary, 1.0, np.ldexp(1.0, octave))
        return like(unit, self.centre) if unit.ndim else float(unit)

    def of_columns(self, columns: Any) -> Gaussian:
        floor = self.floor if isinstance(self.floor, float) else self.floor[columns]
        tails = None if self.tails is None else self.tails[columns]
        return replace(self, centre=self.centre[columns], floor=floor, tails=tails)

    def statistics_of(self, X: Array) -> Array:
        x = (X - self.centre) / self.unit
        return namespace(x).stack([x, x * x])

    def natural(self, eta: Array) -> tuple[Array, Array]:
        m, v = _mean_and_variance(eta)
        xp = namespace(eta)
        theta = xp.stack([m / v, -0.5 / v])
        log_unit = math.log(self.unit) if isinstance(self.unit, float) else xp.log(self.unit)
        if self.has_tails:
            log_unit = log_unit - math.log1p(-TAIL)
        return theta, 0.5 * (m * m / v + xp.log(v) + LOG_2PI) + log_unit

    @property
    def has_tails(self) -> bool:  # type: ignore[override]
        """Whether densities have heavy tails."""
        return self.tails is not None

    def least_log_density(self, values: NDArray) -> Any:
        if self.tails is None:
            return super().least_log_density(values)
        x = self.decode(values)
        z, xp = (x - self.centre) / self.tails, namespace(x)
        least = math.log(TAIL / math.pi) - xp.log(self.tails) - xp.log1p(z * z)
        return xp.where(is_observed(x), least, -math.inf)

    def heavy_tailed(self, moments: ColumnMoments | None) -> Gaussian:
        if moments is None:
            return replace(self, tails=None) if self.has_tails else self
        if not self.own_scale:
            return self
        variance, xp = moments.variance, namespace(moments.variance)
        scale = xp.sqrt(xp.clip(variance, LEAST_VARIANCE, MOST_VARIANCE))
        return replace(self, tails=xp.where(variance > 0, scale, self.floor**0.5))

    def pull(self, T: Array, eta: Array) -> Array:
        # F(eta)(T - eta) with d/dm at fixed second moment: the mean also moves the variance.
        m, v = _mean_and_variance(eta)
        by_mean, by_variance = gaussian_score(T[0], m, v)
        return namespace(eta).stack([by_mean - 2 * m * by_variance, by_variance])

    def constrain(self, eta: Array) -> Array:
        m, v = _mean_and_variance(eta)
        return _mean_parameters(m, self._floored(v))

    def population(self, moments: ColumnMoments) -> Array:
        return self._measured(moments.mean, moments.variance)

    def mean(self, eta: Array) -> Array:
        return eta[0] * self.unit + self.centre

    def variance(self, eta: Array) -> Array:
        return _mean_and_variance(eta)[1] * self.unit * self.unit

    def from_moments(self, mean: Array, variance: Array) -> Array:
        return self.constrain(self._measured(mean, variance))

    def update(
        self, weight: Array, T_sum: Array, population: Array, epsilon: float | Array
    ) -> Array:
        m0, v0 = _mean_and_variance(population)
        total = weight + epsilon
        m = (T_sum[0] + epsilon * m0) / total  # eq. 5
        # eq. 6, with the sum of r (x - m)^2 around the shrunk mean written out in centred sums
        spread = T_sum[1] - 2 * m * T_sum[0] + m * m * weight
        v = (spread + epsilon * v0) / total
        return _mean_parameters(m, self._floored(v))

    def conjugate(self, weight: Array, T_sum: Array) -> Array:
        xp = namespace(weight)
        if not self.own_scale:  # normal distributions of the mean, at the smallest variance
            return 0.5 * (T_sum[0] * T_sum[0] / (weight * self._floor) - xp.log(weight))
        # normal distributions of the mean, inverse gamma distributions of the variance
        around = xp.clip(T_sum[1] - T_sum[0] * T_sum[0] / weight, TINY, None)
        shape = (weight + 3) / 2
        return log_gamma(shape) - shape * xp.log(around) - 0.5 * xp.log(weight)

    def change(self, before: Array, after: Array, moments: ColumnMoments) -> Any:
        """Mean change in standard deviations of the data, or of each column with its own scale."""
        if not self.own_scale:
            return super().change(before, after, moments)
        xp = namespace(moments.variance)
        scale = xp.sqrt(moments.variance)
        moved = abs(self.mean(after) - self.mean(before))
        return (moved / xp.where(scale > 0, scale, 1.0)).mean()

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
        """Opinions of columns with their own scale, shrunk towards the common mean and variance.

        :doc:`/learning` has the rules, under shrinkage. Columns that share a scale mostly stay at
        the smallest variance and are not shrunk.
        """
        if not self.own_scale:
            return eta, 0.0
        overall = _mean_and_variance(population)
        m, v = shrunk_normals(weight, smoothed_weight, smoothed_T, overall)
        return _mean_parameters(m, self._floored(v)), 0.0

    def equally_sure(self, eta: Array) -> Array:
        floor = self._floor if self.shared_variance is None else self.shared_variance
        return _mean_parameters(eta[0], floor + 0 * eta[0])

    @property
    def shared_variance(self) -> float | None:
        if self.own_scale or self.yardstick is None:
            return None
        unit: float = self.unit
        return self.yardstick / unit / unit

    def separated(self, share: float = 1.0) -> Gaussian:
        if not isinstance(self.floor, float):
            return self
        yardstick = self.floor if self.yardstick is None else self.yardstick
        return replace(self, floor=share * yardstick, yardstick=yardstick)

    def for_learning(self) -> Gaussian:
        if self.own_scale:
            return self.heavy_tailed(None)
        if self.yardstick is None:
            return self
        return replace(self, floor=self.yardstick, yardstick=None)

    def judged(self, eta: Array) -> Array:
        return eta if self.shared_variance is None else self.equally_sure(eta)

    def as_density(self, moments: ColumnMoments) -> Gaussian:
        if not isinstance(self.floor, float):
            return self
        lower = DENSE * float(moments.variance.mean())
        if not 0 < lower < self.floor:
            return self
        return replace(self, floor=lower, yardstick=self.yardstick or self.floor)

    def have_own_scales(self, n_features: int) -> NDArray[np.bool_]:
        return np.full(n_features, self.own_scale)

    def draw(self, eta: Array, rng: np.random.RandomState) -> Array:
        m, v = _mean_and_variance(eta)
        return (m + np.sqrt(v) * rng.standard_normal(m.shape)) * self.unit + self.centre

    def check(self, X: NDArray, name: str = "X", columns: Any = None) -> None:
        """Raise ValueError if a value is so far off that its density is 0 under every expert."""
        xp = namespace(X)
        if X.dtype in (xp.bool, xp.uint8) or 0 in X.shape:
            return
        far: Any = FAR * self.floor**0.5
        # Two passes over the rows usually suffice; single columns matter only near the limit.
        above = float(xp.amax(X)) - float(self.centre.min())
        below = float(self.centre.max()) - float(xp.amin(X))
        if not self.own_scale and above <= far and below <= far:  # neither holds beside NaN
            return
        for block in row_blocks(*X.shape):
            at = first_true(abs(as_float64(X[block]) - self.centre) > far)
            if at is not None:
                row, column = at
                raise ValueError(
                    f"{name} must hold values like those the model was fitted to, found "
                    f"{float(X[block][row, column]):g} in "
                    f"{place(block.start + row, column, columns)}, where the mean was "
                    f"{float(self.centre[column]):g}; check its units"
                )

    def like(self, reference: Any) -> Gaussian:
        floor = self.floor if isinstance(self.floor, float) else like(self.floor, reference)
        tails = None if self.tails is None else like(self.tails, reference)
        return replace(self, centre=like(self.centre, reference), floor=floor, tails=tails)

    def stored(self) -> tuple[dict[str, float], dict[str, Any]]:
        if not isinstance(self.floor, float):
            arrays = {"centre": self.centre, "floor": self.floor}
            if self.tails is not None:
                arrays["tails"] = self.tails
            return {}, {name: to_numpy(array) for name, array in arrays.items()}
        numbers = {"floor": self.floor}
        if self.yardstick is not None:
            numbers["yardstick"] = self.yardstick
        return numbers, {"centre": to_numpy(self.centre)}

    @classmethod
    def restored(
        cls, numbers: Mapping[str, Any], arrays: Mapping[str, NDArray], n_features: int
    ) -> Gaussian:
        limits = {"least": LEAST_VARIANCE, "most": MOST_VARIANCE}
        if "floor" in arrays:
            check_names(numbers)
            own = ("centre", "floor", "tails") if "tails" in arrays else ("centre", "floor")
            check_names(arrays, *own)
            centre = stored_column(arrays, "centre", n_features)
            family = cls(centre, stored_column(arrays, "floor", n_features, **limits))
            if "tails" not in arrays:
                return family
            limits = {name: limit**0.5 for name, limit in limits.items()}
            return replace(family, tails=stored_column(arrays, "tails", n_features, **limits))
        wide = "yardstick" in numbers
        check_names(numbers, *(("floor", "yardstick") if wide else ("floor",)))
        check_names(arrays, "centre")
        floor = stored_number(numbers, "floor", **limits)
        yardstick = stored_number(numbers, "yardstick", **limits) if wide else None
        return cls(stored_column(arrays, "centre", n_features), floor, yardstick)

    @property
    def _floor(self) -> Any:
        return self.floor / self.unit / self.unit

    def _floored(self, variance: Array) -> Array:
        return namespace(variance).clip(variance, self._floor, None)

    def _measured(self, mean: Array, variance: Array) -> Array:
        """Mean parameters with this mean and variance, both in the data's units."""
        return _mean_parameters((mean - self.centre) / self.unit, variance / self.unit / self.unit)


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
