"""The learner: asks an engine for sums, updates experts, logs the objective. It sees no row."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import reduce
from operator import add
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from dynpart.arrays import as_float64, namespace
from dynpart.engines import Engine, Experts, GradientSums, PursuitRule, ResponsibilitySums
from dynpart.families import ColumnMoments
from dynpart.learning._connectivity import Neighbours
from dynpart.learning._objective import joint_objective, penalised_objective
from dynpart.learning._plans import TINY, Plan, Step

Array = NDArray[np.float64]


@dataclass(frozen=True)
class IterationRecord:
    """What one iteration of learning did.

    Attributes
    ----------
    iteration : int
    n_rows : int
        Rows this iteration looked at.
    joint, penalised : float
        Mean log P(x, h), and mean log P(x | h) with the epsilon prior of the experts the
        iteration began with, in nats per row, of the codes it found.
    mean_active : float
    opinion_change, expertise_change : float
        Mean absolute change of the experts' means, in standard deviations of the data, and of
        log2 expertise.
    step : Step
        What the plan asked for.
    """

    iteration: int
    n_rows: int
    joint: float
    penalised: float
    mean_active: float
    opinion_change: float
    expertise_change: float
    step: Step


@dataclass(frozen=True, eq=False)
class LearnerState:
    """Where a run of the learner stands: all it takes to go on from here, to the last bit.

    Attributes
    ----------
    experts : Experts
    history : tuple of IterationRecord
        One record per finished iteration.
    """

    experts: Experts
    history: tuple[IterationRecord, ...] = ()


@dataclass(frozen=True, eq=False)
class Task:
    """What is learnt from: rows in an engine's hands, what is known of them, and the limits.

    Attributes
    ----------
    engine : Engine
    rows : object
        The data, as the engine holds it.
    moments : ColumnMoments
        Means and variances of the same data.
    min_active, max_active : int
        Limits on active experts per row, on top of the plan's own floor.
    neighbours : Neighbours or None
        Lets evidence and opinions flow between neighbouring variables.
    tol : float
        Opinions that move less than this, in standard deviations of the data, have settled.
    """

    engine: Engine
    rows: Any
    moments: ColumnMoments
    min_active: int
    max_active: int
    neighbours: Neighbours | None = None
    tol: float = 0.0


class Journal(Protocol):
    """Remembers where every run of the learner stands, so that a fit can go on another day."""

    def begin(self, start: LearnerState) -> LearnerState:
        """Where the next run stands: `start`, unless an earlier process came further."""

    def note(self, state: LearnerState) -> None:
        """Take note of the state after an iteration of the current run."""


class NoJournal:
    """Remembers nothing."""

    def begin(self, start: LearnerState) -> LearnerState:
        """Begin where the run begins."""
        return start

    def note(self, state: LearnerState) -> None:
        """Forget it."""


def run(
    task: Task,
    plan: Plan,
    start: LearnerState,
    steps: list[Step],
    *,
    seed: int,
    journal: Journal,
    report: Callable[[IterationRecord], None] | None = None,
) -> LearnerState:
    """Go through all steps, noting and reporting each iteration; return where that ends."""
    state = journal.begin(start)
    if report is not None:
        for record in state.history[len(start.history) :]:
            report(record)
    for state in iterate(task, plan, state, steps, seed=seed):  # noqa: B020
        journal.note(state)
        if report is not None:
            report(state.history[-1])
    return state


def iterate(
    task: Task, plan: Plan, state: LearnerState, steps: list[Step], *, seed: int
) -> Iterator[LearnerState]:
    """Go through the steps that `state` has not seen yet, yielding the state after each.

    Iteration t draws its rows from a generator seeded by (`seed`, t) alone, so a run that was
    stopped goes on exactly as if it had not been.
    """
    for t in range(len(state.history), len(steps)):
        if state.history and _settled(state.history[-1], task.tol):
            return
        state = _iteration(task, plan, state, steps[t], np.random.default_rng((seed, t)))
        yield state


def _iteration(
    task: Task, plan: Plan, state: LearnerState, step: Step, rng: np.random.Generator
) -> LearnerState:
    engine, moments, neighbours = task.engine, task.moments, task.neighbours
    experts = state.experts
    population = experts.family.population(moments)
    summaries = []
    earlier_evidence: GradientSums | None = None
    earlier_sums: ResponsibilitySums | None = None
    for rows in _batches(task, step, rng):
        codes = engine.pursue(rows, experts, _rule(task, step, experts.n_experts))
        summary = codes.summary(experts.n_experts)
        summaries.append(summary)
        for _ in range(step.n_updates):
            evidence = engine.gradient_sums(rows, experts, codes)
            if earlier_evidence is not None:
                evidence = earlier_evidence + evidence
            heard = evidence if neighbours is None else neighbours.evidence(evidence)
            experts = update_expertise(experts, heard, plan, step, summary.n_rows)
            sums = engine.responsibility_sums(rows, experts, codes)
            if earlier_sums is not None:
                sums = earlier_sums + sums
            shared = (
                sums if neighbours is None else neighbours.opinions(sums, population, plan.epsilon)
            )
            eta = experts.family.update(shared.weight, shared.statistics, population, plan.epsilon)
            experts = replace(experts, eta=eta)
        if step.memory > 0:
            earlier_evidence = evidence.weighted(step.memory)
            earlier_sums = sums.weighted(step.memory)
    total = reduce(add, summaries)
    before = state.experts
    opinions = abs(experts.family.mean(experts.eta) - before.family.mean(before.eta)).mean()
    scale = math.sqrt(moments.variance.mean()) or 1.0
    record = IterationRecord(
        iteration=len(state.history),
        n_rows=total.n_rows,
        joint=float(joint_objective(total)),
        penalised=float(
            penalised_objective(total, before, population, plan.epsilon, moments.n_rows)
        ),
        mean_active=float(total.usage.sum() / total.n_rows),
        opinion_change=float(opinions / scale),
        expertise_change=float(abs(experts.log2_expertise - before.log2_expertise).mean()),
        step=step,
    )
    return LearnerState(experts, (*state.history, record))


def _settled(record: IterationRecord, tol: float) -> bool:
    """Whether all rows were looked at, after the search, and nothing moved."""
    step = record.step
    return not step.search and step.n_rows is None and record.opinion_change < tol


def _batches(task: Task, step: Step, rng: np.random.Generator) -> Iterator[Any]:
    if step.n_rows is None:
        yield task.rows
        return
    for _ in range(step.n_batches):
        drawn = rng.integers(task.moments.n_rows, size=step.n_rows)
        yield task.engine.take(task.rows, np.sort(drawn))


def _rule(task: Task, step: Step, n_experts: int) -> PursuitRule:
    floor = min(task.max_active, max(task.min_active, step.min_active))
    return PursuitRule(floor, task.max_active, np.zeros(n_experts), smoothed=step.smoothed)


def update_expertise(
    experts: Experts, evidence: GradientSums, plan: Plan, step: Step, n_rows: int
) -> Experts:
    """Section 2.2.3: more expertise where the likelihood wants it, less where it does not."""
    moved = experts.log2_expertise + step.size * plan.expertise_change(evidence, n_rows)
    bound = step.log2_bound
    return replace(experts, log2_expertise=within_bound(moved, bound), log2_bound=bound)


def within_bound(log2_expertise: Array, bound: float) -> Array:
    """Shrink each variable's levels as a whole until the largest is within the bound.

    Cutting them off instead would make ties, and an early order could never be overturned.
    """
    xp = namespace(log2_expertise)
    largest = xp.clip(xp.amax(xp.abs(log2_expertise), axis=0), TINY, None)
    return log2_expertise * xp.clip(bound / largest, None, 1.0)


def break_ties(experts: Experts) -> Experts:
    """Among equal levels of expertise let the more confident expert, of lower variance, win."""
    xp = namespace(experts.eta)
    variance = experts.family.variance(experts.eta)
    place = xp.argsort(xp.argsort(variance, axis=0, stable=True), axis=0)
    nudge = 1e-6 / experts.n_experts * as_float64(place)
    return replace(experts, log2_expertise=experts.log2_expertise - nudge)
