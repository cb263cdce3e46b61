"""The learner: asks an engine for sums, updates experts, logs the objective. It sees no row."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from dynpart.arrays import as_float64, is_tensor, namespace, to_numpy
from dynpart.engines import (
    CodeSummary,
    Engine,
    Experts,
    Fold,
    GradientSums,
    PursuitRule,
    ResponsibilitySums,
)
from dynpart.families import ColumnMoments, Family
from dynpart.learning._connectivity import Neighbours
from dynpart.learning._objective import joint_objective, penalised_objective
from dynpart.learning._plans import Plan, Step

Array = NDArray[np.float64]

SHARPEST = 40.0
"""Bound on log2 expertise up to which all engines share out rows in single precision."""


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
    doubt : float
        How much of their certainty opinions gave up in the end; see `Family.doubted`.
    """

    iteration: int
    n_rows: int
    joint: float
    penalised: float
    mean_active: float
    opinion_change: float
    expertise_change: float
    step: Step
    doubt: float = 0.0


@dataclass(frozen=True, eq=False)
class UnreadRecord:
    """What the numbers of a record are computed from, on a GPU that has not come so far yet.

    Attributes
    ----------
    iteration : int
    step : Step
    before, after : Experts
    codes : CodeSummary
        Of all batches.
    moments : ColumnMoments
    epsilon, doubt : float
    """

    iteration: int
    step: Step
    before: Experts
    after: Experts
    codes: CodeSummary
    moments: ColumnMoments
    epsilon: float
    doubt: float

    def measures(self) -> list[Any]:
        """Numbers of the record, from `joint` to `expertise_change`, where they are computed."""
        before, after, codes, moments = self.before, self.after, self.codes, self.moments
        xp, family = namespace(after.eta), before.family
        population = family.population(moments)
        moved = abs(family.mean(after.eta) - family.mean(before.eta)).mean()
        scale = xp.sqrt(moments.variance.mean())
        return [
            joint_objective(codes),
            penalised_objective(codes, before, population, self.epsilon, moments.n_rows),
            codes.usage.sum() / codes.n_rows,
            moved / xp.where(scale > 0, scale, 1.0),
            abs(after.log2_expertise - before.log2_expertise).mean(),
        ]

    def record(self, measures: list[float]) -> IterationRecord:
        """The record with these numbers."""
        joint, penalised, mean_active, opinion_change, expertise_change = measures
        return IterationRecord(
            self.iteration,
            self.codes.n_rows,
            joint,
            penalised,
            mean_active,
            opinion_change,
            expertise_change,
            self.step,
            self.doubt,
        )


@dataclass(frozen=True, eq=False)
class LearnerState:
    """Where a run of the learner stands: all it takes to go on from here, to the last bit.

    Attributes
    ----------
    experts : Experts
    history : tuple of IterationRecord or UnreadRecord
        One record per finished iteration.
    """

    experts: Experts
    history: tuple[IterationRecord | UnreadRecord, ...] = ()

    def records(self) -> tuple[IterationRecord, ...]:
        """The history with all its numbers: waits for a GPU, once for all of them."""
        unread = [record for record in self.history if isinstance(record, UnreadRecord)]
        measures = [number for record in unread for number in record.measures()]
        if measures and is_tensor(measures[0]):
            measures = to_numpy(namespace(measures[0]).stack(measures)).tolist()
        numbers = iter(measures)
        return tuple(
            record
            if isinstance(record, IterationRecord)
            else record.record([float(next(numbers)) for _ in range(N_MEASURES)])
            for record in self.history
        )

    def read(self) -> LearnerState:
        """The same with a history that is read."""
        return replace(self, history=self.records())


N_MEASURES = 5


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


def run(
    task: Task,
    plan: Plan,
    start: LearnerState,
    steps: list[Step],
    *,
    seed: int,
    journal: Journal | None,
    report: Callable[[IterationRecord], None] | None = None,
) -> LearnerState:
    """Go through all steps, noting and reporting each iteration; return where that ends."""
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


def iterate(
    task: Task,
    plan: Plan,
    state: LearnerState,
    steps: list[Step],
    *,
    seed: int,
    unread: bool = False,
) -> Iterator[LearnerState]:
    """Go through the steps that `state` has not seen yet, yielding the state after each.

    Iteration t draws its rows from a generator seeded by (`seed`, t) alone, so a run that was
    stopped goes on exactly as if it had not been. If records may stay `unread`, a GPU is not asked
    for their numbers before it has gone through all rows.
    """
    while (t := _next_step(state, steps, task.tol)) is not None:
        state = _iteration(task, plan, state, steps[t], np.random.default_rng((seed, t)))
        if not (unread and is_tensor(state.experts.eta) and steps[t].n_rows is not None):
            state = state.read()
        yield state


def _iteration(
    task: Task, plan: Plan, state: LearnerState, step: Step, rng: np.random.Generator
) -> LearnerState:
    moments, before = task.moments, state.experts
    xp = namespace(before.eta)
    learn = _batch_learner(task, plan, step, before)
    nothing = xp.zeros_like(before.log2_expertise)
    no_evidence, no_sums = xp.stack([nothing] * 2), xp.stack([nothing] * (1 + len(before.eta)))
    no_use, no_likelihood = nothing[:, 0], nothing[0, 0]
    known: tuple = (before.eta, before.log2_expertise, no_evidence, no_sums, no_use, no_likelihood)
    for rows in _batches(task, step, rng):
        known = learn(rows, *known)
    eta, log2_expertise, _, sums, usage, log_likelihood = known
    doubt = 0.0
    if step.doubt:
        eta, doubt = _doubted(task, plan, before.family, eta, ResponsibilitySums(sums))
    after = Experts(before.family, eta, log2_expertise, step.log2_bound)
    n_rows = moments.n_rows if step.n_rows is None else step.n_rows * step.n_batches
    record = UnreadRecord(
        iteration=len(state.history),
        step=step,
        before=before,
        after=after,
        codes=CodeSummary(n_rows, usage, log_likelihood),
        moments=moments,
        epsilon=plan.epsilon,
        doubt=doubt,
    )
    return LearnerState(after, (*state.history, record))


def _doubted(
    task: Task, plan: Plan, family: Family, eta: Array, sums: ResponsibilitySums
) -> tuple[Array, float]:
    """Opinions that are averages of these sums, without undue certainty, and what that took."""
    heard = sums.weight + plan.epsilon
    if task.neighbours is not None:
        heard = heard + task.neighbours.n_rows
    population = family.population(task.moments)
    return family.doubted(eta, heard, sums.weight, sums.statistics, population)


def _batch_learner(task: Task, plan: Plan, step: Step, before: Experts) -> Fold:
    """What a batch of rows teaches: codes, then expertise, then opinions.

    The function takes and returns opinions and levels of expertise, the evidence and the sums with
    those the batch remembers, and the usage and log-likelihood of all batches so far.
    """
    engine, neighbours = task.engine, task.neighbours
    family = before.family
    population = family.population(task.moments)
    rule = _rule(task, step, before.n_experts)
    bound = max(before.log2_bound, step.log2_bound)

    def learn(
        rows: Any,
        eta: Array,
        log2_expertise: Array,
        evidence_before: Array,
        sums_before: Array,
        usage: Array,
        log_likelihood: float,
    ) -> tuple[Any, ...]:
        experts = Experts(family, eta, log2_expertise, bound)
        codes = engine.pursue(rows, experts, rule)
        summary = codes.summary(experts.n_experts)
        remembered = GradientSums(evidence_before).weighted(step.memory)
        evidence = engine.gradient_sums(rows, experts, codes) + remembered
        heard = evidence if neighbours is None else neighbours.evidence(evidence)
        experts = update_expertise(experts, heard, plan, step, summary.n_rows)
        sums = engine.responsibility_sums(rows, sharpened(experts, step.sharpness), codes)
        sums = sums + ResponsibilitySums(sums_before).weighted(step.memory)
        shared = sums if neighbours is None else neighbours.opinions(sums, population, plan.epsilon)
        opinions = family.update(shared.weight, shared.statistics, population, plan.epsilon)
        experts = replace(experts, eta=opinions)
        return (
            experts.eta,
            experts.log2_expertise,
            evidence.array,
            sums.array,
            usage + summary.usage,
            log_likelihood + summary.log_likelihood,
        )

    if step.n_rows is None or step.n_batches == 1 or neighbours is not None:
        return learn
    return engine.repeated(learn, step.n_rows, replace(before, log2_bound=bound), rule)


def _next_step(state: LearnerState, steps: list[Step], tol: float) -> int | None:
    """Which step comes next: of those after opinions have settled only the last, if it doubts."""
    done, last = len(state.history), state.history[-1] if state.history else None
    if done == len(steps) or (last is not None and last.step.doubt):
        return None
    if isinstance(last, IterationRecord) and _settled(last, tol):
        return len(steps) - 1 if steps[-1].doubt else None
    return done


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
    return PursuitRule(
        floor,
        task.max_active,
        np.zeros(n_experts),
        smoothed=step.smoothed,
        n_starts=step.n_starts,
        n_swaps=step.n_swaps,
    )


def update_expertise(
    experts: Experts, evidence: GradientSums, plan: Plan, step: Step, n_rows: int
) -> Experts:
    """Section 2.2.3: more expertise where the likelihood wants it, less where it does not."""
    change = plan.expertise_change(evidence, n_rows)
    moved = experts.log2_expertise + (change if step.size == 1 else step.size * change)
    bound = step.log2_bound
    return replace(experts, log2_expertise=within_bound(moved, bound), log2_bound=bound)


def within_bound(log2_expertise: Array, bound: float) -> Array:
    """Shrink each variable's levels as a whole until the largest is within the bound.

    Cutting them off instead would make ties, and an early order could never be overturned.
    """
    if not math.isfinite(bound):
        return log2_expertise
    xp = namespace(log2_expertise)
    largest = xp.amax(xp.abs(log2_expertise), axis=0)
    return log2_expertise * (bound / xp.clip(largest, bound, None))


def sharpened(experts: Experts, power: float) -> Experts:
    """The same experts with their expertise raised to a power, as far as engines like it."""
    if power == 1:
        return experts
    levels = within_bound(power * experts.log2_expertise, SHARPEST)
    return replace(experts, log2_expertise=levels, log2_bound=SHARPEST)


def break_ties(experts: Experts) -> Experts:
    """Among equal levels of expertise let the more confident expert, of lower variance, win."""
    xp = namespace(experts.eta)
    variance = experts.family.variance(experts.eta)
    place = xp.argsort(xp.argsort(variance, axis=0, stable=True), axis=0)
    nudge = 1e-6 / experts.n_experts * as_float64(place)
    return replace(experts, log2_expertise=experts.log2_expertise - nudge)
