"""Widths: variances of normal opinions, chosen on left-out rows.

Columns that share a scale are learnt and encoded with one variance: squared errors determine the
active experts, and reconstructions are sharp. As a density, this variance is much too wide for
columns that hardly vary. So at the end variances are estimated for given means and codes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dynpart.arrays import is_observed, row_blocks, to_numpy
from dynpart.composition import owners
from dynpart.encoding import Encoding
from dynpart.engines import Experts
from dynpart.learning import Task, leave_out
from dynpart.prior import CodePrior
from dynpart.pursuits import pursue
from dynpart.rows import Rows

Array = NDArray[np.float64]

FOLDS = 5
"""Number of parts in which rows are left out."""
FEWEST = 20
"""Minimum number of rows for a choice on left-out rows."""
SAMPLE = 250
"""Maximum number of left-out rows in total."""
MOST_VALUES = 5e7
"""Maximum number of values (rows x variables) for estimating variances."""
CHOICES: dict[str, tuple[float, ...]] = {
    "common": (1.0, 4.0, 16.0, 64.0, 1e6),
    "data": (0.01, 0.1, 1.0),
    "floor": (1e-4, 1e-3, 0.01, 0.1, 1.0),
    "factor": (1.0, 1.25, 1.6, 2.0, 3.0),
}
"""Candidate values of each field of :class:`Widths`."""


@dataclass(frozen=True)
class Widths:
    """Parameters of the estimate of variances from sums.

    Attributes
    ----------
    common : float
        Pseudo-rows of the variance within all experts of a column.
    data : float
        Pseudo-rows of the variance of the data.
    floor : float
        Smallest variance, relative to the variance for choosing codes.
    factor : float
        Factor for the larger variance of unseen rows.
    """

    common: float = 16.0
    data: float = 0.1
    floor: float = 0.01
    factor: float = 1.0

    def of(self, scatter: Scatter, shared: float) -> Array:
        """Variances, if `shared` is the variance for choosing codes."""
        own = (scatter.squares + self.common * scatter.common) / (scatter.free + self.common)
        variance = scatter.weight * own + self.data * scatter.data
        variance /= scatter.weight + self.data
        return self.factor * np.clip(variance, self.floor * shared, None, out=variance)


@dataclass(frozen=True)
class Scatter:
    """Sums of squared residuals of the experts' means; all arrays have the same shape.

    Attributes
    ----------
    weight : ndarray
        Number of rows in which an expert owned a variable.
    free : ndarray
        Degrees of freedom: one less, but not below zero.
    squares : ndarray
        Sums of squared errors, scaled to the degrees of freedom.
    common : ndarray
        Variance within all experts of the column.
    data : ndarray
        Variance of the column.
    """

    weight: Array
    free: Array
    squares: Array
    common: Array
    data: Array

    @classmethod
    def of(cls, sums: Array, mean: Array, data: Array) -> Scatter:
        """From sums over rows.

        Parameters
        ----------
        sums : ndarray of shape (3, n_experts, n_features)
            Number of rows in which an expert owned a variable, and sums of x and x^2 over them.
        mean : ndarray of shape (n_experts, n_features)
        data : ndarray of shape (n_features,)
            Variance of the data.
        """
        weight, free = sums[0], np.clip(sums[0] - 1, 0.0, None)
        square = _spread(sums, mean) / np.clip(weight, 1.0, None)
        squares = free * (square * weight / np.clip(free, 1.0, None))
        all_free = free.sum(axis=0)
        common = np.where(all_free > 0, squares.sum(axis=0) / np.clip(all_free, 1, None), data)
        wide = (np.broadcast_to(column, weight.shape) for column in (common, data))
        return cls(weight, free, squares, *wide)

    def at(self, places: NDArray[np.bool_]) -> Scatter:
        """The same for some experts and variables only, one-dimensional."""
        return Scatter(*(getattr(self, field.name)[places] for field in fields(self)))


def _spread(sums: Array, mean: Array) -> Array:
    """Sums of (x - mean)^2."""
    return np.clip(sums[2] - 2 * mean * sums[1] + mean * mean * sums[0], 0.0, None)


def separated(task: Task, experts: Experts) -> Experts:
    """The experts with one variance for choosing codes and other variances for scores.

    They are returned unchanged if columns do not share a scale, with amplitudes, if no column
    varies, and if there are too few rows to leave some out.
    """
    constant = not bool((task.moments.variance > 0).any())
    if constant or task.moments.n_rows < FEWEST or experts.amplitude is not None:
        return experts
    family = experts.family.separated()
    return experts if family is experts.family else replace(experts, family=family)


def with_widths(
    task: Task,
    epsilon: float,
    experts: Experts,
    rows: Any,
    n_rows: int,
    codes: Any,
    encoding: Encoding,
    prior: CodePrior,
    seed: int,
) -> Experts:
    """The same experts with estimated variances for scores.

    Means, expertise and the variance for choosing codes do not change. The fields of
    :class:`Widths` are chosen on left-out rows: these rows are subtracted from the sums, encoded
    with the remaining means, and their likelihood is the criterion.

    Parameters
    ----------
    task : Task
    epsilon : float
        Weight of the data's average in opinions (eq. 5).
    experts : Experts
        Those of :func:`separated`.
    rows : object
        `n_rows` rows held by the engine.
    n_rows : int
    codes : Codes
        Of these rows.
    encoding : Encoding
        How rows are encoded, under `prior`.
    prior : CodePrior
    seed : int

    Returns
    -------
    Experts
    """
    family: Any = experts.family
    shared = family.shared_variance
    if shared is None:
        return experts
    rule, rng = encoding.rule(experts.log2_expertise.shape, prior), np.random.default_rng(seed)
    weight = None if codes.weight is None else to_numpy(codes.weight)
    most = max(FEWEST, int(MOST_VALUES / task.n_features))
    [some] = leave_out(weight, n_rows, most, 1, rng)
    taken = some.taken(task.engine, rows)
    here = experts.like(np.empty(0))
    active = to_numpy(codes.active(experts.n_experts))[some.indices]
    values = taken.to_numpy()
    sums = _owned_sums(values, active, here)
    population = to_numpy(task.population)
    data = population[1] - population[0] ** 2
    mean, averages = here.eta[0], _averages(sums, population, epsilon)
    folds = []
    for fold in leave_out(some.amount, len(values), SAMPLE, FOLDS, rng):
        part_rows = fold.taken(task.engine, taken)
        left_out = part_rows.to_numpy()
        others = sums - _owned_sums(left_out, active[fold.indices], here)
        remaining = mean + _averages(others, population, epsilon) - averages
        square = here.eta[1] - mean**2 + remaining**2
        judges = replace(here, eta=np.stack([remaining, square])).like(experts.eta)
        found = pursue(task.engine, part_rows, encoding.encoders(judges), rule)
        own = _owned_sums(left_out, to_numpy(found.active(experts.n_experts)), here)
        there = own[0] > 0
        errors = _spread(own, remaining)[there]
        folds.append((Scatter.of(others, remaining, data).at(there), errors, own[0][there]))

    def worth(widths: Widths) -> float:
        total = 0.0
        for scatter, errors, n_owned in folds:
            v = widths.of(scatter, shared)
            total -= float((errors / v + n_owned * np.log(v)).sum())
        return total

    widths = _best(worth)
    eta = np.stack([mean, widths.of(Scatter.of(sums, mean, data), shared) + mean**2])
    described = family.separated(widths.floor)
    wide = replace(here, eta=eta).like(experts.eta)
    return replace(wide, family=described)


def _best(worth: Callable[[Widths], float]) -> Widths:
    """The best candidates, one field after the other."""
    best, most = Widths(), worth(Widths())
    for name in (*CHOICES, "common"):
        for value in CHOICES[name]:
            tried = replace(best, **{name: value})
            found = worth(tried) if tried != best else most
            if found > most:
                best, most = tried, found
    return best


def _averages(sums: Array, population: Array, epsilon: float) -> Array:
    """Means of the experts, with the data's mean as pseudo-rows (eq. 5)."""
    return (sums[1] + epsilon * population[0]) / (np.clip(sums[0], 0.0, None) + epsilon)


def _owned_sums(rows: Rows, active: NDArray[np.bool_], experts: Experts) -> Array:
    """Rows in which each expert owns each variable, and sums of T(x) over them."""
    n_experts, n_features = experts.log2_expertise.shape
    sums = np.zeros((3, n_experts * n_features))
    for block in row_blocks(len(rows), 4 * n_features):
        part = rows[block]
        T = experts.family.statistics(part.values)
        seen = is_observed(T[0])
        weight = np.ones(len(part)) if part.weight is None else part.weight
        owner = owners(experts.ranks, active[block])
        place = (owner * n_features + np.arange(n_features)).ravel()
        terms = seen, np.where(seen, T[0], 0.0), np.where(seen, T[1], 0.0)
        for s, term in enumerate(terms):
            weighted = (weight[:, None] * term).ravel()
            sums[s] += np.bincount(place, weighted, minlength=n_experts * n_features)
    return sums.reshape(3, n_experts, n_features)
