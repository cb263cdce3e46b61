"""Trial searches with different minimum numbers of active experts, of which the best continues.

The right minimum depends on how many parts a row has. It is not known beforehand, but the
description length of some rows decides afterwards.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from dynpart.deprecated import renamed
from dynpart.learning._learner import RunLog, run
from dynpart.learning._objective import Description, shortest
from dynpart.learning._plans import Plan, Step, candidates
from dynpart.learning._records import IterationRecord, LearnerState
from dynpart.learning._task import Task
from dynpart.pursuits import pursue

REPEATS = 4
"""Searches with each minimum: even the right one sometimes fails, so all are completed."""


@renamed(floor="min_active")
@dataclass(frozen=True)
class Trial:
    """One trial search.

    Attributes
    ----------
    min_active : int
        Minimum number of active experts.
    score : float
        Minus the length of the description, in nats per row, of the rows that all trials are
        compared on.
    mean_active : float
        Mean number of active experts per row.
    """

    min_active: int
    score: float
    mean_active: float


@renamed(floor="min_active", contenders="trials")
@dataclass(frozen=True)
class Adaptation:
    """What was adapted to the data, and why.

    Attributes
    ----------
    min_active : int
        Minimum number of active experts during the search.
    n_rows : int
        Rows on which trials were compared; 0 if there was only one search.
    trials : tuple of Trial
        The trial searches with their scores.
    mixture : bool
        Whether one expert per row, a mixture, described left-out rows in fewer bits than the
        experts of the search, and took their place.
    """

    min_active: int
    n_rows: int = 0
    trials: tuple[Trial, ...] = ()
    mixture: bool = False

    def __str__(self) -> str:
        found = self._of_search()
        if not self.mixture:
            return found
        return f"one expert per row, which describes left-out rows in fewer bits than: {found}"

    def _of_search(self) -> str:
        if not self.trials:
            return f"at least {self.min_active} active experts in the search, without trials"
        best: dict[int, float] = {}
        for trial in self.trials:
            best[trial.min_active] = max(trial.score, best.get(trial.min_active, -np.inf))
        scores = ", ".join(f"{least}: {-score / np.log(2):.3f}" for least, score in best.items())
        return (
            f"at least {self.min_active} active experts in the search, chosen by description "
            f"length of {self.n_rows} rows (best of {len(self.trials) // len(best)} trial searches "
            f"each, in bits per row: {scores})"
        )


def run_trials(
    task: Task,
    plan: Plan,
    rows: Any,
    n_rows: int,
    *,
    seed: int,
    journal: RunLog | None,
    report: Callable[[IterationRecord], None] | None,
) -> tuple[LearnerState, list[Step], Adaptation]:
    """Search several times with every candidate of the plan, and keep one search.

    Parameters
    ----------
    task : Task
    plan : Plan
    rows : object
        `n_rows` rows held by the engine, on which trials are compared.
    n_rows, seed : int
    journal : RunLog or None
    report : callable or None
        Called with the records of the search that is kept.

    Returns
    -------
    state : LearnerState
        At the end of the search that is kept.
    steps : list of Step
        All steps of the plan that it belongs to, those of the search included.
    adaptation : Adaptation
    """
    rng = np.random.default_rng(seed)
    wanted = candidates(plan, task)
    trials: list[Trial] = []
    descriptions: list[Description] = []
    states: list[LearnerState] = []
    alone = len(wanted) == 1
    for least in wanted if alone else wanted * REPEATS:
        start = LearnerState(plan.start(task.family, task.moments, task.n_experts, rng))
        trial_seed = int(rng.integers(2**32))
        steps = plan.steps(task, least)
        searches = [step for step in steps if step.search]
        state = run(
            task,
            plan,
            start,
            searches,
            seed=trial_seed,
            journal=journal,
            report=report if alone else None,
        )
        if alone:
            return state, steps, Adaptation(least)
        codes = pursue(task.engine, rows, state.experts, task.rule())
        found = Description.of(codes, state.experts, task, plan.epsilon, n_rows)
        summary = codes.summary(task.n_experts)
        mean_active = float(summary.usage.sum() / summary.n_rows)
        trials.append(Trial(least, found.joint, mean_active))
        descriptions.append(found)
        states.append(state)
    place = shortest(descriptions)
    best, least = states[place], trials[place].min_active
    if report is not None:
        for record in best.records():
            report(record)
    return best, plan.steps(task, least), Adaptation(least, n_rows, tuple(trials))
