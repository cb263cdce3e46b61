"""Imputers: the compared methods of imputation, each set up for a table."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp
from sklearn.cluster import kmeans_plusplus
from sklearn.experimental import enable_iterative_imputer  # noqa: F401
from sklearn.impute import IterativeImputer, KNNImputer

from dynpart.comparison.contestants import OURS
from dynpart.comparison.gaps import GapTable
from dynpart.estimator import DynamicPartitionModel

Array = NDArray[np.float64]

WIDE = 64
"""With more columns, the iterative imputer regresses on a few columns instead of all."""
N_NEAREST = 20
SURE = 1e-3
SMALLEST_VARIANCE = 0.05


@dataclass(frozen=True)
class Filling:
    """Result of a method on a table with gaps.

    Attributes
    ----------
    filled : ndarray of shape (n_rows, n_features)
        The table without gaps.
    expected : callable
        () -> ndarray of shape (n_rows, n_features): probability of a 1 in binary columns, mean in
        real ones. Not part of the time.
    """

    filled: Array
    expected: Callable[[], Array]


@dataclass(frozen=True)
class Imputer:
    """A method of imputation.

    Attributes
    ----------
    name, title : str
    fill : callable
        (given, table, seed) -> Filling, where `given` has NaN in its gaps.
    compiled : bool
        Whether its first call compiles, which is not timed.
    """

    name: str
    title: str
    fill: Callable[[Array, GapTable, int], Filling]
    compiled: bool = False


def _ours(given: Array, table: GapTable, seed: int) -> Filling:
    model: Any = DynamicPartitionModel(n_experts=table.n_experts, random_state=seed).fit(given)
    return Filling(model.impute(given), lambda: model.conditional_means(given))


def _point(filled: Array) -> Filling:
    """The result of a method that returns values only."""
    return Filling(filled, lambda: filled)


def _columns(given: Array, table: GapTable, seed: int) -> Filling:
    means = np.nanmean(given, axis=0)
    return _point(np.where(np.isnan(given), means, given))


def _neighbours(given: Array, table: GapTable, seed: int) -> Filling:
    return _point(KNNImputer(keep_empty_features=True).fit_transform(given))


def _iterative(given: Array, table: GapTable, seed: int) -> Filling:
    nearest = N_NEAREST if given.shape[1] > WIDE else None
    imputer = IterativeImputer(
        n_nearest_features=nearest, keep_empty_features=True, random_state=seed
    )
    return _point(imputer.fit_transform(given))


def _mixture(given: Array, table: GapTable, seed: int) -> Filling:
    return _point(mixture_fill(given, table.binary, table.n_experts, seed))


def mixture_fill(
    given: Array, binary: NDArray[np.bool_], n_components: int, seed: int, *, max_iter: int = 50
) -> Array:
    """Fill gaps by a mixture of independent Bernoulli and Gaussian columns, learnt by EM.

    Parameters
    ----------
    given : ndarray of shape (n_rows, n_features)
        NaN in gaps, which are ignored.
    binary : ndarray of shape (n_features,)
    n_components : int
    seed : int
    max_iter : int, default=50

    Returns
    -------
    ndarray of shape (n_rows, n_features)

    Examples
    --------
    >>> import numpy as np
    >>> X = np.repeat([[0.0, 0.0], [1.0, 1.0]], 20, axis=0)
    >>> X[0, 1] = np.nan
    >>> bool(mixture_fill(X, np.array([True, True]), 2, seed=0)[0, 1] < 0.5)
    True
    """
    seen = (~np.isnan(given)).astype(np.float64)
    x = np.nan_to_num(given)
    population = x.sum(axis=0) / np.maximum(seen.sum(axis=0), 1)
    spread = (seen * (x - population) ** 2).sum(axis=0) / np.maximum(seen.sum(axis=0), 1)
    some = np.where(seen > 0, x, population)
    mean = 0.5 * population + 0.5 * kmeans_plusplus(some, n_components, random_state=seed)[0]
    variance = np.broadcast_to(spread, mean.shape)
    weight = np.full(len(mean), 1 / len(mean))
    for _ in range(max_iter):
        joint = _log_densities(x, seen, mean, variance, binary) + np.log(weight)
        posterior = np.exp(joint - logsumexp(joint, axis=1, keepdims=True))
        size = posterior.T @ seen + 0.5
        mean = (posterior.T @ (seen * x) + 0.5 * population) / size
        second = (posterior.T @ (seen * x * x) + 0.5 * (spread + population**2)) / size
        variance = np.maximum(second - mean**2, SMALLEST_VARIANCE * np.maximum(spread, 1e-12))
        weight = (posterior.sum(axis=0) + 1e-3) / (len(x) + 1e-3 * len(mean))
    return np.where(seen > 0, x, posterior @ mean)


def _log_densities(
    x: Array, seen: Array, mean: Array, variance: Array, binary: NDArray[np.bool_]
) -> Array:
    """Log-density of the observed cells under every component, (n_rows, n_components)."""
    p = np.clip(mean[:, binary], SURE, 1 - SURE)
    ones = seen[:, binary] * x[:, binary]
    total = ones @ np.log(p).T + (seen[:, binary] - ones) @ np.log1p(-p).T
    m, v = mean[:, ~binary], variance[:, ~binary]
    x, seen = x[:, ~binary], seen[:, ~binary]
    squares = (seen * x * x) @ (1 / v).T - 2 * (seen * x) @ (m / v).T + seen @ (m * m / v).T
    return total - 0.5 * (squares + seen @ np.log(2 * np.pi * v).T)


_ALL = (
    Imputer(OURS, "dynamic partition (ours)", _ours, compiled=True),
    Imputer("columns", "column modes and means", _columns),
    Imputer("neighbours", "KNNImputer", _neighbours),
    Imputer("iterative", "IterativeImputer", _iterative),
    Imputer("mixture", "mixture", _mixture),
)

IMPUTERS: Mapping[str, Imputer] = {imputer.name: imputer for imputer in _ALL}
