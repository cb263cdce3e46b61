"""Re-initialisation: idle experts become perturbed copies of experts with a bad fit."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dynpart.arrays import copied, like, to_numpy
from dynpart.engines import Experts
from dynpart.learning._learner import iterate
from dynpart.learning._objective import penalised_objective
from dynpart.learning._plans import Plan, Step
from dynpart.learning._records import LearnerState
from dynpart.learning._task import Task
from dynpart.pursuits import pursue

Array = NDArray[np.float64]

IDLE = 0.1
"""An expert is idle if it is used less than this share of the average expert."""
COMPARED_AFTER = 3
"""Iterations after which old and re-initialised experts are compared."""


def idle_experts(usage: NDArray[np.int64]) -> NDArray[np.intp]:
    """Experts that are hardly ever active."""
    return np.flatnonzero(usage < IDLE * usage.mean())


def reinitialise(
    task: Task, plan: Plan, state: LearnerState, step: Step, rows: Any, n_rows: int, seed: int
) -> LearnerState:
    """Replace idle experts by copies of badly fitting ones; keep the change if it helps.

    Each idle expert becomes a disturbed copy of one of the experts under which the rows are least
    likely, so that the two can divide its work. Old and new experts then learn from the same rows
    for a few iterations, and the penalised likelihood decides.

    Parameters
    ----------
    task : Task
    plan : Plan
    state : LearnerState
    step : Step
        Settings of these iterations, except for the rows.
    rows : object
        `n_rows` rows held by the engine, to learn from and to compare on.
    n_rows, seed : int

    Returns
    -------
    LearnerState
        With the same history in either case.
    """
    experts = state.experts
    n_experts = experts.n_experts
    rule = task.rule()
    codes = pursue(task.engine, rows, experts, rule)
    idle = idle_experts(to_numpy(codes.summary(n_experts).usage))
    if len(idle) == 0 or len(idle) == n_experts:
        return state
    sums = task.engine.responsibility_sums(rows, experts, codes)
    theta, log_partition = experts.natural
    surprise = sums.weight * log_partition - (sums.statistics * theta).sum(axis=0)
    burden = to_numpy(surprise.sum(axis=1)).copy()
    burden[idle] = -np.inf
    model = (-burden).argsort()[: len(idle)]
    rng = np.random.default_rng(seed)
    reinitialised = _copied(experts, idle[: len(model)], model, rng)

    on_rows = replace(task, rows=rows, joint=False)
    steps = [replace(step, n_rows=None, n_batches=1, shrink=False)] * COMPARED_AFTER

    def learnt(start: Experts) -> tuple[float, Experts]:
        *_, end = iterate(on_rows, plan, LearnerState(start), steps, seed=seed)
        summary = pursue(task.engine, rows, end.experts, rule).summary(n_experts)
        score = penalised_objective(summary, end.experts, task.population, plan.epsilon, n_rows)
        return float(score), end.experts

    (old_score, _), (new_score, new_experts) = learnt(experts), learnt(reinitialised)
    return replace(state, experts=new_experts) if new_score > old_score else state


def _copied(
    experts: Experts, idle: NDArray[np.intp], model: NDArray[np.intp], rng: np.random.Generator
) -> Experts:
    family, eta = experts.family, copied(experts.eta)
    log2_expertise = copied(experts.log2_expertise)
    shape = (len(idle), eta.shape[2])

    def noise(*lead: int) -> Array:
        return like(rng.uniform(-0.5, 0.5, (*lead, *shape)), eta)

    eta[:, idle] = family.disturbed(eta[:, model], noise(family.n_noise))
    log2_expertise[idle] = log2_expertise[model] + noise()
    return Experts(family, eta, log2_expertise)
