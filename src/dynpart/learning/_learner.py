"""The learner: asks an engine for sums, updates experts, logs the objective. It sees no row."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dynpart.engines import Codes, Engine, Experts, PursuitRule
from dynpart.families import ColumnMoments, Family
from dynpart.learning._objective import joint_objective, penalised_objective
from dynpart.learning._plans import Plan, Step

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
        Mean log P(x, h), and mean log P(x | h) with the epsilon prior, in nats per row, of the
        codes found with the experts the iteration began with.
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
class Fit:
    """A finished run of the learner."""

    experts: Experts
    history: tuple[IterationRecord, ...]


def learn(
    engine: Engine,
    rows: Any,
    moments: ColumnMoments,
    start: Experts,
    plan: Plan,
    *,
    n_iter: int,
    min_active: int = 1,
    max_active: int | None = None,
    rng: np.random.RandomState,
    report: Callable[[IterationRecord], None] | None = None,
) -> Fit:
    """Learn experts from rows by following a plan.

    Parameters
    ----------
    engine : Engine
    rows : object
        The data, as the engine holds it.
    moments : ColumnMoments
        Means and variances of the same data.
    start : Experts
    plan : Plan
    n_iter : int
    min_active, max_active : int
        Limits on active experts per row, on top of the plan's own floor.
    rng : RandomState
        Draws the rows of each iteration.
    report : callable, optional
        Called with each finished iteration's record.

    Returns
    -------
    Fit
    """
    experts = start
    population = start.family.population(moments)
    most = start.n_experts if max_active is None else max_active
    history = []
    for t, step in enumerate(plan.steps(n_iter, moments.n_rows, start.n_experts, most)):
        batch = rows
        if step.n_rows is not None:
            drawn = rng.randint(moments.n_rows, size=step.n_rows)
            batch = engine.take(rows, np.sort(drawn))
        floor = min(most, max(min_active, step.min_active))
        rule = PursuitRule(floor, most, np.zeros(start.n_experts), smoothed=step.smoothed)
        codes = engine.pursue(batch, experts, rule)
        summary = codes.summary(start.n_experts)
        before = experts
        for _ in range(step.n_updates):
            experts = update_expertise(engine, batch, experts, codes, plan, step, summary.n_rows)
            experts = update_experts(engine, batch, experts, codes, population, plan.epsilon)
        record = IterationRecord(
            t,
            summary.n_rows,
            joint_objective(summary),
            penalised_objective(summary, before, population, plan.epsilon, moments.n_rows),
            float(summary.usage.sum() / summary.n_rows),
            *_changes(before, experts, moments),
            step,
        )
        history.append(record)
        if report is not None:
            report(record)
    return Fit(break_ties(experts), tuple(history))


def update_expertise(
    engine: Engine, rows: Any, experts: Experts, codes: Codes, plan: Plan, step: Step, n_rows: int
) -> Experts:
    """Section 2.2.3: more expertise where the likelihood wants it, less where it does not."""
    evidence = engine.gradient_sums(rows, experts, codes)
    moved = experts.log2_expertise + plan.expertise_change(evidence, n_rows)
    return replace(experts, log2_expertise=np.clip(moved, -step.log2_bound, step.log2_bound))


def update_experts(
    engine: Engine, rows: Any, experts: Experts, codes: Codes, population: Array, epsilon: float
) -> Experts:
    """Section 2.2.2: responsibility-weighted averages (eq. 5 and 6)."""
    sums = engine.responsibility_sums(rows, experts, codes)
    eta = experts.family.update(sums.weight, sums.statistics, population, epsilon)
    return replace(experts, eta=eta)


def break_ties(experts: Experts) -> Experts:
    """Among equal levels of expertise let the more confident expert, of lower variance, win."""
    variance = experts.family.variance(experts.eta)
    place = variance.argsort(axis=0, kind="stable").argsort(axis=0)
    nudge = 1e-6 * place / experts.n_experts
    return replace(experts, log2_expertise=experts.log2_expertise - nudge)


def _changes(before: Experts, after: Experts, moments: ColumnMoments) -> tuple[float, float]:
    family: Family = after.family
    scale = float(np.sqrt(moments.variance.mean())) or 1.0
    opinion = np.abs(family.mean(after.eta) - family.mean(before.eta)).mean() / scale
    expertise = np.abs(after.log2_expertise - before.log2_expertise).mean()
    return float(opinion), float(expertise)
