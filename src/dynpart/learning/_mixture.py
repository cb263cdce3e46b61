"""One expert a row: the mixture within reach of every model, learnt by EM and kept if it is better.

A mixture is a dynamic partition model whose rows have one active expert each. Where rows have no
parts it describes them in fewer bits than several experts a row do, so it is always tried.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dynpart.arrays import like, namespace, to_numpy
from dynpart.engines import Experts, MixtureSums, ResponsibilitySums
from dynpart.learning._batch import break_ties
from dynpart.learning._plans import Plan
from dynpart.learning._task import Task
from dynpart.prior import CodePrior

Array = NDArray[np.float64]

FIRST_ITERATIONS = 20
"""EM iterations on some rows, after which a mixture that is clearly worse is given up."""
MOST_ITERATIONS = 60
"""EM iterations on all rows."""
SETTLED = 1e-4
"""Nats a row that an iteration must gain to be followed by another."""


@dataclass(frozen=True, eq=False)
class Mixture:
    """Experts of which one explains a whole row.

    Attributes
    ----------
    experts : Experts
    log_weight : ndarray of shape (n_experts,)
        Log probabilities of the experts.
    sums : ResponsibilitySums
        Behind the opinions.
    usage : ndarray of shape (n_experts,)
        Rows of each expert.
    log_likelihood : float
        Mean log P(x) of the rows of the last iteration, in nats a row.
    shrinkage : float
        Of the opinions, beyond what always happens.
    """

    experts: Experts
    log_weight: Array
    sums: ResponsibilitySums
    usage: Array
    log_likelihood: float
    shrinkage: float = 0.0

    def prior(self) -> CodePrior:
        """The same as a prior over codes: a type of row for each expert, active alone.

        Other experts are active in such rows as rarely as half a row among all would have it.
        """
        n_experts, n_rows = len(self.log_weight), float(self.usage.sum())
        rare = 0.5 / (n_rows + 1)
        p = np.where(np.eye(n_experts, dtype=bool), 1 - rare, rare)
        row = np.log(np.stack([1 - p, p], axis=-1))
        table = np.repeat(row[:, :, None], 2, axis=2)
        return CodePrior(to_numpy(self.log_weight), np.full(p.shape, -1), table)


def learn_mixture(task: Task, plan: Plan, rows: Any, enough: float, seed: int) -> Mixture | None:
    """EM for a mixture of all experts: on some rows first, then on all.

    Parameters
    ----------
    task : Task
    plan : Plan
    rows : object
        Some rows in the engine's hands.
    enough : float
        Mean log-likelihood, in nats a row, that the mixture must have on these rows, to which it
        was fitted, to be worth going on.
    seed : int

    Returns
    -------
    Mixture or None
    """
    rng = np.random.default_rng((seed, 1))
    start = plan.start(task.family, task.moments, task.n_experts, rng)
    even = like(np.full(task.n_experts, -np.log(task.n_experts)), start.eta)
    first = _em(task, plan, rows, start, even, FIRST_ITERATIONS)
    if first.log_likelihood < enough:
        return None
    found = _em(task, plan, task.rows, first.experts, first.log_weight, MOST_ITERATIONS)
    family = found.experts.family.settled(found.sums.weight, found.sums.statistics)
    eta, amount = opinions(replace(found.experts, family=family), found.sums, task, plan)
    experts = Experts(family, eta, 0 * start.log2_expertise, log2_bound=0.0)
    return replace(found, experts=break_ties(experts), shrinkage=amount)


def opinions(
    experts: Experts,
    sums: ResponsibilitySums,
    task: Task,
    plan: Plan,
    amount: float | None = None,
    population: Array | None = None,
) -> tuple[Array, float]:
    """Averages of these sums, shrunk as those of a fit are, and the amount of shrinkage."""
    usual = task.population if population is None else population
    told = sums.weight, sums.statistics
    eta = experts.family.update(*told, usual, plan.epsilon)
    return experts.family.shrunk(eta, *told, *told, usual, plan.epsilon, amount)


def _em(
    task: Task, plan: Plan, rows: Any, experts: Experts, log_weight: Array, n_iter: int
) -> Mixture:
    """So many iterations, or fewer where nothing moves."""
    xp = namespace(experts.eta)
    before = -np.inf
    for _ in range(n_iter):
        found: MixtureSums = task.engine.mixture_sums(rows, experts, log_weight)
        n_rows = found.usage.sum()
        score = float(found.log_likelihood / n_rows)
        sums, family = found.sums, experts.family
        eta = family.update(sums.weight, sums.statistics, task.population, plan.epsilon)
        experts = replace(experts, eta=eta)
        log_weight = xp.log((found.usage + 0.5) / (n_rows + 0.5 * len(found.usage)))
        if score - before < SETTLED:
            break
        before = score
    return Mixture(experts, log_weight, sums, found.usage, score)
