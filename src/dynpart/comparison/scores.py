"""Scores of codes and reconstructions: pure functions of arrays."""

from __future__ import annotations

from itertools import combinations

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import linear_sum_assignment
from scipy.special import xlogy

from dynpart.datasets import bar_templates

Array = NDArray[np.float64]

CLIP = 1e-3  # as in our own model: one surprising pixel costs at most 6.9 nats
N_LEVELS = 4  # of a real-valued unit, when information is counted
CLIPS = (0.001, 0.003, 0.01, 0.02, 0.05, 0.1, 0.2)  # candidates for imputed probabilities
POOLED_CELLS = 5.0  # pseudo-cells of all columns' variance in the variance of one column


def reconstruction_error(X: NDArray, reconstruction: Array, *, binary: bool) -> float:
    """Share of wrong pixels (threshold 1/2) if binary, else the root mean squared error.

    Examples
    --------
    >>> import numpy as np
    >>> reconstruction_error(np.array([[0, 1]]), np.array([[0.2, 0.4]]), binary=True)
    0.5
    """
    if binary:
        return float(((reconstruction > 0.5) != (X > 0.5)).mean())
    return float(np.sqrt(np.mean((X - reconstruction) ** 2)))


def conditional_log_likelihood(
    X: NDArray, reconstruction: Array, *, binary: bool, noise_variance: float = 1.0
) -> Array:
    """Log P(x | h) per row in nats, the reconstruction being the expected row.

    Parameters
    ----------
    X, reconstruction : ndarray of shape (n_rows, n_features)
    binary : bool
        Bernoulli variables, probabilities kept CLIP away from 0 and 1; else Gaussian ones.
    noise_variance : float
        Of the Gaussian variables.

    Returns
    -------
    ndarray of shape (n_rows,)
    """
    if binary:
        p = np.clip(reconstruction, CLIP, 1 - CLIP)
        return np.where(X > 0.5, np.log(p), np.log1p(-p)).sum(axis=1)
    squares = (X - reconstruction) ** 2 / noise_variance
    return -0.5 * (squares + np.log(2 * np.pi * noise_variance)).sum(axis=1)


def code_log_prior(H: NDArray, H_train: NDArray, groups: NDArray[np.intp] | None = None) -> Array:
    """Log P(h) per row in nats, with frequencies learnt from the codes of training rows.

    Parameters
    ----------
    H, H_train : ndarray of shape (n_rows, n_units), (n_train_rows, n_units)
        Binary codes.
    groups : ndarray of shape (n_units,), default=None
        The group of every unit, if exactly one unit of each group is active: one choice is coded
        per group instead of independent bits.

    Returns
    -------
    ndarray of shape (n_rows,)

    Examples
    --------
    >>> import numpy as np
    >>> train = np.array([[1, 0], [0, 1]])
    >>> np.exp(code_log_prior(train, train)).tolist()
    [0.25, 0.25]
    >>> np.exp(code_log_prior(train, train, np.array([0, 0]))).round(12).tolist()
    [0.5, 0.5]
    """
    used = H_train.sum(axis=0, dtype=np.float64)
    if groups is None:
        p = (used + 0.5) / (len(H_train) + 1.0)
        return H @ (np.log(p) - np.log1p(-p)) + np.log1p(-p).sum()
    sizes = np.bincount(groups)[groups]
    return H @ np.log((used + 0.5) / (len(H_train) + 0.5 * sizes))


def imputation_scores(
    X: Array,
    filled: Array,
    expected: Array,
    *,
    binary: NDArray[np.bool_],
    scored: NDArray[np.bool_],
    held_back: NDArray[np.bool_],
) -> dict[str, float]:
    """Accuracy and likelihood of hidden cells.

    Expected values of binary columns are probabilities. They are kept away from 0 and 1 by the
    entry of CLIPS that maximises the likelihood of the held-back cells. Real columns are Gaussian
    with the variance of the errors in the held-back cells.

    Parameters
    ----------
    X, filled, expected : ndarray of shape (n_rows, n_features)
        The truth, the table without gaps, and expected values. Real columns are standardised.
    binary : ndarray of shape (n_features,)
    scored, held_back : ndarray of shape (n_rows, n_features)

    Returns
    -------
    dict
        ``recovered`` (share of the hidden binary cells), ``rmse`` (of the hidden real ones) and
        ``log_likelihood`` (nats per hidden cell).

    Examples
    --------
    >>> import numpy as np
    >>> X = np.array([[0.0, 1.0], [1.0, 1.0]])
    >>> scored = np.array([[True, False], [True, False]])
    >>> half = np.full((2, 2), 0.5)
    >>> values = imputation_scores(
    ...     X, np.zeros((2, 2)), half, binary=np.ones(2, bool), scored=scored, held_back=~scored
    ... )
    >>> values["recovered"], round(values["log_likelihood"], 3)
    (0.5, -0.693)
    """
    values = {}
    total = 0.0
    at, back = scored & binary, held_back & binary
    if at.any():
        values["recovered"] = float(((filled[at] > 0.5) == (X[at] > 0.5)).mean())
        clip = max(CLIPS, key=lambda c: _bernoulli(X[back], expected[back], c).sum())
        total += float(_bernoulli(X[at], expected[at], clip).sum())
    at, back = scored & ~binary, held_back & ~binary
    if at.any():
        values["rmse"] = float(np.sqrt(np.mean((filled[at] - X[at]) ** 2)))
        squares = np.where(back, (X - expected) ** 2, 0.0)
        pooled = squares.sum() / max(back.sum(), 1)
        variance = (squares.sum(axis=0) + POOLED_CELLS * pooled) / (back.sum(axis=0) + POOLED_CELLS)
        variance = np.broadcast_to(np.maximum(variance, 1e-6), X.shape)[at]
        errors = (X[at] - expected[at]) ** 2 / variance
        total -= 0.5 * float((errors + np.log(2 * np.pi * variance)).sum())
    values["log_likelihood"] = total / max(int(scored.sum()), 1)
    return values


def _bernoulli(x: Array, expected: Array, clip: float) -> Array:
    """Log-probability of each cell, with probabilities kept `clip` away from 0 and 1."""
    p = np.clip(expected, clip, 1 - clip)
    return np.where(x > 0.5, np.log(p), np.log1p(-p))


def mutual_information(code: NDArray, factor: NDArray) -> float:
    """Empirical mutual information of two discrete columns, in bits.

    Examples
    --------
    >>> import numpy as np
    >>> mutual_information(np.array([0, 0, 1, 1]), np.array([1, 1, 0, 0]))
    1.0
    """
    _, a = np.unique(code, return_inverse=True)
    _, b = np.unique(factor, return_inverse=True)
    joint = np.zeros((a.max() + 1, b.max() + 1))
    np.add.at(joint, (a, b), 1 / len(a))
    independent = joint.sum(axis=1, keepdims=True) * joint.sum(axis=0, keepdims=True)
    return float((xlogy(joint, joint) - xlogy(joint, independent)).sum() / np.log(2))


def information_table(H: NDArray, factors: NDArray) -> Array:
    """Mutual information of every unit with every factor, (n_units, n_factors), in bits.

    Real-valued units are cut at their quartiles.
    """
    columns = [_levels(unit) for unit in np.asarray(H).T]
    return np.array([[mutual_information(c, f) for f in factors.T] for c in columns])


def _levels(unit: NDArray) -> NDArray:
    if len(np.unique(unit)) <= N_LEVELS:
        return unit
    return np.digitize(unit, np.quantile(unit, np.arange(1, N_LEVELS) / N_LEVELS))


def disentanglement(H: NDArray, factors: NDArray) -> tuple[float, float]:
    """Agreement of single units with single factors.

    Parameters
    ----------
    H : ndarray of shape (n_rows, n_units)
    factors : ndarray of shape (n_rows, n_factors)

    Returns
    -------
    best_unit : float
        Mean over factors of the information that the best unit has about it, as a share of its
        entropy.
    selective : float
        Mean over units, weighted by their information, of the share of a unit's information that
        belongs to its best factor.
    """
    table = information_table(H, factors)
    entropy = np.array([mutual_information(f, f) for f in factors.T])
    known = entropy > 0
    best_unit = float((table[:, known].max(axis=0) / entropy[known]).mean())
    total = table.sum()
    return best_unit, float(table.max(axis=1).sum() / total) if total > 0 else 0.0


def bars_separated(templates: ArrayLike, *, gap: float = 0.3) -> NDArray[np.bool_]:
    """Which bars have a template that is higher on all their pixels than on any other.

    For models in which no unit owns a pixel; more generous than
    :func:`dynpart.datasets.bars_recovered`, as any threshold will do.

    Parameters
    ----------
    templates : array-like of shape (n_units, size * size)
    gap : float, default=0.3
        By how much, relative to the template's range.

    Returns
    -------
    found : ndarray of shape (2 * size,)
    """
    T = np.asarray(templates, dtype=np.float64)
    bars = bar_templates(round(T.shape[1] ** 0.5))
    lowest_on = np.where(bars, T[:, None], np.inf).min(axis=2)
    highest_off = np.where(bars, -np.inf, T[:, None]).max(axis=2)
    spread = np.ptp(T, axis=1)[:, None]
    return (lowest_on - highest_off > gap * np.maximum(spread, 1e-12)).any(axis=0)


def template_stability(runs: list[Array]) -> float:
    """Mean correlation of matched templates over all pairs of runs.

    Parameters
    ----------
    runs : list of ndarray of shape (n_units, n_features)
        Templates learnt with different seeds.

    Returns
    -------
    float
        1 if all runs found the same templates in some order; NaN for a single run.
    """
    unit = [_standardised(T) for T in runs]
    matches = []
    for A, B in combinations(unit, 2):
        similarity = A @ B.T
        matches.append(similarity[linear_sum_assignment(-similarity)].mean())
    return float(np.mean(matches)) if matches else float("nan")


def _standardised(T: Array) -> Array:
    centred = T - T.mean(axis=1, keepdims=True)
    return centred / np.maximum(np.linalg.norm(centred, axis=1, keepdims=True), 1e-12)
