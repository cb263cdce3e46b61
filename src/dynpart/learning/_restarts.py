"""Restarts: several runs of the learner, of which the best explanation is kept."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from dynpart.engines import Codes, Experts, PursuitRule
from dynpart.families import Family
from dynpart.learning._learner import (
    IterationRecord,
    Journal,
    Task,
    break_ties,
    run,
)
from dynpart.learning._objective import penalised_objective
from dynpart.learning._plans import Plan, Problem
from dynpart.learning._race import Adaptation, race, sample_of_rows
from dynpart.learning._renewal import renew

COUNTED_ROWS = 10_000
"""Rows that tell how often experts are active: one in a hundred is then known within a tenth."""


@dataclass(frozen=True, eq=False)
class Fit:
    """A finished run of the learner.

    Attributes
    ----------
    experts : Experts
    rows : object
        Rows in the engine's hands: all of them, or as many as tell how often experts are active.
    codes : Codes
        Of these rows, as they will be encoded.
    history : tuple of IterationRecord
    adaptation : Adaptation
    score : float
        Penalised conditional log-likelihood per row, by which restarts are compared.
    """

    experts: Experts
    rows: Any
    codes: Codes
    history: tuple[IterationRecord, ...]
    adaptation: Adaptation
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
    journal: Journal | None = None,
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
    journal : Journal, optional
        Remembers where each run stands.

    Returns
    -------
    Fit
    """
    moments = task.moments
    problem = Problem(
        moments.n_rows, len(moments.mean), n_experts, n_iter, task.min_active, task.max_active
    )
    fits = (
        _single_fit(task, plan, family, problem, int(restart_seed), rule, report, journal)
        for restart_seed in np.random.SeedSequence(seed).generate_state(n_init)
    )
    return max(fits, key=lambda fit: fit.score)


def _single_fit(
    task: Task,
    plan: Plan,
    family: Family,
    problem: Problem,
    seed: int,
    rule: PursuitRule,
    report: Callable[[IterationRecord], None] | None,
    journal: Journal | None,
) -> Fit:
    # Enough to compare models of this size.
    n_rows = min(problem.n_rows, max(1000, 20 * problem.n_experts))
    rows = sample_of_rows(task, n_rows, np.random.default_rng(seed))
    state, steps, adaptation = race(
        task, plan, family, problem, rows, n_rows, seed=seed, journal=journal, report=report
    )
    if 0 < len(state.history) < len(steps):
        state = renew(task, plan, state, steps[len(state.history)], rows, n_rows, seed)
    state = run(task, plan, state, steps, seed=seed, journal=journal, report=report)
    experts = break_ties(state.experts)
    coded = sample_of_rows(task, COUNTED_ROWS, np.random.default_rng(seed))
    codes = task.engine.pursue(coded, experts, rule)
    score = penalised_objective(
        codes.summary(problem.n_experts),
        experts,
        family.population(task.moments),
        plan.epsilon,
        problem.n_rows,
    )
    return Fit(experts, coded, codes, state.records(), adaptation, float(score))
