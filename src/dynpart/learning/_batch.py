"""The update by a batch of rows: codes, then expertise, then opinions; for fits and streams."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from dynpart.amplitudes import Amplitude
from dynpart.arrays import as_float64, namespace
from dynpart.engines import CodeSummary, Experts, Fold, GradientSums, ResponsibilitySums
from dynpart.learning._newton import as_average, newton_opinions
from dynpart.learning._plans import Plan, Step
from dynpart.learning._task import Task
from dynpart.prior import CodePrior
from dynpart.pursuits import pursue

Array = NDArray[np.float64]
Sums = TypeVar("Sums", GradientSums, ResponsibilitySums)

SHARPEST = 40.0
"""Bound on log2 expertise up to which all engines compute responsibilities in single precision."""


@dataclass(frozen=True)
class Memory:
    """Weights of earlier batches in the update by a batch.

    By default only the batch itself counts.

    Attributes
    ----------
    evidence : float
        Weight of earlier evidence for expertise.
    kept, own : float
        Weights of the previous responsibility sums and of the batch's own in the new sums.
    worth : float
        Rows that one row in the sums stands for in the update of opinions: 1, or the number of
        rows if sums are kept as averages.
    """

    evidence: float = 0.0
    kept: float = 0.0
    own: float = 1.0
    worth: float = 1.0


def learn(
    task: Task,
    plan: Plan,
    step: Step,
    before: Experts,
    batches: Iterable[Any],
    n_rows: float,
    memory: Memory,
    sums: ResponsibilitySums | None = None,
    prior: CodePrior | None = None,
) -> tuple[Experts, ResponsibilitySums, CodeSummary]:
    """Update experts by batches of rows, each with its own codes and update.

    Parameters
    ----------
    task : Task
    plan : Plan
    step : Step
    before : Experts
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
    experts : Experts
    sums : ResponsibilitySums
        Those of the opinions.
    codes : CodeSummary
        Of all batches.
    """
    xp = namespace(before.eta)
    nothing = xp.zeros_like(before.log2_expertise)
    no_evidence = xp.stack([nothing] * 2)
    known_sums = xp.stack([nothing] * (1 + len(before.eta))) if sums is None else sums.array
    known: tuple[Any, ...] = (
        before.eta,
        before.log2_expertise,
        no_evidence,
        known_sums,
        nothing[:, 0],
        nothing[0, 0],
    )
    fold = _batch_learner(task, plan, step, before, memory, prior)
    for rows in batches:
        known = fold(rows, *known)
    eta, log2_expertise, _, array, usage, log_likelihood = known
    experts = Experts(before.family, eta, log2_expertise, step.log2_bound, _amplitude(task, step))
    return experts, ResponsibilitySums(array), CodeSummary(n_rows, usage, log_likelihood)


def _batch_learner(
    task: Task, plan: Plan, step: Step, before: Experts, memory: Memory, prior: CodePrior | None
) -> Fold:
    """The function that updates experts by a batch of rows.

    It takes and returns opinions and levels of expertise, the evidence and the sums that are
    remembered, and the usage and log-likelihood of all batches so far.
    """
    engine, neighbours = task.engine, task.neighbours
    family, population = before.family, task.population
    least = step.min_active if prior is None else 1
    rule = task.rule(
        least, price=step.price, smoothed=step.smoothed, n_starts=step.n_starts,
        n_swaps=step.n_swaps,
    )  # fmt: skip
    rule = replace(rule, prior=prior)
    bound, amplitude = max(before.log2_bound, step.log2_bound), _amplitude(task, step)

    def learn_batch(
        rows: Any,
        eta: Array,
        log2_expertise: Array,
        evidence_before: Array,
        sums_before: Array,
        usage: Array,
        log_likelihood: float,
    ) -> tuple[Any, ...]:
        experts = Experts(family, eta, log2_expertise, bound, amplitude)
        codes = pursue(engine, rows, experts, rule)
        summary = codes.summary(experts.n_experts)
        remembered = GradientSums(evidence_before).weighted(memory.evidence)
        evidence = engine.gradient_sums(rows, experts, codes) + remembered
        heard = evidence if neighbours is None else neighbours.evidence(evidence)
        experts = update_expertise(experts, heard, plan, step, summary.n_rows)
        sums = _told(task, rows, sharpened(experts, step.sharpness), codes)
        sums = _times(memory.own, sums) + ResponsibilitySums(sums_before).weighted(memory.kept)
        told = shared(task, plan, _times(memory.worth, sums), population)
        if task.newton:
            experts = newton_opinions(experts, told, population, plan.epsilon)
        else:
            experts = update_opinions(experts, told, plan, population)
        return (
            experts.eta,
            experts.log2_expertise,
            evidence.array,
            sums.array,
            usage + summary.usage,
            log_likelihood + summary.log_likelihood,
        )

    if step.n_rows is None or step.n_batches == 1 or neighbours is not None or task.newton:
        return learn_batch
    return engine.repeated(
        learn_batch, step.n_rows, replace(before, log2_bound=bound, amplitude=amplitude), rule
    )


def _amplitude(task: Task, step: Step) -> Amplitude | None:
    """Amplitudes of the step: none in the search, the task's in the refinement."""
    return None if step.search else task.amplitude


def _told(task: Task, rows: Any, experts: Experts, codes: Any) -> ResponsibilitySums:
    """Sums of rows for opinions: the averages of eq. 5 and 6, or the targets of Newton's steps."""
    if task.newton:
        return as_average(task.engine.opinion_sums(rows, experts, codes), experts.eta)
    return task.engine.responsibility_sums(rows, experts, codes)


def _times(weight: float, sums: Sums) -> Sums:
    return sums if weight == 1 else sums.weighted(weight)


def shared(
    task: Task, plan: Plan, sums: ResponsibilitySums, population: Array
) -> ResponsibilitySums:
    """The sums with those of neighbouring variables, if there is a graph.

    They are unchanged in Newton's method, whose weights are curvatures, not numbers of rows.
    """
    if task.neighbours is None or task.newton:
        return sums
    return task.neighbours.opinions(sums, population, plan.epsilon)


def update_opinions(
    experts: Experts, sums: ResponsibilitySums, plan: Plan, population: Array
) -> Experts:
    """Eq. 5 and 6: opinions are averages, shrunk towards the population."""
    eta = experts.family.update(sums.weight, sums.statistics, population, plan.epsilon)
    return replace(experts, eta=eta)


def update_expertise(
    experts: Experts, evidence: GradientSums, plan: Plan, step: Step, n_rows: float
) -> Experts:
    """Section 2.2.3: expertise changes in the direction of the gradient of the likelihood."""
    change = plan.expertise_change(evidence, n_rows)
    moved = experts.log2_expertise + (change if step.size == 1 else step.size * change)
    bound = step.log2_bound
    return replace(experts, log2_expertise=within_bound(moved, bound), log2_bound=bound)


def within_bound(log2_expertise: Array, bound: float) -> Array:
    """Shrink each variable's levels by a common factor until the largest is within the bound.

    Clipping would create ties, and an early order of experts could never change.
    """
    if not math.isfinite(bound):
        return log2_expertise
    xp = namespace(log2_expertise)
    largest = xp.amax(xp.abs(log2_expertise), axis=0)
    return log2_expertise * (bound / xp.clip(largest, bound, None))


def sharpened(experts: Experts, power: float) -> Experts:
    """The same experts with their expertise raised to a power, within the bound of the engines."""
    if power == 1:
        return experts
    levels = within_bound(power * experts.log2_expertise, SHARPEST)
    return replace(experts, log2_expertise=levels, log2_bound=SHARPEST)


def break_ties(experts: Experts) -> Experts:
    """Among equal levels of expertise, rank the expert with the lower variance first."""
    xp = namespace(experts.eta)
    variance = experts.family.variance(experts.eta)
    place = xp.argsort(xp.argsort(variance, axis=0, stable=True), axis=0)
    nudge = 1e-6 / experts.n_experts * as_float64(place)
    return replace(experts, log2_expertise=experts.log2_expertise - nudge)
