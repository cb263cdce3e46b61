"""The categorical family: variables with a few levels, T(x) = one-hot, eta = probabilities."""

from __future__ import annotations

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
from dynpart.families._bernoulli import SMALLEST_CLIP, SURE
from dynpart.families._frequencies import Frequencies
from dynpart.families._moments import TINY, ColumnMoments
from dynpart.families._stored import check_names, stored_column, stored_number

MOST_LEVELS = 65_000
"""Most levels of a variable: as many as two bytes hold, with one more for missing values."""
LEAST_LEFT = 0.01
"""Largest total probability that the lower bounds of all levels may add up to."""


@dataclass(frozen=True, eq=False)
class Categorical(Family):
    """Categorical variables with levels 0, 1, ..., each with its own number of levels.

    There is no reference level: natural parameters are the logarithms of all probabilities, and the
    log-partition is zero. Opinions about variables with fewer levels than others are padded with
    zeros. Binary variables are categorical variables with two levels, and :meth:`mean` is their
    probability of 1.

    Parameters
    ----------
    levels : ndarray of shape (n_features,), float64
        Number of levels of each variable.
    binary : ndarray of shape (n_features,), float64
        1 where a variable is binary: its levels are the numbers 0 and 1.
    clip : float, default=1e-4
        Least probability of a level.

    Examples
    --------
    >>> import numpy as np
    >>> from dynpart.families import Categorical
    >>> family = Categorical.with_levels([3])
    >>> family.statistics(np.array([[2]], dtype=np.uint8)).ravel()
    array([0., 0., 1.])
    """

    levels: Array
    binary: Array
    clip: float = 1e-4
    name: ClassVar[str] = "categorical"
    by_name: ClassVar[bool] = False
    kind: ClassVar[str] = "categorical"
    counts_levels: ClassVar[bool] = True  # type: ignore[misc]

    @classmethod
    def with_levels(cls, levels: Any, binary: Any = None) -> Categorical:
        """The family of variables with these numbers of `levels`, some of which are `binary`."""
        levels = np.asarray(levels, dtype=np.float64)
        binary = np.zeros(len(levels)) if binary is None else np.asarray(binary, dtype=np.float64)
        most = float(levels.max(initial=2.0))
        if not (levels >= 1).all() or most > MOST_LEVELS:
            raise ValueError(f"a variable must have from 1 to {MOST_LEVELS} levels")
        return cls(levels, binary, min(1e-4, LEAST_LEFT / most))

    @classmethod
    def for_data(cls, moments: ColumnMoments, *, variance_floor: float) -> Categorical:
        if moments.levels is None:
            raise ValueError(
                "family='categorical' needs the levels of every column: declare categorical "
                "columns with columns={...} instead"
            )
        return cls.with_levels(np.full(len(moments.mean), float(len(moments.levels))))

    @cached_property
    def n_levels(self) -> int:  # type: ignore[override]
        """The largest number of levels of a variable."""
        return max(2, int(self.levels.max()))

    @property
    def n_statistics(self) -> int:  # type: ignore[override]
        """Number of statistics: one per level."""
        return self.n_levels

    @property
    def n_noise(self) -> int:  # type: ignore[override]
        """Random numbers per expert and variable that an initialisation needs."""
        return self.n_levels

    @cached_property
    def _places(self) -> Array:
        """0, 1, ... for each level, shape (n_levels, 1)."""
        return like(np.arange(float(self.n_levels))[:, None], self.levels)

    @cached_property
    def _exists(self) -> Any:
        """Which levels a variable has, shape (n_levels, n_features)."""
        return self._places < self.levels

    def kinds_of_columns(self, n_features: int) -> tuple[str, ...]:
        return tuple("binary" if b else "categorical" for b in to_numpy(self.binary))

    def levels_of_columns(self, n_features: int) -> tuple[int, ...]:
        return tuple(int(n) for n in to_numpy(self.levels))

    def of_columns(self, columns: Any) -> Categorical:
        return replace(self, levels=self.levels[columns], binary=self.binary[columns])

    def statistics_of(self, X: Array) -> Array:
        xp = namespace(X)
        return xp.where(is_observed(X), as_float64(self._places[:, None] == X), xp.nan)

    def natural(self, eta: Array) -> tuple[Array, Array]:
        xp = namespace(eta)
        exists = self._over(eta, self._exists)
        return xp.where(exists, xp.log(xp.where(exists, eta, 1.0)), 0.0), 0 * eta[0]

    def pull(self, T: Array, eta: Array) -> Array:
        xp = namespace(eta)
        exists = self._over(eta, self._exists)
        return xp.where(exists, T / xp.where(exists, eta, 1.0), 0.0)

    def constrain(self, eta: Array) -> Array:
        xp = namespace(eta)
        exists = self._over(eta, self._exists)
        above = xp.where(exists, xp.clip(eta - self.clip, 0.0, None), 0.0)
        left = 1 - self.clip * self.levels
        return xp.where(exists, self.clip, 0.0) + above * (
            left / xp.clip(above.sum(axis=0), TINY, None)
        )

    def population(self, moments: ColumnMoments) -> Array:
        if moments.levels is None:
            raise ValueError("the moments of categorical variables must have counts of levels")
        xp = namespace(moments.levels)
        levels = moments.levels[: self.n_levels]
        total = levels.sum(axis=0)
        # A column without observed values has equal probabilities.
        even = self._exists / self.levels
        return xp.where(total > 0, levels / xp.clip(total, TINY, None), even)

    def level_probabilities(self, eta: Array) -> Array:
        """The mean parameters themselves: zero for levels that a variable does not have."""
        return eta

    def mean(self, eta: Array) -> Array:
        """The probability of 1 of binary variables, the likeliest level of all others."""
        xp = namespace(eta)
        return xp.where(self.binary > 0, eta[1], as_float64(xp.argmax(eta, 0)))

    def variance(self, eta: Array) -> Array:
        """Half the probability that two rows differ, which for binary variables is the variance."""
        varies = 1 - (eta * eta).sum(axis=0)
        return namespace(eta).clip(varies, 0, None) / 2  # one level: rounding may go below 0

    def scattered(self, moments: ColumnMoments, noise: Array, spread: float) -> Array:
        return self._moved(self.population(moments)[:, None], spread * noise)

    def disturbed(self, eta: Array, noise: Array) -> Array:
        return self._moved(eta, noise)

    def average(self, eta: Array) -> Array:
        return self.constrain(eta.mean(axis=1))

    def change(self, before: Array, after: Array, moments: ColumnMoments) -> Any:
        """Mean total variation distance."""
        return abs(after - before).sum(axis=0).mean() / 2

    def update(
        self, weight: Array, T_sum: Array, population: Array, epsilon: float | Array
    ) -> Array:
        # eq. 5
        return self.constrain((T_sum + epsilon * population[:, None]) / (weight + epsilon))

    def conjugate(self, weight: Array, T_sum: Array) -> Array:
        # Dirichlet distributions
        xp = namespace(T_sum)
        exists = self._over(T_sum, self._exists)
        by_level = xp.where(exists, log_gamma(xp.where(exists, T_sum, 1.0)), 0.0)
        return by_level.sum(axis=0) - log_gamma(weight)

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
        """Frequencies with at least half a row of each level added to each variable.

        :doc:`/learning` has the formula, under shrinkage.
        """
        columns = weight.sum(axis=0) * population
        seen = Frequencies(
            T_sum, smoothed_T, columns, weight, smoothed_weight, self.levels, epsilon, self.clip
        )
        if amount is None:
            amount = seen.best_shrinkage()
        levels = [seen.of_level(v, 0.0, amount) for v in range(self.n_levels)]
        return self.constrain(namespace(eta).stack(levels)), amount

    def equally_sure(self, eta: Array) -> Array:
        xp = namespace(eta)
        capped = xp.clip(eta, None, SURE)
        others = self._over(eta, self._exists) & (eta <= SURE)
        n_others = xp.clip(as_float64(others).sum(axis=0), 1.0, None)
        return self.constrain(
            xp.where(others, capped + (1 - capped.sum(axis=0)) / n_others, capped)
        )

    def likeliest(self, eta: Array) -> Array:
        return as_float64(namespace(eta).argmax(eta, 0))

    def draw(self, eta: Array, rng: np.random.RandomState) -> Array:
        ends = np.cumsum(eta, axis=0)
        drawn = (rng.uniform(size=eta[0].shape) * ends[-1] >= ends).sum(axis=0)
        return np.minimum(drawn, to_numpy(self.levels) - 1)

    def check(self, X: NDArray, name: str = "X", columns: Any = None) -> None:
        xp = namespace(X)
        for block in row_blocks(*X.shape):
            part = X[block]
            outside = part >= self.levels
            if part.dtype not in (xp.bool, xp.uint8):
                fraction = (part != xp.floor(part)) & is_observed(part)
                outside = outside | (part < 0) | fraction
            wrong = first_true(outside)
            if wrong is not None:
                n_levels = int(self.levels[wrong[1]])
                raise ValueError(
                    f"{name} must hold levels 0 to {n_levels - 1} there, found "
                    f"{part[wrong].item()!r} in {place(block.start + wrong[0], wrong[1], columns)}"
                )

    def like(self, reference: Any) -> Categorical:
        return replace(
            self, levels=like(self.levels, reference), binary=like(self.binary, reference)
        )

    def stored(self) -> tuple[dict[str, float], dict[str, Any]]:
        arrays = {"levels": to_numpy(self.levels), "binary": to_numpy(self.binary)}
        return {"clip": self.clip}, arrays

    @classmethod
    def restored(
        cls, numbers: Mapping[str, Any], arrays: Mapping[str, NDArray], n_features: int
    ) -> Categorical:
        check_names(numbers, "clip")
        check_names(arrays, "levels", "binary")
        levels = stored_column(arrays, "levels", n_features, least=1, most=MOST_LEVELS)
        binary = stored_column(arrays, "binary", n_features, least=0, most=1)
        if (levels != np.floor(levels)).any() or ((binary > 0) & (levels != 2)).any():
            raise ValueError("levels must be whole numbers, 2 where a variable is binary")
        most = min(0.5, 1 / float(levels.max(initial=2)))
        return cls(levels, binary, stored_number(numbers, "clip", least=SMALLEST_CLIP, most=most))

    def _moved(self, p: Array, noise: Array) -> Array:
        xp = namespace(p)
        deviation = xp.sqrt(xp.clip(p * (1 - p), 0.0, None))
        return self.constrain(xp.clip(p + deviation * noise, 0.0, None))

    def _over(self, eta: Array, by_level: Any) -> Any:
        """An array by level and variable, with the axes that `eta` has between the two."""
        return by_level.reshape(len(by_level), *(1,) * (eta.ndim - 2), by_level.shape[1])
