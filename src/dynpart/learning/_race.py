"""The race: several searches with different floors on active experts, of which one goes on.

How many parts a row has decides which floor is right, and no rule knows it beforehand; but the
right one is recognised afterwards, by the penalised conditional likelihood.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from dynpart.engines import PursuitRule
from dynpart.families import Family
from dynpart.learning._learner import IterationRecord, LearnerState, Task, iterate
from dynpart.learning._objective import penalised_objective
from dynpart.learning._plans import Plan, Problem, Step

Report = Callable[[IterationRecord], None]

REPEATS = 2
"""Further searches with each of the best floors."""
BEST = 3
"""How many floors are searched again."""


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
        scores = ", ".join(f"{c.floor}: {c.score:.3f}" for c in self.contenders)
        return (
            f"floor of {self.floor} active experts won the race by penalised log-likelihood on "
            f"{self.n_rows} rows ({scores})"
        )


def race(
    task: Task, plan: Plan, family: Family, problem: Problem, seed: int, report: Report | None
) -> tuple[LearnerState, list[Step], Adaptation]:
    """Search with every floor the plan proposes, with the best ones again, and keep one search.

    Returns
    -------
    state : LearnerState
        Where the winner stands: at the end of its search, or at the start if nobody raced.
    steps : list of Step
        All steps of the winner, those behind it included.
    adaptation : Adaptation
    """
    floors = plan.contenders(problem)
    rng = np.random.default_rng(seed)
    if len(floors) == 1:
        start = LearnerState(plan.start(family, task.moments, problem.n_experts, rng))
        return start, plan.steps(problem, floors[0]), Adaptation(floors[0])

    n_rows = min(problem.n_rows, max(1000, 20 * problem.n_experts))
    drawn = rng.permutation(problem.n_rows)[:n_rows]
    judged = task.engine.take(task.rows, np.sort(drawn))
    rule = PursuitRule(problem.min_active, problem.max_active, np.zeros(problem.n_experts))
    population = family.population(task.moments)
    best: tuple[float, LearnerState, list[Step]] | None = None
    contenders: list[Contender] = []
    for floor in _laps(floors, contenders):
        steps = plan.steps(problem, floor)
        n_search = sum(step.n_rows is not None for step in steps)
        start = LearnerState(plan.start(family, task.moments, problem.n_experts, rng))
        lap_seed = int(rng.integers(2**32))
        *_, state = iterate(task, plan, start, steps[:n_search], seed=lap_seed)
        summary = task.engine.pursue(judged, state.experts, rule).summary(problem.n_experts)
        score = penalised_objective(summary, state.experts, population, plan.epsilon, n_rows)
        contenders.append(Contender(floor, score, float(summary.usage.sum() / summary.n_rows)))
        if best is None or score > best[0]:
            best = (score, state, steps)
    assert best is not None
    if report is not None:
        for record in best[1].history:
            report(record)
    winner = max(contenders, key=lambda contender: contender.score)
    return best[1], best[2], Adaptation(winner.floor, n_rows, tuple(contenders))


def _laps(floors: list[int], contenders: list[Contender]) -> Iterator[int]:
    """Every floor once; then, by the scores so far, the best ones again."""
    yield from floors
    ranked = sorted(contenders, key=lambda contender: -contender.score)
    for contender in ranked[:BEST]:
        yield from [contender.floor] * REPEATS
