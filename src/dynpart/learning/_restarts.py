"""Restarts: several runs of the learner, of which the best explanation is kept."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from dynpart.engines import Codes, Experts, PursuitRule
from dynpart.families import Family
from dynpart.learning._learner import (
    IterationRecord,
    LearnerState,
    Task,
    break_ties,
    iterate,
)
from dynpart.learning._objective import penalised_objective
from dynpart.learning._plans import Plan


@dataclass(frozen=True, eq=False)
class Fit:
    """A finished run of the learner.

    Attributes
    ----------
    experts : Experts
    codes : Codes
        Of all rows, as they will be encoded.
    history : tuple of IterationRecord
    score : float
        Penalised conditional log-likelihood per row, by which restarts are compared.
    """

    experts: Experts
    codes: Codes
    history: tuple[IterationRecord, ...]
    score: float


def fit_experts(
    task: Task,
    plan: Plan,
    family: Family,
    *,
    n_experts: int,
    n_iter: int,
    n_init: int,
    seed: int,
    rule: PursuitRule,
    report: Callable[[IterationRecord], None] | None = None,
) -> Fit:
    """Learn `n_init` times from different starts and keep the best by penalised likelihood.

    Parameters
    ----------
    task : Task
    plan : Plan
    family : Family
    n_experts, n_iter, n_init, seed : int
    rule : PursuitRule
        How rows will be encoded; restarts are compared on such codes.
    report : callable, optional
        Called with the record of each finished iteration.

    Returns
    -------
    Fit
    """
    fits = (
        _single_fit(task, plan, family, n_experts, n_iter, restart_seed, rule, report)
        for restart_seed in np.random.SeedSequence(seed).generate_state(n_init)
    )
    return max(fits, key=lambda fit: fit.score)


def _single_fit(
    task: Task,
    plan: Plan,
    family: Family,
    n_experts: int,
    n_iter: int,
    seed: int,
    rule: PursuitRule,
    report: Callable[[IterationRecord], None] | None,
) -> Fit:
    rng = np.random.default_rng(seed)
    start = LearnerState(plan.start(family, task.moments, n_experts, rng))
    for state in iterate(task, plan, start, n_iter=n_iter, seed=seed):
        if report is not None:
            report(state.history[-1])
    experts = break_ties(state.experts)
    codes = task.engine.pursue(task.rows, experts, rule)
    score = penalised_objective(
        codes.summary(n_experts),
        experts,
        family.population(task.moments),
        plan.epsilon,
        task.moments.n_rows,
    )
    return Fit(experts, codes, state.history, score)
