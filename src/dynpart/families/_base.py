"""The abstract family: the methods that every family implements, and those derived from them."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from dynpart.arrays import as_float64, is_observed, is_tensor, like, namespace
from dynpart.families._moments import ColumnMoments
from dynpart.families._stored import check_names

Array = NDArray[np.float64]


class Family(ABC):
    r"""An exponential family per variable.

    .. math:: \log P(x) = \langle T(x), \theta\rangle - A(\theta) + b(x), \qquad \eta = E[T(x)]

    Experts store mean parameters :math:`\eta`, and the smoothed composition (eq. 4) mixes them. The
    first axis of arrays holds the statistics: ``eta`` has shape (n_statistics, n_experts,
    n_features) for experts and (n_statistics, n_rows, n_features) for composed rows. The formulas
    hold for any trailing axes.

    Arguments have the same meaning in all methods: `X` are numbers of shape (n_rows, n_features),
    NaN for missing values, and `values` the same as returned by :meth:`encode`; `T` are statistics;
    `eta` are mean parameters; `moments` are the :class:`ColumnMoments` of the data and `population`
    the mean parameters that follow from them; `weight` and `T_sum` are sums over rows of
    responsibilities and of responsibilities times statistics; `n_features` is a number of columns
    and `columns` are their indices; `reference` is an array whose type and device are used.

    A new family is a subclass with the decorator :func:`register`. Engines, learner, model files,
    plots and descriptions use only the attributes and methods below, never the name
    (:doc:`/extending`).

    Attributes
    ----------
    name : str
        Name for users: ``DynamicPartitionModel(family=name)``.
    by_name : bool
        Whether users can select it by name; if not, it follows from the kinds of columns.
    kind : str
        Kind of a column: "binary", "categorical", "count", "real".
    n_statistics : int
        Number of statistics T(x), and so of mean parameters per variable.
    n_noise : int
        Random numbers per expert and variable that an initialisation needs.
    n_levels : int or None
        For discrete families, values are the levels 0 to n_levels - 1, and engines read their
        densities from a table. None for numbers, whose densities engines compute from T(x).
        Probabilities of levels are linear in the mean parameters, so the smoothed rule mixes them,
        too.
    is_binary : bool
        Whether all values are 0 or 1, T(x) = x and mean parameters are the probabilities of 1.
    is_normal : bool
        Whether T(x) = (x, x^2) and densities are normal. Kernels have their derivatives built in;
        for other families engines call :meth:`pull`.
    allows_newton : bool
        Whether log P is concave in an opinion and its second derivative minus the square of the
        first, as appendix A.1 shows of binary variables: ``expert_update="newton"``.
    counts_levels : bool
        Whether :meth:`population` needs counts of levels in addition to means and variances.
    clip : float
        Least probability of a level; 0 if there is no bound.
    has_tails : bool
        Whether pursuits and scores raise log P(x) to :meth:`least_log_density`. Families have no
        tails while a model learns, so sums do not know them.
    """

    name: ClassVar[str]
    kind: ClassVar[str]
    n_statistics: int
    n_levels: int | None = None
    n_noise: int = 1
    by_name: ClassVar[bool] = True
    is_binary: ClassVar[bool] = False
    is_normal: ClassVar[bool] = False
    allows_newton: ClassVar[bool] = False
    counts_levels: bool = False
    clip: float = 0.0
    has_tails: bool = False

    @classmethod
    @abstractmethod
    def for_data(cls, moments: ColumnMoments, *, variance_floor: float) -> Self:
        """The family for data with these column moments.

        `variance_floor` is the model's parameter, for families that have variances.
        """

    @property
    def unit(self) -> float:
        """Unit of the values; 1 unless the data have an extreme scale."""
        return 1.0

    def kinds_of_columns(self, n_features: int) -> tuple[str, ...]:
        """Kinds of `n_features` columns."""
        return (self.kind,) * n_features

    def levels_of_columns(self, n_features: int) -> tuple[int, ...]:
        """Numbers of levels of `n_features` columns; 0 for numbers."""
        return (self.n_levels or 0,) * n_features

    def free_parameters(self, n_features: int) -> tuple[int, ...]:
        """How many numbers an expert learns of each of `n_features` columns."""
        levels = self.levels_of_columns(n_features)
        return tuple(n - 1 if n else self.n_statistics for n in levels)

    def of_columns(self, columns: Any) -> Family:
        """The family of a subset of the columns, given by their indices."""
        return self

    def encode(self, X: NDArray) -> NDArray:
        """Values as input of engines: levels in bytes, `n_levels` for missing values.

        More than 255 levels take two bytes (four in a tensor). Families of numbers return them
        unchanged, with NaN for missing values.
        """
        if self.n_levels is None:
            return X
        xp = namespace(X)
        if X.dtype in (xp.bool, xp.uint8):
            X = X.view(xp.uint8)
            return X if self.n_levels < 256 else self._as_levels(X)
        return self._as_levels(xp.where(is_observed(X), X, self.n_levels))

    def _as_levels(self, levels: Any) -> Any:
        small = self.n_levels is not None and self.n_levels < 256
        if is_tensor(levels):
            xp = namespace(levels)
            return levels.to(xp.uint8 if small else xp.int32)
        return levels.astype(np.uint8 if small else np.uint16)

    def decode(self, values: NDArray) -> Array:
        """Inverse of :meth:`encode`, in double precision."""
        numbers = as_float64(values)
        if self.n_levels is None:
            return numbers
        xp = namespace(numbers)
        return xp.where(values < self.n_levels, numbers, xp.nan)

    def statistics(self, values: NDArray) -> Array:
        """T(x) of shape (n_statistics, n_rows, n_features), NaN for missing values.

        `values` are as returned by :meth:`encode`.
        """
        return self.statistics_of(self.decode(values))

    @abstractmethod
    def statistics_of(self, X: Array) -> Array:
        """T(x) of numbers, shape (n_statistics, n_rows, n_features); T(NaN) is NaN."""

    def log_base(self, values: NDArray) -> Any:
        """b(x) per value, zero for missing values; 0.0 in families without b."""
        return 0.0

    def least_log_density(self, values: NDArray) -> Any:
        """Lower bound of log P(x) under every opinion, without b(x), shape (n_rows, n_features).

        Minus infinity for missing values, and where there is no bound.
        """
        numbers = self.decode(values)
        return namespace(numbers).full_like(numbers, -math.inf)

    @abstractmethod
    def natural(self, eta: Array) -> tuple[Array, Array]:
        """Natural parameters theta, shaped like `eta`, and A(theta) without the first axis."""

    @abstractmethod
    def pull(self, T: Array, eta: Array) -> Array:
        r"""F(eta) (T - eta): the gradient of log P(x) with respect to the mean parameters.

        F is the Hessian of the convex conjugate of A, the inverse covariance of T.
        """

    @abstractmethod
    def constrain(self, eta: Array) -> Array:
        """Move `eta` into the range of finite densities (clip or smallest variance)."""

    @abstractmethod
    def population(self, moments: ColumnMoments) -> Array:
        """Mean parameters of the data as a whole, shape (n_statistics, n_features)."""

    @abstractmethod
    def mean(self, eta: Array) -> Array:
        """E[x] in the data's units, `eta` without the first axis; for categories a level."""

    @abstractmethod
    def variance(self, eta: Array) -> Array:
        """Var[x] in the data's units, `eta` without the first axis."""

    def from_moments(self, mean: Array, variance: Array) -> Array:
        """Mean parameters with this `mean` and, if the family has one, this `variance`.

        Families without it implement `scattered`, `disturbed` and `average`.
        """
        raise NotImplementedError(f"{type(self).__name__} has no from_moments")

    def scattered(self, moments: ColumnMoments, noise: Array, spread: float) -> Array:
        """Initial opinions, scattered around the average of the data.

        Parameters
        ----------
        moments : ColumnMoments
            Means and variances of the columns.
        noise : ndarray of shape (n_noise, n_experts, n_features)
            Random numbers between -1 and 1.
        spread : float
            Standard deviations of the data by which opinions differ from the average, at most.

        Returns
        -------
        eta : ndarray of shape (n_statistics, n_experts, n_features)
            Mean parameters of the experts.
        """
        mean, variance = moments.mean, moments.variance
        deviation = namespace(mean).sqrt(variance) * noise[0]
        return self.from_moments(mean + spread * deviation, variance + 0 * deviation)

    def disturbed(self, eta: Array, noise: Array) -> Array:
        """Perturbed opinions; `noise` is in units of their standard deviations.

        `noise` has shape (n_noise, n_experts, n_features).
        """
        variance = self.variance(eta)
        mean = self.mean(eta) + namespace(eta).sqrt(variance) * noise[0]
        return self.from_moments(mean, variance)

    def average(self, eta: Array) -> Array:
        """The average opinion of all experts, shape (n_statistics, n_features)."""
        mean, variance = self.mean(eta), self.variance(eta)
        return self.from_moments(mean.mean(axis=0), variance.mean(axis=0))

    def change(self, before: Array, after: Array, moments: ColumnMoments) -> Any:
        """Mean change of opinions from `before` to `after`, in standard deviations of the data."""
        moved = abs(self.mean(after) - self.mean(before)).mean()
        xp = namespace(moments.variance)
        scale = xp.sqrt(moments.variance.mean())
        return moved / xp.where(scale > 0, scale, 1.0)

    @abstractmethod
    def update(
        self, weight: Array, T_sum: Array, population: Array, epsilon: float | Array
    ) -> Array:
        """Experts from responsibility sums (eq. 5 and 6), shrunk towards the population.

        Parameters
        ----------
        weight : ndarray of shape (n_experts, n_features)
            Sum of responsibilities over rows.
        T_sum : ndarray of shape (n_statistics, n_experts, n_features)
            Sum of responsibility times T(x) over rows.
        population : ndarray of shape (n_statistics, n_features)
            Mean parameters of the data as a whole.
        epsilon : float or ndarray of shape (n_features,)
            Weight of the population in the average.

        Returns
        -------
        eta : ndarray of shape (n_statistics, n_experts, n_features)
            Mean parameters of the experts.
        """

    def conjugate(self, weight: Array, T_sum: Array) -> Array:
        r"""Log-normaliser of the conjugate prior, :math:`\log \int e^{<T, \theta> - w A} d\theta`.

        Under this prior the expected mean parameters are T / w, which is the average of
        :meth:`update` (Diaconis & Ylvisaker, 1979). The likelihood of responsibility sums, with the
        opinions integrated out, is the difference between the normalisers with and without them.
        Without this method, learning does not choose the weight of the population.

        Parameters
        ----------
        weight : ndarray of shape (n_experts, n_features)
            Sum of responsibilities, positive.
        T_sum : ndarray of shape (n_statistics, n_experts, n_features)
            Sum of responsibility times T(x); divided by `weight` it is inside the range of finite
            densities.

        Returns
        -------
        ndarray of shape (n_experts, n_features)
            Up to a constant, and to a multiple of `weight`.
        """
        return 0 * weight

    def settled(self, weight: Array, T_sum: Array) -> Family:
        """The same family with its shared parameters fitted to responsibility sums.

        `weight` and `T_sum` are those of :meth:`update`, at the end of learning.
        """
        return self

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
        """Shrunk opinions, with an amount of shrinkage chosen by leaving rows out.

        Parameters
        ----------
        eta : ndarray of shape (n_statistics, n_experts, n_features)
            Opinions from `update`.
        weight, T_sum : ndarray
            Sums of all experts over the same rows, as in `update`.
        smoothed_weight, smoothed_T : ndarray
            The same sums smoothed over neighbouring variables, from which `eta` was computed.
            Without neighbours these are `weight` and `T_sum`.
        population : ndarray of shape (n_statistics, n_features)
            Mean parameters of the data as a whole.
        epsilon : float or ndarray of shape (n_features,)
            Weight of the population in the average.
        amount : float, default=None
            Shrinkage beyond the fixed part; chosen by leaving rows out if None.

        Returns
        -------
        eta : ndarray of shape (n_statistics, n_experts, n_features)
            The shrunk opinions.
        amount : float
            The amount used; 0 in a family whose opinions are bounded away from certainty anyway.
        """
        return eta, 0.0

    @abstractmethod
    def equally_sure(self, eta: Array) -> Array:
        """The same opinions with equal certainty.

        The likeliest code under them has nearly the lowest reconstruction error, because every
        wrong value has about the same cost.
        """

    @property
    def shared_variance(self) -> float | None:
        """The single variance for choosing codes, if opinions have other variances for scores.

        In squared units of :attr:`unit`.
        """
        return None

    def separated(self, share: float = 1.0) -> Family:
        """The same family, with one variance for choosing codes and other variances for scores.

        This changes only families of columns that share a scale, which are learnt with a large
        smallest variance that nearly all opinions have. The variances for scores may be as small as
        a `share` of it.
        """
        return self

    def judged(self, eta: Array) -> Array:
        """Opinions for choosing codes: `eta` itself, unless a single variance is used."""
        return eta

    def for_learning(self) -> Family:
        """The same family as used at the start of learning."""
        return self

    def as_density(self, moments: ColumnMoments) -> Family:
        """The same family without its settings for reconstruction."""
        return self

    def heavy_tailed(self, moments: ColumnMoments | None) -> Family:
        """The same family with heavy tails in real columns of their own scale; None removes them.

        `moments` are those of the data, whose spread the tails have.
        """
        return self

    def have_own_scales(self, n_features: int) -> NDArray[np.bool_]:
        """Which of `n_features` columns are real and have a scale of their own."""
        return np.zeros(n_features, dtype=bool)

    def likeliest(self, eta: Array) -> Array:
        """The value for imputation: the mean, or the likeliest level."""
        return self.mean(eta)

    @abstractmethod
    def draw(self, eta: Array, rng: np.random.RandomState) -> Array:
        """One value per variable from the distribution with mean parameters `eta`, by `rng`."""

    @abstractmethod
    def check(self, X: NDArray, name: str = "X", columns: Any = None) -> None:
        """Raise ValueError if `X` holds a value outside the support of this family.

        The error names the table `name` and the column, if columns have names.
        """

    def like(self, reference: Any) -> Family:
        """The same family for arrays of the type and device of `reference`."""
        return self

    def stored(self) -> tuple[dict[str, float], dict[str, Any]]:
        """The numbers and arrays of the family for a model file, by name."""
        return {}, {}

    @classmethod
    def restored(
        cls, numbers: Mapping[str, Any], arrays: Mapping[str, NDArray], n_features: int
    ) -> Self:
        """The family from `numbers` and `arrays`, as :meth:`stored` returns them.

        A file may hold anything: raise ValueError unless every number and array is present, has its
        type and shape, and lies in a range for which :meth:`natural` is finite. Callers guarantee
        only that keys are text and arrays are NumPy arrays.
        """
        check_names({**numbers, **arrays})
        return cls()

    def level_probabilities(self, eta: Array) -> Array:
        """P(x = level) of a discrete family, shape (n_levels, n_experts, n_features).

        Zero for levels that a variable does not have.
        """
        levels = np.arange(self.n_levels or 0, dtype=np.float64)[:, None].repeat(eta.shape[2], 1)
        theta, log_partition = self.natural(eta)
        xp, T = namespace(eta), self.statistics_of(like(levels, eta))
        return xp.exp(xp.einsum("svd,skd->vkd", T, theta) - log_partition)

    def log_density(self, values: NDArray, eta: Array) -> Array:
        """Log P(x) per variable, b(x) included, zero for missing values.

        Parameters
        ----------
        values : ndarray of shape (n_rows, n_features)
            As returned by :meth:`encode`.
        eta : ndarray of shape (n_statistics, n_rows, n_features)
            Composed mean parameters of each row.
        """
        T = self.statistics(values)
        theta, log_partition = self.natural(eta)
        xp = namespace(theta)
        density = xp.einsum("s...,s...->...", T, theta) - log_partition
        density = xp.where(is_observed(T[0]), density, 0.0)
        if self.has_tails:
            density = xp.maximum(density, self.least_log_density(values))
        return density + self.log_base(values)

    def population_log_density(self, eta: Array, population: Array) -> Array:
        """Expected log P(x) under each expert when x comes from the population.

        Multiplied by epsilon, this is the log prior whose mode is eq. 5.
        """
        theta, log_partition = self.natural(eta)
        return namespace(theta).einsum("skd,sd->kd", theta, population) - log_partition

    def expertise_gradient(self, T: Array, eta: Array, eta_k: Array, r_k: Array) -> Array:
        r"""Derivative of log P(x) with respect to log e_k, in the smoothed composition.

        The appendix's chain rule for all families:
        :math:`e_k\, df/de_k = r_k \langle F(\eta)(T - \eta), \eta_k - \eta\rangle`.

        Parameters
        ----------
        T, eta : ndarray of shape (n_statistics, n_rows, 1, n_features)
            Statistics of the rows and composed mean parameters.
        eta_k : ndarray of shape (n_statistics, n_experts, n_features)
            Mean parameters of the experts.
        r_k : ndarray of shape (n_rows, n_experts, n_features)
            Responsibilities (eq. 4).

        Returns
        -------
        ndarray of shape (n_rows, n_experts, n_features)
            The derivative for each row, expert and variable.
        """
        pull = self.pull(T, eta)
        inner = pull[0] * (eta_k[0] - eta[0])
        for s in range(1, self.n_statistics):
            inner = inner + pull[s] * (eta_k[s] - eta[s])
        return r_k * inner
