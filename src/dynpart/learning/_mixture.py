"""One expert per row: a mixture, learnt by EM and kept if it describes rows better.

A mixture is a dynamic partition model with one active expert per row. If rows have no parts it
needs fewer bits than several experts per row, so it is always tried.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dynpart.arrays import like, namespace, to_numpy
from dynpart.engines import (
    Engine,
    Experts,
    MixtureSums,
    ResponsibilitySums,
    mixture_densities,
)
from dynpart.learning._batch import break_ties
from dynpart.learning._epsilon import likeliest_epsilon
from dynpart.learning._plans import Plan
from dynpart.learning._task import Task
from dynpart.prior import CodePrior

Array = NDArray[np.float64]

FIRST_ITERATIONS = 20
"""EM iterations on some rows, after which a mixture that is clearly worse is given up."""
FURTHER_ITERATIONS = (10, 10, 20, 40)
"""EM iterations on all rows, before and between choices of the weight of the data's average, and
after the last."""
SETTLED = 1e-4
"""Minimum gain of an iteration, in nats per row, to be followed by another."""
SHARPNESS = 1.3
"""Power of the posterior probabilities in the last iterations."""
SHARP_ITERATIONS = 20


@dataclass(frozen=True, eq=False)
class Mixture:
    """Experts of which exactly one explains each row.

    Attributes
    ----------
    experts : Experts
    log_weight : ndarray of shape (n_experts,)
        Log probabilities of the experts.
    n_rows : float
        Number of rows it was fitted to.
    log_likelihood, log_joint : float
        Means of log P(x) and, for the likeliest expert, of log P(x, expert) in the last iteration.
    """

    experts: Experts
    log_weight: Array
    n_rows: float
    log_likelihood: float
    log_joint: float

    def total_log_density(self, engine: Engine, rows: Any) -> float:
        """The sum of log P(x) over rows held by the engine."""
        return float(engine.mixture_sums(rows, self.experts, self.log_weight).log_likelihood)

    def log_densities(self, rows: Any) -> Array:
        """Log P(x) of each row, shape (n_rows,); rows are in memory."""
        return to_numpy(mixture_densities(rows, self.experts, self.log_weight))

    def prior(self) -> CodePrior:
        """The mixture as a prior over codes: a type of row for each expert, active alone.

        The probability of other experts in such rows is that of half a row among all.
        """
        n_experts, rare = len(self.log_weight), 0.5 / (self.n_rows + 1)
        p = np.where(np.eye(n_experts, dtype=bool), 1 - rare, rare)
        return CodePrior.mixture(to_numpy(self.log_weight), p)


def learn_mixture(task: Task, plan: Plan, rows: Any, enough: float, seed: int) -> Mixture | None:
    """EM for a mixture of all experts: on some rows first, then on all.

    Parameters
    ----------
    task : Task
    plan : Plan
    rows : object
        Some rows held by the engine.
    enough : float
        Mean log-likelihood, in nats per row, that the mixture must have on these rows, to which it
        was fitted, to be worth continuing.
    seed : int

    Returns
    -------
    Mixture or None
    """
    start, usual = _start(task, plan, seed), task.population
    first, _ = _em(task, rows, start, usual, plan.epsilon, FIRST_ITERATIONS)
    if first.log_likelihood < enough:
        return None
    return _learnt(task, plan, first, usual)


def allows_mixture(task: Task, plan: Plan) -> bool:
    """Whether the settings allow one expert per row, and there are enough rows for it."""
    allowed = task.min_active == 1 and getattr(plan, "min_active", None) is None
    special = task.newton or task.amplitude is not None or task.neighbours is not None
    return allowed and not special and 2 <= task.n_experts <= task.n_rows / 2


def fit_mixture(task: Task, plan: Plan, seed: int) -> Mixture:
    """The mixture of all rows."""
    return _learnt(task, plan, _start(task, plan, seed), task.population)


def mixture_without(task: Task, plan: Plan, left_out: Any, seed: int) -> Mixture:
    """The mixture learnt again without some rows, which are held by the engine."""
    start = _start(task, plan, seed)
    own = task.engine.mixture_sums(left_out, start.experts, start.log_weight).sums
    usual, _ = task.moments_without(own.statistics.sum(axis=1), own.weight.sum(axis=0))
    return _learnt(task, plan, start, usual, left_out)


def _start(task: Task, plan: Plan, seed: int) -> Mixture:
    """Random experts with equal probabilities."""
    rng = np.random.default_rng((seed, 1))
    experts = plan.start(task.family, task.moments, task.n_experts, rng)
    even = like(np.full(task.n_experts, -np.log(task.n_experts)), experts.eta)
    return Mixture(experts, even, 0.0, -np.inf, -np.inf)


def _learnt(
    task: Task, plan: Plan, start: Mixture, population: Array, left_out: Any = None
) -> Mixture:
    """EM on all rows except those left out, with sharper posteriors if codes cost too much.

    The weight of the data's average in opinions begins as the plan's: components that are still
    alike would seem to differ by chance alone, and a weight chosen then would keep them alike.

    If components overlap, none of them is probable given the row, and its code may even cost more
    than independent columns. Sharper posteriors remove the overlap.
    """
    family = start.experts.family
    epsilon: float | Array = plan.epsilon
    found, sums = _em(task, task.rows, start, population, epsilon, FURTHER_ITERATIONS[0], left_out)
    for n_iter in FURTHER_ITERATIONS[1:]:
        epsilon = likeliest_epsilon(family, sums, population, plan.epsilon)
        found, sums = _em(task, task.rows, found, population, epsilon, n_iter, left_out)
    if found.log_joint < _by_columns(task, start.experts):
        found, sums = _em(
            task, task.rows, found, population, epsilon, SHARP_ITERATIONS, left_out, SHARPNESS
        )
    return _settled(found, sums, population, epsilon)


def _by_columns(task: Task, experts: Experts) -> float:
    """Mean log-likelihood of rows under independent columns."""
    usual = experts.family.constrain(task.population[:, None])
    alone = replace(experts, eta=usual, log2_expertise=0 * experts.log2_expertise[:1])
    sums = task.engine.mixture_sums(task.rows, alone, like(np.zeros(1), usual))
    return float(sums.log_likelihood / sums.usage.sum())


def _em(
    task: Task,
    rows: Any,
    start: Mixture,
    population: Array,
    epsilon: float | Array,
    n_iter: int,
    left_out: Any = None,
    sharpness: float = 1.0,
) -> tuple[Mixture, ResponsibilitySums]:
    """At most `n_iter` iterations, or fewer if nothing changes; left-out rows are among `rows`.

    `epsilon` is the weight of the data's average in opinions, one for all or one per variable.
    """
    engine, experts, log_weight = task.engine, start.experts, start.log_weight
    xp, before = namespace(experts.eta), -np.inf
    for _ in range(n_iter):
        found: MixtureSums = engine.mixture_sums(rows, experts, log_weight, sharpness)
        if left_out is not None:
            found = found.without(engine.mixture_sums(left_out, experts, log_weight, sharpness))
        n_rows, sums = found.usage.sum(), found.sums
        score, joint = float(found.log_likelihood / n_rows), float(found.log_joint / n_rows)
        eta = experts.family.update(sums.weight, sums.statistics, population, epsilon)
        experts = replace(experts, eta=eta)
        log_weight = xp.log((found.usage + 0.5) / (n_rows + 0.5 * len(found.usage)))
        gained = score if sharpness == 1 else joint
        if gained - before < SETTLED:
            break
        before = gained
    return Mixture(experts, log_weight, float(n_rows), score, joint), sums


def _settled(
    found: Mixture, sums: ResponsibilitySums, population: Array, epsilon: float | Array
) -> Mixture:
    """The mixture with opinions shrunk as in a fit, with equal expertise."""
    told = sums.weight, sums.statistics
    family = found.experts.family.settled(*told)
    eta = family.update(*told, population, epsilon)
    eta, _ = family.shrunk(eta, *told, *told, population, epsilon)
    experts = Experts(family, eta, 0 * found.experts.log2_expertise, log2_bound=0.0)
    return replace(found, experts=break_ties(experts))
