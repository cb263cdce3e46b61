"""The learner: gets sums from an engine, updates experts, logs the objective. It sees no row."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Any, Protocol

import numpy as np

from dynpart.arrays import is_tensor
from dynpart.engines import CodeSummary, Experts, ResponsibilitySums
from dynpart.learning._batch import Memory, learn, shared
from dynpart.learning._plans import Plan, Step
from dynpart.learning._records import IterationRecord, LearnerState, UnreadRecord
from dynpart.learning._task import Task
from dynpart.prior import ROUGHLY, CodePrior, fit_prior
from dynpart.pursuits import UNTIL_SETTLED, pursue


class RunLog(Protocol):
    """Stores the state of every run of the learner, so that an interrupted fit can continue."""

    def begin(self, start: LearnerState) -> LearnerState:
        """State from which the next run continues: `start`, or that of an earlier process."""

    def note(self, state: LearnerState) -> None:
        """Store the state after an iteration of the current run."""


def run(
    task: Task,
    plan: Plan,
    start: LearnerState,
    steps: list[Step],
    *,
    seed: int,
    journal: RunLog | None,
    report: Callable[[IterationRecord], None] | None = None,
) -> LearnerState:
    """Run all steps, log and report each iteration, and return the final state."""
    state = start if journal is None else journal.begin(start)
    if report is not None:
        for record in state.records()[len(start.history) :]:
            report(record)
    unread = journal is None and report is None
    for state in iterate(task, plan, state, steps, seed=seed, unread=unread):  # noqa: B020
        if journal is not None:
            journal.note(state)
        if report is not None:
            report(state.records()[-1])
    return state


def relearn(
    task: Task, plan: Plan, experts: Experts, min_active: int, *, seed: int
) -> LearnerState:
    """Continue from finished experts with the last part of the plan, which uses all rows.

    Parameters
    ----------
    task : Task
    plan : Plan
    experts : Experts
    min_active : int
        Minimum number of active experts in the search that found them.
    seed : int
    """
    steps = plan.steps(task, min(min_active, task.max_active))
    last = [step for step in steps if not step.search]
    if len(last) == len(steps):  # a plan without a search
        last = steps[-max(1, len(steps) // 3) :]
    return run(task, plan, LearnerState(experts), last, seed=seed, journal=None)


def iterate(
    task: Task,
    plan: Plan,
    state: LearnerState,
    steps: list[Step],
    *,
    seed: int,
    unread: bool = False,
) -> Iterator[LearnerState]:
    """Run the remaining steps after `state`, yielding the state after each.

    The random generator of iteration t is seeded by (`seed`, t) alone, so an interrupted run
    continues exactly as if it had not stopped. If records may stay `unread`, their numbers are not
    copied from a GPU before an iteration over all rows.
    """
    rows = None
    while (t := _next_step(state, steps, task.tol)) is not None:
        prior = None
        if task.learns_prior and not steps[t].search:
            if rows is None:
                rows = task.draw(np.random.default_rng(seed), task.n_compared, replace=False)
            prior = current_prior(task, state.experts, rows)
        rng = np.random.default_rng((seed, t))
        state = _iteration(task, plan, state, steps[t], rng, prior)
        if not (unread and is_tensor(state.experts.eta) and steps[t].n_rows is not None):
            state = state.read()
        yield state


def current_prior(task: Task, experts: Experts, rows: Any) -> CodePrior:
    """The prior of the codes that maximise the likelihood of some rows under these experts."""
    codes = pursue(task.engine, rows, experts, task.rule(n_swaps=UNTIL_SETTLED))
    return prior_of(codes, experts.n_experts, ROUGHLY)


def prior_of(codes: Any, n_experts: int, most_types: int) -> CodePrior:
    """The prior fitted to codes held by an engine."""
    return fit_prior(codes.active(n_experts), codes.weight, most_types)


def _iteration(
    task: Task,
    plan: Plan,
    state: LearnerState,
    step: Step,
    rng: np.random.Generator,
    prior: CodePrior | None,
) -> LearnerState:
    """Process the rows of one step."""
    n_rows = task.moments.weight if step.n_rows is None else step.n_rows * step.n_batches
    memory = Memory(evidence=step.memory, kept=step.memory)
    batches = _batches(task, step, rng)
    return learn_once(task, plan, state, step, batches, n_rows, memory, prior=prior)[0]


def learn_once(
    task: Task,
    plan: Plan,
    state: LearnerState,
    step: Step,
    batches: Iterable[Any],
    n_rows: float,
    memory: Memory,
    sums: ResponsibilitySums | None = None,
    prior: CodePrior | None = None,
) -> tuple[LearnerState, ResponsibilitySums, CodeSummary]:
    """One iteration of a fit, or one batch of a stream.

    Parameters
    ----------
    task : Task
    plan : Plan
    state : LearnerState
    step : Step
    batches : iterable of object
        Rows held by the engine.
    n_rows : float
        Total weight of the rows of all batches.
    memory : Memory
    sums : ResponsibilitySums, default=None
        Sums before the first batch.
    prior : CodePrior, default=None
        Under which codes are chosen; the `min_active` of the step then does not apply.

    Returns
    -------
    state : LearnerState
        With one more record, possibly unread.
    sums : ResponsibilitySums
        Those of the opinions.
    codes : CodeSummary
        Of all batches.
    """
    before = state.experts
    after, sums, codes = learn(task, plan, step, before, batches, n_rows, memory, sums, prior)
    shrinkage = 0.0
    if step.shrink and not task.newton:
        after, shrinkage = _shrunk(task, plan, after, sums)
    record = UnreadRecord(
        iteration=len(state.history),
        step=step,
        before=before,
        after=after,
        codes=codes,
        moments=task.moments,
        epsilon=plan.epsilon,
        shrinkage=shrinkage,
    )
    return LearnerState(after, (*state.history, record)), sums, codes


def _shrunk(
    task: Task, plan: Plan, experts: Experts, sums: ResponsibilitySums
) -> tuple[Experts, float]:
    """Opinions from these sums, shrunk, and the extra shrinkage that was chosen."""
    heard = shared(task, plan, sums, task.population)
    own, others = (sums.weight, sums.statistics), (heard.weight, heard.statistics)
    family = experts.family.settled(*own)
    eta, amount = family.shrunk(experts.eta, *own, *others, task.population, plan.epsilon)
    return replace(experts, family=family, eta=eta), amount


def _next_step(state: LearnerState, steps: list[Step], tol: float) -> int | None:
    """Index of the next step; once opinions have settled, only the last one if it shrinks."""
    done, last = len(state.history), state.history[-1] if state.history else None
    if done == len(steps) or (last is not None and last.step.shrink):
        return None
    if isinstance(last, IterationRecord) and _settled(last, tol):
        return len(steps) - 1 if steps[-1].shrink else None
    return done


def _settled(record: IterationRecord, tol: float) -> bool:
    """Whether an iteration over all rows after the search changed opinions less than `tol`."""
    step = record.step
    return not step.search and step.n_rows is None and record.opinion_change < tol


def _batches(task: Task, step: Step, rng: np.random.Generator) -> Iterator[Any]:
    if step.n_rows is None:
        yield task.rows
        return
    for _ in range(step.n_batches):
        yield task.draw(rng, step.n_rows, replace=True)
