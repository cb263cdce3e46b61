"""Widths: variances of normal opinions, chosen on left-out rows.

Columns that share a scale are learnt and encoded with one variance: squared errors determine the
active experts, and reconstructions are sharp. As a density, this variance is much too wide for
columns that hardly vary. So at the end variances are estimated for given means and codes.

Columns with their own scale have experts of any width. If values repeat exactly, as ratings do,
experts with one value are as narrow as allowed. Unseen rows may have other values, or the same
values in combinations that no code explains. So densities have heavy tails at the end.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dynpart.arrays import (
    as_float64,
    block_values,
    is_observed,
    is_tensor,
    like,
    namespace,
    row_blocks,
    to_numpy,
)
from dynpart.composition import owners
from dynpart.encoding import Encoding
from dynpart.engines import Experts
from dynpart.learning import Fit, LeftOut, Task, leave_out
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
        return self.factor * namespace(variance).clip(variance, self.floor * shared, None)


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
        xp, weight = namespace(sums), sums[0]
        free = xp.clip(weight - 1, 0.0, None)
        square = _spread(sums, mean) / xp.clip(weight, 1.0, None)
        squares = free * (square * weight / xp.clip(free, 1.0, None))
        all_free = free.sum(axis=0)
        common = xp.where(all_free > 0, squares.sum(axis=0) / xp.clip(all_free, 1, None), data)
        wide = (xp.broadcast_to(column, weight.shape) for column in (common, data))
        return cls(weight, free, squares, *wide)

    def at(self, places: NDArray[np.bool_]) -> Scatter:
        """The same for some experts and variables only, one-dimensional."""
        return Scatter(*(getattr(self, field.name)[places] for field in fields(self)))


def _spread(sums: Array, mean: Array) -> Array:
    """Sums of (x - mean)^2."""
    squares = sums[2] - 2 * mean * sums[1] + mean * mean * sums[0]
    return namespace(sums).clip(squares, 0.0, None)


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
    encoding: Encoding,
    fit: Fit,
    codes: Any,
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
    encoding : Encoding
        How rows are encoded, under `prior`.
    fit : Fit
        With the experts of :func:`separated`.
    codes : Codes
        Of ``fit.rows``.
    prior : CodePrior
    seed : int

    Returns
    -------
    Experts
    """
    experts = fit.experts
    family: Any = experts.family
    shared = family.shared_variance
    if shared is None:
        return experts
    rule, rng = encoding.rule(experts.log2_expertise.shape, prior), np.random.default_rng(seed)
    some, taken = _some_rows(task, fit, codes, rng)
    here = experts.like(taken.values if is_tensor(taken.values) else np.empty(0))
    xp, active = namespace(here.eta), like(codes.active(experts.n_experts), here.eta)
    active = active[like(some.indices, here.eta)]
    sums = _owned_sums(taken, active, here)
    population = like(task.population, here.eta)
    data = population[1] - population[0] ** 2
    mean, averages = here.eta[0], _averages(sums, population, epsilon)
    folds = []
    for fold in leave_out(some.amount, len(taken), SAMPLE, FOLDS, rng):
        part_rows = fold.taken(task.engine, taken)
        left_out, its = _where_they_are(part_rows), like(fold.indices, here.eta)
        others = sums - _owned_sums(left_out, active[its], here)
        remaining = mean + _averages(others, population, epsilon) - averages
        square = here.eta[1] - mean**2 + remaining**2
        judges = replace(here, eta=xp.stack([remaining, square])).like(experts.eta)
        found = pursue(task.engine, part_rows, encoding.encoders(judges), rule)
        chosen = like(found.active(experts.n_experts), here.eta)
        own = _owned_sums(left_out, chosen, here)
        there = own[0] > 0
        errors = _spread(own, remaining)[there]
        folds.append((Scatter.of(others, remaining, data).at(there), errors, own[0][there]))

    def worth(widths: Widths) -> float:
        total = 0.0
        for scatter, errors, n_owned in folds:
            v = widths.of(scatter, shared)
            total -= float((errors / v + n_owned * xp.log(v)).sum())
        return total

    widths = _best(worth)
    eta = xp.stack([mean, widths.of(Scatter.of(sums, mean, data), shared) + mean**2])
    described = family.separated(widths.floor)
    wide = replace(here, eta=eta).like(experts.eta)
    return replace(wide, family=described)


def with_tails(
    task: Task, encoding: Encoding, rows: Any, experts: Experts, codes: Any, prior: CodePrior
) -> tuple[Experts, Any, CodePrior]:
    """The experts with heavy tails in columns with their own scale, after all other steps.

    Codes and prior change only if their likelihoods are used later.

    Parameters
    ----------
    task : Task
    encoding : Encoding
        How rows are encoded, under `prior`.
    rows : object
        Rows held by the engine.
    experts : Experts
    codes : Codes
        Of these rows.
    prior : CodePrior

    Returns
    -------
    experts : Experts
    codes : Codes
    prior : CodePrior
    """
    found = experts.heavy_tailed(task.moments)
    if found is not experts and not encoding.is_joint:
        codes, prior = encoding.counted(task.engine, rows, found)
    return found, codes, prior


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
    weight = namespace(sums).clip(sums[0], 0.0, None)
    return (sums[1] + epsilon * population[0]) / (weight + epsilon)


def _some_rows(task: Task, fit: Fit, codes: Any, rng: np.random.Generator) -> tuple[LeftOut, Rows]:
    """Rows of a fit on which variances are estimated: all, or some if they have many values."""
    weight = None if codes.weight is None else to_numpy(codes.weight)
    most = max(FEWEST, int(MOST_VALUES / task.n_features))
    [some] = leave_out(weight, fit.n_rows, most, 1, rng)
    return some, _where_they_are(some.taken(task.engine, fit.rows))


def _where_they_are(rows: Any) -> Rows:
    """Rows held by an engine as arrays in memory: that of a GPU, or the processor's."""
    return rows if is_tensor(rows.values) else rows.to_numpy()


def _owned_sums(rows: Rows, active: NDArray[np.bool_], experts: Experts) -> Array:
    """Rows in which each expert owns each variable, and sums of T(x) over them."""
    n_experts, n_features = experts.log2_expertise.shape
    xp = namespace(experts.eta)
    on_tensors = is_tensor(experts.eta)
    sums = xp.stack([0 * experts.log2_expertise] * (1 + experts.family.n_statistics))
    everyone = like(np.arange(n_experts), experts.eta)[:, None]
    row_size = n_features * (n_experts if on_tensors else 4)
    for block in row_blocks(len(rows), row_size, values=block_values(experts.eta)):
        part = rows[block]
        T = experts.family.statistics(part.values)
        seen = is_observed(T[0])
        owner = owners(experts.ranks, active[block])
        terms = [as_float64(seen), *xp.where(seen, T, 0.0)]
        if part.weight is not None:
            terms = [part.weight[:, None] * term for term in terms]
        if on_tensors:  # in an order that is fixed, on a GPU too
            owned = owner[:, None] == everyone
            sums += xp.stack([xp.where(owned, term[:, None], 0.0).sum(axis=0) for term in terms])
            continue
        place = (owner * n_features + np.arange(n_features)).ravel()
        for s, term in enumerate(terms):
            summed = np.bincount(place, term.ravel(), minlength=n_experts * n_features)
            sums[s] += summed.reshape(n_experts, n_features)
    return sums
