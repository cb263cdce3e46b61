"""The race: several searches with different floors on active experts, of which one goes on.

How many parts a row has decides which floor is right, and no rule knows it beforehand; but the
right one is recognised afterwards, by how shortly it describes rows.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from dynpart.learning._learner import Journal, run
from dynpart.learning._objective import Description, shortest
from dynpart.learning._plans import Plan, Step
from dynpart.learning._records import IterationRecord, LearnerState
from dynpart.learning._task import Task
from dynpart.pursuits import pursue

LAPS = 4
"""Searches with each floor: even the right one fails now and then, so none is given up early."""


@dataclass(frozen=True)
class Contender:
    """One search of the race.

    Attributes
    ----------
    floor : int
    score : float
        Minus the length of the description, in nats per row, of the rows all contenders are
        compared on.
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
            f"floor of {self.floor} active experts won the race by description length on "
            f"{self.n_rows} rows (the best of {len(self.contenders) // len(best)} searches each: "
            f"{scores})"
        )


def race(
    task: Task,
    plan: Plan,
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
    floors = plan.contenders(task)
    contenders: list[Contender] = []
    descriptions: list[Description] = []
    states: list[LearnerState] = []
    alone = len(floors) == 1
    for floor in floors if alone else floors * LAPS:
        start = LearnerState(plan.start(task.family, task.moments, task.n_experts, rng))
        lap_seed = int(rng.integers(2**32))
        steps = plan.steps(task, floor)
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
        codes = pursue(task.engine, rows, state.experts, task.rule())
        found = Description.of(codes, state.experts, task.population, plan.epsilon, n_rows)
        summary = codes.summary(task.n_experts)
        mean_active = float(summary.usage.sum() / summary.n_rows)
        contenders.append(Contender(floor, found.joint, mean_active))
        descriptions.append(found)
        states.append(state)
    place = shortest(descriptions)
    best, winner = states[place], contenders[place]
    if report is not None:
        for record in best.records():
            report(record)
    return (
        best,
        plan.steps(task, winner.floor),
        Adaptation(winner.floor, n_rows, tuple(contenders)),
    )
