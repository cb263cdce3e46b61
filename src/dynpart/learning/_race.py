"""The race: several searches with different floors on active experts, of which one goes on.

How many parts a row has decides which floor is right, and no rule knows it beforehand; but the
right one is recognised afterwards, by the penalised conditional likelihood.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from dynpart.engines import PursuitRule
from dynpart.families import Family
from dynpart.learning._learner import IterationRecord, Journal, LearnerState, Task, run
from dynpart.learning._objective import penalised_objective
from dynpart.learning._plans import Plan, Problem, Step

LAPS = 4
"""Searches with each floor: even the right one fails now and then, so none is given up early."""


@dataclass(frozen=True)
class Contender:
    """One search of the race.

    Attributes
    ----------
    floor : int
    score : float
        Penalised conditional log-likelihood per row on the rows all contenders are compared on.
    mean_active : float
    """

    floor: int
    score: float
    mean_active: float


@dataclass(frozen=True)
class Adaptation:
    """What was adapted to the data, and why.

    Attributes
    ----------
    floor : int
        Number of active experts forced during the search.
    n_rows : int
        Rows on which contenders were compared; 0 where there was no race.
    contenders : tuple of Contender
    """

    floor: int
    n_rows: int = 0
    contenders: tuple[Contender, ...] = ()

    def __str__(self) -> str:
        if not self.contenders:
            return f"floor of {self.floor} active experts, by rule: the race has one runner"
        best: dict[int, float] = {}
        for contender in self.contenders:
            best[contender.floor] = max(contender.score, best.get(contender.floor, -np.inf))
        scores = ", ".join(f"{floor}: {score:.3f}" for floor, score in best.items())
        return (
            f"floor of {self.floor} active experts won the race by penalised log-likelihood on "
            f"{self.n_rows} rows (the best of {len(self.contenders) // len(best)} searches each: "
            f"{scores})"
        )


def sample_of_rows(task: Task, n_rows: int, rng: np.random.Generator) -> Any:
    """So many rows drawn at random, in the engine's hands; all of them if there are no more."""
    if n_rows >= task.moments.n_rows:
        return task.rows
    drawn = rng.choice(task.moments.n_rows, n_rows, replace=False)
    return task.engine.take(task.rows, np.sort(drawn))


def race(
    task: Task,
    plan: Plan,
    family: Family,
    problem: Problem,
    rows: Any,
    n_rows: int,
    *,
    seed: int,
    journal: Journal | None,
    report: Callable[[IterationRecord], None] | None,
) -> tuple[LearnerState, list[Step], Adaptation]:
    """Search several times with every floor that the plan proposes, and keep one search.

    Parameters
    ----------
    task : Task
    plan : Plan
    family : Family
    problem : Problem
    rows : object
        `n_rows` rows in the engine's hands, on which contenders are compared.
    n_rows, seed : int
    journal : Journal or None
    report : callable or None
        Told of the winner's iterations.

    Returns
    -------
    state : LearnerState
        Where the winner stands: at the end of its search.
    steps : list of Step
        All steps of the winner, those behind it included.
    adaptation : Adaptation
    """
    rng = np.random.default_rng(seed)
    floors = plan.contenders(problem)
    rule = PursuitRule(problem.min_active, problem.max_active, np.zeros(problem.n_experts))
    population = family.population(task.moments)
    contenders: list[Contender] = []
    best: LearnerState | None = None
    alone = len(floors) == 1
    for floor in floors if alone else floors * LAPS:
        start = LearnerState(plan.start(family, task.moments, problem.n_experts, rng))
        lap_seed = int(rng.integers(2**32))
        steps = plan.steps(problem, floor)
        searches = [step for step in steps if step.search]
        state = run(
            task,
            plan,
            start,
            searches,
            seed=lap_seed,
            journal=journal,
            report=report if alone else None,
        )
        if alone:
            return state, steps, Adaptation(floor)
        summary = task.engine.pursue(rows, state.experts, rule).summary(problem.n_experts)
        score = float(penalised_objective(summary, state.experts, population, plan.epsilon, n_rows))
        mean_active = float(summary.usage.sum() / summary.n_rows)
        if best is None or score > max(contender.score for contender in contenders):
            best = state
        contenders.append(Contender(floor, score, mean_active))
    assert best is not None
    if report is not None:
        for record in best.records():
            report(record)
    winner = max(contenders, key=lambda contender: contender.score)
    return (
        best,
        plan.steps(problem, winner.floor),
        Adaptation(winner.floor, n_rows, tuple(contenders)),
    )
