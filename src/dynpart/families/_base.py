"""What every family must say about one variable, and what follows from it for all of them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from dynpart.arrays import namespace
from dynpart.families._moments import ColumnMoments

Array = NDArray[np.float64]


class Family(ABC):
    r"""An exponential family per variable.

    .. math:: \log P(x) = \langle T(x), \theta\rangle - A(\theta) + b(x), \qquad \eta = E[T(x)]

    Mean parameters :math:`\eta` are what experts store and what the smoothed composition (eq. 4)
    mixes. Arrays carry the statistics on their first axis: ``eta`` has shape
    (n_statistics, n_experts, n_features) for experts and (n_statistics, n_rows, n_features) for
    composed rows; the formulas hold for any trailing axes.

    A new family (Poisson, categorical) is one more subclass: engines and the learner use nothing
    but the methods below.
    """

    name: ClassVar[str]
    n_statistics: ClassVar[int]

    @abstractmethod
    def statistics(self, X: NDArray) -> Array:
        """T(x) of shape (n_statistics, n_rows, n_features)."""

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
        """Move `eta` inside the range where densities are finite (clip or variance floor)."""

    @abstractmethod
    def population(self, moments: ColumnMoments) -> Array:
        """Mean parameters of the data as a whole, shape (n_statistics, n_features)."""

    @abstractmethod
    def mean(self, eta: Array) -> Array:
        """E[x] in the data's units, `eta` without the first axis."""

    @abstractmethod
    def variance(self, eta: Array) -> Array:
        """Var[x] in the data's units, `eta` without the first axis."""

    @abstractmethod
    def from_moments(self, mean: Array, variance: Array) -> Array:
        """Mean parameters with this mean and, where the family has one, this variance."""

    @abstractmethod
    def update(self, weight: Array, T_sum: Array, population: Array, epsilon: float) -> Array:
        """Experts from responsibility sums (eq. 5 and 6), shrunk towards the population.

        Parameters
        ----------
        weight : ndarray of shape (n_experts, n_features)
            Sum of responsibilities over rows.
        T_sum : ndarray of shape (n_statistics, n_experts, n_features)
            Sum of responsibility times T(x) over rows.
        population : ndarray of shape (n_statistics, n_features)
        epsilon : float
            Weight of the population in the average.

        Returns
        -------
        eta : ndarray of shape (n_statistics, n_experts, n_features)
        """

    def doubted(
        self, eta: Array, heard: Array, weight: Array, T_sum: Array, population: Array
    ) -> tuple[Array, float]:
        """The same opinions, no surer than rows that an expert has not seen bear out.

        Parameters
        ----------
        eta : ndarray of shape (n_statistics, n_experts, n_features)
            Opinions that `update` has made.
        heard : ndarray of shape (n_experts, n_features)
            Rows these are averages of, with those that the population counts for.
        weight, T_sum, population : ndarray
            As in `update`, of the data's own rows.

        Returns
        -------
        eta : ndarray of shape (n_statistics, n_experts, n_features)
        doubt : float
            How much was taken back; 0 in a family that keeps a distance from certainty anyway.
        """
        return eta, 0.0

    @abstractmethod
    def equally_sure(self, eta: Array) -> Array:
        """The same opinions, each held no more firmly than the others.

        Under these the likeliest code is about the one that reconstructs best: a value that is
        wrong counts the same whoever was wrong about it.
        """

    @abstractmethod
    def draw(self, eta: Array, rng: np.random.RandomState) -> Array:
        """One value per variable from the distribution with mean parameters `eta`."""

    @abstractmethod
    def check(self, X: NDArray, name: str = "X") -> None:
        """Raise ValueError if `X` holds a value this family gives no probability."""

    def like(self, reference: Any) -> Family:
        """The same family for the kind of arrays that `reference` is."""
        return self

    def log_density(self, T: Array, eta: Array) -> Array:
        """Log P(x) per variable; `T` and `eta` broadcast against each other."""
        theta, log_partition = self.natural(eta)
        return namespace(theta).einsum("s...,s...->...", T, theta) - log_partition

    def population_log_density(self, eta: Array, population: Array) -> Array:
        """Expected log P(x) under each expert when x comes from the population.

        Times epsilon, this is the log prior whose mode eq. 5 finds.
        """
        theta, log_partition = self.natural(eta)
        return namespace(theta).einsum("skd,sd->kd", theta, population) - log_partition

    def expertise_gradient(self, T: Array, eta: Array, eta_k: Array, r_k: Array) -> Array:
        r"""Derivative of log P(x) with respect to log e_k, in the smoothed composition.

        The appendix's chain rule for every family at once:
        :math:`e_k\, df/de_k = r_k \langle F(\eta)(T - \eta), \eta_k - \eta\rangle`.

        Parameters
        ----------
        T, eta : ndarray of shape (n_statistics, n_rows, 1, n_features)
            Statistics of the rows and composed mean parameters.
        eta_k : ndarray of shape (n_statistics, n_experts, n_features)
        r_k : ndarray of shape (n_rows, n_experts, n_features)
            Responsibilities (eq. 4).

        Returns
        -------
        ndarray of shape (n_rows, n_experts, n_features)
        """
        pull = self.pull(T, eta)
        inner = pull[0] * (eta_k[0] - eta[0])
        for s in range(1, self.n_statistics):
            inner = inner + pull[s] * (eta_k[s] - eta[s])
        return r_k * inner
